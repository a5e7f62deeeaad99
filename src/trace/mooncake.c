/* Mooncake JSONL: {timestamp ms, input_length, output_length, hash_ids[]}.
 *
 * An id stands for a block of 512 tokens and all before it; the last block of
 * a prompt may be partial, and full in another prompt. */
#include <inttypes.h>

#include "trace/jsonl.h"
#include "trace/trie.h"

#define BLOCK_TOKENS 512

static const char *const TIME[]   = {"timestamp", "created_time", NULL};
static const char *const INPUT[]  = {"input_length", "input_tokens", NULL};
static const char *const OUTPUT[] = {"output_length", "output_tokens", NULL};
static const char *const IDS[]    = {"hash_ids", NULL};

/* Fields of the dialects whose turns wait for one another. */
static const char *const CLOSED_LOOP[] = {"session_id", "delay", "delay_ms",
                                          "wait_for"};

static bool recognises(const pl_trace_source_t *source,
                       const struct json_object *first)
{
    (void)source;
    return json_object_object_get_ex(first, IDS[0], NULL) != 0;
}

static pl_status_t read_ids(const pl_jsonl_t *jsonl, pl_trace_row_t *row,
                            pl_trace_rows_t *rows)
{
    struct json_object *array;
    int64_t most;

    PL_TRY(pl_jsonl_array(jsonl, IDS, &array, &row->n));
    row->first = rows->ids.n;
    PL_TRY(PL_ARRAY_RESERVE(&rows->ids, rows->ids.n + row->n));
    for (size_t i = 0; i < row->n; i++) {
        struct json_object *item = json_object_array_get_idx(array, i);
        uint64_t id              = 0;

        if (!pl_jsonl_unsigned(jsonl, item, &id)) {
            return pl_trace_bad(jsonl->source, jsonl->number,
                                "\"hash_ids\"[%zu] is %.40s: expected a whole "
                                "number from 0 to %" PRIu64 "; fix or remove "
                                "the line",
                                i, json_object_to_json_string(item),
                                UINT64_MAX);
        }
        rows->ids.items[rows->ids.n++] = id;
    }

    most = (int64_t)row->n * BLOCK_TOKENS;
    if ((row->input_tokens > most) ||
        (row->input_tokens <= most - BLOCK_TOKENS)) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "\"input_length\" %d with %zu hash ids: expected "
                            "%lld to %lld (an id is a block of %d tokens); fix "
                            "the length or the ids",
                            (int)row->input_tokens, row->n,
                            (long long)(most - BLOCK_TOKENS + 1),
                            (long long)most, BLOCK_TOKENS);
    }
    return PL_OK;
}

typedef struct reading {
    pl_trace_rows_t *rows;
    pl_trie_t trie;
    bool warned; /* of a field that is passed over */
} reading_t;

static void warn_of_closed_loop(const pl_jsonl_t *jsonl, reading_t *reading)
{
    size_t n = sizeof(CLOSED_LOOP) / sizeof(*CLOSED_LOOP);

    for (size_t i = 0; (i < n) && !reading->warned; i++) {
        if (json_object_object_get_ex(jsonl->object, CLOSED_LOOP[i], NULL) !=
            0) {
            pl_log(jsonl->source->log, PL_LOG_WARN,
                   "%s:%lld: \"%s\" is passed over: requests arrive at their "
                   "timestamps, not when another has ended",
                   jsonl->source->name, (long long)jsonl->number,
                   CLOSED_LOOP[i]);
            reading->warned = true;
        }
    }
}

static pl_status_t read_row(const pl_jsonl_t *jsonl, void *context)
{
    reading_t *reading    = context;
    pl_trace_rows_t *rows = reading->rows;
    pl_trace_row_t row    = {.line = jsonl->number};

    PL_TRY(pl_jsonl_time(jsonl, TIME, false, &row.time_ns));
    PL_TRY(pl_jsonl_count(jsonl, INPUT, 1, false, &row.input_tokens));
    PL_TRY(pl_jsonl_count(jsonl, OUTPUT, 0, false, &row.output_tokens));
    PL_TRY(read_ids(jsonl, &row, rows));
    PL_TRY(pl_trie_add(&reading->trie, jsonl->source, row.line,
                       &rows->ids.items[row.first], row.n));
    warn_of_closed_loop(jsonl, reading);
    return PL_ARRAY_PUSH(&rows->row, row);
}

static pl_status_t read_rows(const pl_trace_source_t *source,
                             pl_trace_rows_t *rows)
{
    reading_t reading  = {.rows = rows};
    pl_status_t status = pl_jsonl_each(source, read_row, &reading);

    pl_trie_free(&reading.trie);
    return status;
}

const pl_trace_reader_t pl_trace_reader_mooncake = {
    .name         = "mooncake",
    .marks        = "JSON lines with \"hash_ids\"",
    .block_tokens = BLOCK_TOKENS,
    .recognises   = recognises,
    .read         = read_rows,
};
