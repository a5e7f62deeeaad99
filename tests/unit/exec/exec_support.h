/* A small synthetic trace, and runs of it whose results can be compared.
 *
 * Prompts begin with a piece of one of a few shared documents and go on with
 * tokens of their own, so that there are device hits, host hits and evictions;
 * everything follows from one seed.
 */
#ifndef PL_TESTS_EXEC_SUPPORT_H
#define PL_TESTS_EXEC_SUPPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/run.h"
#include "support/log_capture.h"

#define TEST_VOCAB 5003

typedef struct exec_request {
    pl_request_t request;
    int32_t document; /* shared by prompts */
    int32_t shared;   /* tokens of it at the prompt's start */
} exec_request_t;

typedef struct exec_trace {
    uint64_t seed;
    int32_t vocab; /* TEST_VOCAB, unless a test says otherwise */
    int32_t n;
    exec_request_t *requests;
    int32_t **texts; /* [n] prompts; NULL: drawn from the seed */
} exec_trace_t;

typedef struct exec_trace_params {
    uint64_t seed;
    int32_t n;
    int32_t documents;
    int32_t max_shared; /* tokens of a document in a prompt */
    int32_t max_own;    /* further tokens, at least 1 */
    int32_t max_output;
    int64_t gap_ns; /* between arrivals */
} exec_trace_params_t;

exec_trace_t *exec_trace_make(const exec_trace_params_t *params);
void exec_trace_free(exec_trace_t *trace);
pl_engine_source_t exec_trace_source(exec_trace_t *trace);
pl_token_reader_t exec_trace_tokens(exec_trace_t *trace);

/* What a run gave; the same on every rank or the run fails. */
typedef struct exec_result {
    pl_status_t status;
    int32_t n;
    uint64_t *digests;
    int64_t *offsets;
    int32_t *tokens;
    pl_exec_counters_t counters;
    pl_engine_counters_t engine;
    pl_hicache_counters_t cache;
    pl_storage_counters_t storage;
    int64_t storage_hits; /* tokens */
    int32_t n_failed;
    int64_t preemptions, reentries;
    int32_t n_lines;  /* reported */
    char line[512];   /* of the violation */
    char second[512]; /* the command */
    log_capture_t said;
} exec_result_t;

/* The base of all runs of `trace`: C = 4, D = 0, page 16, chunk 64. */
pl_run_params_t exec_params(exec_trace_t *trace);

/* "cpu", "guard"; "cpu by peer"; "far" (tests/support/far_device.h), by peer as
 * well. */
void exec_device(pl_run_params_t *params, const char *name);

/* Per-lane pools that together hold so many tokens, whatever C and P are. */
void exec_pools(pl_run_params_t *params, int32_t device_tokens,
                int32_t host_tokens, int32_t decode_tokens);

/* The result is the caller's to free. */
exec_result_t *exec_run(const pl_run_params_t *params);
/* With --inject texts (NULL at the end), and a timeout of the ranks. */
exec_result_t *exec_run_with(const pl_run_params_t *params,
                             const char *const *injections, double timeout_s);
/* Collective: the same on a communicator; the result is of this rank. */
exec_result_t *exec_run_on(const pl_run_params_t *params, pl_comm_t *comm);
void exec_result_free(exec_result_t *result);

/* Equal digests and tokens of every request; fails the test otherwise. */
void exec_same(const exec_result_t *a, const exec_result_t *b,
               const char *what);

#endif /* PL_TESTS_EXEC_SUPPORT_H */
