#include "property/lanes/model.h"

#include <string.h>

void model_open(model_t *model, int n_lanes, int32_t pages_per_lane,
                int32_t reserved)
{
    memset(model, 0, sizeof(*model));
    model->n_lanes        = n_lanes;
    model->pages_per_lane = pages_per_lane;
    for (pl_page_t g = 0; g < n_lanes * pages_per_lane; g++) {
        model->where[g] = g / n_lanes < reserved ? SCRATCH : FREE;
    }
}

int32_t model_count(const model_t *model, int lane, where_t where)
{
    int32_t n = 0;

    for (int32_t slot = 0; slot < model->pages_per_lane; slot++) {
        n += model->where[slot * model->n_lanes + lane] == where;
    }
    return n;
}

int32_t model_free_count(const model_t *model, int lane)
{
    return model_count(model, lane, FREE) + model_count(model, lane, STAGED);
}

static int32_t wanted(const pl_owner_t *owners, int32_t n, int lane)
{
    int32_t n_wanted = 0;

    for (int32_t i = 0; i < n; i++) {
        n_wanted += owners[i] == lane;
    }
    return n_wanted;
}

static pl_page_t take_lowest(model_t *model, int lane)
{
    pl_page_t page = lane;

    while (model->where[page] != FREE) {
        page += model->n_lanes;
    }
    model->where[page] = USED;
    model->generation[page]++;
    return page;
}

bool model_alloc(model_t *model, const pl_owner_t *owners, int32_t n,
                 pl_page_t *pages)
{
    for (int r = 0; r < model->n_lanes; r++) {
        if (wanted(owners, n, r) > model_free_count(model, r)) {
            return false;
        }
    }
    for (int r = 0; r < model->n_lanes; r++) {
        if (wanted(owners, n, r) <= model_count(model, r, FREE)) {
            continue;
        }
        for (int32_t slot = 0; slot < model->pages_per_lane; slot++) {
            where_t *where = &model->where[slot * model->n_lanes + r];

            *where = *where == STAGED ? FREE : *where;
        }
    }
    for (int32_t i = 0; i < n; i++) {
        pages[i] = take_lowest(model, owners[i]);
    }
    return true;
}

bool model_free(model_t *model, const pl_page_t *pages,
                const pl_owner_t *owners, int32_t n)
{
    where_t before[MODEL_PAGES];

    memcpy(before, model->where, sizeof(before));
    for (int32_t i = 0; i < n; i++) {
        pl_page_t g = pages[i];

        if ((g < 0) || (g >= model->n_lanes * model->pages_per_lane) ||
            (model->where[g] != USED) ||
            ((owners != NULL) && (owners[i] != g % model->n_lanes))) {
            memcpy(model->where, before, sizeof(before));
            return false;
        }
        model->where[g] = model->group_is_open ? GROUPED : STAGED;
    }
    return true;
}

bool model_group_begin(model_t *model)
{
    if (model->group_is_open) {
        return false;
    }
    model->group_is_open = true;
    return true;
}

bool model_group_end(model_t *model)
{
    if (!model->group_is_open) {
        return false;
    }
    model->group_is_open = false;
    for (pl_page_t g = 0; g < model->n_lanes * model->pages_per_lane; g++) {
        model->where[g] = model->where[g] == GROUPED ? STAGED : model->where[g];
    }
    return true;
}
