/* cli/exit_status.h - one exit status for all ranks. */
#ifndef PL_CLI_EXIT_STATUS_H
#define PL_CLI_EXIT_STATUS_H

#include "cli/cli.h"
#include "comm/mpi_session.h"

/* Collective.  All ranks end with the exit status of who knew the cause, which
 * has been said by then, or is here if it is PL_ERR_MEMORY; ends the program if
 * the others cannot be reached. */
int pl_cli_agree_on_exit(const pl_cli_t *cli, const pl_mpi_session_t *session,
                         pl_comm_t *comm, pl_status_t status);

#endif /* PL_CLI_EXIT_STATUS_H */
