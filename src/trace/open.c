#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/internal.h"
#include "trace/jsonl.h"

#define N_READERS 3

/* Tried in this order.  A row with tokens may bring block ids along; the
 * tokens are the more exact of the two. */
static const pl_trace_reader_t *const READERS[N_READERS] = {
    &pl_trace_reader_tokens,
    &pl_trace_reader_mooncake,
    &pl_trace_reader_prompts,
};

/* DeepSeek-V3's vocabulary. */
#define DEFAULT_VOCAB 129280

pl_trace_params_t pl_trace_params_default(void)
{
    pl_trace_params_t params = {
        .limit = -1, .passes = 1, .vocab_size = DEFAULT_VOCAB};

    return params;
}

static pl_status_t bad_option(const pl_log_t *log, const char *option,
                              int64_t value, const char *expected)
{
    pl_log(log, PL_LOG_ERROR, "--%s %lld: expected %s", option,
           (long long)value, expected);
    return PL_ERR_ARGUMENT;
}

static pl_status_t check_params(const pl_trace_params_t *params,
                                const pl_log_t *log)
{
    if (params->offset < 0) {
        return bad_option(log, "offset", params->offset, "0 or more requests");
    }
    if ((params->limit < -1) || (params->limit == 0)) {
        return bad_option(log, "limit", params->limit,
                          "1 or more requests, or -1 for all");
    }
    if (params->block_tokens < 0) {
        return bad_option(log, "block-tokens", params->block_tokens,
                          "1 or more tokens, or 0 for the trace's own");
    }
    if (params->passes < 1) {
        return bad_option(log, "passes", params->passes, "1 or more");
    }
    if (params->max_new < 0) {
        return bad_option(log, "max-new", params->max_new,
                          "1 or more tokens, or 0 for no cap");
    }
    return PL_OK;
}

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

static pl_status_t unrecognised(const pl_trace_source_t *source)
{
    struct json_object *first;
    int64_t line;
    pl_status_t status;

    /* Once more, now aloud: a line that is no JSON object says so itself. */
    status = first_object(source, &first, &line);
    if (status == PL_OK) {
        status = first == NULL
                     ? pl_trace_bad(source, 0,
                                    "no request in it: expected at least one "
                                    "line; check the path and the download")
                     : pl_trace_bad(source, line,
                                    "no trace format known here: expected %s, "
                                    "%s or %s; see datasets/README.md",
                                    READERS[0]->marks, READERS[1]->marks,
                                    READERS[2]->marks);
    }
    json_object_put(first);
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

static pl_status_t find_reader(const pl_trace_source_t *source,
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
    json_object_put(first);
    if (*reader_p == NULL) {
        status = unrecognised(source);
        return status != PL_OK ? status : PL_ERR_INTERNAL;
    }
    return PL_OK;
}

static pl_status_t set_block_tokens(pl_trace_t *trace, int32_t wanted,
                                    const pl_trace_source_t *source)
{
    int32_t own = trace->reader->block_tokens;

    if ((own == 0) && (wanted != 0)) {
        pl_log(source->log, PL_LOG_ERROR,
               "--block-tokens %d: %s holds tokens, not block ids; leave the "
               "option out",
               (int)wanted, source->name);
        return PL_ERR_ARGUMENT;
    }
    if (wanted > own) {
        pl_log(source->log, PL_LOG_ERROR,
               "--block-tokens %d: expected at most %d, the tokens a block id "
               "of %s stands for",
               (int)wanted, (int)own, source->name);
        return PL_ERR_ARGUMENT;
    }
    trace->block_tokens = wanted > 0 ? wanted : own;
    return PL_OK;
}

static void skip_byte_order_mark(pl_trace_source_t *source)
{
    static const char MARK[] = {'\xEF', '\xBB', '\xBF'};

    if ((source->n_bytes >= sizeof(MARK)) &&
        (memcmp(source->text, MARK, sizeof(MARK)) == 0)) {
        source->text += sizeof(MARK);
        source->n_bytes -= sizeof(MARK);
    }
}

pl_status_t pl_trace_open_memory(const pl_trace_params_t *params,
                                 const char *name, const char *text,
                                 size_t n_bytes, const pl_log_t *log,
                                 pl_trace_t **trace_p)
{
    pl_trace_source_t source = {.name        = name,
                                .text        = text != NULL ? text : "",
                                .n_bytes     = n_bytes,
                                .token_limit = params->token_limit,
                                .max_new     = params->max_new,
                                .log         = log};
    pl_trace_t *trace;
    pl_status_t status;

    PL_TRY(check_params(params, log));
    trace = calloc(1, sizeof(*trace));
    if (trace == NULL) {
        return PL_ERR_MEMORY;
    }
    PL_TRY_GOTO(status, pl_trace_set_vocabulary(trace, params, log), err_close);
    skip_byte_order_mark(&source);
    PL_TRY_GOTO(status, find_reader(&source, &trace->reader), err_close);
    PL_TRY_GOTO(status, set_block_tokens(trace, params->block_tokens, &source),
                err_close);
    PL_TRY_GOTO(status, trace->reader->read(&source, &trace->rows), err_close);
    PL_TRY_GOTO(status, pl_trace_select(trace, params, &source), err_close);
    *trace_p = trace;
    return PL_OK;

err_close:
    pl_trace_close(trace);
    return status;
}

static pl_status_t cannot_read(const pl_log_t *log, const char *path, int error)
{
    pl_log(log, PL_LOG_ERROR,
           "%s: cannot be read (%s): expected a trace file; check --trace",
           path, strerror(error));
    return PL_ERR_INPUT;
}

/* The whole file, which may be a pipe; the caller frees *text_p. */
static pl_status_t read_file(const char *path, const pl_log_t *log,
                             char **text_p, size_t *n_bytes_p)
{
    PL_ARRAY(char) text = {0};
    pl_status_t status  = PL_OK;
    FILE *file          = fopen(path, "rb");
    size_t got          = 0;

    if (file == NULL) {
        return cannot_read(log, path, errno);
    }
    do {
        PL_TRY_GOTO(status, PL_ARRAY_RESERVE(&text, text.n + 65536),
                    err_free_text);
        got = fread(text.items + text.n, 1, text.capacity - text.n, file);
        text.n += got;
    } while (got > 0);
    if (ferror(file) != 0) {
        status = cannot_read(log, path, errno);
        goto err_free_text;
    }
    (void)fclose(file); /* only read: nothing can be lost */
    *text_p    = text.items;
    *n_bytes_p = text.n;
    return PL_OK;

err_free_text:
    PL_ARRAY_FREE(&text);
    (void)fclose(file);
    return status;
}

pl_status_t pl_trace_open(const pl_trace_params_t *params, const pl_log_t *log,
                          pl_trace_t **trace_p)
{
    char *text     = NULL;
    size_t n_bytes = 0;
    pl_status_t status;

    if ((params == NULL) || (trace_p == NULL)) {
        return PL_ERR_ARGUMENT;
    }
    if (params->path == NULL) {
        pl_log(log, PL_LOG_ERROR, "--trace is missing: expected a trace file");
        return PL_ERR_ARGUMENT;
    }
    PL_TRY(check_params(params, log));
    PL_TRY(read_file(params->path, log, &text, &n_bytes));
    status =
        pl_trace_open_memory(params, params->path, text, n_bytes, log, trace_p);
    free(text);
    return status;
}

void pl_trace_close(pl_trace_t *trace)
{
    if (trace == NULL) {
        return;
    }
    pl_trace_rows_free(&trace->rows);
    free(trace->requests);
    free(trace->times_ns);
    free(trace->banned);
    free(trace);
}

const char *pl_trace_format(const pl_trace_t *trace)
{
    return trace->reader->name;
}

int32_t pl_trace_block_tokens(const pl_trace_t *trace)
{
    return trace->block_tokens;
}

int32_t pl_trace_count(const pl_trace_t *trace)
{
    return trace->count;
}
