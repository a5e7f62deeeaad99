/* The test cases of test_comm: one file each. */
#ifndef TEST_COMM_H
#define TEST_COMM_H

#include <check.h>

TCase *local_failures_case(void);
TCase *peer_case(void);
TCase *peer_queues_case(void);
TCase *peer_words_case(void);
TCase *nccl_case(void);

#endif /* TEST_COMM_H */
