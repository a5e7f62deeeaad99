/* trace/played.h - a trace of requests as somebody played them: when each of
 * them really began, and how many tokens it really had.
 */
#ifndef PL_TRACE_PLAYED_H
#define PL_TRACE_PLAYED_H

#include <stddef.h>
#include <stdint.h>

#include <pagelane/trace.h>

typedef struct pl_trace_played {
    int64_t time_ns;       /* >= 0 */
    int32_t input_tokens;  /* >= 1; with prompts of a trace, that one's count */
    int32_t output_tokens; /* >= 1 */
    int32_t prompt;        /* a request of `prompts` */
    int64_t line;          /* for messages */
} pl_trace_played_t;

/* played[n], n >= 1: with the prompts of the trace `prompts`, or if it is NULL
 * each with one that is no other's (no prefixes).  Nobody waits for another.
 * Requests come by their times; ties as in `played`.  Of `params`, what says
 * which tokens there are counts.  PL_OK, PL_ERR_ARGUMENT, PL_ERR_INPUT (one
 * line with `name`), PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_trace_open_played(
    const pl_trace_params_t *params, const char *name,
    const pl_trace_played_t *played, size_t n, const pl_trace_t *prompts,
    const pl_log_t *log, pl_trace_t **trace_p);

#endif /* PL_TRACE_PLAYED_H */
