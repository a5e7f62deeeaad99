#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/reader.h"

void pl_trace_rows_free(pl_trace_rows_t *rows)
{
    PL_ARRAY_FREE(&rows->row);
    PL_ARRAY_FREE(&rows->ids);
    PL_ARRAY_FREE(&rows->tokens);
    PL_ARRAY_FREE(&rows->after);
}

pl_status_t pl_trace_wait_for(pl_trace_rows_t *rows, pl_trace_row_t *row,
                              size_t number)
{
    if (row->n_after == 0) {
        row->first_after = rows->after.n;
    }
    row->n_after++;
    return PL_ARRAY_PUSH(&rows->after, number);
}

static int compare_numbers(const void *a, const void *b)
{
    size_t left;
    size_t right;

    memcpy(&left, a, sizeof(left));
    memcpy(&right, b, sizeof(right));
    return (left > right) - (left < right);
}

void pl_trace_wait_once(pl_trace_rows_t *rows, pl_trace_row_t *row)
{
    size_t *list = &rows->after.items[row->first_after];
    size_t n     = 0;

    if (row->n_after < 2) {
        return;
    }
    qsort(list, row->n_after, sizeof(*list), compare_numbers);
    for (size_t i = 0; i < row->n_after; i++) {
        if ((n == 0) || (list[n - 1] != list[i])) {
            list[n++] = list[i];
        }
    }
    row->n_after = n;
}

pl_status_t pl_trace_bad(const pl_trace_source_t *source, int64_t line,
                         const char *format, ...)
{
    char what[768];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    if (line == 0) {
        pl_log(source->log, PL_LOG_ERROR, "%s: %s", source->name, what);
    } else {
        pl_log(source->log, PL_LOG_ERROR, "%s:%lld: %s", source->name,
               (long long)line, what);
    }
    return PL_ERR_INPUT;
}
