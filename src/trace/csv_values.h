/* trace/csv_values.h - what stands in a field of a CSV file.
 *
 * false: it is no such value; then the value is not to be used. */
#ifndef PL_TRACE_CSV_VALUES_H
#define PL_TRACE_CSV_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A part of the text, borrowed; without quotes around it. */
typedef struct pl_csv_piece {
    const char *text;
    size_t n;
} pl_csv_piece_t;

/* A date and time from 1970 on, with or without a zone, in ns. */
bool pl_csv_date(const pl_csv_piece_t *piece, int64_t *ns_p);

/* A number of units of unit_ns, from 0, whole or not. */
bool pl_csv_number(const pl_csv_piece_t *piece, int64_t unit_ns, int64_t *ns_p);

/* A whole number from 0; 600.0 is 600. */
bool pl_csv_whole(const pl_csv_piece_t *piece, int64_t *value_p);

#endif /* PL_TRACE_CSV_VALUES_H */
