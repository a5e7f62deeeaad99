/* cache/future.h - which requests will read a page: what belady knows.
 *
 * A page is known by its chain hash (pl_tree_chain_next), so by all that lies
 * before it.  Only where the whole trace is known beforehand.
 */
#ifndef PL_CACHE_FUTURE_H
#define PL_CACHE_FUTURE_H

#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>
#include <pagelane/trace.h>

typedef struct pl_future pl_future_t; /* opaque */

#define PL_FUTURE_NEVER UINT32_MAX

/* For requests 0 .. n_requests - 1, in the order in which they are expected. */
PL_MUST_CHECK pl_status_t pl_future_open(int32_t n_requests,
                                         const pl_log_t *log,
                                         pl_future_t **future_p);
void pl_future_close(pl_future_t *future); /* NULL is allowed */

/* Request `request` can hit keys[0 .. n-1].  Requests ascend. */
PL_MUST_CHECK pl_status_t pl_future_add(pl_future_t *future, int32_t request,
                                        uint64_t name_space,
                                        const pl_page_key_t *keys, int32_t n);
/* All are in: from now on it can be asked. */
void pl_future_seal(pl_future_t *future);

/* The first request from `from` on that reads the page, or PL_FUTURE_NEVER. */
uint32_t pl_future_next(const pl_future_t *future, uint64_t chain,
                        int32_t from);
int32_t pl_future_n_requests(const pl_future_t *future);

#endif /* PL_CACHE_FUTURE_H */
