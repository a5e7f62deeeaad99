/* exec/executor.h - who performs plans, behind one table.
 *
 *   model  moves the KV of a real transformer (exec/data.h with exec/model.h)
 *   stamp  moves and checks bytes that any rank can predict (exec/data.h with
 *          exec/stamp.h)
 *   cost   moves nothing and counts (exec/cost.h)
 *
 * One executor belongs to one rank and one thread.  In each tick, in this order
 * (exec/runner.h): reserve, settle, [agree, commit], execute.  A failure of one
 * operation is a bit of the plan, never a status; a status other than PL_OK
 * means that this rank cannot go on.
 */
#ifndef PL_EXEC_EXECUTOR_H
#define PL_EXEC_EXECUTOR_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "engine/plan.h"
#include "exec/compute.h"
#include "exec/op_log.h"
#include "verify/inject.h"
#include "verify/violation.h"

typedef struct pl_executor pl_executor_t;

/* What was really done, by this rank. */
typedef struct pl_exec_counters {
    int64_t pages[PL_OP_KINDS]; /* LOAD, BACKUP, SEND, OFFLOAD, RESUME, STORE,
                                   FETCH: moved; PREFILL: written; DECODE: rows
                                   written */
    int64_t bytes[PL_OP_KINDS]; /* of those, all layers and stores */
    int64_t view_pages;  /* pages that prefill read, per layer and store */
    int64_t page_checks; /* pages whose bytes were compared with a digest, per
                            layer and store */
    int64_t poisoned_pages;
    int64_t bad_storage_pages;    /* not what was written there */
    int64_t unread_storage_pages; /* that could not be read then */
} pl_exec_counters_t;

#define PL_EXEC_COUNTERS                                                       \
    ((int64_t)(sizeof(pl_exec_counters_t) / sizeof(int64_t)))

/* What a rank knows of a request that it decoded. */
typedef struct pl_exec_result {
    bool has_digest;
    uint64_t digest;       /* verify/digest.h, of the prompt, as received */
    const int32_t *tokens; /* [n_tokens] generated, borrowed */
    int32_t n_tokens;
} pl_exec_result_t;

typedef struct pl_executor_ops {
    const char *name; /* --executor */

    /* Have what the plan's operations need here.  Sets bit i for an operation
     * i that this rank cannot do; it is then cancelled on all ranks. */
    pl_status_t (*reserve)(pl_executor_t *self, const pl_plan_t *plan,
                           uint64_t *bits);
    /* Wait until what is due is done, and check it.  Sets bit n_ops + j for a
     * due operation j that failed here; of a FETCH, bits of its own words
     * (plan.h). */
    pl_status_t (*settle)(pl_executor_t *self, const pl_plan_t *plan,
                          uint64_t *bits);
    /* Poison what became free, then start or do the plan's operations, but for
     * the cancelled ones.  Collective over the ranks. */
    pl_status_t (*execute)(pl_executor_t *self, const pl_plan_t *plan);
    /* After the last tick: read once more what lies in the tiers. */
    pl_status_t (*finish)(pl_executor_t *self, int64_t tick);
    /* Borrowed until close. */
    pl_exec_result_t (*result)(pl_executor_t *self, int32_t request);
    /* No message is under way afterwards, whatever went wrong before. */
    void (*stop)(pl_executor_t *self);
    void (*close)(pl_executor_t *self);

    /* optional: a piece of a request computed cold (exec/compute.h), after the
     * run; PL_REFUSED_UNSUPPORTED, on all ranks alike, if it cannot be. */
    pl_status_t (*cold)(pl_executor_t *self, pl_cold_t *cold);
} pl_executor_ops_t;

struct pl_executor {
    const pl_executor_ops_t *ops; /* first member of every executor */
    pl_violations_t violations;
    pl_exec_counters_t counters;
    pl_op_log_t log; /* off, unless a run is written down */
};

#endif /* PL_EXEC_EXECUTOR_H */
