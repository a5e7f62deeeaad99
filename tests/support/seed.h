/* support/seed.h - the seed of a random test: printed, and set by
 * PL_TEST_SEED=<n> to repeat what failed. */
#ifndef PL_TESTS_SEED_H
#define PL_TESTS_SEED_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t pl_test_seed(const char *test)
{
    const char *text = getenv("PL_TEST_SEED");
    uint64_t seed =
        (text == NULL) ? (uint64_t)time(NULL) : strtoull(text, NULL, 10);

    printf("%s: PL_TEST_SEED=%" PRIu64 "\n", test, seed);
    fflush(stdout);
    return seed;
}

#endif /* PL_TESTS_SEED_H */
