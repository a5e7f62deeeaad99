/* store/tier_internal.h - the parts of a door to a storage tier:
 *   tier.c          calls, queue, the worker's thread
 *   tier_io.c       pages to and from segments
 *   tier_publish.c  the index, and segments that nobody needs
 *   tier_read.c     what a folder holds when a run begins
 *   tier_folder.c   its files and lock
 *   tier_index_*.c, tier_columns.c   the index as a file
 *   segment*.c      segments
 */
#ifndef PL_STORE_TIER_INTERNAL_H
#define PL_STORE_TIER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/array.h"
#include "store/segment.h"
#include "store/tier_index.h"

typedef enum pl_tier_job_kind {
    PL_TIER_WRITE,
    PL_TIER_READ,
    PL_TIER_PUBLISH
} pl_tier_job_kind_t;

typedef struct pl_tier_job pl_tier_job_t;

struct pl_tier_job {
    pl_tier_job_kind_t kind;
    int64_t ticket;
    bool is_done;
    uint64_t bad, unread;       /* as pl_storage_end_t has them */
    pl_storage_io_t io;         /* arrays below */
    pl_storage_place_t *places; /* owned */
    pl_storage_header_t
        *headers;               /* owned by a write; of a read: the caller's */
    pl_storage_piece_t *pieces; /* owned */
    pl_tier_index_t index;      /* PUBLISH: owned; digests are to be found */
    pl_tier_job_t *next;
};

/* A segment that is open. */
typedef struct pl_tier_handle {
    pl_segment_form_t form;
    int fd, header_fd; /* header_fd: -1 until it is needed */
    bool can_write;
    bool is_dirty; /* written and not synced */
    int64_t used;  /* when; the least goes first */
} pl_tier_handle_t;

enum { PL_TIER_HANDLES = 48 };

typedef struct pl_tier {
    pl_storage_door_t door;
    pl_tier_params_t params; /* folder and texts are copies */
    char *folder;
    int lock;             /* a share in the folder's, if it writes; or -1 */
    int said;             /* pl_tier_speak_first; negative before */
    pl_tier_index_t self; /* identity alone */
    uint64_t identity;    /* its hash */
    int32_t segment_slots;
    atomic_bool can_write;
    pl_inject_t inject; /* die=, flip=storage; the worker's */

    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* under the mutex */
    pl_tier_job_t *first, *last;    /* to be done, in order */
    PL_ARRAY(pl_tier_job_t *) jobs; /* all that are not waited for, ascending */
    int64_t next_ticket;
    bool is_closing;

    /* the worker's */
    pl_tier_handle_t handles[PL_TIER_HANDLES];
    int n_handles;
    int64_t clock;
    int sync_failed;              /* the first error number; for good */
    pl_segment_mould_t moulds[2]; /* of full segments, and of the last */
    PL_ARRAY(struct iovec) list;
    /* The index's when the door was opened, ascending.  Where there was none,
     * those of which segments lay there, with no ranks: nothing was ever
     * published of them. */
    PL_ARRAY(pl_tier_set_t) sets;
} pl_tier_t;

/* Does it happen here and now? */
bool pl_tier_hits(pl_tier_t *tier, pl_inject_point_t point);

/* This rank writes no more: said once. */
void pl_tier_give_up(pl_tier_t *tier, const char *why);

/* What lies where, by place: set, rank, slot. */
int pl_tier_compare_places(const pl_storage_place_t *a,
                           const pl_storage_place_t *b);
pl_segment_name_t pl_tier_segment_of(const pl_tier_t *tier,
                                     const pl_storage_place_t *place);

/* Write the jobs of a list that ends before `end`, sync once, and set `bad`. */
void pl_tier_write_jobs(pl_tier_t *tier, pl_tier_job_t *first,
                        const pl_tier_job_t *end);
void pl_tier_read_job(pl_tier_t *tier, pl_tier_job_t *job);
void pl_tier_close_handles(pl_tier_t *tier);
/* An open segment, sound and of this identity; *handle_p is NULL where there is
 * none for certain.  PL_OK; PL_ERR_IO, PL_ERR_MEMORY: that cannot be told now
 * (silent). */
PL_MUST_CHECK pl_status_t pl_tier_find_segment(pl_tier_t *tier,
                                               pl_segment_name_t name,
                                               pl_tier_handle_t **handle_p);

/* Copy what the directory keeps now.  PL_OK, PL_ERR_MEMORY (one line). */
PL_MUST_CHECK pl_status_t pl_tier_copy_directory(pl_tier_t *tier,
                                                 const pl_storage_t *storage,
                                                 const pl_storage_run_t *run,
                                                 pl_tier_index_t *index);
/* Take out the entries of stamp 0, and all that need one that is out.  PL_OK,
 * PL_ERR_MEMORY (silent). */
PL_MUST_CHECK pl_status_t pl_tier_index_close(pl_tier_index_t *index);

/* Entries in the order of their places, to ask for those of a segment. */
typedef struct pl_tier_row {
    pl_storage_place_t place;
    int32_t entry;
} pl_tier_row_t;
/* [index->n_entries], for the caller to free; NULL: out of memory. */
pl_tier_row_t *pl_tier_rows(const pl_tier_index_t *index);
bool pl_tier_rows_name(const pl_tier_row_t *rows, int32_t n,
                       int32_t segment_slots, pl_segment_name_t name);

void pl_tier_publish_job(pl_tier_t *tier, pl_tier_job_t *job);
/* The sets of the index that is there; if it is another's, or cannot be read,
 * this door does not write. */
PL_MUST_CHECK pl_status_t pl_tier_load_sets(pl_tier_t *tier);

#endif /* PL_STORE_TIER_INTERNAL_H */
