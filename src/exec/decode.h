/* exec/decode.h - one more token of a request, on its home.
 *
 * A step writes one row into the request's decode pages, in every layer and
 * store, and makes the next token from all rows held.  With verification it
 * checks the guard words of all of the request's pages and reads one page in
 * turn back, so that a long decode sees all of them again and again.
 */
#ifndef PL_EXEC_DECODE_H
#define PL_EXEC_DECODE_H

#include "exec/context.h"
#include "exec/stage.h"

/* PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_step_reserve(pl_exec_t *exec, pl_stage_t *stage,
                                          const pl_op_t *op);
PL_MUST_CHECK pl_status_t pl_step_execute(pl_exec_t *exec, pl_stage_t *stage,
                                          const pl_op_t *op);

/* Collective.  The home tells all ranks what the request has said so far. */
PL_MUST_CHECK pl_status_t pl_step_reenter(pl_exec_t *exec, const pl_op_t *op);

#endif /* PL_EXEC_DECODE_H */
