/* What a prompt holds: its tokens, and the keys of its pages.
 *
 * A block id expands to tokens that depend on (seed, id, offset in the block)
 * alone, so any part of any prompt can be had at once, and prompts that share
 * an id share its tokens. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "trace/internal.h"

static int compare_int32(const void *a, const void *b)
{
    int32_t left;
    int32_t right;

    memcpy(&left, a, sizeof(left));
    memcpy(&right, b, sizeof(right));
    return (left > right) - (left < right);
}

/* Sort the banned ids, leave out repeated ones and those that are no token. */
static void tidy_banned(pl_trace_t *trace, int32_t vocab_size)
{
    size_t n = 0;

    qsort(trace->banned, trace->n_banned, sizeof(*trace->banned),
          compare_int32);
    for (size_t i = 0; i < trace->n_banned; i++) {
        int32_t id = trace->banned[i];

        if ((id >= 0) && (id < vocab_size) &&
            ((n == 0) || (trace->banned[n - 1] != id))) {
            trace->banned[n] = id;
            n++;
        }
    }
    trace->n_banned = n;
}

pl_status_t pl_trace_set_vocabulary(pl_trace_t *trace,
                                    const pl_trace_params_t *params,
                                    const pl_log_t *log)
{
    size_t n = params->n_banned > 0 ? (size_t)params->n_banned : 0;

    if ((n > 0) && (params->banned == NULL)) {
        return PL_ERR_ARGUMENT;
    }
    trace->banned = calloc(n + 1, sizeof(*trace->banned));
    if (trace->banned == NULL) {
        return PL_ERR_MEMORY;
    }
    if (n > 0) {
        memcpy(trace->banned, params->banned, n * sizeof(*trace->banned));
    }
    trace->n_banned = n;
    tidy_banned(trace, params->vocab_size);
    if ((params->vocab_size < 1) ||
        ((size_t)params->vocab_size == trace->n_banned)) {
        pl_log(log, PL_LOG_ERROR,
               "vocabulary of %d tokens, %zu of them banned: expected at least "
               "one to expand block ids to",
               (int)params->vocab_size, trace->n_banned);
        return PL_ERR_ARGUMENT;
    }
    trace->n_vocab = (uint64_t)params->vocab_size - trace->n_banned;
    trace->seed    = pl_mix64(params->seed + UINT64_C(0x9E3779B97F4A7C15));
    return PL_OK;
}

/* The token at `offset` of a block whose hash is `block`. */
static int32_t token_of(const pl_trace_t *trace, uint64_t block, int32_t offset)
{
    uint64_t h    = pl_fold64(block, (uint64_t)offset);
    int32_t token = (int32_t)(((h >> 32) * trace->n_vocab) >> 32);

    /* The token-th that is not banned. */
    for (size_t i = 0; (i < trace->n_banned) && (trace->banned[i] <= token);
         i++) {
        token++;
    }
    return token;
}

void pl_trace_tokens(const pl_trace_t *trace, int32_t i, int32_t first,
                     int32_t n, int32_t *tokens)
{
    const pl_trace_row_t *row = pl_trace_row(trace, i);
    int32_t size              = pl_trace_row_block(trace, row);
    const uint64_t *ids;

    assert((i >= 0) && (i < trace->count) && (first >= 0) && (n >= 0));
    assert(first <= trace->requests[i].input_tokens - n);
    if (size == 0) {
        if (n > 0) {
            memcpy(tokens,
                   &trace->rows.tokens.items[row->first + (size_t)first],
                   (size_t)n * sizeof(*tokens));
        }
        return;
    }
    ids = trace->rows.ids.items + row->first;
    while (n > 0) {
        uint64_t block = pl_fold64(trace->seed, ids[first / size]);
        int32_t offset = first % size;
        int32_t run    = size - offset < n ? size - offset : n;

        for (int32_t k = 0; k < run; k++) {
            tokens[k] = token_of(trace, block, offset + k);
        }
        tokens += run;
        first += run;
        n -= run;
    }
}

/* The top bit says that a page is of no trace (pagelane/trace.h). */
static pl_page_key_t key_of(pl_hash128_t h)
{
    return (pl_page_key_t){h.lo, h.hi & ~PL_PAGE_KEY_OTHER};
}

/* The key of the `n` tokens from `first`: over the segments (id, begin, end)
 * of blocks that make it, each hashed with the hash of those before it. */
static pl_page_key_t key_of_blocks(const uint64_t *ids, int32_t size,
                                   int32_t first, int32_t n)
{
    pl_hash128_t h = {0, 0};

    while (n > 0) {
        int32_t begin       = first % size;
        int32_t run         = size - begin < n ? size - begin : n;
        uint64_t segment[5] = {h.lo, h.hi, ids[first / size], (uint64_t)begin,
                               (uint64_t)(begin + run)};

        h = pl_hash128(segment, sizeof(segment), 0);
        first += run;
        n -= run;
    }
    return key_of(h);
}

void pl_trace_page_keys(const pl_trace_t *trace, int32_t i, int32_t page_size,
                        int32_t first, int32_t n, pl_page_key_t *keys)
{
    const pl_trace_row_t *row = pl_trace_row(trace, i);
    int32_t size              = pl_trace_row_block(trace, row);

    assert((i >= 0) && (i < trace->count) && (page_size > 0));
    assert((first >= 0) && (n >= 0) &&
           (first <= trace->requests[i].input_tokens / page_size - n));
    for (int32_t k = 0; k < n; k++) {
        int32_t begin = (first + k) * page_size;

        if (size > 0) {
            keys[k] = key_of_blocks(&trace->rows.ids.items[row->first], size,
                                    begin, page_size);
        } else {
            pl_hash128_t h = pl_hash128(
                &trace->rows.tokens.items[row->first + (size_t)begin],
                (size_t)page_size * sizeof(int32_t), 0);

            keys[k] = key_of(h);
        }
    }
}
