#include "fake_nccl.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct pl_nccl {
    int rank, n;
    bool is_aborted;
    double timeout_s;
};

static fake_nccl_t *the_fake;

void fake_nccl_open(fake_nccl_t *fake)
{
    memset(fake, 0, sizeof(*fake));
    fake->same_gpu[0] = FAKE_NOBODY;
    fake->same_gpu[1] = FAKE_NOBODY;
    fake->no_open     = FAKE_NOBODY;
    fake->no_gather   = FAKE_NOBODY;
    pthread_mutex_init(&fake->mutex, NULL);
    pthread_cond_init(&fake->wake, NULL);
    the_fake = fake;
}

void fake_nccl_close(void)
{
    pthread_cond_destroy(&the_fake->wake);
    pthread_mutex_destroy(&the_fake->mutex);
    the_fake = NULL;
}

static void count(int *n)
{
    pthread_mutex_lock(&the_fake->mutex);
    ++*n;
    pthread_mutex_unlock(&the_fake->mutex);
}

/* All n ranks, or an end. */
static pl_status_t meet(const pl_nccl_t *nccl)
{
    struct timespec end;
    uint64_t meeting;
    int error = 0;

    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)nccl->timeout_s + 1;
    pthread_mutex_lock(&the_fake->mutex);
    meeting = the_fake->n_meetings;
    if (++the_fake->n_here == nccl->n) {
        the_fake->n_here = 0;
        the_fake->n_meetings++;
        pthread_cond_broadcast(&the_fake->wake);
    }
    while ((the_fake->n_meetings == meeting) && (error == 0)) {
        error = pthread_cond_timedwait(&the_fake->wake, &the_fake->mutex, &end);
    }
    pthread_mutex_unlock(&the_fake->mutex);
    return error == 0 ? PL_OK : PL_ERR_COMM;
}

static pl_status_t fake_make_id(const pl_log_t *log, uint8_t *id)
{
    if (the_fake->no_library) {
        pl_log(log, PL_LOG_ERROR, "nccl: no library");
        return PL_ERR_DEVICE;
    }
    memset(id, 0x5A, PL_NCCL_ID_BYTES);
    return PL_OK;
}

static pl_status_t fake_open(pl_device_t *device, const uint8_t *id, int rank,
                             int n, double timeout_s, pl_nccl_t **nccl_p)
{
    pl_nccl_t *nccl;

    if (rank == the_fake->no_open) {
        pl_log(device->log, PL_LOG_ERROR, "nccl: rank %d cannot", rank);
        return PL_ERR_COMM;
    }
    for (int i = 0; i < PL_NCCL_ID_BYTES; i++) {
        if (id[i] != 0x5A) { /* all have that of rank 0 */
            return PL_ERR_ARGUMENT;
        }
    }
    nccl            = calloc(1, sizeof(*nccl));
    nccl->rank      = rank;
    nccl->n         = n;
    nccl->timeout_s = timeout_s;
    count(&the_fake->n_opened);
    *nccl_p = nccl;
    return PL_OK;
}

static pl_status_t fake_gather(pl_nccl_t *nccl, const pl_nccl_gather_t *gather)
{
    int me        = nccl->rank;
    size_t stride = gather->stride;
    uint8_t *own  = gather->view + (size_t)gather->first[me] * stride;

    count(&the_fake->n_gathers);
    if (me == the_fake->no_gather) {
        return PL_ERR_COMM;
    }
    for (int32_t i = 0; i < gather->counts[me]; i++) {
        memcpy(own + (size_t)i * stride,
               gather->store +
                   (size_t)pl_page_slot(gather->pages[i], nccl->n) * stride,
               stride);
    }
    the_fake->sends[me] = own;
    PL_TRY(meet(nccl));
    for (int from = 0; from < nccl->n; from++) {
        if ((from != me) && (gather->counts[from] > 0)) {
            memcpy(gather->view + (size_t)gather->first[from] * stride,
                   the_fake->sends[from],
                   (size_t)gather->counts[from] * stride);
        }
    }
    return meet(nccl);
}

static pl_status_t fake_all_gather(pl_nccl_t *nccl, const void *mine, void *all,
                                   size_t bytes)
{
    the_fake->sends[nccl->rank] = mine;
    PL_TRY(meet(nccl));
    for (int from = 0; from < nccl->n; from++) {
        memcpy((uint8_t *)all + (size_t)from * bytes, the_fake->sends[from],
               bytes);
    }
    return meet(nccl);
}

static pl_status_t fake_look(pl_nccl_t *nccl)
{
    return nccl->is_aborted || the_fake->is_ill ? PL_ERR_COMM : PL_OK;
}

static void fake_abort(pl_nccl_t *nccl)
{
    nccl->is_aborted = true;
    count(&the_fake->n_aborted);
}

static void fake_close(pl_nccl_t *nccl)
{
    if (nccl != NULL) {
        count(&the_fake->n_closed);
        free(nccl);
    }
}

static void fake_gpu_id(const pl_device_t *device, uint8_t id[16])
{
    memset(id, 0, 16);
    for (int rank = 0; (rank < FAKE_RANKS) && !the_fake->gpus_unknown; rank++) {
        if (the_fake->devices[rank] == device) {
            id[15] = (uint8_t)(rank == the_fake->same_gpu[1]
                                   ? 1 + the_fake->same_gpu[0]
                                   : 1 + rank);
        }
    }
}

const pl_nccl_ops_t FAKE_NCCL = {.make_id    = fake_make_id,
                                 .open       = fake_open,
                                 .gather     = fake_gather,
                                 .look       = fake_look,
                                 .abort      = fake_abort,
                                 .close      = fake_close,
                                 .gpu_id     = fake_gpu_id,
                                 .all_gather = fake_all_gather};
