/* The suites of test_attn: one file each. */
#ifndef TEST_ATTN_H
#define TEST_ATTN_H

#include <check.h>

TCase *rows_case(void);
TCase *topk_case(void);
TCase *kernels_case(void);
TCase *scores_case(void);
TCase *attend_case(void);

#endif /* TEST_ATTN_H */
