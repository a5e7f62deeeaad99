#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/text.h"
#include "cli/report.h"
#include "cli/validate.h"

enum { N_WORST = 10 };

/* As vLLM calls them. */
static const char *const NAMES[PL_VALIDATE_TIMES] = {
    [PL_VALIDATE_TTFT] = "ttft",
    [PL_VALIDATE_TPOT] = "tpot",
    [PL_VALIDATE_E2E]  = "e2el"};

static double ms(int64_t ns)
{
    return (double)ns / 1e6;
}

/* ---- tables ---- */

static void cell_ms(pl_table_t *table, int64_t ns)
{
    if (ns > 0) {
        pl_table_cell(table, "%.1f", ms(ns));
    } else {
        pl_table_cell(table, "%s", "-");
    }
}

static void cell_percent(pl_table_t *table, bool is_known, double quotient)
{
    if (is_known) {
        pl_table_cell(table, "%.1f %%", 100 * quotient);
    } else {
        pl_table_cell(table, "%s", "-");
    }
}

static void metric_row(pl_table_t *table, const char *name,
                       const pl_validate_metric_t *m)
{
    pl_table_cell(table, "%s", name);
    pl_table_cell(table, "%" PRId64, m->n);
    cell_ms(table, m->predicted_p50_ns);
    cell_ms(table, m->measured_p50_ns);
    cell_percent(table, m->n > 0, m->mape);
    cell_percent(table, m->n > 0, m->median_error);
    if (isnan(m->r)) {
        pl_table_cell(table, "%s", "-");
    } else {
        pl_table_cell(table, "%.3f", m->r);
    }
}

static pl_status_t print_metrics(const pl_validation_report_t *report,
                                 const pl_validation_t *validation)
{
    pl_table_t *table =
        pl_table_open("ms<,requests>,predicted median>,measured median>,"
                      "MAPE>,median error>,r>");

    for (int i = 0; i < PL_VALIDATE_TIMES; i++) {
        metric_row(table, NAMES[i], &validation->metrics[i]);
    }
    pl_table_cell(table, "%s", "itl, all gaps");
    pl_table_cell(table, "%s", "");
    cell_ms(table, validation->itl_p50_ns);
    cell_ms(table, report->itl_p50_ns);
    pl_table_cell(table, "%s", "");
    pl_table_cell(table, "%s", "");
    pl_table_cell(table, "%s", "");
    return pl_report_table(table);
}

static pl_status_t print_worst(const pl_validation_report_t *report)
{
    size_t n          = report->n_pairs < N_WORST ? report->n_pairs : N_WORST;
    pl_table_t *table = pl_table_open(
        "worst<,in>,out>,ttft>,measured>,tpot>,measured>,e2el>,measured>,"
        "error>,of<");

    for (size_t i = 0; i < n; i++) {
        const pl_validate_pair_t *pair = &report->pairs[i];
        pl_validate_time_t which       = PL_VALIDATE_TTFT;
        double error                   = pl_validate_error(pair, &which);

        pl_table_cell(table, "%" PRId64, pair->number);
        pl_table_cell(table, "%" PRId32, pair->input_tokens);
        pl_table_cell(table, "%" PRId32, pair->output_tokens);
        for (int t = 0; t < PL_VALIDATE_TIMES; t++) {
            cell_ms(table, pair->predicted_ns[t]);
            cell_ms(table, pair->measured_ns[t]);
        }
        if (error >= 0) {
            pl_table_cell(table, "%.1f %%", 100 * error);
            pl_table_cell(table, "%s", NAMES[which]);
        } else {
            pl_table_cell(table, "%s", "-");
            pl_table_cell(table, "%s", "");
        }
    }
    return pl_report_table(table);
}

static void print_head(const pl_validation_report_t *report)
{
    printf("%zu request%s of a benchmark (%s), which began when %s",
           report->bench->requests.n,
           pl_text_s((int64_t)report->bench->requests.n), report->bench->format,
           report->bench->is_timed      ? "it says"
           : report->bench->is_replayed ? "the trace says"
                                        : "its rate and concurrency make them");
    if (report->prompts != NULL) {
        printf("; prompts of the trace, found %s.\n", report->matched);
    } else {
        printf("; no two prompts begin alike.\n");
    }
    if (report->n_failed > 0) {
        printf("%" PRId64 " failed when they were measured and are left out.\n",
               report->n_failed);
    }
    if (report->n_unstreamed > 0) {
        printf("%" PRId64 " came in one piece (no streaming): when their first "
               "token was there is not known.\n",
               report->n_unstreamed);
    }
    if (report->n_unpredicted > 0) {
        printf("%" PRId64 " did not complete in the simulation.\n",
               report->n_unpredicted);
    }
    printf("\n");
}

static pl_status_t print_fitted(const pl_cli_t *cli,
                                const pl_validation_report_t *report)
{
    const pl_fit_t *fit = report->fit;

    printf("Fitted: prefill takes %.3f and decode %.3f of what was reckoned "
           "(--calibrate %s).\n\n",
           (double)fit->prefill_millionths / 1e6,
           (double)fit->decode_millionths / 1e6, cli->options.fit);
    PL_TRY(print_metrics(report, report->fitted));
    printf("It covers prompts of %" PRId32 " to %" PRId32
           " tokens, answers of %" PRId32 " to %" PRId32 ", and up to %" PRId32
           " requests at a time.\n\n",
           fit->least_input, fit->most_input, fit->least_output,
           fit->most_output, fit->most_concurrent);
    return PL_OK;
}

static pl_status_t print_tables(const pl_cli_t *cli,
                                const pl_validation_report_t *report)
{
    print_head(report);
    PL_TRY(print_metrics(report, report->plain));
    if (report->fitted != NULL) {
        PL_TRY(print_fitted(cli, report));
    }
    PL_TRY(print_worst(report));
    pl_covered_print(&report->plain->covered);
    return PL_OK;
}

/* ---- JSON ---- */

static void add_metrics(json_object *object, const pl_validation_t *validation)
{
    char key[64];

    for (int i = 0; i < PL_VALIDATE_TIMES; i++) {
        const pl_validate_metric_t *m = &validation->metrics[i];

        (void)snprintf(key, sizeof(key), "%s_requests", NAMES[i]);
        pl_json_integer(object, key, m->n);
        if (m->n == 0) {
            continue;
        }
        (void)snprintf(key, sizeof(key), "%s_mape", NAMES[i]);
        pl_json_real(object, key, m->mape);
        (void)snprintf(key, sizeof(key), "%s_median_error", NAMES[i]);
        pl_json_real(object, key, m->median_error);
        if (!isnan(m->r)) {
            (void)snprintf(key, sizeof(key), "%s_r", NAMES[i]);
            pl_json_real(object, key, m->r);
        }
        (void)snprintf(key, sizeof(key), "predicted_median_%s_ms", NAMES[i]);
        pl_json_real(object, key, ms(m->predicted_p50_ns));
        (void)snprintf(key, sizeof(key), "measured_median_%s_ms", NAMES[i]);
        pl_json_real(object, key, ms(m->measured_p50_ns));
    }
    if (validation->itl_p50_ns > 0) {
        pl_json_real(object, "predicted_median_itl_ms",
                     ms(validation->itl_p50_ns));
    }
}

static json_object *request_json(const pl_validate_pair_t *pair)
{
    json_object *object      = json_object_new_object();
    pl_validate_time_t which = PL_VALIDATE_TTFT;
    double error             = pl_validate_error(pair, &which);
    char key[64];

    pl_json_integer(object, "request", pair->number);
    pl_json_integer(object, "input_tokens", pair->input_tokens);
    pl_json_integer(object, "output_tokens", pair->output_tokens);
    for (int i = 0; i < PL_VALIDATE_TIMES; i++) {
        if (pair->predicted_ns[i] > 0) {
            (void)snprintf(key, sizeof(key), "predicted_%s_ms", NAMES[i]);
            pl_json_real(object, key, ms(pair->predicted_ns[i]));
        }
        if (pair->measured_ns[i] > 0) {
            (void)snprintf(key, sizeof(key), "measured_%s_ms", NAMES[i]);
            pl_json_real(object, key, ms(pair->measured_ns[i]));
        }
    }
    if (error >= 0) {
        pl_json_real(object, "error", error);
        pl_json_text(object, "error_of", NAMES[which]);
    }
    return object;
}

static json_object *fitted_json(const pl_validation_report_t *report)
{
    json_object *object = json_object_new_object();

    pl_json_real(object, "prefill_scale",
                 (double)report->fit->prefill_millionths / 1e6);
    pl_json_real(object, "decode_scale",
                 (double)report->fit->decode_millionths / 1e6);
    add_metrics(object, report->fitted);
    return object;
}

static pl_status_t print_json(const pl_validation_report_t *report)
{
    json_object *root  = json_object_new_object();
    json_object *worst = json_object_new_array();

    pl_json_text(root, "format", report->bench->format);
    pl_json_text(root, "start_times",
                 report->bench->is_timed      ? "measured"
                 : report->bench->is_replayed ? "trace"
                                              : "reckoned");
    pl_json_text(root, "prompts",
                 report->prompts != NULL ? report->matched : "unlike");
    pl_json_integer(root, "requests", (int64_t)report->bench->requests.n);
    pl_json_integer(root, "failed", report->n_failed);
    pl_json_integer(root, "unstreamed", report->n_unstreamed);
    pl_json_integer(root, "unpredicted", report->n_unpredicted);
    add_metrics(root, report->plain);
    if (report->itl_p50_ns > 0) {
        pl_json_real(root, "measured_median_itl_ms", ms(report->itl_p50_ns));
    }
    pl_covered_json(root, &report->plain->covered);
    if (report->fitted != NULL) {
        json_object_object_add(root, "fitted", fitted_json(report));
    }
    for (size_t i = 0; (i < report->n_pairs) && (i < N_WORST); i++) {
        json_object_array_add(worst, request_json(&report->pairs[i]));
    }
    json_object_object_add(root, "worst", worst);
    return pl_json_print(root, stdout);
}

pl_status_t pl_validation_print(const pl_cli_t *cli,
                                const pl_validation_report_t *report)
{
    return cli->options.json ? print_json(report) : print_tables(cli, report);
}
