#include "comm/mpi_counter.h"

#include <stdlib.h>

#include "comm/mpi_comm.h"

struct pl_counter {
    pl_comm_t *comm; /* NULL: alone */
    MPI_Comm mpi;
    MPI_Win window;
    int64_t *place; /* on rank 0 */
    int64_t next;   /* if alone */
};

static pl_status_t failed(const pl_counter_t *counter, const char *what,
                          int code)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int n                           = 0;

    (void)MPI_Error_string(code, text, &n);
    pl_log(counter->comm->log, PL_LOG_ERROR, "MPI cannot %s a counter: %s",
           what, text);
    return PL_ERR_COMM;
}

/* Collective: a window that rank 0 has a number in, open to all. */
static pl_status_t open_window(pl_counter_t *counter)
{
    MPI_Aint n = counter->comm->rank == 0 ? (MPI_Aint)sizeof(int64_t) : 0;
    int code = MPI_Win_allocate(n, sizeof(int64_t), MPI_INFO_NULL, counter->mpi,
                                &counter->place, &counter->window);

    if (code != MPI_SUCCESS) {
        counter->window = MPI_WIN_NULL;
        return failed(counter, "make", code);
    }
    (void)MPI_Win_set_errhandler(counter->window, MPI_ERRORS_RETURN);
    code = MPI_Win_lock_all(MPI_MODE_NOCHECK, counter->window);
    if (code != MPI_SUCCESS) {
        return failed(counter, "open", code);
    }
    if (n > 0) {
        *counter->place = 0;
    }
    code = MPI_Win_sync(counter->window);
    return code == MPI_SUCCESS ? PL_OK : failed(counter, "set", code);
}

pl_status_t pl_counter_open(pl_comm_t *comm, pl_counter_t **counter_p)
{
    MPI_Comm mpi = comm == NULL ? MPI_COMM_NULL : pl_mpi_comm_of(comm);
    pl_counter_t *counter;
    pl_status_t status;

    if ((comm != NULL) && (mpi == MPI_COMM_NULL)) {
        return PL_ERR_ARGUMENT;
    }
    counter = calloc(1, sizeof(*counter));
    status  = counter == NULL ? PL_ERR_MEMORY : PL_OK;
    if (comm == NULL) {
        *counter_p = counter;
        return status;
    }
    status = pl_comm_agree_status(comm, status);
    if (status != PL_OK) {
        free(counter);
        return status;
    }
    counter->comm   = comm;
    counter->mpi    = mpi;
    counter->window = MPI_WIN_NULL;
    /* Nobody takes a number before rank 0 has set the first. */
    status = pl_comm_agree_status(comm, open_window(counter));
    if (status != PL_OK) {
        pl_counter_close(counter);
        return status;
    }
    *counter_p = counter;
    return PL_OK;
}

pl_status_t pl_counter_next(pl_counter_t *counter, int64_t *number_p)
{
    const int64_t one = 1;
    int64_t number    = 0;
    int code;

    if (counter->comm == NULL) {
        *number_p = counter->next++;
        return PL_OK;
    }
    code = MPI_Fetch_and_op(&one, &number, MPI_INT64_T, 0, 0, MPI_SUM,
                            counter->window);
    if (code == MPI_SUCCESS) {
        code = MPI_Win_flush(0, counter->window);
    }
    if (code != MPI_SUCCESS) {
        return failed(counter, "read", code);
    }
    *number_p = number;
    return PL_OK;
}

void pl_counter_poke(pl_counter_t *counter)
{
    int flag = 0;

    if (counter->comm != NULL) {
        (void)MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, counter->mpi, &flag,
                         MPI_STATUS_IGNORE);
    }
}

void pl_counter_close(pl_counter_t *counter)
{
    if (counter == NULL) {
        return;
    }
    if ((counter->comm != NULL) && (counter->window != MPI_WIN_NULL)) {
        (void)MPI_Win_unlock_all(counter->window);
        (void)MPI_Win_free(&counter->window);
    }
    free(counter);
}
