/* The forward pass on a GPU: memory, what the host hands over, the order of a
 * step.  Between begin and end nothing is allocated, and the host waits only if
 * it is two steps ahead. */
#include "forward.cuh"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "forward_internal.cuh"
#include "nvtx.cuh"

extern "C" {
#include "model/ops.h"
}

namespace
{

constexpr int32_t UNSENT = INT32_MIN; /* no row is that */

pl_gpu_forward_t *of(pl_forward_t *self)
{
    return (pl_gpu_forward_t *)self;
}

int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

size_t in_whole(size_t n, size_t by)
{
    return (n + by - 1) / by * by;
}

/* ---- memory ---- */

/* Room of n tokens: products may use whole tiles. */
size_t in_tiles(int32_t n)
{
    return in_whole((size_t)n, PL_CUDA_PRODUCT_TILE);
}

void cut_step(pl_gpu_forward_t *forward, pl_cutter_t *cutter, int32_t n)
{
    const pl_model_config_t *config = forward->config;
    const pl_gpu_widths_t &widths   = forward->weights->widths;
    const size_t rows               = in_tiles(n);
    const size_t item               = pl_item_bytes(forward->dtype);
    pl_gpu_step_t *step             = &forward->step;

    step->h  = cutter->of<float>(rows * (size_t)config->hidden);
    step->x  = cutter->cut(rows * widths.hidden * item);
    step->in = cutter->of<float>(rows * (size_t)widths.in[1]);
    step->kv =
        cutter->of<float>((size_t)n * (size_t)(config->kv_lora + config->rope));
    step->keys = cutter->of<float>((size_t)n * (size_t)config->index_dim);
    step->selection =
        cutter->of<int32_t>((size_t)n * (size_t)forward->select_room);
    step->n_selected = cutter->of<int32_t>((size_t)n);
    if (forward->dtype == PL_CUDA_BF16) {
        step->x_f32 = cutter->of<float>(rows * widths.hidden);
    }
    forward->logits = cutter->of<float>((size_t)config->vocab_size);
    forward->token  = cutter->of<int32_t>(1);
}

void cut_attention(pl_gpu_forward_t *forward, pl_cutter_t *cutter, int32_t n)
{
    const pl_model_config_t *config = forward->config;
    const pl_gpu_widths_t &widths   = forward->weights->widths;
    const size_t item               = pl_item_bytes(forward->dtype);
    const size_t rows               = in_tiles(n);
    const size_t heads              = rows * (size_t)config->n_heads;
    const size_t index_heads        = rows * (size_t)config->index_heads;
    pl_gpu_attention_t *at          = &forward->attention;

    at->q_resid = cutter->cut(rows * widths.q_lora * item);
    at->q = cutter->of<float>(heads * (size_t)(config->nope + config->rope));
    at->q_nope   = cutter->cut(heads * widths.nope * item);
    at->q_rope   = cutter->of<float>(heads * (size_t)config->rope);
    at->q_latent = cutter->of<float>(heads * (size_t)config->kv_lora);
    at->latent   = cutter->of<float>(heads * (size_t)config->kv_lora);
    at->values   = cutter->cut(rows * widths.values * item);
    at->index_q  = cutter->of<float>(index_heads * (size_t)config->index_dim);
    at->index_weights = cutter->of<float>(index_heads);
    if (forward->dtype == PL_CUDA_BF16) {
        at->latent_bf16 = cutter->cut(heads * widths.latent * item);
    }
    at->scores =
        cutter->of<float>((size_t)least(n, SCORE_TILE) * forward->score_stride);
}

void cut_mixture(pl_gpu_forward_t *forward, pl_cutter_t *cutter, int32_t n)
{
    const pl_model_config_t *config = forward->config;
    const pl_gpu_widths_t &widths   = forward->weights->widths;
    const size_t item               = pl_item_bytes(forward->dtype);
    const size_t rows               = in_tiles(n);
    const int32_t shared            = config->n_shared * config->expert_width;
    const size_t width = (size_t)larger(config->dense_width, shared);
    const size_t padded =
        widths.dense > widths.shared ? widths.dense : widths.shared;
    const int32_t n_pairs = n * config->experts_per_token;
    const size_t pairs    = (size_t)n_pairs;
    pl_gpu_mixture_t *at  = &forward->mixture;

    at->gate_up = cutter->of<float>(rows * 2 * width);
    at->act     = cutter->cut(rows * padded * item);
    at->logits  = cutter->of<float>(rows * (size_t)config->n_experts);
    at->experts = cutter->of<int32_t>(pairs);
    at->order   = cutter->of<int32_t>(pairs);
    at->weights = cutter->of<float>(pairs);
    at->starts  = cutter->of<int32_t>((size_t)config->n_experts + 1);
    at->sort    = cutter->of<int32_t>(
        (size_t)pl_cuda_expert_sort_scratch(n_pairs, config->n_experts));
    at->pair_act = cutter->cut(pairs * widths.expert * item);
    at->pair_out = cutter->of<float>(pairs * (size_t)config->hidden);
    at->sum      = cutter->of<float>(rows * (size_t)config->hidden);
}

/* Bytes of what the host sends: of a step's tokens, of rows, of a page map. */
size_t tokens_bytes(const pl_gpu_forward_t *forward, int32_t n)
{
    return (size_t)n * (2 + (size_t)(forward->config->rope / 2) * 2) *
           sizeof(int32_t);
}

void cut_staged_device(pl_gpu_forward_t *forward, pl_cutter_t *cutter,
                       int32_t n, int32_t n_positions)
{
    const size_t map = (size_t)n_positions * sizeof(int32_t);

    forward->tokens.device  = (uint8_t *)cutter->cut(tokens_bytes(forward, n));
    forward->to_rows.device = cutter->of<uint8_t>((size_t)n * sizeof(int32_t));
    forward->maps[0].device = cutter->of<uint8_t>(map);
    forward->maps[1].device = cutter->of<uint8_t>(map);
}

void cut_pinned(pl_gpu_forward_t *forward, pl_cutter_t *cutter, int32_t n,
                int32_t n_positions)
{
    const size_t map = (size_t)n_positions * sizeof(int32_t);

    for (int i = 0; i < 2; i++) {
        forward->tokens.pinned[i] =
            (uint8_t *)cutter->cut(tokens_bytes(forward, n));
        forward->to_rows.pinned[i] =
            cutter->of<uint8_t>((size_t)n * sizeof(int32_t));
        forward->maps[0].pinned[i] = cutter->of<uint8_t>(map);
        forward->maps[1].pinned[i] = cutter->of<uint8_t>(map);
    }
    forward->host_token = cutter->of<int32_t>(1);
}

/* Everything for n tokens; returns the bytes. */
size_t cut_all(pl_gpu_forward_t *forward, void *base, int32_t n,
               int32_t n_positions)
{
    pl_cutter_t cutter = {(uint8_t *)base, 0};
    pl_cutter_t tile;

    cut_staged_device(forward, &cutter, n, n_positions);
    cut_step(forward, &cutter, n);
    tile = cutter; /* both tiles begin here */
    cut_attention(forward, &cutter, least(n, ATTENTION_TILE));
    cut_mixture(forward, &tile, least(n, MLP_TILE));
    return cutter.used > tile.used ? cutter.used : tile.used;
}

void free_memory(pl_gpu_forward_t *forward)
{
    pl_device_t *device = forward->device;

    device->ops->free(device, forward->memory);
    device->ops->free(device, forward->pinned);
    free(forward->host_positions);
    forward->memory         = nullptr;
    forward->pinned         = nullptr;
    forward->host_positions = nullptr;
    forward->room_tokens    = 0;
    forward->room_positions = 0;
    forward->to_rows.held = forward->tokens.held = 0;
    forward->maps[0].held = forward->maps[1].held = 0;
}

pl_status_t take_memory(pl_gpu_forward_t *forward, int32_t n,
                        int32_t n_positions)
{
    pl_device_t *device = forward->device;
    pl_cutter_t pinned  = {};

    forward->select_room  = least(forward->config->index_topk, n_positions);
    forward->score_stride = in_whole((size_t)n_positions, 4);
    cut_pinned(forward, &pinned, n, n_positions);
    PL_TRY(device->ops->alloc(
        device, PL_MEMORY_DEVICE, cut_all(forward, nullptr, n, n_positions),
        "hidden states (lower --chunk)", &forward->memory));
    PL_TRY(device->ops->alloc(device, PL_MEMORY_HOST, pinned.used,
                              "hidden states' tokens", &forward->pinned));
    forward->host_positions =
        (int32_t *)malloc((size_t)(n > 0 ? n : 1) * sizeof(int32_t));
    if (forward->host_positions == nullptr) {
        return PL_ERR_MEMORY;
    }
    (void)cut_all(forward, forward->memory, n, n_positions);
    pinned.base = (uint8_t *)forward->pinned;
    pinned.used = 0;
    cut_pinned(forward, &pinned, n, n_positions);
    forward->room_tokens    = n;
    forward->room_positions = n_positions;
    return PL_OK;
}

pl_status_t gpu_reserve(pl_forward_t *self, int32_t n, int32_t n_positions)
{
    pl_gpu_forward_t *forward = of(self);
    pl_status_t status;

    if ((n <= forward->room_tokens) &&
        (n_positions <= forward->room_positions)) {
        return PL_OK;
    }
    PL_TRY(pl_cuda_device_enter(forward->device));
    n           = larger(n, forward->room_tokens);
    n_positions = larger(n_positions, forward->room_positions);
    if (forward->memory != nullptr) {
        /* what is queued may still use it */
        PL_TRY(pl_cuda_device_wait_stream(forward->device, PL_STREAM_COMPUTE));
        free_memory(forward);
    }
    status = take_memory(forward, n, n_positions);
    if (status != PL_OK) {
        free_memory(forward);
    }
    return status;
}

/* ---- what the host hands over ---- */

/* The pinned copy that is filled next has been read. */
pl_status_t settle(pl_gpu_forward_t *forward, const pl_staged_t *staged,
                   int turn)
{
    const cudaError_t error = cudaEventQuery(staged->done[turn]);

    if (error != cudaErrorNotReady) {
        return pl_cuda_told(forward->log, error, "a copy to the GPU");
    }
    (void)cudaGetLastError(); /* that is no error */
    return pl_cuda_device_wait_stream(forward->device, PL_STREAM_COMPUTE);
}

/* Queue the copy of n bytes from byte `at` of the pinned copy in turn. */
pl_status_t push(pl_gpu_forward_t *forward, pl_staged_t *staged, size_t at,
                 size_t n)
{
    cudaError_t error =
        cudaMemcpyAsync(staged->device + at, staged->pinned[staged->turn] + at,
                        n, cudaMemcpyHostToDevice, forward->stream);

    if (error == cudaSuccess) {
        error = cudaEventRecord(staged->done[staged->turn], forward->stream);
    }
    return pl_cuda_told(forward->log, error, "a copy to the GPU");
}

/* A page map, unless the GPU has it: the layers of a step share one. */
pl_status_t send_map(pl_gpu_forward_t *forward, pl_staged_t *staged,
                     const int32_t *rows, int32_t n)
{
    const size_t bytes = (size_t)n * sizeof(*rows);

    if ((bytes <= staged->held) &&
        (memcmp(staged->pinned[staged->turn], rows, bytes) == 0)) {
        return PL_OK;
    }
    PL_TRY(settle(forward, staged, staged->turn ^ 1));
    staged->turn ^= 1;
    staged->held = 0;
    memcpy(staged->pinned[staged->turn], rows, bytes);
    PL_TRY(push(forward, staged, 0, bytes));
    staged->held = bytes;
    return PL_OK;
}

/* Rows of tokens first .. first + n - 1 of the step, unless the GPU has them:
 * they are those of the last layer. */
pl_status_t send_rows(pl_gpu_forward_t *forward, const int32_t *rows,
                      int32_t first, int32_t n)
{
    pl_staged_t *staged = &forward->to_rows;
    int32_t *held       = (int32_t *)staged->pinned[staged->turn] + first;
    bool is_new         = true;

    if (memcmp(held, rows, (size_t)n * sizeof(*rows)) == 0) {
        return PL_OK;
    }
    for (int32_t i = 0; i < n; i++) {
        is_new = is_new && (held[i] == UNSENT);
    }
    if (!is_new) { /* others of this step may still be on their way */
        PL_TRY(settle(forward, staged, staged->turn));
    }
    memcpy(held, rows, (size_t)n * sizeof(*rows));
    return push(forward, staged, (size_t)first * sizeof(*rows),
                (size_t)n * sizeof(*rows));
}

void fill_tokens(pl_gpu_forward_t *forward, const int32_t *tokens,
                 const int32_t *positions, int32_t n)
{
    const pl_model_config_t *config = forward->config;
    const int32_t half              = config->rope / 2;
    const pl_gpu_tokens_t parts =
        pl_gpu_tokens(forward, forward->tokens.pinned[forward->tokens.turn]);

    for (int32_t i = 0; i < n; i++) {
        forward->host_positions[i] = positions[i];
        parts.tokens[i]            = tokens[i];
        parts.n_keys[i]            = positions[i] + 1;
        pl_rope_angles(&config->rope_params, forward->frequencies, config->rope,
                       positions[i], pl_row_at(parts.cosines, i, (size_t)half),
                       pl_row_at(parts.sines, i, (size_t)half));
    }
}

/* ---- a step ---- */

pl_status_t gpu_begin(pl_forward_t *self, const int32_t *tokens,
                      const int32_t *positions, int32_t n)
{
    pl_gpu_forward_t *forward = of(self);
    pl_staged_t *to_rows      = &forward->to_rows;
    int32_t *unsent;

    if ((n < 0) || (n > forward->room_tokens)) {
        return PL_ERR_ARGUMENT;
    }
    PL_TRY(pl_cuda_device_enter(forward->device));
    forward->n     = n;
    forward->layer = -1;
    if (n == 0) {
        return PL_OK;
    }
    PL_TRY(settle(forward, &forward->tokens, forward->tokens.turn ^ 1));
    forward->tokens.turn ^= 1;
    PL_TRY(settle(forward, to_rows, to_rows->turn ^ 1));
    to_rows->turn ^= 1;
    unsent = (int32_t *)to_rows->pinned[to_rows->turn];
    for (int32_t i = 0; i < n; i++) {
        unsent[i] = UNSENT;
    }
    fill_tokens(forward, tokens, positions, n);
    const pl_cuda_timed_t timed(forward->device, PL_STREAM_COMPUTE,
                                PL_WORK_ROWS);
    PL_TRY(push(forward, &forward->tokens, 0, tokens_bytes(forward, n)));
    return pl_queued(
        forward,
        pl_rows_embed(forward->weights->embed, forward->dtype,
                      forward->weights->widths.hidden,
                      pl_gpu_tokens(forward, forward->tokens.device).tokens, n,
                      forward->config->hidden, forward->step.h,
                      forward->stream),
        "embeddings");
}

pl_status_t gpu_store(pl_forward_t *self, int32_t layer, int32_t first,
                      int32_t n, const int32_t *rows,
                      const pl_forward_pages_t *latent,
                      const pl_forward_pages_t *index)
{
    pl_gpu_forward_t *forward       = of(self);
    const pl_model_config_t *config = forward->config;
    const int32_t *at = (int32_t *)forward->to_rows.device + first;

    if ((first < 0) || (n < 0) || (first + n > forward->n)) {
        return PL_ERR_ARGUMENT;
    }
    if (n == 0) {
        return PL_OK;
    }
    pl_nvtx_t range("store layer", layer);
    PL_TRY(pl_cuda_device_enter(forward->device));
    const pl_cuda_timed_t timed(forward->device, PL_STREAM_COMPUTE,
                                PL_WORK_ROWS);
    if (forward->layer != layer) {
        PL_TRY(pl_gpu_make_kv(forward, layer));
    }
    pl_now(forward, PL_WORK_STORE);
    PL_TRY(send_rows(forward, rows, first, n));
    PL_TRY(pl_queued(forward,
                     pl_cuda_store_latent(
                         &forward->rows, &latent->form,
                         pl_row_at(forward->step.kv, first,
                                   (size_t)(config->kv_lora + config->rope)),
                         n, at, latent->pages, latent->stride, forward->stream),
                     "the storing of latents"));
    if (!config->full_indexer[layer]) {
        return PL_OK;
    }
    return pl_queued(forward,
                     pl_cuda_store_index(&forward->rows, &index->form,
                                         pl_row_at(forward->step.keys, first,
                                                   (size_t)config->index_dim),
                                         n, at, index->pages, index->stride,
                                         forward->stream),
                     "the storing of index keys");
}

/* The view on the GPU, with as much of its page map as the step reads. */
pl_status_t make_view(pl_gpu_forward_t *forward, pl_staged_t *map,
                      const pl_view_t *view, pl_cuda_view_t *made)
{
    const int32_t page_tokens = view->form.page_tokens;
    int32_t n_keys            = 0;
    int32_t n_pages;

    for (int32_t i = 0; i < forward->n; i++) {
        n_keys = larger(n_keys, forward->host_positions[i] + 1);
    }
    if ((n_keys > view->n_tokens) || (n_keys > forward->room_positions)) {
        return PL_ERR_ARGUMENT;
    }
    n_pages = (n_keys + page_tokens - 1) / page_tokens;
    PL_TRY(send_map(forward, map, view->rows, n_pages));
    made->bytes  = view->bytes;
    made->stride = view->stride;
    made->rows   = (int32_t *)map->device;
    made->form   = view->form;
    return PL_OK;
}

pl_status_t gpu_mix(pl_forward_t *self, int32_t layer, const pl_view_t *latent,
                    const pl_view_t *index)
{
    pl_gpu_forward_t *forward = of(self);
    const int32_t n           = forward->n;
    pl_cuda_view_t latents = {}, keys = {};

    if (n == 0) {
        return PL_OK;
    }
    pl_nvtx_t range("mix layer", layer);
    PL_TRY(pl_cuda_device_enter(forward->device));
    const pl_cuda_timed_t timed(forward->device, PL_STREAM_COMPUTE,
                                PL_WORK_ROWS);
    PL_TRY(make_view(forward, &forward->maps[0], latent, &latents));
    if (forward->config->full_indexer[layer]) {
        PL_TRY(make_view(forward, &forward->maps[1], index, &keys));
    }
    if (forward->layer != layer) {
        PL_TRY(pl_gpu_make_kv(forward, layer));
    }
    for (int32_t i = 0; i < n; i += ATTENTION_TILE) {
        PL_TRY(pl_gpu_attention(forward, layer, i, least(n - i, ATTENTION_TILE),
                                &latents, &keys));
    }
    for (int32_t i = 0; i < n; i += MLP_TILE) {
        PL_TRY(pl_gpu_mlp(forward, layer, i, least(n - i, MLP_TILE)));
    }
    return PL_OK;
}

pl_status_t gpu_end(pl_forward_t *self, int32_t i, float *logits,
                    int32_t *token_p)
{
    pl_gpu_forward_t *forward       = of(self);
    const pl_model_config_t *config = forward->config;
    pl_gpu_weights_t *weights       = forward->weights;
    const size_t hidden             = (size_t)config->hidden;
    cudaError_t error;

    if ((i < 0) || (i >= forward->n)) {
        return PL_ERR_ARGUMENT;
    }
    PL_TRY(pl_cuda_device_enter(forward->device));
    const pl_cuda_timed_t timed(forward->device, PL_STREAM_COMPUTE,
                                PL_WORK_HEAD);
    /* x has done its work */
    PL_TRY(pl_queued(forward,
                     pl_rows_norm(weights->norm, config->norm_eps,
                                  pl_row_at(forward->step.h, i, hidden), hidden,
                                  1, config->hidden, forward->step.x,
                                  forward->dtype, weights->widths.hidden,
                                  nullptr, forward->stream),
                     "the last norm"));
    PL_TRY(pl_multiply(forward, weights->plans.head, weights->head,
                       forward->step.x, 1, forward->logits, false, "logits"));
    PL_TRY(pl_queued(forward,
                     pl_rows_greedy(forward->logits, config->vocab_size,
                                    forward->token, forward->stream),
                     "the greedy token"));
    error = cudaMemcpyAsync(forward->host_token, forward->token,
                            sizeof(*forward->token), cudaMemcpyDeviceToHost,
                            forward->stream);
    PL_TRY(pl_cuda_told(forward->log, error, "the greedy token"));
    PL_TRY(pl_cuda_device_wait_stream(forward->device, PL_STREAM_COMPUTE));
    *token_p = *forward->host_token;
    if (logits == nullptr) {
        return PL_OK;
    }
    return pl_cuda_told(
        forward->log,
        pl_cuda_copy_now(logits, forward->logits,
                         (size_t)config->vocab_size * sizeof(*logits)),
        "logits");
}

void gpu_watch(pl_forward_t *self, pl_selected_t selected, void *context)
{
    of(self)->selected         = selected;
    of(self)->selected_context = context;
}

/* ---- open and close ---- */

pl_staged_t *staged_of(pl_gpu_forward_t *forward, int i)
{
    pl_staged_t *const all[] = {&forward->tokens, &forward->to_rows,
                                &forward->maps[0], &forward->maps[1]};

    return all[i];
}

constexpr int N_STAGED = 4;

void gpu_close(pl_forward_t *self)
{
    pl_gpu_forward_t *forward = of(self);

    if (pl_cuda_device_enter(forward->device) == PL_OK) {
        pl_cuda_count_synchronization();
        /* also what failed has ended */
        (void)cudaStreamSynchronize(forward->stream);
    }
    free_memory(forward);
    for (int i = 0; i < 2 * N_STAGED; i++) {
        cudaEvent_t done = staged_of(forward, i / 2)->done[i % 2];

        if (done != nullptr) {
            (void)cudaEventDestroy(done);
        }
    }
    pl_gpu_weights_give(forward->weights);
    free(forward->frequencies);
    free(forward);
}

const pl_forward_ops_t gpu_ops = {gpu_reserve, gpu_begin, gpu_store, gpu_mix,
                                  gpu_end,     gpu_watch, gpu_close};

/* Mix one token of position index_topk, over zeros but for itself, in layer
 * `layer`; pages has one page of each store. */
pl_status_t try_layer(pl_gpu_forward_t *forward, int32_t layer, uint8_t *pages,
                      const pl_page_form_t *forms, const size_t *strides)
{
    pl_forward_t *self       = &forward->forward;
    const int32_t n          = forms[0].page_tokens;
    const int32_t row        = n - 1;
    const int32_t page       = 0;
    uint8_t *const keys      = pages + strides[0];
    pl_forward_pages_t to[2] = {{pages, strides[0], forms[0]},
                                {keys, strides[1], forms[1]}};
    pl_view_t views[2]       = {{pages, strides[0], &page, forms[0], n},
                                {keys, strides[1], &page, forms[1], n}};

    PL_TRY(gpu_store(self, layer, 0, 1, &row, &to[0], &to[1]));
    return gpu_mix(self, layer, &views[0], &views[1]);
}

/* A step in a layer of each kind. */
pl_status_t try_layers(pl_gpu_forward_t *forward, uint8_t *pages,
                       const pl_page_form_t *forms, const size_t *strides)
{
    const pl_model_config_t *config = forward->config;
    const int32_t position          = config->index_topk;
    const int32_t token             = 0;
    bool is_done[4]                 = {};
    int32_t greedy;

    PL_TRY(gpu_begin(&forward->forward, &token, &position, 1));
    for (int32_t i = 0; i < config->n_layers; i++) {
        const int kind =
            (config->sparse_mlp[i] ? 2 : 0) + (config->full_indexer[i] ? 1 : 0);

        if (!is_done[kind]) {
            PL_TRY(try_layer(forward, i, pages, forms, strides));
            is_done[kind] = true;
        }
    }
    return gpu_end(&forward->forward, 0, nullptr, &greedy);
}

/* CUDA loads a kernel when it is first launched, and may wait for all streams
 * then: also for one that waits for a rank of this process whose own kernel
 * waits to be loaded.  So all are launched here, before ranks wait for each
 * other. */
pl_status_t load_kernels(pl_gpu_forward_t *forward)
{
    pl_device_t *device           = forward->device;
    const int32_t n               = forward->config->index_topk + 1;
    const pl_page_form_t forms[2] = {
        {n, forward->rows.latent_bytes, 0},
        {n, forward->rows.index_key_bytes, forward->rows.index_scale_bytes}};
    const size_t strides[2] = {
        in_whole((size_t)n * pl_row_bytes(&forms[0]), 16),
        in_whole((size_t)n * pl_row_bytes(&forms[1]), 16)};
    void *pages = nullptr;
    pl_status_t status;

    PL_TRY(gpu_reserve(&forward->forward, 1, n));
    PL_TRY(device->ops->alloc(device, PL_MEMORY_DEVICE, strides[0] + strides[1],
                              "pages to load kernels with", &pages));
    status = pl_cuda_told(
        forward->log,
        cudaMemsetAsync(pages, 0, strides[0] + strides[1], forward->stream),
        "pages to load kernels with");
    if (status == PL_OK) {
        status = try_layers(forward, (uint8_t *)pages, forms, strides);
    }
    device->ops->free(device, pages);
    return status;
}

pl_status_t check_model(const pl_model_config_t *config, const pl_log_t *log)
{
    if (config->index_topk > PL_CUDA_TOPK_MAX) {
        pl_log(log, PL_LOG_ERROR,
               "index_topk is %" PRId32 ": the GPU's kernels take at most %d: "
               "use --device cpu",
               config->index_topk, PL_CUDA_TOPK_MAX);
        return PL_ERR_ARGUMENT;
    }
    if (config->n_experts > PL_CUDA_MOST_EXPERTS) {
        pl_log(log, PL_LOG_ERROR,
               "n_routed_experts is %" PRId32
               ": the GPU's kernels take at most "
               "%d: use --device cpu",
               config->n_experts, PL_CUDA_MOST_EXPERTS);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

pl_status_t open_parts(pl_gpu_forward_t *forward, const pl_weights_t *weights)
{
    const pl_model_config_t *config = forward->config;

    PL_TRY(pl_cuda_device_enter(forward->device));
    forward->frequencies = (float *)malloc((size_t)(config->rope / 2) *
                                           sizeof(*forward->frequencies));
    if (forward->frequencies == nullptr) {
        return PL_ERR_MEMORY;
    }
    pl_rope_frequencies(&config->rope_params, config->rope,
                        forward->frequencies);
    for (int i = 0; i < 2 * N_STAGED; i++) {
        PL_TRY(pl_cuda_told(
            forward->log,
            cudaEventCreateWithFlags(&staged_of(forward, i / 2)->done[i % 2],
                                     cudaEventDisableTiming),
            "an event of the forward pass"));
    }
    PL_TRY(pl_gpu_weights_take(forward->device, config, weights, forward->dtype,
                               forward->log, &forward->weights));
    return load_kernels(forward);
}

} // namespace

pl_status_t pl_cuda_open_forward(pl_device_t *device,
                                 const struct pl_model_config *config,
                                 const struct pl_weights *weights, int kv_dtype,
                                 const pl_log_t *log,
                                 struct pl_forward **forward_p)
{
    pl_gpu_forward_t *forward;
    pl_status_t status;

    PL_TRY(check_model(config, log));
    forward = (pl_gpu_forward_t *)calloc(1, sizeof(*forward));
    if (forward == nullptr) {
        return PL_ERR_MEMORY;
    }
    forward->forward.ops = &gpu_ops;
    forward->device      = device;
    forward->stream      = pl_cuda_device_stream(device, PL_STREAM_COMPUTE);
    forward->config      = config;
    forward->log         = log;
    forward->dtype       = kv_dtype == PL_KV_F32 ? PL_CUDA_F32 : PL_CUDA_BF16;
    forward->rows = pl_row_layout_make((pl_kv_dtype_t)kv_dtype, config->kv_lora,
                                       config->rope, config->index_dim);
    forward->layer = -1;
    status         = open_parts(forward, weights);
    if (status != PL_OK) {
        gpu_close(&forward->forward);
        return status;
    }
    *forward_p = &forward->forward;
    return PL_OK;
}
