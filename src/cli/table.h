/* cli/table.h - a table for people: columns as wide as their widest cell.
 *
 *   pl_table_t *table = pl_table_open("rank<,pages>,state<");
 *   pl_table_cell(table, "%d", rank);       row by row, left to right
 *   status = pl_table_print(table, stdout); header, rule, rows
 *   pl_table_close(table);
 *
 * A column is its title and < (left) or > (right).  A failure to get memory is
 * remembered until pl_table_print.
 */
#ifndef PL_CLI_TABLE_H
#define PL_CLI_TABLE_H

#include <stdio.h>

#include <pagelane/status.h>

#include "base/text.h"

typedef struct pl_table pl_table_t; /* opaque */

pl_table_t *pl_table_open(const char *columns); /* NULL: out of memory */
void pl_table_close(pl_table_t *table);         /* NULL is allowed */

/* NULL is allowed and does nothing; pl_table_print then says so. */
void pl_table_cell(pl_table_t *table, const char *format, ...)
    PL_TEXT_FORMAT(2, 3);

/* Returns PL_OK, PL_ERR_MEMORY or PL_ERR_IO; says nothing. */
PL_MUST_CHECK pl_status_t pl_table_print(const pl_table_t *table, FILE *file);

#endif /* PL_CLI_TABLE_H */
