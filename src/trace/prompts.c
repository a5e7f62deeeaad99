/* Prompts: one object {"prompts": [[token, ...], ...]} over any number of
 * lines, as test data of models has it.
 *
 * All arrive at time 0.  Nothing in it says how many tokens to generate: as
 * many as --max-new allows, or 16. */
#include <stdio.h>

#include "trace/jsonl.h"

#define DEFAULT_OUTPUT_TOKENS 16

static const char *const PROMPTS[] = {"prompts", NULL};

static bool recognises(const pl_trace_source_t *source,
                       const struct json_object *first)
{
    (void)source;
    return json_object_object_get_ex(first, PROMPTS[0], NULL) != 0;
}

static pl_status_t read_prompt(const pl_jsonl_t *jsonl,
                               struct json_object *array, size_t i,
                               pl_trace_rows_t *rows)
{
    int32_t max_new    = jsonl->source->max_new;
    pl_trace_row_t row = {.time_ns = PL_TRACE_NO_TIME, .line = (int64_t)i + 1};
    char name[48];

    (void)snprintf(name, sizeof(name), "\"prompts\"[%zu]", i);
    if (!json_object_is_type(array, json_type_array) ||
        (json_object_array_length(array) == 0)) {
        return pl_trace_bad(jsonl->source, 0,
                            "%s is %.40s: expected an array with at least one "
                            "token; fix or remove it",
                            name, json_object_to_json_string(array));
    }
    PL_TRY(pl_jsonl_tokens(jsonl, array, name, &row, rows));
    row.output_tokens = max_new > 0 ? max_new : DEFAULT_OUTPUT_TOKENS;
    return PL_ARRAY_PUSH(&rows->row, row);
}

static pl_status_t read_prompts(pl_jsonl_t *jsonl, pl_trace_rows_t *rows)
{
    struct json_object *array = NULL;
    size_t n                  = 0;

    PL_TRY(pl_jsonl_whole(jsonl));
    PL_TRY(pl_jsonl_find(jsonl, PROMPTS, "an array of prompts", &array));
    if (!json_object_is_type(array, json_type_array) ||
        (json_object_array_length(array) == 0)) {
        return pl_trace_bad(jsonl->source, 0,
                            "\"prompts\" is %.40s: expected an array with at "
                            "least one prompt; fix the file",
                            json_object_to_json_string(array));
    }
    n = json_object_array_length(array);
    for (size_t i = 0; i < n; i++) {
        PL_TRY(
            read_prompt(jsonl, json_object_array_get_idx(array, i), i, rows));
    }
    return PL_OK;
}

static pl_status_t read_rows(const pl_trace_source_t *source,
                             pl_trace_rows_t *rows)
{
    pl_jsonl_t jsonl;
    pl_status_t status;

    PL_TRY(pl_jsonl_open(source, &jsonl));
    status = read_prompts(&jsonl, rows);
    pl_jsonl_close(&jsonl);
    return status;
}

const pl_trace_reader_t pl_trace_reader_prompts = {
    .name         = "prompts",
    .marks        = "one JSON object with \"prompts\"",
    .has_tokens   = true,
    .has_prefixes = true,
    .recognises   = recognises,
    .read         = read_rows,
};
