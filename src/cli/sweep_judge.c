#include "cli/sweep_judge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/trace_file.h"
#include "sim/sweep.h"

/* What is to be small: +1 or -1 times a number of the point; NULL: its cost. */
typedef struct objective {
    const char *metric;
    double sign;
} objective_t;

/* ---- numbers ---- */

/* "mean_ttft_ms" is stored as "mean_ttft", in ns. */
static const pl_sweep_value_t *find(const pl_sweep_point_t *point,
                                    const char *name)
{
    char base[PL_SWEEP_NAME_BYTES];
    size_t n                      = strlen(name);
    const pl_sweep_value_t *value = pl_sweep_find(point, name);

    if ((value == NULL) && (n > 3) && (n < sizeof(base)) &&
        (strcmp(name + n - 3, "_ms") == 0)) {
        memcpy(base, name, n - 3);
        base[n - 3] = '\0';
        value       = pl_sweep_find(point, base);
    }
    return value;
}

double pl_sweep_number(const pl_sweep_point_t *point, const char *name)
{
    const pl_sweep_value_t *value = find(point, name);

    if (value == NULL) {
        return 0;
    }
    return pl_sweep_is_millionths(value->unit) ? (double)value->mean / 1e6
                                               : (double)value->mean;
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

/* ---- what is asked for ---- */

static pl_status_t read_objective(const char *text, const pl_log_t *log,
                                  objective_t *objective_p)
{
    if (strcmp(text, "cost") == 0) {
        *objective_p = (objective_t){NULL, 1};
        return PL_OK;
    }
    if (((strncmp(text, "min:", 4) == 0) || (strncmp(text, "max:", 4) == 0)) &&
        (text[4] != '\0')) {
        *objective_p =
            (objective_t){text + 4, strncmp(text, "min:", 4) == 0 ? 1 : -1};
        return PL_OK;
    }
    pl_log(log, PL_LOG_ERROR,
           "option --objective: cannot use '%.80s'; expected cost, or min: or "
           "max: and a number of `sim --json`, as min:p99_ttft_ms",
           text);
    return PL_ERR_ARGUMENT;
}

/* Some numbers are there only beside another option. */
static pl_status_t check_number(const pl_options_t *o, const char *name,
                                const pl_log_t *log)
{
    static const char *const OF_LIMITS[] = {"good_completed", "request_goodput",
                                            "request_goodput_per_gpu"};

    for (size_t i = 0; i < sizeof(OF_LIMITS) / sizeof(OF_LIMITS[0]); i++) {
        if ((o->slo_text == NULL) && (strcmp(name, OF_LIMITS[i]) == 0)) {
            pl_log(log, PL_LOG_ERROR,
                   "option --objective: %s counts requests that keep limits, "
                   "and there are none; give --slo, as ttft:2s,tpot:50ms",
                   name);
            return PL_ERR_ARGUMENT;
        }
    }
    return PL_OK;
}

pl_status_t pl_sweep_judge_check(const pl_options_t *options,
                                 const pl_log_t *log)
{
    objective_t objective;
    pl_options_t limits = *options;
    double price        = 0;

    PL_TRY(pl_options_read_slo(&limits, log));
    PL_TRY(read_objective(options->objective, log, &objective));
    if (objective.metric != NULL) {
        PL_TRY(check_number(options, objective.metric, log));
    }
    return options->gpu_hour_cost == NULL
               ? PL_OK
               : pl_cli_number("gpu-hour-cost", options->gpu_hour_cost, false,
                               log, &price);
}

pl_status_t pl_sweep_judge_has(const pl_options_t *options,
                               const pl_sweep_point_t *point,
                               const pl_log_t *log)
{
    objective_t objective;

    PL_TRY(read_objective(options->objective, log, &objective));
    if ((point->status != PL_OK) || (objective.metric == NULL) ||
        (find(point, objective.metric) != NULL)) {
        return PL_OK;
    }
    pl_log(log, PL_LOG_ERROR,
           "option --objective: a point has no number %.60s; take one that "
           "`pagelane sim --json` gives with the options of every point",
           objective.metric);
    return PL_ERR_ARGUMENT;
}

/* ---- what limits a point ---- */

static void say_time(const pl_sweep_point_t *point, pl_text_t *text)
{
    double queue = pl_sweep_number(point, "mean_queue_ms");
    double ttft  = pl_sweep_number(point, "mean_ttft_ms");
    double all   = pl_sweep_number(point, "mean_e2el_ms");
    const struct {
        const char *name;
        double ms;
    } parts[] = {
        {"queue", queue}, {"prefill", ttft - queue}, {"decode", all - ttft}};
    int most = 0;

    for (int i = 1; i < 3; i++) {
        most = parts[i].ms > parts[most].ms ? i : most;
    }
    pl_text_add(text, "%s %.0f %%", parts[most].name,
                100 * share(parts[most].ms, all));
}

/* Of several instances. */
static void say_sides(const pl_sweep_point_t *point, pl_text_t *text)
{
    if (pl_sweep_find(point, "prefill_utilization") != NULL) {
        pl_text_add(text, "; prefill busy %.0f %%, decode %.0f %%",
                    100 * pl_sweep_number(point, "prefill_utilization"),
                    100 * pl_sweep_number(point, "decode_utilization"));
    }
}

/* The limit that most requests break. */
static void say_broken(const pl_sweep_point_t *point, double n, pl_text_t *text)
{
    static const char *const LIMITS[][2] = {
        {"broke_ttft", "ttft"}, {"broke_tpot", "tpot"}, {"broke_e2el", "e2e"}};
    double most = 0;
    int worst   = 0;

    for (int i = 0; i < 3; i++) {
        double broken = pl_sweep_number(point, LIMITS[i][0]);

        if (broken > most) {
            most  = broken;
            worst = i;
        }
    }
    if (most > 0) {
        pl_text_add(text, "%s: %.1f %% over; ", LIMITS[worst][1],
                    100 * share(most, n));
    }
}

static pl_status_t say_limit(const pl_sweep_point_t *point, double n,
                             char **limit_p)
{
    double lost =
        pl_sweep_number(point, "failed") + pl_sweep_number(point, "unfinished");
    pl_text_t text = {0};

    if (point->status != PL_OK) {
        pl_text_add(&text, "%s", point->why == NULL ? "" : point->why);
        return pl_text_take(&text, limit_p);
    }
    if (lost > 0) {
        pl_text_add(&text, "%.0f failed; ", lost);
    }
    say_broken(point, n, &text);
    say_time(point, &text);
    say_sides(point, &text);
    return pl_text_take(&text, limit_p);
}

/* ---- all of it ---- */

static pl_status_t open_verdict(size_t n, pl_sweep_verdict_t *v)
{
    v->n      = n;
    v->order  = calloc(n + 1, sizeof(*v->order));
    v->places = calloc(n + 1, sizeof(*v->places));
    v->meets  = calloc(n + 1, sizeof(*v->meets));
    v->kept   = calloc(n + 1, sizeof(*v->kept));
    v->hours  = calloc(n + 1, sizeof(*v->hours));
    v->costs  = calloc(n + 1, sizeof(*v->costs));
    v->limits = calloc(n + 1, sizeof(*v->limits));
    return (v->order == NULL) || (v->places == NULL) || (v->meets == NULL) ||
                   (v->kept == NULL) || (v->hours == NULL) ||
                   (v->costs == NULL) || (v->limits == NULL)
               ? PL_ERR_MEMORY
               : PL_OK;
}

void pl_sweep_verdict_free(pl_sweep_verdict_t *verdict)
{
    for (size_t i = 0; (verdict->limits != NULL) && (i < verdict->n); i++) {
        free(verdict->limits[i]);
    }
    free(verdict->order);
    free(verdict->places);
    free(verdict->meets);
    free(verdict->kept);
    free(verdict->hours);
    free(verdict->costs);
    free(verdict->limits);
    *verdict = (pl_sweep_verdict_t){0};
}

static pl_status_t judge_point(const pl_options_t *o,
                               const pl_sweep_point_t *point, double price,
                               size_t i, pl_sweep_verdict_t *v)
{
    double n = pl_sweep_number(point, "completed") +
               pl_sweep_number(point, "failed") +
               pl_sweep_number(point, "unfinished");
    double good = pl_sweep_number(point, o->slo_text != NULL ? "good_completed"
                                                             : "completed");

    v->kept[i]  = share(good, n);
    v->meets[i] = (point->status == PL_OK) &&
                  (v->kept[i] * 1e9 >= (double)o->attain_billionths);
    v->hours[i] = pl_sweep_number(point, "gpus") *
                  pl_sweep_number(point, "duration") / 3600;
    v->costs[i] = price * v->hours[i];
    return say_limit(point, n, &v->limits[i]);
}

static pl_status_t rank(const objective_t *objective,
                        const pl_sweep_point_t *points, pl_sweep_verdict_t *v)
{
    pl_sweep_standing_t *all = calloc(v->n + 1, sizeof(*all));
    pl_status_t status;

    if (all == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < v->n; i++) {
        all[i] = (pl_sweep_standing_t){
            .ran   = points[i].status == PL_OK,
            .meets = v->meets[i] != 0,
            .kept  = v->kept[i],
            .ttft  = pl_sweep_number(&points[i], "mean_ttft_ms"),
            .key   = objective->metric == NULL
                         ? v->costs[i]
                         : objective->sign *
                             pl_sweep_number(&points[i], objective->metric)};
    }
    status = pl_sweep_best_first(all, v->n, v->order);
    for (size_t i = 0; (i < v->n) && (status == PL_OK); i++) {
        v->places[v->order[i]] = (int64_t)i + 1;
    }
    free(all);
    return status;
}

pl_status_t pl_sweep_judge(const pl_options_t *options,
                           const pl_sweep_point_t *points, size_t n,
                           const pl_log_t *log, pl_sweep_verdict_t *verdict_p)
{
    objective_t objective = {0};
    double price          = 1;

    PL_TRY(open_verdict(n, verdict_p));
    PL_TRY(read_objective(options->objective, log, &objective));
    verdict_p->priced = options->gpu_hour_cost != NULL;
    if (verdict_p->priced) {
        PL_TRY(pl_cli_number("gpu-hour-cost", options->gpu_hour_cost, false,
                             log, &price));
    }
    for (size_t i = 0; i < n; i++) {
        PL_TRY(pl_sweep_judge_has(options, &points[i], log));
        PL_TRY(judge_point(options, &points[i], price, i, verdict_p));
    }
    return rank(&objective, points, verdict_p);
}
