#include "exec/data.h"

#include <stdlib.h>

#include "exec/decode.h"
#include "exec/disk.h"
#include "exec/move.h"
#include "exec/prefill.h"
#include "exec/send.h"

typedef struct data {
    pl_executor_t executor;
    pl_exec_t exec;
    pl_moves_t moves;
    pl_disk_ios_t ios;
    pl_sends_t sends;
    pl_prefill_t prefill;
    const int32_t *ends; /* [n_ends] end-of-sequence tokens */
    int32_t n_ends;
} data_t;

static data_t *begin(pl_executor_t *self, const pl_plan_t *plan)
{
    data_t *data    = (data_t *)self;
    data->exec.plan = plan;
    data->exec.tick = plan->tick;
    return data;
}

/* ---- reserve ---- */

static pl_status_t reserve_op(data_t *data, const pl_op_t *op)
{
    pl_exec_t *exec = &data->exec;

    switch (op->kind) {
    case PL_OP_BACKUP:
        if ((pl_move_count(exec, op) > 0) &&
            pl_exec_injects(exec, PL_INJECT_HOST_ALLOC_FAIL)) {
            return PL_ERR_MEMORY;
        }
        return pl_move_reserve(exec, &data->moves, op);
    case PL_OP_LOAD:
    case PL_OP_OFFLOAD:
    case PL_OP_RESUME:
        return pl_move_reserve(exec, &data->moves, op);
    case PL_OP_PREFILL:
        return pl_prefill_reserve(exec, &data->prefill, op);
    case PL_OP_SEND:
        return pl_send_reserve(exec, &data->sends, op);
    case PL_OP_DECODE:
        return pl_step_reserve(exec, &data->prefill.stage, op);
    case PL_OP_FETCH:
    case PL_OP_STORE:
    case PL_OP_PUBLISH:
        return pl_disk_reserve(exec, &data->ios, op);
    case PL_OP_REENTER:
    case PL_OP_KINDS:
        break;
    }
    return PL_OK;
}

static pl_status_t data_reserve(pl_executor_t *self, const pl_plan_t *plan,
                                uint64_t *bits)
{
    data_t *data = begin(self, plan);

    for (int32_t i = 0; i < plan->n_ops; i++) {
        if (reserve_op(data, &plan->ops[i]) != PL_OK) {
            pl_plan_set_bit(bits, i);
        }
    }
    return PL_OK;
}

/* ---- settle ---- */

/* Is the newest token that this rank knows of a request an end of sequence? The
 * others of its tokens were asked about when they were the newest. */
static bool has_ended(const data_t *data, int32_t request)
{
    const pl_exec_request_t *held = &data->exec.requests[request];
    bool ends                     = false;

    for (int32_t i = 0; (held->generated.n > 0) && (i < data->n_ends); i++) {
        ends |= held->generated.items[held->generated.n - 1] == data->ends[i];
    }
    return ends;
}

/* *end_p: pages of a FETCH that are no good. */
static pl_status_t settle_due(data_t *data, const pl_due_t *due, bool *failed_p,
                              pl_storage_end_t *end_p)
{
    switch (due->kind) {
    case PL_OP_SEND:
        return pl_send_settle(&data->exec, &data->sends, due->id, failed_p);
    case PL_OP_FETCH:
    case PL_OP_STORE:
    case PL_OP_PUBLISH:
        pl_disk_settle(&data->exec, &data->ios, due->id, failed_p, end_p);
        return PL_OK;
    default:
        return pl_move_settle(&data->exec, &data->moves, due->id, failed_p);
    }
}

/* All that others will wait for in this tick is sent before this rank waits. */
static pl_status_t post_sends(data_t *data, const pl_plan_t *plan)
{
    int64_t last = 0;

    for (int32_t i = 0; i < plan->n_due; i++) {
        if ((plan->due[i].kind == PL_OP_SEND) && (plan->due[i].id > last)) {
            last = plan->due[i].id;
        }
    }
    return pl_sends_post(&data->exec, &data->sends, last);
}

static pl_status_t data_settle(pl_executor_t *self, const pl_plan_t *plan,
                               uint64_t *bits)
{
    data_t *data = begin(self, plan);

    PL_TRY(post_sends(data, plan));
    for (int32_t i = 0; i < plan->n_due; i++) {
        const pl_due_t *due  = &plan->due[i];
        bool failed          = false;
        pl_storage_end_t end = {0};

        PL_TRY(settle_due(data, due, &failed, &end));
        if (due->kind == PL_OP_FETCH) {
            bits[due->word + PL_FETCH_BAD] |= end.bad;
            bits[due->word + PL_FETCH_UNREAD] |= end.unread;
        }
        if (failed) {
            pl_plan_set_bit(bits, plan->n_ops + i);
        }
    }
    for (int32_t i = 0; i < plan->n_watched; i++) {
        if (has_ended(data, plan->watched[i])) {
            pl_plan_set_bit(bits, plan->n_ops + plan->n_due + i);
        }
    }
    return PL_OK;
}

/* ---- execute ---- */

static pl_status_t execute_op(data_t *data, const pl_op_t *op)
{
    pl_exec_t *exec = &data->exec;

    /* These have something to forget when they were cancelled. */
    switch (op->kind) {
    case PL_OP_LOAD:
    case PL_OP_BACKUP:
    case PL_OP_OFFLOAD:
    case PL_OP_RESUME:
        return pl_move_execute(exec, &data->moves, op);
    case PL_OP_SEND:
        return pl_send_execute(exec, &data->sends, op);
    case PL_OP_FETCH:
    case PL_OP_STORE:
    case PL_OP_PUBLISH:
        pl_disk_execute(exec, &data->ios, op);
        return PL_OK;
    default:
        break;
    }
    if (op->cancelled) {
        return PL_OK;
    }
    switch (op->kind) {
    case PL_OP_PREFILL:
        return pl_prefill_execute(exec, &data->prefill, &data->moves, op);
    case PL_OP_DECODE:
        return pl_step_execute(exec, &data->prefill.stage, op);
    case PL_OP_REENTER:
        return pl_step_reenter(exec, op);
    default:
        return PL_OK;
    }
}

static pl_status_t data_execute(pl_executor_t *self, const pl_plan_t *plan)
{
    data_t *data = begin(self, plan);

    PL_TRY(pl_exec_poison_freed(&data->exec));
    for (int32_t i = 0; i < plan->n_ops; i++) {
        PL_TRY(execute_op(data, &plan->ops[i]));
    }
    return PL_OK;
}

/* ---- the rest ---- */

static pl_status_t data_finish(pl_executor_t *self, int64_t tick)
{
    data_t *data    = (data_t *)self;
    data->exec.plan = NULL;
    data->exec.tick = tick;

    PL_TRY(pl_exec_check_all(&data->exec));
    return pl_device_check(data->exec.device);
}

static pl_exec_result_t data_result(pl_executor_t *self, int32_t request)
{
    const data_t *data            = (const data_t *)self;
    const pl_exec_request_t *mine = &data->exec.requests[request];
    pl_exec_result_t result       = {.has_digest = mine->has_digest,
                                     .digest     = mine->digest,
                                     .tokens     = mine->generated.items,
                                     .n_tokens   = (int32_t)mine->generated.n};

    return result;
}

static void data_stop(pl_executor_t *self)
{
    data_t *data = (data_t *)self;

    pl_sends_drain(&data->exec, &data->sends);
    /* Peers have ended their reading of this rank's pages before that, and this
     * rank its of theirs: memory may be freed. */
    (void)pl_pages_drain(data->exec.device);
}

static void data_close(pl_executor_t *self)
{
    data_t *data    = (data_t *)self;
    pl_exec_t *exec = &data->exec;

    for (int32_t i = 0; (exec->requests != NULL) && (i < exec->source.count);
         i++) {
        PL_ARRAY_FREE(&exec->requests[i].generated);
        PL_ARRAY_FREE(&exec->requests[i].decode_pages);
    }
    free(exec->requests);
    if (exec->compute != NULL) {
        exec->compute->ops->close(exec->compute);
    }
    pl_moves_free(&data->moves);
    pl_disk_free(&data->ios);
    pl_sends_free(exec, &data->sends);
    pl_prefill_free(exec, &data->prefill);
    pl_digests_free(&exec->digests);
    PL_ARRAY_FREE(&exec->poison.spans);
    pl_exec_close_tiers(exec);
    free(data);
}

static pl_status_t data_cold(pl_executor_t *self, pl_cold_t *cold)
{
    pl_compute_t *compute = ((data_t *)self)->exec.compute;

    return compute->ops->cold == NULL ? PL_REFUSED_UNSUPPORTED
                                      : compute->ops->cold(compute, cold);
}

static const pl_executor_ops_t data_ops = {.name    = "data",
                                           .reserve = data_reserve,
                                           .settle  = data_settle,
                                           .execute = data_execute,
                                           .finish  = data_finish,
                                           .result  = data_result,
                                           .stop    = data_stop,
                                           .close   = data_close,
                                           .cold    = data_cold};

pl_status_t pl_data_open(const pl_data_params_t *params, pl_comm_t *comm,
                         pl_device_t *device, pl_executor_t **executor_p)
{
    data_t *data = calloc(1, sizeof(*data));
    pl_exec_t *exec;
    pl_status_t status = PL_ERR_MEMORY;

    if (data == NULL) {
        return PL_ERR_MEMORY;
    }
    exec               = &data->exec;
    data->executor.ops = &data_ops;
    exec->rank         = comm->rank;
    exec->n_ranks      = comm->n_ranks;
    exec->n_prefill    = comm->n_prefill;
    exec->n_lanes      = params->replicated ? 1 : comm->n_prefill;
    exec->n_decode     = params->n_decode;
    exec->page_tokens  = params->layout.page_tokens;
    exec->n_layers     = params->layout.n_layers;
    exec->verify       = params->verify;
    exec->log          = params->log;
    exec->comm         = comm;
    exec->device       = device;
    exec->inject       = params->inject;
    exec->door         = params->door;
    data->ends         = params->ends;
    data->n_ends       = params->n_ends;
    exec->source       = params->source;
    exec->prompts      = params->prompts;
    exec->violations   = &data->executor.violations;
    exec->counters     = &data->executor.counters;
    exec->log_of_ops   = &data->executor.log;
    exec->requests =
        calloc((size_t)params->source.count + 1, sizeof(*exec->requests));
    if (exec->requests == NULL) {
        goto err;
    }
    for (int32_t i = 0; i < params->source.count; i++) {
        exec->requests[i].first_rank = -1;
    }
    PL_TRY_GOTO(status,
                pl_exec_open_tiers(exec, &params->layout, &params->pages), err);
    *executor_p = &data->executor;
    return PL_OK;

err:
    data_close(&data->executor);
    return status;
}

pl_token_reader_t pl_data_tokens(pl_executor_t *executor)
{
    data_t *data             = (data_t *)executor;
    pl_token_reader_t reader = {.context = &data->exec,
                                .read    = pl_exec_read_tokens};

    return reader;
}

void pl_data_set_compute(pl_executor_t *executor, pl_compute_t *compute)
{
    ((data_t *)executor)->exec.compute = compute;
}

pl_status_t pl_data_expose(pl_executor_t *executor)
{
    data_t *data            = (data_t *)executor;
    const pl_store_t *store = &data->exec.stores[PL_FREED_DEVICE];

    if (data->exec.rank >= data->exec.n_prefill) {
        return PL_OK;
    }
    PL_TRY(pl_comm_expose(data->exec.comm, PL_REGION_PAGES,
                          pl_exec_memory(data->exec.comm, PL_FREED_DEVICE),
                          store->bytes, pl_store_bytes(&store->layout)));
    return pl_comm_expose(
        data->exec.comm, PL_REGION_HEADERS, PL_MEMORY_HOST, store->headers,
        pl_store_n_headers(&store->layout) * sizeof(pl_page_header_t));
}

pl_store_t *pl_data_store(pl_executor_t *executor, int tier)
{
    return &((data_t *)executor)->exec.stores[tier];
}
