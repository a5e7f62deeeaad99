/* cli/fleet_shape.h - which instances --prefill, --decode and --pd ask for.
 *
 *   --prefill NxC        N instances of C GPUs, each a lane
 *   --decode MxG[:dpK]   M instances of G GPUs, K homes of G / K GPUs in each;
 *                        without K each GPU is one
 *   --pd NxC+MxG[:dpK]   both
 */
#ifndef PL_CLI_FLEET_SHAPE_H
#define PL_CLI_FLEET_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"
#include "cli/options.h"

#define PL_FLEET_MOST_INSTANCES 1000

typedef struct pl_fleet_shape {
    int32_t n_prefill, prefill_gpus; /* instances; GPUs of each */
    int32_t n_decode;                /* 0: those that prefill decode too */
    int32_t decode_gpus, homes;      /* of each */
} pl_fleet_shape_t;

/* Do options ask for instances at all? */
bool pl_fleet_is_asked(const pl_options_t *options);

/* PL_ERR_ARGUMENT with one line that says what is expected. */
PL_MUST_CHECK pl_status_t pl_fleet_shape(const pl_options_t *options,
                                         const pl_log_t *log,
                                         pl_fleet_shape_t *shape_p);

int64_t pl_fleet_gpus(const pl_fleet_shape_t *shape);

/* Bytes a microsecond of a --pd-link, such as 50GB/s or 500MB/s; 0: it is no
 * such text. */
int64_t pl_fleet_rate(const char *text);

/* What may stand for `--pd auto`: all ways to part `gpus` into prefill
 * instances of as many GPUs as some cps[n_cps] says, and decode instances of
 * `node` GPUs, or two, four, ... times as many, that take all the rest; every
 * GPU of these is a home.  Each text is owned by the list.  PL_OK,
 * PL_ERR_MEMORY. */
typedef PL_ARRAY(char *) pl_fleet_splits_t;
PL_MUST_CHECK pl_status_t pl_fleet_split(int64_t gpus, const int32_t *cps,
                                         size_t n_cps, int64_t node,
                                         pl_fleet_splits_t *splits);
void pl_fleet_splits_free(pl_fleet_splits_t *splits);

#endif /* PL_CLI_FLEET_SHAPE_H */
