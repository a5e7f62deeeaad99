/* cli/bench_prefill.h: each prompt comes cold, again, and once more; the pools
 * make the engine do what is meant; what was not meant is seen. */
#include "cli/bench_prefill.h"

#include <stdlib.h>
#include <string.h>

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

static TCase *prefill_case(void)
{
    TCase *tcase = tcase_create("prefill");

    tcase_set_timeout(tcase, 100);
    tcase_add_test(tcase, each_prompt_comes_three_times);
    tcase_add_test(tcase, prompts_differ_from_their_first_token);
    tcase_add_test(tcase, the_pools_force_what_is_meant);
    tcase_add_test(tcase, other_pools_are_found_out);
    return tcase;
}

PL_CHECK_MAIN("prefill", prefill_case())
