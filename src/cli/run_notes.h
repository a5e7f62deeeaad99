/* cli/run_notes.h - what a run should say though nothing failed. */
#ifndef PL_CLI_RUN_NOTES_H
#define PL_CLI_RUN_NOTES_H

#include <pagelane/status.h>

#include "cli/cli.h"
#include "exec/executor.h"

/* One warning for each option that was changed and changes nothing beside the
 * others.  cli->options are checked.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_run_note_options(const pl_cli_t *cli);

/* One warning for each --inject that never came to happen; counters: summed
 * over all ranks, at the end.  The points of the file layer (file=, disk=)
 * count on their own and are left out. */
void pl_run_note_faults(const pl_cli_t *cli,
                        const pl_exec_counters_t *counters);

#endif /* PL_CLI_RUN_NOTES_H */
