/* base/option.h: values, layers, verdicts, help; and random argument lists. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/option.h"
#include "base/rng.h"
#include "support/check_main.h"
#include "support/seed.h"
#include "unit/base/option_sample.h"

static sample_t values;
static pl_option_words_t words;

static void start(void)
{
    ck_assert_int_eq(pl_option_defaults(&SAMPLE_TABLE, &values).verdict,
                     PL_OPTION_OKAY);
}

static void finish(void)
{
    pl_option_free(&SAMPLE_TABLE, &values);
    PL_ARRAY_FREE(&words);
}

/* Parse up to three arguments for `cook`; NULL ends them. */
static pl_option_result_t parse(const char *a, const char *b, const char *c)
{
    const char *argv[] = {a, b, c, NULL};
    int argc           = 0;

    while (argv[argc] != NULL) {
        argc++;
    }
    words.n = 0;
    return pl_option_arguments(&SAMPLE_TABLE, COOK, argc, argv, &values,
                               &words);
}

static void good(const char *a, const char *b)
{
    pl_option_result_t result = parse(a, b, NULL);

    ck_assert_msg(result.verdict == PL_OPTION_OKAY, "%s %s: %s", a,
                  b == NULL ? "" : b, result.message);
}

/* Refused, with all these words in the message. */
static void refused(const char *argument, const char *value, const char *says,
                    const char *says_too)
{
    pl_option_result_t result = parse(argument, value, NULL);

    ck_assert_msg(result.verdict == PL_OPTION_BAD, "%s was taken", argument);
    ck_assert_int_eq(result.status, PL_ERR_ARGUMENT);
    ck_assert_msg(strstr(result.message, says) != NULL, "'%s' lacks '%s'",
                  result.message, says);
    ck_assert_msg(strstr(result.message, says_too) != NULL, "'%s' lacks '%s'",
                  result.message, says_too);
}

START_TEST(defaults_are_the_text_of_the_table)
{
    ck_assert(!values.hot);
    ck_assert_int_eq(values.count, 3);
    ck_assert_int_eq(values.size, 65536);
    ck_assert_int_eq(values.wait, 5000000);
    ck_assert_int_eq(values.pages, PL_OPTION_UNLIMITED);
    ck_assert_ptr_null(values.name);
    ck_assert_int_eq(values.color, 1);
    ck_assert_uint_eq(values.widths.n, 2);
    ck_assert_uint_eq(values.faults.n, 0);
}
END_TEST

START_TEST(both_spellings_and_the_letter_mean_the_same)
{
    good("--count", "7");
    ck_assert_int_eq(values.count, 7);
    good("--count=-5", NULL);
    ck_assert_int_eq(values.count, -5);
    good("-c", "9");
    ck_assert_int_eq(values.count, 9);
    good("-c10", NULL);
    ck_assert_int_eq(values.count, 10);
    good("--count", "-1"); /* one dash is a number */
    ck_assert_int_eq(values.count, -1);
}
END_TEST

START_TEST(flags_take_a_value_only_when_attached)
{
    good("--hot", NULL);
    ck_assert(values.hot);
    good("--hot=off", NULL);
    ck_assert(!values.hot);
    good("--hot", "false");
    ck_assert(values.hot);
    ck_assert_uint_eq(words.n, 1);
    refused("--hot=maybe", NULL, "'maybe'", "true or false");
}
END_TEST

START_TEST(integers_are_whole_and_in_range)
{
    good("--any-number", "9223372036854775807");
    ck_assert(values.any == INT64_MAX);
    good("--any-number", "-9223372036854775808");
    ck_assert(values.any == INT64_MIN);
    refused("--any-number", "9223372036854775808", "--any-number",
            "an integer");
    refused("--any-number", "-9223372036854775809", "--any-number",
            "an integer");
    refused("--count", "101", "'101'", "an integer from -5 to 100");
    refused("--count", "-6", "'-6'", "from -5 to 100");
    refused("--count", "7x", "'7x'", "an integer");
    refused("--count", "x", "'x'", "an integer");
    refused("--count", "+7", "'+7'", "an integer");
    refused("--count", " 7", "' 7'", "an integer");
    refused("--count", "0x10", "'0x10'", "an integer");
    refused("--count", "1e3", "'1e3'", "an integer");
    refused("--count", "-", "'-'", "an integer");
    refused("--count=", NULL, "--count", "empty");
    refused("--count", "", "--count", "empty");
    refused("--count", NULL, "--count", "missing");
    refused("--count", "--hot", "--count", "missing");
    ck_assert(values.any == INT64_MIN); /* what was refused changed nothing */
    ck_assert_int_eq(values.count, 3);
}
END_TEST

START_TEST(sizes_and_times_have_suffixes)
{
    good("--size", "4096");
    ck_assert_int_eq(values.size, 4096);
    good("--size", "2MiB");
    ck_assert_int_eq(values.size, 2 << 20);
    good("--size", "1TiB");
    ck_assert(values.size == INT64_C(1) << 40);
    refused("--size", "1G", "'1G'", "1GiB");
    refused("--size", "1KB", "'1KB'", "64KiB");
    refused("--size", "1.5GiB", "'1.5GiB'", "GiB");
    refused("--size", "-1", "'-1'", "at least 0");
    refused("--size", "9007199254740992KiB", "--size", "bytes"); /* 2^63 */
    good("--size", "9007199254740991KiB");

    good("--wait", "7");
    ck_assert_int_eq(values.wait, 7000000);
    good("--wait", "7us");
    ck_assert_int_eq(values.wait, 7000);
    good("--wait", "3s");
    ck_assert(values.wait == INT64_C(3000000000));
    refused("--wait", "3m", "'3m'", "5ms");
    refused("--wait", "9223372037s", "--wait", "a time");
    refused("--wait", "3601s", "'3601s'", "a time from 0 to 3600s, as ");
}
END_TEST

START_TEST(gigabytes_are_exact)
{
    char *text = NULL;

    ck_assert_int_eq(values.room, 500000000);
    good("--room", "8");
    ck_assert_int_eq(values.room, INT64_C(8000000000));
    good("--room", "1.000000001");
    ck_assert_int_eq(values.room, 1000000001);
    good("--room=0.25", NULL);
    ck_assert_int_eq(values.room, 250000000);
    for (size_t i = 0; i < SAMPLE_TABLE.n; i++) {
        if (strcmp(SAMPLE_TABLE.options[i].name, "room") == 0) {
            ck_assert_int_eq(
                pl_option_value_text(&SAMPLE_TABLE.options[i], &values, &text),
                PL_OK);
        }
    }
    ck_assert_str_eq(text, "0.25");
    free(text);
    refused("--room", "0", "'0'", "GB");
    refused("--room", "8.5", "'8.5'", "10^9 bytes");
    refused("--room", "1.", "'1.'", "GB");
    refused("--room", ".5", "'.5'", "GB");
    refused("--room", "-1", "'-1'", "GB");
    refused("--room", "1GB", "'1GB'", "GB");
    refused("--room", "1.0000000001", "--room", "GB");
    refused("--room", "99999999999999", "--room", "GB");
}
END_TEST

START_TEST(fractions_are_of_one)
{
    ck_assert_int_eq(values.share, 880000000);
    good("--share", "1");
    ck_assert_int_eq(values.share, 1000000000);
    good("--share", "0.000000001");
    ck_assert_int_eq(values.share, 1);
    refused("--share", "0", "'0'", "above 0");
    refused("--share", "1.000000001", "--share", "at most 1");
    refused("--share", "-0.5", "'-0.5'", "above 0");
    refused("--share", "88%", "'88%'", "as 0.88");
}
END_TEST

START_TEST(pages_may_be_unlimited_or_fit)
{
    good("--page-count", "2");
    ck_assert_int_eq(values.pages, 2);
    good("--page-count=unlimited", NULL);
    ck_assert_int_eq(values.pages, PL_OPTION_UNLIMITED);
    good("--page-count", "fit");
    ck_assert_int_eq(values.pages, PL_OPTION_FIT);
    refused("--page-count", "-1", "'-1'", "unlimited or fit");
    refused("--page-count", "-2", "'-2'", "unlimited or fit");
    /* only where the row says so */
    refused("--count", "fit", "'fit'", "from -5 to 100");
    refused("--page-count", "1", "'1'", "from 2 to 1000");
    refused("--page-count", "Unlimited", "'Unlimited'", "unlimited or fit");
}
END_TEST

START_TEST(choices_are_words_and_lists_are_numbers)
{
    good("--color", "blue");
    ck_assert_int_eq(values.color, 2);
    refused("--color", "gree", "'gree'", "red, green or blue");
    refused("--color", "Green", "'Green'", "red, green or blue");

    good("--widths", "64,1,7");
    ck_assert_uint_eq(values.widths.n, 3);
    ck_assert_int_eq(values.widths.items[0], 64);
    ck_assert_int_eq(values.widths.items[2], 7);
    refused("--widths", "1,65", "'1,65'", "from 1 to 64");
    refused("--widths", "1,,2", "'1,,2'", "1,2,4");
    refused("--widths", "1,", "'1,'", "1,2,4");
    refused("--widths", "1 2", "'1 2'", "1,2,4");
    ck_assert_uint_eq(values.widths.n, 3);
}
END_TEST

START_TEST(the_last_of_a_repeated_option_wins_but_lists_grow)
{
    const char *argv[] = {"--count=1", "--fault=a", "--count=2", "-f",
                          "b",         "--name=x",  "--name=y"};
    pl_option_result_t result =
        pl_option_arguments(&SAMPLE_TABLE, COOK, 7, argv, &values, &words);

    ck_assert_int_eq(result.verdict, PL_OPTION_OKAY);
    ck_assert_int_eq(values.count, 2);
    ck_assert_str_eq(values.name, "y");
    ck_assert_uint_eq(values.faults.n, 2);
    ck_assert_str_eq(values.faults.items[0], "a");
    ck_assert_str_eq(values.faults.items[1], "b");
}
END_TEST

START_TEST(words_and_the_double_dash_are_kept_apart)
{
    const char *argv[] = {"one", "--count", "4", "-", "--", "--count", "-c"};
    pl_option_result_t result =
        pl_option_arguments(&SAMPLE_TABLE, COOK, 7, argv, &values, &words);

    ck_assert_int_eq(result.verdict, PL_OPTION_OKAY);
    ck_assert_int_eq(values.count, 4);
    ck_assert_uint_eq(words.n, 4);
    ck_assert_str_eq(words.items[0], "one");
    ck_assert_str_eq(words.items[1], "-");
    ck_assert_str_eq(words.items[2], "--count");
    ck_assert_str_eq(words.items[3], "-c");
}
END_TEST

START_TEST(unknown_options_name_the_nearest)
{
    refused("--cuont", "3", "unknown option --cuont", "did you mean --count?");
    refused("--colour=red", NULL, "--colour", "did you mean --color?");
    refused("--page_count=3", NULL, "--page_count", "--page-count?");
    refused("-x", NULL, "unknown option -x", "-x");
    refused("--spoons", "3", "--spoons", "it is for: eat");
    ck_assert_ptr_null(strstr(parse("--zzzzzz", NULL, NULL).message, "mean"));
    /* a prefix is not enough: a later option must not change its meaning */
    refused("--cou", "3", "unknown option --cou", "--cou");
}
END_TEST

START_TEST(help_and_version_win_over_mistakes)
{
    ck_assert_int_eq(parse("--nonsense", "--help", NULL).verdict,
                     PL_OPTION_HELP);
    ck_assert_int_eq(parse("--count=x", "-h", NULL).verdict, PL_OPTION_HELP);
    ck_assert_int_eq(parse("-V", NULL, NULL).verdict, PL_OPTION_VERSION);
    ck_assert_int_eq(parse("--version", NULL, NULL).verdict, PL_OPTION_VERSION);
    ck_assert_int_eq(parse("--", "--help", NULL).verdict, PL_OPTION_OKAY);
}
END_TEST

static pl_option_result_t config(const char *text)
{
    return pl_option_config(&SAMPLE_TABLE, "kit.conf", text, &values);
}

static void config_refused(const char *text, const char *says)
{
    pl_option_result_t result = config(text);

    ck_assert_msg(result.verdict == PL_OPTION_BAD, "%s was taken", text);
    ck_assert_int_eq(result.status, PL_ERR_INPUT);
    ck_assert_msg(strstr(result.message, says) != NULL, "'%s' lacks '%s'",
                  result.message, says);
}

START_TEST(a_file_sets_by_lines)
{
    pl_option_result_t result = config("# comment\n"
                                       "\n"
                                       "  count =  11  \n"
                                       "name=a b # no comment\r\n"
                                       "fault = one\nfault = two\n"
                                       "hot = true\n"
                                       "spoons = 4\n" /* another verb's */
                                       "color = red");

    ck_assert_msg(result.verdict == PL_OPTION_OKAY, "%s", result.message);
    ck_assert_int_eq(values.count, 11);
    ck_assert_str_eq(values.name, "a b # no comment");
    ck_assert_uint_eq(values.faults.n, 2);
    ck_assert(values.hot);
    ck_assert_int_eq(values.color, 0);
}
END_TEST

START_TEST(a_file_says_where_it_is_wrong)
{
    config_refused("count = 1\ncuont = 2\n", "kit.conf:2: unknown option");
    config_refused("count = 1\ncuont = 2\n", "did you mean 'count'?");
    config_refused("count = 1\n\ncount = 2\n", "kit.conf:3: 'count' is given");
    config_refused("count = 1000\n", "kit.conf:1: count: cannot use '1000'");
    config_refused("count\n", "kit.conf:1: 'count' is no `name = value`");
    config_refused("count =\n", "kit.conf:1: count: the value is empty");
    config_refused("--count = 1\n", "kit.conf:1: unknown option '--count'");
    config_refused("= 1\n", "kit.conf:1: unknown option ''");
}
END_TEST

START_TEST(later_layers_win)
{
    const char *const environment[] = {"HOME=/",
                                       "KIT_COUNT=21",
                                       "KIT_PAGE_COUNT=22",
                                       "KIT_FAULT=env",
                                       "KIT_SPOONS=bad for another verb",
                                       NULL};
    pl_option_result_t result;

    ck_assert_int_eq(
        config("count = 11\npage-count = 12\nsize = 13\nfault = a\nfault = b\n")
            .verdict,
        PL_OPTION_OKAY);
    result = pl_option_environment(&SAMPLE_TABLE, COOK, environment, &values);
    ck_assert_msg(result.verdict == PL_OPTION_OKAY, "%s", result.message);
    ck_assert_str_eq(result.message, "");
    ck_assert_int_eq(values.count, 21);
    ck_assert_uint_eq(values.faults.n, 1); /* replaced, not appended to */
    good("--count", "31");
    ck_assert_int_eq(values.count, 31);
    ck_assert_int_eq(values.pages, 22);
    ck_assert_int_eq(values.size, 13);
    ck_assert_int_eq(values.wait, 5000000);
    ck_assert_str_eq(values.faults.items[0], "env");
}
END_TEST

START_TEST(unknown_variables_are_warned_about_and_reserved_ones_are_not)
{
    const char *const environment[] = {
        "KIT_DEBUG=1", "KIT_CUONT=1", "KITCHEN=1", "KIT_X", "KIT_OTHER=", NULL};
    pl_option_result_t result =
        pl_option_environment(&SAMPLE_TABLE, COOK, environment, &values);

    ck_assert_int_eq(result.verdict, PL_OPTION_OKAY);
    ck_assert_str_eq(result.message,
                     "no option is set by the variable KIT_CUONT, KIT_OTHER");
}
END_TEST

START_TEST(bad_variables_are_refused_by_name)
{
    const char *const bad[]   = {"KIT_COUNT=many", NULL};
    const char *const empty[] = {"KIT_COUNT=", NULL};
    pl_option_result_t result =
        pl_option_environment(&SAMPLE_TABLE, COOK, bad, &values);

    ck_assert_int_eq(result.verdict, PL_OPTION_BAD);
    ck_assert_str_eq(result.message,
                     "variable KIT_COUNT: cannot use 'many'; expected an "
                     "integer from -5 to 100");
    result = pl_option_environment(&SAMPLE_TABLE, COOK, empty, &values);
    ck_assert_int_eq(result.verdict, PL_OPTION_BAD);
}
END_TEST

/* What is recorded, given again, is the same configuration. */
START_TEST(recorded_values_parse_to_themselves)
{
    const char *argv[] = {"--count=8",      "--size=3MiB",   "--wait=1500us",
                          "--page-count=7", "--color=blue",  "--widths=4,5",
                          "--hot",          "--name=secret", "--fault=x",
                          "--room=1.5"};
    pl_option_pair_t *pairs = NULL;
    pl_option_pair_t *again = NULL;
    size_t n_again          = 0;
    size_t n                = 0;
    char text[512]          = "";

    ck_assert_int_eq(
        pl_option_arguments(&SAMPLE_TABLE, COOK, 10, argv, &values, &words)
            .verdict,
        PL_OPTION_OKAY);
    ck_assert_int_eq(
        pl_option_effective(&SAMPLE_TABLE, COOK, &values, &pairs, &n), PL_OK);
    ck_assert_uint_eq(n, 10); /* neither `name` nor the other verb's */
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(text);

        ck_assert_str_ne(pairs[i].name, "name");
        (void)snprintf(text + used, sizeof(text) - used, "%s = %s\n",
                       pairs[i].name, pairs[i].value);
    }
    start();
    ck_assert_msg(config(text).verdict == PL_OPTION_OKAY, "%s", text);
    ck_assert_int_eq(
        pl_option_effective(&SAMPLE_TABLE, COOK, &values, &again, &n_again),
        PL_OK);
    ck_assert_uint_eq(n, n_again);
    for (size_t i = 0; i < n; i++) {
        ck_assert_str_eq(pairs[i].name, again[i].name);
        ck_assert_str_eq(pairs[i].value, again[i].value);
    }
    ck_assert_str_eq(pairs[2].value, "0");
    ck_assert_str_eq(pairs[3].value, "3MiB");
    ck_assert_str_eq(pairs[5].value, "1500us");
    pl_option_pairs_free(pairs, n);
    pl_option_pairs_free(again, n_again);
}
END_TEST

START_TEST(help_has_every_option_of_the_verb_and_short_lines)
{
    char *text     = NULL;
    size_t longest = 0;

    ck_assert_int_eq(pl_option_help(&SAMPLE_TABLE, COOK, &text), PL_OK);
    for (size_t i = 0; i < SAMPLE_TABLE.n; i++) {
        char name[64];

        (void)snprintf(name, sizeof(name), "--%s",
                       SAMPLE_TABLE.options[i].name);
        ck_assert_int_eq(strstr(text, name) != NULL,
                         (SAMPLE_TABLE.options[i].verbs & COOK) != 0);
    }
    ck_assert_ptr_nonnull(strstr(text, "-c, --count POTS"));
    ck_assert_ptr_nonnull(strstr(text, "from -5 to 100; default 3 pots;"));
    ck_assert_ptr_nonnull(strstr(text, "KIT_PAGE_COUNT)"));
    ck_assert_ptr_nonnull(strstr(text, "--color red|green|blue"));
    ck_assert_ptr_nonnull(strstr(text, "-f, --fault burn|spill:N\n"));
    ck_assert_ptr_nonnull(strstr(text, "--name NAME\n"));
    for (const char *line = text; *line != '\0';) {
        size_t length = strcspn(line, "\n");

        longest = length > longest ? length : longest;
        line += length + 1;
    }
    ck_assert_uint_lt(longest, 80);
    free(text);
}
END_TEST

/* Random argument lists made of pieces that mean something.  Whatever comes,
 * the parser ends, says why if it refuses, and leaves values within range; the
 * same list gives the same verdict again. */
static const char *random_argument(pl_rng_t *rng, char *buffer, size_t size)
{
    static const char *const PIECES[] = {"--",
                                         "-",
                                         "=",
                                         "count",
                                         "hot",
                                         "size",
                                         "wait",
                                         "page-count",
                                         "name",
                                         "color",
                                         "widths",
                                         "fault",
                                         "spoons",
                                         "any-number",
                                         "c",
                                         "f",
                                         "h",
                                         "0",
                                         "-1",
                                         "9",
                                         "64",
                                         "9223372036854775807",
                                         "99999999999999999999",
                                         "KiB",
                                         "TiB",
                                         "ms",
                                         ",",
                                         "red",
                                         "unlimited",
                                         " ",
                                         "#",
                                         "\xff",
                                         "true",
                                         "%s%n"};
    size_t n_pieces                   = sizeof(PIECES) / sizeof(PIECES[0]);
    size_t used                       = 0;

    buffer[0] = '\0';
    if (pl_rng_below(rng, 2) == 0) { /* often the shape of an option */
        used = (size_t)snprintf(buffer, size, "--%s",
                                PIECES[3 + pl_rng_below(rng, 11)]);
        if (pl_rng_below(rng, 2) == 0) {
            used += (size_t)snprintf(buffer + used, size - used, "=");
        }
    }
    for (uint64_t i = pl_rng_below(rng, 4); i > 0; i--) {
        used += (size_t)snprintf(buffer + used, size - used, "%s",
                                 PIECES[pl_rng_below(rng, n_pieces)]);
    }
    return buffer;
}

static void check_invariants(void)
{
    ck_assert_int_ge(values.count, -5);
    ck_assert_int_le(values.count, 100);
    ck_assert_int_ge(values.size, 0);
    ck_assert_int_ge(values.wait, 0);
    ck_assert(values.pages == PL_OPTION_UNLIMITED ||
              (values.pages >= 2 && values.pages <= 1000));
    ck_assert_int_ge(values.color, 0);
    ck_assert_int_le(values.color, 2);
    for (size_t i = 0; i < values.widths.n; i++) {
        ck_assert_int_ge(values.widths.items[i], 1);
        ck_assert_int_le(values.widths.items[i], 64);
    }
}

START_TEST(random_arguments_never_get_out_of_hand)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed("random arguments"));
    int n_okay   = 0;

    for (int round = 0; round < 50000; round++) {
        char buffers[6][256];
        const char *argv[6];
        pl_option_result_t first, second;
        int argc = (int)pl_rng_below(&rng, 7);

        for (int i = 0; i < argc; i++) {
            argv[i] = random_argument(&rng, buffers[i], sizeof(buffers[i]));
        }
        start();
        words.n = 0;
        first   = pl_option_arguments(&SAMPLE_TABLE, COOK, argc, argv, &values,
                                      &words);
        check_invariants();
        ck_assert_int_eq(first.verdict == PL_OPTION_BAD,
                         first.message[0] != '\0');
        ck_assert_int_eq(first.verdict == PL_OPTION_BAD,
                         first.status == PL_ERR_ARGUMENT);
        ck_assert_uint_le(words.n, (size_t)argc);
        n_okay += (first.verdict == PL_OPTION_OKAY) && (argc > 0);
        start();
        second = pl_option_arguments(&SAMPLE_TABLE, COOK, argc, argv, &values,
                                     &words);
        ck_assert_int_eq(first.verdict, second.verdict);
        ck_assert_str_eq(first.message, second.message);
    }
    ck_assert_int_gt(n_okay, 500); /* not all of it is refused at once */
}
END_TEST

START_TEST(random_files_never_get_out_of_hand)
{
    pl_rng_t rng = pl_rng_seed(pl_test_seed("random files"));

    for (int round = 0; round < 20000; round++) {
        char text[1024] = "";
        size_t used     = 0;
        pl_option_result_t result;

        for (uint64_t i = pl_rng_below(&rng, 8); i > 0; i--) {
            char piece[256];
            const char *line = random_argument(&rng, piece, sizeof(piece));

            line += strncmp(line, "--", 2) == 0 ? 2 : 0;
            used +=
                (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", line,
                                 pl_rng_below(&rng, 4) > 0 ? "\n" : "");
            used = used < sizeof(text) ? used : sizeof(text) - 1;
        }
        start();
        result = config(text);
        check_invariants();
        if (result.verdict == PL_OPTION_BAD) {
            ck_assert_int_eq(result.status, PL_ERR_INPUT);
            ck_assert_ptr_nonnull(strstr(result.message, "kit.conf:"));
        }
    }
}
END_TEST

static TCase *values_case(void)
{
    TCase *tcase = tcase_create("values");

    tcase_add_checked_fixture(tcase, start, finish);
    tcase_add_test(tcase, defaults_are_the_text_of_the_table);
    tcase_add_test(tcase, both_spellings_and_the_letter_mean_the_same);
    tcase_add_test(tcase, flags_take_a_value_only_when_attached);
    tcase_add_test(tcase, integers_are_whole_and_in_range);
    tcase_add_test(tcase, sizes_and_times_have_suffixes);
    tcase_add_test(tcase, gigabytes_are_exact);
    tcase_add_test(tcase, fractions_are_of_one);
    tcase_add_test(tcase, pages_may_be_unlimited_or_fit);
    tcase_add_test(tcase, choices_are_words_and_lists_are_numbers);
    return tcase;
}

static TCase *layers_case(void)
{
    TCase *tcase = tcase_create("layers");

    tcase_add_checked_fixture(tcase, start, finish);
    tcase_add_test(tcase, the_last_of_a_repeated_option_wins_but_lists_grow);
    tcase_add_test(tcase, words_and_the_double_dash_are_kept_apart);
    tcase_add_test(tcase, unknown_options_name_the_nearest);
    tcase_add_test(tcase, help_and_version_win_over_mistakes);
    tcase_add_test(tcase, a_file_sets_by_lines);
    tcase_add_test(tcase, a_file_says_where_it_is_wrong);
    tcase_add_test(tcase, later_layers_win);
    tcase_add_test(
        tcase, unknown_variables_are_warned_about_and_reserved_ones_are_not);
    tcase_add_test(tcase, bad_variables_are_refused_by_name);
    tcase_add_test(tcase, recorded_values_parse_to_themselves);
    tcase_add_test(tcase, help_has_every_option_of_the_verb_and_short_lines);
    return tcase;
}

static TCase *random_case(void)
{
    TCase *tcase = tcase_create("random");

    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, start, finish);
    tcase_add_test(tcase, random_arguments_never_get_out_of_hand);
    tcase_add_test(tcase, random_files_never_get_out_of_hand);
    return tcase;
}

PL_CHECK_MAIN("option", values_case(), layers_case(), random_case())
