/* store/segment.h - one file of pages of a storage tier; inside store.
 *
 *     set<S>-rank<R>-<NNNN>.h5
 *     4096 bytes  a block of text that says what and where everything is
 *     HDF5        attributes; /pages U8[slot][byte]; /headers {stamp, chain,
 *                 digest}[slot], both in one piece
 *
 * The block is HDF5's user block.  Whoever reads pages needs nothing else, so
 * no structure of a damaged file is ever given to HDF5; it says a digest of the
 * HDF5 skeleton, too.  A segment is sound when block, size and skeleton are as
 * they were made; what is not sound has no pages.
 *
 * Which slot lies in which segment follows from the size of a page alone.
 */
#ifndef PL_STORE_SEGMENT_H
#define PL_STORE_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "cache/storage_table.h"
#include "store/file.h"
#include "store/tier.h"

#define PL_SEGMENT_FORMAT     "pagelane-segment"
#define PL_SEGMENT_MAJOR      1
#define PL_SEGMENT_BLOCK      4096
#define PL_SEGMENT_MOST_SLOTS 65536
#define PL_SEGMENT_NAME_BYTES 64

typedef struct pl_segment_name {
    int32_t set, rank, number;
} pl_segment_name_t;

typedef struct pl_segment_form {
    pl_segment_name_t name;
    int32_t slots;
    int64_t page_bytes;
    uint64_t pages_at, headers_at; /* from the start of the file */
    uint64_t bytes;                /* of the file */
    uint64_t identity;             /* pl_tier_identity_hash */
    uint64_t skeleton;             /* digest of what is neither page, header nor
                                      block */
} pl_segment_form_t;

/* Of pages in a segment, about: 64 MiB.  The same for all that read or write a
 * folder; tests make it small, before their folder is there, to have many
 * segments of few pages. */
extern int64_t pl_segment_bytes;

/* Of all segments of a set but the last, which may have less. */
int32_t pl_segment_slots(int64_t page_bytes);

/* "set0-rank3-0007.h5", into text[PL_SEGMENT_NAME_BYTES]; and back: false if it
 * is no such name, or one whose numbers no index can have. */
void pl_segment_name_text(pl_segment_name_t name, char *text);
bool pl_segment_name_parse(const char *text, pl_segment_name_t *name_p);

/* A skeleton that segments of `slots` slots are made from. */
typedef struct pl_segment_mould {
    pl_segment_form_t form;
    struct {
        uint64_t at;
        size_t n;
        uint8_t *bytes; /* owned */
    } pieces[3];        /* of the file, without pages and headers; ascending */
    uint8_t *number;    /* where in them the attribute `number` lies */
} pl_segment_mould_t;

/* PL_OK, PL_ERR_MEMORY, PL_ERR_INTERNAL (HDF5 refuses), one line. */
PL_MUST_CHECK pl_status_t pl_segment_mould_make(
    const pl_tier_identity_t *identity, pl_segment_name_t name, int32_t slots,
    const pl_log_t *log, pl_segment_mould_t *mould_p);
void pl_segment_mould_free(pl_segment_mould_t *mould);

/* Make the file anew and bring it to the disk, its name included.  0, and *fd_p
 * is open for reading and writing; or an error number, and it is removed. */
int pl_segment_create(pl_files_t *files, const char *folder,
                      pl_segment_mould_t *mould, int32_t number,
                      pl_segment_form_t *form_p, int *fd_p);

/* Is what is open there a sound segment of that name?  PL_OK; PL_ERR_INPUT: it
 * is torn for good, *why_p says how; PL_ERR_IO, PL_ERR_MEMORY: that could not
 * be found out now, and nothing follows from it (*why_p as well).  Silent. */
PL_MUST_CHECK pl_status_t pl_segment_check(int fd, pl_segment_name_t name,
                                           pl_segment_form_t *form_p,
                                           const char **why_p);

/* All n bytes from `at` on, into the pieces (which are used up).  false: errno
 * says why not; 0: the file ends before. */
bool pl_segment_read(int fd, struct iovec *pieces, int n_pieces, uint64_t at);

/* The headers of slots [first, first + n), as they lie there. */
bool pl_segment_read_headers(int fd, const pl_segment_form_t *form,
                             int32_t first, int32_t n,
                             pl_storage_header_t *headers);

/* As they lie in a file: little-endian, without gaps. */
#define PL_HEADER_BYTES 24
void pl_header_pack(const pl_storage_header_t *header, uint8_t *bytes);
void pl_header_unpack(const uint8_t *bytes, pl_storage_header_t *header_p);

/* One number for an identity. */
uint64_t pl_tier_identity_hash(const pl_tier_identity_t *identity);

#endif /* PL_STORE_SEGMENT_H */
