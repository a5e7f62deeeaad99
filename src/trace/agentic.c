/* Agentic sessions: objects {id, block_size, hash_id_scope, requests[]}, one a
 * line or one in the whole text.
 *
 * A request {t s, in, out, hash_ids[], think_time s, api_time s} has an id for
 * each full block and none for the rest of its prompt, which is taken as its
 * own.  Ids are local to a session unless hash_id_scope says otherwise.  A turn
 * follows the one before it after think_time.  Requests that a session started
 * beside itself are a list within the list, whose t counts from its start (its
 * own t is its end, duration_ms before that its start); the turn after waits
 * for all of them but those that were launched to run on ("async_launched"). */
#include <string.h>

#include "trace/id_map.h"
#include "trace/jsonl.h"
#include "trace/trie.h"

#define BLOCK_TOKENS 64
#define NS_PER_MS    INT64_C(1000000)

static const char *const REQUESTS[] = {"requests", NULL};
static const char *const SCOPE[]    = {"hash_id_scope", NULL};
static const char *const SIZE[]     = {"block_size", NULL};
static const char *const TIME[]     = {"t", NULL};
static const char *const INPUT[]    = {"in", NULL};
static const char *const OUTPUT[]   = {"out", NULL};
static const char *const IDS[]      = {"hash_ids", NULL};
static const char *const THINK[]    = {"think_time", NULL};
static const char *const WORK[]     = {"api_time", NULL};
static const char *const LASTED[]   = {"duration_ms", NULL};
static const char *const STATUS[]   = {"status", NULL};

/* Spaces of ids besides the sessions, which are numbered from 1. */
enum { GLOBAL = 0 };
#define REST UINT64_MAX

static bool recognises(const pl_trace_source_t *source,
                       const struct json_object *first)
{
    struct json_object *list = NULL;

    (void)source;
    return (json_object_object_get_ex(first, REQUESTS[0], &list) != 0) &&
           json_object_is_type(list, json_type_array);
}

/* What comes next in a list of requests waits for these. */
typedef struct thread {
    size_t before;          /* row; `none` */
    int64_t end_ns;         /* of all it waits for, as far as it is known */
    PL_ARRAY(size_t) aside; /* last rows of lists since then */
    int32_t number;
    int64_t start_ns; /* where its t begin */
    int64_t delay_ns; /* of its first request, if it waits */
} thread_t;

#define NONE ((size_t)-1)

typedef struct reading {
    pl_trace_rows_t *rows;
    pl_trie_t trie;
    pl_id_map_t ids;
    uint64_t n_rests;
    uint64_t space;
    int32_t block_tokens;
    int32_t session;
    int32_t n_threads;
    size_t first; /* row of this file */
} reading_t;

static pl_jsonl_t entry_of(const pl_jsonl_t *jsonl, struct json_object *object)
{
    pl_jsonl_t entry = *jsonl;

    entry.object = object;
    return entry;
}

static pl_status_t take_id(reading_t *reading, uint64_t space, uint64_t id)
{
    uint64_t number = 0;

    PL_TRY(pl_id_map_number(&reading->ids, space, id, &number));
    return PL_ARRAY_PUSH(&reading->rows->ids, number);
}

/* The ids of full blocks, and one of its own for the rest. */
static pl_status_t read_ids(const pl_jsonl_t *jsonl, reading_t *reading,
                            pl_trace_row_t *row)
{
    size_t n_full             = (size_t)(row->input_tokens / row->block_tokens);
    size_t n_all              = n_full;
    struct json_object *array = NULL;

    n_all += row->input_tokens % row->block_tokens > 0 ? 1 : 0;
    PL_TRY(pl_jsonl_find(jsonl, IDS, "an array of whole numbers", &array));
    row->n = json_object_is_type(array, json_type_array)
                 ? json_object_array_length(array)
                 : 0;
    if (!json_object_is_type(array, json_type_array) ||
        ((row->n != n_full) && (row->n != n_all))) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "\"in\" %d with %zu hash ids: expected %zu (an id "
                            "is a block of %d tokens); fix the length or the "
                            "ids",
                            (int)row->input_tokens, row->n, n_full,
                            (int)row->block_tokens);
    }
    row->first = reading->rows->ids.n;
    for (size_t i = 0; i < row->n; i++) {
        struct json_object *item = json_object_array_get_idx(array, i);
        uint64_t id              = 0;

        if (!pl_jsonl_unsigned(jsonl, item, &id)) {
            return pl_trace_bad(jsonl->source, jsonl->number,
                                "\"hash_ids\"[%zu] is %.40s: expected a whole "
                                "number of at most 64 bits; fix or remove the "
                                "request",
                                i, json_object_to_json_string(item));
        }
        PL_TRY(take_id(reading, reading->space, id));
    }
    if (row->n < n_all) {
        row->n = n_all;
        PL_TRY(take_id(reading, REST, reading->n_rests++));
    }
    return pl_trie_add(&reading->trie, jsonl->source, row,
                       &reading->rows->ids.items[row->first]);
}

/* Whom the request waits for, and how long after. */
static pl_status_t read_turn(const pl_jsonl_t *jsonl, reading_t *reading,
                             thread_t *thread, pl_trace_row_t *row)
{
    int64_t think = PL_TRACE_NO_TIME;
    int64_t since = row->time_ns - thread->end_ns;

    PL_TRY(pl_jsonl_seconds(jsonl, THINK, true, &think));
    if (thread->before != NONE) {
        PL_TRY(pl_trace_wait_for(reading->rows, row, thread->before));
    }
    for (size_t i = 0; i < thread->aside.n; i++) {
        PL_TRY(pl_trace_wait_for(reading->rows, row, thread->aside.items[i]));
    }
    if (row->n_after == 0) {
        return PL_OK;
    }
    if (thread->delay_ns != PL_TRACE_NO_TIME) {
        row->delay_ns = thread->delay_ns;
    } else if ((thread->aside.n == 0) && (think != PL_TRACE_NO_TIME)) {
        row->delay_ns = think;
    } else {
        row->delay_ns = since > 0 ? since : 0;
    }
    return PL_OK;
}

static bool add_ns(int64_t *sum, int64_t ns)
{
    if (ns > PL_TRACE_MAX_NS - *sum) {
        return false;
    }
    *sum += ns;
    return true;
}

static pl_status_t too_late(const pl_jsonl_t *jsonl)
{
    return pl_trace_bad(jsonl->source, jsonl->number,
                        "times add up to more than 285 years: expected less; "
                        "fix \"t\", \"api_time\" or \"duration_ms\"");
}

static pl_status_t read_request(const pl_jsonl_t *jsonl, reading_t *reading,
                                thread_t *thread)
{
    pl_trace_rows_t *rows = reading->rows;
    int64_t work          = 0;
    pl_trace_row_t row    = {.block_tokens = reading->block_tokens,
                             .session      = reading->session,
                             .thread       = thread->number};

    row.line = (int64_t)(rows->row.n - reading->first) + 1;
    PL_TRY(pl_jsonl_seconds(jsonl, TIME, false, &row.time_ns));
    PL_TRY(pl_jsonl_seconds(jsonl, WORK, true, &work));
    if (!add_ns(&row.time_ns, thread->start_ns)) {
        return too_late(jsonl);
    }
    PL_TRY(pl_jsonl_count(jsonl, INPUT, 1, false, &row.input_tokens));
    PL_TRY(pl_jsonl_count(jsonl, OUTPUT, 0, false, &row.output_tokens));
    PL_TRY(read_ids(jsonl, reading, &row));
    PL_TRY(read_turn(jsonl, reading, thread, &row));
    thread->before   = rows->row.n;
    thread->delay_ns = PL_TRACE_NO_TIME;
    thread->end_ns   = row.time_ns;
    thread->aside.n  = 0;
    if (!add_ns(&thread->end_ns, work)) {
        return too_late(jsonl);
    }
    return PL_ARRAY_PUSH(&rows->row, row);
}

static pl_status_t read_list(const pl_jsonl_t *jsonl, reading_t *reading,
                             struct json_object *list, thread_t *thread);

/* What comes next in `thread` waits for the end of `aside`, whose rows begin
 * at `first`: for its last request, and for lists that it started after that.
 */
static pl_status_t join(const thread_t *aside, size_t first, thread_t *thread)
{
    if ((aside->before != NONE) && (aside->before >= first)) {
        PL_TRY(PL_ARRAY_PUSH(&thread->aside, aside->before));
    }
    for (size_t i = 0; i < aside->aside.n; i++) {
        PL_TRY(PL_ARRAY_PUSH(&thread->aside, aside->aside.items[i]));
    }
    if (aside->end_ns > thread->end_ns) {
        thread->end_ns = aside->end_ns;
    }
    return PL_OK;
}

/* Is nobody to wait for it? */
static pl_status_t read_runs_on(const pl_jsonl_t *jsonl, bool *runs_on_p)
{
    struct json_object *value = NULL;

    PL_TRY(pl_jsonl_find(jsonl, STATUS, NULL, &value));
    *runs_on_p = json_object_is_type(value, json_type_string) &&
                 (strcmp(json_object_get_string(value), "async_launched") == 0);
    return PL_OK;
}

/* A list that `thread` has started beside itself. */
static pl_status_t read_aside(const pl_jsonl_t *jsonl, reading_t *reading,
                              struct json_object *list, thread_t *thread)
{
    thread_t aside    = {.before = thread->before,
                         .number = ++reading->n_threads,
                         .end_ns = thread->end_ns};
    size_t first      = reading->rows->row.n;
    int64_t lasted_ns = 0;
    int64_t end_ns    = 0;
    bool runs_on      = false;
    pl_status_t status;

    PL_TRY(read_runs_on(jsonl, &runs_on));
    PL_TRY(pl_jsonl_seconds(jsonl, TIME, false, &end_ns));
    PL_TRY(pl_jsonl_time(jsonl, LASTED, true, &lasted_ns));
    if (!add_ns(&end_ns, thread->start_ns)) {
        return too_late(jsonl);
    }
    aside.start_ns = end_ns > lasted_ns ? end_ns - lasted_ns : 0;
    aside.delay_ns =
        aside.start_ns > thread->end_ns ? aside.start_ns - thread->end_ns : 0;
    status = read_list(jsonl, reading, list, &aside);
    if ((status == PL_OK) && (reading->rows->row.n > first) && !runs_on) {
        aside.end_ns = end_ns > aside.end_ns ? end_ns : aside.end_ns;
        status       = join(&aside, first, thread);
    }
    PL_ARRAY_FREE(&aside.aside);
    return status;
}

static pl_status_t read_list(const pl_jsonl_t *jsonl, reading_t *reading,
                             struct json_object *list, thread_t *thread)
{
    size_t n       = json_object_array_length(list);
    int64_t end_ns = thread->end_ns; /* of its own requests */

    for (size_t i = 0; i < n; i++) {
        struct json_object *object = json_object_array_get_idx(list, i);
        struct json_object *inner  = NULL;
        pl_jsonl_t entry           = entry_of(jsonl, object);

        if (!json_object_is_type(object, json_type_object)) {
            return pl_trace_bad(jsonl->source, jsonl->number,
                                "\"requests\"[%zu] is %.40s: expected an "
                                "object; fix or remove it",
                                i, json_object_to_json_string(object));
        }
        PL_TRY(pl_jsonl_find(&entry, REQUESTS, NULL, &inner));
        if (inner == NULL) {
            PL_TRY(read_request(&entry, reading, thread));
            end_ns = thread->end_ns;
            continue;
        }
        if (!json_object_is_type(inner, json_type_array)) {
            return pl_trace_bad(jsonl->source, jsonl->number,
                                "\"requests\" is %.40s: expected an array; fix "
                                "or remove it",
                                json_object_to_json_string(inner));
        }
        {
            int64_t latest = thread->end_ns;

            thread->end_ns = end_ns; /* they start beside one another */
            PL_TRY(read_aside(&entry, reading, inner, thread));
            thread->end_ns = latest > thread->end_ns ? latest : thread->end_ns;
        }
    }
    return PL_OK;
}

static pl_status_t read_session(const pl_jsonl_t *jsonl, void *context)
{
    reading_t *reading        = context;
    struct json_object *list  = NULL;
    struct json_object *scope = NULL;
    thread_t thread           = {.before = NONE, .delay_ns = PL_TRACE_NO_TIME};
    pl_status_t status;

    reading->session      = ++reading->rows->n_sessions;
    reading->n_threads    = 0;
    reading->block_tokens = pl_trace_id_tokens(jsonl->source, BLOCK_TOKENS);
    PL_TRY(pl_jsonl_find(jsonl, REQUESTS, "an array of requests", &list));
    PL_TRY(pl_jsonl_find(jsonl, SCOPE, NULL, &scope));
    PL_TRY(pl_jsonl_count(jsonl, SIZE, 1, true, &reading->block_tokens));
    reading->space = (uint64_t)reading->session;
    if (json_object_is_type(scope, json_type_string) &&
        (strcmp(json_object_get_string(scope), "global") == 0)) {
        reading->space = GLOBAL;
    }
    if (!json_object_is_type(list, json_type_array)) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "\"requests\" is %.40s: expected an array; fix or "
                            "remove the session",
                            json_object_to_json_string(list));
    }
    status = read_list(jsonl, reading, list, &thread);
    PL_ARRAY_FREE(&thread.aside);
    return status;
}

/* One session over all lines, as the files come, or a line for each. */
static pl_status_t read_sessions(const pl_trace_source_t *source,
                                 reading_t *reading)
{
    pl_trace_source_t silent = *source;
    bool more                = false;
    pl_jsonl_t jsonl;
    pl_status_t status;

    silent.log = NULL;
    PL_TRY(pl_jsonl_open(&silent, &jsonl));
    status = pl_jsonl_next(&jsonl, &more);
    if ((status == PL_OK) || (status == PL_ERR_MEMORY)) {
        pl_jsonl_close(&jsonl);
        PL_TRY(status);
        return pl_jsonl_each(source, read_session, reading);
    }
    jsonl.source = source;
    status       = pl_jsonl_whole(&jsonl);
    if (status == PL_OK) {
        status = read_session(&jsonl, reading);
    }
    pl_jsonl_close(&jsonl);
    return status;
}

static pl_status_t read_rows(const pl_trace_source_t *source,
                             pl_trace_rows_t *rows)
{
    reading_t reading  = {.rows = rows, .first = rows->row.n};
    pl_status_t status = read_sessions(source, &reading);

    if ((status == PL_OK) && (rows->row.n == reading.first)) {
        status = pl_trace_bad(source, 0,
                              "no request in it: expected at least one in "
                              "\"requests\"; check the path and the download");
    }
    pl_id_map_free(&reading.ids);
    pl_trie_free(&reading.trie);
    return status;
}

const pl_trace_reader_t pl_trace_reader_agentic = {
    .name         = "agentic",
    .marks        = "sessions with \"requests\"",
    .has_prefixes = true,
    .recognises   = recognises,
    .read         = read_rows,
};
