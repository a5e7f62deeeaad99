/* sim/fleet.h: when things happen, and to whom. */
#include "fleet_rig.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "support/check_main.h"
#include "support/seed.h"

/* ---- beside an engine of its own ---- */

static const uint64_t NO_FAILURES[256];

static pl_engine_t *run_engine(rig_t *rig, const pl_engine_config_t *config)
{
    pl_engine_source_t source = rig_source(rig);
    pl_event_sink_t nowhere   = {0};
    pl_engine_t *engine       = NULL;
    pl_plan_t *plan           = NULL;

    ck_assert_int_eq(
        pl_engine_open(config, &source, NULL, nowhere, NULL, &engine), PL_OK);
    while (!pl_engine_done(engine)) {
        ck_assert_int_eq(pl_engine_plan(engine, &plan), PL_OK);
        ck_assert_int_le(pl_plan_words(plan), 256);
        ck_assert_int_eq(pl_engine_commit(engine, NO_FAILURES), PL_OK);
    }
    return engine;
}

/* Families whose prompts begin alike, on few pages: hits on device and host,
 * evictions, write-backs. */
static void add_random(rig_t *rig, uint64_t seed, int32_t n, int32_t longest,
                       int32_t most_outputs)
{
    pl_rng_t rng  = pl_rng_seed(seed);
    int64_t at_ns = 0;

    for (int32_t i = 0; i < n; i++) {
        int32_t pages  = 1 + (int32_t)pl_rng_below(&rng, (uint64_t)longest);
        int32_t shared = (int32_t)pl_rng_below(&rng, (uint64_t)pages + 1);

        at_ns += (int64_t)pl_rng_below(&rng, 20) * MS;
        rig_add_of(rig, at_ns, pages,
                   1 + (int32_t)pl_rng_below(&rng, (uint64_t)most_outputs),
                   (int32_t)pl_rng_below(&rng, 5), shared);
        rig->requests[rig->n - 1].input_tokens -=
            (int32_t)pl_rng_below(&rng, RIG_PAGE_TOKENS);
    }
}

static void make_tight(rig_t *rig)
{
    rig->params.prefill.chunk_tokens = 4 * RIG_PAGE_TOKENS;
    rig->params.prefill.device_pages = 25;
    rig->params.prefill.host_pages   = 40;
}

/* Where nothing is bound by decode (one token each), one instance of prefill
 * and one of decode with a home are the engine that has both: the same
 * decisions at the same times, but for the nanoseconds by which the two round
 * shares of links; and decode is not later, since an engine that is in a chunk
 * looks at what was sent when that has ended.  (So the seeds are fixed: of a
 * million one or the other would meet a tick that begins in these nanoseconds.)
 */
static void compare_with_both(uint64_t seed)
{
    rig_t *rig   = rig_make(1, 1);
    int64_t hits = 0;
    pl_engine_config_t both;
    pl_engine_t *engine;

    make_tight(rig);
    add_random(rig, seed, 200, 40, 1);
    rig->params.send_bytes_per_us = 45000000; /* the home's side is the narrow
                                                 one, as an engine has it */
    both          = rig->params.prefill;
    both.n_decode = 1;
    engine        = run_engine(rig, &both);
    rig_run(rig);
    for (int32_t i = 0; i < rig->n; i++) {
        const pl_record_t *record = rig_record(rig, i);
        pl_record_t other         = *pl_engine_record(engine, i);

        ck_assert_int_le(record->decode_ns, other.decode_ns + 10000);
        ck_assert_int_le(record->finished_ns, other.finished_ns + 10000);
        other.decode_ns   = record->decode_ns;
        other.finished_ns = record->finished_ns;
        rig_expect_same(record, &other, 10000);
        hits += record->device_hit_tokens + record->host_hit_tokens;
    }
    ck_assert_int_gt(hits, 0);
    ck_assert_int_gt(pl_engine_counters(engine)->link_bytes[PL_LINK_D2H], 0);
    pl_engine_close(engine);
    rig_free(rig);
}

START_TEST(one_and_one_are_the_engine_that_has_both)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        compare_with_both(seed);
    }
}
END_TEST

/* Without decode instances each is the engine that gets its requests alone. */
START_TEST(whole_instances_are_engines_of_their_own)
{
    enum { N = 3 };
    uint8_t skip[RIG_MOST];
    rig_t *rig    = rig_make(N, 0);
    uint64_t seed = pl_test_seed("whole_instances_are_engines_of_their_own");

    make_tight(rig);
    rig->params.prefill.decode_pages      = 60;
    rig->params.prefill.decode_host_pages = 30;
    add_random(rig, seed, 200, 40, 30);
    rig_run(rig);
    for (int32_t instance = 0; instance < N; instance++) {
        pl_engine_config_t alone = rig->params.prefill;
        pl_engine_t *engine;

        for (int32_t i = 0; i < rig->n; i++) {
            skip[i] = rig_prefill(rig, i) != instance;
            ck_assert_int_eq(rig_prefill(rig, i), i % N);
        }
        alone.skip = skip;
        engine     = run_engine(rig, &alone);
        for (int32_t i = instance; i < rig->n; i += N) {
            rig_expect_same(rig_record(rig, i), pl_engine_record(engine, i), 0);
            ck_assert_int_eq(rig_record(rig, i)->home,
                             pl_engine_record(engine, i)->home);
        }
        pl_engine_close(engine);
    }
    rig_free(rig);
}
END_TEST

/* Most wait for another, some for its very end: an instance takes those in when
 * it ends that, as an engine does. */
static void compare_turns(uint64_t seed)
{
    int32_t after[RIG_MOST];
    pl_rng_t rng = pl_rng_seed(seed);
    rig_t *rig   = rig_make(1, 0);
    pl_engine_t *engine;

    make_tight(rig);
    add_random(rig, seed, 120, 20, 20);
    for (int32_t i = 1; i < rig->n; i++) {
        if (pl_rng_below(&rng, 3) > 0) {
            after[i]                 = (int32_t)pl_rng_below(&rng, (uint64_t)i);
            rig->requests[i].after   = &after[i];
            rig->requests[i].n_after = 1;
            rig->requests[i].delay_ns = (int64_t)pl_rng_below(&rng, 2) *
                                        (int64_t)pl_rng_below(&rng, 30) * MS;
        }
    }
    engine = run_engine(rig, &rig->params.prefill);
    rig_run(rig);
    for (int32_t i = 0; i < rig->n; i++) {
        rig_expect_same(rig_record(rig, i), pl_engine_record(engine, i), 0);
    }
    pl_engine_close(engine);
    rig_free(rig);
}

START_TEST(turns_of_one_instance_are_those_of_the_engine)
{
    uint64_t seed =
        pl_test_seed("turns_of_one_instance_are_those_of_the_engine");

    for (uint64_t i = 0; i < 10; i++) {
        compare_turns(seed + i);
    }
}
END_TEST

/* ---- links ---- */

enum { A_PAGES = 40, B_PAGES = 4 };

/* A long transfer and a short one, each sent when its prompt is computed, the
 * short one first; *a_p, *b_p: when they arrive if they share. */
static void reckon_shared(const rig_t *rig, int64_t a_sent, int64_t b_sent,
                          int64_t *a_p, int64_t *b_p)
{
    int64_t b_left = B_PAGES * RIG_PAGE_NS - (a_sent - b_sent);

    (void)rig;
    ck_assert_int_gt(a_sent, b_sent);
    ck_assert_int_gt(b_left, 0);
    *b_p = a_sent + 2 * b_left + RIG_LATENCY_NS;
    *a_p = b_sent + (A_PAGES + B_PAGES) * RIG_PAGE_NS + RIG_LATENCY_NS;
}

START_TEST(two_that_come_to_one_home_share_its_link)
{
    rig_t *rig = rig_make(2, 1);
    int64_t a, b;

    rig_add(rig, 0, A_PAGES, 1);
    rig_add(rig, 0, B_PAGES, 1);
    rig_run(rig);
    reckon_shared(rig, rig_prefill_ns(rig, A_PAGES),
                  rig_prefill_ns(rig, B_PAGES), &a, &b);
    ck_assert_int_eq(rig_record(rig, 0)->decode_ns, a);
    ck_assert_int_eq(rig_record(rig, 1)->decode_ns, b);
    /* Until the last of them has ended, and each side its own. */
    ck_assert_int_eq(pl_fleet_usage(rig->fleet, 2).link_ns,
                     (A_PAGES + B_PAGES) * RIG_PAGE_NS);
    ck_assert_int_eq(pl_fleet_usage(rig->fleet, 1).link_ns,
                     b - RIG_LATENCY_NS - rig_prefill_ns(rig, B_PAGES));
    ck_assert_int_eq(pl_fleet_usage(rig->fleet, 2).received_bytes,
                     INT64_C(450000000) * (A_PAGES + B_PAGES));
    ck_assert_int_eq(pl_fleet_usage(rig->fleet, 0).sent_bytes,
                     INT64_C(450000000) * A_PAGES);
    ck_assert_int_eq(pl_fleet_waits(rig->fleet).for_transfer_ns,
                     a + b - rig_prefill_ns(rig, A_PAGES) -
                         rig_prefill_ns(rig, B_PAGES));
    rig_free(rig);
}
END_TEST

/* To two instances of decode: the short prompt is prefilled first. */
static void run_from_one(rig_t *rig)
{
    rig_add(rig, 0, B_PAGES, 1);
    rig_add(rig, 0, A_PAGES, 1);
    rig_run(rig);
    ck_assert_int_eq(rig_decode(rig, 0), 0);
    ck_assert_int_eq(rig_decode(rig, 1), 1);
}

START_TEST(two_that_leave_one_instance_share_what_it_sends)
{
    rig_t *rig = rig_make(1, 2);
    int64_t a, b;
    int64_t b_sent = rig_prefill_ns(rig, B_PAGES);
    int64_t a_sent = b_sent + rig_prefill_ns(rig, A_PAGES);

    run_from_one(rig);
    reckon_shared(rig, a_sent, b_sent, &a, &b);
    ck_assert_int_eq(rig_record(rig, 1)->decode_ns, a);
    ck_assert_int_eq(rig_record(rig, 0)->decode_ns, b);
    rig_free(rig);
}
END_TEST

START_TEST(homes_that_receive_less_do_not_share)
{
    rig_t *rig     = rig_make(1, 2);
    int64_t b_sent = rig_prefill_ns(rig, B_PAGES);
    int64_t a_sent = b_sent + rig_prefill_ns(rig, A_PAGES);

    rig->params.send_bytes_per_us = 2 * 45000;
    run_from_one(rig);
    ck_assert_int_eq(rig_record(rig, 0)->decode_ns,
                     b_sent + B_PAGES * RIG_PAGE_NS + RIG_LATENCY_NS);
    ck_assert_int_eq(rig_record(rig, 1)->decode_ns,
                     a_sent + A_PAGES * RIG_PAGE_NS + RIG_LATENCY_NS);
    rig_free(rig);
}
END_TEST

/* Shares that do not divide: three of a rate that is no multiple of three. */
START_TEST(no_time_is_lost_in_rounding)
{
    rig_t *rig      = rig_make(3, 1);
    int64_t sent_ns = rig_prefill_ns(rig, 7);
    int64_t bytes   = 3 * 7 * INT64_C(450000000);

    rig->params.receive_bytes_per_us = 44999;
    for (int32_t i = 0; i < 3; i++) {
        rig_add(rig, 0, 7, 1);
    }
    rig_run(rig);
    for (int32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(rig_record(rig, i)->decode_ns,
                         sent_ns + (bytes * 1000 + 44998) / 44999 +
                             RIG_LATENCY_NS);
    }
    rig_free(rig);
}
END_TEST

START_TEST(no_bytes_take_the_latency)
{
    rig_t *rig = rig_make(1, 1);

    rig->params.prefill.page_bytes = 0;
    rig_add(rig, 0, A_PAGES, 1);
    rig_run(rig);
    ck_assert_int_eq(rig_record(rig, 0)->decode_ns,
                     rig_prefill_ns(rig, A_PAGES) + RIG_LATENCY_NS);
    ck_assert_int_eq(pl_fleet_usage(rig->fleet, 0).link_ns, 0);
    rig_free(rig);
}
END_TEST

/* ---- room to decode ---- */

/* The chunk of a second prompt is under way for long when the first one's pages
 * are all there. */
START_TEST(decode_does_not_wait_for_a_chunk)
{
    rig_t *rig = rig_make(1, 1);
    int64_t first_ns;

    rig->params.prefill.costs.prefill[PL_COST_LAUNCH].step_ns = 1000 * MS;
    rig_add(rig, 0, B_PAGES, 1);
    rig_add(rig, 0, B_PAGES, 1);
    rig_run(rig);
    first_ns = rig_record(rig, 0)->first_token_ns;
    ck_assert_int_eq(rig_record(rig, 0)->finished_ns,
                     first_ns + B_PAGES * RIG_PAGE_NS + RIG_LATENCY_NS);
    ck_assert_int_eq(rig_record(rig, 1)->first_token_ns, 2 * first_ns);
    rig_free(rig);
}
END_TEST

/* The second is preempted before its prefill instance, which computes the
 * third, has seen it go: it comes back when that has. */
START_TEST(who_re_enters_waits_until_it_is_let_go)
{
    rig_t *rig = rig_make(1, 1);
    const pl_record_t *third;

    rig->params.prefill.costs.prefill[PL_COST_LAUNCH].step_ns = 1000 * MS;
    rig->params.decode.costs.decode[PL_COST_LAUNCH].step_ns   = 100 * MS;
    rig->params.decode.decode_pages                           = 1 + 15;
    rig_add(rig, 0, 5, 30);
    rig_add(rig, 0, 5, 30);
    rig_add(rig, 0, 1, 1);
    rig_run(rig);
    third = rig_record(rig, 2);
    ck_assert_int_eq(rig_record(rig, 1)->reentries, 1);
    ck_assert_int_lt(rig_record(rig, 1)->decode_ns,
                     third->first_token_ns - 500 * MS);
    ck_assert_int_eq(pl_fleet_usage(rig->fleet, 0).requests, 4);
    ck_assert_int_gt(rig_record(rig, 1)->finished_ns,
                     third->first_token_ns + 1000 * MS);
    ck_assert_int_eq(rig_record(rig, 1)->generated_tokens, 30);
    rig_free(rig);
}
END_TEST

/* A home for one at a time: the second is refused until the first has ended. */
START_TEST(who_is_refused_is_woken)
{
    rig_t *rig = rig_make(2, 1);
    pl_fleet_waits_t waits;

    rig->params.decode.decode_pages = 13; /* one is scratch */
    rig_add(rig, 0, 10, 5);
    rig_add(rig, 0, 9, 5);
    rig_run(rig);
    waits = pl_fleet_waits(rig->fleet);
    ck_assert_int_eq(rig_record(rig, 0)->admitted_ns, 0);
    ck_assert_int_eq(rig_record(rig, 1)->admitted_ns,
                     rig_record(rig, 0)->finished_ns);
    ck_assert_int_eq(pl_fleet_usage(rig->fleet, 1).refusals, 1);
    ck_assert_int_eq(pl_fleet_usage(rig->fleet, 1).refused_ns,
                     rig_record(rig, 0)->finished_ns);
    ck_assert_int_eq(waits.for_decode_ns, rig_record(rig, 0)->finished_ns);
    ck_assert_int_eq(waits.for_prefill_ns, 0);
    rig_free(rig);
}
END_TEST

/* The roomiest, then who got a request the longest ago. */
START_TEST(homes_are_filled_evenly)
{
    static const int32_t pages[] = {10, 3, 3, 3};
    static const int32_t want[]  = {0, 1, 2, 1};
    rig_t *rig                   = rig_make(4, 3);

    for (int32_t i = 0; i < 4; i++) {
        rig_add(rig, 0, pages[i], 200);
    }
    rig_run(rig);
    for (int32_t i = 0; i < 4; i++) {
        ck_assert_int_eq(rig_decode(rig, i), want[i]);
    }
    rig_free(rig);
}
END_TEST

/* One place in the batch: the second waits for it, decoded one after the other.
 */
START_TEST(a_full_batch_is_waited_for)
{
    rig_t *rig = rig_make(2, 1);

    rig->params.decode.max_batch   = 1;
    rig->params.prefill.page_bytes = 0;
    rig_add(rig, 0, 8, 50);
    rig_add(rig, 0, 8, 50);
    rig_run(rig);
    ck_assert_int_eq(rig_record(rig, 1)->decode_ns,
                     rig_record(rig, 0)->decode_ns);
    ck_assert_int_eq(pl_fleet_waits(rig->fleet).for_batch_ns,
                     rig_record(rig, 0)->finished_ns -
                         rig_record(rig, 0)->decode_ns);
    ck_assert_int_eq(pl_fleet_usage(rig->fleet, 2).most_waiting, 2);
    ck_assert_int_eq(pl_fleet_usage(rig->fleet, 2).steps, 2 * 49);
    rig_free(rig);
}
END_TEST

/* Two that grow where only one has room to: the younger is preempted, and the
 * router sends it to the other instance. */
START_TEST(who_re_enters_is_routed_again)
{
    rig_t *rig = rig_make(2, 1);
    const pl_record_t *record;

    rig->params.decode.decode_pages = 1 + 2 * 6 + 2;
    rig_add(rig, 0, 5, 30);
    rig_add(rig, 0, 5, 30);
    rig_run(rig);
    record = rig_record(rig, 1);
    ck_assert_int_eq(rig_record(rig, 0)->reentries, 0);
    ck_assert_int_eq(record->reentries, 1);
    ck_assert_int_eq(record->generated_tokens, 30);
    ck_assert(!record->failed);
    ck_assert_int_eq(rig_prefill(rig, 0), 0);
    ck_assert_int_eq(rig_prefill(rig, 1), 0);
    ck_assert_int_eq(pl_fleet_usage(rig->fleet, 0).requests, 2);
    ck_assert_int_eq(pl_fleet_usage(rig->fleet, 1).requests, 1);
    /* Its first prefill is what its record tells of. */
    ck_assert_int_eq(record->first_token_ns, rig_prefill_ns(rig, 5));
    ck_assert_int_eq(record->device_hit_tokens, 0);
    ck_assert_int_lt(record->decode_ns, rig_record(rig, 0)->finished_ns);
    rig_free(rig);
}
END_TEST

/* Meanwhile the other decode instance has become the roomier one.  When its
 * pages had come is told of the first of both. */
START_TEST(who_re_enters_may_decode_elsewhere)
{
    rig_t *rig = rig_make(1, 2);
    const pl_record_t *record, *first, *second;

    rig->params.decode.decode_pages = 1 + 2 * 6 + 2;
    rig_add(rig, 0, 5, 30); /* at 0 */
    rig_add(rig, 0, 5, 2);  /* at 1, soon gone */
    rig_add(rig, 0, 5, 30); /* at 0 */
    rig_run(rig);
    record = rig_record(rig, 2);
    first  = pl_engine_record(pl_fleet_engine(rig->fleet, 1), 2);
    second = pl_engine_record(pl_fleet_engine(rig->fleet, 2), 2);
    ck_assert_int_eq(record->reentries, 1);
    ck_assert_int_eq(rig_decode(rig, 2), 1);
    ck_assert_int_lt(first->decode_ns, second->decode_ns);
    ck_assert_int_le(record->decode_ns, first->decode_ns);
    ck_assert_int_gt(record->decode_ns, record->first_token_ns);
    ck_assert_int_eq(record->finished_ns, second->finished_ns);
    ck_assert_int_eq(record->generated_tokens, 30);
    rig_free(rig);
}
END_TEST

/* Lanes that its prompt fits, but not with what it has said: it fails, and who
 * comes behind it comes all the same. */
START_TEST(who_no_longer_fits_fails)
{
    static const int32_t first[] = {1};
    rig_t *rig                   = rig_make(2, 1);

    rig->params.decode.decode_pages  = 1 + 2 * 7 + 1;
    rig->params.prefill.device_pages = 1 + 3;
    rig->params.prefill.n_prefill    = 2;
    rig_add(rig, 0, 6, 30);
    rig_add(rig, 0, 6, 30);
    rig_add(rig, 0, 2, 1);
    rig->requests[2].after   = first;
    rig->requests[2].n_after = 1;
    rig_run(rig);
    ck_assert(!rig_record(rig, 0)->failed);
    ck_assert(rig_record(rig, 1)->failed);
    ck_assert_int_eq(rig_record(rig, 2)->arrival_ns,
                     rig_record(rig, 1)->finished_ns);
    rig_free(rig);
}
END_TEST

/* ---- turns ---- */

START_TEST(turns_come_when_those_before_have_ended)
{
    static const int32_t one[]  = {0};
    static const int32_t both[] = {0, 1};
    rig_t *rig                  = rig_make(2, 2);
    int64_t later               = 0;

    rig_add(rig, 0, 10, 20);
    rig_add(rig, 5 * MS, 30, 10);
    rig_add(rig, 0, 12, 3);
    rig_add(rig, 0, 14, 3);
    rig_add(rig, 900000 * MS, 8, 1);
    rig->requests[2].after      = one;
    rig->requests[2].n_after    = 1;
    rig->requests[2].delay_ns   = 7 * MS;
    rig->requests[3].after      = both;
    rig->requests[3].n_after    = 2;
    rig->requests[4].after      = one;
    rig->requests[4].n_after    = 1;
    rig->requests[4].not_before = true;
    rig_run(rig);
    for (int32_t i = 0; i < 2; i++) {
        int64_t ns = rig_record(rig, i)->finished_ns;

        later = ns > later ? ns : later;
    }
    ck_assert_int_eq(rig_record(rig, 2)->arrival_ns,
                     rig_record(rig, 0)->finished_ns + 7 * MS);
    ck_assert_int_eq(rig_record(rig, 3)->arrival_ns, later);
    ck_assert_int_eq(rig_record(rig, 4)->arrival_ns, 900000 * MS);
    ck_assert_int_ge(rig_record(rig, 2)->admitted_ns,
                     rig_record(rig, 2)->arrival_ns);
    rig_free(rig);
}
END_TEST

/* ---- refusals ---- */

START_TEST(what_cannot_be_is_refused)
{
    rig_t *rig        = rig_make(2, 1);
    pl_fleet_t *fleet = NULL;
    pl_fleet_params_t bad;

    rig_add(rig, 0, 10, 1);
    rig->params.source = rig_source(rig);
    bad                = rig->params;
    bad.prefill.evict  = pl_policy_find("belady");
    ck_assert_int_eq(pl_fleet_open(&bad, NULL, &fleet), PL_ERR_ARGUMENT);
    bad                    = rig->params;
    bad.decode.page_tokens = 8;
    ck_assert_int_eq(pl_fleet_open(&bad, NULL, &fleet), PL_ERR_ARGUMENT);
    bad                      = rig->params;
    bad.receive_bytes_per_us = 0;
    ck_assert_int_eq(pl_fleet_open(&bad, NULL, &fleet), PL_ERR_ARGUMENT);
    bad                     = rig->params;
    bad.decode.decode_pages = 10;
    ck_assert_int_eq(pl_fleet_open(&bad, NULL, &fleet), PL_ERR_RESOURCE);
    bad                      = rig->params;
    bad.prefill.device_pages = 4;
    ck_assert_int_eq(pl_fleet_open(&bad, NULL, &fleet), PL_ERR_RESOURCE);
    rig_free(rig);
}
END_TEST

/* A home of 4,096 GPUs at 1,000,000 GB/s each, as options allow. */
START_TEST(the_fastest_links_are_reckoned)
{
    rig_t *rig = rig_make(1, 1);

    rig->params.send_bytes_per_us    = INT64_C(127) * 1000000000;
    rig->params.receive_bytes_per_us = INT64_C(4096) * 1000000000;
    rig_add(rig, 0, A_PAGES, 1);
    rig_run(rig);
    ck_assert_int_eq(rig_record(rig, 0)->decode_ns,
                     rig_prefill_ns(rig, A_PAGES) + RIG_LATENCY_NS +
                         (A_PAGES * INT64_C(450000) + 126999) / 127000);
    rig_free(rig);
}
END_TEST

START_TEST(no_requests_take_no_time)
{
    rig_t *rig = rig_make(2, 2);

    rig_run(rig);
    ck_assert_int_eq(pl_fleet_now_ns(rig->fleet), 0);
    rig_free(rig);
}
END_TEST

TCase *fleet_case(void)
{
    TCase *tcase = tcase_create("fleet");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, one_and_one_are_the_engine_that_has_both);
    tcase_add_test(tcase, whole_instances_are_engines_of_their_own);
    tcase_add_test(tcase, turns_of_one_instance_are_those_of_the_engine);
    tcase_add_test(tcase, two_that_come_to_one_home_share_its_link);
    tcase_add_test(tcase, two_that_leave_one_instance_share_what_it_sends);
    tcase_add_test(tcase, homes_that_receive_less_do_not_share);
    tcase_add_test(tcase, no_time_is_lost_in_rounding);
    tcase_add_test(tcase, no_bytes_take_the_latency);
    tcase_add_test(tcase, decode_does_not_wait_for_a_chunk);
    tcase_add_test(tcase, who_is_refused_is_woken);
    tcase_add_test(tcase, homes_are_filled_evenly);
    tcase_add_test(tcase, a_full_batch_is_waited_for);
    tcase_add_test(tcase, who_re_enters_is_routed_again);
    tcase_add_test(tcase, who_re_enters_may_decode_elsewhere);
    tcase_add_test(tcase, who_re_enters_waits_until_it_is_let_go);
    tcase_add_test(tcase, who_no_longer_fits_fails);
    tcase_add_test(tcase, turns_come_when_those_before_have_ended);
    tcase_add_test(tcase, what_cannot_be_is_refused);
    tcase_add_test(tcase, the_fastest_links_are_reckoned);
    tcase_add_test(tcase, no_requests_take_no_time);
    return tcase;
}

PL_CHECK_MAIN("fleet", fleet_case(), fleet_route_case(), fleet_random_case())
