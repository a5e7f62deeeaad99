/* Eviction aimed at lanes, extends that need it, and write-backs. */
#include "unit/cache/rig.h"

#include "support/check_main.h"

static rig_t rig;

static void open_rig(int n_lanes, int32_t device_pages, int32_t host_pages)
{
    rig_open(&rig, rig_params(n_lanes, device_pages, host_pages));
}

static void open_write_back(int n_lanes, int32_t device_pages,
                            int32_t host_pages)
{
    pl_hicache_params_t params = rig_params(n_lanes, device_pages, host_pages);

    params.write_policy = PL_WRITE_BACK;
    rig_open(&rig, params);
}

static const pl_hicache_counters_t *counters(void)
{
    return pl_hicache_counters(rig.cache);
}

static pl_status_t extend(const char *owners, pl_page_t *pages,
                          pl_hicache_try_t *try_p)
{
    pl_owner_t lanes[RIG_MOST_PAGES] = {0};
    int n                            = (int)strlen(owners);
    pl_status_t status;

    for (int i = 0; i < n; i++) {
        lanes[i] = (pl_owner_t)(owners[i] - '0');
    }
    status = pl_hicache_extend(rig.cache, lanes, n, pages, try_p);
    for (int i = 0; (status == PL_OK) && (i < n); i++) {
        ck_assert_int_eq(pl_page_owner(pages[i], rig.params.n_lanes), lanes[i]);
        rig.given[lanes[i]]++;
    }
    rig_check(&rig);
    return status;
}

static void give_back(const pl_page_t *pages, int n)
{
    ck_assert_int_eq(pl_hicache_free(rig.cache, pages, n), PL_OK);
    for (int i = 0; i < n; i++) {
        rig.given[pl_page_owner(pages[i], rig.params.n_lanes)]--;
    }
    rig_check(&rig);
}

/* ---- victims ---- */

/* 9.9 no page of the deficit lane can be freed: stop, free nothing. */
START_TEST(eviction_stops_when_no_leaf_qualifies)
{
    pl_node_t *held;

    open_rig(2, 4, 0);
    (void)rig_cold(&rig, 1, "11");
    (void)rig_cold(&rig, 2, "1");
    held = rig_cold(&rig, 3, "00");
    pl_hicache_lock(rig.cache, held);
    ck_assert_int_eq(rig_evict(&rig, 0, 3), 0);
    ck_assert_int_eq(counters()->evictions, 0);
    ck_assert_int_eq(pl_tree_n_nodes(pl_hicache_tree(rig.cache)), 3);
    pl_hicache_unlock(rig.cache, held);
    ck_assert_int_eq(rig_evict(&rig, 0, 3), 0); /* what there is, then stop */
    ck_assert_int_eq(rig_free(&rig, 0), 4);
    ck_assert_int_eq(rig_free(&rig, 1), 1);
    rig_close(&rig);
}
END_TEST

START_TEST(the_shortest_suffix_goes)
{
    open_rig(2, 8, 0);
    (void)rig_cold(&rig, 1, "01010111");
    rig_evict(&rig, 0, 1);
    rig_expect(&rig, 1, 8, 4, 4); /* "0101" stays, "0111" went */
    ck_assert_int_eq(rig_count(&rig, PL_EVENT_SPLIT), 1);
    ck_assert_int_eq(counters()->lane_collateral_pages, 3);
    rig_evict(&rig, 0, 2);
    rig_expect(&rig, 1, 8, 0, 0);
    ck_assert_int_eq(counters()->evicted_pages, 8);
    rig_close(&rig);
}
END_TEST

START_TEST(a_leaf_gives_what_it_has_and_the_next_one_the_rest)
{
    open_rig(3, 8, 0);
    (void)rig_cold(&rig, 1, "210"); /* the oldest: one page of lane 1 */
    (void)rig_cold(&rig, 2, "1111");
    rig_evict(&rig, 1, 3);
    rig_expect(&rig, 1, 3, 1, 1);
    rig_expect(&rig, 2, 4, 2, 2);
    rig_close(&rig);
}
END_TEST

START_TEST(the_least_recently_used_goes_first)
{
    open_rig(1, 8, 0);
    (void)rig_cold(&rig, 1, "00");
    (void)rig_cold(&rig, 2, "00");
    (void)rig_cold(&rig, 3, "00");
    (void)rig_match(&rig, 1, 2);
    rig_evict(&rig, 0, 4); /* two are free */
    rig_expect(&rig, 1, 2, 2, 2);
    rig_expect(&rig, 2, 2, 0, 0);
    rig_expect(&rig, 3, 2, 0, 0);
    rig_close(&rig);
}
END_TEST

/* A leaf without a page of the lane goes for what is above it, all of it. */
START_TEST(leaves_go_for_the_node_above_them)
{
    pl_node_t *trunk;

    open_rig(2, 8, 0);
    trunk = rig_cold(&rig, 1, "00");
    (void)rig_below(&rig, trunk, 2, "111");
    (void)rig_below(&rig, trunk, 3, "1");
    (void)rig_cold(&rig, 4, "11"); /* frees nothing of lane 0 */
    rig_evict(&rig, 0, 1);
    rig_expect_via(&rig, 1, 2, 2, 5, 1, 1);
    rig_expect_via(&rig, 1, 2, 3, 3, 1, 1);
    rig_expect(&rig, 4, 2, 2, 2);
    ck_assert_int_eq(rig_free(&rig, 0), 7);
    ck_assert_int_eq(counters()->lane_collateral_pages, 4);
    rig_close(&rig);
}
END_TEST

START_TEST(a_locked_leaf_protects_all_above_it)
{
    pl_node_t *trunk;
    pl_node_t *leaf;

    open_rig(2, 8, 0);
    trunk = rig_cold(&rig, 1, "00");
    leaf  = rig_below(&rig, trunk, 2, "1");
    (void)rig_below(&rig, trunk, 3, "1");
    pl_hicache_lock(rig.cache, leaf);
    rig_evict(&rig, 0, 2);
    ck_assert_int_eq(counters()->evictions, 0);
    ck_assert_int_eq(pl_hicache_room(rig.cache, 0), 6);
    pl_hicache_unlock(rig.cache, leaf);
    ck_assert_int_eq(pl_hicache_room(rig.cache, 0), 8);
    rig_evict(&rig, 0, 2);
    ck_assert_int_eq(pl_tree_n_nodes(pl_hicache_tree(rig.cache)), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(what_is_backed_up_stays_on_host)
{
    pl_node_t *node;

    open_rig(2, 4, 4);
    node = rig_cold(&rig, 1, "0101");
    rig_done(&rig, node);
    rig_end_all(&rig, true);
    rig_evict(&rig, 0, 1);
    rig_expect(&rig, 1, 4, 2, 4);
    rig_evict(&rig, 0, 4);
    rig_expect(&rig, 1, 4, 0, 4);
    ck_assert_int_eq(rig_count(&rig, PL_EVENT_REMOVE), 0);
    rig_close(&rig);
}
END_TEST

/* A node that leaves takes what is below it along, unless that is pinned: then
 * it is not chosen. */
START_TEST(pinned_pages_below_keep_a_node)
{
    pl_node_t *trunk;
    pl_match_t match;

    open_write_back(1, 4, 2);
    trunk = rig_cold(&rig, 1, "00");
    (void)rig_below(&rig, trunk, 2, "00");
    ck_assert_int_eq(rig_evict(&rig, 0, 2), 2); /* the child is written back */
    rig_end_all(&rig, true);
    rig_expect_via(&rig, 1, 2, 2, 4, 2, 4);
    match = rig_match_via(&rig, 1, 2, 2, 4);
    pl_hicache_pin(rig.cache, &match);
    ck_assert_int_eq(rig_evict(&rig, 0, 4), 0); /* the host has no room */
    rig_expect_via(&rig, 1, 2, 2, 4, 2, 4);
    pl_hicache_unpin(rig.cache, &match);
    ck_assert_int_eq(rig_evict(&rig, 0, 4), 0);
    ck_assert_int_eq(pl_tree_n_nodes(pl_hicache_tree(rig.cache)), 0);
    ck_assert_int_eq(rig_host_free(&rig, 0), 2);
    rig_close(&rig);
}
END_TEST

/* ---- extends ---- */

/* 9.8 shortage: evict in the deficit lane, retry once. */
START_TEST(an_extend_evicts_for_the_short_lane_and_retries)
{
    pl_page_t pages[8];
    pl_hicache_try_t attempt;

    open_rig(2, 4, 0);
    (void)rig_cold(&rig, 1, "1111");
    (void)rig_cold(&rig, 2, "000");
    ck_assert_int_eq(extend("0", pages, &attempt), PL_OK);
    ck_assert(!attempt.deficit && !attempt.retried && !attempt.wait);
    ck_assert_int_eq(extend("00", pages + 1, &attempt), PL_OK);
    ck_assert(attempt.deficit && attempt.retried && !attempt.wait);
    rig_expect(&rig, 1, 4, 4, 4); /* lane 1 is as it was */
    rig_expect(&rig, 2, 3, 1, 1);
    ck_assert_int_eq(counters()->deficits, 1);
    ck_assert_int_eq(counters()->retries, 1);
    ck_assert_int_eq(counters()->retries_failed, 0);
    give_back(pages, 3);
    rig_close(&rig);
}
END_TEST

/* A lane that is short alone is told from a pool that is: the same shortage
 * where the other lane has room for it, where it has none, and of one lane. */
START_TEST(a_lane_short_alone_is_counted)
{
    static const struct {
        int lanes;
        const char *others;
        int64_t alone;
    } CASES[] = {{2, "", 1}, {2, "111", 1}, {2, "1111", 0}, {1, "", 0}};

    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        pl_page_t pages[8];
        pl_hicache_try_t attempt;
        int64_t before;

        open_rig(CASES[i].lanes, 4, 0);
        (void)rig_cold(&rig, 1, "000");
        if (CASES[i].others[0] != '\0') {
            (void)rig_cold(&rig, 2, CASES[i].others);
        }
        before = counters()->takes;
        ck_assert_int_eq(extend("00", pages, &attempt), PL_OK);
        ck_assert(attempt.deficit);
        ck_assert_int_eq(counters()->takes, before + 1);
        ck_assert_int_eq(counters()->deficits, 1);
        ck_assert_int_eq(counters()->alone_deficits, CASES[i].alone);
        give_back(pages, 2);
        rig_close(&rig);
    }
}
END_TEST

/* 9.7 all or nothing; 9.8 retry once, then give up. */
START_TEST(an_extend_that_cannot_be_had_takes_nothing)
{
    pl_page_t pages[8];
    pl_hicache_try_t attempt;
    pl_node_t *node;

    open_rig(2, 2, 0);
    node = rig_cold(&rig, 1, "0");
    pl_hicache_lock(rig.cache, node);
    ck_assert_int_eq(extend("1001", pages, &attempt), PL_REFUSED_SHORT);
    ck_assert(attempt.deficit && attempt.retried && !attempt.wait);
    ck_assert_int_eq(rig_free(&rig, 0), 1);
    ck_assert_int_eq(rig_free(&rig, 1), 2);
    ck_assert_int_eq(counters()->retries_failed, 1);
    ck_assert_int_eq(rig_count(&rig, PL_EVENT_DEFICIT), 1);
    ck_assert_int_eq(rig_count(&rig, PL_EVENT_RETRY), 1);
    ck_assert_int_eq(rig_count(&rig, PL_EVENT_ALLOC), 1); /* rig_cold's */
    pl_hicache_unlock(rig.cache, node);
    rig_close(&rig);
}
END_TEST

/* ---- write-backs ---- */

START_TEST(a_write_back_frees_its_pages_at_its_end)
{
    pl_page_t pages[8];
    pl_hicache_try_t attempt;

    open_write_back(1, 4, 8);
    (void)rig_cold(&rig, 1, "00");
    (void)rig_cold(&rig, 2, "00");
    ck_assert_int_eq(extend("00", pages, &attempt), PL_REFUSED_SHORT);
    ck_assert(attempt.deficit && attempt.wait && !attempt.retried);
    ck_assert_int_eq(rig.n_copies, 1);
    ck_assert(rig.copies[0].write_back);
    ck_assert_int_eq(rig_free(&rig, 0), 0); /* not yet */

    /* What is promised is not evicted for a second time. */
    ck_assert_int_eq(rig_evict(&rig, 0, 2), 2);
    ck_assert_int_eq(rig.n_copies, 1);
    ck_assert_int_eq(rig_evict(&rig, 0, 3), 3);
    ck_assert_int_eq(rig.n_copies, 2);

    rig_end_all(&rig, true);
    ck_assert_int_eq(rig_free(&rig, 0), 3);
    ck_assert_int_eq(extend("00", pages, &attempt), PL_OK);
    ck_assert(!attempt.deficit && attempt.retried);
    ck_assert_int_eq(counters()->deficits, 1);  /* one shortage, one retry */
    ck_assert_int_eq(counters()->takes, 2 + 1); /* those of rig_cold */
    ck_assert_int_eq(counters()->retries, 1);
    ck_assert_int_eq(counters()->write_backs, 2);
    rig_expect(&rig, 1, 2, 0, 2);
    rig_expect(&rig, 2, 2, 1, 2);
    give_back(pages, 2);
    rig_close(&rig);
}
END_TEST

/* What hangs above a write-back can be had when it has ended, not before. */
START_TEST(a_wait_goes_on_up_the_path)
{
    pl_page_t pages[8];
    pl_hicache_try_t attempt;
    pl_node_t *trunk;

    open_write_back(1, 4, 8);
    trunk = rig_cold(&rig, 1, "00");
    (void)rig_below(&rig, trunk, 2, "00");
    ck_assert_int_eq(extend("0000", pages, &attempt), PL_REFUSED_SHORT);
    ck_assert(attempt.wait);
    ck_assert_int_eq(rig.n_copies, 1);
    rig_end_all(&rig, true);
    ck_assert_int_eq(extend("0000", pages, &attempt), PL_REFUSED_SHORT);
    ck_assert(attempt.wait && !attempt.deficit);
    ck_assert_int_eq(rig.n_copies, 2);
    rig_end_all(&rig, true);
    ck_assert_int_eq(extend("0000", pages, &attempt), PL_OK);
    ck_assert_int_eq(counters()->deficits, 1);
    ck_assert_int_eq(counters()->retries, 1);
    rig_expect_via(&rig, 1, 2, 2, 4, 0, 4);
    give_back(pages, 4);
    rig_close(&rig);
}
END_TEST

START_TEST(a_write_back_that_fails_drops_the_node)
{
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        open_write_back(1, 4, 8);
        (void)rig_cold(&rig, 1, "00");
        ck_assert_int_eq(rig_evict(&rig, 0, 4), 2);
        if (cancelled == 1) {
            ck_assert_int_eq(pl_hicache_backup_cancel(rig.cache, 1), PL_OK);
        } else {
            rig_end(&rig, 1, false);
        }
        rig_expect(&rig, 1, 2, 0, 0);
        ck_assert_int_eq(rig_free(&rig, 0), 4);
        ck_assert_int_eq(rig_host_free(&rig, 0), 8);
        ck_assert_int_eq(counters()->backups_failed, 1);
        rig_close(&rig);
    }
}
END_TEST

START_TEST(a_write_back_that_is_wanted_again_keeps_its_pages)
{
    for (int good = 0; good < 2; good++) {
        pl_match_t match;

        open_write_back(1, 4, 8);
        (void)rig_cold(&rig, 1, "0000");
        ck_assert_int_eq(rig_evict(&rig, 0, 4), 4);
        match = rig_match(&rig, 1, 3); /* splits it, and holds its start */
        pl_hicache_lock(rig.cache, match.device);
        rig_end(&rig, 1, good == 1);
        rig_expect(&rig, 1, 4, 3, good == 1 ? 4 : 3);
        ck_assert_int_eq(rig_free(&rig, 0), 1);
        pl_hicache_unlock(rig.cache, match.device);
        rig_close(&rig);
    }
}
END_TEST

START_TEST(a_write_back_without_host_room_drops_at_once)
{
    pl_page_t pages[4];
    pl_hicache_try_t attempt;

    open_write_back(1, 4, 1);
    (void)rig_cold(&rig, 1, "0000");
    ck_assert_int_eq(extend("00", pages, &attempt), PL_OK);
    ck_assert(attempt.retried && !attempt.wait);
    ck_assert_int_eq(rig.n_copies, 0);
    ck_assert_int_eq(rig_count(&rig, PL_EVENT_BACKUP_SKIP), 1);
    rig_expect(&rig, 1, 4, 2, 2);
    give_back(pages, 2);
    rig_close(&rig);
}
END_TEST

static TCase *evict_case(void)
{
    TCase *tcase = tcase_create("evict");

    tcase_add_test(tcase, eviction_stops_when_no_leaf_qualifies);
    tcase_add_test(tcase, the_shortest_suffix_goes);
    tcase_add_test(tcase, a_leaf_gives_what_it_has_and_the_next_one_the_rest);
    tcase_add_test(tcase, the_least_recently_used_goes_first);
    tcase_add_test(tcase, leaves_go_for_the_node_above_them);
    tcase_add_test(tcase, a_locked_leaf_protects_all_above_it);
    tcase_add_test(tcase, what_is_backed_up_stays_on_host);
    tcase_add_test(tcase, pinned_pages_below_keep_a_node);
    tcase_add_test(tcase, an_extend_evicts_for_the_short_lane_and_retries);
    tcase_add_test(tcase, a_lane_short_alone_is_counted);
    tcase_add_test(tcase, an_extend_that_cannot_be_had_takes_nothing);
    tcase_add_test(tcase, a_write_back_frees_its_pages_at_its_end);
    tcase_add_test(tcase, a_wait_goes_on_up_the_path);
    tcase_add_test(tcase, a_write_back_that_fails_drops_the_node);
    tcase_add_test(tcase, a_write_back_that_is_wanted_again_keeps_its_pages);
    tcase_add_test(tcase, a_write_back_without_host_room_drops_at_once);
    return tcase;
}

PL_CHECK_MAIN("cache evict", evict_case())
