#include "model/safetensors.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "model/json.h"
#include "model/names.h"
#include "model/safetensors_internal.h"

/* As the format's own library has it. */
#define MAX_HEADER_BYTES 100000000
#define MAX_DIMS         8

struct pl_safetensors {
    char *path;
    void *map; /* NULL: the bytes are borrowed */
    size_t map_bytes;
    const uint8_t *data; /* what offsets count from */
    uint64_t data_bytes;
    PL_ARRAY(pl_safetensor_t) tensors; /* in the order of their bytes */
    pl_names_t names;
};

static const struct {
    const char *name;
    uint64_t bits; /* of an element */
} DTYPES[] = {
    {"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6},
    {"F8_E4M3", 8}, {"F8_E5M2", 8},     {"F8_E8M0", 8},     {"U8", 8},
    {"I8", 8},      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"U16", 16},
    {"I16", 16},    {"F16", 16},        {"BF16", 16},       {"U32", 32},
    {"I32", 32},    {"F32", 32},        {"U64", 64},        {"I64", 64},
    {"F64", 64},    {"C64", 64},
};

#define N_DTYPES (sizeof(DTYPES) / sizeof(*DTYPES))

const char *pl_shape_text(const int64_t *shape, int32_t n_dims, char text[96])
{
    size_t at = 0;

    text[at++] = '[';
    for (int32_t i = 0; i < n_dims; i++) {
        int n = snprintf(&text[at], 96 - at, "%s%" PRId64, i > 0 ? ", " : "",
                         shape[i]);

        if ((n < 0) || ((size_t)n >= 94 - at)) {
            break;
        }
        at += (size_t)n;
    }
    text[at++] = ']';
    text[at]   = '\0';
    return text;
}

/* A whole number 0 .. INT64_MAX.  json-c cuts larger ones to UINT64_MAX. */
static bool is_size(struct json_object *value, uint64_t *size_p)
{
    if (!json_object_is_type(value, json_type_int) ||
        (json_object_get_int64(value) < 0) ||
        (json_object_get_uint64(value) > INT64_MAX)) {
        return false;
    }
    *size_p = json_object_get_uint64(value);
    return true;
}

static pl_status_t read_shape(const pl_safetensors_t *file,
                              struct json_object *entry, const pl_log_t *log,
                              pl_safetensor_t *tensor)
{
    struct json_object *shape = pl_json_find(entry, "shape");
    size_t n;

    if (!json_object_is_type(shape, json_type_array) ||
        (json_object_array_length(shape) > MAX_DIMS)) {
        return pl_model_bad(log, file->path,
                            "tensor \"%.200s\": shape is %.60s: expected an "
                            "array of at most %d sizes; restore the file",
                            tensor->name, json_object_to_json_string(shape),
                            MAX_DIMS);
    }
    n = json_object_array_length(shape);
    for (size_t i = 0; i < n; i++) {
        uint64_t size = 0;

        if (!is_size(json_object_array_get_idx(shape, i), &size)) {
            return pl_model_bad(log, file->path,
                                "tensor \"%.200s\": shape is %.60s: expected "
                                "whole numbers from 0; restore the file",
                                tensor->name,
                                json_object_to_json_string(shape));
        }
        tensor->shape[i] = (int64_t)size;
    }
    tensor->n_dims = (int32_t)n;
    return PL_OK;
}

/* Bytes of all elements; false: more than 64 bits can say, or not whole. */
static bool bytes_of(const pl_safetensor_t *tensor, uint64_t bits,
                     uint64_t *n_bytes_p)
{
    uint64_t n = bits;

    for (int32_t i = 0; i < tensor->n_dims; i++) {
        uint64_t size = (uint64_t)tensor->shape[i];

        if ((size != 0) && (n > UINT64_MAX / size)) {
            return false;
        }
        n *= size;
    }
    *n_bytes_p = n / 8;
    return n % 8 == 0;
}

static pl_status_t read_dtype(const pl_safetensors_t *file,
                              struct json_object *entry, const pl_log_t *log,
                              pl_safetensor_t *tensor, uint64_t *bits_p)
{
    struct json_object *dtype = pl_json_find(entry, "dtype");

    for (size_t i = 0; i < N_DTYPES; i++) {
        if (json_object_is_type(dtype, json_type_string) &&
            (strcmp(json_object_get_string(dtype), DTYPES[i].name) == 0)) {
            tensor->dtype = DTYPES[i].name;
            *bits_p       = DTYPES[i].bits;
            return PL_OK;
        }
    }
    return pl_model_bad(log, file->path,
                        "tensor \"%.200s\": dtype is %.40s: expected one of "
                        "safetensors (F32, BF16, F16, F8_E4M3, I32, ...); "
                        "convert the file",
                        tensor->name, json_object_to_json_string(dtype));
}

static pl_status_t read_offsets(const pl_safetensors_t *file,
                                struct json_object *entry, const pl_log_t *log,
                                uint64_t bits, pl_safetensor_t *tensor)
{
    struct json_object *offsets = pl_json_find(entry, "data_offsets");
    uint64_t begin              = 0;
    uint64_t end                = 0;
    uint64_t want               = 0;
    char text[96];

    if (!json_object_is_type(offsets, json_type_array) ||
        (json_object_array_length(offsets) != 2) ||
        !is_size(json_object_array_get_idx(offsets, 0), &begin) ||
        !is_size(json_object_array_get_idx(offsets, 1), &end) ||
        (begin > end)) {
        return pl_model_bad(log, file->path,
                            "tensor \"%.200s\": data_offsets is %.60s: "
                            "expected [begin, end]; restore the file",
                            tensor->name, json_object_to_json_string(offsets));
    }
    if (end > file->data_bytes) {
        return pl_model_bad(log, file->path,
                            "tensor \"%.200s\" lies at bytes %" PRIu64
                            " to %" PRIu64 " of the data: expected at most "
                            "%" PRIu64 ", all there are; the file is cut, "
                            "fetch it again",
                            tensor->name, begin, end, file->data_bytes);
    }
    if (!bytes_of(tensor, bits, &want) || (want != end - begin)) {
        return pl_model_bad(log, file->path,
                            "tensor \"%.200s\" has %" PRIu64
                            " bytes: expected those of %s "
                            "with shape %s; restore the file",
                            tensor->name, end - begin, tensor->dtype,
                            pl_shape_text(tensor->shape, tensor->n_dims, text));
    }
    tensor->bytes   = file->data + begin;
    tensor->n_bytes = (size_t)(end - begin);
    return PL_OK;
}

static pl_status_t read_tensor(pl_safetensors_t *file, const char *name,
                               struct json_object *entry, const pl_log_t *log)
{
    pl_safetensor_t tensor = {.name = name};
    uint64_t bits          = 0;

    if (!json_object_is_type(entry, json_type_object)) {
        return pl_model_bad(log, file->path,
                            "tensor \"%.200s\" is %.60s in the header: "
                            "expected {dtype, shape, data_offsets}; restore "
                            "the file",
                            name, json_object_to_json_string(entry));
    }
    PL_TRY(read_dtype(file, entry, log, &tensor, &bits));
    PL_TRY(read_shape(file, entry, log, &tensor));
    PL_TRY(read_offsets(file, entry, log, bits, &tensor));
    PL_TRY(PL_ARRAY_RESERVE(&file->tensors, file->tensors.n + 1));
    tensor.name = strdup(name);
    if (tensor.name == NULL) {
        return PL_ERR_MEMORY;
    }
    file->tensors.items[file->tensors.n++] = tensor;
    return PL_OK;
}

/* By place in the file; of empty ones at one place, by name. */
static int compare_tensors(const void *a, const void *b)
{
    const pl_safetensor_t *left  = a;
    const pl_safetensor_t *right = b;
    const uint8_t *left_bytes    = left->bytes;
    const uint8_t *right_bytes   = right->bytes;

    if (left_bytes != right_bytes) {
        return left_bytes < right_bytes ? -1 : 1;
    }
    if (left->n_bytes != right->n_bytes) {
        return left->n_bytes < right->n_bytes ? -1 : 1;
    }
    return strcmp(left->name, right->name);
}

/* The tensors cover the data once: no byte belongs to two, and, as the
 * format's own library demands, none to nobody. */
static pl_status_t check_cover(const pl_safetensors_t *file,
                               const pl_log_t *log)
{
    uint64_t at = 0;

    for (size_t i = 0; i < file->tensors.n; i++) {
        const pl_safetensor_t *tensor = &file->tensors.items[i];
        uint64_t begin =
            (uint64_t)((const uint8_t *)tensor->bytes - file->data);

        if (begin < at) {
            return pl_model_bad(log, file->path,
                                "tensors \"%.200s\" and \"%.200s\" overlap: "
                                "expected each byte in one tensor; restore "
                                "the file",
                                file->tensors.items[i - 1].name, tensor->name);
        }
        if (begin > at) {
            return pl_model_bad(log, file->path,
                                "bytes %" PRIu64 " to %" PRIu64 " of the data, "
                                "before tensor \"%.200s\", belong to none: "
                                "expected tensors without gaps; restore the "
                                "file",
                                at, begin, tensor->name);
        }
        at = begin + tensor->n_bytes;
    }
    if (at != file->data_bytes) {
        return pl_model_bad(log, file->path,
                            "%" PRIu64 " bytes after the last tensor: expected "
                            "none; restore the file",
                            file->data_bytes - at);
    }
    return PL_OK;
}

static pl_status_t read_tensors(pl_safetensors_t *file,
                                struct json_object *header, const pl_log_t *log)
{
    json_object_object_foreach(header, name, entry)
    {
        if (strcmp(name, "__metadata__") != 0) {
            PL_TRY(read_tensor(file, name, entry, log));
        } else if (!json_object_is_type(entry, json_type_object)) {
            return pl_model_bad(log, file->path,
                                "\"__metadata__\" is %.60s: expected an "
                                "object of strings; restore the file",
                                json_object_to_json_string(entry));
        }
    }
    if (file->tensors.n > 0) {
        qsort(file->tensors.items, file->tensors.n,
              sizeof(*file->tensors.items), compare_tensors);
    }
    PL_TRY(check_cover(file, log));
    PL_TRY(pl_names_open(file->tensors.n, &file->names));
    for (size_t i = 0; i < file->tensors.n; i++) {
        (void)pl_names_add(&file->names, file->tensors.items[i].name, i);
    }
    return PL_OK;
}

static pl_status_t read_header(pl_safetensors_t *file, const uint8_t *bytes,
                               size_t n_bytes, const pl_log_t *log)
{
    struct json_object *header = NULL;
    uint64_t n                 = 0;
    pl_status_t status;

    if (n_bytes < 8) {
        return pl_model_bad(log, file->path,
                            "%zu bytes long: expected a safetensors file of "
                            "at least 8; fetch it again",
                            n_bytes);
    }
    for (int i = 7; i >= 0; i--) {
        n = n << 8 | bytes[i];
    }
    if (n > MAX_HEADER_BYTES) {
        return pl_model_bad(log, file->path,
                            "a header of %" PRIu64 " bytes: expected at most "
                            "%d; is this a safetensors file?",
                            n, MAX_HEADER_BYTES);
    }
    if (n > n_bytes - 8) {
        return pl_model_bad(log, file->path,
                            "a header of %" PRIu64 " bytes in a file of %zu: "
                            "the file is cut, fetch it again",
                            n, n_bytes);
    }
    file->data       = bytes + 8 + n;
    file->data_bytes = n_bytes - 8 - n;
    PL_TRY(pl_json_parse(file->path, (const char *)bytes + 8, (size_t)n, log,
                         &header));
    status = read_tensors(file, header, log);
    json_object_put(header);
    return status;
}

static pl_status_t make_file(const char *path, pl_safetensors_t **file_p)
{
    pl_safetensors_t *file = calloc(1, sizeof(*file));

    if (file == NULL) {
        return PL_ERR_MEMORY;
    }
    file->path = strdup(path);
    if (file->path == NULL) {
        free(file);
        return PL_ERR_MEMORY;
    }
    *file_p = file;
    return PL_OK;
}

pl_status_t pl_safetensors_open_memory(const char *name, const void *bytes,
                                       size_t n_bytes, const pl_log_t *log,
                                       pl_safetensors_t **file_p)
{
    pl_safetensors_t *file = NULL;
    pl_status_t status;

    PL_TRY(make_file(name, &file));
    status = read_header(file, bytes, n_bytes, log);
    if (status != PL_OK) {
        pl_safetensors_close(file);
        return status;
    }
    *file_p = file;
    return PL_OK;
}

static pl_status_t cannot_read(const char *path, const pl_log_t *log,
                               const char *why)
{
    return pl_model_bad(log, path,
                        "cannot be read (%s): expected a safetensors file; "
                        "check the path and the download",
                        why);
}

/* Map the whole file, read only; nothing of it is read yet. */
static pl_status_t map_file(pl_safetensors_t *file, const pl_log_t *log)
{
    /* O_NONBLOCK: a pipe of that name must not hold us. */
    int fd             = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    pl_status_t status = PL_OK;
    struct stat info;

    if (fd < 0) {
        return cannot_read(file->path, log, strerror(errno));
    }
    if (fstat(fd, &info) != 0) {
        status = cannot_read(file->path, log, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        status = cannot_read(file->path, log, "not a regular file");
    } else if (info.st_size > 0) {
        file->map_bytes = (size_t)info.st_size;
        file->map = mmap(NULL, file->map_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (file->map == MAP_FAILED) {
            file->map = NULL;
            status    = cannot_read(file->path, log, strerror(errno));
        }
    }
    (void)close(fd); /* only read; the map stays */
    return status;
}

pl_status_t pl_safetensors_open(const char *path, const pl_log_t *log,
                                pl_safetensors_t **file_p)
{
    pl_safetensors_t *file = NULL;
    pl_status_t status;

    PL_TRY(make_file(path, &file));
    PL_TRY_GOTO(status, map_file(file, log), err_close);
    PL_TRY_GOTO(status, read_header(file, file->map, file->map_bytes, log),
                err_close);
    *file_p = file;
    return PL_OK;

err_close:
    pl_safetensors_close(file);
    return status;
}

static void free_name(const char *name)
{
    union {
        const char *borrowed;
        char *owned;
    } both = {.borrowed = name};

    free(both.owned);
}

void pl_safetensors_close(pl_safetensors_t *file)
{
    if (file == NULL) {
        return;
    }
    for (size_t i = 0; i < file->tensors.n; i++) {
        free_name(file->tensors.items[i].name);
    }
    PL_ARRAY_FREE(&file->tensors);
    pl_names_close(&file->names);
    if (file->map != NULL) {
        (void)munmap(file->map, file->map_bytes);
    }
    free(file->path);
    free(file);
}

const pl_safetensor_t *pl_safetensors_find(const pl_safetensors_t *file,
                                           const char *name)
{
    size_t i = pl_names_find(&file->names, name);

    return i != PL_NAMES_NONE ? &file->tensors.items[i] : NULL;
}

size_t pl_safetensors_count(const pl_safetensors_t *file)
{
    return file->tensors.n;
}

const pl_safetensor_t *pl_safetensors_at(const pl_safetensors_t *file, size_t i)
{
    assert(i < file->tensors.n);
    return &file->tensors.items[i];
}

const char *pl_safetensors_path(const pl_safetensors_t *file)
{
    return file->path;
}
