/* The suites of test_device: one file each. */
#ifndef TEST_DEVICE_H
#define TEST_DEVICE_H

#include <check.h>

TCase *guard_case(void);
TCase *share_case(int n_devices);

#endif /* TEST_DEVICE_H */
