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
    engine->sorted.n = 0;
    PL_TRY(PL_ARRAY_RESERVE(&engine->sorted, engine->ops.n + 1));
    for (int kind = 0; kind < PL_OP_KINDS; kind++) {
        for (size_t i = 0; i < engine->ops.n; i++) {
            if ((int)engine->ops.items[i].kind == kind) {
                engine->sorted.items[engine->sorted.n++] = engine->ops.items[i];
            }
        }
    }
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

pl_status_t pl_ops_start(pl_engine_t *engine, const pl_op_t *op, int64_t id,
                         pl_link_t link, int64_t bytes)
{
    int64_t *free_ns = link_free(engine, link, op->home);
    int64_t start    = *free_ns > engine->now_ns ? *free_ns : engine->now_ns;
    pl_pending_t pending = {0};

    pending.due.id      = id;
    pending.due.kind    = op->kind;
    pending.due.request = op->request;
    pending.due.word    = -1;
    pending.tick        = engine->tick;
    pending.end_ns =
        start + pl_cost_link_ns(&engine->config.costs, link, bytes);
    if (engine->config.explore > 0) {
        uint64_t roll = pl_mix64(engine->config.seed ^ pl_mix64((uint64_t)id));

        pending.extra =
            (int32_t)(roll % ((uint64_t)engine->config.explore + 1));
    }
    PL_TRY(PL_ARRAY_PUSH(&engine->pending, pending));
    *free_ns = pending.end_ns;
    engine->counters.link_bytes[link] += bytes;
    return PL_OK;
}

void pl_ops_forget(pl_engine_t *engine, int64_t id)
{
    for (size_t i = 0; i < engine->pending.n; i++) {
        if (engine->pending.items[i].due.id == id) {
            memmove(&engine->pending.items[i], &engine->pending.items[i + 1],
                    (engine->pending.n - i - 1) *
                        sizeof(*engine->pending.items));
            engine->pending.n--;
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

int32_t pl_ops_busiest_lane(const pl_engine_t *engine, const pl_owner_t *owners,
                            const pl_page_t *pages, int32_t n)
{
    int32_t count[PL_MAX_RANKS] = {0};
    int32_t most                = 0;

    for (int32_t i = 0; i < n; i++) {
        pl_owner_t owner =
            owners != NULL ? owners[i]
                           : pl_page_owner(pages[i], engine->config.n_prefill);

        count[owner]++;
        most = count[owner] > most ? count[owner] : most;
    }
    return most;
}

/* ---- copies that the cache controller asks for ---- */

static pl_status_t add_copy(pl_engine_t *engine, const pl_hicache_copy_t *copy,
                            int64_t *id_p)
{
    size_t n       = (size_t)copy->n_pages;
    pl_link_t link = copy->load ? PL_LINK_H2D : PL_LINK_D2H;
    pl_op_t op     = {0};
    int32_t busiest =
        pl_ops_busiest_lane(engine, copy->owners, NULL, copy->n_pages);

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
                        busiest * engine->config.page_bytes);
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
