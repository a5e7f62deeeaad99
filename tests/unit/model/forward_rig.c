#include "forward_rig.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static pl_store_layout_t layout_of(const pl_model_config_t *config,
                                   pl_kv_dtype_t dtype, int32_t page_tokens,
                                   int32_t n_slots)
{
    pl_row_layout_t rows     = pl_row_layout_make(dtype, config->kv_lora,
                                                  config->rope, config->index_dim);
    pl_store_layout_t layout = {.page_tokens       = page_tokens,
                                .n_layers          = config->n_layers,
                                .latent_row_bytes  = rows.latent_bytes,
                                .index_key_bytes   = rows.index_key_bytes,
                                .index_scale_bytes = rows.index_scale_bytes,
                                .n_slots           = n_slots,
                                .has_index =
                                    (const uint8_t *)config->full_indexer};

    return layout;
}

/* Some slots stay empty; all bytes are poison until they are written. */
static void open_store(rig_t *rig, pl_kv_dtype_t dtype, int32_t page_tokens,
                       pl_rng_t *rng)
{
    int32_t n_pages = (rig->n_tokens + page_tokens - 1) / page_tokens;
    int32_t n_slots = n_pages + 2;
    pl_store_layout_t layout =
        layout_of(rig->config, dtype, page_tokens, n_slots);
    uint8_t *bytes = malloc(pl_store_bytes(&layout));

    memset(bytes, 0xFF, pl_store_bytes(&layout));
    rig->store = pl_store_make(&layout, bytes, NULL, NULL);
    rig->slots = calloc((size_t)n_slots, sizeof(*rig->slots));
    for (int32_t i = 0; i < n_slots; i++) {
        int32_t j =
            rng == NULL ? i : (int32_t)pl_rng_below(rng, (uint64_t)i + 1);

        rig->slots[i] = rig->slots[j];
        rig->slots[j] = i;
    }
}

rig_t *rig_open(const pl_model_config_t *config, const pl_weights_t *weights,
                pl_kv_dtype_t dtype, int32_t page_tokens, int32_t *tokens,
                int32_t n_tokens, pl_rng_t *rng)
{
    rig_t *rig = calloc(1, sizeof(*rig));

    rig->config   = config;
    rig->n_tokens = n_tokens;
    rig->tokens   = tokens;
    rig->logits   = calloc((size_t)n_tokens * (size_t)config->vocab_size,
                           sizeof(*rig->logits));
    rig->owner    = calloc((size_t)n_tokens, sizeof(*rig->owner));
    rig->local    = calloc((size_t)n_tokens, sizeof(*rig->local));
    open_store(rig, dtype, page_tokens, rng);
    for (int r = 0; r < RIG_RANKS; r++) {
        ck_assert_int_eq(
            pl_forward_open(config, weights, dtype, NULL, &rig->ranks[r]),
            PL_OK);
    }
    return rig;
}

void rig_close(rig_t *rig)
{
    for (int r = 0; r < RIG_RANKS; r++) {
        pl_forward_close(rig->ranks[r]);
    }
    free(rig->store.bytes);
    free(rig->slots);
    free(rig->logits);
    free(rig->owner);
    free(rig->local);
    free(rig);
}

/* Hand out the chunk's tokens. */
static void begin(rig_t *rig, int32_t first, int32_t n, const int32_t *owner)
{
    for (int r = 0; r < RIG_RANKS; r++) {
        int32_t *tokens    = calloc((size_t)n, sizeof(*tokens));
        int32_t *positions = calloc((size_t)n, sizeof(*positions));
        int32_t mine       = 0;

        for (int32_t t = first; t < first + n; t++) {
            rig->owner[t] = owner == NULL ? 0 : owner[t];
            if (rig->owner[t] == r) {
                tokens[mine]    = rig->tokens[t];
                positions[mine] = t;
                rig->local[t]   = mine++;
            }
        }
        ck_assert_int_eq(
            rig->ranks[r]->ops->reserve(rig->ranks[r], mine, rig->n_tokens),
            PL_OK);
        ck_assert_int_eq(
            rig->ranks[r]->ops->begin(rig->ranks[r], tokens, positions, mine),
            PL_OK);
        free(tokens);
        free(positions);
    }
}

static uint8_t *row_at(const rig_t *rig, int which, int32_t layer, int32_t t,
                       bool scale)
{
    const pl_page_form_t *form = &rig->store.form[which];
    uint8_t *page              = pl_store_page(&rig->store, which, layer,
                                               rig->slots[t / form->page_tokens]);

    return page + (scale ? pl_row_scale(form, t % form->page_tokens)
                         : pl_row_key(form, t % form->page_tokens));
}

static pl_forward_pages_t pages_of(const rig_t *rig, int which, int32_t layer)
{
    pl_forward_pages_t pages = {0};

    if (pl_store_has(&rig->store.layout, which, layer)) {
        pages.pages  = pl_store_page(&rig->store, which, layer, 0);
        pages.stride = rig->store.stride[which];
        pages.form   = rig->store.form[which];
    }
    return pages;
}

static void put(rig_t *rig, int32_t layer, int32_t t)
{
    pl_forward_t *rank        = rig->ranks[rig->owner[t]];
    pl_forward_pages_t latent = pages_of(rig, PL_STORE_LATENT, layer);
    pl_forward_pages_t index  = pages_of(rig, PL_STORE_INDEX, layer);
    int32_t page_tokens       = latent.form.page_tokens;
    int32_t row = rig->slots[t / page_tokens] * page_tokens + t % page_tokens;

    ck_assert_int_eq(
        rank->ops->store(rank, layer, rig->local[t], 1, &row, &latent, &index),
        PL_OK);
}

static pl_view_t view_of(const rig_t *rig, int which, int32_t layer,
                         int32_t n_tokens)
{
    pl_view_t view = {0};

    if (pl_store_has(&rig->store.layout, which, layer)) {
        view.bytes    = pl_store_page(&rig->store, which, layer, 0);
        view.stride   = rig->store.stride[which];
        view.rows     = rig->slots;
        view.form     = rig->store.form[which];
        view.n_tokens = n_tokens;
    }
    return view;
}

void rig_chunk(rig_t *rig, int32_t first, int32_t n, const int32_t *owner)
{
    begin(rig, first, n, owner);
    for (int32_t layer = 0; layer < rig->config->n_layers; layer++) {
        pl_view_t latent = view_of(rig, PL_STORE_LATENT, layer, first + n);
        pl_view_t index  = view_of(rig, PL_STORE_INDEX, layer, first + n);

        for (int32_t t = first; t < first + n; t++) {
            put(rig, layer, t);
        }
        for (int r = 0; r < RIG_RANKS; r++) {
            ck_assert_int_eq(
                rig->ranks[r]->ops->mix(rig->ranks[r], layer, &latent, &index),
                PL_OK);
        }
    }
    for (int32_t t = first; t < first + n; t++) {
        pl_forward_t *rank = rig->ranks[rig->owner[t]];
        float *logits =
            rig->logits + (size_t)t * (size_t)rig->config->vocab_size;
        int32_t token = -1;

        ck_assert_int_eq(rank->ops->end(rank, rig->local[t], logits, &token),
                         PL_OK);
        ck_assert_int_eq(token, pl_greedy(logits, rig->config->vocab_size));
    }
}

const float *rig_logits(const rig_t *rig, int32_t position)
{
    return rig->logits + (size_t)position * (size_t)rig->config->vocab_size;
}

void rig_same_rows(const rig_t *a, const rig_t *b)
{
    for (int which = 0; which < PL_STORES; which++) {
        const pl_page_form_t *form = &a->store.form[which];

        for (int32_t layer = 0; layer < a->config->n_layers; layer++) {
            if (!pl_store_has(&a->store.layout, which, layer)) {
                continue;
            }
            for (int32_t t = 0; t < a->n_tokens; t++) {
                ck_assert_msg((memcmp(row_at(a, which, layer, t, false),
                                      row_at(b, which, layer, t, false),
                                      (size_t)form->key_bytes) == 0) &&
                                  (memcmp(row_at(a, which, layer, t, true),
                                          row_at(b, which, layer, t, true),
                                          (size_t)form->scale_bytes) == 0),
                              "row %d, layer %d, store %d", (int)t, (int)layer,
                              which);
            }
        }
    }
}
