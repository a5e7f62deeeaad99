/* A layer: rows to store, queries, selection, absorbed MLA, experts. */
#include <math.h>
#include <new>
#include <vector>

#include "forward_internal.cuh"
#include "nvtx.cuh"

namespace
{

pl_rows_in_t form_of(const pl_gpu_forward_t *forward, int32_t layer)
{
    const pl_model_config_t *config = forward->config;
    pl_rows_in_t form;

    form.q_lora      = config->q_lora;
    form.kv_lora     = config->kv_lora;
    form.rope        = config->rope;
    form.index_dim   = config->index_dim;
    form.index_heads = config->index_heads;
    form.has_index   = config->full_indexer[layer];
    form.interleaved = config->family == PL_FAMILY_GLM_MOE_DSA;
    form.width       = forward->weights->widths.in[form.has_index ? 1 : 0];
    return form;
}

/* The norm of tokens first .. first + n - 1 of h to x; wants_f32: also as
 * float32. */
pl_status_t norm_tokens(pl_gpu_forward_t *forward, const float *w,
                        int32_t first, int32_t n, bool wants_f32)
{
    const size_t hidden  = (size_t)forward->config->hidden;
    const size_t width   = forward->weights->widths.hidden;
    pl_gpu_step_t &step  = forward->step;
    const bool has_other = wants_f32 && (forward->dtype == PL_CUDA_BF16);

    return pl_queued(
        forward,
        pl_rows_norm(
            w, forward->config->norm_eps, pl_row_at(step.h, first, hidden),
            hidden, n, (int32_t)hidden,
            pl_operand_at(forward, step.x, first, width), forward->dtype, width,
            has_other ? pl_row_at(step.x_f32, first, width) : nullptr,
            forward->stream),
        "a norm");
}

/* ---- a tile of attention ---- */

struct tile_t {
    pl_gpu_forward_t *forward;
    const pl_gpu_layer_t *weights;
    pl_rows_in_t form;
    pl_gpu_tokens_t tokens; /* of the tile */
    int32_t layer, first, n;
};

tile_t tile_of(pl_gpu_forward_t *forward, int32_t layer, int32_t first,
               int32_t n)
{
    const size_t half = (size_t)(forward->config->rope / 2);
    tile_t tile;

    tile.forward = forward;
    tile.weights = &forward->weights->layers[layer];
    tile.form    = form_of(forward, layer);
    tile.tokens  = pl_gpu_tokens(forward, forward->tokens.device);
    tile.tokens.tokens += first;
    tile.tokens.n_keys += first;
    tile.tokens.cosines += (size_t)first * half;
    tile.tokens.sines += (size_t)first * half;
    tile.layer = layer;
    tile.first = first;
    tile.n     = n;
    return tile;
}

pl_status_t make_queries(const tile_t &tile)
{
    pl_gpu_forward_t *forward       = tile.forward;
    const pl_model_config_t *config = forward->config;
    const pl_gpu_plans_t &plans     = forward->weights->plans;
    const pl_gpu_widths_t &widths   = forward->weights->widths;
    pl_gpu_attention_t &at          = forward->attention;
    const float *in =
        pl_row_at(forward->step.in, tile.first, (size_t)tile.form.width);
    pl_rows_queries_t queries;

    pl_now(forward, PL_WORK_ROWS);
    PL_TRY(
        pl_queued(forward,
                  pl_rows_norm(tile.weights->q_a_norm, config->latent_norm_eps,
                               in, (size_t)tile.form.width, tile.n,
                               config->q_lora, at.q_resid, forward->dtype,
                               widths.q_lora, nullptr, forward->stream),
                  "the norm of queries"));
    pl_now(forward, PL_WORK_PRODUCTS);
    PL_TRY(pl_multiply(forward, plans.q_b, tile.weights->q_b, at.q_resid,
                       tile.n, at.q, false, "queries"));
    if (tile.form.has_index) {
        PL_TRY(pl_multiply(forward, plans.index_q_b, tile.weights->index_q_b,
                           at.q_resid, tile.n, at.index_q, false,
                           "the indexer's queries"));
    }
    queries.heads         = config->n_heads;
    queries.nope          = config->nope;
    queries.nope_stride   = widths.nope;
    queries.q             = at.q;
    queries.in            = in;
    queries.q_nope        = at.q_nope;
    queries.q_rope        = at.q_rope;
    queries.index_q       = at.index_q;
    queries.index_weights = at.index_weights;
    queries.index_scale   = (float)(1.0 / sqrt((double)config->index_heads));
    pl_now(forward, PL_WORK_ROWS);
    return pl_queued(forward,
                     pl_rows_part_queries(&tile.form, &queries, forward->dtype,
                                          tile.n, tile.tokens.cosines,
                                          tile.tokens.sines, forward->stream),
                     "the parting of queries");
}

/* Tell the watcher of queries from..from+n-1 of the tile: waits. */
pl_status_t tell_selected(const tile_t &tile, int32_t from, int32_t n)
{
    pl_gpu_forward_t *forward = tile.forward;
    const size_t room         = (size_t)forward->select_room;
    const size_t stride       = forward->score_stride;
    const int32_t first       = tile.first + from;
    std::vector<int32_t> selection((size_t)n * room), counts((size_t)n);
    std::vector<float> scores((size_t)n * stride);
    int error;

    PL_TRY(pl_cuda_device_wait_stream(forward->device, PL_STREAM_COMPUTE));
    error = pl_cuda_copy_now(selection.data(),
                             pl_row_at(forward->step.selection, first, room),
                             selection.size() * sizeof(int32_t));
    error =
        error == cudaSuccess
            ? pl_cuda_copy_now(counts.data(), forward->step.n_selected + first,
                               counts.size() * sizeof(int32_t))
            : error;
    error = error == cudaSuccess
                ? pl_cuda_copy_now(scores.data(), forward->attention.scores,
                                   scores.size() * sizeof(float))
                : error;
    PL_TRY(pl_cuda_told(forward->log, error, "selections for --expect"));
    for (int32_t i = 0; i < n; i++) {
        const int32_t position = forward->host_positions[first + i];

        forward->selected(forward->selected_context, tile.layer, position,
                          pl_row_at(selection.data(), i, room),
                          counts[(size_t)i],
                          pl_row_at(scores.data(), i, stride), position + 1);
    }
    return PL_OK;
}

/* Scores and selection of queries from .. from + n - 1 of the tile.  While none
 * has more keys than may be kept, nobody needs their scores. */
pl_status_t select_some(const tile_t &tile, const pl_cuda_view_t *index,
                        int32_t from, int32_t n)
{
    pl_gpu_forward_t *forward       = tile.forward;
    const pl_model_config_t *config = forward->config;
    const pl_gpu_attention_t &at    = forward->attention;
    const size_t heads              = (size_t)config->index_heads;
    const int32_t first             = tile.first + from;
    const int32_t *n_keys           = tile.tokens.n_keys + from;
    int32_t most                    = 0;

    for (int32_t i = 0; i < n; i++) {
        const int32_t keys = forward->host_positions[first + i] + 1;

        most = keys > most ? keys : most;
    }
    if ((most > config->index_topk) || (forward->selected != nullptr)) {
        pl_now(forward, PL_WORK_INDEXER);
        PL_TRY(pl_queued(
            forward,
            pl_cuda_index_scores(
                index, &forward->rows,
                pl_row_at(at.index_q, from, heads * (size_t)config->index_dim),
                pl_row_at(at.index_weights, from, heads), config->index_heads,
                (float)(1.0 / sqrt((double)config->index_dim)), n_keys, n, most,
                at.scores, forward->score_stride, forward->stream),
            "the indexer's scores"));
    }
    pl_now(forward, PL_WORK_TOPK);
    PL_TRY(pl_queued(forward,
                     pl_cuda_topk(at.scores, forward->score_stride, n_keys, n,
                                  most, forward->select_room,
                                  pl_row_at(forward->step.selection, first,
                                            (size_t)forward->select_room),
                                  forward->step.n_selected + first,
                                  forward->stream),
                     "the selection"));
    return forward->selected != nullptr ? tell_selected(tile, from, n) : PL_OK;
}

pl_status_t attend(const tile_t &tile, const pl_cuda_view_t *latent)
{
    pl_gpu_forward_t *forward       = tile.forward;
    const pl_model_config_t *config = forward->config;
    pl_gpu_attention_t &at          = forward->attention;
    const size_t room               = (size_t)forward->select_room;

    pl_now(forward, PL_WORK_PRODUCTS);
    PL_TRY(pl_multiply(forward, forward->weights->plans.absorb,
                       tile.weights->kv_b, at.q_nope, tile.n, at.q_latent,
                       false, "absorbed queries"));
    pl_now(forward, PL_WORK_ATTENTION);
    PL_TRY(pl_queued(
        forward,
        pl_cuda_attend(latent, &forward->rows, at.q_latent, at.q_rope,
                       config->n_heads, config->softmax_scale,
                       pl_row_at(forward->step.selection, tile.first, room),
                       forward->step.n_selected + tile.first, tile.n,
                       forward->select_room, at.latent, forward->stream),
        "attention"));
    if (forward->dtype == PL_CUDA_F32) {
        return PL_OK;
    }
    pl_now(forward, PL_WORK_ROWS);
    return pl_queued(
        forward,
        pl_rows_to_bf16(at.latent, (int64_t)tile.n * config->n_heads,
                        config->kv_lora, at.latent_bf16,
                        forward->weights->widths.latent, forward->stream),
        "latents as bf16");
}

/* h += W_o [W_UV latent] */
pl_status_t add_output(const tile_t &tile)
{
    pl_gpu_forward_t *forward       = tile.forward;
    const pl_model_config_t *config = forward->config;
    const pl_gpu_plans_t &plans     = forward->weights->plans;
    const pl_gpu_attention_t &at    = forward->attention;
    const void *latent =
        forward->dtype == PL_CUDA_F32 ? at.latent : at.latent_bf16;
    /* the values' rows of the first head come behind its keys' */
    const void *w = pl_operand_at(forward, tile.weights->kv_b, config->nope,
                                  forward->weights->widths.kv_lora);

    pl_now(forward, PL_WORK_PRODUCTS);
    PL_TRY(pl_multiply(forward, plans.values, w, latent, tile.n, at.values,
                       false, "values"));
    return pl_multiply(
        forward, plans.o, tile.weights->o, at.values, tile.n,
        pl_row_at(forward->step.h, tile.first, (size_t)config->hidden), true,
        "attention's output");
}

/* ---- experts ---- */

/* y += MLP(x) of n tokens from `first`. */
pl_status_t add_mlp(pl_gpu_forward_t *forward, const pl_gpu_mlp_t &mlp,
                    const int *plans, int32_t width, size_t padded_width,
                    int32_t first, int32_t n, float *y)
{
    const pl_gpu_mixture_t &at = forward->mixture;
    const void *x              = pl_operand_at(forward, forward->step.x, first,
                                               forward->weights->widths.hidden);

    pl_now(forward, PL_WORK_MLP);
    PL_TRY(pl_multiply(forward, plans[0], mlp.gate_up, x, n, at.gate_up, false,
                       "an MLP's gate"));
    PL_TRY(pl_queued(forward,
                     pl_rows_silu(at.gate_up, n, width, at.act, forward->dtype,
                                  padded_width, forward->stream),
                     "an MLP's activation"));
    return pl_multiply(forward, plans[1], mlp.down, at.act, n, y, true,
                       "an MLP's output");
}

pl_status_t route(pl_gpu_forward_t *forward, const pl_gpu_layer_t &layer,
                  int32_t first, int32_t n)
{
    const pl_model_config_t *config = forward->config;
    const pl_gpu_mixture_t &at      = forward->mixture;
    const size_t width              = forward->weights->widths.hidden;
    const float *x = forward->dtype == PL_CUDA_F32 ? (float *)forward->step.x
                                                   : forward->step.x_f32;
    pl_cuda_router_t router;

    router.n_experts         = config->n_experts;
    router.experts_per_token = config->experts_per_token;
    router.n_group           = config->n_group;
    router.topk_group        = config->topk_group;
    router.norm_topk         = config->norm_topk;
    router.routed_scale      = config->routed_scale;
    PL_TRY(pl_multiply(forward, forward->weights->plans.router, layer.router,
                       pl_row_at(x, first, width), n, at.logits, false,
                       "the router"));
    PL_TRY(pl_queued(forward,
                     pl_cuda_route(&router, at.logits, layer.router_bias, n,
                                   at.experts, at.weights, forward->stream),
                     "the choice of experts"));
    pl_nvtx_t range("sort of experts", -1, pl_nvtx_moe_sort_is_on());
    return pl_queued(forward,
                     pl_cuda_expert_sort(at.experts,
                                         n * config->experts_per_token,
                                         config->n_experts, at.order, at.starts,
                                         at.sort, forward->stream),
                     "the sort of experts");
}

/* What each pair (token, expert) gives. */
pl_status_t make_pairs(pl_gpu_forward_t *forward, const pl_gpu_layer_t &layer,
                       int32_t first, int32_t n)
{
    const pl_model_config_t *config = forward->config;
    const pl_gpu_mixture_t &at      = forward->mixture;
    const pl_gpu_widths_t &widths   = forward->weights->widths;
    const pl_cuda_groups_t groups   = {
          at.order, at.starts, n * config->experts_per_token, config->n_experts,
          config->experts_per_token};
    const pl_cuda_experts_t gates = {layer.gate, layer.up, forward->dtype,
                                     config->expert_width, config->hidden};
    const pl_cuda_experts_t downs = {layer.down, nullptr, forward->dtype,
                                     config->hidden, config->expert_width};
    const pl_cuda_rows_t x        = {
               pl_operand_at(forward, forward->step.x, first, widths.hidden),
               forward->dtype, PL_CUDA_ROW_OF_TOKEN, widths.hidden};
    const pl_cuda_rows_t act = {at.pair_act, forward->dtype,
                                PL_CUDA_ROW_OF_PLACE, widths.expert};
    const pl_cuda_rows_t out = {at.pair_out, PL_CUDA_F32, PL_CUDA_ROW_OF_PAIR,
                                (size_t)config->hidden};

    PL_TRY(pl_queued(
        forward,
        pl_cuda_grouped_product(&groups, &gates, &x, &act, forward->stream),
        "the experts' gates"));
    return pl_queued(
        forward,
        pl_cuda_grouped_product(&groups, &downs, &act, &out, forward->stream),
        "the experts' outputs");
}

/* h += sum of experts, ascending, then the shared one. */
pl_status_t add_experts(pl_gpu_forward_t *forward, const pl_gpu_layer_t &layer,
                        int32_t first, int32_t n)
{
    const pl_model_config_t *config = forward->config;
    const pl_gpu_mixture_t &at      = forward->mixture;
    const size_t hidden             = (size_t)config->hidden;
    const bool is_shared            = config->n_shared > 0;
    float *h                        = pl_row_at(forward->step.h, first, hidden);

    pl_now(forward, PL_WORK_EXPERTS);
    PL_TRY(route(forward, layer, first, n));
    PL_TRY(make_pairs(forward, layer, first, n));
    PL_TRY(pl_queued(forward,
                     pl_cuda_combine_experts(
                         at.pair_out, at.weights, n, config->experts_per_token,
                         config->hidden, !is_shared, is_shared ? at.sum : h,
                         forward->stream),
                     "the sum over experts"));
    if (!is_shared) {
        return PL_OK;
    }
    PL_TRY(add_mlp(forward, layer.shared, forward->weights->plans.shared,
                   config->n_shared * config->expert_width,
                   forward->weights->widths.shared, first, n, at.sum));
    pl_now(forward, PL_WORK_ROWS);
    return pl_queued(
        forward,
        pl_rows_add(h, at.sum, (int64_t)n * config->hidden, forward->stream),
        "the sum with the shared expert");
}

} // namespace

pl_status_t pl_gpu_make_kv(pl_gpu_forward_t *forward, int32_t layer)
{
    const tile_t tile         = tile_of(forward, layer, 0, forward->n);
    const pl_gpu_step_t &step = forward->step;
    const int plan = forward->weights->plans.in[tile.form.has_index ? 1 : 0];
    pl_rows_norms_t norms;

    norms.kv_a         = tile.weights->kv_a_norm;
    norms.eps          = forward->config->latent_norm_eps;
    norms.index_k      = tile.weights->index_k_norm;
    norms.index_k_bias = tile.weights->index_k_norm_bias;
    pl_now(forward, PL_WORK_ROWS);
    PL_TRY(
        norm_tokens(forward, tile.weights->input_norm, 0, forward->n, false));
    pl_now(forward, PL_WORK_PRODUCTS);
    PL_TRY(pl_multiply(forward, plan, tile.weights->in, step.x, forward->n,
                       step.in, false, "latents"));
    pl_now(forward, PL_WORK_ROWS);
    PL_TRY(pl_queued(forward,
                     pl_rows_to_store(&tile.form, &norms, step.in, forward->n,
                                      tile.tokens.cosines, tile.tokens.sines,
                                      step.kv, step.keys, forward->stream),
                     "rows to store"));
    forward->layer = layer;
    return PL_OK;
}

pl_status_t pl_gpu_attention(pl_gpu_forward_t *forward, int32_t layer,
                             int32_t first, int32_t n,
                             const pl_cuda_view_t *latent,
                             const pl_cuda_view_t *index)
{
    const tile_t tile = tile_of(forward, layer, first, n);

    PL_TRY(make_queries(tile));
    for (int32_t i = 0; tile.form.has_index && (i < n); i += SCORE_TILE) {
        PL_TRY(select_some(tile, index, i,
                           n - i < SCORE_TILE ? n - i : SCORE_TILE));
    }
    PL_TRY(attend(tile, latent));
    return add_output(tile);
}

pl_status_t pl_gpu_mlp(pl_gpu_forward_t *forward, int32_t layer, int32_t first,
                       int32_t n)
{
    const pl_model_config_t *config = forward->config;
    const pl_gpu_layer_t &weights   = forward->weights->layers[layer];
    const bool is_sparse            = config->sparse_mlp[layer];

    pl_now(forward, PL_WORK_ROWS);
    PL_TRY(norm_tokens(forward, weights.post_norm, first, n, is_sparse));
    return is_sparse
               ? add_experts(forward, weights, first, n)
               : add_mlp(
                     forward, weights.dense, forward->weights->plans.dense,
                     config->dense_width, forward->weights->widths.dense, first,
                     n,
                     pl_row_at(forward->step.h, first, (size_t)config->hidden));
}
