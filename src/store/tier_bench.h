/* store/tier_bench.h - how fast a storage tier takes and gives pages, beside
 * plain writes and reads of the same bytes, in as many files, with as many
 * threads and as many syncs, in the same run. */
#ifndef PL_STORE_TIER_BENCH_H
#define PL_STORE_TIER_BENCH_H

#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

typedef struct pl_tier_bench_result {
    int n_ranks;
    int64_t n_pages, page_bytes;
    int64_t n_syncs; /* of one round, the plain ones' too */
    /* Medians, MB/s (10^6). */
    double write_mb_s, plain_write_mb_s;
    double read_mb_s, plain_read_mb_s; /* not from memory, if the kernel lets go
                                          of what it holds */
} pl_tier_bench_result_t;

/* In a folder of its own in the one that TMPDIR names (else the current one),
 * which is removed afterwards.  Not collective.  PL_OK, PL_ERR_IO,
 * PL_ERR_MEMORY, PL_ERR_RESOURCE. */
PL_MUST_CHECK pl_status_t pl_tier_bench(const pl_log_t *log,
                                        pl_tier_bench_result_t *result_p);

#endif /* PL_STORE_TIER_BENCH_H */
