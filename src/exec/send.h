/* exec/send.h - the pages of a prompt, from their owners to the decode home.
 *
 * Each owner sends its pages of an operation as (position, page) pairs in one
 * message, index rows and headers included; the home knows the plan, so it
 * receives exactly that from each rank, itself included, and counts ranks
 * without pages as having reported.  With the last pages of a prompt the rank
 * that computed its last page sends the first token.  When all sends of a
 * prompt have come in, the home takes the prompt's digest from its own store.
 *
 * A message of pages: head, then for each page its place and, for each layer
 * and store, header and bytes.  It is host memory: pages are copied from the
 * device into it on PL_STREAM_SEND, and from it into the decode pool of the
 * home.  Where the copies are done beside the host, the message is sent when
 * the operation is due.
 */
#ifndef PL_EXEC_SEND_H
#define PL_EXEC_SEND_H

#include "exec/buffers.h"
#include "exec/context.h"
#include "exec/transfer.h"

enum { PL_TAG_PAGES = 1, PL_TAG_HANDOVER };

typedef struct pl_send pl_send_t; /* opaque */

typedef struct pl_sends {
    PL_ARRAY(pl_send_t *) items; /* ascending ids */
    pl_handovers_t handovers;
    pl_buffers_t buffers;
    PL_ARRAY(pl_copy_t) copies; /* scratch */
} pl_sends_t;

/* PL_OK, PL_ERR_MEMORY (nothing changed). */
PL_MUST_CHECK pl_status_t pl_send_reserve(pl_exec_t *exec, pl_sends_t *sends,
                                          const pl_op_t *op);
/* Post receives, pack, send as soon as it is packed; forget it if cancelled.
 * Every rank calls it for every SEND: attempts are counted alike on all. */
PL_MUST_CHECK pl_status_t pl_send_execute(pl_exec_t *exec, pl_sends_t *sends,
                                          const pl_op_t *op);
/* What was packed for operation `id` and those before it is sent.  Before any
 * of them is settled, on all ranks: then no rank waits for a message while one
 * waits for its own.  What is waited for here are this rank's own copies, and
 * these wait for no message. */
pl_status_t pl_sends_post(pl_exec_t *exec, pl_sends_t *sends, int64_t id);
/* All messages of operation `id` are done, and what came is in the decode
 * store.  *failed_p: it failed here. */
PL_MUST_CHECK pl_status_t pl_send_settle(pl_exec_t *exec, pl_sends_t *sends,
                                         int64_t id, bool *failed_p);

/* Wait for all messages under way, whatever they say. */
void pl_sends_drain(pl_exec_t *exec, pl_sends_t *sends);
void pl_sends_free(pl_exec_t *exec, pl_sends_t *sends);

#endif /* PL_EXEC_SEND_H */
