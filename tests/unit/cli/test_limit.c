/* cli/limit.h: what --fail-if means, and what it does not take. */
#include "cli/limit.h"

#include <stdio.h>

#include "support/check_main.h"

static pl_limit_t parsed(const char *text)
{
    pl_limit_t limit = {0};

    ck_assert_msg(pl_limit_parse(text, NULL, &limit) == PL_OK, "%s", text);
    return limit;
}

static bool breaks(const char *text, double a, double b)
{
    pl_limit_t limit = parsed(text);

    return pl_limit_is_broken(&limit, a, b);
}

START_TEST(parts_are_understood)
{
    pl_limit_t limit = parsed("ttft.p99>+5%");

    ck_assert_int_eq(limit.metric, PL_METRIC_IS_TTFT);
    ck_assert_int_eq(limit.stat, PL_STAT_P99);
    ck_assert(limit.above && limit.is_percent);
    ck_assert(limit.change == 5.0);
    limit = parsed("storage_hit.mean<-64tokens");
    ck_assert_int_eq(limit.metric, PL_METRIC_IS_STORAGE_HIT);
    ck_assert_int_eq(limit.stat, PL_STAT_MEAN);
    ck_assert(!limit.above && !limit.is_percent);
    ck_assert(limit.change == -64.0);
    ck_assert(parsed("e2e.p50>+0.5s").change == 5e8);
    ck_assert(parsed("tpot.p90>-2.25ms").change == -2.25e6);
    ck_assert(parsed("queueing.p90>+3us").change == 3e3);
    ck_assert(parsed("queueing.p90>+3ns").change == 3.0);
}
END_TEST

/* Every metric with every stat, and no other letter in between. */
START_TEST(all_names_are_taken)
{
    for (int m = 0; m < PL_METRICS; m++) {
        for (int stat = 0; stat < PL_STATS; stat++) {
            char text[64];
            pl_limit_t limit;

            (void)snprintf(text, sizeof(text), "%s.%s>+1%%",
                           pl_metric_name((pl_metric_t)m), pl_stat_name(stat));
            limit = parsed(text);
            ck_assert_int_eq(limit.metric, m);
            ck_assert_int_eq(limit.stat, stat);
            text[2] = 'X';
            ck_assert_int_eq(pl_limit_parse(text, NULL, &limit),
                             PL_ERR_ARGUMENT);
        }
    }
}
END_TEST

START_TEST(a_change_is_from_a_to_b)
{
    ck_assert(breaks("ttft.p99>+5%", 100, 105.1));
    ck_assert(!breaks("ttft.p99>+5%", 100, 105));
    ck_assert(!breaks("ttft.p99>+5%", 105.1, 100));
    ck_assert(breaks("ttft.p99<-5%", 100, 94.9));
    ck_assert(!breaks("ttft.p99<-5%", 100, 95));
    ck_assert(breaks("ttft.p99>-5%", 100, 100));
    ck_assert(breaks("ttft.p99>+1ms", 5e6, 6.1e6));
    ck_assert(!breaks("ttft.p99>+1ms", 5e6, 6e6));
    ck_assert(breaks("computed.mean>+0tokens", 7, 7.5));
}
END_TEST

/* From nothing to something is more than any percentage. */
START_TEST(nothing_has_no_percentage)
{
    ck_assert(!breaks("host_hit.mean>+0%", 0, 0));
    ck_assert(!breaks("host_hit.mean<+0%", 0, 0));
    ck_assert(breaks("host_hit.mean>+1000000%", 0, 1));
    ck_assert(!breaks("host_hit.mean<-1%", 0, 1));
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("limit");

    tcase_add_test(tcase, parts_are_understood);
    tcase_add_test(tcase, all_names_are_taken);
    tcase_add_test(tcase, a_change_is_from_a_to_b);
    tcase_add_test(tcase, nothing_has_no_percentage);
    return tcase;
}

PL_CHECK_MAIN("limit", all())
