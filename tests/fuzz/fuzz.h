/* The entry that libFuzzer and replay.c call; aborts if a law is broken. */
#ifndef PL_TEST_FUZZ_H
#define PL_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* PL_TEST_FUZZ_H */
