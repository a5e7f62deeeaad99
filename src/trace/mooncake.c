/* Mooncake JSONL: {timestamp ms, input_length, output_length, hash_ids[]}.
 *
 * An id stands for a block of 512 tokens (or block_size of them, if the line
 * says so) and all before it; the last block of a prompt may be partial, and
 * full in another prompt.  turns.h has the fields of its dialects.
 *
 * Without hash_ids on any line it is a format of its own: lengths, where
 * nothing tells which prompts begin alike. */
#include "trace/jsonl.h"
#include "trace/trie.h"
#include "trace/turns.h"

#define BLOCK_TOKENS 512

static const char *const TIME[]   = {"timestamp", "created_time", NULL};
static const char *const INPUT[]  = {"input_length", "input_tokens", NULL};
static const char *const OUTPUT[] = {"output_length", "output_tokens", NULL};
static const char *const IDS[]    = {"hash_ids", NULL};
static const char *const SIZE[]   = {"block_size", NULL};
static const char *const CHAT[]   = {"chat_id", NULL};

static bool has_field(const struct json_object *object,
                      const char *const *names)
{
    struct json_object *value = NULL;

    for (size_t i = 0; names[i] != NULL; i++) {
        if (json_object_object_get_ex(object, names[i], &value) &&
            (value != NULL)) {
            return true;
        }
    }
    return false;
}

static bool recognises_ids(const pl_trace_source_t *source,
                           const struct json_object *first)
{
    (void)source;
    return has_field(first, IDS);
}

/* Bailian's times are of another unit. */
static bool recognises_lengths(const pl_trace_source_t *source,
                               const struct json_object *first)
{
    (void)source;
    return has_field(first, INPUT) && !has_field(first, IDS) &&
           !has_field(first, CHAT);
}

typedef struct reading {
    pl_trace_rows_t *rows;
    bool has_ids;
    pl_trie_t trie;
    pl_turn_names_t names;
} reading_t;

/* A prompt that begins like no other: one block of its own. */
static pl_status_t add_length(const pl_jsonl_t *jsonl, pl_trace_row_t *row,
                              pl_trace_rows_t *rows)
{
    if (has_field(jsonl->object, IDS)) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "\"hash_ids\" is there, unlike on the lines above: "
                            "expected it on every line or on none; add or "
                            "remove it");
    }
    row->block_tokens = row->input_tokens;
    row->first        = rows->ids.n;
    row->n            = 1;
    return PL_ARRAY_PUSH(&rows->ids, (uint64_t)rows->row.n);
}

static pl_status_t add_ids(const pl_jsonl_t *jsonl, reading_t *reading,
                           pl_trace_row_t *row)
{
    PL_TRY(pl_jsonl_count(jsonl, SIZE, 1, true, &row->block_tokens));
    PL_TRY(pl_jsonl_ids(jsonl, IDS, row, reading->rows));
    return pl_trie_add(&reading->trie, jsonl->source, row,
                       &reading->rows->ids.items[row->first]);
}

static pl_status_t read_row(const pl_jsonl_t *jsonl, void *context)
{
    reading_t *reading    = context;
    pl_trace_rows_t *rows = reading->rows;
    pl_trace_row_t row    = {.time_ns = PL_TRACE_NO_TIME,
                             .line    = jsonl->number,
                             .block_tokens =
                                 pl_trace_id_tokens(jsonl->source, BLOCK_TOKENS)};
    bool waits            = false;

    PL_TRY(pl_jsonl_time(jsonl, TIME, true, &row.time_ns));
    PL_TRY(pl_turns_read(&reading->names, jsonl, rows, &row, &waits));
    if (!waits) {
        PL_TRY(pl_turns_check_time(&reading->names, jsonl, &row));
    }
    PL_TRY(pl_jsonl_count(jsonl, INPUT, 1, false, &row.input_tokens));
    PL_TRY(pl_jsonl_count(jsonl, OUTPUT, 0, false, &row.output_tokens));
    PL_TRY(reading->has_ids ? add_ids(jsonl, reading, &row)
                            : add_length(jsonl, &row, rows));
    return PL_ARRAY_PUSH(&rows->row, row);
}

static pl_status_t read_all(const pl_trace_source_t *source, bool has_ids,
                            pl_trace_rows_t *rows)
{
    reading_t reading  = {.rows = rows, .has_ids = has_ids};
    pl_status_t status = pl_jsonl_each(source, read_row, &reading);

    if (status == PL_OK) {
        status = pl_turns_resolve(&reading.names, source, rows);
    }
    pl_turns_free(&reading.names);
    pl_trie_free(&reading.trie);
    return status;
}

static pl_status_t read_with_ids(const pl_trace_source_t *source,
                                 pl_trace_rows_t *rows)
{
    return read_all(source, true, rows);
}

static pl_status_t read_lengths(const pl_trace_source_t *source,
                                pl_trace_rows_t *rows)
{
    return read_all(source, false, rows);
}

const pl_trace_reader_t pl_trace_reader_mooncake = {
    .name         = "mooncake",
    .marks        = "JSON lines with \"hash_ids\"",
    .has_prefixes = true,
    .recognises   = recognises_ids,
    .read         = read_with_ids,
};

const pl_trace_reader_t pl_trace_reader_lengths = {
    .name       = "lengths",
    .marks      = "JSON lines with \"input_length\"",
    .recognises = recognises_lengths,
    .read       = read_lengths,
};
