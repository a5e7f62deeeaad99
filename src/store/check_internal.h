/* store/check_internal.h - the parts of store/check.h:
 *   check.c           what it is; reports
 *   check_tier.c      index and segments of a tier
 *   check_repair.c    keeping what is good
 *   check_snapshot.c  files: tables of a snapshot, or of a sweep
 *   check_fleet.c     tables of a snapshot of several instances
 */
#ifndef PL_STORE_CHECK_INTERNAL_H
#define PL_STORE_CHECK_INTERNAL_H

#include "base/text.h"
#include "store/check.h"
#include "store/reader.h"
#include "store/tier_folder.h"
#include "store/tier_internal.h"

/* One more of a kind; the first one's place is kept. */
void pl_check_find(pl_check_report_t *report, pl_check_kind_t kind,
                   const char *format, ...) PL_TEXT_FORMAT(3, 4);

/* A slot of a segment, counted within it: what number the slot has in the
 * share is of no matter where the header cannot be believed. */
typedef struct pl_check_slot {
    pl_segment_name_t segment;
    int32_t slot;
} pl_check_slot_t;

typedef struct pl_check_tier {
    const char *folder;
    const pl_log_t *log;
    pl_check_report_t *report;
    pl_tier_listing_t listing;
    bool has_index; /* whole */
    pl_tier_index_t index;
    uint8_t *is_bad; /* [index.n_entries] */
    bool *is_torn;   /* [listing.segments.n] */
    int64_t highest; /* stamp in any header that somebody can have meant */
    PL_ARRAY(pl_check_slot_t) absurd; /* those with other stamps */
    int64_t next_progress;            /* bytes */
} pl_check_tier_t;

/* Stamps above it were never given. */
#define PL_CHECK_MOST_STAMP (INT64_MAX / 4)

PL_MUST_CHECK pl_status_t pl_check_tier(pl_check_tier_t *check);
PL_MUST_CHECK pl_status_t pl_check_repair(pl_check_tier_t *check);

PL_MUST_CHECK pl_status_t pl_check_file(const char *path, const pl_log_t *log,
                                        pl_check_report_t *report);

PL_MUST_CHECK pl_status_t pl_check_fleet(const pl_snapshot_t *snapshot,
                                         pl_check_report_t *report);

#endif /* PL_STORE_CHECK_INTERNAL_H */
