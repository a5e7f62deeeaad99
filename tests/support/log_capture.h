/* support/log_capture.h - a log that a test can read; any thread may write.
 *
 *   log_capture_t said;
 *   log_capture_open(&said);      said.log goes to what is tested
 *   strstr(said.text, "...")      all lines so far, each with its newline
 *   log_capture_close(&said);
 */
#ifndef SUPPORT_LOG_CAPTURE_H
#define SUPPORT_LOG_CAPTURE_H

#include <pagelane/log.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct log_capture {
    pl_log_t log;
    pthread_mutex_t mutex;
    size_t n;
    int n_lines;
    char text[16384]; /* what does not fit is lost, but counted */
} log_capture_t;

static inline void log_capture_write(void *context, pl_log_level_t level,
                                     const char *line)
{
    log_capture_t *said = context;
    size_t room;
    int n;

    (void)level;
    pthread_mutex_lock(&said->mutex);
    room = sizeof(said->text) - said->n;
    n    = snprintf(said->text + said->n, room, "%s\n", line);
    if ((n > 0) && ((size_t)n < room)) {
        said->n += (size_t)n;
    } else {
        said->text[said->n] = '\0';
    }
    said->n_lines++;
    pthread_mutex_unlock(&said->mutex);
}

static inline void log_capture_open(log_capture_t *said)
{
    said->log.write   = log_capture_write;
    said->log.context = said;
    said->log.level   = PL_LOG_TRACE;
    said->n           = 0;
    said->n_lines     = 0;
    said->text[0]     = '\0';
    pthread_mutex_init(&said->mutex, NULL);
}

static inline void log_capture_close(log_capture_t *said)
{
    pthread_mutex_destroy(&said->mutex);
}

#endif /* SUPPORT_LOG_CAPTURE_H */
