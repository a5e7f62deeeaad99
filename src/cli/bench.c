/* pagelane bench: each part beside its yardstick, in the same run. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cache/evict_bench.h"
#include "cache/tree_bench.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/table.h"
#include "device/cuda.h"
#include "pool/lanes_bench.h"
#include "store/snapshot_bench.h"
#include "store/tier_bench.h"

/* One figure and what it stands beside. */
typedef struct figure {
    const char *name; /* for people */
    const char *key;  /* in JSON */
    const char *unit;
    double value;
    double yardstick; /* 0: it is one itself */
    const char *yardstick_name;
} figure_t;

typedef struct bench {
    const char *name;
    int n_figures;
    figure_t figures[16];
    char shape[320];
} bench_t;

static pl_status_t bench_lanes(const pl_log_t *log, uint64_t seed,
                               bench_t *bench)
{
    pl_lanes_bench_result_t r;

    PL_TRY(pl_lanes_bench(log, seed, &r));
    (void)snprintf(bench->shape, sizeof(bench->shape),
                   "%" PRId32 " pages a call over %d lanes of %" PRId32
                   ", %.0f %% in use, after %" PRId64 " random operations",
                   r.n_pages, r.n_lanes, r.pages_per_lane, 100 * r.used,
                   r.n_operations);
    bench->n_figures = 5;
    bench->figures[0] =
        (figure_t){"take, zigzag owners", "take_ns",    "ns/page", r.take_ns,
                   r.stack_take_ns,       "stack, take"};
    bench->figures[1] =
        (figure_t){"free, all checks", "free_ns",       "ns/page",
                   r.free_ns,          r.stack_free_ns, "stack, free"};
    bench->figures[2] =
        (figure_t){"take, random owners", "take_mixed_ns", "ns/page",
                   r.take_mixed_ns,       r.stack_take_ns, "stack, take"};
    bench->figures[3] =
        (figure_t){"free, random owners", "free_mixed_ns", "ns/page",
                   r.free_mixed_ns,       r.stack_free_ns, "stack, free"};
    bench->figures[4] = (figure_t){"memcpy of the list", "memcpy_ns", "ns/page",
                                   r.memcpy_ns,          0,           ""};
    return PL_OK;
}

/* A victim by each policy, behind the figures that are there. */
static pl_status_t bench_evict(const pl_log_t *log, uint64_t seed,
                               bench_t *bench)
{
    static const char *const words[][2] = {
        {"evict, lru", "evict_lru_ns"},
        {"evict, lfu", "evict_lfu_ns"},
        {"evict, slru", "evict_slru_ns"},
        {"evict, fifo", "evict_fifo_ns"},
        {"evict, s3fifo", "evict_s3fifo_ns"},
        {"evict, sieve", "evict_sieve_ns"},
        {"evict, lane-aware", "evict_lane_aware_ns"},
        {"evict, belady", "evict_belady_ns"},
    };
    double lru_ns = 0;

    for (int i = 0; pl_policy_at(i) != NULL; i++) {
        pl_evict_bench_result_t r;

        PL_TRY(pl_evict_bench(log, seed, pl_policy_at(i), &r));
        lru_ns = i == 0 ? r.evict_ns : lru_ns;
        bench->figures[bench->n_figures++] =
            (figure_t){words[i][0], words[i][1], "ns", r.evict_ns,
                       i == 0 ? 0 : lru_ns, i == 0 ? "" : "evict, lru"};
    }
    return PL_OK;
}

static pl_status_t bench_tree(const pl_log_t *log, uint64_t seed,
                              bench_t *bench)
{
    pl_tree_bench_result_t r;

    PL_TRY(pl_tree_bench(log, seed, &r));
    (void)snprintf(bench->shape, sizeof(bench->shape),
                   "%" PRId32 " pages of %" PRId32 " tokens in %" PRId32
                   " nodes among %" PRId64,
                   r.n_pages, r.page_tokens, r.n_path, r.n_nodes);
    bench->n_figures = 2;
    bench->figures[0] =
        (figure_t){"match",    "match_ns",  "ns",
                   r.match_ns, r.memcmp_ns, "memcmp of the tokens"};
    bench->figures[1] = (figure_t){
        "match, keys from tokens", "keys_match_ns", "ns",
        r.keys_match_ns,           r.memcmp_ns,     "memcmp of the tokens"};
    return bench_evict(log, seed, bench);
}

/* Figures 2 and 3 of `snapshot`; what they are of goes behind its shape. */
static pl_status_t bench_tier(const pl_log_t *log, bench_t *bench)
{
    pl_tier_bench_result_t r;
    size_t n = strlen(bench->shape);

    PL_TRY(pl_tier_bench(log, &r));
    (void)snprintf(bench->shape + n, sizeof(bench->shape) - n,
                   "; a storage tier of %d ranks, %" PRId64
                   " pages of %" PRId64 " bytes, %" PRId64 " syncs",
                   r.n_ranks, r.n_pages, r.page_bytes, r.n_syncs);
    bench->figures[2] = (figure_t){"storage tier, write", "tier_write_mb_s",
                                   "MB/s", r.write_mb_s, r.plain_write_mb_s,
                                   "plain write, as many syncs"};
    bench->figures[3] = (figure_t){"storage tier, read", "tier_read_mb_s",
                                   "MB/s", r.read_mb_s, r.plain_read_mb_s,
                                   "plain read"};
    return PL_OK;
}

static pl_status_t bench_snapshot(const pl_log_t *log, uint64_t seed,
                                  bench_t *bench)
{
    pl_snapshot_bench_result_t r;

    PL_TRY(pl_snapshot_bench(log, seed, &r));
    (void)snprintf(bench->shape, sizeof(bench->shape),
                   "%" PRId64 " nodes with %" PRId64
                   " pages in %d lanes: columns of %.1f MB, a file of %.1f MB",
                   r.n_nodes, r.n_pages, r.n_lanes,
                   (double)r.column_bytes / 1e6, (double)r.file_bytes / 1e6);
    PL_TRY(bench_tier(log, bench));
    bench->n_figures  = 4;
    bench->figures[0] = (figure_t){
        "snapshot, synced", "snapshot_ms", "ms",
        r.snapshot_ms,      r.plain_ms,    "plain write of the file, synced"};
    bench->figures[1] = (figure_t){"of it, the state is copied",
                                   "snapshot_copy_ms",
                                   "ms",
                                   r.copy_ms,
                                   r.memcpy_ms,
                                   "memcpy of the columns"};
    return PL_OK;
}

static void take_figure(void *context, const pl_cuda_figure_t *taken)
{
    bench_t *bench = context;
    int room = (int)(sizeof(bench->figures) / sizeof(bench->figures[0]));

    if (bench->n_figures < room) { /* texts are the module's, and stay */
        bench->figures[bench->n_figures++] =
            (figure_t){taken->name,  taken->key,       taken->unit,
                       taken->value, taken->yardstick, taken->yardstick_name};
    }
}

static pl_status_t bench_kernels(const pl_log_t *log, uint64_t seed,
                                 bench_t *bench)
{
    const pl_cuda_figures_t figures = {take_figure, bench};
    char why[256]                   = "";
    const pl_cuda_module_t *module  = pl_cuda_open(why, sizeof(why));
    pl_cuda_about_t about;

    (void)seed;
    if ((module == NULL) || (module->count(why, sizeof(why)) == 0)) {
        pl_log(log, PL_LOG_ERROR,
               "bench kernels: no GPU can be used here: %s; `pagelane "
               "--list-devices` says what can",
               why);
        return PL_ERR_RESOURCE;
    }
    PL_TRY(module->describe(0, &about));
    (void)snprintf(bench->shape, sizeof(bench->shape),
                   "a prompt of 128K tokens, pages of 64 x 656 bytes, on %.63s",
                   about.name);
    return module->bench_kernels(log, &figures);
}

static pl_status_t print_table(const bench_t *bench)
{
    pl_table_t *table =
        pl_table_open("bench<,measured>,unit<,yardstick>,beside it<,ratio>");
    pl_status_t status;

    for (int i = 0; i < bench->n_figures; i++) {
        const figure_t *f = &bench->figures[i];

        pl_table_cell(table, "%s", f->name);
        pl_table_cell(table, "%.2f", f->value);
        pl_table_cell(table, "%s", f->unit);
        if (f->yardstick > 0) {
            pl_table_cell(table, "%.2f", f->yardstick);
            pl_table_cell(table, "%s", f->yardstick_name);
            pl_table_cell(table, "%.2f", f->value / f->yardstick);
        } else {
            pl_table_cell(table, "%s", "");
            pl_table_cell(table, "%s", "yardstick");
            pl_table_cell(table, "%s", "");
        }
    }
    printf("# %s: %s\n", bench->name, bench->shape);
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return status;
}

static pl_status_t print_json(const bench_t *bench)
{
    json_object *root = json_object_new_object();
    int bad           = 0;

    if (root == NULL) {
        return PL_ERR_MEMORY;
    }
    bad |= json_object_object_add(root, "bench",
                                  json_object_new_string(bench->name));
    bad |= json_object_object_add(root, "shape",
                                  json_object_new_string(bench->shape));
    for (int i = 0; i < bench->n_figures; i++) {
        const figure_t *f = &bench->figures[i];
        char key[64];

        pl_json_real(root, f->key, f->value);
        (void)snprintf(key, sizeof(key), "%s_yardstick", f->key);
        if (f->yardstick > 0) {
            pl_json_real(root, key, f->yardstick);
        }
    }
    if (bad == 0) {
        printf("%s\n",
               json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN));
    }
    json_object_put(root);
    return bad == 0 ? PL_OK : PL_ERR_MEMORY;
}

static const struct {
    const char *name;
    pl_status_t (*run)(const pl_log_t *log, uint64_t seed, bench_t *bench);
} BENCHES[] = {
    {"lanes", bench_lanes}, {"tree", bench_tree}, {"snapshot", bench_snapshot},
    {"kernels", bench_kernels}};

enum { N_BENCHES = sizeof(BENCHES) / sizeof(BENCHES[0]) };

/* The number of a bench; N_BENCHES if it is none. */
static int find_bench(const char *name)
{
    int i = 0;

    while ((i < N_BENCHES) && (strcmp(name, BENCHES[i].name) != 0)) {
        i++;
    }
    return i;
}

static pl_status_t run_one(const pl_cli_t *cli, const char *name)
{
    int i         = find_bench(name);
    bench_t bench = {.name = BENCHES[i].name};

    PL_TRY(BENCHES[i].run(&cli->log, (uint64_t)cli->options.seed, &bench));
    return cli->options.json ? print_json(&bench) : print_table(&bench);
}

/* Before any of them takes its time. */
static pl_status_t check_names(const pl_cli_t *cli)
{
    for (size_t i = 0; i < cli->n_words; i++) {
        if (find_bench(cli->words[i]) == N_BENCHES) {
            pl_log(&cli->log, PL_LOG_ERROR,
                   "bench: no part named '%.64s'; there are lanes, tree, "
                   "snapshot and kernels, and `bench transfer` and `bench "
                   "prefill` by themselves",
                   cli->words[i]);
            return PL_ERR_ARGUMENT;
        }
    }
    return PL_OK;
}

int pl_cli_bench(const pl_cli_t *cli)
{
    pl_status_t status = check_names(cli);

    for (size_t i = 0; (i < cli->n_words) && (status == PL_OK); i++) {
        status = run_one(cli, cli->words[i]);
    }
    return pl_status_exit(status);
}
