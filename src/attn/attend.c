#include <string.h>

#include "attn/attention.h"
#include "attn/kernels.h"

static size_t round_up(int32_t n)
{
    return ((size_t)n + PL_LANES - 1) / PL_LANES * PL_LANES;
}

/* scratch: the selected rows as float32, each padded to whole panels, then the
 * logits [n_heads][positions, padded likewise]. */
size_t pl_attend_scratch(const pl_row_layout_t *layout, int32_t n_heads,
                         int32_t n_positions)
{
    return (size_t)n_positions * round_up(layout->kv_lora + layout->rope) +
           (size_t)n_heads * round_up(n_positions);
}

static void load_rows(const pl_view_t *latent, const pl_row_layout_t *layout,
                      const int32_t *positions, int32_t n, float *rows)
{
    const size_t used   = (size_t)layout->kv_lora + (size_t)layout->rope;
    const size_t stride = round_up(layout->kv_lora + layout->rope);

    for (int32_t i = 0; i < n; i++, rows += stride) {
        pl_latent_load(layout, pl_view_key(latent, positions[i]), rows);
        memset(rows + used, 0, (stride - used) * sizeof(float));
    }
}

/* logits[h][0..15] += q[h] . rows, over n values of each row from `first`. */
static void add_logits(const void *const *rows, int32_t first, int32_t n,
                       const float *q, int32_t n_heads, bool fresh,
                       float *logits, size_t stride, int32_t columns)
{
    const pl_kernels_t *kernels = pl_kernels();
    float panel[PL_DEPTH * PL_LANES];

    for (int32_t d = 0; d < n; d += PL_DEPTH) {
        int32_t k = n - d < PL_DEPTH ? n - d : PL_DEPTH;

        kernels->pack(rows, first + d, k, panel);
        kernels->product(q + d, (size_t)n, n_heads, panel, PL_LANES, k, logits,
                         stride, columns, !fresh || d > 0);
    }
}

/* Softmax over scale * logits, one head a row. */
static void normalise(float *logits, size_t stride, int32_t n_heads,
                      float scale, int32_t n)
{
    const pl_kernels_t *kernels = pl_kernels();

    for (int32_t h = 0; h < n_heads; h++, logits += stride) {
        for (int32_t i = 0; i < n; i++) {
            logits[i] *= scale;
        }
        kernels->softmax(logits, n);
    }
}

/* out[h] = sum over rows of p[h][row] * the row's latent part. */
static void mix_rows(const pl_row_layout_t *layout, const float *rows,
                     const float *p, size_t p_stride, int32_t n_heads,
                     int32_t n, float *out)
{
    const pl_kernels_t *kernels = pl_kernels();
    const size_t stride         = round_up(layout->kv_lora + layout->rope);
    const int32_t width         = layout->kv_lora;

    for (int32_t s = 0; s < n; s += PL_DEPTH) {
        int32_t k = n - s < PL_DEPTH ? n - s : PL_DEPTH;

        for (int32_t c = 0; c < width; c += PL_LANES) {
            kernels->product(
                p + s, p_stride, n_heads, rows + (size_t)s * stride + c, stride,
                k, out + c, (size_t)width,
                width - c < PL_LANES ? width - c : PL_LANES, s > 0);
        }
    }
}

void pl_attend(const pl_view_t *latent, const pl_row_layout_t *layout,
               const float *q_latent, const float *q_rope, int32_t n_heads,
               float scale, const int32_t *positions, int32_t n_positions,
               float *scratch, float *out)
{
    const size_t stride   = round_up(layout->kv_lora + layout->rope);
    const size_t l_stride = round_up(n_positions);
    float *logits         = scratch + (size_t)n_positions * stride;
    const void *rows[PL_LANES];

    load_rows(latent, layout, positions, n_positions, scratch);
    for (int32_t s = 0; s < n_positions; s += PL_LANES) {
        int32_t rest = n_positions - s;
        int32_t n    = rest < PL_LANES ? rest : PL_LANES;

        for (int32_t j = 0; j < PL_LANES; j++) {
            rows[j] = scratch + (size_t)(s + (j < n ? j : 0)) * stride;
        }
        add_logits(rows, 0, layout->kv_lora, q_latent, n_heads, true,
                   logits + s, l_stride, n);
        add_logits(rows, layout->kv_lora, layout->rope, q_rope, n_heads, false,
                   logits + s, l_stride, n);
    }
    normalise(logits, l_stride, n_heads, scale, n_positions);
    mix_rows(layout, scratch, logits, l_stride, n_heads, n_positions, out);
}
