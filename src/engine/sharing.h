/* engine/sharing.h - which prompt begins as an earlier one did.
 *
 * Two numbers a request say which page prefixes of a trace are the same: page p
 * of request r, and all before it, are those of request shared_with[r] if
 * p < shared_pages[r]; else nobody before r had them.  So each prefix has a
 * name: the first request that had it, and its length.
 */
#ifndef PL_ENGINE_SHARING_H
#define PL_ENGINE_SHARING_H

#include <stdint.h>

#include <pagelane/status.h>

#include "engine/engine.h"

/* shared_with[source->count]: the first request that began with the longest
 * prefix of whole pages that r shares with any request before it; -1: none.
 * shared_pages[source->count]: its length.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_sharing_find(const pl_engine_source_t *source,
                                          int32_t page_tokens,
                                          int32_t *shared_with,
                                          int32_t *shared_pages);

#endif /* PL_ENGINE_SHARING_H */
