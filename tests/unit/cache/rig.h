/* unit/cache/rig.h - a cache, its copies and its events, for tests.
 *
 *   rig_t rig;
 *   rig_open(&rig, params)        params from rig_params(C, device, host)
 *   rig_prompt(...)               a prompt's way: match, extend, insert, done
 *   rig_end_all(&rig, true)       every copy under way ends
 *   rig_open_stored(&rig, params, pages)   the same with a storage tier;
 *                                 rig_io_end ends a store or fetch
 *   rig_close(&rig)               checks the cache a last time
 */
#ifndef UNIT_CACHE_RIG_H
#define UNIT_CACHE_RIG_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "cache/hicache.h"
#include "support/log_capture.h"

enum { RIG_MOST_COPIES = 256, RIG_MOST_EVENTS = 4096, RIG_MOST_PAGES = 256 };

typedef struct rig_copy {
    int64_t op;
    bool is_open, load, write_back;
    int32_t first_page, n_pages;
    pl_page_t device[RIG_MOST_PAGES], host[RIG_MOST_PAGES];
    pl_owner_t owners[RIG_MOST_PAGES];
} rig_copy_t;

typedef struct rig_io {
    bool is_open, fetch;
    int64_t node;
    int32_t first_page, n_pages;
    pl_page_t host[RIG_MOST_PAGES];
} rig_io_t;

typedef struct rig {
    pl_hicache_t *cache;
    pl_storage_t *storage;         /* NULL: none */
    rig_io_t ios[RIG_MOST_COPIES]; /* operation i + 1 */
    int n_ios;
    pl_hicache_params_t params;
    log_capture_t said;
    pl_inject_t inject;
    rig_copy_t copies[RIG_MOST_COPIES];
    int n_copies;
    pl_event_t events[RIG_MOST_EVENTS]; /* without pages */
    int n_events;
    int64_t given[PL_MAX_RANKS]; /* pages that requests hold outside the tree */
} rig_t;

static inline int64_t rig_take_copy(void *context,
                                    const pl_hicache_copy_t *copy)
{
    rig_t *rig       = context;
    rig_copy_t *mine = &rig->copies[rig->n_copies];
    size_t n         = (size_t)copy->n_pages;

    if ((rig->n_copies == RIG_MOST_COPIES) || (n > RIG_MOST_PAGES)) {
        ck_abort_msg("more copies than the rig has room for");
    }
    mine->op         = ++rig->n_copies;
    mine->is_open    = true;
    mine->load       = copy->load;
    mine->write_back = copy->write_back;
    mine->first_page = copy->first_page;
    mine->n_pages    = copy->n_pages;
    memcpy(mine->device, copy->device, n * sizeof(*mine->device));
    memcpy(mine->host, copy->host, n * sizeof(*mine->host));
    memcpy(mine->owners, copy->owners, n * sizeof(*mine->owners));
    return mine->op;
}

static inline int64_t rig_take_io(void *context, const pl_hicache_io_t *io)
{
    rig_t *rig     = context;
    rig_io_t *mine = &rig->ios[rig->n_ios];

    if ((rig->n_ios == RIG_MOST_COPIES) || (io->n_pages > RIG_MOST_PAGES)) {
        ck_abort_msg("more stores and fetches than the rig has room for");
    }
    mine->is_open    = true;
    mine->fetch      = io->fetch;
    mine->node       = io->node;
    mine->first_page = io->first_page;
    mine->n_pages    = io->n_pages;
    memcpy(mine->host, io->host, (size_t)io->n_pages * sizeof(*mine->host));
    return ++rig->n_ios;
}

static inline void rig_take_event(void *context, const pl_event_t *event)
{
    rig_t *rig = context;

    if (rig->n_events == RIG_MOST_EVENTS) {
        ck_abort_msg("more events than the rig has room for");
    }
    rig->events[rig->n_events]         = *event;
    rig->events[rig->n_events].pages   = NULL;
    rig->events[rig->n_events++].other = NULL;
}

static inline pl_hicache_params_t rig_params(int n_lanes, int32_t device_pages,
                                             int32_t host_pages)
{
    pl_hicache_params_t params = {
        .page_tokens           = 64,
        .n_lanes               = n_lanes,
        .device_pages          = device_pages + 1, /* and scratch */
        .host_pages            = host_pages,
        .write_policy          = PL_WRITE_THROUGH,
        .hot_threshold         = 2,
        .load_threshold_tokens = 1,
        .policy                = &pl_policy_lru,
    };

    return params;
}

static inline void rig_begin(rig_t *rig, pl_hicache_params_t params)
{
    params.storage      = rig->storage;
    params.io           = rig_take_io;
    params.io_context   = rig;
    params.inject       = &rig->inject;
    params.copy         = rig_take_copy;
    params.copy_context = rig;
    params.events       = (pl_event_sink_t){rig_take_event, rig};
    rig->params         = params;
    ck_assert_int_eq(pl_hicache_open(&params, &rig->said.log, &rig->cache),
                     PL_OK);
    pl_hicache_at(rig->cache, 1, 0);
}

static inline void rig_open(rig_t *rig, pl_hicache_params_t params)
{
    memset(rig, 0, sizeof(*rig));
    log_capture_open(&rig->said);
    rig_begin(rig, params);
}

static inline void rig_open_stored(rig_t *rig, pl_hicache_params_t params,
                                   int32_t pages_per_lane)
{
    pl_storage_params_t storage = {.n_lanes        = params.n_lanes,
                                   .n_ranks        = params.n_lanes,
                                   .pages_per_lane = pages_per_lane,
                                   .events         = {rig_take_event, rig}};

    memset(rig, 0, sizeof(*rig));
    log_capture_open(&rig->said);
    ck_assert_int_eq(pl_storage_open(&storage, &rig->said.log, &rig->storage),
                     PL_OK);
    rig_begin(rig, params);
}

static inline void rig_check(rig_t *rig)
{
    ck_assert_msg((rig->storage == NULL) ||
                      (pl_storage_check(rig->storage) == PL_OK),
                  "%s", rig->said.text);
    ck_assert_msg(pl_hicache_check(rig->cache, rig->given) == PL_OK, "%s",
                  rig->said.text);
}

static inline void rig_close(rig_t *rig)
{
    rig_check(rig);
    pl_hicache_close(rig->cache);
    pl_storage_close(rig->storage);
    log_capture_close(&rig->said);
}

/* Key i of the prompt family `family`: equal for equal (family, i). */
static inline pl_page_key_t rig_key(int family, int i)
{
    return (pl_page_key_t){(uint64_t)family * 1000 + (uint64_t)i, 7};
}

/* keys[i] of a prompt that follows `trunk` for n_trunk pages, then `family`. */
static inline void rig_keys(pl_page_key_t *keys, int trunk, int n_trunk,
                            int family, int n)
{
    for (int i = 0; i < n; i++) {
        keys[i] = rig_key(i < n_trunk ? trunk : family, i);
    }
}

/* Extend by pages with these owners and insert them below `at`; the node. */
static inline pl_node_t *rig_insert(rig_t *rig, pl_node_t *at,
                                    const pl_page_key_t *keys,
                                    const pl_owner_t *owners, int n)
{
    pl_page_t pages[RIG_MOST_PAGES];
    pl_hicache_try_t attempt;
    pl_node_t *last;

    ck_assert_msg(pl_hicache_extend(rig->cache, owners, n, pages, &attempt) ==
                      PL_OK,
                  "%s", rig->said.text);
    ck_assert_int_eq(
        pl_hicache_insert(rig->cache, at, 0, keys, n, pages, &last), PL_OK);
    rig_check(rig);
    return last;
}

/* A cold prompt of one chunk at the root, its owners as text: "0123". */
static inline pl_node_t *rig_cold(rig_t *rig, int family, const char *owners)
{
    pl_page_key_t keys[RIG_MOST_PAGES];
    pl_owner_t lanes[RIG_MOST_PAGES];
    int n = (int)strlen(owners);

    rig_keys(keys, family, n, family, n);
    for (int i = 0; i < n; i++) {
        lanes[i] = (pl_owner_t)(owners[i] - '0');
    }
    return rig_insert(rig, pl_tree_root(pl_hicache_tree(rig->cache)), keys,
                      lanes, n);
}

/* The same below a node: keys go on by position, so the whole prompt's are
 * rig_keys(trunk, pages down to `at`, family, all). */
static inline pl_node_t *rig_below(rig_t *rig, pl_node_t *at, int family,
                                   const char *owners)
{
    pl_page_key_t keys[RIG_MOST_PAGES];
    pl_owner_t lanes[RIG_MOST_PAGES];
    int n = (int)strlen(owners);

    for (int i = 0; i < n; i++) {
        keys[i]  = rig_key(family, at->first_page + at->n_pages + i);
        lanes[i] = (pl_owner_t)(owners[i] - '0');
    }
    return rig_insert(rig, at, keys, lanes, n);
}

static inline void rig_done(rig_t *rig, pl_node_t *last)
{
    ck_assert_msg(pl_hicache_prompt_done(rig->cache, last) == PL_OK, "%s",
                  rig->said.text);
    rig_check(rig);
}

static inline void rig_end(rig_t *rig, int64_t op, bool good)
{
    rig_copy_t *copy = &rig->copies[op - 1];

    ck_assert(copy->is_open);
    copy->is_open = false;
    ck_assert_msg((copy->load
                       ? pl_hicache_load_end(rig->cache, op, good)
                       : pl_hicache_backup_end(rig->cache, op, good)) == PL_OK,
                  "%s", rig->said.text);
    rig_check(rig);
}

/* The end of a store, or of a fetch that brought n_good pages. */
static inline void rig_io_end(rig_t *rig, int op, bool good, int32_t n_good)
{
    rig_io_t *io = &rig->ios[op - 1];
    pl_hicache_fetched_t fetched;

    ck_assert(io->is_open);
    io->is_open = false;
    ck_assert_msg(
        (io->fetch
             ? pl_hicache_fetch_end(rig->cache, op, n_good, n_good, &fetched)
             : pl_hicache_store_end(rig->cache, op, good)) == PL_OK,
        "%s", rig->said.text);
    rig_check(rig);
}

static inline void rig_end_all(rig_t *rig, bool good)
{
    for (int i = 0; i < rig->n_copies; i++) {
        if (rig->copies[i].is_open) {
            rig_end(rig, rig->copies[i].op, good);
        }
    }
}

/* A match of n pages that follow `trunk` for n_trunk pages, then `family`. */
static inline pl_match_t rig_match_via(rig_t *rig, int trunk, int n_trunk,
                                       int family, int n)
{
    pl_page_key_t keys[RIG_MOST_PAGES];
    pl_match_t match;
    int32_t below;

    rig_keys(keys, trunk, n_trunk, family, n);
    ck_assert_int_eq(pl_hicache_match(rig->cache, 0, keys, n, &match, &below),
                     PL_OK);
    rig_check(rig);
    return match;
}

static inline pl_match_t rig_match(rig_t *rig, int family, int n)
{
    return rig_match_via(rig, family, n, family, n);
}

/* How many of these pages are on device, and on device or host; no trace. */
static inline void rig_expect_via(const rig_t *rig, int trunk, int n_trunk,
                                  int family, int n, int on_device, int in_all)
{
    pl_page_key_t keys[RIG_MOST_PAGES];
    int32_t device;
    int32_t total;

    rig_keys(keys, trunk, n_trunk, family, n);
    pl_tree_peek(pl_hicache_tree(rig->cache), 0, keys, n, &device, &total);
    ck_assert_int_eq(device, on_device);
    ck_assert_int_eq(total, in_all);
}

static inline void rig_expect(const rig_t *rig, int family, int n,
                              int on_device, int in_all)
{
    rig_expect_via(rig, family, n, family, n, on_device, in_all);
}

/* Load what a match has on host only: lock, pin and load as a request does.
 * The operation. */
static inline int64_t rig_load(rig_t *rig, const pl_match_t *match)
{
    pl_hicache_try_t attempt;
    int64_t op = 0;

    pl_hicache_lock(rig->cache, match->device);
    pl_hicache_pin(rig->cache, match);
    ck_assert_msg(pl_hicache_load(rig->cache, match, &attempt, &op) == PL_OK,
                  "%s", rig->said.text);
    rig_check(rig);
    pl_hicache_unpin(rig->cache, match);
    pl_hicache_unlock(rig->cache, match->device);
    rig_check(rig);
    return op;
}

/* Evict for one lane; the pages that write-backs will free. */
static inline int64_t rig_evict(rig_t *rig, int lane, int32_t n)
{
    int32_t deficits[PL_MAX_RANKS] = {0};
    int64_t pending;

    deficits[lane] = n;
    ck_assert_int_eq(pl_hicache_evict(rig->cache, deficits, &pending), PL_OK);
    rig_check(rig);
    return pending;
}

static inline int rig_count(const rig_t *rig, pl_event_kind_t kind)
{
    int n = 0;

    for (int i = 0; i < rig->n_events; i++) {
        n += rig->events[i].kind == kind;
    }
    return n;
}

static inline int32_t rig_free(const rig_t *rig, int lane)
{
    return pl_lanes_free_count(pl_hicache_device(rig->cache), lane);
}

static inline int32_t rig_host_free(const rig_t *rig, int lane)
{
    return pl_lanes_free_count(pl_hicache_host(rig->cache), lane);
}

#endif /* UNIT_CACHE_RIG_H */
