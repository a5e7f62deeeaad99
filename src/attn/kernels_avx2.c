/* kernels.h for x86 with AVX2. */
#define PL_WIDTH         8
#define PL_KERNELS_TABLE pl_kernels_avx2
#define PL_KERNELS_NAME  "avx2"

#include "attn/kernels_body.h"
