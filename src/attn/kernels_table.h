/* attn/kernels_table.h - the tables of kernels.c, one per vector width. */
#ifndef PL_ATTN_KERNELS_TABLE_H
#define PL_ATTN_KERNELS_TABLE_H

#include "attn/kernels.h"

extern const pl_kernels_t pl_kernels_plain;
#if defined(PL_KERNELS_X86)
extern const pl_kernels_t pl_kernels_avx2;
extern const pl_kernels_t pl_kernels_avx512;
#endif

#endif /* PL_ATTN_KERNELS_TABLE_H */
