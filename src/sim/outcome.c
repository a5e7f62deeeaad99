#include "sim/outcome.h"

#include <stdlib.h>

const pl_engine_config_t *pl_outcome_config(const pl_outcome_t *outcome)
{
    return pl_engine_config(outcome->engines[0]);
}

/* ---- sums ---- */

static void add_times(const pl_engine_counters_t *from,
                      pl_engine_counters_t *sum)
{
    for (int i = 0; i < PL_LINKS; i++) {
        sum->link_bytes[i] += from->link_bytes[i];
    }
    for (int i = 0; i < PL_COST_PARTS; i++) {
        sum->prefill_ns[i] += from->prefill_ns[i];
        sum->decode_ns[i] += from->decode_ns[i];
    }
    sum->stepping_ns += from->stepping_ns;
}

static void add_counters(const pl_engine_counters_t *from,
                         pl_engine_counters_t *sum)
{
    sum->ticks += from->ticks;
    sum->idle_ticks += from->idle_ticks;
    sum->chunks += from->chunks;
    sum->decode_steps += from->decode_steps;
    sum->drafted_tokens += from->drafted_tokens;
    sum->accepted_tokens += from->accepted_tokens;
    sum->prefill_tokens += from->prefill_tokens;
    sum->sends += from->sends;
    sum->send_pages += from->send_pages;
    sum->sends_failed += from->sends_failed;
    sum->offloads += from->offloads;
    sum->offload_pages += from->offload_pages;
    sum->resumes += from->resumes;
    sum->reentries += from->reentries;
    sum->hit_cuts += from->hit_cuts;
    sum->waits_for_write_back += from->waits_for_write_back;
    sum->reservations_failed += from->reservations_failed;
    sum->operations_failed += from->operations_failed;
    add_times(from, sum);
}

static void add_cache(const pl_hicache_counters_t *from,
                      pl_hicache_counters_t *sum)
{
    sum->takes += from->takes;
    sum->deficits += from->deficits;
    sum->alone_deficits += from->alone_deficits;
    sum->retries += from->retries;
    sum->retries_failed += from->retries_failed;
    sum->evictions += from->evictions;
    sum->evicted_pages += from->evicted_pages;
    sum->lane_collateral_pages += from->lane_collateral_pages;
    sum->host_drops += from->host_drops;
    sum->host_dropped_pages += from->host_dropped_pages;
    sum->backups += from->backups;
    sum->backup_pages += from->backup_pages;
    sum->backups_skipped += from->backups_skipped;
    sum->backups_failed += from->backups_failed;
    sum->loads += from->loads;
    sum->load_pages += from->load_pages;
    sum->loads_failed += from->loads_failed;
    sum->write_backs += from->write_backs;
}

static void add_engines(pl_outcome_t *outcome)
{
    for (int32_t i = 0; i < outcome->n_engines; i++) {
        const pl_engine_t *engine = outcome->engines[i];

        add_counters(pl_engine_counters(engine), &outcome->counters);
        if (i < outcome->n_prefill) {
            add_cache(pl_hicache_counters(pl_engine_cache(engine)),
                      &outcome->caches);
        }
    }
}

/* ---- all of it ---- */

static pl_status_t allocate(int32_t n, int32_t n_engines, int32_t n_prefill,
                            pl_outcome_t *outcome)
{
    *outcome = (pl_outcome_t){
        .records   = malloc(((size_t)n + 1) * sizeof(*outcome->records)),
        .n         = n,
        .engines   = calloc((size_t)n_engines, sizeof(*outcome->engines)),
        .n_engines = n_engines,
        .n_prefill = n_prefill};
    return (outcome->records == NULL) || (outcome->engines == NULL)
               ? PL_ERR_MEMORY
               : PL_OK;
}

pl_status_t pl_outcome_of_engine(const pl_engine_t *engine,
                                 pl_outcome_t *outcome_p)
{
    PL_TRY(allocate(pl_engine_n_requests(engine), 1, 1, outcome_p));
    for (int32_t i = 0; i < outcome_p->n; i++) {
        outcome_p->records[i] = *pl_engine_record(engine, i);
    }
    outcome_p->engines[0] = engine;
    add_engines(outcome_p);
    return PL_OK;
}

pl_status_t pl_outcome_of_fleet(const pl_fleet_t *fleet, int32_t n_requests,
                                int32_t n_prefill, pl_outcome_t *outcome_p)
{
    int32_t n                        = pl_fleet_n_instances(fleet);
    const pl_fleet_record_t *records = pl_fleet_records(fleet);

    PL_TRY(allocate(n_requests, n, n_prefill, outcome_p));
    for (int32_t i = 0; i < n_requests; i++) {
        outcome_p->records[i] = records[i].record;
    }
    outcome_p->usages = malloc((size_t)n * sizeof(*outcome_p->usages));
    if (outcome_p->usages == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < n; i++) {
        outcome_p->engines[i] = pl_fleet_engine(fleet, i);
        outcome_p->usages[i]  = pl_fleet_usage(fleet, i);
    }
    outcome_p->waits = pl_fleet_waits(fleet);
    add_engines(outcome_p);
    return PL_OK;
}

void pl_outcome_free(pl_outcome_t *outcome)
{
    free(outcome->records);
    free((void *)outcome->engines);
    free(outcome->usages);
    *outcome = (pl_outcome_t){0};
}
