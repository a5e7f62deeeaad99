/* What a folder holds, for a run that begins. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/text.h"
#include "store/last_line.h"
#include "store/tier_folder.h"
#include "store/tier_index.h"

void pl_tier_identity_layout(pl_tier_identity_t *identity,
                             const pl_store_layout_t *layout)
{
    uint64_t h = (uint64_t)layout->page_tokens;

    h = pl_fold64(h, (uint64_t)layout->n_layers);
    h = pl_fold64(h, (uint64_t)layout->latent_row_bytes);
    h = pl_fold64(h, (uint64_t)layout->index_key_bytes);
    h = pl_fold64(h, (uint64_t)layout->index_scale_bytes);
    for (int32_t i = 0; i < layout->n_layers; i++) {
        h = pl_fold64(h, pl_store_has(layout, PL_STORE_INDEX, i) ? 1 : 0);
    }
    identity->page_tokens       = layout->page_tokens;
    identity->n_layers          = layout->n_layers;
    identity->page_bytes        = (int64_t)pl_store_page_bytes(layout);
    identity->layout            = h;
    identity->latent_row_bytes  = layout->latent_row_bytes;
    identity->index_key_bytes   = layout->index_key_bytes;
    identity->index_scale_bytes = layout->index_scale_bytes;
    identity->has_index         = layout->has_index;
}

/* ---- does it fit? ---- */

/* Why pages of `theirs` are no use to `ours`; false: they are. */
static bool differs(const pl_tier_identity_t *theirs,
                    const pl_tier_identity_t *ours, pl_text_t *why)
{
    static const char NONE[] = "none can be used";

    if (strcmp(theirs->model, ours->model) != 0) {
        pl_text_add(why, "its pages are of model %s, this run's of %s: %s",
                    theirs->model, ours->model, NONE);
    } else if (strcmp(theirs->dtype, ours->dtype) != 0) {
        pl_text_add(why, "its pages are %s, this run's are %s: %s",
                    theirs->dtype, ours->dtype, NONE);
    } else if (theirs->page_tokens != ours->page_tokens) {
        pl_text_add(why,
                    "its pages have %" PRId32 " tokens, this run's %" PRId32
                    ": %s",
                    theirs->page_tokens, ours->page_tokens, NONE);
    } else if (theirs->n_layers != ours->n_layers) {
        pl_text_add(why,
                    "its pages have %" PRId32 " layers, this run's %" PRId32
                    ": %s",
                    theirs->n_layers, ours->n_layers, NONE);
    } else if ((theirs->layout != ours->layout) ||
               (theirs->page_bytes != ours->page_bytes)) {
        pl_text_add(why,
                    "its pages are laid out otherwise (%" PRId64
                    " bytes, this run's %" PRId64 "): %s",
                    theirs->page_bytes, ours->page_bytes, NONE);
    } else if (strcmp(theirs->tokens, ours->tokens) != 0) {
        pl_text_add(why,
                    "its pages are named by other tokens (%s, this run's by "
                    "%s): %s",
                    theirs->tokens, ours->tokens, NONE);
    }
    return why->n > 0;
}

static pl_status_t give_reason(pl_tier_content_t *content, pl_text_t *why,
                               const pl_log_t *log)
{
    if (pl_text_take(why, &content->owned) != PL_OK) {
        pl_log(log, PL_LOG_ERROR, "storage: out of memory");
        return PL_ERR_MEMORY;
    }
    content->mismatch = content->owned;
    return PL_OK;
}

/* ---- which set goes on ---- */

/* Its segments would be those of a share of n_slots: all are full ones, or
 * there are as many. */
static bool continues(const pl_tier_set_t *set, int32_t n_ranks,
                      int32_t n_slots, int64_t page_bytes)
{
    return (set->ranks == n_ranks) &&
           ((set->slots == n_slots) ||
            ((set->slots < n_slots) &&
             (set->slots % pl_segment_slots(page_bytes) == 0)));
}

/* The lowest number that neither the index nor a segment has; both ascend. */
static int32_t lowest_unused(const pl_tier_index_t *index,
                             const pl_tier_listing_t *listing)
{
    int32_t next = 0;
    int32_t i    = 0;
    size_t s     = 0;

    for (;; next++) {
        while ((i < index->n_sets) && (index->sets[i].number < next)) {
            i++;
        }
        while ((s < listing->segments.n) &&
               (listing->segments.items[s].set < next)) {
            s++;
        }
        if (((i == index->n_sets) || (index->sets[i].number != next)) &&
            ((s == listing->segments.n) ||
             (listing->segments.items[s].set != next))) {
            return next;
        }
    }
}

/* A set that continues, or the number of a new one (n_ranks 0: in any case). */
static int32_t choose_set(const pl_tier_index_t *index,
                          const pl_tier_listing_t *listing, int32_t n_ranks,
                          int32_t n_slots)
{
    for (int32_t i = index->n_sets; i-- > 0;) {
        if (continues(&index->sets[i], n_ranks, n_slots, index->page_bytes)) {
            return index->sets[i].number;
        }
    }
    return lowest_unused(index, listing);
}

/* ---- stamps ---- */

/* *next_p becomes greater than all stamps in the open segment that somebody can
 * have meant. */
static pl_status_t pass_stamps(int fd, pl_segment_name_t name, int64_t *next_p,
                               const char **why_p)
{
    pl_segment_form_t form;
    pl_storage_header_t *headers;
    pl_status_t status = pl_segment_check(fd, name, &form, why_p);

    if (status != PL_OK) {
        return status == PL_ERR_INPUT ? PL_OK : status; /* torn: no pages */
    }
    headers = calloc((size_t)form.slots, sizeof(*headers));
    *why_p  = "out of memory";
    status  = headers == NULL ? PL_ERR_MEMORY : PL_OK;
    if ((status == PL_OK) &&
        pl_segment_read_headers(fd, &form, 0, form.slots, headers)) {
        for (int32_t i = 0; i < form.slots; i++) {
            if ((headers[i].stamp >= *next_p) &&
                (headers[i].stamp < INT64_MAX / 4)) {
                *next_p = headers[i].stamp + 1;
            }
        }
    }
    free(headers);
    return status;
}

static pl_status_t pass_segment(const char *folder, pl_segment_name_t name,
                                int64_t *next_p, const pl_log_t *log)
{
    int fd             = pl_tier_open_segment(folder, name);
    int failed         = fd < 0 ? errno : 0;
    const char *why    = strerror(failed);
    pl_status_t status = fd < 0 ? PL_ERR_IO : PL_OK;
    char text[PL_SEGMENT_NAME_BYTES];

    if (failed == ENOENT) {
        return PL_OK; /* a run that writes has removed it */
    }
    if (fd >= 0) {
        status = pass_stamps(fd, name, next_p, &why);
        (void)close(fd);
    }
    if (status != PL_OK) {
        pl_segment_name_text(name, text);
        pl_log(log, PL_LOG_ERROR, "storage %s: cannot read %s: %s", folder,
               text, why);
    }
    return status;
}

/* ---- entries ---- */

/* In the run's own set the owner is the share's; where all ranks hold alike it
 * is lane 0. */
static void settle_owners(const pl_tier_index_t *index, int32_t own_set)
{
    const pl_tier_set_t *own = pl_tier_index_set(index, own_set);

    for (int32_t i = 0; (own != NULL) && (i < index->n_entries); i++) {
        pl_storage_entry_t *entry = &index->entries[i];

        if (entry->place.set == own_set) {
            entry->owner =
                (pl_owner_t)(own->lanes == 1 ? 0 : entry->place.rank);
        }
    }
}

/* Hand the index over to the content. */
static void take_index(pl_tier_index_t *index, pl_tier_content_t *content)
{
    const pl_tier_set_t *own = pl_tier_index_set(index, index->own_set);

    content->start.n_entries = index->n_entries;
    content->start.entries   = index->entries;
    content->n_requests      = index->n_requests;
    content->finished        = index->finished;
    content->trace           = index->trace;
    content->n_ranks         = own->ranks;
    content->n_slots         = own->slots;
    index->entries           = NULL;
    index->finished          = NULL;
}

/* ---- reading ---- */

/* The index, if there is one that is whole; `why` not, where that is certain:
 * one that cannot be read now is none of these, and its pages are not lost. */
static pl_status_t find_index(const char *folder, bool has_index,
                              pl_text_t *why, const pl_log_t *log,
                              pl_tier_index_t *index)
{
    char *path = pl_tier_path(folder, PL_TIER_INDEX);
    pl_last_line_t said;
    pl_status_t status;

    if (path == NULL) {
        pl_log(log, PL_LOG_ERROR, "%s: out of memory", folder);
        return PL_ERR_MEMORY;
    }
    if (!has_index) {
        free(path);
        pl_text_add(why, "there is no index in it");
        return PL_OK;
    }
    pl_last_line_open(&said, "out of memory");
    status = pl_tier_index_read(path, &said.log, index);
    free(path);
    if (status == PL_ERR_INPUT) {
        pl_text_add(why, "%s", said.text);
        return PL_OK;
    }
    if (status == PL_ERR_IO) {
        pl_log(log, PL_LOG_ERROR,
               "storage %s: %s; its pages are kept: see that it can be read, "
               "or name another folder",
               folder, said.text);
    } else if (status != PL_OK) {
        pl_log(log, PL_LOG_ERROR, "%s", said.text);
    }
    return status == PL_REFUSED_UNSUPPORTED ? PL_ERR_INPUT : status;
}

static pl_status_t fill_content(const char *folder,
                                const pl_tier_identity_t *identity,
                                const pl_tier_listing_t *listing,
                                int32_t n_ranks, int32_t n_slots,
                                const pl_log_t *log, pl_tier_index_t *index,
                                pl_tier_content_t *content)
{
    pl_storage_start_t *start = &content->start;
    pl_text_t why             = {0};
    pl_tier_identity_t theirs;

    PL_TRY(find_index(folder, listing->has_index, &why, log, index));
    start->next_stamp = index->next_stamp > 0 ? index->next_stamp : 1;
    start->own_set    = choose_set(index, listing, n_ranks, n_slots);
    for (size_t i = 0; i < listing->segments.n; i++) {
        pl_status_t status = pass_segment(folder, listing->segments.items[i],
                                          &start->next_stamp, log);

        if (status != PL_OK) {
            pl_text_free(&why);
            return status;
        }
    }
    if (why.n > 0) {
        return give_reason(content, &why, log);
    }
    theirs = pl_tier_index_identity(index);
    if (differs(&theirs, identity, &why)) {
        content->is_foreign = true;
        start->own_set      = choose_set(index, listing, 0, 0);
        return give_reason(content, &why, log);
    }
    settle_owners(index, start->own_set);
    take_index(index, content);
    return PL_OK;
}

pl_status_t pl_tier_read(const char *folder, const pl_tier_identity_t *identity,
                         int32_t n_ranks, int32_t n_slots, const pl_log_t *log,
                         pl_tier_content_t *content_p)
{
    pl_tier_listing_t listing = {0};
    pl_tier_content_t content = {0};
    pl_tier_index_t index     = {0};
    pl_status_t status;

    PL_TRY(pl_tier_list(folder, log, &listing));
    status = fill_content(folder, identity, &listing, n_ranks, n_slots, log,
                          &index, &content);
    pl_tier_index_free(&index);
    pl_tier_listing_free(&listing);
    if (status != PL_OK) {
        pl_tier_content_free(&content);
        return status;
    }
    *content_p = content;
    return PL_OK;
}

void pl_tier_content_free(pl_tier_content_t *content)
{
    free((void *)(uintptr_t)content->start.entries);
    free(content->finished);
    free(content->owned);
    *content = (pl_tier_content_t){0};
}
