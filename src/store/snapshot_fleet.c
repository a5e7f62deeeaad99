/* What stands in a snapshot of several instances, and where it differs from
 * that of one engine. */
#include <stdio.h>

#include "store/snapshot_internal.h"

const pl_record_t *pl_snapshot_record(const pl_snapshot_input_t *input,
                                      size_t i)
{
    return input->fleet != NULL ? &input->fleet->records[i]
                                : pl_engine_record(input->engine, (int32_t)i);
}

static int64_t homes_of(const pl_engine_t *engine)
{
    const pl_engine_config_t *config = pl_engine_config(engine);

    return config->n_decode > 0              ? config->n_decode
           : config->role == PL_ROLE_PREFILL ? 0
                                             : config->n_prefill;
}

pl_snapshot_shape_t pl_snapshot_shape(const pl_snapshot_input_t *input)
{
    const pl_snapshot_fleet_t *fleet = input->fleet;
    const pl_engine_config_t *config = pl_engine_config(input->engine);
    bool is_apart                    = config->n_decode > 0;
    pl_snapshot_shape_t shape        = {.decodes = input->engine,
                                        .n_lanes = pl_engine_lanes(input->engine),
                                        .n_homes = homes_of(input->engine),
                                        .first_home =
                                     is_apart ? config->n_prefill : 0};

    if (fleet != NULL) {
        shape = (pl_snapshot_shape_t){.decodes = fleet->engines[fleet->n - 1]};
        is_apart = fleet->n > fleet->n_prefill;
    }
    for (int32_t i = 0; (fleet != NULL) && (i < fleet->n); i++) {
        shape.n_lanes +=
            i < fleet->n_prefill ? pl_engine_lanes(fleet->engines[i]) : 0;
        shape.n_homes += homes_of(fleet->engines[i]);
    }
    shape.n_decode = is_apart ? shape.n_homes : 0;
    return shape;
}

/* ---- requests ---- */

static void add_request_column(pl_content_t *content, const char *path,
                               size_t n, const int32_t *data,
                               const char *description)
{
    pl_dataset_t dataset = {.item        = PL_ITEM_I32,
                            .n_dims      = 1,
                            .dims        = {n},
                            .labels      = {"request"},
                            .unit        = "1",
                            .description = description,
                            .data        = n > 0 ? data : NULL,
                            .writer      = PL_REPLICATED};

    (void)pl_content_add(content, path, dataset);
}

void pl_snapshot_add_placed(const pl_snapshot_input_t *input,
                            pl_content_t *content)
{
    size_t n = (size_t)pl_engine_n_requests(input->engine);

    if (input->fleet == NULL) {
        return;
    }
    add_request_column(content, "/requests/prefill_instance", n,
                       input->fleet->prefill,
                       "instance that prefilled it last; -1: none");
    add_request_column(content, "/requests/decode_instance", n,
                       input->fleet->decode,
                       "instance that decoded it last; -1: none");
}

/* ---- instances ---- */

static void add_measure(pl_content_t *content, size_t n,
                        const pl_snapshot_measure_t *measure)
{
    char path[96];
    pl_dataset_t dataset = {.item        = PL_ITEM_I64,
                            .n_dims      = 1,
                            .dims        = {n},
                            .labels      = {"instance"},
                            .unit        = measure->unit,
                            .description = measure->description,
                            .data        = measure->values,
                            .writer      = PL_REPLICATED};

    (void)snprintf(path, sizeof(path), "/instances/%s", measure->name);
    (void)pl_content_add(content, path, dataset);
}

void pl_snapshot_add_instances(const pl_snapshot_input_t *input,
                               pl_content_t *content)
{
    const pl_snapshot_fleet_t *fleet = input->fleet;

    if (fleet == NULL) {
        return;
    }
    pl_content_group(content, "/instances");
    pl_content_integer(content, "/instances", "transfer_wait_ns",
                       fleet->transfer_wait_ns);
    for (size_t i = 0; i < fleet->n_measures; i++) {
        add_measure(content, (size_t)fleet->n, &fleet->measures[i]);
    }
}

/* ---- over time ---- */

void pl_snapshot_add_instance_lanes(const pl_lane_history_t *lanes,
                                    pl_content_t *content)
{
    const struct {
        const char *path;
        pl_item_t item;
        const void *data;
        const char *unit, *description;
    } columns[] = {
        {"/lanes/instance_running", PL_ITEM_I32, lanes->instance_running, "1",
         "requests that decode there"},
        {"/lanes/instance_waiting", PL_ITEM_I32, lanes->instance_waiting, "1",
         "requests that wait there, for their first chunk or step"},
        {"/lanes/instance_busy_ns", PL_ITEM_I64, lanes->instance_busy_ns, "ns",
         "time in which it had computed so far"},
    };

    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        pl_dataset_t dataset = {
            .item        = columns[i].item,
            .n_dims      = 2,
            .dims        = {lanes->n, (uint64_t)lanes->n_instances},
            .labels      = {"sample", "instance"},
            .unit        = columns[i].unit,
            .description = columns[i].description,
            .data        = lanes->n > 0 ? columns[i].data : NULL,
            .writer      = PL_REPLICATED};

        if (lanes->n_instances > 0) {
            (void)pl_content_add(content, columns[i].path, dataset);
        }
    }
}
