#include "base/option.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/option_value.h"
#include "base/text.h"

enum { INDENT = 6, COLUMNS = 79 };

/* Append words of `string`, wrapped and indented, and a newline. */
static void add_wrapped(pl_text_t *text, const char *string)
{
    size_t column = 0;

    while (*string != '\0') {
        size_t word = strcspn(string, " ");

        if ((column == 0) || (column + 1 + word > COLUMNS)) {
            pl_text_add(text, "%s%*s", column == 0 ? "" : "\n", INDENT, "");
            column = INDENT;
        } else {
            pl_text_add(text, " ");
            column++;
        }
        pl_text_add(text, "%.*s", (int)word, string);
        column += word;
        string += word + strspn(string + word, " ");
    }
    pl_text_add(text, "\n");
}

/* A name as help shows its value, and as a variable has it: PAGE_SIZE. */
static void add_upper(pl_text_t *text, const char *string)
{
    for (const char *c = string; *c != '\0'; c++) {
        pl_text_add(text, "%c", *c == '-' ? '_' : toupper((unsigned char)*c));
    }
}

/* "tokens" stands for a number of them; "off|ring:N|all" tells itself by its
 * capitals which letters are to be typed. */
static void add_unit(pl_text_t *text, const char *unit)
{
    bool has_capitals = false;

    for (const char *c = unit; *c != '\0'; c++) {
        has_capitals |= isupper((unsigned char)*c) != 0;
    }
    if (has_capitals) {
        pl_text_add(text, "%s", unit);
    } else {
        add_upper(text, unit);
    }
}

/* What stands behind the name: " TOKENS", " a|b|c". */
static void add_operand(pl_text_t *text, const pl_option_t *option)
{
    if (option->kind == PL_OPTION_FLAG) {
        return;
    }
    pl_text_add(text, " ");
    if (option->kind == PL_OPTION_CHOICE) {
        for (size_t i = 0; option->words[i] != NULL; i++) {
            pl_text_add(text, "%s%s", i == 0 ? "" : "|", option->words[i]);
        }
    } else {
        add_unit(text, option->unit == NULL ? "n" : option->unit);
    }
}

static bool is_number(const pl_option_t *option)
{
    return (option->kind == PL_OPTION_INTEGER) ||
           (option->kind == PL_OPTION_BYTES) ||
           (option->kind == PL_OPTION_GIGABYTES) ||
           (option->kind == PL_OPTION_FRACTION) ||
           (option->kind == PL_OPTION_DURATION) ||
           (option->kind == PL_OPTION_PAGES) ||
           (option->kind == PL_OPTION_INTEGERS);
}

/* "(an integer from 1 to 1024; default 64 tokens; PAGELANE_PAGE_SIZE)" */
static void add_facts(pl_text_t *text, const pl_option_table_t *table,
                      const pl_option_t *option)
{
    bool bare_unit = (option->kind == PL_OPTION_INTEGER) ||
                     (option->kind == PL_OPTION_PAGES);

    pl_text_add(text, "(");
    if (is_number(option)) {
        pl_option_expected(option, text);
        pl_text_add(text, "; ");
    }
    if (option->fallback == NULL) {
        pl_text_add(text, "no default");
    } else {
        pl_text_add(text, "default %s", option->fallback);
        if (bare_unit && (option->unit != NULL) &&
            (strcmp(option->fallback, "unlimited") != 0)) {
            pl_text_add(text, " %s", option->unit);
        }
    }
    if (option->kind == PL_OPTION_STRINGS) {
        pl_text_add(text, "; may be given several times");
    }
    pl_text_add(text, "; %s", table->prefix);
    add_upper(text, option->name);
    pl_text_add(text, ")");
}

static void add_option(pl_text_t *text, const pl_option_table_t *table,
                       const pl_option_t *option)
{
    pl_text_t body = {0};
    char *string;

    pl_text_add(text, "  ");
    if (option->letter != 0) {
        pl_text_add(text, "-%c, ", option->letter);
    }
    pl_text_add(text, "--%s", option->name);
    add_operand(text, option);
    pl_text_add(text, "\n");

    pl_text_add(&body, "%s ", option->help);
    add_facts(&body, table, option);
    if (pl_text_take(&body, &string) != PL_OK) {
        text->status = PL_ERR_MEMORY;
        return;
    }
    add_wrapped(text, string);
    free(string);
}

pl_status_t pl_option_help(const pl_option_table_t *table, uint32_t verb,
                           char **text_p)
{
    const char *group = NULL;
    pl_text_t text    = {0};

    for (size_t i = 0; i < table->n; i++) {
        const pl_option_t *option = &table->options[i];

        if ((option->verbs & verb) == 0) {
            continue;
        }
        if ((group == NULL) || (strcmp(group, option->group) != 0)) {
            pl_text_add(&text, "%s%s:\n", group == NULL ? "" : "\n",
                        option->group);
            group = option->group;
        }
        add_option(&text, table, option);
    }
    return pl_text_take(&text, text_p);
}
