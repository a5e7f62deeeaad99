/* device/shared.h - host memory that other processes of this machine can map;
 * inside device, and for the words of comm/peer.c.
 *
 * An anonymous file (memfd): it has no name, so nothing is left behind however
 * the program ends, and a peer maps it by /proc/<process>/fd.  Its pages count
 * when they are first touched, as those of malloc do.
 */
#ifndef PL_DEVICE_SHARED_H
#define PL_DEVICE_SHARED_H

#include "base/array.h"
#include "device/device.h"

typedef struct pl_shared {
    uint8_t *base; /* NULL: none */
    size_t bytes;  /* of the mapping */
    int fd;        /* -1: mapped from another process */
} pl_shared_t;

/* Zeroed memory of at least so many bytes.  PL_ERR_MEMORY (not printed: errno
 * says why). */
PL_MUST_CHECK pl_status_t pl_shared_make(size_t bytes, pl_shared_t *shared_p);

/* How to find `mem`, which lies inside.  PL_ERR_DEVICE with one line. */
PL_MUST_CHECK pl_status_t pl_shared_tell(const pl_shared_t *shared,
                                         const void *mem, const pl_log_t *log,
                                         pl_share_t *share_p);

/* Does the share belong to this very process?  Then its address is here. */
bool pl_shared_is_here(const pl_share_t *share);

/* Map another process's memory, to read only; *mem_p is what was told.
 * PL_ERR_DEVICE with one line that says what to do. */
PL_MUST_CHECK pl_status_t pl_shared_map(const pl_share_t *share,
                                        const pl_log_t *log,
                                        pl_shared_t *shared_p, void **mem_p);

void pl_shared_free(pl_shared_t *shared); /* one of none is allowed */

/* What a device has opened of its peers. */
typedef struct pl_opened {
    void *mem;
    pl_shared_t shared; /* none: memory of this process */
} pl_opened_t;

typedef PL_ARRAY(pl_opened_t) pl_opened_list_t;

PL_MUST_CHECK pl_status_t pl_opened_add(pl_opened_list_t *opened,
                                        const pl_share_t *share,
                                        const pl_log_t *log, void **mem_p);
void pl_opened_remove(pl_opened_list_t *opened, const void *mem);
void pl_opened_free(pl_opened_list_t *opened, const char *device,
                    const pl_log_t *log); /* warns of what is left */

#endif /* PL_DEVICE_SHARED_H */
