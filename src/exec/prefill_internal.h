/* exec/prefill_internal.h - a chunk under way; shared by prefill.c (writing),
 * view.c (what is shown) and view_check.c. */
#ifndef PL_EXEC_PREFILL_INTERNAL_H
#define PL_EXEC_PREFILL_INTERNAL_H

#include "exec/prefill.h"

/* What a chunk's layers share. */
typedef struct pl_pass {
    const pl_op_t *op;
    pl_chunk_t chunk;
    int32_t first;   /* page of the chunk */
    int32_t end;     /* tokens that the views show */
    bool hash;       /* views are hashed here */
    uint64_t digest; /* of all rows read, if they are */
} pl_pass_t;

/* All pages of the request in one store of a layer: page p at row rows[p]. */
typedef struct pl_shown {
    const uint8_t *bytes; /* NULL: not in this layer */
    const pl_page_header_t *headers;
    const int32_t *rows;
} pl_shown_t;

static inline int32_t pl_pass_rows(const pl_exec_t *exec, const pl_pass_t *pass,
                                   int32_t page)
{
    return pl_exec_rows(exec, page, pass->end);
}

/* Room for requests of n_pages of which n_view_pages are gathered at once.
 * PL_ERR_MEMORY: there are none then. */
PL_MUST_CHECK pl_status_t pl_views_reserve(pl_exec_t *exec,
                                           pl_prefill_t *prefill,
                                           int32_t n_pages,
                                           int32_t n_view_pages);
/* Nothing may be on its way. */
void pl_views_free(pl_exec_t *exec, pl_prefill_t *prefill);

/* Before own rows of the layer are written: begin to gather what is there. */
PL_MUST_CHECK pl_status_t pl_views_begin(pl_exec_t *exec, pl_prefill_t *prefill,
                                         pl_moves_t *loads,
                                         const pl_pass_t *pass, int32_t layer);
/* After: all rows of all ranks, for what is queued on COMPUTE from now on. */
PL_MUST_CHECK pl_status_t pl_views_show(pl_exec_t *exec, pl_prefill_t *prefill,
                                        pl_moves_t *loads,
                                        const pl_pass_t *pass, int32_t layer,
                                        pl_shown_t *shown);

/* Hash each page of a view once and, with verification, compare it with
 * everything that is known.  The host waits. */
PL_MUST_CHECK pl_status_t pl_view_check(pl_exec_t *exec,
                                        const pl_prefill_t *prefill,
                                        const pl_shown_t *shown,
                                        pl_pass_t *pass, int32_t layer,
                                        int which);

#endif /* PL_EXEC_PREFILL_INTERNAL_H */
