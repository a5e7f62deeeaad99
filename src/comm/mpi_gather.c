/* gather over MPI: one message for each pair of ranks and part, as long as the
 * sender's pages are many, straight into the receiver's view.
 *
 * Each rank copies its own pages to their place in its view, in view order, and
 * sends them from there: every byte is copied once by its owner and once by
 * MPI.  So the view is owner-major, and `rows` says where a page is.
 */
#include <string.h>

#include "comm/mpi_comm.h"

static void copy_own(const pl_mpi_t *self, const pl_gather_t *gather,
                     const pl_gather_part_t *part)
{
    int n_lanes = self->comm.n_prefill;
    int me      = self->comm.rank;
    const uint8_t *store =
        pl_comm_store(&self->comm.regions[part->region], part);
    uint8_t *to = part->view + (size_t)self->first[me] * part->stride;

    for (int32_t i = 0; i < gather->n_pages; i++) {
        pl_page_t page = gather->pages[i];

        if (pl_page_owner(page, n_lanes) == me) {
            memcpy(to,
                   store + (size_t)pl_page_slot(page, n_lanes) * part->stride,
                   part->stride);
            to += part->stride;
        }
    }
}

static size_t owner_bytes(const pl_mpi_t *self, const pl_gather_part_t *part,
                          int owner)
{
    return (size_t)self->counts[owner] * part->stride;
}

static pl_mpi_wire_t part_wire(const pl_mpi_t *self, int part)
{
    pl_mpi_wire_t wire = {
        .mpi = self->prefill, .tag = part, .block_bytes = self->block_bytes};

    return wire;
}

static pl_status_t reserve(pl_mpi_t *self, const pl_gather_t *gather)
{
    int n_lanes = self->comm.n_prefill;
    size_t n    = 0;

    for (int p = 0; p < gather->n_parts; p++) {
        pl_mpi_wire_t wire = part_wire(self, p);
        size_t own = owner_bytes(self, &gather->parts[p], self->comm.rank);

        n += (size_t)(n_lanes - 1) * pl_mpi_pieces(&wire, own);
        for (int owner = 0; owner < n_lanes; owner++) {
            n += pl_mpi_pieces(&wire,
                               owner_bytes(self, &gather->parts[p], owner));
        }
    }
    return pl_mpi_batch_reserve(&self->batch, n) == PL_OK
               ? PL_OK
               : pl_mpi_no_memory(self, "gather", n * sizeof(MPI_Request));
}

/* Peers in turn, each rank beginning with its neighbour, so that not all send
 * to the same one at once.  Who has no pages sends nothing: all know that. */
static void post_receives(pl_mpi_t *self, const pl_gather_t *gather, int p)
{
    const pl_gather_part_t *part = &gather->parts[p];
    pl_mpi_wire_t wire           = part_wire(self, p);
    int n_lanes                  = self->comm.n_prefill;

    for (int d = 1; d < n_lanes; d++) {
        int from = (self->comm.rank + n_lanes - d) % n_lanes;

        if (self->counts[from] > 0) {
            pl_mpi_batch_receive(&self->batch, &wire, from,
                                 part->view +
                                     (size_t)self->first[from] * part->stride,
                                 owner_bytes(self, part, from));
        }
    }
}

static void post_sends(pl_mpi_t *self, const pl_gather_t *gather, int p)
{
    const pl_gather_part_t *part = &gather->parts[p];
    pl_mpi_wire_t wire           = part_wire(self, p);
    int n_lanes                  = self->comm.n_prefill;
    int me                       = self->comm.rank;

    for (int d = 1; (self->counts[me] > 0) && (d < n_lanes); d++) {
        pl_mpi_batch_send(&self->batch, &wire, (me + d) % n_lanes,
                          part->view + (size_t)self->first[me] * part->stride,
                          owner_bytes(self, part, me));
    }
}

pl_status_t pl_mpi_gather(pl_comm_t *comm, const pl_gather_t *gather)
{
    pl_mpi_t *self  = (pl_mpi_t *)comm;
    size_t expected = 0;

    if (self->broken) {
        return PL_ERR_COMM;
    }
    pl_comm_owner_major(gather, comm->n_prefill, self->counts, self->first);
    PL_TRY(reserve(self, gather));
    for (int p = 0; p < gather->n_parts; p++) {
        post_receives(self, gather, p);
        expected += (size_t)(gather->n_pages - self->counts[comm->rank]) *
                    gather->parts[p].stride;
    }
    for (int p = 0; p < gather->n_parts; p++) {
        copy_own(self, gather, &gather->parts[p]);
        post_sends(self, gather, p);
    }
    PL_TRY(pl_mpi_finish(self, &self->batch, "gather"));
    if (self->batch.n_received != expected) {
        pl_log(comm->log, PL_LOG_ERROR,
               "rank %d: gather: %zu bytes came, not %zu: ranks disagree on "
               "the pages",
               comm->rank, self->batch.n_received, expected);
        return PL_ERR_DISAGREE;
    }
    return PL_OK;
}
