/* A table of NCCL among threads: pages go by memcpy, and it can be told to
 * fail.
 *
 *   fake_nccl_open(&fake);    one at a time; all is well
 *   fake.no_gather = 2;       rank 2 will fail
 *   FAKE_NCCL                 the table
 *   fake_nccl_close();
 */
#ifndef FAKE_NCCL_H
#define FAKE_NCCL_H

#include <pthread.h>
#include <stdbool.h>

#include "device/cuda_module.h"

enum { FAKE_RANKS = 8, FAKE_NOBODY = -1 };

typedef struct fake_nccl {
    /* what goes wrong, and for which rank (FAKE_NOBODY) */
    bool no_library;                        /* make_id fails */
    int same_gpu[2];                        /* these two are on one GPU */
    bool gpus_unknown;                      /* nobody can tell */
    int no_open;                            /* this rank's open fails */
    int no_gather;                          /* this rank's gather fails */
    bool is_ill;                            /* look finds an error */
    const pl_device_t *devices[FAKE_RANKS]; /* [rank] */

    /* what was done */
    int n_opened, n_aborted, n_closed, n_gathers;

    pthread_mutex_t mutex;
    pthread_cond_t wake;
    int n_here;
    uint64_t n_meetings;
    const uint8_t *sends[FAKE_RANKS];
} fake_nccl_t;

extern const pl_nccl_ops_t FAKE_NCCL;

void fake_nccl_open(fake_nccl_t *fake);
void fake_nccl_close(void);

#endif /* FAKE_NCCL_H */
