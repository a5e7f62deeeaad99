#include "sim/sweep.h"

#include <math.h>
#include <stdlib.h>

#include "sim/metrics.h"

/* ---- over seeds ---- */

/* The 0.975 quantile of Student's t; beyond the table by its expansion in
 * 1 / freedom, good to three digits there. */
static double t_quantile(size_t freedom)
{
    static const double T[] = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365,
                               2.306,  2.262, 2.228, 2.201, 2.179, 2.160, 2.145,
                               2.131,  2.120, 2.110, 2.101, 2.093, 2.086};
    const size_t n          = sizeof(T) / sizeof(T[0]);

    return freedom <= n ? T[freedom - 1]
                        : 1.95996 + 2.37227 / (double)freedom +
                              2.82250 / ((double)freedom * (double)freedom);
}

int64_t pl_sweep_mean(const int64_t *values, size_t n, int64_t *half_p)
{
    double first = (double)values[0];
    double sum   = 0; /* of differences: equal values give no interval */
    double about = 0;
    double mean;

    for (size_t i = 0; i < n; i++) {
        sum += (double)(values[i] - values[0]);
    }
    mean = sum / (double)n;
    for (size_t i = 0; i < n; i++) {
        double off = (double)(values[i] - values[0]) - mean;

        about += off * off;
    }
    *half_p = n < 2 ? 0
                    : (int64_t)ceil(t_quantile(n - 1) *
                                    sqrt(about / (double)(n - 1) / (double)n));
    return sum == 0 ? values[0] : (int64_t)llround(first + mean);
}

/* ---- limits ---- */

static int64_t breaks(const pl_record_t *record, pl_metric_time_t which,
                      int64_t limit_ns)
{
    int64_t ns = 0;

    return (limit_ns > 0) && pl_metrics_time(record, which, &ns) &&
           (ns > limit_ns);
}

pl_sweep_broken_t pl_sweep_broken(const pl_outcome_t *outcome,
                                  const pl_slo_t *slo)
{
    pl_sweep_broken_t broken = {0};

    for (int32_t i = 0; i < outcome->n; i++) {
        const pl_record_t *record = &outcome->records[i];

        if (pl_metrics_counts(record)) {
            broken.ttft += breaks(record, PL_METRIC_TTFT, slo->ttft_ns);
            broken.tpot += breaks(record, PL_METRIC_TPOT, slo->tpot_ns);
            broken.e2e += breaks(record, PL_METRIC_E2E, slo->e2e_ns);
        }
    }
    return broken;
}

/* ---- order ---- */

double pl_sweep_estimate(int64_t requests, int64_t prompt_tokens,
                         int32_t page_tokens)
{
    return 100 * (double)requests + (double)prompt_tokens / page_tokens;
}

typedef struct item {
    size_t index;
    double estimate;
    pl_sweep_standing_t standing;
    double steps;
} item_t;

typedef int (*compare_t)(const void *, const void *);

/* Sorts items[n] and frees them. */
static void sort(item_t *items, size_t n, compare_t compare, size_t *order)
{
    if (n > 0) {
        qsort(items, n, sizeof(*items), compare);
    }
    for (size_t i = 0; i < n; i++) {
        order[i] = items[i].index;
    }
    free(items);
}

static int by_index(const item_t *a, const item_t *b)
{
    return (a->index > b->index) - (a->index < b->index);
}

static int by_estimate(const void *first, const void *second)
{
    const item_t *a = first;
    const item_t *b = second;

    return a->estimate != b->estimate ? (a->estimate < b->estimate ? 1 : -1)
                                      : by_index(a, b);
}

pl_status_t pl_sweep_longest_first(const double *estimates, size_t n,
                                   size_t *order)
{
    item_t *items = calloc(n + 1, sizeof(*items));

    if (items == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        items[i] = (item_t){.index = i, .estimate = estimates[i]};
    }
    sort(items, n, by_estimate, order);
    return PL_OK;
}

double pl_sweep_steps(double key, double least)
{
    return least == 0 ? key : floor((key - least) / (fabs(least) / 100));
}

/* The smaller is first. */
static int by_number(double a, double b)
{
    return (a > b) - (a < b);
}

static int by_standing(const void *first, const void *second)
{
    const item_t *x              = first;
    const item_t *y              = second;
    const pl_sweep_standing_t *a = &x->standing;
    const pl_sweep_standing_t *b = &y->standing;

    if (a->ran != b->ran) {
        return a->ran ? -1 : 1;
    }
    if (a->ran && (a->meets != b->meets)) {
        return a->meets ? -1 : 1;
    }
    if (a->ran) {
        const int turns[] = {
            a->meets ? 0 : by_number(b->kept, a->kept),
            by_number(x->steps, y->steps), by_number(b->kept, a->kept),
            by_number(a->ttft, b->ttft), by_number(a->key, b->key)};

        for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
            if (turns[i] != 0) {
                return turns[i];
            }
        }
    }
    return by_index(x, y);
}

/* Of those that ran and meet the limits, or do not. */
static double least_key(const pl_sweep_standing_t *points, size_t n, bool meets)
{
    double least = INFINITY;

    for (size_t i = 0; i < n; i++) {
        if (points[i].ran && (points[i].meets == meets)) {
            least = fmin(least, points[i].key);
        }
    }
    return least;
}

pl_status_t pl_sweep_best_first(const pl_sweep_standing_t *points, size_t n,
                                size_t *order)
{
    item_t *items         = calloc(n + 1, sizeof(*items));
    const double least[2] = {least_key(points, n, false),
                             least_key(points, n, true)};

    if (items == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        items[i] = (item_t){
            .index    = i,
            .standing = points[i],
            .steps    = pl_sweep_steps(points[i].key, least[points[i].meets])};
    }
    sort(items, n, by_standing, order);
    return PL_OK;
}
