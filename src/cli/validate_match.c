/* Which prompt of the trace each request of a benchmark had. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/validate.h"

/* A prompt that was tokenised anew has about as many tokens as before. */
enum { ALIKE_TOKENS = 64, ALIKE_PART = 20 };

typedef struct matching {
    const pl_cli_t *cli;
    const pl_trace_t *prompts; /* NULL: no trace was named */
    pl_bench_t *bench;
} matching_t;

/* ---- which prompt of the trace each request had ---- */

typedef struct length {
    int32_t tokens, number;
} length_t;

static int by_length(const void *a, const void *b)
{
    const length_t *x = a;
    const length_t *y = b;

    if (x->tokens != y->tokens) {
        return x->tokens < y->tokens ? -1 : 1;
    }
    return (x->number > y->number) - (x->number < y->number);
}

static int32_t trace_tokens(const matching_t *m, int32_t i)
{
    return pl_trace_request(m->prompts, i)->input_tokens;
}

/* A run played the trace itself: its request i is the trace's. */
static bool is_numbered(const matching_t *m)
{
    bool all = strcmp(m->bench->format, "pagelane") == 0;

    for (size_t i = 0; all && (i < m->bench->requests.n); i++) {
        const pl_bench_request_t *request = &m->bench->requests.items[i];

        all = (request->number <= pl_trace_count(m->prompts)) &&
              (trace_tokens(m, (int32_t)request->number - 1) ==
               request->input_tokens);
    }
    return all;
}

/* A prompt that a client makes of block ids has whole blocks. */
static bool is_in_order(const matching_t *m)
{
    int64_t alike =
        ALIKE_TOKENS +
        (m->bench->is_replayed ? pl_trace_block_tokens(m->prompts) : 0);

    if (m->bench->requests.n > (size_t)pl_trace_count(m->prompts)) {
        return false;
    }
    for (size_t i = 0; i < m->bench->requests.n; i++) {
        int64_t is    = m->bench->requests.items[i].input_tokens;
        int64_t was   = trace_tokens(m, (int32_t)i);
        int64_t apart = is > was ? is - was : was - is;

        if ((is > 0) && (apart > alike + was / ALIKE_PART)) {
            return false;
        }
    }
    return true;
}

/* Both sorted by length: each takes the first that is left of its own. */
static pl_status_t pair_lengths(const matching_t *m, length_t *asked,
                                length_t *there, int32_t *which)
{
    size_t n     = m->bench->requests.n;
    int32_t have = pl_trace_count(m->prompts);
    int32_t at   = 0;

    qsort(asked, n, sizeof(*asked), by_length);
    qsort(there, (size_t)have, sizeof(*there), by_length);
    for (size_t i = 0; i < n; i++) {
        if (asked[i].tokens == 0) {
            continue; /* it failed, and is not simulated */
        }
        while ((at < have) && (there[at].tokens < asked[i].tokens)) {
            at++;
        }
        if ((at == have) || (there[at].tokens != asked[i].tokens)) {
            pl_log(&m->cli->log, PL_LOG_ERROR,
                   "option --trace %s: no request of %" PRId32
                   " prompt tokens is left in it for request %" PRId64
                   " of the benchmark; name the trace that was played, or "
                   "leave the option out",
                   m->cli->options.trace, asked[i].tokens,
                   m->bench->requests.items[asked[i].number].number);
            return PL_ERR_INPUT;
        }
        which[asked[i].number] = there[at++].number;
    }
    return PL_OK;
}

static pl_status_t match_lengths(const matching_t *m, int32_t *which)
{
    size_t n           = m->bench->requests.n;
    size_t have        = (size_t)pl_trace_count(m->prompts);
    length_t *asked    = calloc(n + 1, sizeof(*asked));
    length_t *there    = calloc(have + 1, sizeof(*there));
    pl_status_t status = PL_ERR_MEMORY;

    if ((asked != NULL) && (there != NULL)) {
        for (size_t i = 0; i < n; i++) {
            asked[i] = (length_t){m->bench->requests.items[i].input_tokens,
                                  (int32_t)i};
        }
        for (size_t i = 0; i < have; i++) {
            there[i] = (length_t){trace_tokens(m, (int32_t)i), (int32_t)i};
        }
        status = pair_lengths(m, asked, there, which);
    }
    free(asked);
    free(there);
    return status;
}

static pl_status_t refuse_replay(const matching_t *m)
{
    const char *trace = m->cli->options.trace;

    if (trace == NULL) {
        pl_log(&m->cli->log, PL_LOG_ERROR,
               "%s: its requests began when a trace says, and it does not say "
               "when; name that trace with --trace",
               m->cli->options.validate);
    } else {
        pl_log(&m->cli->log, PL_LOG_ERROR,
               "option --trace %s: its prompts are not as long, one by one, as "
               "those of %s, which began at the times of a trace; name the one "
               "that was played, and with --block-tokens how many tokens the "
               "client made of a block",
               trace, m->cli->options.validate);
    }
    return PL_ERR_INPUT;
}

/* Of a replay: request i began when that of the trace arrives. */
static void take_starts(const matching_t *m)
{
    int64_t first = pl_trace_request(m->prompts, 0)->arrival_ns;

    for (size_t i = 0; i < m->bench->requests.n; i++) {
        m->bench->requests.items[i].start_ns =
            pl_trace_request(m->prompts, (int32_t)i)->arrival_ns - first;
    }
}

pl_status_t pl_validate_match(const pl_cli_t *cli, const pl_trace_t *prompts,
                              pl_bench_t *bench, int32_t *which,
                              const char **matched_p)
{
    const matching_t matching = {cli, prompts, bench};
    const matching_t *m       = &matching;

    if (prompts == NULL) {
        return bench->is_replayed ? refuse_replay(m) : PL_OK;
    }
    if (is_numbered(m)) {
        *matched_p = "by number";
        for (size_t i = 0; i < m->bench->requests.n; i++) {
            which[i] = (int32_t)m->bench->requests.items[i].number - 1;
        }
        return PL_OK;
    }
    if (!is_in_order(m)) {
        *matched_p = "by length";
        return m->bench->is_replayed ? refuse_replay(m)
                                     : match_lengths(m, which);
    }
    *matched_p = "in order";
    for (size_t i = 0; i < m->bench->requests.n; i++) {
        which[i] = (int32_t)i;
    }
    if (m->bench->is_replayed) {
        take_starts(m);
    }
    return PL_OK;
}
