/* make_sample FILE [name=value]...: write a snapshot of a small made-up run,
 * for tests that read files.  Names are those of snapshot_sample_params_t. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/snapshot_sample.h"

typedef struct work {
    snapshot_sample_t sample;
    const char *path;
    const pl_log_t *log;
} work_t;

static pl_status_t write_it(void *context, pl_comm_t *comm)
{
    work_t *work = context;

    return pl_snapshot_write(&work->sample.input, comm, work->path, work->log);
}

static bool set(snapshot_sample_params_t *params, const char *text)
{
    const char *is = strchr(text, '=');
    size_t n       = is == NULL ? 0 : (size_t)(is - text);
    long value     = is == NULL ? 0 : strtol(is + 1, NULL, 10);
    const struct {
        const char *name;
        int32_t *member;
    } members[] = {
        {"n_requests", &params->n_requests},
        {"device_pages", &params->device_pages},
        {"host_pages", &params->host_pages},
        {"decode_pages", &params->decode_pages},
        {"decode_host_pages", &params->decode_host_pages},
        {"storage_pages", &params->storage_pages},
        {"n_prefill", &params->n_prefill},
        {"n_decode", &params->n_decode},
        {"fail_percent", &params->fail_percent},
    };

    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        if ((strlen(members[i].name) == n) &&
            (strncmp(members[i].name, text, n) == 0)) {
            *members[i].member = (int32_t)value;
            return true;
        }
    }
    if (strncmp(text, "seed=", 5) == 0) {
        params->seed = (uint64_t)value;
    } else if (strncmp(text, "max_ticks=", 10) == 0) {
        params->max_ticks = value;
    } else if (strncmp(text, "write_policy=", 13) == 0) {
        params->write_policy = (pl_write_policy_t)value;
    } else if (strncmp(text, "events=", 7) == 0) {
        params->most_events = value;
    } else {
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    snapshot_sample_params_t params = snapshot_sample_params(1);
    pl_log_t log                    = pl_log_stderr(PL_LOG_WARN);
    work_t work                     = {.log = &log};
    pl_status_t status;

    for (int i = 2; i < argc; i++) {
        if (!set(&params, argv[i])) {
            fprintf(stderr, "make_sample: cannot use '%s'\n", argv[i]);
            return 2;
        }
    }
    if (argc < 2) {
        fprintf(stderr, "usage: make_sample FILE [name=value]...\n");
        return 2;
    }
    work.path = argv[1];
    status    = snapshot_sample_run(&params, &log, &work.sample);
    if (status == PL_OK) {
        status = pl_comm_run_local(1, 1, 60.0, &log, write_it, &work);
    }
    snapshot_sample_close(&work.sample);
    return pl_status_exit(status);
}
