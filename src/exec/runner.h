/* exec/runner.h - the loop of one rank: plan, reserve, settle, agree, commit,
 * execute.
 *
 * One agreement a tick carries everything that only one rank can know: who
 * could not reserve, whose operation failed, that a rank saw a violation or
 * cannot go on and, in debug mode, a hash of the control plane's state.  A rank
 * that sees a violation goes on until that agreement, so nobody waits for it;
 * then all ranks exchange what they saw and end with the same one.
 */
#ifndef PL_EXEC_RUNNER_H
#define PL_EXEC_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "comm/comm.h"
#include "engine/engine.h"
#include "exec/executor.h"
#include "verify/inject.h"

/* A line for people about a violation; the first is the line of fixed form. */
typedef struct pl_report {
    void (*line)(void *context, const char *line);
    void *context;
} pl_report_t;

/* Called on every rank at the end of each tick, and before the first; NULL: not
 * at all. */
typedef struct pl_tick_observer {
    void (*tick)(void *context, int rank, const pl_engine_t *engine);
    void *context;
    void (*begin)(void *context, int rank);
} pl_tick_observer_t;

/* What rank 0 alone decides, by a clock that only it looks at, and all ranks
 * then do in the same tick: its word travels with the tick's agreement. */
typedef struct pl_tick_task {
    /* Rank 0, before the agreement of each tick: is it time?  NULL: there is no
     * task. */
    bool (*is_due)(void *context, const pl_engine_t *engine);
    /* Every rank, at the end of each tick.  Collective where `due`, which all
     * ranks get alike.  Another status than PL_OK ends the run. */
    pl_status_t (*step)(void *context, bool due);
    void *context;
} pl_tick_task_t;

typedef struct pl_runner_params {
    bool debug;            /* state hashes and pl_engine_check every tick */
    uint64_t seed;         /* named in the line of a violation */
    const char *reproduce; /* the command that repeats this run, or NULL */
    pl_report_t report;    /* rank 0; line NULL: through log */
    pl_tick_observer_t observer;
    pl_tick_task_t task;
    pl_inject_t *inject; /* rank.die, rank.stall; may be NULL */
    const pl_log_t *log;
} pl_runner_params_t;

/* Run the engine to its end.  Collective; comm NULL: one executor stands for
 * all ranks.
 *
 * PL_OK; PL_ERR_VIOLATION on all ranks, reported by rank 0; PL_ERR_DISAGREE on
 * all ranks (debug); what failed here; PL_ERR_PEER.  The executor has been
 * stopped in any case. */
PL_MUST_CHECK pl_status_t pl_runner_run(const pl_runner_params_t *params,
                                        pl_engine_t *engine,
                                        pl_executor_t *executor,
                                        pl_comm_t *comm);

/* Collective, after a good run: one more agreement.  `mine` is what this rank
 * has to say of itself, *more is set if any rank passed true; violations are
 * exchanged and told as in a tick.  Statuses as above. */
PL_MUST_CHECK pl_status_t pl_runner_agree(const pl_runner_params_t *params,
                                          pl_engine_t *engine,
                                          pl_executor_t *executor,
                                          pl_comm_t *comm, pl_status_t mine,
                                          bool *more);

#endif /* PL_EXEC_RUNNER_H */
