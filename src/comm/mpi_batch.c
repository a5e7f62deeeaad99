#include "comm/mpi_batch.h"

#include <assert.h>
#include <limits.h>
#include <sched.h>
#include <stdint.h>
#include <time.h>

#define SETTLE_S 0.5

/* Ranks share cores: who waits gives its core away at once, and after some
 * rounds sleeps, so that eight ranks on two cores do not burn each other's
 * time. */
#define YIELD_ROUNDS   200
#define SLEEP_STEP_NS  2000
#define SLEEP_LIMIT_NS 200000

pl_status_t pl_mpi_batch_reserve(pl_mpi_batch_t *batch, size_t n)
{
    size_t want = batch->requests.n + n;

    PL_TRY(PL_ARRAY_RESERVE(&batch->requests, want));
    PL_TRY(PL_ARRAY_RESERVE(&batch->peers, want));
    PL_TRY(PL_ARRAY_RESERVE(&batch->indices, want));
    return PL_ARRAY_RESERVE(&batch->statuses, want);
}

size_t pl_mpi_pieces(const pl_mpi_wire_t *wire, size_t n_bytes)
{
    return n_bytes == 0 ? 1 : (n_bytes - 1) / wire->block_bytes + 1;
}

static void add(pl_mpi_batch_t *batch, MPI_Request request, int rank,
                bool receive)
{
    pl_mpi_peer_t peer = {rank, receive};

    assert(batch->requests.n < batch->indices.capacity);
    batch->requests.items[batch->requests.n++] = request;
    batch->peers.items[batch->peers.n++]       = peer;
}

void pl_mpi_batch_add(pl_mpi_batch_t *batch, MPI_Request request)
{
    add(batch, request, -1, false);
}

static int piece_bytes(const pl_mpi_wire_t *wire, size_t n_left)
{
    assert((wire->block_bytes > 0) && (wire->block_bytes <= INT_MAX));
    return (int)(n_left < wire->block_bytes ? n_left : wire->block_bytes);
}

void pl_mpi_batch_send(pl_mpi_batch_t *batch, const pl_mpi_wire_t *wire, int to,
                       const void *bytes, size_t n)
{
    const char *at = bytes;
    size_t done    = 0;

    do {
        int count           = piece_bytes(wire, n - done);
        MPI_Request request = MPI_REQUEST_NULL;

        MPI_Isend(count > 0 ? at + done : NULL, count, MPI_BYTE, to, wire->tag,
                  wire->mpi, &request);
        add(batch, request, to, false);
        done += (size_t)count;
    } while (done < n);
}

void pl_mpi_batch_receive(pl_mpi_batch_t *batch, const pl_mpi_wire_t *wire,
                          int from, void *bytes, size_t n)
{
    char *at    = bytes;
    size_t done = 0;

    do {
        int count           = piece_bytes(wire, n - done);
        MPI_Request request = MPI_REQUEST_NULL;

        MPI_Irecv(count > 0 ? at + done : NULL, count, MPI_BYTE, from,
                  wire->tag, wire->mpi, &request);
        add(batch, request, from, true);
        done += (size_t)count;
    } while (done < n);
}

/* ---- waiting ---- */

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void rest(int round)
{
    int64_t ns = (int64_t)(round - YIELD_ROUNDS) * SLEEP_STEP_NS;

    if (ns <= 0) {
        sched_yield();
    } else {
        struct timespec t = {0,
                             (long)(ns < SLEEP_LIMIT_NS ? ns : SLEEP_LIMIT_NS)};

        nanosleep(&t, NULL);
    }
}

/* Look once; returns how many have come to their end just now. */
static int look(pl_mpi_batch_t *batch)
{
    int n_done = 0;

    MPI_Testsome((int)batch->requests.n, batch->requests.items, &n_done,
                 batch->indices.items, batch->statuses.items);
    if (n_done == MPI_UNDEFINED) {
        return 0;
    }
    for (int i = 0; i < n_done; i++) {
        int count = 0;

        if (batch->peers.items[batch->indices.items[i]].receive) {
            MPI_Get_count(&batch->statuses.items[i], MPI_BYTE, &count);
            batch->n_received += (size_t)count;
        }
    }
    return n_done;
}

static size_t count_open(const pl_mpi_batch_t *batch)
{
    size_t n = 0;

    for (size_t i = 0; i < batch->requests.n; i++) {
        n += (batch->requests.items[i] != MPI_REQUEST_NULL);
    }
    return n;
}

static void clear(pl_mpi_batch_t *batch)
{
    batch->requests.n = 0;
    batch->peers.n    = 0;
}

bool pl_mpi_batch_wait(pl_mpi_batch_t *batch, double timeout_s)
{
    size_t n_open     = count_open(batch);
    double since      = 0;
    int round         = 0;
    batch->n_received = 0;

    while (n_open > 0) {
        int n_done = look(batch);

        if (n_done > 0) { /* progress: the clock starts anew */
            n_open -= (size_t)n_done;
            round = 0;
            continue;
        }
        if (round == 0) {
            since = now_s();
        } else if (now_s() - since > timeout_s) {
            return false;
        }
        rest(round++);
    }
    clear(batch);
    return true;
}

bool pl_mpi_batch_missing(const pl_mpi_batch_t *batch, bool *missing)
{
    bool receives = false;

    for (size_t i = 0; i < batch->requests.n; i++) {
        receives = receives || (batch->peers.items[i].receive &&
                                (batch->requests.items[i] != MPI_REQUEST_NULL));
    }
    for (size_t i = 0; i < batch->requests.n; i++) {
        const pl_mpi_peer_t *peer = &batch->peers.items[i];

        if ((batch->requests.items[i] != MPI_REQUEST_NULL) &&
            (peer->rank >= 0) && (peer->receive == receives)) {
            missing[peer->rank] = true;
        }
    }
    return receives;
}

bool pl_mpi_batch_settle(pl_mpi_batch_t *batch)
{
    for (size_t i = 0; i < batch->requests.n; i++) {
        if ((batch->requests.items[i] != MPI_REQUEST_NULL) &&
            batch->peers.items[i].receive) {
            MPI_Cancel(&batch->requests.items[i]);
        }
    }
    return pl_mpi_batch_wait(batch, SETTLE_S);
}

void pl_mpi_batch_free(pl_mpi_batch_t *batch)
{
    PL_ARRAY_FREE(&batch->requests);
    PL_ARRAY_FREE(&batch->peers);
    PL_ARRAY_FREE(&batch->indices);
    PL_ARRAY_FREE(&batch->statuses);
}
