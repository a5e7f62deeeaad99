/* kernels.h for any machine: four floats. */
#define PL_WIDTH         4
#define PL_KERNELS_TABLE pl_kernels_plain
#define PL_KERNELS_NAME  "plain"

#include "attn/kernels_body.h"
