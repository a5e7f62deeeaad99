/* Token JSONL: {prompt_token_ids[], output_length, [timestamp ms],
 * [namespace]}, and the fields of turns.h.
 *
 * Without an output length a request gives the one token that its prefill
 * makes.  A namespace is a string or an integer ("7" and 7 differ); prompts
 * share nothing across namespaces. */
#include <string.h>

#include "base/hash.h"
#include "trace/jsonl.h"
#include "trace/turns.h"

static const char *const TIME[]   = {"timestamp", "created_time", NULL};
static const char *const PROMPT[] = {"prompt_token_ids", NULL};
static const char *const OUTPUT[] = {"output_length", "output_tokens",
                                     "max_tokens", NULL};
static const char *const SPACE[]  = {"namespace", NULL};

/* Seeds that keep integer and string namespaces apart. */
enum { SPACE_OF_INTEGER = 1, SPACE_OF_STRING = 2 };

static bool recognises(const pl_trace_source_t *source,
                       const struct json_object *first)
{
    (void)source;
    return json_object_object_get_ex(first, PROMPT[0], NULL) != 0;
}

static pl_status_t read_prompt(const pl_jsonl_t *jsonl, pl_trace_row_t *row,
                               pl_trace_rows_t *rows)
{
    struct json_object *array;

    PL_TRY(pl_jsonl_array(jsonl, PROMPT, &array, &row->n));
    return pl_jsonl_tokens(jsonl, array, "\"prompt_token_ids\"", row, rows);
}

static pl_status_t read_space(const pl_jsonl_t *jsonl, uint64_t *name_space_p)
{
    struct json_object *value = NULL;
    uint64_t hash;

    PL_TRY(pl_jsonl_find(jsonl, SPACE, NULL, &value));
    if (value == NULL) {
        *name_space_p = 0;
        return PL_OK;
    }
    if (json_object_is_type(value, json_type_string)) {
        hash = pl_hash64(json_object_get_string(value),
                         (size_t)json_object_get_string_len(value),
                         SPACE_OF_STRING);
    } else {
        uint64_t number = 0;

        if (!pl_jsonl_unsigned(jsonl, value, &number)) {
            return pl_trace_bad(jsonl->source, jsonl->number,
                                "\"namespace\" is %.40s: expected a string or "
                                "a whole number of at most 64 bits; fix or "
                                "remove it",
                                json_object_to_json_string(value));
        }
        hash = pl_hash64(&number, sizeof(number), SPACE_OF_INTEGER);
    }
    *name_space_p = hash != 0 ? hash : 1; /* 0 says that there is none */
    return PL_OK;
}

typedef struct reading {
    pl_trace_rows_t *rows;
    pl_turn_names_t names;
} reading_t;

static pl_status_t read_row(const pl_jsonl_t *jsonl, void *context)
{
    reading_t *reading    = context;
    pl_trace_rows_t *rows = reading->rows;
    pl_trace_row_t row    = {.line = jsonl->number};
    bool waits            = false;

    row.time_ns       = PL_TRACE_NO_TIME;
    row.output_tokens = 1;
    PL_TRY(pl_jsonl_time(jsonl, TIME, true, &row.time_ns));
    PL_TRY(pl_turns_read(&reading->names, jsonl, rows, &row, &waits));
    if (!waits) {
        PL_TRY(pl_turns_check_time(&reading->names, jsonl, &row));
    }
    PL_TRY(pl_jsonl_count(jsonl, OUTPUT, 0, true, &row.output_tokens));
    PL_TRY(read_space(jsonl, &row.name_space));
    PL_TRY(read_prompt(jsonl, &row, rows));
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
    return status;
}

const pl_trace_reader_t pl_trace_reader_tokens = {
    .name         = "tokens",
    .marks        = "JSON lines with \"prompt_token_ids\"",
    .has_tokens   = true,
    .has_prefixes = true,
    .recognises   = recognises,
    .read         = read_rows,
};
