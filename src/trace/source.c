#include <stdarg.h>
#include <stdio.h>

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
    for (size_t i = 0; i < row->n_after; i++) {
        if (rows->after.items[row->first_after + i] == number) {
            return PL_OK;
        }
    }
    row->n_after++;
    return PL_ARRAY_PUSH(&rows->after, number);
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
