/* cli/idle.h - options that change nothing beside the others that were given.
 *
 * One table says of each option when that is so; docs and tests go by it.
 */
#ifndef PL_CLI_IDLE_H
#define PL_CLI_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "cli/cli.h"

/* An option, when it has no effect, and what would give it one. */
typedef struct pl_idle_option {
    uint32_t verb; /* its bit */
    const char *option;
    bool (*is_idle)(const pl_cli_t *cli, const pl_options_t *defaults);
    const char *why;
} pl_idle_option_t;

/* All of them, rows of one option together. */
const pl_idle_option_t *pl_idle_options(size_t *n_p);

/* One warning for each option of cli->verb that is not at its default and has
 * no effect.  cli->options are checked.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_idle_note(const pl_cli_t *cli);

#endif /* PL_CLI_IDLE_H */
