/* property/engine/drive.h - an engine without ranks: plans are carried out by
 * saying so, and failures are drawn from a seed.
 *
 * The driver keeps a small model of what the ranks' memory would hold: each
 * slot of each tier knows whose bytes (which prompt prefix and page) it has,
 * and who is copying from or to it.  So what reads a page that nobody wrote, or
 * another's, or one that is still on its way, and what gives a page away that
 * somebody uses, is found at once.  Copies are as late as they may be: the
 * source must be as it was until the operation's end, and what failed leaves
 * junk.  Besides, each plan is held against the laws of engine/plan.h. */
#ifndef PL_TESTS_ENGINE_DRIVE_H
#define PL_TESTS_ENGINE_DRIVE_H

#include "base/rng.h"
#include "cache/storage_table.h"
#include "engine/engine.h"

/* One request of a trace written by hand. */
typedef struct drive_request {
    int64_t arrival_ns;
    int32_t input_tokens, output_tokens;
    int32_t family; /* prompts of a family begin alike */
    int32_t shared; /* pages of the family's text at its start */
} drive_request_t;

/* What outlives a run: a storage folder. */
typedef struct drive_disk drive_disk_t;
drive_disk_t *drive_disk_open(void);
void drive_disk_close(drive_disk_t *disk);

typedef struct drive_params {
    pl_engine_config_t config; /* storage_start, skip: the driver's own */
    drive_disk_t *disk;        /* NULL: one for this run alone */
    int64_t stop_tick;         /* > 0: all ranks die then */
    bool resume; /* what the last index calls finished is not run again */
    bool tight;  /* device_pages: the least that every prompt fits cold, plus
                    config.device_pages */
    uint64_t seed;
    int32_t n_requests;
    const drive_request_t *script; /* [n_requests]; NULL: drawn from the seed */
    int32_t longest_prompt;        /* tokens */
    int32_t longest_output;        /* tokens */
    int32_t n_families;
    int64_t gap_ns; /* largest time between arrivals */
    bool turns;     /* some requests wait for others */
    double p_fail;  /* of each operation that can fail */

    /* What a test looks at; each may be NULL. */
    void *context;
    void (*event)(void *context, const pl_event_t *event);
    /* After commit, before it is executed. */
    void (*plan)(void *context, const pl_engine_t *engine,
                 const pl_plan_t *plan);
    /* Does some rank fail to reserve it (at_end false), or at it (true)?
     * Besides those that p_fail draws. */
    bool (*fails)(void *context, const pl_op_t *op, bool at_end);
    /* Pages of a fetch that some rank finds bad or cannot read, a bit each.
     * Besides. */
    pl_storage_end_t (*bad_pages)(void *context, const pl_op_t *op);
} drive_params_t;

typedef struct drive_result {
    uint64_t decisions; /* hash over all plans and events */
    pl_engine_counters_t counters;
    pl_hicache_counters_t cache;
    pl_storage_counters_t storage;
    int64_t device_hits, host_hits; /* requests with some */
    int64_t storage_hits, storage_misses;
    int64_t relaid;   /* pages written that lay in a set of old */
    int64_t timeouts; /* prompts that did not wait longer for their pages */
    int32_t n_skipped;
    int64_t adoptions;     /* evicted nodes that took recomputed pages */
    int64_t spoiled;       /* chunks computed from a load-back that failed */
    int64_t partial_moves; /* offloads whose last page was not full */
    int64_t turns;         /* requests that came when others had ended */
    int32_t n_failed;
    int32_t n_unfit; /* of those: preempted, and too long to come back */
} drive_result_t;

/* Run to the end; fails the Check test on any broken law.  check_every: ticks
 * between full self-checks (1: each). */
void drive(const drive_params_t *params, int check_every,
           drive_result_t *result);

#endif /* PL_TESTS_ENGINE_DRIVE_H */
