/* base/option.h - one table of options for everything that sets one.
 *
 * From the same rows come the parser of the command line, the environment
 * variables, the file of --config, the help text and the configuration that a
 * run records.  Later layers win:
 *
 *   pl_option_defaults      the table itself
 *   pl_option_config        `name = value` lines of a file, # starts a comment
 *   pl_option_environment   PREFIX_NAME=value
 *   pl_option_arguments     --name value, --name=value, -n value
 *
 * Values live in a struct of the program, one member a row, found by offset.
 * Nothing here reads a file or prints: each layer returns a verdict, and the
 * caller says it.  Values are as documented only while the verdict is okay;
 * pl_option_free is right after any verdict.
 */
#ifndef PL_BASE_OPTION_H
#define PL_BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "base/text.h"

/* Kind of a value, and the member that holds it. */
typedef enum pl_option_kind {
    PL_OPTION_FLAG,      /* bool; a bare --name means true */
    PL_OPTION_INTEGER,   /* int64_t */
    PL_OPTION_BYTES,     /* int64_t bytes: 4096, 64KiB, 2MiB, 1GiB, 1TiB.  K, M
                            and G are refused: they mean two things */
    PL_OPTION_GIGABYTES, /* int64_t bytes: 64, 0.5 of 10^9 bytes; a fraction of
                            at most nine digits */
    PL_OPTION_FRACTION,  /* int64_t billionths: 0.88, 1 */
    PL_OPTION_DURATION,  /* int64_t ns: 5ns, 5us, 5ms, 5s; bare: in `unit` */
    PL_OPTION_PAGES,     /* int64_t, or `unlimited` = PL_OPTION_UNLIMITED; of a
                            row that says so, or `fit` = PL_OPTION_FIT */
    PL_OPTION_STRING,    /* char *, owned; NULL = not given */
    PL_OPTION_CHOICE,    /* int32_t, an index into `words` */
    PL_OPTION_INTEGERS,  /* pl_option_integers_t: 1,2,4 */
    PL_OPTION_STRINGS    /* pl_option_strings_t; may be given several times, a
                            later layer replaces what an earlier one gave */
} pl_option_kind_t;

#define PL_OPTION_UNLIMITED ((int64_t)-1)
#define PL_OPTION_FIT       ((int64_t)-2)

typedef struct pl_option_integers {
    int64_t *items;
    size_t n;
    size_t capacity;
} pl_option_integers_t;

typedef struct pl_option_strings {
    char **items; /* each owned */
    size_t n;
    size_t capacity;
} pl_option_strings_t;

typedef struct pl_option {
    const char *group; /* heading in the help; rows of one group adjoin */
    const char *name;  /* without dashes in front: "page-size" */
    char letter;       /* of -n, or 0 */
    pl_option_kind_t kind;
    const char *fallback;     /* default as text; NULL = not given */
    const char *unit;         /* "tokens"; of a string what it is: "file" */
    const char *help;         /* a sentence or two, without default and unit */
    const char *const *words; /* of a choice, NULL at the end */
    int64_t min, max;         /* of numbers, inclusive */
    bool fits;                /* of pages: as many as fit can be asked for */
    uint32_t verbs;           /* bit mask: which verbs take it */
    bool recorded;            /* part of the configuration of a run */
    size_t offset;            /* of the member */
} pl_option_t;

#define PL_OPTION_MAX_ROWS 128

typedef struct pl_option_table {
    const char *prefix; /* of variables: "PAGELANE_" */
    const pl_option_t *options;
    size_t n;                      /* <= PL_OPTION_MAX_ROWS */
    const char *const *reserved;   /* variables that are no options, NULL at
                                      the end */
    const char *const *verb_names; /* by bit of `verbs` */
} pl_option_table_t;

typedef enum pl_option_verdict {
    PL_OPTION_OKAY,
    PL_OPTION_HELP,    /* --help or -h was given: nothing else matters */
    PL_OPTION_VERSION, /* --version or -V was given */
    PL_OPTION_BAD      /* `message` says what, and what was expected */
} pl_option_verdict_t;

typedef struct pl_option_result {
    pl_option_verdict_t verdict;
    pl_status_t status; /* of BAD: PL_ERR_ARGUMENT, PL_ERR_INPUT (the file),
                           PL_ERR_MEMORY; else PL_OK */
    char message[512];  /* of BAD; of OKAY a warning, or "" */
} pl_option_result_t;

/* BAD, with that message, cut to its room. */
pl_option_result_t pl_option_bad(pl_status_t status, const char *format, ...)
    PL_TEXT_FORMAT(2, 3);

/* What was no option: borrowed from argv. */
typedef struct pl_option_words {
    const char **items;
    size_t n;
    size_t capacity;
} pl_option_words_t;

/* Every member of *values (zeroed or freed before) gets its default. */
pl_option_result_t pl_option_defaults(const pl_option_table_t *table,
                                      void *values);

/* The text of a configuration file; `file` names it in messages.  Names of
 * other verbs' options are checked like ours, so that one file serves all. */
pl_option_result_t pl_option_config(const pl_option_table_t *table,
                                    const char *file, const char *text,
                                    void *values);

/* The variables ("NAME=value", NULL at the end) with the table's prefix that
 * name an option of `verb` (one bit).  An unknown one gives a warning. */
pl_option_result_t pl_option_environment(const pl_option_table_t *table,
                                         uint32_t verb,
                                         const char *const *environment,
                                         void *values);

/* The arguments, without the program's and the verb's name.  Words that are
 * no options are appended to *words.  The last of a repeated option wins. */
pl_option_result_t pl_option_arguments(const pl_option_table_t *table,
                                       uint32_t verb, int argc,
                                       const char *const *argv, void *values,
                                       pl_option_words_t *words);

/* Free what *values owns and zero those members. */
void pl_option_free(const pl_option_table_t *table, void *values);

/* The value of one member as the parser would read it; the caller frees it.
 * A string that is not given is "". */
PL_MUST_CHECK pl_status_t pl_option_value_text(const pl_option_t *option,
                                               const void *values,
                                               char **text_p);

typedef struct pl_option_pair {
    const char *name; /* of the table */
    char *value;      /* owned */
} pl_option_pair_t;

/* The recorded options of `verb`, in the order of the table. */
PL_MUST_CHECK pl_status_t pl_option_effective(const pl_option_table_t *table,
                                              uint32_t verb, const void *values,
                                              pl_option_pair_t **pairs_p,
                                              size_t *n_p);
void pl_option_pairs_free(pl_option_pair_t *pairs, size_t n);

/* The options of `verb` as text of 80 columns, each with unit, default and
 * variable; the caller frees it. */
PL_MUST_CHECK pl_status_t pl_option_help(const pl_option_table_t *table,
                                         uint32_t verb, char **text_p);

/* The candidate that `word` is most likely a typing error of, or NULL. */
const char *pl_option_nearest(const char *word, const char *const *candidates,
                              size_t n);

#endif /* PL_BASE_OPTION_H */
