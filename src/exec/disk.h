/* exec/disk.h - pages between a rank's host tier and its door to storage.
 *
 * STORE gathers the pages that this rank writes from its host store, without a
 * copy; FETCH reads pages into host slots of this rank and looks at what came:
 * a page whose bytes do not have the digest that its writer took is a bad page,
 * never a violation, and says so with verification off as well; one that could
 * not be read now is an unread page, which may be read another time.  PUBLISH
 * is rank 0's.
 *
 * Lifecycle as of a copy (exec/move.h): reserve (memory; would a write start?),
 * execute (start it, or forget it if it was cancelled), settle (wait; FETCH:
 * check the pages and stamp the sound ones).  What an operation needs of the
 * plan is copied.  A disk that fails is a bit of the plan, never a status.
 */
#ifndef PL_EXEC_DISK_H
#define PL_EXEC_DISK_H

#include "exec/context.h"

typedef struct pl_disk_io pl_disk_io_t; /* opaque */

typedef struct pl_disk_ios {
    PL_ARRAY(pl_disk_io_t *) list;
    bool warned;        /* of a bad page */
    bool warned_unread; /* of one that could not be read */
    bool warned_store;  /* of a write that failed */
} pl_disk_ios_t;

/* PL_OK; PL_ERR_MEMORY, PL_ERR_IO (this rank cannot write): nothing changed. */
PL_MUST_CHECK pl_status_t pl_disk_reserve(pl_exec_t *exec, pl_disk_ios_t *ios,
                                          const pl_op_t *op);

/* Start it; nothing if it is not this rank's. */
void pl_disk_execute(pl_exec_t *exec, pl_disk_ios_t *ios, const pl_op_t *op);

/* Wait for it; then it is forgotten.  *failed_p: a STORE or PUBLISH failed
 * here.  *end_p: which pages of a FETCH are no good here, by their place in the
 * operation. */
void pl_disk_settle(pl_exec_t *exec, pl_disk_ios_t *ios, int64_t id,
                    bool *failed_p, pl_storage_end_t *end_p);

/* The door must have been closed before: it may still read and write. */
void pl_disk_free(pl_disk_ios_t *ios); /* empty afterwards */

#endif /* PL_EXEC_DISK_H */
