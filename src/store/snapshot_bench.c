#include "store/snapshot_bench.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rng.h"
#include "cache/policy.h"
#include "cache/tree.h"
#include "store/file.h"
#include "store/snapshot_internal.h"

enum {
    PAGE_TOKENS = 64,
    N_LANES     = 8,
    N_NODES     = 1000000,
    N_TRUNKS    = 50000, /* nodes that others lie below */
    MOST_PAGES  = 3,     /* of a node */
    N_TIMES     = 3
};

static const char PATH[] = "pagelane-bench.h5";

typedef struct bench {
    const pl_log_t *log;
    pl_rng_t rng;
    pl_tree_t *tree;
    pl_engine_t *engine;
    pl_request_t request;
    pl_node_t *trunks[N_TRUNKS];
    pl_page_t next_page;
    pl_snapshot_bench_result_t result;
    char *partial;
    int sink;
    double snapshot_ms[N_TIMES], copy_ms[N_TIMES], memcpy_ms[N_TIMES],
        plain_ms[N_TIMES];
} bench_t;

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- the tree ---- */

static pl_status_t add_host_copy(bench_t *bench, pl_node_t *node,
                                 const pl_page_t *pages)
{
    pl_owner_t owners[MOST_PAGES];
    pl_meta_t meta;

    for (int32_t i = 0; i < node->n_pages; i++) {
        owners[i] = pl_page_owner(pages[i], N_LANES);
    }
    PL_TRY(pl_meta_make(PAGE_TOKENS, node->n_pages, owners, pages, &meta));
    pl_tree_set_host(bench->tree, node, meta);
    return PL_OK;
}

/* A node of some pages below the root or one of the trunks, most of them with a
 * host copy. */
static pl_status_t add_node(bench_t *bench, int32_t i)
{
    int32_t n_trunks = i < N_TRUNKS ? i : N_TRUNKS;
    uint64_t pick    = pl_rng_below(&bench->rng, (uint64_t)n_trunks + 1);
    pl_node_t *at    = pick < (uint64_t)n_trunks ? bench->trunks[pick]
                                                 : pl_tree_root(bench->tree);
    int32_t n        = 1 + (int32_t)pl_rng_below(&bench->rng, MOST_PAGES);
    pl_page_key_t keys[MOST_PAGES];
    pl_page_t pages[MOST_PAGES], dup[MOST_PAGES];
    pl_node_t *node = NULL;

    for (int32_t k = 0; k < n; k++) {
        keys[k].lo = pl_rng_next(&bench->rng);
        keys[k].hi = pl_rng_next(&bench->rng);
        pages[k]   = bench->next_page++;
    }
    PL_TRY(pl_tree_insert(bench->tree, at, 0, keys, n, pages, dup, &node));
    if (i < N_TRUNKS) {
        bench->trunks[i] = node;
    }
    bench->result.n_pages += n;
    if ((i < N_TRUNKS) || (pl_rng_below(&bench->rng, 4) > 0)) {
        bench->result.n_pages += n;
        return add_host_copy(bench, node, pages);
    }
    return PL_OK;
}

static pl_status_t make_tree(bench_t *bench)
{
    const pl_tree_params_t params = {.page_tokens = PAGE_TOKENS,
                                     .n_lanes     = N_LANES,
                                     .policy      = &pl_policy_lru};

    PL_TRY(pl_tree_open(&params, bench->log, &bench->tree));
    for (int32_t i = 0; i < N_NODES; i++) {
        PL_TRY(add_node(bench, i));
    }
    bench->result.n_nodes = pl_tree_n_nodes(bench->tree);
    bench->result.n_lanes = N_LANES;
    return PL_OK;
}

/* ---- an engine for what else stands in the file ---- */

static const pl_request_t *get_request(void *context, int32_t i)
{
    (void)i;
    return &((const bench_t *)context)->request;
}

static void get_keys(void *context, int32_t i, int32_t page_tokens,
                     int32_t first, int32_t n, pl_page_key_t *keys)
{
    (void)context;
    (void)i;
    (void)page_tokens;
    for (int32_t k = 0; k < n; k++) {
        keys[k] = (pl_page_key_t){(uint64_t)(first + k), 1};
    }
}

static pl_status_t open_engine(bench_t *bench)
{
    const pl_engine_source_t source = {bench, 1, get_request, get_keys};
    const pl_engine_config_t config = {.n_prefill    = N_LANES,
                                       .page_tokens  = PAGE_TOKENS,
                                       .chunk_tokens = PAGE_TOKENS,
                                       .device_pages = 64,
                                       .host_pages   = 64,
                                       .decode_pages = 64,
                                       .write_policy = PL_WRITE_THROUGH,
                                       .evict        = &pl_policy_lru,
                                       .max_batch    = 1,
                                       .costs        = pl_costs_builtin(),
                                       .page_bytes   = 4096};

    bench->request =
        (pl_request_t){.input_tokens = PAGE_TOKENS, .output_tokens = 1};
    return pl_engine_open(&config, &source, NULL, (pl_event_sink_t){0},
                          bench->log, &bench->engine);
}

/* ---- measuring ---- */

static pl_status_t write_snapshot(bench_t *bench, int time,
                                  pl_content_t *content)
{
    const pl_snapshot_input_t input = {.engine = bench->engine};
    double start                    = now_ms();

    PL_TRY(pl_snapshot_content_of(&input, bench->tree, bench->log, content));
    bench->copy_ms[time] = now_ms() - start;
    PL_TRY(
        pl_snapshot_write_partial(content, NULL, bench->partial, bench->log));
    PL_TRY(pl_file_publish(bench->partial, PATH, bench->log));
    bench->snapshot_ms[time] = now_ms() - start;
    return PL_OK;
}

/* The columns once more, into fresh memory as a copy of them would be. */
static pl_status_t copy_columns(bench_t *bench, int time,
                                const pl_content_t *content)
{
    double start = now_ms();
    size_t n     = 0;
    char *copy;

    for (size_t i = 0; i < content->datasets.n; i++) {
        n += pl_dataset_bytes(&content->datasets.items[i]);
    }
    copy = malloc(n + 1);
    if (copy == NULL) {
        return PL_ERR_MEMORY;
    }
    n = 0;
    for (size_t i = 0; i < content->datasets.n; i++) {
        const pl_dataset_t *dataset = &content->datasets.items[i];

        memcpy(copy + n, dataset->data, pl_dataset_bytes(dataset));
        n += pl_dataset_bytes(dataset);
    }
    bench->sink += copy[n / 2]; /* so that it is not left out */
    free(copy);
    bench->memcpy_ms[time]     = now_ms() - start;
    bench->result.column_bytes = (int64_t)n;
    return PL_OK;
}

static pl_status_t write_plainly(bench_t *bench, int time, const void *bytes,
                                 uint64_t n)
{
    double start = now_ms();

    PL_TRY(pl_file_write(bench->partial, bytes, n, NULL, 0, bench->log));
    PL_TRY(pl_file_sync(bench->partial, bench->log));
    PL_TRY(pl_file_publish(bench->partial, PATH, bench->log));
    bench->plain_ms[time]    = now_ms() - start;
    bench->result.file_bytes = (int64_t)n;
    return PL_OK;
}

/* The snapshot, and the bytes of its file without anything. */
static pl_status_t measure(bench_t *bench, int time)
{
    pl_content_t content = {0};
    pl_image_t image     = {0};
    pl_h5_quiet_t quiet;
    pl_status_t status;

    PL_TRY_GOTO(status, write_snapshot(bench, time, &content), out);
    PL_TRY_GOTO(status, copy_columns(bench, time, &content), out);
    quiet  = pl_h5_quiet();
    status = pl_snapshot_image(&content, PATH, bench->log, &image);
    pl_h5_loud(quiet);
    if (status == PL_OK) {
        status = write_plainly(bench, time, image.bytes, image.n);
    }

out:
    pl_image_free(&image);
    pl_content_free(&content);
    return status;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double times[N_TIMES])
{
    qsort(times, N_TIMES, sizeof(*times), by_value);
    return times[N_TIMES / 2];
}

static pl_status_t run_bench(bench_t *bench)
{
    PL_TRY(pl_file_check(PATH, "bench snapshot:", bench->log));
    PL_TRY(pl_file_partial(PATH, bench->log, &bench->partial));
    PL_TRY(open_engine(bench));
    PL_TRY(make_tree(bench));
    for (int time = 0; time < N_TIMES; time++) {
        PL_TRY(measure(bench, time));
    }
    bench->result.snapshot_ms = median(bench->snapshot_ms);
    bench->result.copy_ms     = median(bench->copy_ms);
    bench->result.memcpy_ms   = median(bench->memcpy_ms);
    bench->result.plain_ms    = median(bench->plain_ms);
    return PL_OK;
}

pl_status_t pl_snapshot_bench(const pl_log_t *log, uint64_t seed,
                              pl_snapshot_bench_result_t *result_p)
{
    bench_t *bench = calloc(1, sizeof(*bench));
    pl_status_t status;

    if (bench == NULL) {
        pl_log(log, PL_LOG_ERROR, "bench snapshot: not enough memory");
        return PL_ERR_MEMORY;
    }
    bench->log = log;
    bench->rng = pl_rng_seed(seed);
    status     = run_bench(bench);
    if (bench->partial != NULL) {
        pl_file_discard(bench->partial);
        pl_file_discard(PATH);
    }
    if (status == PL_OK) {
        *result_p = bench->result;
    }
    pl_tree_close(bench->tree);
    pl_engine_close(bench->engine);
    free(bench->partial);
    free(bench);
    return status;
}
