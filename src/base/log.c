#include <pagelane/log.h>

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

void pl_log(const pl_log_t *log, pl_log_level_t level, const char *format, ...)
{
    char line[1024];
    va_list arguments;

    if ((log == NULL) || (log->write == NULL) || (level > log->level)) {
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    log->write(log->context, level, line);
}

static void write_stderr(void *context, pl_log_level_t level, const char *line)
{
    (void)context;
    fprintf(stderr, "pagelane: %s%s\n", level == PL_LOG_WARN ? "warning: " : "",
            line);
}

pl_log_t pl_log_stderr(pl_log_level_t level)
{
    pl_log_t log = {write_stderr, NULL, level};
    return log;
}
