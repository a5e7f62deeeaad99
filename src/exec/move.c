#include "exec/move.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

typedef struct move_page {
    int32_t position; /* page of the request */
    int32_t rows;
    pl_page_t src, dst;
    uint64_t dst_guard;
} move_page_t;

struct pl_move {
    int64_t id;
    pl_op_kind_t kind;
    int32_t request;
    int64_t node;
    int32_t home;
    int src, dst; /* tiers */
    pl_stream_t stream;
    int32_t n;
    move_page_t *pages;    /* [n] */
    pl_slot_pair_t *slots; /* [n] */
    pl_copy_t *copies;     /* [n * PL_STORES], scratch */
    /* [n][n_layers][PL_STORES]: headers of the sources; a guard word of
     * PL_GUARD_DAMAGED: not what it must be */
    pl_page_header_t *headers;
    pl_fence_t *fences; /* [n_layers] */
    int32_t n_done;     /* layers */
};

/* ---- who moves what ---- */

static bool is_mine(const pl_exec_t *exec, const pl_op_t *op, int32_t i)
{
    if ((op->kind == PL_OP_LOAD) || (op->kind == PL_OP_BACKUP)) {
        return pl_exec_keeps_lane(exec, op->owners[i]);
    }
    return op->home == exec->rank;
}

int32_t pl_move_count(const pl_exec_t *exec, const pl_op_t *op)
{
    int32_t n = 0;

    for (int32_t i = 0; i < op->n_pages; i++) {
        n += is_mine(exec, op, i) ? 1 : 0;
    }
    return n;
}

static void set_direction(pl_move_t *move)
{
    switch (move->kind) {
    case PL_OP_LOAD:
        move->src    = PL_FREED_HOST;
        move->dst    = PL_FREED_DEVICE;
        move->stream = PL_STREAM_LOAD;
        break;
    case PL_OP_BACKUP:
        move->src    = PL_FREED_DEVICE;
        move->dst    = PL_FREED_HOST;
        move->stream = PL_STREAM_BACKUP;
        break;
    case PL_OP_OFFLOAD:
        move->src    = PL_FREED_DECODE;
        move->dst    = PL_FREED_DECODE_HOST;
        move->stream = PL_STREAM_DECODE;
        break;
    default:
        move->src    = PL_FREED_DECODE_HOST;
        move->dst    = PL_FREED_DECODE;
        move->stream = PL_STREAM_DECODE;
        break;
    }
}

/* ---- memory ---- */

static void free_move(pl_move_t *move)
{
    if (move == NULL) {
        return;
    }
    free(move->pages);
    free(move->slots);
    free(move->copies);
    free(move->headers);
    free(move->fences);
    free(move);
}

static pl_move_t *make_move(const pl_exec_t *exec, const pl_op_t *op, int32_t n)
{
    pl_move_t *move = calloc(1, sizeof(*move));
    size_t pages    = (size_t)n;
    size_t layers   = (size_t)exec->n_layers;

    if (move == NULL) {
        return NULL;
    }
    move->id      = op->id;
    move->kind    = op->kind;
    move->request = op->request;
    move->node    = op->node;
    move->home    = op->home;
    move->n       = n;
    move->pages   = calloc(pages, sizeof(*move->pages));
    move->slots   = calloc(pages, sizeof(*move->slots));
    move->copies  = calloc(pages * PL_STORES, sizeof(*move->copies));
    move->headers = calloc(pages * layers * PL_STORES, sizeof(*move->headers));
    move->fences  = calloc(layers, sizeof(*move->fences));
    if ((move->pages == NULL) || (move->slots == NULL) ||
        (move->copies == NULL) || (move->headers == NULL) ||
        (move->fences == NULL)) {
        free_move(move);
        return NULL;
    }
    set_direction(move);
    return move;
}

static size_t find(const pl_moves_t *moves, int64_t id)
{
    for (size_t i = 0; i < moves->n; i++) {
        if (moves->items[i]->id == id) {
            return i;
        }
    }
    return moves->n;
}

static void forget(pl_moves_t *moves, size_t i)
{
    free_move(moves->items[i]);
    memmove(&moves->items[i], &moves->items[i + 1],
            (moves->n - i - 1) * sizeof(*moves->items));
    moves->n--;
}

void pl_moves_free(pl_moves_t *moves)
{
    for (size_t i = 0; i < moves->n; i++) {
        free_move(moves->items[i]);
    }
    PL_ARRAY_FREE(moves);
}

pl_status_t pl_move_reserve(pl_exec_t *exec, pl_moves_t *moves,
                            const pl_op_t *op)
{
    int32_t n = pl_move_count(exec, op);
    pl_move_t *move;

    if (n == 0) {
        return PL_OK;
    }
    move = make_move(exec, op, n);
    if (move == NULL) {
        return PL_ERR_MEMORY;
    }
    n = 0;
    for (int32_t i = 0; i < op->n_pages; i++) {
        move_page_t *page = &move->pages[n];
        bool from_pages =
            (op->kind == PL_OP_BACKUP) || (op->kind == PL_OP_OFFLOAD);

        if (!is_mine(exec, op, i)) {
            continue;
        }
        page->position = op->first_page + i;
        page->rows     = (op->owners != NULL)
                             ? exec->page_tokens
                             : pl_exec_rows(exec, page->position, op->n_tokens);
        page->src      = from_pages ? op->pages[i] : op->other[i];
        page->dst      = from_pages ? op->other[i] : op->pages[i];
        n++;
    }
    if (PL_ARRAY_PUSH(moves, move) != PL_OK) {
        free_move(move);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

/* ---- start ---- */

static pl_exec_site_t source_site(const pl_exec_t *exec, const pl_move_t *move,
                                  int32_t i)
{
    static const pl_place_t places[PL_TIERS] = {
        PL_PLACE_DEVICE, PL_PLACE_HOST, PL_PLACE_DECODE, PL_PLACE_DECODE_HOST};
    pl_exec_site_t site = {.place = places[move->src],
                           .tier  = move->src,
                           .page  = move->pages[i].src,
                           .home  = move->home,
                           .position =
                               move->pages[i].position * exec->page_tokens,
                           .request = move->request,
                           .node    = move->node};

    return site;
}

static pl_page_header_t *header_at(const pl_exec_t *exec, const pl_move_t *move,
                                   int32_t i, int32_t layer, int which)
{
    return &move->headers[((size_t)i * (size_t)exec->n_layers + (size_t)layer) *
                              PL_STORES +
                          (size_t)which];
}

/* Read the headers of the sources; was what is wanted ever written here? */
static void take_sources(pl_exec_t *exec, pl_move_t *move, int32_t i)
{
    const pl_store_t *src = &exec->stores[move->src];
    pl_exec_site_t site   = source_site(exec, move, i);
    pl_exec_read_t read   = {
          .guard = pl_exec_guard(exec, move->src, site.page, move->home)};

    for (int32_t layer = 0; layer < exec->n_layers; layer++) {
        for (int which = 0; which < PL_STORES; which++) {
            pl_page_header_t *header = header_at(exec, move, i, layer, which);

            if (!pl_store_has(&src->layout, which, layer)) {
                continue;
            }
            read.header =
                *pl_store_header(src, which, layer, move->slots[i].src);
            *header = read.header;
            if (!pl_exec_sound(exec, &site, layer, which, &read)) {
                header->guard = PL_GUARD_DAMAGED;
            }
        }
    }
}

/* What the copies of one array of a layer bring where, by their addresses;
 * pages are noted once, with the first. */
static void note_copies(pl_exec_t *exec, const pl_move_t *move, int32_t layer,
                        int which, const pl_copy_t *copies, int32_t n)
{
    const pl_store_t *src = &exec->stores[move->src];
    const pl_store_t *dst = &exec->stores[move->dst];
    const uint8_t *from   = pl_store_page(src, which, layer, 0);
    const uint8_t *to     = pl_store_page(dst, which, layer, 0);
    size_t stride         = src->stride[which];
    int32_t page          = 0;

    for (int32_t i = 0; i < n; i++) {
        size_t at = (size_t)((const uint8_t *)copies[i].src - from) / stride;
        size_t in = (size_t)((const uint8_t *)copies[i].dst - to) / stride;

        pl_op_log_bytes(exec->log_of_ops, move->id, copies[i].bytes);
        for (size_t k = 0; (layer == 0) && (which == PL_STORE_LATENT) &&
                           (k < copies[i].bytes / stride);
             k++) {
            pl_op_log_page(exec->log_of_ops, move->id,
                           move->pages[page++].position, (int32_t)(at + k),
                           (int32_t)(in + k));
        }
    }
}

static pl_status_t queue_layer(pl_exec_t *exec, pl_move_t *move, int32_t layer,
                               bool late)
{
    const pl_store_t *src = &exec->stores[move->src];
    const pl_store_t *dst = &exec->stores[move->dst];
    int32_t n             = 0;

    for (int which = 0; which < PL_STORES; which++) {
        if (pl_store_has(&src->layout, which, layer)) {
            int32_t built = pl_copies_build(
                move->slots, move->n, pl_store_page(src, which, layer, 0),
                pl_store_page(dst, which, layer, 0), src->stride[which],
                move->copies + n);

            note_copies(exec, move, layer, which, move->copies + n, built);
            n += built;
        }
    }
    PL_TRY(pl_device_copy(exec->device, move->stream, move->copies, n, late));
    return pl_device_record(exec->device, move->stream, &move->fences[layer]);
}

/* A rank dies when half of a backup's copies are under way. */
static void inject_death(pl_exec_t *exec, const pl_move_t *move, int32_t layer)
{
    if ((move->kind == PL_OP_BACKUP) && (layer == exec->n_layers / 2) &&
        pl_exec_injects(exec, PL_INJECT_DIE_BACKUP)) {
        pl_log(exec->log, PL_LOG_ERROR,
               "rank %d kills itself in a backup (--inject die=backup)",
               exec->rank);
        raise(SIGKILL);
    }
}

pl_status_t pl_move_execute(pl_exec_t *exec, pl_moves_t *moves,
                            const pl_op_t *op)
{
    size_t at = find(moves, op->id);
    pl_move_t *move;
    bool late;

    if (at == moves->n) {
        return PL_OK;
    }
    if (op->cancelled) {
        forget(moves, at);
        return PL_OK;
    }
    move = moves->items[at];
    for (int32_t i = 0; i < move->n; i++) {
        move_page_t *page = &move->pages[i];

        move->slots[i].src = pl_exec_slot(exec, move->src, page->src);
        move->slots[i].dst = pl_exec_slot(exec, move->dst, page->dst);
        page->dst_guard = pl_exec_guard(exec, move->dst, page->dst, move->home);
        take_sources(exec, move, i);
    }
    /* A page that is loaded into may still be read by the forward pass, or be
     * on its way to poison; one that is backed up may still be written. */
    PL_TRY(pl_device_order(exec->device, move->stream, PL_STREAM_COMPUTE));
    late = (move->kind == PL_OP_LOAD) &&
           pl_exec_injects(exec, PL_INJECT_LOAD_DELAY);
    for (int32_t layer = 0; layer < exec->n_layers; layer++) {
        inject_death(exec, move, layer);
        PL_TRY(queue_layer(exec, move, layer, late));
    }
    exec->counters->pages[move->kind] += move->n;
    exec->counters->bytes[move->kind] +=
        move->n * (int64_t)pl_store_page_bytes(&exec->stores[move->src].layout);
    return PL_OK;
}

/* ---- end ---- */

static pl_status_t hash_layer(pl_exec_t *exec, const pl_move_t *move,
                              int32_t layer)
{
    const pl_store_t *dst = &exec->stores[move->dst];

    pl_digests_clear(&exec->digests);
    for (int32_t i = 0; i < move->n; i++) {
        for (int which = 0; which < PL_STORES; which++) {
            pl_piece_t at = {layer, which};

            if (pl_store_has(&dst->layout, which, layer)) {
                PL_TRY(pl_digests_add(
                    &exec->digests, &dst->form[which],
                    pl_piece_page(dst, &at, move->slots[i].dst), 0,
                    move->pages[i].rows,
                    move->pages[i].position * exec->page_tokens, &at));
            }
        }
    }
    PL_TRY(pl_device_after(exec->device, PL_STREAM_COMPUTE, move->stream,
                           move->fences[layer]));
    return pl_digests_take(&exec->digests, exec->device);
}

/* The bytes at the destination are those that the source's writer wrote: a page
 * that was overwritten under a late copy does not get through. */
static void arrive(pl_exec_t *exec, const pl_move_t *move, int32_t i,
                   int32_t layer, int which)
{
    const pl_store_t *dst   = &exec->stores[move->dst];
    const move_page_t *page = &move->pages[i];
    int32_t slot            = move->slots[i].dst;
    pl_exec_site_t site     = source_site(exec, move, i);
    pl_exec_read_t read = {.header = *header_at(exec, move, i, layer, which)};
    pl_page_header_t *header = pl_store_header(dst, which, layer, slot);

    if (pl_exec_verifies(exec)) {
        read.hashed = true;
        read.digest = pl_digests_next(&exec->digests);
    }
    read.guard               = read.header.guard;
    header->digest           = read.header.digest;
    header->guard            = pl_exec_sound(exec, &site, layer, which, &read)
                                   ? page->dst_guard
                                   : PL_GUARD_DAMAGED;
    dst->tags[slot].position = site.position;
    dst->tags[slot].rows     = page->rows;
}

static pl_status_t inject_flip(pl_exec_t *exec, const pl_move_t *move)
{
    if ((move->kind != PL_OP_LOAD) ||
        !pl_exec_injects(exec, PL_INJECT_FLIP_DEVICE)) {
        return PL_OK;
    }
    PL_TRY(pl_device_after(exec->device, PL_STREAM_COMPUTE, move->stream,
                           move->fences[0]));
    return pl_exec_flip(exec, move->dst, move->slots[0].dst, 0,
                        move->pages[0].rows);
}

static pl_status_t complete_layer(pl_exec_t *exec, pl_move_t *move)
{
    int32_t layer = move->n_done;

    if (pl_exec_verifies(exec)) {
        PL_TRY(hash_layer(exec, move, layer));
    }
    for (int32_t i = 0; i < move->n; i++) {
        for (int which = 0; which < PL_STORES; which++) {
            if (pl_store_has(&exec->stores[move->dst].layout, which, layer)) {
                arrive(exec, move, i, layer, which);
            }
        }
    }
    if (layer == 0) {
        PL_TRY(inject_flip(exec, move));
    }
    move->n_done++;
    return PL_OK;
}

pl_status_t pl_move_wait(pl_exec_t *exec, pl_moves_t *moves, int64_t id,
                         int32_t layer)
{
    size_t at = find(moves, id);
    const pl_move_t *move;

    if (at == moves->n) {
        return PL_OK;
    }
    move = moves->items[at];
    /* Peers read this rank's pages after what it has queued on GATHER; and what
     * computes comes after the gathers of its layer, also where ranks replicate
     * and read their own pages. */
    PL_TRY(pl_device_after(exec->device, PL_STREAM_GATHER, move->stream,
                           move->fences[layer]));
    while (move->n_done <= layer) {
        PL_TRY(complete_layer(exec, moves->items[at]));
    }
    return PL_OK;
}

/* What a request that comes back holds is read from what came back. */
static pl_status_t resume(pl_exec_t *exec, const pl_move_t *move)
{
    if (!pl_exec_hashes(exec)) {
        return PL_OK;
    }
    pl_digests_clear(&exec->digests);
    for (int32_t i = 0; i < move->n; i++) {
        PL_TRY(pl_digests_add_page(
            &exec->digests, &exec->stores[move->dst], move->slots[i].dst,
            move->pages[i].rows, move->pages[i].position * exec->page_tokens));
    }
    PL_TRY(pl_digests_take(&exec->digests, exec->device));
    exec->requests[move->request].digest_held = pl_digests_sum(&exec->digests);
    return PL_OK;
}

/* All has arrived: the host has waited. */
static pl_status_t end(pl_exec_t *exec, const pl_move_t *move, bool *failed_p)
{
    switch (move->kind) {
    case PL_OP_LOAD:
        *failed_p = pl_exec_injects(exec, PL_INJECT_LOAD_FAIL);
        return PL_OK;
    case PL_OP_BACKUP:
        *failed_p = pl_exec_injects(exec, PL_INJECT_BACKUP_FAIL);
        return pl_exec_injects(exec, PL_INJECT_FLIP_HOST)
                   ? pl_exec_flip(exec, move->dst, move->slots[0].dst, 0,
                                  move->pages[0].rows)
                   : PL_OK;
    case PL_OP_RESUME:
        return resume(exec, move);
    default:
        return PL_OK;
    }
}

pl_status_t pl_move_settle(pl_exec_t *exec, pl_moves_t *moves, int64_t id,
                           bool *failed_p)
{
    size_t at = find(moves, id);
    pl_move_t *move;

    *failed_p = false;
    if (at == moves->n) {
        return PL_OK;
    }
    move = moves->items[at];
    /* From here on the source may be another's, and the host may read what was
     * copied to it. */
    PL_TRY(pl_device_wait(exec->device, move->stream,
                          move->fences[exec->n_layers - 1]));
    while (move->n_done < exec->n_layers) {
        PL_TRY(complete_layer(exec, move));
    }
    PL_TRY(end(exec, move, failed_p));
    forget(moves, at);
    return PL_OK;
}
