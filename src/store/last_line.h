/* store/last_line.h - a log that keeps the last line it was given, for whoever
 * decides only later what becomes of it; inside store. */
#ifndef PL_STORE_LAST_LINE_H
#define PL_STORE_LAST_LINE_H

#include <pagelane/log.h>

typedef struct pl_last_line {
    pl_log_t log;   /* hand this on; it points here: do not move the line */
    char text[512]; /* cut at its end */
} pl_last_line_t;

/* `text`: what stands there until something is said. */
void pl_last_line_open(pl_last_line_t *line, const char *text);

#endif /* PL_STORE_LAST_LINE_H */
