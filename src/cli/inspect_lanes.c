/* pagelane inspect F lanes: free pages by tier and lane, over time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/fleet_file.h"
#include "cli/inspect.h"
#include "cli/table.h"

enum { DEVICE, HOST, DECODE, DECODE_HOST, TIERS };

static const char *const TIER_NAMES[TIERS] = {
    [DEVICE]      = "device",
    [HOST]        = "host",
    [DECODE]      = "decode",
    [DECODE_HOST] = "decode host",
};

static const char *const TIER_PATHS[TIERS] = {
    [DEVICE]      = "device_free",
    [HOST]        = "host_free",
    [DECODE]      = "decode_free",
    [DECODE_HOST] = "decode_host_free",
};

enum { TICK, TIME, RUNNING, WAITING, COLUMNS };

static const pl_inspect_spec_t SPECS[COLUMNS] = {
    [TICK]    = {"tick", PL_ITEM_I64},
    [TIME]    = {"time_ns", PL_ITEM_I64},
    [RUNNING] = {"running", PL_ITEM_I32},
    [WAITING] = {"waiting", PL_ITEM_I32},
};

typedef struct lanes {
    pl_inspect_layout_t layout;
    pl_snapshot_column_t columns[COLUMNS];
    pl_snapshot_column_t free[TIERS]; /* [sample][lane or home] */
    pl_fleet_file_t fleet;
    size_t n;
} lanes_t;

/* Lanes of a tier and the pages each can hand out. */
static size_t lanes_of(const lanes_t *lanes, int tier)
{
    return (size_t)(tier < DECODE ? lanes->layout.n_lanes
                                  : lanes->layout.n_homes);
}

static int64_t pages_of(const lanes_t *lanes, int tier)
{
    const pl_inspect_layout_t *l = &lanes->layout;
    const int64_t pages[TIERS]   = {
          [DEVICE]      = l->device_pages - l->device_reserved,
          [HOST]        = l->host_pages - l->host_reserved,
          [DECODE]      = l->decode_pages - l->decode_reserved,
          [DECODE_HOST] = l->decode_host_pages - l->decode_host_reserved,
    };

    return pages[tier];
}

static pl_status_t read_fleet(const pl_snapshot_t *snapshot, lanes_t *lanes)
{
    pl_record_t *records = NULL;
    int32_t n            = 0;

    if (!pl_fleet_is_in(snapshot)) {
        return PL_OK;
    }
    PL_TRY(pl_inspect_records(snapshot, &records, &n));
    free(records);
    return pl_fleet_read(snapshot, n, &lanes->fleet);
}

static pl_status_t load(const pl_snapshot_t *snapshot, lanes_t *lanes)
{
    PL_TRY(pl_inspect_layout(snapshot, &lanes->layout));
    PL_TRY(pl_inspect_columns(snapshot, "/lanes", SPECS, COLUMNS,
                              lanes->columns, &lanes->n));
    for (int tier = 0; tier < TIERS; tier++) {
        char path[64];

        (void)snprintf(path, sizeof(path), "/lanes/%s", TIER_PATHS[tier]);
        PL_TRY(pl_snapshot_read(snapshot, path, PL_ITEM_I32, lanes->n,
                                lanes_of(lanes, tier), &lanes->free[tier]));
    }
    return read_fleet(snapshot, lanes);
}

/* Of one lane over all samples. */
typedef struct span {
    int64_t last, least, least_tick;
    double mean;
} span_t;

static span_t span_of(const lanes_t *lanes, int tier, size_t lane)
{
    const pl_snapshot_column_t *column = &lanes->free[tier];
    span_t span                        = {0};
    double total                       = 0;

    for (size_t i = 0; i < lanes->n; i++) {
        int64_t n_free = column->items[i * column->columns + lane];

        if ((i == 0) || (n_free < span.least)) {
            span.least      = n_free;
            span.least_tick = lanes->columns[TICK].items[i];
        }
        span.last = n_free;
        total += (double)n_free;
    }
    span.mean = lanes->n == 0 ? 0.0 : total / (double)lanes->n;
    return span;
}

/* Within its instance, if there are several; else *instance_p stays. */
static int64_t rank_of(const lanes_t *lanes, int tier, size_t lane,
                       int32_t *instance_p)
{
    int64_t rank =
        (int64_t)lane + (tier < DECODE ? 0 : lanes->layout.first_home);

    if (lanes->fleet.n > 0) {
        *instance_p = pl_fleet_instance_of(&lanes->fleet, tier >= DECODE,
                                           (int64_t)lane, &rank);
    }
    return rank;
}

static bool is_shown(const lanes_t *lanes, int tier)
{
    return pages_of(lanes, tier) > 0;
}

#define TITLES "pages>,free at end>,least free>,at tick>,mean free>"

static pl_status_t print_table(const lanes_t *lanes)
{
    bool is_alone     = lanes->fleet.n == 0;
    pl_table_t *table = pl_table_open(
        is_alone ? "tier<,rank>," TITLES : "tier<,instance<,lane>," TITLES);
    pl_status_t status;

    for (int tier = 0; tier < TIERS; tier++) {
        for (size_t lane = 0;
             is_shown(lanes, tier) && (lane < lanes_of(lanes, tier)); lane++) {
            span_t span      = span_of(lanes, tier, lane);
            int32_t instance = -1;
            int64_t rank     = rank_of(lanes, tier, lane, &instance);
            char name[PL_FLEET_NAME_BYTES];

            pl_table_cell(table, "%s", TIER_NAMES[tier]);
            if (!is_alone) {
                pl_fleet_name(&lanes->fleet, instance, name);
                pl_table_cell(table, "%s", name);
            }
            pl_table_cell(table, "%" PRId64, rank);
            pl_table_cell(table, "%" PRId64, pages_of(lanes, tier));
            pl_table_cell(table, "%" PRId64, span.last);
            pl_table_cell(table, "%" PRId64, span.least);
            pl_table_cell(table, "%" PRId64, span.least_tick);
            pl_table_cell(table, "%.1f", span.mean);
        }
    }
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return status;
}

static json_object *json_of(const lanes_t *lanes, int tier, size_t lane)
{
    json_object *object = json_object_new_object();
    span_t span         = span_of(lanes, tier, lane);
    int32_t instance    = -1;
    int64_t rank        = rank_of(lanes, tier, lane, &instance);

    json_object_object_add(object, "tier",
                           json_object_new_string(TIER_NAMES[tier]));
    if (instance >= 0) {
        pl_json_integer(object, "instance", instance);
    }
    pl_json_integer(object, "rank", rank);
    pl_json_integer(object, "pages", pages_of(lanes, tier));
    pl_json_integer(object, "free_pages", span.last);
    pl_json_integer(object, "least_free_pages", span.least);
    pl_json_integer(object, "least_free_tick", span.least_tick);
    pl_json_real(object, "mean_free_pages", span.mean);
    return object;
}

static json_object *sample_of(const lanes_t *lanes, size_t i)
{
    json_object *object = json_object_new_object();

    for (int c = 0; c < COLUMNS; c++) {
        pl_json_integer(object, SPECS[c].name, lanes->columns[c].items[i]);
    }
    for (int tier = 0; tier < TIERS; tier++) {
        size_t n = lanes_of(lanes, tier);

        json_object_object_add(
            object, TIER_PATHS[tier],
            pl_json_integers(lanes->free[tier].items + i * n, n));
    }
    return object;
}

static pl_status_t print_json(const lanes_t *lanes)
{
    json_object *object  = json_object_new_object();
    json_object *all     = json_object_new_array();
    json_object *samples = json_object_new_array();

    for (int tier = 0; tier < TIERS; tier++) {
        for (size_t lane = 0;
             is_shown(lanes, tier) && (lane < lanes_of(lanes, tier)); lane++) {
            json_object_array_add(all, json_of(lanes, tier, lane));
        }
    }
    for (size_t i = 0; i < lanes->n; i++) {
        json_object_array_add(samples, sample_of(lanes, i));
    }
    json_object_object_add(object, "lanes", all);
    json_object_object_add(object, "samples", samples);
    return pl_json_print(object, stdout);
}

pl_status_t pl_inspect_lanes(const pl_inspect_t *inspect)
{
    lanes_t lanes      = {0};
    pl_status_t status = load(inspect->snapshot, &lanes);

    if (status == PL_OK) {
        status = inspect->json ? print_json(&lanes) : print_table(&lanes);
    }
    pl_inspect_free(lanes.columns, COLUMNS);
    pl_inspect_free(lanes.free, TIERS);
    pl_fleet_file_free(&lanes.fleet);
    return status;
}
