#include "exec/model.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/array.h"
#include "exec/model_internal.h"

/* has_index of a store layout is the config's, byte for byte. */
_Static_assert(sizeof(bool) == sizeof(uint8_t), "a bool is a byte");

typedef struct model {
    pl_compute_t compute;
    pl_model_params_t params;
    pl_forward_t *chunk; /* this rank's share of a chunk */
    pl_forward_t *step;  /* one token of a request that is decoded */
    pl_model_cold_t cold;
    float *logits; /* [vocab_size] */

    /* the chunk under way */
    int32_t request;
    PL_ARRAY(int32_t) tokens;    /* own ones, ascending by position */
    PL_ARRAY(int32_t) positions; /* of those */
    PL_ARRAY(int32_t) rows;      /* scratch: where they are stored */
} model_t;

pl_store_layout_t pl_model_layout(const pl_model_config_t *config,
                                  pl_kv_dtype_t kv_dtype, int32_t page_tokens)
{
    pl_row_layout_t rows     = pl_row_layout_make(kv_dtype, config->kv_lora,
                                                  config->rope, config->index_dim);
    pl_store_layout_t layout = {.page_tokens       = page_tokens,
                                .n_layers          = config->n_layers,
                                .latent_row_bytes  = rows.latent_bytes,
                                .index_key_bytes   = rows.index_key_bytes,
                                .index_scale_bytes = rows.index_scale_bytes,
                                .has_index =
                                    (const uint8_t *)config->full_indexer};

    return layout;
}

pl_status_t pl_model_check_tokens(const pl_model_params_t *params,
                                  int32_t request, int32_t first,
                                  const int32_t *tokens, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        if ((tokens[i] < 0) || (tokens[i] >= params->config->vocab_size)) {
            pl_log(params->log, PL_LOG_ERROR,
                   "request %" PRId32 ": token %" PRId32 " at position %" PRId32
                   " is none of the model's %" PRId32
                   ": use a trace made for this model",
                   request, tokens[i], first + i, params->config->vocab_size);
            return PL_ERR_INPUT;
        }
    }
    return PL_OK;
}

/* ---- prefill ---- */

/* Own tokens of page own_pages[i] of the chunk: from, and how many. */
static int32_t page_span(const model_t *model, const pl_chunk_t *chunk,
                         int32_t i, int32_t *first_p)
{
    int32_t page_tokens = model->params.page_tokens;
    int32_t first       = chunk->own_pages[i] * page_tokens;
    int32_t left        = chunk->first_token + chunk->n_tokens - first;

    *first_p = first;
    return left < page_tokens ? left : page_tokens;
}

static pl_status_t model_reserve(pl_compute_t *compute, const pl_chunk_t *chunk)
{
    model_t *model = (model_t *)compute;
    int32_t n      = 0;

    for (int32_t i = 0; i < chunk->n_own_pages; i++) {
        int32_t first;

        n += page_span(model, chunk, i, &first);
    }
    PL_TRY(PL_ARRAY_RESERVE(&model->tokens, (size_t)n));
    PL_TRY(PL_ARRAY_RESERVE(&model->positions, (size_t)n));
    PL_TRY(PL_ARRAY_RESERVE(&model->rows, (size_t)n));
    return model->chunk->ops->reserve(model->chunk, n,
                                      model->params.max_tokens);
}

static pl_status_t model_begin(pl_compute_t *compute, const pl_chunk_t *chunk)
{
    model_t *model                  = (model_t *)compute;
    const pl_token_reader_t *reader = &model->params.tokens;

    model->request     = chunk->request;
    model->tokens.n    = 0;
    model->positions.n = 0;
    for (int32_t i = 0; i < chunk->n_own_pages; i++) {
        int32_t first;
        int32_t n       = page_span(model, chunk, i, &first);
        int32_t *tokens = model->tokens.items + model->tokens.n;

        reader->read(reader->context, chunk->request, first, n, tokens);
        PL_TRY(pl_model_check_tokens(&model->params, chunk->request, first,
                                     tokens, n));
        for (int32_t t = 0; t < n; t++) {
            model->positions.items[model->positions.n++] = first + t;
        }
        model->tokens.n += (size_t)n;
    }
    return model->chunk->ops->begin(model->chunk, model->tokens.items,
                                    model->positions.items,
                                    (int32_t)model->tokens.n);
}

/* Which of the chunk's own tokens is at `position`. */
static int32_t own_index(const model_t *model, int32_t position)
{
    size_t low = 0, high = model->positions.n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (model->positions.items[middle] < position) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    assert((low < model->positions.n) &&
           (model->positions.items[low] == position));
    return (int32_t)low;
}

static pl_status_t model_write(pl_compute_t *compute, const pl_chunk_t *chunk,
                               int32_t layer, const pl_rows_t *rows)
{
    model_t *model      = (model_t *)compute;
    int32_t page_tokens = model->params.page_tokens;
    int32_t first       = own_index(model, rows->first_token);

    (void)chunk;
    for (int32_t i = 0; i < rows->n_tokens; i++) {
        model->rows.items[i] =
            rows->slots[i / page_tokens] * page_tokens + i % page_tokens;
    }
    return model->chunk->ops->store(
        model->chunk, layer, first, rows->n_tokens, model->rows.items,
        &rows->to[PL_STORE_LATENT], &rows->to[PL_STORE_INDEX]);
}

static pl_status_t model_read(pl_compute_t *compute, const pl_chunk_t *chunk,
                              int32_t layer, const pl_view_t *views)
{
    model_t *model = (model_t *)compute;

    (void)chunk;
    return model->chunk->ops->mix(model->chunk, layer, &views[PL_STORE_LATENT],
                                  &views[PL_STORE_INDEX]);
}

static pl_status_t model_end(pl_compute_t *compute, const pl_chunk_t *chunk,
                             uint64_t digest, int32_t *token_p)
{
    model_t *model                      = (model_t *)compute;
    const pl_model_observer_t *observer = &model->params.observer;
    int32_t n_prompt                    = chunk->first_token + chunk->n_tokens;

    (void)digest;
    PL_TRY(model->chunk->ops->end(
        model->chunk, own_index(model, n_prompt - 1),
        observer->logits != NULL ? model->logits : NULL, token_p));
    if (observer->logits != NULL) {
        observer->logits(observer->context, chunk->request, n_prompt,
                         model->logits, model->params.config->vocab_size);
    }
    return PL_OK;
}

static void tell_selected(void *context, int32_t layer, int32_t position,
                          const int32_t *positions, int32_t n,
                          const float *scores, int32_t n_keys)
{
    const model_t *model                = context;
    const pl_model_observer_t *observer = &model->params.observer;

    observer->selected(observer->context, model->request, layer, position,
                       positions, n, scores, n_keys);
}

/* ---- decode ---- */

static pl_status_t model_step_write(pl_compute_t *compute,
                                    const pl_step_t *step, int32_t layer,
                                    const pl_rows_t *row)
{
    model_t *model      = (model_t *)compute;
    int32_t page_tokens = model->params.page_tokens;
    int32_t at = row->slots[0] * page_tokens + step->position % page_tokens;

    if (layer == 0) {
        PL_TRY(pl_model_check_tokens(&model->params, step->request,
                                     step->position, &step->token, 1));
        PL_TRY(model->step->ops->begin(model->step, &step->token,
                                       &step->position, 1));
    }
    return model->step->ops->store(model->step, layer, 0, 1, &at,
                                   &row->to[PL_STORE_LATENT],
                                   &row->to[PL_STORE_INDEX]);
}

static pl_status_t model_step_read(pl_compute_t *compute, const pl_step_t *step,
                                   int32_t layer, const pl_view_t *views)
{
    model_t *model = (model_t *)compute;

    (void)step;
    return model->step->ops->mix(model->step, layer, &views[PL_STORE_LATENT],
                                 &views[PL_STORE_INDEX]);
}

static pl_status_t model_step_end(pl_compute_t *compute, const pl_step_t *step,
                                  uint64_t digest, int32_t *token_p)
{
    model_t *model = (model_t *)compute;

    (void)step;
    (void)digest;
    return model->step->ops->end(model->step, 0, NULL, token_p);
}

static pl_status_t model_cold(pl_compute_t *compute, pl_cold_t *cold)
{
    model_t *model = (model_t *)compute;

    return pl_model_cold_piece(&model->params, &model->cold, cold);
}

/* ---- lifecycle ---- */

static void model_close(pl_compute_t *compute)
{
    model_t *model = (model_t *)compute;

    pl_model_cold_close(&model->cold);
    pl_forward_close(model->chunk);
    pl_forward_close(model->step);
    PL_ARRAY_FREE(&model->tokens);
    PL_ARRAY_FREE(&model->positions);
    PL_ARRAY_FREE(&model->rows);
    free(model->logits);
    free(model);
}

static const pl_compute_ops_t model_ops = {.name       = "model",
                                           .reserve    = model_reserve,
                                           .begin      = model_begin,
                                           .write      = model_write,
                                           .read       = model_read,
                                           .end        = model_end,
                                           .step_write = model_step_write,
                                           .step_read  = model_step_read,
                                           .step_end   = model_step_end,
                                           .close      = model_close,
                                           .cold       = model_cold};

pl_status_t pl_model_forward(const pl_model_params_t *params,
                             pl_forward_t **forward_p)
{
    if (params->forward.open != NULL) {
        return params->forward.open(params->forward.context, params->device,
                                    params->config, params->weights,
                                    params->kv_dtype, params->log, forward_p);
    }
    if (!params->device->addressable) {
        pl_log(params->log, PL_LOG_ERROR,
               "the forward pass of the host cannot reach the memory of device "
               "%s: give one of that device, or --device cpu",
               params->device->ops->name);
        return PL_ERR_ARGUMENT;
    }
    return pl_forward_open(params->config, params->weights, params->kv_dtype,
                           params->log, forward_p);
}

static pl_status_t open_forwards(model_t *model)
{
    const pl_model_params_t *params = &model->params;

    PL_TRY(pl_model_forward(params, &model->chunk));
    PL_TRY(pl_model_forward(params, &model->step));
    if (params->observer.selected != NULL) {
        model->chunk->ops->watch(model->chunk, tell_selected, model);
    }
    return model->step->ops->reserve(model->step, 1, params->max_tokens);
}

pl_status_t pl_model_open(const pl_model_params_t *params,
                          pl_compute_t **compute_p)
{
    model_t *model     = calloc(1, sizeof(*model));
    pl_status_t status = PL_ERR_MEMORY;

    if (model == NULL) {
        return PL_ERR_MEMORY;
    }
    model->compute.ops = &model_ops;
    model->params      = *params;

    model->compute.on_device = params->forward.open != NULL;
    model->logits =
        malloc((size_t)params->config->vocab_size * sizeof(*model->logits));
    if (model->logits == NULL) {
        goto err;
    }
    PL_TRY_GOTO(status, open_forwards(model), err);
    *compute_p = &model->compute;
    return PL_OK;

err:
    model_close(&model->compute);
    return status;
}
