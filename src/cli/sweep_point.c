#include "cli/sweep_point.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pagelane/trace.h>

#include "base/text.h"
#include "cli/covered.h"
#include "cli/fleet.h"
#include "cli/json.h"
#include "cli/report.h"
#include "cli/sim.h"
#include "cli/trace_file.h"
#include "sim/sweep.h"

/* Requests, as some options have them. */
typedef struct shared_trace {
    char *key; /* owned: those options */
    pl_trace_t *trace;
    int64_t prompt_tokens;
} shared_trace_t;

struct pl_sweep_lab {
    const pl_cli_t *cli;
    void (*tick)(void *context);
    void *context;
    PL_ARRAY(shared_trace_t) traces;
};

/* What one seed came to. */
typedef PL_ARRAY(pl_sweep_value_t) values_t;

typedef struct trial {
    pl_sweep_lab_t *lab;
    pl_cli_t cli;      /* of a simulation: its options, and a log that keeps */
    char said[512];    /* its first error */
    pl_trace_t *trace; /* borrowed */
    values_t values;
} trial_t;

pl_status_t pl_sweep_lab_open(const pl_cli_t *cli, void (*tick)(void *context),
                              void *context, pl_sweep_lab_t **lab_p)
{
    pl_sweep_lab_t *lab = calloc(1, sizeof(*lab));

    if (lab == NULL) {
        return PL_ERR_MEMORY;
    }
    lab->cli     = cli;
    lab->tick    = tick;
    lab->context = context;
    *lab_p       = lab;
    return PL_OK;
}

void pl_sweep_lab_close(pl_sweep_lab_t *lab)
{
    if (lab == NULL) {
        return;
    }
    for (size_t i = 0; i < lab->traces.n; i++) {
        pl_trace_close(lab->traces.items[i].trace);
        free(lab->traces.items[i].key);
    }
    PL_ARRAY_FREE(&lab->traces);
    free(lab);
}

/* ---- traces ---- */

/* The options that say which requests there are: the table's group of them. The
 * seed is for tokens, and none is ever looked at. */
static pl_status_t key_of(const pl_options_t *o, char **key_p)
{
    const pl_option_table_t *table = pl_options_table();
    pl_text_t text                 = {0};

    for (size_t i = 0; i < table->n; i++) {
        const pl_option_t *option = &table->options[i];
        char *value               = NULL;

        if ((strcmp(option->group, "trace") != 0) ||
            ((option->verbs & PL_VERB_SIM) == 0) ||
            (option->offset == offsetof(pl_options_t, seed))) {
            continue;
        }
        if (pl_option_value_text(option, o, &value) != PL_OK) {
            pl_text_free(&text);
            return PL_ERR_MEMORY;
        }
        pl_text_add(&text, "%s=%s\n", option->name, value);
        free(value);
    }
    return pl_text_take(&text, key_p);
}

static pl_status_t read_trace(const pl_options_t *o, const pl_log_t *log,
                              pl_trace_t **trace_p)
{
    pl_trace_params_t params = pl_trace_params_default();

    PL_TRY(pl_cli_run_trace(o, log, &params));
    return pl_cli_open_trace(o, log, &params, trace_p);
}

static void count_tokens(shared_trace_t *shared)
{
    for (int32_t i = 0; i < pl_trace_count(shared->trace); i++) {
        shared->prompt_tokens +=
            pl_trace_request(shared->trace, i)->input_tokens;
    }
}

/* Read it, unless that was done.  *shared_p: until the next call. */
static pl_status_t find_trace(pl_sweep_lab_t *lab, const pl_options_t *o,
                              const shared_trace_t **shared_p)
{
    const pl_log_t *log   = lab->cli->world.rank == 0 ? &lab->cli->log : NULL;
    shared_trace_t shared = {0};
    pl_status_t status;

    PL_TRY(key_of(o, &shared.key));
    for (size_t i = 0; i < lab->traces.n; i++) {
        if (strcmp(lab->traces.items[i].key, shared.key) == 0) {
            *shared_p = &lab->traces.items[i];
            free(shared.key);
            return PL_OK;
        }
    }
    PL_TRY_GOTO(status, read_trace(o, log, &shared.trace), free_shared);
    count_tokens(&shared);
    PL_TRY_GOTO(status, PL_ARRAY_PUSH(&lab->traces, shared), free_shared);
    *shared_p = &lab->traces.items[lab->traces.n - 1];
    return PL_OK;

free_shared:
    pl_trace_close(shared.trace);
    free(shared.key);
    return status;
}

/* ---- options ---- */

static void keep_first_error(void *context, pl_log_level_t level,
                             const char *line)
{
    trial_t *trial = context;

    if ((level == PL_LOG_ERROR) && (trial->said[0] == '\0')) {
        (void)snprintf(trial->said, sizeof(trial->said), "%s", line);
    }
}

static const pl_verb_t SIM      = {.name = "sim", .bit = PL_VERB_SIM};
static const char *const LINE[] = {"pagelane", "sim", NULL};

/* The simulation of a point, as `pagelane sim` would have it: all its options
 * come from the grid, none from a line. */
static pl_status_t open_trial(pl_sweep_lab_t *lab, size_t index, trial_t *trial)
{
    pl_options_t *o = &trial->cli.options;

    trial->lab     = lab;
    trial->cli     = *lab->cli;
    trial->cli.log = (pl_log_t){
        .write = keep_first_error, .context = trial, .level = PL_LOG_ERROR};
    trial->cli.verb = &SIM;
    trial->cli.argc = 2;
    trial->cli.argv = (char **)(uintptr_t)LINE;
    *o              = (pl_options_t){0};
    PL_TRY(pl_grid_point(lab->cli->grid, &lab->cli->options, index, o));
    o->log_level = PL_LOG_ERROR; /* of its progress nothing is told */
    return PL_OK;
}

static void close_trial(trial_t *trial)
{
    PL_ARRAY_FREE(&trial->values);
    pl_options_free(&trial->cli.options);
}

/* Is it the point's own, not the program's? */
static bool is_outcome(pl_status_t status)
{
    return (status == PL_ERR_ARGUMENT) || (status == PL_ERR_INPUT) ||
           (status == PL_ERR_RESOURCE);
}

/* ---- the run ---- */

static pl_status_t lend_trace(void *context, const pl_trace_params_t *params,
                              const pl_log_t *log, pl_trace_t **trace_p)
{
    const trial_t *trial = context;

    (void)params; /* those that it was read with */
    (void)log;
    *trace_p = trial->trace;
    return PL_OK;
}

static void after_tick(void *context)
{
    const trial_t *trial = context;

    if (trial->lab->tick != NULL) {
        trial->lab->tick(trial->lab->context);
    }
}

/* ---- numbers ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t m = strlen(end);

    return (n >= m) && (strcmp(text + n - m, end) == 0);
}

/* Of a whole number. */
static const char *unit_of(const char *name)
{
    static const struct {
        const char *end, *unit;
    } UNITS[] = {{"_tokens", "token"},
                 {"_pages", "page"},
                 {"_bytes", "byte"},
                 {"_bytes_moved", "byte"}};

    for (size_t i = 0; i < sizeof(UNITS) / sizeof(UNITS[0]); i++) {
        if (ends_with(name, UNITS[i].end)) {
            return UNITS[i].unit;
        }
    }
    return "1";
}

/* Of a real, in millionths. */
static const char *real_unit_of(const char *name)
{
    if (ends_with(name, "_ms")) {
        return "ns";
    }
    if (strcmp(name, "duration") == 0) {
        return "us";
    }
    return ends_with(name, "_throughput") || ends_with(name, "_goodput") ||
                   ends_with(name, "_per_gpu")
               ? "1e-6/s"
               : "1e-6";
}

/* What `sim --json` says, in whole numbers: reals in millionths, and so
 * milliseconds in nanoseconds. */
static pl_status_t add_value(values_t *values, const char *name,
                             const json_object *number)
{
    pl_sweep_value_t value = {0};
    size_t n               = strlen(name);
    bool is_real           = json_object_get_type(number) == json_type_double;

    n -= is_real && ends_with(name, "_ms") ? strlen("_ms") : 0;
    if (n >= sizeof(value.name)) {
        return PL_ERR_INTERNAL;
    }
    memcpy(value.name, name, n);
    (void)snprintf(value.unit, sizeof(value.unit), "%s",
                   is_real ? real_unit_of(name) : unit_of(name));
    value.mean = is_real ? llround(1e6 * json_object_get_double(number))
                         : json_object_get_int64(number);
    return PL_ARRAY_PUSH(values, value);
}

static pl_status_t add_values(values_t *values, json_object *object)
{
    if (object == NULL) {
        return PL_ERR_MEMORY;
    }
    json_object_object_foreach(object, name, number)
    {
        PL_TRY(add_value(values, name, number));
    }
    return PL_OK;
}

static void add_broken(json_object *object, const pl_outcome_t *outcome,
                       const pl_slo_t *slo)
{
    pl_sweep_broken_t broken = pl_sweep_broken(outcome, slo);

    pl_json_integer(object, "broke_ttft", broken.ttft);
    pl_json_integer(object, "broke_tpot", broken.tpot);
    pl_json_integer(object, "broke_e2el", broken.e2e);
}

static pl_status_t collect(void *context, const pl_outcome_t *outcome,
                           const pl_run_results_t *results)
{
    trial_t *trial                   = context;
    const pl_engine_config_t *config = pl_outcome_config(outcome);
    pl_slo_t slo                     = {0};
    pl_metrics_t metrics             = {0};
    pl_detail_t detail               = {0};
    pl_covered_t covered             = {0};
    json_object *object;
    pl_status_t status;

    if (trial->cli.options.slo_text != NULL) {
        (void)pl_slo_parse(trial->cli.options.slo_text, &slo); /* checked */
    }
    PL_TRY(pl_metrics_of(outcome->records, outcome->n, &metrics));
    PL_TRY(pl_detail_make(outcome, &metrics, &slo, &detail));
    PL_TRY(pl_covered_find(&trial->cli, outcome, &covered));
    object = json_object_new_object();
    if (outcome->usages == NULL) {
        pl_json_integer(object, "gpus", config->n_prefill + config->n_decode);
    }
    pl_report_json(object, &metrics);
    add_broken(object, outcome, &slo);
    pl_detail_json(object, &trial->cli, outcome, &metrics, &detail);
    pl_caches_json(object, &outcome->caches);
    if (outcome->usages == NULL) {
        pl_summary_counts_json(object, outcome, results);
    } else {
        pl_counters_json(object, &outcome->counters);
        pl_fleet_json(object, &trial->cli, outcome, &metrics, &detail);
    }
    pl_covered_json(object, &covered);
    status = add_values(&trial->values, object);
    json_object_put(object);
    return status;
}

/* ---- seeds ---- */

static pl_status_t run_seed(pl_sweep_lab_t *lab, size_t index, int32_t seed,
                            trial_t *trial, bool *ran_p)
{
    const shared_trace_t *shared = NULL;
    pl_options_t *o              = &trial->cli.options;
    pl_run_hooks_t hooks         = {.open_trace  = lend_trace,
                                    .done        = collect,
                                    .context     = trial,
                                    .lends_trace = true,
                                    .tick        = after_tick};

    *ran_p = false;
    PL_TRY(open_trial(lab, index, trial));
    if (o->seed > INT64_MAX - seed) {
        o->seed = 0;
    }
    o->seed += seed;
    PL_TRY(find_trace(lab, o, &shared));
    *ran_p       = true; /* from here on it is the point's own */
    trial->trace = shared->trace;
    return pl_cli_sim_with(&trial->cli, &hooks);
}

static bool is_same(const values_t *a, const values_t *b)
{
    for (size_t i = 0; i < a->n; i++) {
        if (a->items[i].mean != b->items[i].mean) {
            return false;
        }
    }
    return true;
}

/* Of 0 and 1, is any 1?  Not how many are. */
static bool is_verdict(const pl_sweep_value_t *value)
{
    return strcmp(value->name, PL_COVERED_NAME) == 0;
}

static int64_t largest(const int64_t *numbers, size_t n)
{
    int64_t most = numbers[0];

    for (size_t i = 1; i < n; i++) {
        most = numbers[i] > most ? numbers[i] : most;
    }
    return most;
}

static int by_name(const void *first, const void *second)
{
    const pl_sweep_value_t *a = first;
    const pl_sweep_value_t *b = second;

    return strcmp(a->name, b->name);
}

/* seeds[n] into the point's values, which are those of the first, in the order
 * in which its file gives them back. */
static pl_status_t fold(const values_t *seeds, size_t n,
                        pl_sweep_point_t *point)
{
    int64_t *numbers   = calloc(n, sizeof(*numbers));
    pl_status_t status = numbers == NULL ? PL_ERR_MEMORY : PL_OK;

    for (size_t v = 0; (v < seeds[0].n) && (status == PL_OK); v++) {
        pl_sweep_value_t value = seeds[0].items[v];

        for (size_t i = 0; i < n; i++) {
            numbers[i] = seeds[i].items[v].mean;
        }
        value.mean = is_verdict(&value)
                         ? largest(numbers, n)
                         : pl_sweep_mean(numbers, n, &value.half);
        status     = PL_ARRAY_PUSH(&point->values, value);
    }
    free(numbers);
    if ((status == PL_OK) && (point->values.n > 0)) {
        qsort(point->values.items, point->values.n,
              sizeof(point->values.items[0]), by_name);
    }
    return status;
}

/* All seeds; where the second gives what the first gave, no seed matters. */
static pl_status_t run_seeds(pl_sweep_lab_t *lab, size_t index, values_t *seeds,
                             pl_sweep_point_t *point)
{
    int32_t most = (int32_t)lab->cli->options.repeat;

    for (int32_t i = 0; i < most; i++) {
        trial_t *trial = calloc(1, sizeof(*trial));
        bool ran       = false;
        pl_status_t status;

        if (trial == NULL) {
            return PL_ERR_MEMORY;
        }
        status         = run_seed(lab, index, i, trial, &ran);
        seeds[i]       = trial->values;
        trial->values  = (values_t){0};
        point->n_seeds = i + 1;
        if (ran && is_outcome(status)) {
            point->status = status;
            point->why    = strdup(trial->said);
            status        = point->why == NULL ? PL_ERR_MEMORY : PL_OK;
        }
        if ((status != PL_OK) && ran && (trial->said[0] != '\0')) {
            pl_log(&lab->cli->log, PL_LOG_ERROR, "%s", trial->said);
        }
        close_trial(trial);
        free(trial);
        PL_TRY(status);
        if ((point->status != PL_OK) ||
            ((i == 1) && is_same(&seeds[0], &seeds[1]))) {
            break;
        }
    }
    return point->status == PL_OK ? fold(seeds, (size_t)point->n_seeds, point)
                                  : PL_OK;
}

pl_status_t pl_sweep_lab_run(pl_sweep_lab_t *lab, size_t index,
                             pl_sweep_point_t *point_p)
{
    size_t most     = (size_t)lab->cli->options.repeat;
    values_t *seeds = calloc(most, sizeof(*seeds));
    struct timespec begin, end;
    pl_status_t status;

    if (seeds == NULL) {
        return PL_ERR_MEMORY;
    }
    clock_gettime(CLOCK_MONOTONIC, &begin);
    status = run_seeds(lab, index, seeds, point_p);
    clock_gettime(CLOCK_MONOTONIC, &end);
    point_p->is_known = status == PL_OK;
    point_p->wall_ns  = (int64_t)(end.tv_sec - begin.tv_sec) * 1000000000 +
                       end.tv_nsec - begin.tv_nsec;
    for (size_t i = 0; i < most; i++) {
        PL_ARRAY_FREE(&seeds[i]);
    }
    free(seeds);
    return status;
}

/* ---- how long ---- */

pl_status_t pl_sweep_lab_estimate(pl_sweep_lab_t *lab, size_t index,
                                  double *estimate_p)
{
    trial_t *trial               = calloc(1, sizeof(*trial));
    const shared_trace_t *shared = NULL;
    const pl_options_t *o;
    double estimate = 0;
    pl_status_t status;

    if (trial == NULL) {
        return PL_ERR_MEMORY;
    }
    o      = &trial->cli.options;
    status = open_trial(lab, index, trial);
    if (status == PL_OK) {
        status = find_trace(lab, o, &shared);
    }
    if (status == PL_OK) {
        estimate =
            pl_sweep_estimate(pl_trace_count(shared->trace),
                              shared->prompt_tokens, (int32_t)o->page_size);
    }
    close_trial(trial);
    free(trial);
    *estimate_p = estimate;
    return status;
}
