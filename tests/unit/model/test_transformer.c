/* A row is what its tokens make of it: however a prompt is cut into chunks and
 * given to ranks, whatever pages its rows lie in, in prefill and in decode. */
#include "test_transformer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "forward_rig.h"
#include "support/check_main.h"
#include "support/random_model.h"
#include "support/seed.h"

#define MODELS   12
#define MAX_PAGE 9

static int32_t *draw_tokens(const pl_model_config_t *config, int32_t n,
                            pl_rng_t *rng)
{
    int32_t *tokens = calloc((size_t)n, sizeof(*tokens));

    for (int32_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)pl_rng_below(rng, (uint64_t)config->vocab_size);
    }
    return tokens;
}

/* Ranks by token; one rank never has any. */
static int32_t *draw_owners(int32_t n, pl_rng_t *rng)
{
    int32_t *owners = calloc((size_t)n, sizeof(*owners));
    int32_t idle    = (int32_t)pl_rng_below(rng, RIG_RANKS);

    for (int32_t i = 0; i < n; i++) {
        do {
            owners[i] = (int32_t)pl_rng_below(rng, RIG_RANKS);
        } while (owners[i] == idle);
    }
    return owners;
}

/* Chunks of any length on ranks at random, then one token at a time. */
static void compute_in_pieces(rig_t *rig, pl_rng_t *rng)
{
    int32_t *owners = draw_owners(rig->n_tokens, rng);
    int32_t decoded = (int32_t)pl_rng_below(rng, 12);
    int32_t prompt  = rig->n_tokens - decoded;
    int32_t first   = 0;

    while (first < rig->n_tokens) {
        int32_t left = prompt - first;
        int32_t n =
            left <= 0 ? 1 : 1 + (int32_t)pl_rng_below(rng, (uint64_t)left);

        rig_chunk(rig, first, n, owners);
        first += n;
    }
    free(owners);
}

START_TEST(rows_do_not_know_their_batch)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed("rows_do_not_know_their_batch") +
                               (uint64_t)_i);
    pl_model_config_t config = pl_test_config(&rng);
    pl_weights_t *weights    = pl_test_weights(&config, pl_rng_next(&rng));
    int32_t n                = 20 + (int32_t)pl_rng_below(&rng, 150);
    int32_t *tokens          = draw_tokens(&config, n, &rng);

    for (pl_kv_dtype_t dtype = PL_KV_F32; dtype <= PL_KV_FP8; dtype++) {
        int32_t page = 1 + (int32_t)pl_rng_below(&rng, MAX_PAGE);
        rig_t *whole = rig_open(&config, weights, dtype, n, tokens, n, NULL);
        rig_t *pieces =
            rig_open(&config, weights, dtype, page, tokens, n, &rng);

        rig_chunk(whole, 0, n, NULL);
        compute_in_pieces(pieces, &rng);
        rig_same_rows(whole, pieces);
        for (int32_t t = 0; t < n; t++) {
            ck_assert_msg(memcmp(rig_logits(whole, t), rig_logits(pieces, t),
                                 (size_t)config.vocab_size * sizeof(float)) ==
                              0,
                          "logits at %d, dtype %d", (int)t, (int)dtype);
            ck_assert(isfinite(rig_logits(whole, t)[0]));
        }
        rig_close(whole);
        rig_close(pieces);
    }
    free(tokens);
    pl_weights_close(weights);
}
END_TEST

/* A selection has the keys that may be kept, or all while there are no more; a
 * layer without an indexer changes nothing of it. */
typedef struct seen {
    const pl_model_config_t *config;
    int32_t n;
} seen_t;

static void see(void *context, int32_t layer, int32_t position,
                const int32_t *positions, int32_t n, const float *scores,
                int32_t n_keys)
{
    seen_t *seen = context;
    int32_t k    = seen->config->index_topk;

    ck_assert(seen->config->full_indexer[layer]);
    ck_assert_int_eq(n_keys, position + 1);
    ck_assert_int_eq(n, n_keys < k ? n_keys : k);
    for (int32_t i = 0; i < n; i++) {
        ck_assert(!isnan(scores[positions[i]]));
        ck_assert_int_lt(positions[i], n_keys);
        ck_assert(i == 0 || positions[i] > positions[i - 1]);
    }
    seen->n++;
}

START_TEST(selections_are_seen)
{
    pl_rng_t rng =
        pl_rng_seed(pl_test_seed("selections_are_seen") + (uint64_t)_i);
    pl_model_config_t config = pl_test_config(&rng);
    pl_weights_t *weights    = pl_test_weights(&config, pl_rng_next(&rng));
    int32_t *tokens          = draw_tokens(&config, 70, &rng);
    rig_t *rig     = rig_open(&config, weights, PL_KV_F32, 7, tokens, 70, NULL);
    seen_t seen    = {.config = &config};
    int32_t n_full = 0;

    for (int32_t layer = 0; layer < config.n_layers; layer++) {
        n_full += config.full_indexer[layer] ? 1 : 0;
    }
    rig->ranks[0]->ops->watch(rig->ranks[0], see, &seen);
    rig_chunk(rig, 0, 70, NULL);
    ck_assert_int_eq(seen.n, 70 * n_full);
    rig_close(rig);
    free(tokens);
    pl_weights_close(weights);
}
END_TEST

START_TEST(greedy_takes_the_lowest_of_equals)
{
    const float logits[] = {-3.0F, 2.0F, NAN, 2.0F, 1.0F};
    const float none[]   = {NAN, -INFINITY};

    ck_assert_int_eq(pl_greedy(logits, 5), 1);
    ck_assert_int_eq(pl_greedy(logits, 1), 0);
    ck_assert_int_eq(pl_greedy(none, 2), 0);
}
END_TEST

TCase *transformer_laws_case(void)
{
    TCase *tcase = tcase_create("laws");

    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, rows_do_not_know_their_batch, 0, MODELS);
    tcase_add_loop_test(tcase, selections_are_seen, 0, 4);
    tcase_add_test(tcase, greedy_takes_the_lowest_of_equals);
    return tcase;
}

PL_CHECK_MAIN("transformer", transformer_laws_case(),
              transformer_reference_case())
