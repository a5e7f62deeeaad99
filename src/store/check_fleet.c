/* What the tables of a snapshot of several instances say of each other. */
#include <inttypes.h>
#include <stdio.h>

#include "store/check_internal.h"

enum { PREFILLS, DECODES, LANES, HOMES, COMPUTED, STEPS, SENT, RECEIVED };

enum { NUMBERS = RECEIVED + 1, PATH_BYTES = 64 };

static const char *const NAMES[NUMBERS] = {
    [PREFILLS] = "prefills",
    [DECODES]  = "decodes",
    [LANES]    = "lanes",
    [HOMES]    = "homes",
    [COMPUTED] = "computed_tokens",
    [STEPS]    = "decode_steps",
    [SENT]     = "sent_bytes",
    [RECEIVED] = "received_bytes",
};

typedef struct fleet {
    const pl_snapshot_t *snapshot;
    pl_check_report_t *report;
    size_t n; /* instances */
    pl_snapshot_column_t numbers[NUMBERS];
} fleet_t;

/* INT64_MAX: they do not add up to anything. */
static int64_t sum_of(const fleet_t *fleet, int number)
{
    int64_t sum = 0;

    for (size_t i = 0; i < fleet->n; i++) {
        int64_t value = fleet->numbers[number].items[i];

        if ((value < 0) || (value > INT64_MAX - sum)) {
            return INT64_MAX;
        }
        sum += value;
    }
    return sum;
}

/* ---- instances ---- */

static pl_status_t read_numbers(fleet_t *fleet)
{
    fleet->n = PL_ANY_ROWS;
    for (int i = 0; i < NUMBERS; i++) {
        char path[PATH_BYTES];

        (void)snprintf(path, sizeof(path), "/instances/%s", NAMES[i]);
        PL_TRY(pl_snapshot_read(fleet->snapshot, path, PL_ITEM_I64, fleet->n, 0,
                                &fleet->numbers[i]));
        fleet->n = fleet->numbers[i].rows;
    }
    return PL_OK;
}

static void check_sides(fleet_t *fleet)
{
    for (size_t i = 0; i < fleet->n; i++) {
        bool prefills = fleet->numbers[PREFILLS].items[i] != 0;
        bool decodes  = fleet->numbers[DECODES].items[i] != 0;

        if ((!prefills && !decodes) ||
            (prefills != (fleet->numbers[LANES].items[i] > 0)) ||
            (decodes != (fleet->numbers[HOMES].items[i] > 0))) {
            pl_check_find(fleet->report, PL_CHECK_LANES,
                          "instance %zu has no side, or has not the lanes or "
                          "homes of its side",
                          i);
        }
    }
}

/* What stands elsewhere as one number. */
static pl_status_t check_sum(fleet_t *fleet, int number, const char *group,
                             const char *name)
{
    int64_t all = 0;

    PL_TRY(pl_snapshot_integer(fleet->snapshot, group, name, 0, INT64_MAX - 1,
                               &all));
    if (sum_of(fleet, number) != all) {
        pl_check_find(fleet->report, PL_CHECK_LANES,
                      "%s of all instances are not the %" PRId64 " of %s/%s",
                      NAMES[number], all, group, name);
    }
    return PL_OK;
}

static pl_status_t check_sums(fleet_t *fleet)
{
    PL_TRY(check_sum(fleet, LANES, "/layout", "n_lanes"));
    PL_TRY(check_sum(fleet, HOMES, "/layout", "n_homes"));
    PL_TRY(check_sum(fleet, COMPUTED, "/counters/engine", "prefill_tokens"));
    PL_TRY(check_sum(fleet, STEPS, "/counters/engine", "decode_steps"));
    if (sum_of(fleet, SENT) != sum_of(fleet, RECEIVED)) {
        pl_check_find(fleet->report, PL_CHECK_LANES,
                      "instances received other bytes than were sent");
    }
    return PL_OK;
}

/* ---- requests ---- */

static pl_status_t check_placed(fleet_t *fleet, const char *path, int side)
{
    pl_snapshot_column_t column = {0};

    PL_TRY(pl_snapshot_read(fleet->snapshot, path, PL_ITEM_I32, PL_ANY_ROWS, 0,
                            &column));
    for (size_t i = 0; i < column.rows; i++) {
        int64_t at = column.items[i];

        if ((at < -1) || (at >= (int64_t)fleet->n) ||
            ((at >= 0) && (fleet->numbers[side].items[at] == 0))) {
            pl_check_find(fleet->report, PL_CHECK_OWNERS,
                          "%s: request %zu was at %" PRId64
                          ", which is no instance of that side",
                          path, i, at);
        }
    }
    pl_snapshot_column_free(&column);
    return PL_OK;
}

/* ---- lanes ---- */

/* Free pages are never more than there are. */
static pl_status_t check_free(fleet_t *fleet, const char *tier,
                              const char *lanes)
{
    int64_t n = 0, pages = 0, reserved = 0;
    pl_snapshot_column_t left = {0};
    char path[PATH_BYTES], name[PATH_BYTES];

    PL_TRY(pl_snapshot_integer(fleet->snapshot, "/layout", lanes, 1, INT32_MAX,
                               &n));
    (void)snprintf(name, sizeof(name), "%s_pages", tier);
    PL_TRY(pl_snapshot_integer(fleet->snapshot, "/layout", name, 0, INT32_MAX,
                               &pages));
    (void)snprintf(name, sizeof(name), "%s_reserved", tier);
    PL_TRY(pl_snapshot_integer(fleet->snapshot, "/layout", name, 0, INT32_MAX,
                               &reserved));
    (void)snprintf(path, sizeof(path), "/lanes/%s_free", tier);
    PL_TRY(pl_snapshot_read(fleet->snapshot, path, PL_ITEM_I32, PL_ANY_ROWS,
                            (size_t)n, &left));
    for (size_t i = 0; i < left.rows * left.columns; i++) {
        if ((left.items[i] < 0) ||
            ((left.items[i] > 0) && (left.items[i] > pages - reserved))) {
            pl_check_find(fleet->report, PL_CHECK_LANES,
                          "%s: %" PRId64 " free in sample %zu, of %" PRId64,
                          path, left.items[i], i / left.columns,
                          pages - reserved);
        }
    }
    pl_snapshot_column_free(&left);
    return PL_OK;
}

static pl_status_t check_all(fleet_t *fleet)
{
    PL_TRY(read_numbers(fleet));
    fleet->report->instances = (int64_t)fleet->n;
    check_sides(fleet);
    PL_TRY(check_sums(fleet));
    PL_TRY(check_placed(fleet, "/requests/prefill_instance", PREFILLS));
    PL_TRY(check_placed(fleet, "/requests/decode_instance", DECODES));
    PL_TRY(check_free(fleet, "device", "n_lanes"));
    PL_TRY(check_free(fleet, "host", "n_lanes"));
    PL_TRY(check_free(fleet, "decode", "n_homes"));
    return check_free(fleet, "decode_host", "n_homes");
}

pl_status_t pl_check_fleet(const pl_snapshot_t *snapshot,
                           pl_check_report_t *report)
{
    fleet_t fleet      = {.snapshot = snapshot, .report = report};
    pl_status_t status = check_all(&fleet);

    for (int i = 0; i < NUMBERS; i++) {
        pl_snapshot_column_free(&fleet.numbers[i]);
    }
    return status;
}
