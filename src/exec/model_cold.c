/* A request from its tokens alone: no cache, no pages of others, no ranks. */
#include <stdlib.h>
#include <string.h>

#include "exec/model_internal.h"
#include "exec/pages.h"

#define COLD_PIECE 256 /* prompt tokens at a time */
#define COLD_STEPS 16  /* or new ones */
#define COLD_PAGE  64  /* the digest does not depend on it */

void pl_model_cold_close(pl_model_cold_t *state)
{
    if (state->device != NULL) {
        (void)pl_pages_drain(state->device); /* who reads what is freed */
        pl_forward_close(state->forward);
        pl_device_free(state->device, state->store.bytes);
    }
    free(state->slots);
    free(state->tokens);
    free(state->positions);
    free(state->rows);
    memset(state, 0, sizeof(*state));
}

static pl_status_t make_room(const pl_model_params_t *params,
                             pl_model_cold_t *state, int32_t n_tokens)
{
    pl_store_layout_t layout =
        pl_model_layout(params->config, params->kv_dtype, COLD_PAGE);
    void *bytes = NULL;

    layout.n_slots = (n_tokens + COLD_PAGE - 1) / COLD_PAGE;
    state->device  = params->device;
    PL_TRY(pl_device_alloc(state->device, PL_MEMORY_DEVICE,
                           pl_store_bytes(&layout), "a cold request", &bytes));
    state->store     = pl_store_make(&layout, bytes, NULL, NULL);
    state->slots     = calloc((size_t)layout.n_slots, sizeof(*state->slots));
    state->tokens    = calloc(COLD_PIECE, sizeof(*state->tokens));
    state->positions = calloc(COLD_PIECE, sizeof(*state->positions));
    state->rows      = calloc(COLD_PIECE, sizeof(*state->rows));
    if ((state->slots == NULL) || (state->tokens == NULL) ||
        (state->positions == NULL) || (state->rows == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (int32_t page = 0; page < layout.n_slots; page++) {
        state->slots[page] = page;
    }
    PL_TRY(pl_model_forward(params, &state->forward));
    PL_TRY(state->forward->ops->reserve(state->forward, COLD_PIECE, n_tokens));
    state->room = n_tokens;
    return PL_OK;
}

/* One layer of one store, as rows are put into it and as they are read. */
static void pages_and_view(const pl_model_cold_t *state, int32_t layer,
                           int which, int32_t n_tokens,
                           pl_forward_pages_t *pages, pl_view_t *view)
{
    const pl_store_t *store = &state->store;

    *pages = (pl_forward_pages_t){0};
    *view  = (pl_view_t){0};
    if (pl_store_has(&store->layout, which, layer)) {
        pages->pages   = pl_store_page(store, which, layer, 0);
        pages->stride  = store->stride[which];
        pages->form    = store->form[which];
        view->bytes    = pages->pages;
        view->stride   = pages->stride;
        view->form     = pages->form;
        view->rows     = state->slots;
        view->n_tokens = n_tokens;
    }
}

/* The next n rows, whose tokens are in state->tokens.  Page p lies in slot p,
 * so a row is stored where it stands in the request. */
static pl_status_t forward(pl_model_cold_t *state, int32_t first, int32_t n)
{
    const pl_forward_ops_t *ops = state->forward->ops;

    for (int32_t i = 0; i < n; i++) {
        state->positions[i] = first + i;
        state->rows[i]      = first + i;
    }
    PL_TRY(ops->begin(state->forward, state->tokens, state->positions, n));
    for (int32_t layer = 0; layer < state->store.layout.n_layers; layer++) {
        pl_forward_pages_t pages[PL_STORES];
        pl_view_t views[PL_STORES];

        for (int which = 0; which < PL_STORES; which++) {
            pages_and_view(state, layer, which, first + n, &pages[which],
                           &views[which]);
        }
        PL_TRY(ops->store(state->forward, layer, 0, n, state->rows,
                          &pages[PL_STORE_LATENT], &pages[PL_STORE_INDEX]));
        PL_TRY(ops->mix(state->forward, layer, &views[PL_STORE_LATENT],
                        &views[PL_STORE_INDEX]));
    }
    return PL_OK;
}

/* Rows of all pieces; the host waits. */
static pl_status_t take_digest(const pl_model_cold_t *state, int32_t n_tokens,
                               uint64_t *digest_p)
{
    pl_digests_t digests = {0};
    pl_status_t status   = PL_OK;

    for (int32_t first = 0; (status == PL_OK) && (first < n_tokens);
         first += COLD_PAGE) {
        int32_t rows = n_tokens - first;

        status =
            pl_digests_add_page(&digests, &state->store, first / COLD_PAGE,
                                rows < COLD_PAGE ? rows : COLD_PAGE, first);
    }
    if (status == PL_OK) {
        status = pl_digests_take(&digests, state->device);
    }
    *digest_p = status == PL_OK ? pl_digests_sum(&digests) : 0;
    pl_digests_free(&digests);
    return status;
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
    PL_TRY(forward(state, cold->n_done, n));
    cold->n_done += n;
    if (cold->n_done == cold->n_prompt) {
        PL_TRY(state->forward->ops->end(state->forward, n - 1, NULL,
                                        &cold->tokens[0]));
        PL_TRY(take_digest(state, cold->n_prompt, &cold->digest));
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
        PL_TRY(forward(state, cold->n_done, 1));
        PL_TRY(state->forward->ops->end(state->forward, 0, NULL,
                                        &cold->tokens[made + 1]));
        cold->n_done++;
    }
    return PL_OK;
}
