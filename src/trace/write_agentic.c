/* Agentic sessions, one a line.
 *
 * The requests of a session are a list; those that it has started beside itself
 * are lists within it, before the request that waits for their end. */
#include <inttypes.h>
#include <stdlib.h>

#include "trace/writing.h"

enum { S = 9, MS = 6 };
#define AGENTIC_TOKENS 64

/* Numbers of requests without a session. */
#define ALONE (INT64_C(1) << 40)

/* A request of a session. */
typedef struct entry {
    int64_t session; /* those without one: one each, from ALONE */
    int32_t thread, request;
} entry_t;

typedef struct agentic {
    pl_writing_t *writing;
    entry_t *entries; /* [count] by session, thread, and order */
    size_t n;
    bool is_global; /* ids are shared by sessions */
} agentic_t;

static int compare_entries(const void *a, const void *b)
{
    const entry_t *left  = a;
    const entry_t *right = b;

    if (left->session != right->session) {
        return left->session < right->session ? -1 : 1;
    }
    if (left->thread != right->thread) {
        return left->thread < right->thread ? -1 : 1;
    }
    return (left->request > right->request) - (left->request < right->request);
}

static pl_status_t list_entries(agentic_t *a)
{
    pl_writing_t *writing = a->writing;
    int32_t count         = writing->trace->count;

    a->entries = malloc((size_t)count * sizeof(*a->entries));
    a->n       = (size_t)count;
    if (a->entries == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < count; i++) {
        int64_t session = pl_writing_session(writing, i);

        a->entries[i] = (entry_t){session > 0 ? session : ALONE + i,
                                  pl_trace_row(writing->trace, i)->thread, i};
    }
    qsort(a->entries, a->n, sizeof(*a->entries), compare_entries);
    return PL_OK;
}

/* Does any id come in two sessions? */
static pl_status_t find_sharing(agentic_t *a)
{
    pl_id_map_t owners = {0};
    pl_status_t status = PL_OK;

    for (size_t i = 0; (i < a->n) && (status == PL_OK) && !a->is_global; i++) {
        uint64_t session = (uint64_t)a->entries[i].session;

        PL_TRY_GOTO(status, pl_writing_ids(a->writing, a->entries[i].request),
                    out);
        for (size_t k = 0; k < a->writing->list.n; k++) {
            uint64_t id    = a->writing->list.items[k];
            uint64_t owner = session;

            a->is_global |=
                pl_id_map_find(&owners, 0, id, &owner) && (owner != session);
            PL_TRY_GOTO(status, pl_id_map_put(&owners, 0, id, session), out);
        }
    }

out:
    pl_id_map_free(&owners);
    return status;
}

static const pl_request_t *request_of(const agentic_t *a, size_t at)
{
    return &a->writing->trace->requests[a->entries[at].request];
}

/* Does the request at `at` wait for the one at `other`? */
static bool waits_for(const agentic_t *a, size_t at, size_t other)
{
    const pl_request_t *request = request_of(a, at);

    for (int32_t k = 0; k < request->n_after; k++) {
        if (request->after[k] == a->entries[other].request) {
            return true;
        }
    }
    return false;
}

/* One request; its time counts from start_ns.  `n_said` of those it waits for
 * are told by where it stands. */
static pl_status_t write_request(agentic_t *a, size_t at, int64_t start_ns,
                                 int64_t think_ns, int32_t n_said)
{
    pl_writing_t *writing       = a->writing;
    const pl_request_t *request = request_of(a, at);
    FILE *file                  = writing->file;
    int32_t size   = pl_writing_size(writing, a->entries[at].request);
    int32_t n_full = request->input_tokens / size;

    if (request->n_after > n_said) {
        pl_writing_lose(writing, PL_LOSS_SOME_WAITS);
    }
    if ((request->n_after > 0) && request->not_before) {
        pl_writing_lose(writing, PL_LOSS_NOT_BEFORE);
    }
    if (request->input_tokens % size > 0) {
        pl_writing_lose(writing, PL_LOSS_TAILS);
    }
    fprintf(file, "{\"t\": ");
    pl_writing_time(file, request->arrival_ns - start_ns, S);
    fprintf(file,
            ", \"type\": \"n\", \"in\": %" PRId32 ", \"out\": %" PRId32
            ", \"think_time\": ",
            request->input_tokens, request->output_tokens);
    pl_writing_time(file, think_ns, S);
    fprintf(file, ", \"hash_ids\": [");
    PL_TRY(pl_writing_ids(writing, a->entries[at].request));
    for (int32_t k = 0; k < n_full; k++) {
        fprintf(file, "%s%" PRIu64, k == 0 ? "" : ", ", writing->list.items[k]);
    }
    fprintf(file, "]}");
    return PL_OK;
}

static int64_t think_ns(const agentic_t *a, size_t at, int64_t before_ns)
{
    const pl_request_t *request = request_of(a, at);

    return request->not_before ? request->arrival_ns - before_ns
                               : request->delay_ns;
}

/* A list that the session has started beside itself: entries from `first` to
 * before `end`. */
typedef struct beside {
    size_t first, end;
    size_t starter; /* the entry of thread 0 that it waits for; NONE */
    size_t joiner;  /* the one that waits for its end; NONE */
    bool is_written;
} beside_t;

#define NONE ((size_t)-1)

typedef PL_ARRAY(beside_t) besides_t;

/* The entry of a session's thread 0 (from `first` to `middle`) that is the
 * request. */
static size_t main_entry(const agentic_t *a, size_t first, size_t middle,
                         int32_t request)
{
    while (first < middle) { /* they ascend */
        size_t half = first + (middle - first) / 2;

        if (a->entries[half].request == request) {
            return half;
        }
        if (a->entries[half].request < request) {
            first = half + 1;
        } else {
            middle = half;
        }
    }
    return NONE;
}

/* The lists of a session, in the order in which they were started. */
static pl_status_t list_besides(const agentic_t *a, size_t first, size_t middle,
                                size_t end, besides_t *list)
{
    for (size_t at = middle; at < end; at++) {
        const pl_request_t *request = request_of(a, at);
        beside_t beside             = {at, at + 1, NONE, NONE, false};

        if ((at > middle) &&
            (a->entries[at].thread == a->entries[at - 1].thread)) {
            list->items[list->n - 1].end = at + 1;
            continue;
        }
        if (request->n_after > 0) {
            beside.starter = main_entry(a, first, middle,
                                        request->after[request->n_after - 1]);
        }
        PL_TRY(PL_ARRAY_PUSH(list, beside));
    }
    for (size_t at = first; at < middle; at++) {
        for (size_t i = 0; i < list->n; i++) {
            beside_t *beside = &list->items[i];

            if ((beside->joiner == NONE) && waits_for(a, at, beside->end - 1)) {
                beside->joiner = at;
            }
        }
    }
    return PL_OK;
}

/* The list, started after the request at `main` (or by none), and over at
 * end_ns. */
static pl_status_t write_beside(agentic_t *a, const beside_t *beside,
                                const size_t *main, int64_t end_ns,
                                bool runs_on)
{
    FILE *file       = a->writing->file;
    int64_t start_ns = request_of(a, beside->first)->arrival_ns;

    if (main != NULL) {
        start_ns = request_of(a, *main)->arrival_ns +
                   request_of(a, beside->first)->delay_ns;
    }
    end_ns = end_ns > start_ns ? end_ns : start_ns;
    fprintf(file, "{\"t\": ");
    pl_writing_time(file, end_ns, S);
    fprintf(file, ", \"type\": \"sub"
                  "agent\", \"duration_ms\": ");
    pl_writing_time(file, end_ns - start_ns, MS);
    fprintf(file, "%s, \"requests\": [",
            runs_on ? ", \"status\": \"async_launched\"" : "");
    for (size_t at = beside->first; at < beside->end; at++) {
        bool is_first = at == beside->first;
        bool follows  = is_first ? (main != NULL) && waits_for(a, at, *main)
                                 : waits_for(a, at, at - 1);
        int64_t before =
            is_first ? start_ns : request_of(a, at - 1)->arrival_ns;

        fprintf(file, "%s", is_first ? "" : ", ");
        PL_TRY(write_request(a, at, start_ns, think_ns(a, at, before),
                             follows ? 1 : 0));
    }
    fprintf(file, "]}");
    return PL_OK;
}

/* Lists that the request at `at` waits for, started after the one at `main`. */
static pl_status_t write_joined(agentic_t *a, besides_t *list,
                                const size_t *main, size_t at,
                                int32_t *n_said_p)
{
    int64_t end_ns =
        request_of(a, at)->arrival_ns - request_of(a, at)->delay_ns;

    for (size_t i = 0; i < list->n; i++) {
        beside_t *beside = &list->items[i];

        if (beside->joiner != at) {
            continue;
        }
        fprintf(a->writing->file, "%s",
                (main == NULL) && (*n_said_p == 0) ? "" : ", ");
        PL_TRY(write_beside(a, beside, main, end_ns, false));
        beside->is_written = true;
        *n_said_p += 1;
    }
    return PL_OK;
}

/* Lists that nobody waits for: those that the request at `main` has started
 * (if others come behind it they run on), or with `all` whatever is left. */
static pl_status_t write_unjoined(agentic_t *a, besides_t *list,
                                  const size_t *main, bool all)
{
    bool is_first = main == NULL;

    for (size_t i = 0; i < list->n; i++) {
        beside_t *beside = &list->items[i];
        int64_t end_ns   = request_of(a, beside->end - 1)->arrival_ns;

        if (beside->is_written ||
            (!all && ((beside->joiner != NONE) || (main == NULL) ||
                      (beside->starter != *main)))) {
            continue;
        }
        fprintf(a->writing->file, "%s", is_first ? "" : ", ");
        PL_TRY(write_beside(a, beside, main, end_ns, !all));
        beside->is_written = true;
        is_first           = false;
    }
    return PL_OK;
}

/* Requests of thread 0 from `first` to `middle`, and the lists beside it. */
static pl_status_t write_main(agentic_t *a, size_t first, size_t middle,
                              besides_t *list)
{
    size_t main = 0;

    for (size_t at = first; at < middle; at++) {
        int64_t before_ns = at > first ? request_of(a, main)->arrival_ns : 0;
        int32_t n_said    = 0;

        PL_TRY(write_joined(a, list, at > first ? &main : NULL, at, &n_said));
        fprintf(a->writing->file, "%s",
                (at > first) || (n_said > 0) ? ", " : "");
        if (at > first) {
            n_said += waits_for(a, at, main) ? 1 : 0;
            if (!waits_for(a, at, main)) { /* but here it will */
                pl_writing_lose(a->writing, PL_LOSS_SOME_WAITS);
            }
        }
        PL_TRY(write_request(a, at, 0, think_ns(a, at, before_ns), n_said));
        main = at;
        if (at + 1 < middle) {
            PL_TRY(write_unjoined(a, list, &main, false));
        }
    }
    return write_unjoined(a, list, middle > first ? &main : NULL, true);
}

/* All of one session, whose thread 0 ends before `middle`. */
static pl_status_t write_requests(agentic_t *a, size_t first, size_t middle,
                                  size_t end)
{
    besides_t list     = {0};
    pl_status_t status = list_besides(a, first, middle, end, &list);

    if (status == PL_OK) {
        status = write_main(a, first, middle, &list);
    }
    PL_ARRAY_FREE(&list);
    return status;
}

static pl_status_t write_session(agentic_t *a, size_t first, size_t end)
{
    pl_writing_t *writing = a->writing;
    int64_t session       = a->entries[first].session;
    size_t middle         = first;
    uint64_t name         = 0;

    while ((middle < end) && (a->entries[middle].thread == 0)) {
        middle++;
    }
    PL_TRY(pl_writing_name(
        writing, session >= ALONE ? "request" : "session",
        (uint64_t)(session >= ALONE ? session - ALONE : session), &name));
    fprintf(writing->file,
            "{\"id\": \"%s_%" PRIu64 "\", \"models\": [], \"block_size\": "
            "%" PRId32 ", \"hash_id_scope\": \"%s\", \"tool_tokens\": 0, "
            "\"system_tokens\": 0, \"requests\": [",
            session >= ALONE ? "request" : "session", name,
            pl_writing_size(writing, a->entries[first].request),
            a->is_global ? "global" : "local");
    PL_TRY(write_requests(a, first, middle, end));
    fprintf(writing->file, "]}\n");
    return PL_OK;
}

static pl_status_t write_sessions(agentic_t *a)
{
    size_t first = 0;

    PL_TRY(list_entries(a));
    PL_TRY(find_sharing(a));
    while (first < a->n) {
        size_t end = first + 1;

        while ((end < a->n) &&
               (a->entries[end].session == a->entries[first].session)) {
            end++;
        }
        PL_TRY(write_session(a, first, end));
        first = end;
    }
    return PL_OK;
}

static pl_status_t write_agentic(pl_writing_t *writing)
{
    agentic_t a        = {.writing = writing};
    pl_status_t status = write_sessions(&a);

    free(a.entries);
    return status;
}

const pl_trace_writer_t pl_trace_writer_agentic = {
    .name      = "agentic",
    .id_tokens = AGENTIC_TOKENS,
    .has_size  = true,
    .write     = write_agentic,
};
