#include "trace/lru.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "trace/id_map.h"
#include "trace/prefix.h"

/* The stack: every block stands at the time of its last touch. */
typedef struct stack {
    int32_t *sums; /* a Fenwick tree over times 1 .. n_times */
    int64_t n_times;
    int64_t now;      /* touches so far */
    int64_t n_blocks; /* in the stack */
    int64_t *last;    /* [blocks] time of the last touch; 0: none */
} stack_t;

static void add(stack_t *stack, int64_t time, int32_t change)
{
    for (; time <= stack->n_times; time += time & -time) {
        stack->sums[time] += change;
    }
}

/* Blocks that were last touched at `time` or before. */
static int64_t count_until(const stack_t *stack, int64_t time)
{
    int64_t n = 0;

    for (; time > 0; time -= time & -time) {
        n += stack->sums[time];
    }
    return n;
}

/* The place of a block from the top, which is 1; 0: it is not there. */
static int64_t place_of(const stack_t *stack, uint64_t block)
{
    int64_t last = stack->last[block];

    return last == 0 ? 0 : stack->n_blocks - count_until(stack, last - 1);
}

static void touch(stack_t *stack, uint64_t block)
{
    if (stack->last[block] > 0) {
        add(stack, stack->last[block], -1);
    } else {
        stack->n_blocks++;
    }
    stack->last[block] = ++stack->now;
    add(stack, stack->now, 1);
}

/* ---- a request as blocks ---- */

typedef struct lru_pass {
    const pl_trace_t *trace;
    int32_t page_tokens;
    bool pages;
    pl_id_map_t map;
    stack_t stack;
    uint64_t *blocks;    /* [longest] of one request */
    pl_page_key_t *keys; /* [longest] */
    pl_lru_curve_t *curve;
} lru_pass_t;

static int32_t block_tokens(const lru_pass_t *pass, int32_t i)
{
    return pass->pages
               ? pass->page_tokens
               : pl_prefix_block_tokens(pass->trace, i, pass->page_tokens);
}

/* Blocks of request i, and how many of them can be hit. */
static int32_t count_blocks(const lru_pass_t *pass, int32_t i, int32_t *most_p)
{
    int32_t input = pass->trace->requests[i].input_tokens;
    int32_t size  = block_tokens(pass, i);
    int32_t whole = input / size;

    if (pass->pages) {
        *most_p = (input - 1) / size;
        return whole;
    }
    *most_p = whole + (input % size > 0 ? 1 : 0);
    return *most_p;
}

static pl_status_t list_blocks(lru_pass_t *pass, int32_t i, int32_t n)
{
    pl_page_key_t prefix = pl_prefix_start(&pass->trace->requests[i]);
    int32_t size         = block_tokens(pass, i);

    if (pass->pages) {
        pl_trace_page_keys(pass->trace, i, size, 0, n, pass->keys);
    }
    for (int32_t k = 0; k < n; k++) {
        prefix = pass->pages ? pl_prefix_chain(prefix, pass->keys[k])
                             : pl_prefix_block(pass->trace, i, size, k, prefix);
        PL_TRY(pl_id_map_number(&pass->map, prefix.lo, prefix.hi,
                                &pass->blocks[k]));
    }
    return PL_OK;
}

/* Look request i up, then take it in. */
static pl_status_t use(lru_pass_t *pass, int32_t i)
{
    pl_lru_curve_t *curve = pass->curve;
    int32_t input         = pass->trace->requests[i].input_tokens;
    int32_t size          = block_tokens(pass, i);
    int32_t most          = 0;
    int32_t n             = count_blocks(pass, i, &most);
    int64_t deepest       = 0;

    PL_TRY(list_blocks(pass, i, n));
    for (int32_t k = 0; k < most; k++) {
        int64_t place = place_of(&pass->stack, pass->blocks[k]);
        int32_t rest  = input - k * size;

        if (place == 0) {
            break;
        }
        deepest = place > deepest ? place : deepest;
        curve->hit_blocks[deepest]++;
        curve->hit_tokens[deepest] += rest < size ? rest : size;
    }
    for (int32_t k = n - 1; k >= 0; k--) {
        touch(&pass->stack, pass->blocks[k]);
    }
    return PL_OK;
}

/* ---- all requests ---- */

static pl_status_t open_pass(lru_pass_t *pass)
{
    pl_lru_curve_t *curve = pass->curve;
    int64_t sum           = 0;
    int32_t longest       = 0;

    for (int32_t i = 0; i < pass->trace->count; i++) {
        int32_t most = 0;
        int32_t n    = count_blocks(pass, i, &most);

        sum += n;
        longest = most > longest ? most : longest;
        longest = n > longest ? n : longest;
        curve->n_tokens += pass->trace->requests[i].input_tokens;
    }
    if (sum >= INT32_MAX) {
        return PL_ERR_ARGUMENT; /* sums are counted in 31 bits */
    }
    curve->n_blocks     = sum;
    pass->stack.n_times = sum;
    pass->stack.sums    = calloc((size_t)sum + 1, sizeof(*pass->stack.sums));
    pass->stack.last    = calloc((size_t)sum + 1, sizeof(*pass->stack.last));
    pass->blocks        = calloc((size_t)longest + 1, sizeof(*pass->blocks));
    pass->keys          = calloc((size_t)longest + 1, sizeof(*pass->keys));
    curve->hit_blocks   = calloc((size_t)sum + 1, sizeof(*curve->hit_blocks));
    curve->hit_tokens   = calloc((size_t)sum + 1, sizeof(*curve->hit_tokens));
    return (pass->stack.sums == NULL) || (pass->stack.last == NULL) ||
                   (pass->blocks == NULL) || (pass->keys == NULL) ||
                   (curve->hit_blocks == NULL) || (curve->hit_tokens == NULL)
               ? PL_ERR_MEMORY
               : PL_OK;
}

/* From hits that need exactly so much to hits that need at most so much. */
static void add_up(pl_lru_curve_t *curve, int64_t n_blocks)
{
    for (int64_t c = 1; c <= n_blocks; c++) {
        curve->most = curve->hit_blocks[c] > 0 ? c : curve->most;
        curve->hit_blocks[c] += curve->hit_blocks[c - 1];
        curve->hit_tokens[c] += curve->hit_tokens[c - 1];
    }
}

pl_status_t pl_lru_curve(const pl_trace_t *trace, int32_t page_tokens,
                         bool pages, const pl_log_t *log, pl_lru_curve_t *curve)
{
    lru_pass_t pass    = {.trace       = trace,
                          .page_tokens = page_tokens,
                          .pages       = pages,
                          .curve       = curve};
    pl_status_t status = PL_OK;

    memset(curve, 0, sizeof(*curve));
    assert(page_tokens >= 1);
    status = open_pass(&pass);
    if (status == PL_ERR_ARGUMENT) {
        pl_log(
            log, PL_LOG_ERROR,
            "all prompts have 2^31 %s or more: expected fewer for a curve of "
            "LRU caches; take larger pages, or less with --limit",
            pages ? "pages" : "blocks");
    }
    if (status != PL_OK) {
        goto out;
    }
    for (int32_t i = 0; i < trace->count; i++) {
        PL_TRY_GOTO(status, use(&pass, i), out);
    }
    add_up(curve, pass.stack.n_blocks);

out:
    free(pass.stack.sums);
    free(pass.stack.last);
    free(pass.blocks);
    free(pass.keys);
    pl_id_map_free(&pass.map);
    if (status != PL_OK) {
        pl_lru_curve_free(curve);
    }
    return status;
}

void pl_lru_curve_free(pl_lru_curve_t *curve)
{
    free(curve->hit_blocks);
    free(curve->hit_tokens);
    memset(curve, 0, sizeof(*curve));
}

int64_t pl_lru_curve_at(const pl_lru_curve_t *curve, int64_t capacity)
{
    return capacity < curve->most ? capacity : curve->most;
}
