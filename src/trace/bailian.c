/* Bailian JSONL: {chat_id, parent_chat_id, timestamp s, input_length,
 * output_length, type, turn, hash_ids[]}.
 *
 * An id stands for a block of 16 tokens and all before it.  A turn comes at its
 * timestamp, but not before its parent has ended. */
#include "trace/id_map.h"
#include "trace/jsonl.h"
#include "trace/trie.h"

#define BLOCK_TOKENS 16

static const char *const CHAT[]   = {"chat_id", NULL};
static const char *const PARENT[] = {"parent_chat_id", NULL};
static const char *const TIME[]   = {"timestamp", NULL};
static const char *const INPUT[]  = {"input_length", NULL};
static const char *const OUTPUT[] = {"output_length", NULL};
static const char *const IDS[]    = {"hash_ids", NULL};

static bool recognises(const pl_trace_source_t *source,
                       const struct json_object *first)
{
    (void)source;
    return (json_object_object_get_ex(first, CHAT[0], NULL) != 0) &&
           (json_object_object_get_ex(first, IDS[0], NULL) != 0);
}

typedef struct reading {
    pl_trace_rows_t *rows;
    pl_trie_t trie;
    pl_id_map_t chats; /* by id: the last row */
} reading_t;

/* *id_p stays as it is where there is none: -1. */
static pl_status_t read_id(const pl_jsonl_t *jsonl, const char *const *names,
                           bool *there_p, uint64_t *id_p)
{
    struct json_object *value = NULL;

    PL_TRY(pl_jsonl_find(jsonl, names, "a whole number", &value));
    *there_p = !json_object_is_type(value, json_type_int) ||
               (json_object_get_int64(value) != -1);
    if (*there_p && !pl_jsonl_unsigned(jsonl, value, id_p)) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "\"%s\" is %.40s: expected a whole number, or -1 "
                            "for none; fix or remove the line",
                            names[0], json_object_to_json_string(value));
    }
    return PL_OK;
}

/* A parent that is not in the file ended before it begins. */
static pl_status_t read_turn(const pl_jsonl_t *jsonl, reading_t *reading,
                             pl_trace_row_t *row)
{
    pl_trace_rows_t *rows = reading->rows;
    uint64_t chat         = 0;
    uint64_t parent       = 0;
    uint64_t before       = 0;
    bool is_there         = false;
    bool has_parent       = false;

    PL_TRY(read_id(jsonl, CHAT, &is_there, &chat));
    PL_TRY(read_id(jsonl, PARENT, &has_parent, &parent));
    if (has_parent && pl_id_map_find(&reading->chats, 0, parent, &before)) {
        row->session    = rows->row.items[before].session;
        row->not_before = true;
        PL_TRY(pl_trace_wait_for(rows, row, (size_t)before));
    } else {
        row->session = ++rows->n_sessions;
    }
    return is_there ? pl_id_map_put(&reading->chats, 0, chat, rows->row.n)
                    : PL_OK;
}

static pl_status_t read_row(const pl_jsonl_t *jsonl, void *context)
{
    reading_t *reading    = context;
    pl_trace_rows_t *rows = reading->rows;
    pl_trace_row_t row = {.line = jsonl->number, .block_tokens = BLOCK_TOKENS};

    PL_TRY(pl_jsonl_seconds(jsonl, TIME, false, &row.time_ns));
    PL_TRY(pl_jsonl_count(jsonl, INPUT, 1, false, &row.input_tokens));
    PL_TRY(pl_jsonl_count(jsonl, OUTPUT, 0, false, &row.output_tokens));
    PL_TRY(pl_jsonl_ids(jsonl, IDS, &row, rows));
    PL_TRY(pl_trie_add(&reading->trie, jsonl->source, &row,
                       &rows->ids.items[row.first]));
    PL_TRY(read_turn(jsonl, reading, &row));
    return PL_ARRAY_PUSH(&rows->row, row);
}

static pl_status_t read_rows(const pl_trace_source_t *source,
                             pl_trace_rows_t *rows)
{
    reading_t reading  = {.rows = rows};
    pl_status_t status = pl_jsonl_each(source, read_row, &reading);

    pl_id_map_free(&reading.chats);
    pl_trie_free(&reading.trie);
    return status;
}

const pl_trace_reader_t pl_trace_reader_bailian = {
    .name         = "bailian",
    .marks        = "JSON lines with \"chat_id\" and \"hash_ids\"",
    .has_prefixes = true,
    .recognises   = recognises,
    .read         = read_rows,
};
