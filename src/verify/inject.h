/* verify/inject.h - breaking things on purpose: --inject POINT[=ACTION][@WHEN].
 *
 * A table of named points.  Code asks `pl_inject_hit` at a point; the answer
 * depends on the table, the rank and how often the point was reached before on
 * this rank, so it is repeatable.  Points in the control plane are asked on all
 * ranks alike (WHEN must not name a rank there).
 *
 *   load.alloc=plain        control: load-back allocates without saved owners
 *   write.owner=shift       control: a backup records owners one lane off
 *   split.during-write      control: a node is split while its backup runs
 *   load.delay              data: a load-back ends as late as it may
 *   load.fail               data: a load-back fails on one rank
 *   host.alloc=fail         data: host memory cannot be had on one rank
 *   flip=device|host|transfer
 *                           data: one bit of a page flips in that tier
 *   transfer.abort          data: a send fails on one rank
 *   backup.fail             data: a backup fails on one rank
 *   store.fail              data: a write to storage fails on one rank
 *   fetch.fail              data: a page of a fetch cannot be read on one rank
 *   flip=storage            data: one bit of a page on disk flips
 *   die=STEP                data: a rank kills itself (SIGKILL).  STEP:
 *     backup                in the middle of a backup
 *     store                 when half of a write to storage is out
 *     store-sync            before its sync
 *     publish               when half of an index is out
 *     publish-sync          before its sync
 *     publish-rename        between that and its renaming
 *     publish-folder        between that and the sync of its folder
 *     published             after it
 *   file=ACTION             data: the K-th call of the file layer on a rank
 *                           (open, write, sync, rename, ... alike)
 *     fail                  fails
 *     short                 writes half and fails
 *     lost                  is the last, and all that was not synced before is
 *                           lost (the process ends)
 *   disk=full               data: from then on the disk is full
 *   rank.die                data: a rank kills itself
 *   rank.stall              data: a rank stops answering
 *
 * The action may be left out where there is only one.  WHEN is a
 * comma-separated list of: rank:R (default: for flip, *.fail, host.alloc,
 * *.abort, die, file, disk and rank.* the first rank that comes to the point,
 * for the others every rank), count:K (the K-th time the point is reached on a
 * rank, from 1; default 1), every (each time; the default of load.alloc,
 * write.owner and load.delay), tick:T (not before tick T; not for flip=storage,
 * die but die=backup, file and disk, whose threads know no ticks).
 */
#ifndef PL_VERIFY_INJECT_H
#define PL_VERIFY_INJECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

typedef enum pl_inject_point {
    PL_INJECT_LOAD_ALLOC_PLAIN,
    PL_INJECT_WRITE_OWNER_SHIFT,
    PL_INJECT_SPLIT_DURING_WRITE,
    PL_INJECT_LOAD_DELAY,
    PL_INJECT_LOAD_FAIL,
    PL_INJECT_HOST_ALLOC_FAIL,
    PL_INJECT_FLIP_DEVICE,
    PL_INJECT_FLIP_HOST,
    PL_INJECT_FLIP_TRANSFER,
    PL_INJECT_TRANSFER_ABORT,
    PL_INJECT_BACKUP_FAIL,
    PL_INJECT_STORE_FAIL,
    PL_INJECT_FETCH_FAIL,
    PL_INJECT_FLIP_STORAGE,
    PL_INJECT_DIE_BACKUP,
    PL_INJECT_DIE_STORE,
    PL_INJECT_DIE_STORE_SYNC,
    PL_INJECT_DIE_PUBLISH,
    PL_INJECT_DIE_PUBLISH_SYNC,
    PL_INJECT_DIE_PUBLISH_RENAME,
    PL_INJECT_DIE_PUBLISH_FOLDER,
    PL_INJECT_DIE_PUBLISHED,
    PL_INJECT_FILE_FAIL,
    PL_INJECT_FILE_SHORT,
    PL_INJECT_FILE_LOST,
    PL_INJECT_DISK_FULL,
    PL_INJECT_RANK_DIE,
    PL_INJECT_RANK_STALL,
    PL_INJECT_POINTS
} pl_inject_point_t;

typedef struct pl_inject_rule {
    bool active;
    bool every;
    int32_t rank;    /* -1: any */
    int64_t count;   /* 1-based; 0 with `every` */
    int64_t tick;    /* not before */
    int64_t reached; /* how often this rank came here since `tick` */
} pl_inject_rule_t;

/* A value: each rank has its own copy, and so has each part of a rank that
 * counts on its own.  Zeroed = nothing is injected. */
typedef struct pl_inject {
    pl_inject_rule_t rules[PL_INJECT_POINTS];
    /* Borrowed, of all copies of a process, or NULL: bit p is set when what is
     * asked for at point p happens. */
    atomic_uint_fast64_t *happened;
} pl_inject_t;

/* Add the rule of one --inject text; a second rule for a point replaces the
 * first.  PL_ERR_ARGUMENT with one line that lists the points (or, for a bad
 * WHEN, what it may be); nothing changed. */
PL_MUST_CHECK pl_status_t pl_inject_parse(pl_inject_t *inject, const char *text,
                                          const pl_log_t *log);

/* Can anything happen at all? */
bool pl_inject_is_active(const pl_inject_t *inject);

/* This rank comes to a point in `tick`: does it happen here and now?  NULL is
 * allowed.  `rank` counts the ranks that can come to the point at all, in
 * order: a rule without rank:R for "the first rank" is one for rank 0, and a
 * caller whose point only some ranks reach passes their number among these.
 * Control plane: pass 0, on all ranks. */
bool pl_inject_hit(pl_inject_t *inject, pl_inject_point_t point, int rank,
                   int64_t tick);

/* The point that a text of --inject names; PL_INJECT_POINTS: none. */
pl_inject_point_t pl_inject_point(const char *text);

/* The help text of --inject: one line a point. */
const char *pl_inject_help(void);

#endif /* PL_VERIFY_INJECT_H */
