/* exec/data.h - the executor that really moves bytes, around any compute.
 *
 * Owns the tiers of one rank, copies and sends under way, and what the rank
 * knows of each request.  The compute (exec/compute.h) makes rows and tokens.
 */
#ifndef PL_EXEC_DATA_H
#define PL_EXEC_DATA_H

#include "exec/context.h"
#include "exec/executor.h"

typedef struct pl_data_params {
    int n_decode;    /* D; 0: prefill ranks decode */
    bool replicated; /* one lane: every prefill rank stores all pages */
    pl_store_layout_t layout; /* n_slots is not used */
    pl_tier_pages_t pages;    /* of this rank */
    pl_verify_t verify;
    pl_engine_source_t source; /* borrowed */
    pl_token_reader_t prompts; /* borrowed; prompt tokens only */
    pl_inject_t *inject;       /* borrowed; may be NULL */
    pl_storage_door_t *door;   /* borrowed: closed before the executor is; NULL:
                                  no storage on this rank */
    const int32_t *ends;       /* [n_ends] end-of-sequence tokens, borrowed */
    int32_t n_ends;
    const pl_log_t *log;
} pl_data_params_t;

/* Not collective.  Borrows comm and device.  PL_OK, PL_ERR_MEMORY,
 * PL_ERR_DEVICE. */
PL_MUST_CHECK pl_status_t pl_data_open(const pl_data_params_t *params,
                                       pl_comm_t *comm, pl_device_t *device,
                                       pl_executor_t **executor_p);

/* Tokens of a request as this rank knows them: for the compute. */
pl_token_reader_t pl_data_tokens(pl_executor_t *executor);
/* Before the first plan; the executor closes it. */
void pl_data_set_compute(pl_executor_t *executor, pl_compute_t *compute);

/* Prefill-collective: make the device tier known to the peers. */
PL_MUST_CHECK pl_status_t pl_data_expose(pl_executor_t *executor);

/* The tiers, for tests: index is a pl_freed_tier_t. */
pl_store_t *pl_data_store(pl_executor_t *executor, int tier);

#endif /* PL_EXEC_DATA_H */
