/* store/sweep.h - what the points of a sweep came to: on the way in a journal,
 * at the end in one HDF5 file (docs/schema.md, "Sweep").
 *
 * The journal is a folder.  `grid` says what is swept, one `name = value` a
 * line; each rank adds a line for each of its points to a file of its own.  A
 * line that is not whole (the end of a run that was killed) is as if it were
 * not there.
 *
 *   rank 0:    pl_sweep_journal_open, pl_sweep_journal_read
 *   each rank: pl_sweep_journal_add, point by point
 *   rank 0:    pl_sweep_journal_read, pl_sweep_write, pl_sweep_journal_remove
 *
 * Not collective.  Failures say one line: PL_ERR_IO, PL_ERR_MEMORY, and what
 * stands at a call.
 */
#ifndef PL_STORE_SWEEP_H
#define PL_STORE_SWEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

#include "base/array.h"

#define PL_SWEEP_FORMAT "pagelane-sweep"
#define PL_SWEEP_MAJOR  1
#define PL_SWEEP_MINOR  1

#define PL_SWEEP_NAME_BYTES 48
#define PL_SWEEP_UNIT_BYTES 16

/* A number of a point: [a-z0-9_]*, no blank in the unit. */
typedef struct pl_sweep_value {
    char name[PL_SWEEP_NAME_BYTES];
    char unit[PL_SWEEP_UNIT_BYTES];
    int64_t mean, half; /* over seeds: the mean, and half of its interval */
} pl_sweep_value_t;

typedef struct pl_sweep_point {
    bool is_known;      /* else nothing of it is */
    pl_status_t status; /* not PL_OK: it cannot be run, and `why` says so */
    char *why;          /* owned; NULL: nothing */
    int32_t n_seeds;    /* that were run */
    int32_t rank;       /* that did it */
    int64_t wall_ns;    /* time of day that it took */
    PL_ARRAY(pl_sweep_value_t) values; /* ascending by name (strcmp) */
} pl_sweep_point_t;

/* Is it the unit of numbers that are reals elsewhere, in millionths (of ms, s,
 * 1 or 1/s)?  Else they are whole. */
bool pl_sweep_is_millionths(const char *unit);

void pl_sweep_point_free(pl_sweep_point_t *point); /* zeroed is allowed */

/* The value of that name, or NULL. */
const pl_sweep_value_t *pl_sweep_find(const pl_sweep_point_t *point,
                                      const char *name);

/* ---- the journal ---- */

/* Make the folder, or go on with it (`resume`).  One in which no point ran is
 * made anew.  PL_ERR_ARGUMENT: points stand there, and `resume` is false;
 * PL_ERR_INPUT: they are those of another `grid`. */
PL_MUST_CHECK pl_status_t pl_sweep_journal_open(const char *folder,
                                                const char *grid, bool resume,
                                                const pl_log_t *log);

/* What all ranks have written, of any run, into points[n_points]. */
PL_MUST_CHECK pl_status_t pl_sweep_journal_read(const char *folder,
                                                pl_sweep_point_t *points,
                                                size_t n_points,
                                                const pl_log_t *log);

/* `sync`: it is on the disk, with all that this rank added before.  Without, it
 * outlives the process, but maybe not the machine. */
PL_MUST_CHECK pl_status_t pl_sweep_journal_add(const char *folder, int rank,
                                               size_t index,
                                               const pl_sweep_point_t *point,
                                               bool sync, const pl_log_t *log);

/* Has a point run whose line stands there?  Those that cannot be run cost
 * nothing.  false: there is no such folder. */
PL_MUST_CHECK pl_status_t pl_sweep_journal_holds(const char *folder,
                                                 const pl_log_t *log,
                                                 bool *holds_p);

/* Silent: what is left can be removed by hand. */
void pl_sweep_journal_remove(const char *folder);

/* ---- the file ---- */

typedef struct pl_sweep_text {
    const char *name, *value;
} pl_sweep_text_t;

/* A column of texts, one a point. */
typedef struct pl_sweep_axis {
    const char *name;
    const char *const *items; /* [n_points] */
} pl_sweep_axis_t;

/* All borrowed. */
typedef struct pl_sweep_file {
    const pl_sweep_text_t *config; /* what is the same at all points */
    size_t n_config;
    const pl_sweep_axis_t *axes;
    size_t n_axes;
    const char *grid;               /* what is swept, as in a journal */
    const pl_sweep_point_t *points; /* [n_points], all known */
    const int64_t *places;          /* [n_points] 1: the best */
    const uint8_t *meets;           /* [n_points] 1: its limits */
    const int64_t *gpu_hours;       /* [n_points] in millionths */
    const int64_t *costs;           /* likewise; NULL: there is no price */
    const char *const *limits;      /* [n_points] what limits it, in words */
    size_t n_points;
    bool intervals;  /* numbers are means over seeds */
    int64_t n_ranks; /* of the last run */
    int64_t wall_ns; /* of the last run */
    const char *date;
} pl_sweep_file_t;

/* Write it as `partial` and publish it as `path`, whole or not at all.  Also
 * PL_ERR_INTERNAL. */
PL_MUST_CHECK pl_status_t pl_sweep_write(const pl_sweep_file_t *file,
                                         const char *partial, const char *path,
                                         const pl_log_t *log);

/* The points of such a file, into points[n_points].  PL_ERR_INPUT: it is none,
 * or one of another `grid`. */
PL_MUST_CHECK pl_status_t pl_sweep_known_read(const char *path,
                                              const char *grid,
                                              pl_sweep_point_t *points,
                                              size_t n_points,
                                              const pl_log_t *log);

#endif /* PL_STORE_SWEEP_H */
