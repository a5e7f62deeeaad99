/* pagelane sim --validate: predicted beside measured, and the factors by which
 * both agree. */
#include "cli/validate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/exit_status.h"
#include "cli/output_file.h"
#include "cli/planned.h"
#include "cli/run.h"
#include "cli/trace_file.h"
#include "sim/detail.h"
#include "trace/played.h"

enum { MOST_ROUNDS = 24 };

typedef struct validating {
    pl_cli_t cli; /* of the simulations */
    pl_bench_t bench;
    pl_trace_t *prompts; /* NULL: no trace was named */
    const char *matched;
    PL_ARRAY(pl_trace_played_t) played;            /* by time, as `bench` is */
    PL_ARRAY(const pl_bench_request_t *) measured; /* of each played */
    pl_validate_pair_t *pairs;                     /* [played.n] */
    size_t n_pairs;
    pl_validation_t result;
} validating_t;

/* ---- what is simulated ---- */

static pl_status_t open_prompts(validating_t *v)
{
    const pl_options_t *o    = &v->cli.options;
    pl_trace_params_t params = pl_trace_params_default();

    if (o->trace == NULL) {
        return PL_OK;
    }
    PL_TRY(pl_cli_trace_params(o, &v->cli.log, &params));
    params.path  = o->trace;
    params.paced = true;
    return pl_trace_open(&params, &v->cli.log, &v->prompts);
}

/* The requests to simulate: those that did not fail. */
static pl_status_t collect(validating_t *v, const int32_t *which)
{
    for (size_t i = 0; i < v->bench.requests.n; i++) {
        const pl_bench_request_t *request = &v->bench.requests.items[i];
        pl_trace_played_t played          = {.time_ns       = request->start_ns,
                                             .input_tokens  = request->input_tokens,
                                             .output_tokens = request->output_tokens,
                                             .prompt        = which[i],
                                             .line          = request->number};

        if (!request->failed) {
            PL_TRY(PL_ARRAY_PUSH(&v->played, played));
            PL_TRY(PL_ARRAY_PUSH(&v->measured, request));
        }
    }
    v->pairs = calloc(v->played.n, sizeof(*v->pairs));
    return v->pairs == NULL ? PL_ERR_MEMORY : PL_OK;
}

static pl_status_t read_bench(validating_t *v)
{
    const char *path = v->cli.options.validate;

    return pl_validate_is_run(path)
               ? pl_validate_read_run(path, &v->cli.log, &v->bench)
               : pl_bench_read(path, &v->cli.log, &v->bench);
}

static pl_status_t prepare(validating_t *v)
{
    int32_t *which;
    pl_status_t status;

    PL_TRY(read_bench(v));
    PL_TRY(open_prompts(v));
    which = calloc(v->bench.requests.n, sizeof(*which));
    if (which == NULL) {
        return PL_ERR_MEMORY;
    }
    status =
        pl_validate_match(&v->cli, v->prompts, &v->bench, which, &v->matched);
    if (status == PL_OK) {
        status = collect(v, which);
    }
    free(which);
    return status;
}

/* ---- a simulation ---- */

static pl_status_t open_played(void *context, const pl_trace_params_t *params,
                               const pl_log_t *log, pl_trace_t **trace_p)
{
    validating_t *v = context;

    return pl_trace_open_played(params, v->cli.options.validate,
                                v->played.items, v->played.n, v->prompts, log,
                                trace_p);
}

static pl_validate_pair_t pair_of(const pl_bench_request_t *request,
                                  const pl_record_t *record)
{
    static const pl_metric_time_t TIMES[PL_VALIDATE_TIMES] = {
        [PL_VALIDATE_TTFT] = PL_METRIC_TTFT,
        [PL_VALIDATE_TPOT] = PL_METRIC_TPOT,
        [PL_VALIDATE_E2E]  = PL_METRIC_E2E};
    pl_validate_pair_t pair = {
        .number        = request->number,
        .input_tokens  = record->prompt_tokens,
        .output_tokens = record->output_tokens,
        .start_ns      = request->start_ns,
        .end_ns = request->e2e_ns > 0 ? request->start_ns + request->e2e_ns : 0,
        .measured_ns = {[PL_VALIDATE_TTFT] = request->ttft_ns,
                        [PL_VALIDATE_TPOT] = pl_bench_tpot_ns(request),
                        [PL_VALIDATE_E2E]  = request->e2e_ns}};

    for (int i = 0; i < PL_VALIDATE_TIMES; i++) {
        int64_t ns = 0;

        pair.predicted_ns[i] = pl_metrics_time(record, TIMES[i], &ns) ? ns : 0;
    }
    return pair;
}

static pl_status_t hold_against(void *context, const pl_outcome_t *outcome,
                                const pl_run_results_t *results)
{
    validating_t *v      = context;
    pl_metrics_t metrics = {0};
    pl_detail_t detail   = {0};
    pl_slo_t slo         = {0};

    (void)results;
    v->n_pairs = 0;
    for (int32_t i = 0; i < outcome->n; i++) {
        const pl_record_t *record = &outcome->records[i];

        if (pl_metrics_counts(record)) {
            v->pairs[v->n_pairs++] = pair_of(v->measured.items[i], record);
        }
    }
    for (int i = 0; i < PL_VALIDATE_TIMES; i++) {
        PL_TRY(pl_validate_metric(v->pairs, v->n_pairs, (pl_validate_time_t)i,
                                  &v->result.metrics[i]));
    }
    PL_TRY(pl_metrics_of(outcome->records, outcome->n, &metrics));
    PL_TRY(pl_detail_make(outcome, &metrics, &slo, &detail));
    v->result.itl_p50_ns = detail.itl.p50_ns;
    return pl_covered_find(&v->cli, outcome, &v->result.covered);
}

static int simulate(validating_t *v)
{
    pl_run_hooks_t hooks = {
        .open_trace = open_played, .done = hold_against, .context = v};

    return pl_status_exit(pl_cli_run_with(&v->cli, &hooks));
}

/* ---- the fit ---- */

static int simulate_with(validating_t *v, const pl_fit_t *fit)
{
    v->cli.options.prefill_millionths = fit->prefill_millionths;
    v->cli.options.decode_millionths  = fit->decode_millionths;
    v->cli.options.is_again           = true;
    return simulate(v);
}

/* Step by step to factors by which the medians agree; the best of all that were
 * tried stays.  The exit status. */
static int find_factors(validating_t *v, pl_fit_t *best)
{
    pl_fit_t fit    = {.prefill_millionths = 1000000,
                       .decode_millionths  = 1000000};
    double least    = -1;
    bool is_done    = false;
    char *snapshot  = v->cli.options.snapshot;
    int exit_status = 0;

    v->cli.options.snapshot = NULL; /* that was the first one's */
    for (int i = 0; !is_done && (i < MOST_ROUNDS) && (exit_status == 0); i++) {
        const pl_validate_metric_t *m = v->result.metrics;
        double error;

        exit_status = simulate_with(v, &fit);
        error       = m[PL_VALIDATE_TTFT].mape + m[PL_VALIDATE_TPOT].mape;
        if ((exit_status == 0) && ((least < 0) || (error < least))) {
            least = error;
            *best = fit;
        }
        is_done =
            pl_validate_step(&m[PL_VALIDATE_TTFT], &m[PL_VALIDATE_TPOT], &fit);
    }
    if (exit_status == 0) {
        exit_status = simulate_with(v, best);
    }
    v->cli.options.snapshot = snapshot;
    return exit_status;
}

typedef struct calibration {
    const validating_t *v;
    const pl_fit_t *fit;
} calibration_t;

/* What --calibrate reads, and for people of what it is. */
static pl_status_t put_calibration(void *context, FILE *file)
{
    const calibration_t *c = context;
    const pl_options_t *o  = &c->v->cli.options;
    const pl_fit_t *f      = c->fit;
    json_object *root      = json_object_new_object();
    json_object *fit       = json_object_new_object();

    pl_json_text(fit, "model", o->model);
    pl_json_text(fit, "hardware", o->hardware);
    pl_json_text(fit, "format", c->v->bench.format);
    pl_json_integer(fit, "prefill_ranks", o->ranks - o->decode_ranks);
    pl_json_integer(fit, "decode_ranks", o->decode_ranks);
    pl_json_real(fit, "prefill_scale", (double)f->prefill_millionths / 1e6);
    pl_json_real(fit, "decode_scale", (double)f->decode_millionths / 1e6);
    pl_json_integer(fit, "requests", f->n_requests);
    pl_json_integer(fit, "least_input_tokens", f->least_input);
    pl_json_integer(fit, "most_input_tokens", f->most_input);
    pl_json_integer(fit, "least_output_tokens", f->least_output);
    pl_json_integer(fit, "most_output_tokens", f->most_output);
    pl_json_integer(fit, "most_concurrent", f->most_concurrent);
    json_object_object_add(root, "fit", fit);
    return pl_json_print(root, file);
}

static pl_status_t write_calibration(const validating_t *v, const pl_fit_t *fit)
{
    calibration_t c = {v, fit};

    return pl_output_write(&v->cli, "fit", v->cli.options.fit, put_calibration,
                           &c);
}

/* Before anything is simulated. */
static pl_status_t check_outputs(const pl_cli_t *cli)
{
    const pl_options_t *o = &cli->options;

    if (o->fit != NULL) {
        PL_TRY(pl_output_check(cli, "fit", o->fit));
    }
    return o->snapshot == NULL ? PL_OK
                               : pl_output_check(cli, "snapshot", o->snapshot);
}

/* ---- all of it ---- */

static int64_t median_gap(pl_bench_t *bench)
{
    return pl_metrics_spread(bench->gaps.items, (int64_t)bench->gaps.n).p50_ns;
}

static int64_t count_unstreamed(const validating_t *v)
{
    int64_t n = 0;

    for (size_t i = 0; i < v->measured.n; i++) {
        const pl_bench_request_t *request = v->measured.items[i];

        n += (request->output_tokens > 1) && (request->ttft_ns == 0) &&
             (request->e2e_ns > 0);
    }
    return n;
}

static pl_status_t tell(validating_t *v, const pl_validation_t *plain,
                        const pl_fit_t *fit)
{
    bool is_fitted                = v->cli.options.fit != NULL;
    pl_validation_report_t report = {
        .bench         = &v->bench,
        .n_failed      = (int64_t)(v->bench.requests.n - v->played.n),
        .n_unstreamed  = count_unstreamed(v),
        .n_unpredicted = (int64_t)(v->played.n - v->n_pairs),
        .prompts       = v->cli.options.trace,
        .matched       = v->matched,
        .plain         = plain,
        .fitted        = is_fitted ? &v->result : NULL,
        .fit           = fit,
        .pairs         = v->pairs,
        .n_pairs       = v->n_pairs,
        .itl_p50_ns    = median_gap(&v->bench)};

    pl_validate_sort(v->pairs, v->n_pairs);
    return pl_validation_print(&v->cli, &report);
}

static int validate(validating_t *v)
{
    pl_validation_t plain;
    pl_fit_t fit       = {0};
    pl_status_t status = prepare(v);
    int exit_status;

    if (status != PL_OK) {
        return pl_status_exit(status);
    }
    exit_status = simulate(v);
    plain       = v->result;
    if ((exit_status == 0) && (v->cli.options.fit != NULL) &&
        (plain.metrics[PL_VALIDATE_TTFT].n == 0)) {
        pl_log(&v->cli.log, PL_LOG_ERROR,
               "option --fit: no request of %s has a time to its first token, "
               "to which factors are fitted; run the client with streaming on",
               v->cli.options.validate);
        return pl_status_exit(PL_ERR_INPUT);
    }
    if ((exit_status == 0) && (v->cli.options.fit != NULL)) {
        exit_status = find_factors(v, &fit);
        if (exit_status == 0) {
            status = pl_validate_cover(v->pairs, v->n_pairs, &fit);
        }
        if ((exit_status == 0) && (status == PL_OK)) {
            status = write_calibration(v, &fit);
        }
    }
    if (exit_status != 0) {
        return exit_status;
    }
    return pl_status_exit(status == PL_OK ? tell(v, &plain, &fit) : status);
}

static pl_status_t refuse(const pl_cli_t *cli, const char *text)
{
    pl_log(&cli->log, PL_LOG_ERROR, "%s", text);
    return PL_ERR_ARGUMENT;
}

/* The benchmark says what was asked, and when. */
static pl_status_t check(const pl_cli_t *cli)
{
    const pl_options_t *o = &cli->options;

    if ((o->fit != NULL) && !pl_cli_is_planned(o)) {
        return refuse(cli, "option --fit: factors of what? name the device "
                           "with --hardware, and --model");
    }
    if ((o->merge.n > 0) || (o->passes != 1) || (o->max_new != 0) ||
        ((o->block_tokens != 0) && (o->trace == NULL)) ||
        (strcmp(o->speedup, "1") != 0)) {
        return refuse(cli, "option --validate: the requests are those of the "
                           "benchmark; leave --merge, --passes, --max-new, "
                           "--speedup and, without --trace, --block-tokens "
                           "out");
    }
    return check_outputs(cli);
}

int pl_cli_validate(const pl_cli_t *cli)
{
    validating_t v     = {.cli = *cli};
    pl_status_t status = check(cli);
    int exit_status;

    if (v.cli.log.level > PL_LOG_WARN) {
        v.cli.log.level = PL_LOG_WARN; /* there may be many simulations */
    }
    if (status != PL_OK) {
        return pl_status_exit(status);
    }
    exit_status = validate(&v);
    pl_bench_free(&v.bench);
    pl_trace_close(v.prompts);
    PL_ARRAY_FREE(&v.played);
    PL_ARRAY_FREE(&v.measured);
    free(v.pairs);
    return exit_status;
}
