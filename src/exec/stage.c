#include "exec/stage.h"

#include <stdlib.h>
#include <string.h>

static bool is_needed(const pl_exec_t *exec)
{
    return !exec->device->addressable && !exec->compute->on_device;
}

/* ---- memory ---- */

void pl_stage_free(pl_exec_t *exec, pl_stage_t *stage)
{
    for (int i = 0; i < PL_STAGE_BUFFERS; i++) {
        for (int which = 0; which < PL_STORES; which++) {
            pl_device_free(exec->device, stage->buffers[i].bytes[which]);
        }
    }
    free(stage->slots);
    PL_ARRAY_FREE(&stage->copies);
    memset(stage, 0, sizeof(*stage));
}

static pl_status_t make_buffers(pl_exec_t *exec, pl_stage_t *stage, int32_t n)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];

    if (store->layout.n_slots == 0) {
        store = &exec->stores[PL_FREED_DECODE];
    }
    for (int i = 0; i < PL_STAGE_BUFFERS; i++) {
        for (int which = 0; which < PL_STORES; which++) {
            void *mem = NULL;

            PL_TRY(pl_device_alloc(exec->device, PL_MEMORY_HOST,
                                   (size_t)n * store->stride[which],
                                   "rows on their way to the device", &mem));
            stage->buffers[i].bytes[which] = mem;
        }
    }
    stage->slots = calloc((size_t)n, sizeof(*stage->slots));
    if (stage->slots == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t slot = 0; slot < n; slot++) {
        stage->slots[slot] = slot;
    }
    stage->room = n;
    return PL_OK;
}

pl_status_t pl_stage_reserve(pl_exec_t *exec, pl_stage_t *stage,
                             int32_t n_pages)
{
    pl_status_t status;

    if (!is_needed(exec) || (n_pages <= stage->room)) {
        return PL_OK;
    }
    PL_TRY(pl_pages_drain(exec->device)); /* copies out of what is freed */
    pl_stage_free(exec, stage);
    status = make_buffers(exec, stage, n_pages);
    if (status != PL_OK) {
        pl_stage_free(exec, stage);
    }
    return status;
}

/* ---- rows ---- */

pl_status_t pl_stage_open(pl_exec_t *exec, pl_stage_t *stage, int tier,
                          int32_t layer, const int32_t *slots, pl_rows_t *rows)
{
    const pl_store_t *store = &exec->stores[tier];
    bool staged             = is_needed(exec);
    int turn                = (stage->turn + 1) % PL_STAGE_BUFFERS;

    if (staged) {
        PL_TRY(pl_device_wait(exec->device, PL_STREAM_COMPUTE,
                              stage->buffers[turn].fence));
        stage->turn = turn;
    }
    rows->slots = staged ? stage->slots : slots;
    for (int which = 0; which < PL_STORES; which++) {
        rows->to[which] = (pl_forward_pages_t){0};
        if (pl_store_has(&store->layout, which, layer)) {
            rows->to[which] = (pl_forward_pages_t){
                .pages  = staged ? stage->buffers[turn].bytes[which]
                                 : pl_store_page(store, which, layer, 0),
                .stride = store->stride[which],
                .form   = store->form[which]};
        }
    }
    return PL_OK;
}

/* Rows first .. first + n - 1 of a page, and nothing else of it, unless that is
 * all of it. */
static pl_status_t add_copies(pl_stage_t *stage, const pl_page_form_t *form,
                              pl_copy_t page, int32_t first, int32_t n)
{
    size_t key       = pl_row_key(form, first);
    size_t scale     = pl_row_scale(form, first);
    pl_copy_t keys   = {(uint8_t *)page.dst + key,
                        (const uint8_t *)page.src + key,
                        (size_t)n * (size_t)form->key_bytes};
    pl_copy_t scales = {(uint8_t *)page.dst + scale,
                        (const uint8_t *)page.src + scale,
                        (size_t)n * (size_t)form->scale_bytes};

    if (n == form->page_tokens) {
        return PL_ARRAY_PUSH(&stage->copies, page);
    }
    PL_TRY(PL_ARRAY_PUSH(&stage->copies, keys));
    return scales.bytes == 0 ? PL_OK : PL_ARRAY_PUSH(&stage->copies, scales);
}

static pl_status_t add_store(pl_exec_t *exec, pl_stage_t *stage, int tier,
                             int32_t layer, int which, const int32_t *slots,
                             const pl_rows_t *rows)
{
    const pl_store_t *store        = &exec->stores[tier];
    const pl_forward_pages_t *from = &rows->to[which];
    int32_t end                    = rows->first_token + rows->n_tokens;
    int32_t first                  = rows->first_token % exec->page_tokens;
    int32_t page                   = rows->first_token / exec->page_tokens;

    for (int32_t i = 0; (page + i) * exec->page_tokens < end; i++) {
        pl_copy_t copy = {pl_store_page(store, which, layer, slots[i]),
                          from->pages + (size_t)i * from->stride, from->stride};

        PL_TRY(add_copies(stage, &from->form, copy, first,
                          pl_exec_rows(exec, page + i, end) - first));
        first = 0;
    }
    return PL_OK;
}

pl_status_t pl_stage_close(pl_exec_t *exec, pl_stage_t *stage, int tier,
                           int32_t layer, const int32_t *slots,
                           const pl_rows_t *rows)
{
    if (!is_needed(exec)) {
        return PL_OK;
    }
    stage->copies.n = 0;
    for (int which = 0; which < PL_STORES; which++) {
        if (rows->to[which].pages != NULL) {
            PL_TRY(add_store(exec, stage, tier, layer, which, slots, rows));
        }
    }
    PL_TRY(pl_device_copy(exec->device, PL_STREAM_COMPUTE, stage->copies.items,
                          (int32_t)stage->copies.n, false));
    return pl_device_record(exec->device, PL_STREAM_COMPUTE,
                            &stage->buffers[stage->turn].fence);
}
