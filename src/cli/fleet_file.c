#include "cli/fleet_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct number {
    const char *name, *unit, *description;
    size_t at; /* in pl_fleet_row_t */
} number_t;

#define ROW(member, unit, description)                                         \
    {                                                                          \
#member, unit, description, offsetof(pl_fleet_row_t, member)           \
    }
#define USAGE(name, member, unit, description)                                 \
    {                                                                          \
        name, unit, description, offsetof(pl_fleet_row_t, usage.member)        \
    }

static const number_t NUMBERS[] = {
    ROW(prefills, "1", "1: prompts are computed here"),
    ROW(decodes, "1", "1: requests are decoded here"),
    ROW(gpus, "1", "GPUs that it has"),
    ROW(lanes, "1", "lanes of its device and host tiers"),
    ROW(homes, "1", "decode pools that it has"),
    USAGE("requests", requests, "1", "that came; again if they came back"),
    USAGE("prompt_tokens", prompt_tokens, "token", "of these"),
    USAGE("computed_tokens", computed_tokens, "token", "by its chunks"),
    USAGE("decode_steps", steps, "1", "of one request each"),
    USAGE("prefill_ns", prefill_ns, "ns", "in which it computed chunks"),
    USAGE("decode_ns", decode_ns, "ns",
          "decode steps: of the longest home of each tick"),
    USAGE("stepping_ns", stepping_ns, "ns",
          "that, times the requests of all homes that took part"),
    USAGE("waiting_ns", waiting_ns, "ns",
          "that requests waited for their first chunk or step, summed"),
    USAGE("refused_ns", refused_ns, "ns",
          "of these, while no home had room for the first of them"),
    USAGE("most_waiting", most_waiting, "1", "at the same time"),
    USAGE("batch_wait_ns", batch_wait_ns, "ns",
          "where it prefills too: that requests waited for a place in the "
          "batch, summed"),
    USAGE("refusals", refusals, "1", "times that no home had room"),
    USAGE("sent_bytes", sent_bytes, "byte", "over links between instances"),
    USAGE("received_bytes", received_bytes, "byte", "likewise"),
    USAGE("link_ns", link_ns, "ns", "in which a transfer of its was under way"),
};

_Static_assert(sizeof(NUMBERS) / sizeof(NUMBERS[0]) == PL_FLEET_COLUMNS,
               "one column for each number");

/* ---- writing ---- */

void pl_fleet_columns(const pl_fleet_row_t *rows, size_t n, int64_t *values,
                      pl_snapshot_measure_t columns[PL_FLEET_COLUMNS])
{
    for (size_t c = 0; c < PL_FLEET_COLUMNS; c++) {
        const number_t *number = &NUMBERS[c];
        int64_t *column        = values + c * n;

        for (size_t i = 0; i < n; i++) {
            memcpy(&column[i], (const char *)&rows[i] + number->at,
                   sizeof(column[i]));
        }
        columns[c] = (pl_snapshot_measure_t){number->name, number->unit,
                                             number->description, column};
    }
}

/* ---- reading ---- */

/* Of all instances together: what is written has no more, and two columns add
 * up to 64 bits. */
static const int64_t MOST = PL_FLEET_MOST_NS;

static pl_status_t read_number(const pl_snapshot_t *snapshot,
                               const number_t *number, pl_fleet_file_t *file)
{
    pl_snapshot_column_t column = {0};
    int64_t sum                 = 0;
    pl_status_t status          = PL_OK;
    char path[64];

    (void)snprintf(path, sizeof(path), "/instances/%s", number->name);
    PL_TRY(pl_snapshot_read(snapshot, path, PL_ITEM_I64, (size_t)file->n, 0,
                            &column));
    for (int32_t i = 0; (status == PL_OK) && (i < file->n); i++) {
        if ((column.items[i] < 0) || (column.items[i] > MOST - sum)) {
            status = pl_snapshot_refuse(snapshot, path,
                                        "%" PRId64 " of instance %" PRId32
                                        " is out of range; expected 0 to "
                                        "%" PRId64 " of all together",
                                        column.items[i], i, MOST);
        } else {
            sum += column.items[i];
            memcpy((char *)&file->rows[i] + number->at, &column.items[i],
                   sizeof(column.items[i]));
        }
    }
    pl_snapshot_column_free(&column);
    return status;
}

static pl_status_t count_instances(const pl_snapshot_t *snapshot,
                                   pl_fleet_file_t *file)
{
    static const char PATH[] = "/instances/prefills";
    enum { MOST_INSTANCES = 1 << 16 };
    pl_snapshot_column_t column = {0};
    size_t n;

    PL_TRY(
        pl_snapshot_read(snapshot, PATH, PL_ITEM_I64, PL_ANY_ROWS, 0, &column));
    n = column.rows;
    pl_snapshot_column_free(&column);
    if ((n == 0) || (n > MOST_INSTANCES)) {
        return pl_snapshot_refuse(snapshot, PATH,
                                  "has %zu instances; expected 1 to %d", n,
                                  MOST_INSTANCES);
    }
    file->n      = (int32_t)n;
    file->rows   = calloc(n, sizeof(*file->rows));
    file->usages = calloc(n, sizeof(*file->usages));
    return (file->rows == NULL) || (file->usages == NULL) ? PL_ERR_MEMORY
                                                          : PL_OK;
}

/* Those that prefill come first; they decode, or others do. */
static pl_status_t check_sides(const pl_snapshot_t *snapshot,
                               pl_fleet_file_t *file)
{
    int64_t n_lanes = 0, n_homes = 0;
    int64_t lanes = 0;
    int64_t homes = 0;
    bool good     = true;

    PL_TRY(
        pl_snapshot_integer(snapshot, "/layout", "n_lanes", 1, MOST, &n_lanes));
    PL_TRY(
        pl_snapshot_integer(snapshot, "/layout", "n_homes", 1, MOST, &n_homes));
    for (int32_t i = 0; i < file->n; i++) {
        const pl_fleet_row_t *row = &file->rows[i];

        file->n_prefill += row->prefills == 1;
        good = good && ((row->prefills == 1) == (i < file->n_prefill)) &&
               ((row->prefills == 1) == (row->lanes > 0)) &&
               ((row->decodes == 1) == (row->homes > 0)) &&
               (row->prefills + row->decodes > 0) && (row->homes <= INT32_MAX);
        lanes += row->lanes;
        homes += row->homes;
        if ((row->homes <= INT32_MAX) && (row->homes > file->homes)) {
            file->homes = (int32_t)row->homes;
        }
    }
    for (int32_t i = 0; i < file->n; i++) {
        bool is_whole = file->n_prefill == file->n;

        good = good &&
               (file->rows[i].decodes == ((i >= file->n_prefill) || is_whole));
    }
    if (!good || (lanes != n_lanes) || (homes != n_homes)) {
        return pl_snapshot_refuse(
            snapshot, "/instances",
            "its lanes and homes are not those of /layout, or no sides of "
            "prefill and decode");
    }
    return PL_OK;
}

static pl_status_t read_placed(const pl_snapshot_t *snapshot, const char *path,
                               int32_t n_requests, int64_t n,
                               pl_snapshot_column_t *column)
{
    PL_TRY(pl_snapshot_read(snapshot, path, PL_ITEM_I32, (size_t)n_requests, 0,
                            column));
    for (size_t i = 0; i < column->rows; i++) {
        if ((column->items[i] < -1) || (column->items[i] >= n)) {
            return pl_snapshot_refuse(snapshot, path,
                                      "%" PRId64 " of request %zu is no "
                                      "instance; there are %" PRId64,
                                      column->items[i], i, n);
        }
    }
    return PL_OK;
}

bool pl_fleet_is_in(const pl_snapshot_t *snapshot)
{
    return pl_snapshot_has(snapshot, "/instances");
}

pl_status_t pl_fleet_read(const pl_snapshot_t *snapshot, int32_t n_requests,
                          pl_fleet_file_t *file)
{
    int64_t transfer_ns = 0;

    *file = (pl_fleet_file_t){0};
    if (!pl_fleet_is_in(snapshot)) {
        return PL_OK;
    }
    PL_TRY(count_instances(snapshot, file));
    for (size_t c = 0; c < PL_FLEET_COLUMNS; c++) {
        PL_TRY(read_number(snapshot, &NUMBERS[c], file));
    }
    PL_TRY(check_sides(snapshot, file));
    for (int32_t i = 0; i < file->n; i++) {
        file->usages[i] = file->rows[i].usage;
    }
    PL_TRY(pl_snapshot_integer(snapshot, "/instances", "transfer_wait_ns", 0,
                               MOST, &transfer_ns));
    file->waits =
        pl_fleet_waits_of(file->usages, file->n, file->n_prefill, transfer_ns);
    PL_TRY(read_placed(snapshot, "/requests/prefill_instance", n_requests,
                       file->n, &file->prefill));
    return read_placed(snapshot, "/requests/decode_instance", n_requests,
                       file->n, &file->decode);
}

pl_outcome_t pl_fleet_outcome(const pl_fleet_file_t *file, pl_record_t *records,
                              int32_t n)
{
    pl_outcome_t outcome = {.records   = records,
                            .n         = n,
                            .n_engines = file->n,
                            .n_prefill = file->n_prefill,
                            .usages    = file->usages,
                            .waits     = file->waits};

    for (int32_t i = 0; i < file->n; i++) {
        outcome.counters.stepping_ns += file->usages[i].stepping_ns;
    }
    return outcome;
}

int32_t pl_fleet_instance_of(const pl_fleet_file_t *file, bool of_decode,
                             int64_t lane, int64_t *own_p)
{
    int32_t i = 0;

    for (; i + 1 < file->n; i++) {
        const pl_fleet_row_t *row = &file->rows[i];
        int64_t n                 = of_decode ? row->homes : row->lanes;

        if (lane < n) {
            break;
        }
        lane -= n;
    }
    *own_p = lane;
    return i;
}

void pl_fleet_file_free(pl_fleet_file_t *file)
{
    free(file->rows);
    free(file->usages);
    pl_snapshot_column_free(&file->prefill);
    pl_snapshot_column_free(&file->decode);
    *file = (pl_fleet_file_t){0};
}

/* ---- in words ---- */

void pl_fleet_name(const pl_fleet_file_t *file, int32_t i,
                   char name[PL_FLEET_NAME_BYTES])
{
    bool prefills = i < file->n_prefill;

    (void)snprintf(name, PL_FLEET_NAME_BYTES, "%s %" PRId32,
                   prefills ? "prefill" : "decode",
                   prefills ? i : i - file->n_prefill);
}

pl_status_t pl_fleet_refuse(const pl_snapshot_t *snapshot, const char *who)
{
    if (!pl_fleet_is_in(snapshot)) {
        return PL_OK;
    }
    return pl_snapshot_refuse(
        snapshot, "/instances",
        "several instances have neither prefix trees nor events in a file, so "
        "that `%s` has nothing to read; simulate one of them with --cp and "
        "--snapshot",
        who);
}
