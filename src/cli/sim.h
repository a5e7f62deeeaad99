/* cli/sim.h - what `pagelane sim` says beyond what a run says (sim/detail.h).
 */
#ifndef PL_CLI_SIM_H
#define PL_CLI_SIM_H

#include "cli/cli.h"
#include "cli/json.h"
#include "cli/run.h"
#include "sim/detail.h"

/* A simulation by cli->options, which are not checked yet, with these hooks. */
PL_MUST_CHECK pl_status_t pl_cli_sim_with(const pl_cli_t *cli,
                                          const pl_run_hooks_t *hooks);

/* Tables on stdout.  PL_OK, PL_ERR_MEMORY, PL_ERR_IO. */
PL_MUST_CHECK pl_status_t pl_detail_print(const pl_cli_t *cli,
                                          const pl_outcome_t *outcome,
                                          const pl_metrics_t *metrics,
                                          const pl_detail_t *detail);
/* The same as members of `object`, with vLLM's names where it has one. */
void pl_detail_json(json_object *object, const pl_cli_t *cli,
                    const pl_outcome_t *outcome, const pl_metrics_t *metrics,
                    const pl_detail_t *detail);

/* What engines did, and when. */
void pl_counters_json(json_object *object,
                      const pl_engine_counters_t *counters);
/* What caches did about room. */
void pl_caches_json(json_object *object, const pl_hicache_counters_t *caches);

#endif /* PL_CLI_SIM_H */
