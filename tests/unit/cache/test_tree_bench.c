/* The measurement of a long match: its shape is as promised, whatever the
 * machine; the figures are printed, and no speed is asked for here (`pagelane
 * bench tree` is for that). */
#include "cache/tree_bench.h"

#include <stdio.h>

#include "cache/evict_bench.h"

#include "support/check_main.h"
#include "support/log_capture.h"

START_TEST(shape_is_as_promised)
{
    log_capture_t said;
    pl_tree_bench_result_t result;

    log_capture_open(&said);
    ck_assert_msg(pl_tree_bench(&said.log, 1, &result) == PL_OK, "%s",
                  said.text);
    ck_assert_int_eq(result.n_pages, 100000 / result.page_tokens);
    ck_assert_int_eq(result.n_bytes,
                     (int64_t)result.n_pages * result.page_tokens * 4);
    ck_assert_int_ge(result.n_path, 200);
    ck_assert_int_ge(result.n_nodes, result.n_path + 50000);
    ck_assert(result.memcmp_ns > 0);
    ck_assert(result.match_ns > 0);
    ck_assert(result.keys_match_ns > result.match_ns);
    printf("%d pages in %d of %lld nodes: match %.1f us, with keys %.1f us, "
           "memcmp %.1f us\n",
           (int)result.n_pages, (int)result.n_path, (long long)result.n_nodes,
           result.match_ns / 1e3, result.keys_match_ns / 1e3,
           result.memcmp_ns / 1e3);
    log_capture_close(&said);
}
END_TEST

START_TEST(each_policy_evicts_in_the_bench)
{
    log_capture_t said;

    log_capture_open(&said);
    for (int i = 0; pl_policy_at(i) != NULL; i++) {
        pl_evict_bench_result_t r;

        ck_assert_msg(pl_evict_bench(&said.log, 1, pl_policy_at(i), &r) ==
                          PL_OK,
                      "%s", said.text);
        ck_assert_int_gt(r.n_evictions, 5000);
        ck_assert_int_gt(r.n_nodes, 1000);
        printf("%-10s %lld evictions, %.0f ns each, %lld nodes\n",
               pl_policy_at(i)->name, (long long)r.n_evictions, r.evict_ns,
               (long long)r.n_nodes);
    }
    log_capture_close(&said);
}
END_TEST

static TCase *bench_case(void)
{
    TCase *tcase = tcase_create("tree bench");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, shape_is_as_promised);
    tcase_add_test(tcase, each_policy_evicts_in_the_bench);
    return tcase;
}

PL_CHECK_MAIN("tree bench", bench_case())
