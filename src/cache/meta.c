#include "cache/meta.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static pl_status_t meta_alloc(int32_t page_tokens, int32_t n_pages,
                              pl_meta_t *meta_p)
{
    pl_meta_t meta = {.page_tokens = page_tokens, .n_pages = n_pages};

    assert(n_pages > 0);
    meta.owners = malloc((size_t)n_pages * sizeof(*meta.owners));
    meta.pages  = malloc((size_t)n_pages * sizeof(*meta.pages));
    if ((meta.owners == NULL) || (meta.pages == NULL)) {
        free(meta.owners);
        free(meta.pages);
        return PL_ERR_MEMORY;
    }
    *meta_p = meta;
    return PL_OK;
}

pl_status_t pl_meta_make(int32_t page_tokens, int32_t n_pages,
                         const pl_owner_t *owners, const pl_page_t *pages,
                         pl_meta_t *meta_p)
{
    PL_TRY(meta_alloc(page_tokens, n_pages, meta_p));
    memcpy(meta_p->owners, owners, (size_t)n_pages * sizeof(*owners));
    memcpy(meta_p->pages, pages, (size_t)n_pages * sizeof(*pages));
    return PL_OK;
}

void pl_meta_clear(pl_meta_t *meta)
{
    free(meta->owners);
    free(meta->pages);
    *meta = (pl_meta_t){0};
}

/* What is wrong with page i, or NULL. */
static const char *page_fault(const pl_meta_t *meta, int32_t i, int n_lanes,
                              int32_t host_pages_per_lane, uint8_t *seen)
{
    pl_page_t page   = meta->pages[i];
    pl_owner_t owner = meta->owners[i];

    if ((owner < 0) || (owner >= n_lanes)) {
        return "its owner is no rank";
    }
    if ((page < 0) ||
        (page >= (int64_t)n_lanes * (int64_t)host_pages_per_lane)) {
        return "its host page is out of range";
    }
    if (pl_page_owner(page, n_lanes) != owner) {
        return "its host page lies in another rank's lane";
    }
    if ((seen[page / 8] & (1u << (page % 8))) != 0) {
        return "its host page stands in the copy twice";
    }
    seen[page / 8] |= (uint8_t)(1u << (page % 8));
    return NULL;
}

pl_status_t pl_meta_validate(const pl_meta_t *meta, int n_lanes,
                             int32_t host_pages_per_lane, int32_t page_tokens,
                             const pl_log_t *log)
{
    size_t n_host = (size_t)n_lanes * (size_t)host_pages_per_lane;
    uint8_t *seen;
    pl_status_t status = PL_OK;

    if (meta->page_tokens != page_tokens) {
        pl_log(log, PL_LOG_ERROR,
               "host copy: pages of %" PRId32 " tokens; expected %" PRId32,
               meta->page_tokens, page_tokens);
        return PL_ERR_INTERNAL;
    }
    seen = calloc(n_host / 8 + 1, 1);
    if (seen == NULL) {
        pl_log(log, PL_LOG_ERROR, "host copy: no memory to check it");
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < meta->n_pages; i++) {
        const char *fault =
            page_fault(meta, i, n_lanes, host_pages_per_lane, seen);

        if (fault != NULL) {
            pl_log(log, PL_LOG_ERROR,
                   "host copy: page %" PRId32 " of %" PRId32 " (owner %d, host "
                   "page %" PRId32 "): %s",
                   i, meta->n_pages, meta->owners[i], meta->pages[i], fault);
            status = PL_ERR_INTERNAL;
            break;
        }
    }
    free(seen);
    return status;
}

/* Keep the last n_rest pages, in less memory if realloc will. */
static void keep_rest(pl_meta_t *meta, int32_t n_rest)
{
    size_t n     = (size_t)n_rest;
    size_t first = (size_t)(meta->n_pages - n_rest);
    void *less;

    memmove(meta->owners, meta->owners + first, n * sizeof(*meta->owners));
    memmove(meta->pages, meta->pages + first, n * sizeof(*meta->pages));
    meta->n_pages = n_rest;
    less          = realloc(meta->owners, n * sizeof(*meta->owners));
    meta->owners  = less != NULL ? less : meta->owners;
    less          = realloc(meta->pages, n * sizeof(*meta->pages));
    meta->pages   = less != NULL ? less : meta->pages;
}

pl_status_t pl_meta_split(pl_meta_t *meta, int64_t at_tokens,
                          const pl_log_t *log, pl_meta_t *head_p)
{
    int64_t n_head = at_tokens / meta->page_tokens;

    if ((at_tokens % meta->page_tokens != 0) || (n_head < 1) ||
        (n_head >= meta->n_pages)) {
        pl_log(log, PL_LOG_ERROR,
               "host copy of %" PRId32 " pages of %" PRId32
               " tokens: split after %" PRId64
               " tokens; a split is a multiple of the page size with a page on "
               "each side",
               meta->n_pages, meta->page_tokens, at_tokens);
        return PL_ERR_INTERNAL;
    }
    PL_TRY(pl_meta_make(meta->page_tokens, (int32_t)n_head, meta->owners,
                        meta->pages, head_p));
    keep_rest(meta, meta->n_pages - (int32_t)n_head);
    return PL_OK;
}

int32_t pl_meta_owned(const pl_meta_t *meta, int rank, int n_lanes,
                      int32_t *positions, int32_t *slots)
{
    int32_t n = 0;

    for (int32_t i = 0; i < meta->n_pages; i++) {
        if (meta->owners[i] == rank) {
            positions[n] = i;
            slots[n]     = pl_page_slot(meta->pages[i], n_lanes);
            n++;
        }
    }
    return n;
}
