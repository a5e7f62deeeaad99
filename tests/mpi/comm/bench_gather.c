/* bench_gather [PAGES] [BYTES] [ROUNDS]: one materialize over all ranks, by MPI
 * and by peers that read shared memory, beside MPI_Allgatherv of the same
 * bytes, in the same run.  Times are of the slowest rank; GB/s counts what all
 * ranks' views receive. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pagelane/mpi.h>

#include "comm/peer.h"

typedef struct bench {
    pl_device_t *device;
    pl_comm_t *comm, *peer;
    int32_t n_pages;
    size_t stride;
    uint8_t *store, *view;
    pl_page_t *pages;
    int32_t *rows;
    int *counts, *firsts;
    MPI_Datatype page_type;
} bench_t;

static void check(pl_status_t status)
{
    if (status != PL_OK) {
        MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
    }
}

static uint8_t *take(bench_t *bench, pl_memory_t kind, size_t n_bytes)
{
    void *mem = NULL;

    check(pl_device_alloc(bench->device, kind, n_bytes, "pages", &mem));
    memset(mem, 0, n_bytes);
    return mem;
}

static void bench_open(bench_t *bench)
{
    int n              = bench->comm->n_ranks;
    size_t store_bytes = (size_t)(bench->n_pages / n + 1) * bench->stride;

    bench->store = take(bench, PL_MEMORY_SHARED, store_bytes);
    bench->view =
        take(bench, PL_MEMORY_DEVICE, (size_t)bench->n_pages * bench->stride);
    check(pl_comm_expose(bench->comm, 0, PL_MEMORY_HOST, bench->store,
                         store_bytes));
    check(pl_comm_expose(bench->peer, 0, PL_MEMORY_SHARED, bench->store,
                         store_bytes));
    bench->pages  = malloc((size_t)bench->n_pages * sizeof(*bench->pages));
    bench->rows   = malloc((size_t)bench->n_pages * sizeof(*bench->rows));
    bench->counts = calloc((size_t)n, sizeof(*bench->counts));
    bench->firsts = calloc((size_t)n + 1, sizeof(*bench->firsts));
    for (int32_t i = 0; i < bench->n_pages; i++) {
        bench->pages[i] = i;
        bench->counts[i % n]++;
    }
    for (int rank = 0; rank < n; rank++) {
        bench->firsts[rank + 1] = bench->firsts[rank] + bench->counts[rank];
    }
    MPI_Type_contiguous((int)bench->stride, MPI_BYTE, &bench->page_type);
    MPI_Type_commit(&bench->page_type);
}

static pl_status_t gather(bench_t *bench, pl_comm_t *comm)
{
    pl_gather_t gather = {.pages   = bench->pages,
                          .n_pages = bench->n_pages,
                          .n_parts = 1,
                          .rows    = bench->rows};

    gather.parts[0].stride = bench->stride;
    gather.parts[0].view   = bench->view;
    return pl_comm_gather(comm, &gather);
}

static pl_status_t by_gather(bench_t *bench)
{
    return gather(bench, bench->comm);
}

static pl_status_t by_peers(bench_t *bench)
{
    return gather(bench, bench->peer);
}

static pl_status_t by_allgatherv(bench_t *bench)
{
    int me = bench->comm->rank;

    memcpy(bench->view + (size_t)bench->firsts[me] * bench->stride,
           bench->store, (size_t)bench->counts[me] * bench->stride);
    MPI_Allgatherv(MPI_IN_PLACE, 0, bench->page_type, bench->view,
                   bench->counts, bench->firsts, bench->page_type,
                   MPI_COMM_WORLD);
    return PL_OK;
}

static pl_status_t by_agree(bench_t *bench)
{
    uint64_t words[4] = {0};

    return pl_comm_agree(bench->comm, words, 4);
}

static pl_status_t by_allreduce(bench_t *bench)
{
    uint64_t words[4] = {0};

    (void)bench;
    MPI_Allreduce(MPI_IN_PLACE, words, 4, MPI_UINT64_T, MPI_BOR,
                  MPI_COMM_WORLD);
    return PL_OK;
}

static void measure(bench_t *bench, const char *name, int n_rounds,
                    double n_bytes, pl_status_t (*run)(bench_t *))
{
    double least = 1e9;
    double sum   = 0;

    for (int i = 0; i < n_rounds; i++) {
        double s, slowest;

        MPI_Barrier(MPI_COMM_WORLD);
        s = MPI_Wtime();
        check(run(bench));
        s = MPI_Wtime() - s;
        MPI_Allreduce(&s, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        least = slowest < least ? slowest : least;
        sum += slowest;
    }
    if (bench->comm->rank == 0) {
        printf("%-16s %9.3f ms mean %9.3f ms best", name, 1e3 * sum / n_rounds,
               1e3 * least);
        if (n_bytes > 0) {
            printf(" %7.2f GB/s best", n_bytes / least / 1e9);
        }
        printf("\n");
    }
}

int main(int argc, char **argv)
{
    pl_log_t log  = pl_log_stderr(PL_LOG_INFO);
    bench_t bench = {.n_pages = argc > 1 ? atoi(argv[1]) : 2000,
                     .stride  = argc > 2 ? (size_t)atol(argv[2]) : 4096};
    int n_rounds  = argc > 3 ? atoi(argv[3]) : 30;
    int n_ranks   = 0;
    pl_comm_t *base;
    double n_bytes;

    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &n_ranks);
    check(pl_device_open("cpu", &log, &bench.device));
    check(pl_mpi_comm_create(MPI_COMM_WORLD, n_ranks, 60.0, &log, &bench.comm));
    check(pl_mpi_comm_create(MPI_COMM_WORLD, n_ranks, 60.0, &log, &base));
    check(pl_comm_open_peer(base, bench.device, &bench.peer));
    bench_open(&bench);
    n_bytes = (double)bench.n_pages * (double)bench.stride * n_ranks;
    measure(&bench, "gather", n_rounds, n_bytes, by_gather);
    measure(&bench, "gather by peers", n_rounds, n_bytes, by_peers);
    measure(&bench, "MPI_Allgatherv", n_rounds, n_bytes, by_allgatherv);
    measure(&bench, "agree", 10 * n_rounds, 0, by_agree);
    measure(&bench, "MPI_Allreduce", 10 * n_rounds, 0, by_allreduce);
    pl_comm_close(bench.peer);
    pl_comm_close(base);
    pl_comm_close(bench.comm);
    pl_device_free(bench.device, bench.store);
    pl_device_free(bench.device, bench.view);
    pl_device_close(bench.device);
    MPI_Type_free(&bench.page_type);
    MPI_Finalize();
    return EXIT_SUCCESS;
}
