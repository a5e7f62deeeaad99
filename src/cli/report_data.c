/* A snapshot as a report reads it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_data.h"

const char *const PL_REPORT_TIER_NAMES[PL_REPORT_TIERS] = {
    [PL_REPORT_DEVICE]      = "device",
    [PL_REPORT_HOST]        = "host",
    [PL_REPORT_DECODE]      = "decode",
    [PL_REPORT_DECODE_HOST] = "decode host",
};

double pl_report_percent(int64_t part, int64_t whole)
{
    return whole > 0 ? 100.0 * (double)part / (double)whole : 0.0;
}

void pl_report_add(int64_t *sum, int64_t value)
{
    if (value > 0) {
        *sum = value > INT64_MAX - *sum ? INT64_MAX : *sum + value;
    }
}

/* Virtual times of a column: from 0 on, never falling, and not so late that
 * their differences overflow. */
static pl_status_t check_times(const pl_snapshot_t *snapshot, const char *path,
                               const pl_snapshot_column_t *times)
{
    int64_t before = 0;

    for (size_t i = 0; i < times->rows; i++) {
        if ((times->items[i] < before) || (times->items[i] > INT64_MAX / 4)) {
            return pl_snapshot_refuse(snapshot, path,
                                      "row %zu has %" PRId64
                                      "; expected times from 0 on that do not "
                                      "fall",
                                      i, times->items[i]);
        }
        before = times->items[i];
    }
    return PL_OK;
}

/* ---- values ---- */

typedef struct visit {
    pl_report_data_t *data;
    const char *group;
} visit_t;

static pl_status_t add_fact(void *context, const char *name, const char *text,
                            bool is_number)
{
    visit_t *visit        = context;
    pl_report_fact_t fact = {
        .group = visit->group, .name = strdup(name), .text = strdup(text)};

    fact.number = is_number ? strtoll(text, NULL, 10) : 0;
    if ((fact.name == NULL) || (fact.text == NULL) ||
        (PL_ARRAY_PUSH(&visit->data->facts, fact) != PL_OK)) {
        free(fact.name);
        free(fact.text);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

static pl_status_t load_facts(pl_report_data_t *data)
{
    static const struct {
        const char *group, *path;
    } GROUPS[] = {{"config", "/config"},
                  {"layout", "/layout"},
                  {"engine", "/counters/engine"},
                  {"cache", "/counters/cache"}};

    for (size_t i = 0; i < sizeof(GROUPS) / sizeof(GROUPS[0]); i++) {
        visit_t visit = {data, GROUPS[i].group};

        PL_TRY(pl_snapshot_attributes(data->snapshot, GROUPS[i].path, add_fact,
                                      &visit));
    }
    return PL_OK;
}

static const pl_report_fact_t *find(const pl_report_data_t *data,
                                    const char *group, const char *name)
{
    for (size_t i = 0; i < data->facts.n; i++) {
        const pl_report_fact_t *fact = &data->facts.items[i];

        if ((strcmp(fact->group, group) == 0) &&
            (strcmp(fact->name, name) == 0)) {
            return fact;
        }
    }
    return NULL;
}

const char *pl_report_text(const pl_report_data_t *data, const char *group,
                           const char *name)
{
    const pl_report_fact_t *fact = find(data, group, name);

    return fact == NULL ? NULL : fact->text;
}

int64_t pl_report_number(const pl_report_data_t *data, const char *group,
                         const char *name)
{
    const pl_report_fact_t *fact = find(data, group, name);

    return fact == NULL ? 0 : fact->number;
}

/* ---- lanes ---- */

static pl_status_t load_lanes(pl_report_data_t *data)
{
    static const char *const FREE[PL_REPORT_TIERS] = {
        "/lanes/device_free", "/lanes/host_free", "/lanes/decode_free",
        "/lanes/decode_host_free"};
    pl_report_lanes_t *lanes = &data->lanes;

    PL_TRY(pl_snapshot_read(data->snapshot, "/lanes/time_ns", PL_ITEM_I64,
                            PL_ANY_ROWS, 0, &lanes->time));
    PL_TRY(check_times(data->snapshot, "/lanes/time_ns", &lanes->time));
    lanes->n = lanes->time.rows;
    PL_TRY(pl_snapshot_read(data->snapshot, "/lanes/running", PL_ITEM_I32,
                            lanes->n, 0, &lanes->running));
    PL_TRY(pl_snapshot_read(data->snapshot, "/lanes/waiting", PL_ITEM_I32,
                            lanes->n, 0, &lanes->waiting));
    for (int tier = 0; tier < PL_REPORT_TIERS; tier++) {
        PL_TRY(pl_snapshot_read(data->snapshot, FREE[tier], PL_ITEM_I32,
                                lanes->n, pl_report_lanes_of(data, tier),
                                &lanes->free[tier]));
    }
    return PL_OK;
}

size_t pl_report_lanes_of(const pl_report_data_t *data, int tier)
{
    return (size_t)(tier < PL_REPORT_DECODE ? data->layout.n_lanes
                                            : data->layout.n_homes);
}

static int64_t capacity(const pl_report_data_t *data, int tier)
{
    const pl_inspect_layout_t *l         = &data->layout;
    const int64_t pages[PL_REPORT_TIERS] = {
        [PL_REPORT_DEVICE] = l->device_pages - l->device_reserved,
        [PL_REPORT_HOST]   = l->host_pages - l->host_reserved,
        [PL_REPORT_DECODE] = l->decode_pages - l->decode_reserved,
        [PL_REPORT_DECODE_HOST] =
            l->decode_host_pages - l->decode_host_reserved,
    };

    return pages[tier];
}

static bool is_unlimited(const pl_report_data_t *data, int tier)
{
    static const char *const OPTIONS[PL_REPORT_TIERS] = {
        "device_pages", "host_pages", "decode_pages", "decode_host_pages"};
    const char *text = pl_report_text(data, "config", OPTIONS[tier]);

    return (text != NULL) && (strcmp(text, "unlimited") == 0);
}

int64_t pl_report_held(const pl_report_data_t *data, int tier, size_t sample,
                       size_t lane)
{
    const pl_snapshot_column_t *column = &data->lanes.free[tier];

    return capacity(data, tier) -
           column->items[sample * column->columns + lane];
}

int64_t pl_report_held_by_all(const pl_report_data_t *data, int tier,
                              size_t sample)
{
    int64_t pages = 0;

    for (size_t lane = 0; lane < pl_report_lanes_of(data, tier); lane++) {
        pages += pl_report_held(data, tier, sample, lane);
    }
    return pages;
}

static void measure_lanes(pl_report_data_t *data, int tier)
{
    pl_report_lanes_t *lanes = &data->lanes;
    int64_t most             = 0;

    for (size_t i = 0; i < lanes->n; i++) {
        for (size_t lane = 0; lane < pl_report_lanes_of(data, tier); lane++) {
            int64_t held = pl_report_held(data, tier, i, lane);

            most = held > most ? held : most;
        }
    }
    lanes->used[tier]  = most > 0;
    lanes->pages[tier] = is_unlimited(data, tier) ? most : capacity(data, tier);
}

/* ---- waiting ---- */

/* Somebody begins or ends to wait, or to be in prefill. */
typedef struct step {
    int64_t ns;
    int waits, computes; /* +1, -1, 0 */
} step_t;

static int by_time(const void *a, const void *b)
{
    const step_t *x = a;
    const step_t *y = b;

    return (x->ns > y->ns) - (x->ns < y->ns);
}

/* What passes between two steps, with so many in each state. */
static void pass(pl_report_waits_t *waits, int64_t ns, int64_t n_waiting,
                 int64_t n_computing)
{
    if ((n_computing > 0) && (ns > 0)) {
        pl_report_add(&waits->behind_prefill_ns,
                      n_waiting > INT64_MAX / ns ? INT64_MAX : n_waiting * ns);
        pl_report_add(&waits->prefill_at_work_ns, ns);
    }
}

static void sum_phases(const pl_record_t *r, pl_report_waits_t *waits)
{
    pl_report_add(&waits->queue_ns, r->admitted_ns - r->arrival_ns);
    pl_report_add(&waits->prefill_ns, r->first_token_ns - r->admitted_ns);
    pl_report_add(&waits->transfer_ns, r->decode_ns - r->first_token_ns);
    pl_report_add(&waits->decode_ns, r->finished_ns - r->decode_ns);
}

static pl_status_t make_waits(pl_report_data_t *data)
{
    PL_ARRAY(step_t) steps = {0};
    pl_report_waits_t *w   = &data->waits;
    int64_t n_waiting      = 0;
    int64_t n_computing    = 0;
    pl_status_t status     = PL_OK;

    for (int32_t i = 0; (i < data->n) && (status == PL_OK); i++) {
        const pl_record_t *r = &data->records[i];

        if (pl_metrics_counts(r)) {
            sum_phases(r, w);
            status = PL_ARRAY_RESERVE(&steps, steps.n + 3);
        }
        if (pl_metrics_counts(r) && (status == PL_OK)) {
            steps.items[steps.n++] = (step_t){r->arrival_ns, 1, 0};
            steps.items[steps.n++] = (step_t){r->admitted_ns, -1, 1};
            steps.items[steps.n++] = (step_t){r->first_token_ns, 0, -1};
        }
    }
    if ((status == PL_OK) && (steps.n > 0)) {
        qsort(steps.items, steps.n, sizeof(steps.items[0]), by_time);
    }
    for (size_t i = 0; (i < steps.n) && (status == PL_OK); i++) {
        pass(w, i == 0 ? 0 : steps.items[i].ns - steps.items[i - 1].ns,
             n_waiting, n_computing);
        n_waiting += steps.items[i].waits;
        n_computing += steps.items[i].computes;
    }
    PL_ARRAY_FREE(&steps);
    return status;
}

/* ---- the whole ---- */

static pl_status_t load_events(pl_report_data_t *data)
{
    static const char MOVED[] = "/events/moved_bytes";

    data->has_events = pl_snapshot_has(data->snapshot, "/events");
    if (!data->has_events) {
        return PL_OK;
    }
    PL_TRY(pl_events_load(data->snapshot, "report", false, &data->events));
    PL_TRY(check_times(data->snapshot, "/events/time_ns",
                       &data->events.fields[PL_FIELD_TIME]));
    data->whole_events = data->events.n_dropped == 0;
    if (!pl_snapshot_has_dataset(data->snapshot, MOVED)) {
        return PL_OK;
    }
    return pl_snapshot_read(data->snapshot, MOVED, PL_ITEM_I64, data->events.n,
                            0, &data->moved_bytes);
}

pl_status_t pl_report_load(const pl_cli_t *cli, const pl_snapshot_t *snapshot,
                           pl_report_data_t *data)
{
    static const char SHARED[] = "/requests/shared_pages";

    data->cli      = cli;
    data->snapshot = snapshot;
    PL_TRY(pl_inspect_layout(snapshot, &data->layout));
    PL_TRY(pl_inspect_records(snapshot, &data->records, &data->n));
    PL_TRY(pl_metrics_of(data->records, data->n, &data->metrics));
    PL_TRY(load_facts(data));
    PL_TRY(load_lanes(data));
    for (int tier = 0; tier < PL_REPORT_TIERS; tier++) {
        measure_lanes(data, tier);
    }
    if (pl_snapshot_has_dataset(snapshot, SHARED)) {
        PL_TRY(pl_snapshot_read(snapshot, SHARED, PL_ITEM_I32, (size_t)data->n,
                                0, &data->shared_pages));
    }
    PL_TRY(load_events(data));
    PL_TRY(pl_report_load_fleet(data));
    return make_waits(data);
}

void pl_report_free(pl_report_data_t *data)
{
    pl_report_free_fleet(data);
    for (size_t i = 0; i < data->facts.n; i++) {
        free(data->facts.items[i].name);
        free(data->facts.items[i].text);
    }
    PL_ARRAY_FREE(&data->facts);
    pl_snapshot_column_free(&data->lanes.time);
    pl_snapshot_column_free(&data->lanes.running);
    pl_snapshot_column_free(&data->lanes.waiting);
    pl_inspect_free(data->lanes.free, PL_REPORT_TIERS);
    pl_snapshot_column_free(&data->shared_pages);
    pl_snapshot_column_free(&data->moved_bytes);
    pl_events_free(&data->events);
    pl_lru_curve_free(&data->curve);
    free(data->records);
    data->records = NULL;
}

/* Every request but the first begins with a whole page of one before it. */
bool pl_report_begin_alike(const pl_report_data_t *data)
{
    if ((data->shared_pages.rows < 2) || (data->n < 2)) {
        return false;
    }
    for (int32_t i = 1; i < data->n; i++) {
        if (data->shared_pages.items[i] < 1) {
            return false;
        }
    }
    return true;
}
