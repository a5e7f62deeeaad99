/* Operations: the plan under construction, those under way, and when they end.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/state.h"

/* ---- the plan ---- */

void *pl_plan_keep(pl_engine_t *engine, const void *bytes, size_t n)
{
    void *copy = malloc(n > 0 ? n : 1);

    if (copy == NULL) {
        return NULL;
    }
    if (PL_ARRAY_PUSH(&engine->kept, copy) != PL_OK) {
        free(copy);
        return NULL;
    }
    if (n > 0) {
        memcpy(copy, bytes, n);
    }
    return copy;
}

void pl_plan_clear(pl_engine_t *engine)
{
    for (size_t i = 0; i < engine->kept.n; i++) {
        free(engine->kept.items[i]);
    }
    engine->kept.n    = 0;
    engine->ops.n     = 0;
    engine->due.n     = 0;
    engine->watched.n = 0;
}

pl_status_t pl_plan_add(pl_engine_t *engine, pl_op_t op, int64_t *id_p)
{
    op.id = engine->next_op;
    PL_TRY(PL_ARRAY_PUSH(&engine->ops, op));
    engine->next_op++;
    *id_p = op.id;
    return PL_OK;
}

/* By kind, which is the order of execution; by id within a kind. */
static pl_status_t sort_ops(pl_engine_t *engine)
{
    size_t next[PL_OP_KINDS + 1] = {0}; /* place of the next one of a kind */

    PL_TRY(PL_ARRAY_RESERVE(&engine->sorted, engine->ops.n + 1));
    for (size_t i = 0; i < engine->ops.n; i++) {
        next[engine->ops.items[i].kind + 1]++;
    }
    for (int kind = 0; kind < PL_OP_KINDS; kind++) {
        next[kind + 1] += next[kind];
    }
    for (size_t i = 0; i < engine->ops.n; i++) {
        engine->sorted.items[next[engine->ops.items[i].kind]++] =
            engine->ops.items[i];
    }
    engine->sorted.n = engine->ops.n;
    return PL_OK;
}

/* The words behind the bits, for each fetch that is due. */
static void give_words(pl_engine_t *engine)
{
    pl_plan_t *plan = &engine->plan;
    int32_t word    = pl_plan_bit_words(plan);

    plan->n_due_fetches = 0;
    for (size_t i = 0; i < engine->due.n; i++) {
        if (engine->due.items[i].kind == PL_OP_FETCH) {
            engine->due.items[i].word =
                word + PL_FETCH_WORDS * plan->n_due_fetches++;
        }
    }
}

pl_status_t pl_plan_finish(pl_engine_t *engine)
{
    pl_plan_t *plan = &engine->plan;

    PL_TRY(sort_ops(engine));
    PL_TRY(pl_ops_list_due(engine));
    plan->tick        = engine->tick;
    plan->now_ns      = engine->now_ns;
    plan->n_ops       = (int32_t)engine->sorted.n;
    plan->ops         = engine->sorted.items;
    plan->n_due       = (int32_t)engine->due.n;
    plan->due         = engine->due.items;
    plan->n_watched   = (int32_t)engine->watched.n;
    plan->watched     = engine->watched.items;
    plan->n_freed     = (int32_t)engine->freed.n;
    plan->freed       = engine->freed.items;
    plan->device      = pl_hicache_device(engine->cache);
    plan->host        = pl_hicache_host(engine->cache);
    plan->storage     = engine->storage;
    plan->finished    = engine->finished;
    plan->n_requests  = engine->source.count;
    plan->decode      = (const pl_lanes_t *const *)engine->decode_lanes;
    plan->decode_host = (const pl_lanes_t *const *)engine->decode_host_lanes;
    give_words(engine);
    return PL_OK;
}

pl_status_t pl_ops_freed(pl_engine_t *engine, int tier, int32_t home,
                         const pl_page_t *pages, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        pl_freed_t freed = {0};

        freed.tier = (enum pl_freed_tier)tier;
        freed.home = home;
        freed.page = pages[i];
        PL_TRY(PL_ARRAY_PUSH(&engine->freed, freed));
    }
    return PL_OK;
}

/* ---- operations under way ---- */

static int64_t *link_free(pl_engine_t *engine, pl_link_t link, int32_t rank)
{
    if ((link == PL_LINK_PD) || (link == PL_LINK_OFFLOAD)) {
        int32_t first   = engine->homes[0].rank;
        pl_home_t *home = &engine->homes[rank - first];

        return &home->link_free_ns[link == PL_LINK_OFFLOAD];
    }
    return &engine->link_free_ns[link];
}

/* Links that transfers share: each of n under way is served 1/n of the time.
 * What each still needs is kept up to a moment of the past, which moves when
 * one starts or is forgotten; when each will end is reckoned as if no other
 * came. */

static bool is_served(const pl_pending_t *pending, int32_t home)
{
    return (pending->shares == home) && (pending->left_ns > 0);
}

/* The least that any of those under way needs beyond `served_ns`, and how many
 * they are; 0: none. */
static int64_t next_left(const pl_engine_t *engine, int32_t home,
                         int64_t served_ns, int64_t *n_p)
{
    int64_t least = 0;

    *n_p = 0;
    for (size_t i = 0; i < engine->pending.n; i++) {
        const pl_pending_t *pending = &engine->pending.items[i];
        int64_t left                = pending->left_ns - served_ns;

        if (is_served(pending, home) && (left > 0)) {
            least = (*n_p == 0) || (left < least) ? left : least;
            (*n_p)++;
        }
    }
    return least;
}

static void serve(pl_engine_t *engine, int32_t home, int64_t ns)
{
    for (size_t i = 0; i < engine->pending.n; i++) {
        pl_pending_t *pending = &engine->pending.items[i];

        if (is_served(pending, home)) {
            pending->left_ns -= ns < pending->left_ns ? ns : pending->left_ns;
        }
    }
}

/* Up to now. */
static void serve_home(pl_engine_t *engine, int32_t home)
{
    int64_t *at_ns = &engine->homes[home].link_free_ns[0];
    int64_t n      = 0;
    int64_t least  = next_left(engine, home, 0, &n);

    while ((n > 0) && (*at_ns + least * n <= engine->now_ns)) {
        serve(engine, home, least);
        *at_ns += least * n;
        least = next_left(engine, home, 0, &n);
    }
    if (n > 0) {
        serve(engine, home, (engine->now_ns - *at_ns) / n);
    }
    *at_ns = engine->now_ns;
}

/* Once served up to now: when each will end. */
static void foresee_ends(pl_engine_t *engine, int32_t home)
{
    int64_t latency_ns = engine->config.costs.link_latency_ns[PL_LINK_PD];
    int64_t at_ns      = engine->now_ns;
    int64_t served_ns  = 0;
    int64_t n          = 0;
    int64_t least      = next_left(engine, home, 0, &n);

    while (n > 0) {
        served_ns += least;
        at_ns += least * n;
        for (size_t i = 0; i < engine->pending.n; i++) {
            pl_pending_t *pending = &engine->pending.items[i];

            if (is_served(pending, home) && (pending->left_ns == served_ns)) {
                pending->end_ns = at_ns + latency_ns;
            }
        }
        least = next_left(engine, home, served_ns, &n);
    }
}

static pl_status_t start_shared(pl_engine_t *engine, pl_pending_t pending,
                                int32_t rank, int64_t bytes)
{
    const pl_costs_t *costs = &engine->config.costs;
    int32_t home            = rank - engine->homes[0].rank;

    serve_home(engine, home);
    pending.shares  = home;
    pending.left_ns = pl_cost_link_ns(costs, PL_LINK_PD, bytes) -
                      costs->link_latency_ns[PL_LINK_PD];
    pending.end_ns = engine->now_ns + costs->link_latency_ns[PL_LINK_PD];
    PL_TRY(PL_ARRAY_PUSH(&engine->pending, pending));
    foresee_ends(engine, home);
    return PL_OK;
}

/* To a home elsewhere: whoever knows the links will say when it ends. */
static pl_status_t start_elsewhere(pl_engine_t *engine, pl_pending_t pending,
                                   int64_t bytes, bool last)
{
    const pl_engine_port_t *port = engine->config.port;

    pending.end_ns = INT64_MAX;
    PL_TRY(PL_ARRAY_PUSH(&engine->pending, pending));
    return port->send(port->context, pending.due.request, pending.due.id, bytes,
                      last);
}

static pl_status_t start_alone(pl_engine_t *engine, pl_pending_t pending,
                               pl_link_t link, int32_t rank, int64_t bytes)
{
    int64_t *free_ns = link_free(engine, link, rank);
    int64_t start    = *free_ns > engine->now_ns ? *free_ns : engine->now_ns;

    pending.end_ns =
        start + pl_cost_link_ns(&engine->config.costs, link, bytes);
    PL_TRY(PL_ARRAY_PUSH(&engine->pending, pending));
    *free_ns = pending.end_ns;
    return PL_OK;
}

pl_status_t pl_ops_start(pl_engine_t *engine, const pl_op_t *op, int64_t id,
                         pl_link_t link, int64_t bytes)
{
    pl_pending_t pending = {0};

    pending.due.id      = id;
    pending.due.kind    = op->kind;
    pending.due.request = op->request;
    pending.due.word    = -1;
    pending.tick        = engine->tick;
    pending.shares      = -1;
    pending.home        = -1;
    if (link == PL_LINK_PD) {
        pending.home       = op->home;
        pending.take_in_ns = pl_cost_take_in_ns(&engine->config.costs,
                                                (int64_t)op->n_pages *
                                                    engine->config.page_tokens);
    }
    if (engine->config.explore > 0) {
        uint64_t roll = pl_mix64(engine->config.seed ^ pl_mix64((uint64_t)id));

        pending.extra =
            (int32_t)(roll % ((uint64_t)engine->config.explore + 1));
    }
    engine->counters.link_bytes[link] += bytes;
    if ((link == PL_LINK_PD) && (engine->config.role == PL_ROLE_PREFILL)) {
        return start_elsewhere(engine, pending, bytes, op->last);
    }
    return (link == PL_LINK_PD) && engine->config.costs.pd_shares
               ? start_shared(engine, pending, op->home, bytes)
               : start_alone(engine, pending, link, op->home, bytes);
}

void pl_ops_forget(pl_engine_t *engine, int64_t id)
{
    for (size_t i = 0; i < engine->pending.n; i++) {
        if (engine->pending.items[i].due.id == id) {
            int32_t home = engine->pending.items[i].shares;

            if (home >= 0) {
                serve_home(engine, home);
            }
            memmove(&engine->pending.items[i], &engine->pending.items[i + 1],
                    (engine->pending.n - i - 1) *
                        sizeof(*engine->pending.items));
            engine->pending.n--;
            if (home >= 0) {
                foresee_ends(engine, home);
            }
            return;
        }
    }
}

pl_status_t pl_ops_list_due(pl_engine_t *engine)
{
    for (size_t i = 0; i < engine->pending.n; i++) {
        pl_pending_t *pending = &engine->pending.items[i];

        if ((pending->tick == engine->tick) ||
            (pending->end_ns > engine->now_ns)) {
            continue;
        }
        if (pending->extra > 0) {
            pending->extra--;
            continue;
        }
        pending->applies_next = true;
        PL_TRY(PL_ARRAY_PUSH(&engine->due, pending->due));
    }
    return PL_OK;
}

int64_t pl_ops_take_in_ns(const pl_engine_t *engine)
{
    int64_t longest = 0;

    for (int32_t i = 0; i < engine->n_homes; i++) {
        int64_t ns = 0;

        for (size_t j = 0; j < engine->pending.n; j++) {
            const pl_pending_t *pending = &engine->pending.items[j];

            if (pending->applies_next &&
                (pending->home == engine->homes[i].rank)) {
                ns += pending->take_in_ns;
            }
        }
        longest = ns > longest ? ns : longest;
    }
    return longest;
}

int64_t pl_ops_next_end(const pl_engine_t *engine)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < engine->pending.n; i++) {
        if (engine->pending.items[i].end_ns < next) {
            next = engine->pending.items[i].end_ns;
        }
    }
    return next;
}

/* A page is sent by one rank, or by all, each with its layers; where transfers
 * share the home's link, or leave for elsewhere, the bytes of all count. */
int64_t pl_ops_send_bytes(const pl_engine_t *engine, const pl_page_t *pages,
                          int32_t n)
{
    const pl_engine_config_t *config = &engine->config;
    int32_t count[PL_MAX_RANKS]      = {0};
    int32_t most                     = 0;

    if (config->costs.pd_shares || (config->role == PL_ROLE_PREFILL)) {
        return n * config->page_bytes;
    }
    if (config->ownership.kind == PL_OWNERSHIP_LAYER) {
        return n * config->rank_page_bytes;
    }
    for (int32_t i = 0; i < n; i++) {
        pl_owner_t rank = pl_page_owner(pages[i], config->n_prefill);

        count[rank]++;
        most = count[rank] > most ? count[rank] : most;
    }
    return most * config->page_bytes;
}

/* ---- copies that the cache controller asks for ---- */

static int32_t busiest_lane(const pl_owner_t *owners, int32_t n)
{
    int32_t count[PL_MAX_RANKS] = {0};
    int32_t most                = 0;

    for (int32_t i = 0; i < n; i++) {
        count[owners[i]]++;
        most = count[owners[i]] > most ? count[owners[i]] : most;
    }
    return most;
}

static void count_lanes(int64_t *pages, const pl_owner_t *owners, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        pages[owners[i]]++;
    }
}

static pl_status_t add_copy(pl_engine_t *engine, const pl_hicache_copy_t *copy,
                            int64_t *id_p)
{
    size_t n        = (size_t)copy->n_pages;
    pl_link_t link  = copy->load ? PL_LINK_H2D : PL_LINK_D2H;
    pl_op_t op      = {0};
    int32_t busiest = busiest_lane(copy->owners, copy->n_pages);

    count_lanes(copy->load ? engine->counters.load_pages
                           : engine->counters.backup_pages,
                copy->owners, copy->n_pages);
    op.kind       = copy->load ? PL_OP_LOAD : PL_OP_BACKUP;
    op.request    = copy->load ? engine->current : -1;
    op.node       = copy->node->id;
    op.first_page = copy->first_page;
    op.n_pages    = copy->n_pages;
    op.home       = -1;
    op.pages  = pl_plan_keep(engine, copy->device, n * sizeof(*copy->device));
    op.other  = pl_plan_keep(engine, copy->host, n * sizeof(*copy->host));
    op.owners = pl_plan_keep(engine, copy->owners, n * sizeof(*copy->owners));
    if ((op.pages == NULL) || (op.other == NULL) || (op.owners == NULL)) {
        return PL_ERR_MEMORY;
    }
    PL_TRY(pl_plan_add(engine, op, id_p));
    return pl_ops_start(engine, &op, *id_p, link,
                        busiest * engine->config.rank_page_bytes);
}

int64_t pl_ops_copy(void *context, const pl_hicache_copy_t *copy)
{
    pl_engine_t *engine = context;
    int64_t id          = engine->next_op;
    pl_status_t status  = add_copy(engine, copy, &id);

    if (status != PL_OK) {
        engine->callback_status = status;
    }
    return id;
}
