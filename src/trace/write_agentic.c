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

/* The thread from `first` to `end`, started after the request at `main` (or by
 * none), and over at end_ns. */
static pl_status_t write_thread(agentic_t *a, size_t first, size_t end,
                                const size_t *main, int64_t end_ns)
{
    FILE *file       = a->writing->file;
    int64_t start_ns = request_of(a, first)->arrival_ns;

    if (main != NULL) {
        start_ns =
            request_of(a, *main)->arrival_ns + request_of(a, first)->delay_ns;
    }
    fprintf(file, "{\"t\": ");
    pl_writing_time(file, end_ns, S);
    fprintf(file, ", \"type\": \"sub"
                  "agent\", \"duration_ms\": ");
    pl_writing_time(file, end_ns - start_ns, MS);
    fprintf(file, ", \"requests\": [");
    for (size_t at = first; at < end; at++) {
        bool follows = at > first ? waits_for(a, at, at - 1)
                                  : (main != NULL) && waits_for(a, at, *main);
        int64_t before =
            at > first ? request_of(a, at - 1)->arrival_ns : start_ns;

        fprintf(file, "%s", at > first ? ", " : "");
        PL_TRY(write_request(a, at, start_ns, think_ns(a, at, before),
                             follows ? 1 : 0));
    }
    fprintf(file, "]}");
    return PL_OK;
}

/* Threads from *next_p on whose last request the one at `at` waits for, or all
 * that are left. */
static pl_status_t write_threads(agentic_t *a, size_t *next_p, size_t end,
                                 const size_t *main, const size_t *at,
                                 int32_t *n_said_p)
{
    bool first_on_line = main == NULL;

    while (*next_p < end) {
        size_t last    = *next_p;
        int64_t end_ns = 0;

        while ((last + 1 < end) &&
               (a->entries[last + 1].thread == a->entries[last].thread)) {
            last++;
        }
        if ((at != NULL) && !waits_for(a, *at, last)) {
            break;
        }
        end_ns = at == NULL ? request_of(a, last)->arrival_ns
                            : request_of(a, *at)->arrival_ns -
                                  request_of(a, *at)->delay_ns;
        fprintf(a->writing->file, "%s", first_on_line ? "" : ", ");
        first_on_line = false;
        PL_TRY(write_thread(a, *next_p, last + 1, main, end_ns));
        *n_said_p += 1;
        *next_p = last + 1;
    }
    return PL_OK;
}

/* Requests of one session: those of thread 0 from `first` to `middle`, and the
 * other threads up to `end`. */
static pl_status_t write_requests(agentic_t *a, size_t first, size_t middle,
                                  size_t end)
{
    size_t next    = middle;
    int32_t n_left = 0;
    size_t main    = 0;

    for (size_t at = first; at < middle; at++) {
        int64_t before_ns = at > first ? request_of(a, main)->arrival_ns : 0;
        int32_t n_said    = 0;

        PL_TRY(write_threads(a, &next, end, at > first ? &main : NULL, &at,
                             &n_said));
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
    }
    return write_threads(a, &next, end, middle > first ? &main : NULL, NULL,
                         &n_left);
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
