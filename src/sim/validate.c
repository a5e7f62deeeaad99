#include "sim/validate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim/metrics.h"

/* Part of the way, as an exponent: converges where waiting grows with the
 * square of the work, and more. */
#define STEP 0.7

static bool has_both(const pl_validate_pair_t *pair, int which)
{
    return (pair->predicted_ns[which] > 0) && (pair->measured_ns[which] > 0);
}

static double error_of(const pl_validate_pair_t *pair, int which)
{
    double measured = (double)pair->measured_ns[which];

    return fabs((double)pair->predicted_ns[which] - measured) / measured;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* ---- a metric ---- */

typedef struct columns {
    int64_t *predicted, *measured;
    double *ratio, *error;
    int64_t n;
} columns_t;

static double pearson(const columns_t *c)
{
    double mean_x = 0;
    double mean_y = 0;
    double xx     = 0;
    double yy     = 0;
    double xy     = 0;

    for (int64_t i = 0; i < c->n; i++) {
        mean_x += (double)c->predicted[i] / (double)c->n;
        mean_y += (double)c->measured[i] / (double)c->n;
    }
    for (int64_t i = 0; i < c->n; i++) {
        double x = (double)c->predicted[i] - mean_x;
        double y = (double)c->measured[i] - mean_y;

        xx += x * x;
        yy += y * y;
        xy += x * y;
    }
    /* Less than a nanosecond apart is what rounding leaves of equal ones. */
    return (xx >= 1) && (yy >= 1) ? xy / sqrt(xx * yy) : NAN;
}

static void reckon(columns_t *c, pl_validate_metric_t *metric)
{
    if (c->n == 0) {
        return;
    }
    metric->r = pearson(c);
    metric->mape /= (double)c->n;
    metric->predicted_p50_ns = pl_metrics_spread(c->predicted, c->n).p50_ns;
    metric->measured_p50_ns  = pl_metrics_spread(c->measured, c->n).p50_ns;
    qsort(c->ratio, (size_t)c->n, sizeof(*c->ratio), by_value);
    metric->median_ratio = c->ratio[(c->n - 1) / 2];
    qsort(c->error, (size_t)c->n, sizeof(*c->error), by_value);
    metric->median_error = c->error[(c->n - 1) / 2];
}

pl_status_t pl_validate_metric(const pl_validate_pair_t *pairs, size_t n,
                               pl_validate_time_t which,
                               pl_validate_metric_t *metric_p)
{
    pl_validate_metric_t metric = {.r = NAN};
    columns_t c                 = {.predicted = calloc(n + 1, sizeof(int64_t)),
                                   .measured  = calloc(n + 1, sizeof(int64_t)),
                                   .ratio     = calloc(n + 1, sizeof(double)),
                                   .error     = calloc(n + 1, sizeof(double))};
    bool is_whole = (c.predicted != NULL) && (c.measured != NULL) &&
                    (c.ratio != NULL) && (c.error != NULL);

    for (size_t i = 0; is_whole && (i < n); i++) {
        if (has_both(&pairs[i], which)) {
            c.predicted[c.n] = pairs[i].predicted_ns[which];
            c.measured[c.n]  = pairs[i].measured_ns[which];
            c.ratio[c.n] = (double)c.measured[c.n] / (double)c.predicted[c.n];
            c.error[c.n] = error_of(&pairs[i], which);
            metric.mape += c.error[c.n];
            c.n++;
        }
    }
    if (is_whole) {
        metric.n = c.n;
        reckon(&c, &metric);
        *metric_p = metric;
    }
    free(c.predicted);
    free(c.measured);
    free(c.ratio);
    free(c.error);
    return is_whole ? PL_OK : PL_ERR_MEMORY;
}

/* ---- requests ---- */

double pl_validate_error(const pl_validate_pair_t *pair,
                         pl_validate_time_t *which_p)
{
    double most = -1;

    for (int i = 0; i < PL_VALIDATE_TIMES; i++) {
        double error = has_both(pair, i) ? error_of(pair, i) : -1;

        if (error > most) {
            most     = error;
            *which_p = (pl_validate_time_t)i;
        }
    }
    return most;
}

static int by_error(const void *a, const void *b)
{
    const pl_validate_pair_t *x = a;
    const pl_validate_pair_t *y = b;
    pl_validate_time_t which    = PL_VALIDATE_TTFT;
    double of_x                 = pl_validate_error(x, &which);
    double of_y                 = pl_validate_error(y, &which);

    if (of_x != of_y) {
        return of_x > of_y ? -1 : 1;
    }
    return (x->number > y->number) - (x->number < y->number);
}

void pl_validate_sort(pl_validate_pair_t *pairs, size_t n)
{
    qsort(pairs, n, sizeof(*pairs), by_error);
}

int32_t pl_validate_most(int64_t *starts, int64_t *ends, size_t n)
{
    size_t n_ended = 0;
    size_t most    = 0;

    if (n > 0) {
        qsort(starts, n, sizeof(*starts), by_time);
        qsort(ends, n, sizeof(*ends), by_time);
    }
    for (size_t i = 0; i < n; i++) {
        while (ends[n_ended] <= starts[i]) {
            n_ended++;
        }
        most = i + 1 - n_ended > most ? i + 1 - n_ended : most;
    }
    return (int32_t)most;
}

/* ---- the fit ---- */

static void widen(int32_t value, int32_t *least, int32_t *most)
{
    *least = (*least == 0) || (value < *least) ? value : *least;
    *most  = value > *most ? value : *most;
}

pl_status_t pl_validate_cover(const pl_validate_pair_t *pairs, size_t n,
                              pl_fit_t *fit)
{
    int64_t *starts  = calloc(n + 1, sizeof(*starts));
    int64_t *ends    = calloc(n + 1, sizeof(*ends));
    pl_fit_t covered = {.prefill_millionths = fit->prefill_millionths,
                        .decode_millionths  = fit->decode_millionths,
                        .n_requests         = (int32_t)n};

    for (size_t i = 0; (starts != NULL) && (ends != NULL) && (i < n); i++) {
        const pl_validate_pair_t *pair = &pairs[i];
        bool has_end                   = pair->end_ns > pair->start_ns;

        starts[i] = pair->start_ns;
        ends[i]   = has_end ? pair->end_ns : pair->start_ns + 1;
        widen(pair->input_tokens, &covered.least_input, &covered.most_input);
        widen(pair->output_tokens, &covered.least_output, &covered.most_output);
    }
    if ((starts == NULL) || (ends == NULL)) {
        free(starts);
        free(ends);
        return PL_ERR_MEMORY;
    }
    covered.most_concurrent = pl_validate_most(starts, ends, n);
    free(starts);
    free(ends);
    *fit = covered;
    return PL_OK;
}

/* True: it stays as it is. */
static bool move(int64_t *millionths, const pl_validate_metric_t *metric)
{
    double by   = metric->n > 0 ? metric->median_ratio : 1;
    double next = (double)*millionths * pow(by, STEP);
    int64_t was = *millionths;

    next        = fmin(fmax(next, (double)PL_FIT_LEAST), (double)PL_FIT_MOST);
    *millionths = llround(next);
    return (fabs(by - 1) < 1e-3) || (*millionths == was);
}

bool pl_validate_step(const pl_validate_metric_t *ttft,
                      const pl_validate_metric_t *tpot, pl_fit_t *fit)
{
    bool prefill_stays = move(&fit->prefill_millionths, ttft);
    bool decode_stays  = move(&fit->decode_millionths, tpot);

    return prefill_stays && decode_stays;
}
