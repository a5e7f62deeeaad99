/* store/snapshot_internal.h - the parts of store/snapshot.h:
 *   snapshot_content.c  what stands in the file: requests, lanes, events, ...
 *   snapshot_cache.c    the same for /hicache
 *   snapshot_fleet.c    what several instances have
 *   pack.c              columns, shuffled and deflated
 *   image.c, seal.c     the file in memory; is it whole?
 *   h5.c                HDF5 calls with our statuses
 *   snapshot_write.c    skeleton, raw data, publishing
 */
#ifndef PL_STORE_SNAPSHOT_INTERNAL_H
#define PL_STORE_SNAPSHOT_INTERNAL_H

#include "store/content.h"
#include "store/image.h"
#include "store/snapshot.h"

/* Everything that will stand in the file.  Points into `input`: both must stay
 * as they are while the content is used.  PL_OK, or PL_ERR_MEMORY with one
 * line; the caller frees the content after any status. */
PL_MUST_CHECK pl_status_t pl_snapshot_content(const pl_snapshot_input_t *input,
                                              const pl_log_t *log,
                                              pl_content_t *content);

/* The same, with another tree than the engine's, as large as a measurement
 * wants it. */
PL_MUST_CHECK pl_status_t
pl_snapshot_content_of(const pl_snapshot_input_t *input, const pl_tree_t *tree,
                       const pl_log_t *log, pl_content_t *content);

/* ---- snapshot_fleet.c ---- */

const pl_record_t *pl_snapshot_record(const pl_snapshot_input_t *input,
                                      size_t i);

typedef struct pl_snapshot_shape {
    const pl_engine_t *decodes; /* an engine that has homes */
    int64_t n_lanes, n_homes;   /* of all engines */
    int64_t n_decode, first_home;
} pl_snapshot_shape_t;
pl_snapshot_shape_t pl_snapshot_shape(const pl_snapshot_input_t *input);

/* Of several instances: columns of /requests, /instances, columns of /lanes. */
void pl_snapshot_add_placed(const pl_snapshot_input_t *input,
                            pl_content_t *content);
void pl_snapshot_add_instances(const pl_snapshot_input_t *input,
                               pl_content_t *content);
void pl_snapshot_add_instance_lanes(const pl_lane_history_t *lanes,
                                    pl_content_t *content);

/* /hicache of it. */
void pl_snapshot_add_cache(const pl_engine_t *engine, const pl_tree_t *tree,
                           pl_content_t *content);

/* Pack it, with all threads, and make the file.  Statuses of pl_image_make. */
PL_MUST_CHECK pl_status_t pl_snapshot_image(const pl_content_t *content,
                                            const char *name,
                                            const pl_log_t *log,
                                            pl_image_t *image_p);

/* Collective.  pl_snapshot_write without its last step: on PL_OK <partial> is
 * whole and synced. */
PL_MUST_CHECK pl_status_t pl_snapshot_write_partial(const pl_content_t *content,
                                                    pl_comm_t *comm,
                                                    const char *partial,
                                                    const pl_log_t *log);

#endif /* PL_STORE_SNAPSHOT_INTERNAL_H */
