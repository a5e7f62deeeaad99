/* cli/run_notes.h - what a run should say though nothing failed. */
#ifndef PL_CLI_RUN_NOTES_H
#define PL_CLI_RUN_NOTES_H

#include <stdint.h>

#include <pagelane/status.h>

#include "cli/cli.h"

/* One warning for each option that was changed and changes nothing beside the
 * others.  cli->options are checked.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_run_note_options(const pl_cli_t *cli);

/* One warning for each --inject that never came to happen; bit p of `happened`:
 * point p (verify/inject.h) happened on a rank.  At the end, when nothing more
 * can. */
void pl_run_note_faults(const pl_cli_t *cli, uint64_t happened);

#endif /* PL_CLI_RUN_NOTES_H */
