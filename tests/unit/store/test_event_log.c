/* The event log keeps every event in order; the lane history is bounded and
 * ends with the last tick. */
#include <string.h>

#include "base/rng.h"
#include "support/check_main.h"
#include "support/seed.h"
#include "support/snapshot_sample.h"

/* More ticks than samples, so that the stride has doubled. */
static snapshot_sample_t long_run(void)
{
    snapshot_sample_params_t params = snapshot_sample_params(5);
    snapshot_sample_t sample;

    params.n_requests   = 2000;
    params.n_decode     = 0;
    params.decode_pages = 48;
    ck_assert_int_eq(snapshot_sample_run(&params, NULL, &sample), PL_OK);
    return sample;
}

START_TEST(lanes_are_sampled_at_multiples_and_at_the_end)
{
    snapshot_sample_t sample = long_run();
    pl_lane_history_t lanes  = pl_event_log_lanes(sample.log);
    int64_t last             = pl_engine_counters(sample.engine)->ticks - 1;
    int64_t stride           = lanes.tick[1];

    ck_assert_int_gt(last, PL_LANE_SAMPLES);
    ck_assert_uint_gt(lanes.n, PL_LANE_SAMPLES / 2 - 1);
    ck_assert_uint_le(lanes.n, PL_LANE_SAMPLES);
    ck_assert_int_gt(stride, 1);
    ck_assert_int_eq(stride & (stride - 1), 0);
    for (size_t i = 0; i + 1 < lanes.n; i++) {
        ck_assert_int_eq(lanes.tick[i], (int64_t)i * stride);
        ck_assert_int_le(lanes.time_ns[i], lanes.time_ns[i + 1]);
    }
    ck_assert_int_eq(lanes.tick[lanes.n - 1], last);
    ck_assert_int_lt(lanes.tick[lanes.n - 2], last);
    snapshot_sample_close(&sample);
}
END_TEST

START_TEST(last_sample_is_the_state_of_the_engine)
{
    snapshot_sample_t sample   = long_run();
    pl_lane_history_t lanes    = pl_event_log_lanes(sample.log);
    const pl_hicache_t *cache  = pl_engine_cache(sample.engine);
    const int32_t *device_free = lanes.device_free + (lanes.n - 1) * 3;
    const int32_t *host_free   = lanes.host_free + (lanes.n - 1) * 3;
    const int32_t *decode_free = lanes.decode_free + (lanes.n - 1) * 3;

    ck_assert_int_eq(lanes.n_lanes, 3);
    ck_assert_int_eq(lanes.n_homes, 3);
    for (int lane = 0; lane < 3; lane++) {
        ck_assert_int_eq(device_free[lane],
                         pl_lanes_free_count(pl_hicache_device(cache), lane));
        ck_assert_int_eq(host_free[lane],
                         pl_lanes_free_count(pl_hicache_host(cache), lane));
        /* All have decoded: nobody holds a decode page. */
        ck_assert_int_eq(decode_free[lane], sample.params.decode_pages - 1);
    }
    ck_assert_int_eq(lanes.running[lanes.n - 1], 0);
    ck_assert_int_eq(lanes.waiting[lanes.n - 1], 0);
    snapshot_sample_close(&sample);
}
END_TEST

/* Asking twice, or in between, changes nothing. */
START_TEST(lanes_can_be_read_at_any_time)
{
    snapshot_sample_t sample = long_run();
    pl_lane_history_t once   = pl_event_log_lanes(sample.log);
    size_t n                 = once.n;
    int64_t tick             = once.tick[n - 1];
    pl_lane_history_t twice  = pl_event_log_lanes(sample.log);

    ck_assert_uint_eq(twice.n, n);
    ck_assert_int_eq(twice.tick[n - 1], tick);
    snapshot_sample_close(&sample);
}
END_TEST

START_TEST(events_lie_one_behind_the_other)
{
    snapshot_sample_t sample  = long_run();
    pl_event_columns_t events = pl_event_log_events(sample.log);
    int64_t arrivals          = 0;
    int64_t finishes          = 0;

    ck_assert_uint_gt(events.n, 0);
    ck_assert_int_eq(events.pages_offset[0], 0);
    ck_assert_int_eq(events.other_offset[0], 0);
    for (size_t i = 0; i < events.n; i++) {
        int64_t n_pages = events.pages_offset[i + 1] - events.pages_offset[i];
        int64_t n_other = events.other_offset[i + 1] - events.other_offset[i];

        ck_assert_int_ge(n_pages, 0);
        ck_assert((n_other == 0) || (n_other == n_pages));
        ck_assert((i == 0) || (events.tick[i - 1] <= events.tick[i]));
        ck_assert((events.kind[i] >= 0) && (events.kind[i] < PL_EVENT_KINDS));
        arrivals += events.kind[i] == PL_EVENT_ARRIVE ? 1 : 0;
        finishes += events.kind[i] == PL_EVENT_FINISH ? 1 : 0;
    }
    ck_assert_int_eq(arrivals, sample.params.n_requests);
    ck_assert_int_eq(finishes, sample.params.n_requests);
    snapshot_sample_close(&sample);
}
END_TEST

START_TEST(event_is_kept_field_by_field)
{
    const pl_page_t pages[] = {3, 1, 4};
    const pl_page_t other[] = {1, 5, 9};
    pl_event_t event        = pl_event_make(PL_EVENT_BACKUP);
    pl_event_log_t *log     = NULL;
    pl_event_columns_t kept;

    ck_assert_int_eq(pl_event_log_open(PL_EVENTS_ALL, &log), PL_OK);
    ck_assert_uint_eq(pl_event_log_events(log).n, 0);
    event.tick    = 11;
    event.time_ns = 12;
    event.node    = 13;
    event.op      = 14;
    event.value   = 15;
    event.value2  = 16;
    event.pages   = pages;
    event.other   = other;
    event.n_pages = 3;
    pl_event_emit(&(pl_event_sink_t){pl_event_log_sink(log).take, log}, &event);
    kept = pl_event_log_events(log);
    ck_assert_uint_eq(kept.n, 1);
    ck_assert_int_eq(kept.tick[0], 11);
    ck_assert_int_eq(kept.time_ns[0], 12);
    ck_assert_int_eq(kept.node[0], 13);
    ck_assert_int_eq(kept.op[0], 14);
    ck_assert_int_eq(kept.value[0], 15);
    ck_assert_int_eq(kept.value2[0], 16);
    ck_assert_int_eq(kept.request[0], -1);
    ck_assert_int_eq(kept.pages_offset[1], 3);
    ck_assert_mem_eq(kept.pages, pages, sizeof(pages));
    ck_assert_mem_eq(kept.other, other, sizeof(other));
    ck_assert_int_eq(pl_event_log_status(log), PL_OK);
    pl_event_log_close(log);
}
END_TEST

START_TEST(log_without_events_keeps_lanes)
{
    snapshot_sample_params_t params = snapshot_sample_params(5);
    snapshot_sample_t sample;

    params.most_events = 0;
    ck_assert_int_eq(snapshot_sample_run(&params, NULL, &sample), PL_OK);
    ck_assert(!pl_event_log_has_events(sample.log));
    ck_assert_uint_eq(pl_event_log_events(sample.log).n, 0);
    ck_assert_uint_gt(pl_event_log_lanes(sample.log).n, 0);
    snapshot_sample_close(&sample);
}
END_TEST

/* Give each sink the same events, of any number of pages. */
static void emit_some(pl_rng_t *rng, int64_t tick, pl_event_log_t **logs, int n)
{
    static const pl_page_t PAGES[] = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
    pl_event_t event =
        pl_event_make((pl_event_kind_t)pl_rng_below(rng, PL_EVENT_KINDS));

    event.tick    = tick;
    event.value   = (int64_t)pl_rng_below(rng, 1000);
    event.n_pages = (int32_t)pl_rng_below(rng, 10);
    event.pages   = event.n_pages > 0 ? PAGES : NULL;
    event.other   = pl_rng_below(rng, 2) > 0 ? event.pages : NULL;
    for (int i = 0; i < n; i++) {
        pl_event_sink_t sink = pl_event_log_sink(logs[i]);

        pl_event_emit(&sink, &event);
    }
}

/* What `ring` has is the end of what `all` has. */
static void check_tail(pl_event_log_t *all, pl_event_log_t *ring, size_t most)
{
    pl_event_columns_t a = pl_event_log_events(all);
    pl_event_columns_t r = pl_event_log_events(ring);
    size_t from          = a.n - r.n;

    ck_assert_uint_eq(r.n, a.n < most ? a.n : most);
    ck_assert_int_eq(pl_event_log_dropped(ring), (int64_t)from);
    ck_assert_int_eq(r.pages_offset[0], 0);
    ck_assert_int_eq(r.other_offset[0], 0);
    for (size_t i = 0; i < r.n; i++) {
        size_t n_pages = (size_t)(r.pages_offset[i + 1] - r.pages_offset[i]);
        size_t n_other = (size_t)(r.other_offset[i + 1] - r.other_offset[i]);

        ck_assert_int_eq(r.tick[i], a.tick[from + i]);
        ck_assert_int_eq(r.kind[i], a.kind[from + i]);
        ck_assert_int_eq(r.value[i], a.value[from + i]);
        ck_assert_uint_eq(n_pages, (size_t)(a.pages_offset[from + i + 1] -
                                            a.pages_offset[from + i]));
        ck_assert_uint_eq(n_other, (size_t)(a.other_offset[from + i + 1] -
                                            a.other_offset[from + i]));
        ck_assert((n_pages == 0) || (memcmp(r.pages + r.pages_offset[i],
                                            a.pages + a.pages_offset[from + i],
                                            n_pages * sizeof(*r.pages)) == 0));
        ck_assert((n_other == 0) || (memcmp(r.other + r.other_offset[i],
                                            a.other + a.other_offset[from + i],
                                            n_other * sizeof(*r.other)) == 0));
    }
}

START_TEST(ring_keeps_the_newest)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed("event log"));

    for (int round = 0; round < 200; round++) {
        size_t most             = 1 + (size_t)pl_rng_below(&rng, 40);
        pl_event_log_t *logs[2] = {NULL, NULL};

        ck_assert_int_eq(pl_event_log_open(PL_EVENTS_ALL, &logs[0]), PL_OK);
        ck_assert_int_eq(pl_event_log_open((int64_t)most, &logs[1]), PL_OK);
        for (int64_t tick = 0; tick < 200; tick++) {
            emit_some(&rng, tick, logs, 2);
            if (pl_rng_below(&rng, 20) == 0) {
                check_tail(logs[0], logs[1], most);
            }
        }
        check_tail(logs[0], logs[1], most);
        ck_assert_int_eq(pl_event_log_dropped(logs[0]), 0);
        pl_event_log_close(logs[0]);
        pl_event_log_close(logs[1]);
    }
}
END_TEST

START_TEST(kinds_have_different_texts)
{
    for (int i = 0; i < PL_EVENT_KINDS; i++) {
        for (int j = 0; j < i; j++) {
            ck_assert_str_ne(pl_event_kind_text((pl_event_kind_t)i),
                             pl_event_kind_text((pl_event_kind_t)j));
        }
    }
    ck_assert_str_eq(pl_event_kind_text(PL_EVENT_KINDS), "?");
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("event log");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, lanes_are_sampled_at_multiples_and_at_the_end);
    tcase_add_test(tcase, last_sample_is_the_state_of_the_engine);
    tcase_add_test(tcase, lanes_can_be_read_at_any_time);
    tcase_add_test(tcase, events_lie_one_behind_the_other);
    tcase_add_test(tcase, event_is_kept_field_by_field);
    tcase_add_test(tcase, log_without_events_keeps_lanes);
    tcase_add_test(tcase, ring_keeps_the_newest);
    tcase_add_test(tcase, kinds_have_different_texts);
    return tcase;
}

PL_CHECK_MAIN("event_log", all())
