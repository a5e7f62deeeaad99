/* cli/fleet_file.h - several instances as they stand in a snapshot: the columns
 * of /instances, written and read. */
#ifndef PL_CLI_FLEET_FILE_H
#define PL_CLI_FLEET_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/status.h>

#include "sim/fleet.h"
#include "sim/outcome.h"
#include "store/reader.h"
#include "store/snapshot.h"

/* One instance. */
typedef struct pl_fleet_row {
    int64_t prefills, decodes; /* 0, 1 */
    int64_t gpus;
    int64_t lanes; /* of its device and host tiers */
    int64_t homes; /* that it decodes on */
    pl_fleet_usage_t usage;
} pl_fleet_row_t;

#define PL_FLEET_COLUMNS 20

/* Columns of rows[n], in the order of docs/schema.md.  `values` has
 * PL_FLEET_COLUMNS * n items, to which they point. */
void pl_fleet_columns(const pl_fleet_row_t *rows, size_t n, int64_t *values,
                      pl_snapshot_measure_t columns[PL_FLEET_COLUMNS]);

/* Instances of a file, those that prefill first. */
typedef struct pl_fleet_file {
    int32_t n; /* 0: it is of one engine */
    int32_t n_prefill;
    int32_t homes;            /* of an instance that decodes */
    pl_fleet_row_t *rows;     /* [n] */
    pl_fleet_usage_t *usages; /* [n] those of rows, as an outcome has them */
    pl_fleet_waits_t waits;
    /* By request: rows; -1: none. */
    pl_snapshot_column_t prefill, decode;
} pl_fleet_file_t;

/* Read them; a file without is no error.  All numbers are 0 or more and small
 * enough to be added up; lanes and homes are those of /layout.  PL_OK;
 * PL_ERR_INPUT with one line; PL_ERR_MEMORY.  Free after any status. */
PL_MUST_CHECK pl_status_t pl_fleet_read(const pl_snapshot_t *snapshot,
                                        int32_t n_requests,
                                        pl_fleet_file_t *file);
void pl_fleet_file_free(pl_fleet_file_t *file);

/* Is it of several instances?  What they have in common with one engine alone
 * needs no look. */
bool pl_fleet_is_in(const pl_snapshot_t *snapshot);

/* What `sim` had: records[n] are borrowed, as is the file.  It has no engines,
 * and of the counters those of time. */
pl_outcome_t pl_fleet_outcome(const pl_fleet_file_t *file, pl_record_t *records,
                              int32_t n);

/* The instance that a lane (of_decode: a home) is of, and which of its own it
 * is. */
int32_t pl_fleet_instance_of(const pl_fleet_file_t *file, bool of_decode,
                             int64_t lane, int64_t *own_p);

/* Of an instance, "prefill 0" or "decode 2": as `sim` names it. */
#define PL_FLEET_NAME_BYTES 32
void pl_fleet_name(const pl_fleet_file_t *file, int32_t i,
                   char name[PL_FLEET_NAME_BYTES]);

/* PL_ERR_INPUT and one line if the file is of several instances, which have not
 * what `who` reads; PL_OK of one engine. */
PL_MUST_CHECK pl_status_t pl_fleet_refuse(const pl_snapshot_t *snapshot,
                                          const char *who);

#endif /* PL_CLI_FLEET_FILE_H */
