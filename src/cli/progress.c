#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/text.h"

enum { PROGRESS_S = 5 };

static double seconds_since(const struct timespec *then)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - then->tv_sec) +
           1e-9 * (double)(now.tv_nsec - then->tv_nsec);
}

void pl_progress_start(pl_progress_t *progress)
{
    clock_gettime(CLOCK_MONOTONIC, &progress->started);
    progress->told = progress->started;
}

double pl_progress_seconds(const pl_progress_t *progress)
{
    return seconds_since(&progress->started);
}

void pl_progress_tell(pl_progress_t *progress, const pl_cli_t *cli,
                      int32_t done, int32_t all, int64_t now_ns)
{
    const char *end = isatty(STDERR_FILENO) ? "\r" : "\n";

    if ((cli->options.log_level < (int32_t)PL_LOG_INFO) ||
        (seconds_since(&progress->told) < PROGRESS_S)) {
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &progress->told);
    fprintf(stderr,
            "pagelane: %" PRId32 " of %" PRId32
            " request%s, %.1f s of virtual time, %.0f s so far%s",
            done, all, pl_text_s(all), (double)now_ns / 1e9,
            pl_progress_seconds(progress), end);
}
