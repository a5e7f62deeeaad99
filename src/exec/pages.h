/* exec/pages.h - the bytes of pages, in whatever memory they lie.
 *
 * The host may not be able to address the memory of a device.  So digests, and
 * all that is written into pages, go through the device, on PL_STREAM_COMPUTE:
 * behind all that the forward pass has queued.  On a device that the host can
 * address these are loops over memory.
 *
 * Headers and tags are host memory on every device
 * (docs/decisions/0012-headers-in-host-memory.md).
 */
#ifndef PL_EXEC_PAGES_H
#define PL_EXEC_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "base/array.h"
#include "device/device.h"
#include "pool/store.h"

/* The arrays of a layout that a page has a part in: all stores of a layer, then
 * the next layer.
 *
 *     for (pl_piece_t at = PL_PIECE_FIRST; pl_piece_next(layout, &at);) ...
 */
typedef struct pl_piece {
    int32_t layer;
    int which;
} pl_piece_t;

#define PL_PIECE_FIRST                                                         \
    {                                                                          \
        .layer = 0, .which = -1                                                \
    }

static inline bool pl_piece_next(const pl_store_layout_t *layout,
                                 pl_piece_t *piece)
{
    do {
        piece->which++;
        if (piece->which == PL_STORES) {
            piece->which = 0;
            piece->layer++;
        }
    } while ((piece->layer < layout->n_layers) &&
             !pl_store_has(layout, piece->which, piece->layer));
    return piece->layer < layout->n_layers;
}

static inline uint8_t *pl_piece_page(const pl_store_t *store,
                                     const pl_piece_t *piece, int32_t slot)
{
    return pl_store_page(store, piece->which, piece->layer, slot);
}

static inline pl_page_header_t *
pl_piece_header(const pl_store_t *store, const pl_piece_t *piece, int32_t slot)
{
    return pl_store_header(store, piece->which, piece->layer, slot);
}

/* Digests of many pages at once: add what is to be hashed, take, then get the
 * digests in the order of adding.  {0} is empty. */
typedef struct pl_digests {
    PL_ARRAY(pl_digest_job_t) jobs;
    PL_ARRAY(uint64_t) sums;
    size_t next;
} pl_digests_t;

void pl_digests_clear(pl_digests_t *digests);
/* Rows first .. first + rows - 1 of a page whose row 0 is at `position`, in
 * memory that the device reaches.  PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_digests_add(pl_digests_t *digests,
                                         const pl_page_form_t *form,
                                         const uint8_t *page, int32_t first,
                                         int32_t rows, int32_t position,
                                         const pl_piece_t *piece);
/* Rows 0 .. rows - 1 of all pieces of the page in a slot. */
PL_MUST_CHECK pl_status_t pl_digests_add_page(pl_digests_t *digests,
                                              const pl_store_t *store,
                                              int32_t slot, int32_t rows,
                                              int32_t position);
/* The host waits for them. */
PL_MUST_CHECK pl_status_t pl_digests_take(pl_digests_t *digests,
                                          pl_device_t *device);
uint64_t pl_digests_next(pl_digests_t *digests);
/* Of all that are left. */
uint64_t pl_digests_sum(pl_digests_t *digests);
void pl_digests_free(pl_digests_t *digests);

/* Pages of device memory that are to become poison.  {0} is empty. */
typedef struct pl_poison {
    PL_ARRAY(pl_span_t) spans;
} pl_poison_t;

/* All pieces of the page in a slot. */
PL_MUST_CHECK pl_status_t pl_poison_add_page(pl_poison_t *poison,
                                             const pl_store_t *store,
                                             int32_t slot);
/* Queue it, and forget them. */
PL_MUST_CHECK pl_status_t pl_poison_fill(pl_poison_t *poison,
                                         pl_device_t *device);

/* Queue copies.  Where the host reaches the device's memory, what it does there
 * itself belongs to PL_STREAM_COMPUTE: they are done on return. */
PL_MUST_CHECK pl_status_t pl_pages_copy(pl_device_t *device,
                                        const pl_copy_t *copies, int32_t n);

/* Flip one bit of a byte of any memory; the host waits. */
PL_MUST_CHECK pl_status_t pl_pages_flip(pl_device_t *device, uint8_t *byte);

/* The host waits for all that is queued.  What it says matters to nobody who is
 * about to free memory in any case. */
pl_status_t pl_pages_drain(pl_device_t *device);

#endif /* PL_EXEC_PAGES_H */
