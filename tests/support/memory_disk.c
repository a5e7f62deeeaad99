#include "support/memory_disk.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

typedef struct page {
    pl_storage_place_t place;
    pl_storage_header_t header;
    uint8_t *bytes;
    size_t n;
    bool is_hidden;
} page_t;

struct memory_disk {
    pthread_mutex_t mutex;
    PL_ARRAY(page_t) pages;
    int n_publications;
    PL_ARRAY(pl_storage_entry_t) index; /* of the last publication */
    int n_finished;
    int refuses, breaks; /* ranks */
};

typedef enum kind { WRITE, READ, PUBLISH } kind_t;

typedef struct job {
    int64_t ticket;
    kind_t kind;
    pl_storage_io_t io; /* places and (WRITE) headers are copies */
    PL_ARRAY(pl_storage_entry_t) index; /* PUBLISH */
    int n_finished;
} job_t;

typedef struct door {
    pl_storage_door_t door;
    memory_disk_t *disk;
    int rank;
    int64_t next;
    PL_ARRAY(job_t) jobs;
} door_t;

static void *copy_of(const void *items, size_t n)
{
    void *copy = malloc(n + 1);

    if (copy == NULL) {
        abort();
    }
    memcpy(copy, items, n);
    return copy;
}

/* ---- pages ---- */

static page_t *find(memory_disk_t *disk, pl_storage_place_t place)
{
    for (size_t i = 0; i < disk->pages.n; i++) {
        page_t *page = &disk->pages.items[i];

        if ((page->place.set == place.set) &&
            (page->place.rank == place.rank) &&
            (page->place.slot == place.slot)) {
            return page;
        }
    }
    return NULL;
}

static void put(memory_disk_t *disk, const pl_storage_io_t *io, int32_t i)
{
    const pl_storage_piece_t *pieces = &io->pieces[i * io->n_pieces];
    page_t *page                     = find(disk, io->places[i]);
    size_t n                         = 0;

    if (page == NULL) {
        page_t fresh = {.place = io->places[i]};

        if (PL_ARRAY_PUSH(&disk->pages, fresh) != PL_OK) {
            abort();
        }
        page = &disk->pages.items[disk->pages.n - 1];
    }
    for (int32_t k = 0; k < io->n_pieces; k++) {
        n += pieces[k].n;
    }
    free(page->bytes);
    page->bytes  = malloc(n);
    page->n      = n;
    page->header = io->headers[i];
    n            = 0;
    for (int32_t k = 0; k < io->n_pieces; k++) {
        memcpy(page->bytes + n, pieces[k].bytes, pieces[k].n);
        n += pieces[k].n;
    }
}

static bool get(memory_disk_t *disk, const pl_storage_io_t *io, int32_t i)
{
    const pl_storage_piece_t *pieces = &io->pieces[i * io->n_pieces];
    const page_t *page               = find(disk, io->places[i]);
    size_t n                         = 0;

    if ((page == NULL) || (page->header.stamp != io->headers[i].stamp) ||
        (page->header.chain != io->headers[i].chain)) {
        return false;
    }
    io->headers[i].digest = page->header.digest;
    for (int32_t k = 0; k < io->n_pieces; k++) {
        memcpy(pieces[k].bytes, page->bytes + n, pieces[k].n);
        n += pieces[k].n;
    }
    return n == page->n;
}

/* ---- the door ---- */

static bool can_write(pl_storage_door_t *self)
{
    const door_t *door = (const door_t *)self;

    return door->disk->refuses != door->rank;
}

static pl_status_t begin(pl_storage_door_t *self, kind_t kind,
                         const pl_storage_io_t *io, int64_t *ticket_p)
{
    door_t *door = (door_t *)self;
    job_t job    = {.ticket = ++door->next, .kind = kind};

    if (io != NULL) {
        size_t n = (size_t)io->n_pages;

        job.io        = *io;
        job.io.places = copy_of(io->places, n * sizeof(*io->places));
        job.io.pieces =
            copy_of(io->pieces, n * (size_t)io->n_pieces * sizeof(*io->pieces));
        if (kind == WRITE) {
            job.io.headers = copy_of(io->headers, n * sizeof(*io->headers));
        }
    }
    *ticket_p = job.ticket;
    return PL_ARRAY_PUSH(&door->jobs, job);
}

static pl_status_t start_write(pl_storage_door_t *self,
                               const pl_storage_io_t *io, int64_t *ticket_p)
{
    return begin(self, WRITE, io, ticket_p);
}

static pl_status_t start_read(pl_storage_door_t *self,
                              const pl_storage_io_t *io, int64_t *ticket_p)
{
    return begin(self, READ, io, ticket_p);
}

static pl_status_t take_entry(void *context, const pl_storage_entry_t *entry)
{
    return PL_ARRAY_PUSH(&((job_t *)context)->index, *entry);
}

static pl_status_t start_publish(pl_storage_door_t *self,
                                 const pl_storage_t *storage,
                                 const pl_storage_run_t *run, int64_t *ticket_p)
{
    door_t *door = (door_t *)self;
    job_t *job;

    if (begin(self, PUBLISH, NULL, ticket_p) != PL_OK) {
        return PL_ERR_MEMORY;
    }
    job = &door->jobs.items[door->jobs.n - 1];
    for (int32_t i = 0; i < run->n_requests; i++) {
        job->n_finished += run->finished[i] != 0 ? 1 : 0;
    }
    return storage == NULL ? PL_OK : pl_storage_visit(storage, take_entry, job);
}

static void publish(memory_disk_t *disk, const job_t *job)
{
    disk->n_publications++;
    disk->n_finished = job->n_finished;
    disk->index.n    = 0;
    for (size_t i = 0; i < job->index.n; i++) {
        if (PL_ARRAY_PUSH(&disk->index, job->index.items[i]) != PL_OK) {
            abort();
        }
    }
}

static bool is_hidden(memory_disk_t *disk, pl_storage_place_t place)
{
    const page_t *page = find(disk, place);

    return (page != NULL) && page->is_hidden;
}

static pl_storage_end_t perform(const door_t *door, const job_t *job)
{
    memory_disk_t *disk  = door->disk;
    pl_storage_end_t end = {0};

    if ((job->kind != READ) && (disk->breaks == door->rank)) {
        return (pl_storage_end_t){.bad = 1};
    }
    if (job->kind == PUBLISH) {
        publish(disk, job);
    }
    for (int32_t i = 0; i < job->io.n_pages; i++) {
        if (job->kind == WRITE) {
            put(disk, &job->io, i);
        } else if (is_hidden(disk, job->io.places[i])) {
            end.unread |= UINT64_C(1) << i;
        } else if (!get(disk, &job->io, i)) {
            end.bad |= UINT64_C(1) << i;
        }
    }
    return end;
}

static void forget(door_t *door, size_t i)
{
    job_t *job = &door->jobs.items[i];

    if (job->kind == WRITE) {
        free(job->io.headers);
    }
    PL_ARRAY_FREE(&job->index);
    free((void *)(uintptr_t)job->io.places);
    free((void *)(uintptr_t)job->io.pieces);
    *job = door->jobs.items[--door->jobs.n];
}

static pl_status_t finish(pl_storage_door_t *self, int64_t ticket,
                          pl_storage_end_t *end_p)
{
    door_t *door = (door_t *)self;

    for (size_t i = 0; i < door->jobs.n; i++) {
        if (door->jobs.items[i].ticket == ticket) {
            pthread_mutex_lock(&door->disk->mutex);
            *end_p = perform(door, &door->jobs.items[i]);
            pthread_mutex_unlock(&door->disk->mutex);
            forget(door, i);
            return PL_OK;
        }
    }
    return PL_ERR_ARGUMENT;
}

static void close_door(pl_storage_door_t *self)
{
    door_t *door = (door_t *)self;

    while (door->jobs.n > 0) {
        forget(door, door->jobs.n - 1);
    }
    PL_ARRAY_FREE(&door->jobs);
    free(door);
}

static const pl_storage_door_ops_t OPS = {.can_write = can_write,
                                          .write     = start_write,
                                          .read      = start_read,
                                          .publish   = start_publish,
                                          .wait      = finish,
                                          .close     = close_door};

static pl_status_t open_door(void *context, int rank,
                             pl_storage_door_t **door_p)
{
    door_t *door = calloc(1, sizeof(*door));

    if (door == NULL) {
        return PL_ERR_MEMORY;
    }
    door->door.ops = &OPS;
    door->disk     = context;
    door->rank     = rank;
    *door_p        = &door->door;
    return PL_OK;
}

/* ---- the disk ---- */

memory_disk_t *memory_disk_make(void)
{
    memory_disk_t *disk = calloc(1, sizeof(*disk));

    if ((disk == NULL) || (pthread_mutex_init(&disk->mutex, NULL) != 0)) {
        abort();
    }
    disk->refuses = -1;
    disk->breaks  = -1;
    return disk;
}

void memory_disk_free(memory_disk_t *disk)
{
    for (size_t i = 0; i < disk->pages.n; i++) {
        free(disk->pages.items[i].bytes);
    }
    PL_ARRAY_FREE(&disk->pages);
    PL_ARRAY_FREE(&disk->index);
    pthread_mutex_destroy(&disk->mutex);
    free(disk);
}

pl_storage_opener_t memory_disk_opener(memory_disk_t *disk)
{
    return (pl_storage_opener_t){.open = open_door, .context = disk};
}

int memory_disk_pages(memory_disk_t *disk)
{
    return (int)disk->pages.n;
}

int memory_disk_publications(memory_disk_t *disk)
{
    return disk->n_publications;
}

pl_storage_start_t memory_disk_start(memory_disk_t *disk)
{
    pl_storage_start_t start = {.n_entries  = (int32_t)disk->index.n,
                                .entries    = disk->index.items,
                                .next_stamp = 1};

    for (size_t i = 0; i < disk->index.n; i++) {
        const pl_storage_entry_t *entry = &disk->index.items[i];

        if (entry->place.set >= start.own_set) {
            start.own_set = entry->place.set + 1;
        }
        if (entry->stamp >= start.next_stamp) {
            start.next_stamp = entry->stamp + 1;
        }
    }
    return start;
}

int memory_disk_finished(memory_disk_t *disk)
{
    return disk->n_finished;
}

void memory_disk_flip(memory_disk_t *disk, pl_storage_place_t place, size_t at)
{
    page_t *page;

    pthread_mutex_lock(&disk->mutex);
    page = find(disk, place);
    if (page == NULL) {
        abort();
    }
    page->bytes[at % page->n] ^= 0x10;
    pthread_mutex_unlock(&disk->mutex);
}

void memory_disk_lose(memory_disk_t *disk, pl_storage_place_t place)
{
    page_t *page;

    pthread_mutex_lock(&disk->mutex);
    page = find(disk, place);
    if (page == NULL) {
        abort();
    }
    free(page->bytes);
    *page = disk->pages.items[--disk->pages.n];
    pthread_mutex_unlock(&disk->mutex);
}

void memory_disk_hide(memory_disk_t *disk, pl_storage_place_t place,
                      bool hidden)
{
    page_t *page;

    pthread_mutex_lock(&disk->mutex);
    page = find(disk, place);
    if (page == NULL) {
        abort();
    }
    page->is_hidden = hidden;
    pthread_mutex_unlock(&disk->mutex);
}

void memory_disk_refuse(memory_disk_t *disk, int rank)
{
    disk->refuses = rank;
}

void memory_disk_break(memory_disk_t *disk, int rank)
{
    disk->breaks = rank;
}
