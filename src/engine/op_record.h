/* engine/op_record.h - what an operation moved, over all ranks.
 *
 * A simulation writes down what was planned, a run what its copies did: each
 * rank counts its own, and the sum over ranks is the record.  Both are equal if
 * every page went from where to where the plan says.
 */
#ifndef PL_ENGINE_OP_RECORD_H
#define PL_ENGINE_OP_RECORD_H

#include <stdint.h>

#include "base/hash.h"

typedef struct pl_op_record {
    int64_t op;     /* id; of a request's decode steps, which share one: 0 */
    uint64_t pages; /* moved; PREFILL: written; decode steps: rows written */
    uint64_t bytes; /* of those, all layers and stores */
    uint64_t hash;  /* sum modulo 2^64, over them, of pl_op_place_hash */
} pl_op_record_t;

enum { PL_OP_RECORD_SUMS = 3 }; /* words that are summed over ranks */

/* A page (decode steps: a row) at `position` of its request came from one slot
 * to another; -1: it was computed, or (one half of a SEND each) the other end
 * knows. */
static inline uint64_t pl_op_place_hash(int32_t position, int32_t from,
                                        int32_t to)
{
    return pl_fold64(pl_fold64((uint64_t)position, (uint64_t)from),
                     (uint64_t)to);
}

#endif /* PL_ENGINE_OP_RECORD_H */
