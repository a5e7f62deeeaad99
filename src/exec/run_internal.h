/* exec/run_internal.h - one rank of a run; shared by run.c, results.c and
 * run_cold.c. */
#ifndef PL_EXEC_RUN_INTERNAL_H
#define PL_EXEC_RUN_INTERNAL_H

#include "base/array.h"
#include "device/device.h"
#include "exec/run.h"

/* A log that says which rank speaks; what all ranks would say alike, only rank
 * 0 says. */
typedef struct rank_log {
    pl_log_t log;
    const pl_log_t *base;
    int rank;
    bool muted;
} rank_log_t;

/* What became of the requests, as far as it was gathered; on all ranks. */
typedef struct run_results {
    uint64_t *digests; /* [2 * n_requests]: digests, then has_digest */
    int64_t *places;   /* [n_requests] of its tokens; -1: not gathered yet */
    PL_ARRAY(int32_t) gathered; /* tokens, in the order they came in */
    int64_t *offsets;           /* [n_requests + 1] of the view */
    int32_t *tokens;            /* of the view, request by request */
    pl_op_record_t *ops;        /* of the view: operations, then steps */
} run_results_t;

typedef struct run_rank {
    const pl_run_params_t *params;
    pl_comm_t *base; /* the caller's; NULL: all ranks */
    pl_comm_t *comm; /* that, or what stands on it */
    int rank;        /* 0 if comm is NULL */
    rank_log_t log;
    rank_log_t engine_log; /* of what all ranks decide alike: rank 0 warns */
    pl_inject_t inject;
    pl_runner_params_t runner;
    pl_device_t *device;
    pl_engine_t *engine;
    pl_storage_door_t *door; /* NULL: none on this rank */
    pl_executor_t *executor;
    run_results_t results;
} run_rank_t;

/* A pl_tick_task_t's, for params->recorder. */
bool pl_run_is_due(void *context, const pl_engine_t *engine);
PL_MUST_CHECK pl_status_t pl_run_record(void *context, bool due);

/* What the ranks know of all requests, together; then `done`.  Collective. */
PL_MUST_CHECK pl_status_t pl_run_collect(run_rank_t *run);

void pl_run_results_free(run_results_t *results);

/* Executor "model" with --verify full: each request cold, alone, on one rank,
 * against what came of it.  Collective.  PL_ERR_VIOLATION as in a tick. */
PL_MUST_CHECK pl_status_t pl_run_verify_cold(run_rank_t *run,
                                             const pl_run_results_t *results);

#endif /* PL_EXEC_RUN_INTERNAL_H */
