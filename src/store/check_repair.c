/* Keep exactly what is proven good.
 *
 * First the new index, like any publication: from then on nothing names what is
 * bad.  Then what nothing names goes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/check_internal.h"

static pl_status_t failed_at(const pl_check_tier_t *check, const char *what,
                             int failed)
{
    pl_log(check->log, PL_LOG_ERROR, "%s: cannot %s: %s", check->folder, what,
           strerror(failed));
    return PL_ERR_IO;
}

/* ---- the index ---- */

/* Sets that an entry names, and the own one. */
static pl_status_t drop_sets(pl_tier_index_t *index)
{
    bool *is_named = calloc((size_t)index->n_sets, sizeof(*is_named));
    int32_t n      = 0;

    if (is_named == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < index->n_entries; i++) {
        is_named[pl_tier_index_set(index, index->entries[i].place.set) -
                 index->sets] = true;
    }
    for (int32_t s = 0; s < index->n_sets; s++) {
        if (is_named[s] || (index->sets[s].number == index->own_set)) {
            index->sets[n++] = index->sets[s];
        }
    }
    index->n_sets = n;
    free(is_named);
    return PL_OK;
}

static pl_status_t publish(pl_check_tier_t *check)
{
    pl_tier_index_t *index = &check->index;

    for (int32_t i = 0; i < index->n_entries; i++) {
        if (check->is_bad[i] != 0) {
            index->entries[i].stamp = 0;
        }
    }
    if ((pl_tier_index_close(index) != PL_OK) || (drop_sets(index) != PL_OK)) {
        return failed_at(check, "repair it", ENOMEM);
    }
    /* What was written later than this index knew is old now. */
    index->settled_stamp = check->highest;
    index->next_stamp    = check->highest + 1;
    return pl_tier_index_publish(index, check->folder, NULL, NULL, 0,
                                 check->log);
}

/* ---- what nothing names ---- */

static pl_status_t remove_file(const pl_check_tier_t *check, const char *name)
{
    char *path = pl_tier_path(check->folder, name);
    int failed = path == NULL ? ENOMEM : pl_files_unlink(NULL, path);

    free(path);
    return failed == 0 ? PL_OK : failed_at(check, "remove a file", failed);
}

/* Torn ones, and those of other sets in which nothing is named. */
static pl_status_t remove_segments(const pl_check_tier_t *check)
{
    const pl_tier_index_t *index = &check->index;
    int32_t slots                = pl_segment_slots(index->page_bytes);
    pl_tier_row_t *rows          = pl_tier_rows(index);
    pl_status_t status           = PL_OK;

    if (rows == NULL) {
        return failed_at(check, "repair it", ENOMEM);
    }
    for (size_t s = 0; (status == PL_OK) && (s < check->listing.segments.n);
         s++) {
        pl_segment_name_t name = check->listing.segments.items[s];
        char text[PL_SEGMENT_NAME_BYTES];

        if (check->is_torn[s] || !check->has_index ||
            ((name.set != index->own_set) &&
             !pl_tier_rows_name(rows, index->n_entries, slots, name))) {
            pl_segment_name_text(name, text);
            status = remove_file(check, text);
        }
    }
    free(rows);
    return status;
}

/* A header that no write of ours can have made: no page. */
static pl_status_t clear_header(const pl_check_tier_t *check,
                                const pl_check_slot_t *slot)
{
    uint8_t none[PL_HEADER_BYTES] = {0};
    struct iovec piece            = {none, sizeof(none)};
    char text[PL_SEGMENT_NAME_BYTES];
    pl_segment_form_t form;
    const char *why;
    char *path;
    int fd     = -1;
    int failed = ENOMEM;

    pl_segment_name_text(slot->segment, text);
    path = pl_tier_path(check->folder, text);
    if (path != NULL) {
        failed = pl_files_open_file(NULL, path, O_RDWR, &fd);
    }
    free(path);
    if (failed == ENOENT) {
        return PL_OK; /* it went with its segment */
    }
    if ((failed == 0) &&
        (pl_segment_check(fd, slot->segment, &form, &why) == PL_OK)) {
        failed = pl_files_write(NULL, fd, &piece, 1,
                                form.headers_at +
                                    (uint64_t)slot->slot * PL_HEADER_BYTES);
        failed = failed == 0 ? pl_files_sync_data(NULL, fd) : failed;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return failed == 0 ? PL_OK : failed_at(check, "clear a header", failed);
}

pl_status_t pl_check_repair(pl_check_tier_t *check)
{
    int failed;

    if (check->has_index) {
        PL_TRY(publish(check));
    } else if (check->listing.has_index) {
        PL_TRY(remove_file(check, PL_TIER_INDEX));
    }
    /* (A publication has written over it and renamed it.) */
    if (!check->has_index && check->listing.has_partial) {
        PL_TRY(remove_file(check, PL_TIER_INDEX ".partial"));
    }
    PL_TRY(remove_segments(check));
    for (size_t i = 0; check->has_index && (i < check->absurd.n); i++) {
        PL_TRY(clear_header(check, &check->absurd.items[i]));
    }
    failed = pl_files_sync_folder(NULL, check->folder);
    return failed == 0 ? PL_OK : failed_at(check, "sync it", failed);
}
