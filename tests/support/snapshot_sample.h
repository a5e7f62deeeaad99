/* support/snapshot_sample.h - a small run to be written down: an engine whose
 * plans are carried out by saying so, with its event log and made-up results.
 *
 *   snapshot_sample_t sample;
 *   status = snapshot_sample_run(&params, &sample);
 *   pl_snapshot_write(&sample.input, ...)
 *   snapshot_sample_close(&sample);
 *
 * Everything follows from params; nothing here asserts. */
#ifndef PL_TESTS_SNAPSHOT_SAMPLE_H
#define PL_TESTS_SNAPSHOT_SAMPLE_H

#include <stdint.h>

#include "engine/event_log.h"
#include "store/snapshot.h"

typedef struct snapshot_sample_params {
    uint64_t seed;
    int n_prefill, n_decode;
    int32_t n_requests;
    int32_t device_pages, host_pages, decode_pages, decode_host_pages;
    int32_t storage_pages; /* prompts wait for what is fetched */
    pl_write_policy_t write_policy;
    int fail_percent;  /* of operations that can fail */
    int64_t max_ticks; /* stop there, in the middle of things; 0: at the end */
    int64_t most_events; /* of the log */
} snapshot_sample_params_t;

/* Pools small enough for evictions, loads, deficits and preemptions. */
snapshot_sample_params_t snapshot_sample_params(uint64_t seed);

typedef struct snapshot_sample {
    snapshot_sample_params_t params;
    pl_request_t *requests;
    pl_engine_t *engine;
    pl_event_log_t *log;
    uint64_t *digests;
    int32_t *tokens;
    int64_t *tokens_offset;
    int32_t *shared;           /* with, then pages */
    pl_snapshot_input_t input; /* points into the rest */
} snapshot_sample_t;

pl_status_t snapshot_sample_run(const snapshot_sample_params_t *params,
                                const pl_log_t *log, snapshot_sample_t *sample);
void snapshot_sample_close(snapshot_sample_t *sample);

#endif /* PL_TESTS_SNAPSHOT_SAMPLE_H */
