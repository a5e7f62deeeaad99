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

/* The row that a row follows. */
typedef struct turn {
    bool has_parent;
    uint64_t parent; /* chat_id */
    size_t before;   /* its row; NONE */
} turn_t;

#define NONE ((size_t)-1)

typedef struct reading {
    pl_trace_rows_t *rows;
    pl_trie_t trie;
    pl_id_map_t chats; /* by id: the last row */
    PL_ARRAY(turn_t) turns;
    size_t first; /* row of this file */
} reading_t;

/* *there_p is false, and *id_p stays as it is, where there is none: -1. */
static pl_status_t read_id(const pl_jsonl_t *jsonl, const char *const *names,
                           bool *there_p, uint64_t *id_p)
{
    struct json_object *value = NULL;

    PL_TRY(pl_jsonl_find(jsonl, names, NULL, &value));
    *there_p = (value != NULL) && (!json_object_is_type(value, json_type_int) ||
                                   (json_object_get_int64(value) != -1));
    if (*there_p && !pl_jsonl_unsigned(jsonl, value, id_p)) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "\"%s\" is %.40s: expected a whole number, or -1 "
                            "for none; fix or remove the line",
                            names[0], pl_jsonl_shown(jsonl, value));
    }
    return PL_OK;
}

/* A chat that names itself follows nobody. */
static pl_status_t read_turn(const pl_jsonl_t *jsonl, reading_t *reading)
{
    turn_t turn   = {.before = NONE};
    uint64_t chat = 0;
    uint64_t row  = 0;
    bool is_there = false;

    PL_TRY(read_id(jsonl, CHAT, &is_there, &chat));
    PL_TRY(read_id(jsonl, PARENT, &turn.has_parent, &turn.parent));
    if (turn.has_parent &&
        pl_id_map_find(&reading->chats, 0, turn.parent, &row)) {
        turn.before = (size_t)row;
    } else if (is_there && (turn.parent == chat)) {
        turn.has_parent = false;
    }
    PL_TRY(PL_ARRAY_PUSH(&reading->turns, turn));
    return is_there
               ? pl_id_map_put(&reading->chats, 0, chat, reading->rows->row.n)
               : PL_OK;
}

static pl_status_t read_row(const pl_jsonl_t *jsonl, void *context)
{
    reading_t *reading    = context;
    pl_trace_rows_t *rows = reading->rows;
    pl_trace_row_t row    = {.line = jsonl->number,
                             .block_tokens =
                                 pl_trace_id_tokens(jsonl->source, BLOCK_TOKENS)};

    PL_TRY(pl_jsonl_seconds(jsonl, TIME, false, &row.time_ns));
    PL_TRY(pl_jsonl_count(jsonl, INPUT, 1, false, &row.input_tokens));
    PL_TRY(pl_jsonl_count(jsonl, OUTPUT, 0, false, &row.output_tokens));
    PL_TRY(pl_jsonl_ids(jsonl, IDS, &row, rows));
    PL_TRY(pl_trie_add(&reading->trie, jsonl->source, &row,
                       &rows->ids.items[row.first]));
    PL_TRY(read_turn(jsonl, reading));
    return PL_ARRAY_PUSH(&rows->row, row);
}

/* A parent may stand further down; one that is not in the file ended before it
 * begins. */
static pl_status_t find_parents(reading_t *reading)
{
    pl_trace_rows_t *rows = reading->rows;

    for (size_t i = 0; i < reading->turns.n; i++) {
        turn_t *turn        = &reading->turns.items[i];
        pl_trace_row_t *row = &rows->row.items[reading->first + i];
        uint64_t before     = 0;

        if (turn->has_parent && (turn->before == NONE) &&
            pl_id_map_find(&reading->chats, 0, turn->parent, &before)) {
            turn->before = (size_t)before;
        }
        if (turn->before != NONE) {
            row->not_before = true;
            PL_TRY(pl_trace_wait_for(rows, row, turn->before));
        }
    }
    return PL_OK;
}

/* The session of row i and of all up to the first turn: one that is known, or
 * the next one.  Turns that go round in a circle, which are refused later, end
 * it too. */
static void set_session(reading_t *reading, size_t i)
{
    enum { ON_THE_WAY = -1 };
    pl_trace_row_t *rows = reading->rows->row.items;
    const turn_t *turns  = reading->turns.items;
    size_t top           = i;
    int32_t session;

    while (rows[top].session == 0) {
        rows[top].session = ON_THE_WAY;
        if (turns[top - reading->first].before != NONE) {
            top = turns[top - reading->first].before;
        }
    }
    session = rows[top].session;
    if (session == ON_THE_WAY) {
        session = ++reading->rows->n_sessions;
    }
    while (rows[i].session == ON_THE_WAY) {
        rows[i].session = session;
        if (turns[i - reading->first].before != NONE) {
            i = turns[i - reading->first].before;
        }
    }
}

static pl_status_t read_rows(const pl_trace_source_t *source,
                             pl_trace_rows_t *rows)
{
    reading_t reading  = {.rows = rows, .first = rows->row.n};
    pl_status_t status = pl_jsonl_each(source, read_row, &reading);

    if (status == PL_OK) {
        status = find_parents(&reading);
    }
    for (size_t i = reading.first; (i < rows->row.n) && (status == PL_OK);
         i++) {
        set_session(&reading, i);
    }
    pl_id_map_free(&reading.chats);
    pl_trie_free(&reading.trie);
    PL_ARRAY_FREE(&reading.turns);
    return status;
}

const pl_trace_reader_t pl_trace_reader_bailian = {
    .name         = "bailian",
    .marks        = "JSON lines with \"chat_id\" and \"hash_ids\"",
    .has_prefixes = true,
    .recognises   = recognises,
    .read         = read_rows,
};
