/* What a prefill rank is shown of a request: gathered from all ranks or, where
 * they replicate, exchanged and stored. */
#include <stdlib.h>
#include <string.h>

#include "exec/prefill_internal.h"

/* ---- memory ---- */

void pl_views_free(pl_exec_t *exec, pl_prefill_t *prefill)
{
    for (int i = 0; i < PL_PREFILL_VIEWS; i++) {
        for (int which = 0; which < PL_STORES; which++) {
            pl_prefill_view_t *view = &prefill->views[i][which];

            pl_device_free(exec->device, view->bytes);
            free(view->headers);
            free(view->rows);
            *view = (pl_prefill_view_t){0};
        }
    }
    free(prefill->guards);
    free(prefill->slots);
    free(prefill->own);
    free(prefill->others);
    prefill->guards    = NULL;
    prefill->slots     = NULL;
    prefill->own       = NULL;
    prefill->others    = NULL;
    prefill->room      = 0;
    prefill->view_room = 0;
}

static pl_status_t make_view(pl_exec_t *exec, pl_prefill_view_t *view,
                             size_t stride, size_t n_pages, size_t n_view_pages)
{
    void *bytes = NULL;

    PL_TRY(pl_device_alloc(exec->device, PL_MEMORY_DEVICE,
                           n_view_pages * stride, "a view of a prompt",
                           &bytes));
    view->bytes   = bytes;
    view->headers = calloc(n_view_pages, sizeof(*view->headers));
    view->rows    = calloc(n_pages, sizeof(*view->rows));
    return (view->headers == NULL) || (view->rows == NULL) ? PL_ERR_MEMORY
                                                           : PL_OK;
}

static bool is_early(const pl_exec_t *exec)
{
    return exec->comm->queues && !pl_exec_replicates(exec);
}

static pl_status_t make_views(pl_exec_t *exec, pl_prefill_t *prefill, size_t n,
                              size_t n_view)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];
    int views               = is_early(exec) ? PL_PREFILL_VIEWS : 1;

    for (int i = 0; i < views; i++) {
        for (int which = 0; which < PL_STORES; which++) {
            PL_TRY(make_view(exec, &prefill->views[i][which],
                             store->stride[which], n, n_view));
        }
    }
    prefill->guards = calloc(n, sizeof(*prefill->guards));
    prefill->slots  = calloc(n, sizeof(*prefill->slots));
    prefill->own    = calloc(n, sizeof(*prefill->own));
    prefill->others = calloc(n_view, sizeof(*prefill->others));
    return (prefill->guards == NULL) || (prefill->slots == NULL) ||
                   (prefill->own == NULL) || (prefill->others == NULL)
               ? PL_ERR_MEMORY
               : PL_OK;
}

/* At least `need`, doubled from what there was. */
static int32_t grown(int32_t room, int32_t need)
{
    room = room > 0 ? room : 64;
    while (room < need) {
        room = room > INT32_MAX / 2 ? need : room * 2;
    }
    return room;
}

pl_status_t pl_views_reserve(pl_exec_t *exec, pl_prefill_t *prefill,
                             int32_t n_pages, int32_t n_view_pages)
{
    int32_t room      = grown(prefill->room, n_pages);
    int32_t view_room = grown(prefill->view_room, n_view_pages);
    pl_status_t status;

    if ((room == prefill->room) && (view_room == prefill->view_room)) {
        return PL_OK;
    }
    PL_TRY(pl_pages_drain(exec->device)); /* who reads what is freed */
    pl_views_free(exec, prefill);
    status = make_views(exec, prefill, (size_t)room, (size_t)view_room);
    if (status != PL_OK) {
        pl_views_free(exec, prefill);
        return status;
    }
    prefill->room      = room;
    prefill->view_room = view_room;
    return PL_OK;
}

/* ---- gathering ---- */

/* Pages to rows `at` and on of a view.  Headers are looked at by verification
 * alone. */
static pl_status_t gather(pl_exec_t *exec, const pl_prefill_view_t *view,
                          int32_t layer, int which, const pl_page_t *pages,
                          int32_t n_pages, int32_t at)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];
    pl_gather_t all         = {.pages   = pages,
                               .n_pages = n_pages,
                               .n_parts = pl_exec_verifies(exec) ? 2 : 1,
                               .rows    = view->rows + at};

    all.parts[0].region = PL_REGION_PAGES;
    all.parts[0].offset = pl_store_array(&store->layout, which, layer);
    all.parts[0].stride = store->stride[which];
    all.parts[0].view   = view->bytes + (size_t)at * store->stride[which];
    all.parts[1].region = PL_REGION_HEADERS;
    all.parts[1].offset = pl_store_header_array(&store->layout, which, layer) *
                          sizeof(pl_page_header_t);
    all.parts[1].stride = sizeof(pl_page_header_t);
    all.parts[1].view   = (uint8_t *)(view->headers + at);
    PL_TRY(pl_comm_gather(exec->comm, &all));
    for (int32_t i = 0; (at > 0) && (i < n_pages); i++) {
        all.rows[i] += at;
    }
    return PL_OK;
}

static pl_prefill_view_t *views_of(const pl_exec_t *exec, pl_prefill_t *prefill,
                                   int32_t layer)
{
    return prefill->views[is_early(exec) ? layer % PL_PREFILL_VIEWS : 0];
}

/* Pages first .. end of the request, of all stores of a layer, from their
 * owners. */
static pl_status_t gather_pages(pl_exec_t *exec, pl_prefill_t *prefill,
                                const pl_pass_t *pass, int32_t layer,
                                int32_t first, int32_t end)
{
    const pl_store_t *store        = &exec->stores[PL_FREED_DEVICE];
    const pl_prefill_view_t *views = views_of(exec, prefill, layer);

    for (int which = 0; (first < end) && (which < PL_STORES); which++) {
        if (pl_store_has(&store->layout, which, layer)) {
            PL_TRY(gather(exec, &views[which], layer, which,
                          pass->op->pages + first, end - first, first));
        }
    }
    return PL_OK;
}

/* What comes back to the layer is there, and with it all that was there. */
static pl_status_t gather_prefix(pl_exec_t *exec, pl_prefill_t *prefill,
                                 pl_moves_t *loads, const pl_pass_t *pass,
                                 int32_t layer)
{
    if (pass->op->load != 0) {
        PL_TRY(pl_move_wait(exec, loads, pass->op->load, layer));
    }
    return is_early(exec)
               ? gather_pages(exec, prefill, pass, layer, 0, pass->first)
               : PL_OK;
}

pl_status_t pl_views_begin(pl_exec_t *exec, pl_prefill_t *prefill,
                           pl_moves_t *loads, const pl_pass_t *pass,
                           int32_t layer)
{
    if ((layer > 0) && is_early(exec)) {
        return PL_OK; /* while the layer before it computed */
    }
    /* The last chunk may still be read in the view. */
    PL_TRY(pl_device_order(exec->device, PL_STREAM_GATHER, PL_STREAM_COMPUTE));
    return gather_prefix(exec, prefill, loads, pass, layer);
}

static pl_status_t gather_layer(pl_exec_t *exec, pl_prefill_t *prefill,
                                pl_moves_t *loads, const pl_pass_t *pass,
                                int32_t layer)
{
    int32_t first = is_early(exec) ? pass->first : 0;
    pl_fence_t gathered;

    /* Own pages of the chunk are written on COMPUTE, and the view that comes
     * next was last read there. */
    PL_TRY(pl_device_order(exec->device, PL_STREAM_GATHER, PL_STREAM_COMPUTE));
    PL_TRY(gather_pages(exec, prefill, pass, layer, first, pass->op->n_pages));
    PL_TRY(pl_device_record(exec->device, PL_STREAM_GATHER, &gathered));
    if (is_early(exec) && (layer + 1 < exec->n_layers)) {
        PL_TRY(gather_prefix(exec, prefill, loads, pass, layer + 1));
    }
    /* The layer is read when its pages are there; the next one's may come while
     * it computes. */
    return pl_device_after(exec->device, PL_STREAM_COMPUTE, PL_STREAM_GATHER,
                           gathered);
}

static void show_gathered(pl_exec_t *exec, pl_prefill_t *prefill, int32_t layer,
                          pl_shown_t *shown)
{
    const pl_store_t *store        = &exec->stores[PL_FREED_DEVICE];
    const pl_prefill_view_t *views = views_of(exec, prefill, layer);

    for (int which = 0; which < PL_STORES; which++) {
        if (pl_store_has(&store->layout, which, layer)) {
            shown[which] = (pl_shown_t){
                views[which].bytes, views[which].headers, views[which].rows};
        }
    }
}

/* ---- where ranks replicate ---- */

/* The header of a page that another rank wrote, whose guard word is the same in
 * every store.  Nothing is made good here: what is wrong with the page shows
 * when it is read. */
static void keep_header(pl_exec_t *exec, const pl_prefill_t *prefill,
                        const pl_pass_t *pass, int32_t layer, int which,
                        int32_t page, int32_t row)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];
    int32_t slot = pl_exec_slot(exec, PL_FREED_DEVICE, pass->op->pages[page]);
    pl_page_header_t unchecked = {.guard = prefill->guards[page]};

    *pl_store_header(store, which, layer, slot) =
        pl_exec_verifies(exec) ? prefill->views[0][which].headers[row]
                               : unchecked;
    store->tags[slot].position = page * exec->page_tokens;
    store->tags[slot].rows     = pl_pass_rows(exec, pass, page);
}

/* Pages of the chunk that other ranks computed, from the view into the store.
 */
static pl_status_t keep_pages(pl_exec_t *exec, pl_prefill_t *prefill,
                              const pl_pass_t *pass, int32_t layer, int which)
{
    const pl_store_t *store       = &exec->stores[PL_FREED_DEVICE];
    const pl_prefill_view_t *view = &prefill->views[0][which];
    const pl_op_t *op             = pass->op;
    size_t stride                 = store->stride[which];

    prefill->stage.copies.n = 0;
    for (int32_t i = 0; i < op->n_pages - pass->first; i++) {
        int32_t slot =
            pl_exec_slot(exec, PL_FREED_DEVICE, op->pages[pass->first + i]);
        pl_copy_t copy = {pl_store_page(store, which, layer, slot),
                          view->bytes + (size_t)view->rows[i] * stride, stride};

        if (op->compute[i] != exec->rank) {
            PL_TRY(PL_ARRAY_PUSH(&prefill->stage.copies, copy));
            keep_header(exec, prefill, pass, layer, which, pass->first + i,
                        view->rows[i]);
        }
    }
    return pl_pages_copy(exec->device, prefill->stage.copies.items,
                         (int32_t)prefill->stage.copies.n);
}

/* Every rank stores the chunk's pages of all ranks, then reads its own store. A
 * gather takes page g from slot g div C of rank g mod C, so the pages are named
 * by where their bytes are: (slot, compute owner).  A rank writes no slot that
 * a peer may be reading: those of its own pages stay as they are. */
static pl_status_t exchange(pl_exec_t *exec, pl_prefill_t *prefill,
                            const pl_pass_t *pass, int32_t layer, int which,
                            pl_shown_t *shown)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];
    const pl_op_t *op       = pass->op;
    int32_t n               = op->n_pages - pass->first;

    for (int32_t page = 0; page < op->n_pages; page++) {
        prefill->slots[page] =
            pl_exec_slot(exec, PL_FREED_DEVICE, op->pages[page]);
    }
    for (int32_t i = 0; i < n; i++) {
        prefill->others[i] = pl_page_at(
            op->compute[i], prefill->slots[pass->first + i], exec->n_prefill);
    }
    /* Own pages were written on COMPUTE, and the view was read there. */
    PL_TRY(pl_device_order(exec->device, PL_STREAM_GATHER, PL_STREAM_COMPUTE));
    PL_TRY(gather(exec, &prefill->views[0][which], layer, which,
                  prefill->others, n, 0));
    PL_TRY(pl_device_order(exec->device, PL_STREAM_COMPUTE, PL_STREAM_GATHER));
    PL_TRY(keep_pages(exec, prefill, pass, layer, which));
    *shown =
        (pl_shown_t){pl_store_page(store, which, layer, 0),
                     pl_store_header(store, which, layer, 0), prefill->slots};
    return PL_OK;
}

/* ---- a layer ---- */

pl_status_t pl_views_show(pl_exec_t *exec, pl_prefill_t *prefill,
                          pl_moves_t *loads, const pl_pass_t *pass,
                          int32_t layer, pl_shown_t *shown)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];

    memset(shown, 0, PL_STORES * sizeof(*shown));
    if (!pl_exec_replicates(exec)) {
        PL_TRY(gather_layer(exec, prefill, loads, pass, layer));
        show_gathered(exec, prefill, layer, shown);
        return PL_OK;
    }
    for (int which = 0; which < PL_STORES; which++) {
        if (pl_store_has(&store->layout, which, layer)) {
            PL_TRY(exchange(exec, prefill, pass, layer, which, &shown[which]));
        }
    }
    return PL_OK;
}
