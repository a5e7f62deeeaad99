/* Checkpoints and what Hugging Face transformers computed with them in float32:
 * greedy tokens, logits, the most likely token of every position, and the keys
 * that each token's indexers keep. */
#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "forward_rig.h"
#include "support/check_main.h"
#include "support/oracle.h"

#define CHUNK     256
#define PAGE      64
#define N_NEW     16
#define TOLERANCE 1e-4 /* of the logits' standard deviation */

/* What is under way, and what was compared so far. */
typedef struct state {
    oracle_t *oracle;
    int prompt;
    int64_t n_kept, n_near, n_sets;
} state_t;

static const pl_safetensor_t *find(const state_t *state, const char *what,
                                   int layer)
{
    return oracle_find(state->oracle, what, state->prompt, layer);
}

/* ---- keys ---- */

static bool holds(const int32_t *set, int64_t n, int32_t position)
{
    for (int64_t i = 0; i < n; i++) {
        if (set[i] == position) {
            return true;
        }
    }
    return false;
}

/* Keys within 1e-6 of the worst that is kept may be kept or not. */
static void see(void *context, int32_t layer, int32_t position,
                const int32_t *positions, int32_t n, const float *scores,
                int32_t n_keys)
{
    state_t *state              = context;
    const pl_safetensor_t *kept = find(state, "topk", layer);
    float least = INFINITY, most = 0.0F;
    const int32_t *want;
    int64_t width;

    if ((kept == NULL) || (position >= kept->shape[0])) {
        return;
    }
    width = kept->shape[1];
    want  = (const int32_t *)kept->bytes + (int64_t)position * width;
    for (int32_t i = 0; i < n; i++) {
        least = fminf(least, scores[positions[i]]);
    }
    for (int32_t i = 0; i < n_keys; i++) {
        most = fmaxf(most, fabsf(scores[i]));
    }
    for (int32_t s = 0; s < n_keys; s++) {
        bool here  = holds(positions, n, s);
        bool there = holds(want, width, s);

        ck_assert_msg((here == there) ||
                          (fabsf(scores[s] - least) <= 1e-6F * most),
                      "prompt %d, layer %d, position %d: key %d is kept %s",
                      state->prompt, (int)layer, (int)position, (int)s,
                      here ? "here" : "there");
        state->n_kept += here ? 1 : 0;
        state->n_near += here != there ? 1 : 0;
    }
    state->n_sets++;
}

/* ---- logits and tokens ---- */

static double spread(const float *values, int64_t n)
{
    double mean = 0.0, variance = 0.0;

    for (int64_t i = 0; i < n; i++) {
        mean += (double)values[i] / (double)n;
    }
    for (int64_t i = 0; i < n; i++) {
        variance +=
            ((double)values[i] - mean) * ((double)values[i] - mean) / (double)n;
    }
    return sqrt(variance);
}

static void compare_logits(const state_t *state, const float *logits)
{
    const pl_safetensor_t *want = find(state, "logits", -1);
    const float *values;
    double scale, worst = 0.0;

    ck_assert_ptr_nonnull(want);
    ck_assert_int_eq(want->shape[0], state->oracle->config.vocab_size);
    values = want->bytes;
    scale  = spread(values, want->shape[0]);
    for (int64_t i = 0; i < want->shape[0]; i++) {
        worst = fmax(worst, fabs((double)logits[i] - (double)values[i]));
    }
    printf("  prompt %d: logits within %.1e of their spread\n", state->prompt,
           worst / scale);
    ck_assert_double_le(worst, TOLERANCE * scale);
}

/* At each position the most likely token, unless two are as good as equal. */
static void compare_argmax(const state_t *state, const rig_t *rig,
                           int32_t n_prompt)
{
    const pl_safetensor_t *want = find(state, "argmax", -1);
    int32_t vocab               = state->oracle->config.vocab_size;

    ck_assert_ptr_nonnull(want);
    ck_assert_int_eq(want->shape[0], n_prompt);
    for (int32_t t = 0; t < n_prompt; t++) {
        const float *logits = rig_logits(rig, t);
        int32_t token       = ((const int32_t *)want->bytes)[t];
        int32_t mine        = pl_greedy(logits, vocab);

        ck_assert_msg((mine == token) ||
                          ((double)(logits[mine] - logits[token]) <=
                           TOLERANCE * spread(logits, vocab)),
                      "prompt %d: token %d instead of %d at %d", state->prompt,
                      (int)mine, (int)token, (int)t);
    }
}

/* The prompt, then its greedy continuation. */
static void check_prompt(state_t *state)
{
    const pl_safetensor_t *greedy = find(state, "greedy", -1);
    const oracle_t *oracle        = state->oracle;
    int32_t n_prompt              = oracle->lengths[state->prompt];
    int32_t *tokens = calloc((size_t)n_prompt + N_NEW, sizeof(*tokens));
    rig_t *rig = rig_open(&oracle->config, oracle->weights, PL_KV_F32, PAGE,
                          tokens, n_prompt + N_NEW, NULL);

    ck_assert_ptr_nonnull(greedy);
    ck_assert_int_eq(greedy->shape[0], N_NEW);
    memcpy(tokens, oracle->prompts[state->prompt],
           (size_t)n_prompt * sizeof(*tokens));
    rig->ranks[0]->ops->watch(rig->ranks[0], see, state);
    for (int32_t first = 0; first < n_prompt; first += CHUNK) {
        int32_t n = n_prompt - first;

        rig_chunk(rig, first, n < CHUNK ? n : CHUNK, NULL);
    }
    rig->ranks[0]->ops->watch(rig->ranks[0], NULL, NULL);
    compare_logits(state, rig_logits(rig, n_prompt - 1));
    compare_argmax(state, rig, n_prompt);
    for (int32_t i = 0; i < N_NEW; i++) {
        int32_t at = n_prompt + i;

        tokens[at] =
            pl_greedy(rig_logits(rig, at - 1), oracle->config.vocab_size);
        ck_assert_int_eq(tokens[at], ((const int32_t *)greedy->bytes)[i]);
        rig_chunk(rig, at, 1, NULL);
    }
    rig_close(rig);
    free(tokens);
}

START_TEST(as_transformers_computes_it)
{
    state_t state = {.oracle = oracle_open(_i)};

    if (state.oracle == NULL) {
        return;
    }
    printf("checkpoint %d\n", _i);
    for (; state.prompt < state.oracle->n_prompts; state.prompt++) {
        check_prompt(&state);
    }
    ck_assert_int_gt(state.n_sets, 0);
    printf("  %" PRId64 " selections, %" PRId64 " keys, %" PRId64
           " of them near ties that differ\n",
           state.n_sets, state.n_kept, state.n_near);
    oracle_close(state.oracle);
}
END_TEST

static TCase *oracle_case(void)
{
    TCase *tcase = tcase_create("oracle");

    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(tcase, as_transformers_computes_it, 0, ORACLES);
    return tcase;
}

PL_CHECK_MAIN("oracle", oracle_case())
