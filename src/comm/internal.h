/* comm/internal.h - shared by the communicators. */
#ifndef PL_COMM_INTERNAL_H
#define PL_COMM_INTERNAL_H

#include <stdbool.h>

#include "comm/comm.h"

/* PL_ERR_ARGUMENT and one line if such a communicator cannot be. */
PL_MUST_CHECK pl_status_t pl_comm_check(int n_ranks, int n_prefill,
                                        double timeout_s, const pl_log_t *log);

/* The first n_bytes - 1 bytes at most of "1, 3, 4": the ranks of `set`. */
void pl_comm_rank_list(const bool *set, int n_ranks, char *text,
                       size_t n_bytes);

/* Rows of the pages by owner, in view order within one: gather->rows.  Owner r
 * has counts[r] pages from row first[r] on; counts [n_lanes], first [n_lanes +
 * 1]. */
void pl_comm_owner_major(const pl_gather_t *gather, int n_lanes,
                         int32_t *counts, int32_t *first);

/* Where the pages of a rank's store of a part begin: slot i at i * stride. */
static inline uint8_t *pl_comm_store(const pl_comm_region_t *region,
                                     const pl_gather_part_t *part)
{
    return region->base + part->offset;
}

#endif /* PL_COMM_INTERNAL_H */
