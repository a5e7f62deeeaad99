/* Looking at the whole state: its hash, and whether it is sound. */
#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "engine/state.h"

/* ---- state hash ---- */

static uint64_t fold_pages(uint64_t h, const pl_page_list_t *pages)
{
    for (size_t i = 0; i < pages->n; i++) {
        h = pl_fold64(h, (uint64_t)pages->items[i]);
    }
    return pl_fold64(h, pages->n);
}

static uint64_t hash_request(const pl_live_t *live)
{
    const int64_t numbers[] = {live->phase,
                               live->prompt_tokens,
                               live->generated,
                               live->cut_pages,
                               live->load_waits,
                               live->extend_waits,
                               live->no_load,
                               live->was_cut,
                               live->hit_pages,
                               live->computed_tokens,
                               live->chunk_tokens,
                               live->inserted_pages,
                               live->load_op,
                               live->sent_pages,
                               live->sends_under_way,
                               live->send_failed,
                               live->home_index,
                               live->no_offload,
                               live->step_tokens,
                               live->unseen_tokens,
                               live->ended_at,
                               live->age,
                               live->fetch_next,
                               live->fetch_since,
                               live->fetch_tokens,
                               live->n_fetches,
                               live->node == NULL ? -1 : live->node->id};
    uint64_t h              = 0;

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        h = pl_fold64(h, (uint64_t)numbers[i]);
    }
    h = fold_pages(h, &live->pages);
    h = fold_pages(h, &live->decode_pages);
    return fold_pages(h, &live->decode_host_pages);
}

static uint64_t hash_requests(const pl_engine_t *engine)
{
    uint64_t h = pl_fold64(0, (uint64_t)engine->n_finished);

    for (int32_t i = 0; i < engine->n_arrived; i++) {
        if ((engine->live[i].phase != PL_PHASE_FUTURE) &&
            (engine->live[i].phase != PL_PHASE_FINISHED)) {
            h = pl_fold64(h, (uint64_t)i);
            h = pl_fold64(h, hash_request(&engine->live[i]));
        }
    }
    for (size_t i = engine->waiting_head; i < engine->waiting.n; i++) {
        h = pl_fold64(h, (uint64_t)engine->waiting.items[i]);
    }
    h = pl_fold64(h, (uint64_t)engine->current);
    h = pl_fold64(h, pl_turns_state_hash(&engine->turns));
    return pl_fold64(h, (uint64_t)engine->releases);
}

static uint64_t hash_pending(const pl_engine_t *engine)
{
    uint64_t h = pl_fold64(0, (uint64_t)engine->next_op);

    for (size_t i = 0; i < engine->pending.n; i++) {
        const pl_pending_t *pending = &engine->pending.items[i];

        h = pl_fold64(h, (uint64_t)pending->due.id);
        h = pl_fold64(h, (uint64_t)pending->end_ns);
        h = pl_fold64(h, (uint64_t)pending->extra);
        h = pl_fold64(h, (uint64_t)pending->failed);
        h = pl_fold64(h, pending->bad);
        h = pl_fold64(h, pending->unread);
    }
    return h;
}

static uint64_t hash_homes(const pl_engine_t *engine)
{
    uint64_t h = 0;

    for (int32_t i = 0; i < engine->n_homes; i++) {
        h = pl_fold64(h, pl_lanes_state_hash(engine->homes[i].pool));
        if (engine->homes[i].host != NULL) {
            h = pl_fold64(h, pl_lanes_state_hash(engine->homes[i].host));
        }
    }
    return h;
}

static uint64_t hash_storage(const pl_engine_t *engine)
{
    uint64_t h;

    if (engine->storage == NULL) {
        return 0;
    }
    h = pl_storage_state_hash(engine->storage);
    for (int lane = 0; lane < pl_engine_lanes(engine); lane++) {
        h = pl_fold64(h, (uint64_t)engine->prefetched[lane]);
    }
    h = pl_fold64(h, (uint64_t)engine->n_finished_out);
    return pl_fold64(h, (uint64_t)engine->n_last_tries);
}

int pl_engine_state_fields(const pl_engine_t *engine, const char **names,
                           uint64_t *hashes, int room)
{
    const pl_hicache_t *cache = engine->cache;
    const struct {
        const char *name;
        uint64_t hash;
    } fields[] = {
        {"clock", pl_fold64((uint64_t)engine->tick, (uint64_t)engine->now_ns)},
        {"requests", hash_requests(engine)},
        {"operations under way", hash_pending(engine)},
        {"device lanes", pl_lanes_state_hash(pl_hicache_device(cache))},
        {"host lanes", pl_hicache_host(cache) == NULL
                           ? 0
                           : pl_lanes_state_hash(pl_hicache_host(cache))},
        {"prefix tree", pl_tree_state_hash(pl_hicache_tree(cache))},
        {"decode pools", hash_homes(engine)},
        {"storage", hash_storage(engine)},
    };
    int n = (int)(sizeof(fields) / sizeof(fields[0]));

    for (int i = 0; (i < n) && (i < room); i++) {
        names[i]  = fields[i].name;
        hashes[i] = fields[i].hash;
    }
    return n < room ? n : room;
}

uint64_t pl_engine_state_hash(const pl_engine_t *engine)
{
    const char *names[16];
    uint64_t hashes[16];
    int n      = pl_engine_state_fields(engine, names, hashes, 16);
    uint64_t h = 0;

    for (int i = 0; i < n; i++) {
        h = pl_fold64(h, hashes[i]);
    }
    return h;
}

/* ---- self-check ---- */

/* Device pages that requests hold besides the tree, by lane. */
static void count_given(const pl_engine_t *engine, int64_t *given)
{
    memset(given, 0, PL_MAX_RANKS * sizeof(*given));
    for (int32_t i = 0; i < engine->n_arrived; i++) {
        const pl_live_t *live = &engine->live[i];

        for (size_t j = (size_t)live->inserted_pages; j < live->pages.n; j++) {
            given[pl_page_owner(live->pages.items[j],
                                pl_engine_lanes(engine))]++;
        }
    }
}

static pl_status_t check_home(const pl_engine_t *engine, int32_t index)
{
    const pl_home_t *home = &engine->homes[index];
    int64_t held          = 0;
    int64_t on_host       = 0;

    for (int32_t i = 0; i < engine->n_arrived; i++) {
        if (engine->live[i].home_index == index) {
            held += (int64_t)engine->live[i].decode_pages.n;
            on_host += (int64_t)engine->live[i].decode_host_pages.n;
        }
    }
    if (held + pl_lanes_free_total(home->pool) != engine->decode_pages - 1) {
        pl_log(engine->log, PL_LOG_ERROR,
               "engine: decode pool of rank %d: %" PRId64
               " pages held and %" PRId64 " free do not make %d",
               home->rank, held, pl_lanes_free_total(home->pool),
               engine->decode_pages - 1);
        return PL_ERR_INTERNAL;
    }
    if ((home->host != NULL) && (on_host + pl_lanes_free_total(home->host) !=
                                 engine->config.decode_host_pages)) {
        pl_log(engine->log, PL_LOG_ERROR,
               "engine: decode host buffer of rank %d: %" PRId64
               " pages held do not add up",
               home->rank, on_host);
        return PL_ERR_INTERNAL;
    }
    return PL_OK;
}

/* What was fetched for prompts that wait is counted as such. */
static pl_status_t check_storage(const pl_engine_t *engine)
{
    int32_t counts[PL_MAX_RANKS] = {0};

    if (engine->storage == NULL) {
        return PL_OK;
    }
    for (int32_t i = 0; i < engine->n_arrived; i++) {
        const pl_live_t *live = &engine->live[i];

        for (size_t k = 0; k < live->fetched_to.n; k++) {
            counts[live->fetched_to.items[k]]++;
        }
    }
    for (int lane = 0; lane < pl_engine_lanes(engine); lane++) {
        if ((counts[lane] != engine->prefetched[lane]) ||
            (counts[lane] > pl_prefetch_most(engine))) {
            pl_log(engine->log, PL_LOG_ERROR,
                   "engine: lane %d: %d pages were fetched for those that "
                   "wait, %d are counted",
                   lane, counts[lane], engine->prefetched[lane]);
            return PL_ERR_INTERNAL;
        }
    }
    return pl_storage_check(engine->storage);
}

/* At the end nobody holds anything. */
static pl_status_t check_idle(const pl_engine_t *engine)
{
    const pl_tree_t *tree = pl_hicache_tree(engine->cache);
    int64_t locked        = 0;

    for (int lane = 0; lane < pl_engine_lanes(engine); lane++) {
        locked += pl_tree_locked(tree, lane);
    }
    if (pl_hicache_ios_under_way(engine->cache) != 0) {
        pl_log(engine->log, PL_LOG_ERROR,
               "engine: storage is still written or read at the end");
        return PL_ERR_INTERNAL;
    }
    if (locked != 0) {
        pl_log(engine->log, PL_LOG_ERROR,
               "engine: %" PRId64 " device pages are still locked at the end",
               locked);
        return PL_ERR_INTERNAL;
    }
    return PL_OK;
}

pl_status_t pl_engine_check(const pl_engine_t *engine)
{
    int64_t given[PL_MAX_RANKS];

    count_given(engine, given);
    PL_TRY(pl_hicache_check(engine->cache, given));
    for (int32_t i = 0; i < engine->n_homes; i++) {
        PL_TRY(check_home(engine, i));
    }
    PL_TRY(check_storage(engine));
    return pl_engine_done(engine) ? check_idle(engine) : PL_OK;
}
