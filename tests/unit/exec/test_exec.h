/* The suites of the exec tests: one file each. */
#ifndef TEST_EXEC_H
#define TEST_EXEC_H

#include <check.h>

TCase *stamp_case(void);
TCase *damage_case(void);
TCase *decode_case(void);
TCase *faults_case(void);
TCase *storage_case(void);
TCase *run_storage_case(void);

#endif /* TEST_EXEC_H */
