/* exec/transfer.h - prefill -> decode: whose pages have come, and the end of
 * it.
 *
 * Two small machines that know no bytes, apart so that they can be tested:
 *
 *   pl_transfer_t   one sending of pages: which prefill ranks have reported. It
 *                   ends when all have, ranks without pages included; a failure
 *                   is sticky, whatever is reported later.
 *   pl_handovers_t  the slots that first tokens are received in.  A slot is
 *                   tagged with its request while it is out and zeroed when it
 *                   comes back; 0 is "not arrived".
 */
#ifndef PL_EXEC_TRANSFER_H
#define PL_EXEC_TRANSFER_H

#include <stdbool.h>
#include <stdint.h>

#include <pagelane/layout.h>
#include <pagelane/status.h>

#include "base/array.h"

typedef enum pl_transfer_state {
    PL_TRANSFER_WAITING,
    PL_TRANSFER_GOOD,
    PL_TRANSFER_FAILED /* may still wait for reports: see pl_transfer_ended */
} pl_transfer_state_t;

typedef struct pl_transfer {
    int n_ranks; /* prefill ranks that must report */
    int n_reported;
    bool failed;
    bool reported[PL_MAX_RANKS];
} pl_transfer_t;

void pl_transfer_open(pl_transfer_t *transfer, int n_ranks);
/* Rank `rank` is done with it, well or not.  A second report of a rank is not
 * counted; `good` never clears a failure. */
void pl_transfer_report(pl_transfer_t *transfer, int rank, bool good);
pl_transfer_state_t pl_transfer_state(const pl_transfer_t *transfer);
/* Every writer has acknowledged: the pages of a failed one may be reused. */
bool pl_transfer_ended(const pl_transfer_t *transfer);

/* The message that one rank sends with a prompt's last pages. */
typedef struct pl_handover {
    uint64_t tag;     /* request + 1; 0: not arrived */
    uint64_t attempt; /* of the request, from 1 */
    uint64_t token;   /* its first */
    uint64_t digest;  /* of all rows that the token was made from */
} pl_handover_t;

typedef struct pl_handover_slot {
    uint64_t tag; /* 0: free */
    pl_handover_t message;
} pl_handover_slot_t;

typedef PL_ARRAY(pl_handover_slot_t *) pl_handovers_t;

/* A zeroed slot for `request`; its address stays until the slots are freed.
 * PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_handover_take(pl_handovers_t *slots,
                                           int32_t request,
                                           pl_handover_slot_t **slot_p);
/* Has the message of this slot's request and attempt arrived? */
bool pl_handover_is_for(const pl_handover_slot_t *slot, int32_t request,
                        uint64_t attempt);
void pl_handover_give(pl_handover_slot_t *slot);
void pl_handovers_free(pl_handovers_t *slots);

#endif /* PL_EXEC_TRANSFER_H */
