#include "cli/command.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"

void pl_cli_add_word(pl_text_t *text, const char *word)
{
    bool plain = strspn(word, "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789_-+=:,./@%") == strlen(word);

    if (plain && (*word != '\0')) {
        pl_text_add(text, "%s", word);
        return;
    }
    pl_text_add(text, "'");
    for (; *word != '\0'; word++) {
        if (*word == '\'') {
            pl_text_add(text, "'\\''");
        } else {
            pl_text_add(text, "%c", *word);
        }
    }
    pl_text_add(text, "'");
}

static void add_option(pl_text_t *text, const char *name, const char *value)
{
    pl_text_add(text, " --%s ", name);
    pl_cli_add_word(text, value);
}

/* Does the option change what a run comes to? */
static bool decides(const pl_option_t *option, uint32_t verb)
{
    return ((option->verbs & verb) != 0) &&
           (option->recorded || (strcmp(option->name, "trace") == 0) ||
            (strcmp(option->name, "merge") == 0) ||
            (strcmp(option->name, "hardware") == 0) ||
            (strcmp(option->name, "calibrate") == 0) ||
            (strcmp(option->name, "validate") == 0) ||
            (strcmp(option->name, "storage") == 0) ||
            (strcmp(option->name, "from") == 0));
}

static pl_status_t add_if_not_typed(pl_text_t *text, const pl_option_t *option,
                                    const pl_options_t *typed,
                                    const pl_options_t *in_force)
{
    const pl_option_strings_t *list =
        (const void *)((const char *)in_force + option->offset);
    char *was = NULL;
    char *is  = NULL;
    pl_status_t status;

    PL_TRY_GOTO(status, pl_option_value_text(option, typed, &was), free_texts);
    PL_TRY_GOTO(status, pl_option_value_text(option, in_force, &is),
                free_texts);
    if (strcmp(was, is) == 0) {
        goto free_texts;
    }
    if (option->kind != PL_OPTION_STRINGS) {
        add_option(text, option->name, is);
        goto free_texts;
    }
    for (size_t i = 0; i < list->n; i++) {
        add_option(text, option->name, list->items[i]);
    }

free_texts:
    free(is);
    free(was);
    return status;
}

/* The options as the words behind the verb alone give them. */
static pl_status_t read_typed(const pl_cli_t *cli, int n_before,
                              pl_options_t *typed)
{
    const pl_option_table_t *table = pl_options_table();
    pl_option_words_t words        = {0};
    pl_option_result_t result      = pl_option_defaults(table, typed);

    if (result.verdict == PL_OPTION_OKAY) {
        result = pl_option_arguments(
            table, cli->verb->bit, cli->argc - n_before,
            (const char *const *)cli->argv + n_before, typed, &words);
    }
    PL_ARRAY_FREE(&words);
    /* They were read before: only memory can be short. */
    return result.verdict == PL_OPTION_OKAY ? PL_OK : PL_ERR_MEMORY;
}

pl_status_t pl_cli_command(const pl_cli_t *cli, char **text_p)
{
    const pl_option_table_t *table = pl_options_table();
    int n_before       = strchr(cli->verb->name, ' ') == NULL ? 2 : 3;
    pl_options_t typed = {0};
    pl_text_t text     = {0};
    pl_status_t status = read_typed(cli, n_before, &typed);

    pl_text_add(&text, "pagelane");
    for (int i = 1; i < cli->argc; i++) {
        pl_text_add(&text, " ");
        pl_cli_add_word(&text, cli->argv[i]);
    }
    if (typed.ranks == 0) {
        typed.ranks = 1; /* what it means where nothing else is said */
    }
    for (size_t i = 0; (status == PL_OK) && (i < table->n); i++) {
        if (decides(&table->options[i], cli->verb->bit)) {
            status = add_if_not_typed(&text, &table->options[i], &typed,
                                      &cli->options);
        }
    }
    pl_option_free(table, &typed);
    if (status != PL_OK) {
        pl_text_free(&text);
        return status;
    }
    return pl_text_take(&text, text_p);
}
