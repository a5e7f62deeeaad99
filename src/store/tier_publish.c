/* The index, and segments that nobody needs; the worker's thread, but for the
 * copy of the directory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
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

pl_status_t pl_tier_load_sets(pl_tier_t *tier)
{
    pl_tier_index_t index = {0};
    char *path            = pl_tier_path(tier->folder, PL_TIER_INDEX);
    pl_status_t status;
    pl_tier_identity_t theirs;

    if (path == NULL) {
        return PL_ERR_MEMORY;
    }
    status = pl_tier_index_read(path, NULL, &index);
    free(path);
    if (status != PL_OK) {
        /* None, or none that is whole: a later version is kept. */
        if (status == PL_REFUSED_UNSUPPORTED) {
            atomic_store(&tier->can_write, false);
        }
        return status == PL_ERR_MEMORY ? status : PL_OK;
    }
    theirs = pl_tier_index_identity(&index);
    if (pl_tier_identity_hash(&theirs) != tier->identity) {
        atomic_store(&tier->can_write, false);
    }
    status = PL_OK;
    for (int32_t i = 0; (status == PL_OK) && (i < index.n_sets); i++) {
        status = PL_ARRAY_PUSH(&tier->sets, index.sets[i]);
    }
    pl_tier_index_free(&index);
    return status;
}

/* ---- by place ---- */

typedef struct row {
    pl_storage_place_t place;
    int32_t entry;
} row_t;

static int by_place(const void *a, const void *b)
{
    const row_t *x = a;
    const row_t *y = b;

    return pl_tier_compare_places(&x->place, &y->place);
}

/* The entries in the order of their places; the caller frees them. */
static row_t *sort_by_place(const pl_tier_index_t *index)
{
    row_t *rows = malloc(((size_t)index->n_entries + 1) * sizeof(*rows));

    for (int32_t i = 0; (rows != NULL) && (i < index->n_entries); i++) {
        rows[i] = (row_t){index->entries[i].place, i};
    }
    if (rows != NULL) {
        qsort(rows, (size_t)index->n_entries, sizeof(*rows), by_place);
    }
    return rows;
}

static bool same_segment(const pl_tier_t *tier, const row_t *a, const row_t *b)
{
    pl_segment_name_t x = pl_tier_segment_of(tier, &a->place);
    pl_segment_name_t y = pl_tier_segment_of(tier, &b->place);

    return (x.set == y.set) && (x.rank == y.rank) && (x.number == y.number);
}

/* ---- digests ---- */

/* Digests of the rows, all in one segment, from its headers.  An entry whose
 * header is not there gets the stamp 0. */
static void find_in_segment(pl_tier_t *tier, const row_t *rows, size_t n,
                            pl_storage_header_t *headers,
                            pl_tier_index_t *index)
{
    pl_tier_handle_t *handle =
        pl_tier_find_segment(tier, pl_tier_segment_of(tier, &rows[0].place));
    int32_t first = rows[0].place.slot % tier->segment_slots;
    int32_t last  = rows[n - 1].place.slot % tier->segment_slots;
    bool is_there = (handle != NULL) && (last < handle->form.slots) &&
                    pl_segment_read_headers(handle->fd, &handle->form, first,
                                            last - first + 1, headers);

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
}

static pl_status_t find_digests(pl_tier_t *tier, const row_t *rows,
                                pl_tier_index_t *index)
{
    size_t n = (size_t)index->n_entries;
    pl_storage_header_t *headers =
        malloc((size_t)tier->segment_slots * sizeof(*headers));
    size_t first = 0;

    if (headers == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 1; i <= n; i++) {
        if ((i == n) || !same_segment(tier, &rows[first], &rows[i])) {
            find_in_segment(tier, &rows[first], i - first, headers, index);
            first = i;
        }
    }
    free(headers);
    return PL_OK;
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

static pl_status_t prove(pl_tier_t *tier, pl_tier_index_t *index)
{
    row_t *rows = sort_by_place(index);
    int32_t n   = index->n_entries;
    pl_status_t status;

    if (rows == NULL) {
        return PL_ERR_MEMORY;
    }
    status = find_digests(tier, rows, index);
    free(rows);
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

/* The sets that an entry names, besides the own one, as the last index has
 * them. */
static pl_status_t list_sets(const pl_tier_t *tier, pl_tier_index_t *index)
{
    PL_ARRAY(pl_tier_set_t) sets = {0};
    pl_tier_set_t own            = index->sets[0];
    pl_status_t status           = PL_OK;
    bool own_is_in               = false;

    for (size_t i = 0; (status == PL_OK) && (i < tier->sets.n); i++) {
        pl_tier_set_t set = tier->sets.items[i];
        bool is_named     = false;

        for (int32_t e = 0; !is_named && (e < index->n_entries); e++) {
            is_named = index->entries[e].place.set == set.number;
        }
        if (!own_is_in && (own.number <= set.number)) {
            own_is_in = true;
            status    = PL_ARRAY_PUSH(&sets, own);
        }
        if ((status == PL_OK) && is_named && (set.number != own.number)) {
            status = PL_ARRAY_PUSH(&sets, set);
        }
    }
    if ((status == PL_OK) && !own_is_in) {
        status = PL_ARRAY_PUSH(&sets, own);
    }
    if (status != PL_OK) {
        PL_ARRAY_FREE(&sets);
        return status;
    }
    free(index->sets);
    index->sets   = sets.items;
    index->n_sets = (int32_t)sets.n;
    return PL_OK;
}

static pl_status_t remember_sets(pl_tier_t *tier, const pl_tier_index_t *index)
{
    tier->sets.n = 0;
    for (int32_t i = 0; i < index->n_sets; i++) {
        PL_TRY(PL_ARRAY_PUSH(&tier->sets, index->sets[i]));
    }
    return PL_OK;
}

/* ---- segments of nothing ---- */

static bool is_named(const pl_tier_t *tier, const row_t *rows, size_t n,
                     pl_segment_name_t name)
{
    pl_storage_place_t first = {name.set, name.rank,
                                name.number * tier->segment_slots};
    size_t low               = 0;
    size_t high              = n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (pl_tier_compare_places(&rows[middle].place, &first) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (low < n) && (rows[low].place.set == name.set) &&
           (rows[low].place.rank == name.rank) &&
           (rows[low].place.slot / tier->segment_slots == name.number);
}

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
 * What cannot be removed now can be after the next publication. */
static void remove_segments(pl_tier_t *tier, const pl_tier_index_t *index)
{
    row_t *rows               = sort_by_place(index);
    pl_tier_listing_t listing = {0};

    if ((rows != NULL) &&
        (pl_tier_list(tier->folder, NULL, &listing) == PL_OK)) {
        for (size_t i = 0; i < listing.segments.n; i++) {
            pl_segment_name_t name = listing.segments.items[i];

            if ((name.set != index->own_set) &&
                !is_named(tier, rows, (size_t)index->n_entries, name)) {
                remove_segment(tier, name);
            }
        }
        pl_tier_listing_free(&listing);
    }
    free(rows);
}

/* ---- the whole ---- */

typedef struct said {
    char line[512];
} said_t;

static void keep_line(void *context, pl_log_level_t level, const char *line)
{
    said_t *said = context;

    (void)level;
    (void)snprintf(said->line, sizeof(said->line), "%s", line);
}

void pl_tier_publish_job(pl_tier_t *tier, pl_tier_job_t *job)
{
    said_t said        = {"out of memory"};
    pl_log_t listener  = {keep_line, &said, PL_LOG_ERROR};
    pl_status_t status = PL_OK;

    job->bad = 1;
    if (!atomic_load(&tier->can_write)) {
        return;
    }
    status = prove(tier, &job->index);
    if (status == PL_OK) {
        status = list_sets(tier, &job->index);
    }
    if (status == PL_OK) {
        status =
            pl_tier_index_publish(&job->index, tier->folder, tier->params.files,
                                  &tier->inject, tier->params.rank, &listener);
    }
    if (status == PL_OK) {
        status = remember_sets(tier, &job->index);
    }
    if (status != PL_OK) {
        pl_tier_give_up(tier, said.line);
        return;
    }
    job->bad = 0;
    remove_segments(tier, &job->index);
}
