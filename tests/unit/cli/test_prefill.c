/* cli/bench_prefill.h: each prompt comes cold, again, and once more; the pools
 * make the engine do what is meant; what was not meant is seen. */
#include "cli/bench_prefill.h"

#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "support/check_main.h"

enum { PAGE = 16, CHUNK = 64, REPEATS = 2 };

static pl_prefill_scene_t scene;

static void open_scene(int32_t tokens)
{
    ck_assert_int_eq(pl_prefill_scene_open(tokens, REPEATS, 1000, 7, &scene),
                     PL_OK);
}

START_TEST(each_prompt_comes_three_times)
{
    int32_t seen[REPEATS + 1] = {0};

    open_scene(10 * PAGE);
    ck_assert_int_eq(scene.n_requests, 3 * (REPEATS + 1));
    for (int32_t i = 0; i < scene.n_requests; i++) {
        int32_t prompt = pl_prefill_prompt(&scene, i);

        ck_assert_int_ge(prompt, 0);
        ck_assert_int_le(prompt, REPEATS);
        ck_assert_int_eq((int)pl_prefill_kind(&scene, i), seen[prompt]++);
        if (seen[prompt] == 2) { /* nothing lies between */
            ck_assert_int_eq(pl_prefill_prompt(&scene, i - 1), prompt);
        }
    }
    pl_prefill_scene_close(&scene);
}
END_TEST

START_TEST(prompts_differ_from_their_first_token)
{
    pl_engine_source_t source = pl_prefill_source(&scene);
    pl_token_reader_t reader  = pl_prefill_tokens(&scene);

    open_scene(10 * PAGE);
    source = pl_prefill_source(&scene);
    for (int32_t i = 0; i < scene.n_requests; i++) {
        for (int32_t j = 0; j < scene.n_requests; j++) {
            bool same =
                pl_prefill_prompt(&scene, i) == pl_prefill_prompt(&scene, j);
            pl_page_key_t a[3], b[2];
            int32_t x[PAGE], y[PAGE];

            source.page_keys(source.context, i, PAGE, 0, 3, a);
            source.page_keys(source.context, j, PAGE, 1, 2, b);
            reader.read(reader.context, i, PAGE, PAGE, x);
            reader.read(reader.context, j, PAGE, PAGE, y);
            ck_assert_int_eq(memcmp(a + 1, b, sizeof(b)) == 0, same);
            ck_assert_int_eq(memcmp(x, y, sizeof(x)) == 0, same);
            ck_assert_int_ne(memcmp(a, b, sizeof(a[0])), 0);
        }
    }
    pl_prefill_scene_close(&scene);
}
END_TEST

/* ---- the engine alone ---- */

static pl_engine_config_t config_of(int n_ranks, const char *ownership)
{
    pl_engine_config_t config = {.n_prefill    = n_ranks,
                                 .page_tokens  = PAGE,
                                 .chunk_tokens = CHUNK,
                                 .page_bytes   = 4096};

    ck_assert_int_eq(pl_ownership_parse(ownership, &config.ownership), PL_OK);
    ck_assert_int_eq(pl_prefill_engine(&scene, &config), PL_OK);
    return config;
}

/* How many requests were not what was meant. */
static int32_t count_odd(const pl_engine_config_t *config)
{
    pl_engine_source_t source = pl_prefill_source(&scene);
    pl_event_sink_t events    = {0};
    pl_engine_t *engine       = NULL;
    pl_plan_t *plan           = NULL;
    int32_t n                 = 0;

    ck_assert_int_eq(
        pl_engine_open(config, &source, NULL, events, NULL, &engine), PL_OK);
    while (!pl_engine_done(engine)) {
        uint64_t words[256] = {0};

        ck_assert_int_eq(pl_engine_plan(engine, &plan), PL_OK);
        ck_assert_int_le(pl_plan_words(plan), 256);
        ck_assert_int_eq(pl_engine_commit(engine, words), PL_OK);
    }
    for (int32_t i = 0; i < scene.n_requests; i++) {
        n +=
            pl_prefill_is_as_meant(&scene, i, PAGE, pl_engine_record(engine, i))
                ? 0
                : 1;
    }
    pl_engine_close(engine);
    return n;
}

START_TEST(the_pools_force_what_is_meant)
{
    static const char *const rules[] = {"zigzag", "round-robin", "interleave:3",
                                        "replicated"};
    static const int32_t pages[]     = {8, 32, 37, 200};

    for (size_t p = 0; p < sizeof(pages) / sizeof(*pages); p++) {
        open_scene(pages[p] * PAGE);
        for (int n_ranks = 1; n_ranks <= pages[p] / 8; n_ranks *= 2) {
            for (size_t r = 0; r < sizeof(rules) / sizeof(*rules); r++) {
                pl_engine_config_t config = config_of(n_ranks, rules[r]);

                ck_assert_msg(count_odd(&config) == 0, "%d pages, %d ranks, %s",
                              (int)pages[p], n_ranks, rules[r]);
            }
        }
        pl_prefill_scene_close(&scene);
    }
}
END_TEST

/* Room for two prompts: what comes last before the host hits is still there.
 * No host tier: nothing is. */
START_TEST(other_pools_are_found_out)
{
    pl_engine_config_t config;

    open_scene(32 * PAGE);
    config = config_of(2, "zigzag");
    config.device_pages *= 3;
    ck_assert_int_ge(count_odd(&config), REPEATS);
    config            = config_of(2, "zigzag");
    config.host_pages = 0;
    ck_assert_int_eq(count_odd(&config), REPEATS + 1);
    pl_prefill_scene_close(&scene);
}
END_TEST

/* ---- the watch, on a run ---- */

/* A device whose profile says how often it copied since the last read; each
 * rank has a thread. */
static const pl_device_ops_t *cpu_ops;
static pl_device_ops_t timed_ops;
static _Thread_local int64_t n_copies[PL_STREAMS];

static pl_status_t copy(pl_device_t *device, pl_stream_t stream,
                        const pl_copy_t *copies, int32_t n, bool late)
{
    n_copies[stream]++;
    return cpu_ops->copy(device, stream, copies, n, late);
}

static pl_status_t profile_begin(pl_device_t *device)
{
    (void)device;
    memset(n_copies, 0, sizeof(n_copies));
    return PL_OK;
}

static pl_status_t profile_read(pl_device_t *device, pl_profile_t *profile)
{
    (void)device;
    for (int s = 0; s < PL_STREAMS; s++) {
        profile->times[s][PL_WORK_COPY].calls += n_copies[s];
        profile->times[s][PL_WORK_COPY].ns += 1000 * n_copies[s];
    }
    memset(n_copies, 0, sizeof(n_copies));
    return PL_OK;
}

static pl_status_t open_timed(void *context, int rank, const pl_log_t *log,
                              pl_device_t **device_p)
{
    (void)context;
    (void)rank;
    PL_TRY(pl_device_open("cpu", log, device_p));
    (*device_p)->ops = &timed_ops;
    return PL_OK;
}

static void make_timed_ops(void)
{
    pl_device_t *device = NULL;

    ck_assert_int_eq(pl_device_open("cpu", NULL, &device), PL_OK);
    cpu_ops                 = device->ops;
    timed_ops               = *cpu_ops;
    timed_ops.copy          = copy;
    timed_ops.profile_begin = profile_begin;
    timed_ops.profile_read  = profile_read;
    pl_device_close(device);
}

static pl_prefill_figure_t watch_run(int n_ranks, const char *ownership,
                                     int32_t more_pages)
{
    pl_prefill_figure_t figure = {0};
    pl_prefill_watch_t *watch  = NULL;
    pl_run_params_t params     = {.engine   = config_of(n_ranks, ownership),
                                  .source   = pl_prefill_source(&scene),
                                  .prompts  = pl_prefill_tokens(&scene),
                                  .executor = "stamp",
                                  .device   = {open_timed, NULL},
                                  .layout   = pl_store_layout_stamp(PAGE, 2, 64, 0),
                                  .vocab_size = scene.vocab_size};

    params.engine.device_pages += more_pages;
    ck_assert_int_eq(
        pl_prefill_watch_open(&scene, false, &params, &figure, &watch), PL_OK);
    ck_assert_int_eq(pl_run_local(&params, 60), PL_OK);
    pl_prefill_watch_close(watch);
    return figure;
}

static int64_t stamp_page_bytes(void)
{
    pl_store_layout_t layout = pl_store_layout_stamp(PAGE, 2, 64, 0);

    return (int64_t)pl_store_page_bytes(&layout);
}

START_TEST(a_run_is_timed_by_request)
{
    static const char *const rules[] = {"zigzag", "replicated"};
    int n_ranks                      = _i;

    make_timed_ops();
    open_scene(32 * PAGE);
    for (int r = 0; r < 2; r++) {
        pl_prefill_figure_t figure = watch_run(n_ranks, rules[r], 0);

        ck_assert_int_eq(figure.odd, -1);
        ck_assert(figure.is_profiled);
        ck_assert_int_eq(figure.rank_bytes,
                         stamp_page_bytes() * 32 / (r == 0 ? n_ranks : 1));
        for (int kind = 0; kind < PL_PREFILL_KINDS; kind++) {
            const pl_profile_t *profile = &figure.profiles[kind];
            const pl_work_time_t *load =
                &profile->times[PL_STREAM_LOAD][PL_WORK_COPY];

            ck_assert_double_gt(figure.ms[kind], 0);
            ck_assert_int_eq(figure.hit_tokens[kind],
                             kind == PL_PREFILL_COLD ? 0 : 31 * PAGE);
            ck_assert_int_eq(load->calls > 0, kind == PL_PREFILL_HOST);
            ck_assert_int_eq(load->ns, 1000 * load->calls);
            /* it begins behind the first token: nobody's time */
            ck_assert_int_eq(
                profile->times[PL_STREAM_BACKUP][PL_WORK_COPY].calls, 0);
        }
    }
    pl_prefill_scene_close(&scene);
}
END_TEST

START_TEST(a_run_that_did_something_else_is_found_out)
{
    make_timed_ops();
    open_scene(32 * PAGE);
    ck_assert_int_ge(watch_run(2, "zigzag", 64).odd, 2 * scene.n_prompts);
    pl_prefill_scene_close(&scene);
}
END_TEST

static TCase *prefill_case(void)
{
    TCase *tcase = tcase_create("prefill");

    tcase_set_timeout(tcase, 100);
    tcase_add_test(tcase, each_prompt_comes_three_times);
    tcase_add_test(tcase, prompts_differ_from_their_first_token);
    tcase_add_test(tcase, the_pools_force_what_is_meant);
    tcase_add_test(tcase, other_pools_are_found_out);
    tcase_add_loop_test(tcase, a_run_is_timed_by_request, 1, 3);
    tcase_add_test(tcase, a_run_that_did_something_else_is_found_out);
    return tcase;
}

PL_CHECK_MAIN("prefill", prefill_case())
