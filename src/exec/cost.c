#include "exec/cost.h"

#include <stdlib.h>

#include "base/array.h"
#include "cache/storage_table.h"

/* An operation under way that could be made to fail. */
typedef struct cost_op {
    int64_t id;
    bool failed;
    bool moves[PL_MAX_RANKS]; /* prefill ranks with pages of it */
    int8_t n_pages;           /* FETCH: who reads them */
    pl_owner_t readers[PL_STORAGE_READ_PAGES];
} cost_op_t;

typedef struct cost {
    pl_executor_t executor;
    pl_cost_params_t params;
    PL_ARRAY(cost_op_t) under_way;
} cost_t;

static bool counts(const cost_t *cost, int rank)
{
    return (cost->params.rank < 0) || (cost->params.rank == rank);
}

static bool has_one_lane(const cost_t *cost)
{
    return cost->params.replicated || cost->params.by_layers;
}

/* Does each prefill rank that replicates do it? */
static bool is_copy(const pl_op_t *op)
{
    return (op->kind == PL_OP_LOAD) || (op->kind == PL_OP_BACKUP) ||
           (op->kind == PL_OP_FETCH);
}

/* Does every prefill rank move all pages of it, or its layers of them? */
static bool moves_on_all(const cost_t *cost, const pl_op_t *op)
{
    return (has_one_lane(cost) && is_copy(op)) ||
           (cost->params.by_layers &&
            ((op->kind == PL_OP_STORE) || (op->kind == PL_OP_SEND)));
}

/* Else who moves page i of an operation. */
static int mover(const cost_t *cost, const pl_op_t *op, int32_t i)
{
    switch (op->kind) {
    case PL_OP_LOAD:
    case PL_OP_BACKUP:
    case PL_OP_FETCH:
        return op->owners[i];
    case PL_OP_STORE:
        return op->places[i].rank;
    case PL_OP_PREFILL:
        return op->compute[i - op->first_token / cost->params.page_tokens];
    case PL_OP_SEND:
        return pl_page_owner(op->pages[i], cost->params.n_prefill);
    default:
        return op->home;
    }
}

/* Page i of an operation: says in moves[] who has it to move, if it is a
 * prefill rank, and returns how many of these this executor stands for. */
static int64_t note_movers(const cost_t *cost, const pl_op_t *op, int32_t i,
                           bool *moves)
{
    int rank  = mover(cost, op, i);
    int64_t n = 0;

    if (!moves_on_all(cost, op)) {
        if (rank < cost->params.n_prefill) {
            moves[rank] = true;
        }
        return counts(cost, rank) ? 1 : 0;
    }
    for (rank = 0; rank < cost->params.n_prefill; rank++) {
        moves[rank] = true;
        n += counts(cost, rank) ? 1 : 0;
    }
    return cost->params.by_layers ? 1 : n;
}

/* Do any of the ranks that this executor stands for, and that move pages of it,
 * fail at this point? */
static bool injects(cost_t *cost, pl_inject_point_t point, const bool *moves,
                    int64_t tick)
{
    bool any = false;

    for (int rank = 0; rank < cost->params.n_prefill; rank++) {
        if (moves[rank] && counts(cost, rank) &&
            pl_inject_hit(cost->params.inject, point, rank, tick)) {
            any = true;
        }
    }
    return any;
}

static pl_status_t cost_reserve(pl_executor_t *self, const pl_plan_t *plan,
                                uint64_t *bits)
{
    cost_t *cost = (cost_t *)self;
    int32_t n    = cost->params.inject == NULL ? 0 : plan->n_ops;

    for (int32_t i = 0; i < n; i++) {
        const pl_op_t *op        = &plan->ops[i];
        bool moves[PL_MAX_RANKS] = {false};

        if (op->kind != PL_OP_BACKUP) {
            continue;
        }
        for (int32_t page = 0; page < op->n_pages; page++) {
            (void)note_movers(cost, op, page, moves);
        }
        if (injects(cost, PL_INJECT_HOST_ALLOC_FAIL, moves, plan->tick)) {
            pl_plan_set_bit(bits, i);
        }
    }
    return PL_OK;
}

static bool fails(cost_t *cost, const pl_due_t *due, const cost_op_t *op,
                  int64_t tick)
{
    switch (due->kind) {
    case PL_OP_LOAD:
        return injects(cost, PL_INJECT_LOAD_FAIL, op->moves, tick);
    case PL_OP_BACKUP:
        return injects(cost, PL_INJECT_BACKUP_FAIL, op->moves, tick);
    case PL_OP_STORE:
        return injects(cost, PL_INJECT_STORE_FAIL, op->moves, tick);
    default:
        return op->failed;
    }
}

/* A page that one rank cannot read is the middle one of those it reads. */
static uint64_t unread_of_rank(const cost_t *cost, const cost_op_t *op,
                               int rank)
{
    int32_t n  = 0;
    int32_t at = 0;

    for (int32_t i = 0; i < op->n_pages; i++) {
        n += has_one_lane(cost) || (op->readers[i] == rank) ? 1 : 0;
    }
    for (int32_t i = 0; i < op->n_pages; i++) {
        if (has_one_lane(cost) || (op->readers[i] == rank)) {
            if (at++ == n / 2) {
                return UINT64_C(1) << i;
            }
        }
    }
    return 0;
}

static uint64_t unread_pages(cost_t *cost, const cost_op_t *op, int64_t tick)
{
    uint64_t unread = 0;

    for (int rank = 0; rank < cost->params.n_prefill; rank++) {
        if (op->moves[rank] && counts(cost, rank) &&
            pl_inject_hit(cost->params.inject, PL_INJECT_FETCH_FAIL, rank,
                          tick)) {
            unread |= unread_of_rank(cost, op, rank);
            cost->executor.counters.unread_storage_pages++;
        }
    }
    return unread;
}

static pl_status_t cost_settle(pl_executor_t *self, const pl_plan_t *plan,
                               uint64_t *bits)
{
    cost_t *cost = (cost_t *)self;

    for (int32_t i = 0; i < plan->n_due; i++) {
        size_t at = 0;

        while ((at < cost->under_way.n) &&
               (cost->under_way.items[at].id != plan->due[i].id)) {
            at++;
        }
        if (at == cost->under_way.n) {
            continue;
        }
        if (plan->due[i].kind == PL_OP_FETCH) {
            bits[plan->due[i].word + PL_FETCH_UNREAD] |=
                unread_pages(cost, &cost->under_way.items[at], plan->tick);
        } else if (fails(cost, &plan->due[i], &cost->under_way.items[at],
                         plan->tick)) {
            pl_plan_set_bit(bits, plan->n_ops + i);
        }
        cost->under_way.items[at] = cost->under_way.items[--cost->under_way.n];
    }
    return PL_OK;
}

static int32_t slot_of(const cost_t *cost, pl_page_t page)
{
    return pl_page_slot(page, has_one_lane(cost) ? 1 : cost->params.n_prefill);
}

/* Page i of an operation, from where to where: as a rank that moves it does. */
static void note_page(cost_t *cost, const pl_op_t *op, int32_t i)
{
    pl_op_log_t *log = &cost->executor.log;
    int32_t position = op->first_page + i;

    switch (op->kind) {
    case PL_OP_LOAD:
        pl_op_log_page(log, op->id, position, slot_of(cost, op->other[i]),
                       slot_of(cost, op->pages[i]));
        break;
    case PL_OP_BACKUP:
        pl_op_log_page(log, op->id, position, slot_of(cost, op->pages[i]),
                       slot_of(cost, op->other[i]));
        break;
    case PL_OP_PREFILL:
        pl_op_log_page(log, op->id, position, -1, slot_of(cost, op->pages[i]));
        break;
    case PL_OP_SEND: /* both its halves */
        pl_op_log_page(log, op->id, position, slot_of(cost, op->pages[i]), -1);
        pl_op_log_place(log, op->id, position, -1, op->other[i]);
        break;
    case PL_OP_OFFLOAD:
        pl_op_log_page(log, op->id, position, op->pages[i], op->other[i]);
        break;
    case PL_OP_RESUME:
        pl_op_log_page(log, op->id, position, op->other[i], op->pages[i]);
        break;
    case PL_OP_STORE:
        pl_op_log_page(log, op->id, position, slot_of(cost, op->pages[i]),
                       op->places[i].slot);
        break;
    case PL_OP_FETCH:
        pl_op_log_page(log, op->id, position, op->places[i].slot,
                       slot_of(cost, op->pages[i]));
        break;
    default:
        return;
    }
    pl_op_log_bytes(log, op->id, (uint64_t)cost->params.page_bytes);
}

static void note_step(cost_t *cost, const pl_op_t *op)
{
    pl_page_t page = op->pages[op->first_token / cost->params.page_tokens];

    cost->executor.counters.pages[PL_OP_DECODE]++;
    cost->executor.counters.bytes[PL_OP_DECODE] += cost->params.row_bytes;
    pl_op_log_step(&cost->executor.log, op->request, op->first_token, page,
                   (uint64_t)cost->params.row_bytes);
}

/* What an operation moves: of a chunk, the pages from its first token on. */
static pl_status_t move(cost_t *cost, const pl_op_t *op, int64_t tick)
{
    cost_op_t under_way = {.id = op->id};
    bool fetch          = op->kind == PL_OP_FETCH;
    bool noted          = pl_op_log_is_on(&cost->executor.log);
    int64_t n           = 0;
    int32_t first       = op->kind == PL_OP_PREFILL
                              ? op->first_token / cost->params.page_tokens
                              : 0;

    for (int32_t i = first; i < op->n_pages; i++) {
        int64_t movers = note_movers(cost, op, i, under_way.moves);

        n += movers;
        for (; noted && (movers > 0); movers--) {
            note_page(cost, op, i);
        }
        if (fetch) {
            under_way.readers[under_way.n_pages++] = op->owners[i];
        }
    }
    cost->executor.counters.pages[op->kind] += n;
    cost->executor.counters.bytes[op->kind] += n * cost->params.page_bytes;
    if ((cost->params.inject == NULL) ||
        (!is_copy(op) && (op->kind != PL_OP_STORE) &&
         (op->kind != PL_OP_SEND))) {
        return PL_OK;
    }
    under_way.failed =
        (op->kind == PL_OP_SEND) &&
        injects(cost, PL_INJECT_TRANSFER_ABORT, under_way.moves, tick);
    return PL_ARRAY_PUSH(&cost->under_way, under_way);
}

static pl_status_t cost_execute(pl_executor_t *self, const pl_plan_t *plan)
{
    cost_t *cost = (cost_t *)self;

    for (int32_t i = 0; i < plan->n_ops; i++) {
        const pl_op_t *op = &plan->ops[i];

        if (op->cancelled || (op->kind == PL_OP_REENTER) ||
            (op->kind == PL_OP_PUBLISH)) {
            continue;
        }
        if (op->kind != PL_OP_DECODE) {
            PL_TRY(move(cost, op, plan->tick));
        } else if (counts(cost, op->home)) {
            note_step(cost, op);
        }
    }
    return PL_OK;
}

static pl_status_t cost_finish(pl_executor_t *self, int64_t tick)
{
    (void)self;
    (void)tick;
    return PL_OK;
}

static pl_exec_result_t cost_result(pl_executor_t *self, int32_t request)
{
    pl_exec_result_t nothing = {0};

    (void)self;
    (void)request;
    return nothing;
}

static void cost_stop(pl_executor_t *self)
{
    (void)self;
}

static void cost_close(pl_executor_t *self)
{
    cost_t *cost = (cost_t *)self;

    PL_ARRAY_FREE(&cost->under_way);
    free(cost);
}

static const pl_executor_ops_t cost_ops = {.name    = "cost",
                                           .reserve = cost_reserve,
                                           .settle  = cost_settle,
                                           .execute = cost_execute,
                                           .finish  = cost_finish,
                                           .result  = cost_result,
                                           .stop    = cost_stop,
                                           .close   = cost_close};

pl_status_t pl_cost_open(const pl_cost_params_t *params,
                         pl_executor_t **executor_p)
{
    cost_t *cost = calloc(1, sizeof(*cost));

    if (cost == NULL) {
        return PL_ERR_MEMORY;
    }
    cost->executor.ops = &cost_ops;
    cost->params       = *params;
    *executor_p        = &cost->executor;
    return PL_OK;
}
