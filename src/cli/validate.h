/* cli/validate.h - `pagelane sim --validate`: the requests of a benchmark,
 * simulated, and what comes out beside what was measured.
 */
#ifndef PL_CLI_VALIDATE_H
#define PL_CLI_VALIDATE_H

#include <pagelane/trace.h>

#include "cli/cli.h"
#include "cli/covered.h"
#include "sim/bench.h"
#include "sim/validate.h"

/* What one simulation came to. */
typedef struct pl_validation {
    pl_validate_metric_t metrics[PL_VALIDATE_TIMES];
    int64_t itl_p50_ns; /* predicted, over all gaps; 0: there are none */
    pl_covered_t covered;
} pl_validation_t;

typedef struct pl_validation_report {
    const pl_bench_t *bench;
    int64_t n_failed;      /* in the benchmark; left out */
    int64_t n_unstreamed;  /* several tokens, without a first one's time */
    int64_t n_unpredicted; /* that the simulation did not complete */
    const char *prompts;   /* the trace, or NULL */
    const char *matched;   /* how requests were found in it */
    const pl_validation_t *plain;  /* as the options say */
    const pl_validation_t *fitted; /* with `fit`; NULL: none was asked for */
    const pl_fit_t *fit;
    const pl_validate_pair_t *pairs; /* worst first, of the last simulation */
    size_t n_pairs;
    int64_t itl_p50_ns; /* measured; 0: there are none */
} pl_validation_report_t;

/* validate_run.c: is the file HDF5?  Then it is to be the snapshot of a run,
 * whose requests keep their numbers in it, from 1 (format "pagelane").
 * Statuses of store/reader.h. */
bool pl_validate_is_run(const char *path);
PL_MUST_CHECK pl_status_t pl_validate_read_run(const char *path,
                                               const pl_log_t *log,
                                               pl_bench_t *bench_p);

/* validate_match.c: which[i] becomes the request of `prompts` that request i of
 * the benchmark was; *matched_p: how they were found.  `prompts` NULL: none are
 * named, and `which` stays.  Requests that began as a trace says begin as
 * `prompts` do.  PL_OK, PL_ERR_INPUT (one line), PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_validate_match(const pl_cli_t *cli,
                                            const pl_trace_t *prompts,
                                            pl_bench_t *bench, int32_t *which,
                                            const char **matched_p);

/* On stdout, for people or with --json.  PL_OK, PL_ERR_MEMORY, PL_ERR_IO. */
PL_MUST_CHECK pl_status_t
pl_validation_print(const pl_cli_t *cli, const pl_validation_report_t *report);

/* `cli` as a simulation has it: checked, ranks set.  The exit status. */
int pl_cli_validate(const pl_cli_t *cli);

#endif /* PL_CLI_VALIDATE_H */
