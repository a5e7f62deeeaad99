/* store/tier_folder.h - the files of a tier's folder; inside store. */
#ifndef PL_STORE_TIER_FOLDER_H
#define PL_STORE_TIER_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "base/array.h"
#include "store/segment.h"
#include "store/tier.h"

typedef struct pl_tier_listing {
    bool has_index, has_partial, has_lock;
    PL_ARRAY(pl_segment_name_t) segments; /* ascending */
    char stranger[256]; /* a file that is none of a tier's; "": none.  An index
                           that no run of ours can have left is one, too */
} pl_tier_listing_t;

/* PL_OK; PL_ERR_INPUT: there is no such folder; PL_ERR_MEMORY; one line.  The
 * listing is freed after PL_OK. */
PL_MUST_CHECK pl_status_t pl_tier_list(const char *folder, const pl_log_t *log,
                                       pl_tier_listing_t *listing_p);
void pl_tier_listing_free(pl_tier_listing_t *listing);

/* Hold the lock of a folder that is there, if it has one, and change nothing.
 * PL_OK; PL_ERR_INPUT: a run writes it, or there is no such folder (one line);
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_tier_hold(const char *folder, const pl_log_t *log,
                                       pl_tier_lock_t **lock_p);

/* A share in the lock that a run has prepared: while one is held no other run
 * gets it, whatever became of rank 0.  A descriptor to close; -1: there is no
 * lock that can be shared. */
int pl_tier_share(const char *folder);

/* Is this rank the first of its run to say that the disk fails?  A descriptor
 * to close at the end of the run, until when no other rank is; -1: another was.
 * A folder that cannot be asked is no reason to be silent: -2. */
int pl_tier_speak_first(const char *folder);

/* "<folder>/<name>", for the caller to free; NULL: out of memory. */
char *pl_tier_path(const char *folder, const char *name);

/* Open a segment for reading; -1: errno says why not, ENOENT if there is none.
 */
int pl_tier_open_segment(const char *folder, pl_segment_name_t name);

#endif /* PL_STORE_TIER_FOLDER_H */
