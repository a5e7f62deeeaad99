/* model/safetensors_internal.h - for weights and tests. */
#ifndef PL_MODEL_SAFETENSORS_INTERNAL_H
#define PL_MODEL_SAFETENSORS_INTERNAL_H

#include "model/safetensors.h"

/* As pl_safetensors_open() of a file `name` with these bytes, borrowed until
 * close. */
PL_MUST_CHECK pl_status_t pl_safetensors_open_memory(const char *name,
                                                     const void *bytes,
                                                     size_t n_bytes,
                                                     const pl_log_t *log,
                                                     pl_safetensors_t **file_p);

/* The path it was opened with; borrowed. */
const char *pl_safetensors_path(const pl_safetensors_t *file);

/* "[2, 3]" into text; returns text. */
const char *pl_shape_text(const int64_t *shape, int32_t n_dims, char text[96]);

#endif /* PL_MODEL_SAFETENSORS_INTERNAL_H */
