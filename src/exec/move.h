/* exec/move.h - copies of pages between two tiers of one rank.
 *
 * LOAD and BACKUP (device <-> host), OFFLOAD and RESUME (decode pool <-> its
 * host buffer).  The operation's owners say which positions this rank moves,
 * whatever the owners of the pages are: the host copy is where it was written.
 *
 * Lifecycle: reserve (memory), execute (check the sources, queue the copies),
 * complete (check what arrived, stamp the destinations; LOAD: layer by layer,
 * as its readers need it), settle (wait, complete the rest).  What an operation
 * needs of the plan is copied: it outlives the tick.
 *
 * Order on the device: an operation's copies come after all that the forward
 * pass has queued before (its destination may have been read, or become poison,
 * there; its source was written there).  Readers of a load-back come after the
 * copies of their layer.  The host waits when the operation is due and, with
 * verification, for the digests of what arrived.
 */
#ifndef PL_EXEC_MOVE_H
#define PL_EXEC_MOVE_H

#include "exec/context.h"
#include "exec/copies.h"

typedef struct pl_move pl_move_t; /* opaque */

typedef PL_ARRAY(pl_move_t *) pl_moves_t; /* ascending ids */

/* Does operation `op` move pages on this rank?  A rank may own none. */
int32_t pl_move_count(const pl_exec_t *exec, const pl_op_t *op);

/* PL_OK, PL_ERR_MEMORY (nothing changed). */
PL_MUST_CHECK pl_status_t pl_move_reserve(pl_exec_t *exec, pl_moves_t *moves,
                                          const pl_op_t *op);

/* Start it, or forget it if it was cancelled; nothing if it is not this rank's.
 */
PL_MUST_CHECK pl_status_t pl_move_execute(pl_exec_t *exec, pl_moves_t *moves,
                                          const pl_op_t *op);

/* What is queued on PL_STREAM_GATHER from now on comes after the copies of
 * layer `layer` of LOAD `id`; nothing if the operation is not this rank's or
 * has ended. */
PL_MUST_CHECK pl_status_t pl_move_wait(pl_exec_t *exec, pl_moves_t *moves,
                                       int64_t id, int32_t layer);

/* All layers; then it is forgotten.  *failed_p: it failed here. */
PL_MUST_CHECK pl_status_t pl_move_settle(pl_exec_t *exec, pl_moves_t *moves,
                                         int64_t id, bool *failed_p);

void pl_moves_free(pl_moves_t *moves); /* empty afterwards */

#endif /* PL_EXEC_MOVE_H */
