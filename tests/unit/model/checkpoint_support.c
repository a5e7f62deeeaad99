#include "checkpoint_support.h"

#include <check.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/text.h"
#include "model/weights_internal.h"

static void hear(void *context, pl_log_level_t level, const char *line)
{
    heard_t *heard = context;
    char *kept     = level == PL_LOG_ERROR ? heard->error : heard->warning;

    heard->n_errors += level == PL_LOG_ERROR;
    heard->n_warnings += level == PL_LOG_WARN;
    (void)snprintf(kept, sizeof(heard->error), "%s", line);
}

pl_log_t log_of(heard_t *heard)
{
    pl_log_t log = {hear, heard, PL_LOG_WARN};

    memset(heard, 0, sizeof(*heard));
    return log;
}

char *make_folder(void)
{
    const char *parent = getenv("TMPDIR");
    char *folder       = calloc(1, 4096);

    ck_assert_ptr_nonnull(folder);
    (void)snprintf(folder, 4096, "%s/pagelane_model_XXXXXX",
                   parent != NULL ? parent : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    return folder;
}

const char *path_in(const char *folder, const char *name, char path[4096])
{
    (void)snprintf(path, 4096, "%s/%s", folder, name);
    return path;
}

void remove_folder(char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char path[4096];

    ck_assert_ptr_nonnull(dir);
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] != '.') {
            ck_assert_int_eq(unlink(path_in(folder, entry->d_name, path)), 0);
        }
    }
    (void)closedir(dir);
    ck_assert_int_eq(rmdir(folder), 0);
    free(folder);
}

void write_file(const char *folder, const char *name, const void *bytes,
                size_t n_bytes)
{
    char path[4096];
    FILE *file = fopen(path_in(folder, name, path), "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, n_bytes, file), n_bytes);
    ck_assert_int_eq(fclose(file), 0);
}

char *read_whole(const char *path, size_t *n_bytes_p)
{
    FILE *file = fopen(path, "rb");
    char *bytes;
    long n;

    ck_assert_msg(file != NULL, "%s", path);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    n = ftell(file);
    ck_assert_int_ge(n, 0);
    rewind(file);
    bytes = calloc(1, (size_t)n + 1);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_uint_eq(fread(bytes, 1, (size_t)n, file), (size_t)n);
    (void)fclose(file);
    *n_bytes_p = (size_t)n;
    return bytes;
}

/* ---- values ---- */

static size_t element_bytes(const char *dtype)
{
    return strcmp(dtype, "F32") == 0       ? 4
           : strcmp(dtype, "F8_E4M3") == 0 ? 1
                                           : 2;
}

/* Element i of a tensor as the bits of its dtype: any finite value. */
static uint32_t bits_of(const char *name, const char *dtype, uint64_t i)
{
    uint32_t bits = (uint32_t)pl_hash64(name, strlen(name), i);

    if (strcmp(dtype, "F32") == 0) {
        return (bits & 0x807FFFFF) | (0x3F000000 + (bits >> 3 & 0x01800000));
    }
    if (strcmp(dtype, "BF16") == 0) {
        return (bits & 0x7F80) == 0x7F80 ? (bits & 0xBFFF) : (bits & 0xFFFF);
    }
    if (strcmp(dtype, "F16") == 0) {
        return (bits & 0x7C00) == 0x7C00 ? (bits & 0xBFFF) : (bits & 0xFFFF);
    }
    return (bits & 0x7F) == 0x7F ? (bits & 0xBF) : (bits & 0xFF);
}

/* What the bits mean, from the definition of such numbers. */
static double value_of(const char *dtype, uint32_t bits)
{
    int mantissa_bits = strcmp(dtype, "F32") == 0    ? 23
                        : strcmp(dtype, "BF16") == 0 ? 7
                        : strcmp(dtype, "F16") == 0  ? 10
                                                     : 3;
    int exponent_bits = strcmp(dtype, "F16") == 0       ? 5
                        : strcmp(dtype, "F8_E4M3") == 0 ? 4
                                                        : 8;
    int bias          = (1 << (exponent_bits - 1)) - 1;
    int exponent = (int)(bits >> mantissa_bits & ((1U << exponent_bits) - 1));
    double mantissa =
        (double)(bits & ((1U << mantissa_bits) - 1)) / (1 << mantissa_bits);
    double sign = (bits >> (mantissa_bits + exponent_bits)) != 0 ? -1 : 1;

    return sign * (exponent == 0 ? ldexp(mantissa, 1 - bias)
                                 : ldexp(1 + mantissa, exponent - bias));
}

/* The scale of block i of a tensor. */
static float scale_of(const char *name, uint64_t i)
{
    return (float)(1 + pl_hash64(name, strlen(name), ~i) % 1000) / 777.0F;
}

static void fill(const char *name, const char *dtype, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t bits = bits_of(name, dtype, i);

        /* little-endian, as the file is */
        for (size_t b = 0; b < element_bytes(dtype); b++) {
            out[i * element_bytes(dtype) + b] = (uint8_t)(bits >> 8 * b);
        }
    }
}

static void fill_scales(const char *name, size_t n, uint8_t *out)
{
    for (size_t i = 0; i < n; i++) {
        float scale = scale_of(name, i);

        memcpy(out + i * sizeof(scale), &scale, sizeof(scale));
    }
}

/* ---- making ---- */

static made_tensor_t *append(made_t *made, const char *name, const char *dtype,
                             int32_t n_dims, int64_t a, int64_t b, int64_t c)
{
    made_tensor_t tensor = {.n_dims = n_dims, .shape = {a, b, c}};

    tensor.n_bytes = element_bytes(dtype);
    for (int32_t i = 0; i < n_dims; i++) {
        tensor.n_bytes *= (size_t)tensor.shape[i];
    }
    tensor.bytes = calloc(tensor.n_bytes + 1, 1);
    ck_assert_ptr_nonnull(tensor.bytes);
    (void)snprintf(tensor.name, sizeof(tensor.name), "%.150s", name);
    (void)snprintf(tensor.dtype, sizeof(tensor.dtype), "%s", dtype);
    ck_assert_int_eq(PL_ARRAY_PUSH(&made->tensors, tensor), PL_OK);
    return &made->tensors.items[made->tensors.n - 1];
}

made_tensor_t *add_made(made_t *made, const char *name, const char *dtype,
                        int64_t rows, int64_t cols)
{
    return append(made, name, dtype, 2, rows, cols, 0);
}

made_tensor_t *find_made(made_t *made, const char *name)
{
    for (size_t i = 0; i < made->tensors.n; i++) {
        if (strcmp(made->tensors.items[i].name, name) == 0) {
            return &made->tensors.items[i];
        }
    }
    return NULL;
}

void drop_made(made_t *made, const char *name)
{
    made_tensor_t *tensor = find_made(made, name);

    ck_assert_msg(tensor != NULL, "%s", name);
    free(tensor->bytes);
    *tensor = made->tensors.items[--made->tensors.n];
}

void free_made(made_t *made)
{
    for (size_t i = 0; i < made->tensors.n; i++) {
        free(made->tensors.items[i].bytes);
    }
    PL_ARRAY_FREE(&made->tensors);
}

typedef struct making {
    const pl_model_config_t *config;
    const made_form_t *form;
    made_t made;
} making_t;

static int64_t blocks_of(int64_t n)
{
    return (n + 127) / 128;
}

static const char *dtype_of(const made_form_t *form,
                            const pl_tensor_place_t *place)
{
    return place->kind >= PL_TENSOR_NORM ? form->vector : form->matrix;
}

static pl_status_t make_alone(making_t *making, const pl_tensor_place_t *place)
{
    const char *dtype = dtype_of(making->form, place);
    bool is_vector    = place->kind >= PL_TENSOR_NORM;
    made_tensor_t *tensor =
        append(&making->made, place->name, dtype, is_vector ? 1 : 2,
               is_vector ? place->cols : place->rows, place->cols, 0);
    int64_t scale_rows = blocks_of(place->rows);
    int64_t scale_cols = blocks_of(place->cols);
    char name[200];

    fill(place->name, dtype, tensor->n_bytes / element_bytes(dtype),
         tensor->bytes);
    if (strcmp(dtype, "F8_E4M3") == 0) {
        (void)snprintf(name, sizeof(name), "%s_scale_inv", place->name);
        tensor =
            append(&making->made, name, "F32", 2, scale_rows, scale_cols, 0);
        fill_scales(place->name, tensor->n_bytes / 4, tensor->bytes);
    }
    return PL_OK;
}

/* This expert's rows of the tensor of all, and their scales. */
static pl_status_t make_part(making_t *making, const pl_tensor_place_t *place)
{
    const char *dtype     = making->form->matrix;
    int64_t n_experts     = making->config->n_experts;
    int64_t scale_rows    = blocks_of(place->fused_rows);
    int64_t scale_cols    = blocks_of(place->cols);
    made_tensor_t *tensor = find_made(&making->made, place->fused);
    size_t row            = (size_t)place->expert * (size_t)place->fused_rows +
                 (size_t)place->first_row;
    size_t scale_row = (size_t)place->expert * (size_t)scale_rows +
                       (size_t)place->first_row / 128;
    char name[200];

    if (tensor == NULL) {
        tensor = append(&making->made, place->fused, dtype, 3, n_experts,
                        place->fused_rows, place->cols);
    }
    fill(place->name, dtype, (size_t)place->rows * (size_t)place->cols,
         tensor->bytes + row * (size_t)place->cols * element_bytes(dtype));
    if (strcmp(dtype, "F8_E4M3") == 0) {
        (void)snprintf(name, sizeof(name), "%s_scale_inv", place->fused);
        tensor = find_made(&making->made, name);
        if (tensor == NULL) {
            tensor = append(&making->made, name, "F32", 3, n_experts,
                            scale_rows, scale_cols);
        }
        fill_scales(place->name, (size_t)(blocks_of(place->rows) * scale_cols),
                    tensor->bytes + scale_row * (size_t)scale_cols * 4);
    }
    return PL_OK;
}

static pl_status_t make_one(void *context, const pl_tensor_place_t *place)
{
    making_t *making = context;

    return making->form->fused && (place->fused[0] != '\0')
               ? make_part(making, place)
               : make_alone(making, place);
}

made_t make_tensors(const pl_model_config_t *config, const made_form_t *form)
{
    making_t making       = {.config = config, .form = form};
    pl_weights_t *weights = NULL;

    ck_assert_int_eq(pl_weights_make(config, &weights), PL_OK);
    ck_assert_int_eq(pl_weights_each(config, weights, make_one, &making),
                     PL_OK);
    pl_weights_close(weights);
    for (size_t i = 0; i < making.made.tensors.n; i++) {
        making.made.tensors.items[i].shard = (int)i % form->n_shards;
    }
    return making.made;
}

/* ---- writing ---- */

static void write_shard(const char *folder, const char *name,
                        const made_t *made, int shard, size_t shift)
{
    char path[4096];
    pl_text_t text = {0};
    char *header   = NULL;
    size_t at      = 0;
    uint8_t length[8];
    FILE *file;

    pl_text_add(&text, "{\"__metadata__\": {\"format\": \"pt\"}");
    for (size_t i = 0; i < made->tensors.n; i++) {
        const made_tensor_t *tensor = &made->tensors.items[i];

        if (tensor->shard != shard) {
            continue;
        }
        pl_text_add(&text, ", \"%s\": {\"dtype\": \"%s\", \"shape\": [",
                    tensor->name, tensor->dtype);
        for (int32_t d = 0; d < tensor->n_dims; d++) {
            pl_text_add(&text, "%s%lld", d > 0 ? ", " : "",
                        (long long)tensor->shape[d]);
        }
        pl_text_add(&text, "], \"data_offsets\": [%zu, %zu]}", at,
                    at + tensor->n_bytes);
        at += tensor->n_bytes;
    }
    pl_text_add(&text, "}");
    while (text.n % 8 != shift % 8) {
        pl_text_add(&text, " ");
    }
    for (int i = 0; i < 8; i++) {
        length[i] = (uint8_t)((uint64_t)text.n >> 8 * i);
    }
    ck_assert_int_eq(pl_text_take(&text, &header), PL_OK);

    file = fopen(path_in(folder, name, path), "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(length, 1, 8, file), 8);
    ck_assert_uint_eq(fwrite(header, 1, strlen(header), file), strlen(header));
    for (size_t i = 0; i < made->tensors.n; i++) {
        const made_tensor_t *tensor = &made->tensors.items[i];

        if (tensor->shard == shard) {
            ck_assert_uint_eq(fwrite(tensor->bytes, 1, tensor->n_bytes, file),
                              tensor->n_bytes);
        }
    }
    ck_assert_int_eq(fclose(file), 0);
    free(header);
}

void write_checkpoint(const char *folder, const made_t *made,
                      const made_form_t *form)
{
    pl_text_t text = {0};
    char *index    = NULL;
    char name[64];

    if (form->n_shards == 1) {
        write_shard(folder, "model.safetensors", made, 0, form->shift);
        return;
    }
    pl_text_add(&text, "{\"metadata\": {}, \"weight_map\": {");
    for (size_t i = 0; i < made->tensors.n; i++) {
        pl_text_add(&text, "%s\"%s\": \"model-%d.safetensors\"",
                    i > 0 ? ", " : "", made->tensors.items[i].name,
                    made->tensors.items[i].shard);
    }
    pl_text_add(&text, "}}");
    ck_assert_int_eq(pl_text_take(&text, &index), PL_OK);
    write_file(folder, "model.safetensors.index.json", index, strlen(index));
    free(index);
    for (int shard = 0; shard < form->n_shards; shard++) {
        (void)snprintf(name, sizeof(name), "model-%d.safetensors", shard);
        write_shard(folder, name, made, shard, form->shift);
    }
}

/* ---- checking ---- */

static pl_status_t check_one(void *context, const pl_tensor_place_t *place)
{
    const made_form_t *form   = context;
    const pl_tensor_t *tensor = place->tensor;
    const char *dtype         = dtype_of(form, place);
    bool is_f8                = strcmp(dtype, "F8_E4M3") == 0;
    int64_t scale_cols        = blocks_of(place->cols);
    float *row                = calloc((size_t)place->cols, sizeof(*row));

    ck_assert_ptr_nonnull(row);
    ck_assert_ptr_nonnull(tensor->bytes);
    ck_assert_int_eq(tensor->rows, place->rows);
    ck_assert_int_eq(tensor->cols, place->cols);
    ck_assert_uint_eq((uintptr_t)tensor->bytes % element_bytes(dtype), 0);
    ck_assert(is_f8 == (tensor->scale != NULL));
    for (int32_t r = 0; r < place->rows; r++) {
        pl_tensor_row(tensor, r, row);
        for (int32_t c = 0; c < place->cols; c++) {
            uint64_t i = (uint64_t)r * (uint64_t)place->cols + (uint64_t)c;
            float want = (float)value_of(dtype, bits_of(place->name, dtype, i));

            if (is_f8) {
                want *= scale_of(place->name,
                                 (uint64_t)(r / 128 * scale_cols + c / 128));
            }
            if (row[c] != want) { /* a check each would take minutes */
                ck_abort_msg("%s[%d][%d]: %g, not %g", place->name, (int)r,
                             (int)c, (double)row[c], (double)want);
            }
        }
    }
    free(row);
    return PL_OK;
}

void check_weights(const pl_model_config_t *config, pl_weights_t *weights,
                   const made_form_t *form)
{
    made_form_t copy = *form;

    ck_assert_int_eq(pl_weights_each(config, weights, check_one, &copy), PL_OK);
}

pl_model_config_t odd_config(void)
{
    pl_model_config_t config = {.family            = PL_FAMILY_GLM_MOE_DSA,
                                .vocab_size        = 37,
                                .hidden            = 131,
                                .n_layers          = 3,
                                .n_heads           = 3,
                                .q_lora            = 19,
                                .kv_lora           = 133,
                                .nope              = 7,
                                .rope              = 6,
                                .v_dim             = 5,
                                .index_heads       = 3,
                                .index_dim         = 9,
                                .index_topk        = 4,
                                .dense_width       = 51,
                                .expert_width      = 128,
                                .n_experts         = 4,
                                .n_shared          = 2,
                                .experts_per_token = 2,
                                .n_group           = 1,
                                .topk_group        = 1};

    config.sparse_mlp[1] = config.sparse_mlp[2] = true;
    config.full_indexer[0] = config.full_indexer[2] = true;
    return config;
}
