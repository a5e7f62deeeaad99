/* What a tier's index says, against itself and against what is on the disk. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cache/tree.h"
#include "pool/store.h"
#include "store/check_internal.h"
#include "store/last_line.h"
#include "verify/digest.h"

/* ---- the index alone ---- */

static pl_status_t read_index(pl_check_tier_t *check)
{
    char *path         = pl_tier_path(check->folder, PL_TIER_INDEX);
    pl_status_t status = PL_ERR_MEMORY;
    pl_last_line_t said;

    pl_last_line_open(&said, "out of memory");
    if (path != NULL) {
        status = pl_tier_index_read(path, &said.log, &check->index);
        free(path);
    }
    check->has_index = status == PL_OK;
    if (status == PL_ERR_INPUT) {
        pl_check_find(check->report, PL_CHECK_INDEX, "%.190s", said.text);
        return PL_OK;
    }
    if (status != PL_OK) {
        pl_log(check->log, PL_LOG_ERROR, "%s", said.text);
    }
    return status == PL_REFUSED_UNSUPPORTED ? PL_ERR_INPUT : status;
}

static pl_status_t open_index(pl_check_tier_t *check)
{
    size_t n_segments = check->listing.segments.n;

    if (check->listing.has_partial) {
        pl_check_find(check->report, PL_CHECK_UNFINISHED,
                      PL_TIER_INDEX ".partial");
    }
    if (check->listing.has_index) {
        PL_TRY(read_index(check));
    } else if (n_segments > 0) {
        pl_check_find(check->report, PL_CHECK_INDEX,
                      "there are segments and no " PL_TIER_INDEX);
    }
    check->report->pages = check->index.n_entries;
    check->is_bad        = calloc((size_t)check->index.n_entries + 1, 1);
    check->is_torn       = calloc(n_segments + 1, sizeof(*check->is_torn));
    if ((check->is_bad == NULL) || (check->is_torn == NULL)) {
        pl_log(check->log, PL_LOG_ERROR, "%s: out of memory", check->folder);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

/* Entry i is not good, and why. */
static void blame(pl_check_tier_t *check, int32_t i, pl_check_kind_t kind,
                  const char *why)
{
    const pl_storage_entry_t *entry = &check->index.entries[i];

    check->is_bad[i] = 1;
    pl_check_find(check->report, kind,
                  "entry %" PRId32 ", page %" PRId32 " of its prefix, in set "
                  "%" PRId32 " rank %" PRId32 " slot %" PRId32 ": %s",
                  i, entry->position, entry->place.set, entry->place.rank,
                  entry->place.slot, why);
}

static void check_entries(pl_check_tier_t *check)
{
    const pl_tier_index_t *index = &check->index;

    for (int32_t i = 0; i < index->n_entries; i++) {
        const pl_storage_entry_t *entry = &index->entries[i];
        const pl_tier_set_t *set = pl_tier_index_set(index, entry->place.set);

        if (entry->chain != pl_tree_chain_next(entry->parent, entry->key)) {
            blame(check, i, PL_CHECK_CHAIN,
                  "its chain does not follow from its parent and key");
        }
        /* Pages of another set go to a lane that has nothing to do with it. */
        if ((set->number == index->own_set) &&
            (entry->owner != (set->lanes == 1 ? 0 : entry->place.rank))) {
            blame(check, i, PL_CHECK_OWNERS,
                  "its owner is not the rank whose share it lies in");
        }
    }
}

/* ---- two for one ---- */

typedef struct row {
    uint64_t chain;
    pl_storage_place_t place;
    int32_t entry;
} row_t;

static int by_chain(const void *a, const void *b)
{
    const row_t *x = a;
    const row_t *y = b;

    if (x->chain != y->chain) {
        return x->chain < y->chain ? -1 : 1;
    }
    return (x->entry > y->entry) - (x->entry < y->entry);
}

static int by_place(const void *a, const void *b)
{
    const row_t *x = a;
    const row_t *y = b;
    int order      = pl_tier_compare_places(&x->place, &y->place);

    return order != 0 ? order : (x->entry > y->entry) - (x->entry < y->entry);
}

static row_t *list_rows(const pl_tier_index_t *index)
{
    row_t *rows = malloc(((size_t)index->n_entries + 1) * sizeof(*rows));

    for (int32_t i = 0; (rows != NULL) && (i < index->n_entries); i++) {
        rows[i] = (row_t){index->entries[i].chain, index->entries[i].place, i};
    }
    return rows;
}

/* Of two pages with one chain the one that was used last stays. */
static void check_doubles(pl_check_tier_t *check, row_t *rows)
{
    int32_t n = check->index.n_entries;

    qsort(rows, (size_t)n, sizeof(*rows), by_chain);
    for (int32_t i = 1; i < n; i++) {
        if (rows[i].chain == rows[i - 1].chain) {
            blame(check, rows[i - 1].entry, PL_CHECK_DOUBLED,
                  "another entry has its chain");
        }
    }
}

/* Who of them lies there shows in the header. */
static void check_overlaps(pl_check_tier_t *check, row_t *rows)
{
    int32_t n = check->index.n_entries;

    qsort(rows, (size_t)n, sizeof(*rows), by_place);
    for (int32_t i = 1; i < n; i++) {
        if (pl_tier_compare_places(&rows[i].place, &rows[i - 1].place) == 0) {
            pl_check_find(check->report, PL_CHECK_OVERLAP,
                          "entries %" PRId32 " and %" PRId32
                          " lie in set %" PRId32 " rank %" PRId32
                          " slot %" PRId32,
                          rows[i - 1].entry, rows[i].entry, rows[i].place.set,
                          rows[i].place.rank, rows[i].place.slot);
        }
    }
}

/* ---- holes ---- */

/* The entry with that chain; NULL: none. */
static const row_t *find_chain(const row_t *rows, int32_t n, uint64_t chain)
{
    int32_t low  = 0;
    int32_t high = n;

    while (low < high) {
        int32_t middle = low + (high - low) / 2;

        if (rows[middle].chain < chain) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (low < n) && (rows[low].chain == chain) ? &rows[low] : NULL;
}

static void check_holes(pl_check_tier_t *check, row_t *rows)
{
    const pl_tier_index_t *index = &check->index;

    qsort(rows, (size_t)index->n_entries, sizeof(*rows), by_chain);
    for (int32_t i = 0; i < index->n_entries; i++) {
        const pl_storage_entry_t *entry = &index->entries[i];
        const row_t *parent = find_chain(rows, index->n_entries, entry->parent);

        if (entry->position == 0) {
            continue;
        }
        if (parent == NULL) {
            blame(check, i, PL_CHECK_MISSING, "the page before it is nowhere");
        } else if (index->entries[parent->entry].position !=
                   entry->position - 1) {
            blame(check, i, PL_CHECK_CHAIN,
                  "it is not behind the page that its parent names");
        }
    }
}

/* ---- bytes ---- */

static uint64_t digest_of(const pl_tier_index_t *index, const uint8_t *page,
                          int32_t position)
{
    const pl_store_layout_t layout = {
        .page_tokens       = index->page_tokens,
        .n_layers          = index->n_layers,
        .latent_row_bytes  = index->latent_row_bytes,
        .index_key_bytes   = index->index_key_bytes,
        .index_scale_bytes = index->index_scale_bytes,
        .has_index         = index->has_index,
    };
    int64_t first   = (int64_t)position * index->page_tokens;
    uint64_t digest = 0;

    for (int which = 0; which < PL_STORES; which++) {
        pl_page_form_t form = pl_store_form(&layout, which);

        for (int32_t layer = 0; layer < layout.n_layers; layer++) {
            if (pl_store_has(&layout, which, layer)) {
                digest += pl_digest_rows(&form, page, 0, layout.page_tokens,
                                         first, pl_digest_base(layer, which));
                page += pl_store_stride(&layout, which);
            }
        }
    }
    return digest;
}

typedef struct segment {
    pl_segment_name_t name;
    pl_segment_form_t form;
    int fd;
    pl_storage_header_t *headers; /* [form.slots] */
    uint8_t *is_named;            /* [form.slots] */
    uint8_t *page;                /* one page */
} segment_t;

static void say_progress(pl_check_tier_t *check)
{
    enum { STEP = 30 }; /* GiB at a time, as a power of two */

    if (check->report->bytes >= check->next_progress) {
        pl_log(check->log, PL_LOG_INFO, "check: %.1f GiB of pages read",
               (double)check->report->bytes / (double)(1 << STEP));
        check->next_progress += INT64_C(4) << STEP;
    }
}

static void check_page(pl_check_tier_t *check, const segment_t *segment,
                       int32_t i)
{
    const pl_storage_entry_t *entry = &check->index.entries[i];
    int32_t slot =
        entry->place.slot % pl_segment_slots(check->index.page_bytes);
    size_t n           = (size_t)check->index.page_bytes;
    struct iovec piece = {segment->page, n};
    const pl_storage_header_t *header;

    if (slot >= segment->form.slots) {
        blame(check, i, PL_CHECK_MISSING, "its segment ends before it");
        return;
    }
    header                  = &segment->headers[slot];
    segment->is_named[slot] = 1;
    if ((header->stamp != entry->stamp) || (header->chain != entry->chain)) {
        blame(check, i, PL_CHECK_MISSING, "another page lies there");
        return;
    }
    if (!pl_segment_read(segment->fd, &piece, 1,
                         segment->form.pages_at + (uint64_t)slot * n)) {
        blame(check, i, PL_CHECK_MISSING, "it cannot be read");
        return;
    }
    check->report->bytes += (int64_t)n;
    say_progress(check);
    if ((header->digest != check->index.digests[i]) ||
        (digest_of(&check->index, segment->page, entry->position) !=
         header->digest)) {
        blame(check, i, PL_CHECK_DIGEST,
              "its bytes are not those that were written");
    }
}

/* Slots that were written after all that the index knows, and are nobody's. */
static pl_status_t check_rest(pl_check_tier_t *check, const segment_t *segment,
                              bool is_known)
{
    for (int32_t slot = 0; slot < segment->form.slots; slot++) {
        int64_t stamp  = segment->headers[slot].stamp;
        bool is_absurd = (stamp < 0) || (stamp > PL_CHECK_MOST_STAMP);

        if (!is_absurd && (stamp > check->highest)) {
            check->highest = stamp;
        }
        if (is_absurd && (PL_ARRAY_PUSH(&check->absurd,
                                        ((pl_check_slot_t){segment->name,
                                                           slot})) != PL_OK)) {
            return PL_ERR_MEMORY;
        }
        if ((segment->is_named[slot] == 0) && (stamp != 0) &&
            (is_absurd || !is_known || (stamp > check->index.settled_stamp))) {
            pl_check_find(check->report, PL_CHECK_ORPHAN,
                          "set %" PRId32 " rank %" PRId32 " segment %" PRId32
                          " slot %" PRId32 " of it, stamp %" PRId64,
                          segment->name.set, segment->name.rank,
                          segment->name.number, slot, stamp);
        }
    }
    return PL_OK;
}

static bool has_memory(segment_t *segment, const pl_tier_index_t *index)
{
    size_t slots      = (size_t)segment->form.slots;
    segment->headers  = calloc(slots, sizeof(*segment->headers));
    segment->is_named = calloc(slots, 1);
    segment->page     = malloc((size_t)index->page_bytes + 1);
    return (segment->headers != NULL) && (segment->is_named != NULL) &&
           (segment->page != NULL);
}

static pl_status_t read_segment(pl_check_tier_t *check, segment_t *segment,
                                const row_t *rows, int32_t n, bool is_known)
{
    if (!has_memory(segment, &check->index)) {
        return PL_ERR_MEMORY;
    }
    if (!pl_segment_read_headers(segment->fd, &segment->form, 0,
                                 segment->form.slots, segment->headers)) {
        for (int32_t i = 0; i < n; i++) {
            blame(check, rows[i].entry, PL_CHECK_MISSING,
                  "its header cannot be read");
        }
        return PL_OK;
    }
    for (int32_t i = 0; i < n; i++) {
        check_page(check, segment, rows[i].entry);
    }
    return check_rest(check, segment, is_known);
}

/* Is it one of this index's? */
static const char *why_not_ours(const pl_check_tier_t *check,
                                const pl_segment_form_t *form)
{
    pl_tier_identity_t identity;

    if (!check->has_index) {
        return NULL;
    }
    identity = pl_tier_index_identity(&check->index);
    return (form->identity == pl_tier_identity_hash(&identity)) &&
                   (form->page_bytes == check->index.page_bytes)
               ? NULL
               : "it holds another kind of pages";
}

/* Open, sound and ours: PL_OK; torn for certain: PL_ERR_INPUT, and *why_p says
 * how.  If that cannot be told now nothing is to be found, or repaired. */
static pl_status_t open_segment(const pl_check_tier_t *check,
                                segment_t *segment, const char **why_p)
{
    char text[PL_SEGMENT_NAME_BYTES];
    pl_status_t status = PL_ERR_IO;

    segment->fd = pl_tier_open_segment(check->folder, segment->name);
    if (segment->fd < 0) {
        status = errno == ENOMEM ? PL_ERR_MEMORY : PL_ERR_IO;
        *why_p = strerror(errno);
    } else {
        status =
            pl_segment_check(segment->fd, segment->name, &segment->form, why_p);
    }
    if (status == PL_OK) {
        *why_p = why_not_ours(check, &segment->form);
        status = *why_p == NULL ? PL_OK : PL_ERR_INPUT;
    }
    if ((status == PL_ERR_IO) || (status == PL_ERR_MEMORY)) {
        pl_segment_name_text(segment->name, text);
        pl_log(check->log, PL_LOG_ERROR, "cannot read %s/%s: %s", check->folder,
               text, *why_p);
    }
    return status;
}

static void find_torn(pl_check_tier_t *check, size_t s, const char *why,
                      const row_t *rows, int32_t n)
{
    char text[PL_SEGMENT_NAME_BYTES];

    pl_segment_name_text(check->listing.segments.items[s], text);
    check->is_torn[s] = true;
    pl_check_find(check->report, PL_CHECK_TORN, "%s: %s", text, why);
    for (int32_t i = 0; i < n; i++) {
        blame(check, rows[i].entry, PL_CHECK_MISSING,
              "it lies in a torn segment");
    }
}

/* A segment that is there, with the entries that lie in it. */
static pl_status_t check_segment(pl_check_tier_t *check, size_t s,
                                 const row_t *rows, int32_t n)
{
    segment_t segment  = {.name = check->listing.segments.items[s]};
    const char *why    = NULL;
    pl_status_t status = open_segment(check, &segment, &why);

    if (status == PL_ERR_INPUT) {
        find_torn(check, s, why, rows, n);
        status = PL_OK;
    } else if (status == PL_OK) {
        status = read_segment(
            check, &segment, rows, n,
            pl_tier_index_set(&check->index, segment.name.set) != NULL);
    }
    if (segment.fd >= 0) {
        (void)close(segment.fd);
    }
    free(segment.headers);
    free(segment.is_named);
    free(segment.page);
    return status;
}

static int compare_segments(pl_segment_name_t a, pl_segment_name_t b)
{
    pl_storage_place_t x = {a.set, a.rank, a.number};
    pl_storage_place_t y = {b.set, b.rank, b.number};

    return pl_tier_compare_places(&x, &y);
}

/* Segments and entries, both in the order of places, side by side. */
static pl_status_t check_segments(pl_check_tier_t *check, row_t *rows)
{
    int32_t n_rows     = check->index.n_entries;
    int32_t slots      = pl_segment_slots(check->index.page_bytes);
    pl_status_t status = PL_OK;
    size_t s           = 0;
    int32_t i          = 0;

    qsort(rows, (size_t)n_rows, sizeof(*rows), by_place);
    while ((status == PL_OK) &&
           ((i < n_rows) || (s < check->listing.segments.n))) {
        int order = i >= n_rows ? 1 : -1;
        int32_t n = 0;

        if ((i < n_rows) && (s < check->listing.segments.n)) {
            order = compare_segments(
                (pl_segment_name_t){rows[i].place.set, rows[i].place.rank,
                                    rows[i].place.slot / slots},
                check->listing.segments.items[s]);
        }
        if (order < 0) {
            blame(check, rows[i++].entry, PL_CHECK_MISSING,
                  "its segment is not there");
            continue;
        }
        while ((order == 0) && (i + n < n_rows) &&
               (rows[i + n].place.set == rows[i].place.set) &&
               (rows[i + n].place.rank == rows[i].place.rank) &&
               (rows[i + n].place.slot / slots == rows[i].place.slot / slots)) {
            n++;
        }
        status = check_segment(check, s++, &rows[i], n);
        i += n;
    }
    return status;
}

/* ---- what is proven ---- */

/* The entries by position, so that each comes after the page before it. */
static row_t *list_by_position(const pl_tier_index_t *index)
{
    row_t *order = list_rows(index);

    for (int32_t i = 0; (order != NULL) && (i < index->n_entries); i++) {
        order[i].chain = (uint64_t)index->entries[i].position;
    }
    if (order != NULL) {
        qsort(order, (size_t)index->n_entries, sizeof(*order), by_chain);
    }
    return order;
}

/* Of doubled ones the last stands. */
static const row_t *last_of(const row_t *row, const row_t *end)
{
    while ((row != NULL) && (row + 1 < end) && (row[1].chain == row->chain)) {
        row++;
    }
    return row;
}

/* A page is good if its whole prefix is. */
static pl_status_t count_good(pl_check_tier_t *check, row_t *rows)
{
    const pl_tier_index_t *index = &check->index;
    row_t *order                 = list_by_position(index);

    if (order == NULL) {
        return PL_ERR_MEMORY;
    }
    qsort(rows, (size_t)index->n_entries, sizeof(*rows), by_chain);
    for (int32_t k = 0; k < index->n_entries; k++) {
        int32_t i                       = order[k].entry;
        const pl_storage_entry_t *entry = &index->entries[i];

        if (entry->position > 0) {
            const row_t *parent =
                last_of(find_chain(rows, index->n_entries, entry->parent),
                        rows + index->n_entries);

            if ((parent == NULL) || (check->is_bad[parent->entry] != 0)) {
                check->report->behind += check->is_bad[i] == 0 ? 1 : 0;
                check->is_bad[i] = 1;
            }
        }
        check->report->good += check->is_bad[i] == 0 ? 1 : 0;
    }
    free(order);
    return PL_OK;
}

pl_status_t pl_check_tier(pl_check_tier_t *check)
{
    row_t *rows;
    pl_status_t status;

    check->next_progress = INT64_C(4) << 30;
    PL_TRY(open_index(check));
    rows = list_rows(&check->index);
    if (rows == NULL) {
        pl_log(check->log, PL_LOG_ERROR, "%s: out of memory", check->folder);
        return PL_ERR_MEMORY;
    }
    check->highest = check->index.settled_stamp;
    check_entries(check);
    check_doubles(check, rows);
    check_overlaps(check, rows);
    check_holes(check, rows);
    status = check_segments(check, rows);
    if (status == PL_OK) {
        status = count_good(check, rows);
    }
    if (status == PL_ERR_MEMORY) {
        pl_log(check->log, PL_LOG_ERROR, "%s: out of memory", check->folder);
    }
    free(rows);
    return status;
}
