/* tests/property/lanes/model.h - the allocator's contract, obviously.
 *
 * One byte a page says where it is; each question is answered by looking at all
 * pages of the lane.
 */
#ifndef PL_TESTS_LANES_MODEL_H
#define PL_TESTS_LANES_MODEL_H

#include <pagelane/layout.h>

#include <stdbool.h>

enum { MODEL_PAGES = 127 * 12 };

typedef enum where {
    SCRATCH,
    FREE,
    STAGED,
    USED,
    GROUPED /* given back in the open group */
} where_t;

typedef struct model {
    int n_lanes;
    int32_t pages_per_lane;
    bool group_is_open;
    where_t where[MODEL_PAGES];
    uint32_t generation[MODEL_PAGES];
} model_t;

void model_open(model_t *model, int n_lanes, int32_t pages_per_lane,
                int32_t reserved);

/* Pages of a lane that are in one state. */
int32_t model_count(const model_t *model, int lane, where_t where);

/* Free and staged pages of a lane. */
int32_t model_free_count(const model_t *model, int lane);

/* Whether it can be done; then it has been. */
bool model_alloc(model_t *model, const pl_owner_t *owners, int32_t n,
                 pl_page_t *pages);
bool model_free(model_t *model, const pl_page_t *pages,
                const pl_owner_t *owners, int32_t n);
bool model_group_begin(model_t *model);
bool model_group_end(model_t *model);

#endif /* PL_TESTS_LANES_MODEL_H */
