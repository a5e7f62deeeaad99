/* Host -> device with the saved owners, and the ways a load ends. */
#include "unit/cache/rig.h"

#include "support/check_main.h"

static rig_t rig;

static void open_rig(int n_lanes, int32_t device_pages, int32_t host_pages)
{
    rig_open(&rig, rig_params(n_lanes, device_pages, host_pages));
}

static const pl_hicache_counters_t *counters(void)
{
    return pl_hicache_counters(rig.cache);
}

static void evict_all(void)
{
    int32_t deficits[PL_MAX_RANKS];
    int64_t pending;

    for (int lane = 0; lane < rig.params.n_lanes; lane++) {
        deficits[lane] = rig.params.device_pages;
    }
    ck_assert_int_eq(pl_hicache_evict(rig.cache, deficits, &pending), PL_OK);
    rig_check(&rig);
}

/* A prompt of two nodes, backed up and evicted: owners "0123" and "3210". */
static void leave_on_host(void)
{
    pl_node_t *at = rig_cold(&rig, 1, "0123");

    at = rig_below(&rig, at, 1, "3210");
    rig_done(&rig, at);
    rig_end_all(&rig, true);
    evict_all();
    rig_expect(&rig, 1, 8, 0, 8);
}

static void expect_owners(const rig_copy_t *copy, const char *owners)
{
    ck_assert_int_eq(copy->n_pages, (int)strlen(owners));
    for (int i = 0; owners[i] != '\0'; i++) {
        ck_assert_int_eq(copy->owners[i], owners[i] - '0');
    }
}

/* The one rule: read where it was written. */
static void expect_sound(const rig_copy_t *copy)
{
    for (int32_t i = 0; i < copy->n_pages; i++) {
        ck_assert_int_eq(pl_page_owner(copy->device[i], rig.params.n_lanes),
                         copy->owners[i]);
        ck_assert_int_eq(pl_page_owner(copy->host[i], rig.params.n_lanes),
                         copy->owners[i]);
    }
}

/* 9.27 saved owners, concatenated root to leaf, whatever the lanes look like.
 */
START_TEST(a_load_takes_exactly_the_saved_owners)
{
    pl_match_t match;
    rig_copy_t *copy;

    open_rig(4, 5, 8);
    leave_on_host();
    (void)rig_cold(&rig, 7, "1"); /* the lanes have shifted meanwhile */
    (void)rig_cold(&rig, 8, "1122");
    match = rig_match(&rig, 1, 8);
    copy  = &rig.copies[rig_load(&rig, &match) - 1];
    ck_assert(copy->load);
    ck_assert_int_eq(copy->first_page, 0);
    expect_owners(copy, "01233210");
    expect_sound(copy);
    rig_expect(&rig, 1, 8, 8, 8);
    rig_end(&rig, copy->op, true);
    ck_assert_int_eq(match.last->lock_ref + match.last->pin_ref, 0);
    ck_assert_int_eq(rig_count(&rig, PL_EVENT_LOAD_NODE), 2);
    rig_close(&rig);
}
END_TEST

START_TEST(a_load_brings_back_what_is_on_host_only)
{
    pl_match_t match;
    rig_copy_t *copy;

    open_rig(4, 8, 8);
    leave_on_host();
    match = rig_match(&rig, 1, 3);
    rig_end(&rig, rig_load(&rig, &match), true);
    match = rig_match(&rig, 1, 6);
    ck_assert_int_eq(match.n_device, 3);
    ck_assert_int_eq(match.n_total, 6);
    copy = &rig.copies[rig_load(&rig, &match) - 1];
    ck_assert_int_eq(copy->first_page, 3);
    expect_owners(copy, "332");
    expect_sound(copy);
    rig_end_all(&rig, true);
    rig_expect(&rig, 1, 8, 6, 8);
    rig_close(&rig);
}
END_TEST

/* 9.8, 9.27 a lane that stays short: nothing is taken, the hit is a miss. */
START_TEST(a_load_is_all_or_nothing)
{
    pl_hicache_try_t attempt;
    pl_match_t match;
    pl_node_t *held;
    int64_t op = 77;
    uint64_t before;

    open_rig(4, 2, 8);
    leave_on_host();
    held = rig_cold(&rig, 2, "2");
    pl_hicache_lock(rig.cache, held);
    match = rig_match(&rig, 1, 8);
    pl_hicache_lock(rig.cache, match.device);
    pl_hicache_pin(rig.cache, &match);
    before = pl_tree_state_hash(pl_hicache_tree(rig.cache));
    ck_assert_int_eq(pl_hicache_load(rig.cache, &match, &attempt, &op),
                     PL_REFUSED_SHORT);
    ck_assert(attempt.deficit && attempt.retried && !attempt.wait);
    ck_assert_int_eq(op, 77);
    ck_assert(pl_tree_state_hash(pl_hicache_tree(rig.cache)) == before);
    for (int lane = 0; lane < 4; lane++) {
        ck_assert_int_eq(rig_free(&rig, lane), lane == 2 ? 1 : 2);
    }
    ck_assert_int_eq(counters()->loads, 0);
    ck_assert_int_eq(counters()->retries_failed, 1);
    pl_hicache_unpin(rig.cache, &match);
    pl_hicache_unlock(rig.cache, match.device);
    pl_hicache_unlock(rig.cache, held);

    /* With the lane's holder gone, the same load evicts and goes. */
    match = rig_match(&rig, 1, 8);
    rig_end(&rig, rig_load(&rig, &match), true);
    rig_expect(&rig, 1, 8, 8, 8);
    rig_expect(&rig, 2, 1, 0, 0);
    ck_assert_int_eq(counters()->retries, 2);
    rig_close(&rig);
}
END_TEST

/* 9.28 evict -> recompute elsewhere -> evict -> load: the host copy's owners.
 */
START_TEST(recomputed_pages_have_their_owners_and_the_copy_its_own)
{
    pl_page_key_t keys[8];
    const pl_owner_t other[8] = {3, 3, 3, 3, 0, 0, 0, 0};
    pl_node_t *node;
    pl_match_t match;
    rig_copy_t *copy;

    open_rig(4, 8, 8);
    leave_on_host();
    rig_keys(keys, 1, 8, 1, 8);
    node = rig_insert(&rig, pl_tree_root(pl_hicache_tree(rig.cache)), keys,
                      other, 8);
    ck_assert_int_eq(rig_count(&rig, PL_EVENT_ADOPT), 2);
    ck_assert_int_eq(pl_page_owner(node->device[3], 4), 0);
    ck_assert_int_eq(node->host.owners[0], 3);
    rig_expect(&rig, 1, 8, 8, 8);
    rig_done(&rig, node); /* it has a copy: no other is made */
    ck_assert_int_eq(rig.n_copies, 2);
    evict_all();
    rig_expect(&rig, 1, 8, 0, 8);
    match = rig_match(&rig, 1, 8);
    copy  = &rig.copies[rig_load(&rig, &match) - 1];
    expect_owners(copy, "01233210");
    expect_sound(copy);
    rig_end_all(&rig, true);
    rig_close(&rig);
}
END_TEST

/* 9.36 the threshold is in tokens; what is below it is said, not loaded. */
START_TEST(short_host_hits_are_not_loaded)
{
    for (int threshold = 0; threshold <= 4; threshold++) {
        pl_hicache_params_t params = rig_params(1, 8, 8);
        pl_page_key_t keys[3];
        pl_match_t match;
        int32_t below;

        params.load_threshold_tokens = threshold * 64 - 1;
        rig_open(&rig, params);
        rig_done(&rig, rig_cold(&rig, 1, "000"));
        rig_end_all(&rig, true);
        rig_evict(&rig, 0, 2); /* two of three pages */
        rig_keys(keys, 1, 3, 1, 3);
        ck_assert_int_eq(
            pl_hicache_match(rig.cache, 0, keys, 3, &match, &below), PL_OK);
        ck_assert_int_eq(match.n_device, 1);
        ck_assert_int_eq(match.n_total, threshold <= 2 ? 3 : 1);
        ck_assert_int_eq(below, threshold <= 2 ? 0 : 2);
        ck_assert(threshold <= 2 || match.last == match.device);
        rig_close(&rig);
    }
}
END_TEST

/* 9.26 a split while a load runs. */
START_TEST(a_split_during_a_load_is_no_trouble)
{
    for (int good = 0; good < 2; good++) {
        pl_match_t match;
        int64_t op;

        open_rig(4, 8, 8);
        leave_on_host();
        match = rig_match(&rig, 1, 8);
        op    = rig_load(&rig, &match);
        (void)rig_match(&rig, 1, 6);
        (void)rig_match(&rig, 1, 1);
        ck_assert_int_eq(pl_tree_n_nodes(pl_hicache_tree(rig.cache)), 4);
        rig_evict(&rig, 0, 8);
        rig_expect(&rig, 1, 8, 8, 8); /* held */
        rig_end(&rig, op, good == 1);
        rig_expect(&rig, 1, 8, good == 1 ? 8 : 0, good == 1 ? 8 : 0);
        rig_close(&rig);
    }
}
END_TEST

START_TEST(a_cancelled_load_leaves_no_trace)
{
    pl_match_t match;
    int64_t op;

    open_rig(4, 8, 8);
    leave_on_host();
    match = rig_match(&rig, 1, 8);
    op    = rig_load(&rig, &match);
    ck_assert_int_eq(pl_hicache_load_cancel(rig.cache, op), PL_OK);
    rig_expect(&rig, 1, 8, 0, 8);
    for (int lane = 0; lane < 4; lane++) {
        ck_assert_int_eq(rig_free(&rig, lane), 8);
    }
    match = rig_match(&rig, 1, 8); /* and it can be tried again */
    op    = rig_load(&rig, &match);
    rig_end(&rig, op, true);
    rig_expect(&rig, 1, 8, 8, 8);
    rig_close(&rig);
}
END_TEST

/* A failed load takes along what was computed from it, and a backup of that
 * keeps its pages until it ends: nobody may have them before. */
START_TEST(a_failed_load_takes_all_below_along)
{
    pl_match_t match;
    pl_node_t *last;
    int64_t load;
    int64_t backup;

    open_rig(4, 8, 8);
    leave_on_host();
    match = rig_match(&rig, 1, 8);
    load  = rig_load(&rig, &match);
    last  = rig_below(&rig, match.last, 2, "0011");
    rig_done(&rig, last);
    backup = rig.n_copies;
    ck_assert(!rig.copies[backup - 1].load);
    (void)rig_match_via(&rig, 1, 8, 2, 10); /* splits what is being written */
    rig_end(&rig, load, false);
    rig_expect_via(&rig, 1, 8, 2, 12, 0, 0);
    ck_assert_int_eq(pl_tree_n_nodes(pl_hicache_tree(rig.cache)), 0);
    ck_assert_int_eq(counters()->loads_failed, 1);
    ck_assert_int_eq(rig_free(&rig, 0), 6); /* the backup's are not free */
    ck_assert_int_eq(rig_host_free(&rig, 0), 6);
    ck_assert_int_eq(rig_free(&rig, 2), 8);
    rig_end(&rig, backup, true);
    for (int lane = 0; lane < 4; lane++) {
        ck_assert_int_eq(rig_free(&rig, lane), 8);
        ck_assert_int_eq(rig_host_free(&rig, lane), 8);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(a_failed_load_that_is_still_held_is_our_bug)
{
    pl_match_t match;
    int64_t op;

    open_rig(4, 8, 8);
    leave_on_host();
    match = rig_match(&rig, 1, 8);
    op    = rig_load(&rig, &match);
    pl_hicache_lock(rig.cache, match.last);
    ck_assert_int_eq(pl_hicache_load_end(rig.cache, op, false),
                     PL_ERR_INTERNAL);
    ck_assert(strstr(rig.said.text, "still hold") != NULL);
    ck_assert_int_eq(pl_hicache_load_end(rig.cache, 999, true),
                     PL_ERR_INTERNAL);
    ck_assert_int_eq(pl_hicache_backup_end(rig.cache, 999, true),
                     PL_ERR_INTERNAL);
    pl_hicache_close(rig.cache);
}
END_TEST

/* The historical bug on demand: other lanes than the saved ones. */
START_TEST(a_plain_load_ignores_the_saved_owners)
{
    pl_match_t match;
    const rig_copy_t *copy;
    int n_wrong = 0;

    open_rig(4, 8, 8);
    leave_on_host();
    (void)rig_cold(&rig, 2, "00");
    ck_assert_int_eq(pl_inject_parse(&rig.inject, "load.alloc=plain", NULL),
                     PL_OK);
    match = rig_match(&rig, 1, 8);
    copy  = &rig.copies[rig_load(&rig, &match) - 1];
    expect_owners(copy, "01233210"); /* what each rank will copy */
    for (int i = 0; i < 8; i++) {
        /* most free first, ties lowest: 1 2 3, then all in turn */
        ck_assert_int_eq(pl_page_owner(copy->device[i], 4),
                         i < 6 ? 1 + i % 3 : i - 6);
        n_wrong += pl_page_owner(copy->device[i], 4) != copy->owners[i];
    }
    ck_assert_int_gt(n_wrong, 0);
    rig_end_all(&rig, true);
    rig_close(&rig);
}
END_TEST

/* ------------------------------------------------------- memory of the cache
 */

START_TEST(what_was_lost_is_told_from_what_is_new)
{
    pl_page_key_t keys[8];
    pl_match_t match;

    open_rig(4, 8, 0);
    (void)rig_cold(&rig, 1, "012301");
    (void)rig_cold(&rig, 2, "0");
    rig_evict(&rig, 0, 1); /* the last two pages of the first */
    match = rig_match(&rig, 1, 8);
    rig_keys(keys, 1, 8, 1, 8);
    ck_assert_int_eq(match.n_total, 4);
    ck_assert_int_eq(pl_hicache_once_held(rig.cache, match.last, 0, keys, 4, 8),
                     2); /* six were held */
    ck_assert_int_eq(pl_hicache_once_held(rig.cache, match.last, 0, keys, 4, 5),
                     1);
    /* The match may end before the pages that are asked about. */
    match = rig_match(&rig, 1, 2);
    ck_assert_int_eq(match.n_total, 2);
    ck_assert_int_eq(pl_hicache_once_held(rig.cache, match.last, 0, keys, 4, 8),
                     2);
    ck_assert_int_eq(
        pl_hicache_once_held(
            rig.cache, pl_tree_root(pl_hicache_tree(rig.cache)), 0, keys, 4, 8),
        2);
    rig_keys(keys, 1, 4, 3, 8); /* another prompt after the fourth page */
    ck_assert_int_eq(pl_hicache_once_held(rig.cache, match.last, 0, keys, 4, 8),
                     0);
    rig_keys(keys, 1, 8, 1, 8);
    ck_assert_int_eq(
        pl_hicache_once_held(
            rig.cache, pl_tree_root(pl_hicache_tree(rig.cache)), 9, keys, 0, 8),
        0); /* another namespace */
    rig_close(&rig);
}
END_TEST

/* 9.39 a flush while anything is held or under way is refused; then it leaves
 * nothing behind. */
START_TEST(reset_leaves_nothing_but_what_is_held)
{
    pl_match_t match;
    int64_t op;

    open_rig(4, 8, 8);
    leave_on_host();
    match = rig_match(&rig, 1, 8);
    op    = rig_load(&rig, &match);
    ck_assert_int_eq(pl_hicache_reset(rig.cache), PL_REFUSED_SHORT);
    rig_end(&rig, op, true);
    pl_hicache_lock(rig.cache, match.last);
    ck_assert_int_eq(pl_hicache_reset(rig.cache), PL_REFUSED_SHORT);
    pl_hicache_unlock(rig.cache, match.last);
    rig_expect(&rig, 1, 8, 8, 8);
    evict_all();
    match = rig_match(&rig, 1, 8);
    pl_hicache_pin(rig.cache, &match);
    ck_assert_int_eq(pl_hicache_reset(rig.cache), PL_REFUSED_SHORT);
    pl_hicache_unpin(rig.cache, &match);
    (void)rig_cold(&rig, 5, "0123");
    ck_assert_int_eq(pl_hicache_reset(rig.cache), PL_OK);
    rig_check(&rig);
    ck_assert_int_eq(pl_tree_n_nodes(pl_hicache_tree(rig.cache)), 0);
    ck_assert_int_eq(pl_lanes_free_total(pl_hicache_device(rig.cache)), 32);
    ck_assert_int_eq(pl_lanes_free_total(pl_hicache_host(rig.cache)), 32);
    rig_close(&rig);
}
END_TEST

START_TEST(duplicates_go_back_to_the_lanes)
{
    pl_node_t *first;

    open_rig(2, 8, 0);
    first = rig_cold(&rig, 1, "0101");
    ck_assert_ptr_eq(rig_cold(&rig, 1, "1010"), first); /* computed twice */
    ck_assert_int_eq(pl_lanes_free_total(pl_hicache_device(rig.cache)), 12);
    ck_assert_int_eq(rig_count(&rig, PL_EVENT_FREE), 1);
    rig_close(&rig);
}
END_TEST

/* A load that goes on beside a write-back which was begun to make room for it:
 * however many copies there are already, both have a record. */
START_TEST(a_load_has_a_record_beside_write_backs_for_it)
{
    for (int n_others = 0; n_others < 14; n_others++) {
        enum { PAGES = 16 };
        pl_hicache_params_t params = rig_params(3, PAGES, PAGES);
        pl_owner_t owners[PAGES * 2];
        pl_page_t pages[PAGES * 2];
        pl_hicache_try_t attempt;
        pl_match_t match;
        int n = 0;

        params.write_policy = PL_WRITE_BACK;
        rig_open(&rig, params);
        (void)rig_cold(&rig, 1, "01"); /* to be loaded */
        (void)rig_evict(&rig, 1, 1);
        rig_end_all(&rig, true);
        (void)rig_evict(&rig, 0, 1);
        rig_end_all(&rig, true);
        (void)rig_cold(&rig, 2, "0");  /* has no copy */
        (void)rig_cold(&rig, 3, "10"); /* has one */
        (void)rig_evict(&rig, 1, 1);
        rig_end_all(&rig, true);
        match = rig_match(&rig, 3, 2);
        (void)rig_load(&rig, &match);
        rig_end_all(&rig, true);
        for (int i = 0; i < n_others; i++) {
            (void)rig_cold(&rig, 10 + i, "2");
        }
        if (n_others > 0) {
            (void)rig_evict(&rig, 2, PAGES);
        }
        for (int lane = 0; lane < 2; lane++) {
            for (int i = rig_free(&rig, lane); i > 0; i--) {
                owners[n++] = (pl_owner_t)lane;
                rig.given[lane]++;
            }
        }
        ck_assert_int_eq(
            pl_hicache_extend(rig.cache, owners, n, pages, &attempt), PL_OK);

        match = rig_match(&rig, 1, 2);
        ck_assert_int_gt(rig_load(&rig, &match), 0);
        ck_assert_int_eq(pl_hicache_copies_under_way(rig.cache), n_others + 2);
        rig_end_all(&rig, true);
        rig_close(&rig);
    }
}
END_TEST

static TCase *load_case(void)
{
    TCase *tcase = tcase_create("load");

    tcase_add_test(tcase, a_load_takes_exactly_the_saved_owners);
    tcase_add_test(tcase, a_load_brings_back_what_is_on_host_only);
    tcase_add_test(tcase, a_load_is_all_or_nothing);
    tcase_add_test(tcase,
                   recomputed_pages_have_their_owners_and_the_copy_its_own);
    tcase_add_test(tcase, short_host_hits_are_not_loaded);
    tcase_add_test(tcase, a_split_during_a_load_is_no_trouble);
    tcase_add_test(tcase, a_cancelled_load_leaves_no_trace);
    tcase_add_test(tcase, a_failed_load_takes_all_below_along);
    tcase_add_test(tcase, a_failed_load_that_is_still_held_is_our_bug);
    tcase_add_test(tcase, a_plain_load_ignores_the_saved_owners);
    tcase_add_test(tcase, what_was_lost_is_told_from_what_is_new);
    tcase_add_test(tcase, reset_leaves_nothing_but_what_is_held);
    tcase_add_test(tcase, duplicates_go_back_to_the_lanes);
    tcase_add_test(tcase, a_load_has_a_record_beside_write_backs_for_it);
    return tcase;
}

PL_CHECK_MAIN("cache load", load_case())
