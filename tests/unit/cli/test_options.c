/* cli/options.h: the project's own table, its file, and what options together
 * must satisfy; cli/launch.h: who started us; cli/table.h. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "cache/policy.h"
#include "cli/idle.h"
#include "cli/launch.h"
#include "cli/options.h"
#include "cli/table.h"
#include "engine/event_log.h"
#include "support/check_main.h"

static pl_options_t options;
static pl_option_words_t words;
static char heard[1024];

static void hear(void *context, pl_log_level_t level, const char *line)
{
    (void)context;
    (void)level;
    ck_assert_msg(heard[0] == '\0', "more than one line: %s", line);
    (void)snprintf(heard, sizeof(heard), "%s", line);
}

static const pl_log_t LOG = {hear, NULL, PL_LOG_INFO};

static void start(void)
{
    memset(&options, 0, sizeof(options));
    heard[0] = '\0';
}

static void finish(void)
{
    pl_options_free(&options);
    PL_ARRAY_FREE(&words);
}

/* Load arguments for `run`, given as one string with blanks between them. */
static pl_option_result_t load(const char *arguments,
                               const char *const *environment)
{
    static char copy[512];
    const char *argv[32];
    int argc = 0;

    (void)snprintf(copy, sizeof(copy), "%s", arguments);
    for (char *word = strtok(copy, " "); word != NULL;
         word       = strtok(NULL, " ")) {
        argv[argc++] = word;
    }
    return pl_options_load(PL_VERB_RUN, argc, argv, environment, &options,
                           &words);
}

static const char *const NOTHING[] = {NULL};

static pl_status_t check(const char *arguments)
{
    pl_option_result_t result = load(arguments, NOTHING);

    ck_assert_msg(result.verdict == PL_OPTION_OKAY, "%s", result.message);
    options.ranks = options.ranks == 0 ? 1 : options.ranks;
    heard[0]      = '\0';
    return pl_options_check(&options, &LOG);
}

/* Refused in one line that names the option and contains the remedy. */
static void refused(const char *arguments, const char *option,
                    const char *remedy)
{
    ck_assert_int_eq(check(arguments), PL_ERR_ARGUMENT);
    ck_assert_msg(strncmp(heard, "option --", 9) == 0, "%s", heard);
    ck_assert_msg(strstr(heard, option) != NULL, "'%s' lacks '%s'", heard,
                  option);
    ck_assert_msg(strstr(heard, remedy) != NULL, "'%s' lacks '%s'", heard,
                  remedy);
}

START_TEST(every_row_of_the_table_is_sound)
{
    const pl_option_table_t *table = pl_options_table();

    ck_assert_uint_le(table->n, PL_OPTION_MAX_ROWS);
    for (size_t i = 0; i < table->n; i++) {
        const pl_option_t *o = &table->options[i];

        for (const char *c = o->name; *c != '\0'; c++) {
            ck_assert(islower((unsigned char)*c) || (*c == '-'));
        }
        ck_assert_ptr_nonnull(o->group);
        ck_assert_uint_ne(o->verbs, 0);
        ck_assert_int_eq(o->help[strlen(o->help) - 1], '.');
        ck_assert_uint_lt(o->offset, sizeof(pl_options_t));
        if ((o->kind == PL_OPTION_STRING) || (o->kind == PL_OPTION_STRINGS) ||
            (o->kind == PL_OPTION_INTEGERS)) {
            ck_assert_ptr_nonnull(o->unit);
        } else {
            ck_assert_ptr_nonnull(o->fallback);
            ck_assert_int_le(o->min, o->max);
        }
        for (size_t j = 0; j < i; j++) {
            const pl_option_t *other = &table->options[j];

            ck_assert_str_ne(o->name, other->name);
            ck_assert_uint_ne(o->offset, other->offset);
            ck_assert(o->letter == 0 || o->letter != other->letter);
        }
    }
}
END_TEST

START_TEST(paths_and_verbosity_are_not_recorded)
{
    static const char *const UNSAID[] = {"trace",  "merge",     "snapshot",
                                         "config", "log-level", "json"};
    pl_option_pair_t *pairs           = NULL;
    size_t n                          = 0;

    ck_assert_int_eq(load("", NOTHING).verdict, PL_OPTION_OKAY);
    ck_assert_int_eq(pl_option_effective(pl_options_table(), PL_VERB_RUN,
                                         &options, &pairs, &n),
                     PL_OK);
    ck_assert_uint_gt(n, 20);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < sizeof(UNSAID) / sizeof(UNSAID[0]); j++) {
            ck_assert_str_ne(pairs[i].name, UNSAID[j]);
        }
    }
    pl_option_pairs_free(pairs, n);
}
END_TEST

/* 9.20: what cannot work is refused with a message that names the fix. */
START_TEST(options_that_do_not_fit_together_are_refused)
{
    refused("--chunk 100", "--chunk 100", "use --chunk 64");
    refused("--chunk 32", "--chunk 32", "use --chunk 64");
    refused("--page-size 48 --chunk 8192", "--chunk 8192", "--chunk 8160");
    refused("--decode-ranks 1", "--decode-ranks 1", "--ranks 2");
    refused("--ranks 4 --decode-ranks 4", "--decode-ranks 4", "--ranks 5");
    refused("--ranks 128", "--ranks 128", "--ranks 127");
    refused("--ranks 200 --decode-ranks 72", "--ranks 200", "--ranks 199");
    refused("--device-pages unlimited", "--device-pages", "--executor cost");
    refused("--decode-host-pages unlimited", "--decode-host-pages",
            "--executor cost");
    refused("--ranks 4 --device-pages 600000000", "--device-pages 600000000",
            "use 536870911");
    refused("--ownership layers", "'layers'", "interleave:K");
    refused("--ownership layer", "--ownership layer", "pagelane sim");
    refused("--ownership interleave:0", "'interleave:0'", "interleave:K");
    refused("--events ring:0", "'ring:0'", "ring:N with N from 1");
    refused("--events ring:-1", "'ring:-1'", "ring:N with N from 1");
    refused("--events ring:1k", "'ring:1k'", "ring:N with N from 1");
    refused("--events ring:", "'ring:'", "ring:N with N from 1");
    refused("--events ring:99999999999", "ring:N", "2147483647");
    refused("--events ring", "'ring'", "off, all or ring:N");
    refused("--events some", "'some'", "off, all or ring:N");
    refused("--snapshot f --snapshot-every 0s", "'0s'", "1000req, 30s");
    refused("--snapshot f --snapshot-every 5", "'5'", "1000req, 30s");
    refused("--snapshot f --snapshot-every -1req", "'-1req'", "1000req, 30s");
    refused("--snapshot f --snapshot-every 1.5s", "'1.5s'", "1000req, 30s");
    refused("--snapshot-every 5req", "--snapshot-every 5req", "--snapshot,");
    refused("--ranks 200 --decode-ranks 128", "--decode-ranks 128", "127");
    refused("--executor model", "--executor model", "--model");
    refused("--weights random:1", "--weights", "--model");
    refused("--executor stamp --model m", "--model", "--executor stamp");
    refused("--expect f", "--expect", "--model");
    refused("--model m --expect f --kv-dtype fp8", "float32", "--kv-dtype f32");
    refused("--stamp-row-bytes 66", "--stamp-row-bytes 66", "use 68");
}
END_TEST

START_TEST(options_that_fit_together_are_taken)
{
    ck_assert_int_eq(check(""), PL_OK);
    ck_assert_int_eq(options.ownership.kind, PL_OWNERSHIP_ZIGZAG);
    ck_assert_int_eq(options.executor, PL_OPT_EXECUTOR_STAMP);
    ck_assert_int_eq(check("--model m"), PL_OK);
    ck_assert_int_eq(options.executor, PL_OPT_EXECUTOR_MODEL);
    ck_assert_int_eq(check("--model m --executor cost"), PL_OK);
    ck_assert_int_eq(options.executor, PL_OPT_EXECUTOR_COST);
    ck_assert_int_eq(check("--ranks 127"), PL_OK);
    ck_assert_int_eq(check("--ranks 200 --decode-ranks 73"), PL_OK);
    ck_assert_int_eq(check("--chunk 64 --page-size 1"), PL_OK);
    ck_assert_int_eq(check("--executor cost --device-pages unlimited "
                           "--host-pages unlimited --ranks 8"),
                     PL_OK);
    ck_assert(options.most_events == PL_EVENTS_ALL);
    ck_assert_int_eq(check("--events off"), PL_OK);
    ck_assert_int_eq(options.most_events, 0);
    ck_assert_int_eq(check("--events ring:1"), PL_OK);
    ck_assert_int_eq(options.most_events, 1);
    ck_assert_int_eq(check("--events ring:2147483647"), PL_OK);
    ck_assert_int_eq(options.most_events, INT32_MAX);
    ck_assert_int_eq(check("--snapshot f --snapshot-every 7req"), PL_OK);
    ck_assert_int_eq(options.snapshot_every_requests, 7);
    ck_assert_int_eq(options.snapshot_every_ns, 0);
    ck_assert_int_eq(check("--snapshot f --snapshot-every 500ms"), PL_OK);
    ck_assert_int_eq(options.snapshot_every_requests, 0);
    ck_assert_int_eq(options.snapshot_every_ns, 500000000);
    ck_assert_int_eq(check("--ownership interleave:3"), PL_OK);
    ck_assert_int_eq(options.ownership.kind, PL_OWNERSHIP_INTERLEAVE);
    ck_assert_int_eq(options.ownership.width, 3);
    ck_assert_int_eq(check("--ownership replicated --ranks 4"), PL_OK);
    ck_assert_int_eq(options.ownership.kind, PL_OWNERSHIP_REPLICATED);
}
END_TEST

START_TEST(single_values_have_limits)
{
    static const char *const BAD[] = {
        "--page-size 0",    "--page-size 1025",     "--page-size",
        "--device-pages 1", "--host-pages -1",      "--pace fast",
        "--executor gpu",   "--verify all",         "--seed -1",
        "--passes 0",       "--max-batch 0",        "--block-tokens 513",
        "--limit -2",       "--write-policy write", "--comm ucx",
        "--explore 1001",   "--log-level loud",     "--stamp-layers 0"};

    for (size_t i = 0; i < sizeof(BAD) / sizeof(BAD[0]); i++) {
        pl_option_result_t result = load(BAD[i], NOTHING);

        ck_assert_msg(result.verdict == PL_OPTION_BAD, "%s", BAD[i]);
        ck_assert_ptr_nonnull(strstr(result.message, "; expected "));
    }
}
END_TEST

static const char *write_config(const char *text)
{
    static char path[] = "/tmp/pagelane-test-XXXXXX";
    static bool made   = false;
    FILE *file;

    if (!made) {
        int fd = mkstemp(path);

        ck_assert_int_ge(fd, 0);
        (void)close(fd);
        made = true;
    }
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
    return path;
}

START_TEST(the_file_is_named_by_option_or_variable)
{
    const char *path = write_config("page-size = 32\nseed = 5\nmax-new = 6\n");
    char variable[64];
    char argument[64];
    const char *environment[] = {"PAGELANE_SEED=7", variable, NULL};
    const char *seed_only[]   = {"PAGELANE_SEED=7", NULL};

    (void)snprintf(variable, sizeof(variable), "PAGELANE_CONFIG=%s", path);
    (void)snprintf(argument, sizeof(argument), "--config %s --max-new 8", path);
    for (int i = 0; i < 2; i++) {
        pl_option_result_t result = i == 0 ? load("--max-new 8", environment)
                                           : load(argument, seed_only);

        ck_assert_msg(result.verdict == PL_OPTION_OKAY, "%s", result.message);
        ck_assert_int_eq(options.page_size, 32); /* file */
        ck_assert_int_eq(options.seed, 7);       /* variable */
        ck_assert_int_eq(options.max_new, 8);    /* command line */
        ck_assert_int_eq(options.chunk, 8192);   /* default */
    }
    (void)unlink(path);
    ck_assert_int_eq(load(argument, NOTHING).status, PL_ERR_INPUT);
    ck_assert_int_eq(load("--config /", NOTHING).status, PL_ERR_INPUT);
}
END_TEST

START_TEST(launchers_are_known_by_their_variables)
{
    static const char *const ALL[] = {"OMPI_COMM_WORLD_RANK",
                                      "OMPI_COMM_WORLD_SIZE",
                                      "PMI_RANK",
                                      "PMI_SIZE",
                                      "PMIX_RANK",
                                      "SLURM_NTASKS"};
    pl_cli_world_t world;

    for (size_t i = 0; i < sizeof(ALL) / sizeof(ALL[0]); i++) {
        unsetenv(ALL[i]);
    }
    world = pl_cli_world();
    ck_assert(!world.launched);
    ck_assert_int_eq(world.rank, 0);
    ck_assert_int_eq(world.size, 1);

    setenv("SLURM_NTASKS", "4", 1); /* a batch job alone starts no ranks */
    ck_assert(!pl_cli_world().launched);

    for (int i = 0; i < 6; i += 2) {
        setenv(ALL[i], "2", 1);
        setenv(ALL[i + 1], "3", 1);
        world = pl_cli_world();
        ck_assert(world.launched);
        ck_assert_int_eq(world.rank, 2);
        ck_assert_int_eq(world.size, 3);
        unsetenv(ALL[i]);
        unsetenv(ALL[i + 1]);
    }
}
END_TEST

START_TEST(mpirun_that_is_missing_is_one_line_with_the_remedy)
{
    char *argv[] = {"pagelane", "run", NULL};

    setenv("PATH", "/nowhere", 1);
    ck_assert_int_eq(pl_cli_launch_mpirun(3, 2, argv, &LOG), 4);
    ck_assert_ptr_nonnull(strstr(heard, "--ranks 3"));
    ck_assert_ptr_nonnull(strstr(heard, "install openmpi-bin"));
}
END_TEST

START_TEST(what_the_user_set_for_mpirun_stays)
{
    setenv("OMPI_MCA_mpi_yield_when_idle", "0", 1);
    unsetenv("OMPI_MCA_rmaps_base_oversubscribe");
    pl_cli_mpirun_environment();
    ck_assert_str_eq(getenv("OMPI_MCA_mpi_yield_when_idle"), "0");
    ck_assert_str_eq(getenv("OMPI_MCA_rmaps_base_oversubscribe"), "1");
    ck_assert_int_eq(getenv("OMPI_ALLOW_RUN_AS_ROOT") != NULL, geteuid() == 0);
}
END_TEST

START_TEST(tables_align_and_leave_no_blanks_at_line_ends)
{
    static const char EXPECTED[] = "rank  pages  state\n"
                                   "----  -----  -----\n"
                                   "0         7  ok\n"
                                   "10      100\n"
                                   "-1           x y z\n";
    pl_table_t *table            = pl_table_open("rank<,pages>,state<");
    char buffer[256]             = "";
    FILE *file                   = fmemopen(buffer, sizeof(buffer), "w");

    ck_assert_ptr_nonnull(file);
    pl_table_cell(table, "%d", 0);
    pl_table_cell(table, "%d", 7);
    pl_table_cell(table, "ok");
    pl_table_cell(table, "%d", 10);
    pl_table_cell(table, "%d", 100);
    pl_table_cell(table, "%s", "");
    pl_table_cell(table, "%d", -1);
    pl_table_cell(table, "%s", "");
    pl_table_cell(table, "x y z");
    ck_assert_int_eq(pl_table_print(table, file), PL_OK);
    fclose(file);
    pl_table_close(table);
    ck_assert_str_eq(buffer, EXPECTED);
    ck_assert_int_eq(pl_table_print(NULL, stdout), PL_ERR_MEMORY);
}
END_TEST

/* Options of run that always do something, or are refused where they cannot. */
static const char *const ALWAYS[] = {
    /* the requests, and who is there */
    "trace", "merge", "limit", "offset", "block-tokens", "trace-block-size",
    "passes", "pace", "max-new", "seed", "ranks", "decode-ranks", "comm",
    "evict",
    /* how much */
    "page-size", "chunk", "device-pages", "host-pages", "host-gb",
    "decode-pages", "decode-host-pages", "max-batch",
    /* refused where there is nothing for them */
    "executor", "weights", "expect", "storage", "storage-pages", "storage-gb",
    "from", "resume", "snapshot", "snapshot-every", "hardware", "calibrate",
    "slo",
    /* checks, and what is said */
    "explore", "json", "log-level", "config",
    /* what never happened is told after the run */
    "inject"};

static bool is_always(const char *name)
{
    for (size_t i = 0; i < sizeof(ALWAYS) / sizeof(ALWAYS[0]); i++) {
        if (strcmp(ALWAYS[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* Nobody adds an option of run without a thought of when it is idle. */
START_TEST(options_without_effect_are_known)
{
    const pl_option_table_t *table = pl_options_table();
    size_t n                       = 0;
    const pl_idle_option_t *idle   = pl_idle_options(&n);
    size_t n_known                 = 0;

    for (size_t i = 0; i < table->n; i++) {
        const pl_option_t *o = &table->options[i];
        bool is_idle_once    = false;

        for (size_t k = 0; k < n; k++) {
            bool is_it = strcmp(idle[k].option, o->name) == 0;

            ck_assert(!is_it || ((idle[k].verb & o->verbs) != 0));
            is_idle_once |= is_it && ((idle[k].verb & PL_VERB_RUN) != 0);
            n_known += is_it ? 1 : 0;
        }
        if ((o->verbs & PL_VERB_RUN) != 0) {
            ck_assert_msg(is_idle_once != is_always(o->name), "--%s", o->name);
        }
    }
    ck_assert_uint_eq(n_known, n);
}
END_TEST

static const pl_option_t *row(const char *name)
{
    const pl_option_table_t *table = pl_options_table();

    for (size_t i = 0; i < table->n; i++) {
        if (strcmp(table->options[i].name, name) == 0) {
            return &table->options[i];
        }
    }
    ck_abort_msg("there is no --%s", name);
    return NULL;
}

/* The number of a word of --evict is that of its policy. */
START_TEST(words_of_evict_are_the_policies_in_their_order)
{
    const pl_option_t *evict = row("evict");
    int n                    = 0;

    for (; pl_policy_at(n) != NULL; n++) {
        ck_assert_ptr_nonnull(evict->words[n]);
        ck_assert_str_eq(evict->words[n], pl_policy_at(n)->name);
    }
    ck_assert_ptr_null(evict->words[n]);
    ck_assert_str_eq(evict->fallback, pl_policy_at(0)->name);
    ck_assert_int_eq(load("--evict belady", NOTHING).verdict, PL_OPTION_OKAY);
    ck_assert_str_eq(pl_policy_at(options.evict)->name, "belady");
}
END_TEST

static TCase *options_case(void)
{
    TCase *tcase = tcase_create("options");

    tcase_add_checked_fixture(tcase, start, finish);
    tcase_add_test(tcase, every_row_of_the_table_is_sound);
    tcase_add_test(tcase, paths_and_verbosity_are_not_recorded);
    tcase_add_test(tcase, options_that_do_not_fit_together_are_refused);
    tcase_add_test(tcase, options_that_fit_together_are_taken);
    tcase_add_test(tcase, options_without_effect_are_known);
    tcase_add_test(tcase, words_of_evict_are_the_policies_in_their_order);
    tcase_add_test(tcase, single_values_have_limits);
    tcase_add_test(tcase, the_file_is_named_by_option_or_variable);
    return tcase;
}

static TCase *process_case(void)
{
    TCase *tcase = tcase_create("process");

    tcase_add_checked_fixture(tcase, start, finish);
    tcase_add_test(tcase, launchers_are_known_by_their_variables);
    tcase_add_test(tcase, mpirun_that_is_missing_is_one_line_with_the_remedy);
    tcase_add_test(tcase, what_the_user_set_for_mpirun_stays);
    tcase_add_test(tcase, tables_align_and_leave_no_blanks_at_line_ends);
    return tcase;
}

PL_CHECK_MAIN("cli", options_case(), process_case())
