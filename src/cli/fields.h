/* cli/fields.h - rows of named fields for other programs: CSV as RFC 4180 has
 * it, or members of JSON objects.
 *
 *   pl_fields_t fields = {.file = file, .json = json};
 *   pl_fields_begin_row(&fields, first);
 *   pl_fields_begin(&fields, "name"); then one of pl_fields_text, ...
 *   pl_fields_end_row(&fields);
 */
#ifndef PL_CLI_FIELDS_H
#define PL_CLI_FIELDS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct pl_fields {
    FILE *file;
    bool json;
    bool first; /* field of its row */
} pl_fields_t;

void pl_fields_begin_row(pl_fields_t *fields, bool is_first);
void pl_fields_end_row(pl_fields_t *fields);

/* A name within JSON, or what parts fields of CSV. */
void pl_fields_begin(pl_fields_t *fields, const char *name);

void pl_fields_text(pl_fields_t *fields, const char *text);
void pl_fields_integer(pl_fields_t *fields, int64_t value);
void pl_fields_real(pl_fields_t *fields, double value); /* six digits */
void pl_fields_nothing(pl_fields_t *fields);            /* null, or empty */

#endif /* PL_CLI_FIELDS_H */
