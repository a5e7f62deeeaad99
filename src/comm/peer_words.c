#include "comm/peer_words.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "words of other processes");

/* ---- open, close ---- */

pl_status_t pl_peer_words_make(pl_peer_words_t *words, const pl_log_t *log,
                               pl_share_t *share_p)
{
    pl_shared_t shared;
    pl_peer_block_t *block;
    pl_status_t status;

    if (pl_shared_make(sizeof(*block), &shared) != PL_OK) {
        pl_log(log, PL_LOG_ERROR,
               "no memory to share with other ranks (%zu bytes): %s; use "
               "--comm mpi",
               sizeof(*block), strerror(errno));
        return PL_ERR_MEMORY;
    }
    block  = (pl_peer_block_t *)(void *)shared.base; /* zeroed */
    status = pl_shared_tell(&shared, block, log, share_p);
    if (status != PL_OK) {
        pl_shared_free(&shared);
        return status;
    }
    block->shared = shared;
    atomic_store(&block->n_users, 1);
    *words = (pl_peer_words_t){
        .block = block, .mapped = {.fd = -1}, .process = share_p->process};
    return PL_OK;
}

pl_status_t pl_peer_words_open(pl_peer_words_t *words, const pl_log_t *log,
                               const pl_share_t *share)
{
    pl_peer_words_t opened = {.mapped = {.fd = -1}, .process = share->process};
    void *block            = (void *)(uintptr_t)share->address;

    if (!pl_shared_is_here(share)) {
        PL_TRY(pl_shared_map(share, log, &opened.mapped, &block));
    } else {
        atomic_fetch_add(&((pl_peer_block_t *)block)->n_users, 1);
    }
    opened.block = block;
    *words       = opened;
    return PL_OK;
}

void pl_peer_words_close(pl_peer_words_t *words)
{
    pl_peer_block_t *block = words->block;

    if (block == NULL) {
        return;
    }
    words->block = NULL;
    if (words->mapped.base != NULL) {
        pl_shared_free(&words->mapped);
    } else if (atomic_fetch_sub(&block->n_users, 1) == 1) {
        pl_shared_t shared = block->shared; /* it lies in itself */

        pl_shared_free(&shared);
    }
}

/* ---- own ---- */

void pl_peer_words_raise(pl_peer_words_t *words, uint64_t trace)
{
    pl_peer_block_t *block = words->block;
    uint64_t n =
        atomic_load_explicit(&block->n_gathers, memory_order_relaxed) + 1;

    /* Release, both: who finds a later gather's trace here finds the count that
     * says so (agree, below). */
    atomic_store_explicit(&block->traces[n % PL_PEER_TRACES], trace,
                          memory_order_release);
    atomic_store_explicit(&block->n_gathers, n, memory_order_release);
}

void pl_peer_words_end(pl_peer_words_t *words, pl_peer_state_t state)
{
    int expected = PL_PEER_GOES_ON;

    (void)atomic_compare_exchange_strong(&words->block->state, &expected,
                                         (int)state);
}

/* ---- of others ---- */

bool pl_peer_words_agree(const pl_peer_words_t *words, uint64_t n,
                         uint64_t trace)
{
    const pl_peer_block_t *block = words->block;
    uint64_t found = atomic_load_explicit(&block->traces[n % PL_PEER_TRACES],
                                          memory_order_acquire);
    uint64_t now =
        atomic_load_explicit(&block->n_gathers, memory_order_acquire);

    /* At n + TRACES - 1 it may be writing over what was found. */
    return (found == trace) || (now - n >= PL_PEER_TRACES - 1);
}

bool pl_peer_words_live(const pl_peer_words_t *words)
{
    return (words->mapped.base == NULL) ||
           (kill((pid_t)words->process, 0) == 0) || (errno != ESRCH);
}
