#include "exec/prefill.h"

#include <stdlib.h>
#include <string.h>

/* What a chunk's layers share. */
typedef struct pass {
    const pl_op_t *op;
    pl_chunk_t chunk;
    int32_t end;     /* tokens that the views show */
    bool hash;       /* views are hashed here */
    uint64_t digest; /* of all rows read */
} pass_t;

/* ---- memory ---- */

static void free_views(pl_exec_t *exec, pl_prefill_t *prefill)
{
    for (int which = 0; which < PL_STORES; which++) {
        pl_device_free(exec->device, prefill->views[which]);
        free(prefill->rows[which]);
    }
    free(prefill->headers);
    free(prefill->guards);
    free(prefill->slots);
    free(prefill->own);
    free(prefill->others);
    memset(prefill, 0, sizeof(*prefill));
}

static pl_status_t make_views(pl_exec_t *exec, pl_prefill_t *prefill,
                              int32_t n_pages, int32_t n_view_pages)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];
    size_t n                = (size_t)n_pages;
    size_t n_view           = (size_t)n_view_pages;

    for (int which = 0; which < PL_STORES; which++) {
        void *view = NULL;

        PL_TRY(pl_device_alloc(exec->device, PL_MEMORY_DEVICE,
                               n_view * store->stride[which],
                               "a view of a prompt", &view));
        prefill->views[which] = view;
        prefill->rows[which]  = calloc(n, sizeof(*prefill->rows[which]));
        if (prefill->rows[which] == NULL) {
            return PL_ERR_MEMORY;
        }
    }
    prefill->headers = calloc(n_view, sizeof(pl_page_header_t));
    prefill->guards  = calloc(n, sizeof(*prefill->guards));
    prefill->slots   = calloc(n, sizeof(*prefill->slots));
    prefill->own     = calloc(n, sizeof(*prefill->own));
    prefill->others  = calloc(n_view, sizeof(*prefill->others));
    if ((prefill->headers == NULL) || (prefill->guards == NULL) ||
        (prefill->slots == NULL) || (prefill->own == NULL) ||
        (prefill->others == NULL)) {
        return PL_ERR_MEMORY;
    }
    prefill->room      = n_pages;
    prefill->view_room = n_view_pages;
    return PL_OK;
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

static int32_t first_page(const pl_exec_t *exec, const pl_op_t *op)
{
    return op->first_token / exec->page_tokens;
}

/* Pages that a gather of this chunk brings. */
static int32_t gathered_pages(const pl_exec_t *exec, const pl_op_t *op)
{
    return op->n_pages - (pl_exec_replicates(exec) ? first_page(exec, op) : 0);
}

/* There is room for the operation's pages. */
static pl_chunk_t chunk_of(const pl_exec_t *exec, const pl_prefill_t *prefill,
                           const pl_op_t *op)
{
    pl_chunk_t chunk = {.request     = op->request,
                        .first_token = op->first_token,
                        .n_tokens    = op->n_tokens,
                        .last        = op->last,
                        .own_pages   = prefill->own};

    for (int32_t page = first_page(exec, op); page < op->n_pages; page++) {
        if (op->compute[page - first_page(exec, op)] == exec->rank) {
            prefill->own[chunk.n_own_pages++] = page;
        }
    }
    return chunk;
}

pl_status_t pl_prefill_reserve(pl_exec_t *exec, pl_prefill_t *prefill,
                               const pl_op_t *op)
{
    int32_t n_view = gathered_pages(exec, op);
    pl_chunk_t chunk;
    pl_status_t status;

    if (exec->rank >= exec->n_prefill) {
        return PL_OK;
    }
    if ((op->n_pages > prefill->room) || (n_view > prefill->view_room)) {
        int32_t room      = grown(prefill->room, op->n_pages);
        int32_t view_room = grown(prefill->view_room, n_view);

        free_views(exec, prefill);
        status = make_views(exec, prefill, room, view_room);
        if (status != PL_OK) {
            free_views(exec, prefill);
            return status;
        }
    }
    chunk = chunk_of(exec, prefill, op);
    return exec->compute->ops->reserve(exec->compute, &chunk);
}

void pl_prefill_free(pl_exec_t *exec, pl_prefill_t *prefill)
{
    free_views(exec, prefill);
}

/* ---- writing ---- */

static int32_t rows_of(const pl_exec_t *exec, const pass_t *pass, int32_t page)
{
    return pl_exec_rows(exec, page, pass->end);
}

/* Stamp what was just written: guard word, and the digest of the stored rows.
 */
static void stamp_page(pl_exec_t *exec, const pl_prefill_t *prefill,
                       const pass_t *pass, int32_t layer, int32_t page)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];
    int32_t slot = pl_exec_slot(exec, PL_FREED_DEVICE, pass->op->pages[page]);
    int32_t rows = rows_of(exec, pass, page);

    store->tags[slot].position = page * exec->page_tokens;
    store->tags[slot].rows     = rows;
    for (int which = 0; which < PL_STORES; which++) {
        pl_page_header_t *header;

        if (!pl_store_has(&store->layout, which, layer)) {
            continue;
        }
        header         = pl_store_header(store, which, layer, slot);
        header->guard  = prefill->guards[page];
        header->digest = 0;
        if (pl_exec_verifies(exec)) {
            header->digest = pl_exec_digest(
                &store->form[which], pl_store_page(store, which, layer, slot),
                layer, which, rows, page * exec->page_tokens);
        }
    }
}

/* Own pages first .. last of the chunk are a run of positions: one call. */
static pl_status_t write_run(pl_exec_t *exec, pl_prefill_t *prefill,
                             const pass_t *pass, int32_t layer, int32_t first,
                             int32_t last)
{
    pl_rows_t rows = {.store       = &exec->stores[PL_FREED_DEVICE],
                      .first_token = first * exec->page_tokens,
                      .slots       = prefill->slots};
    int32_t end    = (last + 1) * exec->page_tokens;

    end           = end < pass->end ? end : pass->end;
    rows.n_tokens = end - rows.first_token;
    for (int32_t page = first; page <= last; page++) {
        prefill->slots[page - first] =
            pl_exec_slot(exec, PL_FREED_DEVICE, pass->op->pages[page]);
    }
    PL_TRY(
        exec->compute->ops->write(exec->compute, &pass->chunk, layer, &rows));
    for (int32_t page = first; page <= last; page++) {
        stamp_page(exec, prefill, pass, layer, page);
    }
    return PL_OK;
}

static pl_status_t write_layer(pl_exec_t *exec, pl_prefill_t *prefill,
                               const pass_t *pass, int32_t layer)
{
    const int32_t *own = pass->chunk.own_pages;
    int32_t n          = pass->chunk.n_own_pages;

    for (int32_t first = 0, last = 0; first < n; first = last + 1) {
        last = first;
        while ((last + 1 < n) && (own[last + 1] == own[last] + 1)) {
            last++;
        }
        PL_TRY(write_run(exec, prefill, pass, layer, own[first], own[last]));
        if ((layer == 0) && (first == 0) && /* once a chunk */
            pl_exec_injects(exec, PL_INJECT_FLIP_DEVICE)) {
            pl_exec_flip(exec, PL_FREED_DEVICE, prefill->slots[0], layer,
                         rows_of(exec, pass, own[0]));
        }
    }
    return PL_OK;
}

/* ---- reading ---- */

/* Where the bytes and headers that are read lie, by row. */
typedef struct shown {
    const uint8_t *bytes, *headers;
} shown_t;

static pl_status_t gather(pl_exec_t *exec, pl_prefill_t *prefill, int32_t layer,
                          int which, pl_gather_t all)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];

    all.n_parts = 2;

    all.parts[0].region = PL_REGION_PAGES;
    all.parts[0].offset = pl_store_array(&store->layout, which, layer);
    all.parts[0].stride = store->stride[which];
    all.parts[0].view   = prefill->views[which];
    all.parts[1].region = PL_REGION_HEADERS;
    all.parts[1].offset = pl_store_header_array(&store->layout, which, layer) *
                          sizeof(pl_page_header_t);
    all.parts[1].stride = sizeof(pl_page_header_t);
    all.parts[1].view   = prefill->headers;
    return pl_comm_gather(exec->comm, &all);
}

/* All pages of the request, from their owners. */
static pl_status_t gather_view(pl_exec_t *exec, pl_prefill_t *prefill,
                               const pass_t *pass, int32_t layer, int which,
                               shown_t *shown_p)
{
    pl_gather_t all = {.pages   = pass->op->pages,
                       .n_pages = pass->op->n_pages,
                       .rows    = prefill->rows[which]};

    PL_TRY(gather(exec, prefill, layer, which, all));
    shown_p->bytes   = prefill->views[which];
    shown_p->headers = prefill->headers;
    return PL_OK;
}

/* ---- reading where ranks replicate ---- */

/* Page `page` as another rank wrote it: its bytes, and the header beside them,
 * whose guard word is the same in every store.  Nothing is made good here: what
 * is wrong with it shows when it is read. */
static void keep_page(pl_exec_t *exec, const pl_prefill_t *prefill,
                      const pass_t *pass, int32_t layer, int which,
                      int32_t page, int32_t row)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];
    int32_t slot = pl_exec_slot(exec, PL_FREED_DEVICE, pass->op->pages[page]);
    size_t bytes = store->stride[which];

    memcpy(pl_store_page(store, which, layer, slot),
           prefill->views[which] + (size_t)row * bytes, bytes);
    memcpy(pl_store_header(store, which, layer, slot),
           prefill->headers + (size_t)row * sizeof(pl_page_header_t),
           sizeof(pl_page_header_t));
    store->tags[slot].position = page * exec->page_tokens;
    store->tags[slot].rows     = rows_of(exec, pass, page);
}

/* Every rank stores the chunk's pages of all ranks, then reads its own store. A
 * gather takes page g from slot g div C of rank g mod C, so the pages are named
 * by where their bytes are: (slot, compute owner).  A rank writes no slot that
 * a peer may be reading: those of its own pages stay as they are. */
static pl_status_t exchange(pl_exec_t *exec, pl_prefill_t *prefill,
                            const pass_t *pass, int32_t layer, int which,
                            shown_t *shown_p)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];
    const pl_op_t *op       = pass->op;
    int32_t first           = first_page(exec, op);
    pl_gather_t chunk       = {.pages   = prefill->others,
                               .n_pages = op->n_pages - first,
                               .rows    = prefill->slots};

    for (int32_t i = 0; i < chunk.n_pages; i++) {
        prefill->others[i] = pl_page_at(
            op->compute[i],
            pl_exec_slot(exec, PL_FREED_DEVICE, op->pages[first + i]),
            exec->n_prefill);
    }
    PL_TRY(gather(exec, prefill, layer, which, chunk));
    for (int32_t i = 0; i < chunk.n_pages; i++) {
        if (op->compute[i] != exec->rank) {
            keep_page(exec, prefill, pass, layer, which, first + i,
                      prefill->slots[i]);
        }
    }
    for (int32_t page = 0; page < op->n_pages; page++) {
        prefill->rows[which][page] =
            pl_exec_slot(exec, PL_FREED_DEVICE, op->pages[page]);
    }
    shown_p->bytes   = pl_store_page(store, which, layer, 0);
    shown_p->headers = (const uint8_t *)pl_store_header(store, which, layer, 0);
    return PL_OK;
}

/* ---- checking ---- */

/* The first row of a bad page that is not what its tokens say; its first row if
 * that cannot be told. */
static int32_t locate(const pl_exec_t *exec, const pass_t *pass, int32_t layer,
                      int which, int32_t page, const uint8_t *bytes)
{
    const pl_page_form_t *form  = &exec->stores[PL_FREED_DEVICE].form[which];
    const pl_compute_ops_t *ops = exec->compute->ops;
    uint64_t base               = pl_digest_base(layer, which);
    int32_t first               = page * exec->page_tokens;

    for (int32_t i = 0;
         (ops->expect_row != NULL) && (i < rows_of(exec, pass, page)); i++) {
        if (pl_digest_rows(form, bytes, i, 1, first + i, base) !=
            ops->expect_row(exec->compute, &pass->chunk, layer, which,
                            first + i)) {
            return first + i;
        }
    }
    return first;
}

/* Out of line: what is wrong with a page of a view. */
static void __attribute__((noinline))
complain(pl_exec_t *exec, const pass_t *pass, int32_t layer, int which,
         int32_t page, int32_t invariant, int32_t position)
{
    pl_exec_site_t site = {.place    = PL_PLACE_DEVICE,
                           .tier     = PL_FREED_DEVICE,
                           .page     = pass->op->pages[page],
                           .home     = -1,
                           .position = page * exec->page_tokens,
                           .request  = pass->op->request,
                           .node     = -1};

    pl_exec_violate(exec, invariant, &site, layer, which, position);
}

/* Hash each page of a view once and compare it with everything that is known.
 */
static void check_view(pl_exec_t *exec, const pl_prefill_t *prefill,
                       const shown_t *shown, pass_t *pass, int32_t layer,
                       int which)
{
    const pl_store_t *store     = &exec->stores[PL_FREED_DEVICE];
    const pl_compute_ops_t *ops = exec->compute->ops;
    const int32_t *rows         = prefill->rows[which];
    uint64_t base               = pl_digest_base(layer, which);
    bool verifies               = pl_exec_verifies(exec);
    bool expects                = verifies && (ops->expect_page != NULL);

    for (int32_t page = 0; page < pass->op->n_pages; page++) {
        const uint8_t *bytes =
            shown->bytes + (size_t)rows[page] * store->stride[which];
        uint64_t digest = pl_digest_rows(&store->form[which], bytes, 0,
                                         rows_of(exec, pass, page),
                                         page * exec->page_tokens, base);
        pl_page_header_t header;

        pass->digest += digest;
        if (!verifies) {
            continue;
        }
        memcpy(&header, shown->headers + (size_t)rows[page] * sizeof(header),
               sizeof(header));
        if (header.guard == PL_GUARD_DAMAGED) {
            continue; /* noted where it happened */
        }
        if (header.guard != prefill->guards[page]) {
            complain(exec, pass, layer, which, page, PL_INVARIANT_WRITTEN,
                     page * exec->page_tokens);
        } else if ((header.digest != digest) ||
                   (expects &&
                    (ops->expect_page(exec->compute, &pass->chunk, layer, which,
                                      page) != digest))) {
            complain(exec, pass, layer, which, page, PL_INVARIANT_BYTES,
                     locate(exec, pass, layer, which, page, bytes));
        }
    }
    if (verifies) {
        exec->counters->page_checks += pass->op->n_pages;
    }
}

static pl_status_t read_layer(pl_exec_t *exec, pl_prefill_t *prefill,
                              pass_t *pass, int32_t layer)
{
    const pl_store_t *store = &exec->stores[PL_FREED_DEVICE];
    pl_view_t views[PL_STORES];

    memset(views, 0, sizeof(views));
    for (int which = 0; which < PL_STORES; which++) {
        shown_t shown = {0};

        if (!pl_store_has(&store->layout, which, layer)) {
            continue;
        }
        PL_TRY(pl_exec_replicates(exec)
                   ? exchange(exec, prefill, pass, layer, which, &shown)
                   : gather_view(exec, prefill, pass, layer, which, &shown));
        exec->counters->view_pages += pass->op->n_pages;
        if (pass->hash) {
            check_view(exec, prefill, &shown, pass, layer, which);
        }
        views[which].bytes    = shown.bytes;
        views[which].stride   = store->stride[which];
        views[which].rows     = prefill->rows[which];
        views[which].form     = store->form[which];
        views[which].n_tokens = pass->end;
    }
    /* What was found bad ends the run with this tick; attention never sees it.
     */
    if (exec->violations->n > 0) {
        return PL_OK;
    }
    return exec->compute->ops->read(exec->compute, &pass->chunk, layer, views);
}

/* ---- the chunk ---- */

static void count_written(pl_exec_t *exec, const pass_t *pass)
{
    int32_t own = pass->chunk.n_own_pages;

    exec->counters->pages[PL_OP_PREFILL] += own;
    exec->counters->bytes[PL_OP_PREFILL] +=
        own *
        (int64_t)pl_store_page_bytes(&exec->stores[PL_FREED_DEVICE].layout);
}

pl_status_t pl_prefill_execute(pl_exec_t *exec, pl_prefill_t *prefill,
                               pl_moves_t *loads, const pl_op_t *op)
{
    pl_exec_request_t *request = &exec->requests[op->request];
    pass_t pass = {.op = op, .end = op->first_token + op->n_tokens};
    bool ends_here;

    if (op->last) {
        request->first_rank =
            op->compute[op->n_pages - 1 - first_page(exec, op)];
    }
    if (exec->rank >= exec->n_prefill) {
        return PL_OK;
    }
    pass.chunk = chunk_of(exec, prefill, op);
    ends_here  = op->last && (request->first_rank == exec->rank);
    pass.hash  = pl_exec_verifies(exec) || ends_here;
    for (int32_t page = 0; page < op->n_pages; page++) {
        prefill->guards[page] =
            pl_exec_guard(exec, PL_FREED_DEVICE, op->pages[page], -1);
    }
    PL_TRY(exec->compute->ops->begin(exec->compute, &pass.chunk));
    for (int32_t layer = 0; layer < exec->n_layers; layer++) {
        if (op->load != 0) {
            PL_TRY(pl_move_wait(exec, loads, op->load, layer));
        }
        PL_TRY(write_layer(exec, prefill, &pass, layer));
        PL_TRY(read_layer(exec, prefill, &pass, layer));
    }
    count_written(exec, &pass);
    if (ends_here) {
        request->first_digest = pass.digest;
        PL_TRY(exec->compute->ops->end(exec->compute, &pass.chunk, pass.digest,
                                       &request->first_token));
    }
    return PL_OK;
}
