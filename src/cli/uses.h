/* cli/uses.h - who used which pages of prompts when; what inspect why counts.
 *
 * A prompt page is known by its prefix (engine/sharing.h): equal keys mean
 * equal pages with equal pages before them.  A use is one admission of a
 * prompt: from then until its transfer to decode has ended, all its pages are
 * in use.
 */
#ifndef PL_CLI_USES_H
#define PL_CLI_USES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "base/array.h"
#include "cli/events.h"
#include "engine/engine.h"

#define PL_NO_EVENT SIZE_MAX

/* Prefixes; read from /requests. */
typedef struct pl_sharing {
    size_t n;
    pl_snapshot_column_t with, pages;
} pl_sharing_t;

/* PL_ERR_INPUT with one line if the file does not say it. */
PL_MUST_CHECK pl_status_t pl_sharing_load(const pl_snapshot_t *snapshot,
                                          const pl_record_t *records, int32_t n,
                                          int32_t page_tokens,
                                          pl_sharing_t *sharing);
void pl_sharing_free(pl_sharing_t *sharing);

/* The name of page p of a request, and of all before it; -1 for a request that
 * is none. */
int64_t pl_sharing_key(const pl_sharing_t *sharing, int64_t request,
                       int64_t page);
static inline int64_t pl_key_page(int64_t key)
{
    return key & INT32_MAX;
}

/* Pages that two prompts begin with alike, at most `most`. */
int64_t pl_sharing_common(const pl_sharing_t *sharing, int64_t a, int64_t b,
                          int64_t most);

/* A page that a use took up, in some lane of the device tier. */
typedef struct pl_touch {
    int64_t page; /* of the prompt */
    int32_t lane;
    size_t event; /* when; of a hit the admission */
    size_t next;  /* of the same use; PL_NO_EVENT: the last */
} pl_touch_t;

typedef struct pl_use {
    int64_t request;
    size_t begin, end; /* events; end PL_NO_EVENT: not ended */
    int64_t hit_pages, prompt_tokens;
    size_t first; /* touch */
} pl_use_t;

typedef struct pl_uses {
    PL_ARRAY(pl_use_t) uses; /* in order of begin */
    PL_ARRAY(pl_touch_t) touches;
} pl_uses_t;

/* PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_uses_find(const pl_events_t *events,
                                       const pl_record_t *records, int32_t n,
                                       int32_t page_tokens, int32_t n_lanes,
                                       pl_uses_t *uses);
void pl_uses_free(pl_uses_t *uses);

#endif /* PL_CLI_USES_H */
