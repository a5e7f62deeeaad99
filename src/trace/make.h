/* trace/make.h - traces drawn from a seed.
 *
 * Prompts are paths in a tree of prefixes: on each level one of n texts of so
 * many tokens, then words of their own.  A session is one or more turns; the
 * prompt of a turn is that of the turn before, its answer, and new words.
 */
#ifndef PL_TRACE_MAKE_H
#define PL_TRACE_MAKE_H

#include <pagelane/trace.h>

#define PL_MAKE_MOST_LEVELS 16

/* Mean, and standard deviation by mean; drawn from a gamma distribution. */
typedef struct pl_make_draw {
    double mean, cv;
} pl_make_draw_t;

typedef enum pl_make_arrivals {
    PL_MAKE_AT_ONCE, /* all at time 0 */
    PL_MAKE_POISSON,
    PL_MAKE_GAMMA,
    PL_MAKE_LIKE /* the gaps of a trace, over and over */
} pl_make_arrivals_t;

typedef struct pl_make_params {
    int32_t n_sessions; /* >= 1 */
    struct {
        int32_t tokens; /* >= 1 */
        int32_t n;      /* >= 1 texts, drawn alike */
    } levels[PL_MAKE_MOST_LEVELS];
    int n_levels;
    pl_make_draw_t words;  /* tokens of its own in a prompt; mean >= 1 */
    pl_make_draw_t answer; /* tokens to generate; mean >= 1 */
    double turns;          /* of a session in the mean; >= 1 */
    double think_s;        /* between turns in the mean; >= 0 */
    pl_make_arrivals_t arrivals;
    double rate;            /* sessions per second; > 0 */
    double cv;              /* of the gaps of PL_MAKE_GAMMA; > 0 */
    const pl_trace_t *like; /* of PL_MAKE_LIKE */

    /* > 0: not sessions, but this many prompts; then `pressure` others; then
     * the first ones again. */
    int32_t fill, pressure;

    int32_t block_tokens; /* that an id stands for */
    uint64_t seed;
} pl_make_params_t;

/* The same params, the same trace, of the format mooncake.  PL_OK,
 * PL_ERR_ARGUMENT (reported), PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_trace_make(const pl_make_params_t *params,
                                        const pl_log_t *log,
                                        pl_trace_t **trace_p);

#endif /* PL_TRACE_MAKE_H */
