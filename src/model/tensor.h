/* model/tensor.h - parts of a tensor's rows as float32. */
#ifndef PL_MODEL_TENSOR_H
#define PL_MODEL_TENSOR_H

#include <stdint.h>

#include "model/weights.h"

/* Columns first .. first+n-1 of row r, as pl_tensor_row gives them.  Pure. */
void pl_tensor_part(const pl_tensor_t *tensor, int32_t r, int32_t first,
                    int32_t n, float *out);

/* Value i of a random tensor: mean + scale * n, n close to a normal
 * distribution (model/weights_random.c).  Pure; the same on every machine. */
float pl_drawn_value(const pl_drawing_t *drawing, uint64_t i);

#endif /* PL_MODEL_TENSOR_H */
