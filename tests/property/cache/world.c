#include "property/cache/world.h"

#include <string.h>

#include "base/hash.h"

static uint64_t below(world_t *w, uint64_t n)
{
    return pl_rng_below(&w->rng, n);
}

static bool chance(world_t *w, int percent)
{
    return below(w, 100) < (uint64_t)percent;
}

static pl_hicache_t *cache_of(const world_t *w, int side)
{
    return w->sides[side].cache;
}

/* ---- what the caches say ---- */

static int64_t take_copy(void *context, const pl_hicache_copy_t *order)
{
    side_t *side = context;
    world_t *w   = side->world;
    size_t n     = (size_t)order->n_pages;
    int64_t op   = side->next_op++;
    copy_t *copy;

    if (side->index == 0) {
        LAW(w, w->n_copies < COPIES);
        LAW(w, order->n_pages <= MOST_PAGES);
        copy             = &w->copies[w->n_copies++];
        copy->op         = op;
        copy->load       = order->load;
        copy->write_back = order->write_back;
        copy->n          = order->n_pages;
        memcpy(copy->device, order->device, n * sizeof(*copy->device));
        memcpy(copy->host, order->host, n * sizeof(*copy->host));
        memcpy(copy->owners, order->owners, n * sizeof(*copy->owners));
        for (size_t i = 0; i < n; i++) {
            /* The one rule, for both directions. */
            LAW(w, copy->device[i] % w->params.n_lanes == copy->owners[i]);
            LAW(w, copy->host[i] % w->params.n_lanes == copy->owners[i]);
            if (copy->load) {
                w->in_device[copy->device[i]] = 0; /* not there yet */
            } else {
                w->in_host[copy->host[i]] = 0;
            }
        }
    }
    return op;
}

static void take_event(void *context, const pl_event_t *event)
{
    side_t *side             = context;
    const uint64_t to_fold[] = {
        (uint64_t)event->kind,   (uint64_t)event->request,
        (uint64_t)event->node,   (uint64_t)event->op,
        (uint64_t)event->value,  (uint64_t)event->value2,
        (uint64_t)event->n_pages};

    side->events = pl_hash64(to_fold, sizeof(to_fold), side->events);
    for (int32_t i = 0; i < event->n_pages; i++) {
        side->events = pl_fold64(side->events, (uint64_t)event->pages[i]);
    }
    if (side->index == 0) {
        replay_take(&side->world->replay, event);
    }
}

/* ---- laws ---- */

/* What the tree shows, page by page, against what is written and what was. */
typedef struct survey {
    world_t *w;
    place_t places[PLACES];
} survey_t;

static place_t *place_at(place_t *places, uint64_t chain)
{
    size_t i = (size_t)chain & (PLACES - 1);

    while ((places[i].chain != 0) && (places[i].chain != chain)) {
        i = (i + 1) & (PLACES - 1);
    }
    return &places[i];
}

static pl_status_t survey_node(void *context, const pl_node_t *node)
{
    survey_t *survey = context;
    world_t *w       = survey->w;
    uint64_t chain   = node->parent->parent == NULL
                           ? pl_tree_chain_start(node->name_space)
                           : node->parent->chain;
    bool may_move    = (w->params.policy != &pl_policy_lru) &&
                    (w->params.write_policy == PL_WRITE_BACK);

    for (int32_t i = 0; i < node->n_pages; i++) {
        place_t now = {0, PL_NO_PAGE, -1};
        place_t *was;
        place_t *is;

        chain     = pl_tree_chain_next(chain, node->keys[i]);
        now.chain = chain;
        if (node->device != NULL) {
            LAW(w, (node->load_op != 0) ||
                       (w->in_device[node->device[i]] == chain));
        }
        if (node->host.n_pages > 0) {
            now.host  = node->host.pages[i];
            now.owner = node->host.owners[i];
            LAW(w, (node->write_op != 0) || (w->in_host[now.host] == chain));
        }
        is = place_at(survey->places, chain);
        LAW(w, is->chain == 0); /* every page once */
        *is = now;
        was = place_at(w->places, chain);
        if (was->chain == chain) {
            /* A host copy may come or go, but none moves.  (An extend may evict
             * a page and compute it anew; and where a tier has an order of
             * its own, a copy may make room for another write-back, and then
             * be written back itself.) */
            LAW(w, (was->host < 0) || (now.host < 0) || may_move ||
                       ((was->host == now.host) && (was->owner == now.owner)));
        }
    }
    return PL_OK;
}

static void check_requests(const world_t *w)
{
    for (int k = 0; k < REQUESTS; k++) {
        const request_t *request = &w->requests[k];
        const pl_node_t *node    = request->node[0];

        if (!request->used || (node == NULL)) {
            continue;
        }
        for (; node->parent != NULL; node = node->parent) {
            LAW(w, node->lock_ref > 0);
            LAW(w, memcmp(node->device, request->pages + node->first_page,
                          (size_t)node->n_pages * sizeof(*node->device)) == 0);
        }
    }
}

static void check_world(world_t *w)
{
    static const int64_t none[PL_MAX_RANKS] = {0};
    static survey_t survey; /* too large for the stack of a forked test */
    const char *fault;

    for (int s = 0; s < SIDES; s++) {
        LAW(w, pl_hicache_check(cache_of(w, s), none) == PL_OK);
    }
    LAW(w, pl_hicache_state_hash(cache_of(w, 0)) ==
               pl_hicache_state_hash(cache_of(w, 1)));
    LAW(w, w->sides[0].events == w->sides[1].events);
    LAW(w, memcmp(pl_hicache_counters(cache_of(w, 0)),
                  pl_hicache_counters(cache_of(w, 1)),
                  sizeof(pl_hicache_counters_t)) == 0);
    fault = replay_compare(&w->replay, cache_of(w, 0));
    if (fault != NULL) {
        ck_abort_msg("the events say otherwise: %s (PL_TEST_SEED=%" PRIu64
                     ", world %d, step %d)",
                     fault, w->seed, w->number, w->step);
    }
    memset(survey.places, 0, sizeof(survey.places));
    survey.w = w;
    LAW(w, pl_tree_visit(pl_hicache_tree(cache_of(w, 0)), survey_node,
                         &survey) == PL_OK);
    memcpy(w->places, survey.places, sizeof(w->places));
    check_requests(w);
}

/* ---- requests ---- */

static void release(world_t *w, request_t *request)
{
    for (int s = 0; s < SIDES; s++) {
        if (request->node[s] != NULL) {
            pl_hicache_unlock(cache_of(w, s), request->node[s]);
        } else {
            pl_hicache_unpin(cache_of(w, s), &request->match[s]);
            pl_hicache_unlock(cache_of(w, s), request->match[s].device);
        }
    }
    request->used = false;
    w->blocked    = w->blocked == request ? NULL : w->blocked;
}

/* It goes on from `node`, which is locked for it; its match is over. */
static void run_from(world_t *w, request_t *request, bool loaded)
{
    const pl_node_t *node;

    for (int s = 0; s < SIDES; s++) {
        pl_match_t *match = &request->match[s];

        request->node[s] = loaded ? match->last : match->device;
        if (loaded) {
            pl_hicache_lock(cache_of(w, s), match->last);
            pl_hicache_unlock(cache_of(w, s), match->device);
        }
        pl_hicache_unpin(cache_of(w, s), match);
    }
    node            = request->node[0];
    request->n_done = node->first_page + node->n_pages;
    for (; node->parent != NULL; node = node->parent) {
        memcpy(request->pages + node->first_page, node->device,
               (size_t)node->n_pages * sizeof(*node->device));
    }
}

static void try_load(world_t *w, request_t *request)
{
    pl_status_t status[SIDES];
    pl_hicache_try_t attempt[SIDES];
    int64_t op[SIDES] = {0, 0};

    for (int s = 0; s < SIDES; s++) {
        status[s] = pl_hicache_load(cache_of(w, s), &request->match[s],
                                    &attempt[s], &op[s]);
    }
    LAW(w, (status[0] == status[1]) && (op[0] == op[1]));
    LAW(w, (status[0] == PL_OK) || (status[0] == PL_REFUSED_SHORT));
    w->blocked = NULL;
    if (status[0] == PL_REFUSED_SHORT) {
        LAW(w, attempt[0].wait == attempt[1].wait);
        if (attempt[0].wait) {
            w->n_waits++;
            w->blocked = request;
        } else {
            w->n_misses++;
            run_from(w, request, false);
        }
        return;
    }
    if (chance(w, 10)) { /* a rank could not reserve */
        run_from(w, request, false);
        for (int s = 0; s < SIDES; s++) {
            LAW(w, pl_hicache_load_cancel(cache_of(w, s), op[s]) == PL_OK);
        }
        w->n_copies--; /* it was the last one begun */
        w->n_cancels++;
        return;
    }
    run_from(w, request, true);
}

/* Prompt `number` of the world: the same whenever it is asked for. */
static void make_prompt(const world_t *w, int number, request_t *request)
{
    pl_rng_t rng = pl_rng_seed(
        pl_mix64(w->seed + ((uint64_t)w->number << 32) + (uint64_t)number));
    uint64_t chain;

    memset(request, 0, sizeof(*request));
    request->used       = true;
    request->name_space = pl_rng_below(&rng, 8) == 0 ? 1 : 0;
    request->n          = 1 + (int)pl_rng_below(&rng, MOST_PAGES);
    chain               = pl_tree_chain_start(request->name_space);
    for (int i = 0; i < request->n; i++) {
        /* Few words, most of them the first: prompts share prefixes. */
        uint64_t word =
            pl_rng_below(&rng, 100) < 65 ? 0 : pl_rng_below(&rng, 3);

        request->keys[i]   = (pl_page_key_t){word, (uint64_t)i};
        chain              = pl_tree_chain_next(chain, request->keys[i]);
        request->chains[i] = chain;
    }
}

static void begin_request(world_t *w)
{
    request_t *request = NULL;
    pl_match_t *match;
    int32_t below_threshold;

    for (int k = 0; (request == NULL) && (k < REQUESTS); k++) {
        request = w->requests[k].used ? NULL : &w->requests[k];
    }
    if (request == NULL) {
        return;
    }
    make_prompt(w, w->n_prompts, request);
    match = request->match;
    for (int s = 0; s < SIDES; s++) {
        pl_hicache_at(cache_of(w, s), w->step,
                      (int32_t)(request - w->requests));
        LAW(w,
            pl_hicache_match(cache_of(w, s), request->name_space, request->keys,
                             request->n, &match[s], &below_threshold) == PL_OK);
        pl_hicache_passed(cache_of(w, s), w->n_prompts, request->name_space,
                          request->keys, request->n);
        pl_hicache_lock(cache_of(w, s), match[s].device);
        pl_hicache_pin(cache_of(w, s), &match[s]);
    }
    w->n_prompts++;
    LAW(w, (match[0].n_device == match[1].n_device) &&
               (match[0].n_total == match[1].n_total));
    if (match[0].n_total > match[0].n_device) {
        try_load(w, request);
    } else {
        run_from(w, request, false);
    }
}

static void insert_chunk(world_t *w, request_t *request, pl_page_t *pages)
{
    int n    = request->n_chunk;
    int from = request->n_done;

    for (int i = 0; i < n; i++) {
        w->in_device[pages[i]] = request->chains[from + i]; /* computed */
    }
    for (int s = 0; s < SIDES; s++) {
        pl_page_t mine[MOST_PAGES];
        pl_node_t *last;

        memcpy(mine, pages, (size_t)n * sizeof(*pages));
        LAW(w, pl_hicache_insert(cache_of(w, s), request->node[s],
                                 request->name_space, request->keys + from, n,
                                 mine, &last) == PL_OK);
        pl_hicache_lock(cache_of(w, s), last);
        pl_hicache_unlock(cache_of(w, s), request->node[s]);
        request->node[s] = last;
        memcpy(request->pages + from, mine, (size_t)n * sizeof(*mine));
    }
    request->n_done += n;
    request->n_chunk = 0;
}

static void try_extend(world_t *w, request_t *request)
{
    pl_page_t pages[SIDES][MOST_PAGES];
    pl_hicache_try_t attempt[SIDES];
    pl_status_t status[SIDES];
    int n = request->n_chunk;

    for (int s = 0; s < SIDES; s++) {
        status[s] = pl_hicache_extend(cache_of(w, s), request->owners, n,
                                      pages[s], &attempt[s]);
    }
    LAW(w, status[0] == status[1]);
    LAW(w, (status[0] == PL_OK) || (status[0] == PL_REFUSED_SHORT));
    w->blocked = NULL;
    if (status[0] == PL_REFUSED_SHORT) {
        if (attempt[0].wait) {
            w->n_waits++;
            w->blocked = request;
        } else {
            w->n_misses++;
            release(w, request);
        }
        return;
    }
    LAW(w, memcmp(pages[0], pages[1], (size_t)n * sizeof(**pages)) == 0);
    for (int i = 0; i < n; i++) {
        LAW(w, pages[0][i] % w->params.n_lanes == request->owners[i]);
        /* No page is handed out that a copy still works on. */
        for (int c = 0; c < w->n_copies; c++) {
            for (int32_t p = 0; p < w->copies[c].n; p++) {
                LAW(w, w->copies[c].device[p] != pages[0][i]);
            }
        }
    }
    if (chance(w,
               10)) { /* the chunk fails: its pages never get into the tree */
        for (int s = 0; s < SIDES; s++) {
            LAW(w, pl_hicache_free(cache_of(w, s), pages[s], n) == PL_OK);
        }
        release(w, request);
    } else {
        insert_chunk(w, request, pages[0]);
    }
}

static void choose_chunk(world_t *w, request_t *request)
{
    const pl_ownership_t rule = {PL_OWNERSHIP_ZIGZAG, 0};
    int left                  = request->n - request->n_done;

    request->n_chunk = 1 + (int)below(w, (uint64_t)(left < 5 ? left : 5));
    pl_compute_owners(rule, w->params.n_lanes, request->n_done,
                      request->n_chunk, (int64_t)below(w, 16), request->owners);
    for (int i = 0; chance(w, 30) && (i < request->n_chunk); i++) {
        request->owners[i] = (pl_owner_t)below(w, (uint64_t)w->params.n_lanes);
    }
}

static void advance(world_t *w, request_t *request)
{
    for (int s = 0; s < SIDES; s++) {
        pl_hicache_at(cache_of(w, s), w->step,
                      (int32_t)(request - w->requests));
    }
    if (request->node[0] == NULL) {
        try_load(w, request); /* it waited */
    } else if (request->n_chunk > 0) {
        try_extend(w, request); /* it waited */
    } else if (request->n_done < request->n) {
        choose_chunk(w, request);
        try_extend(w, request);
    } else {
        for (int s = 0; s < SIDES; s++) {
            LAW(w, pl_hicache_prompt_done(cache_of(w, s), request->node[s]) ==
                       PL_OK);
        }
        if (chance(w, 70)) {
            release(w, request); /* the others decode on */
        }
    }
}

/* ---- ends of copies ---- */

/* Each rank moves what the recorded owners call its own. */
static void move_bytes(world_t *w, const copy_t *copy)
{
    for (int32_t i = 0; i < copy->n; i++) {
        uint64_t *device = &w->in_device[copy->device[i]];
        uint64_t *host   = &w->in_host[copy->host[i]];

        if ((copy->device[i] % w->params.n_lanes == copy->owners[i]) &&
            (copy->host[i] % w->params.n_lanes == copy->owners[i])) {
            *(copy->load ? device : host) = *(copy->load ? host : device);
        }
    }
}

/* Requests that use what a failed load was to bring let go of it. */
static void release_users(world_t *w, int64_t op)
{
    for (int k = 0; k < REQUESTS; k++) {
        request_t *request    = &w->requests[k];
        const pl_node_t *node = request->node[0] != NULL
                                    ? request->node[0]
                                    : request->match[0].device;
        bool uses_it          = false;

        if (!request->used) {
            continue;
        }
        for (; node != NULL; node = node->parent) {
            uses_it = uses_it || (node->load_op == op);
        }
        if (uses_it) {
            release(w, request);
        }
    }
}

static void end_copy(world_t *w, int which, bool good)
{
    copy_t copy      = w->copies[which];
    int64_t n_before = pl_tree_n_nodes(pl_hicache_tree(cache_of(w, 0)));
    bool cancel      = !good && !copy.load && chance(w, 50);

    memmove(w->copies + which, w->copies + which + 1,
            (size_t)(--w->n_copies - which) * sizeof(*w->copies));
    if (good) {
        move_bytes(w, &copy);
    } else if (copy.load) {
        release_users(w, copy.op);
    }
    for (int s = 0; s < SIDES; s++) {
        pl_hicache_t *cache = cache_of(w, s);
        pl_status_t status;

        pl_hicache_at(cache, w->step, -1);
        status = copy.load ? pl_hicache_load_end(cache, copy.op, good)
                 : cancel  ? pl_hicache_backup_cancel(cache, copy.op)
                           : pl_hicache_backup_end(cache, copy.op, good);
        LAW(w, status == PL_OK);
    }
    if (copy.load && !good) {
        LAW(w, pl_tree_n_nodes(pl_hicache_tree(cache_of(w, 0))) <= n_before);
        w->n_orphans += w->n_copies > 0;
    }
}

/* ---- steps ---- */

static void evict(world_t *w)
{
    int32_t deficits[PL_MAX_RANKS] = {0};
    int64_t pending[SIDES];

    for (int lane = 0; lane < w->params.n_lanes; lane++) {
        deficits[lane] = chance(w, 40) ? (int32_t)below(w, 5) : 0;
    }
    for (int s = 0; s < SIDES; s++) {
        pl_hicache_at(cache_of(w, s), w->step, -1);
        LAW(w,
            pl_hicache_evict(cache_of(w, s), deficits, &pending[s]) == PL_OK);
    }
    LAW(w, pending[0] == pending[1]);
}

static void reset(world_t *w)
{
    bool is_held = w->n_copies > 0;

    for (int k = 0; k < REQUESTS; k++) {
        is_held = is_held || w->requests[k].used;
    }
    for (int s = 0; s < SIDES; s++) {
        LAW(w, pl_hicache_reset(cache_of(w, s)) ==
                   (is_held ? PL_REFUSED_SHORT : PL_OK));
        LAW(w,
            is_held || (pl_tree_n_nodes(pl_hicache_tree(cache_of(w, s))) == 0));
    }
    w->n_resets += !is_held;
}

static bool write_back_runs(const world_t *w)
{
    for (int c = 0; c < w->n_copies; c++) {
        if (w->copies[c].write_back) {
            return true;
        }
    }
    return false;
}

static void act(world_t *w)
{
    request_t *request = &w->requests[below(w, REQUESTS)];
    int dice           = (int)below(w, 100);

    if (w->blocked != NULL) {
        if (!write_back_runs(w)) {
            advance(w, w->blocked);
        } else {
            end_copy(w, (int)below(w, (uint64_t)w->n_copies), chance(w, 85));
        }
    } else if ((w->n_copies > 0) &&
               ((dice < 20) || (w->n_copies > COPIES - 24))) {
        end_copy(w, (int)below(w, (uint64_t)w->n_copies), chance(w, 85));
    } else if (dice < 25) {
        evict(w);
    } else if (dice < 27) {
        reset(w);
    } else if (!request->used) {
        begin_request(w);
    } else if (dice < 30) {
        release(w, request); /* given up */
    } else {
        advance(w, request);
    }
}

void world_step(world_t *w)
{
    w->step++;
    act(w);
    check_world(w);
}

static void read_ahead(world_t *w)
{
    LAW(w, pl_future_open(FORESEEN, &w->said.log, &w->future) == PL_OK);
    for (int i = 0; i < FORESEEN; i++) {
        request_t request;

        make_prompt(w, i, &request);
        LAW(w, pl_future_add(w->future, i, request.name_space, request.keys,
                             request.n) == PL_OK);
    }
    pl_future_seal(w->future);
}

void world_open(world_t *w, uint64_t seed, int number,
                pl_hicache_params_t params)
{
    memset(w, 0, sizeof(*w));
    log_capture_open(&w->said);
    w->seed   = seed;
    w->number = number;
    w->rng    = pl_rng_seed(seed + (uint64_t)number);
    w->params = params;
    replay_open(&w->replay, params.n_lanes);
    if (params.policy->foresees) {
        read_ahead(w);
        params.future = w->future;
    }
    for (int s = 0; s < SIDES; s++) {
        side_t *side        = &w->sides[s];
        side->world         = w;
        side->index         = s;
        side->next_op       = 1;
        params.copy         = take_copy;
        params.copy_context = side;
        params.events       = (pl_event_sink_t){take_event, side};
        params.inject       = &side->inject;
        if (number % 2 == 1) {
            LAW(w, pl_inject_parse(&side->inject, "split.during-write@every",
                                   NULL) == PL_OK);
        }
        LAW(w, pl_hicache_open(&params, &w->said.log, &side->cache) == PL_OK);
    }
}

static pl_status_t expect_free(void *context, const pl_node_t *node)
{
    const world_t *w = context;

    LAW(w, (node->lock_ref == 0) && (node->pin_ref == 0));
    LAW(w, (node->write_op == 0) && (node->load_op == 0));
    return PL_OK;
}

void world_close(world_t *w)
{
    for (int k = 0; k < REQUESTS; k++) {
        if (w->requests[k].used) {
            release(w, &w->requests[k]);
        }
    }
    while (w->n_copies > 0) {
        end_copy(w, w->n_copies - 1, true);
        check_world(w);
    }
    /* 9.31 locks and pins return to zero, and every page to its lane. */
    LAW(w, pl_tree_visit(pl_hicache_tree(cache_of(w, 0)), expect_free, w) ==
               PL_OK);
    LAW(w, pl_tree_root(pl_hicache_tree(cache_of(w, 0)))->lock_ref == 0);
    reset(w);
    check_world(w);
    for (int lane = 0; lane < w->params.n_lanes; lane++) {
        LAW(w, pl_lanes_free_count(pl_hicache_device(cache_of(w, 0)), lane) ==
                   w->params.device_pages - 1);
    }
    for (int s = 0; s < SIDES; s++) {
        pl_hicache_close(cache_of(w, s));
    }
    pl_future_close(w->future);
    log_capture_close(&w->said);
}
