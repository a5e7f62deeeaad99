/* Transfers that share a home's link, and the time between tokens. */
#include "scene.h"

#include <stdlib.h>

#define MOST 8

typedef struct rig {
    pl_request_t requests[MOST];
    pl_engine_t *engine;
    int64_t sent_ns[MOST]; /* when its last send was started */
} rig_t;

static const pl_request_t *get(void *context, int32_t i)
{
    return &((rig_t *)context)->requests[i];
}

/* No two prompts begin alike. */
static void get_keys(void *context, int32_t i, int32_t page_tokens,
                     int32_t first, int32_t n, pl_page_key_t *keys)
{
    (void)context;
    (void)page_tokens;
    for (int32_t p = 0; p < n; p++) {
        keys[p].lo = (uint64_t)i + 1;
        keys[p].hi = (uint64_t)(first + p);
    }
}

/* A request a chunk, C = 2, D = 1. */
static drive_params_t link_scene(bool shares)
{
    drive_params_t params = scene(NULL, 0);

    params.config.n_prefill       = 2;
    params.config.chunk_tokens    = 256;
    params.config.device_pages    = 500;
    params.config.host_pages      = 0;
    params.config.costs.pd_shares = shares;
    params.config.page_bytes      = 450000000; /* 10 ms on the link */
    return params;
}

/* Every operation is good. */
static void run_scene(rig_t *rig, drive_params_t params, const int32_t *pages,
                      int32_t n, int32_t outputs)
{
    pl_engine_source_t source = {rig, n, get, get_keys};
    pl_event_sink_t nowhere   = {0};
    uint64_t none[64]         = {0};
    pl_plan_t *plan           = NULL;

    for (int32_t i = 0; i < n; i++) {
        rig->requests[i] = (pl_request_t){.input_tokens  = 4 * pages[i],
                                          .output_tokens = outputs};
    }
    ck_assert_int_eq(pl_engine_open(&params.config, &source, NULL, nowhere,
                                    NULL, &rig->engine),
                     PL_OK);
    while (!pl_engine_done(rig->engine)) {
        ck_assert_int_eq(pl_engine_plan(rig->engine, &plan), PL_OK);
        for (int32_t i = 0; i < plan->n_ops; i++) {
            if (plan->ops[i].kind == PL_OP_SEND) {
                rig->sent_ns[plan->ops[i].request] = plan->now_ns;
            }
        }
        ck_assert_int_le(pl_plan_words(plan), 64);
        ck_assert_int_eq(pl_engine_commit(rig->engine, none), PL_OK);
    }
}

static void run(rig_t *rig, const int32_t *pages, int32_t n, int32_t outputs,
                bool shares)
{
    run_scene(rig, link_scene(shares), pages, n, outputs);
}

static int64_t arrived(const rig_t *rig, int32_t i)
{
    return pl_engine_record(rig->engine, i)->decode_ns;
}

enum { LATENCY = 100000, MS = 1000000, PAGE = 10 * MS };

/* A long transfer and a short one that starts while it is under way: from then
 * on each has half of the link, until the short one ends. */
START_TEST(transfers_to_one_home_share_its_link)
{
    static const int32_t pages[] = {40, 4};
    rig_t rig;
    int64_t a, b;

    run(&rig, pages, 2, 1, true);
    a = rig.sent_ns[0];
    b = rig.sent_ns[1];
    ck_assert_int_gt(b, a);
    ck_assert_int_lt(b, a + 40 * PAGE - 4 * PAGE);
    ck_assert_int_eq(arrived(&rig, 1), b + 2 * 4 * PAGE + LATENCY);
    ck_assert_int_eq(arrived(&rig, 0), a + 44 * PAGE + LATENCY);
    /* all ranks' bytes count */
    ck_assert_int_eq(pl_engine_counters(rig.engine)->link_bytes[PL_LINK_PD],
                     INT64_C(450000000) * 44);
    pl_engine_close(rig.engine);

    /* Behind each other, by the bytes of the busiest of two ranks. */
    run(&rig, pages, 2, 1, false);
    ck_assert_int_eq(arrived(&rig, 0), rig.sent_ns[0] + 20 * PAGE + LATENCY);
    ck_assert_int_eq(arrived(&rig, 1),
                     rig.sent_ns[0] + 22 * PAGE + 2 * LATENCY);
    pl_engine_close(rig.engine);
}
END_TEST

/* Every rank moves its layers of all pages, the busiest 300 of 450 MB; where a
 * home's link is shared, the layers of all ranks come over it. */
/* A home that takes a transfer in itself: the tick in which it comes takes so
 * much longer, and decode begins so much later. */
START_TEST(taking_in_takes_a_tick_longer)
{
    static const int32_t pages[] = {40};
    drive_params_t params        = link_scene(true);
    rig_t rig;
    int64_t before, sent;

    run_scene(&rig, params, pages, 1, 3);
    before = arrived(&rig, 0);
    sent   = rig.sent_ns[0];
    pl_engine_close(rig.engine);
    params.config.costs.take_in_ns = 1000;
    params.config.costs.take_in_ps = 2000000;
    run_scene(&rig, params, pages, 1, 3);
    ck_assert_int_eq(rig.sent_ns[0], sent);
    ck_assert_int_eq(arrived(&rig, 0), before + 1000 + 160 * INT64_C(2000));
    pl_engine_close(rig.engine);
}
END_TEST

START_TEST(ranks_move_their_layers)
{
    static const int32_t pages[] = {40, 4};

    for (int shares = 0; shares < 2; shares++) {
        drive_params_t params = link_scene(shares != 0);
        rig_t rig;
        const int64_t *bytes;

        params.config.ownership.kind  = PL_OWNERSHIP_LAYER;
        params.config.rank_page_bytes = 300000000;
        params.config.host_pages      = 500;
        params.config.write_policy    = PL_WRITE_THROUGH;
        run_scene(&rig, params, pages, 2, 1);
        bytes = pl_engine_counters(rig.engine)->link_bytes;
        ck_assert_int_eq(bytes[PL_LINK_PD],
                         44 * INT64_C(150000000) * (shares != 0 ? 3 : 2));
        ck_assert_int_eq(bytes[PL_LINK_D2H], 44 * INT64_C(300000000));
        pl_engine_close(rig.engine);
    }
}
END_TEST

/* However many: the link is never idle while one is under way, and who needs
 * less of what starts no later ends no later. */
START_TEST(a_shared_link_loses_no_time)
{
    static const int32_t pages[] = {30, 3, 17, 9, 50, 1};
    rig_t rig;
    int64_t last = 0;
    int64_t need = 0;

    run(&rig, pages, 6, 1, true);
    for (int32_t i = 0; i < 6; i++) {
        last = arrived(&rig, i) > last ? arrived(&rig, i) : last;
        need += pages[i] * (int64_t)PAGE;
        ck_assert_int_lt(i == 0 ? 0 : rig.sent_ns[i],
                         rig.sent_ns[0] + need - pages[i] * (int64_t)PAGE + 1);
    }
    /* rounding takes less than a nanosecond a transfer at each start */
    ck_assert_int_ge(last, rig.sent_ns[0] + need + LATENCY);
    ck_assert_int_le(last, rig.sent_ns[0] + need + LATENCY + 36);
    ck_assert_int_lt(arrived(&rig, 1), arrived(&rig, 0));
    ck_assert_int_lt(arrived(&rig, 5), arrived(&rig, 4));
    pl_engine_close(rig.engine);
}
END_TEST

/* Gaps of one request add up to the time from its first token to its last, and
 * there is one less of them than tokens. */
START_TEST(gaps_add_up)
{
    static const int32_t pages[] = {8, 4, 12};
    rig_t rig;
    size_t n                   = 0;
    int64_t count              = 0;
    int64_t sum                = 0;
    int64_t all                = 0;
    const pl_token_gap_t *gaps = NULL;

    run(&rig, pages, 3, 21, true);
    gaps = pl_engine_token_gaps(rig.engine, &n);
    for (size_t i = 0; i < n; i++) {
        count += gaps[i].n;
        sum += gaps[i].ns * gaps[i].n;
    }
    for (int32_t i = 0; i < 3; i++) {
        const pl_record_t *record = pl_engine_record(rig.engine, i);

        all += record->finished_ns - record->first_token_ns;
    }
    ck_assert_int_eq(count, 3 * 20);
    ck_assert_int_eq(sum, all);
    pl_engine_close(rig.engine);
}
END_TEST

TCase *links_case(void)
{
    TCase *tcase = tcase_create("links");

    tcase_add_test(tcase, transfers_to_one_home_share_its_link);
    tcase_add_test(tcase, taking_in_takes_a_tick_longer);
    tcase_add_test(tcase, ranks_move_their_layers);
    tcase_add_test(tcase, a_shared_link_loses_no_time);
    tcase_add_test(tcase, gaps_add_up);
    return tcase;
}
