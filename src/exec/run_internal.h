/* exec/run_internal.h - one rank of a run; shared by run.c, results.c and
 * run_cold.c. */
#ifndef PL_EXEC_RUN_INTERNAL_H
#define PL_EXEC_RUN_INTERNAL_H

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

typedef struct run_rank {
    const pl_run_params_t *params;
    pl_comm_t *comm; /* NULL: all ranks */
    int rank;        /* 0 if comm is NULL */
    rank_log_t log;
    pl_inject_t inject;
    pl_runner_params_t runner;
    pl_device_t *device;
    pl_engine_t *engine;
    pl_storage_door_t *door; /* NULL: none on this rank */
    pl_executor_t *executor;
} run_rank_t;

/* What the ranks know of all requests, together; then `done`.  Collective. */
PL_MUST_CHECK pl_status_t pl_run_collect(run_rank_t *run);

/* Executor "model" with --verify full: each request cold, alone, on one rank,
 * against what came of it.  Collective.  PL_ERR_VIOLATION as in a tick. */
PL_MUST_CHECK pl_status_t pl_run_verify_cold(run_rank_t *run,
                                             const pl_run_results_t *results);

#endif /* PL_EXEC_RUN_INTERNAL_H */
