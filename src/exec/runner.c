#include "exec/runner.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/array.h"

/* The words of an agreement: control, state hash, its complement, the plan. */
enum { WORD_CONTROL, WORD_HASH, WORD_HASH_NOT, WORD_PLAN };
enum { CONTROL_VIOLATION = 1, CONTROL_FATAL = 2, CONTROL_TASK = 4 };

/* Ranks whose plans differ should still agree on that they do. */
#define WORDS_MULTIPLE 32

#define FIELDS 64

typedef struct runner {
    const pl_runner_params_t *params;
    pl_engine_t *engine;
    pl_executor_t *executor;
    pl_comm_t *comm; /* or NULL */
    PL_ARRAY(uint64_t) words;
    int64_t tick;
    bool task_is_due; /* asked, then agreed on */
} runner_t;

static bool is_rank0(const runner_t *run)
{
    return (run->comm == NULL) || (run->comm->rank == 0);
}

static pl_status_t agree(runner_t *run, int32_t n)
{
    return run->comm == NULL ? PL_OK
                             : pl_comm_agree(run->comm, run->words.items, n);
}

/* ---- faults of whole ranks ---- */

/* Stop answering for longer than anybody waits. */
static pl_status_t stall(const runner_t *run)
{
    double seconds       = run->comm == NULL ? 0 : run->comm->timeout_s * 1.5;
    struct timespec left = {.tv_sec = (time_t)seconds + 1, .tv_nsec = 0};

    pl_log(run->params->log, PL_LOG_ERROR,
           "rank %d stops answering in tick %" PRId64 " (--inject rank.stall)",
           run->comm == NULL ? 0 : run->comm->rank, run->tick);
    while (nanosleep(&left, &left) != 0) {
    }
    return PL_ERR_COMM;
}

static pl_status_t inject_rank_faults(const runner_t *run)
{
    int rank = run->comm == NULL ? 0 : run->comm->rank;

    if (pl_inject_hit(run->params->inject, PL_INJECT_RANK_DIE, rank,
                      run->tick)) {
        pl_log(run->params->log, PL_LOG_ERROR,
               "rank %d kills itself in tick %" PRId64 " (--inject rank.die)",
               rank, run->tick);
        raise(SIGKILL);
    }
    if (pl_inject_hit(run->params->inject, PL_INJECT_RANK_STALL, rank,
                      run->tick)) {
        return stall(run);
    }
    return PL_OK;
}

/* ---- violations ---- */

static void say(const runner_t *run, const char *line)
{
    if (run->params->report.line != NULL) {
        run->params->report.line(run->params->report.context, line);
    } else {
        pl_log(run->params->log, PL_LOG_ERROR, "%s", line);
    }
}

static void report(const runner_t *run, const pl_violations_t *all)
{
    char line[PL_VIOLATION_LINE_BYTES];

    pl_violation_line(&all->least, run->params->seed, line);
    say(run, line);
    if (run->params->reproduce != NULL) {
        say(run, run->params->reproduce);
    }
}

/* Every rank learns what every rank saw; the least is the one that is told. */
static pl_status_t exchange_violations(runner_t *run)
{
    size_t n_ranks      = run->comm == NULL ? 1 : (size_t)run->comm->n_ranks;
    size_t rank         = run->comm == NULL ? 0 : (size_t)run->comm->rank;
    size_t n            = n_ranks * PL_VIOLATION_WORDS;
    uint64_t *words     = calloc(n, sizeof(*words));
    pl_violations_t all = {0};
    pl_status_t status  = PL_OK;

    if (words == NULL) {
        return PL_ERR_MEMORY;
    }
    pl_violations_encode(&run->executor->violations,
                         words + rank * PL_VIOLATION_WORDS);
    if (run->comm != NULL) {
        PL_TRY_GOTO(status, pl_comm_sum(run->comm, words, (int64_t)n), out);
    }
    for (size_t i = 0; i < n_ranks; i++) {
        (void)pl_violations_decode(&all, words + i * PL_VIOLATION_WORDS);
    }
    run->executor->violations = all;
    if (is_rank0(run)) {
        report(run, &all);
    }
    status = PL_ERR_VIOLATION;

out:
    free(words);
    return status;
}

/* ---- state of the control plane ---- */

/* The ranks' states differ: in which field first? */
static pl_status_t name_difference(runner_t *run)
{
    const char *names[FIELDS];
    uint64_t hashes[FIELDS];
    int n = pl_engine_state_fields(run->engine, names, hashes, FIELDS);

    PL_TRY(PL_ARRAY_RESERVE(&run->words, 2 * (size_t)n));
    for (int i = 0; i < n; i++) {
        run->words.items[2 * i]     = hashes[i];
        run->words.items[2 * i + 1] = ~hashes[i];
    }
    PL_TRY(agree(run, 2 * n));
    for (int i = 0; is_rank0(run) && (i < n); i++) {
        if ((run->words.items[2 * i] & run->words.items[2 * i + 1]) != 0) {
            pl_log(run->params->log, PL_LOG_ERROR,
                   "the ranks' control planes differ in tick %" PRId64
                   ", first in: %s; please report this with the command",
                   run->tick, names[i]);
            break;
        }
    }
    return PL_ERR_DISAGREE;
}

/* ---- the agreement ---- */

/* `mine` is what this rank has to say of itself; words of the plan are filled
 * in. */
static pl_status_t agree_on_tick(runner_t *run, int32_t n, pl_status_t mine)
{
    uint64_t *words = run->words.items;
    uint64_t control;

    words[WORD_CONTROL] =
        (run->executor->violations.n > 0 ? CONTROL_VIOLATION : 0U) |
        (mine != PL_OK ? CONTROL_FATAL : 0U) |
        (run->task_is_due ? CONTROL_TASK : 0U);
    words[WORD_HASH]     = 0;
    words[WORD_HASH_NOT] = 0;
    if (run->params->debug) {
        words[WORD_HASH]     = pl_engine_state_hash(run->engine);
        words[WORD_HASH_NOT] = ~words[WORD_HASH];
    }
    PL_TRY(agree(run, n));
    control          = words[WORD_CONTROL];
    run->task_is_due = (control & CONTROL_TASK) != 0;
    if ((control & CONTROL_FATAL) != 0) {
        return mine != PL_OK ? mine : PL_ERR_PEER;
    }
    if ((control & CONTROL_VIOLATION) != 0) {
        return exchange_violations(run);
    }
    if ((words[WORD_HASH] & words[WORD_HASH_NOT]) != 0) {
        return name_difference(run);
    }
    return PL_OK;
}

static pl_status_t room_for(runner_t *run, int32_t n_plan, int32_t *n_p)
{
    int32_t n = WORD_PLAN + n_plan;

    n = (n + WORDS_MULTIPLE - 1) / WORDS_MULTIPLE * WORDS_MULTIPLE;
    PL_TRY(PL_ARRAY_RESERVE(&run->words, (size_t)n));
    memset(run->words.items, 0, (size_t)n * sizeof(*run->words.items));
    *n_p = n;
    return PL_OK;
}

/* ---- the loop ---- */

static pl_status_t prepare(runner_t *run, const pl_plan_t *plan)
{
    uint64_t *bits = run->words.items + WORD_PLAN;

    PL_TRY(inject_rank_faults(run));
    PL_TRY(run->executor->ops->reserve(run->executor, plan, bits));
    PL_TRY(run->executor->ops->settle(run->executor, plan, bits));
    return run->params->debug ? pl_engine_check(run->engine) : PL_OK;
}

static bool is_task_due(const runner_t *run)
{
    const pl_tick_task_t *task = &run->params->task;

    return (task->is_due != NULL) && is_rank0(run) &&
           task->is_due(task->context, run->engine);
}

static pl_status_t one_tick(runner_t *run)
{
    pl_plan_t *plan = NULL;
    int32_t n       = 0;

    PL_TRY(pl_engine_plan(run->engine, &plan));
    run->tick        = plan->tick;
    run->task_is_due = is_task_due(run);
    PL_TRY(room_for(run, pl_plan_words(plan), &n));
    PL_TRY(agree_on_tick(run, n, prepare(run, plan)));
    PL_TRY(pl_engine_commit(run->engine, run->words.items + WORD_PLAN));
    PL_TRY(pl_op_log_begin(&run->executor->log, plan));
    return run->executor->ops->execute(run->executor, plan);
}

static pl_status_t finish(runner_t *run)
{
    int32_t n = 0;

    PL_TRY(room_for(run, 0, &n));
    return agree_on_tick(run, n,
                         run->executor->ops->finish(run->executor, run->tick));
}

static pl_status_t loop(runner_t *run)
{
    const pl_tick_observer_t *observer = &run->params->observer;
    const pl_tick_task_t *task         = &run->params->task;
    int rank = run->comm == NULL ? 0 : run->comm->rank;

    if (observer->begin != NULL) {
        observer->begin(observer->context, rank);
    }
    while (!pl_engine_done(run->engine)) {
        PL_TRY(one_tick(run));
        if (observer->tick != NULL) {
            observer->tick(observer->context, rank, run->engine);
        }
        if (task->step != NULL) {
            PL_TRY(task->step(task->context, run->task_is_due));
        }
    }
    run->task_is_due = false;
    return finish(run);
}

pl_status_t pl_runner_run(const pl_runner_params_t *params, pl_engine_t *engine,
                          pl_executor_t *executor, pl_comm_t *comm)
{
    runner_t run = {
        .params = params, .engine = engine, .executor = executor, .comm = comm};
    pl_status_t status = loop(&run);

    /* These were agreed on: all ranks are here.  Others wait for this one. */
    if ((status != PL_OK) && (status != PL_ERR_VIOLATION) &&
        (status != PL_ERR_DISAGREE) && (status != PL_ERR_PEER) &&
        (comm != NULL)) {
        pl_comm_fail(comm, status);
    }
    executor->ops->stop(executor);
    PL_ARRAY_FREE(&run.words);
    return status;
}

pl_status_t pl_runner_agree(const pl_runner_params_t *params,
                            pl_engine_t *engine, pl_executor_t *executor,
                            pl_comm_t *comm, pl_status_t mine, bool *more)
{
    runner_t run = {
        .params = params, .engine = engine, .executor = executor, .comm = comm};
    int32_t n          = 0;
    pl_status_t status = room_for(&run, 1, &n);

    if (status == PL_OK) {
        run.words.items[WORD_PLAN] = *more ? 1 : 0;
        status                     = agree_on_tick(&run, n, mine);
    }
    if (status == PL_OK) {
        *more = run.words.items[WORD_PLAN] != 0;
    }
    PL_ARRAY_FREE(&run.words);
    return status;
}
