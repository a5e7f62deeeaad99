#include "trace/writing_turns.h"

#include <stdlib.h>

void pl_writing_turns_free(pl_writing_turns_t *turns)
{
    free(turns->last);
    free(turns->is_named);
    free(turns->is_turn);
}

pl_status_t pl_writing_turns(pl_writing_t *writing, pl_writing_turns_t *turns)
{
    const pl_trace_t *trace = writing->trace;
    size_t n                = (size_t)trace->count;
    size_t n_sessions       = (size_t)(trace->count / trace->n_selected) *
                        (size_t)trace->rows.n_sessions;

    turns->writing  = writing;
    turns->last     = malloc((n_sessions + 1) * sizeof(*turns->last));
    turns->is_named = calloc(n, sizeof(*turns->is_named));
    turns->is_turn  = calloc(n, sizeof(*turns->is_turn));
    if ((turns->last == NULL) || (turns->is_named == NULL) ||
        (turns->is_turn == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (size_t s = 0; s <= n_sessions; s++) {
        turns->last[s] = -1;
    }
    for (int32_t i = 0; i < trace->count; i++) {
        const pl_request_t *request = &trace->requests[i];
        int64_t session             = pl_writing_session(writing, i);
        int32_t before              = turns->last[session];
        int32_t only = request->n_after == 1 ? request->after[0] : -1;

        if ((session > 0) && (request->n_after <= 1) && (only == before)) {
            turns->is_turn[i]    = true;
            turns->last[session] = i;
        }
        for (int32_t k = 0; (k < request->n_after) && !turns->is_turn[i]; k++) {
            turns->is_named[request->after[k]] = true;
        }
        if (pl_trace_row(trace, i)->thread > 0) {
            pl_writing_lose(writing, PL_LOSS_THREADS);
        }
    }
    return PL_OK;
}
