/* Random weights that are the same on every machine.
 *
 * Element i of a tensor is mean + scale * n.  n is the sum of twelve uniform
 * 16-bit integers less its mean, times 2^-16 (Irwin-Hall: close to a normal
 * distribution, from -6 to 6, standard deviation 1 within 2^-33); an integer
 * sum, so exact.  The twelve are the bits of words 3i, 3i+1 and 3i+2 of the
 * splitmix64 stream whose state is the hash of the tensor's name, seeded.  No
 * function of the C library takes part but sqrt, which IEEE 754 rounds
 * correctly. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "model/tensor.h"
#include "model/weights_internal.h"

#define GOLDEN  UINT64_C(0x9E3779B97F4A7C15)
#define N_TERMS 12
/* The mean of twelve numbers of 0 .. 65535. */
#define MEAN_OF_SUM (N_TERMS * 65535 / 2)

static int32_t sum_of_words(uint64_t word)
{
    return (int32_t)((word & 0xFFFF) + (word >> 16 & 0xFFFF) +
                     (word >> 32 & 0xFFFF) + (word >> 48));
}

static double normal(uint64_t stream, uint64_t i)
{
    int32_t sum = -MEAN_OF_SUM;

    for (uint64_t k = 1; k <= 3; k++) {
        sum += sum_of_words(pl_mix64(stream + GOLDEN * (3 * i + k)));
    }
    return sum * 0x1p-16;
}

/* The scale has few enough bits that the product is exact: the result is the
 * same with and without fused multiply-add. */
float pl_drawn_value(const pl_drawing_t *drawing, uint64_t i)
{
    return (float)((double)drawing->mean +
                   (double)drawing->scale * normal(drawing->stream, i));
}

/* Standard deviation, and the mean. */
static double scale_of(const pl_tensor_place_t *place, double *mean_p)
{
    *mean_p = place->kind == PL_TENSOR_NORM ? 1 : 0;
    switch (place->kind) {
    case PL_TENSOR_EMBED:
        return 1;
    case PL_TENSOR_NORM:
    case PL_TENSOR_NORM_BIAS:
        return 0.2;
    case PL_TENSOR_ROUTER_BIAS:
        return 0.1;
    case PL_TENSOR_MATRIX:
        break;
    }
    return 1.3 / sqrt((double)place->cols);
}

typedef struct drawing {
    uint64_t seed;
    uint64_t n_values; /* of all tensors so far */
    float *next;       /* where the next tensor goes */
} drawing_t;

static pl_status_t count(void *context, const pl_tensor_place_t *place)
{
    drawing_t *drawing = context;
    uint64_t n_values  = (uint64_t)place->rows * (uint64_t)place->cols;
    uint64_t room      = UINT64_MAX / sizeof(float) - drawing->n_values;

    drawing->n_values += n_values < room ? n_values : room;
    return PL_OK;
}

/* What a tensor of that place is drawn from. */
static pl_status_t describe(void *context, const pl_tensor_place_t *place)
{
    const drawing_t *drawing = context;
    pl_tensor_t *tensor      = place->tensor;
    double mean;
    double scale = scale_of(place, &mean);

    tensor->dtype = PL_DRAWN;
    tensor->rows  = place->rows;
    tensor->cols  = place->cols;
    tensor->drawing.stream =
        pl_hash64(place->name, strlen(place->name), drawing->seed);
    tensor->drawing.mean  = (float)mean;
    tensor->drawing.scale = (float)scale;
    return PL_OK;
}

static pl_status_t draw(void *context, const pl_tensor_place_t *place)
{
    drawing_t *drawing  = context;
    uint64_t n_values   = (uint64_t)place->rows * (uint64_t)place->cols;
    pl_tensor_t *tensor = place->tensor;
    pl_drawing_t from;

    PL_TRY(describe(context, place));
    from = tensor->drawing;
    for (uint64_t i = 0; i < n_values; i++) {
        drawing->next[i] = pl_drawn_value(&from, i);
    }
    tensor->dtype = PL_F32;
    tensor->bytes = drawing->next;
    drawing->next += n_values;
    return PL_OK;
}

/* What the system can give without pushing others out; 0: it does not say. */
static uint64_t available_bytes(void)
{
    FILE *file   = fopen("/proc/meminfo", "r");
    uint64_t kib = 0;
    char line[256];
    long n_pages;
    long page_bytes;

    while ((file != NULL) && (fgets(line, sizeof(line), file) != NULL)) {
        if (sscanf(line, "MemAvailable: %" SCNu64 " kB", &kib) == 1) {
            break;
        }
    }
    if (file != NULL) {
        (void)fclose(file); /* only read */
    }
    if (kib > 0) {
        return kib * 1024;
    }
    n_pages    = sysconf(_SC_PHYS_PAGES);
    page_bytes = sysconf(_SC_PAGESIZE);
    return (n_pages > 0) && (page_bytes > 0)
               ? (uint64_t)n_pages * (uint64_t)page_bytes
               : 0;
}

static pl_status_t no_room(const pl_log_t *log, uint64_t n_bytes,
                           uint64_t available, pl_status_t status)
{
    pl_log(log, PL_LOG_ERROR,
           "--weights random: these weights take %" PRIu64 " bytes (%.1f GiB) "
           "of memory on each rank and %.1f GiB are available: expected a "
           "smaller model; use a config.json with fewer layers or experts",
           n_bytes, (double)n_bytes * 0x1p-30, (double)available * 0x1p-30);
    return status;
}

pl_status_t pl_weights_random(const pl_model_config_t *config, uint64_t seed,
                              const pl_log_t *log, pl_weights_t **weights_p)
{
    pl_weights_t *weights = NULL;
    drawing_t drawing     = {.seed = seed};
    uint64_t available    = available_bytes();
    uint64_t n_bytes;
    pl_status_t status;
    void *buffer;

    PL_TRY(pl_weights_make(config, &weights));
    PL_TRY_GOTO(status, pl_weights_each(config, weights, count, &drawing),
                err_close);
    n_bytes = drawing.n_values * sizeof(float);
    if (((available > 0) && (n_bytes > available)) || (n_bytes > SIZE_MAX)) {
        status = no_room(log, n_bytes, available, PL_ERR_RESOURCE);
        goto err_close;
    }
    status = pl_weights_buffer(weights, (size_t)n_bytes, &buffer);
    if (status != PL_OK) {
        status = no_room(log, n_bytes, available, status);
        goto err_close;
    }
    drawing.next = buffer;
    PL_TRY_GOTO(status, pl_weights_each(config, weights, draw, &drawing),
                err_close);
    if (config->tied) {
        weights->head = weights->embed;
    }
    *weights_p = weights;
    return PL_OK;

err_close:
    pl_weights_close(weights);
    return status;
}

pl_status_t pl_weights_drawn(const pl_model_config_t *config, uint64_t seed,
                             const pl_log_t *log, pl_weights_t **weights_p)
{
    pl_weights_t *weights = NULL;
    drawing_t drawing     = {.seed = seed};
    pl_status_t status    = pl_weights_make(config, &weights);

    if (status == PL_OK) {
        status = pl_weights_each(config, weights, describe, &drawing);
    }
    if (status != PL_OK) {
        pl_log(log, PL_LOG_ERROR,
               "--weights random: no memory for the list of tensors: use a "
               "config.json with fewer layers or experts");
        pl_weights_close(weights);
        return status;
    }
    if (config->tied) {
        weights->head = weights->embed;
    }
    *weights_p = weights;
    return PL_OK;
}
