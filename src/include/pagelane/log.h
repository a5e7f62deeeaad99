/* pagelane/log.h - where a line for people goes.
 *
 * The library has no global logger: whoever may have something to say is
 * handed a pl_log_t (borrowed, NULL = silent).  So many virtual ranks live in
 * one process, and a test can read what was said.  Levels are by volume:
 * error and warn; info: a few lines a run; debug: grows with objects; trace:
 * grows with requests.  Lines are lower case, without the final newline:
 * "rank 3", not "rank=3"; sizes with units; an error names the file, line or
 * option, what was expected, and what to do.
 */
#ifndef PAGELANE_LOG_H
#define PAGELANE_LOG_H

#include <pagelane/export.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pl_log_level {
    PL_LOG_ERROR,
    PL_LOG_WARN,
    PL_LOG_INFO,
    PL_LOG_DEBUG,
    PL_LOG_TRACE
} pl_log_level_t;

typedef struct pl_log {
    /* Takes one line; called from the thread that speaks. */
    void (*write)(void *context, pl_log_level_t level, const char *line);
    void *context;
    pl_log_level_t level; /* lines above it are dropped */
} pl_log_t;

/* Format one line (cut at 1,023 bytes) and hand it to log->write. */
PL_API void pl_log(const pl_log_t *log, pl_log_level_t level,
                   const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* A log that writes "pagelane: <line>" to stderr. */
PL_API pl_log_t pl_log_stderr(pl_log_level_t level);

#ifdef __cplusplus
}
#endif

#endif /* PAGELANE_LOG_H */
