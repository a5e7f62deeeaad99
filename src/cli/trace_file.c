#include "cli/trace_file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output_file.h"
#include "store/file.h"
#include "trace/write.h"

pl_status_t pl_cli_number(const char *option, const char *text, bool zero,
                          const pl_log_t *log, double *value_p)
{
    char *end    = NULL;
    double value = text != NULL ? strtod(text, &end) : 0;

    if ((text == NULL) || (end == text) || (*end != '\0') || !isfinite(value) ||
        (value < 0) || ((value == 0) && !zero)) {
        pl_log(log, PL_LOG_ERROR,
               "option --%s %s: expected a number %s 0, as 2 or 0.5", option,
               text != NULL ? text : "", zero ? "from" : "above");
        return PL_ERR_ARGUMENT;
    }
    *value_p = value;
    return PL_OK;
}

pl_status_t pl_cli_trace_params(const pl_options_t *options,
                                const pl_log_t *log, pl_trace_params_t *params)
{
    PL_TRY(pl_cli_number("speedup", options->speedup, false, log,
                         &params->speedup));
    params->more         = (const char *const *)options->merge.items;
    params->n_more       = (int32_t)options->merge.n;
    params->offset       = options->offset;
    params->limit        = options->limit;
    params->block_tokens = (int32_t)options->block_tokens;
    params->id_tokens    = (int32_t)options->trace_block_size;
    params->passes       = (int32_t)options->passes;
    return PL_OK;
}

pl_status_t pl_cli_no_stdin(const char *option, const char *path,
                            const char *why, const pl_log_t *log)
{
    if ((path == NULL) || (strcmp(path, "-") != 0)) {
        return PL_OK;
    }
    pl_log(log, PL_LOG_ERROR,
           "option --%s -: stdin is read once, by one process, but %s; name a "
           "file",
           option, why);
    return PL_ERR_ARGUMENT;
}

pl_status_t pl_cli_run_trace(const pl_options_t *options, const pl_log_t *log,
                             pl_trace_params_t *params)
{
    PL_TRY(pl_cli_trace_params(options, log, params));
    params->paced   = options->pace == PL_OPT_PACE_TRACE;
    params->max_new = (int32_t)options->max_new;
    params->seed    = (uint64_t)options->seed;
    return PL_OK;
}

pl_status_t pl_cli_open_trace(const pl_options_t *options, const pl_log_t *log,
                              pl_trace_params_t *params, pl_trace_t **trace_p)
{
    if (options->trace == NULL) {
        pl_log(log, PL_LOG_ERROR,
               "option --trace is missing; name a file of requests");
        return PL_ERR_ARGUMENT;
    }
    params->path = options->trace;
    PL_TRY(pl_trace_open(params, log, trace_p));
    if (!pl_trace_has_prefixes(*trace_p)) {
        pl_log(log, PL_LOG_WARN,
               "%s does not tell which prompts begin alike: each is taken as "
               "another one, and hits say nothing",
               options->trace);
    }
    return PL_OK;
}

/* ---- writing ---- */

static pl_status_t put(const pl_cli_t *cli, const pl_trace_t *trace,
                       const pl_trace_write_params_t *params, FILE *file,
                       const char *name)
{
    pl_status_t status = pl_trace_write(trace, params, file, &cli->log);

    if (status == PL_ERR_IO) {
        pl_log(&cli->log, PL_LOG_ERROR, "%s: cannot be written (%s)", name,
               strerror(errno));
    }
    return status;
}

static pl_status_t put_to_file(const pl_cli_t *cli, const pl_trace_t *trace,
                               const pl_trace_write_params_t *params)
{
    const char *path = cli->options.output;
    char *partial    = NULL;
    pl_status_t status;
    FILE *file;

    PL_TRY(pl_output_check(cli, "output", path));
    PL_TRY(pl_file_partial(path, &cli->log, &partial));
    file = fopen(partial, "wb");
    if (file == NULL) {
        pl_log(&cli->log, PL_LOG_ERROR,
               "option --output %s: cannot be written (%s); name a file in a "
               "folder that is there",
               path, strerror(errno));
        free(partial);
        return PL_ERR_IO;
    }
    status = put(cli, trace, params, file, path);
    if ((fclose(file) != 0) && (status == PL_OK)) {
        pl_log(&cli->log, PL_LOG_ERROR, "%s: cannot be written (%s)", path,
               strerror(errno));
        status = PL_ERR_IO;
    }
    if (status == PL_OK) {
        status = pl_file_sync(partial, &cli->log);
    }
    if (status == PL_OK) {
        status = pl_file_publish(partial, path, &cli->log);
    }
    if (status != PL_OK) {
        pl_file_discard(partial);
    }
    free(partial);
    return status;
}

pl_status_t pl_cli_trace_write(const pl_cli_t *cli, const pl_trace_t *trace)
{
    const pl_options_t *o          = &cli->options;
    pl_key_t key                   = {0};
    pl_trace_write_params_t params = {.format    = o->trace_format,
                                      .id_tokens = (int32_t)o->id_tokens};
    pl_status_t status;

    if (o->anonymize != NULL) {
        PL_TRY(pl_key_read(o->anonymize, &cli->log, &key));
        params.key = &key;
    }
    status = o->output != NULL ? put_to_file(cli, trace, &params)
                               : put(cli, trace, &params, stdout, "stdout");
    pl_key_free(&key);
    return status;
}
