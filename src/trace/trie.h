/* trace/trie.h - do the block ids of a trace form a trie?
 *
 * An id stands for a block and for all blocks before it, so wherever it comes
 * it must come after the same id, at the same depth.  Zero-initialised is
 * empty.  The table's order is never seen.
 */
#ifndef PL_TRACE_TRIE_H
#define PL_TRACE_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "trace/reader.h"

typedef struct pl_id_place {
    uint64_t id;
    uint64_t parent; /* the id before it; nothing at depth 1 */
    int64_t line;    /* where it came first */
    size_t depth;    /* from 1; 0 = this entry is free */
    int32_t size;    /* tokens it stands for, besides those before it */
} pl_id_place_t;

typedef struct pl_trie {
    pl_id_place_t *places;
    size_t capacity; /* a power of two, or 0 */
    size_t n;
} pl_trie_t;

void pl_trie_free(pl_trie_t *trie);

/* Enter the ids of one row; reports the first that contradicts an earlier
 * one.  PL_OK, PL_ERR_INPUT, PL_ERR_MEMORY. */
pl_status_t pl_trie_add(pl_trie_t *trie, const pl_trace_source_t *source,
                        const pl_trace_row_t *row, const uint64_t *ids);

#endif /* PL_TRACE_TRIE_H */
