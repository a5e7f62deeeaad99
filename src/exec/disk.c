#include "exec/disk.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

typedef struct disk_page {
    int32_t index; /* in the operation */
    int32_t slot;  /* of the host store */
    pl_page_t page;
    uint64_t guard; /* FETCH: what its words will say */
} disk_page_t;

struct pl_disk_io {
    int64_t id;
    pl_op_kind_t kind;
    int32_t request;
    int64_t node;
    int32_t first_page;
    int64_t ticket; /* 0: not started */
    bool failed;    /* before it was started */
    int32_t n, n_pieces;
    disk_page_t *pages;           /* [n] */
    pl_storage_place_t *places;   /* [n] */
    pl_storage_header_t *headers; /* [n] written, or as read */
    pl_storage_piece_t *pieces;   /* [n * n_pieces] */
    uint64_t *digests;            /* [n_pieces] scratch */
};

/* ---- pieces of a page: layer by layer of one store, then of the other ---- */

static int32_t count_pieces(const pl_exec_t *exec)
{
    const pl_store_layout_t *layout = &exec->stores[PL_FREED_HOST].layout;
    int32_t n                       = 0;

    for (int which = 0; which < PL_STORES; which++) {
        n += pl_store_n_arrays(layout, which);
    }
    return n;
}

static void fill_pieces(const pl_exec_t *exec, int32_t slot,
                        pl_storage_piece_t *pieces)
{
    const pl_store_t *store = &exec->stores[PL_FREED_HOST];

    for (int which = 0; which < PL_STORES; which++) {
        for (int32_t layer = 0; layer < exec->n_layers; layer++) {
            if (pl_store_has(&store->layout, which, layer)) {
                *pieces++ = (pl_storage_piece_t){
                    .bytes = pl_store_page(store, which, layer, slot),
                    .n     = store->stride[which]};
            }
        }
    }
}

static int32_t position_of(const pl_exec_t *exec, const pl_disk_io_t *io,
                           int32_t i)
{
    return (io->first_page + io->pages[i].index) * exec->page_tokens;
}

/* ---- who does what ---- */

static bool is_mine(const pl_exec_t *exec, const pl_op_t *op, int32_t i)
{
    return op->kind == PL_OP_STORE ? op->places[i].rank == exec->rank
                                   : pl_exec_keeps_lane(exec, op->owners[i]);
}

static int32_t count(const pl_exec_t *exec, const pl_op_t *op)
{
    int32_t n = 0;

    if (op->kind == PL_OP_PUBLISH) {
        return 0;
    }
    for (int32_t i = 0; i < op->n_pages; i++) {
        n += is_mine(exec, op, i) ? 1 : 0;
    }
    return n;
}

/* ---- memory ---- */

static void free_io(pl_disk_io_t *io)
{
    free(io->pages);
    free(io->places);
    free(io->headers);
    free(io->pieces);
    free(io->digests);
    free(io);
}

static pl_disk_io_t *make_io(const pl_exec_t *exec, const pl_op_t *op,
                             int32_t n)
{
    pl_disk_io_t *io = calloc(1, sizeof(*io));
    size_t pages     = (size_t)n + 1;
    size_t pieces;

    if (io == NULL) {
        return NULL;
    }
    io->id         = op->id;
    io->kind       = op->kind;
    io->request    = op->request;
    io->node       = op->node;
    io->first_page = op->first_page;
    io->n          = n;
    io->n_pieces   = n > 0 ? count_pieces(exec) : 0;
    pieces         = (size_t)io->n_pieces + 1;
    io->pages      = calloc(pages, sizeof(*io->pages));
    io->places     = calloc(pages, sizeof(*io->places));
    io->headers    = calloc(pages, sizeof(*io->headers));
    io->pieces     = calloc(pages * pieces, sizeof(*io->pieces));
    io->digests    = calloc(pieces, sizeof(*io->digests));
    if ((io->pages == NULL) || (io->places == NULL) || (io->headers == NULL) ||
        (io->pieces == NULL) || (io->digests == NULL)) {
        free_io(io);
        return NULL;
    }
    return io;
}

static void copy_pages(const pl_exec_t *exec, const pl_op_t *op,
                       pl_disk_io_t *io)
{
    int32_t n = 0;

    for (int32_t i = 0; (n < io->n) && (i < op->n_pages); i++) {
        disk_page_t *page = &io->pages[n];

        if (!is_mine(exec, op, i)) {
            continue;
        }
        page->index    = i;
        page->page     = op->pages[i];
        page->slot     = pl_exec_slot(exec, PL_FREED_HOST, page->page);
        io->places[n]  = op->places[i];
        io->headers[n] = (pl_storage_header_t){.stamp = op->stamps[i],
                                               .chain = op->chains[i]};
        fill_pieces(exec, page->slot, &io->pieces[n * io->n_pieces]);
        n++;
    }
}

pl_status_t pl_disk_reserve(pl_exec_t *exec, pl_disk_ios_t *ios,
                            const pl_op_t *op)
{
    int32_t n = count(exec, op);
    pl_disk_io_t *io;

    if ((n == 0) && ((op->kind != PL_OP_PUBLISH) || (exec->rank != 0))) {
        return PL_OK;
    }
    assert(exec->door != NULL);
    if ((op->kind != PL_OP_FETCH) && !exec->door->ops->can_write(exec->door)) {
        return PL_ERR_IO;
    }
    io = make_io(exec, op, n);
    if (io == NULL) {
        return PL_ERR_MEMORY;
    }
    copy_pages(exec, op, io);
    if (PL_ARRAY_PUSH(&ios->list, io) != PL_OK) {
        free_io(io);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

static size_t find(const pl_disk_ios_t *ios, int64_t id)
{
    size_t i = 0;

    while ((i < ios->list.n) && (ios->list.items[i]->id != id)) {
        i++;
    }
    return i;
}

static void forget(pl_disk_ios_t *ios, size_t i)
{
    free_io(ios->list.items[i]);
    ios->list.items[i] = ios->list.items[--ios->list.n];
}

void pl_disk_free(pl_disk_ios_t *ios)
{
    while (ios->list.n > 0) {
        forget(ios, ios->list.n - 1);
    }
    PL_ARRAY_FREE(&ios->list);
}

/* ---- start ---- */

/* The digest of a page that is written: with verification its writer's, which
 * the bytes must have; else what the bytes are now.  False: they have not. */
static bool take_digest(pl_exec_t *exec, pl_disk_io_t *io, int32_t i)
{
    const pl_store_t *store   = &exec->stores[PL_FREED_HOST];
    const disk_page_t *page   = &io->pages[i];
    const pl_exec_site_t site = {.place    = PL_PLACE_HOST,
                                 .tier     = PL_FREED_HOST,
                                 .page     = page->page,
                                 .home     = -1,
                                 .position = position_of(exec, io, i),
                                 .request  = -1,
                                 .node     = io->node};
    bool sound                = true;
    uint64_t sum              = 0;

    for (int which = 0; which < PL_STORES; which++) {
        for (int32_t layer = 0; layer < exec->n_layers; layer++) {
            pl_exec_read_t read = {.hashed = true};

            if (!pl_store_has(&store->layout, which, layer)) {
                continue;
            }
            read.header = *pl_store_header(store, which, layer, page->slot);
            read.digest =
                pl_exec_digest(&store->form[which],
                               pl_store_page(store, which, layer, page->slot),
                               layer, which, exec->page_tokens, site.position);
            if (!pl_exec_verifies(exec)) {
                sum += read.digest;
                continue;
            }
            read.guard =
                pl_exec_guard(exec, PL_FREED_HOST, page->page, site.home);
            sound = pl_exec_sound(exec, &site, layer, which, &read) && sound;
            sum += read.header.digest;
        }
    }
    io->headers[i].digest = sum;
    return sound;
}

static void prepare(pl_exec_t *exec, pl_disk_io_t *io)
{
    for (int32_t i = 0; i < io->n; i++) {
        disk_page_t *page = &io->pages[i];

        if (io->kind == PL_OP_STORE) {
            io->failed = !take_digest(exec, io, i) || io->failed;
        } else {
            page->guard = pl_exec_guard(exec, PL_FREED_HOST, page->page, -1);
        }
    }
}

static pl_status_t start(pl_exec_t *exec, pl_disk_io_t *io)
{
    const pl_storage_door_ops_t *ops = exec->door->ops;
    pl_storage_io_t pages            = {.n_pages  = io->n,
                                        .places   = io->places,
                                        .headers  = io->headers,
                                        .pieces   = io->pieces,
                                        .n_pieces = io->n_pieces};
    pl_storage_run_t run             = {.n_requests = exec->plan->n_requests,
                                        .finished   = exec->plan->finished};

    switch (io->kind) {
    case PL_OP_STORE:
        return ops->write(exec->door, &pages, &io->ticket);
    case PL_OP_FETCH:
        return ops->read(exec->door, &pages, &io->ticket);
    default:
        return ops->publish(exec->door, exec->plan->storage, &run, &io->ticket);
    }
}

/* What the door was given to write or to read into. */
static void note_pages(pl_exec_t *exec, const pl_disk_io_t *io)
{
    bool writes = io->kind == PL_OP_STORE;

    for (int32_t i = 0; i < io->n; i++) {
        int32_t slot  = io->pages[i].slot;
        int32_t place = io->places[i].slot;

        pl_op_log_page(exec->log_of_ops, io->id,
                       io->first_page + io->pages[i].index,
                       writes ? slot : place, writes ? place : slot);
        for (int32_t k = 0; k < io->n_pieces; k++) {
            pl_op_log_bytes(exec->log_of_ops, io->id,
                            io->pieces[i * io->n_pieces + k].n);
        }
    }
}

void pl_disk_execute(pl_exec_t *exec, pl_disk_ios_t *ios, const pl_op_t *op)
{
    size_t at = find(ios, op->id);
    pl_disk_io_t *io;

    if (at == ios->list.n) {
        return;
    }
    if (op->cancelled) {
        forget(ios, at);
        return;
    }
    io = ios->list.items[at];
    prepare(exec, io);
    io->failed = io->failed || (start(exec, io) != PL_OK);
    if (!io->failed) {
        exec->counters->pages[io->kind] += io->n;
        exec->counters->bytes[io->kind] +=
            io->n *
            (int64_t)pl_store_page_bytes(&exec->stores[PL_FREED_HOST].layout);
        note_pages(exec, io);
    }
}

/* ---- end ---- */

/* Are the bytes of page i those that its writer wrote?  io->digests are then
 * those of its pieces. */
static bool is_whole(pl_exec_t *exec, const pl_disk_io_t *io, int32_t i)
{
    const pl_store_t *store = &exec->stores[PL_FREED_HOST];
    int32_t piece           = 0;
    uint64_t sum            = 0;

    for (int which = 0; which < PL_STORES; which++) {
        for (int32_t layer = 0; layer < exec->n_layers; layer++) {
            if (pl_store_has(&store->layout, which, layer)) {
                io->digests[piece] = pl_exec_digest(
                    &store->form[which],
                    pl_store_page(store, which, layer, io->pages[i].slot),
                    layer, which, exec->page_tokens, position_of(exec, io, i));
                sum += io->digests[piece++];
            }
        }
    }
    exec->counters->page_checks += pl_exec_verifies(exec) ? io->n_pieces : 0;
    return sum == io->headers[i].digest;
}

/* A sound page is as if a backup had brought it here; of another nothing is
 * left that a reader could take for written. */
static void stamp(pl_exec_t *exec, const pl_disk_io_t *io, int32_t i, bool good)
{
    const pl_store_t *store = &exec->stores[PL_FREED_HOST];
    const disk_page_t *page = &io->pages[i];
    int32_t piece           = 0;

    for (int which = 0; which < PL_STORES; which++) {
        for (int32_t layer = 0; layer < exec->n_layers; layer++) {
            if (pl_store_has(&store->layout, which, layer)) {
                *pl_store_header(store, which, layer, page->slot) =
                    (pl_page_header_t){.guard =
                                           good ? page->guard : PL_GUARD_NEVER,
                                       .digest = good ? io->digests[piece] : 0};
                piece++;
            }
        }
    }
    store->tags[page->slot] = (pl_page_tag_t){
        .position = position_of(exec, io, i), .rows = exec->page_tokens};
}

/* The first page of its kind is told, further ones are counted. */
static void warn_of_page(const pl_exec_t *exec, const pl_disk_io_t *io,
                         int32_t i, const char *what, bool *warned_p)
{
    if (!*warned_p) {
        pl_log(exec->log, PL_LOG_WARN,
               "storage: page %" PRId32 " of request %" PRId32 " (set %" PRId32
               ", rank %" PRId32 ", slot %" PRId32
               ") %s, and further such pages are counted",
               io->first_page + io->pages[i].index, io->request,
               io->places[i].set, io->places[i].rank, io->places[i].slot, what);
        *warned_p = true;
    }
}

static void note_bad(pl_exec_t *exec, pl_disk_ios_t *ios,
                     const pl_disk_io_t *io, int32_t i)
{
    exec->counters->bad_storage_pages++;
    warn_of_page(exec, io, i,
                 "is not what was written there; it is computed anew",
                 &ios->warned);
}

static void note_unread(pl_exec_t *exec, pl_disk_ios_t *ios,
                        const pl_disk_io_t *io, int32_t i)
{
    exec->counters->unread_storage_pages++;
    warn_of_page(exec, io, i,
                 "could not be read; it is computed anew and stays for another "
                 "time",
                 &ios->warned_unread);
}

/* `mine`: of the pages of this rank; the result: of the operation's. */
static pl_storage_end_t arrive(pl_exec_t *exec, pl_disk_ios_t *ios,
                               const pl_disk_io_t *io, pl_storage_end_t mine)
{
    pl_storage_end_t of_op = {0};

    if (pl_exec_injects(exec, PL_INJECT_FETCH_FAIL)) {
        mine.unread |= UINT64_C(1) << (io->n / 2);
    }
    for (int32_t i = 0; i < io->n; i++) {
        uint64_t bit = UINT64_C(1) << io->pages[i].index;
        bool unread  = ((mine.unread >> i) & 1) != 0;
        bool good =
            !unread && (((mine.bad >> i) & 1) == 0) && is_whole(exec, io, i);

        stamp(exec, io, i, good);
        if (unread) {
            of_op.unread |= bit;
            note_unread(exec, ios, io, i);
        } else if (!good) {
            of_op.bad |= bit;
            note_bad(exec, ios, io, i);
        }
    }
    return of_op;
}

/* A door that writes no more has said why; one write that fails is said here.
 */
static void note_failed_store(pl_exec_t *exec, pl_disk_ios_t *ios,
                              const pl_disk_io_t *io)
{
    if (!ios->warned_store && exec->door->ops->can_write(exec->door)) {
        pl_log(exec->log, PL_LOG_WARN,
               "storage: %" PRId32 " pages of node %" PRId64
               " could not be stored and stay out; further such writes are "
               "counted",
               io->n, io->node);
        ios->warned_store = true;
    }
}

void pl_disk_settle(pl_exec_t *exec, pl_disk_ios_t *ios, int64_t id,
                    bool *failed_p, pl_storage_end_t *end_p)
{
    size_t at            = find(ios, id);
    pl_storage_end_t end = {0};
    pl_disk_io_t *io;
    bool is_done;

    *failed_p = false;
    *end_p    = end;
    if (at == ios->list.n) {
        return;
    }
    io      = ios->list.items[at];
    is_done = !io->failed &&
              (exec->door->ops->wait(exec->door, io->ticket, &end) == PL_OK);
    if (io->kind == PL_OP_FETCH) {
        end    = is_done ? end : (pl_storage_end_t){.unread = UINT64_MAX};
        *end_p = arrive(exec, ios, io, end);
    } else {
        *failed_p = !is_done || (end.bad != 0);
    }
    if (io->kind == PL_OP_STORE) {
        *failed_p = pl_exec_injects(exec, PL_INJECT_STORE_FAIL) || *failed_p;
        if (*failed_p) {
            note_failed_store(exec, ios, io);
        }
    }
    forget(ios, at);
}
