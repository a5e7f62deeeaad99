/* exec/prefill.h - one chunk through all layers: write own rows, read all rows.
 *
 * For each layer: wait for the load-back of that layer, write the rows of own
 * pages into the store, stamp their headers, then one gather per store for all
 * pages of the request so far, headers with the bytes, so that every prefill
 * rank has a view of all rows.  Where ranks replicate, the gather is of the
 * chunk's pages only, each rank stores what the others computed, and the view
 * is its own store.  What a view shows is checked: guard words
 * against the pages that the control plane resolved, digests against those of
 * the writers and, where the compute can tell, against the tokens.  The page
 * map of the gather is used as it is; nothing is sorted by token.
 */
#ifndef PL_EXEC_PREFILL_H
#define PL_EXEC_PREFILL_H

#include "exec/context.h"
#include "exec/move.h"

/* Views of the chunk under way, kept from chunk to chunk. */
typedef struct pl_prefill {
    int32_t room;      /* pages of the request */
    int32_t view_room; /* pages that are gathered: all, or the chunk's */
    uint8_t *views[PL_STORES];
    uint8_t *headers; /* pl_page_header_t by row of what is gathered */
    int32_t *rows[PL_STORES];
    uint64_t *guards;  /* [page] what the words must say */
    int32_t *slots;    /* [page] scratch: own pages of a run; rows of an
                          exchange */
    int32_t *own;      /* [page] own pages of the chunk, ascending */
    pl_page_t *others; /* [page] replicated: pages of the chunk as a gather
                          names them */
} pl_prefill_t;

/* Room for the views of a chunk on a prefill rank.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_prefill_reserve(pl_exec_t *exec,
                                             pl_prefill_t *prefill,
                                             const pl_op_t *op);
/* Prefill-collective; on other ranks only the owner of the last page is noted.
 */
PL_MUST_CHECK pl_status_t pl_prefill_execute(pl_exec_t *exec,
                                             pl_prefill_t *prefill,
                                             pl_moves_t *loads,
                                             const pl_op_t *op);
void pl_prefill_free(pl_exec_t *exec, pl_prefill_t *prefill);

#endif /* PL_EXEC_PREFILL_H */
