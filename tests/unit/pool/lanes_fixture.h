/* tests/unit/pool/lanes_fixture.h - a pool whose messages can be read. */
#ifndef PL_TESTS_LANES_FIXTURE_H
#define PL_TESTS_LANES_FIXTURE_H

#include <pagelane/lanes.h>

#include <check.h>
#include <stdio.h>

typedef struct lanes_fixture {
    pl_lanes_t *lanes;
    pl_log_t log;
    char last[1024]; /* the last line said */
    int n_lines;
} lanes_fixture_t;

static inline void fixture_write(void *context, pl_log_level_t level,
                                 const char *line)
{
    lanes_fixture_t *fixture = context;

    (void)level;
    snprintf(fixture->last, sizeof(fixture->last), "%s", line);
    fixture->n_lines++;
}

static inline void fixture_open(lanes_fixture_t *fixture, int n_lanes,
                                int32_t pages_per_lane, int32_t reserved)
{
    pl_lanes_params_t params = {n_lanes, pages_per_lane, reserved, "test"};

    fixture->log     = (pl_log_t){fixture_write, fixture, PL_LOG_TRACE};
    fixture->last[0] = '\0';
    fixture->n_lines = 0;
    ck_assert_int_eq(pl_lanes_open(&params, &fixture->log, &fixture->lanes),
                     PL_OK);
}

static inline void fixture_close(lanes_fixture_t *fixture)
{
    ck_assert_int_eq(pl_lanes_check(fixture->lanes), PL_OK);
    pl_lanes_close(fixture->lanes);
}

/* The test cases of test_lanes_count.c and test_lanes_free.c. */
void add_count_tests(Suite *suite);
void add_free_tests(Suite *suite);

#endif /* PL_TESTS_LANES_FIXTURE_H */
