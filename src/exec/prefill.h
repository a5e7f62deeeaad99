/* exec/prefill.h - one chunk through all layers: write own rows, read all rows.
 *
 * For each layer: write the rows of own pages into the store, stamp their
 * headers, then show every prefill rank all rows of the request so far: one
 * gather per store, with verification headers with the bytes.  Where ranks
 * replicate, the gather is of the chunk's pages only, each rank stores what the
 * others computed, and the view is its own store.  With verification what a
 * view shows is checked: guard words against the pages that the control plane
 * resolved, digests against those of the writers and, where the compute can
 * tell, against the tokens.  The page map of the gather is used as it is;
 * nothing is sorted by token.
 *
 * Where gathers are queued (comm/comm.h) the pages before the chunk of layer
 * l+1 are gathered while layer l computes, into a second view.  Per layer:
 *
 *     COMPUTE   write(l)                                            read(l)
 *     GATHER             pages of the chunk (l), pages before it (l+1)
 */
#ifndef PL_EXEC_PREFILL_H
#define PL_EXEC_PREFILL_H

#include "exec/context.h"
#include "exec/move.h"
#include "exec/stage.h"

#define PL_PREFILL_VIEWS 2

/* Pages of one store of one layer as a gather brings them. */
typedef struct pl_prefill_view {
    uint8_t *bytes;            /* memory of the device */
    pl_page_header_t *headers; /* with verification, as the bytes lie */
    int32_t *rows;             /* [page] where it lies */
} pl_prefill_view_t;

/* What is kept from chunk to chunk. */
typedef struct pl_prefill {
    int32_t room;      /* pages of the request */
    int32_t view_room; /* pages that are gathered: all, or the chunk's */
    /* Layer by layer in turn, where gathers are queued; else the first. */
    pl_prefill_view_t views[PL_PREFILL_VIEWS][PL_STORES];
    uint64_t *guards;  /* [page] what the words must say */
    int32_t *slots;    /* [page] scratch: own pages of a run; where ranks
                          replicate, own slots of all pages */
    int32_t *own;      /* [page] own pages of the chunk, ascending */
    pl_page_t *others; /* [page] replicated: pages of the chunk as a gather
                          names them */
    pl_stage_t stage;
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
