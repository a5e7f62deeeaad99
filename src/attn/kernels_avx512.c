/* kernels.h for x86 with AVX-512. */
#define PL_WIDTH         16
#define PL_KERNELS_TABLE pl_kernels_avx512
#define PL_KERNELS_NAME  "avx512"

#include "attn/kernels_body.h"
