/* cli/run_prior.h - --resume: what an earlier run of the same requests has
 * finished. */
#ifndef PL_CLI_RUN_PRIOR_H
#define PL_CLI_RUN_PRIOR_H

#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "comm/comm.h"
#include "exec/run.h"
#include "store/reader.h"

/* Zeroed: nothing. */
typedef struct pl_run_prior {
    uint8_t *finished; /* [n_requests] */
    int32_t n_requests;
    /* Of those that are finished, if `has_results`: who says so knows. */
    bool has_results;
    uint64_t *digests; /* [2 * n_requests]: digests, then has_digest */
    int64_t *offsets;  /* [n_requests + 1] */
    int32_t *tokens;
    pl_run_results_t view; /* of them */
} pl_run_prior_t;

/* Whose requests are these?  A hash of all that a prompt and the length of its
 * answer depend on; arrival is no part of it. */
uint64_t pl_run_requests_hash(const pl_engine_source_t *source,
                              const pl_token_reader_t *prompts);
#define PL_RUN_HASH_TEXT 17 /* bytes, with the final NUL */
void pl_run_hash_text(uint64_t hash, char text[PL_RUN_HASH_TEXT]);

/* What the results of a run are results of. */
typedef struct pl_run_work {
    const char *requests;    /* their hash, as text */
    const char *computation; /* what else digests and tokens depend on, in parts
                                separated by "; ": who computes, the model, row
                                sizes, how ids become tokens, where answers end
                                */
    int32_t n_requests;
} pl_run_work_t;

/* Not collective.  Of a snapshot that says it is of the same work: finished are
 * those that finished well (what failed is tried again).  PL_ERR_INPUT with one
 * line if it is of another; PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_run_prior_read(const pl_snapshot_t *snapshot,
                                            const pl_run_work_t *work,
                                            pl_run_prior_t *prior);
/* The same of what an index says of its last run. */
PL_MUST_CHECK pl_status_t pl_run_prior_take(const uint8_t *finished,
                                            int32_t n_requests,
                                            pl_run_prior_t *prior);

/* Collective: all ranks get what rank 0 has.  PL_OK, PL_ERR_MEMORY, and what
 * comm has to say. */
PL_MUST_CHECK pl_status_t pl_run_prior_tell(pl_run_prior_t *prior,
                                            pl_comm_t *comm);
void pl_run_prior_free(pl_run_prior_t *prior);

#endif /* PL_CLI_RUN_PRIOR_H */
