#include "cli/exit_status.h"

int pl_cli_agree_on_exit(const pl_cli_t *cli, const pl_mpi_session_t *session,
                         pl_comm_t *comm, pl_status_t status)
{
    int mine      = pl_status_exit(status);
    uint64_t bits = 0;

    if (status == PL_ERR_MEMORY) {
        pl_cli_tell_of_memory(cli);
    }
    if ((status != PL_OK) && (status != PL_ERR_PEER)) {
        bits = UINT64_C(1) << mine;
    } else if (status == PL_ERR_PEER) {
        bits = UINT64_C(1) << 63;
    }
    if (pl_comm_agree(comm, &bits, 1) != PL_OK) {
        pl_mpi_session_abort(session, mine); /* the others cannot be reached */
    }
    for (int i = 0; i < 63; i++) {
        if (((bits >> i) & 1) != 0) {
            return i;
        }
    }
    return bits != 0 ? pl_status_exit(PL_ERR_PEER) : 0;
}
