/* sim/bench.h - what a benchmark client measured, request by request.
 *
 * Recognised by content:
 *   sglang  one object of `sglang.bench_serving --output-file F
 *           --output-details`
 *   vllm    one object of `vllm bench serve --save-result --save-detailed`
 *   aiperf  AIPerf's profile_export.jsonl: an object a request; or an array of
 *           them
 * docs/sim.md has the members that are read.
 */
#ifndef PL_SIM_BENCH_H
#define PL_SIM_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "base/array.h"

/* Requests are simulated from their start on.  Times in ns; 0: not measured. */
typedef struct pl_bench_request {
    int64_t number;       /* in the file, from 1; of aiperf its record's */
    int64_t start_ns;     /* the first has 0 */
    int32_t input_tokens; /* 0: of one that failed, and not known */
    int32_t output_tokens;
    int64_t ttft_ns; /* 0 too if several tokens came in one piece */
    int64_t e2e_ns;
    bool failed; /* its times and output say nothing; it began all the same */
} pl_bench_request_t;

typedef struct pl_bench {
    const char *format; /* "sglang", "vllm", "aiperf" */
    bool is_timed;      /* the file says when requests began; else it is
                           reckoned from the rate, the most at a time and how
                           long each took */
    bool is_replayed;   /* they began as a trace says, and the file does not:
                           all start at 0 here */
    PL_ARRAY(pl_bench_request_t) requests; /* as they began; ties by number */
    PL_ARRAY(int64_t) gaps; /* ns between tokens, over all requests */
} pl_bench_t;

/* Lengths of those that did not fail are >= 1.  At least one did not.  PL_OK;
 * PL_ERR_INPUT with one line; PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_bench_read(const char *path, const pl_log_t *log,
                                        pl_bench_t *bench_p);
/* The same of a text; `name` is for messages. */
PL_MUST_CHECK pl_status_t pl_bench_parse(const char *name, const char *text,
                                         size_t n_bytes, const pl_log_t *log,
                                         pl_bench_t *bench_p);
void pl_bench_free(pl_bench_t *bench);

/* As they began; ties by number. */
void pl_bench_sort(pl_bench_t *bench);

/* Time per output token after the first; 0: not measured. */
int64_t pl_bench_tpot_ns(const pl_bench_request_t *request);

#endif /* PL_SIM_BENCH_H */
