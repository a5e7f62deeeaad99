/* trace/writing_turns.h - which requests are turns of a session, in files where
 * a turn waits for the line before it in its session and for no other. */
#ifndef PL_TRACE_WRITING_TURNS_H
#define PL_TRACE_WRITING_TURNS_H

#include "trace/writing.h"

typedef struct pl_writing_turns {
    pl_writing_t *writing;
    int32_t *last;  /* [sessions + 1] the newest request that says it; -1 */
    bool *is_named; /* [count] another one waits for it by name */
    bool *is_turn;  /* [count] says its session: it is the first to do so, or
                       waits for the last that did and for no other */
} pl_writing_turns_t;

/* Of all requests.  PL_OK, PL_ERR_MEMORY; to be freed in both cases. */
pl_status_t pl_writing_turns(pl_writing_t *writing, pl_writing_turns_t *turns);
void pl_writing_turns_free(pl_writing_turns_t *turns);

#endif /* PL_TRACE_WRITING_TURNS_H */
