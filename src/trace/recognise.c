#include "trace/recognise.h"

#include <stdio.h>
#include <string.h>

#include "trace/jsonl.h"
#include "trace/other.h"

#define N_READERS 7

/* Tried in this order.  A row with tokens may bring block ids along; the
 * tokens are the more exact of the two. */
static const pl_trace_reader_t *const READERS[N_READERS] = {
    &pl_trace_reader_tokens,   &pl_trace_reader_bailian,
    &pl_trace_reader_mooncake, &pl_trace_reader_lengths,
    &pl_trace_reader_agentic,  &pl_trace_reader_prompts,
    &pl_trace_reader_csv,
};

/* The object of the first line, or NULL; the caller releases it. */
static pl_status_t first_object(const pl_trace_source_t *source,
                                struct json_object **first_p, int64_t *line_p)
{
    bool more = false;
    pl_jsonl_t jsonl;
    pl_status_t status;

    *first_p = NULL;
    *line_p  = 0;
    PL_TRY(pl_jsonl_open(source, &jsonl));
    status = pl_jsonl_next(&jsonl, &more);
    if ((status == PL_OK) && more) {
        *first_p = json_object_get(jsonl.object);
    }
    *line_p = jsonl.number;
    pl_jsonl_close(&jsonl);
    return status;
}

static pl_status_t name_marks(const pl_trace_source_t *source, int64_t line)
{
    char marks[512] = "";
    size_t at       = 0;

    for (size_t i = 0; i < N_READERS; i++) {
        at += (size_t)snprintf(marks + at, sizeof(marks) - at, "%s%s",
                               i == 0               ? ""
                               : i + 1 == N_READERS ? " or "
                                                    : ", ",
                               READERS[i]->marks);
    }
    return pl_trace_bad(source, line,
                        "no trace format known here: expected %s; see "
                        "docs/traces.md",
                        marks);
}

/* Does the text begin as JSON does? */
static bool looks_like_json(const pl_trace_source_t *source)
{
    for (size_t i = 0; i < source->n_bytes; i++) {
        if (strchr(" \t\r\n", source->text[i]) == NULL) {
            return strchr("{[", source->text[i]) != NULL;
        }
        if (source->text[i] == '\0') {
            return false;
        }
    }
    return true;
}

/* `first` as the readers saw it. */
static pl_status_t unrecognised(const pl_trace_source_t *source,
                                const struct json_object *first)
{
    pl_trace_source_t silent = *source;
    struct json_object *line = NULL;
    int64_t number           = 0;
    pl_status_t status;

    PL_TRY(pl_trace_other(source, first));
    silent.log = NULL;
    if (!looks_like_json(source)) {
        status = first_object(&silent, &line, &number);
        json_object_put(line);
        return status == PL_ERR_MEMORY ? status : name_marks(source, number);
    }
    /* Once more, now aloud: a line that is no JSON object says so itself. */
    PL_TRY(first_object(source, &line, &number));
    status = line != NULL
                 ? name_marks(source, number)
                 : pl_trace_bad(source, 0,
                                "no request in it: expected at least one line; "
                                "check the path and the download");
    json_object_put(line);
    return status;
}

/* The object that the whole text is, or NULL; likewise. */
static pl_status_t whole_object(const pl_trace_source_t *source,
                                struct json_object **whole_p)
{
    pl_jsonl_t jsonl;
    pl_status_t status;

    *whole_p = NULL;
    PL_TRY(pl_jsonl_open(source, &jsonl));
    status = pl_jsonl_whole(&jsonl);
    if (status == PL_OK) {
        *whole_p = json_object_get(jsonl.object);
    }
    pl_jsonl_close(&jsonl);
    return status == PL_ERR_MEMORY ? status : PL_OK;
}

pl_status_t pl_trace_recognise(const pl_trace_source_t *source,
                               const pl_trace_reader_t **reader_p)
{
    pl_trace_source_t silent = *source;
    struct json_object *first;
    int64_t line;
    pl_status_t status;

    silent.log = NULL;
    status     = first_object(&silent, &first, &line);
    if (status == PL_ERR_MEMORY) {
        return status;
    }
    if (first == NULL) {
        PL_TRY(whole_object(&silent, &first));
    }
    *reader_p = NULL;
    for (size_t i = 0; (i < N_READERS) && (*reader_p == NULL); i++) {
        if (READERS[i]->recognises(source, first)) {
            *reader_p = READERS[i];
        }
    }
    if (*reader_p == NULL) {
        status = unrecognised(source, first);
        status = status != PL_OK ? status : PL_ERR_INTERNAL;
    } else {
        status = PL_OK;
    }
    json_object_put(first);
    return status;
}
