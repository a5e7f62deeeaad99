/* support/waits.h - how often the host waits for its device in a run.
 *
 * A run of a random model of any depth, over a trace with load-backs and
 * backups, on any device: all that is decided is the same, so what differs
 * between two runs is due to the device or to the number of layers.
 */
#ifndef PL_TESTS_WAITS_H
#define PL_TESTS_WAITS_H

#include "base/array.h"
#include "exec_support.h"

#define WAITS_RANKS 8

typedef struct waits_params {
    uint64_t seed; /* of the model */
    int n_prefill, n_decode;
    int32_t n_layers;
    pl_device_source_t device;
    pl_forward_source_t forward;
    pl_verify_t verify;
    const char *inject;                /* or NULL */
    int64_t (*synchronizations)(void); /* a counter; NULL: none */
} waits_params_t;

/* One tick of one rank. */
typedef struct waits_tick {
    int64_t waits;         /* of that rank for its device; the first tick's
                              include those of opening */
    int64_t chunks, steps; /* on all ranks */
} waits_tick_t;

typedef struct waits_run {
    exec_result_t *result;
    int n_ranks;
    PL_ARRAY(waits_tick_t) ticks[WAITS_RANKS];
    /* the counter after the first tick and after the last, on rank 0 */
    int64_t first, last;
} waits_run_t;

/* Collective over no one: the ranks are threads.  The caller frees it. */
waits_run_t *waits_take(const waits_params_t *params);
void waits_free(waits_run_t *run);

/* Of a rank, over the run. */
int64_t waits_sum(const waits_run_t *run, int rank);

/* Fails the test unless the run is good, and has load-backs and backups. */
void waits_must_be_good(const waits_run_t *run);

#endif /* PL_TESTS_WAITS_H */
