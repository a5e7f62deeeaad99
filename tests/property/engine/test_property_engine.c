/* Random runs of the whole control plane against a model of the ranks' memory.
 */
#include "property/engine/drive.h"
#include "support/check_main.h"
#include "support/seed.h"

#include <string.h>

static drive_params_t random_params(uint64_t seed)
{
    static const int counts[]                = {1, 2, 3, 4, 8};
    static const int page[]                  = {1, 4, 16};
    static const pl_ownership_kind_t kinds[] = {
        PL_OWNERSHIP_INTERLEAVE, PL_OWNERSHIP_ZIGZAG, PL_OWNERSHIP_ZIGZAG,
        PL_OWNERSHIP_INTERLEAVE, PL_OWNERSHIP_ZIGZAG, PL_OWNERSHIP_REPLICATED,
        PL_OWNERSHIP_LAYER};
    pl_rng_t rng               = pl_rng_seed(seed);
    drive_params_t params      = {0};
    pl_engine_config_t *config = &params.config;
    int32_t lane, pages;

    config->n_prefill   = counts[pl_rng_below(&rng, 5)];
    config->n_decode    = (int)pl_rng_below(&rng, 3);
    config->page_tokens = page[pl_rng_below(&rng, 3)];
    config->chunk_tokens =
        config->page_tokens * (1 + (int32_t)pl_rng_below(&rng, 12));
    config->ownership.kind = kinds[pl_rng_below(&rng, 7)];
    config->ownership.width =
        config->ownership.kind == PL_OWNERSHIP_INTERLEAVE ? 2 : 0;
    params.longest_prompt = config->page_tokens * 40;
    params.longest_output = config->page_tokens * 4;
    params.n_requests     = 150;
    params.n_families     = 1 + (int32_t)pl_rng_below(&rng, 6);
    params.gap_ns         = pl_rng_below(&rng, 2) == 0 ? 0 : 400000000;
    params.seed           = pl_rng_next(&rng);
    params.turns          = (seed & 1) != 0;

    /* Just enough for the longest prompt that may re-enter in the worst lane,
     * or a bit more. */
    pages = 44;
    lane  = pages / pl_ownership_lanes(config->ownership, config->n_prefill) +
           pages * config->page_tokens / config->chunk_tokens + 3;
    lane = lane < pages ? lane : pages;
    config->device_pages =
        1 + lane + (int32_t)pl_rng_below(&rng, (uint64_t)(2 * lane));
    params.tight = pl_rng_below(&rng, 2) == 0;
    if (params.tight) {
        config->device_pages = (int32_t)pl_rng_below(&rng, 3);
    }
    config->host_pages   = (int32_t)pl_rng_below(&rng, (uint64_t)(4 * lane));
    config->decode_pages = 48 + (int32_t)pl_rng_below(&rng, 60);
    config->decode_host_pages =
        pl_rng_below(&rng, 2) == 0 ? 0 : (int32_t)pl_rng_below(&rng, 80);
    config->write_policy          = (pl_write_policy_t)pl_rng_below(&rng, 3);
    config->hot_threshold         = 2;
    config->load_threshold_tokens = 10;
    config->evict                 = pl_policy_find("lru");
    config->max_batch             = 1 + (int32_t)pl_rng_below(&rng, 8);
    config->explore               = (int32_t)pl_rng_below(&rng, 4);
    config->seed                  = params.seed;
    config->costs                 = pl_costs_builtin();
    config->page_bytes            = (int64_t)config->page_tokens *
                         (pl_rng_below(&rng, 2) == 0 ? 100 : 40000000);
    if (config->ownership.kind == PL_OWNERSHIP_LAYER) {
        config->rank_page_bytes = config->page_bytes / config->n_prefill + 7;
    }
    if (pl_rng_below(&rng, 3) == 0) {
        config->mtp.draft_tokens      = 1 + (int32_t)pl_rng_below(&rng, 5);
        config->mtp.accept_millionths = (int32_t)pl_rng_below(&rng, 1000001);
        config->mtp.loses_kv          = pl_rng_below(&rng, 2) == 0;
    }
    return params;
}

/* Give the run a storage tier. */
static void add_storage(drive_params_t *params, uint64_t seed)
{
    pl_rng_t rng               = pl_rng_seed(seed ^ 0x5104a6e);
    pl_engine_config_t *config = &params->config;
    int32_t pages              = 1 + config->host_pages;

    if (config->host_pages == 0) {
        config->host_pages = 1 + (int32_t)pl_rng_below(&rng, 60);
    }
    config->storage_pages =
        1 + (int32_t)pl_rng_below(&rng, 4 * (uint64_t)pages);
    if (pl_rng_below(&rng, 4) == 0) {
        config->storage_pages = PL_PAGES_UNLIMITED;
    }
    config->storage_bound = 0;
    if ((config->storage_pages > 0) && (pl_rng_below(&rng, 2) == 0)) {
        config->storage_bound =
            (int64_t)config->storage_pages * config->n_prefill;
    }
    config->prefetch = (pl_prefetch_t)pl_rng_below(&rng, 3);
    config->prefetch_threshold_tokens =
        (int32_t)pl_rng_below(&rng, 6) * config->page_tokens;
    if (pl_rng_below(&rng, 3) == 0) { /* a slow disk */
        config->costs.link_latency_ns[PL_LINK_STORE] = 500000000;
    }
    if (pl_rng_below(&rng, 3) == 0) {
        config->costs.link_latency_ns[PL_LINK_FETCH] = 700000000;
    }
}

static void describe(const drive_params_t *params)
{
    const pl_engine_config_t *c = &params->config;

    printf("  C=%d D=%d rule=%d P=%d chunk=%d device=%d host=%d decode=%d "
           "buffer=%d "
           "policy=%d explore=%d fail=%g storage=%d prefetch=%d/%d mtp=%d/%d%s"
           "\n",
           c->n_prefill, c->n_decode, (int)c->ownership.kind, c->page_tokens,
           c->chunk_tokens, c->device_pages, c->host_pages, c->decode_pages,
           c->decode_host_pages, (int)c->write_policy, c->explore,
           params->p_fail, c->storage_pages, (int)c->prefetch,
           c->prefetch_threshold_tokens, c->mtp.draft_tokens,
           c->mtp.accept_millionths, c->storage_read_only ? " read-only" : "");
    fflush(stdout);
}

static void add_up(drive_result_t *sum, const drive_result_t *result)
{
    sum->device_hits += result->device_hits;
    sum->host_hits += result->host_hits;
    sum->turns += result->turns;
    sum->n_failed += result->n_failed;
    sum->n_unfit += result->n_unfit;
    sum->cache.loads += result->cache.loads;
    sum->cache.retries += result->cache.retries;
    sum->cache.write_backs += result->cache.write_backs;
    sum->counters.offloads += result->counters.offloads;
    sum->counters.reentries += result->counters.reentries;
    sum->counters.sends_failed += result->counters.sends_failed;
    sum->counters.reservations_failed += result->counters.reservations_failed;
    sum->counters.operations_failed += result->counters.operations_failed;
    sum->counters.hit_cuts += result->counters.hit_cuts;
    sum->counters.drafted_tokens += result->counters.drafted_tokens;
    sum->counters.accepted_tokens += result->counters.accepted_tokens;
    sum->adoptions += result->adoptions;
    sum->spoiled += result->spoiled;
    sum->partial_moves += result->partial_moves;
    sum->storage_hits += result->storage_hits;
    sum->storage_misses += result->storage_misses;
    sum->timeouts += result->timeouts;
    sum->n_skipped += result->n_skipped;
    sum->storage.stores += result->storage.stores;
    sum->storage.stores_failed += result->storage.stores_failed;
    sum->storage.stores_skipped += result->storage.stores_skipped;
    sum->storage.fetches += result->storage.fetches;
    sum->storage.fetched_pages += result->storage.fetched_pages;
    sum->storage.bad_pages += result->storage.bad_pages;
    sum->storage.unread_pages += result->storage.unread_pages;
    sum->storage.evicted_pages += result->storage.evicted_pages;
    sum->storage.publications += result->storage.publications;
    sum->storage.publications_failed += result->storage.publications_failed;
}

static void run_many(const char *name, int n, double p_fail,
                     drive_result_t *sum)
{
    uint64_t seed = pl_test_seed(name);

    for (int i = 0; i < n; i++) {
        drive_params_t params = random_params(seed + (uint64_t)i);
        drive_result_t result = {0};

        params.p_fail = p_fail;
        describe(&params);
        drive(&params, 1, &result);
        add_up(sum, &result);
    }
}

/* Nothing is lost, nobody waits for ever, all bytes are right; and the runs do
 * reach what they are meant to try.  I1-I3, I5-I7, I9, I12; 9.28 nodes that
 * adopt recomputed pages; 9.50 moves of a partial page. */
START_TEST(random_runs_end_with_every_page_right)
{
    drive_result_t sum = {0};

    run_many("random_runs", 60, 0.0, &sum);
    ck_assert_int_eq(sum.n_failed, sum.n_unfit);
    ck_assert_int_gt(sum.device_hits, 0);
    ck_assert_int_gt(sum.host_hits, 0);
    ck_assert_int_gt(sum.cache.loads, 0);
    ck_assert_int_gt(sum.cache.retries, 0);
    ck_assert_int_gt(sum.cache.write_backs, 0);
    ck_assert_int_gt(sum.counters.offloads, 0);
    ck_assert_int_gt(sum.counters.reentries, 0);
    ck_assert_int_gt(sum.counters.hit_cuts, 0);
    ck_assert_int_gt(sum.adoptions, 0);
    ck_assert_int_gt(sum.partial_moves, 0);
    ck_assert_int_gt(sum.turns, 0);
    ck_assert_int_gt(sum.counters.accepted_tokens, 0);
    ck_assert_int_gt(sum.counters.drafted_tokens, sum.counters.accepted_tokens);
}
END_TEST

/* Any operation may fail on some rank, before it starts (9.30) or at its end:
 * recorded as failed (9.44) or recomputed (9.27), pages stay until the end
 * (9.31, 9.45, 9.47), nobody reads what was made of a bad copy, and the run
 * goes on. */
START_TEST(random_failures_lose_nothing)
{
    drive_result_t sum = {0};

    run_many("random_failures", 40, 0.05, &sum);
    ck_assert_int_gt(sum.n_failed, 0);
    ck_assert_int_gt(sum.counters.sends_failed, 0);
    ck_assert_int_gt(sum.spoiled, 0);
    ck_assert_int_gt(sum.counters.reservations_failed, 0);
    ck_assert_int_gt(sum.counters.operations_failed, 0);
}
END_TEST

/* 9.3, 9.34: the same inputs give the same decisions; the state is a function
 * of them. */
START_TEST(two_ranks_decide_alike)
{
    uint64_t seed = pl_test_seed("two_ranks");

    for (int i = 0; i < 10; i++) {
        drive_params_t params = random_params(seed + (uint64_t)i);
        drive_result_t one = {0}, two = {0};

        params.p_fail = i % 2 == 0 ? 0.0 : 0.05;
        if (i >= 5) {
            add_storage(&params, seed + (uint64_t)i);
        }
        describe(&params);
        drive(&params, 7, &one);
        drive(&params, 7, &two);
        ck_assert_uint_eq(one.decisions, two.decisions);
    }
}
END_TEST

/* ---- with a storage tier ---- */

/* As it may go on after a run: another C, other pools, another rule. */
static drive_params_t next_params(const drive_params_t *first, uint64_t seed,
                                  pl_rng_t *rng)
{
    drive_params_t params = random_params(seed);

    /* The same text, in the same pages. */
    while (params.config.page_tokens != first->config.page_tokens) {
        params = random_params(++seed);
    }
    params.n_families     = first->n_families;
    params.seed           = first->seed;
    params.longest_prompt = first->longest_prompt;
    params.n_requests     = first->n_requests;
    add_storage(&params, seed);
    if (pl_rng_below(rng, 3) == 0) { /* the same set once more */
        params = *first;
        params.gap_ns += 1;
    }
    params.config.storage_read_only = pl_rng_below(rng, 5) == 0;
    params.resume                   = pl_rng_below(rng, 3) == 0;
    return params;
}

/* A folder and the runs that use it one after the other, some of which die. */
static void use_folder(uint64_t seed, double p_fail, drive_result_t *sum)
{
    pl_rng_t rng          = pl_rng_seed(seed ^ 0xf01de6);
    drive_disk_t *disk    = drive_disk_open();
    drive_params_t first  = random_params(seed);
    drive_params_t params = first;

    add_storage(&first, seed);
    params = first;
    for (int run = 0; run < 4; run++) {
        drive_result_t result = {0};

        params.disk      = disk;
        params.p_fail    = p_fail;
        params.stop_tick = 0;
        if (pl_rng_below(&rng, 3) == 0) {
            params.stop_tick = 1 + (int64_t)pl_rng_below(&rng, 600);
        }
        describe(&params);
        drive(&params, 1, &result);
        add_up(sum, &result);
        params = next_params(&first, seed + 1000 * (uint64_t)(run + 1), &rng);
    }
    drive_disk_close(disk);
}

/* 9.37, 9.38, I8, I11: what is fetched is what was stored under that prefix, by
 * whatever ranks; an index names what is on disk, and nothing that it names is
 * written over; a prompt's pages come or are an honest miss, and nobody waits
 * for ever. */
START_TEST(random_runs_on_one_folder)
{
    uint64_t seed      = pl_test_seed("random_folders");
    drive_result_t sum = {0};

    for (int i = 0; i < 15; i++) {
        use_folder(seed + 17 * (uint64_t)i, 0.0, &sum);
    }
    ck_assert_int_gt(sum.storage.stores, 0);
    ck_assert_int_gt(sum.storage.evicted_pages, 0);
    ck_assert_int_gt(sum.storage.stores_skipped, 0);
    ck_assert_int_gt(sum.storage.fetched_pages, 0);
    ck_assert_int_gt(sum.storage.publications, 0);
    ck_assert_int_gt(sum.storage_hits, 0);
    ck_assert_int_gt(sum.storage_misses, 0);
    ck_assert_int_gt(sum.timeouts, 0);
    ck_assert_int_gt(sum.n_skipped, 0);
    ck_assert_int_eq(sum.storage.bad_pages, 0);
    ck_assert_int_eq(sum.storage.unread_pages, 0);
}
END_TEST

/* The same when any rank may fail to write, to read a page, or to publish. */
START_TEST(random_disk_failures_lose_nothing)
{
    uint64_t seed      = pl_test_seed("random_disks");
    drive_result_t sum = {0};

    for (int i = 0; i < 10; i++) {
        use_folder(seed + 17 * (uint64_t)i, 0.05, &sum);
    }
    ck_assert_int_gt(sum.storage.stores_failed, 0);
    ck_assert_int_gt(sum.storage.bad_pages, 0);
    ck_assert_int_gt(sum.storage.unread_pages, 0);
    ck_assert_int_gt(sum.storage.publications_failed, 0);
    ck_assert_int_gt(sum.storage_hits, 0);
}
END_TEST

static TCase *runs(void)
{
    TCase *tcase = tcase_create("runs");

    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, random_runs_end_with_every_page_right);
    tcase_add_test(tcase, random_failures_lose_nothing);
    tcase_add_test(tcase, two_ranks_decide_alike);
    tcase_add_test(tcase, random_runs_on_one_folder);
    tcase_add_test(tcase, random_disk_failures_lose_nothing);
    return tcase;
}

PL_CHECK_MAIN("engine", runs())
