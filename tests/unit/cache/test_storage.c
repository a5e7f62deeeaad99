/* The directory of the storage tier: what is kept, where, and what may be used
 * again. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "cache/storage.h"
#include "cache/tree.h"
#include "support/check_main.h"
#include "support/log_capture.h"
#include "support/seed.h"

enum { MOST = 512 };

static log_capture_t said;

static pl_storage_t *open_bounded(int n_lanes, int n_ranks, int32_t pages,
                                  const pl_storage_start_t *start,
                                  int64_t bound, bool read_only)
{
    pl_storage_params_t params = {.n_lanes        = n_lanes,
                                  .n_ranks        = n_ranks,
                                  .pages_per_lane = pages,
                                  .bound          = bound,
                                  .read_only      = read_only,
                                  .start          = start};
    pl_storage_t *storage      = NULL;

    log_capture_open(&said);
    ck_assert_int_eq(pl_storage_open(&params, &said.log, &storage), PL_OK);
    return storage;
}

static pl_storage_t *open_of(int n_lanes, int n_ranks, int32_t pages,
                             const pl_storage_start_t *start)
{
    return open_bounded(n_lanes, n_ranks, pages, start, 0, false);
}

static void check(const pl_storage_t *storage)
{
    ck_assert_msg(pl_storage_check(storage) == PL_OK, "%s", said.text);
}

static void close_of(pl_storage_t *storage)
{
    check(storage);
    pl_storage_close(storage);
    log_capture_close(&said);
}

/* Key i of a family. */
static pl_page_key_t key(int family, int i)
{
    return (pl_page_key_t){(uint64_t)family * 1000 + (uint64_t)i, 7};
}

static void fill_keys(pl_page_key_t *keys, int family, int n)
{
    for (int i = 0; i < n; i++) {
        keys[i] = key(family, i);
    }
}

static uint64_t chain_at(const pl_page_key_t *keys, int n)
{
    uint64_t chain = pl_tree_chain_start(0);

    for (int i = 0; i < n; i++) {
        chain = pl_tree_chain_next(chain, keys[i]);
    }
    return chain;
}

/* Begin to write keys[first .. first+n-1], lanes in turn. */
static pl_status_t take(pl_storage_t *storage, int n_lanes,
                        const pl_page_key_t *keys, int first, int n,
                        pl_page_t *pages, int64_t *stamp_p)
{
    pl_owner_t owners[MOST];

    for (int i = 0; i < n; i++) {
        owners[i] = (pl_owner_t)((first + i) % n_lanes);
    }
    return pl_storage_take(storage, chain_at(keys, first), keys + first, first,
                           owners, n, pages, stamp_p);
}

static void store(pl_storage_t *storage, int n_lanes, const pl_page_key_t *keys,
                  int first, int n)
{
    pl_page_t pages[MOST];
    int64_t stamp = 0;

    ck_assert_int_eq(take(storage, n_lanes, keys, first, n, pages, &stamp),
                     PL_OK);
    ck_assert_int_eq(pl_storage_stored(storage, stamp, true), PL_OK);
    check(storage);
}

static void publish(pl_storage_t *storage, bool good)
{
    pl_storage_publish(storage);
    ck_assert_int_eq(pl_storage_published(storage, good), PL_OK);
    check(storage);
}

static int32_t found(const pl_storage_t *storage, const pl_page_key_t *keys,
                     int n)
{
    return pl_storage_find(storage, pl_tree_chain_start(0), keys, 0, n);
}

/* ---- keys ---- */

/* 9.37 A page is known by its whole prefix and namespace: the same tokens after
 * others are another page.  It can be read once it is acknowledged. */
START_TEST(a_page_is_known_by_its_prefix)
{
    pl_storage_t *storage = open_of(2, 2, 8, NULL);
    pl_page_key_t keys[4], other[4];
    pl_page_t pages[4];
    int64_t stamp = 0;

    fill_keys(keys, 1, 4);
    fill_keys(other, 1, 4);
    other[0] = key(2, 0);
    ck_assert_int_eq(take(storage, 2, keys, 0, 4, pages, &stamp), PL_OK);
    ck_assert_int_eq(found(storage, keys, 4), 0);
    ck_assert(pl_storage_has(storage, chain_at(keys, 4), keys[3]));
    ck_assert(pl_storage_is_own(storage, chain_at(keys, 4), keys[3]));
    ck_assert_int_eq(pl_storage_settled_stamp(storage), stamp - 1);
    ck_assert_int_eq(pl_storage_stored(storage, stamp, true), PL_OK);
    ck_assert_int_eq(pl_storage_settled_stamp(storage), stamp);
    ck_assert_int_eq(found(storage, keys, 4), 4);
    ck_assert_int_eq(found(storage, other, 4), 0);
    ck_assert_int_eq(
        pl_storage_find(storage, pl_tree_chain_start(1), keys, 0, 4), 0);
    ck_assert_int_eq(pl_storage_find(storage, chain_at(keys, 2), keys, 2, 4),
                     2);
    close_of(storage);
}
END_TEST

/* Page g of the own set lies in share g mod C, slot g div C, with one lane too.
 */
START_TEST(places_are_spread_over_the_ranks)
{
    int n_lanes           = _i == 0 ? 3 : 1;
    pl_storage_t *storage = open_of(n_lanes, 3, 12 / n_lanes, NULL);
    pl_page_key_t keys[6];
    pl_storage_entry_t entries[6];

    fill_keys(keys, 1, 6);
    store(storage, n_lanes, keys, 0, 6);
    ck_assert_int_eq(
        pl_storage_hold(storage, pl_tree_chain_start(0), keys, 0, 6, entries),
        PL_OK);
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(entries[i].place.rank, i % 3);
        ck_assert_int_eq(entries[i].place.slot, i / 3);
        ck_assert_int_eq(entries[i].owner, i % n_lanes);
        ck_assert_int_eq(entries[i].position, i);
    }
    ck_assert_int_eq(pl_storage_release(storage, entries, 6, 6, 6), PL_OK);
    close_of(storage);
}
END_TEST

/* ---- writes ---- */

/* What was written behind a write that failed is of no use either, whichever
 * ends first; its places are free or wait for a publication. */
START_TEST(a_failed_write_takes_what_follows_along)
{
    pl_storage_t *storage = open_of(1, 1, 16, NULL);
    pl_page_key_t keys[8];
    pl_page_t pages[8];
    int64_t first = 0, second = 0;

    fill_keys(keys, 1, 8);
    ck_assert_int_eq(take(storage, 1, keys, 0, 4, pages, &first), PL_OK);
    ck_assert_int_eq(take(storage, 1, keys, 4, 4, pages, &second), PL_OK);
    if (_i == 0) {
        ck_assert_int_eq(pl_storage_stored(storage, second, true), PL_OK);
        check(storage);
        ck_assert_int_eq(found(storage, keys, 8), 0);
        ck_assert_int_eq(pl_storage_stored(storage, first, false), PL_OK);
    } else {
        ck_assert_int_eq(pl_storage_stored(storage, first, false), PL_OK);
        check(storage);
        ck_assert_int_eq(pl_storage_stored(storage, second, true), PL_OK);
    }
    check(storage);
    ck_assert_int_eq(pl_storage_n_kept(storage), 0);
    ck_assert(!pl_storage_has(storage, chain_at(keys, 8), keys[7]));
    ck_assert_int_eq(pl_lanes_free_total(pl_storage_lanes(storage)), 12);
    publish(storage, true);
    ck_assert_int_eq(pl_lanes_free_total(pl_storage_lanes(storage)), 16);
    ck_assert_int_eq(pl_storage_stored(storage, first, true), PL_ERR_INTERNAL);
    ck_assert_int_eq(said.n_lines, 1);
    close_of(storage);
}
END_TEST

/* A write that ends before the one it follows is kept when that one is. */
START_TEST(a_page_is_kept_once_its_prefix_is)
{
    pl_storage_t *storage = open_of(1, 1, 16, NULL);
    pl_page_key_t keys[8];
    pl_page_t pages[8];
    int64_t stamps[2] = {0};

    fill_keys(keys, 1, 8);
    ck_assert_int_eq(take(storage, 1, keys, 0, 4, pages, &stamps[0]), PL_OK);
    ck_assert_int_eq(take(storage, 1, keys, 4, 4, pages, &stamps[1]), PL_OK);
    ck_assert_int_eq(pl_storage_stored(storage, stamps[1], true), PL_OK);
    ck_assert_int_eq(pl_storage_n_kept(storage), 0);
    check(storage);
    ck_assert_int_eq(pl_storage_stored(storage, stamps[0], true), PL_OK);
    ck_assert_int_eq(found(storage, keys, 8), 8);
    close_of(storage);
}
END_TEST

/* ---- eviction and publication ---- */

/* 9.38 What an index names is never written over: a place comes free when an
 * index without its page has been put out. */
START_TEST(a_place_waits_for_a_publication)
{
    pl_storage_t *storage = open_of(1, 1, 8, NULL);
    pl_page_key_t old[4], other[4], fresh[4];
    pl_page_t pages[4];
    int64_t stamp = 0;

    fill_keys(old, 1, 4);
    fill_keys(other, 2, 4);
    fill_keys(fresh, 3, 4);
    store(storage, 1, old, 0, 4);
    store(storage, 1, other, 0, 4);
    ck_assert(pl_storage_has_changed(storage));
    publish(storage, true);
    ck_assert(!pl_storage_has_changed(storage));
    ck_assert(!pl_storage_wants_publication(storage));
    pl_storage_touch(storage, 0, old, 3);

    /* Of what was used least recently, no more than needed, leaves first. */
    ck_assert_int_eq(take(storage, 1, fresh, 0, 3, pages, &stamp),
                     PL_REFUSED_SHORT);
    check(storage);
    ck_assert_int_eq(found(storage, old, 4), 3);
    ck_assert_int_eq(found(storage, other, 4), 2);
    ck_assert_int_eq(pl_lanes_free_total(pl_storage_lanes(storage)), 0);
    ck_assert(pl_storage_wants_publication(storage));
    /* What waits is enough: nothing more goes. */
    ck_assert_int_eq(take(storage, 1, fresh, 0, 3, pages, &stamp),
                     PL_REFUSED_SHORT);
    ck_assert_int_eq(pl_storage_n_kept(storage), 5);

    publish(storage, false);
    ck_assert_int_eq(pl_lanes_free_total(pl_storage_lanes(storage)), 0);
    ck_assert(!pl_storage_wants_publication(storage)); /* not at once again */
    ck_assert_int_eq(take(storage, 1, fresh, 0, 3, pages, &stamp),
                     PL_REFUSED_SHORT);
    ck_assert(pl_storage_wants_publication(storage));
    pl_storage_publish(storage);
    ck_assert(!pl_storage_wants_publication(storage));
    ck_assert_int_eq(take(storage, 1, fresh, 0, 3, pages, &stamp),
                     PL_REFUSED_SHORT);
    ck_assert_int_eq(pl_storage_published(storage, true), PL_OK);
    ck_assert_int_eq(take(storage, 1, fresh, 0, 3, pages, &stamp), PL_OK);
    ck_assert_int_eq(pl_storage_stored(storage, stamp, true), PL_OK);
    ck_assert_int_eq(found(storage, fresh, 3), 3);
    ck_assert_int_eq(pl_storage_counters(storage)->evicted_pages, 3);
    ck_assert_int_eq(pl_storage_counters(storage)->stores_skipped, 4);
    ck_assert_int_eq(pl_storage_counters(storage)->publications_failed, 1);
    close_of(storage);
}
END_TEST

/* What is dropped after a publication began waits for the next one. */
START_TEST(a_later_drop_waits_for_the_next_index)
{
    pl_storage_t *storage = open_of(1, 1, 8, NULL);
    pl_page_key_t keys[4];
    pl_storage_entry_t entries[4];

    fill_keys(keys, 1, 4);
    store(storage, 1, keys, 0, 4);
    ck_assert_int_eq(
        pl_storage_hold(storage, pl_tree_chain_start(0), keys, 0, 4, entries),
        PL_OK);
    pl_storage_publish(storage);
    ck_assert_int_eq(pl_storage_release(storage, entries, 4, 1, 1), PL_OK);
    check(storage);
    ck_assert_int_eq(pl_storage_published(storage, true), PL_OK);
    ck_assert_int_eq(pl_lanes_free_total(pl_storage_lanes(storage)), 4);
    ck_assert(pl_storage_has_changed(storage));
    publish(storage, true);
    ck_assert_int_eq(pl_lanes_free_total(pl_storage_lanes(storage)), 7);
    ck_assert(!pl_storage_has_changed(storage));
    close_of(storage);
}
END_TEST

/* Nothing is evicted for what will not fit all the same, nor the prefix of what
 * is to be written, nor what is read or written. */
START_TEST(eviction_in_vain_does_not_begin)
{
    pl_storage_t *storage = open_of(1, 1, 8, NULL);
    pl_page_key_t keys[16], other[8];
    pl_storage_entry_t entries[4];
    pl_page_t pages[16];
    int64_t stamp = 0;

    fill_keys(keys, 1, 16);
    fill_keys(other, 2, 8);
    store(storage, 1, keys, 0, 4);
    store(storage, 1, other, 0, 4);
    ck_assert_int_eq(take(storage, 1, other, 4, 4, pages, &stamp),
                     PL_REFUSED_SHORT);
    ck_assert_int_eq(found(storage, keys, 4), 0);
    ck_assert_int_eq(take(storage, 1, other, 4, 5, pages, &stamp),
                     PL_REFUSED_SHORT);
    ck_assert_int_eq(found(storage, other, 4), 4);
    publish(storage, true);
    store(storage, 1, keys, 0, 4);
    ck_assert_int_eq(
        pl_storage_hold(storage, pl_tree_chain_start(0), other, 0, 4, entries),
        PL_OK);
    ck_assert_int_eq(take(storage, 1, keys, 4, 1, pages, &stamp),
                     PL_REFUSED_SHORT);
    ck_assert_int_eq(pl_storage_n_kept(storage), 8);
    pl_storage_unhold(storage, entries, 4);
    ck_assert_int_eq(take(storage, 1, keys, 4, 1, pages, &stamp),
                     PL_REFUSED_SHORT);
    ck_assert_int_eq(pl_storage_n_kept(storage), 7);
    close_of(storage);
}
END_TEST

/* A lane that runs low evicts and asks for a publication before it is short. */
START_TEST(room_is_made_ahead_of_need)
{
    pl_storage_t *storage = open_of(1, 1, 320, NULL);
    pl_page_key_t keys[320];

    fill_keys(keys, 1, 320);
    for (int i = 0; i < 310; i += 10) {
        store(storage, 1, keys, i, 10);
    }
    ck_assert_int_eq(pl_storage_counters(storage)->evicted_pages, 0);
    store(storage, 1, keys + 0, 310, 1);
    ck_assert_int_eq(pl_storage_counters(storage)->evicted_pages, 0);
    publish(storage, true);
    fill_keys(keys, 2, 320);
    store(storage, 1, keys, 0, 1);
    ck_assert_int_eq(pl_storage_counters(storage)->stores_skipped, 0);
    ck_assert_int_gt(pl_storage_counters(storage)->evicted_pages, 0);
    ck_assert(pl_storage_wants_publication(storage));
    close_of(storage);
}
END_TEST

/* ---- what is bad ---- */

/* 9.38 A page that a read found bad goes, with all that needs it; one that was
 * dropped under a read keeps its place until the read ends, and is not sound.
 */
START_TEST(a_bad_page_takes_along_what_needs_it)
{
    pl_storage_t *storage = open_of(1, 1, 16, NULL);
    pl_page_key_t keys[8];
    pl_storage_entry_t first[4], second[4];

    fill_keys(keys, 1, 8);
    store(storage, 1, keys, 0, 8);
    ck_assert_int_eq(
        pl_storage_hold(storage, chain_at(keys, 0), keys, 0, 4, first), PL_OK);
    ck_assert_int_eq(
        pl_storage_hold(storage, chain_at(keys, 4), keys, 4, 4, second), PL_OK);
    ck_assert_int_eq(pl_storage_sound(storage, second, 4), 4);
    ck_assert_int_eq(pl_storage_release(storage, first, 4, 2, 2), PL_OK);
    check(storage);
    ck_assert_int_eq(found(storage, keys, 8), 2);
    ck_assert_int_eq(pl_storage_sound(storage, second, 4), 0);
    publish(storage, true);
    ck_assert_int_eq(pl_lanes_free_total(pl_storage_lanes(storage)), 8 + 2);
    store(storage, 1, keys, 2, 6); /* anew, elsewhere */
    ck_assert_int_eq(pl_storage_sound(storage, second, 4), 0);
    ck_assert_int_eq(pl_storage_release(storage, second, 4, 0, 0), PL_OK);
    check(storage);
    ck_assert_int_eq(found(storage, keys, 8), 8);
    publish(storage, true);
    ck_assert_int_eq(pl_lanes_free_total(pl_storage_lanes(storage)), 8);
    close_of(storage);
}
END_TEST

/* Of a page that could not be read now nothing is known: it stays, with all
 * that needs it, and may be read again; one behind it that is bad goes. */
START_TEST(a_page_that_was_not_read_stays)
{
    pl_storage_t *storage = open_of(1, 1, 16, NULL);
    pl_page_key_t keys[8];
    pl_storage_entry_t entries[8];

    fill_keys(keys, 1, 8);
    store(storage, 1, keys, 0, 8);
    for (int32_t first_bad = 8; first_bad >= 5; first_bad -= 3) {
        ck_assert_int_eq(
            pl_storage_hold(storage, chain_at(keys, 0), keys, 0, 8, entries),
            PL_OK);
        ck_assert_int_eq(pl_storage_release(storage, entries, 8, 2, first_bad),
                         PL_OK);
        check(storage);
        ck_assert_int_eq(found(storage, keys, 8), first_bad);
        ck_assert(!pl_storage_is_held(storage, chain_at(keys, 3), keys[2]));
    }
    ck_assert_int_eq(pl_storage_counters(storage)->fetched_pages, 2 + 2);
    ck_assert_int_eq(pl_storage_counters(storage)->unread_pages, 6 + 3);
    ck_assert_int_eq(pl_storage_counters(storage)->bad_pages, 3);
    close_of(storage);
}
END_TEST

/* ---- restart ---- */

typedef struct list {
    pl_storage_entry_t entries[MOST];
    int n;
} list_t;

static pl_status_t note(void *context, const pl_storage_entry_t *entry)
{
    list_t *list = context;

    list->entries[list->n++] = *entry;
    return PL_OK;
}

static list_t list_of(const pl_storage_t *storage)
{
    list_t list = {.n = 0};

    ck_assert_int_eq(pl_storage_visit(storage, note, &list), PL_OK);
    return list;
}

static pl_storage_start_t start_of(const list_t *list, int32_t own_set)
{
    pl_storage_start_t start = {
        .n_entries  = list->n,
        .entries    = list->entries,
        .own_set    = own_set,
        .next_stamp = 1000,
    };

    return start;
}

/* With the same ranks everything is where it was; else owners are re-laid by
 * position, and pages move to the own set when they are written again. */
START_TEST(a_start_continues_or_lays_anew)
{
    int n_lanes           = _i == 0 ? 3 : 2;
    pl_storage_t *storage = open_of(3, 3, 8, NULL);
    pl_page_key_t keys[12];
    pl_storage_entry_t entries[12];
    pl_storage_start_t start;
    list_t before, after;

    fill_keys(keys, 1, 12);
    store(storage, 3, keys, 0, 12);
    before = list_of(storage);
    close_of(storage);
    start   = start_of(&before, _i);
    storage = open_of(n_lanes, n_lanes, 8, &start);
    check(storage);
    after = list_of(storage);
    ck_assert_int_eq(after.n, 12);
    ck_assert(!pl_storage_has_changed(storage));
    ck_assert_int_eq(found(storage, keys, 12), 12);
    ck_assert_int_eq(
        pl_storage_hold(storage, chain_at(keys, 0), keys, 0, 12, entries),
        PL_OK);
    for (int i = 0; i < 12; i++) {
        ck_assert_int_eq(entries[i].owner, i % n_lanes);
        ck_assert_mem_eq(&after.entries[i].place, &before.entries[i].place,
                         sizeof(pl_storage_place_t));
        ck_assert(pl_storage_is_own(storage, entries[i].chain, keys[i]) ==
                  (_i == 0));
    }
    ck_assert_int_eq(pl_storage_release(storage, entries, 12, 12, 12), PL_OK);
    ck_assert_int_eq(pl_lanes_free_total(pl_storage_lanes(storage)),
                     _i == 0 ? 12 : 16);
    if (_i == 1) {
        store(storage, 2, keys, 0, 4);
        ck_assert_int_eq(pl_storage_n_kept(storage), 12);
        ck_assert(pl_storage_is_own(storage, chain_at(keys, 4), keys[3]));
        ck_assert(!pl_storage_is_own(storage, chain_at(keys, 5), keys[4]));
        after = list_of(storage);
        ck_assert_int_eq(after.entries[11].place.set, 1);
        ck_assert_int_gt(after.entries[11].stamp, 999);
    }
    close_of(storage);
}
END_TEST

/* I8: of what an index says, only what can be true is taken over. */
START_TEST(a_torn_start_is_mended)
{
    pl_storage_t *storage = open_of(1, 1, 32, NULL);
    pl_page_key_t keys[8], other[8];
    pl_storage_start_t start;
    list_t list;

    fill_keys(keys, 1, 8);
    fill_keys(other, 2, 8);
    store(storage, 1, keys, 0, 8);
    store(storage, 1, other, 0, 8);
    list = list_of(storage);
    close_of(storage);
    ck_assert_int_eq(list.n, 16);
    for (int i = 0; i < 8; i++) { /* deepest first */
        ck_assert_int_eq(list.entries[i].position, 7 - i);
    }
    switch (_i) {
    case 0: /* a page in the middle is not there */
        list.entries[3] = list.entries[15];
        break;
    case 1: /* another key than its chain's */
        list.entries[3].key.lo++;
        break;
    case 2: /* a place that is another's */
        list.entries[3].place = list.entries[12].place;
        break;
    case 3: /* no place of the set */
        list.entries[3].place.slot = 32;
        break;
    case 4: /* another position */
        list.entries[3].position = 9;
        break;
    default: /* any order: nothing is lost */
        for (int i = 0; i < 8; i++) {
            pl_storage_entry_t swap = list.entries[i];

            list.entries[i]      = list.entries[15 - i];
            list.entries[15 - i] = swap;
        }
        break;
    }
    start   = start_of(&list, 0);
    storage = open_of(1, 1, 32, &start);
    check(storage);
    ck_assert_int_eq(found(storage, keys, 8), _i < 5 ? 4 : 8);
    ck_assert_int_eq(found(storage, other, 8), 8);
    ck_assert(pl_storage_has_changed(storage) == (_i < 5));
    publish(storage, true);
    ck_assert_int_eq(pl_lanes_free_total(pl_storage_lanes(storage)),
                     _i < 5 ? 20 : 16);
    close_of(storage);
}
END_TEST

/* ---- the bound ---- */

static list_t folder_of(int n_families, int n)
{
    pl_storage_t *storage = open_of(4, 4, 32, NULL);
    pl_page_key_t keys[MOST];
    list_t list;

    for (int family = 1; family <= n_families; family++) {
        fill_keys(keys, family, n);
        store(storage, 4, keys, 0, n);
    }
    list = list_of(storage);
    close_of(storage);
    return list;
}

/* What a run with less room finds is cut to it, the least recently used first;
 * one that only reads keeps all. */
START_TEST(a_smaller_tier_keeps_what_was_used_last)
{
    list_t before            = folder_of(5, 8);
    pl_storage_start_t start = start_of(&before, 1);
    pl_storage_t *storage    = open_bounded(3, 3, 4, &start, 12, _i == 1);
    const pl_storage_counters_t *counters = pl_storage_counters(storage);
    list_t after                          = list_of(storage);
    pl_page_key_t keys[8];

    check(storage);
    ck_assert_int_eq(after.n, _i == 0 ? 12 : 40);
    for (int i = 0; i < after.n; i++) {
        ck_assert_uint_eq(after.entries[i].chain,
                          before.entries[before.n - after.n + i].chain);
    }
    ck_assert_int_eq(counters->start_pages, 40);
    ck_assert_int_eq(counters->evicted_pages, 40 - after.n);
    if (_i == 0) {
        fill_keys(keys, 7, 8);
        store(storage, 3, keys, 0, 3); /* those of old go at once */
        ck_assert_int_eq(pl_storage_n_kept(storage), 12);
        fill_keys(keys, 5, 8);
        ck_assert_int_eq(found(storage, keys, 8), 8);
        store(storage, 3, keys, 0, 6); /* moved: nothing has to go */
        ck_assert_int_eq(pl_storage_n_kept(storage), 12);
        ck_assert_int_eq(counters->moved_pages, 6);
        ck_assert_int_eq(counters->new_pages, 3);
        ck_assert_int_eq(counters->evicted_pages, 28 + 3);
    }
    close_of(storage);
}
END_TEST

/* Pages of old give no place of the own set, so none of them goes for one. */
START_TEST(what_does_not_help_stays)
{
    list_t before            = folder_of(4, 8);
    pl_storage_start_t start = start_of(&before, 1);
    pl_storage_t *storage    = open_bounded(2, 2, 4, &start, 100, false);
    pl_page_key_t keys[8], more[8];
    pl_page_t pages[8];
    int64_t stamp = 0;

    fill_keys(keys, 7, 8);
    fill_keys(more, 8, 8);
    store(storage, 2, keys, 0, 8);
    ck_assert_int_eq(take(storage, 2, more, 0, 2, pages, &stamp),
                     PL_REFUSED_SHORT);
    ck_assert_int_eq(pl_storage_n_kept(storage), 32 + 6);
    ck_assert_int_eq(found(storage, keys, 8), 6);
    publish(storage, true);
    store(storage, 2, more, 0, 2);
    close_of(storage);
}
END_TEST

static int own_in_a_row(const pl_storage_t *storage, const pl_page_key_t *keys,
                        int n)
{
    int i = 0;

    while ((i < n) && pl_storage_is_own(storage, chain_at(keys, i + 1),
                                        keys[i])) {
        i++;
    }
    return i;
}

/* One random store.  What is evicted for it is enough: it fits after the next
 * publication, if it does not at once and nothing is read. */
static void store_at_random(pl_storage_t *storage, int n_lanes, pl_rng_t *rng,
                            bool is_read)
{
    int64_t evicted = pl_storage_counters(storage)->evicted_pages;
    int64_t kept    = pl_storage_n_kept(storage);
    pl_page_key_t keys[40];
    pl_page_t pages[MOST];
    int64_t stamp = 0;
    int n         = 1 + (int)pl_rng_below(rng, 8);
    pl_status_t status;
    int first;

    fill_keys(keys, 1 + (int)pl_rng_below(rng, 9), 40);
    first = own_in_a_row(storage, keys, 40 - n);
    if (first == 40 - n) {
        return;
    }
    for (int i = first; i < first + n; i++) { /* not into what is own */
        if (pl_storage_is_own(storage, chain_at(keys, i + 1), keys[i])) {
            return;
        }
    }
    status = take(storage, n_lanes, keys, first, n, pages, &stamp);
    if (status == PL_REFUSED_SHORT) {
        evicted = pl_storage_counters(storage)->evicted_pages - evicted;
        ck_assert_int_eq(pl_storage_n_kept(storage), kept - evicted);
        publish(storage, true);
        status = is_read || (evicted == 0)
                     ? status
                     : take(storage, n_lanes, keys, first, n, pages, &stamp);
        ck_assert(is_read || (evicted == 0) || (status == PL_OK));
    }
    if (status == PL_OK) {
        ck_assert_int_eq(
            pl_storage_stored(storage, stamp, pl_rng_below(rng, 8) > 0), PL_OK);
    }
    check(storage);
}

static void read_at_random(pl_storage_t *storage, pl_rng_t *rng)
{
    pl_storage_entry_t entries[40];
    pl_page_key_t keys[40];
    int n, good;

    fill_keys(keys, 1 + (int)pl_rng_below(rng, 9), 40);
    n = found(storage, keys, 40);
    pl_storage_touch(storage, 0, keys, n / 2);
    ck_assert_int_eq(
        pl_storage_hold(storage, chain_at(keys, 0), keys, 0, n, entries),
        PL_OK);
    for (int i = 0; i < 5; i++) {
        store_at_random(storage, pl_lanes_n(pl_storage_lanes(storage)), rng,
                        true);
    }
    good = n - ((n > 0) && (pl_rng_below(rng, 4) == 0) ? 1 : 0);
    ck_assert_int_eq(pl_storage_release(storage, entries, n, good, good),
                     PL_OK);
    check(storage);
}

/* Whatever is stored, read and evicted: never more than the bound (check() says
 * so), what is kept is prefix-closed, and no eviction is in vain. */
START_TEST(the_bound_holds_at_random)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed("bound"));

    for (int run = 0; run < 60; run++) {
        list_t before            = folder_of(4, 1 + (int)pl_rng_below(&rng, 30));
        pl_storage_start_t start = start_of(&before, 1);
        int n_lanes              = 1 + (int)pl_rng_below(&rng, 3);
        int32_t pages            = 1 + (int32_t)pl_rng_below(&rng, 60);
        int64_t bound            = (int64_t)n_lanes * pages +
                        (int64_t)(pl_rng_below(&rng, 2) * 20);
        pl_storage_t *storage =
            open_bounded(n_lanes, n_lanes, pages, &start, bound, false);

        check(storage);
        for (int i = 0; i < 60; i++) {
            store_at_random(storage, n_lanes, &rng, false);
            if (pl_rng_below(&rng, 8) == 0) {
                read_at_random(storage, &rng);
            }
        }
        close_of(storage);
    }
}
END_TEST

static TCase *directory(void)
{
    TCase *tcase = tcase_create("directory");

    tcase_add_loop_test(tcase, a_smaller_tier_keeps_what_was_used_last, 0, 2);
    tcase_add_test(tcase, what_does_not_help_stays);
    tcase_add_test(tcase, the_bound_holds_at_random);
    tcase_add_test(tcase, a_page_is_known_by_its_prefix);
    tcase_add_loop_test(tcase, places_are_spread_over_the_ranks, 0, 2);
    tcase_add_loop_test(tcase, a_failed_write_takes_what_follows_along, 0, 2);
    tcase_add_test(tcase, a_page_is_kept_once_its_prefix_is);
    tcase_add_test(tcase, a_place_waits_for_a_publication);
    tcase_add_test(tcase, a_later_drop_waits_for_the_next_index);
    tcase_add_test(tcase, eviction_in_vain_does_not_begin);
    tcase_add_test(tcase, room_is_made_ahead_of_need);
    tcase_add_test(tcase, a_bad_page_takes_along_what_needs_it);
    tcase_add_test(tcase, a_page_that_was_not_read_stays);
    tcase_add_loop_test(tcase, a_start_continues_or_lays_anew, 0, 2);
    tcase_add_loop_test(tcase, a_torn_start_is_mended, 0, 6);
    return tcase;
}

PL_CHECK_MAIN("storage", directory())
