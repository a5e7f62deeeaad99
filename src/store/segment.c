#define _DEFAULT_SOURCE /* preadv */
#include "store/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "store/tier_index.h"

int64_t pl_segment_bytes = 64 << 20;

int32_t pl_segment_slots(int64_t page_bytes)
{
    int64_t slots = pl_segment_bytes / (page_bytes > 0 ? page_bytes : 1);

    slots = slots > PL_SEGMENT_MOST_SLOTS ? PL_SEGMENT_MOST_SLOTS : slots;
    return slots > 0 ? (int32_t)slots : 1;
}

void pl_segment_name_text(pl_segment_name_t name, char *text)
{
    (void)snprintf(text, PL_SEGMENT_NAME_BYTES,
                   "set%" PRId32 "-rank%" PRId32 "-%04" PRId32 ".h5", name.set,
                   name.rank, name.number);
}

bool pl_segment_name_parse(const char *text, pl_segment_name_t *name_p)
{
    char again[PL_SEGMENT_NAME_BYTES];
    pl_segment_name_t name;

    if ((strlen(text) >= PL_SEGMENT_NAME_BYTES) ||
        (sscanf(text, "set%9" SCNd32 "-rank%9" SCNd32 "-%9" SCNd32, &name.set,
                &name.rank, &name.number) != 3) ||
        (name.set < 0) || (name.set >= PL_TIER_MOST_SETS) || (name.rank < 0) ||
        (name.rank >= PL_MAX_RANKS) || (name.number < 0)) {
        return false;
    }
    pl_segment_name_text(name, again);
    if (strcmp(again, text) != 0) {
        return false;
    }
    *name_p = name;
    return true;
}

/* ---- headers ---- */

static void put64(uint8_t *bytes, uint64_t value)
{
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t get64(const uint8_t *bytes)
{
    uint64_t value = 0;

    for (int i = 8; i-- > 0;) {
        value = value << 8 | bytes[i];
    }
    return value;
}

void pl_header_pack(const pl_storage_header_t *header, uint8_t *bytes)
{
    put64(bytes, (uint64_t)header->stamp);
    put64(bytes + 8, header->chain);
    put64(bytes + 16, header->digest);
}

void pl_header_unpack(const uint8_t *bytes, pl_storage_header_t *header_p)
{
    header_p->stamp  = (int64_t)get64(bytes);
    header_p->chain  = get64(bytes + 8);
    header_p->digest = get64(bytes + 16);
}

/* ---- the block ---- */

/* All of it; what is behind the text is zero. */
static void write_block(const pl_segment_form_t *form,
                        char block[PL_SEGMENT_BLOCK])
{
    int n;

    memset(block, 0, PL_SEGMENT_BLOCK);
    n = snprintf(
        block, PL_SEGMENT_BLOCK,
        PL_SEGMENT_FORMAT
        " %d\nset %" PRId32 "\nrank %" PRId32 "\nnumber %" PRId32
        "\nslots %" PRId32 "\npage_bytes %" PRId64 "\npages_at %" PRIu64
        "\nheaders_at %" PRIu64 "\nbytes %" PRIu64 "\nidentity %016" PRIx64
        "\nskeleton %016" PRIx64 "\n",
        PL_SEGMENT_MAJOR, form->name.set, form->name.rank, form->name.number,
        form->slots, form->page_bytes, form->pages_at, form->headers_at,
        form->bytes, form->identity, form->skeleton);
    (void)snprintf(block + n, (size_t)(PL_SEGMENT_BLOCK - n),
                   "xxh3_64 %016" PRIx64 "\n", pl_hash64(block, (size_t)n, 0));
}

static const char *read_block(const char block[PL_SEGMENT_BLOCK],
                              pl_segment_form_t *form)
{
    char again[PL_SEGMENT_BLOCK];
    char text[PL_SEGMENT_BLOCK + 1];
    int major = 0;

    memcpy(text, block, PL_SEGMENT_BLOCK);
    text[PL_SEGMENT_BLOCK] = '\0';
    if (sscanf(text, PL_SEGMENT_FORMAT " %9d", &major) != 1) {
        return "it does not begin as a segment";
    }
    if (major != PL_SEGMENT_MAJOR) {
        return "another version of pagelane has made it";
    }
    if (sscanf(text,
               PL_SEGMENT_FORMAT " %9d set %9" SCNd32 " rank %9" SCNd32
                                 " number %9" SCNd32 " slots %9" SCNd32
                                 " page_bytes %18" SCNd64 " pages_at %18" SCNu64
                                 " headers_at %18" SCNu64 " bytes %18" SCNu64
                                 " identity %16" SCNx64 " skeleton %16" SCNx64,
               &major, &form->name.set, &form->name.rank, &form->name.number,
               &form->slots, &form->page_bytes, &form->pages_at,
               &form->headers_at, &form->bytes, &form->identity,
               &form->skeleton) != 11) {
        return "its first block is damaged";
    }
    write_block(form, again);
    return memcmp(again, block, PL_SEGMENT_BLOCK) == 0
               ? NULL
               : "its first block is damaged";
}

/* Do pages and headers lie within the file, apart, behind the block?  (All
 * numbers are below 1e18.) */
static bool fits(const pl_segment_form_t *form)
{
    uint64_t slots = (uint64_t)form->slots;
    uint64_t pages, headers;

    if ((form->slots < 1) || (form->slots > PL_SEGMENT_MOST_SLOTS) ||
        (form->page_bytes < 1) ||
        ((uint64_t)form->page_bytes > form->bytes / slots)) {
        return false;
    }
    pages   = slots * (uint64_t)form->page_bytes;
    headers = slots * PL_HEADER_BYTES;
    return (form->pages_at >= PL_SEGMENT_BLOCK) &&
           (form->headers_at >= PL_SEGMENT_BLOCK) &&
           (form->pages_at + pages <= form->bytes) &&
           (form->headers_at + headers <= form->bytes) &&
           ((form->pages_at + pages <= form->headers_at) ||
            (form->headers_at + headers <= form->pages_at));
}

/* ---- the skeleton ---- */

enum { GAPS = 3, MOST_SKELETON = 16 << 20 };

/* What is neither block, pages nor headers. */
static void find_gaps(const pl_segment_form_t *form, pl_file_range_t gaps[GAPS])
{
    uint64_t slots          = (uint64_t)form->slots;
    pl_file_range_t pages   = {form->pages_at,
                               slots * (uint64_t)form->page_bytes};
    pl_file_range_t headers = {form->headers_at, slots * PL_HEADER_BYTES};
    pl_file_range_t first   = pages.first < headers.first ? pages : headers;
    pl_file_range_t second  = pages.first < headers.first ? headers : pages;

    gaps[0] =
        (pl_file_range_t){PL_SEGMENT_BLOCK, first.first - PL_SEGMENT_BLOCK};
    gaps[1] = (pl_file_range_t){first.first + first.n,
                                second.first - first.first - first.n};
    gaps[2] = (pl_file_range_t){second.first + second.n,
                                form->bytes - second.first - second.n};
}

static uint64_t fold_gap(uint64_t digest, const void *bytes, size_t n)
{
    return pl_fold64(digest, pl_hash64(bytes, n, 0));
}

/* What a read that failed says of the segment. */
static pl_status_t not_read(const char **why_p)
{
    *why_p = errno == 0 ? "it is too short" : "it cannot be read";
    return errno == 0 ? PL_ERR_INPUT : PL_ERR_IO;
}

static pl_status_t check_skeleton(int fd, const pl_segment_form_t *form,
                                  const char **why_p)
{
    pl_file_range_t gaps[GAPS];
    uint64_t digest = 0;

    find_gaps(form, gaps);
    for (int i = 0; i < GAPS; i++) {
        size_t n = (size_t)gaps[i].n;
        struct iovec piece;
        uint8_t *bytes;
        bool good;

        if (n > MOST_SKELETON) {
            *why_p = "its first block is damaged";
            return PL_ERR_INPUT;
        }
        bytes = malloc(n > 0 ? n : 1);
        if (bytes == NULL) {
            *why_p = "out of memory";
            return PL_ERR_MEMORY;
        }
        piece  = (struct iovec){bytes, n};
        good   = (n == 0) || pl_segment_read(fd, &piece, 1, gaps[i].first);
        digest = fold_gap(digest, bytes, n);
        if (!good) {
            pl_status_t status = not_read(why_p);

            free(bytes);
            return status;
        }
        free(bytes);
    }
    if (digest != form->skeleton) {
        *why_p = "its HDF5 structure is not as it was made";
        return PL_ERR_INPUT;
    }
    return PL_OK;
}

pl_status_t pl_segment_check(int fd, pl_segment_name_t name,
                             pl_segment_form_t *form_p, const char **why_p)
{
    char block[PL_SEGMENT_BLOCK];
    struct iovec piece     = {block, sizeof(block)};
    pl_segment_form_t form = {0};
    const char *why;
    struct stat about;

    if (fstat(fd, &about) != 0) {
        return not_read(why_p);
    }
    if (!S_ISREG(about.st_mode)) {
        *why_p = "it is no file";
        return PL_ERR_INPUT;
    }
    if (!pl_segment_read(fd, &piece, 1, 0)) {
        return not_read(why_p);
    }
    why = read_block(block, &form);
    if ((why == NULL) && !fits(&form)) {
        why = "its first block is damaged";
    }
    if ((why == NULL) &&
        ((form.name.set != name.set) || (form.name.rank != name.rank) ||
         (form.name.number != name.number))) {
        why = "it was made under another name";
    }
    if ((why == NULL) && ((uint64_t)about.st_size != form.bytes)) {
        why = "it has another size than it was made with";
    }
    if (why != NULL) {
        *why_p = why;
        return PL_ERR_INPUT;
    }
    PL_TRY(check_skeleton(fd, &form, why_p));
    *form_p = form;
    return PL_OK;
}

/* ---- reading ---- */

bool pl_segment_read(int fd, struct iovec *pieces, int n_pieces, uint64_t at)
{
    enum { LONGEST_LIST = 1024 };

    while (n_pieces > 0) {
        int n        = n_pieces < LONGEST_LIST ? n_pieces : LONGEST_LIST;
        ssize_t done = preadv(fd, pieces, n, (off_t)at);
        size_t left;

        if ((done < 0) && (errno == EINTR)) {
            continue;
        }
        if (done <= 0) {
            errno = done < 0 ? errno : 0;
            return false;
        }
        at += (uint64_t)done;
        left = (size_t)done;
        while ((n_pieces > 0) && (left >= pieces->iov_len)) {
            left -= pieces->iov_len;
            pieces++;
            n_pieces--;
        }
        if (n_pieces > 0) {
            pieces->iov_base = (char *)pieces->iov_base + left;
            pieces->iov_len -= left;
        }
    }
    return true;
}

bool pl_segment_read_headers(int fd, const pl_segment_form_t *form,
                             int32_t first, int32_t n,
                             pl_storage_header_t *headers)
{
    uint64_t at = form->headers_at + (uint64_t)first * PL_HEADER_BYTES;
    uint8_t bytes[64 * PL_HEADER_BYTES];

    while (n > 0) {
        int32_t some       = n < 64 ? n : 64;
        struct iovec piece = {bytes, (size_t)some * PL_HEADER_BYTES};

        if (!pl_segment_read(fd, &piece, 1, at)) {
            return false;
        }
        for (int32_t i = 0; i < some; i++) {
            pl_header_unpack(bytes + i * PL_HEADER_BYTES, headers++);
        }
        at += (uint64_t)some * PL_HEADER_BYTES;
        n -= some;
    }
    return true;
}

/* ---- making ---- */

static int write_pieces(pl_files_t *files, int fd,
                        const pl_segment_mould_t *mould,
                        const pl_segment_form_t *form)
{
    char block[PL_SEGMENT_BLOCK];
    int failed = pl_files_allocate(files, fd, form->bytes);

    write_block(form, block);
    for (int i = -1; (failed == 0) && (i < GAPS); i++) {
        struct iovec piece = {block, sizeof(block)};

        if (i >= 0) {
            piece = (struct iovec){mould->pieces[i].bytes, mould->pieces[i].n};
        }
        if (piece.iov_len > 0) {
            failed = pl_files_write(files, fd, &piece, 1,
                                    i < 0 ? 0 : mould->pieces[i].at);
        }
    }
    return failed;
}

int pl_segment_create(pl_files_t *files, const char *folder,
                      pl_segment_mould_t *mould, int32_t number,
                      pl_segment_form_t *form_p, int *fd_p)
{
    pl_segment_form_t form = mould->form;
    size_t n               = strlen(folder) + PL_SEGMENT_NAME_BYTES + 2;
    char *path             = malloc(n);
    char name[PL_SEGMENT_NAME_BYTES];
    int failed;
    int fd = -1;

    if (path == NULL) {
        return ENOMEM;
    }
    form.name.number = number;
    put64(mould->number, (uint64_t)number);
    form.skeleton = 0;
    for (int i = 0; i < GAPS; i++) {
        form.skeleton =
            fold_gap(form.skeleton, mould->pieces[i].bytes, mould->pieces[i].n);
    }
    pl_segment_name_text(form.name, name);
    (void)snprintf(path, n, "%s/%s", folder, name);
    failed = pl_files_open_file(files, path, O_RDWR | O_CREAT | O_TRUNC, &fd);
    if (failed == 0) {
        failed = write_pieces(files, fd, mould, &form);
    }
    if (failed == 0) {
        failed = pl_files_sync(files, fd);
    }
    if (failed == 0) {
        failed = pl_files_sync_folder(files, folder);
    }
    if ((failed != 0) && (fd >= 0)) {
        /* What was not synced may look whole to the next run, and not be. */
        (void)pl_files_unlink(files, path);
        (void)close(fd);
    }
    free(path);
    if (failed != 0) {
        return failed;
    }
    *form_p = form;
    *fd_p   = fd;
    return 0;
}

void pl_segment_mould_free(pl_segment_mould_t *mould)
{
    for (int i = 0; i < GAPS; i++) {
        free(mould->pieces[i].bytes);
    }
    *mould = (pl_segment_mould_t){0};
}
