/* cli/run_notes.h - what a run should say of faults, though nothing failed. */
#ifndef PL_CLI_RUN_NOTES_H
#define PL_CLI_RUN_NOTES_H

#include <stdint.h>

#include "cli/cli.h"

/* One warning for each --inject that never came to happen; bit p of `happened`:
 * point p (verify/inject.h) happened on a rank.  At the end, when nothing more
 * can. */
void pl_run_note_faults(const pl_cli_t *cli, uint64_t happened);

#endif /* PL_CLI_RUN_NOTES_H */
