/* cli/progress.h - how far a run is, on stderr every few seconds. */
#ifndef PL_CLI_PROGRESS_H
#define PL_CLI_PROGRESS_H

#include <stdint.h>
#include <time.h>

#include "cli/cli.h"

typedef struct pl_progress {
    struct timespec started, told;
} pl_progress_t;

void pl_progress_start(pl_progress_t *progress);

/* Since the start, by a clock on the wall. */
double pl_progress_seconds(const pl_progress_t *progress);

/* `done` of `all` requests at now_ns of virtual time; says so unless it did a
 * moment ago. */
void pl_progress_tell(pl_progress_t *progress, const pl_cli_t *cli,
                      int32_t done, int32_t all, int64_t now_ns);

#endif /* PL_CLI_PROGRESS_H */
