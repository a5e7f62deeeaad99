#include "cli/cli.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pagelane/cli.h>
#include <pagelane/version.h>

#include "base/array.h"
#include "base/text.h"
#include "cli/hardware.h"
#include "cli/idle.h"
#include "cli/list_devices.h"
#include "cli/sweep_grid.h"
#include "cli/trace_file.h"
#include "verify/inject.h"

extern char **environ;

enum { EXIT_USAGE = 2 };

static const char INSPECT_DETAILS[] =
    "  requests   what became of each request\n"
    "  nodes      the prefix tree: tiers, owners as runs (0-2x3 is 0 0 0 1 1 "
    "1\n"
    "             2 2 2), locks, hits\n"
    "  lanes      free pages by tier and lane, over time\n"
    "  page G     the lives of a page of the device tier, or of --tier host\n"
    "  why R      why pages of request R were missed, for whom they were\n"
    "             evicted, and how many pages per rank would have been "
    "enough:\n"
    "             the LRU stack distance in this run's own demand, page by "
    "page\n"
    "             (docs/inspect.md); what another run would do may differ\n"
    "  diff FILE  where the two part: configuration first, then layout,\n"
    "             requests, events, nodes, counters, lanes; exit status 1 if "
    "they\n"
    "             do\n";

static const char BENCH_DETAILS[] =
    "  lanes      taking and freeing pages, beside a plain stack of pages\n"
    "  tree       matching a prompt with the prefix tree, beside memcmp of it\n"
    "  snapshot   a snapshot of 1,000,000 nodes, beside a plain write; "
    "writing\n"
    "             and reading a storage tier, beside plain files\n"
    "  kernels    each CUDA kernel, beside a yardstick of its GPU\n"
    "\n"
    "`bench transfer` and `bench prefill`, verbs of their own, are on ranks.\n";

static const char TRANSFER_DETAILS[] =
    "Each rank gathers the scattered pages of all: an all-gather, in terms of\n"
    "nccl-tests. algbw is the bytes of all ranks over the time of the slowest\n"
    "one; busbw counts those that come from peers. Every byte is checked, and\n"
    "#wrong counts. Beside it, the same bytes by ncclAllGather (--comm nccl),\n"
    "by one copy from each peer (peer), or by copies within own memory.\n";

static const char PREFILL_DETAILS[] =
    "Requests go one at a time through the engine and executor of a run, in\n"
    "time of day: from the tick that admits a prompt until its first token is\n"
    "on the host, on the slowest rank. Each prompt comes cold, again while "
    "the\n"
    "device tier holds it, and once more when others have pushed it out to "
    "the\n"
    "host tier; the run's own counters must say so. On a GPU its own clock "
    "says\n"
    "where the time goes: streams go on beside each other, so shares may add\n"
    "to more than 100 %.\n";

static const char REPORT_DETAILS[] =
    "The page holds everything that it shows and asks nothing of the network. "
    "With\n"
    "--trace, the trace of that run, it has the exact curve of what LRU caches "
    "of any\n"
    "size would hit. Of a sweep it says which point to take, and shows all.\n";

static const char SWEEP_DETAILS[] =
    "Options of a simulation take lists: --cp 1,2,4,8 --host-gb 64,256 are "
    "eight\n"
    "points. Each goes to the next free rank of mpirun (or -n). What is done "
    "is\n"
    "kept in OUTPUT.journal until the file is whole: --resume goes on with "
    "it\n"
    "(docs/sweep.md).\n";

static const pl_verb_t VERBS[] = {
    {.name    = "run",
     .summary = "play a trace through prefill, cache tiers, transfer and "
                "decode",
     .bit     = PL_VERB_RUN,
     .ranked  = true,
     .run     = pl_cli_run},
    {.name    = "sim",
     .summary = "the same in virtual time, without bytes: a whole trace in "
                "seconds",
     .bit     = PL_VERB_SIM,
     .run     = pl_cli_sim},
    {.name    = "sweep",
     .summary = "simulations of a grid of options, on many ranks: the best "
                "first",
     .details = SWEEP_DETAILS,
     .bit     = PL_VERB_SWEEP,
     .swept   = true,
     .run     = pl_cli_sweep},
    {.name      = "trace stats",
     .operands  = "FILE",
     .summary   = "what is in a trace, and what any cache could hit of it",
     .bit       = PL_VERB_TRACE_STATS,
     .max_words = 1,
     .run       = pl_cli_trace_stats},
    {.name      = "trace convert",
     .operands  = "FILE",
     .summary   = "a trace in another format, or without its names",
     .bit       = PL_VERB_TRACE_CONVERT,
     .min_words = 1,
     .max_words = 1,
     .run       = pl_cli_trace_convert},
    {.name    = "trace make",
     .summary = "a trace drawn from a seed",
     .bit     = PL_VERB_TRACE_MAKE,
     .run     = pl_cli_trace_make},
    {.name    = "doctor",
     .summary = "what works on this machine, and the fix for what does not",
     .bit     = PL_VERB_DOCTOR,
     .run     = pl_cli_doctor},
    {.name      = "inspect",
     .operands  = "FILE [requests|nodes|lanes|page G|why R|diff FILE]",
     .summary   = "what is in a snapshot",
     .details   = INSPECT_DETAILS,
     .bit       = PL_VERB_INSPECT,
     .min_words = 1,
     .max_words = 3,
     .run       = pl_cli_inspect},
    {.name     = "check",
     .operands = "PATH...",
     .summary =
         "are snapshots, sweeps, or the folders of storage tiers, whole?",
     .bit       = PL_VERB_CHECK,
     .min_words = 1,
     .max_words = SIZE_MAX,
     .run       = pl_cli_check},
    {.name    = "bench transfer",
     .summary = "how fast pages of all ranks come into a view, beside a "
                "yardstick",
     .details = TRANSFER_DETAILS,
     .bit     = PL_VERB_BENCH_TRANSFER,
     .ranked  = true,
     .run     = pl_cli_bench_transfer},
    {.name    = "bench prefill",
     .summary = "time to the first token: cold, from the device tier, from the "
                "host tier",
     .details = PREFILL_DETAILS,
     .bit     = PL_VERB_BENCH_PREFILL,
     .ranked  = true,
     .run     = pl_cli_bench_prefill},
    {.name      = "bench",
     .operands  = "lanes|tree|snapshot|kernels...",
     .summary   = "how fast a part is, beside a yardstick in the same run",
     .details   = BENCH_DETAILS,
     .bit       = PL_VERB_BENCH,
     .min_words = 1,
     .max_words = 4,
     .run       = pl_cli_bench},
    {.name      = "compare",
     .operands  = "A B",
     .summary   = "the same requests in two snapshots, one by one",
     .bit       = PL_VERB_COMPARE,
     .min_words = 2,
     .max_words = 2,
     .run       = pl_cli_compare},
    {.name = "export",
     .operands =
         "FILE requests|nodes|events|lanes|instances|config|layout|counters|"
         "points",
     .summary   = "a table of a snapshot or of a sweep, as CSV or JSON",
     .bit       = PL_VERB_EXPORT,
     .min_words = 2,
     .max_words = 2,
     .run       = pl_cli_export},
    {.name     = "report",
     .operands = "FILE",
     .summary =
         "a snapshot or a sweep as one HTML page: what limits it, charts",
     .details   = REPORT_DETAILS,
     .bit       = PL_VERB_REPORT,
     .min_words = 1,
     .max_words = 1,
     .run       = pl_cli_report},
    {.name    = "size",
     .summary = "how much KV of a model fits on which hardware, and how to run "
                "it",
     .bit     = PL_VERB_SIZE,
     .run     = pl_cli_size},
};

enum { N_VERBS = sizeof(VERBS) / sizeof(VERBS[0]) };

/* Say one line, on the rank that speaks. */
static int usage_error(const pl_cli_t *cli, const char *format, ...)
    PL_TEXT_FORMAT(2, 3);

static int usage_error(const pl_cli_t *cli, const char *format, ...)
{
    char line[768];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (cli->world.rank == 0) {
        pl_log(&cli->log, PL_LOG_ERROR, "%s (see pagelane%s%s --help)", line,
               cli->verb == NULL ? "" : " ",
               cli->verb == NULL ? "" : cli->verb->name);
    }
    return EXIT_USAGE;
}

/* Help and version. */

static void print_program_help(void)
{
    printf("usage: pagelane VERB [option]...\n\n"
           "Runtime and simulator for context-parallel shared KV caches.\n\n"
           "verbs:\n");
    for (size_t i = 0; i < N_VERBS; i++) {
        printf("  %-14s  %s\n", VERBS[i].name, VERBS[i].summary);
    }
    printf(
        "\npagelane VERB --help   the options of a verb; also: pagelane help "
        "VERB\n"
        "pagelane --version     this version, and what it was built with\n"
        "pagelane --list-devices  what can be opened here, and why not\n\n"
        "exit status: 0 good, 1 verification failed or files differ, 2 usage, "
        "3 bad input,\n"
        "4 resources, 5 ranks disagree or internal\n");
}

static int print_verb_help(const pl_verb_t *verb)
{
    char *text;

    if (pl_option_help(pl_options_table(), verb->bit, &text) != PL_OK) {
        return pl_status_exit(PL_ERR_MEMORY);
    }
    printf("usage: pagelane %s%s%s [option]...\n\n%s\n\n%s%s%s", verb->name,
           verb->operands == NULL ? "" : " ",
           verb->operands == NULL ? "" : verb->operands, verb->summary,
           verb->details == NULL ? "" : verb->details,
           verb->details == NULL ? "" : "\n", text);
    printf("\n  -h, --help\n      Print this.\n"
           "  -V, --version\n      Print versions.\n\n"
           "What wins, weakest first: defaults, --config FILE, variables, the\n"
           "command line. `--` ends the options.\n");
    free(text);
    return 0;
}

static void print_version(void)
{
    printf("pagelane %s (%s)\n\nbuilt with\n%s", pl_version(),
           pl_version_commit(), pl_version_built_with());
}

/* Which verb the command line means. */

/* How many of the words name this verb: 0 if they do not. */
static int match(const pl_verb_t *verb, int argc, char *const *argv)
{
    const char *second = strchr(verb->name, ' ');
    size_t first =
        second == NULL ? strlen(verb->name) : (size_t)(second - verb->name);

    if ((argc < 1) || (strlen(argv[0]) != first) ||
        (strncmp(argv[0], verb->name, first) != 0)) {
        return 0;
    }
    if (second == NULL) {
        return 1;
    }
    return ((argc > 1) && (strcmp(argv[1], second + 1) == 0)) ? 2 : 0;
}

static const char *list_verbs(char *text, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; (i < N_VERBS) && (at < n); i++) {
        at += (size_t)snprintf(text + at, n - at, "%s%s", i == 0 ? "" : ", ",
                               VERBS[i].name);
    }
    return text;
}

static bool is_of_family(const pl_verb_t *verb, const char *word)
{
    size_t n = strlen(word);

    return (strncmp(verb->name, word, n) == 0) && (verb->name[n] == ' ');
}

/* The first word of verbs that have two, and itself none: "trace". */
static bool is_family(const char *word)
{
    bool is = false;

    for (size_t i = 0; i < N_VERBS; i++) {
        if (strcmp(VERBS[i].name, word) == 0) {
            return false;
        }
        is = is || is_of_family(&VERBS[i], word);
    }
    return is;
}

static int print_family_help(const pl_cli_t *cli, const char *word)
{
    if (cli->world.rank != 0) {
        return 0;
    }
    printf("usage: pagelane %s VERB [option]...\n\nverbs:\n", word);
    for (size_t i = 0; i < N_VERBS; i++) {
        if (is_of_family(&VERBS[i], word)) {
            printf("  %-14s  %s\n", VERBS[i].name, VERBS[i].summary);
        }
    }
    printf("\nEach has a --help of its own.\n");
    return 0;
}

static int unknown_verb(const pl_cli_t *cli, int argc, char *const *argv)
{
    const char *names[N_VERBS];
    const char *near;
    char words[256];

    for (size_t i = 0; i < N_VERBS; i++) {
        names[i] = VERBS[i].name;
    }
    (void)snprintf(words, sizeof(words), "%s %s", argv[0],
                   argc > 1 ? argv[1] : "");
    near = pl_option_nearest(argv[0], names, N_VERBS);
    near = near != NULL ? near : pl_option_nearest(words, names, N_VERBS);
    for (size_t i = 0; (near == NULL) && (i < N_VERBS); i++) {
        size_t length = strlen(argv[0]); /* "trace" alone, or "trace x" */

        if ((strncmp(names[i], argv[0], length) == 0) &&
            (names[i][length] == ' ')) {
            near = names[i];
        }
    }
    if (near != NULL) {
        return usage_error(cli, "unknown verb '%.64s'; did you mean '%s'?",
                           argv[0], near);
    }
    return usage_error(cli, "unknown verb '%.64s'; there are %s", argv[0],
                       list_verbs(words, sizeof(words)));
}

/* `pagelane help`, and `help VERB` for its own --help. */
static int help(pl_cli_t *cli)
{
    int argc          = cli->argc - 2;
    char *const *argv = cli->argv + 2;

    for (size_t i = 0; (argc > 0) && (i < N_VERBS); i++) {
        if (match(&VERBS[i], argc, argv) > 0) {
            return cli->world.rank == 0 ? print_verb_help(&VERBS[i]) : 0;
        }
    }
    if ((argc > 0) && is_family(argv[0])) {
        return print_family_help(cli, argv[0]);
    }
    if (argc > 0) {
        return unknown_verb(cli, argc, argv);
    }
    if (cli->world.rank == 0) {
        print_program_help();
    }
    return 0;
}

/* Ranks. */

/* Settle options->ranks; 0, or the exit status of what cannot be. */
static int settle_ranks(pl_cli_t *cli)
{
    pl_options_t *o = &cli->options;
    bool local      = (o->comm == PL_OPT_COMM_LOCAL);
    const pl_log_t *log;

    if (cli->world.launched && local &&
        ((cli->world.size > 1) || (o->ranks > 1))) {
        return usage_error(cli,
                           "option --comm local: all ranks live in one "
                           "process, but mpirun started %d; leave out mpirun",
                           cli->world.size);
    }
    if (cli->world.launched && !local) {
        if ((o->ranks != 0) && (o->ranks != cli->world.size)) {
            return usage_error(cli,
                               "option --ranks %d: mpirun started %d; leave "
                               "--ranks out, or start as many",
                               (int)o->ranks, cli->world.size);
        }
        o->ranks = cli->world.size;
    }
    if (o->ranks == 0) {
        o->ranks = 1;
    }
    log = cli->world.rank == 0 ? &cli->log : NULL;
    return pl_status_exit(cli->verb->bit == PL_VERB_RUN
                              ? pl_options_check(o, log)
                              : pl_options_check_ranks(o, log));
}

/* Ranks that are processes read their traces each. */
static pl_status_t check_traces(const pl_cli_t *cli)
{
    static const char WHY[] = "each rank reads the trace";
    const pl_options_t *o   = &cli->options;
    const pl_log_t *log     = cli->world.rank == 0 ? &cli->log : NULL;

    if ((o->ranks == 1) || pl_cli_has_virtual_ranks(o)) {
        return PL_OK;
    }
    for (size_t i = 0; i < o->merge.n; i++) {
        PL_TRY(pl_cli_no_stdin("merge", o->merge.items[i], WHY, log));
    }
    return pl_cli_no_stdin("trace", o->trace, WHY, log);
}

static int run_ranked(pl_cli_t *cli)
{
    int exit_status = settle_ranks(cli);

    if (exit_status == 0) {
        exit_status = pl_status_exit(check_traces(cli));
    }

    if (exit_status != 0) {
        return exit_status;
    }
    if (!cli->world.launched && (cli->options.ranks > 1) &&
        !pl_cli_has_virtual_ranks(&cli->options)) {
        return pl_cli_launch_mpirun((int)cli->options.ranks, cli->argc,
                                    cli->argv, &cli->log);
    }
    return cli->verb->run(cli);
}

/* Words behind the verb: too few, too many. */
static int check_words(const pl_cli_t *cli)
{
    if (cli->n_words > cli->verb->max_words) {
        return usage_error(
            cli, "unexpected word '%.64s'%s", cli->words[cli->verb->max_words],
            cli->verb->max_words == 0 ? "; values belong behind an option"
                                      : "");
    }
    if (cli->n_words < cli->verb->min_words) {
        return usage_error(cli, "a word is missing; expected %s",
                           cli->verb->operands);
    }
    return 0;
}

typedef struct pl_cli_voice {
    int rank;
    atomic_bool has_erred; /* by any thread */
} voice_t;

static void write_line(void *context, pl_log_level_t level, const char *line)
{
    voice_t *voice      = context;
    const char *warning = level == PL_LOG_WARN ? "warning: " : "";
    char host[64]       = "?";

    if (level == PL_LOG_ERROR) {
        atomic_store(&voice->has_erred, true);
    }
    if (voice->rank == 0) {
        fprintf(stderr, "pagelane: %s%s\n", warning, line);
        return;
    }
    (void)gethostname(host, sizeof(host) - 1);
    fprintf(stderr, "pagelane: [rank %d %s] %s%s\n", voice->rank, host, warning,
            pl_text_without_rank(line, voice->rank));
}

/* What all ranks find alike is told by rank 0; what the others say besides is
 * of their own machine. */
static pl_log_t open_log(voice_t *voice, pl_log_level_t level)
{
    pl_log_t log = {write_line, voice, level};

    if ((voice->rank != 0) && (level > PL_LOG_WARN)) {
        log.level = PL_LOG_WARN;
    }
    return log;
}

void pl_cli_tell_of_memory(const pl_cli_t *cli)
{
    if (!atomic_load(&cli->voice->has_erred)) {
        pl_log(
            &cli->log, PL_LOG_ERROR,
            "out of memory; ask for less (fewer requests, smaller pools), or "
            "end other programs");
    }
}

/* Of a verb in this process alone: mpirun's ranks have told of themselves
 * (exit_status.c), and doctor's table tells what it misses. */
static void tell_of_end(const pl_cli_t *cli, int exit_status)
{
    bool here =
        !cli->world.launched &&
        ((cli->options.ranks <= 1) || pl_cli_has_virtual_ranks(&cli->options));

    if (here && (exit_status == pl_status_exit(PL_ERR_MEMORY)) &&
        (cli->verb->run != pl_cli_doctor)) {
        pl_cli_tell_of_memory(cli);
    }
}

/* The arguments behind the verb are argv[n_before..]. */
static pl_option_result_t load_options(pl_cli_t *cli, int n_before,
                                       pl_option_words_t *words,
                                       pl_grid_t **grid_p)
{
    int argc                = cli->argc - n_before;
    const char *const *argv = (const char *const *)cli->argv + n_before;
    const char *const *env  = (const char *const *)environ;

    return cli->verb->swept
               ? pl_grid_load(argc, argv, env, &cli->options, words, grid_p)
               : pl_options_load(cli->verb->bit, argc, argv, env, &cli->options,
                                 words);
}

static bool wants_inject_help(const pl_options_t *options)
{
    for (size_t i = 0; i < options->inject.n; i++) {
        if (strcmp(options->inject.items[i], "help") == 0) {
            return true;
        }
    }
    return false;
}

static int run_verb(pl_cli_t *cli, int n_before)
{
    pl_option_words_t words = {0};
    pl_grid_t *grid         = NULL;
    pl_option_result_t result;
    int exit_status;

    result       = load_options(cli, n_before, &words, &grid);
    cli->grid    = grid;
    cli->words   = words.items;
    cli->n_words = words.n;
    if (result.verdict == PL_OPTION_HELP) {
        exit_status = cli->world.rank == 0 ? print_verb_help(cli->verb) : 0;
        goto free_options;
    }
    if (result.verdict == PL_OPTION_VERSION) {
        if (cli->world.rank == 0) {
            print_version();
        }
        exit_status = 0;
        goto free_options;
    }
    if (result.verdict == PL_OPTION_BAD) {
        (void)usage_error(cli, "%s", result.message);
        exit_status = pl_status_exit(result.status);
        goto free_options;
    }
    if (wants_inject_help(&cli->options)) {
        if (cli->world.rank == 0) {
            printf("%s", pl_inject_help());
        }
        exit_status = 0;
        goto free_options;
    }
    cli->log = open_log(cli->voice, (pl_log_level_t)cli->options.log_level);
    if ((result.message[0] != '\0') && (cli->world.rank == 0)) {
        pl_log(&cli->log, PL_LOG_WARN, "%s", result.message);
    }
    exit_status = check_words(cli);
    if ((exit_status == 0) && cli->verb->ranked) {
        exit_status = run_ranked(cli);
    } else if ((exit_status == 0) && cli->verb->swept) {
        exit_status = cli->verb->run(cli);
    } else if ((exit_status == 0) && (cli->world.rank == 0)) {
        exit_status = pl_status_exit(pl_idle_note(cli));
        exit_status = exit_status == 0 ? cli->verb->run(cli) : exit_status;
    }

free_options:
    tell_of_end(cli, exit_status);
    pl_grid_close(grid);
    PL_ARRAY_FREE(&words);
    pl_options_free(&cli->options);
    return exit_status;
}

/* Help, version, or a verb. */
static int dispatch(pl_cli_t *cli)
{
    const char *first = cli->argc > 1 ? cli->argv[1] : "";

    if ((strcmp(first, "--help") == 0) || (strcmp(first, "-h") == 0)) {
        if (cli->world.rank == 0) {
            print_program_help();
        }
        return 0;
    }
    if (strcmp(first, "help") == 0) {
        return help(cli);
    }
    if (is_family(first) && (cli->argc == 3) &&
        ((strcmp(cli->argv[2], "--help") == 0) ||
         (strcmp(cli->argv[2], "-h") == 0))) {
        return print_family_help(cli, first);
    }
    if ((strcmp(first, "--version") == 0) || (strcmp(first, "-V") == 0)) {
        if (cli->world.rank == 0) {
            print_version();
        }
        return 0;
    }
    if ((strcmp(first, "--list-devices") == 0) && (cli->argc > 2)) {
        return usage_error(cli, "unexpected '%.64s' behind --list-devices",
                           cli->argv[2]);
    }
    if (strcmp(first, "--list-devices") == 0) {
        return cli->world.rank == 0 ? pl_cli_list_devices() : 0;
    }
    if (*first == '\0') {
        return usage_error(cli, "no verb given");
    }
    if (*first == '-') {
        return usage_error(cli,
                           "'%.64s' stands before the verb; expected "
                           "a verb first",
                           first);
    }
    for (size_t i = 0; i < N_VERBS; i++) {
        int n_words = match(&VERBS[i], cli->argc - 1, cli->argv + 1);

        if (n_words > 0) {
            cli->verb = &VERBS[i];
            return run_verb(cli, 1 + n_words);
        }
    }
    return unknown_verb(cli, cli->argc - 1, cli->argv + 1);
}

int pl_cli_main(int argc, char **argv)
{
    pl_cli_t cli  = {.argc = argc, .argv = argv, .world = pl_cli_world()};
    voice_t voice = {.rank = cli.world.rank};
    int exit_status;

    cli.voice   = &voice;
    cli.log     = open_log(&voice, PL_LOG_INFO);
    exit_status = dispatch(&cli);
    if ((fflush(stdout) != 0) || ferror(stdout)) {
        pl_log(&cli.log, PL_LOG_ERROR,
               "cannot write to stdout; the output is not whole");
        exit_status =
            exit_status == 0 ? pl_status_exit(PL_ERR_IO) : exit_status;
    }
    return exit_status;
}
