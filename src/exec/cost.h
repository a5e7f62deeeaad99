/* exec/cost.h - the executor without bytes: it counts what would be moved.
 *
 * Time is the control plane's anyway (clock/cost.h), so that decisions are
 * those of any other executor.  Faults of the data plane that end in a failed
 * operation are injected here too; there are no bytes that could flip.
 */
#ifndef PL_EXEC_COST_H
#define PL_EXEC_COST_H

#include "exec/executor.h"
#include "pool/store.h"
#include "verify/inject.h"

typedef struct pl_cost_params {
    int rank; /* -1: one executor stands for all ranks */
    int n_ranks, n_prefill;
    bool replicated; /* every prefill rank moves all pages of a copy */
    bool by_layers;  /* every prefill rank moves its layers of all pages, which
                        count once; rank is -1 */
    int32_t page_tokens;
    int64_t page_bytes;  /* all layers and stores */
    int64_t row_bytes;   /* all layers and stores */
    pl_inject_t *inject; /* borrowed; may be NULL */
} pl_cost_params_t;

/* PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_cost_open(const pl_cost_params_t *params,
                                       pl_executor_t **executor_p);

#endif /* PL_EXEC_COST_H */
