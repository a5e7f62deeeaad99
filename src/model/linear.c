/* Products with weights.  A panel of PL_LANES outputs and PL_DEPTH inputs is
 * made from the weights once and used for all rows of the batch;
 * attn/kernels.h has the order of operations. */
#include <string.h>

#include "attn/kernels.h"
#include "model/ops.h"
#include "model/tensor.h"

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Inputs first .. first+k-1 of the outputs from row `r`; lanes without an
 * output repeat the first. */
static void pack_weights(const pl_tensor_t *w, int32_t r, int32_t outputs,
                         int32_t first, int32_t k, float *panel)
{
    float decoded[PL_LANES][PL_DEPTH];
    const void *rows[PL_LANES];

    for (int32_t j = 0; j < PL_LANES; j++) {
        if (j >= outputs) {
            rows[j] = rows[0];
        } else if (w->dtype == PL_F32) {
            rows[j] = (const uint8_t *)w->bytes +
                      ((size_t)(r + j) * (size_t)w->cols + (size_t)first) *
                          sizeof(float);
        } else {
            pl_tensor_part(w, r + j, first, k, decoded[j]);
            rows[j] = decoded[j];
        }
    }
    pl_kernels()->pack(rows, 0, k, panel);
}

void pl_linear(const pl_tensor_t *w, int32_t first_row, int32_t n_rows,
               const float *x, int32_t n, int32_t x_stride, float *scratch,
               float *y, int32_t y_stride)
{
    const pl_kernels_t *kernels = pl_kernels();
    float panel[PL_DEPTH * PL_LANES];

    (void)scratch; /* panels are small enough for the stack */
    for (int32_t o = 0; o < n_rows; o += PL_LANES) {
        int32_t outputs = least(n_rows - o, PL_LANES);

        for (int32_t c = 0; c < w->cols; c += PL_DEPTH) {
            int32_t k = least(w->cols - c, PL_DEPTH);

            pack_weights(w, first_row + o, outputs, c, k, panel);
            kernels->product(x + c, (size_t)x_stride, n, panel, PL_LANES, k,
                             y + o, (size_t)y_stride, outputs, c > 0);
        }
    }
}

/* Columns first .. first+outputs-1 of k rows from r: a panel as it is. */
static void copy_weights(const pl_tensor_t *w, int32_t r, int32_t k,
                         int32_t first, int32_t outputs, float *panel)
{
    for (int32_t t = 0; t < k; t++, panel += PL_LANES) {
        pl_tensor_part(w, r + t, first, outputs, panel);
        memset(panel + outputs, 0,
               (size_t)(PL_LANES - outputs) * sizeof(float));
    }
}

void pl_linear_transposed(const pl_tensor_t *w, int32_t first_row,
                          int32_t n_rows, const float *x, int32_t n,
                          int32_t x_stride, float *scratch, float *y,
                          int32_t y_stride)
{
    const pl_kernels_t *kernels = pl_kernels();
    float panel[PL_DEPTH * PL_LANES];

    (void)scratch;
    for (int32_t c = 0; c < w->cols; c += PL_LANES) {
        int32_t outputs = least(w->cols - c, PL_LANES);

        for (int32_t r = 0; r < n_rows; r += PL_DEPTH) {
            int32_t k = least(n_rows - r, PL_DEPTH);

            copy_weights(w, first_row + r, k, c, outputs, panel);
            kernels->product(x + r, (size_t)x_stride, n, panel, PL_LANES, k,
                             y + c, (size_t)y_stride, outputs, r > 0);
        }
    }
}

void pl_mlp(const pl_mlp_weights_t *mlp, const float *x, int32_t n,
            int32_t hidden, float scale, const pl_mlp_scratch_t *scratch,
            float *y)
{
    const int32_t width = mlp->gate.rows;

    if (width <= 0) {
        return;
    }
    pl_linear(&mlp->gate, 0, width, x, n, hidden, scratch->row, scratch->gate,
              width);
    pl_linear(&mlp->up, 0, width, x, n, hidden, scratch->row, scratch->up,
              width);
    for (int32_t i = 0; i < n; i++) {
        size_t row = (size_t)i * (size_t)width;

        pl_kernels()->silu_product(scratch->gate + row, scratch->up + row,
                                   width);
    }
    /* `up` has done its work and takes the results, `width` at a time */
    for (int32_t c = 0; c < hidden; c += width) {
        int32_t columns = least(hidden - c, width);

        pl_linear(&mlp->down, c, columns, scratch->gate, n, width, scratch->row,
                  scratch->up, width);
        for (int32_t i = 0; i < n; i++) {
            const float *part = scratch->up + (size_t)i * (size_t)width;
            float *sum        = y + (size_t)i * (size_t)hidden + c;

            for (int32_t j = 0; j < columns; j++) {
                sum[j] += scale * part[j];
            }
        }
    }
}
