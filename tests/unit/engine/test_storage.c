/* The storage tier: what is stored, who waits for what, and what becomes of
 * pages that cannot be written or read. */
#include "scene.h"
#include "support/log_capture.h"

#include <string.h>

#define N(array) ((int32_t)(sizeof(array) / sizeof((array)[0])))

enum { MOST = 16 };

/* What is seen of a run, and what fails in it. */
typedef struct sight {
    pl_record_t records[MOST];
    int64_t admitted_ns[MOST], began_ns[MOST], tokens[MOST];
    int n_ops[PL_OP_KINDS];
    int n_published, n_published_good;
    int32_t stored_end; /* highest position stored, and one */
    int32_t fetched_pages;
    int32_t page_tokens;

    pl_op_kind_t fails_at; /* operations of this kind fail ... */
    bool at_end;
    int n_failures;       /* ... that many times */
    pl_storage_end_t bad; /* pages of the first fetch */
} sight_t;

static void look(void *context, const pl_engine_t *engine,
                 const pl_plan_t *plan)
{
    sight_t *sight = context;

    for (int32_t i = 0; i < plan->n_ops; i++) {
        const pl_op_t *op = &plan->ops[i];

        sight->n_ops[op->kind]++;
        if ((op->kind == PL_OP_STORE) &&
            (op->first_page + op->n_pages > sight->stored_end)) {
            sight->stored_end = op->first_page + op->n_pages;
        }
        if (op->kind == PL_OP_FETCH) {
            if (sight->tokens[op->request] == 0) {
                sight->began_ns[op->request] = plan->now_ns;
            }
            sight->tokens[op->request] +=
                (int64_t)op->n_pages * sight->page_tokens;
            sight->fetched_pages += op->n_pages;
        }
    }
    for (int32_t i = 0; i < pl_engine_n_requests(engine); i++) {
        sight->records[i] = *pl_engine_record(engine, i);
    }
}

static void note(void *context, const pl_event_t *event)
{
    sight_t *sight = context;

    if (event->kind == PL_EVENT_ADMIT) {
        sight->admitted_ns[event->request] = event->time_ns;
    } else if (event->kind == PL_EVENT_PUBLISHED) {
        sight->n_published++;
        sight->n_published_good += event->value != 0;
    }
}

static bool fails(void *context, const pl_op_t *op, bool at_end)
{
    sight_t *sight = context;

    if ((sight->n_failures == 0) || (op->kind != sight->fails_at) ||
        (at_end != sight->at_end)) {
        return false;
    }
    sight->n_failures--;
    return true;
}

static pl_storage_end_t bad_pages(void *context, const pl_op_t *op)
{
    sight_t *sight       = context;
    pl_storage_end_t bad = sight->bad;

    (void)op;
    sight->bad = (pl_storage_end_t){0};
    return bad;
}

/* A run on the folder, after which the host tier is empty. */
static drive_result_t run(drive_params_t params, drive_disk_t *disk,
                          sight_t *sight)
{
    drive_result_t result;

    sight->page_tokens = params.config.page_tokens;
    params.disk        = disk;
    params.context     = sight;
    params.plan        = look;
    params.event       = note;
    params.fails       = fails;
    params.bad_pages   = bad_pages;
    drive(&params, 1, &result);
    return result;
}

static drive_params_t stored_scene(const drive_request_t *script, int32_t n)
{
    drive_params_t params = scene(script, n);

    params.config.storage_pages = 64;
    params.config.prefetch      = PL_PREFETCH_WAIT_COMPLETE;
    return params;
}

/* 33 tokens, 8 of their 9 pages shared, asked again and again. */
static const drive_request_t asked[] = {{0, 33, 1, 0, 8},
                                        {0 * SECOND, 33, 1, 0, 8}};

/* ---- hits ---- */

/* 9.37 What one run stores, another finds under the same prefix; its prompt
 * waits for it and has it as a hit. */
START_TEST(a_second_run_finds_what_the_first_stored)
{
    drive_disk_t *disk    = drive_disk_open();
    drive_params_t params = stored_scene(asked, 1);
    sight_t first = {0}, second = {0};
    drive_result_t result = run(params, disk, &first);

    ck_assert_int_eq(result.storage.store_pages, 8);
    ck_assert_int_eq(first.stored_end, 8);
    ck_assert_int_eq(first.n_published_good, 1);
    result = run(params, disk, &second);
    ck_assert_int_eq(second.records[0].storage_hit_tokens, 32);
    ck_assert_int_eq(second.records[0].host_hit_tokens, 0);
    ck_assert_int_eq(second.records[0].miss_pages[PL_MISS_LAST], 1);
    ck_assert_int_eq(result.storage.fetched_pages, 8);
    /* All of it is there already. */
    ck_assert_int_eq(result.storage.stores, 0);
    drive_disk_close(disk);
}
END_TEST

/* Other ranks, one lane, another rule: laid anew by position, and moved to the
 * set of the run behind the fetch. */
START_TEST(other_ranks_lay_pages_anew)
{
    static const int counts[] = {8, 3, 1, 2};
    drive_disk_t *disk        = drive_disk_open();
    drive_params_t params     = stored_scene(asked, 1);
    sight_t first             = {0};

    (void)run(params, disk, &first);
    for (int i = 0; i < N(counts); i++) {
        sight_t sight = {0};
        drive_result_t result;

        params.config.n_prefill = counts[i];
        params.config.ownership.kind =
            i == 3 ? PL_OWNERSHIP_REPLICATED : PL_OWNERSHIP_ZIGZAG;
        result = run(params, disk, &sight);
        ck_assert_int_eq(sight.records[0].storage_hit_tokens, 32);
        ck_assert_int_eq(result.storage.store_pages, 8);
    }
    drive_disk_close(disk);
}
END_TEST

/* Who does not wait goes with what is there: a miss, and its cause is that the
 * page was on storage. */
START_TEST(best_effort_does_not_wait)
{
    drive_disk_t *disk    = drive_disk_open();
    drive_params_t params = stored_scene(asked, 1);
    sight_t first = {0}, second = {0};

    (void)run(params, disk, &first);
    params.config.prefetch = PL_PREFETCH_BEST_EFFORT;
    (void)run(params, disk, &second);
    ck_assert_int_eq(second.records[0].storage_hit_tokens, 0);
    ck_assert_int_eq(second.records[0].miss_pages[PL_MISS_STORAGE], 8);
    ck_assert_int_eq(second.n_ops[PL_OP_FETCH], 0);
    ck_assert_int_eq(second.records[0].admitted_ns, 0);
    drive_disk_close(disk);
}
END_TEST

/* A second and a quarter of one for each 1,024 tokens; the clock wakes for it.
 */
START_TEST(a_prompt_waits_no_longer_than_its_timeout)
{
    static const drive_request_t script[] = {{SECOND, 1025, 1, 0, 256}};
    drive_disk_t *disk                    = drive_disk_open();
    drive_params_t params                 = stored_scene(script, 1);
    sight_t first = {0}, second = {0};

    params.config.device_pages  = 300;
    params.config.host_pages    = 300;
    params.config.decode_pages  = 300;
    params.config.storage_pages = 300;
    (void)run(params, disk, &first);
    params.config.prefetch = PL_PREFETCH_TIMEOUT;
    params.config.costs.link_latency_ns[PL_LINK_FETCH] =
        _i == 0 ? 10 * SECOND : SECOND / 10;
    (void)run(params, disk, &second);
    ck_assert_int_eq(second.tokens[0], 1024);
    if (_i == 0) {
        ck_assert_int_eq(second.admitted_ns[0] - second.began_ns[0],
                         SECOND + SECOND / 4);
        ck_assert_int_eq(second.records[0].storage_hit_tokens, 0);
    } else { /* four reads, one behind the other */
        ck_assert_int_lt(second.admitted_ns[0] - second.began_ns[0], SECOND);
        ck_assert_int_eq(second.records[0].storage_hit_tokens, 1024);
    }
    drive_disk_close(disk);
}
END_TEST

/* 9.36 Fewer tokens than the threshold are not worth a fetch; it is rounded up
 * to pages. */
START_TEST(short_runs_are_not_fetched)
{
    static const int32_t thresholds[] = {32, 33, 29, 0};
    drive_disk_t *disk                = drive_disk_open();
    drive_params_t params             = stored_scene(asked, 1);
    sight_t first = {0}, second = {0};

    (void)run(params, disk, &first);
    params.config.prefetch_threshold_tokens = thresholds[_i];
    (void)run(params, disk, &second);
    ck_assert_int_eq(second.records[0].storage_hit_tokens, _i == 1 ? 0 : 32);
    ck_assert_int_eq(second.records[0].miss_pages[PL_MISS_THRESHOLD],
                     _i == 1 ? 8 : 0);
    ck_assert_int_eq(second.records[0].miss_pages[PL_MISS_STORAGE], 0);
    drive_disk_close(disk);
}
END_TEST

/* Half a host lane is for those that wait: no more is fetched, and the rest is
 * a miss. */
START_TEST(fetches_take_half_of_a_lane)
{
    drive_disk_t *disk    = drive_disk_open();
    drive_params_t params = stored_scene(asked, 1);
    sight_t first = {0}, second = {0};

    (void)run(params, disk, &first);
    params.config.host_pages = 2; /* in each of four lanes; zigzag of 8 */
    (void)run(params, disk, &second);
    ck_assert_int_eq(second.fetched_pages, 4);
    ck_assert_int_eq(second.records[0].storage_hit_tokens, 16);
    ck_assert_int_eq(second.records[0].miss_pages[PL_MISS_STORAGE], 4);
    drive_disk_close(disk);
}
END_TEST

/* ---- what goes wrong ---- */

/* 9.37, 9.38 The hit is the run of pages that are sound on all ranks; the page
 * after it is not asked for again, and is stored anew once it is computed. */
START_TEST(a_hit_ends_before_a_bad_page)
{
    drive_disk_t *disk    = drive_disk_open();
    drive_params_t params = stored_scene(asked, 1);
    sight_t first = {0}, second = {.bad = {.bad = 0x28}}, third = {0};
    drive_result_t result;

    (void)run(params, disk, &first);
    result = run(params, disk, &second);
    ck_assert_int_eq(second.records[0].storage_hit_tokens, 12);
    ck_assert_int_eq(second.records[0].miss_pages[PL_MISS_FAILED], 5);
    ck_assert_int_eq(second.records[0].miss_pages[PL_MISS_STORAGE], 0);
    ck_assert_int_eq(second.n_ops[PL_OP_FETCH], 1);
    ck_assert_int_eq(result.storage.fetched_pages, 3);
    ck_assert_int_eq(result.storage.bad_pages, 5);
    ck_assert_int_eq(result.storage.store_pages, 5);
    (void)run(params, disk, &third);
    ck_assert_int_eq(third.records[0].storage_hit_tokens, 32);
    drive_disk_close(disk);
}
END_TEST

/* A page that could not be read ends the hit as well, but it stays: it is not
 * stored anew, and whoever comes next has it.  One behind it that is bad goes.
 */
START_TEST(a_page_that_was_not_read_is_asked_for_again)
{
    static const pl_storage_end_t ends[] = {{.unread = 0x28},
                                            {.bad = 0x40, .unread = 0x28}};
    int lost                             = _i == 0 ? 0 : 2; /* pages 6 and 7 */
    drive_disk_t *disk                   = drive_disk_open();
    drive_params_t params                = stored_scene(asked, 1);
    sight_t first = {0}, second = {.bad = ends[_i]}, third = {0};
    drive_result_t result;

    (void)run(params, disk, &first);
    result = run(params, disk, &second);
    ck_assert_int_eq(second.records[0].storage_hit_tokens, 12);
    ck_assert_int_eq(second.records[0].miss_pages[PL_MISS_FAILED], 5);
    ck_assert_int_eq(result.storage.fetched_pages, 3);
    ck_assert_int_eq(result.storage.unread_pages, 5 - lost);
    ck_assert_int_eq(result.storage.bad_pages, lost);
    ck_assert_int_eq(result.storage.store_pages, lost);
    result = run(params, disk, &third);
    ck_assert_int_eq(third.records[0].storage_hit_tokens, 32);
    ck_assert_int_eq(result.storage.store_pages, 0);
    drive_disk_close(disk);
}
END_TEST

/* A fetch that a rank cannot reserve is none; nothing is known of its pages. */
START_TEST(a_fetch_that_is_refused_is_a_miss)
{
    drive_disk_t *disk    = drive_disk_open();
    drive_params_t params = stored_scene(asked, 1);
    sight_t first         = {0};
    sight_t second        = {.fails_at = PL_OP_FETCH, .n_failures = 1};
    drive_result_t result;

    (void)run(params, disk, &first);
    result = run(params, disk, &second);
    ck_assert_int_eq(second.records[0].storage_hit_tokens, 0);
    ck_assert_int_eq(second.records[0].miss_pages[PL_MISS_STORAGE], 8);
    ck_assert_int_eq(result.storage.bad_pages, 0);
    ck_assert_int_eq(result.storage.stores, 0); /* they are still kept */
    drive_disk_close(disk);
}
END_TEST

/* 9.38 Three stores in a row that failed on some rank, before they began or at
 * their end, and none is begun any more; the run goes on. */
START_TEST(three_failed_stores_are_enough)
{
    drive_request_t script[8] = {{0}};
    drive_params_t params     = stored_scene(script, N(script));
    sight_t sight             = {.fails_at   = PL_OP_STORE,
                                 .at_end     = _i % 2 == 1,
                                 .n_failures = _i < 2 ? 100 : 2};
    drive_result_t result;

    for (int32_t i = 0; i < N(script); i++) {
        script[i] = (drive_request_t){i * SECOND, 17, 1, i, 0};
    }
    result = run(params, NULL, &sight);
    ck_assert_int_eq(result.n_failed, 0);
    ck_assert_int_eq(sight.n_ops[PL_OP_STORE], _i < 2 ? 3 : N(script));
    ck_assert_int_eq(result.storage.stores_failed, _i < 2 ? 3 : 2);
}
END_TEST

/* The last publication is tried twice; then the run ends well without. */
START_TEST(a_failed_publication_does_not_hold_up_the_end)
{
    drive_params_t params = stored_scene(asked, 1);
    sight_t sight         = {.fails_at   = PL_OP_PUBLISH,
                             .at_end     = _i % 2 == 1,
                             .n_failures = _i < 2 ? 100 : 1};
    drive_result_t result = run(params, NULL, &sight);

    ck_assert_int_eq(result.n_failed, 0);
    ck_assert_int_eq(sight.n_ops[PL_OP_PUBLISH], 2);
    ck_assert_int_eq(sight.n_published_good, _i < 2 ? 0 : 1);
}
END_TEST

/* ---- what is not stored, and what is not run ---- */

/* Pages with generated tokens are of use to this run alone. */
START_TEST(generated_pages_are_not_stored)
{
    static const drive_request_t script[] = {{0, 32, 40, 0, 8},
                                             {0, 32, 40, 1, 8}};
    drive_params_t params                 = stored_scene(script, N(script));
    sight_t sight                         = {0};
    drive_result_t result;

    params.config.decode_pages      = 20;
    params.config.decode_host_pages = 0;
    result                          = run(params, NULL, &sight);
    ck_assert_int_gt(result.counters.reentries, 0);
    ck_assert_int_eq(sight.stored_end, 8);
}
END_TEST

/* A tier that is only read is neither written nor published. */
START_TEST(a_tier_can_be_only_read)
{
    static const drive_request_t more[] = {{0, 33, 1, 0, 8}, {0, 33, 1, 1, 8}};
    drive_disk_t *disk                  = drive_disk_open();
    drive_params_t params               = stored_scene(asked, 1);
    sight_t first = {0}, second = {0};

    (void)run(params, disk, &first);
    params.script                   = more;
    params.n_requests               = 2;
    params.config.storage_read_only = true;
    (void)run(params, disk, &second);
    ck_assert_int_eq(second.records[0].storage_hit_tokens, 32);
    ck_assert_int_eq(second.n_ops[PL_OP_STORE], 0);
    ck_assert_int_eq(second.n_ops[PL_OP_PUBLISH], 0);
    drive_disk_close(disk);
}
END_TEST

/* Who was finished when the index was put out is not run again. */
START_TEST(a_finished_request_is_skipped)
{
    drive_disk_t *disk    = drive_disk_open();
    drive_params_t params = stored_scene(asked, 2);
    sight_t first = {0}, second = {0};
    drive_result_t result;

    (void)run(params, disk, &first);
    params.resume = true;
    result        = run(params, disk, &second);
    ck_assert_int_eq(result.n_skipped, 2);
    ck_assert_int_eq(result.counters.ticks, 0);
    drive_disk_close(disk);
}
END_TEST

TCase *storage_case(void)
{
    TCase *tcase = tcase_create("storage");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_second_run_finds_what_the_first_stored);
    tcase_add_test(tcase, other_ranks_lay_pages_anew);
    tcase_add_test(tcase, best_effort_does_not_wait);
    tcase_add_loop_test(tcase, a_prompt_waits_no_longer_than_its_timeout, 0, 2);
    tcase_add_loop_test(tcase, short_runs_are_not_fetched, 0, 4);
    tcase_add_test(tcase, fetches_take_half_of_a_lane);
    tcase_add_test(tcase, a_hit_ends_before_a_bad_page);
    tcase_add_loop_test(tcase, a_page_that_was_not_read_is_asked_for_again, 0,
                        2);
    tcase_add_test(tcase, a_fetch_that_is_refused_is_a_miss);
    tcase_add_loop_test(tcase, three_failed_stores_are_enough, 0, 4);
    tcase_add_loop_test(tcase, a_failed_publication_does_not_hold_up_the_end, 0,
                        4);
    tcase_add_test(tcase, generated_pages_are_not_stored);
    tcase_add_test(tcase, a_tier_can_be_only_read);
    tcase_add_test(tcase, a_finished_request_is_skipped);
    return tcase;
}
