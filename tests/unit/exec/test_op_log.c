/* exec/op_log.h: ranks count apart, and together they are the plan. */
#include "exec/op_log.h"

#include <string.h>

#include "support/check_main.h"

enum { N_REQUESTS = 3 };

/* Two ticks; plans go by kind, so that ids do not ascend. */
static const pl_op_t FIRST[] = {
    {.id = 4, .kind = PL_OP_LOAD, .request = 1},
    {.id = 2, .kind = PL_OP_PREFILL, .request = 1},
    {.id = 5, .kind = PL_OP_PREFILL, .request = 2, .cancelled = true},
    {.id = 3, .kind = PL_OP_DECODE, .request = 0},
    {.id = 1, .kind = PL_OP_SEND, .request = 0}};
static const pl_op_t SECOND[] = {
    {.id = 9, .kind = PL_OP_BACKUP, .request = -1},
    {.id = 7, .kind = PL_OP_REENTER, .request = 0},
    {.id = 8, .kind = PL_OP_STORE, .request = -1},
    {.id = 6, .kind = PL_OP_PUBLISH, .request = -1}};

static void begin(pl_op_log_t *log, const pl_op_t *ops, int32_t n)
{
    pl_op_t copy[8];
    pl_plan_t plan = {.n_ops = n, .ops = copy};

    memcpy(copy, ops, (size_t)n * sizeof(*ops));
    ck_assert_int_eq(pl_op_log_begin(log, &plan), PL_OK);
}

static void open_log(pl_op_log_t *log)
{
    *log = (pl_op_log_t){0};
    ck_assert_int_eq(pl_op_log_open(log, N_REQUESTS), PL_OK);
    begin(log, FIRST, 5);
    begin(log, SECOND, 4);
}

START_TEST(all_ranks_have_the_same_operations)
{
    static const int64_t IDS[] = {1, 2, 4, 8, 9};
    pl_op_log_t log;

    open_log(&log);
    ck_assert_uint_eq(log.ops.n, 5);
    for (size_t i = 0; i < 5; i++) {
        ck_assert_int_eq(log.ops.items[i].op, IDS[i]);
        ck_assert_uint_eq(log.ops.items[i].pages, 0);
    }
    pl_op_log_close(&log);
}
END_TEST

/* Whoever moves a page, and in which order: the sum is the same. */
START_TEST(records_add_up)
{
    pl_op_log_t all, mine, theirs;

    open_log(&all);
    open_log(&mine);
    open_log(&theirs);
    for (int32_t i = 0; i < 10; i++) {
        int32_t back     = 9 - i;
        pl_op_log_t *one = back % 3 == 0 ? &mine : &theirs;

        pl_op_log_page(&all, 4, i, 2 * i, 3 * i);
        pl_op_log_bytes(&all, 4, 100);
        pl_op_log_page(one, 4, back, 2 * back, 3 * back);
        pl_op_log_bytes(one, 4, 100);
        pl_op_log_step(&all, 2, i, i / 4, 8);
        pl_op_log_step(one, 2, back, back / 4, 8);
    }
    ck_assert_uint_eq(all.ops.items[2].pages, 10);
    ck_assert_uint_eq(all.ops.items[2].bytes, 1000);
    ck_assert_uint_eq(mine.ops.items[2].pages + theirs.ops.items[2].pages, 10);
    ck_assert_uint_eq(mine.ops.items[2].hash + theirs.ops.items[2].hash,
                      all.ops.items[2].hash);
    ck_assert_uint_eq(mine.steps[2].hash + theirs.steps[2].hash,
                      all.steps[2].hash);
    ck_assert_uint_eq(mine.steps[2].bytes + theirs.steps[2].bytes, 80);
    pl_op_log_close(&all);
    pl_op_log_close(&mine);
    pl_op_log_close(&theirs);
}
END_TEST

/* A page at another position, from or to another slot, or two that changed
 * places, is another record. */
START_TEST(places_tell)
{
    static const int32_t WAYS[][6] = {{0, 1, 2, 1, 3, 4},  {0, 1, 4, 1, 3, 2},
                                      {0, 3, 2, 1, 1, 4},  {1, 1, 2, 0, 3, 4},
                                      {0, 1, 2, 1, 3, -1}, {0, 1, 2, 2, 3, 4}};
    uint64_t hashes[6];

    for (size_t w = 0; w < 6; w++) {
        pl_op_log_t log;

        open_log(&log);
        pl_op_log_page(&log, 9, WAYS[w][0], WAYS[w][1], WAYS[w][2]);
        pl_op_log_page(&log, 9, WAYS[w][3], WAYS[w][4], WAYS[w][5]);
        hashes[w] = log.ops.items[4].hash;
        for (size_t v = 0; v < w; v++) {
            ck_assert_uint_ne(hashes[v], hashes[w]);
        }
        pl_op_log_close(&log);
    }
}
END_TEST

START_TEST(one_that_is_off_takes_nothing)
{
    pl_op_log_t log = {0};

    begin(&log, FIRST, 5);
    pl_op_log_page(&log, 4, 1, 2, 3);
    pl_op_log_bytes(&log, 4, 10);
    pl_op_log_step(&log, 1, 2, 3, 4);
    ck_assert_uint_eq(log.ops.n, 0);
    pl_op_log_close(&log);
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("op_log");

    tcase_add_test(tcase, all_ranks_have_the_same_operations);
    tcase_add_test(tcase, records_add_up);
    tcase_add_test(tcase, places_tell);
    tcase_add_test(tcase, one_that_is_off_takes_nothing);
    return tcase;
}

PL_CHECK_MAIN("op_log", all())
