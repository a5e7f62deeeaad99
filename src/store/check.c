#include "store/check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "store/check_internal.h"

const char *pl_check_key(pl_check_kind_t kind)
{
    static const char *const KEYS[] = {
#define PL_CHECK_KEY(kind, key, text) key,
        PL_CHECK_LIST(PL_CHECK_KEY)
#undef PL_CHECK_KEY
    };

    return KEYS[kind];
}

const char *pl_check_text(pl_check_kind_t kind)
{
    static const char *const TEXTS[] = {
#define PL_CHECK_TEXT(kind, key, text) text,
        PL_CHECK_LIST(PL_CHECK_TEXT)
#undef PL_CHECK_TEXT
    };

    return TEXTS[kind];
}

int64_t pl_check_total(const pl_check_report_t *report)
{
    int64_t total = 0;

    for (int i = 0; i < PL_CHECK_KINDS; i++) {
        total += report->found[i].count;
    }
    return total;
}

void pl_check_find(pl_check_report_t *report, pl_check_kind_t kind,
                   const char *format, ...)
{
    va_list arguments;

    if (report->found[kind].count++ == 0) {
        va_start(arguments, format);
        (void)vsnprintf(report->found[kind].first,
                        sizeof(report->found[kind].first), format, arguments);
        va_end(arguments);
    }
}

static void free_tier(pl_check_tier_t *check)
{
    pl_tier_listing_free(&check->listing);
    pl_tier_index_free(&check->index);
    PL_ARRAY_FREE(&check->absurd);
    free(check->is_bad);
    free(check->is_torn);
}

/* An empty folder is an empty one: a crash may leave it. */
static bool is_tier(const pl_tier_listing_t *listing)
{
    return listing->has_index || listing->has_partial || listing->has_lock ||
           (listing->segments.n > 0) || (listing->stranger[0] == '\0');
}

static pl_status_t check_folder(const char *folder, bool repair,
                                const pl_log_t *log, pl_check_report_t *report)
{
    pl_check_tier_t check = {.folder = folder, .log = log, .report = report};
    pl_tier_lock_t *lock  = NULL;
    pl_status_t status    = pl_tier_hold(folder, log, &lock);

    if (status == PL_OK) {
        status = pl_tier_list(folder, log, &check.listing);
    }
    if ((status == PL_OK) && !is_tier(&check.listing)) {
        pl_log(log, PL_LOG_ERROR,
               "%s is no storage tier: there is no index and no segment in it; "
               "expected the folder of --storage, or a snapshot",
               folder);
        status = PL_ERR_INPUT;
    } else if ((status == PL_OK) && (check.listing.stranger[0] != '\0')) {
        pl_log(log, PL_LOG_ERROR,
               "%s: it holds '%s', which is no part of a storage tier, and is "
               "left as it is; expected the folder of --storage alone",
               folder, check.listing.stranger);
        status = PL_ERR_INPUT;
    }
    if (status == PL_OK) {
        status = pl_check_tier(&check);
    }
    if ((status == PL_OK) && repair && (pl_check_total(report) > 0)) {
        status              = pl_check_repair(&check);
        report->is_repaired = status == PL_OK;
    }
    free_tier(&check);
    pl_tier_release(lock);
    return status;
}

pl_status_t pl_check(const char *path, bool repair, const pl_log_t *log,
                     pl_check_report_t *report_p)
{
    pl_check_report_t report = {0};
    struct stat about;
    pl_status_t status;

    if (stat(path, &about) != 0) {
        pl_log(log, PL_LOG_ERROR, "cannot read %s: %s", path, strerror(errno));
        return PL_ERR_INPUT;
    }
    status = S_ISDIR(about.st_mode) ? check_folder(path, repair, log, &report)
                                    : pl_check_file(path, log, &report);
    if (status == PL_OK) {
        *report_p = report;
    }
    return status;
}
