/* One rank of `pagelane bench transfer`. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "cli/bench_transfer.h"
#include "comm/nccl_comm.h"

enum { REGION = 0, SAMPLES = 5, MOST_TIMES = 20, BATCH = 256 };
#define SAMPLE_BYTES ((int64_t)1 << 30) /* a sample moves about so many */

typedef struct rank {
    const pl_transfer_params_t *params;
    pl_comm_t *comm;
    pl_device_t *device;
    size_t page_bytes;
    int32_t most;              /* pages of a rank at the largest size */
    int32_t n_slots;           /* of a rank's store */
    uint8_t *store;            /* [n_slots] pages, shared */
    uint8_t *view;             /* [n * most] pages */
    uint8_t *staging;          /* [BATCH] pages, host memory */
    pl_page_t *pages;          /* [n * most]; n ranks in turn */
    pl_page_t *by_row;         /* [n * most] the page of a row of the view */
    int32_t *rows;             /* [n * most] */
    void *peers[PL_MAX_RANKS]; /* their stores here, own one included */
} rank_t;

/* ---- what pages hold ---- */

void pl_transfer_stamp(uint64_t key, pl_page_t page, uint8_t *at, size_t bytes)
{
    uint64_t word = pl_mix64(key ^ pl_mix64((uint64_t)page + 1));

    for (size_t i = 0; i < bytes; i += sizeof(word)) {
        memcpy(at + i, &word, sizeof(word));
        word =
            word * UINT64_C(6364136223846793005) + UINT64_C(0xDA3E39CB94B95BDB);
    }
}

static uint64_t wrong_bytes(uint64_t difference)
{
    uint64_t n = 0;

    for (int i = 0; i < 8; i++) {
        n += ((difference >> (8 * i)) & 0xFF) != 0;
    }
    return n;
}

uint64_t pl_transfer_wrong(uint64_t key, pl_page_t page, const uint8_t *at,
                           size_t bytes)
{
    uint64_t word = pl_mix64(key ^ pl_mix64((uint64_t)page + 1));
    uint64_t n    = 0;

    for (size_t i = 0; i < bytes; i += sizeof(word)) {
        uint64_t found;

        memcpy(&found, at + i, sizeof(found));
        if (found != word) {
            n += wrong_bytes(found ^ word);
        }
        word =
            word * UINT64_C(6364136223846793005) + UINT64_C(0xDA3E39CB94B95BDB);
    }
    return n;
}

double pl_transfer_algbw(const pl_transfer_figure_t *figure, double us)
{
    return (double)figure->bytes / (us * 1e3);
}

double pl_transfer_busbw(const pl_transfer_figure_t *figure, double us,
                         int n_ranks)
{
    return pl_transfer_algbw(figure, us) * (n_ranks - 1) / n_ranks;
}

/* ---- on the device ---- */

static pl_status_t finish(rank_t *rank)
{
    pl_fence_t fence;

    PL_TRY(pl_device_record(rank->device, PL_STREAM_GATHER, &fence));
    return pl_device_wait(rank->device, PL_STREAM_GATHER, fence);
}

static int32_t batch_of(int32_t done, int32_t n)
{
    return n - done < BATCH ? n - done : BATCH;
}

/* What this rank's first n pages of the list hold from now on. */
static pl_status_t write_own(rank_t *rank, uint64_t key, int32_t n)
{
    size_t bytes = rank->page_bytes;
    pl_copy_t copies[BATCH];

    for (int32_t done = 0; done < n; done += BATCH) {
        int32_t batch = batch_of(done, n);

        for (int32_t i = 0; i < batch; i++) {
            pl_page_t page = rank->pages[(done + i) * rank->comm->n_ranks +
                                         rank->comm->rank];
            int32_t slot   = pl_page_slot(page, rank->comm->n_ranks);

            copies[i] = (pl_copy_t){rank->store + (size_t)slot * bytes,
                                    rank->staging + (size_t)i * bytes, bytes};
            pl_transfer_stamp(key, page, rank->staging + (size_t)i * bytes,
                              bytes);
        }
        PL_TRY(pl_device_copy(rank->device, PL_STREAM_GATHER, copies, batch,
                              false));
        PL_TRY(finish(rank));
    }
    return PL_OK;
}

static pl_status_t count_wrong(rank_t *rank, uint64_t key, int32_t n_pages,
                               uint64_t *n_wrong)
{
    size_t bytes = rank->page_bytes;

    *n_wrong = 0;
    for (int32_t i = 0; i < n_pages; i++) {
        rank->by_row[rank->rows[i]] = rank->pages[i];
    }
    for (int32_t done = 0; done < n_pages; done += BATCH) {
        int32_t batch        = batch_of(done, n_pages);
        const pl_copy_t copy = {rank->staging,
                                rank->view + (size_t)done * bytes,
                                (size_t)batch * bytes};

        PL_TRY(pl_device_copy(rank->device, PL_STREAM_GATHER, &copy, 1, false));
        PL_TRY(finish(rank));
        for (int32_t i = 0; i < batch; i++) {
            *n_wrong +=
                pl_transfer_wrong(key, rank->by_row[done + i],
                                  rank->staging + (size_t)i * bytes, bytes);
        }
    }
    return PL_OK;
}

/* ---- what is timed ---- */

typedef pl_status_t (*op_t)(rank_t *rank, int32_t n); /* n pages of a rank */

static pl_status_t gather(rank_t *rank, int32_t n)
{
    const pl_gather_t all = {.pages   = rank->pages,
                             .n_pages = n * rank->comm->n_ranks,
                             .n_parts = 1,
                             .rows    = rank->rows,
                             .parts   = {{.region = REGION,
                                          .stride = rank->page_bytes,
                                          .view   = rank->view}}};

    return pl_comm_gather(rank->comm, &all);
}

static pl_status_t copy_ranges(rank_t *rank, int32_t n, bool own)
{
    size_t bytes     = (size_t)n * rank->page_bytes;
    int32_t n_copies = 0;
    pl_copy_t copies[PL_MAX_RANKS];

    for (int r = 0; r < rank->comm->n_ranks; r++) {
        if (own || (r != rank->comm->rank)) {
            copies[n_copies++] = (pl_copy_t){rank->view + (size_t)r * bytes,
                                             rank->peers[r], bytes};
        }
    }
    return pl_device_copy(rank->device, PL_STREAM_GATHER, copies, n_copies,
                          false);
}

static pl_status_t copy_memory(rank_t *rank, int32_t n)
{
    return copy_ranges(rank, n, true);
}

/* What comes over the links, and nothing else. */
static pl_status_t copy_peers(rank_t *rank, int32_t n)
{
    return copy_ranges(rank, n, rank->comm->n_ranks == 1);
}

static pl_status_t all_gather(rank_t *rank, int32_t n)
{
    return pl_comm_nccl_all_gather(rank->comm, rank->store, rank->view,
                                   (size_t)n * rank->page_bytes);
}

static double now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * (double)t.tv_sec + 1e-3 * (double)t.tv_nsec;
}

static pl_status_t sample(rank_t *rank, op_t op, int32_t n, int n_times,
                          double *us)
{
    double begin;

    PL_TRY(pl_comm_barrier(rank->comm));
    begin = now_us();
    for (int i = 0; i < n_times; i++) {
        PL_TRY(op(rank, n));
    }
    PL_TRY(finish(rank));
    *us = (now_us() - begin) / n_times;
    return PL_OK;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Of each sample the slowest rank's, of those the median: the same on all. */
static pl_status_t median_of_slowest(pl_comm_t *comm,
                                     const double mine[SAMPLES], double *us)
{
    uint64_t all[PL_MAX_RANKS * SAMPLES] = {0};
    double slowest[SAMPLES]              = {0};

    memcpy(all + (size_t)comm->rank * SAMPLES, mine, sizeof(slowest));
    PL_TRY(pl_comm_sum(comm, all, (int64_t)comm->n_ranks * SAMPLES));
    for (int i = 0; i < comm->n_ranks * SAMPLES; i++) {
        double one;

        memcpy(&one, all + i, sizeof(one));
        if (one > slowest[i % SAMPLES]) {
            slowest[i % SAMPLES] = one;
        }
    }
    qsort(slowest, SAMPLES, sizeof(*slowest), by_size);
    *us = slowest[SAMPLES / 2];
    return PL_OK;
}

static pl_status_t time_op(rank_t *rank, op_t op, int32_t n, double *us)
{
    int64_t bytes =
        (int64_t)rank->comm->n_ranks * n * (int64_t)rank->page_bytes;
    int64_t times = SAMPLE_BYTES / bytes;
    double mine[SAMPLES];

    times = times < 1 ? 1 : times > MOST_TIMES ? MOST_TIMES : times;
    PL_TRY(sample(rank, op, n, 2, mine)); /* not counted */
    for (int i = 0; i < SAMPLES; i++) {
        PL_TRY(sample(rank, op, n, (int)times, mine + i));
    }
    return median_of_slowest(rank->comm, mine, us);
}

/* Other bytes than those that were timed, into a view of none of them: a gather
 * that brings what was there before, or nothing, is seen. */
static pl_status_t check_gather(rank_t *rank, uint64_t key, int32_t n,
                                uint64_t *n_wrong)
{
    int32_t n_pages      = n * rank->comm->n_ranks;
    const pl_span_t view = {rank->view, (size_t)n_pages * rank->page_bytes};

    PL_TRY(pl_comm_agree(rank->comm, NULL, 0)); /* nobody reads any more */
    PL_TRY(write_own(rank, key, n));
    PL_TRY(pl_device_fill(rank->device, PL_STREAM_GATHER, &view, 1,
                          PL_POISON_BYTE));
    PL_TRY(gather(rank, n));
    PL_TRY(finish(rank));
    PL_TRY(count_wrong(rank, key, n_pages, n_wrong));
    return pl_comm_sum(rank->comm, n_wrong, 1);
}

static pl_status_t measure_size(rank_t *rank, int32_t n,
                                pl_transfer_figure_t *figure)
{
    static const op_t yardsticks[] = {
        [PL_TRANSFER_MEMORY]     = copy_memory,
        [PL_TRANSFER_PEERS]      = copy_peers,
        [PL_TRANSFER_ALL_GATHER] = all_gather,
    };
    uint64_t key = pl_fold64(rank->params->seed, (uint64_t)n);

    figure->pages = (int64_t)n * rank->comm->n_ranks;
    figure->bytes = figure->pages * (int64_t)rank->page_bytes;
    PL_TRY(pl_comm_agree(rank->comm, NULL, 0));
    PL_TRY(write_own(rank, ~key, n));
    PL_TRY(time_op(rank, gather, n, &figure->us));
    PL_TRY(time_op(rank, yardsticks[rank->params->yardstick], n,
                   &figure->yardstick_us));
    return check_gather(rank, key, n, &figure->n_wrong);
}

/* ---- open, close ---- */

/* A quarter of the slots stays empty; each rank's pages are anywhere. */
static void draw_pages(rank_t *rank, int32_t *slots)
{
    int n_ranks = rank->comm->n_ranks;

    for (int owner = 0; owner < n_ranks; owner++) {
        pl_rng_t rng = pl_rng_seed(rank->params->seed + (uint64_t)owner);

        for (int32_t i = 0; i < rank->n_slots; i++) {
            int32_t j = (int32_t)pl_rng_below(&rng, (uint64_t)i + 1);

            slots[i] = slots[j];
            slots[j] = i;
        }
        for (int32_t i = 0; i < rank->most; i++) {
            rank->pages[(int64_t)i * n_ranks + owner] =
                pl_page_at(owner, slots[i], n_ranks);
        }
    }
}

static pl_status_t open_lists(rank_t *rank)
{
    size_t n       = (size_t)rank->most * (size_t)rank->comm->n_ranks;
    int32_t *slots = calloc((size_t)rank->n_slots, sizeof(*slots));

    rank->pages  = malloc(n * sizeof(*rank->pages));
    rank->by_row = malloc(n * sizeof(*rank->by_row));
    rank->rows   = malloc(n * sizeof(*rank->rows));
    if ((slots == NULL) || (rank->pages == NULL) || (rank->by_row == NULL) ||
        (rank->rows == NULL)) {
        pl_log(rank->comm->log, PL_LOG_ERROR,
               "bench transfer: no memory for lists of %zu pages; use a "
               "smaller --max",
               n);
        free(slots);
        return PL_ERR_MEMORY;
    }
    draw_pages(rank, slots);
    free(slots);
    return PL_OK;
}

static pl_status_t open_memory(rank_t *rank)
{
    size_t view = (size_t)rank->most * (size_t)rank->comm->n_ranks;
    void *mem;

    PL_TRY(open_lists(rank));
    PL_TRY(pl_device_alloc(rank->device, PL_MEMORY_SHARED,
                           (size_t)rank->n_slots * rank->page_bytes,
                           "pages of the bench", &mem));
    rank->store = mem;
    PL_TRY(pl_device_alloc(rank->device, PL_MEMORY_DEVICE,
                           view * rank->page_bytes, "view of the bench", &mem));
    rank->view = mem;
    PL_TRY(pl_device_alloc(rank->device, PL_MEMORY_HOST,
                           BATCH * rank->page_bytes, "buffer of the bench",
                           &mem));
    rank->staging = mem;
    return PL_OK;
}

enum { SHARE_WORDS = sizeof(pl_share_t) / sizeof(uint64_t) };

/* Collective.  Where the yardstick reads from. */
static pl_status_t open_peers(rank_t *rank)
{
    uint64_t words[PL_MAX_RANKS * SHARE_WORDS] = {0};
    pl_comm_t *comm                            = rank->comm;
    pl_device_t *device                        = rank->device;
    pl_share_t share                           = {0};
    pl_status_t status = device->ops->share(device, rank->store, &share);

    memcpy(words + comm->rank * SHARE_WORDS, &share, sizeof(share));
    PL_TRY(pl_comm_agree_status(comm, status));
    PL_TRY(pl_comm_sum(comm, words, (int64_t)comm->n_ranks * SHARE_WORDS));
    for (int r = 0; (r < comm->n_ranks) && (status == PL_OK); r++) {
        if (r != comm->rank) {
            memcpy(&share, words + r * SHARE_WORDS, sizeof(share));
            status = device->ops->open_shared(device, &share, &rank->peers[r]);
        }
    }
    return pl_comm_agree_status(comm, status);
}

static void close_rank(rank_t *rank)
{
    for (int r = 0; r < rank->comm->n_ranks; r++) {
        if ((rank->peers[r] != NULL) && (rank->peers[r] != rank->store)) {
            rank->device->ops->close_shared(rank->device, rank->peers[r]);
        }
    }
    pl_device_free(rank->device, rank->staging);
    pl_device_free(rank->device, rank->view);
    pl_device_free(rank->device, rank->store);
    free(rank->pages);
    free(rank->by_row);
    free(rank->rows);
}

static pl_status_t measure_sizes(rank_t *rank, pl_transfer_result_t *result)
{
    size_t min   = rank->params->min;
    size_t first = min > rank->page_bytes ? min : rank->page_bytes;

    PL_TRY(pl_comm_agree_status(rank->comm, open_memory(rank)));
    for (int r = 0; r < rank->comm->n_ranks; r++) {
        rank->peers[r] = rank->store;
    }
    if (rank->params->yardstick == PL_TRANSFER_PEERS) {
        PL_TRY(open_peers(rank));
    }
    PL_TRY(pl_comm_expose(rank->comm, REGION, PL_MEMORY_SHARED, rank->store,
                          (size_t)rank->n_slots * rank->page_bytes));
    for (size_t bytes = first;
         (bytes <= rank->params->max) && (result->n < PL_TRANSFER_SIZES);
         bytes *= 4) {
        PL_TRY(measure_size(rank, (int32_t)(bytes / rank->page_bytes),
                            &result->figures[result->n]));
        result->n++;
    }
    return pl_comm_barrier(rank->comm); /* memory may go */
}

pl_status_t pl_transfer_measure(const pl_transfer_params_t *params,
                                pl_comm_t *comm, pl_device_t *device,
                                pl_transfer_result_t *result)
{
    rank_t rank = {.params = params,
                   .comm   = comm,
                   .device = device,
                   .page_bytes =
                       (size_t)params->page_tokens * PL_TRANSFER_ROW_BYTES};
    size_t most = params->max / rank.page_bytes;
    pl_status_t status;

    result->n = 0;
    if ((most == 0) || (params->min == 0) || (params->min > params->max) ||
        (most > INT32_MAX / 2 / (size_t)comm->n_ranks)) {
        pl_log(comm->rank == 0 ? comm->log : NULL, PL_LOG_ERROR,
               "options --min and --max: from %zu to %zu bytes a rank; need at "
               "least one page of %zu bytes, and fewer than 2^30 on all ranks",
               params->min, params->max, rank.page_bytes);
        return PL_ERR_ARGUMENT;
    }
    rank.most    = (int32_t)most;
    rank.n_slots = rank.most + rank.most / 4 + 1;
    status       = measure_sizes(&rank, result);
    close_rank(&rank);
    return status;
}
