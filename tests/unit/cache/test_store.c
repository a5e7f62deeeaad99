/* Host <-> storage: what is stored when, and what is held meanwhile. */
#include "support/check_main.h"
#include "unit/cache/rig.h"

static rig_t rig;

static bool is_kept(int family, int n)
{
    pl_page_key_t keys[RIG_MOST_PAGES];

    rig_keys(keys, family, n, family, n);
    return pl_storage_find(rig.storage, pl_tree_chain_start(0), keys, 0, n) ==
           n;
}

/* Drop host copies until n more pages of lane 0 are free, if that can be: what
 * a backup that wants them does. */
static int32_t host_room(int family, int n)
{
    char owners[RIG_MOST_PAGES] = {0};

    memset(owners, '0', (size_t)n);
    rig_done(&rig, rig_cold(&rig, family, owners));
    return rig_count(&rig, PL_EVENT_HOST_DROP);
}

/* ---- when ---- */

/* A store begins when its backup has ended well, takes the host pages, and pins
 * them until its own end (9.31). */
START_TEST(a_store_rides_behind_its_backup)
{
    rig_open_stored(&rig, rig_params(1, 32, 8), 32);
    rig_done(&rig, rig_cold(&rig, 1, "000000"));
    ck_assert_int_eq(rig.n_ios, 0);
    rig_end_all(&rig, _i != 1);
    if (_i == 1) {
        ck_assert_int_eq(rig.n_ios, 0);
        rig_close(&rig);
        return;
    }
    ck_assert_int_eq(rig.n_ios, 1);
    ck_assert_int_eq(rig.ios[0].n_pages, 6);
    ck_assert_mem_eq(rig.ios[0].host, rig.copies[0].host,
                     6 * sizeof(pl_page_t));
    ck_assert_int_eq(host_room(2, 4), 0);
    ck_assert_int_eq(rig_count(&rig, PL_EVENT_BACKUP_SKIP), 1);
    rig_io_end(&rig, 1, _i == 0, 0);
    ck_assert(is_kept(1, 6) == (_i == 0));
    ck_assert_int_gt(host_room(3, 4), 0);
    rig_end_all(&rig, true);
    for (int op = 2; op <= rig.n_ios; op++) {
        rig_io_end(&rig, op, true, 0);
    }
    rig_close(&rig);
}
END_TEST

/* A copy that was whole before the one above it waits for that one: what is
 * kept is prefix-closed. */
START_TEST(a_store_waits_for_its_prefix)
{
    pl_node_t *parent, *child;

    rig_open_stored(&rig, rig_params(2, 32, 32), 32);
    parent = rig_cold(&rig, 1, "0101");
    child  = rig_below(&rig, parent, 1, "01");
    rig_done(&rig, child);
    ck_assert_int_eq(rig.n_copies, 2);
    rig_end(&rig, 2, true);
    ck_assert_int_eq(rig.n_ios, 0);
    rig_end(&rig, 1, _i == 0);
    ck_assert_int_eq(rig.n_ios, _i == 0 ? 2 : 0);
    if (_i == 0) { /* in any order of their ends */
        rig_io_end(&rig, 2, true, 0);
        ck_assert(!is_kept(1, 4));
        rig_io_end(&rig, 1, true, 0);
        ck_assert(is_kept(1, 6));
    }
    rig_close(&rig);
}
END_TEST

/* What was skipped or failed is tried again when a prompt goes through it. */
START_TEST(a_store_is_tried_again_with_the_next_prompt)
{
    pl_node_t *node;

    rig_open_stored(&rig, rig_params(1, 32, 32), 8);
    node = rig_cold(&rig, 1, "0000");
    rig_done(&rig, node);
    rig_end_all(&rig, true);
    rig_io_end(&rig, 1, false, 0);
    rig_done(&rig, node);
    ck_assert_int_eq(rig.n_ios, 2);
    rig_done(&rig, node); /* is being written */
    ck_assert_int_eq(rig.n_ios, 2);
    rig_io_end(&rig, 2, true, 0);
    rig_done(&rig, node);
    ck_assert_int_eq(rig.n_ios, 2);

    rig_done(&rig, rig_cold(&rig, 2, "000000")); /* no room yet */
    rig_end_all(&rig, true);
    ck_assert_int_eq(rig.n_ios, 2);
    ck_assert_int_eq(rig_count(&rig, PL_EVENT_STORE_SKIP), 1);
    rig_close(&rig);
}
END_TEST

/* A leaf that is written back takes its prefix along to the host, so that it can
 * be stored; without storage, or without room, it goes alone. */
START_TEST(a_write_back_takes_its_prefix_along)
{
    pl_hicache_params_t params = rig_params(1, 32, _i == 2 ? 5 : 32);
    pl_node_t *parent;

    params.write_policy = PL_WRITE_BACK;
    if (_i == 1) {
        rig_open(&rig, params);
    } else {
        rig_open_stored(&rig, params, 32);
    }
    parent = rig_cold(&rig, 1, "0000");
    rig_done(&rig, rig_below(&rig, parent, 1, "00"));
    (void)rig_evict(&rig, 0, 2);
    ck_assert_int_eq(rig.n_copies, _i == 0 ? 2 : 1);
    ck_assert(rig.copies[0].write_back);
    ck_assert_int_eq(rig.copies[0].n_pages, 2);
    if (_i == 0) {
        ck_assert(!rig.copies[1].write_back);
        ck_assert_int_eq(rig.copies[1].n_pages, 4);
    }
    rig_end_all(&rig, true);
    ck_assert_int_eq(rig.n_ios, _i == 0 ? 2 : 0);
    for (int op = 1; op <= rig.n_ios; op++) {
        rig_io_end(&rig, op, true, 0);
    }
    ck_assert(_i != 0 || is_kept(1, 6));
    rig_check(&rig);
    rig_close(&rig);
}
END_TEST

/* What such a backup holds is waited for like the write-back itself. */
START_TEST(who_is_short_waits_for_the_prefix_too)
{
    const pl_owner_t owners[5] = {0};
    pl_hicache_params_t params = rig_params(1, 8, 32);
    pl_hicache_try_t go        = {0};
    pl_page_t pages[5];
    pl_node_t *parent;

    params.write_policy = PL_WRITE_BACK;
    rig_open_stored(&rig, params, 32);
    parent = rig_cold(&rig, 1, "0000");
    rig_done(&rig, rig_below(&rig, parent, 1, "00"));
    (void)rig_evict(&rig, 0, 2);
    rig_end(&rig, 1, true);
    ck_assert_int_eq(pl_hicache_extend(rig.cache, owners, 5, pages, &go),
                     PL_REFUSED_SHORT);
    ck_assert(go.wait);
    rig_end(&rig, 2, true);
    ck_assert_int_eq(pl_hicache_extend(rig.cache, owners, 5, pages, &go),
                     PL_OK);
    ck_assert_int_eq(pl_hicache_free(rig.cache, pages, 5), PL_OK);
    rig_io_end(&rig, 1, true, 0);
    rig_io_end(&rig, 2, true, 0);
    rig_check(&rig);
    rig_close(&rig);
}
END_TEST

/* ---- what is held meanwhile ---- */

/* A split cuts what a store holds; both halves are free after its end. */
START_TEST(a_node_may_be_split_under_a_store)
{
    rig_open_stored(&rig, rig_params(1, 32, 8), 32);
    rig_done(&rig, rig_cold(&rig, 1, "000000"));
    rig_end_all(&rig, true);
    (void)rig_match(&rig, 1, 2);
    (void)rig_match(&rig, 1, 4);
    rig_io_end(&rig, 1, true, 0);
    ck_assert(is_kept(1, 6));
    ck_assert_int_eq(pl_hicache_ios_under_way(rig.cache), 0);
    ck_assert_int_eq(pl_hicache_reset(rig.cache), PL_OK);
    rig_check(&rig);
    rig_close(&rig);
}
END_TEST

/* A load proves the host copy bad, of all of a store's pages or of the last
 * ones: the pages stay until the store ends too, which then keeps nothing. */
START_TEST(a_bad_copy_leaves_its_pages_to_the_store)
{
    pl_match_t match;
    int64_t op;

    rig_open_stored(&rig, rig_params(1, 32, 16), 32);
    rig_done(&rig, rig_cold(&rig, 1, "000000"));
    rig_end_all(&rig, true);
    (void)rig_match(&rig, 1, 4);
    (void)rig_evict(&rig, 0, 6);
    match = rig_match(&rig, 1, 6);
    if (_i == 1) { /* only the last two are loaded */
        rig_end(&rig, rig_load(&rig, &match), true);
        (void)rig_evict(&rig, 0, 2);
        match = rig_match(&rig, 1, 6);
    }
    ck_assert_int_eq(match.n_total, 6);
    ck_assert_int_eq(match.n_device, _i == 0 ? 0 : 4);
    op = rig_load(&rig, &match);
    rig_end(&rig, op, false);
    ck_assert_int_eq(rig_host_free(&rig, 0), 10); /* all six are held */
    rig_expect(&rig, 1, 6, _i == 0 ? 0 : 4, _i == 0 ? 0 : 4);
    rig_io_end(&rig, 1, true, 0);
    ck_assert(!is_kept(1, 1));
    ck_assert_int_eq(rig_host_free(&rig, 0), _i == 0 ? 16 : 12);
    rig_close(&rig);
}
END_TEST

/* ---- back ---- */

static int64_t fetch(int family, int first, int n, int least, int32_t room,
                     int32_t *n_p)
{
    pl_page_key_t keys[RIG_MOST_PAGES];
    int32_t rooms[1]       = {room};
    pl_hicache_want_t want = {
        .keys = keys, .first = first, .n = n, .least = least, .room = rooms};
    int64_t op = 0;

    rig_keys(keys, family, first + n, family, first + n);
    want.chain = pl_tree_chain_start(0);
    for (int i = 0; i < first; i++) {
        want.chain = pl_tree_chain_next(want.chain, keys[i]);
    }
    ck_assert_int_eq(pl_hicache_fetch(rig.cache, &want, &op, n_p), PL_OK);
    rig_check(&rig);
    return op;
}

/* Store family 1's six pages and lose all copies of them. */
static void lose(void)
{
    rig_done(&rig, rig_cold(&rig, 1, "000000"));
    rig_end_all(&rig, true);
    rig_io_end(&rig, 1, true, 0);
    ck_assert_int_eq(pl_hicache_reset(rig.cache), PL_OK);
    rig_expect(&rig, 1, 6, 0, 0);
}

/* 9.37 What arrived sound becomes a host copy; what did not, and all behind it,
 * leaves storage. */
START_TEST(a_fetch_brings_host_copies_back)
{
    pl_match_t match;
    int32_t n = 0;

    rig_open_stored(&rig, rig_params(1, 32, 16), 32);
    lose();
    ck_assert_int_eq(fetch(1, 0, 6, 1, 16, &n), 2);
    ck_assert_int_eq(n, 6);
    ck_assert_int_eq(rig_host_free(&rig, 0), 10);
    ck_assert_int_eq(pl_hicache_reset(rig.cache), PL_REFUSED_SHORT);
    rig_io_end(&rig, 2, true, _i);
    rig_expect(&rig, 1, 6, 0, _i);
    ck_assert_int_eq(rig_host_free(&rig, 0), 16 - _i);
    ck_assert(is_kept(1, _i));
    ck_assert((_i == 6) || !is_kept(1, _i + 1));
    if (_i > 0) {
        match = rig_match(&rig, 1, 6);
        rig_end(&rig, rig_load(&rig, &match), true);
        rig_expect(&rig, 1, 6, _i, _i);
    }
    rig_close(&rig);
}
END_TEST

/* No more than there is room for, none if that is not worth it. */
START_TEST(a_fetch_is_as_long_as_there_is_room)
{
    static const struct {
        int32_t room, least, n;
    } cases[] = {{16, 1, 6}, {4, 1, 4}, {4, 5, 0}, {0, 1, 0}};
    int32_t n = 0;

    rig_open_stored(&rig, rig_params(1, 32, 16), 32);
    lose();
    ck_assert((fetch(1, 0, 6, cases[_i].least, cases[_i].room, &n) != 0) ==
              (cases[_i].n > 0));
    ck_assert_int_eq(n, cases[_i].n);
    ck_assert_int_eq(rig_host_free(&rig, 0), 16 - n);
    if (n > 0) {
        rig_io_end(&rig, 2, true, n);
    }
    rig_close(&rig);
}
END_TEST

/* Host copies used before make room, but not the prefix that it goes on from.
 */
START_TEST(a_fetch_makes_room_for_itself)
{
    int32_t n = 0;

    rig_open_stored(&rig, rig_params(1, 32, 6), 32);
    lose();
    ck_assert_int_eq(fetch(1, 0, 2, 1, 16, &n), 2);
    rig_io_end(&rig, 2, true, 2);
    rig_done(&rig, rig_cold(&rig, 2, "0000"));
    rig_end_all(&rig, true);
    rig_io_end(&rig, 3, true, 0);
    ck_assert_int_eq(rig_host_free(&rig, 0), 0);
    ck_assert_int_eq(fetch(1, 2, 4, 1, 16, &n), 4);
    ck_assert_int_eq(n, 4);
    rig_io_end(&rig, 4, true, 4);
    rig_expect(&rig, 1, 6, 0, 6);
    rig_close(&rig);
}
END_TEST

/* Somebody has computed a part of it meanwhile, or its prefix has gone. */
START_TEST(a_fetch_lands_where_it_belongs)
{
    int32_t n = 0;

    rig_open_stored(&rig, rig_params(1, 32, 16), 32);
    lose();
    ck_assert_int_eq(fetch(1, 0, 3, 1, 16, &n), 2);
    ck_assert_int_eq(fetch(1, 3, 3, 1, 16, &n), 3);
    (void)rig_cold(&rig, 1, "00000" + 5 - _i);
    rig_io_end(&rig, 3, true, 3); /* the later one first */
    rig_expect(&rig, 1, 6, _i, _i < 3 ? _i : 6);
    rig_io_end(&rig, 2, true, 3);
    rig_expect(&rig, 1, 6, _i, _i < 3 ? 3 : 6);
    rig_close(&rig);
}
END_TEST

/* 9.38 A page that was dropped while it was read is not used, although somebody
 * has come to hold what is before it: its place may hold another by now. */
START_TEST(what_is_dropped_under_a_fetch_is_not_used)
{
    int32_t n = 0;

    rig_open_stored(&rig, rig_params(1, 32, 16), 32);
    lose();
    ck_assert_int_eq(fetch(1, 0, 3, 1, 16, &n), 2);
    ck_assert_int_eq(fetch(1, 3, 3, 1, 16, &n), 3);
    rig_io_end(&rig, 2, true, _i == 0 ? 1 : 3);
    (void)rig_cold(&rig, 1, "000");
    rig_io_end(&rig, 3, true, 3);
    rig_expect(&rig, 1, 6, 3, _i == 0 ? 3 : 6);
    rig_close(&rig);
}
END_TEST

static TCase *stores(void)
{
    TCase *tcase = tcase_create("stores");

    tcase_add_loop_test(tcase, a_store_rides_behind_its_backup, 0, 3);
    tcase_add_loop_test(tcase, a_store_waits_for_its_prefix, 0, 2);
    tcase_add_test(tcase, a_store_is_tried_again_with_the_next_prompt);
    tcase_add_loop_test(tcase, a_write_back_takes_its_prefix_along, 0, 3);
    tcase_add_test(tcase, who_is_short_waits_for_the_prefix_too);
    tcase_add_test(tcase, a_node_may_be_split_under_a_store);
    tcase_add_loop_test(tcase, a_bad_copy_leaves_its_pages_to_the_store, 0, 2);
    return tcase;
}

static TCase *fetches(void)
{
    TCase *tcase = tcase_create("fetches");

    tcase_add_loop_test(tcase, a_fetch_brings_host_copies_back, 0, 7);
    tcase_add_loop_test(tcase, a_fetch_is_as_long_as_there_is_room, 0, 4);
    tcase_add_test(tcase, a_fetch_makes_room_for_itself);
    tcase_add_loop_test(tcase, a_fetch_lands_where_it_belongs, 1, 6);
    tcase_add_loop_test(tcase, what_is_dropped_under_a_fetch_is_not_used, 0, 2);
    return tcase;
}

PL_CHECK_MAIN("store", stores(), fetches())
