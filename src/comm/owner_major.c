/* Where pages stand in a view that has them by owner. */
#include <string.h>

#include "comm/internal.h"

void pl_comm_owner_major(const pl_gather_t *gather, int n_lanes,
                         int32_t *counts, int32_t *first)
{
    memset(counts, 0, (size_t)n_lanes * sizeof(*counts));
    for (int32_t i = 0; i < gather->n_pages; i++) {
        counts[pl_page_owner(gather->pages[i], n_lanes)]++;
    }
    first[0] = 0;
    for (int owner = 0; owner < n_lanes; owner++) {
        first[owner + 1] = first[owner] + counts[owner];
        counts[owner]    = 0;
    }
    for (int32_t i = 0; i < gather->n_pages; i++) {
        int owner = pl_page_owner(gather->pages[i], n_lanes);

        gather->rows[i] = first[owner] + counts[owner]++;
    }
}
