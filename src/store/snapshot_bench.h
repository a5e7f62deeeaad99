/* store/snapshot_bench.h - how long a large snapshot takes, beside a plain
 * write of the same bytes in the same run.  Not collective. */
#ifndef PL_STORE_SNAPSHOT_BENCH_H
#define PL_STORE_SNAPSHOT_BENCH_H

#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

typedef struct pl_snapshot_bench_result {
    int64_t n_nodes, n_pages; /* pages: of device and host copies */
    int n_lanes;
    int64_t column_bytes, file_bytes;
    /* Medians, ms. */
    double snapshot_ms; /* from the tree to the published file, synced */
    double copy_ms;     /* of that: the state, which one tick waits for */
    double memcpy_ms;   /* of as many bytes as the columns have */
    double plain_ms;    /* as many bytes as the file has: write, sync, rename,
                           sync the folder */
} pl_snapshot_bench_result_t;

/* In the current folder, in files that are removed afterwards.  PL_OK,
 * PL_ERR_IO, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_snapshot_bench(
    const pl_log_t *log, uint64_t seed, pl_snapshot_bench_result_t *result_p);

#endif /* PL_STORE_SNAPSHOT_BENCH_H */
