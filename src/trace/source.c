#include <stdarg.h>
#include <stdio.h>

#include "trace/reader.h"

void pl_trace_rows_free(pl_trace_rows_t *rows)
{
    PL_ARRAY_FREE(&rows->row);
    PL_ARRAY_FREE(&rows->ids);
    PL_ARRAY_FREE(&rows->tokens);
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
