/* cli/command.h - the command that repeats a run, whatever set its options. */
#ifndef PL_CLI_COMMAND_H
#define PL_CLI_COMMAND_H

#include <pagelane/status.h>

#include "base/text.h"
#include "cli/cli.h"

/* One word as a shell takes it. */
void pl_cli_add_word(pl_text_t *text, const char *word);

/* What was typed, quoted for a shell, and behind it, as options, what came from
 * elsewhere: variables, a configuration file, the number of ranks that mpirun
 * started.  The caller frees it. */
PL_MUST_CHECK pl_status_t pl_cli_command(const pl_cli_t *cli, char **text_p);

#endif /* PL_CLI_COMMAND_H */
