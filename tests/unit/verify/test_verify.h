/* The suites of test_verify: one file each. */
#ifndef TEST_VERIFY_H
#define TEST_VERIFY_H

#include <check.h>

TCase *store_case(void);

#endif /* TEST_VERIFY_H */
