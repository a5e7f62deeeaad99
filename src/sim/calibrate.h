/* sim/calibrate.h - what `pagelane bench --json` measured, for a cost table.
 *
 * The file holds one JSON object or several, one after the other, as the bench
 * prints them: the output of `bench kernels snapshot --json` and of
 * `bench transfer --json` together, say.  Taken of them (others are passed
 * over; of two the later one):
 *
 *   indexer_tflops            index
 *   attend_fp8_tflops, attend_bf16_tflops    attend, by dtype of the cache
 *   grouped_tflops            experts' products
 *   grouped_tflops_yardstick  all other products: a dense one
 *   topk_us                   1,024 rows of 128K scores
 *   gather_gbs_yardstick      memory: a device copy, read and write
 *   load_gbs, backup_gbs      host <-> device
 *   peer_gbs; the last of "sizes"' busbw_gb_s    between devices of a node
 *   tier_read_mb_s, tier_write_mb_s              storage
 *
 * "rows" of `bench prefill` that are not replicated: the whole time, cold and
 * from the device tier (cold_ms, device_ms, device_hit_tokens); to the next
 * token (decode_ms), and until decode can begin (handover_ms); of the longest
 * on a GPU, where the time of the cold one went (cold_profile_ms).  At most 64
 * times are taken.
 *
 * "fit" of `sim --validate --fit`: what prefill and decode take beside what is
 * reckoned, and of which requests that was found (docs/sim.md).
 */
#ifndef PL_SIM_CALIBRATE_H
#define PL_SIM_CALIBRATE_H

#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "clock/cost.h"

/* A prompt in the runtime: tokens 0 means that none was measured. */
typedef struct pl_measured_prompt {
    int32_t tokens, hit_tokens; /* of these, those that were not computed */
    int32_t ranks, chunk_tokens, layers;
    int32_t page_tokens; /* 0: not told */
    int64_t total_ns;
    /* Then, until decode has all that is not on it: of one that was hit, all.
     * And from one token to the next.  0: not measured. */
    int64_t handover_ns, step_ns;
    int64_t part_ns[PL_COST_PARTS]; /* all 0: not told apart */
} pl_measured_prompt_t;

enum { PL_MEASURED_SAMPLES = 64 };

/* Found by holding simulations against measured requests.  Millionths 0: it was
 * not. */
typedef struct pl_fit {
    int64_t prefill_millionths, decode_millionths; /* all parts of a step */
    /* What is covered: lengths of prompts and of answers, and requests under
     * way at the same time at most.  0 requests: nothing is known of that. */
    int32_t n_requests;
    int32_t least_input, most_input, least_output, most_output;
    int32_t most_concurrent;
} pl_fit_t;

/* Factors that a fit may have, in millionths. */
#define PL_FIT_LEAST INT64_C(1000)
#define PL_FIT_MOST  INT64_C(1000000000)

/* FLOP or bytes per microsecond; 0: not measured. */
typedef struct pl_measured {
    int64_t product, expert, index, attend_fp8, attend_bf16;
    int64_t memory, near, load, backup, fetch, store;
    int64_t topk_ps;                      /* per row and 1,024 scores */
    pl_measured_prompt_t prompt, shorter; /* the longest cold one, and the
                                             shortest */
    pl_measured_prompt_t samples[PL_MEASURED_SAMPLES]; /* cold and not */
    int32_t n_samples;
    pl_fit_t fit;
} pl_measured_t;

/* PL_OK; PL_ERR_INPUT with one line: the file cannot be read, is no JSON, or
 * has nothing of these; PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_calibrate_read(const char *path,
                                            const pl_log_t *log,
                                            pl_measured_t *measured_p);

/* The same of a text; `name` is for messages. */
PL_MUST_CHECK pl_status_t pl_calibrate_parse(const char *name, const char *text,
                                             size_t n_bytes,
                                             const pl_log_t *log,
                                             pl_measured_t *measured_p);

#endif /* PL_SIM_CALIBRATE_H */
