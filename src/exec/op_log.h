/* exec/op_log.h - what this rank's copies did, by operation.
 *
 * Off (zeroed) until opened; then every call costs a look-up, so that runs that
 * write nothing down pay nothing.  All ranks have the same operations in the
 * same order: those of the plans, without the cancelled ones and those that
 * move no page.
 */
#ifndef PL_EXEC_OP_LOG_H
#define PL_EXEC_OP_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "base/array.h"
#include "engine/op_record.h"
#include "engine/plan.h"

typedef struct pl_op_log {
    PL_ARRAY(pl_op_record_t) ops; /* ascending ids */
    pl_op_record_t *steps;        /* [n_requests]; NULL: the log is off */
} pl_op_log_t;

/* PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_op_log_open(pl_op_log_t *log, int32_t n_requests);
void pl_op_log_close(pl_op_log_t *log);

static inline bool pl_op_log_is_on(const pl_op_log_t *log)
{
    return log->steps != NULL;
}

/* The operations of a committed plan are about to be executed. */
PL_MUST_CHECK pl_status_t pl_op_log_begin(pl_op_log_t *log,
                                          const pl_plan_t *plan);

/* A page of operation `op` was moved here, or a row of the request's decode
 * written; its bytes are counted apart, as the copies say. */
void pl_op_log_page(pl_op_log_t *log, int64_t op, int32_t position,
                    int32_t from, int32_t to);
/* The other half of a page that was counted elsewhere. */
void pl_op_log_place(pl_op_log_t *log, int64_t op, int32_t position,
                     int32_t from, int32_t to);
void pl_op_log_bytes(pl_op_log_t *log, int64_t op, uint64_t bytes);
void pl_op_log_step(pl_op_log_t *log, int32_t request, int32_t position,
                    int32_t slot, uint64_t bytes);

#endif /* PL_EXEC_OP_LOG_H */
