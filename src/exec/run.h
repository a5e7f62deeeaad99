/* exec/run.h - a whole run: engine, executor, loop, and what came of it.
 *
 *   pl_run        on the ranks of a communicator; collective
 *   pl_run_local  on virtual ranks of this process (threads); with the cost
 *                 executor on one engine without threads, however many ranks it
 *                 stands for
 *
 * With --verify full and executor "model" every request is computed once more
 * after the last tick: cold, alone, on one rank; digest and tokens are
 * compared.
 *
 * Both return the same on every rank's behalf: PL_OK; PL_ERR_VIOLATION (told by
 * rank 0); PL_ERR_RESOURCE (one line: what to raise or lower); PL_ERR_ARGUMENT;
 * PL_ERR_PEER where another rank said why; PL_ERR_DISAGREE, PL_ERR_COMM,
 * PL_ERR_MEMORY, PL_ERR_DEVICE, PL_ERR_INTERNAL.
 */
#ifndef PL_EXEC_RUN_H
#define PL_EXEC_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/event.h>
#include <pagelane/log.h>
#include <pagelane/status.h>

#include "cache/storage_table.h"
#include "comm/comm.h"
#include "engine/engine.h"
#include "exec/compute.h"
#include "exec/executor.h"
#include "exec/model.h"
#include "exec/runner.h"
#include "pool/store.h"
#include "verify/inject.h"
#include "verify/violation.h"

/* Per request, equal on all ranks.  Borrowed for the call.  During a run only
 * what has finished has a digest and tokens. */
typedef struct pl_run_results {
    int32_t n_requests;
    const uint64_t *digests;      /* [n_requests], of the prompt as received */
    const uint64_t *has_digest;   /* [n_requests] 0 or 1 */
    const int64_t *token_offsets; /* [n_requests + 1] */
    const int32_t *tokens;        /* generated; none with executor cost */
    pl_exec_counters_t counters;  /* sum over all ranks */
    /* What operations moved, if events are wanted; sums over all ranks.  All
     * of them, ascending ids; and each request's decode steps together. */
    const pl_op_record_t *ops; /* [n_ops] */
    size_t n_ops;
    const pl_op_record_t *steps; /* [n_requests], or NULL */
} pl_run_results_t;

/* Rank 0 writes down the run while it goes on.  Nothing here can fail it. */
typedef struct pl_run_recorder {
    /* Before each tick's agreement: is it time?  NULL: nothing is recorded. */
    bool (*is_due)(void *context, const pl_engine_t *engine);
    /* At the end of a tick that was: all ranks stand still. */
    void (*take)(void *context, const pl_engine_t *engine,
                 const pl_run_results_t *results);
    /* At the end of every other tick: a slice of the work that take() has left.
     */
    void (*step)(void *context);
    void *context;
} pl_run_recorder_t;

typedef struct pl_run_params {
    pl_engine_config_t engine; /* page_bytes 0: those of the layout; others
                                  where costs are of other pages */
    pl_engine_source_t source; /* borrowed; read by all ranks' threads */
    pl_token_reader_t prompts; /* borrowed likewise; prompt tokens only */
    const char *executor;      /* "model", "stamp", "cost" */
    pl_device_source_t device; /* of each rank; not for cost */
    /* What stands on each rank's communicator once its device is open
     * (comm/peer.h, comm/nccl.h), and is closed before it; collective.  NULL:
     * nothing. */
    pl_status_t (*open_comm)(void *context, pl_comm_t *base,
                             pl_device_t *device, pl_comm_t **comm_p);
    void *comm_context;
    pl_verify_t verify;
    pl_store_layout_t layout; /* layers and row sizes; page size and slots are
                                 the engine's */
    int32_t vocab_size;       /* of generated tokens, > 0 */
    /* executor "model", which needs neither layout nor vocab_size: */
    const pl_model_config_t *model; /* borrowed */
    const pl_weights_t *weights;    /* borrowed; shared by all ranks */
    pl_forward_source_t forward;    /* open NULL: the host's, for devices that
                                       are addressable */
    pl_kv_dtype_t kv_dtype;
    pl_model_observer_t model_observer; /* of every rank's own thread */
    bool debug;
    const char *reproduce; /* the command of this run, or NULL */
    pl_inject_t inject;    /* each rank gets its own copy */
    /* Doors to the storage tier, one for each prefill rank; borrowed.  NULL:
     * there is none, and engine.storage_pages is 0; or the executor is cost,
     * which needs none. */
    const pl_storage_opener_t *storage;
    /* What is known of requests that engine.skip says are finished; borrowed,
     * the same on all ranks.  NULL: nothing. */
    const pl_run_results_t *prior;
    pl_report_t report;
    pl_tick_observer_t observer;
    pl_run_recorder_t recorder;
    /* Where a rank's events go; NULL: nowhere.  Called on each rank. */
    pl_event_sink_t (*events)(void *context, int rank);
    void *events_context;
    /* Called on each rank after a good run, collective; may be NULL.  `comm` is
     * NULL if one engine stands for all ranks. */
    pl_status_t (*done)(void *context, pl_comm_t *comm,
                        const pl_engine_t *engine,
                        const pl_run_results_t *results);
    void *done_context;
    int ranks_on_host;        /* that share this machine's memory; 0: all */
    uint64_t available_bytes; /* of memory; 0: as the system says */
    const pl_log_t *log;      /* used by all ranks */
} pl_run_params_t;

PL_MUST_CHECK pl_status_t pl_run(const pl_run_params_t *params,
                                 pl_comm_t *comm);
PL_MUST_CHECK pl_status_t pl_run_local(const pl_run_params_t *params,
                                       double timeout_s);

/* "model", "stamp", "cost", NULL: executor i that a run can have. */
const char *pl_run_executor_name(int i);

/* How pages lie in the run; n_slots is 0. */
pl_store_layout_t pl_run_layout(const pl_run_params_t *params);

/* Bytes of one page in all layers and stores, as the cost model counts it. */
int64_t pl_run_page_bytes(const pl_run_params_t *params);
/* As it counts for the engine where nothing else was said (0): page_bytes, and
 * what a rank keeps of them. */
void pl_run_settle_bytes(const pl_run_params_t *params,
                         pl_engine_config_t *engine);

#endif /* PL_EXEC_RUN_H */
