#include "base/option.h"

#include <assert.h>
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/option_value.h"
#include "base/text.h"

enum { LONGEST_NAME = 64 };

/* What one layer has given so far. */
typedef struct layer {
    const pl_option_table_t *table;
    void *values;
    bool seen[PL_OPTION_MAX_ROWS];
    pl_option_result_t result;
} layer_t;

static layer_t layer_start(const pl_option_table_t *table, void *values)
{
    layer_t layer = {.table = table, .values = values};

    assert(table->n <= PL_OPTION_MAX_ROWS);
    return layer;
}

static bool bad(layer_t *layer, pl_status_t status, const char *format, ...)
    PL_TEXT_FORMAT(3, 4);

/* Record the verdict; false, so that a caller can return it. */
static bool bad(layer_t *layer, pl_status_t status, const char *format, ...)
{
    va_list arguments;

    layer->result.verdict = PL_OPTION_BAD;
    layer->result.status  = status;
    va_start(arguments, format);
    (void)vsnprintf(layer->result.message, sizeof(layer->result.message),
                    format, arguments);
    va_end(arguments);
    return false;
}

pl_option_result_t pl_option_bad(pl_status_t status, const char *format, ...)
{
    pl_option_result_t result = {PL_OPTION_BAD, status, ""};
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(result.message, sizeof(result.message), format, arguments);
    va_end(arguments);
    return result;
}

static bool out_of_memory(layer_t *layer)
{
    return bad(layer, PL_ERR_MEMORY, "out of memory while reading options");
}

/* "page-size" as "PAGE_SIZE", cut at LONGEST_NAME. */
static void variable_name(const char *name, char *variable)
{
    size_t i = 0;

    for (; (i < LONGEST_NAME - 1) && (name[i] != '\0'); i++) {
        variable[i] =
            (char)(name[i] == '-' ? '_' : toupper((unsigned char)name[i]));
    }
    variable[i] = '\0';
}

static const pl_option_t *find(const pl_option_table_t *table, const char *name,
                               size_t length)
{
    for (size_t i = 0; i < table->n; i++) {
        if ((strlen(table->options[i].name) == length) &&
            (memcmp(table->options[i].name, name, length) == 0)) {
            return &table->options[i];
        }
    }
    return NULL;
}

/* The option of `verb` nearest to a name; NULL if none is near. */
static const char *nearest_option(const pl_option_table_t *table, uint32_t verb,
                                  const char *name)
{
    const char *names[PL_OPTION_MAX_ROWS];
    size_t n = 0;

    for (size_t i = 0; i < table->n; i++) {
        if ((table->options[i].verbs & verb) != 0) {
            names[n++] = table->options[i].name;
        }
    }
    return pl_option_nearest(name, names, n);
}

/* Give one option its value, NULL if there is none; `where` names the place:
 * "option --page-size". */
static bool give(layer_t *layer, const pl_option_t *option, const char *where,
                 const char *text)
{
    size_t row       = (size_t)(option - layer->table->options);
    void *slot       = pl_option_slot(option, layer->values);
    pl_text_t wanted = {0};
    pl_status_t status;
    char *string;

    if ((option->kind == PL_OPTION_STRINGS) && !layer->seen[row]) {
        pl_option_clear(option, slot);
    }
    layer->seen[row] = true;
    status           = pl_option_read(option, text, slot);
    if (status == PL_OK) {
        return true;
    }
    pl_option_expected(option, &wanted);
    if ((status == PL_ERR_MEMORY) ||
        (pl_text_take(&wanted, &string) != PL_OK)) {
        return out_of_memory(layer);
    }
    if ((text == NULL) || (*text == '\0')) {
        (void)bad(layer, status, "%s: the value is %s; expected %s", where,
                  text == NULL ? "missing" : "empty", string);
    } else {
        (void)bad(layer, status, "%s: cannot use '%.80s'; expected %s", where,
                  text, string);
    }
    free(string);
    return false;
}

pl_option_result_t pl_option_defaults(const pl_option_table_t *table,
                                      void *values)
{
    layer_t layer = layer_start(table, values);

    for (size_t i = 0; i < table->n; i++) {
        const pl_option_t *option = &table->options[i];

        pl_option_clear(option, pl_option_slot(option, values));
        if ((option->fallback != NULL) &&
            !give(&layer, option, option->name, option->fallback)) {
            assert(layer.result.status == PL_ERR_MEMORY);
            break;
        }
    }
    return layer.result;
}

void pl_option_free(const pl_option_table_t *table, void *values)
{
    for (size_t i = 0; i < table->n; i++) {
        pl_option_clear(&table->options[i],
                        pl_option_slot(&table->options[i], values));
    }
}

/* The configuration file. */

static char *trim(char *text)
{
    char *end;

    while (isspace((unsigned char)*text)) {
        text++;
    }
    end = text + strlen(text);
    while ((end > text) && isspace((unsigned char)end[-1])) {
        end--;
    }
    *end = '\0';
    return text;
}

static bool config_line(layer_t *layer, const char *file, int number,
                        char *line)
{
    const pl_option_t *option;
    char where[256];
    char *equals;
    char *name;

    line = trim(line);
    if ((*line == '\0') || (*line == '#')) {
        return true;
    }
    equals = strchr(line, '=');
    if (equals == NULL) {
        return bad(layer, PL_ERR_INPUT,
                   "%s:%d: '%.80s' is no `name = value` line; put # before a "
                   "comment",
                   file, number, line);
    }
    *equals = '\0';
    name    = trim(line);
    option  = find(layer->table, name, strlen(name));
    if (option == NULL) {
        const char *near = nearest_option(layer->table, UINT32_MAX, name);

        return bad(layer, PL_ERR_INPUT, "%s:%d: unknown option '%.64s'%s%s%s",
                   file, number, name, near == NULL ? "" : "; did you mean '",
                   near == NULL ? "" : near, near == NULL ? "" : "'?");
    }
    if (layer->seen[option - layer->table->options] &&
        (option->kind != PL_OPTION_STRINGS)) {
        return bad(layer, PL_ERR_INPUT,
                   "%s:%d: '%s' is given for the second time; keep one line",
                   file, number, name);
    }
    (void)snprintf(where, sizeof(where), "%s:%d: %s", file, number, name);
    if (!give(layer, option, where, trim(equals + 1))) {
        if (layer->result.status == PL_ERR_ARGUMENT) {
            layer->result.status = PL_ERR_INPUT;
        }
        return false;
    }
    return true;
}

pl_option_result_t pl_option_config(const pl_option_table_t *table,
                                    const char *file, const char *text,
                                    void *values)
{
    layer_t layer = layer_start(table, values);
    char *copy    = strdup(text);
    char *line    = copy;
    bool good     = true;

    if (copy == NULL) {
        (void)out_of_memory(&layer);
        return layer.result;
    }
    for (int number = 1; good && (line != NULL); number++) {
        char *end = strchr(line, '\n');

        if (end != NULL) {
            *end = '\0';
        }
        good = config_line(&layer, file, number, line);
        line = (end == NULL) ? NULL : end + 1;
    }
    free(copy);
    return layer.result;
}

/* The environment. */

static bool is_reserved(const pl_option_table_t *table, const char *variable,
                        size_t length)
{
    for (size_t i = 0; table->reserved[i] != NULL; i++) {
        if ((strlen(table->reserved[i]) == length) &&
            (memcmp(table->reserved[i], variable, length) == 0)) {
            return true;
        }
    }
    return false;
}

static const pl_option_t *find_variable(const pl_option_table_t *table,
                                        const char *name, size_t length)
{
    char variable[LONGEST_NAME];

    for (size_t i = 0; i < table->n; i++) {
        variable_name(table->options[i].name, variable);
        if ((strlen(variable) == length) &&
            (memcmp(variable, name, length) == 0)) {
            return &table->options[i];
        }
    }
    return NULL;
}

/* One warning names all of them: some tools set dozens. */
static void warn_unknown(layer_t *layer, const char *variable, size_t length)
{
    char *message = layer->result.message;
    size_t size   = sizeof(layer->result.message);
    size_t n      = strlen(message);
    int shown     = (int)(length < 100 ? length : 100);

    (void)snprintf(message + n, size - n, "%s%.*s",
                   n == 0 ? "no option is set by the variable " : ", ", shown,
                   variable);
}

pl_option_result_t pl_option_environment(const pl_option_table_t *table,
                                         uint32_t verb,
                                         const char *const *environment,
                                         void *values)
{
    layer_t layer = layer_start(table, values);
    size_t prefix = strlen(table->prefix);

    for (size_t i = 0; environment[i] != NULL; i++) {
        const char *variable = environment[i];
        const char *equals   = strchr(variable, '=');
        const pl_option_t *option;
        char where[128];
        size_t length;

        if ((equals == NULL) ||
            (strncmp(variable, table->prefix, prefix) != 0)) {
            continue;
        }
        length = (size_t)(equals - variable);
        if (is_reserved(table, variable, length)) {
            continue;
        }
        option = find_variable(table, variable + prefix, length - prefix);
        if (option == NULL) {
            warn_unknown(&layer, variable, length);
            continue;
        }
        (void)snprintf(where, sizeof(where), "variable %.*s",
                       (int)(length < 100 ? length : 100), variable);
        if (((option->verbs & verb) != 0) &&
            !give(&layer, option, where, equals + 1)) {
            break;
        }
    }
    return layer.result;
}

/* The command line. */

/* " --page-size is an option of: run, sim" */
static bool bad_for_verb(layer_t *layer, const pl_option_t *option)
{
    pl_text_t verbs = {0};
    char *string;

    for (size_t i = 0; layer->table->verb_names[i] != NULL; i++) {
        if ((option->verbs & (UINT32_C(1) << i)) != 0) {
            pl_text_add(&verbs, "%s%s", verbs.n == 0 ? "" : ", ",
                        layer->table->verb_names[i]);
        }
    }
    if (pl_text_take(&verbs, &string) != PL_OK) {
        return out_of_memory(layer);
    }
    (void)bad(layer, PL_ERR_ARGUMENT,
              "option --%s does not belong here; it is for: %s", option->name,
              string);
    free(string);
    return false;
}

static bool unknown_argument(layer_t *layer, uint32_t verb, const char *name,
                             size_t length)
{
    char word[LONGEST_NAME + 1];
    const char *near = NULL;

    (void)snprintf(word, sizeof(word), "%.*s",
                   (int)(length < LONGEST_NAME ? length : LONGEST_NAME), name);
    near = nearest_option(layer->table, verb, word);
    return bad(layer, PL_ERR_ARGUMENT, "unknown option --%s%s%s%s", word,
               near == NULL ? "" : "; did you mean --",
               near == NULL ? "" : near, near == NULL ? "" : "?");
}

/* The arguments that are left. */
typedef struct arguments {
    const char *const *items;
    int n;
    int next;
} arguments_t;

/* `attached` is what stands behind = (or a letter), or NULL. */
static bool give_argument(layer_t *layer, uint32_t verb,
                          const pl_option_t *option, const char *attached,
                          arguments_t *arguments)
{
    const char *value = attached;
    char where[LONGEST_NAME + 16];

    if ((option->verbs & verb) == 0) {
        return bad_for_verb(layer, option);
    }
    if ((value == NULL) && (option->kind == PL_OPTION_FLAG)) {
        value = "true";
    } else if ((value == NULL) && (arguments->next < arguments->n) &&
               (strncmp(arguments->items[arguments->next], "--", 2) != 0)) {
        value = arguments->items[arguments->next++];
    }
    (void)snprintf(where, sizeof(where), "option --%s", option->name);
    return give(layer, option, where, value);
}

static bool long_argument(layer_t *layer, uint32_t verb, const char *argument,
                          arguments_t *arguments)
{
    const char *equals = strchr(argument, '=');
    size_t length =
        (equals == NULL) ? strlen(argument) : (size_t)(equals - argument);
    const pl_option_t *option = find(layer->table, argument, length);

    if (option == NULL) {
        return unknown_argument(layer, verb, argument, length);
    }
    return give_argument(layer, verb, option,
                         equals == NULL ? NULL : equals + 1, arguments);
}

static bool short_argument(layer_t *layer, uint32_t verb, const char *argument,
                           arguments_t *arguments)
{
    for (size_t i = 0; i < layer->table->n; i++) {
        const pl_option_t *option = &layer->table->options[i];

        if ((option->letter == argument[1]) && (option->letter != 0)) {
            const char *rest = argument + 2;

            return give_argument(layer, verb, option,
                                 *rest == '\0' ? NULL : rest, arguments);
        }
    }
    return bad(layer, PL_ERR_ARGUMENT, "unknown option %.64s", argument);
}

/* --help and --version win over everything else, bad options included. */
static pl_option_verdict_t asks_for(int argc, const char *const *argv)
{
    for (int i = 0; (i < argc) && (strcmp(argv[i], "--") != 0); i++) {
        if ((strcmp(argv[i], "--help") == 0) || (strcmp(argv[i], "-h") == 0)) {
            return PL_OPTION_HELP;
        }
        if ((strcmp(argv[i], "--version") == 0) ||
            (strcmp(argv[i], "-V") == 0)) {
            return PL_OPTION_VERSION;
        }
    }
    return PL_OPTION_OKAY;
}

pl_option_result_t pl_option_arguments(const pl_option_table_t *table,
                                       uint32_t verb, int argc,
                                       const char *const *argv, void *values,
                                       pl_option_words_t *words)
{
    arguments_t arguments = {argv, argc, 0};
    layer_t layer         = layer_start(table, values);
    bool only_words       = false;
    bool good             = true;

    layer.result.verdict = asks_for(argc, argv);
    if (layer.result.verdict != PL_OPTION_OKAY) {
        return layer.result;
    }
    while (good && (arguments.next < argc)) {
        const char *argument = argv[arguments.next++];

        if (only_words || (argument[0] != '-') || (argument[1] == '\0')) {
            good = (PL_ARRAY_PUSH(words, argument) == PL_OK) ||
                   out_of_memory(&layer);
        } else if (strcmp(argument, "--") == 0) {
            only_words = true;
        } else if (argument[1] == '-') {
            good = long_argument(&layer, verb, argument + 2, &arguments);
        } else {
            good = short_argument(&layer, verb, argument, &arguments);
        }
    }
    return layer.result;
}
