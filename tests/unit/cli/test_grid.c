/* cli/sweep_grid.h: which options are axes, and which points they make. */
#include "cli/sweep_grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/check_main.h"

static pl_options_t base, options;
static pl_option_words_t words;
static pl_grid_t *grid;

static void start(void)
{
    memset(&base, 0, sizeof(base));
    memset(&options, 0, sizeof(options));
    grid = NULL;
}

static void finish(void)
{
    pl_grid_close(grid);
    pl_options_free(&base);
    pl_options_free(&options);
    PL_ARRAY_FREE(&words);
}

static pl_option_result_t load(const char *arguments, const char *variable)
{
    const char *environment[] = {variable, NULL};
    static char copy[512];
    const char *argv[32];
    int argc = 0;

    (void)snprintf(copy, sizeof(copy), "%s", arguments);
    for (char *word = strtok(copy, " "); word != NULL;
         word       = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    return pl_grid_load(argc, argv, environment, &base, &words, &grid);
}

static void load_well(const char *arguments, const char *variable)
{
    pl_option_result_t result = load(arguments, variable);

    ck_assert_msg(result.verdict == PL_OPTION_OKAY, "%s", result.message);
    ck_assert_ptr_nonnull(grid);
}

static const pl_option_t *row(const char *name)
{
    const pl_option_table_t *table = pl_options_table();

    for (size_t i = 0; i < table->n; i++) {
        if (strcmp(table->options[i].name, name) == 0) {
            return &table->options[i];
        }
    }
    ck_abort_msg("no option %s", name);
    return NULL;
}

START_TEST(what_a_simulation_is_recorded_with_is_an_axis)
{
    const pl_option_table_t *table = pl_options_table();

    for (size_t i = 0; i < table->n; i++) {
        const pl_option_t *option = &table->options[i];
        bool is_list              = (option->kind == PL_OPTION_STRINGS) ||
                       (option->kind == PL_OPTION_INTEGERS) ||
                       (option->kind == PL_OPTION_FLAG) ||
                       (strcmp(option->name, "slo") == 0); /* of limits */

        if (((option->verbs & PL_VERB_SIM) != 0) && option->recorded &&
            !is_list && (strcmp(option->name, "events") != 0)) {
            ck_assert_msg(pl_grid_is_axis(option), "--%s", option->name);
        }
        if ((option->verbs & PL_VERB_SIM) == 0) {
            ck_assert_msg(!pl_grid_is_axis(option), "--%s", option->name);
        }
    }
    ck_assert(pl_grid_is_axis(row("trace")));
    ck_assert(pl_grid_is_axis(row("model")));
    ck_assert(pl_grid_is_axis(row("hardware")));
    ck_assert(!pl_grid_is_axis(row("slo")));
    ck_assert(!pl_grid_is_axis(row("json")));
    ck_assert(!pl_grid_is_axis(row("merge")));
}
END_TEST

START_TEST(points_are_all_choices_the_last_axis_fastest)
{
    static const struct {
        int64_t page_size, host_gb, cp;
    } WANT[] = {{32, 64, 1}, {32, 64, 2}, {32, 1500, 1}, {32, 1500, 2},
                {64, 64, 1}, {64, 64, 2}, {64, 1500, 1}, {64, 1500, 2}};

    load_well("--cp 1,2 --page-size=32,64 --host-gb 64,1500 --trace t.jsonl",
              NULL);
    ck_assert_uint_eq(pl_grid_n_points(grid), 8);
    for (size_t i = 0; i < 8; i++) {
        ck_assert_int_eq(pl_grid_point(grid, &base, i, &options), PL_OK);
        ck_assert_int_eq(options.page_size, WANT[i].page_size);
        ck_assert_int_eq(options.host_gb, WANT[i].host_gb * 1000000000);
        ck_assert_int_eq(options.cp, WANT[i].cp);
        ck_assert_str_eq(options.trace, "t.jsonl");
        ck_assert_int_eq(options.chunk, 8192);
        pl_options_free(&options);
    }
}
END_TEST

START_TEST(what_is_no_axis_is_the_same_everywhere)
{
    load_well("--slo ttft:1s,tpot:20ms --inject copy=late@rank:0 --inject "
              "copy=fail@rank:1 --merge a --merge b --json --repeat 3 --evict "
              "lru,belady -o out.h5",
              NULL);
    ck_assert_uint_eq(pl_grid_n_points(grid), 2);
    ck_assert_int_eq(base.repeat, 3);
    ck_assert(base.json);
    ck_assert_str_eq(base.output, "out.h5");
    ck_assert_int_eq(pl_grid_point(grid, &base, 1, &options), PL_OK);
    ck_assert_str_eq(options.slo_text, "ttft:1s,tpot:20ms");
    ck_assert_uint_eq(options.inject.n, 2);
    ck_assert_str_eq(options.inject.items[0], "copy=late@rank:0");
    ck_assert_str_eq(options.inject.items[1], "copy=fail@rank:1");
    ck_assert_uint_eq(options.merge.n, 2);
    ck_assert_str_eq(row("evict")->words[options.evict], "belady");
}
END_TEST

START_TEST(layers_are_those_of_all_options)
{
    load_well("", "PAGELANE_CP=1,2,4");
    ck_assert_uint_eq(pl_grid_n_points(grid), 3);
    ck_assert_int_eq(base.repeat, 1); /* not that of bench prefill */
    pl_grid_close(grid);
    grid = NULL;
    pl_options_free(&base);
    load_well("--cp 8", "PAGELANE_CP=1,2,4");
    ck_assert_uint_eq(pl_grid_n_points(grid), 1);
    ck_assert_int_eq(pl_grid_point(grid, &base, 0, &options), PL_OK);
    ck_assert_int_eq(options.cp, 8);
}
END_TEST

START_TEST(what_is_wrong_is_told_as_everywhere)
{
    static const struct {
        const char *arguments, *message;
    } CASES[] = {
        {"--cp 1,x", "option --cp: cannot use 'x'; expected an integer"},
        {"--cp 1,,2", "option --cp: a value between commas is empty"},
        {"--cp 1,2,", "option --cp: a value between commas is empty"},
        {"--page-size 64,0", "option --page-size: cannot use '0'"},
        {"--evict lru,none", "option --evict: cannot use 'none'"},
        {"--cp", "option --cp: the value is missing"},
        {"--snapshot a.h5", "--snapshot does not belong here"},
        {"--sloo 1", "did you mean --slo?"},
        {"--config /nowhere/x", "option --config: cannot read /nowhere/x"},
        {"--pd 1x8+1x8,1x4+1x8,1x8+1x8",
         "option --pd: 1x8+1x8 stands there twice"},
        {"--gpus 8,x", "option --gpus: cannot use '8,x'"},
        {"--gpus 20 --pd auto", "16 and 24 can"},
        {"--repeat 0", "option --repeat: cannot use '0'"},
    };

    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        pl_option_result_t result = load(CASES[i].arguments, NULL);

        ck_assert_int_eq(result.verdict, PL_OPTION_BAD);
        ck_assert_ptr_null(grid);
        ck_assert_msg(strstr(result.message, CASES[i].message) != NULL,
                      "%s: %s", CASES[i].arguments, result.message);
        pl_options_free(&base);
    }
    ck_assert_int_eq(load("--cp 1,x --help", NULL).verdict, PL_OPTION_HELP);
}
END_TEST

START_TEST(a_grid_without_end_is_refused)
{
    static const char *const LISTS[] = {" --chunk 1", " --limit 1",
                                        " --max-batch 1"};
    char text[1024]                  = "";
    pl_option_result_t result;

    for (int list = 0; list < 3; list++) {
        (void)strcat(text, LISTS[list]);
        for (int i = 2; i < 50; i++) {
            size_t n = strlen(text);

            (void)snprintf(text + n, sizeof(text) - n, ",%d", i);
        }
    }
    result = load(text, NULL);
    ck_assert_int_eq(result.verdict, PL_OPTION_BAD);
    ck_assert_ptr_nonnull(strstr(result.message, "more than 100000 points"));
}
END_TEST

/* And --cp, which is in them, is none. */
START_TEST(splits_of_gpus_are_an_axis)
{
    static const char *const WANT[] = {"1x4+3x8:dp8", "3x4+2x8:dp8",
                                       "3x4+1x16:dp16", "5x4+1x8:dp8"};

    load_well("--pd auto --gpus 28 --cp 4 --router random,best-prefix", NULL);
    ck_assert_uint_eq(pl_grid_n_points(grid), 8);
    for (size_t i = 0; i < 8; i++) {
        ck_assert_int_eq(pl_grid_point(grid, &base, i, &options), PL_OK);
        ck_assert_str_eq(options.pd, WANT[i / 2]);
        ck_assert_int_eq(options.cp, 0);
        ck_assert_int_eq(options.router, i % 2 == 0 ? 1 : 2);
        pl_options_free(&options);
    }
    ck_assert(pl_grid_parts_gpus(grid));
}
END_TEST

START_TEST(splits_of_several_numbers_are_one_axis)
{
    static const char *const WANT[] = {"1x8+1x8:dp8", "1x8+2x8:dp8",
                                       "1x8+1x16:dp16", "2x8+1x8:dp8"};

    load_well("--pd auto --gpus 16,24", NULL);
    ck_assert_uint_eq(pl_grid_n_points(grid), 4);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(pl_grid_point(grid, &base, i, &options), PL_OK);
        ck_assert_str_eq(options.pd, WANT[i]);
        pl_options_free(&options);
    }
}
END_TEST

START_TEST(gpus_without_auto_are_known)
{
    load_well("--gpus 8,16 --cp 1,2", NULL);
    ck_assert_uint_eq(pl_grid_n_points(grid), 2);
    ck_assert(!pl_grid_parts_gpus(grid));
    ck_assert_int_eq(base.gpus, 16);
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("grid");

    tcase_add_checked_fixture(tcase, start, finish);
    tcase_add_test(tcase, what_a_simulation_is_recorded_with_is_an_axis);
    tcase_add_test(tcase, points_are_all_choices_the_last_axis_fastest);
    tcase_add_test(tcase, what_is_no_axis_is_the_same_everywhere);
    tcase_add_test(tcase, layers_are_those_of_all_options);
    tcase_add_test(tcase, what_is_wrong_is_told_as_everywhere);
    tcase_add_test(tcase, a_grid_without_end_is_refused);
    tcase_add_test(tcase, splits_of_gpus_are_an_axis);
    tcase_add_test(tcase, splits_of_several_numbers_are_one_axis);
    tcase_add_test(tcase, gpus_without_auto_are_known);
    return tcase;
}

PL_CHECK_MAIN("grid", all())
