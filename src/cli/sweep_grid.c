#include "cli/sweep_grid.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/sweep_split.h"

enum {
    LARGEST_CONFIG = 1 << 20,
    USUAL_GPUS     = 8 /* of --gpus */
};

/* What the table of lists is read into. */
typedef struct values {
    pl_options_t options; /* what is no axis, at its usual place */
    char *texts[PL_OPTION_MAX_ROWS];
} values_t;

struct pl_grid {
    PL_ARRAY(pl_axis_t) axes;
    size_t n_points;
    bool parts_gpus;
};

bool pl_grid_is_axis(const pl_option_t *option)
{
    return ((option->verbs & PL_VERB_SIM) != 0) &&
           ((option->verbs & PL_VERB_SWEEP) != 0) &&
           (option->kind != PL_OPTION_FLAG) &&
           (option->kind != PL_OPTION_INTEGERS) &&
           (option->kind != PL_OPTION_STRINGS) &&
           (strcmp(option->group, "output") != 0);
}

bool pl_grid_parts_gpus(const pl_grid_t *grid)
{
    return grid->parts_gpus;
}

/* ---- the table in which axes are texts ---- */

static const char GPUS[] = "gpus"; /* a list, but no axis: --pd is */

/* rows[n] of `table` anew. */
static void make_rows(const pl_option_table_t *table, pl_option_t *rows)
{
    for (size_t i = 0; i < table->n; i++) {
        rows[i] = table->options[i];
        if (pl_grid_is_axis(&rows[i]) || (strcmp(rows[i].name, GPUS) == 0)) {
            rows[i].kind   = PL_OPTION_STRING;
            rows[i].unit   = "value, or several with commas between them";
            rows[i].offset = offsetof(values_t, texts) + i * sizeof(char *);
        } else if (strcmp(rows[i].name, "repeat") == 0) {
            rows[i].min      = 1; /* one seed is enough, and usual */
            rows[i].fallback = "1";
        }
    }
}

/* ---- layers ---- */

/* The whole file as a string; the caller frees it. */
static pl_option_result_t read_config(const char *path, char **text_p)
{
    pl_option_result_t result = {0};
    FILE *file                = fopen(path, "rb");
    char *text                = malloc(LARGEST_CONFIG + 1);
    size_t n                  = 0;

    if ((file != NULL) && (text != NULL)) {
        n = fread(text, 1, LARGEST_CONFIG + 1, file);
    }
    if (text == NULL) {
        result = pl_option_bad(PL_ERR_MEMORY, "options: out of memory");
    } else if ((file == NULL) || (ferror(file) != 0)) {
        result = pl_option_bad(PL_ERR_INPUT,
                               "option --config: cannot read %.200s: %s", path,
                               strerror(errno));
    } else if ((n > LARGEST_CONFIG) || (memchr(text, '\0', n) != NULL)) {
        result = pl_option_bad(
            PL_ERR_INPUT,
            "option --config: cannot read %.200s: expected a text of "
            "at most 1 MiB",
            path);
    } else {
        text[n] = '\0';
        *text_p = text;
        text    = NULL;
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    free(text);
    return result;
}

typedef struct source {
    int argc;
    const char *const *argv, *const *environment;
} source_t;

/* Every layer; the file's only if config_text is given. */
static pl_option_result_t apply(const pl_option_table_t *table,
                                const source_t *source, const char *config_path,
                                const char *config_text, values_t *values,
                                pl_option_words_t *words)
{
    pl_option_result_t result = pl_option_defaults(table, values);
    pl_option_result_t arguments;

    if ((result.verdict == PL_OPTION_OKAY) && (config_text != NULL)) {
        result = pl_option_config(table, config_path, config_text, values);
    }
    if (result.verdict == PL_OPTION_OKAY) {
        result = pl_option_environment(table, PL_VERB_SWEEP,
                                       source->environment, values);
    }
    if (result.verdict != PL_OPTION_OKAY) {
        return result;
    }
    words->n  = 0;
    arguments = pl_option_arguments(table, PL_VERB_SWEEP, source->argc,
                                    source->argv, values, words);
    return arguments.verdict != PL_OPTION_OKAY ? arguments : result;
}

static pl_option_result_t load(const pl_option_table_t *table,
                               const source_t *source, values_t *values,
                               pl_option_words_t *words)
{
    char *path = NULL;
    char *text = NULL;
    pl_option_result_t result;

    /* Once without the file, to learn its name. */
    result = apply(table, source, NULL, NULL, values, words);
    if ((result.verdict != PL_OPTION_OKAY) ||
        (values->options.config == NULL)) {
        return result;
    }
    path = strdup(values->options.config);
    if (path == NULL) {
        return pl_option_bad(PL_ERR_MEMORY, "options: out of memory");
    }
    result = read_config(path, &text);
    if (result.verdict == PL_OPTION_OKAY) {
        result = apply(table, source, path, text, values, words);
    }
    free(text);
    free(path);
    return result;
}

/* ---- axes ---- */

/* "--name=item", for the caller to free; NULL: no memory. */
static char *argument_of(const char *name, const char *item)
{
    pl_text_t text = {0};
    char *argument = NULL;

    pl_text_add(&text, "--%s=%s", name, item);
    return pl_text_take(&text, &argument) == PL_OK ? argument : NULL;
}

static pl_option_result_t give(const pl_option_t *option, const char *item,
                               pl_options_t *options)
{
    pl_option_words_t words = {0};
    char *argument          = argument_of(option->name, item);
    pl_option_result_t result;

    if (argument == NULL) {
        return pl_option_bad(PL_ERR_MEMORY, "options: out of memory");
    }
    result =
        pl_option_arguments(pl_options_table(), PL_VERB_SIM, 1,
                            (const char *const *)&argument, options, &words);
    PL_ARRAY_FREE(&words);
    free(argument);
    return result;
}

/* A list in one go: a later one would replace it. */
static pl_status_t give_all(const pl_option_t *option,
                            const pl_option_strings_t *list,
                            pl_options_t *options)
{
    pl_option_words_t words = {0};
    char **arguments        = calloc(list->n + 1, sizeof(*arguments));
    pl_status_t status      = arguments == NULL ? PL_ERR_MEMORY : PL_OK;

    for (size_t i = 0; (i < list->n) && (status == PL_OK); i++) {
        arguments[i] = argument_of(option->name, list->items[i]);
        status       = arguments[i] == NULL ? PL_ERR_MEMORY : PL_OK;
    }
    if (status == PL_OK) {
        status =
            pl_option_arguments(pl_options_table(), PL_VERB_SIM, (int)list->n,
                                (const char *const *)arguments, options, &words)
                .status;
    }
    for (size_t i = 0; (arguments != NULL) && (i < list->n); i++) {
        free(arguments[i]);
    }
    free(arguments);
    PL_ARRAY_FREE(&words);
    return status;
}

static int compare_texts(const void *first, const void *second)
{
    const char *const *a = first;
    const char *const *b = second;

    return strcmp(*a, *b);
}

/* A value that is there twice would be two points that are one. */
static pl_option_result_t check_each_once(const pl_axis_t *axis)
{
    const size_t n            = axis->items.n;
    const char **sorted       = calloc(n + 1, sizeof(*sorted));
    pl_option_result_t result = {0};

    if (sorted == NULL) {
        return pl_option_bad(PL_ERR_MEMORY, "options: out of memory");
    }
    for (size_t i = 0; i < n; i++) {
        sorted[i] = axis->items.items[i];
    }
    qsort(sorted, n, sizeof(*sorted), compare_texts);
    for (size_t i = 1; (i < n) && (result.verdict == PL_OPTION_OKAY); i++) {
        if (strcmp(sorted[i], sorted[i - 1]) == 0) {
            result = pl_option_bad(
                PL_ERR_ARGUMENT,
                "option --%s: %.80s stands there twice; leave one of them out",
                axis->option->name, sorted[i]);
        }
    }
    free(sorted);
    return result;
}

/* Cut axis->text at its commas; is each item a value of the option? */
static pl_option_result_t split(pl_axis_t *axis, pl_options_t *scratch)
{
    char *item = axis->text;

    for (;;) {
        char *end = item + strcspn(item, ",");
        bool last = *end == '\0';
        pl_option_result_t result;

        *end = '\0';
        if (*item == '\0') {
            return pl_option_bad(
                PL_ERR_ARGUMENT,
                "option --%s: a value between commas is empty; leave "
                "one of them out",
                axis->option->name);
        }
        result = give(axis->option, item, scratch);
        if (result.verdict != PL_OPTION_OKAY) {
            return result;
        }
        if (PL_ARRAY_PUSH(&axis->items, item) != PL_OK) {
            return pl_option_bad(PL_ERR_MEMORY, "options: out of memory");
        }
        if (last) {
            return check_each_once(axis);
        }
        item = end + 1;
    }
}

static pl_option_result_t count(pl_grid_t *grid)
{
    pl_option_result_t okay = {0};

    grid->n_points = 1;
    for (size_t a = 0; a < grid->axes.n; a++) {
        grid->n_points *= grid->axes.items[a].items.n;
        if (grid->n_points > PL_GRID_MOST_POINTS) {
            return pl_option_bad(
                PL_ERR_ARGUMENT,
                "the grid has more than %d points; give fewer values",
                PL_GRID_MOST_POINTS);
        }
    }
    return okay;
}

/* Where the text of an option is. */
static char **text_of(values_t *values, const char *name)
{
    const pl_option_table_t *table = pl_options_table();
    size_t i                       = 0;

    while ((i < table->n) && (strcmp(table->options[i].name, name) != 0)) {
        i++;
    }
    return &values->texts[i];
}

/* --pd auto becomes a list, into which --gpus and --cp go: they are no axes any
 * more. */
static pl_option_result_t expand_splits(values_t *values, bool *parts_p)
{
    pl_option_result_t result = {0};
    char **pd                 = text_of(values, "pd");
    char **cp                 = text_of(values, "cp");
    const char *gpus          = *text_of(values, GPUS);
    char *list                = NULL;

    *parts_p = false;
    result   = pl_sweep_check_gpus(gpus, USUAL_GPUS, &values->options.gpus);
    if (result.verdict != PL_OPTION_OKAY) {
        return result;
    }
    if ((*pd == NULL) || (strstr(*pd, "auto") == NULL)) {
        return result;
    }
    if (strcmp(*pd, "auto") != 0) {
        return pl_option_bad(
            PL_ERR_ARGUMENT,
            "option --pd %.80s: auto stands alone, or is left out", *pd);
    }
    result = pl_sweep_splits(gpus, *cp, *text_of(values, "hardware"), &list);
    if (result.verdict == PL_OPTION_OKAY) {
        *parts_p = true;
        free(*pd);
        free(*cp);
        *pd = list;
        *cp = NULL;
    }
    return result;
}

/* Takes the texts over. */
static pl_option_result_t make_axes(values_t *values, pl_grid_t *grid)
{
    const pl_option_table_t *table = pl_options_table();
    pl_options_t scratch           = {0};
    pl_option_result_t result      = pl_option_defaults(table, &scratch);

    for (size_t i = 0; (i < table->n) && (result.verdict == PL_OPTION_OKAY);
         i++) {
        pl_axis_t axis = {&table->options[i], values->texts[i], {0}};

        if ((values->texts[i] == NULL) || !pl_grid_is_axis(axis.option)) {
            continue;
        }
        if (PL_ARRAY_PUSH(&grid->axes, axis) != PL_OK) {
            result = pl_option_bad(PL_ERR_MEMORY, "options: out of memory");
            break;
        }
        values->texts[i] = NULL;
        result           = split(&grid->axes.items[grid->axes.n - 1], &scratch);
    }
    pl_option_free(table, &scratch);
    return result.verdict == PL_OPTION_OKAY ? count(grid) : result;
}

pl_option_result_t pl_grid_load(int argc, const char *const *argv,
                                const char *const *environment,
                                pl_options_t *options, pl_option_words_t *words,
                                pl_grid_t **grid_p)
{
    pl_option_t rows[PL_OPTION_MAX_ROWS];
    pl_option_table_t table   = *pl_options_table();
    source_t source           = {argc, argv, environment};
    values_t values           = {0};
    pl_grid_t *grid           = calloc(1, sizeof(*grid));
    pl_option_result_t result = {0};
    pl_option_result_t made;

    if (grid == NULL) {
        return pl_option_bad(PL_ERR_MEMORY, "options: out of memory");
    }
    make_rows(pl_options_table(), rows);
    table.options = rows;
    result        = load(&table, &source, &values, words);
    if (result.verdict == PL_OPTION_OKAY) {
        made   = expand_splits(&values, &grid->parts_gpus);
        made = made.verdict == PL_OPTION_OKAY ? make_axes(&values, grid) : made;
        result = made.verdict == PL_OPTION_OKAY ? result : made;
    }
    for (size_t i = 0; i < table.n; i++) {
        free(values.texts[i]); /* those that became no axis */
    }
    *options = values.options;
    if (result.verdict != PL_OPTION_OKAY) {
        pl_grid_close(grid);
        return result;
    }
    *grid_p = grid;
    return result;
}

void pl_grid_close(pl_grid_t *grid)
{
    if (grid == NULL) {
        return;
    }
    for (size_t a = 0; a < grid->axes.n; a++) {
        free(grid->axes.items[a].text);
        PL_ARRAY_FREE(&grid->axes.items[a].items);
    }
    PL_ARRAY_FREE(&grid->axes);
    free(grid);
}

/* ---- points ---- */

size_t pl_grid_n_points(const pl_grid_t *grid)
{
    return grid->n_points;
}

const pl_axis_t *pl_grid_axes(const pl_grid_t *grid, size_t *n_p)
{
    *n_p = grid->axes.n;
    return grid->axes.items;
}

size_t pl_grid_choice(const pl_grid_t *grid, size_t point, size_t axis)
{
    for (size_t a = grid->axes.n - 1; a > axis; a--) {
        point /= grid->axes.items[a].items.n;
    }
    return point % grid->axes.items[axis].items.n;
}

/* What is no axis, but an option of `sim` too. */
static pl_status_t copy_others(const pl_options_t *base, pl_options_t *options)
{
    const pl_option_table_t *table = pl_options_table();
    const uint32_t both            = PL_VERB_SIM | PL_VERB_SWEEP;
    pl_status_t status             = PL_OK;

    for (size_t i = 0; (i < table->n) && (status == PL_OK); i++) {
        const pl_option_t *option = &table->options[i];
        const pl_option_strings_t *list =
            (const void *)((const char *)base + option->offset);
        char *text = NULL;

        if (((option->verbs & both) != both) || pl_grid_is_axis(option)) {
            continue;
        }
        if (option->kind == PL_OPTION_STRINGS) {
            status = give_all(option, list, options);
            continue;
        }
        status = pl_option_value_text(option, base, &text);
        if ((status == PL_OK) && (*text != '\0')) {
            status = give(option, text, options).status;
        }
        free(text);
    }
    return status;
}

pl_status_t pl_grid_point(const pl_grid_t *grid, const pl_options_t *base,
                          size_t point, pl_options_t *options)
{
    pl_status_t status = pl_option_defaults(pl_options_table(), options).status;

    if (status == PL_OK) {
        status = copy_others(base, options);
    }
    for (size_t a = 0; (a < grid->axes.n) && (status == PL_OK); a++) {
        const pl_axis_t *axis = &grid->axes.items[a];

        status =
            give(axis->option,
                 axis->items.items[pl_grid_choice(grid, point, a)], options)
                .status;
    }
    return status;
}
