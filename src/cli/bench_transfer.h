/* cli/bench_transfer.h - how fast pages of all ranks come into a view, in
 * nccl-tests' terms, beside a yardstick of the same bytes.
 *
 * Every rank has as many pages, scattered over its store, and gathers those of
 * all: an all-gather.  With n ranks and `bytes` of all of them, algbw is bytes
 * over time, busbw algbw * (n - 1) / n: what each rank sends and receives.
 */
#ifndef PL_CLI_BENCH_TRANSFER_H
#define PL_CLI_BENCH_TRANSFER_H

#include <stddef.h>
#include <stdint.h>

#include "comm/comm.h"
#include "device/device.h"

/* Of a token in one layer of GLM-5 and DeepSeek-V3.2: 512 fp8, 4 scales, 64
 * bf16. */
enum { PL_TRANSFER_ROW_BYTES = 656 };

typedef enum pl_transfer_yardstick {
    PL_TRANSFER_MEMORY,    /* own memory, one range for each rank */
    PL_TRANSFER_PEERS,     /* the device copies one range of each peer */
    PL_TRANSFER_ALL_GATHER /* NCCL's own */
} pl_transfer_yardstick_t;

typedef struct pl_transfer_params {
    int32_t page_tokens;
    uint64_t seed;   /* of the slots, and of what the pages hold */
    size_t min, max; /* bytes of a rank: min, 4 min, ... <= max */
    pl_transfer_yardstick_t yardstick;
} pl_transfer_params_t;

typedef struct pl_transfer_figure {
    int64_t bytes;       /* of all ranks */
    int64_t pages;       /* likewise */
    double us;           /* of one gather: medians of the slowest rank's */
    double yardstick_us; /* of the yardstick */
    uint64_t n_wrong;    /* bytes on all ranks that are not the owner's */
} pl_transfer_figure_t;

enum { PL_TRANSFER_SIZES = 24 };

typedef struct pl_transfer_result {
    int n;
    pl_transfer_figure_t figures[PL_TRANSFER_SIZES];
} pl_transfer_result_t;

/* Collective; all ranks are prefill ranks.  The figures are the same on all.
 * PL_ERR_ARGUMENT (one line): no whole page in max, or too many; else what
 * device and comm say. */
PL_MUST_CHECK pl_status_t
pl_transfer_measure(const pl_transfer_params_t *params, pl_comm_t *comm,
                    pl_device_t *device, pl_transfer_result_t *result);

/* GB/s */
double pl_transfer_algbw(const pl_transfer_figure_t *figure, double us);
double pl_transfer_busbw(const pl_transfer_figure_t *figure, double us,
                         int n_ranks);

/* What a page holds, and the bytes at `at` that are not that.  bytes: a
 * multiple of 8. */
void pl_transfer_stamp(uint64_t key, pl_page_t page, uint8_t *at, size_t bytes);
uint64_t pl_transfer_wrong(uint64_t key, pl_page_t page, const uint8_t *at,
                           size_t bytes);

#endif /* PL_CLI_BENCH_TRANSFER_H */
