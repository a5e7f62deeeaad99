/* cli/cli.h - what every verb is given, and the table of verbs.
 *
 * A verb is one file with one function: it gets its options checked, says what
 * it has to say on stdout (rank 0 alone), talks through cli->log, and returns
 * the exit status that all ranks must agree on.
 */
#ifndef PL_CLI_CLI_H
#define PL_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>

#include "cli/launch.h"
#include "cli/options.h"

typedef struct pl_cli pl_cli_t;

typedef struct pl_verb {
    const char *name;     /* one or two words: "trace stats" */
    const char *operands; /* words behind it, for the help: "FILE" */
    const char *summary;  /* one line */
    const char *details;  /* what else the help says of it; may be NULL */
    uint32_t bit;         /* PL_VERB_ */
    size_t min_words, max_words;
    bool ranked; /* runs on options.ranks ranks; others on rank 0 only */
    bool swept;  /* its options are a grid; runs on all ranks there are */
    int (*run)(const pl_cli_t *cli);
} pl_verb_t;

struct pl_cli_voice; /* cli.c: who speaks, and whether an error was said */

struct pl_cli {
    const pl_verb_t *verb;
    pl_options_t options;       /* of a ranked verb: checked, ranks is set */
    const struct pl_grid *grid; /* of a swept verb: cli/sweep_grid.h */
    const char *const *words;   /* what was no option */
    size_t n_words;
    int argc; /* the whole command line, to be recorded */
    char *const *argv;
    pl_cli_world_t world;
    struct pl_cli_voice *voice;
    pl_log_t log; /* rank 0: as --log-level says; others: errors, with the
                     rank in front */
};

/* Memory has run out: says so, unless an error was said before.  Who finds none
 * has none to say what for, most often, and passes PL_ERR_MEMORY up. */
void pl_cli_tell_of_memory(const pl_cli_t *cli);

/* One file each; the exit status. */
int pl_cli_run(const pl_cli_t *cli);
int pl_cli_trace_stats(const pl_cli_t *cli);
int pl_cli_trace_convert(const pl_cli_t *cli);
int pl_cli_trace_make(const pl_cli_t *cli);
int pl_cli_doctor(const pl_cli_t *cli);
int pl_cli_inspect(const pl_cli_t *cli);
int pl_cli_bench(const pl_cli_t *cli);
int pl_cli_bench_transfer(const pl_cli_t *cli);
int pl_cli_bench_prefill(const pl_cli_t *cli);
int pl_cli_check(const pl_cli_t *cli);
int pl_cli_compare(const pl_cli_t *cli);
int pl_cli_export(const pl_cli_t *cli);
int pl_cli_report(const pl_cli_t *cli);
int pl_cli_size(const pl_cli_t *cli);
int pl_cli_sim(const pl_cli_t *cli);
int pl_cli_sweep(const pl_cli_t *cli);

#endif /* PL_CLI_CLI_H */
