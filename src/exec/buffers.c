#include "exec/buffers.h"

#include <assert.h>

/* The smallest unused one with room for n; NULL if there is none. */
static pl_buffer_t *find(pl_buffers_t *buffers, size_t n)
{
    pl_buffer_t *best = NULL;

    for (size_t i = 0; i < buffers->n; i++) {
        pl_buffer_t *buffer = &buffers->items[i];

        if (!buffer->used && (buffer->room >= n) &&
            ((best == NULL) || (buffer->room < best->room))) {
            best = buffer;
        }
    }
    return best;
}

/* A larger one takes the place of one that is too small, so that there are no
 * more than were ever used at once. */
static pl_status_t make(pl_buffers_t *buffers, pl_device_t *device, size_t n,
                        pl_buffer_t **buffer_p)
{
    pl_buffer_t *buffer = find(buffers, 0);
    void *mem           = NULL;

    if (buffer == NULL) {
        PL_TRY(PL_ARRAY_PUSH(buffers, (pl_buffer_t){0}));
        buffer = &buffers->items[buffers->n - 1];
    }
    PL_TRY(pl_device_wait(device, PL_STREAM_SEND, buffer->fence));
    pl_device_free(device, buffer->bytes);
    *buffer = (pl_buffer_t){0};
    PL_TRY(pl_device_alloc(device, PL_MEMORY_HOST, n, "a message", &mem));
    buffer->bytes = mem;
    buffer->room  = n;
    *buffer_p     = buffer;
    return PL_OK;
}

pl_status_t pl_buffer_take(pl_buffers_t *buffers, pl_device_t *device, size_t n,
                           uint8_t **bytes_p)
{
    pl_buffer_t *buffer = find(buffers, n);

    if (buffer == NULL) {
        PL_TRY(make(buffers, device, n, &buffer));
    }
    PL_TRY(pl_device_wait(device, PL_STREAM_SEND, buffer->fence));
    buffer->used = true;
    *bytes_p     = buffer->bytes;
    return PL_OK;
}

void pl_buffer_give(pl_buffers_t *buffers, pl_device_t *device,
                    const uint8_t *bytes)
{
    for (size_t i = 0; (bytes != NULL) && (i < buffers->n); i++) {
        pl_buffer_t *buffer = &buffers->items[i];

        if (buffer->bytes != bytes) {
            continue;
        }
        assert(buffer->used);
        /* One whose end is not known is not used again. */
        buffer->used =
            pl_device_record(device, PL_STREAM_SEND, &buffer->fence) != PL_OK;
    }
}

void pl_buffers_free(pl_buffers_t *buffers, pl_device_t *device)
{
    for (size_t i = 0; i < buffers->n; i++) {
        pl_device_free(device, buffers->items[i].bytes);
    }
    PL_ARRAY_FREE(buffers);
}
