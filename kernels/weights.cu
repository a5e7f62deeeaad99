/* Weights to a GPU: read in pieces of rows through pinned memory, made float32
 * or bf16 there; random ones are drawn there. */
#include "weights.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <inttypes.h>
#include <mutex>
#include <new>
#include <stdlib.h>
#include <string.h>
#include <vector>

#include "launch.cuh"
#include "values.cuh"

namespace
{

constexpr int THREADS     = 256;
constexpr int SCALE_BLOCK = 128; /* rows and columns that share a scale */
constexpr size_t PIECE    = (size_t)16 << 20;
constexpr size_t SCALES   = (size_t)1 << 20; /* behind a piece */

/* ---- on the GPU ---- */

/* Rows of a tensor as they lie in a file. */
struct rows_t {
    const void *bytes;
    const float *scale; /* of row `first` on; E4M3 only */
    int32_t scale_cols, first, cols;
};

template <pl_dtype_t from>
__device__ float value_of(const rows_t &, size_t, int32_t);

template <>
__device__ float value_of<PL_F32>(const rows_t &rows, size_t r, int32_t c)
{
    return ((const float *)rows.bytes)[r * (size_t)rows.cols + (size_t)c];
}

template <>
__device__ float value_of<PL_BF16>(const rows_t &rows, size_t r, int32_t c)
{
    return __bfloat162float(
        ((const __nv_bfloat16 *)rows.bytes)[r * (size_t)rows.cols + (size_t)c]);
}

template <>
__device__ float value_of<PL_F16>(const rows_t &rows, size_t r, int32_t c)
{
    return __half2float(
        ((const __half *)rows.bytes)[r * (size_t)rows.cols + (size_t)c]);
}

template <>
__device__ float value_of<PL_F8_E4M3>(const rows_t &rows, size_t r, int32_t c)
{
    const uint8_t code =
        ((const uint8_t *)rows.bytes)[r * (size_t)rows.cols + (size_t)c];
    const int32_t block =
        (rows.first + (int32_t)r) / SCALE_BLOCK - rows.first / SCALE_BLOCK;

    return __half2float(__nv_cvt_fp8_to_halfraw(code, __NV_E4M3)) *
           rows.scale[block * rows.scale_cols + c / SCALE_BLOCK];
}

/* A block a row. */
template <pl_dtype_t from, typename value_t>
__global__ void convert(rows_t rows, value_t *to, size_t to_stride)
{
    for (int32_t c = (int32_t)threadIdx.x; c < rows.cols; c += THREADS) {
        pl_put(to + blockIdx.x * to_stride + c,
               value_of<from>(rows, blockIdx.x, c));
    }
}

template <pl_dtype_t from>
void launch(const rows_t &rows, int32_t n, void *to, size_t to_stride,
            pl_cuda_dtype_t dtype, cudaStream_t stream)
{
    if (dtype == PL_CUDA_BF16) {
        convert<from><<<(unsigned)n, THREADS, 0, stream>>>(
            rows, (__nv_bfloat16 *)to, to_stride);
    } else {
        convert<from>
            <<<(unsigned)n, THREADS, 0, stream>>>(rows, (float *)to, to_stride);
    }
}

pl_status_t convert_rows(pl_dtype_t from, const rows_t &rows, int32_t n,
                         void *to, size_t to_stride, pl_cuda_dtype_t dtype,
                         cudaStream_t stream)
{
    switch (from) {
    case PL_F32:
        launch<PL_F32>(rows, n, to, to_stride, dtype, stream);
        break;
    case PL_BF16:
        launch<PL_BF16>(rows, n, to, to_stride, dtype, stream);
        break;
    case PL_F16:
        launch<PL_F16>(rows, n, to, to_stride, dtype, stream);
        break;
    case PL_F8_E4M3:
        launch<PL_F8_E4M3>(rows, n, to, to_stride, dtype, stream);
        break;
    case PL_DRAWN:
        return PL_ERR_ARGUMENT; /* not by rows */
    }
    return pl_launched();
}

size_t file_bytes(pl_dtype_t dtype)
{
    return dtype == PL_F32 ? 4 : dtype == PL_F8_E4M3 ? 1 : 2;
}

/* ---- the way there ---- */

/* Two pieces: one is filled while the other is on its way. */
class sender_t
{
  public:
    explicit sender_t(const pl_log_t *to_log)
        : log(to_log), stream(nullptr), turn(0)
    {
        for (int i = 0; i < 2; i++) {
            pinned[i] = device[i] = nullptr;
            done[i]               = nullptr;
        }
    }
    ~sender_t()
    {
        for (int i = 0; i < 2; i++) {
            (void)cudaFreeHost(pinned[i]);
            (void)cudaFree(device[i]);
            if (done[i] != nullptr) {
                (void)cudaEventDestroy(done[i]);
            }
        }
        if (stream != nullptr) {
            (void)cudaStreamDestroy(stream);
        }
    }
    sender_t(const sender_t &)            = delete;
    sender_t &operator=(const sender_t &) = delete;

    pl_status_t open()
    {
        cudaError_t error =
            cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);

        for (int i = 0; (i < 2) && (error == cudaSuccess); i++) {
            error = cudaHostAlloc((void **)&pinned[i], PIECE + SCALES,
                                  cudaHostAllocDefault);
            error = error == cudaSuccess
                        ? cudaMalloc((void **)&device[i], PIECE + SCALES)
                        : error;
            error =
                error == cudaSuccess
                    ? cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming)
                    : error;
        }
        return pl_cuda_told(log, error, "memory to send weights through");
    }

    /* A tensor to rows of to_stride elements. */
    pl_status_t send(const pl_tensor_t &tensor, void *to, size_t to_stride,
                     pl_cuda_dtype_t dtype)
    {
        const size_t row  = (size_t)tensor.cols * file_bytes(tensor.dtype);
        const size_t most = row > 0 ? PIECE / row : 0;

        if (tensor.dtype == PL_DRAWN) {
            return told(pl_cuda_draw(&tensor.drawing, tensor.rows, tensor.cols,
                                     to, to_stride, dtype, stream));
        }
        if (most == 0) {
            return PL_ERR_ARGUMENT; /* no row is so long */
        }
        for (int32_t r = 0; r < tensor.rows; r += (int32_t)most) {
            const int32_t left = tensor.rows - r;
            const int32_t n    = (size_t)left < most ? left : (int32_t)most;

            PL_TRY(send_rows(tensor, r, n,
                             (uint8_t *)to +
                                 (size_t)r * to_stride * pl_item_bytes(dtype),
                             to_stride, dtype));
        }
        return PL_OK;
    }

    pl_status_t send_vector(const pl_tensor_t &tensor, float *to)
    {
        return send(tensor, to, (size_t)tensor.cols, PL_CUDA_F32);
    }

    /* All that was sent is there. */
    pl_status_t finish()
    {
        pl_cuda_count_synchronization();
        return pl_cuda_told(log, cudaStreamSynchronize(stream),
                            "the sending of weights");
    }

  private:
    pl_status_t told(pl_status_t status)
    {
        return status == PL_OK ? PL_OK
                               : pl_cuda_told(log, cudaErrorLaunchFailure,
                                              "a kernel that makes weights");
    }

    pl_status_t send_rows(const pl_tensor_t &tensor, int32_t first, int32_t n,
                          void *to, size_t to_stride, pl_cuda_dtype_t dtype)
    {
        const size_t row   = (size_t)tensor.cols * file_bytes(tensor.dtype);
        const size_t bytes = (size_t)n * row;
        const rows_t rows  = {device[turn],
                              (const float *)(device[turn] + PIECE),
                              tensor.scale_cols, first, tensor.cols};
        cudaError_t error;

        pl_cuda_count_synchronization();
        error = cudaEventSynchronize(done[turn]);
        memcpy(pinned[turn],
               (const uint8_t *)tensor.bytes + (size_t)first * row, bytes);
        error = error == cudaSuccess
                    ? cudaMemcpyAsync(device[turn], pinned[turn], bytes,
                                      cudaMemcpyHostToDevice, stream)
                    : error;
        if ((tensor.dtype == PL_F8_E4M3) && (error == cudaSuccess)) {
            error = send_scales(tensor, first, n);
        }
        PL_TRY(pl_cuda_told(log, error, "a piece of weights"));
        PL_TRY(told(
            convert_rows(tensor.dtype, rows, n, to, to_stride, dtype, stream)));
        error = cudaEventRecord(done[turn], stream);
        turn ^= 1;
        return pl_cuda_told(log, error, "a piece of weights");
    }

    /* Those of the blocks that rows first .. first + n - 1 lie in. */
    cudaError_t send_scales(const pl_tensor_t &tensor, int32_t first, int32_t n)
    {
        const int32_t from = first / SCALE_BLOCK;
        const int32_t last = (first + n - 1) / SCALE_BLOCK;
        const size_t cols  = (size_t)tensor.scale_cols;
        const size_t bytes = (size_t)(last - from + 1) * cols * sizeof(float);

        if (bytes > SCALES) {
            return cudaErrorInvalidValue;
        }
        memcpy(pinned[turn] + PIECE,
               (const uint8_t *)tensor.scale +
                   (size_t)from * cols * sizeof(float),
               bytes);
        return cudaMemcpyAsync(device[turn] + PIECE, pinned[turn] + PIECE,
                               bytes, cudaMemcpyHostToDevice, stream);
    }

    const pl_log_t *log;
    cudaStream_t stream;
    uint8_t *pinned[2], *device[2];
    cudaEvent_t done[2];
    int turn;
};

/* ---- where they lie ---- */

size_t padded(const pl_gpu_weights_t *weights, int32_t cols)
{
    const size_t in_16_bytes = 16 / pl_item_bytes(weights->dtype);

    return ((size_t)cols + in_16_bytes - 1) / in_16_bytes * in_16_bytes;
}

void set_widths(const pl_model_config_t *config, pl_gpu_weights_t *weights)
{
    pl_gpu_widths_t *widths = &weights->widths;
    const int32_t in        = config->q_lora + config->kv_lora + config->rope;

    widths->hidden  = padded(weights, config->hidden);
    widths->q_lora  = padded(weights, config->q_lora);
    widths->kv_lora = padded(weights, config->kv_lora);
    widths->nope    = padded(weights, config->nope);
    widths->latent  = weights->dtype == PL_CUDA_BF16 ? widths->kv_lora
                                                     : (size_t)config->kv_lora;
    widths->values  = padded(weights, config->n_heads * config->v_dim);
    widths->dense   = padded(weights, config->dense_width);
    widths->shared  = padded(weights, config->n_shared * config->expert_width);
    widths->expert  = padded(weights, config->expert_width);
    widths->in[0]   = in;
    widths->in[1]   = in + config->index_dim + config->index_heads;
}

void *cut_matrix(const pl_gpu_weights_t *weights, pl_cutter_t *cutter,
                 int32_t rows, size_t width)
{
    return cutter->cut((size_t)rows * width * pl_item_bytes(weights->dtype));
}

void cut_mlp(const pl_model_config_t *config, const pl_gpu_weights_t *weights,
             pl_cutter_t *cutter, int32_t width, size_t padded_width,
             pl_gpu_mlp_t *mlp)
{
    mlp->gate_up =
        cut_matrix(weights, cutter, 2 * width, weights->widths.hidden);
    mlp->down = cut_matrix(weights, cutter, config->hidden, padded_width);
}

void cut_attention(const pl_model_config_t *config, int32_t layer,
                   const pl_gpu_weights_t *weights, pl_cutter_t *cutter,
                   pl_gpu_layer_t *cut)
{
    const pl_gpu_widths_t &widths = weights->widths;
    const int32_t heads           = config->n_heads;
    const int32_t q_rows          = heads * (config->nope + config->rope);
    const bool has_index          = config->full_indexer[layer];

    cut->input_norm = cutter->of<float>((size_t)config->hidden);
    cut->post_norm  = cutter->of<float>((size_t)config->hidden);
    cut->q_a_norm   = cutter->of<float>((size_t)config->q_lora);
    cut->kv_a_norm  = cutter->of<float>((size_t)config->kv_lora);
    cut->in         = cut_matrix(weights, cutter, widths.in[has_index ? 1 : 0],
                                 widths.hidden);
    cut->q_b        = cut_matrix(weights, cutter, q_rows, widths.q_lora);
    cut->kv_b =
        cut_matrix(weights, cutter, heads * (config->nope + config->v_dim),
                   widths.kv_lora);
    cut->o = cut_matrix(weights, cutter, config->hidden, widths.values);
    if (has_index) {
        cut->index_k_norm      = cutter->of<float>((size_t)config->index_dim);
        cut->index_k_norm_bias = cutter->of<float>((size_t)config->index_dim);
        cut->index_q_b =
            cut_matrix(weights, cutter, config->index_heads * config->index_dim,
                       widths.q_lora);
    }
}

/* Each expert's matrix begins at a multiple of 16 bytes. */
size_t expert_bytes(const pl_model_config_t *config,
                    const pl_gpu_weights_t *weights)
{
    const size_t values = (size_t)config->expert_width * (size_t)config->hidden;

    return (values * pl_item_bytes(weights->dtype) + 15) / 16 * 16;
}

/* The matrices of all experts follow one another behind their addresses: all
 * gates, all ups, all downs. */
void cut_experts(const pl_model_config_t *config,
                 const pl_gpu_weights_t *weights, pl_cutter_t *cutter,
                 pl_gpu_layer_t *cut)
{
    const size_t n = (size_t)config->n_experts;

    cut->router      = cutter->of<float>(n * weights->widths.hidden);
    cut->router_bias = cutter->of<float>(n);
    cut->gate        = cutter->of<const void *>(n);
    cut->up          = cutter->of<const void *>(n);
    cut->down        = cutter->of<const void *>(n);
    (void)cutter->cut(3 * n * expert_bytes(config, weights));
    if (config->n_shared > 0) {
        cut_mlp(config, weights, cutter,
                config->n_shared * config->expert_width, weights->widths.shared,
                &cut->shared);
    }
}

/* Where expert 0's gate is: behind the addresses of downs. */
uint8_t *experts_of(const pl_model_config_t *config,
                    const pl_gpu_layer_t &layer)
{
    const size_t n = (size_t)config->n_experts;

    return (uint8_t *)layer.down + (n * sizeof(void *) + 255) / 256 * 256;
}

void cut_all(const pl_model_config_t *config, pl_gpu_weights_t *weights,
             pl_cutter_t *cutter)
{
    weights->embed =
        cut_matrix(weights, cutter, config->vocab_size, weights->widths.hidden);
    weights->head = config->tied
                        ? weights->embed
                        : cut_matrix(weights, cutter, config->vocab_size,
                                     weights->widths.hidden);
    weights->norm = cutter->of<float>((size_t)config->hidden);
    for (int32_t i = 0; i < config->n_layers; i++) {
        pl_gpu_layer_t *layer = &weights->layers[i];

        cut_attention(config, i, weights, cutter, layer);
        if (config->sparse_mlp[i]) {
            cut_experts(config, weights, cutter, layer);
        } else {
            cut_mlp(config, weights, cutter, config->dense_width,
                    weights->widths.dense, &layer->dense);
        }
    }
}

/* ---- sending ---- */

/* Tensors one below the other, rows of the same width. */
pl_status_t send_stack(sender_t *sender, const pl_gpu_weights_t *weights,
                       std::initializer_list<const pl_tensor_t *> tensors,
                       void *to, size_t width)
{
    uint8_t *at = (uint8_t *)to;

    for (const pl_tensor_t *tensor : tensors) {
        PL_TRY(sender->send(*tensor, at, width, weights->dtype));
        at += (size_t)tensor->rows * width * pl_item_bytes(weights->dtype);
    }
    return PL_OK;
}

pl_status_t send_mlp(sender_t *sender, const pl_gpu_weights_t *weights,
                     const pl_mlp_weights_t &from, const pl_gpu_mlp_t &to,
                     size_t width)
{
    PL_TRY(send_stack(sender, weights, {&from.gate, &from.up}, to.gate_up,
                      weights->widths.hidden));
    return sender->send(from.down, to.down, width, weights->dtype);
}

pl_status_t send_attention(sender_t *sender, const pl_gpu_weights_t *weights,
                           const pl_layer_weights_t &from,
                           const pl_gpu_layer_t &to, bool has_index)
{
    const pl_gpu_widths_t &widths = weights->widths;

    PL_TRY(sender->send_vector(from.input_norm, to.input_norm));
    PL_TRY(sender->send_vector(from.post_norm, to.post_norm));
    PL_TRY(sender->send_vector(from.q_a_norm, to.q_a_norm));
    PL_TRY(sender->send_vector(from.kv_a_norm, to.kv_a_norm));
    PL_TRY(sender->send(from.q_b, to.q_b, widths.q_lora, weights->dtype));
    PL_TRY(sender->send(from.kv_b, to.kv_b, widths.kv_lora, weights->dtype));
    PL_TRY(sender->send(from.o, to.o, widths.values, weights->dtype));
    if (!has_index) {
        return send_stack(sender, weights, {&from.q_a, &from.kv_a}, to.in,
                          widths.hidden);
    }
    PL_TRY(sender->send_vector(from.index_k_norm, to.index_k_norm));
    PL_TRY(sender->send_vector(from.index_k_norm_bias, to.index_k_norm_bias));
    PL_TRY(sender->send(from.index_q_b, to.index_q_b, widths.q_lora,
                        weights->dtype));
    return send_stack(
        sender, weights,
        {&from.q_a, &from.kv_a, &from.index_k, &from.index_weights}, to.in,
        widths.hidden);
}

pl_status_t send_experts(sender_t *sender, const pl_log_t *log,
                         const pl_model_config_t *config,
                         const pl_gpu_weights_t *weights,
                         const pl_layer_weights_t &from,
                         const pl_gpu_layer_t &to)
{
    const size_t n        = (size_t)config->n_experts;
    const void **lists[3] = {to.gate, to.up, to.down};
    std::vector<const void *> addresses(n);
    uint8_t *at = experts_of(config, to);

    PL_TRY(sender->send(from.router, to.router, weights->widths.hidden,
                        PL_CUDA_F32));
    PL_TRY(sender->send_vector(from.router_bias, to.router_bias));
    for (int which = 0; which < 3; which++) {
        for (size_t e = 0; e < n; e++) {
            const pl_mlp_weights_t &expert = from.experts[e];
            const pl_tensor_t *tensor      = which == 0   ? &expert.gate
                                             : which == 1 ? &expert.up
                                                          : &expert.down;

            addresses[e] = at;
            PL_TRY(sender->send(*tensor, at, (size_t)tensor->cols,
                                weights->dtype));
            at += expert_bytes(config, weights);
        }
        PL_TRY(pl_cuda_told(log,
                            pl_cuda_copy_now(lists[which], addresses.data(),
                                             n * sizeof(void *)),
                            "the addresses of experts"));
    }
    return config->n_shared == 0 ? PL_OK
                                 : send_mlp(sender, weights, from.shared,
                                            to.shared, weights->widths.shared);
}

pl_status_t send_all(sender_t *sender, const pl_log_t *log,
                     const pl_model_config_t *config,
                     const pl_gpu_weights_t *weights)
{
    const pl_weights_t *source = weights->source;
    const size_t hidden        = weights->widths.hidden;

    PL_TRY(sender->send(source->embed, weights->embed, hidden, weights->dtype));
    if (!config->tied) {
        PL_TRY(
            sender->send(source->head, weights->head, hidden, weights->dtype));
    }
    PL_TRY(sender->send_vector(source->norm, weights->norm));
    for (int32_t i = 0; i < config->n_layers; i++) {
        const pl_layer_weights_t &from = source->layers[i];
        const pl_gpu_layer_t &to       = weights->layers[i];

        PL_TRY(
            send_attention(sender, weights, from, to, config->full_indexer[i]));
        PL_TRY(config->sparse_mlp[i]
                   ? send_experts(sender, log, config, weights, from, to)
                   : send_mlp(sender, weights, from.dense, to.dense,
                              weights->widths.dense));
    }
    return sender->finish();
}

/* ---- products ---- */

class planner_t
{
  public:
    planner_t(pl_gpu_weights_t *of, const pl_log_t *to_log)
        : weights(of), log(to_log)
    {
    }

    /* [n][cols] to [n][rows], float32. */
    pl_status_t plain(int32_t rows, int32_t cols, size_t width, size_t y_width,
                      int *plan_p)
    {
        pl_cuda_product_t shape = {};

        shape.dtype     = weights->dtype;
        shape.out       = PL_CUDA_F32;
        shape.rows      = rows;
        shape.cols      = cols;
        shape.n_batches = 1;
        shape.w_stride  = width;
        shape.x_stride  = width;
        shape.y_stride  = y_width;
        return plan(shape, plan_p);
    }

    pl_status_t plan(const pl_cuda_product_t &shape, int *plan_p)
    {
        return pl_cuda_products_plan(weights->products, &shape, log, plan_p);
    }

    /* gate_up, down */
    pl_status_t mlp(const pl_model_config_t *config, int32_t width,
                    size_t padded_width, int *plans)
    {
        if (width == 0) {
            return PL_OK;
        }
        PL_TRY(plain(2 * width, config->hidden, weights->widths.hidden,
                     2 * (size_t)width, &plans[0]));
        return plain(config->hidden, width, padded_width,
                     (size_t)config->hidden, &plans[1]);
    }

  private:
    pl_gpu_weights_t *weights;
    const pl_log_t *log;
};

/* Heads as batches: queries to latents, latents to values. */
pl_status_t plan_heads(planner_t *planner, const pl_model_config_t *config,
                       pl_gpu_weights_t *weights)
{
    const pl_gpu_widths_t &widths = weights->widths;
    const size_t heads            = (size_t)config->n_heads;
    pl_cuda_product_t absorb      = {}, values;

    absorb.dtype      = weights->dtype;
    absorb.out        = PL_CUDA_F32;
    absorb.transposed = true;
    absorb.rows       = config->kv_lora;
    absorb.cols       = config->nope;
    absorb.n_batches  = config->n_heads;
    absorb.w_stride   = widths.kv_lora;
    absorb.w_batch    = (size_t)(config->nope + config->v_dim) * widths.kv_lora;
    absorb.x_stride   = heads * widths.nope;
    absorb.x_batch    = widths.nope;
    absorb.y_stride   = heads * (size_t)config->kv_lora;
    absorb.y_batch    = (size_t)config->kv_lora;
    values            = absorb;
    values.out        = weights->dtype;
    values.transposed = false;
    values.rows       = config->v_dim;
    values.cols       = config->kv_lora;
    values.x_stride   = heads * widths.latent;
    values.x_batch    = widths.latent;
    values.y_stride   = widths.values;
    values.y_batch    = (size_t)config->v_dim;
    PL_TRY(planner->plan(absorb, &weights->plans.absorb));
    return planner->plan(values, &weights->plans.values);
}

pl_status_t plan_router(planner_t *planner, const pl_model_config_t *config,
                        pl_gpu_weights_t *weights)
{
    pl_cuda_product_t router = {};

    router.dtype     = PL_CUDA_F32;
    router.out       = PL_CUDA_F32;
    router.rows      = config->n_experts;
    router.cols      = config->hidden;
    router.n_batches = 1;
    router.w_stride  = weights->widths.hidden;
    router.x_stride  = weights->widths.hidden;
    router.y_stride  = (size_t)config->n_experts;
    return planner->plan(router, &weights->plans.router);
}

pl_status_t plan_head(planner_t *planner, const pl_model_config_t *config,
                      pl_gpu_weights_t *weights)
{
    pl_cuda_product_t head = {};

    head.dtype     = weights->dtype;
    head.out       = PL_CUDA_F32;
    head.one_row   = true;
    head.rows      = config->vocab_size;
    head.cols      = config->hidden;
    head.n_batches = 1;
    head.w_stride  = weights->widths.hidden;
    head.x_stride  = weights->widths.hidden;
    head.y_stride  = (size_t)config->vocab_size;
    return planner->plan(head, &weights->plans.head);
}

pl_status_t plan_all(const pl_model_config_t *config, const pl_log_t *log,
                     pl_gpu_weights_t *weights)
{
    const pl_gpu_widths_t &widths = weights->widths;
    pl_gpu_plans_t *plans         = &weights->plans;
    planner_t planner(weights, log);
    bool is_sparse = false, is_dense = false;
    int32_t rows;

    for (int32_t i = 0; i < config->n_layers; i++) {
        const int which = config->full_indexer[i] ? 1 : 0;

        is_sparse = is_sparse || config->sparse_mlp[i];
        is_dense  = is_dense || !config->sparse_mlp[i];
        PL_TRY(planner.plain(widths.in[which], config->hidden, widths.hidden,
                             (size_t)widths.in[which], &plans->in[which]));
    }
    rows = config->n_heads * (config->nope + config->rope);
    PL_TRY(planner.plain(rows, config->q_lora, widths.q_lora, (size_t)rows,
                         &plans->q_b));
    rows = config->index_heads * config->index_dim;
    PL_TRY(planner.plain(rows, config->q_lora, widths.q_lora, (size_t)rows,
                         &plans->index_q_b));
    PL_TRY(plan_heads(&planner, config, weights));
    PL_TRY(planner.plain(config->hidden, config->n_heads * config->v_dim,
                         widths.values, (size_t)config->hidden, &plans->o));
    if (is_dense) {
        PL_TRY(planner.mlp(config, config->dense_width, widths.dense,
                           plans->dense));
    }
    if (is_sparse) {
        PL_TRY(plan_router(&planner, config, weights));
        PL_TRY(planner.mlp(config, config->n_shared * config->expert_width,
                           widths.shared, plans->shared));
    }
    return plan_head(&planner, config, weights);
}

/* ---- shared by all forwards of a process on a GPU ---- */

std::mutex table_mutex;
std::vector<pl_gpu_weights_t *> table;

void close_weights(pl_gpu_weights_t *weights)
{
    (void)cudaFree(weights->memory);
    pl_cuda_products_close(weights->products);
    free(weights->layers);
    free(weights);
}

pl_status_t allocate(const pl_model_config_t *config, const pl_log_t *log,
                     pl_gpu_weights_t *weights)
{
    pl_cutter_t cutter = {};

    cut_all(config, weights, &cutter);
    if (cudaMalloc(&weights->memory, cutter.used) != cudaSuccess) {
        (void)cudaGetLastError(); /* told here */
        weights->memory = nullptr;
        pl_log(log, PL_LOG_ERROR,
               "no memory on GPU %d for %zu bytes (%.1f GiB) of weights: use a "
               "config.json with fewer layers or experts, or a GPU with more "
               "memory",
               weights->gpu, cutter.used, (double)cutter.used * 0x1p-30);
        return PL_ERR_MEMORY;
    }
    cutter.base = (uint8_t *)weights->memory;
    cutter.used = 0;
    cut_all(config, weights, &cutter);
    return PL_OK;
}

pl_status_t upload(const pl_model_config_t *config, const pl_log_t *log,
                   pl_gpu_weights_t *weights)
{
    sender_t sender(log);

    set_widths(config, weights);
    PL_TRY(pl_cuda_products_open(log, &weights->products));
    /* before the weights take the room that trials need */
    PL_TRY(plan_all(config, log, weights));
    PL_TRY(allocate(config, log, weights));
    PL_TRY(sender.open());
    return send_all(&sender, log, config, weights);
}

} // namespace

pl_status_t pl_gpu_weights_take(const pl_device_t *device,
                                const pl_model_config_t *config,
                                const pl_weights_t *source,
                                pl_cuda_dtype_t dtype, const pl_log_t *log,
                                pl_gpu_weights_t **weights_p)
{
    const std::lock_guard<std::mutex> guard(table_mutex);
    const int gpu = pl_cuda_device_gpu(device);
    pl_gpu_weights_t *weights;
    pl_status_t status;

    for (pl_gpu_weights_t *one : table) {
        if ((one->source == source) && (one->gpu == gpu) &&
            (one->dtype == dtype)) {
            one->n_users++;
            *weights_p = one;
            return PL_OK;
        }
    }
    weights = (pl_gpu_weights_t *)calloc(1, sizeof(*weights));
    if (weights == nullptr) {
        return PL_ERR_MEMORY;
    }
    weights->source  = source;
    weights->gpu     = gpu;
    weights->n_users = 1;
    weights->dtype   = dtype;
    weights->layers  = (pl_gpu_layer_t *)calloc((size_t)config->n_layers,
                                                sizeof(*weights->layers));
    status           = weights->layers == nullptr ? PL_ERR_MEMORY
                                                  : upload(config, log, weights);
    if (status != PL_OK) {
        close_weights(weights);
        return status;
    }
    table.push_back(weights);
    *weights_p = weights;
    return PL_OK;
}

void pl_gpu_weights_give(pl_gpu_weights_t *weights)
{
    const std::lock_guard<std::mutex> guard(table_mutex);

    if ((weights == nullptr) || (--weights->n_users > 0)) {
        return;
    }
    for (size_t i = 0; i < table.size(); i++) {
        if (table[i] == weights) {
            table.erase(table.begin() + (ptrdiff_t)i);
            break;
        }
    }
    close_weights(weights);
}
