/* Start, join and clean up virtual ranks. */
#include <stdlib.h>
#include <string.h>

#include "comm/local.h"

typedef struct thread {
    pthread_t id;
    pl_local_t local;
    pl_comm_body_t body;
    void *context;
    pl_status_t status;
} thread_t;

static void *run_thread(void *argument)
{
    thread_t *thread    = argument;
    pl_comm_t *comm     = &thread->local.comm;
    pl_local_hub_t *hub = thread->local.hub;

    thread->status = thread->body(thread->context, comm);
    pthread_mutex_lock(&hub->mutex);
    hub->ended[comm->rank] = true;
    if (thread->status != PL_OK) {
        pl_local_break(hub, PL_ERR_PEER);
    }
    for (int rank = 0; rank < hub->n_ranks; rank++) {
        pthread_cond_signal(&hub->wake[rank]);
    }
    pthread_mutex_unlock(&hub->mutex);
    return NULL;
}

/* ---- hub ---- */

static pl_status_t wake_open(pl_local_hub_t *hub)
{
    pthread_condattr_t attr;
    bool good = pthread_condattr_init(&attr) == 0;

    if (!good) {
        return PL_ERR_MEMORY;
    }
    good = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0;
    while (good && (hub->n_wake < hub->n_ranks)) {
        good = pthread_cond_init(&hub->wake[hub->n_wake], &attr) == 0;
        hub->n_wake += good ? 1 : 0;
    }
    pthread_condattr_destroy(&attr);
    return good ? PL_OK : PL_ERR_MEMORY;
}

static void hub_close(pl_local_hub_t *hub)
{
    size_t n_boxes = (size_t)hub->n_ranks * (size_t)hub->n_ranks;

    for (size_t box = 0; (hub->mailboxes != NULL) && (box < n_boxes); box++) {
        for (size_t i = 0; i < hub->mailboxes[box].n; i++) {
            free(hub->mailboxes[box].items[i].bytes);
        }
        PL_ARRAY_FREE(&hub->mailboxes[box]);
    }
    for (int i = 0; i < 2; i++) {
        PL_ARRAY_FREE(&hub->all.slots[i].words);
        PL_ARRAY_FREE(&hub->prefill.slots[i].words);
    }
    free(hub->mailboxes);
    free(hub->ranks);
    free(hub->all.here);
    free(hub->prefill.here);
    free(hub->ended);
    while (hub->n_wake > 0) {
        pthread_cond_destroy(&hub->wake[--hub->n_wake]);
    }
    free(hub->wake);
    pthread_mutex_destroy(&hub->mutex);
}

/* On failure the hub may be closed all the same. */
static pl_status_t hub_open(pl_local_hub_t *hub, int n_ranks, int n_prefill)
{
    size_t n = (size_t)n_ranks;

    memset(hub, 0, sizeof(*hub));
    hub->n_ranks      = n_ranks;
    hub->n_prefill    = n_prefill;
    hub->all.n        = n_ranks;
    hub->prefill.n    = n_prefill;
    hub->wake         = calloc(n, sizeof(*hub->wake));
    hub->ended        = calloc(n, sizeof(*hub->ended));
    hub->all.here     = calloc(n, sizeof(*hub->all.here));
    hub->prefill.here = calloc(n, sizeof(*hub->prefill.here));
    hub->mailboxes    = calloc(n * n, sizeof(*hub->mailboxes));
    hub->ranks        = calloc(n, sizeof(*hub->ranks));
    if ((pthread_mutex_init(&hub->mutex, NULL) != 0) || (hub->wake == NULL) ||
        (hub->ended == NULL) || (hub->all.here == NULL) ||
        (hub->prefill.here == NULL) || (hub->mailboxes == NULL) ||
        (hub->ranks == NULL)) {
        return PL_ERR_MEMORY;
    }
    return wake_open(hub);
}

/* ---- threads ---- */

static pl_status_t no_memory(const pl_log_t *log, int n_ranks)
{
    pl_log(log, PL_LOG_ERROR, "no memory for %d virtual ranks", n_ranks);
    return PL_ERR_MEMORY;
}

static pl_status_t threads_open(thread_t *threads, pl_local_hub_t *hub,
                                double timeout_s, const pl_log_t *log)
{
    size_t n_peers = (size_t)hub->n_prefill * PL_COMM_REGIONS;
    bool good      = true;

    for (int rank = 0; rank < hub->n_ranks; rank++) {
        pl_local_t *local = &threads[rank].local;

        pl_local_open(local, hub, rank, timeout_s, log);
        local->peers = calloc(n_peers, sizeof(*local->peers));
        good         = good && (local->peers != NULL);
    }
    return good ? PL_OK : no_memory(log, hub->n_ranks);
}

/* Start all, or end those that were started; returns after the last one. */
static pl_status_t threads_run(thread_t *threads, pl_local_hub_t *hub,
                               const pl_log_t *log)
{
    int n_started = 0;
    int error     = 0;

    while ((n_started < hub->n_ranks) && (error == 0)) {
        error = pthread_create(&threads[n_started].id, NULL, run_thread,
                               &threads[n_started]);
        n_started += (error == 0);
    }
    if (error != 0) {
        pl_log(log, PL_LOG_ERROR,
               "cannot start virtual rank %d of %d: %s; use fewer ranks",
               n_started, hub->n_ranks, strerror(error));
        pthread_mutex_lock(&hub->mutex);
        pl_local_break(hub, PL_ERR_PEER);
        pthread_mutex_unlock(&hub->mutex);
    }
    for (int rank = 0; rank < n_started; rank++) {
        pthread_join(threads[rank].id, NULL);
    }
    return error == 0 ? PL_OK : PL_ERR_RESOURCE;
}

static pl_status_t worst(const thread_t *threads, int n)
{
    pl_status_t status = PL_OK;

    for (int rank = n - 1; rank >= 0; rank--) {
        pl_status_t mine = threads[rank].status;

        if ((mine != PL_OK) && ((mine != PL_ERR_PEER) || (status == PL_OK))) {
            status = mine;
        }
    }
    return status;
}

pl_status_t pl_comm_run_local(int n_ranks, int n_prefill, double timeout_s,
                              const pl_log_t *log, pl_comm_body_t body,
                              void *context)
{
    pl_local_hub_t hub;
    thread_t *threads;
    pl_status_t status;

    PL_TRY(pl_comm_check(n_ranks, n_prefill, timeout_s, log));
    threads = calloc((size_t)n_ranks, sizeof(*threads));
    status  = hub_open(&hub, n_ranks, n_prefill);
    if ((threads == NULL) || (status != PL_OK)) {
        status = no_memory(log, n_ranks);
        goto err_close_hub;
    }
    for (int rank = 0; rank < n_ranks; rank++) {
        threads[rank].body    = body;
        threads[rank].context = context;
    }
    PL_TRY_GOTO(status, threads_open(threads, &hub, timeout_s, log),
                err_close_threads);
    status = threads_run(threads, &hub, log);
    if (status == PL_OK) {
        status = worst(threads, n_ranks);
    }

err_close_threads:
    for (int rank = 0; rank < n_ranks; rank++) {
        pl_comm_close(&threads[rank].local.comm);
    }
err_close_hub:
    hub_close(&hub);
    free(threads);
    return status;
}
