/* support/tier_sample.h - a storage tier of C virtual ranks in one process,
 * with pages whose bytes follow from their chain.
 *
 *   tier_sample_open
 *     -> tier_sample_store, tier_sample_publish, tier_sample_fetch, ...
 *     -> tier_sample_close
 *
 * Everything runs on the caller's thread, but for the doors' own.
 */
#ifndef SUPPORT_TIER_SAMPLE_H
#define SUPPORT_TIER_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#include "store/tier.h"

enum { TIER_SAMPLE_RANKS = 8, TIER_SAMPLE_LONGEST = 64 };

typedef struct tier_sample {
    const char *folder; /* as given, like all up to `inject` */
    const char *dtype;  /* NULL: "stamp" */
    int n_ranks;
    int32_t n_slots;
    int32_t page_tokens, n_layers, row_bytes;
    bool read_only;
    const pl_inject_t *inject;
    const pl_log_t *log;

    pl_store_layout_t layout;
    pl_tier_identity_t identity;
    pl_tier_content_t content;
    pl_files_journal_t *journal;
    pl_files_t *files[TIER_SAMPLE_RANKS];
    pl_tier_lock_t *lock;
    pl_storage_t *storage;
    pl_storage_door_t *doors[TIER_SAMPLE_RANKS];
} tier_sample_t;

/* Remove all files of a folder, if it is there. */
void tier_sample_empty(const char *folder);

/* A sample of small pages in that folder. */
tier_sample_t tier_sample_make(const char *folder, int n_ranks, int32_t n_slots,
                               const pl_log_t *log);

/* Read, prepare, open the doors.  On another status nothing is held. */
pl_status_t tier_sample_open(tier_sample_t *sample);
/* Without a publication. */
void tier_sample_close(tier_sample_t *sample);

/* Pages [first, first + n) of prefix `prefix`, those before are kept; false: a
 * rank failed (then they are not kept) or there was no room. */
bool tier_sample_store(tier_sample_t *sample, uint64_t prefix, int32_t first,
                       int32_t n);
bool tier_sample_publish(tier_sample_t *sample);

/* How many pages of the prefix are kept; each is read and must have its bytes
 * and digest.  What is bad is released as bad, and what could not be read as
 * that.  -1: a page came with other bytes than it should, and was not reported.
 */
int32_t tier_sample_fetch(tier_sample_t *sample, uint64_t prefix);
/* The same for prefixes 0 .. n - 1: their sum, or -1. */
int32_t tier_sample_fetch_all(tier_sample_t *sample, uint64_t n);

#endif /* SUPPORT_TIER_SAMPLE_H */
