/* The cuda device: what it does beside the host, against memcpy, memset and the
 * plain C digests. */
#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "device.cuh"
#include "gpu.h"
#include "support/log_capture.h"
#include "support/seed.h"

enum { SIXTEEN = 16 };

static log_capture_t said;
static pl_device_t *device;

static void set_up(void)
{
    log_capture_open(&said);
    ck_assert_int_eq(pl_cuda_device_open(0, &said.log, &device), PL_OK);
}

static void tear_down(void)
{
    device->ops->close(device);
    gpu_close();
    ck_assert_msg(strstr(said.text, "was not freed") == NULL, "%s", said.text);
    log_capture_close(&said);
}

static void *allocate(pl_device_t *from, pl_memory_t kind, size_t bytes)
{
    void *mem = NULL;

    ck_assert_int_eq(from->ops->alloc(from, kind, bytes, "a test", &mem),
                     PL_OK);
    ck_assert_ptr_nonnull(mem);
    ck_assert_uint_eq((uintptr_t)mem % 64, 0);
    return mem;
}

static void release(pl_device_t *from, void *mem)
{
    from->ops->free(from, mem);
}

static void queue_copy(pl_device_t *on, pl_stream_t stream, void *dst,
                       const void *src, size_t bytes)
{
    const pl_copy_t copy = {dst, src, bytes};

    ck_assert_int_eq(on->ops->copy(on, stream, &copy, 1, false), PL_OK);
}

static pl_fence_t record(pl_stream_t stream)
{
    pl_fence_t fence = 0;

    ck_assert_int_eq(device->ops->record(device, stream, &fence), PL_OK);
    ck_assert_uint_ne(fence, 0);
    return fence;
}

static void finish(pl_device_t *on, pl_stream_t stream)
{
    pl_fence_t fence;

    ck_assert_int_eq(on->ops->record(on, stream, &fence), PL_OK);
    ck_assert_int_eq(on->ops->wait(on, stream, fence), PL_OK);
}

static void copy_now(pl_device_t *on, void *dst, const void *src, size_t bytes)
{
    queue_copy(on, PL_STREAM_LOAD, dst, src, bytes);
    finish(on, PL_STREAM_LOAD);
}

static void randomise(pl_rng_t *rng, uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)pl_rng_next(rng);
    }
}

/* ---- copies and fillings of any range ---- */

enum { ARENAS = 4, ARENA = 3 << 20 };

/* Two arenas of pinned memory, two of the GPU's, and what each must hold. */
typedef struct arenas {
    uint8_t *at[ARENAS], *want[ARENAS], *got;
} arenas_t;

static arenas_t make_arenas(pl_rng_t *rng)
{
    arenas_t arenas;

    arenas.got = allocate(device, PL_MEMORY_HOST, ARENA);
    for (int a = 0; a < ARENAS; a++) {
        arenas.want[a] = host_bytes(ARENA);
        randomise(rng, arenas.want[a], ARENA);
        memcpy(arenas.got, arenas.want[a], ARENA);
        arenas.at[a] =
            allocate(device, a < 2 ? PL_MEMORY_HOST : PL_MEMORY_DEVICE, ARENA);
        copy_now(device, arenas.at[a], arenas.got, ARENA);
    }
    return arenas;
}

static void check_arenas(const arenas_t *arenas)
{
    for (int a = 0; a < ARENAS; a++) {
        memset(arenas->got, 0, ARENA);
        copy_now(device, arenas->got, arenas->at[a], ARENA);
        ck_assert_mem_eq(arenas->got, arenas->want[a], ARENA);
    }
}

static void free_arenas(const arenas_t *arenas)
{
    for (int a = 0; a < ARENAS; a++) {
        release(device, arenas->at[a]);
    }
    release(device, arenas->got);
}

/* The next range of an arena, behind byte *at_p; false: it is full. */
static bool next_range(pl_rng_t *rng, bool aligned, int32_t most, size_t *at_p,
                       size_t *first_p, size_t *bytes_p)
{
    const size_t unit = aligned ? SIXTEEN : 1;
    size_t first      = *at_p + (size_t)between(rng, 0, 3) * unit;
    size_t bytes      = (size_t)between(rng, 0, most);

    first    = (first + unit - 1) / unit * unit;
    bytes    = bytes / unit * unit;
    *first_p = first;
    *bytes_p = bytes;
    *at_p    = first + bytes;
    return *at_p <= ARENA;
}

/* Ranges of `to`, all apart, from anywhere in `from`. */
static int32_t random_copies(pl_rng_t *rng, const arenas_t *arenas, int from,
                             int to, int32_t most, pl_copy_t *copies,
                             int32_t room)
{
    const int kind = between(rng, 0, 2); /* all aligned, some, hardly any */
    size_t at      = 0, first, bytes;
    int32_t n      = 0;

    while ((n < room) &&
           next_range(rng, kind == 0 || (kind == 1 && between(rng, 0, 1) == 0),
                      most, &at, &first, &bytes)) {
        const size_t unit = (first | bytes) % SIXTEEN == 0 ? SIXTEEN : 1;
        const size_t src =
            (size_t)between(rng, 0, (int32_t)((ARENA - bytes) / unit)) * unit;

        copies[n++] =
            (pl_copy_t){arenas->at[to] + first, arenas->at[from] + src, bytes};
        memcpy(arenas->want[to] + first, arenas->want[from] + src, bytes);
    }
    return n;
}

START_TEST(copies_of_any_range_are_memcpy)
{
    pl_rng_t rng      = pl_rng_seed(pl_test_seed(__func__));
    arenas_t arenas   = make_arenas(&rng);
    pl_copy_t *copies = host_bytes(4000 * sizeof(*copies));

    for (int round = 0; round < 48; round++) {
        const int from = round % ARENAS;
        const int to   = (from + between(&rng, 1, ARENAS - 1)) % ARENAS;
        const pl_stream_t stream =
            (pl_stream_t)between(&rng, 0, PL_STREAMS - 1);
        const int32_t most = round % 3 == 0 ? 300000 : 2000;
        const int32_t n = random_copies(&rng, &arenas, from, to, most, copies,
                                        between(&rng, 0, 4000));

        ck_assert_int_eq(device->ops->copy(device, stream, copies, n, false),
                         PL_OK);
        finish(device, stream);
    }
    check_arenas(&arenas);
    free_arenas(&arenas);
    ck_assert_int_eq(said.n_lines, 0);
}
END_TEST

/* Neighbours that become one range, and a list longer than an argument. */
START_TEST(many_copies_of_pages_are_memcpy)
{
    pl_rng_t rng      = pl_rng_seed(pl_test_seed(__func__));
    arenas_t arenas   = make_arenas(&rng);
    const int32_t n   = ARENA / 512;
    int32_t *order    = host_order(&rng, n);
    pl_copy_t *copies = host_bytes((size_t)n * sizeof(*copies));

    for (int to = 1; to < ARENAS; to++) {
        for (int32_t i = 0; i < n; i++) {
            const size_t at = (size_t)(to == 2 ? i : order[i]) * 512;

            copies[i] =
                (pl_copy_t){arenas.at[to] + at, arenas.at[to - 1] + at, 512};
        }
        ck_assert_int_eq(
            device->ops->copy(device, PL_STREAM_SEND, copies, n, true), PL_OK);
        memcpy(arenas.want[to], arenas.want[to - 1], ARENA);
    }
    finish(device, PL_STREAM_SEND);
    check_arenas(&arenas);
    free_arenas(&arenas);
}
END_TEST

START_TEST(fillings_are_memset)
{
    pl_rng_t rng     = pl_rng_seed(pl_test_seed(__func__));
    arenas_t arenas  = make_arenas(&rng);
    pl_span_t *spans = host_bytes(3000 * sizeof(*spans));

    for (int round = 0; round < 20; round++) {
        const int a        = 2 + round % 2;
        const uint8_t byte = (uint8_t)between(&rng, 0, 255);
        size_t at          = 0, first, bytes;
        int32_t n          = 0;

        while ((n < 3000) &&
               next_range(&rng, between(&rng, 0, 1) == 0,
                          round % 3 == 0 ? 200000 : 500, &at, &first, &bytes)) {
            spans[n++] = (pl_span_t){arenas.at[a] + first, bytes};
            memset(arenas.want[a] + first, byte, bytes);
            at += (size_t)between(&rng, 0, 999);
        }
        ck_assert_int_eq(
            device->ops->fill(device, PL_STREAM_COMPUTE, spans, n, byte),
            PL_OK);
    }
    finish(device, PL_STREAM_COMPUTE);
    check_arenas(&arenas);
    free_arenas(&arenas);
}
END_TEST

START_TEST(ranges_that_leave_their_memory_are_refused)
{
    uint8_t *mem        = allocate(device, PL_MEMORY_DEVICE, 1000);
    uint8_t *host       = allocate(device, PL_MEMORY_HOST, 2000);
    uint8_t *unknown    = host_bytes(2000);
    const pl_copy_t bad = {mem + 1, host, 1000};
    const pl_copy_t far = {mem, unknown, 1000};

    ck_assert_int_eq(device->ops->copy(device, PL_STREAM_LOAD, &bad, 1, false),
                     PL_ERR_VIOLATION);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "1000 bytes at byte 1 leave"));
    ck_assert_int_eq(device->ops->copy(device, PL_STREAM_LOAD, &far, 1, false),
                     PL_ERR_VIOLATION);
    ck_assert_int_eq(said.n_lines, 2);
    ck_assert_ptr_nonnull(strstr(said.text, "cannot reach"));
    copy_now(device, mem, host, 1000); /* nothing is lost */
    release(device, mem);
    release(device, host);
}
END_TEST

/* ---- order ---- */

START_TEST(streams_come_one_after_another)
{
    enum { BYTES = 64 << 20 };
    pl_rng_t rng               = pl_rng_seed(pl_test_seed(__func__));
    uint8_t *from              = allocate(device, PL_MEMORY_HOST, BYTES);
    uint8_t *to                = allocate(device, PL_MEMORY_HOST, BYTES);
    uint8_t *a                 = allocate(device, PL_MEMORY_DEVICE, BYTES);
    uint8_t *b                 = allocate(device, PL_MEMORY_DEVICE, BYTES);
    const pl_device_ops_t *ops = device->ops;
    const int64_t n_syncs      = pl_cuda_n_synchronizations();

    randomise(&rng, from, BYTES);
    for (int round = 0; round < 5; round++) {
        const pl_span_t all = {a, BYTES};

        memset(to, round, BYTES);
        from[round] ^= 1;
        ck_assert_int_eq(ops->fill(device, PL_STREAM_LOAD, &all, 1, 7), PL_OK);
        queue_copy(device, PL_STREAM_LOAD, a, from, BYTES);
        ck_assert_int_eq(ops->after(device, PL_STREAM_COMPUTE, PL_STREAM_LOAD,
                                    record(PL_STREAM_LOAD)),
                         PL_OK);
        queue_copy(device, PL_STREAM_COMPUTE, b, a, BYTES);
        ck_assert_int_eq(ops->after(device, PL_STREAM_BACKUP, PL_STREAM_COMPUTE,
                                    record(PL_STREAM_COMPUTE)),
                         PL_OK);
        queue_copy(device, PL_STREAM_BACKUP, to, b, BYTES);
        finish(device, PL_STREAM_BACKUP);
        ck_assert_int_eq(memcmp(to, from, BYTES), 0);
    }
    if (!pl_cuda_is_debug()) {
        ck_assert_int_eq(pl_cuda_n_synchronizations(), n_syncs);
    }
    release(device, from);
    release(device, to);
    release(device, a);
    release(device, b);
}
END_TEST

START_TEST(fences_know_their_stream)
{
    const pl_device_ops_t *ops = device->ops;
    pl_fence_t first, last, other;

    first = last = record(PL_STREAM_LOAD);
    other        = record(PL_STREAM_SEND);
    for (int i = 0; i < 1000; i++) {
        const pl_fence_t fence = record(PL_STREAM_LOAD);

        ck_assert_uint_gt(fence, last);
        last = fence;
    }
    ck_assert_int_eq(ops->wait(device, PL_STREAM_LOAD, 0), PL_OK);
    ck_assert_int_eq(ops->wait(device, PL_STREAM_LOAD, last), PL_OK);
    ck_assert_int_eq(ops->wait(device, PL_STREAM_LOAD, first), PL_OK);
    ck_assert_int_eq(ops->after(device, PL_STREAM_SEND, PL_STREAM_LOAD, first),
                     PL_OK);
    ck_assert_int_eq(said.n_lines, 0);
    ck_assert_int_eq(ops->wait(device, PL_STREAM_LOAD, other), PL_ERR_ARGUMENT);
    ck_assert_int_eq(
        ops->after(device, PL_STREAM_COMPUTE, PL_STREAM_LOAD, other),
        PL_ERR_ARGUMENT);
    ck_assert_int_eq(ops->wait(device, PL_STREAM_LOAD, last + 80),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(said.n_lines, 3);
    ck_assert_ptr_nonnull(strstr(said.text, "was not recorded on stream load"));
}
END_TEST

static pl_status_t give_up(void *context, double waited_s)
{
    ck_assert_double_gt(waited_s, 0.05);
    ++*(int *)context;
    return PL_ERR_COMM;
}

static void nap(long ms)
{
    const struct timespec time = {0, ms * 1000000};

    (void)nanosleep(&time, NULL);
}

/* What a stream stands at until *go is set. */
static void stand(void *go)
{
    while (atomic_load((atomic_int *)go) == 0) {
        nap(1);
    }
}

START_TEST(a_wait_ends_when_the_watch_says_so)
{
    const int64_t n_before     = device->n_waits;
    const pl_device_ops_t *ops = device->ops;
    int n_looks                = 0;
    atomic_int go              = 0;
    pl_fence_t fence;

    ck_assert_int_eq(
        cudaLaunchHostFunc(pl_cuda_device_stream(device, PL_STREAM_LOAD), stand,
                           &go),
        cudaSuccess);
    fence         = record(PL_STREAM_LOAD);
    device->watch = (pl_device_watch_t){give_up, &n_looks};
    ck_assert_int_eq(ops->wait(device, PL_STREAM_LOAD, fence), PL_ERR_COMM);
    ck_assert_int_eq(n_looks, 1);
    ck_assert_int_eq(pl_cuda_device_wait_stream(device, PL_STREAM_LOAD),
                     PL_ERR_COMM);
    device->watch.look = NULL;
    atomic_store(&go, 1);
    ck_assert_int_eq(ops->wait(device, PL_STREAM_LOAD, fence), PL_OK);
    ck_assert_int_eq(ops->wait(device, PL_STREAM_LOAD, fence), PL_OK);
    ck_assert_int_ge(device->n_waits, n_before + 2);
    ck_assert_int_le(device->n_waits, n_before + 3); /* the last was known */
}
END_TEST

/* A stream that comes after one which stands has not begun. */
START_TEST(what_comes_after_a_fence_waits_for_it)
{
    uint8_t *host              = allocate(device, PL_MEMORY_HOST, 4096);
    uint8_t *mem               = allocate(device, PL_MEMORY_DEVICE, 4096);
    const pl_span_t all        = {mem, 4096};
    const pl_device_ops_t *ops = device->ops;
    atomic_int go              = 0;

    memset(host, 1, 4096);
    copy_now(device, mem, host, 4096); /* the kernel is loaded: that waits */
    ck_assert_int_eq(ops->fill(device, PL_STREAM_LOAD, &all, 1, 2), PL_OK);
    ck_assert_int_eq(
        cudaLaunchHostFunc(pl_cuda_device_stream(device, PL_STREAM_LOAD), stand,
                           &go),
        cudaSuccess);
    ck_assert_int_eq(ops->after(device, PL_STREAM_BACKUP, PL_STREAM_LOAD,
                                record(PL_STREAM_LOAD)),
                     PL_OK);
    if (!pl_cuda_is_debug()) { /* which waits after each launch */
        queue_copy(device, PL_STREAM_BACKUP, host, mem, 4096);
        nap(50);
        ck_assert_uint_eq(*(volatile uint8_t *)host, 1);
    }
    atomic_store(&go, 1);
    copy_now(device, host, mem, 4096);
    finish(device, PL_STREAM_BACKUP);
    ck_assert_uint_eq(host[0], 2);
    ck_assert_uint_eq(host[4095], 2);
    release(device, host);
    release(device, mem);
}
END_TEST

/* ---- digests and gathers ---- */

static pl_page_form_t random_form(pl_rng_t *rng)
{
    static const pl_page_form_t known[] = {
        {64, 656, 0}, {64, 128, 4}, {16, 60, 4}, {1, 1, 0}, {32, 2304, 0}};

    return between(rng, 0, 1) == 0
               ? known[between(rng, 0, 4)]
               : (pl_page_form_t){between(rng, 1, 70), between(rng, 1, 700),
                                  between(rng, 0, 9)};
}

START_TEST(digests_of_jobs_are_those_of_the_host)
{
    enum { BYTES = 4 << 20, MOST = 500 };
    pl_rng_t rng          = pl_rng_seed(pl_test_seed(__func__));
    uint8_t *host         = allocate(device, PL_MEMORY_HOST, BYTES);
    uint8_t *gpu          = allocate(device, PL_MEMORY_DEVICE, BYTES);
    pl_digest_job_t *jobs = host_bytes(MOST * sizeof(*jobs));
    uint64_t *want        = host_bytes(MOST * sizeof(*want));
    uint64_t *got         = host_bytes(MOST * sizeof(*got));

    randomise(&rng, host, BYTES);
    queue_copy(device, PL_STREAM_COMPUTE, gpu, host, BYTES);
    for (int round = 0; round < 12; round++) {
        const int32_t n = between(&rng, 0, MOST);

        for (int32_t i = 0; i < n; i++) {
            const pl_page_form_t form = random_form(&rng);
            const size_t bytes = (size_t)form.page_tokens * pl_row_bytes(&form);
            const size_t at =
                (size_t)between(&rng, 0, (int32_t)(BYTES - bytes));
            const int32_t first = between(&rng, 0, form.page_tokens);

            jobs[i] = (pl_digest_job_t){
                (i % 5 == 0 ? host : gpu) + at,
                form,
                first,
                between(&rng, 0, form.page_tokens - first),
                between(&rng, 0, 1 << 20),
                pl_digest_base(between(&rng, 0, 80), between(&rng, 0, 1))};
            want[i] = pl_digest_rows(&form, host + at, first, jobs[i].rows,
                                     jobs[i].position, jobs[i].base);
        }
        ck_assert_int_eq(
            device->ops->digest(device, PL_STREAM_COMPUTE, jobs, n, got),
            PL_OK);
        ck_assert_mem_eq(got, want, (size_t)n * sizeof(*got));
    }
    release(device, host);
    release(device, gpu);
}
END_TEST

/* Stores of 1 .. 8 lanes in one allocation, and gathers from them in a row that
 * are waited for together. */
START_TEST(gathers_read_the_pages_of_all_lanes)
{
    enum { SLOTS = 900, STRIDE = 48, LANES = 8, TIMES = 7 };
    pl_rng_t rng       = pl_rng_seed(pl_test_seed(__func__));
    const size_t lane  = (size_t)SLOTS * STRIDE;
    const size_t bytes = lane * LANES;
    uint8_t *host      = allocate(device, PL_MEMORY_HOST, bytes);
    uint8_t *stores    = allocate(device, PL_MEMORY_DEVICE, bytes);
    uint8_t *views     = allocate(device, PL_MEMORY_DEVICE, bytes * TIMES);
    uint8_t *got       = allocate(device, PL_MEMORY_HOST, bytes * TIMES);

    randomise(&rng, host, bytes);
    copy_now(device, stores, host, bytes);
    for (int round = 0; round < 60; round++) {
        pl_page_gather_t gathers[TIMES];
        const uint8_t *bases[TIMES][LANES];

        for (int t = 0; t < TIMES; t++) {
            const int n        = between(&rng, 1, LANES);
            const int32_t most = n * SLOTS;

            for (int k = 0; k < n; k++) {
                bases[t][k] = stores + lane * (size_t)between(&rng, 0, 7);
            }
            gathers[t] = (pl_page_gather_t){host_order(&rng, most),
                                            between(&rng, 0, most),
                                            bases[t],
                                            n,
                                            STRIDE,
                                            views + bytes * (size_t)t};
            if (t % 3 == 2) { /* seen before */
                gathers[t]      = gathers[t - 2];
                gathers[t].view = views + bytes * (size_t)t;
            }
            ck_assert_int_eq(
                device->ops->gather(device, PL_STREAM_GATHER, &gathers[t]),
                PL_OK);
        }
        queue_copy(device, PL_STREAM_GATHER, got, views, bytes * TIMES);
        finish(device, PL_STREAM_GATHER);
        for (int t = 0; t < TIMES; t++) {
            const pl_page_gather_t *g = &gathers[t];

            for (int32_t i = 0; i < g->n_pages; i++) {
                const size_t base =
                    (size_t)(g->bases[g->pages[i] % g->n_bases] - stores);

                ck_assert_mem_eq(
                    got + bytes * (size_t)t + (size_t)i * STRIDE,
                    host + base + (size_t)(g->pages[i] / g->n_bases) * STRIDE,
                    STRIDE);
            }
        }
        gpu_close(); /* the lists */
    }
    release(device, host);
    release(device, stores);
    release(device, views);
    release(device, got);
}
END_TEST

/* A rank that has no page of them may show nothing. */
START_TEST(a_gather_needs_no_array_that_none_of_its_pages_lies_in)
{
    enum { SLOTS = 4, STRIDE = 64, N = 3 };
    static const pl_page_t pages[N] = {6, 0, 4}; /* lane 0, slots 3, 0, 2 */
    pl_rng_t rng                    = pl_rng_seed(pl_test_seed(__func__));
    uint8_t *host  = allocate(device, PL_MEMORY_HOST, SLOTS * STRIDE);
    uint8_t *store = allocate(device, PL_MEMORY_DEVICE, SLOTS * STRIDE);
    uint8_t *view  = allocate(device, PL_MEMORY_DEVICE, N * STRIDE);
    uint8_t *got   = allocate(device, PL_MEMORY_HOST, N * STRIDE);
    const uint8_t *const bases[]  = {store, NULL};
    const pl_page_gather_t gather = {pages, N, bases, 2, STRIDE, view};

    randomise(&rng, host, SLOTS * STRIDE);
    copy_now(device, store, host, SLOTS * STRIDE);
    ck_assert_int_eq(device->ops->gather(device, PL_STREAM_GATHER, &gather),
                     PL_OK);
    queue_copy(device, PL_STREAM_GATHER, got, view, N * STRIDE);
    finish(device, PL_STREAM_GATHER);
    for (int i = 0; i < N; i++) {
        ck_assert_mem_eq(got + i * STRIDE, host + pages[i] / 2 * STRIDE,
                         STRIDE);
    }
    release(device, host);
    release(device, store);
    release(device, view);
    release(device, got);
}
END_TEST

/* ---- what fails ---- */

START_TEST(memory_that_is_not_there_leaves_the_device_usable)
{
    static const pl_memory_t kinds[] = {PL_MEMORY_HOST, PL_MEMORY_DEVICE,
                                        PL_MEMORY_SHARED};

    for (int k = 0; k < 3; k++) {
        void *mem = &mem;
        uint8_t *a, *b;

        ck_assert_int_eq(device->ops->alloc(device, kinds[k], (size_t)1 << 50,
                                            "the impossible pool", &mem),
                         PL_ERR_MEMORY);
        ck_assert_ptr_eq(mem, &mem);
        ck_assert_int_eq(said.n_lines, k + 1);
        a = allocate(device, kinds[k], 4096);
        b = allocate(device, kinds[k], 0);
        copy_now(device, a, a + 2048, 2048);
        release(device, a);
        release(device, b);
        release(device, NULL);
    }
    ck_assert_ptr_nonnull(strstr(said.text, "the impossible pool"));
    ck_assert_ptr_nonnull(strstr(said.text, "1125899906842624 bytes"));
}
END_TEST

START_TEST(a_gpu_that_is_not_there_is_named)
{
    pl_device_t *none = NULL;

    ck_assert_int_eq(pl_cuda_device_open(99, &said.log, &none), PL_ERR_DEVICE);
    ck_assert_ptr_null(none);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "cuda:99"));
    ck_assert_int_eq(pl_cuda_device_open(-1, &said.log, &none), PL_ERR_DEVICE);
}
END_TEST

START_TEST(memory_that_is_left_is_told_of)
{
    pl_device_t *other = NULL;

    ck_assert_int_eq(pl_cuda_device_open(0, &said.log, &other), PL_OK);
    (void)allocate(other, PL_MEMORY_HOST, 10);
    other->ops->close(other);
    ck_assert_int_eq(said.n_lines, 1);
    ck_assert_ptr_nonnull(strstr(said.text, "a test (10 bytes) was not freed"));
    said.text[0] = '\0';
}
END_TEST

/* ---- peers ---- */

enum { SHARED = 8 << 20 };

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 31 + i / 251);
}

static bool is_pattern(const uint8_t *bytes)
{
    size_t i = 0;

    while ((i < SHARED) && (bytes[i] == pattern(i))) {
        i++;
    }
    return i == SHARED;
}

/* The pattern comes to `shared` late, and `event` says when. */
static void write_late(uint8_t *host, uint8_t *shared, pl_event_t *event)
{
    for (size_t i = 0; i < SHARED; i++) {
        host[i] = 0;
    }
    for (int i = 0; i < 20; i++) {
        queue_copy(device, PL_STREAM_GATHER, shared, host, SHARED);
    }
    finish(device, PL_STREAM_GATHER);
    for (int i = 0; i < 20; i++) {
        queue_copy(device, PL_STREAM_GATHER, shared + SHARED, host, SHARED);
    }
    for (size_t i = 0; i < SHARED; i++) {
        host[SHARED + i] = pattern(i);
    }
    queue_copy(device, PL_STREAM_GATHER, shared, host + SHARED, SHARED);
    ck_assert_int_eq(device->ops->event_mark(device, PL_STREAM_GATHER, event),
                     PL_OK);
}

/* Opens both, and reads after the event; PL_OK if the pattern is there. */
static pl_status_t read_shared(pl_device_t *reader, const pl_share_t *shares)
{
    const pl_device_ops_t *ops = reader->ops;
    pl_event_t *event          = NULL;
    void *mem = NULL, *again = NULL, *host = NULL;
    pl_fence_t fence;
    pl_status_t status;

    PL_TRY(ops->alloc(reader, PL_MEMORY_HOST, SHARED, "what came", &host));
    memset(host, 0, SHARED);
    PL_TRY(ops->open_shared(reader, &shares[0], &mem));
    PL_TRY(ops->open_shared(reader, &shares[0], &again));
    PL_TRY(ops->event_open(reader, &shares[1], &event));
    ops->close_shared(reader, again);
    PL_TRY(ops->event_after(reader, PL_STREAM_GATHER, event));
    {
        const pl_copy_t copy = {host, mem, SHARED};

        PL_TRY(ops->copy(reader, PL_STREAM_GATHER, &copy, 1, false));
    }
    PL_TRY(ops->record(reader, PL_STREAM_GATHER, &fence));
    PL_TRY(ops->wait(reader, PL_STREAM_GATHER, fence));
    status = is_pattern(host) && (mem == again) ? PL_OK : PL_ERR_VIOLATION;
    ops->event_close(reader, event);
    ops->event_close(reader, NULL);
    ops->close_shared(reader, mem);
    ops->free(reader, host);
    return status;
}

/* What a peer reads: an allocation from its second byte on, and an event. */
typedef struct shared {
    uint8_t *host, *mem;
    pl_event_t *event;
    pl_share_t shares[2];
} shared_t;

static shared_t make_shared(void)
{
    shared_t shared;
    pl_share_t again;

    shared.host = allocate(device, PL_MEMORY_HOST, 2 * SHARED);
    shared.mem  = allocate(device, PL_MEMORY_SHARED, 2 * SHARED + 256);
    ck_assert_int_eq(
        device->ops->event_make(device, &shared.event, &shared.shares[1]),
        PL_OK);
    ck_assert_int_eq(device->ops->share(device, shared.event, &again), PL_OK);
    ck_assert_mem_eq(&again, &shared.shares[1], sizeof(again));
    ck_assert_int_eq(
        device->ops->share(device, shared.mem + 256, &shared.shares[0]), PL_OK);
    ck_assert_uint_eq(shared.shares[0].offset, 256);
    ck_assert_uint_eq(shared.shares[0].bytes, 2 * SHARED);
    write_late(shared.host, shared.mem + 256, shared.event);
    return shared;
}

static void free_shared(shared_t *shared)
{
    finish(device, PL_STREAM_GATHER);
    device->ops->event_close(device, shared->event);
    release(device, shared->host);
    release(device, shared->mem);
}

static void read_on(int gpu)
{
    shared_t shared = make_shared();
    pl_device_t *reader;

    ck_assert_int_eq(pl_cuda_device_open(gpu, &said.log, &reader), PL_OK);
    ck_assert_int_eq(read_shared(reader, shared.shares), PL_OK);
    reader->ops->close(reader);
    free_shared(&shared);
    ck_assert_int_eq(said.n_lines, 0);
}

START_TEST(a_rank_of_this_process_reads_shared_memory)
{
    read_on(0);
}
END_TEST

START_TEST(a_rank_on_another_gpu_reads_shared_memory)
{
    int n = 0;

    ck_assert_int_eq(cudaGetDeviceCount(&n), cudaSuccess);
    if (n > 1) {
        read_on(1);
    }
}
END_TEST

START_TEST(what_is_not_shared_cannot_be)
{
    uint8_t *mem = allocate(device, PL_MEMORY_DEVICE, 64);
    pl_share_t share;

    ck_assert_int_eq(device->ops->share(device, mem, &share), PL_ERR_ARGUMENT);
    ck_assert_int_eq(device->ops->share(device, &share, &share),
                     PL_ERR_ARGUMENT);
    ck_assert_int_eq(said.n_lines, 2);
    release(device, mem);
}
END_TEST

int device_child(const char *gpu)
{
    const pl_log_t log  = pl_log_stderr(PL_LOG_INFO);
    pl_device_t *reader = NULL;
    pl_share_t shares[2];
    pl_status_t status;

    if ((read(STDIN_FILENO, shares, sizeof(shares)) != sizeof(shares)) ||
        (pl_cuda_device_open(atoi(gpu), &log, &reader) != PL_OK)) {
        return EXIT_FAILURE;
    }
    status = read_shared(reader, shares);
    reader->ops->close(reader);
    return status == PL_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* This program again, with what is shared on its standard input. */
static int run_child(const char *gpu, const pl_share_t *shares, size_t bytes)
{
    int ends[2], status = 0;
    pid_t child;

    ck_assert_int_eq(pipe(ends), 0);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)dup2(ends[0], STDIN_FILENO);
        (void)close(ends[1]);
        (void)execl("/proc/self/exe", "test_gpu_kernels", DEVICE_CHILD, gpu,
                    (char *)NULL);
        _exit(EXIT_FAILURE);
    }
    (void)close(ends[0]);
    ck_assert_int_eq(write(ends[1], shares, bytes), (ssize_t)bytes);
    (void)close(ends[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

START_TEST(another_process_reads_shared_memory)
{
    shared_t shared = make_shared();
    int n           = 0;

    ck_assert_int_eq(cudaGetDeviceCount(&n), cudaSuccess);
    ck_assert_int_eq(run_child("0", shared.shares, sizeof(shared.shares)), 0);
    if (n > 1) {
        ck_assert_int_eq(run_child("1", shared.shares, sizeof(shared.shares)),
                         0);
    }
    free_shared(&shared);
}
END_TEST

TCase *case_device(void)
{
    TCase *tc = tcase_create("device");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_add_test(tc, copies_of_any_range_are_memcpy);
    tcase_add_test(tc, many_copies_of_pages_are_memcpy);
    tcase_add_test(tc, fillings_are_memset);
    tcase_add_test(tc, ranges_that_leave_their_memory_are_refused);
    tcase_add_test(tc, streams_come_one_after_another);
    tcase_add_test(tc, fences_know_their_stream);
    tcase_add_test(tc, a_wait_ends_when_the_watch_says_so);
    tcase_add_test(tc, what_comes_after_a_fence_waits_for_it);
    tcase_add_test(tc, digests_of_jobs_are_those_of_the_host);
    tcase_add_test(tc, gathers_read_the_pages_of_all_lanes);
    tcase_add_test(tc, a_gather_needs_no_array_that_none_of_its_pages_lies_in);
    tcase_add_test(tc, memory_that_is_not_there_leaves_the_device_usable);
    tcase_add_test(tc, a_gpu_that_is_not_there_is_named);
    tcase_add_test(tc, memory_that_is_left_is_told_of);
    tcase_add_test(tc, a_rank_of_this_process_reads_shared_memory);
    tcase_add_test(tc, a_rank_on_another_gpu_reads_shared_memory);
    tcase_add_test(tc, what_is_not_shared_cannot_be);
    tcase_add_test(tc, another_process_reads_shared_memory);
    return tc;
}
