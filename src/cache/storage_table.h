/* cache/storage_table.h - how one rank moves bytes to and from the storage
 * tier: a table that is handed in (store/tier.h implements it).
 *
 * Calls start work that runs beside the caller's; wait ends it.  What is
 * started in one tick may be done, and synced, together.  One door belongs to
 * one thread of one rank.  A disk that fails is not an error of the run: it is
 * said once, the pages in question are reported as bad or unread, and reads of
 * what is sound go on.
 */
#ifndef PL_CACHE_STORAGE_TABLE_H
#define PL_CACHE_STORAGE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "cache/storage.h"

typedef struct pl_storage_door pl_storage_door_t;

/* Pages of one read are at most as many as a word has bits. */
#define PL_STORAGE_READ_PAGES 64

/* A piece of a page in memory; the pieces of a page in order are its bytes on
 * disk.  Which pieces a page has is the same for all pages. */
typedef struct pl_storage_piece {
    void *bytes;
    size_t n;
} pl_storage_piece_t;

/* What is beside a page's bytes on disk.  Of a read the caller says which stamp
 * and chain the directory knows, and gets the digest that stands there. */
typedef struct pl_storage_header {
    int64_t stamp;
    uint64_t chain;
    uint64_t digest; /* of the page's content, by its writer: the sum of the
                        digests of all layers and stores (verify/digest.h) */
} pl_storage_header_t;

/* Pages of this rank's share of the own set (write), or of any share (read).
 * Everything but `pieces` and `headers` is borrowed for the call; pieces'
 * memory and, of a read, `headers` stay the caller's until the wait. */
typedef struct pl_storage_io {
    int32_t n_pages;
    const pl_storage_place_t *places; /* [n_pages] */
    pl_storage_header_t *headers;     /* [n_pages] write: in; read: stamp and
                                         chain in, digest out */
    const pl_storage_piece_t *pieces; /* [n_pages * n_pieces] */
    int32_t n_pieces;
} pl_storage_io_t;

/* What became of a ticket.  Of a read, bit i is of page i: bad says that what
 * lies there is not that page, now and for ever (no segment, another stamp or
 * chain, a file that ends before); unread that it could not be looked at now
 * (memory, descriptors, a device that fails), so that nothing is known of it.
 * Never both.  Of a write or publication, bad is not 0 if it failed. */
typedef struct pl_storage_end {
    uint64_t bad, unread;
} pl_storage_end_t;

/* What a publication says besides the directory. */
typedef struct pl_storage_run {
    int32_t n_requests;
    const uint8_t *finished; /* [n_requests] */
} pl_storage_run_t;

typedef struct pl_storage_door_ops {
    /* Could a write start?  Nothing is touched.  false: this rank's writes have
     * failed for good (said once when it was seen). */
    bool (*can_write)(pl_storage_door_t *door);
    /* *ticket_p > 0.  A write is done when the bytes and headers are on the
     * disk (synced).  Statuses besides PL_OK: PL_ERR_MEMORY. */
    pl_status_t (*write)(pl_storage_door_t *door, const pl_storage_io_t *io,
                         int64_t *ticket_p);
    pl_status_t (*read)(pl_storage_door_t *door, const pl_storage_io_t *io,
                        int64_t *ticket_p);
    /* Rank 0 only: put out an index of what is kept now, whose bytes and
     * headers are on the disk.  The directory and `run` are copied in the call.
     */
    pl_status_t (*publish)(pl_storage_door_t *door, const pl_storage_t *storage,
                           const pl_storage_run_t *run, int64_t *ticket_p);
    /* Wait for it; the ticket is then gone. */
    pl_status_t (*wait)(pl_storage_door_t *door, int64_t ticket,
                        pl_storage_end_t *end_p);
    /* Waits for what is under way; nothing is published. */
    void (*close)(pl_storage_door_t *door);
} pl_storage_door_ops_t;

struct pl_storage_door {
    const pl_storage_door_ops_t *ops; /* first member of every door */
};

/* How a rank of a run gets its door; called on each prefill rank's own thread.
 */
typedef struct pl_storage_opener {
    pl_status_t (*open)(void *context, int rank, pl_storage_door_t **door_p);
    void *context;
} pl_storage_opener_t;

#endif /* PL_CACHE_STORAGE_TABLE_H */
