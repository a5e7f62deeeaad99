#include "exec/transfer.h"

#include <assert.h>
#include <string.h>

void pl_transfer_open(pl_transfer_t *transfer, int n_ranks)
{
    memset(transfer, 0, sizeof(*transfer));
    transfer->n_ranks = n_ranks;
}

void pl_transfer_report(pl_transfer_t *transfer, int rank, bool good)
{
    assert((rank >= 0) && (rank < transfer->n_ranks));
    if (!transfer->reported[rank]) {
        transfer->reported[rank] = true;
        transfer->n_reported++;
    }
    if (!good) {
        transfer->failed = true;
    }
}

bool pl_transfer_ended(const pl_transfer_t *transfer)
{
    return transfer->n_reported == transfer->n_ranks;
}

pl_transfer_state_t pl_transfer_state(const pl_transfer_t *transfer)
{
    if (transfer->failed) {
        return PL_TRANSFER_FAILED;
    }
    return pl_transfer_ended(transfer) ? PL_TRANSFER_GOOD : PL_TRANSFER_WAITING;
}

pl_status_t pl_handover_take(pl_handovers_t *slots, int32_t request,
                             pl_handover_slot_t **slot_p)
{
    pl_handover_slot_t *slot = NULL;

    for (size_t i = 0; i < slots->n; i++) {
        if (slots->items[i]->tag == 0) {
            slot = slots->items[i];
            break;
        }
    }
    if (slot == NULL) {
        slot = calloc(1, sizeof(*slot));
        if (slot == NULL) {
            return PL_ERR_MEMORY;
        }
        if (PL_ARRAY_PUSH(slots, slot) != PL_OK) {
            free(slot);
            return PL_ERR_MEMORY;
        }
    }
    slot->tag = (uint64_t)request + 1;
    *slot_p   = slot;
    return PL_OK;
}

bool pl_handover_is_for(const pl_handover_slot_t *slot, int32_t request,
                        uint64_t attempt)
{
    return (slot->tag == (uint64_t)request + 1) &&
           (slot->message.tag == slot->tag) &&
           (slot->message.attempt == attempt);
}

void pl_handover_give(pl_handover_slot_t *slot)
{
    memset(slot, 0, sizeof(*slot));
}

void pl_handovers_free(pl_handovers_t *slots)
{
    for (size_t i = 0; i < slots->n; i++) {
        free(slots->items[i]);
    }
    PL_ARRAY_FREE(slots);
}
