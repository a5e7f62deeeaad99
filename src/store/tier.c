#include "store/tier.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/tier_folder.h"
#include "store/tier_internal.h"

static pl_tier_t *tier_of(pl_storage_door_t *door)
{
    return (pl_tier_t *)door; /* its first member */
}

bool pl_tier_hits(pl_tier_t *tier, pl_inject_point_t point)
{
    return pl_inject_hit(&tier->inject, point, tier->params.rank, INT64_MAX);
}

void pl_tier_give_up(pl_tier_t *tier, const char *why)
{
    if (!atomic_exchange(&tier->can_write, false)) {
        return;
    }
    tier->said = pl_tier_speak_first(tier->folder);
    if (tier->said != -1) {
        pl_log(
            tier->params.log, PL_LOG_WARN,
            "storage %s, rank %d: %s; nothing more is stored from here, what "
            "is there can be read",
            tier->folder, tier->params.rank, why);
    }
}

/* ---- the worker ---- */

static void work(pl_tier_t *tier, pl_tier_job_t *first,
                 const pl_tier_job_t *end)
{
    if (first->kind == PL_TIER_WRITE) {
        pl_tier_write_jobs(tier, first, end);
    } else if (first->kind == PL_TIER_READ) {
        pl_tier_read_job(tier, first);
    } else {
        pl_tier_publish_job(tier, first);
    }
}

/* The jobs that are done together: writes in a row, else one.  Taken off the
 * queue; *end_p: the job behind them. */
static pl_tier_job_t *take_jobs(pl_tier_t *tier, pl_tier_job_t **end_p)
{
    pl_tier_job_t *first = tier->first;
    pl_tier_job_t *end   = first->next;

    while ((first->kind == PL_TIER_WRITE) && (end != NULL) &&
           (end->kind == PL_TIER_WRITE)) {
        end = end->next;
    }
    tier->first = end;
    if (end == NULL) {
        tier->last = NULL;
    }
    *end_p = end;
    return first;
}

static void *run(void *context)
{
    pl_tier_t *tier = context;

    (void)pthread_mutex_lock(&tier->mutex);
    for (;;) {
        pl_tier_job_t *first, *end;

        while ((tier->first == NULL) && !tier->is_closing) {
            (void)pthread_cond_wait(&tier->changed, &tier->mutex);
        }
        if (tier->first == NULL) {
            break;
        }
        first = take_jobs(tier, &end);
        (void)pthread_mutex_unlock(&tier->mutex);
        work(tier, first, end);
        (void)pthread_mutex_lock(&tier->mutex);
        while (first != end) {
            pl_tier_job_t *next = first->next;

            first->is_done = true; /* now it may be gone */
            first          = next;
        }
        (void)pthread_cond_broadcast(&tier->changed);
    }
    (void)pthread_mutex_unlock(&tier->mutex);
    return NULL;
}

/* ---- jobs ---- */

static void free_job(pl_tier_job_t *job)
{
    if (job != NULL) {
        if (job->kind == PL_TIER_WRITE) {
            free(job->headers);
        }
        free(job->places);
        free(job->pieces);
        pl_tier_index_free(&job->index);
        free(job);
    }
}

static void *copy_of(const void *from, size_t n, size_t item_bytes)
{
    void *copy = malloc(n > 0 ? n * item_bytes : 1);

    if ((copy != NULL) && (n > 0)) {
        memcpy(copy, from, n * item_bytes);
    }
    return copy;
}

static pl_tier_job_t *make_job(pl_tier_job_kind_t kind,
                               const pl_storage_io_t *io)
{
    pl_tier_job_t *job = calloc(1, sizeof(*job));
    size_t n           = (size_t)io->n_pages;

    if (job == NULL) {
        return NULL;
    }
    job->kind   = kind;
    job->io     = *io;
    job->places = copy_of(io->places, n, sizeof(*io->places));
    job->pieces =
        copy_of(io->pieces, n * (size_t)io->n_pieces, sizeof(*io->pieces));
    job->headers = kind == PL_TIER_WRITE
                       ? copy_of(io->headers, n, sizeof(*io->headers))
                       : io->headers;
    if ((job->places == NULL) || (job->pieces == NULL) ||
        ((kind == PL_TIER_WRITE) && (job->headers == NULL))) {
        free_job(job);
        return NULL;
    }
    return job;
}

/* Takes the job over. */
static pl_status_t enqueue(pl_tier_t *tier, pl_tier_job_t *job,
                           int64_t *ticket_p)
{
    pl_status_t status;

    (void)pthread_mutex_lock(&tier->mutex);
    status = PL_ARRAY_PUSH(&tier->jobs, job);
    if (status == PL_OK) {
        job->ticket = tier->next_ticket++;
        if (tier->last == NULL) {
            tier->first = job;
        } else {
            tier->last->next = job;
        }
        tier->last = job;
        *ticket_p  = job->ticket;
        (void)pthread_cond_broadcast(&tier->changed);
    }
    (void)pthread_mutex_unlock(&tier->mutex);
    if (status != PL_OK) {
        free_job(job);
    }
    return status;
}

static pl_status_t no_memory(const pl_tier_t *tier)
{
    pl_log(tier->params.log, PL_LOG_ERROR, "storage %s: out of memory",
           tier->folder);
    return PL_ERR_MEMORY;
}

static pl_status_t start(pl_tier_t *tier, pl_tier_job_kind_t kind,
                         const pl_storage_io_t *io, int64_t *ticket_p)
{
    pl_tier_job_t *job = make_job(kind, io);

    if (job == NULL) {
        return no_memory(tier);
    }
    return enqueue(tier, job, ticket_p) == PL_OK ? PL_OK : no_memory(tier);
}

/* ---- the door ---- */

static bool can_write(pl_storage_door_t *door)
{
    return atomic_load(&tier_of(door)->can_write);
}

static pl_status_t write_pages(pl_storage_door_t *door,
                               const pl_storage_io_t *io, int64_t *ticket_p)
{
    return start(tier_of(door), PL_TIER_WRITE, io, ticket_p);
}

static pl_status_t read_pages(pl_storage_door_t *door,
                              const pl_storage_io_t *io, int64_t *ticket_p)
{
    assert(io->n_pages <= PL_STORAGE_READ_PAGES);
    return start(tier_of(door), PL_TIER_READ, io, ticket_p);
}

static pl_status_t publish(pl_storage_door_t *door, const pl_storage_t *storage,
                           const pl_storage_run_t *run_info, int64_t *ticket_p)
{
    pl_tier_t *tier    = tier_of(door);
    pl_tier_job_t *job = calloc(1, sizeof(*job));
    pl_status_t status;

    if (job == NULL) {
        return no_memory(tier);
    }
    job->kind = PL_TIER_PUBLISH;
    status    = pl_tier_copy_directory(tier, storage, run_info, &job->index);
    if (status != PL_OK) {
        free_job(job);
        return status;
    }
    return enqueue(tier, job, ticket_p) == PL_OK ? PL_OK : no_memory(tier);
}

static pl_status_t wait_for(pl_storage_door_t *door, int64_t ticket,
                            pl_storage_end_t *end_p)
{
    pl_tier_t *tier    = tier_of(door);
    pl_tier_job_t *job = NULL;
    size_t i           = 0;

    (void)pthread_mutex_lock(&tier->mutex);
    while ((i < tier->jobs.n) && (tier->jobs.items[i]->ticket != ticket)) {
        i++;
    }
    assert(i < tier->jobs.n);
    job = tier->jobs.items[i];
    while (!job->is_done) {
        (void)pthread_cond_wait(&tier->changed, &tier->mutex);
    }
    memmove(&tier->jobs.items[i], &tier->jobs.items[i + 1],
            (tier->jobs.n - i - 1) * sizeof(*tier->jobs.items));
    tier->jobs.n--;
    (void)pthread_mutex_unlock(&tier->mutex);
    *end_p = (pl_storage_end_t){.bad = job->bad, .unread = job->unread};
    free_job(job);
    return PL_OK;
}

/* What is there, whether the thread runs or not. */
static void free_tier(pl_tier_t *tier)
{
    for (size_t i = 0; i < tier->jobs.n; i++) {
        free_job(tier->jobs.items[i]);
    }
    PL_ARRAY_FREE(&tier->jobs);
    pl_tier_close_handles(tier);
    pl_segment_mould_free(&tier->moulds[0]);
    pl_segment_mould_free(&tier->moulds[1]);
    PL_ARRAY_FREE(&tier->list);
    PL_ARRAY_FREE(&tier->sets);
    pl_tier_index_free(&tier->self);
    (void)pthread_cond_destroy(&tier->changed);
    (void)pthread_mutex_destroy(&tier->mutex);
    if (tier->lock >= 0) {
        (void)close(tier->lock);
    }
    if (tier->said >= 0) {
        (void)close(tier->said);
    }
    free(tier->folder);
    free(tier);
}

static void close_door(pl_storage_door_t *door)
{
    pl_tier_t *tier = tier_of(door);

    (void)pthread_mutex_lock(&tier->mutex);
    tier->is_closing = true;
    (void)pthread_cond_broadcast(&tier->changed);
    (void)pthread_mutex_unlock(&tier->mutex);
    (void)pthread_join(tier->thread, NULL);
    free_tier(tier);
}

static const pl_storage_door_ops_t OPS = {
    .can_write = can_write,
    .write     = write_pages,
    .read      = read_pages,
    .publish   = publish,
    .wait      = wait_for,
    .close     = close_door,
};

static pl_status_t fill(pl_tier_t *tier, const pl_tier_params_t *params)
{
    tier->door.ops      = &OPS;
    tier->params        = *params;
    tier->next_ticket   = 1;
    tier->said          = -1;
    tier->segment_slots = pl_segment_slots(params->identity.page_bytes);
    tier->lock   = params->read_only ? -1 : pl_tier_share(params->folder);
    tier->folder = strdup(params->folder);
    tier->params.folder = tier->folder;
    if ((tier->folder == NULL) ||
        (pl_tier_index_identify(&tier->self, &params->identity) != PL_OK)) {
        return PL_ERR_MEMORY;
    }
    tier->params.identity = pl_tier_index_identity(&tier->self);
    tier->identity        = pl_tier_identity_hash(&tier->params.identity);
    if (params->inject != NULL) {
        tier->inject = *params->inject;
    }
    atomic_init(&tier->can_write, !params->read_only);
    return params->read_only ? PL_OK : pl_tier_load_sets(tier);
}

pl_status_t pl_tier_open(const pl_tier_params_t *params,
                         pl_storage_door_t **door_p)
{
    pl_tier_t *tier = calloc(1, sizeof(*tier));

    if (tier == NULL) {
        pl_log(params->log, PL_LOG_ERROR, "storage %s: out of memory",
               params->folder);
        return PL_ERR_MEMORY;
    }
    (void)pthread_mutex_init(&tier->mutex, NULL);
    (void)pthread_cond_init(&tier->changed, NULL);
    if (fill(tier, params) != PL_OK) {
        free_tier(tier);
        pl_log(params->log, PL_LOG_ERROR, "storage %s: out of memory",
               params->folder);
        return PL_ERR_MEMORY;
    }
    if (pthread_create(&tier->thread, NULL, run, tier) != 0) {
        free_tier(tier);
        pl_log(params->log, PL_LOG_ERROR, "storage %s: no thread can be had",
               params->folder);
        return PL_ERR_RESOURCE;
    }
    *door_p = &tier->door;
    return PL_OK;
}
