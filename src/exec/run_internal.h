/* exec/run_internal.h - one rank of a run; shared by run.c and results.c. */
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
    pl_device_t *device;
    pl_engine_t *engine;
    pl_executor_t *executor;
} run_rank_t;

/* What the ranks know of all requests, together; then `done`.  Collective. */
PL_MUST_CHECK pl_status_t pl_run_collect(run_rank_t *run);

#endif /* PL_EXEC_RUN_INTERNAL_H */
