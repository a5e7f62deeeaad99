/* pagelane/cli.h - the pagelane program as a function. */
#ifndef PAGELANE_CLI_H
#define PAGELANE_CLI_H

#include <stdbool.h>

#include <pagelane/export.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Did mpirun (or another launcher of MPI processes) start this process?  The
 * environment tells, so this may be asked before MPI_Init. */
PL_API bool pl_cli_launched(void);

/* Run `pagelane` with these arguments, argv[0] included; returns its exit
 * status (pagelane/status.h).  Collective over the ranks that were started.
 *
 * When pl_cli_launched(), MPI must be initialised before and finalised after,
 * so that what rank 0 has to say is out before the first rank ends.  May
 * replace the process by mpirun (`pagelane run --ranks 8`). */
PL_API int pl_cli_main(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif /* PAGELANE_CLI_H */
