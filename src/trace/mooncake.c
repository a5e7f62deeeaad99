/* Mooncake JSONL: {timestamp ms, input_length, output_length, hash_ids[]}.
 *
 * An id stands for a block of 512 tokens (or block_size of them, if the line
 * says so) and all before it; the last block of a prompt may be partial, and
 * full in another prompt.  turns.h has the fields of its dialects. */
#include "trace/jsonl.h"
#include "trace/trie.h"
#include "trace/turns.h"

#define BLOCK_TOKENS 512

static const char *const TIME[]   = {"timestamp", "created_time", NULL};
static const char *const INPUT[]  = {"input_length", "input_tokens", NULL};
static const char *const OUTPUT[] = {"output_length", "output_tokens", NULL};
static const char *const IDS[]    = {"hash_ids", NULL};
static const char *const SIZE[]   = {"block_size", NULL};

static bool recognises(const pl_trace_source_t *source,
                       const struct json_object *first)
{
    (void)source;
    return json_object_object_get_ex(first, IDS[0], NULL) != 0;
}

typedef struct reading {
    pl_trace_rows_t *rows;
    pl_trie_t trie;
    pl_turn_names_t names;
} reading_t;

static pl_status_t read_row(const pl_jsonl_t *jsonl, void *context)
{
    reading_t *reading    = context;
    pl_trace_rows_t *rows = reading->rows;
    pl_trace_row_t row    = {.time_ns      = PL_TRACE_NO_TIME,
                             .line         = jsonl->number,
                             .block_tokens = BLOCK_TOKENS};
    bool waits            = false;

    PL_TRY(pl_jsonl_time(jsonl, TIME, true, &row.time_ns));
    PL_TRY(pl_turns_read(&reading->names, jsonl, rows, &row, &waits));
    if (row.time_ns == PL_TRACE_NO_TIME) {
        PL_TRY(pl_jsonl_time(jsonl, TIME, waits, &row.time_ns));
    }
    PL_TRY(pl_jsonl_count(jsonl, INPUT, 1, false, &row.input_tokens));
    PL_TRY(pl_jsonl_count(jsonl, OUTPUT, 0, false, &row.output_tokens));
    PL_TRY(pl_jsonl_count(jsonl, SIZE, 1, true, &row.block_tokens));
    PL_TRY(pl_jsonl_ids(jsonl, IDS, &row, rows));
    PL_TRY(pl_trie_add(&reading->trie, jsonl->source, &row,
                       &rows->ids.items[row.first]));
    return PL_ARRAY_PUSH(&rows->row, row);
}

static pl_status_t read_rows(const pl_trace_source_t *source,
                             pl_trace_rows_t *rows)
{
    reading_t reading  = {.rows = rows};
    pl_status_t status = pl_jsonl_each(source, read_row, &reading);

    if (status == PL_OK) {
        status = pl_turns_resolve(&reading.names, source, rows);
    }
    pl_turns_free(&reading.names);
    pl_trie_free(&reading.trie);
    return status;
}

const pl_trace_reader_t pl_trace_reader_mooncake = {
    .name         = "mooncake",
    .marks        = "JSON lines with \"hash_ids\"",
    .has_prefixes = true,
    .recognises   = recognises,
    .read         = read_rows,
};
