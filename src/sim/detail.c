#include "sim/detail.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- limits ---- */

/* A time behind a colon; returns how many characters, 0: it is none. */
static int read_time(const char *text, int64_t *ns_p)
{
    static const struct {
        const char *name;
        int64_t ns;
    } UNITS[]     = {{"ms", 1000000}, {"min", 60000000000}, {"s", 1000000000}};
    int64_t whole = 0;
    int end       = 0;
    int64_t thousand = 0;
    int digits       = 0;

    if ((*text < '0') || (*text > '9') ||
        (sscanf(text, "%9" SCNd64 "%n", &whole, &end) != 1)) {
        return 0;
    }
    if (text[end] == '.') {
        for (end++; (text[end] >= '0') && (text[end] <= '9'); end++) {
            thousand = digits < 3 ? thousand * 10 + text[end] - '0' : thousand;
            digits++;
        }
        for (; digits < 3; digits++) {
            thousand *= 10;
        }
    }
    for (size_t i = 0; i < sizeof(UNITS) / sizeof(UNITS[0]); i++) {
        size_t n = strlen(UNITS[i].name);

        if (strncmp(text + end, UNITS[i].name, n) == 0) {
            *ns_p = whole * UNITS[i].ns + thousand * UNITS[i].ns / 1000;
            return *ns_p > 0 ? end + (int)n : 0;
        }
    }
    return 0;
}

bool pl_slo_parse(const char *text, pl_slo_t *slo_p)
{
    pl_slo_t slo = {0};
    struct {
        const char *name;
        int64_t *ns;
    } limits[] = {{"ttft:", &slo.ttft_ns},
                  {"tpot:", &slo.tpot_ns},
                  {"e2e:", &slo.e2e_ns}};

    for (;;) {
        int n = 0;

        for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
            size_t name = strlen(limits[i].name);

            if ((*limits[i].ns == 0) &&
                (strncmp(text, limits[i].name, name) == 0)) {
                n = read_time(text + name, limits[i].ns);
                text += n > 0 ? name : 0;
                break;
            }
        }
        text += n;
        if ((n == 0) || ((*text != ',') && (*text != '\0'))) {
            return false;
        }
        if (*text == '\0') {
            *slo_p = slo;
            return true;
        }
        text++;
    }
}

static bool keeps(const pl_record_t *record, pl_metric_time_t which,
                  int64_t limit_ns)
{
    int64_t ns = 0;

    return (limit_ns == 0) || !pl_metrics_time(record, which, &ns) ||
           (ns <= limit_ns);
}

bool pl_slo_keeps(const pl_slo_t *slo, const pl_record_t *record)
{
    return keeps(record, PL_METRIC_TTFT, slo->ttft_ns) &&
           keeps(record, PL_METRIC_TPOT, slo->tpot_ns) &&
           keeps(record, PL_METRIC_E2E, slo->e2e_ns);
}

/* ---- time between tokens ---- */

static int by_ns(const void *a, const void *b)
{
    const pl_token_gap_t *x = a;
    const pl_token_gap_t *y = b;

    return (x->ns > y->ns) - (x->ns < y->ns);
}

/* Nearest rank among n tokens. */
static int64_t percentile(const pl_token_gap_t *sorted, size_t n_gaps,
                          int64_t n, int64_t percent)
{
    int64_t rank = (n * percent + 99) / 100;
    int64_t seen = 0;

    for (size_t i = 0; i < n_gaps; i++) {
        seen += sorted[i].n;
        if (seen >= rank) {
            return sorted[i].ns;
        }
    }
    return 0;
}

/* Those of all engines, the shortest first; the caller frees them. */
static pl_status_t sort_gaps(const pl_outcome_t *outcome,
                             pl_token_gap_t **sorted_p, size_t *n_p)
{
    pl_token_gap_t *sorted;
    size_t n  = 0;
    size_t at = 0;

    for (int32_t i = 0; i < outcome->n_engines; i++) {
        size_t more = 0;

        (void)pl_engine_token_gaps(outcome->engines[i], &more);
        n += more;
    }
    sorted = malloc((n + 1) * sizeof(*sorted));
    if (sorted == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < outcome->n_engines; i++) {
        size_t more = 0;
        const pl_token_gap_t *gaps =
            pl_engine_token_gaps(outcome->engines[i], &more);

        for (size_t g = 0; g < more; g++) {
            sorted[at++] = gaps[g];
        }
    }
    qsort(sorted, n, sizeof(*sorted), by_ns);
    *sorted_p = sorted;
    *n_p      = n;
    return PL_OK;
}

static pl_status_t spread_gaps(const pl_outcome_t *outcome, pl_spread_t *spread)
{
    pl_token_gap_t *sorted = NULL;
    size_t n_gaps          = 0;
    double sum             = 0;

    PL_TRY(sort_gaps(outcome, &sorted, &n_gaps));
    for (size_t i = 0; i < n_gaps; i++) {
        spread->n += sorted[i].n;
        sum += (double)sorted[i].ns * (double)sorted[i].n;
    }
    spread->mean   = spread->n > 0 ? sum / (double)spread->n : 0;
    spread->p50_ns = percentile(sorted, n_gaps, spread->n, 50);
    spread->p90_ns = percentile(sorted, n_gaps, spread->n, 90);
    spread->p99_ns = percentile(sorted, n_gaps, spread->n, 99);
    spread->max_ns = percentile(sorted, n_gaps, spread->n, 100);
    free(sorted);
    return PL_OK;
}

/* ---- sums ---- */

typedef struct share {
    int64_t most, all, n;
} share_t;

static void add_share(share_t *share, const int64_t *pages, int n)
{
    for (int i = 0; i < n; i++) {
        share->most = pages[i] > share->most ? pages[i] : share->most;
        share->all += pages[i];
    }
    share->n += n;
}

static double imbalance(const share_t *share)
{
    return share->all > 0
               ? (double)share->most * (double)share->n / (double)share->all
               : 0;
}

/* A rank that has its layers of all pages moves these, some more than others.
 */
static double unevenness_of_layers(const pl_engine_config_t *config)
{
    return config->ownership.kind == PL_OWNERSHIP_LAYER
               ? (double)config->rank_page_bytes * config->n_prefill /
                     (double)config->page_bytes
               : 1;
}

static void measure_balance(const pl_outcome_t *outcome, pl_detail_t *detail)
{
    double layers   = unevenness_of_layers(pl_outcome_config(outcome));
    share_t ranks   = {0};
    share_t loads   = {0};
    share_t backups = {0};

    for (int32_t i = 0; i < outcome->n_prefill; i++) {
        const pl_engine_t *engine     = outcome->engines[i];
        const pl_engine_counters_t *c = pl_engine_counters(engine);
        int lanes                     = pl_engine_lanes(engine);

        add_share(&ranks, c->rank_pages, pl_engine_config(engine)->n_prefill);
        add_share(&loads, c->load_pages, lanes);
        add_share(&backups, c->backup_pages, lanes);
    }
    detail->rank_imbalance   = imbalance(&ranks);
    detail->load_imbalance   = layers * imbalance(&loads);
    detail->backup_imbalance = layers * imbalance(&backups);
}

static void add_request(const pl_engine_config_t *config,
                        const pl_record_t *record, const pl_slo_t *slo,
                        pl_detail_t *detail)
{
    int32_t hit = record->device_hit_tokens + record->host_hit_tokens +
                  record->storage_hit_tokens;
    int64_t cold;

    if (!pl_metrics_counts(record)) {
        return;
    }
    detail->n_good += pl_slo_keeps(slo, record);
    detail->whole_pages += record->prompt_tokens / config->page_tokens;
    detail->hit_pages += hit / config->page_tokens;
    cold = pl_cost_prompt_ns(&config->costs, config->n_prefill,
                             config->chunk_tokens, 0, record->prompt_tokens);
    detail->cold_ns += cold;
    detail->saved_ns +=
        cold - pl_cost_prompt_ns(&config->costs, config->n_prefill,
                                 config->chunk_tokens, hit,
                                 record->prompt_tokens);
}

static int64_t recomputed(const pl_outcome_t *outcome,
                          const pl_metrics_t *metrics)
{
    int64_t pages = 0;

    for (int miss = 0; miss < PL_MISSES; miss++) {
        pages += (miss != PL_MISS_NEW) && (miss != PL_MISS_LAST)
                     ? metrics->miss_pages[miss]
                     : 0;
    }
    return pages * pl_outcome_config(outcome)->page_tokens +
           outcome->counters.prefill_tokens - metrics->computed_tokens;
}

/* Those asked for, though the requests may not be able to fill as many. */
static int64_t pages_asked(int32_t asked, int32_t in_force)
{
    return asked == PL_PAGES_UNLIMITED ? in_force : asked;
}

static void add_capacity(const pl_outcome_t *outcome, pl_detail_t *detail)
{
    const pl_engine_config_t *config = pl_outcome_config(outcome);

    for (int32_t i = 0; i < outcome->n_prefill; i++) {
        const pl_engine_t *engine = outcome->engines[i];
        int64_t tokens = (int64_t)pl_engine_lanes(engine) * config->page_tokens;

        detail->device_tokens +=
            tokens *
            (pages_asked(config->device_pages, pl_engine_device_pages(engine)) -
             1);
        detail->host_tokens +=
            tokens *
            pages_asked(config->host_pages, pl_engine_host_pages(engine));
    }
}

pl_status_t pl_detail_make(const pl_outcome_t *outcome,
                           const pl_metrics_t *metrics, const pl_slo_t *slo,
                           pl_detail_t *detail_p)
{
    const pl_engine_config_t *config = pl_outcome_config(outcome);
    pl_detail_t detail               = {0};

    for (int32_t i = 0; i < outcome->n; i++) {
        add_request(config, &outcome->records[i], slo, &detail);
    }
    detail.recomputed_tokens = recomputed(outcome, metrics);
    measure_balance(outcome, &detail);
    add_capacity(outcome, &detail);
    PL_TRY(spread_gaps(outcome, &detail.itl));
    *detail_p = detail;
    return PL_OK;
}
