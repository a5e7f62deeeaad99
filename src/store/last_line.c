#include "store/last_line.h"

#include <stdio.h>

static void keep_line(void *context, pl_log_level_t level, const char *text)
{
    pl_last_line_t *line = context;

    (void)level;
    (void)snprintf(line->text, sizeof(line->text), "%s", text);
}

void pl_last_line_open(pl_last_line_t *line, const char *text)
{
    line->log = (pl_log_t){keep_line, line, PL_LOG_ERROR};
    keep_line(line, PL_LOG_ERROR, text);
}
