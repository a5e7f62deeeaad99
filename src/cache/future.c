#include "cache/future.h"

#include <stdlib.h>

#include "base/array.h"
#include "cache/tree.h"

/* A page of a request. */
typedef struct use {
    uint64_t chain;
    uint32_t request;
} use_t;

struct pl_future {
    const pl_log_t *log;
    int32_t n_requests;
    PL_ARRAY(use_t) uses; /* when sealed, by (chain, request) */
};

pl_status_t pl_future_open(int32_t n_requests, const pl_log_t *log,
                           pl_future_t **future_p)
{
    pl_future_t *future = calloc(1, sizeof(*future));

    if (future == NULL) {
        pl_log(log, PL_LOG_ERROR, "cache: no memory for what will be read");
        return PL_ERR_MEMORY;
    }
    future->log        = log;
    future->n_requests = n_requests;
    *future_p          = future;
    return PL_OK;
}

void pl_future_close(pl_future_t *future)
{
    if (future != NULL) {
        PL_ARRAY_FREE(&future->uses);
        free(future);
    }
}

pl_status_t pl_future_add(pl_future_t *future, int32_t request,
                          uint64_t name_space, const pl_page_key_t *keys,
                          int32_t n)
{
    uint64_t chain = pl_tree_chain_start(name_space);

    if (PL_ARRAY_RESERVE(&future->uses, future->uses.n + (size_t)n) != PL_OK) {
        pl_log(future->log, PL_LOG_ERROR,
               "cache: no memory for what will be read; take another policy "
               "with --evict, or fewer requests");
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < n; i++) {
        chain = pl_tree_chain_next(chain, keys[i]);
        future->uses.items[future->uses.n++] =
            (use_t){chain, (uint32_t)request};
    }
    return PL_OK;
}

static int compare(uint64_t chain_a, uint32_t request_a, uint64_t chain_b,
                   uint32_t request_b)
{
    if (chain_a != chain_b) {
        return chain_a < chain_b ? -1 : 1;
    }
    return (request_a > request_b) - (request_a < request_b);
}

static int compare_uses(const void *a, const void *b)
{
    const use_t *x = a;
    const use_t *y = b;

    return compare(x->chain, x->request, y->chain, y->request);
}

void pl_future_seal(pl_future_t *future)
{
    if (future->uses.n > 0) {
        qsort(future->uses.items, future->uses.n, sizeof(*future->uses.items),
              compare_uses);
    }
}

uint32_t pl_future_next(const pl_future_t *future, uint64_t chain, int32_t from)
{
    size_t low  = 0;
    size_t high = future->uses.n;

    while (low < high) {
        size_t mid       = low + (high - low) / 2;
        const use_t *use = &future->uses.items[mid];

        if (compare(use->chain, use->request, chain, (uint32_t)from) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return (low < future->uses.n) && (future->uses.items[low].chain == chain)
               ? future->uses.items[low].request
               : PL_FUTURE_NEVER;
}

int32_t pl_future_n_requests(const pl_future_t *future)
{
    return future->n_requests;
}
