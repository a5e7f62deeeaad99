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
        PL_OWNERSHIP_INTERLEAVE, PL_OWNERSHIP_ZIGZAG, PL_OWNERSHIP_REPLICATED};
    pl_rng_t rng               = pl_rng_seed(seed);
    drive_params_t params      = {0};
    pl_engine_config_t *config = &params.config;
    int32_t lane, pages;

    config->n_prefill   = counts[pl_rng_below(&rng, 5)];
    config->n_decode    = (int)pl_rng_below(&rng, 3);
    config->page_tokens = page[pl_rng_below(&rng, 3)];
    config->chunk_tokens =
        config->page_tokens * (1 + (int32_t)pl_rng_below(&rng, 12));
    config->ownership.kind = kinds[pl_rng_below(&rng, 6)];
    config->ownership.width =
        config->ownership.kind == PL_OWNERSHIP_INTERLEAVE ? 2 : 0;
    params.longest_prompt = config->page_tokens * 40;
    params.longest_output = config->page_tokens * 4;
    params.n_requests     = 150;
    params.n_families     = 1 + (int32_t)pl_rng_below(&rng, 6);
    params.gap_ns         = pl_rng_below(&rng, 2) == 0 ? 0 : 400000000;
    params.seed           = pl_rng_next(&rng);

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
    return params;
}

static void describe(const drive_params_t *params)
{
    const pl_engine_config_t *c = &params->config;

    printf("  C=%d D=%d rule=%d P=%d chunk=%d device=%d host=%d decode=%d "
           "buffer=%d "
           "policy=%d explore=%d fail=%g\n",
           c->n_prefill, c->n_decode, (int)c->ownership.kind, c->page_tokens,
           c->chunk_tokens, c->device_pages, c->host_pages, c->decode_pages,
           c->decode_host_pages, (int)c->write_policy, c->explore,
           params->p_fail);
    fflush(stdout);
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
        sum->device_hits += result.device_hits;
        sum->host_hits += result.host_hits;
        sum->n_failed += result.n_failed;
        sum->n_unfit += result.n_unfit;
        sum->cache.loads += result.cache.loads;
        sum->cache.retries += result.cache.retries;
        sum->cache.write_backs += result.cache.write_backs;
        sum->counters.offloads += result.counters.offloads;
        sum->counters.reentries += result.counters.reentries;
        sum->counters.sends_failed += result.counters.sends_failed;
        sum->counters.reservations_failed +=
            result.counters.reservations_failed;
        sum->counters.operations_failed += result.counters.operations_failed;
        sum->counters.hit_cuts += result.counters.hit_cuts;
        sum->adoptions += result.adoptions;
        sum->spoiled += result.spoiled;
        sum->partial_moves += result.partial_moves;
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
        describe(&params);
        drive(&params, 7, &one);
        drive(&params, 7, &two);
        ck_assert_uint_eq(one.decisions, two.decisions);
    }
}
END_TEST

static TCase *runs(void)
{
    TCase *tcase = tcase_create("runs");

    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, random_runs_end_with_every_page_right);
    tcase_add_test(tcase, random_failures_lose_nothing);
    tcase_add_test(tcase, two_ranks_decide_alike);
    return tcase;
}

PL_CHECK_MAIN("engine", runs())
