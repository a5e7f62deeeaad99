#include "engine/turns.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static const pl_request_t *request_of(const pl_turns_t *turns, int32_t i)
{
    return turns->source.request(turns->source.context, i);
}

static bool is_skipped(const pl_turns_t *turns, int32_t i)
{
    return turns->skip[i] != 0;
}

/* ---- a heap of those whose time is known ---- */

static bool is_before(const pl_turn_t *a, const pl_turn_t *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->request < b->request;
}

static void swap(pl_turn_t *a, pl_turn_t *b)
{
    pl_turn_t kept = *a;

    *a = *b;
    *b = kept;
}

pl_status_t pl_turns_push(pl_turns_t *turns, pl_turn_t turn)
{
    size_t i = turns->ready.n;

    PL_TRY(PL_ARRAY_PUSH(&turns->ready, turn));
    for (; i > 0; i = (i - 1) / 2) {
        pl_turn_t *above = &turns->ready.items[(i - 1) / 2];

        if (!is_before(&turns->ready.items[i], above)) {
            break;
        }
        swap(&turns->ready.items[i], above);
    }
    return PL_OK;
}

static void pop(pl_turns_t *turns)
{
    pl_turn_t *items = turns->ready.items;
    size_t n         = --turns->ready.n;
    size_t i         = 0;

    items[0] = items[n];
    for (;;) {
        size_t least = i;

        for (size_t child = 2 * i + 1; (child <= 2 * i + 2) && (child < n);
             child++) {
            least = is_before(&items[child], &items[least]) ? child : least;
        }
        if (least == i) {
            return;
        }
        swap(&items[i], &items[least]);
        i = least;
    }
}

/* ---- who waits for whom ---- */

/* The next from i on that arrives by its own time; the count: none. */
static int32_t next_by_time(const pl_turns_t *turns, int32_t i)
{
    while ((i < turns->source.count) &&
           (is_skipped(turns, i) || (request_of(turns, i)->n_after > 0))) {
        i++;
    }
    return i;
}

/* For each request, those behind it, ascending. */
static pl_status_t list_behind(pl_turns_t *turns)
{
    int32_t count = turns->source.count;
    int32_t sum   = 0;

    for (int32_t i = 0; i < count; i++) {
        const pl_request_t *request = request_of(turns, i);

        for (int32_t k = 0; k < request->n_after; k++) {
            if ((request->after[k] < 0) || (request->after[k] >= i)) {
                return PL_ERR_ARGUMENT;
            }
            turns->first[request->after[k] + 1]++;
        }
    }
    for (int32_t i = 0; i < count; i++) {
        int32_t n = turns->first[i + 1];

        turns->first[i + 1] = sum; /* where its first one goes */
        sum += n;
    }
    turns->behind = malloc(((size_t)sum + 1) * sizeof(*turns->behind));
    if (turns->behind == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < count; i++) {
        const pl_request_t *request = request_of(turns, i);

        for (int32_t k = 0; k < request->n_after; k++) {
            turns->behind[turns->first[request->after[k] + 1]++] = i;
        }
    }
    return PL_OK;
}

/* Those that are skipped have ended before. */
static pl_status_t count_unended(pl_turns_t *turns)
{
    for (int32_t i = 0; i < turns->source.count; i++) {
        const pl_request_t *request = request_of(turns, i);

        for (int32_t k = 0; k < request->n_after; k++) {
            turns->n_unended[i] += !is_skipped(turns, request->after[k]);
        }
        if ((request->n_after > 0) && (turns->n_unended[i] == 0) &&
            !is_skipped(turns, i)) {
            PL_TRY(pl_turns_push(turns, (pl_turn_t){request->arrival_ns, i}));
        }
    }
    return PL_OK;
}

pl_status_t pl_turns_open(const pl_engine_source_t *source, const uint8_t *skip,
                          pl_turns_t *turns)
{
    size_t n = (size_t)source->count;

    turns->source    = *source;
    turns->first     = calloc(n + 1, sizeof(*turns->first));
    turns->n_unended = calloc(n + 1, sizeof(*turns->n_unended));
    turns->skip      = calloc(n + 1, sizeof(*turns->skip));
    if ((turns->first == NULL) || (turns->n_unended == NULL) ||
        (turns->skip == NULL)) {
        return PL_ERR_MEMORY;
    }
    if (skip != NULL) {
        memcpy(turns->skip, skip, n);
    }
    PL_TRY(list_behind(turns));
    turns->next = next_by_time(turns, 0);
    return count_unended(turns);
}

void pl_turns_close(pl_turns_t *turns)
{
    free(turns->first);
    free(turns->behind);
    free(turns->n_unended);
    free(turns->skip);
    PL_ARRAY_FREE(&turns->ready);
}

pl_status_t pl_turns_ended(pl_turns_t *turns, int32_t request, int64_t now_ns,
                           int64_t *soonest_p)
{
    *soonest_p = INT64_MAX;
    for (int32_t k = turns->first[request]; k < turns->first[request + 1];
         k++) {
        int32_t next                = turns->behind[k];
        const pl_request_t *waiting = request_of(turns, next);
        int64_t at_ns               = now_ns + waiting->delay_ns;

        turns->n_unended[next]--;
        if ((turns->n_unended[next] > 0) || is_skipped(turns, next)) {
            continue;
        }
        if (waiting->not_before && (waiting->arrival_ns > at_ns)) {
            at_ns = waiting->arrival_ns;
        }
        PL_TRY(pl_turns_push(turns, (pl_turn_t){at_ns, next}));
        *soonest_p = at_ns < *soonest_p ? at_ns : *soonest_p;
    }
    return PL_OK;
}

/* ---- the first ---- */

pl_turn_t pl_turns_first(const pl_turns_t *turns)
{
    pl_turn_t turn = {INT64_MAX, turns->next};

    if (turns->next < turns->source.count) {
        turn.at_ns = request_of(turns, turns->next)->arrival_ns;
    }
    if ((turns->ready.n > 0) && is_before(&turns->ready.items[0], &turn)) {
        turn = turns->ready.items[0];
    }
    return turn;
}

void pl_turns_pop(pl_turns_t *turns, pl_turn_t first)
{
    if ((turns->ready.n > 0) &&
        (turns->ready.items[0].request == first.request)) {
        pop(turns);
    } else {
        turns->next = next_by_time(turns, first.request + 1);
    }
}

uint64_t pl_turns_state_hash(const pl_turns_t *turns)
{
    uint64_t h = pl_fold64(0, (uint64_t)turns->next);

    for (size_t i = 0; i < turns->ready.n; i++) {
        h = pl_fold64(h, (uint64_t)turns->ready.items[i].at_ns);
        h = pl_fold64(h, (uint64_t)turns->ready.items[i].request);
    }
    return h;
}
