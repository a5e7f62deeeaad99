/* sim/detail.h - what a run was like beyond its requests' records: the time
 * between tokens, goodput, hit rates by other definitions, how even ranks are.
 *
 * docs/sim.md defines each number.
 */
#ifndef PL_SIM_DETAIL_H
#define PL_SIM_DETAIL_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "engine/engine.h"
#include "sim/metrics.h"
#include "sim/outcome.h"

/* Limits that a request keeps or not; 0: no limit. */
typedef struct pl_slo {
    int64_t ttft_ns, tpot_ns, e2e_ns;
} pl_slo_t;

/* "ttft:2s,tpot:50ms,e2e:1min"; false: it is no such text. */
bool pl_slo_parse(const char *text, pl_slo_t *slo_p);

/* Does a completed request keep all of them? */
bool pl_slo_keeps(const pl_slo_t *slo, const pl_record_t *record);

typedef struct pl_detail {
    pl_spread_t itl; /* time between two tokens, over all tokens */
    int64_t n_good;  /* completed requests that kept every limit */
    int64_t whole_pages, hit_pages; /* of completed prompts */
    /* What chunks of all completed prompts would take cold, alone; and what of
     * it their hits took off. */
    int64_t cold_ns, saved_ns;
    /* Prompt tokens computed though they had been computed before: pages missed
     * for any cause but `new` and `last_page`, and re-entries and readmissions.
     */
    int64_t recomputed_tokens;
    /* What the tiers of all that prefill can hold, each token once. */
    int64_t device_tokens, host_tokens;
    /* Pages of the busiest rank or lane (bytes, where ranks keep layers) of all
     * that prefill over the mean; 0: there are none. */
    double rank_imbalance, load_imbalance, backup_imbalance;
} pl_detail_t;

/* PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_detail_make(const pl_outcome_t *outcome,
                                         const pl_metrics_t *metrics,
                                         const pl_slo_t *slo,
                                         pl_detail_t *detail_p);

#endif /* PL_SIM_DETAIL_H */
