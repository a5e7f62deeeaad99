/* Matching and admission: who prefills next, and with which hit. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/state.h"

/* ---- the queue ---- */

pl_status_t pl_admit_enqueue(pl_engine_t *engine, int32_t request, bool at_head)
{
    pl_id_list_t *waiting = &engine->waiting;

    engine->live[request].phase = PL_PHASE_WAITING;
    pl_engine_released(engine); /* the head may be another one now */
    engine->queue_changes++;
    if (at_head && (engine->waiting_head > 0)) {
        waiting->items[--engine->waiting_head] = request;
        return PL_OK;
    }
    PL_TRY(PL_ARRAY_PUSH(waiting, request));
    if (at_head) {
        memmove(waiting->items + 1, waiting->items,
                (waiting->n - 1) * sizeof(*waiting->items));
        waiting->items[0] = request;
    }
    return PL_OK;
}

/* ---- page keys ---- */

/* Pages that hold generated tokens are known by request and place: what a
 * request generates is a function of its prompt, and no other prompt has it. */
static pl_page_key_t generated_key(int32_t request, int32_t page)
{
    pl_page_key_t key = {
        pl_mix64(((uint64_t)request << 32) | (uint32_t)page),
        pl_mix64(((uint64_t)(uint32_t)page << 32) | (uint32_t)request) |
            PL_PAGE_KEY_OTHER};

    return key;
}

pl_status_t pl_admit_make_keys(pl_engine_t *engine, int32_t request)
{
    pl_live_t *live   = &engine->live[request];
    int32_t page      = engine->config.page_tokens;
    int32_t n         = live->prompt_tokens / page;
    int32_t n_of_file = engine->records[request].prompt_tokens / page;

    if (live->keys != NULL) {
        return PL_OK;
    }
    live->keys = malloc((size_t)(n > 0 ? n : 1) * sizeof(*live->keys));
    if (live->keys == NULL) {
        return PL_ERR_MEMORY;
    }
    engine->source.page_keys(engine->source.context, request, page, 0,
                             n_of_file, live->keys);
    for (int32_t i = n_of_file; i < n; i++) {
        live->keys[i] = generated_key(request, i);
    }
    return PL_OK;
}

/* ---- how much of the hit can be had ---- */

typedef struct hit {
    pl_match_t match;
    int32_t below_threshold; /* host pages passed over */
    int32_t cut;             /* pages given up because a lane has no room */
} hit_t;

static uint64_t name_space_of(const pl_engine_t *engine, int32_t request)
{
    return engine->source.request(engine->source.context, request)->name_space;
}

static pl_status_t match(pl_engine_t *engine, int32_t request, int32_t n,
                         hit_t *hit)
{
    const pl_live_t *live = &engine->live[request];

    PL_TRY(pl_hicache_match(engine->cache, name_space_of(engine, request),
                            live->keys, n, &hit->match, &hit->below_threshold));
    if (live->no_load) {
        hit->below_threshold += hit->match.n_total - hit->match.n_device;
        hit->match.last    = hit->match.device;
        hit->match.n_total = hit->match.n_device;
    }
    pl_hicache_lock(engine->cache, hit->match.device);
    pl_hicache_pin(engine->cache, &hit->match);
    return PL_OK;
}

static void unmatch(pl_engine_t *engine, hit_t *hit)
{
    pl_hicache_unpin(engine->cache, &hit->match);
    pl_hicache_unlock(engine->cache, hit->match.device);
}

/* Pages of every lane that the prompt takes after a hit of n_pages. */
static void count_need(pl_engine_t *engine, int32_t request,
                       const pl_owner_t *saved, int32_t n_saved,
                       int32_t n_pages)
{
    const pl_live_t *live = &engine->live[request];

    memset(engine->need, 0,
           (size_t)pl_engine_lanes(engine) * sizeof(*engine->need));
    for (int32_t i = 0; i < n_saved; i++) {
        engine->need[saved[i]]++;
    }
    pl_fit_chunks(engine, request, n_pages * engine->config.page_tokens,
                  live->prompt_tokens, engine->need);
}

/* extra[lane]: pages that would come free besides the lane's room. */
static bool has_room(const pl_engine_t *engine, const int32_t *extra)
{
    for (int lane = 0; lane < pl_engine_lanes(engine); lane++) {
        if (engine->need[lane] >
            pl_hicache_room(engine->cache, lane) + extra[lane]) {
            return false;
        }
    }
    return true;
}

/* The owners of the device pages of a match, position by position. */
static void device_owners(const pl_engine_t *engine, const pl_match_t *found,
                          pl_owner_t *owners)
{
    for (const pl_node_t *node = found->device; node->parent != NULL;
         node                  = node->parent) {
        for (int32_t i = 0; i < node->n_pages; i++) {
            owners[node->first_page + i] =
                pl_page_owner(node->device[i], pl_engine_lanes(engine));
        }
    }
}

/* The longest hit the lanes have room for, at most the one matched: cut from
 * its end, host part first.  owners: [n_total], all positions of the match. */
static int32_t longest_with_room(pl_engine_t *engine, int32_t request,
                                 const pl_match_t *found,
                                 const pl_owner_t *owners)
{
    int32_t extra[PL_MAX_RANKS] = {0};
    int32_t n                   = found->n_total;

    for (; n > 0; n--) {
        int32_t n_host = n > found->n_device ? n - found->n_device : 0;

        count_need(engine, request, owners + found->n_device, n_host, n);
        if (has_room(engine, extra)) {
            break;
        }
        /* A device page given up comes free, unless others hold it too. */
        if (n <= found->n_device) {
            extra[owners[n - 1]]++;
        }
    }
    return n;
}

/* Will anything that is under way give back pages of the lanes? */
static bool lanes_will_gain(const pl_engine_t *engine)
{
    return (engine->n_transferring > 0) ||
           (pl_hicache_copies_under_way(engine->cache) > 0);
}

typedef enum verdict { VERDICT_ADMIT, VERDICT_WAIT } verdict_t;

/* Match, and cut the hit until the lanes have room for the whole prompt.  On
 * VERDICT_ADMIT the hit is locked and pinned. */
static pl_status_t find_hit(pl_engine_t *engine, int32_t request, hit_t *hit,
                            verdict_t *verdict_p)
{
    const pl_live_t *live = &engine->live[request];
    int32_t n = (live->prompt_tokens - 1) / engine->config.page_tokens;
    int32_t extra[PL_MAX_RANKS] = {0};
    pl_owner_t *owners          = malloc((size_t)n + 1);

    if (owners == NULL) {
        return PL_ERR_MEMORY;
    }
    for (hit->cut = 0;;) {
        pl_status_t status = match(engine, request, n, hit);
        int32_t n_total, keep;

        if (status != PL_OK) {
            free(owners);
            return status;
        }
        n_total = hit->match.n_total;
        device_owners(engine, &hit->match, owners);
        pl_hicache_saved_owners(engine->cache, &hit->match,
                                owners + hit->match.n_device);
        count_need(engine, request, owners + hit->match.n_device,
                   n_total - hit->match.n_device, n_total);
        if (has_room(engine, extra)) {
            *verdict_p = VERDICT_ADMIT;
            break;
        }
        if (lanes_will_gain(engine)) {
            unmatch(engine, hit);
            *verdict_p = VERDICT_WAIT;
            break;
        }
        keep = longest_with_room(engine, request, &hit->match, owners);
        if (keep >= n_total) {
            keep = n_total - 1;
        }
        unmatch(engine, hit);
        if (n_total == 0) {
            free(owners);
            pl_log(engine->log, PL_LOG_ERROR,
                   "engine: request %d does not fit into free lanes", request);
            return PL_ERR_INTERNAL;
        }
        hit->cut += n_total - keep;
        n = keep;
    }
    free(owners);
    return PL_OK;
}

/* ---- what is written down about a hit ---- */

/* Positions in [first, end) that [bad_first, bad_end) has too. */
static int32_t overlap(int32_t bad_first, int32_t bad_end, int32_t first,
                       int32_t end)
{
    first = bad_first > first ? bad_first : first;
    end   = bad_end < end ? bad_end : end;
    return end > first ? end - first : 0;
}

/* Pages after the hit that storage has. */
static int32_t stored_after(const pl_engine_t *engine, int32_t request,
                            int32_t from, int32_t n)
{
    const pl_live_t *live = &engine->live[request];
    uint64_t chain        = pl_tree_chain_start(name_space_of(engine, request));

    if (engine->storage == NULL) {
        return 0;
    }
    for (int32_t i = 0; i < from; i++) {
        chain = pl_tree_chain_next(chain, live->keys[i]);
    }
    return pl_storage_find(engine->storage, chain, live->keys, from, n);
}

static void record_misses(pl_engine_t *engine, int32_t request,
                          const hit_t *hit)
{
    const pl_live_t *live = &engine->live[request];
    int32_t *miss         = engine->records[request].miss_pages;
    int32_t total         = pl_pages_for(engine, live->prompt_tokens);
    int32_t matchable = (live->prompt_tokens - 1) / engine->config.page_tokens;
    int32_t passed    = hit->below_threshold;
    int32_t from      = hit->match.n_total + hit->cut + passed;
    int32_t stored    = stored_after(engine, request, from, matchable);
    int32_t at        = from + stored;
    int32_t lost      = pl_hicache_once_held(engine->cache, hit->match.last,
                                             name_space_of(engine, request),
                                             live->keys, at, matchable);
    int32_t end       = at + lost;
    /* Lost because a load-back failed; never there because a fetch did; still
     * on storage because it could not be read. */
    int32_t bad = overlap(live->bad_first, live->bad_end, at, end);
    int32_t bad_fetch =
        overlap(live->fetch_bad.first, live->fetch_bad.end, end, matchable);
    int32_t unread =
        overlap(live->fetch_bad.first, live->fetch_bad.end, from, at);
    bool is_few = pl_prefetch_passed(engine, request, stored);

    memset(miss, 0, PL_MISSES * sizeof(*miss));
    miss[live->no_load ? PL_MISS_FAILED : PL_MISS_THRESHOLD] = passed;
    miss[PL_MISS_FAILED] += bad + bad_fetch + unread;
    miss[PL_MISS_LANE]    = hit->cut;
    miss[PL_MISS_LAST]    = total - matchable;
    miss[is_few ? PL_MISS_THRESHOLD : PL_MISS_STORAGE] += stored - unread;
    miss[PL_MISS_EVICTED] = lost - bad;
    miss[PL_MISS_NEW]     = matchable - end - bad_fetch;
}

/* Only the first admission that ends well counts: a prompt that comes back with
 * its own tokens would count its own pages as hits. */
static void record_admission(pl_engine_t *engine, int32_t request,
                             const hit_t *hit)
{
    pl_record_t *record = &engine->records[request];
    int32_t page        = engine->config.page_tokens;
    pl_event_t event    = pl_event_make(PL_EVENT_ADMIT);

    event.request = request;
    event.value   = (int64_t)hit->match.n_device * page;
    event.value2  = (int64_t)(hit->match.n_total - hit->match.n_device) * page;
    pl_engine_emit(engine, event);
    if (hit->cut > 0) {
        event         = pl_event_make(PL_EVENT_CUT);
        event.request = request;
        event.value   = hit->cut;
        pl_engine_emit(engine, event);
        engine->counters.hit_cuts++;
    }
    if (record->reentries > 0) {
        return;
    }
    if (record->admitted_ns < 0) {
        record->admitted_ns   = engine->now_ns;
        record->admitted_tick = engine->tick;
    }
    record->device_hit_tokens = hit->match.n_device * page;
    record->storage_hit_tokens =
        pl_prefetch_landed(&engine->live[request], hit->match.n_device,
                           hit->match.n_total) *
        page;
    record->host_hit_tokens =
        (hit->match.n_total - hit->match.n_device) * page -
        record->storage_hit_tokens;
    record->cut_pages = hit->cut;
    record_misses(engine, request, hit);
}

/* ---- admission ---- */

/* The device pages of the path down to `node`, root first. */
static pl_status_t take_path_pages(pl_live_t *live, const pl_node_t *node)
{
    int32_t n = node->parent == NULL ? 0 : node->first_page + node->n_pages;

    live->pages.n = 0;
    PL_TRY(PL_ARRAY_RESERVE(&live->pages, (size_t)n + 1));
    for (; node->parent != NULL; node = node->parent) {
        memcpy(live->pages.items + node->first_page, node->device,
               (size_t)node->n_pages * sizeof(*node->device));
    }
    live->pages.n        = (size_t)n;
    live->hit_pages      = n;
    live->inserted_pages = n;
    return PL_OK;
}

/* The prompt starts with what is on device (now) down to `node`. */
static pl_status_t begin(pl_engine_t *engine, int32_t request, hit_t *hit,
                         pl_node_t *node)
{
    pl_live_t *live = &engine->live[request];

    pl_hicache_lock(engine->cache, node);
    unmatch(engine, hit);
    live->node       = node;
    live->load_waits = false;
    live->was_cut    = hit->cut > 0;
    PL_TRY(take_path_pages(live, node));
    live->device_hit_pages = hit->match.n_device;
    live->computed_tokens  = live->hit_pages * engine->config.page_tokens;
    hit->match.n_total     = live->hit_pages;
    hit->match.last        = node;
    record_admission(engine, request, hit);
    return PL_OK;
}

/* Bring the host part back, or do without it. */
static pl_status_t load_and_begin(pl_engine_t *engine, int32_t request,
                                  hit_t *hit)
{
    pl_live_t *live     = &engine->live[request];
    pl_hicache_try_t go = {0};
    pl_status_t status;

    if (hit->match.n_total == hit->match.n_device) {
        return begin(engine, request, hit, hit->match.device);
    }
    status = pl_hicache_load(engine->cache, &hit->match, &go, &live->load_op);
    if (status == PL_OK) {
        return begin(engine, request, hit, hit->match.last);
    }
    if (status != PL_REFUSED_SHORT) {
        return status;
    }
    if (go.wait) {
        if (!live->load_waits) {
            engine->counters.waits_for_write_back++;
        }
        live->load_waits = true;
        live->match      = hit->match;
        live->cut_pages  = hit->cut;
        return PL_OK;
    }
    hit->cut += hit->match.n_total - hit->match.n_device;
    return begin(engine, request, hit, hit->match.device);
}

static pl_status_t admit(pl_engine_t *engine, int32_t request)
{
    pl_live_t *live   = &engine->live[request];
    hit_t hit         = {0};
    verdict_t verdict = VERDICT_WAIT;
    bool has_home     = false;

    pl_hicache_at(engine->cache, engine->tick, request);
    PL_TRY(pl_admit_make_keys(engine, request));
    PL_TRY(find_hit(engine, request, &hit, &verdict));
    if (verdict == VERDICT_WAIT) {
        engine->tried_at = engine->releases;
        return PL_OK;
    }
    PL_TRY(pl_decode_reserve(engine, request, &has_home));
    if (!has_home) {
        unmatch(engine, &hit);
        engine->tried_at = engine->releases;
        return PL_OK;
    }

    engine->waiting_head++;
    pl_foresee_admitted(engine, request);
    pl_prefetch_admitted(engine, request);
    engine->current       = request;
    live->phase           = PL_PHASE_PREFILL;
    live->chunk_tokens    = 0;
    live->sent_pages      = 0;
    live->sends_under_way = 0;
    live->send_failed     = false;
    live->age             = engine->n_admitted++;
    return load_and_begin(engine, request, &hit);
}

/* The last write-back has ended: try the load-back of the current prompt again.
 */
static pl_status_t retry_load(pl_engine_t *engine)
{
    pl_live_t *live = &engine->live[engine->current];
    hit_t hit       = {0};

    if (pl_hicache_copies_under_way(engine->cache) > 0) {
        return PL_OK;
    }
    hit.match = live->match;
    hit.cut   = live->cut_pages;
    pl_hicache_at(engine->cache, engine->tick, engine->current);
    return load_and_begin(engine, engine->current, &hit);
}

pl_status_t pl_admit(pl_engine_t *engine)
{
    int32_t head;

    if (engine->current >= 0) {
        return engine->live[engine->current].load_waits ? retry_load(engine)
                                                        : PL_OK;
    }
    if ((engine->waiting_head == engine->waiting.n) ||
        (engine->tried_at == engine->releases)) {
        return PL_OK;
    }
    head = engine->waiting.items[engine->waiting_head];
    return pl_prefetch_waits(engine, head) ? PL_OK : admit(engine, head);
}

/* ---- when a load-back does not work out ---- */

pl_status_t pl_admit_undo(pl_engine_t *engine, int32_t request)
{
    pl_live_t *live = &engine->live[request];
    size_t own      = (size_t)live->inserted_pages;

    /* Pages of the hit are the tree's; what came after is the prompt's own. */
    pl_hicache_at(engine->cache, engine->tick, request);
    PL_TRY(pl_hicache_free(engine->cache, live->pages.items + own,
                           (int32_t)(live->pages.n - own)));
    if (live->node != NULL) {
        pl_hicache_unlock(engine->cache, live->node);
    }
    PL_TRY(pl_decode_release(engine, request));
    live->node            = NULL;
    live->pages.n         = 0;
    live->inserted_pages  = 0;
    live->computed_tokens = 0;
    live->chunk_tokens    = 0;
    live->load_op         = 0;
    live->no_load         = true;
    engine->current       = -1;
    engine->records[request].readmissions++;
    return pl_admit_enqueue(engine, request, true);
}

pl_status_t pl_admit_load_ended(pl_engine_t *engine, int32_t request,
                                int64_t op, bool good)
{
    pl_live_t *live = &engine->live[request];

    live->load_op = 0;
    pl_engine_released(engine);
    if (!good) {
        live->bad_first = live->device_hit_pages;
        live->bad_end   = live->hit_pages;
        PL_TRY(pl_admit_undo(engine, request));
    }
    return pl_hicache_load_end(engine->cache, op, good);
}

pl_status_t pl_admit_load_cancelled(pl_engine_t *engine, int32_t request,
                                    int64_t op)
{
    PL_TRY(pl_admit_undo(engine, request));
    return pl_hicache_load_cancel(engine->cache, op);
}
