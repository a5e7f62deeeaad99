/* store/sweep_internal.h - what is swept, in a journal and in the file of a
 * sweep: a `name = value` a line. */
#ifndef PL_STORE_SWEEP_INTERNAL_H
#define PL_STORE_SWEEP_INTERNAL_H

#include "store/content.h"
#include "store/sweep.h"

/* The same?  PL_ERR_INPUT (one line: the first difference, and `remedy`). */
PL_MUST_CHECK pl_status_t pl_sweep_compare_grids(const char *where,
                                                 const char *was,
                                                 const char *is,
                                                 const char *remedy,
                                                 const pl_log_t *log);

/* Put it into a file's content, as /grid/lines. */
void pl_sweep_add_grid(pl_content_t *content, const char *grid);

#endif /* PL_STORE_SWEEP_INTERNAL_H */
