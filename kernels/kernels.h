/* kernels/kernels.h - what runs on a GPU, behind one C header.
 *
 * Launchers: each queues its kernels on a stream and returns at once.  Memory
 * is the caller's; pointers are device pointers unless a comment says pinned
 * (host memory that the device can reach).  Nothing here allocates or waits.
 * The plain C version named with each is the reference; one test suite runs
 * both (tests/gpu).
 *
 * Results do not depend on the batch: what a row, a page or a query gives is a
 * function of that row, page or query.
 *
 * Statuses: PL_OK; PL_ERR_ARGUMENT (nothing was queued); PL_ERR_DEVICE (the
 * launch failed).  The caller says what it was about.
 */
#ifndef PL_KERNELS_KERNELS_H
#define PL_KERNELS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/layout.h>
#include <pagelane/log.h>
#include <pagelane/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "attn/rows.h"
#include "model/weights.h"
#include "verify/digest.h"

typedef struct CUstream_st *pl_cuda_stream_t; /* cudaStream_t */

/* ---- pages.cu ---- */

/* Where pages lie: page i of a list at base + slots[i] * stride, or, without
 * slots, at base + i * stride.  With lanes, slots[i] is a logical page g, which
 * lies at bases[g mod n_lanes] + (g div n_lanes) * stride: the stores of peers.
 * base and stride are multiples of 16; base may be pinned memory. */
typedef struct pl_page_place {
    const void *base;
    const int32_t *slots;     /* [n_pages], or NULL */
    const void *const *bases; /* [n_lanes], or NULL */
    int32_t n_lanes;
    size_t stride; /* bytes from one slot to the next */
} pl_page_place_t;

/* Copy n pages of page_bytes (a multiple of 16) from one place to another, all
 * apart.  One pass for gather, scatter, load-back, backup and, with lanes, for
 * pack, exchange and unpack.  `to` is written; it has no lanes.
 * Reference: memcpy per page.  n_blocks: 0 within the device's memory, all of
 * the device then; over a link (pinned memory, peers) so many multiprocessors
 * at most: 8 fill PCIe, 264 fill NVLink. */
PL_MUST_CHECK pl_status_t pl_cuda_copy_pages(const pl_page_place_t *from,
                                             const pl_page_place_t *to,
                                             int32_t n_pages, size_t page_bytes,
                                             int32_t n_blocks,
                                             pl_cuda_stream_t stream);

/* The same of a list whose first n_far pages lie behind a link and the other
 * n_near do not: these are copied beside those, by as many blocks again. */
PL_MUST_CHECK pl_status_t pl_cuda_gather_pages(const pl_page_place_t *from,
                                               const pl_page_place_t *to,
                                               int32_t n_far, int32_t n_near,
                                               size_t page_bytes,
                                               int32_t n_blocks,
                                               pl_cuda_stream_t stream);

/* ---- ranges.cu ---- */

struct pl_copy; /* device/device.h */
struct pl_span;
struct pl_digest_job;

/* Copy ranges of any place and size, in one launch for each 1,360 that are not
 * neighbours; the list is the caller's again at once.  No range may overlap
 * what another one writes.  Ranges whose addresses and bytes are multiples of
 * 16 go by the bulk copy engine.  n_blocks as in pl_cuda_copy_pages. Reference:
 * memcpy. */
PL_MUST_CHECK pl_status_t pl_cuda_copy_ranges(const struct pl_copy *copies,
                                              int32_t n, int32_t n_blocks,
                                              pl_cuda_stream_t stream);
/* Reference: memset. */
PL_MUST_CHECK pl_status_t pl_cuda_fill_ranges(const struct pl_span *spans,
                                              int32_t n, uint8_t byte,
                                              pl_cuda_stream_t stream);
/* Were the kernels compiled for the current GPU? */
bool pl_cuda_kernels_run_here(void);

/* ---- remap.cu, lanes.cu ---- */

/* For an engine that keeps its requests' token locations, or its free lists, on
 * the GPU.  Ours decides on the host, the same on every rank, and shows
 * attention a view with a page map: no run uses these, they are tested, and
 * pl_cuda_remap is measured (`pagelane bench kernels`). */

/* Page-level inverse: where in a request's page list does a logical page
 * stand?  inverse [n_logical] holds -1 everywhere between uses. */
PL_MUST_CHECK pl_status_t pl_cuda_inverse_set(int32_t *inverse,
                                              const pl_page_t *pages,
                                              int32_t n_pages,
                                              pl_cuda_stream_t stream);
PL_MUST_CHECK pl_status_t pl_cuda_inverse_clear(int32_t *inverse,
                                                const pl_page_t *pages,
                                                int32_t n_pages,
                                                pl_cuda_stream_t stream);
/* places[i] = the position in the request of logical token locations[i] =
 * page * page_tokens + offset, or -1 (also for a negative location); both at
 * multiples of 16 bytes. */
PL_MUST_CHECK pl_status_t pl_cuda_remap(const int32_t *inverse,
                                        int32_t page_tokens,
                                        const int32_t *locations, int64_t n,
                                        int32_t *places,
                                        pl_cuda_stream_t stream);

/* Take n pages, page i in lane owners[i], each the lowest free slot that the
 * ones before it have left; all or nothing.  free_bits [n_lanes][n_words]: bit
 * s of a lane is set if slot s is free; taken ones are cleared.  *short_p
 * becomes the number of pages lacking (0: taken).  scratch: [n_lanes + n].
 * Reference: pl_lanes_alloc, from lanes without staged pages. */
PL_MUST_CHECK pl_status_t pl_cuda_take_pages(uint64_t *free_bits,
                                             int32_t n_lanes, int32_t n_words,
                                             const pl_owner_t *owners,
                                             int32_t n, pl_page_t *pages,
                                             int32_t *short_p, int32_t *scratch,
                                             pl_cuda_stream_t stream);

/* ---- rows.cu ---- */

/* Store n rows of float32 as they lie in pages.  Row i goes to row rows[i] %
 * page_tokens of slot rows[i] / page_tokens; rows[i] < 0: nowhere (padding).
 * Latent: values [n][kv_lora + rope].  Index: values [n][index_dim].
 * Reference: pl_latent_store, pl_index_store. */
PL_MUST_CHECK pl_status_t pl_cuda_store_latent(const pl_row_layout_t *layout,
                                               const pl_page_form_t *form,
                                               const float *values, int32_t n,
                                               const int32_t *rows,
                                               uint8_t *pages, size_t stride,
                                               pl_cuda_stream_t stream);
PL_MUST_CHECK pl_status_t pl_cuda_store_index(const pl_row_layout_t *layout,
                                              const pl_page_form_t *form,
                                              const float *values, int32_t n,
                                              const int32_t *rows,
                                              uint8_t *pages, size_t stride,
                                              pl_cuda_stream_t stream);

/* ---- scores.cu, topk.cu, attend.cu ---- */

/* attn/view.h on the device. */
typedef struct pl_cuda_view {
    const uint8_t *bytes;
    size_t stride;
    const int32_t *rows; /* [pages] the page map */
    pl_page_form_t form;
} pl_cuda_view_t;

/* Indexer: scores[i][s] for s < n_keys[i], as pl_index_scores.  q
 * [n][n_heads][index_dim], weights [n][n_heads], scores [n] rows of
 * score_stride floats, all float32.  Keys stored as e4m3 and index_dim 128 take
 * the tensor cores: q is rounded to 11 bits of mantissa then. */
PL_MUST_CHECK pl_status_t pl_cuda_index_scores(
    const pl_cuda_view_t *index, const pl_row_layout_t *layout, const float *q,
    const float *weights, int32_t n_heads, float scale, const int32_t *n_keys,
    int32_t n, int32_t most_keys, float *scores, size_t score_stride,
    pl_cuda_stream_t stream);

/* The k best of each row in the total order of pl_topk, ascending positions;
 * positions [n][k], n_taken [n].  k <= 4096. */
#define PL_CUDA_TOPK_MAX 4096
PL_MUST_CHECK pl_status_t pl_cuda_topk(const float *scores, size_t score_stride,
                                       const int32_t *n_keys, int32_t n,
                                       int32_t most_keys, int32_t k,
                                       int32_t *positions, int32_t *n_taken,
                                       pl_cuda_stream_t stream);

/* Absorbed MLA, as pl_attend: q_latent [n][n_heads][kv_lora], q_rope
 * [n][n_heads][rope], positions [n][most], n_positions [n], out
 * [n][n_heads][kv_lora], all float32.  bf16 and fp8 stores with kv_lora 512,
 * rope 64 and heads in whole 64s take the tensor cores (q and the stored rows
 * as bf16, sums in float32); everything else float32 arithmetic. */
PL_MUST_CHECK pl_status_t pl_cuda_attend(
    const pl_cuda_view_t *latent, const pl_row_layout_t *layout,
    const float *q_latent, const float *q_rope, int32_t n_heads, float scale,
    const int32_t *positions, const int32_t *n_positions, int32_t n,
    int32_t most, float *out, pl_cuda_stream_t stream);

/* ---- moe.cu ---- */

#define PL_CUDA_MOST_EXPERTS 1024

typedef struct pl_cuda_router {
    int32_t n_experts, experts_per_token;
    int32_t n_group, topk_group;
    bool norm_topk;
    float routed_scale;
} pl_cuda_router_t;

/* experts [n][experts_per_token] ascending, and their weights, of logits
 * [n][n_experts] and bias [n_experts].  Reference: pl_route. */
PL_MUST_CHECK pl_status_t pl_cuda_route(const pl_cuda_router_t *router,
                                        const float *logits, const float *bias,
                                        int32_t n, int32_t *experts,
                                        float *weights,
                                        pl_cuda_stream_t stream);
/* The stable counting sort of pl_expert_sort: order [n_pairs], starts
 * [n_experts + 1]; scratch: pl_cuda_expert_sort_scratch() numbers. */
PL_MUST_CHECK pl_status_t pl_cuda_expert_sort(const int32_t *experts,
                                              int32_t n_pairs,
                                              int32_t n_experts, int32_t *order,
                                              int32_t *starts, int32_t *scratch,
                                              pl_cuda_stream_t stream);
int64_t pl_cuda_expert_sort_scratch(int32_t n_pairs, int32_t n_experts);

/* ---- grouped.cu ---- */

/* Products over the experts of a layer.  How many pairs (token, expert) each
 * has only the GPU knows (pl_cuda_expert_sort): place i in the order of experts
 * is pair order[i], of token order[i] / per_token, and expert e has the places
 * starts[e] .. starts[e + 1] - 1.  Without `order`: pair i at place i.  Without
 * `starts`: one expert has all (a dense product whose rows do not know the
 * batch). */
typedef struct pl_cuda_groups {
    const int32_t *order;  /* [n_pairs], or NULL: rows by place only */
    const int32_t *starts; /* [n_experts + 1], or NULL: n_experts is 1 */
    int32_t n_pairs, n_experts, per_token;
} pl_cuda_groups_t;

typedef enum pl_cuda_dtype { PL_CUDA_F32, PL_CUDA_BF16 } pl_cuda_dtype_t;

/* The row of a matrix that belongs to place i. */
typedef enum pl_cuda_row_of {
    PL_CUDA_ROW_OF_PLACE, /* i */
    PL_CUDA_ROW_OF_PAIR,  /* order[i] */
    PL_CUDA_ROW_OF_TOKEN  /* order[i] / per_token: to read from only */
} pl_cuda_row_of_t;

typedef struct pl_cuda_rows {
    void *at; /* a multiple of 16 */
    pl_cuda_dtype_t dtype;
    pl_cuda_row_of_t row_of;
    size_t stride; /* elements from one row to the next */
} pl_cuda_rows_t;

/* Weights: pointers to matrices [rows][cols], each at a multiple of 16 bytes.
 */
typedef struct pl_cuda_experts {
    const void *const *weights; /* [n_experts], on the device */
    const void *const *up;      /* the same, or NULL */
    pl_cuda_dtype_t dtype;
    int32_t rows, cols;
} pl_cuda_experts_t;

/* out[i][r] = sum_c x[i][c] * weights[e][r][c] for each place i of expert e,
 * or, with up, silu(that) * sum_c x[i][c] * up[e][r][c].  x has the weights'
 * dtype; out is float32, or bf16 if they are.  Sums are float32, over ascending
 * c in an order that only rows and cols decide.  float32: a chain of fused
 * multiply-adds.  bf16 with cols and x's stride multiples of 8: tensor cores,
 * 16 columns a step; other bf16: as float32.  Reference: pl_linear, pl_mlp. */
PL_MUST_CHECK pl_status_t pl_cuda_grouped_product(
    const pl_cuda_groups_t *groups, const pl_cuda_experts_t *experts,
    const pl_cuda_rows_t *x, const pl_cuda_rows_t *out,
    pl_cuda_stream_t stream);

/* sum[t][c] = weights[t][0] * out[t][0][c] + weights[t][1] * out[t][1][c] + ...
 * in this order from zero, each step rounded: what add_expert of
 * transformer_mlp.c adds for a token whose experts ascend.  y[t][c] becomes the
 * sum or, with `adds`, y[t][c] + sum.  out [n][per_token][width] (rows by
 * pair), weights [n][per_token], y [n][width], all float32. */
PL_MUST_CHECK pl_status_t pl_cuda_combine_experts(
    const float *out, const float *weights, int32_t n, int32_t per_token,
    int32_t width, bool adds, float *y, pl_cuda_stream_t stream);

/* ---- products.cu ---- */

/* y[i][o] = sum_c x[i][c] * w[o][c] for o < rows, c < cols, sums in float32: a
 * dense product by cuBLASLt whose rows do not know the batch.  For each shape
 * one algorithm is chosen, once, and used for any number of rows; it has been
 * seen to give the same bits for few rows and many.  Where none does, products
 * are made in tiles of a fixed number of rows. */
typedef struct pl_cuda_product {
    pl_cuda_dtype_t dtype; /* of w and x; bf16: strides of both in whole 8s */
    pl_cuda_dtype_t out;   /* of y */
    bool transposed;       /* w is [cols][rows] */
    bool one_row;          /* only ever one row of x at a time */
    bool in_tiles;         /* without looking for an algorithm */
    int32_t rows, cols;
    int32_t n_batches;                   /* heads, or 1 */
    size_t w_stride, x_stride, y_stride; /* elements, from row to row */
    size_t w_batch, x_batch, y_batch;    /* elements, from batch to batch */
} pl_cuda_product_t;

/* Opaque: shapes on one GPU.  Once they are planned, any thread may use them.
 */
typedef struct pl_cuda_products pl_cuda_products_t;

/* Room that x and y must have: rows in whole tiles (what is there is read and
 * written, and counts for nothing). */
#define PL_CUDA_PRODUCT_TILE 128

/* These three allocate; plan waits.  One line and PL_ERR_DEVICE, PL_ERR_MEMORY.
 */
PL_MUST_CHECK pl_status_t
pl_cuda_products_open(const pl_log_t *log, pl_cuda_products_t **products_p);
PL_MUST_CHECK pl_status_t pl_cuda_products_plan(pl_cuda_products_t *products,
                                                const pl_cuda_product_t *shape,
                                                const pl_log_t *log,
                                                int *plan_p);
void pl_cuda_products_close(pl_cuda_products_t *products); /* NULL is allowed */
/* Was an algorithm found for it that serves any number of rows? */
bool pl_cuda_product_is_whole(const pl_cuda_products_t *products, int plan);

/* n rows; w, x and y at multiples of 16 bytes.  adds: y += the product. */
PL_MUST_CHECK pl_status_t pl_cuda_product(const pl_cuda_products_t *products,
                                          int plan, const void *w,
                                          const void *x, int32_t n, void *y,
                                          bool adds, pl_cuda_stream_t stream);

/* ---- draw.cu ---- */

/* All values of a random tensor [rows][cols], the bits of pl_drawn_value (bf16:
 * rounded to nearest even), to rows of to_stride. */
PL_MUST_CHECK pl_status_t pl_cuda_draw(const pl_drawing_t *drawing,
                                       int32_t rows, int32_t cols, void *to,
                                       size_t to_stride, pl_cuda_dtype_t dtype,
                                       pl_cuda_stream_t stream);

/* ---- digest.cu ---- */

/* digests[i]: that of pl_digest_rows for job i, rows of a page of any form;
 * jobs and digests may be pinned. */
PL_MUST_CHECK pl_status_t pl_cuda_digest_jobs(const struct pl_digest_job *jobs,
                                              int32_t n, uint64_t *digests,
                                              pl_cuda_stream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* PL_KERNELS_KERNELS_H */
