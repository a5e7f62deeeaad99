/* 9.53 the byte oracle: KV bytes as a pure function of tokens and place. */
#include "test_exec.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "exec/stamp.h"
#include "support/seed.h"

#define TOKENS 300

static void read_tokens(void *context, int32_t request, int32_t first,
                        int32_t n, int32_t *tokens)
{
    const int32_t *all = context;

    (void)request;
    memcpy(tokens, all + first, (size_t)n * sizeof(*tokens));
}

static pl_compute_t *open_stamp(int32_t page_tokens, int32_t *tokens)
{
    pl_stamp_params_t params = {
        .layout     = pl_store_layout_stamp(page_tokens, 2, 24, 0),
        .n_requests = 1,
        .vocab_size = 100,
        .expects    = true,
        .tokens     = {.context = tokens, .read = read_tokens}};
    pl_compute_t *compute = NULL;

    ck_assert_int_eq(pl_stamp_open(&params, &compute), PL_OK);
    return compute;
}

static void begin(pl_compute_t *compute, pl_chunk_t *chunk, int32_t first,
                  int32_t n)
{
    chunk->request     = 0;
    chunk->first_token = first;
    chunk->n_tokens    = n;
    ck_assert_int_eq(compute->ops->reserve(compute, chunk), PL_OK);
    ck_assert_int_eq(compute->ops->begin(compute, chunk), PL_OK);
}

/* Every token before it, its position, layer and store: all of them decide a
 * row; nothing else does. */
START_TEST(row_depends_on_tokens_and_place)
{
    uint8_t a[24], b[24];
    uint64_t one = pl_stamp_fold(pl_stamp_fold(pl_stamp_start(), 5), 6);
    uint64_t two = pl_stamp_fold(pl_stamp_fold(pl_stamp_start(), 6), 5);

    pl_stamp_row(one, 1, 0, 0, a, sizeof(a));
    pl_stamp_row(one, 1, 0, 0, b, sizeof(b));
    ck_assert_mem_eq(a, b, sizeof(a));
    pl_stamp_row(two, 1, 0, 0, b, sizeof(b));
    ck_assert_mem_ne(a, b, sizeof(a));
    pl_stamp_row(one, 2, 0, 0, b, sizeof(b));
    ck_assert_mem_ne(a, b, sizeof(a));
    pl_stamp_row(one, 1, 1, 0, b, sizeof(b));
    ck_assert_mem_ne(a, b, sizeof(a));
    pl_stamp_row(one, 1, 0, 1, b, sizeof(b));
    ck_assert_mem_ne(a, b, sizeof(a));
    /* A shorter row is the start of a longer one. */
    memset(b, 0, sizeof(b));
    pl_stamp_row(one, 1, 0, 0, b, 12);
    ck_assert_mem_eq(a, b, 12);
}
END_TEST

/* What is expected of a page does not depend on how the prompt was cut into
 * chunks, nor on what was computed before; all pages together are the cold
 * digest, whatever the page size. */
START_TEST(expectations_do_not_depend_on_chunks)
{
    static const int32_t pages[] = {1, 3, 16, 100};
    pl_rng_t rng =
        pl_rng_seed(pl_test_seed("expectations_do_not_depend_on_chunks"));
    int32_t tokens[TOKENS];
    uint64_t cold = 0;

    for (int32_t i = 0; i < TOKENS; i++) {
        tokens[i] = (int32_t)pl_rng_below(&rng, 100);
    }
    for (size_t p = 0; p < sizeof(pages) / sizeof(pages[0]); p++) {
        int32_t size         = pages[p];
        pl_compute_t *whole  = open_stamp(size, tokens);
        pl_compute_t *pieces = open_stamp(size, tokens);
        pl_chunk_t all       = {0};
        pl_chunk_t piece     = {0};
        uint64_t sum         = 0;
        int32_t first        = 0;

        begin(whole, &all, 0, TOKENS);
        begin(pieces, &piece, 0, TOKENS / 2 / size * size + 1);
        while (first < TOKENS) { /* and once more, from the start */
            int32_t n = ((int32_t)pl_rng_below(&rng, 5) + 1) * size;

            n = n < TOKENS - first ? n : TOKENS - first;
            begin(pieces, &piece, first, n);
            first += n;
        }
        for (int32_t page = 0; page * size < TOKENS; page++) {
            for (int32_t layer = 0; layer < 2; layer++) {
                for (int store = 0; store < PL_STORES; store++) {
                    uint64_t want = whole->ops->expect_page(whole, &all, layer,
                                                            store, page);
                    uint64_t rows = 0;

                    for (int32_t t = page * size;
                         (t < (page + 1) * size) && (t < TOKENS); t++) {
                        rows += whole->ops->expect_row(whole, &all, layer,
                                                       store, t);
                    }
                    ck_assert_uint_eq(rows, want);
                    ck_assert_uint_eq(pieces->ops->expect_page(
                                          pieces, &piece, layer, store, page),
                                      want);
                    sum += want;
                }
            }
        }
        ck_assert_uint_eq(whole->ops->expect_all(whole, 0, TOKENS), sum);
        ck_assert(p == 0 || sum == cold);
        cold = sum;
        whole->ops->close(whole);
        pieces->ops->close(pieces);
    }
}
END_TEST

/* One wrong bit in what was read is another token, nearly always. */
START_TEST(token_follows_from_the_digest)
{
    int differ = 0;

    for (int bit = 0; bit < 64; bit++) {
        int32_t token = pl_stamp_token(UINT64_C(1) << bit, 1 << 20);

        ck_assert_int_ge(token, 0);
        ck_assert_int_lt(token, 1 << 20);
        differ += token != pl_stamp_token(0, 1 << 20) ? 1 : 0;
    }
    ck_assert_int_ge(differ, 63);
}
END_TEST

TCase *stamp_case(void)
{
    TCase *tcase = tcase_create("stamp");

    tcase_add_test(tcase, row_depends_on_tokens_and_place);
    tcase_add_test(tcase, expectations_do_not_depend_on_chunks);
    tcase_add_test(tcase, token_follows_from_the_digest);
    return tcase;
}
