/* Device -> host: what is copied when, what makes room, how copies end. */
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

static void inject(const char *text)
{
    ck_assert_int_eq(pl_inject_parse(&rig.inject, text, NULL), PL_OK);
}

/* The copy records who owns the device pages, in their lanes of the host. */
static void expect_sound(const rig_copy_t *copy, int shift)
{
    for (int32_t i = 0; i < copy->n_pages; i++) {
        int n_lanes = rig.params.n_lanes;

        ck_assert_int_eq(copy->owners[i],
                         (pl_page_owner(copy->device[i], n_lanes) + shift) %
                             n_lanes);
        ck_assert_int_eq(pl_page_owner(copy->host[i], n_lanes),
                         copy->owners[i]);
    }
}

/* 9.25 the ranks' shares of a copy are disjoint and make it up; 9.29 ranks that
 * own none of it are in the same one operation. */
START_TEST(a_copy_is_one_operation_of_all_ranks)
{
    for (int n_lanes = 1; n_lanes <= 8; n_lanes++) {
        char owners[2] = {(char)('0' + n_lanes - 1), '\0'};
        pl_node_t *node;
        int32_t position;
        int32_t slot;

        open_rig(n_lanes, 4, 4);
        node = rig_cold(&rig, 1, owners);
        rig_done(&rig, node);
        ck_assert_int_eq(rig.n_copies, 1);
        ck_assert_int_eq(rig.copies[0].n_pages, 1);
        expect_sound(&rig.copies[0], 0);
        for (int rank = 0; rank < n_lanes; rank++) {
            ck_assert_int_eq(
                pl_meta_owned(&node->host, rank, n_lanes, &position, &slot),
                rank == n_lanes - 1);
        }
        rig_end_all(&rig, true);
        rig_close(&rig);
    }
}
END_TEST

/* 9.5 a prefix's owners are data: each chunk's own pattern, never that of the
 * whole. */
START_TEST(owners_of_a_prefix_are_those_of_its_chunks)
{
    enum { C = 4, CHUNK = 7, CHUNKS = 3 };
    const pl_ownership_t rule = {PL_OWNERSHIP_ZIGZAG, 0};
    pl_owner_t owners[CHUNK * CHUNKS];
    pl_owner_t saved[CHUNK * CHUNKS];
    pl_page_key_t keys[CHUNK * CHUNKS];
    pl_match_t match;
    pl_node_t *at;

    open_rig(C, 16, 16);
    at = pl_tree_root(pl_hicache_tree(rig.cache));
    rig_keys(keys, 1, CHUNK * CHUNKS, 1, CHUNK * CHUNKS);
    for (int i = 0; i < CHUNKS; i++) {
        pl_compute_owners(rule, C, i * CHUNK, CHUNK, 5, owners + i * CHUNK);
        at = rig_insert(&rig, at, keys + i * CHUNK, owners + i * CHUNK, CHUNK);
        ck_assert_uint_eq(at->hits, 0); /* chunked inserts are no hits */
    }
    rig_done(&rig, at);
    rig_end_all(&rig, true);
    for (int lane = 0; lane < C; lane++) {
        rig_evict(&rig, lane, 16);
    }
    match = rig_match(&rig, 1, CHUNK * CHUNKS);
    ck_assert_int_eq(match.n_device, 0);
    ck_assert_int_eq(match.n_total, CHUNK * CHUNKS);
    pl_hicache_saved_owners(rig.cache, &match, saved);
    ck_assert_mem_eq(saved, owners, sizeof(owners));
    rig_close(&rig);
}
END_TEST

/* 9.31 the device pages stay until the copy has ended. */
START_TEST(a_backup_holds_its_pages_until_it_ends)
{
    open_rig(2, 4, 4);
    rig_done(&rig, rig_cold(&rig, 1, "01"));
    ck_assert_int_eq(pl_hicache_copies_under_way(rig.cache), 1);
    rig_evict(&rig, 0, 4);
    rig_expect(&rig, 1, 2, 2, 2);
    ck_assert_int_eq(counters()->evictions, 0);
    rig_end_all(&rig, true);
    rig_evict(&rig, 0, 4);
    rig_evict(&rig, 1, 4);
    rig_expect(&rig, 1, 2, 0, 2);
    rig_close(&rig);
}
END_TEST

START_TEST(a_failed_backup_leaves_the_node_as_it_was)
{
    pl_node_t *node;

    open_rig(2, 4, 4);
    node = rig_cold(&rig, 1, "01");
    rig_done(&rig, node);
    rig_end(&rig, 1, false);
    ck_assert_int_eq(node->host.n_pages, 0);
    ck_assert_int_eq(node->lock_ref + node->pin_ref, 0);
    ck_assert_int_eq(rig_host_free(&rig, 0) + rig_host_free(&rig, 1), 8);
    rig_done(&rig, node); /* it is tried again with the next prompt */
    ck_assert_int_eq(rig.n_copies, 2);
    ck_assert_int_eq(pl_hicache_backup_cancel(rig.cache, 2), PL_OK);
    rig_check(&rig);
    rig_evict(&rig, 0, 4);
    rig_evict(&rig, 1, 4);
    rig_expect(&rig, 1, 2, 0, 0);
    rig_close(&rig);
}
END_TEST

/* 9.26 a split while the copy runs: its end reaches both halves. */
START_TEST(a_split_during_a_write_gives_two_good_halves_or_two_bad)
{
    for (int good = 0; good < 2; good++) {
        open_rig(2, 8, 8);
        rig_done(&rig, rig_cold(&rig, 1, "001101"));
        (void)rig_match(&rig, 1, 4);
        (void)rig_match(&rig, 1, 2);
        (void)rig_match(&rig, 1, 5);
        ck_assert_int_eq(pl_tree_n_nodes(pl_hicache_tree(rig.cache)), 4);
        rig_end(&rig, 1, good == 1);
        for (int lane = 0; lane < 2; lane++) {
            rig_evict(&rig, lane, 8);
        }
        rig_expect(&rig, 1, 6, 0, good == 1 ? 6 : 0);
        rig_close(&rig);
    }
}
END_TEST

START_TEST(injected_splits_and_shifts_do_what_they_say)
{
    pl_node_t *node;

    open_rig(3, 8, 8);
    inject("split.during-write");
    inject("write.owner=shift@count:2");
    node = rig_cold(&rig, 1, "0120");
    rig_done(&rig, node);
    ck_assert_int_eq(node->n_pages, 2); /* split in the middle */
    ck_assert_int_eq(node->write_op, 1);
    ck_assert_int_eq(node->parent->write_op, 1);
    expect_sound(&rig.copies[0], 0);
    rig_done(&rig, rig_cold(&rig, 2, "012"));
    expect_sound(&rig.copies[1], 1);
    rig_done(&rig, rig_cold(&rig, 3, "012"));
    expect_sound(&rig.copies[2], 0);
    rig_end_all(&rig, true);
    rig_close(&rig);
}
END_TEST

START_TEST(selective_backups_wait_for_a_second_prompt)
{
    pl_hicache_params_t params = rig_params(1, 8, 8);
    pl_node_t *trunk;

    params.write_policy = PL_WRITE_THROUGH_SELECTIVE;
    rig_open(&rig, params);
    trunk = rig_cold(&rig, 1, "00");
    rig_done(&rig, trunk);
    ck_assert_int_eq(rig.n_copies, 0);
    rig_done(&rig, rig_below(&rig, trunk, 2, "00"));
    ck_assert_int_eq(rig.n_copies, 1); /* the trunk, not what is new */
    ck_assert_int_eq(rig.copies[0].first_page, 0);
    ck_assert_int_eq(rig.copies[0].n_pages, 2);
    rig_end_all(&rig, true);
    rig_close(&rig);
}
END_TEST

/* ---- room on host ---- */

START_TEST(an_older_copy_makes_room_even_if_its_node_is_on_device)
{
    open_rig(1, 8, 4);
    rig_done(&rig, rig_cold(&rig, 1, "00"));
    rig_done(&rig, rig_cold(&rig, 2, "00"));
    rig_end_all(&rig, true);
    (void)rig_match(&rig, 1, 2); /* the second is the older now */
    rig_done(&rig, rig_cold(&rig, 3, "0"));
    rig_end_all(&rig, true);
    ck_assert_int_eq(counters()->host_dropped_pages, 1); /* a suffix */
    rig_evict(&rig, 0, 8);
    rig_expect(&rig, 1, 2, 0, 2);
    rig_expect(&rig, 2, 2, 0, 1);
    rig_expect(&rig, 3, 1, 0, 1);
    rig_close(&rig);
}
END_TEST

/* A prompt longer than the host tier does not drop its own start. */
START_TEST(no_copy_makes_room_for_one_as_old_as_itself)
{
    pl_node_t *at;

    open_rig(1, 10, 4);
    rig_done(&rig, rig_cold(&rig, 1, "00"));
    rig_end_all(&rig, true);
    at = rig_cold(&rig, 2, "00");
    at = rig_below(&rig, at, 2, "00");
    at = rig_below(&rig, at, 2, "00");
    at = rig_below(&rig, at, 2, "0");
    rig_done(&rig, at);
    rig_end_all(&rig, true);
    ck_assert_int_eq(counters()->host_dropped_pages, 2); /* the old prompt's */
    ck_assert_int_eq(rig_count(&rig, PL_EVENT_BACKUP_SKIP), 2);
    ck_assert_int_eq(rig_host_free(&rig, 0), 0);
    rig_evict(&rig, 0, 10);
    rig_expect(&rig, 1, 2, 0, 0);
    rig_expect(&rig, 2, 7, 0, 4);
    rig_close(&rig);
}
END_TEST

/* An older copy goes for what is above it only if that may go as well. */
START_TEST(no_older_copy_goes_in_vain)
{
    pl_node_t *trunk;
    pl_node_t *old;
    pl_node_t *at;

    open_rig(2, 8, 4);
    trunk = rig_cold(&rig, 1, "0000"); /* all of the host's lane 0 */
    old   = rig_below(&rig, trunk, 2, "11");
    rig_done(&rig, old);
    rig_end_all(&rig, true);
    at = rig_below(&rig, trunk, 3, "0"); /* of the trunk's age, no older */
    rig_done(&rig, at);
    ck_assert_int_eq(counters()->host_drops, 0);
    ck_assert_int_eq(counters()->backups_skipped, 1);
    rig_close(&rig);
}
END_TEST

/* 9.30 room is counted by lane, and one short lane stops all ranks alike. */
START_TEST(one_short_host_lane_is_enough_to_skip)
{
    pl_node_t *held;

    open_rig(2, 8, 2);
    held = rig_cold(&rig, 1, "00");
    rig_done(&rig, held);
    rig_done(&rig, rig_cold(&rig, 2, "1101")); /* lane 1 has room for two */
    ck_assert_int_eq(rig.n_copies, 1);
    ck_assert_int_eq(rig_host_free(&rig, 1), 2);
    ck_assert_int_eq(rig_count(&rig, PL_EVENT_BACKUP_SKIP), 1);
    rig_end_all(&rig, true);
    rig_close(&rig);
}
END_TEST

/* 9.31 what a load reads is not dropped before it has ended. */
START_TEST(a_pinned_copy_makes_no_room)
{
    pl_match_t match;
    int64_t op;

    open_rig(1, 8, 2);
    rig_done(&rig, rig_cold(&rig, 1, "00"));
    rig_end_all(&rig, true);
    rig_evict(&rig, 0, 8);
    match = rig_match(&rig, 1, 2);
    op    = rig_load(&rig, &match);
    rig_done(&rig, rig_cold(&rig, 2, "00"));
    ck_assert_int_eq(counters()->host_drops, 0);
    ck_assert_int_eq(counters()->backups_skipped, 1);
    rig_end(&rig, op, true);
    rig_done(&rig, rig_cold(&rig, 3, "00"));
    ck_assert_int_eq(counters()->host_drops, 1);
    rig_end_all(&rig, true);
    rig_close(&rig);
}
END_TEST

/* A copy below a node without one would go with it: none is made. */
START_TEST(no_copy_is_made_below_a_missing_one)
{
    pl_node_t *trunk;
    pl_node_t *leaf;

    open_rig(1, 8, 1);
    trunk = rig_cold(&rig, 1, "00");
    leaf  = rig_below(&rig, trunk, 1, "0");
    rig_done(&rig, leaf);
    ck_assert_int_eq(rig.n_copies, 0);
    ck_assert_int_eq(counters()->backups_skipped, 2);
    rig_close(&rig);
}
END_TEST

static TCase *backup_case(void)
{
    TCase *tcase = tcase_create("backup");

    tcase_add_test(tcase, a_copy_is_one_operation_of_all_ranks);
    tcase_add_test(tcase, owners_of_a_prefix_are_those_of_its_chunks);
    tcase_add_test(tcase, a_backup_holds_its_pages_until_it_ends);
    tcase_add_test(tcase, a_failed_backup_leaves_the_node_as_it_was);
    tcase_add_test(tcase,
                   a_split_during_a_write_gives_two_good_halves_or_two_bad);
    tcase_add_test(tcase, injected_splits_and_shifts_do_what_they_say);
    tcase_add_test(tcase, selective_backups_wait_for_a_second_prompt);
    tcase_add_test(tcase,
                   an_older_copy_makes_room_even_if_its_node_is_on_device);
    tcase_add_test(tcase, no_copy_makes_room_for_one_as_old_as_itself);
    tcase_add_test(tcase, no_older_copy_goes_in_vain);
    tcase_add_test(tcase, one_short_host_lane_is_enough_to_skip);
    tcase_add_test(tcase, a_pinned_copy_makes_no_room);
    tcase_add_test(tcase, no_copy_is_made_below_a_missing_one);
    return tcase;
}

PL_CHECK_MAIN("cache backup", backup_case())
