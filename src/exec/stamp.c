#include "exec/stamp.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hash.h"

#define READ_TOKENS 1024 /* at a time */

/* How far the chain of a request in decode is known. */
typedef struct link {
    uint64_t chain; /* of tokens 0 .. n - 1 */
    int32_t n;
} link_t;

typedef struct stamp {
    pl_compute_t compute;
    pl_stamp_params_t params;
    pl_page_form_t forms[PL_STORES];
    uint8_t *row; /* scratch: one row */

    /* the prompt under way: tokens 0 .. n - 1 */
    int32_t request; /* -1: none */
    int32_t n;
    PL_ARRAY(uint64_t) chains;  /* [token], that token included */
    PL_ARRAY(uint64_t) expects; /* [page][layer][store] */

    link_t *links; /* [n_requests], in decode */
} stamp_t;

/* ---- the pure part ---- */

uint64_t pl_stamp_start(void)
{
    return UINT64_C(0x5354414D50);
}

uint64_t pl_stamp_fold(uint64_t chain, int32_t token)
{
    return pl_fold64(chain, (uint64_t)(uint32_t)token);
}

static inline uint64_t row_seed(uint64_t chain, int32_t position, int32_t layer,
                                int store)
{
    uint64_t place = ((uint64_t)(uint32_t)position << 20) +
                     ((uint64_t)(uint32_t)layer << 1) + (uint64_t)store;

    return pl_mix64(chain ^ pl_mix64(place));
}

static inline void fill_row(uint64_t seed, uint8_t *content, size_t n_bytes)
{
    size_t n_words = n_bytes / sizeof(uint64_t);

    for (size_t i = 0; i < n_words; i++) {
        uint64_t word = pl_mix64(seed + (i + 1) * UINT64_C(0x9E3779B97F4A7C15));

        memcpy(content + i * sizeof(word), &word, sizeof(word));
    }
    if (n_bytes % sizeof(uint64_t) != 0) {
        uint64_t word =
            pl_mix64(seed + (n_words + 1) * UINT64_C(0x9E3779B97F4A7C15));

        memcpy(content + n_words * sizeof(word), &word, n_bytes % sizeof(word));
    }
}

void pl_stamp_row(uint64_t chain, int32_t position, int32_t layer, int store,
                  uint8_t *content, size_t n_bytes)
{
    fill_row(row_seed(chain, position, layer, store), content, n_bytes);
}

int32_t pl_stamp_token(uint64_t digest, int32_t vocab_size)
{
    return (int32_t)(pl_mix64(digest) % (uint64_t)vocab_size);
}

/* ---- what is expected ---- */

static size_t expect_index(const stamp_t *stamp, int32_t page, int32_t layer,
                           int store)
{
    return ((size_t)page * (size_t)stamp->params.layout.n_layers +
            (size_t)layer) *
               PL_STORES +
           (size_t)store;
}

static uint64_t row_hash(const stamp_t *stamp, uint64_t chain, int32_t layer,
                         int store, int32_t position, uint64_t base)
{
    size_t n = pl_row_bytes(&stamp->forms[store]);

    pl_stamp_row(chain, position, layer, store, stamp->row, n);
    return pl_digest_row(base, position, stamp->row, n);
}

static void expect_pages(stamp_t *stamp, int32_t first, int32_t end)
{
    const pl_store_layout_t *layout = &stamp->params.layout;
    int32_t page_tokens             = layout->page_tokens;

    for (int32_t page = first; page * page_tokens < end; page++) {
        int32_t from = page * page_tokens;
        int32_t to   = from + page_tokens < end ? from + page_tokens : end;

        for (int32_t layer = 0; layer < layout->n_layers; layer++) {
            for (int store = 0; store < PL_STORES; store++) {
                uint64_t base = pl_digest_base(layer, store);
                uint64_t sum  = 0;

                for (int32_t t = from;
                     pl_store_has(layout, store, layer) && (t < to); t++) {
                    sum += row_hash(stamp, stamp->chains.items[t], layer, store,
                                    t, base);
                }
                stamp->expects.items[expect_index(stamp, page, layer, store)] =
                    sum;
            }
        }
    }
}

/* Fold tokens of a request; `chains` may be NULL.  Returns the last chain. */
static uint64_t fold_tokens(const stamp_t *stamp, int32_t request,
                            int32_t first, int32_t end, uint64_t chain,
                            uint64_t *chains)
{
    int32_t tokens[READ_TOKENS];

    while (first < end) {
        int32_t n = end - first < READ_TOKENS ? end - first : READ_TOKENS;

        stamp->params.tokens.read(stamp->params.tokens.context, request, first,
                                  n, tokens);
        for (int32_t i = 0; i < n; i++) {
            chain = pl_stamp_fold(chain, tokens[i]);
            if (chains != NULL) {
                chains[first + i] = chain;
            }
        }
        first += n;
    }
    return chain;
}

/* ---- prefill ---- */

static pl_status_t stamp_reserve(pl_compute_t *compute, const pl_chunk_t *chunk)
{
    stamp_t *stamp = (stamp_t *)compute;
    int32_t end    = chunk->first_token + chunk->n_tokens;
    int32_t pages  = (end + stamp->params.layout.page_tokens - 1) /
                    stamp->params.layout.page_tokens;

    PL_TRY(PL_ARRAY_RESERVE(&stamp->chains, (size_t)end));
    return PL_ARRAY_RESERVE(&stamp->expects, expect_index(stamp, pages, 0, 0));
}

static pl_status_t stamp_begin(pl_compute_t *compute, const pl_chunk_t *chunk)
{
    stamp_t *stamp = (stamp_t *)compute;
    int32_t end    = chunk->first_token + chunk->n_tokens;
    int32_t known  = 0;

    /* A partial page at the end of a prompt is computed anew when it comes back
     * longer. */
    if ((stamp->request == chunk->request) && (stamp->n <= end)) {
        known = stamp->n - stamp->n % stamp->params.layout.page_tokens;
    }
    fold_tokens(stamp, chunk->request, known, end,
                known == 0 ? pl_stamp_start() : stamp->chains.items[known - 1],
                stamp->chains.items);
    stamp->request = chunk->request;
    stamp->n       = end;
    if (stamp->params.expects) {
        expect_pages(stamp, known / stamp->params.layout.page_tokens, end);
    }
    return PL_OK;
}

/* A row whose tokens fold to `chain`. */
static void put_row(const stamp_t *stamp, const pl_rows_t *rows, int32_t layer,
                    int which, int32_t position, uint64_t chain)
{
    const pl_forward_pages_t *to = &rows->to[which];
    int32_t page_tokens          = to->form.page_tokens;
    int32_t page = position / page_tokens - rows->first_token / page_tokens;

    pl_stamp_row(chain, position, layer, which, stamp->row,
                 pl_row_bytes(&to->form));
    pl_row_put(&to->form, to->pages + (size_t)rows->slots[page] * to->stride,
               position % page_tokens, stamp->row);
}

static pl_status_t stamp_write(pl_compute_t *compute, const pl_chunk_t *chunk,
                               int32_t layer, const pl_rows_t *rows)
{
    const stamp_t *stamp = (const stamp_t *)compute;

    (void)chunk;
    for (int which = 0; which < PL_STORES; which++) {
        for (int32_t i = 0;
             (rows->to[which].pages != NULL) && (i < rows->n_tokens); i++) {
            put_row(stamp, rows, layer, which, rows->first_token + i,
                    stamp->chains.items[rows->first_token + i]);
        }
    }
    return PL_OK;
}

/* Nothing is made of the rows but their digest, which the caller has taken. */
static pl_status_t stamp_read(pl_compute_t *compute, const pl_chunk_t *chunk,
                              int32_t layer, const pl_view_t *views)
{
    (void)compute;
    (void)chunk;
    (void)layer;
    (void)views;
    return PL_OK;
}

static pl_status_t stamp_end(pl_compute_t *compute, const pl_chunk_t *chunk,
                             uint64_t digest, int32_t *token_p)
{
    const stamp_t *stamp = (const stamp_t *)compute;

    (void)chunk;
    *token_p = pl_stamp_token(digest, stamp->params.vocab_size);
    return PL_OK;
}

static uint64_t stamp_expect_page(pl_compute_t *compute,
                                  const pl_chunk_t *chunk, int32_t layer,
                                  int store, int32_t page)
{
    const stamp_t *stamp = (const stamp_t *)compute;

    (void)chunk;
    return stamp->expects.items[expect_index(stamp, page, layer, store)];
}

static uint64_t stamp_expect_row(pl_compute_t *compute, const pl_chunk_t *chunk,
                                 int32_t layer, int store, int32_t position)
{
    const stamp_t *stamp = (const stamp_t *)compute;

    (void)chunk;
    return row_hash(stamp, stamp->chains.items[position], layer, store,
                    position, pl_digest_base(layer, store));
}

static uint64_t stamp_expect_all(pl_compute_t *compute, int32_t request,
                                 int32_t n_tokens)
{
    const stamp_t *stamp            = (const stamp_t *)compute;
    const pl_store_layout_t *layout = &stamp->params.layout;
    uint64_t chain                  = pl_stamp_start();
    uint64_t sum                    = 0;

    for (int32_t t = 0; t < n_tokens; t++) {
        chain = fold_tokens(stamp, request, t, t + 1, chain, NULL);
        for (int32_t layer = 0; layer < layout->n_layers; layer++) {
            for (int store = 0; store < PL_STORES; store++) {
                if (pl_store_has(layout, store, layer)) {
                    sum += row_hash(stamp, chain, layer, store, t,
                                    pl_digest_base(layer, store));
                }
            }
        }
    }
    return sum;
}

/* ---- decode ---- */

static pl_status_t stamp_step_write(pl_compute_t *compute,
                                    const pl_step_t *step, int32_t layer,
                                    const pl_rows_t *row)
{
    stamp_t *stamp = (stamp_t *)compute;
    link_t *link   = &stamp->links[step->request];

    if (link->n != step->position + 1) {
        bool goes_on = (link->n > 0) && (link->n <= step->position);

        link->chain = fold_tokens(
            stamp, step->request, goes_on ? link->n : 0, step->position + 1,
            goes_on ? link->chain : pl_stamp_start(), NULL);
        link->n = step->position + 1;
    }
    for (int which = 0; which < PL_STORES; which++) {
        if (row->to[which].pages != NULL) {
            put_row(stamp, row, layer, which, step->position, link->chain);
        }
    }
    return PL_OK;
}

static pl_status_t stamp_step_read(pl_compute_t *compute, const pl_step_t *step,
                                   int32_t layer, const pl_view_t *views)
{
    (void)compute;
    (void)step;
    (void)layer;
    (void)views;
    return PL_OK;
}

static pl_status_t stamp_step_end(pl_compute_t *compute, const pl_step_t *step,
                                  uint64_t digest, int32_t *token_p)
{
    const stamp_t *stamp = (const stamp_t *)compute;

    (void)step;
    *token_p = pl_stamp_token(digest, stamp->params.vocab_size);
    return PL_OK;
}

/* ---- lifecycle ---- */

static void stamp_close(pl_compute_t *compute)
{
    stamp_t *stamp = (stamp_t *)compute;

    free(stamp->row);
    free(stamp->links);
    PL_ARRAY_FREE(&stamp->chains);
    PL_ARRAY_FREE(&stamp->expects);
    free(stamp);
}

static const pl_compute_ops_t stamp_ops = {.name         = "stamp",
                                           .needs_digest = true,
                                           .reserve      = stamp_reserve,
                                           .begin        = stamp_begin,
                                           .write        = stamp_write,
                                           .read         = stamp_read,
                                           .end          = stamp_end,
                                           .step_write   = stamp_step_write,
                                           .step_read    = stamp_step_read,
                                           .step_end     = stamp_step_end,
                                           .close        = stamp_close,
                                           .expect_page  = stamp_expect_page,
                                           .expect_row   = stamp_expect_row,
                                           .expect_all   = stamp_expect_all};

pl_status_t pl_stamp_open(const pl_stamp_params_t *params,
                          pl_compute_t **compute_p)
{
    stamp_t *stamp = calloc(1, sizeof(*stamp));
    size_t row     = 0;

    if (stamp == NULL) {
        return PL_ERR_MEMORY;
    }
    stamp->compute.ops = &stamp_ops;
    stamp->params      = *params;
    stamp->request     = -1;
    for (int which = 0; which < PL_STORES; which++) {
        stamp->forms[which] = pl_store_form(&params->layout, which);
        row                 = pl_row_bytes(&stamp->forms[which]) > row
                                  ? pl_row_bytes(&stamp->forms[which])
                                  : row;
    }
    stamp->row   = malloc(row);
    stamp->links = calloc((size_t)params->n_requests + 1, sizeof(link_t));
    if ((stamp->row == NULL) || (stamp->links == NULL)) {
        stamp_close(&stamp->compute);
        return PL_ERR_MEMORY;
    }
    *compute_p = &stamp->compute;
    return PL_OK;
}
