/* Pages to and from segments; the worker's thread alone. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/tier_folder.h"
#include "store/tier_internal.h"

int pl_tier_compare_places(const pl_storage_place_t *a,
                           const pl_storage_place_t *b)
{
    if (a->set != b->set) {
        return a->set < b->set ? -1 : 1;
    }
    if (a->rank != b->rank) {
        return a->rank < b->rank ? -1 : 1;
    }
    return (a->slot > b->slot) - (a->slot < b->slot);
}

pl_segment_name_t pl_tier_segment_of(const pl_tier_t *tier,
                                     const pl_storage_place_t *place)
{
    return (pl_segment_name_t){place->set, place->rank,
                               place->slot / tier->segment_slots};
}

static void give_up(pl_tier_t *tier, int failed)
{
    char why[128];

    (void)snprintf(why, sizeof(why), "a segment cannot be written: %s",
                   strerror(failed));
    pl_tier_give_up(tier, why);
}

/* ---- open segments ---- */

static bool is_name(const pl_tier_handle_t *handle, pl_segment_name_t name)
{
    return (handle->form.name.number == name.number) &&
           (handle->form.name.rank == name.rank) &&
           (handle->form.name.set == name.set);
}

static pl_tier_handle_t *find_handle(pl_tier_t *tier, pl_segment_name_t name)
{
    for (int i = 0; i < tier->n_handles; i++) {
        if (is_name(&tier->handles[i], name)) {
            tier->handles[i].used = ++tier->clock;
            return &tier->handles[i];
        }
    }
    return NULL;
}

static void close_handle(const pl_tier_handle_t *handle)
{
    (void)close(handle->fd);
    if (handle->header_fd >= 0) {
        (void)close(handle->header_fd);
    }
}

void pl_tier_close_handles(pl_tier_t *tier)
{
    for (int i = 0; i < tier->n_handles; i++) {
        close_handle(&tier->handles[i]);
    }
    tier->n_handles = 0;
}

/* 0 or the error number of the first sync of this door that has failed: the
 * kernel says so once, and takes what it could not write for written from then
 * on.  So no file is synced again after that, and nothing of the batch is good,
 * whenever in it that was. */
static int sync_all(pl_tier_t *tier)
{
    for (int i = 0; i < tier->n_handles; i++) {
        pl_tier_handle_t *handle = &tier->handles[i];

        if (handle->is_dirty && (tier->sync_failed == 0)) {
            tier->sync_failed =
                pl_files_sync_data(tier->params.files, handle->fd);
        }
        handle->is_dirty = false;
    }
    return tier->sync_failed;
}

static void forget(pl_tier_t *tier, pl_tier_handle_t *handle)
{
    close_handle(handle);
    *handle = tier->handles[--tier->n_handles];
}

/* Room for one more: what was used least recently goes.  0 or an error
 * number. */
static int make_room(pl_tier_t *tier)
{
    pl_tier_handle_t *oldest = &tier->handles[0];
    int failed               = 0;

    if (tier->n_handles < PL_TIER_HANDLES) {
        return 0;
    }
    for (int i = 1; i < tier->n_handles; i++) {
        if (tier->handles[i].used < oldest->used) {
            oldest = &tier->handles[i];
        }
    }
    if (oldest->is_dirty) {
        failed = sync_all(tier);
    }
    if (failed == 0) {
        forget(tier, oldest);
    }
    return failed;
}

static bool is_ours(const pl_tier_t *tier, const pl_segment_form_t *form)
{
    return (form->identity == tier->identity) &&
           (form->page_bytes == tier->params.identity.page_bytes);
}

static pl_tier_handle_t *keep(pl_tier_t *tier, const pl_segment_form_t *form,
                              int fd, bool can_write)
{
    pl_tier_handle_t *handle = &tier->handles[tier->n_handles++];

    *handle = (pl_tier_handle_t){.header_fd = -1,
                                 .form      = *form,
                                 .fd        = fd,
                                 .can_write = can_write,
                                 .used      = ++tier->clock};
    return handle;
}

pl_status_t pl_tier_find_segment(pl_tier_t *tier, pl_segment_name_t name,
                                 pl_tier_handle_t **handle_p)
{
    pl_segment_form_t form;
    pl_status_t status;
    const char *why;
    int fd;

    *handle_p = find_handle(tier, name);
    if (*handle_p != NULL) {
        return PL_OK;
    }
    if (make_room(tier) != 0) {
        return PL_ERR_IO;
    }
    fd = pl_tier_open_segment(tier->folder, name);
    if (fd < 0) {
        return errno == ENOENT ? PL_OK : PL_ERR_IO;
    }
    status = pl_segment_check(fd, name, &form, &why);
    if ((status == PL_OK) && is_ours(tier, &form)) {
        *handle_p = keep(tier, &form, fd, false);
        return PL_OK;
    }
    (void)close(fd);
    return status == PL_ERR_INPUT ? PL_OK : status;
}

/* ---- segments of this rank ---- */

static int32_t slots_of(const pl_tier_t *tier, int32_t number)
{
    int32_t left = tier->params.n_slots - number * tier->segment_slots;

    return left < tier->segment_slots ? left : tier->segment_slots;
}

/* 0 or an error number; *fd_p: -1 if there is none. */
static int open_if_there(pl_tier_t *tier, pl_segment_name_t name, int *fd_p)
{
    char text[PL_SEGMENT_NAME_BYTES];
    struct stat about;
    char *path;
    int failed = ENOMEM;

    *fd_p = -1;
    pl_segment_name_text(name, text);
    path = pl_tier_path(tier->folder, text);
    if (path != NULL) {
        failed = stat(path, &about) != 0 ? errno : 0;
    }
    if ((path != NULL) && (failed == 0)) {
        failed = pl_files_open_file(tier->params.files, path, O_RDWR, fd_p);
    }
    free(path);
    return failed == ENOENT ? 0 : failed;
}

/* One that is there and sound.  0 and *fd_p == -1: make it anew, there is none
 * or it is torn for certain; whatever cannot be told now is an error number. */
static int open_old(pl_tier_t *tier, pl_segment_name_t name, int32_t slots,
                    pl_segment_form_t *form, int *fd_p)
{
    int failed = open_if_there(tier, name, fd_p);
    pl_status_t status;
    const char *why;

    if (*fd_p < 0) {
        return failed;
    }
    status = pl_segment_check(*fd_p, name, form, &why);
    if ((status == PL_OK) && is_ours(tier, form) && (form->slots == slots)) {
        return 0;
    }
    (void)close(*fd_p);
    *fd_p = -1;
    if (status == PL_ERR_MEMORY) {
        return ENOMEM;
    }
    return status == PL_ERR_IO ? EIO : 0;
}

static int create(pl_tier_t *tier, pl_segment_name_t name, int32_t slots,
                  pl_segment_form_t *form, int *fd_p)
{
    pl_segment_mould_t *mould =
        &tier->moulds[slots == tier->segment_slots ? 0 : 1];

    if ((mould->number == NULL) &&
        (pl_segment_mould_make(&tier->params.identity, name, slots,
                               tier->params.log, mould) != PL_OK)) {
        return ENOMEM;
    }
    return pl_segment_create(tier->params.files, tier->folder, mould,
                             name.number, form, fd_p);
}

/* 0 or an error number. */
static int segment_to_write(pl_tier_t *tier, pl_segment_name_t name,
                            pl_tier_handle_t **handle_p)
{
    pl_tier_handle_t *handle = find_handle(tier, name);
    int32_t slots            = slots_of(tier, name.number);
    int fd                   = -1;
    pl_segment_form_t form;
    int failed;

    if ((handle != NULL) && handle->can_write) {
        *handle_p = handle;
        return 0;
    }
    if (handle != NULL) {
        forget(tier, handle);
    }
    failed = make_room(tier);
    if (failed == 0) {
        failed = open_old(tier, name, slots, &form, &fd);
    }
    if ((failed == 0) && (fd < 0)) {
        failed = create(tier, name, slots, &form, &fd);
    }
    if (failed == 0) {
        *handle_p = keep(tier, &form, fd, true);
    }
    return failed;
}

/* ---- runs of slots ---- */

/* How many pages from i on lie side by side in one segment. */
static int32_t run_of(const pl_tier_t *tier, const pl_storage_place_t *places,
                      int32_t i, int32_t end)
{
    int32_t n = 1;

    while ((i + n < end) && (places[i + n].set == places[i].set) &&
           (places[i + n].rank == places[i].rank) &&
           (places[i + n].slot == places[i].slot + n) &&
           (places[i + n].slot % tier->segment_slots != 0)) {
        n++;
    }
    return n;
}

/* The pieces of n pages from i on, as the kernel takes them. */
static struct iovec *list_pieces(pl_tier_t *tier, const pl_tier_job_t *job,
                                 int32_t i, int32_t n)
{
    size_t n_pieces                  = (size_t)job->io.n_pieces;
    const pl_storage_piece_t *pieces = &job->pieces[(size_t)i * n_pieces];

    if (PL_ARRAY_RESERVE(&tier->list, (size_t)n * n_pieces + 1) != PL_OK) {
        return NULL;
    }
    for (size_t p = 0; p < (size_t)n * n_pieces; p++) {
        tier->list.items[p] = (struct iovec){pieces[p].bytes, pieces[p].n};
    }
    return tier->list.items;
}

static uint64_t page_at(const pl_tier_t *tier, const pl_segment_form_t *form,
                        int32_t slot)
{
    return form->pages_at +
           (uint64_t)(slot % tier->segment_slots) * (uint64_t)form->page_bytes;
}

/* ---- writing ---- */

static int write_headers(pl_tier_t *tier, const pl_tier_handle_t *handle,
                         const pl_tier_job_t *job, int32_t i, int32_t n)
{
    int32_t first      = job->places[i].slot % tier->segment_slots;
    uint8_t *bytes     = malloc((size_t)n * PL_HEADER_BYTES);
    struct iovec piece = {bytes, (size_t)n * PL_HEADER_BYTES};
    int failed;

    if (bytes == NULL) {
        return ENOMEM;
    }
    for (int32_t k = 0; k < n; k++) {
        pl_header_pack(&job->headers[i + k], bytes + k * PL_HEADER_BYTES);
    }
    failed = pl_files_write(tier->params.files, handle->fd, &piece, 1,
                            handle->form.headers_at +
                                (uint64_t)first * PL_HEADER_BYTES);
    free(bytes);
    return failed;
}

static int write_run(pl_tier_t *tier, const pl_tier_job_t *job, int32_t i,
                     int32_t n, bool with_headers)
{
    pl_tier_handle_t *handle = NULL;
    struct iovec *list;
    int failed = segment_to_write(
        tier, pl_tier_segment_of(tier, &job->places[i]), &handle);

    if (failed != 0) {
        return failed;
    }
    list = list_pieces(tier, job, i, n);
    if (list == NULL) {
        return ENOMEM;
    }
    handle->is_dirty = true;
    failed           = pl_files_write(tier->params.files, handle->fd, list,
                                      n * job->io.n_pieces,
                                      page_at(tier, &handle->form, job->places[i].slot));
    return (failed != 0) || !with_headers
               ? failed
               : write_headers(tier, handle, job, i, n);
}

static int write_job(pl_tier_t *tier, const pl_tier_job_t *job)
{
    bool is_dying = pl_tier_hits(tier, PL_INJECT_DIE_STORE);
    int32_t end   = is_dying ? (job->io.n_pages + 1) / 2 : job->io.n_pages;
    int failed    = 0;
    int32_t n;

    for (int32_t i = 0; (failed == 0) && (i < end); i += n) {
        n      = run_of(tier, job->places, i, end);
        failed = write_run(tier, job, i, n, !is_dying);
    }
    if (is_dying) {
        (void)kill(getpid(), SIGKILL);
    }
    return failed;
}

/* --inject flip=storage: a bit of the job's first page. */
static void flip_a_bit(pl_tier_t *tier, const pl_tier_job_t *job)
{
    pl_tier_handle_t *handle;
    uint8_t byte       = 0;
    struct iovec piece = {&byte, 1};
    uint64_t at;

    if (job->io.n_pages == 0) {
        return;
    }
    handle = find_handle(tier, pl_tier_segment_of(tier, &job->places[0]));
    if (handle != NULL) {
        at = page_at(tier, &handle->form, job->places[0].slot);
        if (pl_segment_read(handle->fd, &piece, 1, at)) {
            byte ^= 1;
            piece = (struct iovec){&byte, 1};
            (void)pl_files_write(NULL, handle->fd, &piece, 1, at);
        }
    }
}

/* Everything to disk; 0 or an error number. */
static int settle(pl_tier_t *tier)
{
    if (pl_tier_hits(tier, PL_INJECT_DIE_STORE_SYNC)) {
        (void)kill(getpid(), SIGKILL);
    }
    return sync_all(tier);
}

void pl_tier_write_jobs(pl_tier_t *tier, pl_tier_job_t *first,
                        const pl_tier_job_t *end)
{
    int failed = 0;

    for (pl_tier_job_t *job = first; job != end; job = job->next) {
        if (atomic_load(&tier->can_write)) {
            failed   = write_job(tier, job);
            job->bad = failed != 0 ? 1 : 0;
        } else {
            job->bad = 1;
        }
        if (failed != 0) {
            give_up(tier, failed);
        }
    }
    failed = settle(tier);
    if (failed != 0) {
        give_up(tier, failed);
    }
    for (pl_tier_job_t *job = first; job != end; job = job->next) {
        if (failed != 0) {
            job->bad = 1;
        } else if ((job->bad == 0) &&
                   pl_tier_hits(tier, PL_INJECT_FLIP_STORAGE)) {
            flip_a_bit(tier, job);
        }
    }
}

/* ---- reading ---- */

/* 0; else an error number, or -1 if the segment ends before. */
static int read_run(pl_tier_t *tier, pl_tier_handle_t *handle,
                    const pl_tier_job_t *job, int32_t i, int32_t n)
{
    struct iovec *list = list_pieces(tier, job, i, n);

    if (list == NULL) {
        return ENOMEM;
    }
    if (pl_segment_read(handle->fd, list, n * job->io.n_pieces,
                        page_at(tier, &handle->form, job->places[i].slot))) {
        return 0;
    }
    return errno != 0 ? errno : -1;
}

/* Headers are read through a descriptor of their own: the kernel then sees that
 * pages are read in a row, and reads ahead. */
static int header_fd_of(const pl_tier_t *tier, pl_tier_handle_t *handle)
{
    if (handle->header_fd < 0) {
        handle->header_fd =
            pl_tier_open_segment(tier->folder, handle->form.name);
    }
    return handle->header_fd < 0 ? handle->fd : handle->header_fd;
}

/* Nothing of n pages from i on could be had; is it proven that it never will
 * be? */
static pl_storage_end_t none_of(int32_t i, int32_t n, bool is_proven)
{
    uint64_t mask = (n < 64 ? (UINT64_C(1) << n) - 1 : UINT64_MAX) << i;

    return is_proven ? (pl_storage_end_t){.bad = mask}
                     : (pl_storage_end_t){.unread = mask};
}

/* Which of n pages from i on are not what the directory says; their digests. */
static pl_storage_end_t check_headers(const pl_tier_t *tier,
                                      pl_tier_handle_t *handle,
                                      const pl_tier_job_t *job, int32_t i,
                                      int32_t n)
{
    pl_storage_header_t found[PL_STORAGE_READ_PAGES];
    int32_t first        = job->places[i].slot % tier->segment_slots;
    pl_storage_end_t end = {0};

    if (!pl_segment_read_headers(header_fd_of(tier, handle), &handle->form,
                                 first, n, found)) {
        return none_of(i, n, errno == 0);
    }
    for (int32_t k = 0; k < n; k++) {
        pl_storage_header_t *wanted = &job->headers[i + k];

        wanted->digest = found[k].digest;
        if ((wanted->stamp != found[k].stamp) ||
            (wanted->chain != found[k].chain)) {
            end.bad |= UINT64_C(1) << (i + k);
        }
    }
    return end;
}

static void add_end(pl_storage_end_t *sum, pl_storage_end_t end)
{
    sum->bad |= end.bad;
    sum->unread |= end.unread;
}

/* Pages [i, i + n) lie side by side. */
static pl_storage_end_t read_pages(pl_tier_t *tier, const pl_tier_job_t *job,
                                   int32_t i, int32_t n)
{
    pl_segment_name_t name   = pl_tier_segment_of(tier, &job->places[i]);
    pl_tier_handle_t *handle = NULL;
    bool is_known = pl_tier_find_segment(tier, name, &handle) == PL_OK;
    pl_storage_end_t end;
    int failed;

    if (handle == NULL) {
        return none_of(i, n, is_known);
    }
    if ((job->places[i].slot < 0) ||
        (job->places[i].slot % tier->segment_slots + n > handle->form.slots)) {
        return none_of(i, n, true);
    }
    end = check_headers(tier, handle, job, i, n);
    if ((end.unread != 0) || (read_run(tier, handle, job, i, n) == 0)) {
        return end;
    }
    for (int32_t k = i; k < i + n; k++) {
        if (((end.bad >> k) & 1) == 0) {
            failed = read_run(tier, handle, job, k, 1);
            if (failed != 0) {
                add_end(&end, none_of(k, 1, failed < 0));
            }
        }
    }
    return end;
}

void pl_tier_read_job(pl_tier_t *tier, pl_tier_job_t *job)
{
    pl_storage_end_t sum = {0};
    int32_t n;

    for (int32_t i = 0; i < job->io.n_pages; i += n) {
        n = run_of(tier, job->places, i, job->io.n_pages);
        add_end(&sum, read_pages(tier, job, i, n));
    }
    job->bad    = sum.bad;
    job->unread = sum.unread;
}
