/* Weights from a checkpoint: find the files, map them, and give each tensor of
 * the config its bytes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "model/json.h"
#include "model/names.h"
#include "model/safetensors_internal.h"
#include "model/weights_internal.h"

#define SINGLE "model.safetensors"
#define INDEX  "model.safetensors.index.json"
#define BLOCK  128 /* rows and columns that share a scale */

/* A tensor of any of the files. */
typedef struct entry {
    const pl_safetensor_t *tensor;
    const pl_safetensors_t *file;
    bool used;
} entry_t;

typedef struct checkpoint {
    const char *path; /* what names the tensors: the file, or the index */
    const pl_log_t *log;
    const pl_model_config_t *config;
    pl_weights_t *weights;
    PL_ARRAY(entry_t) entries;
    pl_names_t names; /* of the entries */
} checkpoint_t;

static const struct {
    const char *name;
    pl_dtype_t dtype;
    size_t bytes; /* of an element */
} DTYPES[] = {
    {"F32", PL_F32, 4},
    {"BF16", PL_BF16, 2},
    {"F16", PL_F16, 2},
    {"F8_E4M3", PL_F8_E4M3, 1},
};

#define N_DTYPES (sizeof(DTYPES) / sizeof(*DTYPES))

static entry_t *find(const checkpoint_t *checkpoint, const char *name)
{
    size_t i = pl_names_find(&checkpoint->names, name);

    return i != PL_NAMES_NONE ? &checkpoint->entries.items[i] : NULL;
}

static pl_status_t open_file(checkpoint_t *checkpoint, const char *path)
{
    struct pl_weights_memory *memory = checkpoint->weights->memory;
    pl_safetensors_t *file           = NULL;

    /* NOLINTNEXTLINE(bugprone-sizeof-expression): it holds pointers */
    PL_TRY(PL_ARRAY_RESERVE(&memory->files, memory->files.n + 1));
    PL_TRY(pl_safetensors_open(path, checkpoint->log, &file));
    memory->files.items[memory->files.n++] = file;
    return PL_OK;
}

/* A shard's name is that of a file beside the index. */
static bool is_file_name(struct json_object *value)
{
    const char *name = json_object_get_string(value);

    return json_object_is_type(value, json_type_string) && (name[0] != '\0') &&
           (strchr(name, '/') == NULL) && (strcmp(name, ".") != 0) &&
           (strcmp(name, "..") != 0);
}

/* Open the file of each shard that `map` names, once. */
static pl_status_t open_shards(checkpoint_t *checkpoint,
                               struct json_object *map)
{
    pl_names_t shards  = {0};
    size_t n           = 0;
    pl_status_t status = PL_OK;

    PL_TRY(pl_names_open((size_t)json_object_object_length(map), &shards));
    json_object_object_foreach(map, name, value)
    {
        char *path = NULL;

        if (!is_file_name(value)) {
            status = pl_model_bad(checkpoint->log, checkpoint->path,
                                  "tensor \"%.200s\" lies in %.80s: expected "
                                  "the name of a file in the same folder",
                                  name, json_object_to_json_string(value));
            break;
        }
        if (pl_names_add(&shards, json_object_get_string(value), n) != n) {
            continue;
        }
        n++;
        status = pl_model_path(checkpoint->path, json_object_get_string(value),
                               &path);
        if (status == PL_OK) {
            status = open_file(checkpoint, path);
        }
        free(path);
        if (status != PL_OK) {
            break;
        }
    }
    pl_names_close(&shards);
    return status;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

static pl_status_t note_tensors(checkpoint_t *checkpoint)
{
    const struct pl_weights_memory *memory = checkpoint->weights->memory;
    size_t n                               = 0;

    for (size_t f = 0; f < memory->files.n; f++) {
        n += pl_safetensors_count(memory->files.items[f]);
    }
    PL_TRY(PL_ARRAY_RESERVE(&checkpoint->entries, n));
    PL_TRY(pl_names_open(n, &checkpoint->names));
    for (size_t f = 0; f < memory->files.n; f++) {
        const pl_safetensors_t *file = memory->files.items[f];

        for (size_t i = 0; i < pl_safetensors_count(file); i++) {
            entry_t entry = {pl_safetensors_at(file, i), file, false};
            size_t at     = checkpoint->entries.n;
            size_t other =
                pl_names_add(&checkpoint->names, entry.tensor->name, at);

            if (other != at) {
                return pl_model_bad(
                    checkpoint->log, checkpoint->path,
                    "tensor \"%.200s\" is in both %.100s and %.100s: expected "
                    "it in one; remove the shard that does not belong here",
                    entry.tensor->name,
                    base_name(pl_safetensors_path(
                        checkpoint->entries.items[other].file)),
                    base_name(pl_safetensors_path(file)));
            }
            checkpoint->entries.items[checkpoint->entries.n++] = entry;
        }
    }
    return PL_OK;
}

/* What the index says of each tensor is so. */
static pl_status_t check_index(const checkpoint_t *checkpoint,
                               struct json_object *map)
{
    json_object_object_foreach(map, name, value)
    {
        const entry_t *entry = find(checkpoint, name);
        const char *shard    = json_object_get_string(value);

        if ((entry == NULL) ||
            (strcmp(base_name(pl_safetensors_path(entry->file)), shard) != 0)) {
            return pl_model_bad(checkpoint->log, checkpoint->path,
                                "tensor \"%.200s\" is not in %.100s: expected "
                                "it there; fetch that shard and the index "
                                "again",
                                name, shard);
        }
    }
    return PL_OK;
}

static pl_status_t open_index(checkpoint_t *checkpoint)
{
    struct json_object *root = NULL;
    struct json_object *map;
    pl_status_t status;

    PL_TRY(pl_json_read(checkpoint->path, checkpoint->log, &root));
    map = pl_json_find(root, "weight_map");
    if (!json_object_is_type(map, json_type_object) ||
        (json_object_object_length(map) == 0)) {
        status = pl_model_bad(checkpoint->log, checkpoint->path,
                              "\"weight_map\" is %.40s: expected an object of "
                              "tensors and their files; fetch the index again",
                              json_object_to_json_string(map));
        goto out_put;
    }
    PL_TRY_GOTO(status, open_shards(checkpoint, map), out_put);
    PL_TRY_GOTO(status, note_tensors(checkpoint), out_put);
    status = check_index(checkpoint, map);

out_put:
    json_object_put(root);
    return status;
}

/* The tensor's dtype, one of the first n_allowed of DTYPES. */
static pl_status_t dtype_of(const checkpoint_t *checkpoint,
                            const entry_t *entry, size_t n_allowed,
                            size_t *dtype_p)
{
    for (size_t i = 0; i < n_allowed; i++) {
        if (strcmp(entry->tensor->dtype, DTYPES[i].name) == 0) {
            *dtype_p = i;
            return PL_OK;
        }
    }
    return pl_model_bad(checkpoint->log, pl_safetensors_path(entry->file),
                        "tensor \"%.200s\" has dtype %s: expected F32, BF16%s; "
                        "convert the checkpoint",
                        entry->tensor->name, entry->tensor->dtype,
                        n_allowed == N_DTYPES ? ", F16 or F8_E4M3" : " or F16");
}

static pl_status_t check_shape(const checkpoint_t *checkpoint,
                               const entry_t *entry, const int64_t *shape,
                               int32_t n_dims, const char *why)
{
    const pl_safetensor_t *tensor = entry->tensor;
    char found[96];
    char wanted[96];

    if ((tensor->n_dims == n_dims) &&
        (memcmp(tensor->shape, shape, (size_t)n_dims * sizeof(*shape)) == 0)) {
        return PL_OK;
    }
    return pl_model_bad(checkpoint->log, pl_safetensors_path(entry->file),
                        "tensor \"%.200s\" has shape %s: expected %s %s",
                        tensor->name,
                        pl_shape_text(tensor->shape, tensor->n_dims, found),
                        pl_shape_text(shape, n_dims, wanted), why);
}

#define BY_CONFIG                                                              \
    "by config.json; use the config that belongs to the checkpoint"

/* n_bytes at `offset` of the tensor, at an address that suits elements of
 * `align` bytes: in the map, or, where the file does not align them, copied. */
static pl_status_t bytes_at(checkpoint_t *checkpoint, const entry_t *entry,
                            size_t offset, size_t n_bytes, size_t align,
                            const void **bytes_p)
{
    const uint8_t *bytes = (const uint8_t *)entry->tensor->bytes + offset;
    void *copy;

    if ((uintptr_t)bytes % align == 0) {
        *bytes_p = bytes;
        return PL_OK;
    }
    PL_TRY(pl_weights_buffer(checkpoint->weights, n_bytes, &copy));
    memcpy(copy, bytes, n_bytes);
    *bytes_p = copy;
    return PL_OK;
}

static int64_t blocks_of(int32_t n)
{
    return ((int64_t)n + BLOCK - 1) / BLOCK;
}

/* The scales of an F8_E4M3 tensor, into place->tensor. */
static pl_status_t load_scale(checkpoint_t *checkpoint,
                              const pl_tensor_place_t *place,
                              const entry_t *entry, bool is_fused)
{
    int32_t rows  = is_fused ? place->fused_rows : place->rows;
    int64_t all[] = {checkpoint->config->n_experts, blocks_of(rows),
                     blocks_of(place->cols)};
    size_t n      = (size_t)(all[1] * all[2]);
    size_t first  = 0;
    char name[160];
    const void *bytes = NULL;
    entry_t *scale;

    (void)snprintf(name, sizeof(name), "%s_scale_inv", entry->tensor->name);
    scale = find(checkpoint, name);
    if (scale == NULL) {
        return pl_model_bad(checkpoint->log, checkpoint->path,
                            "tensor \"%.200s\" is F8_E4M3 without \"%.200s\": "
                            "expected its scales; fetch the checkpoint again",
                            entry->tensor->name, name);
    }
    scale->used = true;
    if (strcmp(scale->tensor->dtype, "F32") != 0) {
        return pl_model_bad(checkpoint->log, pl_safetensors_path(scale->file),
                            "tensor \"%.200s\" has dtype %s: expected F32; "
                            "convert the checkpoint",
                            name, scale->tensor->dtype);
    }
    PL_TRY(check_shape(checkpoint, scale, is_fused ? all : &all[1],
                       is_fused ? 3 : 2,
                       "(one scale for 128 x 128 values); convert the "
                       "checkpoint"));
    if (is_fused) {
        if (place->first_row % BLOCK != 0) {
            return pl_model_bad(
                checkpoint->log, pl_safetensors_path(entry->file),
                "tensor \"%.200s\": the up projection starts at row %d, within "
                "a block of %d: expected a multiple; store one tensor an "
                "expert",
                entry->tensor->name, (int)place->first_row, BLOCK);
        }
        first = (size_t)place->expert * n +
                (size_t)(place->first_row / BLOCK) * (size_t)all[2];
        n = (size_t)(blocks_of(place->rows) * all[2]);
    }
    PL_TRY(bytes_at(checkpoint, scale, first * sizeof(float), n * sizeof(float),
                    sizeof(float), &bytes));
    place->tensor->scale      = bytes;
    place->tensor->scale_cols = (int32_t)all[2];
    return PL_OK;
}

static pl_status_t load_from(checkpoint_t *checkpoint,
                             const pl_tensor_place_t *place, entry_t *entry,
                             bool is_fused)
{
    bool is_vector    = place->kind >= PL_TENSOR_NORM;
    int64_t shape[3]  = {checkpoint->config->n_experts, place->rows,
                         place->cols};
    size_t offset     = 0;
    size_t n          = (size_t)place->rows * (size_t)place->cols;
    const void *bytes = NULL;
    size_t dtype      = 0;

    entry->used = true;
    PL_TRY(dtype_of(checkpoint, entry, is_vector ? N_DTYPES - 1 : N_DTYPES,
                    &dtype));
    if (is_fused) {
        shape[1] = place->fused_rows;
        offset   = ((size_t)place->expert * (size_t)place->fused_rows +
                  (size_t)place->first_row) *
                 (size_t)place->cols;
        PL_TRY(check_shape(checkpoint, entry, shape, 3, BY_CONFIG));
    } else if (is_vector) {
        PL_TRY(check_shape(checkpoint, entry, &shape[2], 1, BY_CONFIG));
    } else {
        PL_TRY(check_shape(checkpoint, entry, &shape[1], 2, BY_CONFIG));
    }
    PL_TRY(bytes_at(checkpoint, entry, offset * DTYPES[dtype].bytes,
                    n * DTYPES[dtype].bytes, DTYPES[dtype].bytes, &bytes));
    place->tensor->dtype = DTYPES[dtype].dtype;
    place->tensor->rows  = place->rows;
    place->tensor->cols  = place->cols;
    place->tensor->bytes = bytes;
    if (place->tensor->dtype == PL_F8_E4M3) {
        return load_scale(checkpoint, place, entry, is_fused);
    }
    return PL_OK;
}

static pl_status_t load(void *context, const pl_tensor_place_t *place)
{
    checkpoint_t *checkpoint = context;
    entry_t *entry           = find(checkpoint, place->name);
    entry_t *fused =
        place->fused[0] != '\0' ? find(checkpoint, place->fused) : NULL;

    if ((entry != NULL) && (fused != NULL)) {
        return pl_model_bad(checkpoint->log, checkpoint->path,
                            "both \"%.200s\" and \"%.200s\": expected the "
                            "experts one by one or in one tensor; remove one",
                            place->name, place->fused);
    }
    if ((entry == NULL) && (fused == NULL)) {
        return pl_model_bad(
            checkpoint->log, checkpoint->path,
            "tensor \"%.200s\" is missing: expected it by config.json%s; fetch "
            "the checkpoint again, or use the config that belongs to it",
            place->name,
            strcmp(place->name, "lm_head.weight") == 0
                ? " (without \"tie_word_embeddings\": true)"
                : "");
    }
    return load_from(checkpoint, place, entry != NULL ? entry : fused,
                     entry == NULL);
}

/* Of a layer that this model does not run: multi-token prediction. */
static bool is_beyond(const checkpoint_t *checkpoint, const char *name)
{
    static const char PREFIX[] = "model.layers.";
    char *end                  = NULL;
    long layer;

    if (strncmp(name, PREFIX, sizeof(PREFIX) - 1) != 0) {
        return false;
    }
    layer = strtol(name + sizeof(PREFIX) - 1, &end, 10);
    return (*end == '.') && (layer >= checkpoint->config->n_layers);
}

static void warn_of_unused(const checkpoint_t *checkpoint)
{
    const entry_t *first = NULL;
    size_t n             = 0;

    for (size_t i = 0; i < checkpoint->entries.n; i++) {
        const entry_t *entry = &checkpoint->entries.items[i];
        const char *name     = entry->tensor->name;

        if (entry->used || (entry->tensor->n_bytes == 0) ||
            is_beyond(checkpoint, name) ||
            (checkpoint->config->tied &&
             (strcmp(name, "lm_head.weight") == 0))) {
            continue;
        }
        first = first == NULL ? entry : first;
        n++;
    }
    if (n > 0) {
        pl_log(checkpoint->log, PL_LOG_WARN,
               "%s: tensor \"%.200s\" is not used (so are %zu in all): "
               "expected tensors of this model alone; check the config",
               pl_safetensors_path(first->file), first->tensor->name, n);
    }
}

static bool is_there(const char *path)
{
    return (access(path, F_OK) == 0) || (errno != ENOENT);
}

/* As transformers: one file if there is one, else shards. */
static pl_status_t open_files(checkpoint_t *checkpoint, const char *dir,
                              const char *single, const char *index)
{
    if (is_there(single)) {
        checkpoint->path = single;
        PL_TRY(open_file(checkpoint, single));
        return note_tensors(checkpoint);
    }
    if (is_there(index)) {
        checkpoint->path = index;
        return open_index(checkpoint);
    }
    return pl_model_bad(checkpoint->log, dir,
                        "neither %s nor %s is there: expected a checkpoint; "
                        "check --model, or take --weights random:SEED",
                        SINGLE, INDEX);
}

pl_status_t pl_weights_open(const char *dir, const pl_model_config_t *config,
                            const pl_log_t *log, pl_weights_t **weights_p)
{
    checkpoint_t checkpoint = {.log = log, .config = config};
    char *single            = NULL;
    char *index             = NULL;
    pl_status_t status;

    PL_TRY_GOTO(status, pl_model_path(dir, SINGLE, &single), out);
    PL_TRY_GOTO(status, pl_model_path(dir, INDEX, &index), out);
    PL_TRY_GOTO(status, pl_weights_make(config, &checkpoint.weights), out);
    PL_TRY_GOTO(status, open_files(&checkpoint, dir, single, index), out);
    PL_TRY_GOTO(status,
                pl_weights_each(config, checkpoint.weights, load, &checkpoint),
                out);
    if (config->tied) {
        checkpoint.weights->head = checkpoint.weights->embed;
    }
    warn_of_unused(&checkpoint);
    *weights_p         = checkpoint.weights;
    checkpoint.weights = NULL;

out:
    pl_weights_close(checkpoint.weights);
    PL_ARRAY_FREE(&checkpoint.entries);
    pl_names_close(&checkpoint.names);
    free(single);
    free(index);
    return status;
}
