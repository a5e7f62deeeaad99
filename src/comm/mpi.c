/* Ranks that are processes: MPI, host memory, one thread a rank.
 *
 * Nothing blocks inside MPI: every operation is a nonblocking one that is
 * looked at until it is done or the deadline has passed (mpi_batch.c).
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "comm/mpi_comm.h"

/* Where processes share no memory but a buffer of MPI's, a message goes on only
 * while both ranks look at it, and who waits for a long time looks seldom: each
 * piece that ends shows that there is more to come. */
#define BLOCK_BYTES ((size_t)1 << 20)

/* ---- errors ---- */

pl_status_t pl_mpi_no_memory(const pl_mpi_t *self, const char *call, size_t n)
{
    pl_log(self->comm.log, PL_LOG_ERROR, "rank %d: %s: no memory for %zu bytes",
           self->comm.rank, call, n);
    return PL_ERR_MEMORY;
}

pl_status_t pl_mpi_finish(pl_mpi_t *self, pl_mpi_batch_t *batch,
                          const char *what)
{
    char text[160];
    bool receives;

    if (pl_mpi_batch_wait(batch, self->comm.timeout_s)) {
        return PL_OK;
    }
    self->broken = true;
    memset(self->missing, 0, (size_t)self->comm.n_ranks);
    receives = pl_mpi_batch_missing(batch, self->missing);
    pl_comm_rank_list(self->missing, self->comm.n_ranks, text, sizeof(text));
    pl_log(self->comm.log, PL_LOG_ERROR, "rank %d: %s: waited %.6g s%s%s",
           self->comm.rank, what, self->comm.timeout_s,
           text[0] == '\0' ? " for the other ranks"
           : receives      ? " for the messages of ranks "
                           : " to be heard by ranks ",
           text);
    return PL_ERR_COMM;
}

/* ---- collective calls ---- */

/* Room for n words and for the pieces of the collective. */
static pl_status_t prepare(pl_mpi_t *self, const char *what, size_t n_words,
                           size_t n_pieces)
{
    if (self->broken) {
        return PL_ERR_COMM;
    }
    if ((PL_ARRAY_RESERVE(&self->words, n_words) != PL_OK) ||
        (pl_mpi_batch_reserve(&self->batch, n_pieces) != PL_OK)) {
        return pl_mpi_no_memory(self, what, n_words * sizeof(uint64_t));
    }
    return PL_OK;
}

static size_t block_words(const pl_mpi_t *self)
{
    size_t n = self->block_bytes / sizeof(uint64_t);

    return n > 0 ? n : 1;
}

static size_t reduce_pieces(const pl_mpi_t *self, size_t n_words)
{
    return n_words / block_words(self) + 1;
}

/* Reduce n of self->words in place. */
static pl_status_t reduce(pl_mpi_t *self, const char *what, size_t n, MPI_Op op)
{
    size_t block = block_words(self);

    for (size_t done = 0; done < n; done += block) {
        size_t count        = n - done < block ? n - done : block;
        MPI_Request request = MPI_REQUEST_NULL;

        MPI_Iallreduce(MPI_IN_PLACE, self->words.items + done, (int)count,
                       MPI_UINT64_T, op, self->all, &request);
        pl_mpi_batch_add(&self->batch, request);
    }
    return pl_mpi_finish(self, &self->batch, what);
}

/* Behind the words go the traces and their complements: where ranks differ, a
 * bit is set in both (9.33). */
static pl_status_t mpi_agree(pl_comm_t *comm, uint64_t *words, int32_t n_words)
{
    pl_mpi_t *self = (pl_mpi_t *)comm;
    size_t n       = (size_t)n_words;
    bool prefills  = comm->rank < comm->n_prefill;
    uint64_t *w;

    PL_TRY(prepare(self, "agree", n + 4, reduce_pieces(self, n + 4)));
    w = self->words.items;
    if (n > 0) {
        memcpy(w, words, n * sizeof(*w));
    }
    w[n]     = comm->trace;
    w[n + 1] = ~comm->trace;
    w[n + 2] = prefills ? comm->prefill_trace : 0;
    w[n + 3] = prefills ? ~comm->prefill_trace : 0;
    PL_TRY(reduce(self, "agree", n + 4, MPI_BOR));
    if (((w[n] & w[n + 1]) != 0) || ((w[n + 2] & w[n + 3]) != 0)) {
        pl_log(comm->log, PL_LOG_ERROR,
               "rank %d: ranks disagree: not all made the same calls with the "
               "same sizes before agree (call %" PRIu64 " of this rank)",
               comm->rank, comm->n_calls);
        return PL_ERR_DISAGREE;
    }
    if (n > 0) {
        memcpy(words, w, n * sizeof(*w));
    }
    return PL_OK;
}

static pl_status_t mpi_sum(pl_comm_t *comm, uint64_t *values, int64_t n_values)
{
    pl_mpi_t *self = (pl_mpi_t *)comm;
    size_t n       = (size_t)n_values;

    PL_TRY(prepare(self, "sum", n, reduce_pieces(self, n)));
    if (n == 0) {
        return PL_OK;
    }
    memcpy(self->words.items, values, n * sizeof(*values));
    PL_TRY(reduce(self, "sum", n, MPI_SUM));
    memcpy(values, self->words.items, n * sizeof(*values));
    return PL_OK;
}

static pl_status_t mpi_broadcast(pl_comm_t *comm, int root, void *bytes,
                                 size_t n)
{
    pl_mpi_t *self = (pl_mpi_t *)comm;
    char *buffer;

    PL_TRY(prepare(self, "broadcast", (n + 7) / 8, n / self->block_bytes + 1));
    if (n == 0) {
        return PL_OK;
    }
    buffer = (char *)self->words.items;
    if (comm->rank == root) {
        memcpy(buffer, bytes, n);
    }
    for (size_t done = 0; done < n; done += self->block_bytes) {
        size_t left  = n - done;
        size_t count = left < self->block_bytes ? left : self->block_bytes;
        MPI_Request request = MPI_REQUEST_NULL;

        MPI_Ibcast(buffer + done, (int)count, MPI_BYTE, root, self->all,
                   &request);
        pl_mpi_batch_add(&self->batch, request);
    }
    PL_TRY(pl_mpi_finish(self, &self->batch, "broadcast"));
    if (comm->rank != root) {
        memcpy(bytes, buffer, n);
    }
    return PL_OK;
}

static pl_status_t mpi_barrier(pl_comm_t *comm)
{
    pl_mpi_t *self      = (pl_mpi_t *)comm;
    MPI_Request request = MPI_REQUEST_NULL;

    PL_TRY(prepare(self, "barrier", 0, 1));
    MPI_Ibarrier(self->all, &request);
    pl_mpi_batch_add(&self->batch, request);
    return pl_mpi_finish(self, &self->batch, "barrier");
}

/* Peers ask the owner, so only the owner needs to know. */
static pl_status_t mpi_expose(pl_comm_t *comm, int region, pl_memory_t kind,
                              void *base, size_t bytes)
{
    (void)region;
    (void)kind;
    (void)base;
    (void)bytes;
    return ((pl_mpi_t *)comm)->broken ? PL_ERR_COMM : PL_OK;
}

static void mpi_fail(pl_comm_t *comm, pl_status_t status)
{
    (void)status; /* the program aborts; nothing wakes a peer before that */
    ((pl_mpi_t *)comm)->broken = true;
}

/* ---- open, close ---- */

static void free_memory(pl_mpi_t *self)
{
    pl_mpi_batch_free(&self->batch);
    PL_ARRAY_FREE(&self->words);
    PL_ARRAY_FREE(&self->messages);
    PL_ARRAY_FREE(&self->unused);
    free(self->counts);
    free(self->first);
    free(self->missing);
    free(self);
}

static void mpi_close(pl_comm_t *comm)
{
    pl_mpi_t *self = (pl_mpi_t *)comm;
    bool settled   = pl_mpi_messages_close(self);

    settled = pl_mpi_batch_settle(&self->batch) && settled;
    if (!settled) {
        /* MPI may still write there: leave it all to the end of the program. */
        return;
    }
    if (self->prefill != MPI_COMM_NULL) {
        MPI_Comm_free(&self->prefill);
    }
    MPI_Comm_free(&self->all);
    free_memory(self);
}

static const pl_comm_ops_t mpi_ops = {
    .name      = "mpi",
    .agree     = mpi_agree,
    .sum       = mpi_sum,
    .broadcast = mpi_broadcast,
    .barrier   = mpi_barrier,
    .expose    = mpi_expose,
    .gather    = pl_mpi_gather,
    .send      = pl_mpi_send,
    .receive   = pl_mpi_receive,
    .wait      = pl_mpi_wait,
    .fail      = mpi_fail,
    .close     = mpi_close,
};

MPI_Comm pl_mpi_comm_of(const pl_comm_t *comm)
{
    return comm->ops == &mpi_ops ? ((const pl_mpi_t *)comm)->all
                                 : MPI_COMM_NULL;
}

/* Local; NULL if there is no memory. */
static pl_mpi_t *new_comm(MPI_Comm mpi, int n_prefill, double timeout_s,
                          const pl_log_t *log)
{
    pl_mpi_t *self = calloc(1, sizeof(*self));

    if (self == NULL) {
        return NULL;
    }
    self->comm.ops       = &mpi_ops;
    self->comm.log       = log;
    self->comm.n_prefill = n_prefill;
    self->comm.timeout_s = timeout_s;
    self->block_bytes    = BLOCK_BYTES;
    MPI_Comm_rank(mpi, &self->comm.rank);
    MPI_Comm_size(mpi, &self->comm.n_ranks);
    self->counts  = calloc((size_t)n_prefill, sizeof(*self->counts));
    self->first   = calloc((size_t)n_prefill + 1, sizeof(*self->first));
    self->missing = calloc((size_t)self->comm.n_ranks, sizeof(*self->missing));
    if ((self->counts == NULL) || (self->first == NULL) ||
        (self->missing == NULL)) {
        free_memory(self);
        return NULL;
    }
    return self;
}

static void open_comms(pl_mpi_t *self, MPI_Comm mpi)
{
    bool prefills = self->comm.rank < self->comm.n_prefill;
    int *limit    = NULL;
    int found     = 0;

    MPI_Comm_dup(mpi, &self->all);
    MPI_Comm_split(self->all, prefills ? 0 : MPI_UNDEFINED, self->comm.rank,
                   &self->prefill);
    MPI_Comm_get_attr(self->all, MPI_TAG_UB, &limit, &found);
    self->tag_limit = found ? *limit : 32767; /* what MPI promises */
}

static pl_status_t check_mpi(MPI_Comm mpi, int n_prefill, double timeout_s,
                             const pl_log_t *log)
{
    int initialized = 0;
    int n_ranks     = 0;

    MPI_Initialized(&initialized);
    if (!initialized || (mpi == MPI_COMM_NULL)) {
        pl_log(log, PL_LOG_ERROR,
               "no MPI communicator; call MPI_Init first, or use local ranks");
        return PL_ERR_ARGUMENT;
    }
    MPI_Comm_size(mpi, &n_ranks);
    return pl_comm_check(n_ranks, n_prefill, timeout_s, log);
}

pl_status_t pl_mpi_comm_create(MPI_Comm mpi, int n_prefill, double timeout_s,
                               const pl_log_t *log, pl_comm_t **comm_p)
{
    pl_mpi_t *self;
    int good;
    int all_good = 0;

    PL_TRY(check_mpi(mpi, n_prefill, timeout_s, log));
    self = new_comm(mpi, n_prefill, timeout_s, log);
    good = (self != NULL);
    if (!good) {
        pl_log(log, PL_LOG_ERROR, "no memory for a communicator");
    }
    MPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_LAND, mpi);
    if (!all_good) {
        if (good) {
            free_memory(self);
        }
        return good ? PL_ERR_PEER : PL_ERR_MEMORY;
    }
    open_comms(self, mpi);
    *comm_p = &self->comm;
    return PL_OK;
}

void pl_mpi_comm_close(pl_comm_t *comm)
{
    pl_comm_close(comm);
}
