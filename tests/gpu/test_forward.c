/* The forward pass on the GPU: beside the host's, and in pieces. */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.cuh"
#include "forward.cuh"
#include "gpu.h"
#include "model/transformer.h"
#include "model/weights_internal.h"
#include "support/random_model.h"
#include "support/seed.h"

enum { STORES = 2, LAYERS = 8 };

/* A request on one side: its pages lie where the forward reaches them. */
typedef struct side {
    const pl_model_config_t *config;
    pl_row_layout_t rows;
    pl_forward_t *forward;
    pl_device_t *device; /* NULL: the host */
    int32_t page_tokens, n_tokens;
    const int32_t *tokens;
    int32_t *slots;
    uint8_t *pages[STORES][LAYERS];
    size_t bytes[STORES];
    float *logits; /* [n_tokens][vocab_size] */
} side_t;

static pl_page_form_t form_of(const side_t *side, int which)
{
    pl_page_form_t form = {side->page_tokens, side->rows.latent_bytes, 0};

    if (which == 1) {
        form.key_bytes   = side->rows.index_key_bytes;
        form.scale_bytes = side->rows.index_scale_bytes;
    }
    return form;
}

static size_t stride_of(const side_t *side, int which)
{
    pl_page_form_t form = form_of(side, which);

    return ((size_t)form.page_tokens * pl_row_bytes(&form) + 15) / 16 * 16;
}

static int32_t n_pages_of(const side_t *side)
{
    return (side->n_tokens + side->page_tokens - 1) / side->page_tokens;
}

/* What all sides of a comparison share. */
typedef struct request {
    const pl_model_config_t *config;
    const pl_weights_t *weights;
    pl_kv_dtype_t dtype;
    int32_t page_tokens, n_tokens;
    int32_t *tokens, *slots;
} request_t;

static request_t make_request(pl_rng_t *rng, const pl_model_config_t *config,
                              const pl_weights_t *weights, pl_kv_dtype_t dtype,
                              int32_t n_tokens)
{
    request_t request = {.config      = config,
                         .weights     = weights,
                         .dtype       = dtype,
                         .page_tokens = between(rng, 1, 20),
                         .n_tokens    = n_tokens};
    int32_t n_pages =
        (n_tokens + request.page_tokens - 1) / request.page_tokens;

    ck_assert_int_le(config->n_layers, LAYERS);
    request.tokens = host_bytes((size_t)n_tokens * sizeof(int32_t));
    request.slots  = host_order(rng, n_pages);
    for (int32_t i = 0; i < n_tokens; i++) {
        request.tokens[i] = between(rng, 0, config->vocab_size - 1);
    }
    return request;
}

/* Pages without a forward, in the GPU's memory or the host's. */
static side_t make_side(const request_t *request, bool on_gpu)
{
    const pl_model_config_t *config = request->config;
    side_t side                     = {.config      = config,
                                       .page_tokens = request->page_tokens,
                                       .n_tokens    = request->n_tokens,
                                       .tokens      = request->tokens,
                                       .slots       = request->slots};

    side.rows   = pl_row_layout_make(request->dtype, config->kv_lora,
                                     config->rope, config->index_dim);
    side.logits = host_bytes((size_t)request->n_tokens *
                             (size_t)config->vocab_size * sizeof(float));
    for (int which = 0; which < STORES; which++) {
        side.bytes[which] = stride_of(&side, which) * (size_t)n_pages_of(&side);
        for (int32_t layer = 0; layer < config->n_layers; layer++) {
            side.pages[which][layer] = on_gpu
                                           ? gpu_upload(NULL, side.bytes[which])
                                           : host_bytes(side.bytes[which]);
        }
    }
    if (on_gpu) { /* the poison comes before what a forward's stream writes */
        uint8_t first;

        gpu_download(&first, side.pages[0][0], 1);
    }
    return side;
}

/* A NULL device: the host. */
static void open_forward(side_t *side, const request_t *request,
                         pl_device_t *device)
{
    side->device = device;
    ck_assert_int_eq(
        device == NULL
            ? pl_forward_open(request->config, request->weights, request->dtype,
                              NULL, &side->forward)
            : pl_cuda_open_forward(device, request->config, request->weights,
                                   (int)request->dtype, NULL, &side->forward),
        PL_OK);
}

static side_t open_side(const request_t *request, pl_device_t *device)
{
    side_t side = make_side(request, device != NULL);

    open_forward(&side, request, device);
    return side;
}

static void close_side(side_t *side)
{
    pl_forward_close(side->forward);
}

static pl_device_t *open_device(void)
{
    pl_device_t *device = NULL;

    ck_assert_int_eq(pl_cuda_device_open(0, NULL, &device), PL_OK);
    return device;
}

/* ---- a step ---- */

static void store_layer(side_t *side, int32_t layer, int32_t first, int32_t n,
                        int32_t piece)
{
    const pl_forward_pages_t latent = {side->pages[0][layer],
                                       stride_of(side, 0), form_of(side, 0)};
    pl_forward_pages_t index = {side->pages[1][layer], stride_of(side, 1),
                                form_of(side, 1)};
    int32_t *rows            = calloc((size_t)n, sizeof(*rows));

    if (!side->config->full_indexer[layer]) {
        index.pages = NULL;
    }
    for (int32_t i = 0; i < n; i++) {
        rows[i] =
            side->slots[(first + i) / side->page_tokens] * side->page_tokens +
            (first + i) % side->page_tokens;
    }
    for (int32_t i = 0; i < n; i += piece) {
        int32_t count = n - i < piece ? n - i : piece;

        ck_assert_int_eq(side->forward->ops->store(side->forward, layer, i,
                                                   count, rows + i, &latent,
                                                   &index),
                         PL_OK);
    }
    free(rows); /* not kept */
}

static void mix_layer(side_t *side, int32_t layer, int32_t n_keys)
{
    int32_t n_pages = n_pages_of(side);
    int32_t *map    = calloc((size_t)n_pages, sizeof(*map));
    pl_view_t views[STORES];

    memcpy(map, side->slots, (size_t)n_pages * sizeof(*map));
    for (int which = 0; which < STORES; which++) {
        views[which] =
            (pl_view_t){side->pages[which][layer], stride_of(side, which), map,
                        form_of(side, which), n_keys};
    }
    if (!side->config->full_indexer[layer]) {
        views[1].bytes = NULL;
    }
    ck_assert_int_eq(
        side->forward->ops->mix(side->forward, layer, &views[0], &views[1]),
        PL_OK);
    memset(map, 0xFF, (size_t)n_pages * sizeof(*map)); /* not kept */
    free(map);
}

static void end_step(side_t *side, int32_t first, int32_t n)
{
    const size_t vocab = (size_t)side->config->vocab_size;

    for (int32_t i = 0; i < n; i++) {
        float *logits = side->logits + (size_t)(first + i) * vocab;
        int32_t token = -1, again = -1;

        ck_assert_int_eq(
            side->forward->ops->end(side->forward, i, logits, &token), PL_OK);
        ck_assert_int_eq(token, pl_greedy(logits, (int32_t)vocab));
        ck_assert_int_eq(
            side->forward->ops->end(side->forward, i, NULL, &again), PL_OK);
        ck_assert_int_eq(again, token);
    }
}

/* Tokens first .. first + n - 1; rows are stored `piece` at a time. */
static void step(side_t *side, int32_t first, int32_t n, int32_t piece)
{
    int32_t *positions   = calloc((size_t)n, sizeof(*positions));
    int64_t n_waits      = 0;
    pl_forward_t *passes = side->forward;

    for (int32_t i = 0; i < n; i++) {
        positions[i] = first + i;
    }
    ck_assert_int_eq(passes->ops->reserve(passes, n, side->n_tokens), PL_OK);
    if (side->device != NULL) {
        n_waits = side->device->n_waits;
    }
    ck_assert_int_eq(
        passes->ops->begin(passes, side->tokens + first, positions, n), PL_OK);
    memset(positions, 0xFF, (size_t)n * sizeof(*positions)); /* not kept */
    free(positions);
    for (int32_t layer = 0; layer < side->config->n_layers; layer++) {
        store_layer(side, layer, first, n, piece);
        mix_layer(side, layer, first + n);
    }
    if ((side->device != NULL) && !pl_cuda_is_debug()) {
        ck_assert_int_eq(side->device->n_waits, n_waits);
    }
    end_step(side, first, n);
}

/* ---- comparing ---- */

static void read_pages(const side_t *side, int which, int32_t layer,
                       uint8_t *to)
{
    if (side->device == NULL) {
        memcpy(to, side->pages[which][layer], side->bytes[which]);
    } else {
        gpu_download(to, side->pages[which][layer], side->bytes[which]);
    }
}

/* Every byte that was stored, and what lies between (poison on both). */
static void check_same_pages(const side_t *a, const side_t *b)
{
    for (int which = 0; which < STORES; which++) {
        uint8_t *of_a = malloc(a->bytes[which]);
        uint8_t *of_b = malloc(b->bytes[which]);

        for (int32_t layer = 0; layer < a->config->n_layers; layer++) {
            read_pages(a, which, layer, of_a);
            read_pages(b, which, layer, of_b);
            ck_assert_msg(memcmp(of_a, of_b, a->bytes[which]) == 0,
                          "layer %d, store %d", (int)layer, which);
        }
        free(of_a);
        free(of_b);
    }
}

static void check_same_logits(const side_t *a, const side_t *b)
{
    size_t vocab = (size_t)a->config->vocab_size;

    for (int32_t i = 0; i < a->n_tokens; i++) {
        ck_assert_msg(memcmp(a->logits + (size_t)i * vocab,
                             b->logits + (size_t)i * vocab,
                             vocab * sizeof(float)) == 0,
                      "logits of token %d of %d", (int)i, (int)a->n_tokens);
    }
}

/* The largest difference of logits, in parts of their spread. */
static double logits_off(const side_t *a, const side_t *b)
{
    size_t n    = (size_t)a->n_tokens * (size_t)a->config->vocab_size;
    double most = 0, least_of = INFINITY, most_of = -INFINITY;

    for (size_t i = 0; i < n; i++) {
        double value = (double)b->logits[i];

        if (!isfinite(a->logits[i])) {
            return INFINITY;
        }
        most     = fmax(most, fabs((double)a->logits[i] - value));
        least_of = fmin(least_of, value);
        most_of  = fmax(most_of, value);
    }
    return most / fmax(most_of - least_of, 1e-3);
}

/* Latent rows of float32 stores. */
static double rows_off(const side_t *a, const side_t *b)
{
    uint8_t *of_a = malloc(a->bytes[0]);
    uint8_t *of_b = malloc(b->bytes[0]);
    size_t width  = (size_t)(a->config->kv_lora + a->config->rope);
    double most   = 0;

    for (int32_t layer = 0; layer < a->config->n_layers; layer++) {
        read_pages(a, 0, layer, of_a);
        read_pages(b, 0, layer, of_b);
        for (int32_t t = 0; t < a->n_tokens; t++) {
            size_t at =
                (size_t)a->slots[t / a->page_tokens] * stride_of(a, 0) +
                (size_t)(t % a->page_tokens) * (size_t)a->rows.latent_bytes;
            double off = relative_error((float *)(void *)(of_a + at),
                                        (float *)(void *)(of_b + at), width);

            most = fmax(most, off);
        }
    }
    free(of_a);
    free(of_b);
    return most;
}

/* ---- beside the host ---- */

static bool agrees(pl_rng_t *rng, pl_device_t *device,
                   const pl_model_config_t *config, const pl_weights_t *weights,
                   int32_t n_tokens)
{
    request_t request = make_request(rng, config, weights, PL_KV_F32, n_tokens);
    side_t host       = open_side(&request, NULL);
    side_t gpu        = open_side(&request, device);
    int32_t cut       = between(rng, 1, n_tokens);
    double off, rows;

    step(&host, 0, n_tokens, n_tokens);
    step(&gpu, 0, cut, between(rng, 1, cut));
    if (cut < n_tokens) {
        step(&gpu, cut, n_tokens - cut, n_tokens);
    }
    off  = logits_off(&gpu, &host);
    rows = rows_off(&gpu, &host);
    close_side(&gpu);
    close_side(&host);
    if ((off > 1e-4) || (rows > 1e-4)) {
        printf("off by %g of the spread, rows by %g\n", off, rows);
    }
    return (off <= 1e-4) && (rows <= 1e-4);
}

/* A near tie, of keys or of experts, may fall the other way: not every time. */
static void check_agrees(pl_rng_t *rng, pl_device_t *device,
                         const pl_model_config_t *config,
                         const pl_weights_t *weights, int32_t n_tokens)
{
    ck_assert(agrees(rng, device, config, weights, n_tokens) ||
              agrees(rng, device, config, weights, n_tokens) ||
              agrees(rng, device, config, weights, n_tokens));
}

START_TEST(float32_is_that_of_the_host)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 24; round++) {
        pl_device_t *device      = open_device();
        pl_model_config_t config = pl_test_config(&rng);
        pl_weights_t *weights;

        config.tied = between(&rng, 0, 1) == 1;
        weights     = pl_test_weights(&config, pl_rng_next(&rng));
        check_agrees(&rng, device, &config, weights, between(&rng, 1, 150));
        pl_weights_close(weights);
        gpu_close();
        pl_device_close(device);
    }
}
END_TEST

/* ---- weights of every kind ---- */

/* Values that are small and finite in any form. */
static uint8_t *draw_bytes(pl_rng_t *rng, pl_dtype_t dtype, size_t n)
{
    uint8_t *bytes   = host_bytes(n * 2);
    uint16_t *halves = (uint16_t *)(void *)bytes;

    for (size_t i = 0; i < n; i++) {
        uint64_t word = pl_rng_next(rng);

        switch (dtype) {
        case PL_BF16:
            halves[i] = pl_bf16_from_f32((float)(pl_rng_unit(rng) * 0.4 - 0.2));
            break;
        case PL_F16: /* exponents of 2^-6 to 2^-3 */
            halves[i] =
                (uint16_t)((word & 0x83FF) | (uint64_t)(9 + word % 4) << 10);
            break;
        default:
            bytes[i] = (uint8_t)(word & 0xBF); /* below 2 */
            break;
        }
    }
    return bytes;
}

typedef struct drawing_of {
    pl_rng_t *rng;
    int n;
} drawing_of_t;

static pl_status_t change_dtype(void *context, const pl_tensor_place_t *place)
{
    static const pl_dtype_t DTYPES[] = {PL_F32, PL_BF16, PL_F16, PL_F8_E4M3};
    drawing_of_t *drawing            = context;
    pl_tensor_t *tensor              = place->tensor;
    pl_dtype_t dtype = DTYPES[(drawing->n++ + (int)(place->rows % 3)) % 4];
    size_t n         = (size_t)place->rows * (size_t)place->cols;

    if ((place->kind != PL_TENSOR_MATRIX) || (dtype == PL_F32)) {
        return PL_OK;
    }
    tensor->dtype = dtype;
    tensor->bytes = draw_bytes(drawing->rng, dtype, n);
    if (dtype == PL_F8_E4M3) {
        int32_t blocks = (tensor->rows + 127) / 128;
        float *scales;

        tensor->scale_cols = (tensor->cols + 127) / 128;
        n                  = (size_t)(blocks * tensor->scale_cols);
        scales             = host_floats(drawing->rng, n);
        for (size_t i = 0; i < n; i++) {
            scales[i] = 0.1F + 0.05F * scales[i];
        }
        tensor->scale = scales;
    }
    return PL_OK;
}

/* Real proportions, so that all kernels take their fast ways. */
static pl_model_config_t wide_config(pl_rng_t *rng)
{
    pl_model_config_t config = pl_test_config(rng);

    config.vocab_size        = 300;
    config.hidden            = 256;
    config.n_layers          = 3;
    config.n_heads           = 64;
    config.q_lora            = 160;
    config.kv_lora           = 512;
    config.nope              = 24;
    config.rope              = 64;
    config.v_dim             = 32;
    config.index_heads       = 32;
    config.index_dim         = 128;
    config.index_topk        = 64;
    config.dense_width       = 384;
    config.expert_width      = 136;
    config.n_group           = 1;
    config.topk_group        = 1;
    config.n_experts         = 12;
    config.experts_per_token = 4;
    config.n_shared          = 1;
    config.softmax_scale     = 0.1F;
    config.sparse_mlp[0]     = false;
    config.sparse_mlp[1] = config.sparse_mlp[2] = true;
    config.full_indexer[0] = config.full_indexer[2] = true;
    config.full_indexer[1]                          = false;
    return config;
}

START_TEST(weights_of_every_dtype)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 6; round++) {
        pl_device_t *device = open_device();
        pl_model_config_t config =
            round % 3 == 0 ? wide_config(&rng) : pl_test_config(&rng);
        drawing_of_t drawing = {&rng, round};
        pl_weights_t *weights;

        config.n_group = config.topk_group = 1; /* few tensors */
        config.n_experts                   = 4;
        config.experts_per_token           = 2;
        weights = pl_test_weights(&config, pl_rng_next(&rng));
        ck_assert_int_eq(
            pl_weights_each(&config, weights, change_dtype, &drawing), PL_OK);
        check_agrees(&rng, device, &config, weights, between(&rng, 1, 100));
        pl_weights_close(weights);
        gpu_close();
        pl_device_close(device);
    }
}
END_TEST

START_TEST(drawn_weights_are_those_of_memory)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int dtype = 0; dtype < 3; dtype++) {
        pl_device_t *device      = open_device();
        pl_model_config_t config = wide_config(&rng);
        pl_weights_t *weights    = pl_test_weights(&config, 5);
        pl_weights_t *drawn      = NULL;
        request_t request;
        side_t with, without;

        ck_assert_int_eq(pl_weights_drawn(&config, 5, NULL, &drawn), PL_OK);
        request =
            make_request(&rng, &config, weights, (pl_kv_dtype_t)dtype, 90);
        with            = open_side(&request, device);
        request.weights = drawn;
        without         = open_side(&request, device);
        step(&with, 0, 90, 90);
        step(&without, 0, 90, 90);
        check_same_logits(&with, &without);
        check_same_pages(&with, &without);
        close_side(&with);
        close_side(&without);
        pl_weights_close(weights);
        pl_weights_close(drawn);
        gpu_close();
        pl_device_close(device);
    }
}
END_TEST

/* ---- in pieces ---- */

static void check_pieces(pl_rng_t *rng, const pl_model_config_t *config,
                         pl_kv_dtype_t dtype, int32_t n)
{
    pl_device_t *device   = open_device();
    pl_weights_t *weights = pl_test_weights(config, pl_rng_next(rng));
    request_t request     = make_request(rng, config, weights, dtype, n);
    side_t whole          = open_side(&request, device);
    side_t pieces         = open_side(&request, device);
    side_t single         = open_side(&request, device);

    step(&whole, 0, n, n);
    for (int32_t first = 0; first < n;) {
        int32_t count = between(rng, 1, n - first);

        step(&pieces, first, count, between(rng, 1, count));
        first += count;
    }
    for (int32_t i = 0; i < n; i++) {
        step(&single, i, 1, 1);
    }
    check_same_pages(&whole, &pieces);
    check_same_pages(&whole, &single);
    check_same_logits(&whole, &pieces);
    check_same_logits(&whole, &single);
    close_side(&whole);
    close_side(&pieces);
    close_side(&single);
    pl_weights_close(weights);
    gpu_close();
    pl_device_close(device);
}

START_TEST(a_chunk_has_the_bits_of_its_pieces)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 12; round++) {
        pl_model_config_t config = pl_test_config(&rng);

        check_pieces(&rng, &config, (pl_kv_dtype_t)(round % 3),
                     between(&rng, 1, 60));
    }
    for (int dtype = 0; dtype < 3; dtype++) {
        pl_model_config_t config = wide_config(&rng);

        check_pieces(&rng, &config, (pl_kv_dtype_t)dtype,
                     between(&rng, 100, 150));
    }
}
END_TEST

/* More tokens than a tile of scores, of attention or of experts. */
START_TEST(tiles_do_not_show)
{
    enum { N = 4300 };
    pl_rng_t rng             = pl_rng_seed(pl_test_seed(__func__));
    pl_model_config_t config = wide_config(&rng);
    pl_weights_t *weights    = pl_test_weights(&config, 9);
    pl_device_t *device      = open_device();
    request_t request = make_request(&rng, &config, weights, PL_KV_FP8, N);
    side_t whole      = open_side(&request, device);
    side_t pieces     = open_side(&request, device);

    step(&whole, 0, N, N);
    step(&pieces, 0, 1700, 1700);
    step(&pieces, 1700, N - 1700, 333);
    check_same_pages(&whole, &pieces);
    check_same_logits(&whole, &pieces);
    close_side(&whole);
    close_side(&pieces);
    pl_weights_close(weights);
    gpu_close();
    pl_device_close(device);
}
END_TEST

/* ---- ranks of one process ---- */

enum { RANKS = 4 };

typedef struct rank {
    side_t side;
    const request_t *request;
} rank_t;

static void *run_rank(void *context)
{
    rank_t *rank        = context;
    pl_device_t *device = open_device();
    int32_t n           = rank->side.n_tokens;

    open_forward(&rank->side, rank->request, device);
    step(&rank->side, 0, n / 2, n / 2);
    step(&rank->side, n / 2, n - n / 2, 1);
    close_side(&rank->side);
    pl_device_close(device);
    return NULL;
}

START_TEST(threads_share_weights)
{
    enum { N = 64 };
    pl_rng_t rng             = pl_rng_seed(pl_test_seed(__func__));
    pl_model_config_t config = wide_config(&rng);
    pl_weights_t *weights    = pl_test_weights(&config, 13);

    for (int dtype = 0; dtype < 3; dtype++) {
        request_t request =
            make_request(&rng, &config, weights, (pl_kv_dtype_t)dtype, N);
        pthread_t threads[RANKS];
        rank_t ranks[RANKS];

        for (int r = 0; r < RANKS; r++) {
            ranks[r] = (rank_t){make_side(&request, true), &request};
        }
        for (int r = 0; r < RANKS; r++) {
            ck_assert_int_eq(
                pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
        }
        for (int r = 0; r < RANKS; r++) {
            ck_assert_int_eq(pthread_join(threads[r], NULL), 0);
        }
        for (int r = 1; r < RANKS; r++) {
            check_same_logits(&ranks[r].side, &ranks[0].side);
            check_same_pages(&ranks[r].side, &ranks[0].side);
        }
        gpu_close();
    }
    pl_weights_close(weights);
}
END_TEST

/* ---- bf16 and fp8 ---- */

static int32_t at_least(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Without choices, of keys or of experts, that rounding could change, or norms
 * of so few values that it shows. */
START_TEST(rounded_stores_are_close_to_the_hosts)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed(__func__));

    for (int round = 0; round < 8; round++) {
        pl_device_t *device = open_device();
        pl_model_config_t config =
            round % 2 == 0 ? wide_config(&rng) : pl_test_config(&rng);
        pl_kv_dtype_t dtype = round % 4 < 2 ? PL_KV_BF16 : PL_KV_FP8;
        int32_t n           = between(&rng, 30, 90);
        pl_weights_t *weights;
        request_t request;
        side_t host, gpu;
        double off;

        config.index_topk = 90;
        for (int32_t i = 0; i < config.n_layers; i++) {
            config.sparse_mlp[i] = false;
        }
        config.hidden  = at_least(config.hidden, 32);
        config.q_lora  = at_least(config.q_lora, 24);
        config.kv_lora = at_least(config.kv_lora, 24);
        config.v_dim   = at_least(config.v_dim, 8);
        weights        = pl_test_weights(&config, pl_rng_next(&rng));
        request        = make_request(&rng, &config, weights, dtype, n);
        host           = open_side(&request, NULL);
        gpu            = open_side(&request, device);
        step(&host, 0, n, n);
        step(&gpu, 0, n, n);
        off = relative_error(gpu.logits, host.logits,
                             (size_t)n * (size_t)config.vocab_size);
        printf("%s: off by %.4f\n", dtype == PL_KV_BF16 ? "bf16" : "fp8", off);
        ck_assert_double_lt(off, dtype == PL_KV_BF16 ? 0.05 : 0.2);
        close_side(&host);
        close_side(&gpu);
        pl_weights_close(weights);
        gpu_close();
        pl_device_close(device);
    }
}
END_TEST

/* ---- what is told ---- */

typedef struct seen {
    const side_t *side;
    int32_t n, last_layer, last_position;
} seen_t;

static void see(void *context, int32_t layer, int32_t position,
                const int32_t *positions, int32_t n, const float *scores,
                int32_t n_keys)
{
    seen_t *seen      = context;
    int32_t topk      = seen->side->config->index_topk;
    uint32_t *scratch = calloc((size_t)n_keys, sizeof(*scratch));
    int32_t *want     = calloc((size_t)n_keys, sizeof(*want));

    ck_assert_int_eq(n_keys, position + 1);
    ck_assert(seen->side->config->full_indexer[layer]);
    ck_assert((layer > seen->last_layer) || ((layer == seen->last_layer) &&
                                             (position > seen->last_position)));
    ck_assert_int_eq(n, pl_topk(scores, n_keys, topk, scratch, want));
    ck_assert_mem_eq(positions, want, (size_t)n * sizeof(*want));
    for (int32_t i = 0; i < n_keys; i++) {
        ck_assert(isfinite(scores[i]));
    }
    seen->last_layer    = layer;
    seen->last_position = position;
    seen->n++;
    free(scratch);
    free(want);
}

START_TEST(selections_are_told)
{
    enum { N = 300 };
    pl_rng_t rng             = pl_rng_seed(pl_test_seed(__func__));
    pl_model_config_t config = wide_config(&rng);
    pl_weights_t *weights    = pl_test_weights(&config, 11);
    pl_device_t *device      = open_device();
    request_t request = make_request(&rng, &config, weights, PL_KV_BF16, N);
    side_t quiet      = open_side(&request, device);
    side_t side       = open_side(&request, device);
    seen_t seen       = {&side, 0, -1, -1};
    int32_t positions[N];

    for (int32_t i = 0; i < N; i++) {
        positions[i] = i;
    }
    step(&quiet, 0, N, N);
    side.forward->ops->watch(side.forward, see, &seen);
    ck_assert_int_eq(side.forward->ops->reserve(side.forward, N, N), PL_OK);
    ck_assert_int_eq(
        side.forward->ops->begin(side.forward, side.tokens, positions, N),
        PL_OK);
    for (int32_t layer = 0; layer < config.n_layers; layer++) {
        store_layer(&side, layer, 0, N, N);
        mix_layer(&side, layer, N);
    }
    end_step(&side, 0, N);
    ck_assert_int_eq(seen.n, 2 * N);
    check_same_logits(&side, &quiet);
    close_side(&quiet);
    close_side(&side);
    pl_weights_close(weights);
    gpu_close();
    pl_device_close(device);
}
END_TEST

static void hear(void *context, pl_log_level_t level, const char *line)
{
    (void)level;
    (void)snprintf(context, 256, "%s", line);
}

START_TEST(models_that_are_too_much)
{
    pl_rng_t rng             = pl_rng_seed(pl_test_seed(__func__));
    pl_model_config_t config = pl_test_config(&rng);
    char line[256]           = "";
    pl_log_t log             = {hear, line, PL_LOG_ERROR};
    pl_device_t *device      = open_device();
    pl_forward_t *forward    = NULL;

    config.index_topk = PL_CUDA_TOPK_MAX + 1;
    ck_assert_int_eq(
        pl_cuda_open_forward(device, &config, NULL, 0, &log, &forward),
        PL_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(line, "index_topk"));
    config.index_topk = 1;
    config.n_experts  = PL_CUDA_MOST_EXPERTS + 1;
    ck_assert_int_eq(
        pl_cuda_open_forward(device, &config, NULL, 0, &log, &forward),
        PL_ERR_ARGUMENT);
    ck_assert_ptr_nonnull(strstr(line, "n_routed_experts"));
    ck_assert_ptr_null(forward);
    pl_device_close(device);
}
END_TEST

TCase *case_forward(void)
{
    TCase *tc = tcase_create("forward");

    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, float32_is_that_of_the_host);
    tcase_add_test(tc, weights_of_every_dtype);
    tcase_add_test(tc, drawn_weights_are_those_of_memory);
    tcase_add_test(tc, a_chunk_has_the_bits_of_its_pieces);
    tcase_add_test(tc, tiles_do_not_show);
    tcase_add_test(tc, threads_share_weights);
    tcase_add_test(tc, rounded_stores_are_close_to_the_hosts);
    tcase_add_test(tc, selections_are_told);
    tcase_add_test(tc, models_that_are_too_much);
    return tc;
}
