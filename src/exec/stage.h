/* exec/stage.h - where a compute puts its rows.
 *
 * Into the pages themselves, if it works on the device or the host reaches the
 * device's memory.  Else into a buffer in host memory, from which they are
 * copied on PL_STREAM_COMPUTE.  There are a few buffers in turn, so that rows
 * of the next layer are made while those of this one are on their way; a
 * buffer's fence guards it.
 */
#ifndef PL_EXEC_STAGE_H
#define PL_EXEC_STAGE_H

#include "exec/context.h"

#define PL_STAGE_BUFFERS 3

/* {0} is empty. */
typedef struct pl_stage {
    int32_t room; /* pages of a buffer */
    struct {
        uint8_t *bytes[PL_STORES]; /* [room] pages */
        pl_fence_t fence;
    } buffers[PL_STAGE_BUFFERS];
    int turn;       /* the buffer in use */
    int32_t *slots; /* [room] the identity */
    PL_ARRAY(pl_copy_t) copies;
} pl_stage_t;

/* Room for rows of n pages at a time.  PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_stage_reserve(pl_exec_t *exec, pl_stage_t *stage,
                                           int32_t n_pages);

/* Rows of pages in `slots` (kept until close) of one of the tiers are to be
 * written in `layer`: fills in where. */
PL_MUST_CHECK pl_status_t pl_stage_open(pl_exec_t *exec, pl_stage_t *stage,
                                        int tier, int32_t layer,
                                        const int32_t *slots, pl_rows_t *rows);
/* They were written: they are in their pages, or on their way. */
PL_MUST_CHECK pl_status_t pl_stage_close(pl_exec_t *exec, pl_stage_t *stage,
                                         int tier, int32_t layer,
                                         const int32_t *slots,
                                         const pl_rows_t *rows);

/* Nothing may be on its way. */
void pl_stage_free(pl_exec_t *exec, pl_stage_t *stage);

#endif /* PL_EXEC_STAGE_H */
