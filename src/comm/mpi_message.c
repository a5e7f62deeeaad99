/* Messages between processes. */
#include <inttypes.h>
#include <stdio.h>

#include "comm/mpi_comm.h"

/* A free message with room for its pieces.  Handle: generation, index + 1. */
static pl_status_t new_message(pl_mpi_t *self, const char *call,
                               size_t n_pieces, pl_mpi_message_t **message_p)
{
    pl_mpi_message_t none = {0};
    pl_mpi_message_t *message;
    int32_t index;

    if (self->unused.n == 0) {
        size_t n = self->messages.n;

        if ((n == INT32_MAX) ||
            (PL_ARRAY_RESERVE(&self->unused, n + 1) != PL_OK) ||
            (PL_ARRAY_PUSH(&self->messages, none) != PL_OK)) {
            return pl_mpi_no_memory(self, call, sizeof(none));
        }
        self->unused.items[self->unused.n++] = (int32_t)n;
    }
    index   = self->unused.items[self->unused.n - 1];
    message = &self->messages.items[index];
    if (pl_mpi_batch_reserve(&message->batch, n_pieces) != PL_OK) {
        return pl_mpi_no_memory(self, call, n_pieces * sizeof(MPI_Request));
    }
    self->unused.n--;
    self->generation++;
    message->handle =
        ((pl_message_t)self->generation << 32) | (uint32_t)(index + 1);
    *message_p = message;
    return PL_OK;
}

static pl_mpi_message_t *find_message(pl_mpi_t *self, pl_message_t handle)
{
    uint32_t index = (uint32_t)handle - 1; /* of 0: too large */

    if ((index >= self->messages.n) ||
        (self->messages.items[index].handle != handle)) {
        return NULL;
    }
    return &self->messages.items[index];
}

static pl_status_t begin(pl_mpi_t *self, bool receive, int peer, int tag,
                         size_t n, pl_mpi_wire_t *wire,
                         pl_mpi_message_t **message_p)
{
    const char *call          = receive ? "receive" : "send";
    pl_mpi_message_t *message = NULL;

    if (self->broken) {
        return PL_ERR_COMM;
    }
    if (tag > self->tag_limit) {
        pl_log(self->comm.log, PL_LOG_ERROR,
               "rank %d: %s: tag %d is above %d, the largest of this MPI",
               self->comm.rank, call, tag, self->tag_limit);
        return PL_ERR_ARGUMENT;
    }
    wire->mpi         = self->all;
    wire->tag         = tag;
    wire->block_bytes = self->block_bytes;
    PL_TRY(new_message(self, call, pl_mpi_pieces(wire, n), &message));
    message->receive = receive;
    message->peer    = peer;
    message->tag     = tag;
    message->n       = n;
    *message_p       = message;
    return PL_OK;
}

pl_status_t pl_mpi_send(pl_comm_t *comm, int to, int tag, const void *bytes,
                        size_t n, pl_message_t *message_p)
{
    pl_mpi_message_t *message = NULL;
    pl_mpi_wire_t wire;

    PL_TRY(begin((pl_mpi_t *)comm, false, to, tag, n, &wire, &message));
    pl_mpi_batch_send(&message->batch, &wire, to, bytes, n);
    *message_p = message->handle;
    return PL_OK;
}

pl_status_t pl_mpi_receive(pl_comm_t *comm, int from, int tag, void *bytes,
                           size_t n, pl_message_t *message_p)
{
    pl_mpi_message_t *message = NULL;
    pl_mpi_wire_t wire;

    PL_TRY(begin((pl_mpi_t *)comm, true, from, tag, n, &wire, &message));
    pl_mpi_batch_receive(&message->batch, &wire, from, bytes, n);
    *message_p = message->handle;
    return PL_OK;
}

pl_status_t pl_mpi_wait(pl_comm_t *comm, pl_message_t handle)
{
    pl_mpi_t *self            = (pl_mpi_t *)comm;
    pl_mpi_message_t *message = find_message(self, handle);
    char what[96];

    if (message == NULL) {
        pl_log(comm->log, PL_LOG_ERROR,
               "rank %d: wait: there is no message %" PRIu64
               ", or it was waited for already",
               comm->rank, handle);
        return PL_ERR_ARGUMENT;
    }
    if (self->broken) {
        return PL_ERR_COMM;
    }
    snprintf(what, sizeof(what), "%s of %zu bytes with tag %d",
             message->receive ? "receive" : "send", message->n, message->tag);
    PL_TRY(pl_mpi_finish(self, &message->batch, what));
    message->handle = 0;
    self->unused.items[self->unused.n++] =
        (int32_t)(message - self->messages.items);
    if (message->receive && (message->batch.n_received != message->n)) {
        pl_log(comm->log, PL_LOG_ERROR,
               "rank %d: a message with tag %d from rank %d has %zu bytes, not "
               "%zu",
               comm->rank, message->tag, message->peer,
               message->batch.n_received, message->n);
        return PL_ERR_DISAGREE;
    }
    return PL_OK;
}

bool pl_mpi_messages_close(pl_mpi_t *self)
{
    size_t n_open = 0;
    bool settled  = true;

    for (size_t i = 0; i < self->messages.n; i++) {
        pl_mpi_message_t *message = &self->messages.items[i];

        n_open += (message->handle != 0);
        if ((message->handle != 0) && !pl_mpi_batch_settle(&message->batch)) {
            settled = false;
        } else {
            pl_mpi_batch_free(&message->batch);
        }
    }
    if ((n_open > 0) && !self->broken) {
        pl_log(self->comm.log, PL_LOG_WARN,
               "rank %d: %zu messages were never waited for", self->comm.rank,
               n_open);
    }
    return settled;
}
