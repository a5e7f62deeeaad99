/* model/safetensors.h - a safetensors file, mapped; also what --expect reads.
 *
 * u64 little-endian header length n (at most 100 MB), n bytes of JSON {name:
 * {dtype, shape, data_offsets}}, then data.  Everything is checked against the
 * file's size; tensors may not overlap.  Names are found by hash.
 */
#ifndef PL_MODEL_SAFETENSORS_H
#define PL_MODEL_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

typedef struct pl_safetensors pl_safetensors_t; /* opaque */

typedef struct pl_safetensor {
    const char *name;
    const char *dtype; /* as in the file: "F32", "BF16", "I32", ... */
    int32_t n_dims;
    int64_t shape[8];
    const void *bytes;
    size_t n_bytes;
} pl_safetensor_t;

/* PL_ERR_INPUT (one line: file, what is wrong), PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_safetensors_open(const char *path,
                                              const pl_log_t *log,
                                              pl_safetensors_t **file_p);
void pl_safetensors_close(pl_safetensors_t *file);

/* NULL: not there.  Borrowed until close. */
const pl_safetensor_t *pl_safetensors_find(const pl_safetensors_t *file,
                                           const char *name);
size_t pl_safetensors_count(const pl_safetensors_t *file);
const pl_safetensor_t *pl_safetensors_at(const pl_safetensors_t *file,
                                         size_t i);

#endif /* PL_MODEL_SAFETENSORS_H */
