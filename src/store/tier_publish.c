/* The index, and segments that nobody needs; the worker's thread, but for the
 * copy of the directory. */
#include <stdlib.h>
#include <string.h>

#include "store/last_line.h"
#include "store/tier_folder.h"
#include "store/tier_internal.h"

/* ---- what the directory keeps ---- */

typedef PL_ARRAY(pl_storage_entry_t) entries_t;

static pl_status_t take_entry(void *context, const pl_storage_entry_t *entry)
{
    entries_t *entries = context;

    return PL_ARRAY_PUSH(entries, *entry);
}

static pl_status_t copy_run(const pl_storage_run_t *run, pl_tier_index_t *index)
{
    size_t n = run == NULL ? 0 : (size_t)run->n_requests;

    index->n_requests = (int32_t)n;
    index->finished   = malloc(n > 0 ? n : 1);
    if (index->finished == NULL) {
        return PL_ERR_MEMORY;
    }
    if (n > 0) {
        memcpy(index->finished, run->finished, n);
    }
    return PL_OK;
}

static pl_status_t copy_all(pl_tier_t *tier, const pl_storage_t *storage,
                            const pl_storage_run_t *run, entries_t *entries,
                            pl_tier_index_t *index)
{
    const pl_tier_set_t own = {.number = tier->params.own_set,
                               .ranks  = tier->params.n_ranks,
                               .slots  = tier->params.n_slots,
                               .lanes  = pl_lanes_n(pl_storage_lanes(storage))};

    PL_TRY(pl_tier_index_identify(index, &tier->params.identity));
    PL_TRY(copy_run(run, index));
    PL_TRY(pl_storage_visit(storage, take_entry, entries));
    index->sets    = malloc(sizeof(own));
    index->digests = calloc(entries->n + 1, sizeof(*index->digests));
    if ((index->sets == NULL) || (index->digests == NULL)) {
        return PL_ERR_MEMORY;
    }
    index->sets[0]       = own;
    index->n_sets        = 1;
    index->own_set       = own.number;
    index->trace         = tier->params.trace;
    index->settled_stamp = pl_storage_settled_stamp(storage);
    index->next_stamp    = index->settled_stamp + 1;
    for (size_t i = 0; i < entries->n; i++) {
        if (entries->items[i].stamp >= index->next_stamp) {
            index->next_stamp = entries->items[i].stamp + 1;
        }
    }
    return PL_OK;
}

pl_status_t pl_tier_copy_directory(pl_tier_t *tier, const pl_storage_t *storage,
                                   const pl_storage_run_t *run,
                                   pl_tier_index_t *index)
{
    entries_t entries  = {0};
    pl_status_t status = copy_all(tier, storage, run, &entries, index);

    if (status != PL_OK) {
        PL_ARRAY_FREE(&entries);
        pl_log(tier->params.log, PL_LOG_ERROR, "storage %s: out of memory",
               tier->folder);
        return status;
    }
    index->entries   = entries.items;
    index->n_entries = (int32_t)entries.n;
    return PL_OK;
}

/* What lies there without an index. */
static pl_status_t take_leftovers(pl_tier_t *tier,
                                  const pl_tier_listing_t *listing)
{
    for (size_t i = 0; i < listing->segments.n; i++) {
        pl_tier_set_t set = {.number = listing->segments.items[i].set};

        if ((tier->sets.n == 0) ||
            (tier->sets.items[tier->sets.n - 1].number != set.number)) {
            PL_TRY(PL_ARRAY_PUSH(&tier->sets, set));
        }
    }
    return PL_OK;
}

static pl_status_t take_index(pl_tier_t *tier, const pl_log_t *log)
{
    pl_tier_index_t index = {0};
    pl_tier_identity_t theirs;
    char *path         = pl_tier_path(tier->folder, PL_TIER_INDEX);
    pl_status_t status = PL_ERR_MEMORY;

    if (path != NULL) {
        status = pl_tier_index_read(path, log, &index);
        free(path);
    }
    if (status == PL_ERR_INPUT) {
        return PL_OK; /* damaged: what it named is left to a repair */
    }
    if (status == PL_REFUSED_UNSUPPORTED) {
        atomic_store(&tier->can_write, false); /* and is kept */
        return PL_OK;
    }
    if (status != PL_OK) {
        return status;
    }
    theirs = pl_tier_index_identity(&index);
    if (pl_tier_identity_hash(&theirs) != tier->identity) {
        atomic_store(&tier->can_write, false);
    }
    for (int32_t i = 0; (status == PL_OK) && (i < index.n_sets); i++) {
        status = PL_ARRAY_PUSH(&tier->sets, index.sets[i]);
    }
    pl_tier_index_free(&index);
    return status;
}

pl_status_t pl_tier_load_sets(pl_tier_t *tier)
{
    pl_tier_listing_t listing = {0};
    pl_last_line_t said;
    pl_status_t status;

    pl_last_line_open(&said, "out of memory");
    status = pl_tier_list(tier->folder, &said.log, &listing);
    if (status == PL_OK) {
        status = listing.has_index ? take_index(tier, &said.log)
                                   : take_leftovers(tier, &listing);
        pl_tier_listing_free(&listing);
    }
    if ((status != PL_OK) && (status != PL_ERR_MEMORY)) {
        pl_tier_give_up(tier, said.text);
        return PL_OK;
    }
    return status;
}

/* ---- by place ---- */

static int by_place(const void *a, const void *b)
{
    const pl_tier_row_t *x = a;
    const pl_tier_row_t *y = b;

    return pl_tier_compare_places(&x->place, &y->place);
}

pl_tier_row_t *pl_tier_rows(const pl_tier_index_t *index)
{
    pl_tier_row_t *rows =
        malloc(((size_t)index->n_entries + 1) * sizeof(*rows));

    for (int32_t i = 0; (rows != NULL) && (i < index->n_entries); i++) {
        rows[i] = (pl_tier_row_t){index->entries[i].place, i};
    }
    if (rows != NULL) {
        qsort(rows, (size_t)index->n_entries, sizeof(*rows), by_place);
    }
    return rows;
}

bool pl_tier_rows_name(const pl_tier_row_t *rows, int32_t n,
                       int32_t segment_slots, pl_segment_name_t name)
{
    pl_storage_place_t first = {name.set, name.rank, 0};
    int32_t low              = 0;
    int32_t high             = n;

    if (name.number > INT32_MAX / segment_slots) {
        return false; /* a share has no slots there */
    }
    first.slot = name.number * segment_slots;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;

        if (pl_tier_compare_places(&rows[middle].place, &first) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (low < n) && (rows[low].place.set == name.set) &&
           (rows[low].place.rank == name.rank) &&
           (rows[low].place.slot / segment_slots == name.number);
}

static bool same_segment(const pl_tier_t *tier, const pl_tier_row_t *a,
                         const pl_tier_row_t *b)
{
    pl_segment_name_t x = pl_tier_segment_of(tier, &a->place);
    pl_segment_name_t y = pl_tier_segment_of(tier, &b->place);

    return (x.set == y.set) && (x.rank == y.rank) && (x.number == y.number);
}

/* ---- digests ---- */

/* Headers of slots [first, last] of a segment; *is_there_p: it has them. */
static pl_status_t read_headers(pl_tier_t *tier, pl_segment_name_t name,
                                int32_t first, int32_t last,
                                pl_storage_header_t *headers, bool *is_there_p)
{
    pl_tier_handle_t *handle = NULL;

    PL_TRY(pl_tier_find_segment(tier, name, &handle));
    *is_there_p = (handle != NULL) && (last < handle->form.slots);
    return !*is_there_p ||
                   pl_segment_read_headers(handle->fd, &handle->form, first,
                                           last - first + 1, headers)
               ? PL_OK
               : PL_ERR_IO;
}

/* Digests of the rows, all in one segment, from its headers.  An entry whose
 * header is not there gets the stamp 0; if that cannot be told, none does. */
static pl_status_t find_in_segment(pl_tier_t *tier, const pl_tier_row_t *rows,
                                   size_t n, pl_storage_header_t *headers,
                                   pl_tier_index_t *index)
{
    int32_t first = rows[0].place.slot % tier->segment_slots;
    int32_t last  = rows[n - 1].place.slot % tier->segment_slots;
    bool is_there = false;

    PL_TRY(read_headers(tier, pl_tier_segment_of(tier, &rows[0].place), first,
                        last, headers, &is_there));
    for (size_t i = 0; i < n; i++) {
        pl_storage_entry_t *entry = &index->entries[rows[i].entry];
        const pl_storage_header_t *header =
            &headers[rows[i].place.slot % tier->segment_slots - first];

        if (is_there && (header->stamp == entry->stamp) &&
            (header->chain == entry->chain)) {
            index->digests[rows[i].entry] = header->digest;
        } else {
            entry->stamp = 0;
        }
    }
    return PL_OK;
}

static pl_status_t find_digests(pl_tier_t *tier, const pl_tier_row_t *rows,
                                pl_tier_index_t *index)
{
    size_t n = (size_t)index->n_entries;
    pl_storage_header_t *headers =
        malloc((size_t)tier->segment_slots * sizeof(*headers));
    pl_status_t status = PL_OK;
    size_t first       = 0;

    if (headers == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 1; (status == PL_OK) && (i <= n); i++) {
        if ((i == n) || !same_segment(tier, &rows[first], &rows[i])) {
            status =
                find_in_segment(tier, &rows[first], i - first, headers, index);
            first = i;
        }
    }
    free(headers);
    return status;
}

/* ---- what must stay out ---- */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The entries of stamp 0 go. */
static void compact(pl_tier_index_t *index)
{
    int32_t n = 0;

    for (int32_t i = 0; i < index->n_entries; i++) {
        if (index->entries[i].stamp > 0) {
            index->entries[n]   = index->entries[i];
            index->digests[n++] = index->digests[i];
        }
    }
    index->n_entries = n;
}

/* Mark those whose page before is not there; how many. */
static pl_status_t mark_orphans(pl_tier_index_t *index, int32_t *n_p)
{
    size_t n         = (size_t)index->n_entries;
    uint64_t *chains = malloc((n + 1) * sizeof(*chains));

    if (chains == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        chains[i] = index->entries[i].chain;
    }
    qsort(chains, n, sizeof(*chains), by_value);
    *n_p = 0;
    for (size_t i = 0; i < n; i++) {
        pl_storage_entry_t *entry = &index->entries[i];

        if ((entry->position > 0) &&
            (bsearch(&entry->parent, chains, n, sizeof(*chains), by_value) ==
             NULL)) {
            entry->stamp = 0;
            ++*n_p;
        }
    }
    free(chains);
    return PL_OK;
}

pl_status_t pl_tier_index_close(pl_tier_index_t *index)
{
    int32_t n = 1;

    while (n > 0) {
        compact(index);
        PL_TRY(mark_orphans(index, &n));
    }
    return PL_OK;
}

static pl_status_t prove(pl_tier_t *tier, pl_tier_index_t *index,
                         const pl_log_t *log)
{
    pl_tier_row_t *rows = pl_tier_rows(index);
    int32_t n           = index->n_entries;
    pl_status_t status;

    if (rows == NULL) {
        return PL_ERR_MEMORY;
    }
    status = find_digests(tier, rows, index);
    free(rows);
    if (status == PL_ERR_IO) {
        pl_log(log, PL_LOG_ERROR, "headers of pages cannot be read back");
    }
    if (status == PL_OK) {
        status = pl_tier_index_close(index);
    }
    if ((status == PL_OK) && (index->n_entries < n)) {
        pl_log(tier->params.log, PL_LOG_WARN,
               "storage %s: %d pages are not where they were written and stay "
               "out of the index; `pagelane check %s` says more",
               tier->folder, (int)(n - index->n_entries), tier->folder);
    }
    return status;
}

/* ---- sets ---- */

/* Which of the sets that were there when the door was opened; -1: none. */
static int64_t find_set(const pl_tier_t *tier, int32_t number)
{
    size_t low  = 0;
    size_t high = tier->sets.n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (tier->sets.items[middle].number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (low < tier->sets.n) && (tier->sets.items[low].number == number)
               ? (int64_t)low
               : -1;
}

/* The sets that an entry names, and those of which segments are still to be
 * removed: only what an index knew is ever removed, also by a run after a
 * crash. */
static void mark_sets(const pl_tier_t *tier, const pl_tier_listing_t *listing,
                      const pl_tier_index_t *index, bool *stays)
{
    for (int32_t e = 0; e < index->n_entries; e++) {
        int64_t i = find_set(tier, index->entries[e].place.set);

        if (i >= 0) {
            stays[i] = true;
        }
    }
    for (size_t s = 0; s < listing->segments.n; s++) {
        int64_t i = find_set(tier, listing->segments.items[s].set);

        if ((i >= 0) && (tier->sets.items[i].ranks > 0)) {
            stays[i] = true;
        }
    }
}

/* The own set, which is there already, and those that stay, ascending. */
static pl_status_t list_sets(const pl_tier_t *tier,
                             const pl_tier_listing_t *listing,
                             pl_tier_index_t *index)
{
    pl_tier_set_t own   = index->sets[0];
    pl_tier_set_t *sets = malloc((tier->sets.n + 1) * sizeof(*sets));
    bool *stays         = calloc(tier->sets.n + 1, sizeof(*stays));
    int32_t n           = 0;
    size_t i            = 0;

    if ((sets == NULL) || (stays == NULL)) {
        free(sets);
        free(stays);
        return PL_ERR_MEMORY;
    }
    mark_sets(tier, listing, index, stays);
    for (; (i < tier->sets.n) && (tier->sets.items[i].number < own.number);
         i++) {
        if (stays[i]) {
            sets[n++] = tier->sets.items[i];
        }
    }
    sets[n++] = own;
    for (; i < tier->sets.n; i++) {
        if (stays[i] && (tier->sets.items[i].number != own.number)) {
            sets[n++] = tier->sets.items[i];
        }
    }
    free(stays);
    free(index->sets);
    index->sets   = sets;
    index->n_sets = n;
    return PL_OK;
}

/* ---- segments of nothing ---- */

static void remove_segment(pl_tier_t *tier, pl_segment_name_t name)
{
    char text[PL_SEGMENT_NAME_BYTES];
    char *path;

    pl_segment_name_text(name, text);
    path = pl_tier_path(tier->folder, text);
    if (path != NULL) {
        (void)pl_files_unlink(tier->params.files, path);
    }
    free(path);
}

/* Segments of other sets in which the index that is on the disk names nothing.
 * What cannot be removed now can be after the next publication.  Of a set that
 * no index knew there may be pages that only a damaged one names. */
static void remove_segments(pl_tier_t *tier, const pl_tier_listing_t *listing,
                            const pl_tier_index_t *index)
{
    pl_tier_row_t *rows = pl_tier_rows(index);

    for (size_t i = 0; (rows != NULL) && (i < listing->segments.n); i++) {
        pl_segment_name_t name = listing->segments.items[i];

        if ((name.set != index->own_set) && (find_set(tier, name.set) >= 0) &&
            !pl_tier_rows_name(rows, index->n_entries, tier->segment_slots,
                               name)) {
            remove_segment(tier, name);
        }
    }
    free(rows);
}

/* ---- the whole ---- */

static pl_status_t publish(pl_tier_t *tier, pl_tier_index_t *index,
                           const pl_log_t *log)
{
    pl_tier_listing_t listing = {0};
    pl_status_t status        = pl_tier_list(tier->folder, log, &listing);

    if (status != PL_OK) {
        return status;
    }
    status = prove(tier, index, log);
    if (status == PL_OK) {
        status = list_sets(tier, &listing, index);
    }
    if (status == PL_OK) {
        status = pl_tier_index_publish(index, tier->folder, tier->params.files,
                                       &tier->inject, tier->params.rank, log);
    }
    if (status == PL_OK) {
        remove_segments(tier, &listing, index);
    }
    pl_tier_listing_free(&listing);
    return status;
}

void pl_tier_publish_job(pl_tier_t *tier, pl_tier_job_t *job)
{
    pl_last_line_t said;

    job->bad = 1;
    if (!atomic_load(&tier->can_write)) {
        return;
    }
    pl_last_line_open(&said, "out of memory");
    if (publish(tier, &job->index, &said.log) != PL_OK) {
        pl_tier_give_up(tier, said.text);
        return;
    }
    job->bad = 0;
}
