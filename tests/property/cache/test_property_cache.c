/* Random use of two mirrored caches, against a model of what is written where.
 *
 * Laws, after every step: each prefix's page is in the tree once and holds what
 * was computed for it, on device and on host (9.53 in small); pages are
 * conserved by lane and none is handed out while a copy works on it; copies
 * move no page and change no owner (9.25, 9.27, 9.28, I2); device and
 * device-or-host sets are prefix-closed (9.32); what a request has locked
 * stays; two caches with the same calls are equal in state, events and counters
 * (9.1, 9.3, 9.34); and who replays the events alone arrives at the same lanes,
 * owners and residency.  In the end locks and pins are zero (9.31) and a flush
 * leaves nothing (9.39).
 */
#include "property/cache/world.h"

#include "support/check_main.h"
#include "support/seed.h"

enum { N_STEPS = 5000, N_STEPS_OF_OTHERS = 800 };

static const int lanes[] = {1, 2, 3, 4, 8};

/* Was any run too tame to mean something? */
static pl_hicache_counters_t total;
static int64_t n_waits, n_orphans, n_cancels, n_misses;

static void add_totals(const world_t *w)
{
    const pl_hicache_counters_t *mine = pl_hicache_counters(w->sides[0].cache);

    total.deficits += mine->deficits;
    total.retries += mine->retries;
    total.retries_failed += mine->retries_failed;
    total.evictions += mine->evictions;
    total.lane_collateral_pages += mine->lane_collateral_pages;
    total.host_drops += mine->host_drops;
    total.backups += mine->backups;
    total.backups_skipped += mine->backups_skipped;
    total.backups_failed += mine->backups_failed;
    total.loads += mine->loads;
    total.loads_failed += mine->loads_failed;
    total.write_backs += mine->write_backs;
    n_waits += w->n_waits;
    n_orphans += w->n_orphans;
    n_cancels += w->n_cancels;
    n_misses += w->n_misses;
}

static void use_a_cache(world_t *w, uint64_t seed, int number, int n_lanes,
                        const pl_policy_ops_t *evict, pl_write_policy_t policy,
                        int32_t host_share)
{
    int n_steps = evict == &pl_policy_lru ? N_STEPS : N_STEPS_OF_OTHERS;

    int32_t device             = 24 / n_lanes + 3;
    pl_hicache_params_t params = {
        .page_tokens           = 16,
        .n_lanes               = n_lanes,
        .device_pages          = device + 1,
        .host_pages            = device * host_share / 4,
        .write_policy          = policy,
        .hot_threshold         = 2,
        .load_threshold_tokens = number % 3 == 0 ? 32 : 1,
        .policy                = evict,
    };

    world_open(w, seed, number, params);
    for (int i = 0; i < n_steps; i++) {
        world_step(w);
    }
    add_totals(w);
    world_close(w);
}

START_TEST(random_use_keeps_every_law)
{
    static const int32_t host_shares[] = {0, 2, 4, 12}; /* quarters of device */
    static world_t w;
    uint64_t seed = pl_test_seed("property_cache");
    int number    = 0;

    for (size_t c = 0; c < sizeof(lanes) / sizeof(lanes[0]); c++) {
        for (int policy = 0; policy < 3; policy++) {
            for (int h = 0; h < 4; h++) {
                for (int e = 0; pl_policy_at(e) != NULL; e++) {
                    use_a_cache(&w, seed, number++, lanes[c], pl_policy_at(e),
                                (pl_write_policy_t)policy, host_shares[h]);
                }
            }
        }
    }
    printf("%" PRId64 " deficits, %" PRId64 " retries (%" PRId64
           " failed), %" PRId64 " evictions (%" PRId64
           " pages of other lanes), %" PRId64 " host drops, %" PRId64
           " backups (%" PRId64 " skipped, %" PRId64 " failed), %" PRId64
           " loads (%" PRId64 " failed), %" PRId64 " write-backs, %" PRId64
           " waits, %" PRId64 " failed loads beside other copies, %" PRId64
           " cancelled loads, %" PRId64 " misses\n",
           total.deficits, total.retries, total.retries_failed, total.evictions,
           total.lane_collateral_pages, total.host_drops, total.backups,
           total.backups_skipped, total.backups_failed, total.loads,
           total.loads_failed, total.write_backs, n_waits, n_orphans, n_cancels,
           n_misses);
    ck_assert_int_gt(total.deficits, 1000);
    ck_assert_int_gt(total.retries, 1000);
    ck_assert_int_gt(total.retries_failed, 10);
    ck_assert_int_gt(total.evictions, 1000);
    ck_assert_int_gt(total.lane_collateral_pages, 100);
    ck_assert_int_gt(total.host_drops, 500);
    ck_assert_int_gt(total.backups, 1000);
    ck_assert_int_gt(total.backups_skipped, 10);
    ck_assert_int_gt(total.backups_failed, 100);
    ck_assert_int_gt(total.loads, 200);
    ck_assert_int_gt(total.loads_failed, 20);
    ck_assert_int_gt(total.write_backs, 200);
    ck_assert_int_gt(n_waits, 50);
    ck_assert_int_gt(n_orphans, 3);
    ck_assert_int_gt(n_cancels, 10);
    ck_assert_int_gt(n_misses, 10);
}
END_TEST

static TCase *cache_case(void)
{
    TCase *tcase = tcase_create("cache");

    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, random_use_keeps_every_law);
    return tcase;
}

PL_CHECK_MAIN("property: cache", cache_case())
