/* cli/run.h - the parts of `pagelane run`: run.c drives, summary.c tells. */
#ifndef PL_CLI_RUN_H
#define PL_CLI_RUN_H

#include <pagelane/trace.h>

#include "cli/cli.h"
#include "cli/json.h"
#include "exec/run.h"
#include "sim/outcome.h"

/* What stands in for parts of a run in one process. */
typedef struct pl_run_hooks {
    /* The requests, instead of --trace; `params` without a path.  With
     * `lends_trace` they stay the hook's, else the run closes them. */
    pl_status_t (*open_trace)(void *context, const pl_trace_params_t *params,
                              const pl_log_t *log, pl_trace_t **trace_p);
    /* After a good run, instead of what it prints; results: NULL of a fleet. */
    pl_status_t (*done)(void *context, const pl_outcome_t *outcome,
                        const pl_run_results_t *results);
    void *context;
    bool lends_trace;
    void (*tick)(void *context); /* at the end of each; NULL: nothing */
} pl_run_hooks_t;

/* pl_cli_run() with these, in this process. */
PL_MUST_CHECK pl_status_t pl_cli_run_with(const pl_cli_t *cli,
                                          const pl_run_hooks_t *hooks);

/* What a run of one engine came to, on stdout: a table for people, or JSON with
 * vLLM's names.  The same bytes for the same trace, seed and configuration. */
PL_MUST_CHECK pl_status_t pl_summary_print(const pl_cli_t *cli,
                                           const pl_outcome_t *outcome,
                                           const pl_run_results_t *results);
/* Of that JSON, what engine and executor count: of the storage tier, events,
 * bytes moved. */
void pl_summary_counts_json(json_object *object, const pl_outcome_t *outcome,
                            const pl_run_results_t *results);

#endif /* PL_CLI_RUN_H */
