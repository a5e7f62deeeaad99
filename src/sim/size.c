#include "sim/size.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

#include "pool/store.h"

/* A layer's view is read while the next one's is filled. */
enum { VIEW_SLOTS = 2 };

/* Bytes of one page and layer, as the pool lays it. */
typedef struct page {
    int64_t latent, index;
} page_t;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t full_layers(const pl_model_config_t *model)
{
    int64_t n = 0;

    for (int32_t i = 0; i < model->n_layers; i++) {
        n += model->full_indexer[i] ? 1 : 0;
    }
    return n;
}

static pl_row_layout_t rows_of(const pl_size_params_t *params)
{
    const pl_model_config_t *model = params->model;

    return pl_row_layout_make(params->kv_dtype, model->kv_lora, model->rope,
                              model->index_dim);
}

static page_t page_of(pl_row_layout_t rows, int32_t page_tokens)
{
    pl_store_layout_t layout = {.page_tokens       = page_tokens,
                                .n_layers          = 1,
                                .latent_row_bytes  = rows.latent_bytes,
                                .index_key_bytes   = rows.index_key_bytes,
                                .index_scale_bytes = rows.index_scale_bytes};

    return (page_t){(int64_t)pl_store_stride(&layout, PL_STORE_LATENT),
                    (int64_t)pl_store_stride(&layout, PL_STORE_INDEX)};
}

int64_t pl_size_page_bytes(const pl_model_config_t *model,
                           pl_kv_dtype_t kv_dtype, int32_t page_tokens,
                           int32_t mtp_layers)
{
    page_t page = page_of(pl_row_layout_make(kv_dtype, model->kv_lora,
                                             model->rope, model->index_dim),
                          page_tokens);

    return (model->n_layers + mtp_layers) * page.latent +
           (full_layers(model) + mtp_layers) * page.index;
}

int64_t pl_size_run_bytes(const pl_model_config_t *model,
                          pl_kv_dtype_t kv_dtype, int32_t page_tokens,
                          int32_t mtp_layers, int n_ranks)
{
    uint8_t has_index[PL_MAX_LAYERS];
    pl_row_layout_t rows     = pl_row_layout_make(kv_dtype, model->kv_lora,
                                                  model->rope, model->index_dim);
    pl_store_layout_t layout = {.page_tokens = page_tokens,
                                .n_layers    = model->n_layers + mtp_layers,
                                .latent_row_bytes  = rows.latent_bytes,
                                .index_key_bytes   = rows.index_key_bytes,
                                .index_scale_bytes = rows.index_scale_bytes,
                                .has_index         = has_index};

    assert(layout.n_layers <= PL_MAX_LAYERS);
    for (int32_t i = 0; i < layout.n_layers; i++) {
        has_index[i] = (i >= model->n_layers) || model->full_indexer[i];
    }
    return (int64_t)pl_store_run_bytes(&layout, n_ranks);
}

static void count_tokens(const pl_size_params_t *params, pl_size_t *size)
{
    pl_row_layout_t rows = rows_of(params);
    int64_t index_row    = rows.index_key_bytes + rows.index_scale_bytes;
    int64_t n_full       = full_layers(params->model);

    size->latent_token_bytes = params->model->n_layers * rows.latent_bytes;
    size->index_token_bytes  = n_full * index_row;
    size->mtp_token_bytes =
        params->mtp_layers * (rows.latent_bytes + index_row);
    size->token_bytes = size->latent_token_bytes + size->index_token_bytes +
                        size->mtp_token_bytes;
    size->latent_layers = params->model->n_layers + params->mtp_layers;
    size->index_layers  = n_full + params->mtp_layers;
}

/* Experts are spread over ep GPUs, the rest is on each, or split by tp. */
static int64_t weights_on_gpu(const pl_size_params_t *params,
                              const pl_census_t *census, int64_t ep,
                              int64_t *parts)
{
    int64_t sum = 0;

    for (int i = 0; i < PL_PARTS; i++) {
        parts[i] = pl_census_bytes(census, (pl_part_t)i,
                                   params->tp > 0 ? params->tp : 1);
        if (i == PL_PART_EXPERTS) {
            parts[i] = parts[i] / params->model->n_experts *
                       up(params->model->n_experts, ep);
        }
        sum += parts[i];
    }
    return sum;
}

int pl_size_which(pl_ownership_kind_t kind)
{
    switch (kind) {
    case PL_OWNERSHIP_REPLICATED:
        return PL_SIZE_REPLICATED;
    case PL_OWNERSHIP_LAYER:
        return PL_SIZE_LAYER_SPLIT;
    default:
        return PL_SIZE_SHARED;
    }
}

static void fill_tier(const pl_size_params_t *params, int64_t pages,
                      int64_t usable, int64_t lanes, pl_size_tier_t *tier)
{
    int64_t session = up(params->context_tokens, params->page_tokens);

    if (usable <= 0) {
        *tier = (pl_size_tier_t){0};
        return;
    }
    tier->pages          = pages;
    tier->tokens         = lanes * usable * params->page_tokens;
    tier->sessions       = lanes * usable / session;
    tier->longest_tokens = least(tier->tokens, params->model->max_positions);
}

/* Pages of the longest prompt with even lanes: q in each, beside the scratch
 * page, and a view of all. */
static int64_t longest_shared(const pl_size_params_t *params, int64_t kv_bytes,
                              int64_t page_bytes, int64_t view_page)
{
    int64_t q = (kv_bytes - page_bytes) / (page_bytes + params->cp * view_page);

    return q > 0 ? params->cp * q : 0;
}

static void own_replicated(const pl_size_params_t *params, pl_size_t *size,
                           int64_t page_bytes)
{
    pl_size_ownership_t *own = &size->ownership[PL_SIZE_REPLICATED];
    int64_t pages            = size->kv_bytes / page_bytes;
    int64_t host             = params->host_bytes / page_bytes;

    own->page_bytes = page_bytes;
    fill_tier(params, pages, pages - 1, 1, &own->device);
    fill_tier(params, host, host, 1, &own->host);
}

static void own_shared(const pl_size_params_t *params, pl_size_t *size,
                       page_t page, int64_t page_bytes)
{
    pl_size_ownership_t *own = &size->ownership[PL_SIZE_SHARED];
    int64_t session          = up(params->context_tokens, params->page_tokens);
    int64_t host             = params->host_bytes / page_bytes;
    int64_t view_page        = VIEW_SLOTS * (page.latent + page.index);
    int64_t pages;

    view_page       = params->cp > 1 ? view_page : 0; /* the lane is the view */
    own->page_bytes = page_bytes;
    own->view_bytes = session * view_page;
    pages           = (size->kv_bytes - own->view_bytes) / page_bytes;
    fill_tier(params, pages, pages - 1, params->cp, &own->device);
    fill_tier(params, host, host, params->cp, &own->host);
    if (own->device.pages > 0) {
        int64_t longest =
            longest_shared(params, size->kv_bytes, page_bytes, view_page);

        own->device.longest_tokens =
            least(longest * params->page_tokens, params->model->max_positions);
    }
}

static void own_layers(const pl_size_params_t *params, pl_size_t *size,
                       page_t page)
{
    pl_size_ownership_t *own = &size->ownership[PL_SIZE_LAYER_SPLIT];
    int64_t view_page        = params->cp > 1 ? page.latent + page.index : 0;
    int64_t pages;
    int64_t host;

    own->page_bytes =
        pl_size_run_bytes(params->model, params->kv_dtype, params->page_tokens,
                          params->mtp_layers, params->cp);
    pages           = size->kv_bytes / (own->page_bytes + view_page);
    host            = params->host_bytes / own->page_bytes;
    own->view_bytes = pages > 0 ? pages * view_page : 0;
    fill_tier(params, pages, pages - 1, 1, &own->device);
    fill_tier(params, host, host, 1, &own->host);
}

pl_status_t pl_size_make(const pl_size_params_t *params, pl_size_t *size_p)
{
    pl_size_t size = {0};
    page_t page    = page_of(rows_of(params), params->page_tokens);
    int64_t memory = params->hardware->memory_bytes;
    int64_t page_bytes;

    assert((params->mem_billionths > 0) &&
           (params->mem_billionths <= PL_SIZE_WHOLE));
    PL_TRY(pl_model_census(params->model, params->mtp_layers,
                           params->weight_dtype, &size.census));
    count_tokens(params, &size);
    size.weight_bytes =
        weights_on_gpu(params, &size.census, params->ep, size.gpu_weights);
    /* In two steps, so that no product leaves 64 bits. */
    size.budget_bytes =
        memory / PL_SIZE_WHOLE * params->mem_billionths +
        memory % PL_SIZE_WHOLE * params->mem_billionths / PL_SIZE_WHOLE;
    size.kv_bytes = size.budget_bytes - size.weight_bytes;
    page_bytes    = pl_size_page_bytes(params->model, params->kv_dtype,
                                       params->page_tokens, params->mtp_layers);
    if (size.kv_bytes >= 0) {
        own_replicated(params, &size, page_bytes);
        own_shared(params, &size, page, page_bytes);
        own_layers(params, &size, page);
    }
    *size_p = size;
    return PL_OK;
}

int32_t pl_size_least_ep(const pl_size_params_t *params, const pl_size_t *size)
{
    int64_t parts[PL_PARTS];

    for (int32_t ep = params->cp; ep <= params->model->n_experts;
         ep += params->cp) {
        if (weights_on_gpu(params, &size->census, ep, parts) <
            size->budget_bytes) {
            return ep;
        }
    }
    return 0;
}
