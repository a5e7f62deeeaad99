#include "exec/op_log.h"

#include <stdlib.h>

pl_status_t pl_op_log_open(pl_op_log_t *log, int32_t n_requests)
{
    log->steps = calloc((size_t)n_requests + 1, sizeof(*log->steps));
    return log->steps == NULL ? PL_ERR_MEMORY : PL_OK;
}

void pl_op_log_close(pl_op_log_t *log)
{
    free(log->steps);
    log->steps = NULL;
    PL_ARRAY_FREE(&log->ops);
}

static bool moves_pages(const pl_op_t *op)
{
    return !op->cancelled && (op->kind != PL_OP_DECODE) &&
           (op->kind != PL_OP_REENTER) && (op->kind != PL_OP_PUBLISH);
}

pl_status_t pl_op_log_begin(pl_op_log_t *log, const pl_plan_t *plan)
{
    if (log->steps == NULL) {
        return PL_OK;
    }
    for (int32_t i = 0; i < plan->n_ops; i++) {
        pl_op_record_t record = {.op = plan->ops[i].id};
        size_t at             = log->ops.n;

        if (!moves_pages(&plan->ops[i])) {
            continue;
        }
        PL_TRY(PL_ARRAY_PUSH(&log->ops, record));
        /* Plans go by kind; of one tick there are few. */
        for (; (at > 0) && (log->ops.items[at - 1].op > record.op); at--) {
            log->ops.items[at] = log->ops.items[at - 1];
        }
        log->ops.items[at] = record;
    }
    return PL_OK;
}

/* NULL: the log is off. */
static pl_op_record_t *find(pl_op_log_t *log, int64_t op)
{
    size_t low  = 0;
    size_t high = log->ops.n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (log->ops.items[middle].op < op) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (low < log->ops.n) && (log->ops.items[low].op == op)
               ? &log->ops.items[low]
               : NULL;
}

void pl_op_log_place(pl_op_log_t *log, int64_t op, int32_t position,
                     int32_t from, int32_t to)
{
    pl_op_record_t *record = find(log, op);

    if (record != NULL) {
        record->hash += pl_op_place_hash(position, from, to);
    }
}

void pl_op_log_page(pl_op_log_t *log, int64_t op, int32_t position,
                    int32_t from, int32_t to)
{
    pl_op_record_t *record = find(log, op);

    if (record != NULL) {
        record->pages++;
        record->hash += pl_op_place_hash(position, from, to);
    }
}

void pl_op_log_bytes(pl_op_log_t *log, int64_t op, uint64_t bytes)
{
    pl_op_record_t *record = find(log, op);

    if (record != NULL) {
        record->bytes += bytes;
    }
}

void pl_op_log_step(pl_op_log_t *log, int32_t request, int32_t position,
                    int32_t slot, uint64_t bytes)
{
    if (log->steps != NULL) {
        pl_op_record_t *record = &log->steps[request];

        record->pages++;
        record->bytes += bytes;
        record->hash += pl_op_place_hash(position, -1, slot);
    }
}
