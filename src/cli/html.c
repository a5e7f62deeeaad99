#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/html_internal.h"

/* ---- memory ---- */

static void note(pl_html_t *page, pl_status_t status)
{
    page->status = page->status == PL_OK ? status : page->status;
}

/* A copy; "" without memory, which the page remembers. */
static char *keep(pl_html_t *page, const char *text)
{
    char *copy = strdup(text == NULL ? "" : text);

    if (copy == NULL) {
        note(page, PL_ERR_MEMORY);
    }
    return copy;
}

static void free_words(page_words_t *words)
{
    free(words->name);
    free(words->value);
    free(words->note);
}

static void free_table(pl_html_table_t *table)
{
    size_t n = table->columns.n;

    for (size_t i = 0; (n > 0) && (i < table->cells.n); i++) {
        if ((table->columns.items[i % n].kind == PL_HTML_TEXT) &&
            !table->cells.items[i].is_none) {
            free(table->cells.items[i].text);
        }
    }
    for (size_t i = 0; i < n; i++) {
        free(table->columns.items[i].name);
        free(table->columns.items[i].title);
    }
    for (size_t i = 0; i < table->marks.n; i++) {
        free(table->marks.items[i].name);
    }
    PL_ARRAY_FREE(&table->columns);
    PL_ARRAY_FREE(&table->cells);
    PL_ARRAY_FREE(&table->marks);
    free(table->id);
    free(table->title);
    free(table->text);
    free(table);
}

/* ---- the page ---- */

pl_html_t *pl_html_open(const char *title, const char *about)
{
    pl_html_t *page = calloc(1, sizeof(*page));

    if (page != NULL) {
        page->title = keep(page, title);
        page->about = keep(page, about);
    }
    return page;
}

void pl_html_close(pl_html_t *page)
{
    if (page == NULL) {
        return;
    }
    for (size_t i = 0; i < page->tiles.n; i++) {
        free_words(&page->tiles.items[i]);
    }
    for (size_t i = 0; i < page->advice.n; i++) {
        free_words(&page->advice.items[i]);
    }
    for (size_t i = 0; i < page->tables.n; i++) {
        free_table(page->tables.items[i]);
    }
    PL_ARRAY_FREE(&page->tiles);
    PL_ARRAY_FREE(&page->advice);
    PL_ARRAY_FREE(&page->tables);
    free(page->title);
    free(page->about);
    free(page->headline);
    free(page->why);
    free(page);
}

void pl_html_headline(pl_html_t *page, const char *headline, const char *why)
{
    if (page != NULL) {
        free(page->headline);
        free(page->why);
        page->headline = keep(page, headline);
        page->why      = keep(page, why);
    }
}

void pl_html_tile(pl_html_t *page, const char *name, const char *value,
                  const char *about)
{
    page_words_t words;

    if (page == NULL) {
        return;
    }
    words = (page_words_t){.name  = keep(page, name),
                           .value = keep(page, value),
                           .note  = keep(page, about)};
    if (PL_ARRAY_PUSH(&page->tiles, words) != PL_OK) {
        free_words(&words);
        note(page, PL_ERR_MEMORY);
    }
}

void pl_html_advice(pl_html_t *page, pl_html_weight_t weight, const char *title,
                    const char *format, ...)
{
    pl_text_t text     = {0};
    page_words_t words = {.weight = weight};
    va_list arguments;

    if (page == NULL) {
        return;
    }
    va_start(arguments, format);
    pl_text_add_list(&text, format, arguments);
    va_end(arguments);
    words.name = keep(page, title);
    note(page, pl_text_take(&text, &words.value));
    if (PL_ARRAY_PUSH(&page->advice, words) != PL_OK) {
        free_words(&words);
        note(page, PL_ERR_MEMORY);
    }
}

void pl_html_add_plain(pl_text_t *text, const char *plain)
{
    while (*plain != '\0') {
        size_t n = strcspn(plain, "`");

        pl_text_add(text, "%.*s%s", (int)n, plain, plain[n] == '`' ? "``" : "");
        plain += n + (plain[n] == '`');
    }
}

/* ---- sections ---- */

pl_html_table_t *pl_html_section(pl_html_t *page,
                                 const pl_html_section_t *section)
{
    pl_html_table_t *table = page == NULL ? NULL : calloc(1, sizeof(*table));

    if (table == NULL) {
        if (page != NULL) {
            note(page, PL_ERR_MEMORY);
        }
        return NULL;
    }
    table->page  = page;
    table->id    = keep(page, section->id);
    table->title = keep(page, section->title);
    table->text  = keep(page, section->text);
    table->chart = section->chart;
    table->half  = section->half;
    if (PL_ARRAY_PUSH(&page->tables, table) != PL_OK) {
        free_table(table);
        note(page, PL_ERR_MEMORY);
        return NULL;
    }
    return table;
}

void pl_html_column(pl_html_table_t *table, const char *name, const char *title,
                    pl_html_kind_t kind, double full)
{
    page_column_t column;

    if (table == NULL) {
        return;
    }
    column = (page_column_t){.name  = keep(table->page, name),
                             .title = keep(table->page, title),
                             .kind  = kind,
                             .full  = full};
    if (PL_ARRAY_PUSH(&table->columns, column) != PL_OK) {
        free(column.name);
        free(column.title);
        note(table->page, PL_ERR_MEMORY);
    }
}

void pl_html_more(pl_html_table_t *table)
{
    if (table != NULL) {
        table->n_shown  = table->columns.n;
        table->has_more = true;
    }
}

void pl_html_axes(pl_html_table_t *table, pl_html_axes_t axes)
{
    if (table != NULL) {
        table->axes = axes;
    }
}

static void push(pl_html_table_t *table, page_cell_t cell)
{
    if ((table != NULL) && (table->page->status == PL_OK)) {
        note(table->page, PL_ARRAY_PUSH(&table->cells, cell));
    }
}

void pl_html_integer(pl_html_table_t *table, int64_t value)
{
    push(table, (page_cell_t){.integer = value});
}

void pl_html_real(pl_html_table_t *table, double value)
{
    push(table, (page_cell_t){.real = value});
}

void pl_html_text(pl_html_table_t *table, const char *format, ...)
{
    pl_text_t text    = {0};
    page_cell_t cell  = {.text = NULL};
    pl_status_t taken = PL_OK;
    va_list arguments;

    if (table == NULL) {
        return;
    }
    va_start(arguments, format);
    pl_text_add_list(&text, format, arguments);
    va_end(arguments);
    taken = pl_text_take(&text, &cell.text);
    note(table->page, taken);
    if ((taken != PL_OK) || (table->page->status != PL_OK)) {
        free(cell.text);
        return;
    }
    note(table->page, PL_ARRAY_PUSH(&table->cells, cell));
    if (table->page->status != PL_OK) {
        free(cell.text);
    }
}

void pl_html_none(pl_html_table_t *table)
{
    push(table, (page_cell_t){.is_none = true});
}

void pl_html_mark(pl_html_table_t *table, double at, const char *name)
{
    page_mark_t mark;

    if (table == NULL) {
        return;
    }
    mark = (page_mark_t){.at = at, .name = keep(table->page, name)};
    if (PL_ARRAY_PUSH(&table->marks, mark) != PL_OK) {
        free(mark.name);
        note(table->page, PL_ERR_MEMORY);
    }
}
