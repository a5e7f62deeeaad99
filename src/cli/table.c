#include "cli/table.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

enum { MOST_COLUMNS = 32, GAP = 2 };

struct pl_table {
    PL_ARRAY(char *) cells; /* row by row; the titles are the first row */
    size_t n_columns;
    bool right[MOST_COLUMNS];
    pl_status_t status;
};

static void add_cell(pl_table_t *table, char *cell)
{
    if (PL_ARRAY_PUSH(&table->cells, cell) != PL_OK) {
        free(cell);
        table->status = PL_ERR_MEMORY;
    }
}

pl_table_t *pl_table_open(const char *columns)
{
    pl_table_t *table = calloc(1, sizeof(*table));

    if (table == NULL) {
        return NULL;
    }
    while ((*columns != '\0') && (table->n_columns < MOST_COLUMNS)) {
        size_t length = strcspn(columns, "<>");

        table->right[table->n_columns++] = (columns[length] == '>');
        pl_table_cell(table, "%.*s", (int)length, columns);
        columns += length;
        columns += strspn(columns, "<>,");
    }
    return table;
}

void pl_table_close(pl_table_t *table)
{
    if (table == NULL) {
        return;
    }
    for (size_t i = 0; i < table->cells.n; i++) {
        free(table->cells.items[i]);
    }
    PL_ARRAY_FREE(&table->cells);
    free(table);
}

void pl_table_cell(pl_table_t *table, const char *format, ...)
{
    pl_text_t text = {0};
    va_list arguments;
    char *cell;

    if (table == NULL) {
        return;
    }
    va_start(arguments, format);
    pl_text_add_list(&text, format, arguments);
    va_end(arguments);
    if (pl_text_take(&text, &cell) != PL_OK) {
        table->status = PL_ERR_MEMORY;
        return;
    }
    add_cell(table, cell);
}

/* One row; no blanks behind its last cell that is not empty. */
static void print_row(const pl_table_t *table, size_t first, const int *widths,
                      FILE *file)
{
    int blanks = 0;

    for (size_t i = 0; i < table->n_columns; i++) {
        const char *cell = table->cells.items[first + i];
        int room         = widths[i] - (int)strlen(cell);

        if (*cell == '\0') {
            blanks += widths[i] + GAP;
            continue;
        }
        fprintf(file, "%*s%s", blanks + (table->right[i] ? room : 0), "", cell);
        blanks = GAP + (table->right[i] ? 0 : room);
    }
    fputc('\n', file);
}

pl_status_t pl_table_print(const pl_table_t *table, FILE *file)
{
    int widths[MOST_COLUMNS] = {0};
    size_t n_cells;

    if ((table == NULL) || (table->status != PL_OK)) {
        return PL_ERR_MEMORY;
    }
    n_cells = table->cells.n - table->cells.n % table->n_columns;
    for (size_t i = 0; i < n_cells; i++) {
        int width   = (int)strlen(table->cells.items[i]);
        int *widest = &widths[i % table->n_columns];

        *widest = width > *widest ? width : *widest;
    }
    print_row(table, 0, widths, file);
    for (size_t i = 0; i < table->n_columns; i++) {
        for (int j = 0; j < widths[i]; j++) {
            fputc('-', file);
        }
        fprintf(file, "%s", i + 1 < table->n_columns ? "  " : "\n");
    }
    for (size_t i = table->n_columns; i < n_cells; i += table->n_columns) {
        print_row(table, i, widths, file);
    }
    return ferror(file) ? PL_ERR_IO : PL_OK;
}
