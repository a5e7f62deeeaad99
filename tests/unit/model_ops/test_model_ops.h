/* The suites of test_model_ops: one file each. */
#ifndef TEST_MODEL_OPS_H
#define TEST_MODEL_OPS_H

#include <check.h>

TCase *linear_case(void);
TCase *norms_case(void);
TCase *rope_case(void);
TCase *moe_case(void);

#endif /* TEST_MODEL_OPS_H */
