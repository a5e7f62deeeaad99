#include "store/pack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { MOST_THREADS = 8 };

int pl_pack_threads(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : (n > MOST_THREADS ? MOST_THREADS : (int)n);
}

/* ---- one chunk ---- */

static size_t chunk_bytes(const pl_dataset_t *dataset)
{
    return (size_t)pl_dataset_chunk_rows(dataset) *
           pl_dataset_row_bytes(dataset);
}

/* Byte k of all items, for each k: `out` has n_items * bytes. */
static void shuffle(const uint8_t *in, size_t n_items, size_t bytes,
                    uint8_t *out)
{
    for (size_t k = 0; k < bytes; k++) {
        for (size_t i = 0; i < n_items; i++) {
            out[k * n_items + i] = in[i * bytes + k];
        }
    }
}

/* The rows of the chunk, zeros behind the last one, shuffled. */
static void gather(const pl_dataset_t *dataset, uint64_t first_row,
                   uint8_t *rows, uint8_t *shuffled)
{
    size_t row   = pl_dataset_row_bytes(dataset);
    size_t item  = pl_item_bytes(dataset->item, 0);
    size_t whole = chunk_bytes(dataset);
    size_t there = (size_t)(dataset->dims[0] - first_row) * row;
    const uint8_t *data =
        (const uint8_t *)dataset->data + (size_t)first_row * row;

    if (there < whole) {
        memcpy(rows, data, there);
        memset(rows + there, 0, whole - there);
        data = rows;
    }
    shuffle(data, whole / item, item, shuffled);
}

/* n bytes of `in` into fewer; 0: it does not get smaller. */
static size_t deflate_into(const uint8_t *in, size_t n, uint8_t *out)
{
    enum { WINDOW_BITS = 15, MEMORY = 9 };
    z_stream stream = {0};
    size_t made     = 0;

    if (deflateInit2(&stream, PL_PACK_LEVEL, Z_DEFLATED, WINDOW_BITS, MEMORY,
                     Z_RLE) != Z_OK) {
        return 0;
    }
    stream.next_in   = (Bytef *)(uintptr_t)in;
    stream.avail_in  = (uInt)n;
    stream.next_out  = out;
    stream.avail_out = (uInt)n - 1;
    if (deflate(&stream, Z_FINISH) == Z_STREAM_END) {
        made = stream.total_out;
    }
    (void)deflateEnd(&stream);
    return made;
}

/* scratch: three times the bytes of a chunk. */
static pl_status_t pack_chunk(const pl_content_t *content,
                              pl_packed_chunk_t *chunk, uint8_t *scratch)
{
    const pl_dataset_t *dataset = &content->datasets.items[chunk->dataset];
    size_t n                    = chunk_bytes(dataset);
    uint8_t *shuffled           = scratch + n;
    uint8_t *deflated           = scratch + 2 * n;
    size_t made;

    gather(dataset, chunk->first_row, scratch, shuffled);
    made               = deflate_into(shuffled, n, deflated);
    chunk->is_deflated = made > 0;
    chunk->n           = made > 0 ? made : n;
    chunk->bytes       = malloc(chunk->n);
    if (chunk->bytes == NULL) {
        return PL_ERR_MEMORY;
    }
    memcpy(chunk->bytes, made > 0 ? deflated : shuffled, chunk->n);
    return PL_OK;
}

/* ---- several, by several threads ---- */

typedef struct work {
    pl_pack_t *pack;
    size_t end; /* chunks before it are wanted */
    size_t scratch_bytes;
    atomic_size_t next;
    atomic_bool failed;
} work_t;

static void *pack_some(void *context)
{
    work_t *work     = context;
    uint8_t *scratch = malloc(work->scratch_bytes);
    size_t i;

    if (scratch == NULL) {
        atomic_store(&work->failed, true);
        return NULL;
    }
    while (!atomic_load(&work->failed) &&
           ((i = atomic_fetch_add(&work->next, 1)) < work->end)) {
        if (pack_chunk(work->pack->content, &work->pack->chunks.items[i],
                       scratch) != PL_OK) {
            atomic_store(&work->failed, true);
        }
    }
    free(scratch);
    return NULL;
}

/* What a thread that cannot be had would have done is done by the others. */
static void pack_together(work_t *work, int n_threads)
{
    pthread_t threads[MOST_THREADS];
    int n = 0;

    while ((n < n_threads - 1) && (n < MOST_THREADS - 1) &&
           ((size_t)n + 1 < work->end - work->pack->n_done) &&
           (pthread_create(&threads[n], NULL, pack_some, work) == 0)) {
        n++;
    }
    (void)pack_some(work);
    while (n > 0) {
        (void)pthread_join(threads[--n], NULL);
    }
}

pl_status_t pl_pack_step(pl_pack_t *pack, size_t most_bytes, int n_threads)
{
    work_t work  = {.pack = pack, .end = pack->n_done};
    size_t total = 0;

    while (work.end < pack->chunks.n) {
        size_t dataset = pack->chunks.items[work.end].dataset;
        size_t n       = chunk_bytes(&pack->content->datasets.items[dataset]);

        if ((total > 0) && (total + n > most_bytes)) {
            break;
        }
        total += n;
        work.scratch_bytes =
            3 * n > work.scratch_bytes ? 3 * n : work.scratch_bytes;
        work.end++;
    }
    if (total == 0) {
        return PL_OK;
    }
    atomic_init(&work.next, pack->n_done);
    atomic_init(&work.failed, false);
    pack_together(&work, n_threads);
    if (atomic_load(&work.failed)) {
        return PL_ERR_MEMORY;
    }
    pack->n_done = work.end;
    return PL_OK;
}

bool pl_pack_done(const pl_pack_t *pack)
{
    return pack->n_done == pack->chunks.n;
}

pl_status_t pl_pack_open(const pl_content_t *content, pl_pack_t *pack)
{
    *pack = (pl_pack_t){.content = content};
    for (size_t d = 0; d < content->datasets.n; d++) {
        const pl_dataset_t *dataset = &content->datasets.items[d];
        uint64_t rows               = pl_dataset_chunk_rows(dataset);

        for (uint64_t row = 0; (rows > 0) && (row < dataset->dims[0]);
             row += rows) {
            pl_packed_chunk_t chunk = {.dataset = d, .first_row = row};

            if (PL_ARRAY_PUSH(&pack->chunks, chunk) != PL_OK) {
                pl_pack_close(pack);
                return PL_ERR_MEMORY;
            }
        }
    }
    return PL_OK;
}

void pl_pack_close(pl_pack_t *pack)
{
    for (size_t i = 0; i < pack->chunks.n; i++) {
        free(pack->chunks.items[i].bytes);
    }
    PL_ARRAY_FREE(&pack->chunks);
    *pack = (pl_pack_t){0};
}
