/* cli/fleet.h - `pagelane sim` of several instances: fleet.c drives,
 * fleet_sides.c says how busy sides are, fleet_limit.c which of them limits,
 * fleet_print.c and fleet_tables.c tell, fleet_snapshot.c writes it down and
 * fleet_file.c reads that. */
#ifndef PL_CLI_FLEET_H
#define PL_CLI_FLEET_H

#include "cli/cli.h"
#include "cli/fleet_shape.h"
#include "cli/json.h"
#include "cli/run.h"
#include "sim/detail.h"
#include "sim/metrics.h"
#include "sim/outcome.h"

/* The instances that options ask for.  What cannot be with instances is
 * refused; the options get the ranks of one prefill instance, for the checks of
 * a run.  PL_ERR_ARGUMENT, one line. */
PL_MUST_CHECK pl_status_t pl_cli_fleet_check(pl_options_t *options,
                                             const pl_log_t *log);

/* The simulation, by options that have been checked; hooks may be NULL. */
PL_MUST_CHECK pl_status_t pl_cli_fleet(const pl_cli_t *cli,
                                       const pl_run_hooks_t *hooks);

/* What it came to, on stdout: tables, or JSON. */
PL_MUST_CHECK pl_status_t pl_fleet_print(const pl_cli_t *cli,
                                         const pl_outcome_t *outcome);

/* What only several instances have, as numbers of `object`. */
void pl_fleet_json(json_object *object, const pl_cli_t *cli,
                   const pl_outcome_t *outcome, const pl_metrics_t *metrics,
                   const pl_detail_t *detail);

#endif /* PL_CLI_FLEET_H */
