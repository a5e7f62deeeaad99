/* cli/run.h - the parts of `pagelane run`: run.c drives, summary.c tells. */
#ifndef PL_CLI_RUN_H
#define PL_CLI_RUN_H

#include "cli/cli.h"
#include "exec/run.h"

/* What a run came to, on stdout: a table for people, or JSON with vLLM's names.
 * The same bytes for the same trace, seed and configuration. */
PL_MUST_CHECK pl_status_t pl_summary_print(const pl_cli_t *cli,
                                           const pl_engine_t *engine,
                                           const pl_run_results_t *results);

#endif /* PL_CLI_RUN_H */
