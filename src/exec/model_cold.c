/* A request from its tokens alone: no cache, no pages of others, no ranks. */
#include <stdlib.h>
#include <string.h>

#include "exec/model_internal.h"

#define COLD_PIECE 256 /* prompt tokens at a time */
#define COLD_STEPS 16  /* or new ones */
#define COLD_PAGE  64  /* the digest does not depend on it */

void pl_model_cold_close(pl_model_cold_t *state)
{
    pl_forward_close(state->forward);
    free(state->store.bytes);
    free(state->slots);
    free(state->tokens);
    free(state->positions);
    free(state->logits);
    memset(state, 0, sizeof(*state));
}

static pl_status_t make_room(const pl_model_params_t *params,
                             pl_model_cold_t *state, int32_t n_tokens)
{
    pl_store_layout_t layout =
        pl_model_layout(params->config, params->kv_dtype, COLD_PAGE);
    uint8_t *bytes;

    layout.n_slots = (n_tokens + COLD_PAGE - 1) / COLD_PAGE;
    bytes          = calloc(1, pl_store_bytes(&layout));
    if (bytes == NULL) {
        return PL_ERR_MEMORY;
    }
    state->store     = pl_store_make(&layout, bytes, NULL, NULL);
    state->slots     = calloc((size_t)layout.n_slots, sizeof(*state->slots));
    state->tokens    = calloc(COLD_PIECE, sizeof(*state->tokens));
    state->positions = calloc(COLD_PIECE, sizeof(*state->positions));
    state->logits =
        calloc((size_t)params->config->vocab_size, sizeof(*state->logits));
    if ((state->slots == NULL) || (state->tokens == NULL) ||
        (state->positions == NULL) || (state->logits == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (int32_t page = 0; page < layout.n_slots; page++) {
        state->slots[page] = page;
    }
    PL_TRY(pl_forward_open(params->config, params->weights, params->kv_dtype,
                           params->log, &state->forward));
    PL_TRY(pl_forward_reserve(state->forward, COLD_PIECE, n_tokens));
    state->room = n_tokens;
    return PL_OK;
}

/* The next n rows, whose tokens are in state->tokens. */
static void forward(pl_model_cold_t *state, int32_t first, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        state->positions[i] = first + i;
    }
    pl_forward_begin(state->forward, state->tokens, state->positions, n);
    for (int32_t layer = 0; layer < state->store.layout.n_layers; layer++) {
        pl_view_t views[PL_STORES];

        for (int32_t i = 0; i < n; i++) {
            pl_model_put(state->forward, layer, i, &state->store,
                         (first + i) / COLD_PAGE, (first + i) % COLD_PAGE);
        }
        pl_model_views(&state->store, layer, state->slots, first + n, views);
        pl_forward_mix(state->forward, layer, &views[PL_STORE_LATENT],
                       &views[PL_STORE_INDEX]);
    }
}

/* What follows token i of the piece. */
static int32_t next_token(const pl_model_params_t *params,
                          pl_model_cold_t *state, int32_t i)
{
    pl_forward_logits(state->forward, i, state->logits);
    return pl_greedy(state->logits, params->config->vocab_size);
}

static uint64_t digest_of(const pl_store_t *store, int32_t n_tokens)
{
    uint64_t sum = 0;

    for (int which = 0; which < PL_STORES; which++) {
        for (int32_t layer = 0; layer < store->layout.n_layers; layer++) {
            uint64_t base = pl_digest_base(layer, which);

            if (!pl_store_has(&store->layout, which, layer)) {
                continue;
            }
            for (int32_t first = 0; first < n_tokens; first += COLD_PAGE) {
                int32_t rows = n_tokens - first;

                sum += pl_digest_rows(
                    &store->form[which],
                    pl_store_page(store, which, layer, first / COLD_PAGE), 0,
                    rows < COLD_PAGE ? rows : COLD_PAGE, first, base);
            }
        }
    }
    return sum;
}

static pl_status_t prompt_piece(const pl_model_params_t *params,
                                pl_model_cold_t *state, pl_cold_t *cold)
{
    int32_t n = cold->n_prompt - cold->n_done;

    n = n < COLD_PIECE ? n : COLD_PIECE;
    params->tokens.read(params->tokens.context, cold->request, cold->n_done, n,
                        state->tokens);
    PL_TRY(pl_model_check_tokens(params, cold->request, cold->n_done,
                                 state->tokens, n));
    forward(state, cold->n_done, n);
    cold->n_done += n;
    if (cold->n_done == cold->n_prompt) {
        cold->tokens[0] = next_token(params, state, n - 1);
        cold->digest    = digest_of(&state->store, cold->n_prompt);
    }
    return PL_OK;
}

pl_status_t pl_model_cold_piece(const pl_model_params_t *params,
                                pl_model_cold_t *state, pl_cold_t *cold)
{
    int32_t n_tokens = cold->n_prompt + cold->n_new;

    if ((cold->n_done == 0) && (n_tokens > state->room)) {
        pl_model_cold_close(state);
        PL_TRY(make_room(params, state, n_tokens));
    }
    if (cold->n_done < cold->n_prompt) {
        return prompt_piece(params, state, cold);
    }
    for (int i = 0; (i < COLD_STEPS) && !pl_cold_is_done(cold); i++) {
        int32_t made = cold->n_done - cold->n_prompt;

        state->tokens[0] = cold->tokens[made];
        forward(state, cold->n_done, 1);
        cold->tokens[made + 1] = next_token(params, state, 0);
        cold->n_done++;
    }
    return PL_OK;
}
