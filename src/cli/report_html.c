/* pagelane report F: a page that a person would rather look at, and of a
 * snapshot a trace of what happened. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/exit_status.h"
#include "cli/output_file.h"
#include "cli/report_data.h"
#include "cli/report_sweep.h"

/* ---- the page ---- */

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash == NULL ? path : slash + 1;
}

static void describe(const pl_report_data_t *data, char *text, size_t n)
{
    const char *ownership = pl_report_text(data, "layout", "ownership");
    const char *executor  = pl_report_text(data, "config", "executor");

    if (data->fleet.file.n > 0) {
        pl_report_describe_fleet(data, text, n);
        return;
    }
    (void)snprintf(text, n,
                   "%" PRId64 " prefill and %" PRId64
                   " decode ranks, pages of %" PRId64 " tokens, chunks of "
                   "%" PRId64 ", %s, executor %s; times are virtual.",
                   data->layout.n_lanes, data->layout.n_decode_ranks,
                   data->layout.page_tokens, data->layout.chunk_tokens,
                   ownership == NULL ? "?" : ownership,
                   executor == NULL ? "?" : executor);
}

static pl_status_t put_page(void *context, FILE *file)
{
    const pl_report_data_t *data = context;
    const pl_cli_t *cli          = data->cli;
    pl_html_t *page;
    pl_status_t status;
    char title[320], about[512];

    (void)snprintf(title, sizeof(title), "pagelane report of %s",
                   file_name(cli->words[0]));
    describe(data, about, sizeof(about));
    page   = pl_html_open(title, about);
    status = pl_report_put_advice(page, data);
    if (status == PL_OK) {
        pl_report_put_fleet(page, data);
        pl_report_put_series(page, data);
        status = pl_report_put_times(page, data);
    }
    if (status == PL_OK) {
        pl_report_put_curve(page, data);
        pl_report_put_facts(page, data);
        status = pl_html_write(page, file);
    }
    pl_html_close(page);
    return status;
}

/* ---- the verb ---- */

static pl_status_t put_trace(void *context, FILE *file)
{
    return pl_report_perfetto(context, file);
}

/* The page goes to --output or stdout, unless --perfetto alone is asked for. */
static pl_status_t write_all(pl_report_data_t *data)
{
    const pl_cli_t *cli   = data->cli;
    const pl_options_t *o = &cli->options;

    if ((o->output != NULL) && (o->perfetto != NULL) &&
        (strcmp(o->output, o->perfetto) == 0)) {
        pl_log(&cli->log, PL_LOG_ERROR,
               "option --perfetto %s: --output has the same name; name another "
               "file",
               o->perfetto);
        return PL_ERR_ARGUMENT;
    }
    if (o->perfetto != NULL) {
        PL_TRY(pl_output_write(cli, "perfetto", o->perfetto, put_trace, data));
    }
    return (o->output != NULL) || (o->perfetto == NULL)
               ? pl_output_write(cli, "output", o->output, put_page, data)
               : PL_OK;
}

static pl_status_t report_snapshot(const pl_cli_t *cli,
                                   const pl_snapshot_t *snapshot)
{
    pl_report_data_t data = {0};
    pl_status_t status    = pl_report_load(cli, snapshot, &data);

    if ((status == PL_OK) && (cli->options.trace != NULL)) {
        status = pl_report_load_curve(cli->options.trace, &data);
    }
    if (status == PL_OK) {
        status = write_all(&data);
    }
    pl_report_free(&data);
    return status;
}

int pl_cli_report(const pl_cli_t *cli)
{
    pl_snapshot_t *snapshot = NULL;
    pl_status_t status =
        pl_snapshot_open_any(cli->words[0], &cli->log, &snapshot);

    if (status == PL_OK) {
        status = pl_snapshot_is_sweep(snapshot)
                     ? pl_report_sweep(cli, snapshot)
                     : report_snapshot(cli, snapshot);
    }
    pl_snapshot_close(snapshot);
    return pl_status_exit(status);
}
