/* cli/trace_file.h - what the verbs share that read or write traces. */
#ifndef PL_CLI_TRACE_FILE_H
#define PL_CLI_TRACE_FILE_H

#include <stdio.h>

#include <pagelane/trace.h>

#include "cli/cli.h"

/* The part of --trace's options that all verbs have alike: which requests, at
 * what speed.  Borrows from `options`.  PL_OK, PL_ERR_ARGUMENT (one line). */
PL_MUST_CHECK pl_status_t pl_cli_trace_params(const pl_options_t *options,
                                              const pl_log_t *log,
                                              pl_trace_params_t *params);

/* Is `path` no stdin ("-"), which is read once, and by one process?
 * PL_ERR_ARGUMENT: it is, and `why` it cannot be is said in one line. */
PL_MUST_CHECK pl_status_t pl_cli_no_stdin(const char *option, const char *path,
                                          const char *why, const pl_log_t *log);

/* All of it for a run or a simulation, but --trace itself. */
PL_MUST_CHECK pl_status_t pl_cli_run_trace(const pl_options_t *options,
                                           const pl_log_t *log,
                                           pl_trace_params_t *params);
/* The file that --trace names, with these.  PL_ERR_ARGUMENT, or as
 * pl_trace_open; one line. */
PL_MUST_CHECK pl_status_t pl_cli_open_trace(const pl_options_t *options,
                                            const pl_log_t *log,
                                            pl_trace_params_t *params,
                                            pl_trace_t **trace_p);

/* `text` as a number above 0 (or 0 too).  PL_OK, PL_ERR_ARGUMENT (one line that
 * names --option). */
PL_MUST_CHECK pl_status_t pl_cli_number(const char *option, const char *text,
                                        bool zero, const pl_log_t *log,
                                        double *value_p);

/* Write `trace` as the options say: to stdout, or whole or not at all to
 * --output, which must not be a file that was read. */
PL_MUST_CHECK pl_status_t pl_cli_trace_write(const pl_cli_t *cli,
                                             const pl_trace_t *trace);

#endif /* PL_CLI_TRACE_FILE_H */
