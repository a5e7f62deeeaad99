#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/id_map.h"
#include "trace/internal.h"
#include "trace/recognise.h"
#include "trace/unpack.h"

/* DeepSeek-V3's vocabulary. */
#define DEFAULT_VOCAB 129280

pl_trace_params_t pl_trace_params_default(void)
{
    pl_trace_params_t params = {
        .speedup = 1.0, .limit = -1, .passes = 1, .vocab_size = DEFAULT_VOCAB};

    return params;
}

static pl_status_t bad_option(const pl_log_t *log, const char *option,
                              int64_t value, const char *expected)
{
    pl_log(log, PL_LOG_ERROR, "option --%s %lld: expected %s", option,
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
    if (params->id_tokens < 0) {
        return bad_option(log, "trace-block-size", params->id_tokens,
                          "1 or more tokens, or 0 for what is usual");
    }
    if (params->passes < 1) {
        return bad_option(log, "passes", params->passes, "1 or more");
    }
    if (!(params->speedup > 0) || !(params->speedup <= 1e9)) {
        pl_log(log, PL_LOG_ERROR,
               "option --speedup %g: expected more than 0 and at most 1e9",
               params->speedup);
        return PL_ERR_ARGUMENT;
    }
    if (params->max_new < 0) {
        return bad_option(log, "max-new", params->max_new,
                          "1 or more tokens, or 0 for no cap");
    }
    return PL_OK;
}

static pl_status_t no_ids(const pl_trace_t *trace, const char *option,
                          int32_t value, const pl_trace_source_t *source)
{
    pl_log(source->log, PL_LOG_ERROR,
           "option --%s %d: %s holds %s, not block ids; leave the option out",
           option, (int)value, source->name,
           trace->reader->has_tokens ? "tokens" : "lengths");
    return PL_ERR_ARGUMENT;
}

/* What was asked for where a file does not say what its ids stand for. */
static pl_status_t check_id_tokens(const pl_trace_t *trace,
                                   const pl_trace_source_t *source)
{
    int32_t asked = source->id_tokens;

    if (asked == 0) {
        return PL_OK;
    }
    if (trace->reader->has_tokens || !trace->has_prefixes) {
        return no_ids(trace, "trace-block-size", asked, source);
    }
    for (size_t i = 0; i < trace->rows.row.n; i++) {
        if (trace->rows.row.items[i].block_tokens == asked) {
            return PL_OK;
        }
    }
    pl_log(source->log, PL_LOG_WARN,
           "option --trace-block-size %d has no effect: %s says itself what "
           "its ids stand for",
           (int)asked, source->name);
    return PL_OK;
}

/* What ids stand for in the file, and here. */
static pl_status_t set_block_tokens(pl_trace_t *trace, int32_t wanted,
                                    const pl_trace_source_t *source)
{
    int32_t least = INT32_MAX;

    for (size_t i = 0; i < trace->rows.row.n; i++) {
        int32_t own = trace->rows.row.items[i].block_tokens;

        least = own < least ? own : least;
        trace->block_tokens =
            own > trace->block_tokens ? own : trace->block_tokens;
    }
    if (wanted == 0) {
        return PL_OK;
    }
    if (trace->reader->has_tokens || !trace->has_prefixes) {
        return no_ids(trace, "block-tokens", wanted, source);
    }
    if (wanted > least) {
        pl_log(source->log, PL_LOG_ERROR,
               "option --block-tokens %d: expected at most %d, the tokens a "
               "block id of %s stands for",
               (int)wanted, (int)least, source->name);
        return PL_ERR_ARGUMENT;
    }
    trace->block_tokens = wanted;
    trace->is_scaled    = true;
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

static void warn_of_order(const pl_trace_source_t *source,
                          const pl_trace_rows_t *rows, size_t first)
{
    const pl_trace_row_t *row   = rows->row.items;
    const pl_trace_row_t *above = NULL;
    size_t n_back               = 0;
    int64_t first_back          = 0;

    for (size_t i = first; i < rows->row.n; i++) {
        if (row[i].n_after > 0) {
            continue; /* it has no place of its own */
        }
        if ((above != NULL) && (row[i].time_ns < above->time_ns)) {
            first_back = n_back == 0 ? row[i].line : first_back;
            n_back++;
        }
        above = &row[i];
    }
    if (n_back > 0) {
        pl_log(source->log, PL_LOG_WARN,
               "%s:%lld: arrives before the line above it (so do %zu lines in "
               "all): expected ascending timestamps; sorted by arrival",
               source->name, (long long)first_back, n_back);
    }
}

/* Ids of one file are not those of another. */
static pl_status_t set_apart(pl_trace_rows_t *rows, size_t first, uint64_t file,
                             pl_id_map_t *map)
{
    for (size_t i = first; i < rows->ids.n; i++) {
        PL_TRY(pl_id_map_number(map, file, rows->ids.items[i],
                                &rows->ids.items[i]));
    }
    return PL_OK;
}

/* Add the requests of one file. */
static pl_status_t read_source(pl_trace_t *trace, pl_trace_source_t *source)
{
    const pl_trace_reader_t *reader = NULL;
    size_t first                    = trace->rows.row.n;
    char *owned                     = NULL;
    pl_status_t status;

    PL_TRY(pl_trace_unpack(source, &owned));
    skip_byte_order_mark(source);
    PL_TRY_GOTO(status, pl_trace_recognise(source, &reader), out);
    if ((trace->reader != NULL) &&
        (reader->has_tokens != trace->reader->has_tokens)) {
        status = pl_trace_bad(source, 0,
                              "holds %s, unlike the file before it: expected "
                              "files of one kind; convert one of them",
                              reader->has_tokens     ? "tokens"
                              : reader->has_prefixes ? "block ids"
                                                     : "lengths");
        goto out;
    }
    PL_TRY_GOTO(status, reader->read(source, &trace->rows), out);
    if (trace->reader == NULL) {
        trace->reader       = reader;
        trace->has_prefixes = reader->has_prefixes;
    }
    for (size_t i = first; i < trace->rows.row.n; i++) {
        trace->rows.row.items[i].file = source->name;
    }
    trace->is_mixed |= reader != trace->reader;
    trace->has_prefixes = trace->has_prefixes && reader->has_prefixes;
    warn_of_order(source, &trace->rows, first);

out:
    free(owned);
    return status;
}

/* All files are read. */
static pl_status_t finish(pl_trace_t *trace, const pl_trace_params_t *params,
                          const pl_trace_source_t *source)
{
    for (size_t i = 0; i < trace->rows.row.n; i++) {
        pl_trace_row_t *row = &trace->rows.row.items[i];

        row->file = row->file != NULL ? row->file : source->name;
        trace->has_times |= row->time_ns != PL_TRACE_NO_TIME;
    }
    PL_TRY(check_id_tokens(trace, source));
    PL_TRY(set_block_tokens(trace, params->block_tokens, source));
    PL_TRY(pl_trace_order(&trace->rows, source));
    return pl_trace_select(trace, params, source);
}

static pl_status_t open_empty(const pl_trace_params_t *params,
                              const pl_log_t *log, pl_trace_t **trace_p)
{
    pl_trace_t *trace;
    pl_status_t status;

    PL_TRY(check_params(params, log));
    trace = calloc(1, sizeof(*trace));
    if (trace == NULL) {
        return PL_ERR_MEMORY;
    }
    status = pl_trace_set_vocabulary(trace, params, log);
    if (status != PL_OK) {
        pl_trace_close(trace);
        return status;
    }
    *trace_p = trace;
    return PL_OK;
}

static pl_trace_source_t source_of(const pl_trace_params_t *params,
                                   const char *name, const char *text,
                                   size_t n_bytes, const pl_log_t *log)
{
    pl_trace_source_t source = {.name        = name,
                                .text        = text != NULL ? text : "",
                                .n_bytes     = n_bytes,
                                .token_limit = params->token_limit,
                                .id_tokens   = params->id_tokens,
                                .max_new     = params->max_new,
                                .log         = log};

    return source;
}

pl_status_t pl_trace_open_memory(const pl_trace_params_t *params,
                                 const char *name, const char *text,
                                 size_t n_bytes, const pl_log_t *log,
                                 pl_trace_t **trace_p)
{
    pl_trace_source_t source = source_of(params, name, text, n_bytes, log);
    pl_trace_t *trace        = NULL;
    pl_status_t status;

    PL_TRY(open_empty(params, log, &trace));
    PL_TRY_GOTO(status, read_source(trace, &source), err_close);
    PL_TRY_GOTO(status, finish(trace, params, &source), err_close);
    *trace_p = trace;
    return PL_OK;

err_close:
    pl_trace_close(trace);
    return status;
}

pl_status_t pl_trace_open_rows(const pl_trace_params_t *params,
                               const char *name,
                               const pl_trace_reader_t *reader,
                               pl_trace_rows_t *rows, const pl_log_t *log,
                               pl_trace_t **trace_p)
{
    pl_trace_source_t source = source_of(params, name, NULL, 0, log);
    pl_trace_t *trace        = NULL;
    pl_status_t status       = open_empty(params, log, &trace);

    if (status != PL_OK) {
        pl_trace_rows_free(rows);
        return status;
    }
    trace->rows         = *rows;
    trace->reader       = reader;
    trace->has_prefixes = reader->has_prefixes;
    memset(rows, 0, sizeof(*rows));
    PL_TRY_GOTO(status, finish(trace, params, &source), err_close);
    *trace_p = trace;
    return PL_OK;

err_close:
    pl_trace_close(trace);
    return status;
}

static pl_status_t cannot_read(const pl_log_t *log, const char *path, int error)
{
    pl_log(log, PL_LOG_ERROR,
           "%s: cannot be read (%s): expected a trace file; %s", path,
           strerror(error),
           error == EISDIR ? "name one in it, and others with --merge"
                           : "check the path");
    return PL_ERR_INPUT;
}

/* The whole file, which may be a pipe, or stdin ("-"); the caller frees
 * *text_p. */
static pl_status_t read_file(const char *path, const pl_log_t *log,
                             char **text_p, size_t *n_bytes_p)
{
    PL_ARRAY(char) text = {0};
    pl_status_t status  = PL_OK;
    FILE *file =
        strcmp(path, "-") == 0 ? fdopen(dup(0), "rb") : fopen(path, "rb");
    size_t got = 0;

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

static pl_status_t read_path(pl_trace_t *trace, const pl_trace_params_t *params,
                             const char *path, const pl_log_t *log)
{
    char *text     = NULL;
    size_t n_bytes = 0;
    pl_trace_source_t source;
    pl_status_t status;

    PL_TRY(read_file(path, log, &text, &n_bytes));
    source = source_of(params, path, text, n_bytes, log);
    status = read_source(trace, &source);
    free(text);
    return status;
}

static pl_status_t read_paths(pl_trace_t *trace,
                              const pl_trace_params_t *params,
                              const pl_log_t *log)
{
    pl_id_map_t map    = {0};
    pl_status_t status = PL_OK;

    PL_TRY(read_path(trace, params, params->path, log));
    if (params->n_more <= 0) {
        return PL_OK;
    }
    status = set_apart(&trace->rows, 0, 0, &map);
    for (int32_t i = 0; (i < params->n_more) && (status == PL_OK); i++) {
        size_t first = trace->rows.ids.n;

        PL_TRY_GOTO(status, read_path(trace, params, params->more[i], log),
                    out);
        status = set_apart(&trace->rows, first, (uint64_t)i + 1, &map);
    }

out:
    pl_id_map_free(&map);
    return status;
}

pl_status_t pl_trace_open(const pl_trace_params_t *params, const pl_log_t *log,
                          pl_trace_t **trace_p)
{
    pl_trace_t *trace = NULL;
    pl_trace_source_t source;
    pl_status_t status;

    if ((params == NULL) || (trace_p == NULL) ||
        ((params->n_more > 0) && (params->more == NULL))) {
        return PL_ERR_ARGUMENT;
    }
    if (params->path == NULL) {
        pl_log(log, PL_LOG_ERROR, "--trace is missing: expected a trace file");
        return PL_ERR_ARGUMENT;
    }
    PL_TRY(open_empty(params, log, &trace));
    source = source_of(params, params->path, NULL, 0, log);
    PL_TRY_GOTO(status, read_paths(trace, params, log), err_close);
    PL_TRY_GOTO(status, finish(trace, params, &source), err_close);
    *trace_p = trace;
    return PL_OK;

err_close:
    pl_trace_close(trace);
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
    free(trace->after);
    free(trace->banned);
    free(trace);
}

const char *pl_trace_format(const pl_trace_t *trace)
{
    return trace->is_mixed ? "mixed" : trace->reader->name;
}

bool pl_trace_has_prefixes(const pl_trace_t *trace)
{
    return trace->has_prefixes;
}

int32_t pl_trace_block_tokens(const pl_trace_t *trace)
{
    return trace->block_tokens;
}

int32_t pl_trace_count(const pl_trace_t *trace)
{
    return trace->count;
}
