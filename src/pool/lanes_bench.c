#include "pool/lanes_bench.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <pagelane/lanes.h>

#include "base/rng.h"

enum {
    N_LANES        = 8,
    PAGES_PER_LANE = 16384, /* 8 M tokens a rank at 64 tokens a page */
    N_TIMED        = 2048,  /* pages per timed call */
    N_OPERATIONS   = 1000000,
    N_BETWEEN      = 20, /* operations between two timed calls */
    N_BATCHES      = 5,
    N_CALLS        = 101, /* per batch */
    MAX_REQUEST    = 32,  /* pages of a random request */
    MAX_REQUESTS   = N_LANES * PAGES_PER_LANE
};

#define FULLEST 0.9 /* share of the pool that random requests fill */

typedef struct request {
    int32_t n_pages;
    pl_page_t pages[MAX_REQUEST];
} request_t;

/* Everything one measurement needs. */
typedef struct bench {
    pl_lanes_t *lanes;
    pl_rng_t rng;
    request_t *requests; /* [MAX_REQUESTS], alive: the first n_requests */
    int32_t n_requests;
    int64_t n_used;
    int64_t n_operations;
    int64_t n_started; /* requests so far: their numbers */
    int32_t *stacks;   /* [lane][PAGES_PER_LANE] */
    int32_t n_stacked[N_LANES];
    pl_owner_t zigzag[N_TIMED];
    pl_owner_t mixed[N_TIMED];
    pl_page_t pages[N_TIMED];
    pl_page_t copy[N_TIMED];
} bench_t;

typedef struct timing {
    double take_ns, free_ns;
} timing_t;

typedef pl_status_t (*timed_call_t)(bench_t *bench, timing_t *timing_p);

static double now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static const pl_ownership_t zigzag_rule = {PL_OWNERSHIP_ZIGZAG, 0};

/* One random operation: a request comes or goes. */
static pl_status_t churn(bench_t *bench)
{
    int64_t most = (int64_t)(FULLEST * N_LANES * PAGES_PER_LANE);
    bool comes   = (bench->n_used < most) && (pl_rng_below(&bench->rng, 5) < 3);
    request_t *request;

    bench->n_operations++;
    if (comes || (bench->n_requests == 0)) {
        pl_owner_t owners[MAX_REQUEST];
        pl_status_t status;

        request          = &bench->requests[bench->n_requests];
        request->n_pages = 1 + (int32_t)pl_rng_below(&bench->rng, MAX_REQUEST);
        pl_compute_owners(zigzag_rule, N_LANES, 0, request->n_pages,
                          bench->n_started++, owners);
        status = pl_lanes_alloc(bench->lanes, owners, request->n_pages,
                                request->pages);
        if (status == PL_OK) {
            bench->n_requests++;
            bench->n_used += request->n_pages;
        }
        return status;
    }
    request =
        &bench
             ->requests[pl_rng_below(&bench->rng, (uint64_t)bench->n_requests)];
    PL_TRY(pl_lanes_free(bench->lanes, request->pages, NULL, request->n_pages));
    bench->n_used -= request->n_pages;
    *request = bench->requests[--bench->n_requests];
    return PL_OK;
}

static pl_status_t time_lanes(bench_t *bench, const pl_owner_t *owners,
                              timing_t *timing_p)
{
    double start = now_ns();
    double taken;

    PL_TRY(pl_lanes_alloc(bench->lanes, owners, N_TIMED, bench->pages));
    taken = now_ns();
    PL_TRY(pl_lanes_free(bench->lanes, bench->pages, owners, N_TIMED));
    timing_p->free_ns = now_ns() - taken;
    timing_p->take_ns = taken - start;
    return PL_OK;
}

static pl_status_t time_zigzag(bench_t *bench, timing_t *timing_p)
{
    return time_lanes(bench, bench->zigzag, timing_p);
}

static pl_status_t time_mixed(bench_t *bench, timing_t *timing_p)
{
    return time_lanes(bench, bench->mixed, timing_p);
}

static pl_status_t time_stacks(bench_t *bench, timing_t *timing_p)
{
    double start = now_ns();
    double taken;

    for (int32_t i = 0; i < N_TIMED; i++) {
        int r = bench->zigzag[i];

        bench->pages[i] =
            bench->stacks[r * PAGES_PER_LANE + --bench->n_stacked[r]];
    }
    taken = now_ns();
    for (int32_t i = 0; i < N_TIMED; i++) {
        int r = bench->zigzag[i];

        bench->stacks[r * PAGES_PER_LANE + bench->n_stacked[r]++] =
            bench->pages[i];
    }
    timing_p->free_ns = now_ns() - taken;
    timing_p->take_ns = taken - start;
    return PL_OK;
}

static pl_status_t time_memcpy(bench_t *bench, timing_t *timing_p)
{
    double start = now_ns();

    memcpy(bench->copy, bench->pages, sizeof(bench->copy));
    timing_p->take_ns = now_ns() - start;
    timing_p->free_ns = 0;
    bench->pages[0] ^= bench->copy[N_TIMED - 1]; /* the copy is used */
    return PL_OK;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Nanoseconds a page: the best of the batches' medians. */
static pl_status_t measure(bench_t *bench, timed_call_t call, double *take_p,
                           double *free_p)
{
    *take_p = *free_p = 1e9;
    for (int b = 0; b < N_BATCHES; b++) {
        double take[N_CALLS];
        double give[N_CALLS];

        for (int c = 0; c < N_CALLS; c++) {
            timing_t timing = {0, 0};

            for (int o = 0; o < N_BETWEEN; o++) {
                PL_TRY(churn(bench));
            }
            PL_TRY(call(bench, &timing));
            take[c] = timing.take_ns / N_TIMED;
            give[c] = timing.free_ns / N_TIMED;
        }
        qsort(take, N_CALLS, sizeof(*take), compare_doubles);
        qsort(give, N_CALLS, sizeof(*give), compare_doubles);
        *take_p = take[N_CALLS / 2] < *take_p ? take[N_CALLS / 2] : *take_p;
        *free_p = give[N_CALLS / 2] < *free_p ? give[N_CALLS / 2] : *free_p;
    }
    return PL_OK;
}

/* The stacks as long use leaves them: every lane's slots in random order. */
static void fill_stacks(bench_t *bench)
{
    for (int r = 0; r < N_LANES; r++) {
        int32_t *stack = bench->stacks + r * PAGES_PER_LANE;

        bench->n_stacked[r] = PAGES_PER_LANE;
        for (int32_t i = 0; i < PAGES_PER_LANE; i++) {
            int32_t j = (int32_t)pl_rng_below(&bench->rng, (uint64_t)i + 1);

            stack[i] = stack[j];
            stack[j] = i * N_LANES + r;
        }
    }
}

static pl_status_t run_bench(bench_t *bench, pl_lanes_bench_result_t *result)
{
    double unused;

    pl_compute_owners(zigzag_rule, N_LANES, 0, N_TIMED, 0, bench->zigzag);
    for (int32_t i = 0; i < N_TIMED; i++) {
        bench->mixed[i] = (pl_owner_t)pl_rng_below(&bench->rng, N_LANES);
    }
    fill_stacks(bench);
    while (bench->n_operations < N_OPERATIONS) {
        PL_TRY(churn(bench));
    }
    PL_TRY(measure(bench, time_zigzag, &result->take_ns, &result->free_ns));
    PL_TRY(measure(bench, time_mixed, &result->take_mixed_ns,
                   &result->free_mixed_ns));
    PL_TRY(measure(bench, time_stacks, &result->stack_take_ns,
                   &result->stack_free_ns));
    PL_TRY(measure(bench, time_memcpy, &result->memcpy_ns, &unused));
    result->n_operations = bench->n_operations;
    result->used = (double)bench->n_used / ((double)N_LANES * PAGES_PER_LANE);
    return pl_lanes_check(bench->lanes);
}

pl_status_t pl_lanes_bench(const pl_log_t *log, uint64_t seed,
                           pl_lanes_bench_result_t *result_p)
{
    pl_lanes_params_t params       = {N_LANES, PAGES_PER_LANE, 1, "bench"};
    pl_lanes_bench_result_t result = {.n_lanes        = N_LANES,
                                      .pages_per_lane = PAGES_PER_LANE,
                                      .n_pages        = N_TIMED};
    pl_status_t status             = PL_ERR_MEMORY;
    bench_t *bench                 = calloc(1, sizeof(*bench));
    request_t *requests            = calloc(MAX_REQUESTS, sizeof(*requests));
    int32_t *stacks = calloc(N_LANES * PAGES_PER_LANE, sizeof(*stacks));

    if ((bench == NULL) || (requests == NULL) || (stacks == NULL)) {
        pl_log(log, PL_LOG_ERROR, "bench lanes: not enough memory");
        goto out;
    }
    bench->rng      = pl_rng_seed(seed);
    bench->requests = requests;
    bench->stacks   = stacks;
    PL_TRY_GOTO(status, pl_lanes_open(&params, log, &bench->lanes), out);
    status = run_bench(bench, &result);
    if (status == PL_OK) {
        *result_p = result;
    }
    pl_lanes_close(bench->lanes);

out:
    free(stacks);
    free(requests);
    free(bench);
    return status;
}
