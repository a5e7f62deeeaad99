/* cli/fleet_shape.h: which instances options ask for, and all ways to part
 * GPUs. */
#include "cli/fleet_shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/sweep_split.h"
#include "sim/fleet.h"
#include "support/check_main.h"

static pl_status_t read_shape(const char *prefill, const char *decode,
                              const char *pd, int64_t cp,
                              pl_fleet_shape_t *shape)
{
    pl_options_t o = {.prefill = (char *)(uintptr_t)prefill,
                      .decode  = (char *)(uintptr_t)decode,
                      .pd      = (char *)(uintptr_t)pd,
                      .cp      = cp};

    ck_assert_int_eq(pl_fleet_is_asked(&o),
                     (prefill != NULL) || (decode != NULL) || (pd != NULL));
    return pl_fleet_shape(&o, NULL, shape);
}

START_TEST(shapes_are_read)
{
    static const struct {
        const char *prefill, *decode, *pd;
        int64_t cp;
        pl_fleet_shape_t want;
        int64_t gpus;
    } CASES[] = {
        {"1x8", NULL, NULL, 0, {1, 8, 0, 0, 0}, 8},
        {"1000x127", NULL, NULL, 0, {1000, 127, 0, 0, 0}, 127000},
        {"2x8", "3x16:dp4", NULL, 0, {2, 8, 3, 16, 4}, 64},
        {"2x8", "3x16", NULL, 0, {2, 8, 3, 16, 16}, 64},
        {NULL, "1x4:dp1", NULL, 0, {1, 1, 1, 4, 1}, 5},
        {NULL, "1x4:dp2", NULL, 8, {1, 8, 1, 4, 2}, 12},
        {NULL, NULL, "5x4+2x256:dp64", 0, {5, 4, 2, 256, 64}, 532},
    };

    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        pl_fleet_shape_t shape;

        ck_assert_int_eq(read_shape(CASES[i].prefill, CASES[i].decode,
                                    CASES[i].pd, CASES[i].cp, &shape),
                         PL_OK);
        ck_assert_mem_eq(&shape, &CASES[i].want, sizeof(shape));
        ck_assert_int_eq(pl_fleet_gpus(&shape), CASES[i].gpus);
    }
}
END_TEST

START_TEST(other_texts_are_refused)
{
    static const char *const BAD[][3] = {
        {"", NULL, NULL},        {"x8", NULL, NULL},
        {"2x", NULL, NULL},      {"2 x8", NULL, NULL},
        {"-2x8", NULL, NULL},    {"1001x8", NULL, NULL},
        {"2x128", NULL, NULL},   {"99999999999x1", NULL, NULL},
        {NULL, "2x4:dp3", NULL}, {NULL, "2x4:dp8", NULL},
        {NULL, "2x4:dp0", NULL}, {NULL, "2x4:", NULL},
        {NULL, "2x4dp2", NULL},  {NULL, "2x128", NULL},
        {NULL, NULL, "2x8"},     {NULL, NULL, "2x8+"},
        {NULL, NULL, "auto"},    {NULL, NULL, "2x8+1x8+1x8"},
        {"2x8", NULL, "2x8+1x8"}};
    pl_fleet_shape_t shape;

    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        ck_assert_int_eq(read_shape(BAD[i][0], BAD[i][1], BAD[i][2], 0, &shape),
                         PL_ERR_ARGUMENT);
    }
    ck_assert_int_eq(read_shape("2x8", NULL, NULL, 8, &shape), PL_ERR_ARGUMENT);
    ck_assert_int_eq(read_shape(NULL, NULL, "2x8+1x8", 8, &shape),
                     PL_ERR_ARGUMENT);
}
END_TEST

START_TEST(rates_are_bytes_a_microsecond)
{
    static const struct {
        const char *text;
        int64_t want;
    } CASES[] = {{"50GB/s", 50000},
                 {"0.5GB/s", 500},
                 {"12.345GB/s", 12345},
                 {"12.3456GB/s", 12345},
                 {"500MB/s", 500},
                 {"1.9MB/s", 1},
                 {"0.9MB/s", 0},
                 {"50", 0},
                 {"GB/s", 0},
                 {".5GB/s", 0},
                 {"5.GB/s", 0},
                 {"50GB", 0},
                 {"-5GB/s", 0},
                 {"50 GB/s", 0},
                 {"", 0},
                 {"1000000GB/s", 1000000000},
                 {"9999999GB/s", 0}};

    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        ck_assert_msg(pl_fleet_rate(CASES[i].text) == CASES[i].want, "%s",
                      CASES[i].text);
    }
}
END_TEST

/* The words of --router stand in the order of the enumeration. */
START_TEST(routers_are_those_of_the_fleet)
{
    const pl_option_table_t *table = pl_options_table();
    size_t i                       = 0;
    int n                          = 0;

    while (strcmp(table->options[i].name, "router") != 0) {
        i++;
    }
    for (; table->options[i].words[n] != NULL; n++) {
        ck_assert_str_eq(table->options[i].words[n],
                         pl_router_text((pl_router_t)n));
    }
    ck_assert_int_eq(n, PL_ROUTERS);
}
END_TEST

static void split(const char *gpus, const char *cps, const char *want)
{
    char *text                = NULL;
    pl_option_result_t result = pl_sweep_splits(gpus, cps, NULL, &text);

    ck_assert_msg(result.verdict == PL_OPTION_OKAY, "%s", result.message);
    ck_assert_str_eq(text, want);
    free(text);
}

START_TEST(gpus_are_parted_in_all_ways)
{
    pl_option_result_t result;
    char *text = NULL;
    char number[24];

    split("16", "0", "1x8+1x8:dp8");
    split("32,16", "8",
          "1x8+3x8:dp8,2x8+2x8:dp8,2x8+1x16:dp16,3x8+1x8:dp8,1x8+1x8:dp8");
    split("32", "16,8",
          "1x16+2x8:dp8,1x16+1x16:dp16,1x8+3x8:dp8,2x8+2x8:dp8,"
          "2x8+1x16:dp16,3x8+1x8:dp8");
    split("10", "1,2", "2x1+1x8:dp8,1x2+1x8:dp8");
    for (int64_t gpus = 1; gpus < 16; gpus++) {
        (void)snprintf(number, sizeof(number), "%" PRId64, gpus);
        result = pl_sweep_splits(number, "8", NULL, &text);
        ck_assert_int_eq(result.verdict, PL_OPTION_BAD);
    }
}
END_TEST

static void refused(const char *gpus, const char *cps, const char *message)
{
    char *text                = NULL;
    pl_option_result_t result = pl_sweep_splits(gpus, cps, NULL, &text);

    ck_assert_int_eq(result.verdict, PL_OPTION_BAD);
    ck_assert_msg(strstr(result.message, message) != NULL, "%s",
                  result.message);
}

/* The numbers that are named can be parted, and none between them. */
START_TEST(what_cannot_be_parted_is_told_what_can)
{
    refused("64", "8,x", "option --cp: cannot use '8,x'");
    refused("64,0", "8", "option --gpus: cannot use '64,0'");
    refused("64,16,64", "8", "option --gpus: 64 stands there twice");
    refused("64", "8,4,0", "option --cp: 8 stands there twice");
    refused("8", "8", "; 16 can; or give --cp");
    refused("20", "8", "; 16 and 24 can; or give --cp");
    refused("64,21", "6,4", "; 20 and 22 can; or give --cp");
    refused("1", "64", "; 72 can; or give --cp");
    refused("1000000", "8", "; give other numbers, or --cp");
}
END_TEST

/* Each is a shape of exactly those GPUs, and none comes twice. */
START_TEST(every_split_takes_all_gpus)
{
    static const int32_t CPS[] = {1, 3, 8, 16};

    for (int64_t gpus = 1; gpus <= 200; gpus += 7) {
        pl_fleet_splits_t splits = {0};

        ck_assert_int_eq(pl_fleet_split(gpus, CPS, 4, 4, &splits), PL_OK);
        for (size_t i = 0; i < splits.n; i++) {
            pl_fleet_shape_t shape;

            ck_assert_int_eq(read_shape(NULL, NULL, splits.items[i], 0, &shape),
                             PL_OK);
            ck_assert_int_eq(pl_fleet_gpus(&shape), gpus);
            ck_assert_int_eq(shape.decode_gpus % 4, 0);
            for (size_t k = 0; k < i; k++) {
                ck_assert_str_ne(splits.items[i], splits.items[k]);
            }
        }
        pl_fleet_splits_free(&splits);
    }
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("fleet options");

    tcase_add_test(tcase, shapes_are_read);
    tcase_add_test(tcase, other_texts_are_refused);
    tcase_add_test(tcase, rates_are_bytes_a_microsecond);
    tcase_add_test(tcase, routers_are_those_of_the_fleet);
    tcase_add_test(tcase, gpus_are_parted_in_all_ways);
    tcase_add_test(tcase, what_cannot_be_parted_is_told_what_can);
    tcase_add_test(tcase, every_split_takes_all_gpus);
    return tcase;
}

PL_CHECK_MAIN("fleet options", all())
