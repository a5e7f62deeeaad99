#include "engine/event_log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/state.h"

/* What a sample has besides its free counts. */
typedef struct sample {
    int64_t tick, time_ns;
    int32_t running, waiting;
} sample_t;

typedef PL_ARRAY(int32_t) counts_t;
typedef PL_ARRAY(int64_t) times_t;

/* The counts of one sample stand together: [device lanes][host lanes]
 * [decode pools][decode host buffers], then of instances [running][waiting]. */
enum { DEVICE, HOST, DECODE, DECODE_HOST, RUNNING, WAITING, PARTS };

struct pl_event_log {
    int64_t most_events;
    int64_t n_dropped;
    pl_status_t status;

    PL_ARRAY(int64_t) tick;
    PL_ARRAY(int64_t) time_ns;
    PL_ARRAY(int64_t) node;
    PL_ARRAY(int64_t) op;
    PL_ARRAY(int64_t) value;
    PL_ARRAY(int64_t) value2;
    PL_ARRAY(int32_t) kind;
    PL_ARRAY(int32_t) request;
    PL_ARRAY(int64_t) pages_offset;
    PL_ARRAY(int64_t) other_offset;
    PL_ARRAY(pl_page_t) pages;
    PL_ARRAY(pl_page_t) other;

    int n_lanes; /* 0 until the first sample */
    int32_t n_homes, n_instances;
    int64_t stride; /* ticks between samples that are kept */
    PL_ARRAY(sample_t) samples;
    counts_t counts;      /* [samples][width] */
    times_t busy;         /* [samples][n_instances] */
    sample_t last;        /* of the newest tick, kept or not */
    counts_t last_counts; /* [width] */
    times_t last_busy;    /* [n_instances] */
    bool last_is_kept;

    /* What pl_event_log_lanes hands out, by column. */
    times_t times; /* ticks, then times */
    counts_t parts[PARTS];
    times_t all_busy;
    counts_t requests; /* running, then waiting */
};

const char *pl_event_kind_text(pl_event_kind_t kind)
{
    static const char *const TEXTS[] = {
#define PL_EVENT_TEXT(name, text) text,
        PL_EVENT_LIST(PL_EVENT_TEXT)
#undef PL_EVENT_TEXT
    };

    return ((int)kind >= 0) && (kind < PL_EVENT_KINDS) ? TEXTS[kind] : "?";
}

/* ---- opening and closing ---- */

pl_status_t pl_event_log_open(int64_t most_events, pl_event_log_t **log_p)
{
    pl_event_log_t *log = calloc(1, sizeof(*log));

    if (log == NULL) {
        return PL_ERR_MEMORY;
    }
    log->most_events = most_events;
    log->stride      = 1;
    if ((PL_ARRAY_PUSH(&log->pages_offset, 0) != PL_OK) ||
        (PL_ARRAY_PUSH(&log->other_offset, 0) != PL_OK)) {
        pl_event_log_close(log);
        return PL_ERR_MEMORY;
    }
    *log_p = log;
    return PL_OK;
}

void pl_event_log_close(pl_event_log_t *log)
{
    if (log == NULL) {
        return;
    }
    PL_ARRAY_FREE(&log->tick);
    PL_ARRAY_FREE(&log->time_ns);
    PL_ARRAY_FREE(&log->node);
    PL_ARRAY_FREE(&log->op);
    PL_ARRAY_FREE(&log->value);
    PL_ARRAY_FREE(&log->value2);
    PL_ARRAY_FREE(&log->kind);
    PL_ARRAY_FREE(&log->request);
    PL_ARRAY_FREE(&log->pages_offset);
    PL_ARRAY_FREE(&log->other_offset);
    PL_ARRAY_FREE(&log->pages);
    PL_ARRAY_FREE(&log->other);
    PL_ARRAY_FREE(&log->samples);
    PL_ARRAY_FREE(&log->counts);
    PL_ARRAY_FREE(&log->busy);
    PL_ARRAY_FREE(&log->last_counts);
    PL_ARRAY_FREE(&log->last_busy);
    PL_ARRAY_FREE(&log->times);
    PL_ARRAY_FREE(&log->all_busy);
    for (int part = 0; part < PARTS; part++) {
        PL_ARRAY_FREE(&log->parts[part]);
    }
    PL_ARRAY_FREE(&log->requests);
    free(log);
}

/* ---- events ---- */

/* Take the first n items of a column away. */
#define DROP_FIRST(column, count)                                              \
    do {                                                                       \
        if ((count) > 0) {                                                     \
            (column)->n -= (count);                                            \
            memmove((column)->items, (column)->items + (count),                \
                    (column)->n * sizeof(*(column)->items));                   \
        }                                                                      \
    } while (0)

/* Offsets begin at 0 again; returns where they began. */
static int64_t rebase(int64_t *offsets, size_t n)
{
    int64_t first = offsets[0];

    for (size_t i = 0; i < n; i++) {
        offsets[i] -= first;
    }
    return first;
}

/* Leave the newest most_events events. */
static void drop_old(pl_event_log_t *log)
{
    int64_t too_many = (int64_t)log->tick.n - log->most_events;
    size_t n         = (size_t)too_many;
    size_t n_pages, n_other;

    if (too_many <= 0) {
        return;
    }
    DROP_FIRST(&log->tick, n);
    DROP_FIRST(&log->time_ns, n);
    DROP_FIRST(&log->node, n);
    DROP_FIRST(&log->op, n);
    DROP_FIRST(&log->value, n);
    DROP_FIRST(&log->value2, n);
    DROP_FIRST(&log->kind, n);
    DROP_FIRST(&log->request, n);
    DROP_FIRST(&log->pages_offset, n);
    DROP_FIRST(&log->other_offset, n);
    n_pages = (size_t)rebase(log->pages_offset.items, log->pages_offset.n);
    n_other = (size_t)rebase(log->other_offset.items, log->other_offset.n);
    DROP_FIRST(&log->pages, n_pages);
    DROP_FIRST(&log->other, n_other);
    log->n_dropped += too_many;
}

/* As many again may come before the old ones are moved out, so that each event
 * is moved once at most. */
static bool is_full(const pl_event_log_t *log)
{
    return (int64_t)log->tick.n / 2 >= log->most_events;
}

/* Room for one more event with all its pages, so that no column is left
 * behind. */
static pl_status_t reserve_event(pl_event_log_t *log, const pl_event_t *event)
{
    size_t n       = log->tick.n + 1;
    size_t n_pages = (size_t)event->n_pages;

    PL_TRY(PL_ARRAY_RESERVE(&log->tick, n));
    PL_TRY(PL_ARRAY_RESERVE(&log->time_ns, n));
    PL_TRY(PL_ARRAY_RESERVE(&log->node, n));
    PL_TRY(PL_ARRAY_RESERVE(&log->op, n));
    PL_TRY(PL_ARRAY_RESERVE(&log->value, n));
    PL_TRY(PL_ARRAY_RESERVE(&log->value2, n));
    PL_TRY(PL_ARRAY_RESERVE(&log->kind, n));
    PL_TRY(PL_ARRAY_RESERVE(&log->request, n));
    PL_TRY(PL_ARRAY_RESERVE(&log->pages_offset, n + 1));
    PL_TRY(PL_ARRAY_RESERVE(&log->other_offset, n + 1));
    PL_TRY(PL_ARRAY_RESERVE(&log->pages, log->pages.n + n_pages));
    return PL_ARRAY_RESERVE(&log->other, log->other.n + n_pages);
}

static void take_event(void *context, const pl_event_t *event)
{
    pl_event_log_t *log = context;
    size_t n_pages      = event->pages == NULL ? 0 : (size_t)event->n_pages;
    size_t n_other      = event->other == NULL ? 0 : (size_t)event->n_pages;
    size_t i;

    if (log->status != PL_OK) {
        return;
    }
    if (is_full(log)) {
        drop_old(log);
    }
    log->status = reserve_event(log, event);
    if (log->status != PL_OK) {
        return;
    }
    i                                    = log->tick.n;
    log->tick.items[log->tick.n++]       = event->tick;
    log->time_ns.items[log->time_ns.n++] = event->time_ns;
    log->node.items[log->node.n++]       = event->node;
    log->op.items[log->op.n++]           = event->op;
    log->value.items[log->value.n++]     = event->value;
    log->value2.items[log->value2.n++]   = event->value2;
    log->kind.items[log->kind.n++]       = (int32_t)event->kind;
    log->request.items[log->request.n++] = event->request;
    if (n_pages > 0) {
        memcpy(log->pages.items + log->pages.n, event->pages,
               n_pages * sizeof(*event->pages));
    }
    if (n_other > 0) {
        memcpy(log->other.items + log->other.n, event->other,
               n_other * sizeof(*event->other));
    }
    log->pages.n += n_pages;
    log->other.n += n_other;
    log->pages_offset.items[i + 1] = (int64_t)log->pages.n;
    log->other_offset.items[i + 1] = (int64_t)log->other.n;
    log->pages_offset.n            = i + 2;
    log->other_offset.n            = i + 2;
}

pl_event_sink_t pl_event_log_sink(pl_event_log_t *log)
{
    pl_event_sink_t sink = {log->most_events > 0 ? take_event : NULL, log};

    return sink;
}

bool pl_event_log_has_events(const pl_event_log_t *log)
{
    return log->most_events > 0;
}

int64_t pl_event_log_dropped(pl_event_log_t *log)
{
    drop_old(log);
    return log->n_dropped;
}

pl_status_t pl_event_log_status(const pl_event_log_t *log)
{
    return log->status;
}

pl_event_columns_t pl_event_log_events(pl_event_log_t *log)
{
    pl_event_columns_t columns;

    drop_old(log);
    columns = (pl_event_columns_t){
        .n            = log->tick.n,
        .tick         = log->tick.items,
        .time_ns      = log->time_ns.items,
        .node         = log->node.items,
        .op           = log->op.items,
        .value        = log->value.items,
        .value2       = log->value2.items,
        .kind         = log->kind.items,
        .request      = log->request.items,
        .pages_offset = log->pages_offset.items,
        .other_offset = log->other_offset.items,
        .pages        = log->pages.items,
        .other        = log->other.items,
    };

    return columns;
}

/* ---- lanes over time ---- */

/* Items of a part in one sample. */
static size_t part_width(const pl_event_log_t *log, int part)
{
    return part < DECODE    ? (size_t)log->n_lanes
           : part < RUNNING ? (size_t)log->n_homes
                            : (size_t)log->n_instances;
}

/* Where a part's counts begin within a sample. */
static size_t part_at(const pl_event_log_t *log, int part)
{
    size_t at = 0;

    for (int i = 0; i < part; i++) {
        at += part_width(log, i);
    }
    return at;
}

static size_t width(const pl_event_log_t *log)
{
    return part_at(log, PARTS);
}

/* One place is left for the last tick. */
static size_t most_samples(const pl_event_log_t *log)
{
    size_t numbers = width(log) + (size_t)log->n_instances;
    size_t most    = PL_LANE_SAMPLES;

    if ((log->n_instances > 0) && (numbers > PL_LANE_NUMBERS / most)) {
        most = PL_LANE_NUMBERS / numbers;
        most = most > PL_LANE_LEAST_SAMPLES ? most : PL_LANE_LEAST_SAMPLES;
    }
    return most - 1;
}

static void read_lanes(const pl_engine_t *engine, pl_event_log_t *log,
                       size_t first_lane)
{
    const pl_lanes_t *device = pl_hicache_device(engine->cache);
    const pl_lanes_t *host   = pl_hicache_host(engine->cache);
    int32_t *device_free     = log->last_counts.items + first_lane;
    int32_t *host_free       = device_free + part_at(log, HOST);

    for (int lane = 0; lane < pl_engine_lanes(engine); lane++) {
        device_free[lane] = pl_lanes_free_count(device, lane);
        host_free[lane]   = host == NULL ? 0 : pl_lanes_free_count(host, lane);
    }
}

/* Requests that run there. */
static int32_t read_homes(const pl_engine_t *engine, pl_event_log_t *log,
                          size_t first_home)
{
    int32_t *pool_free =
        log->last_counts.items + part_at(log, DECODE) + first_home;
    int32_t *host_free = pool_free + log->n_homes;
    int32_t running    = 0;

    for (int32_t i = 0; i < engine->n_homes; i++) {
        const pl_home_t *home = &engine->homes[i];

        pool_free[i] = pl_lanes_free_count(home->pool, 0);
        host_free[i] =
            home->host == NULL ? 0 : pl_lanes_free_count(home->host, 0);
        running += (int32_t)home->running.n;
    }
    return running;
}

/* Time in which it had computed at time_ns: what it is in the middle of counts
 * up to then.  It never falls. */
static int64_t busy_ns(const pl_engine_t *engine, int64_t time_ns,
                       int64_t before_ns)
{
    int64_t left = engine->jumps ? 0 : engine->next_ns - time_ns;
    int64_t ns   = left > 0 ? -left : 0;

    for (int part = 0; part < PL_COST_PARTS; part++) {
        ns += engine->counters.prefill_ns[part] +
              engine->counters.decode_ns[part];
    }
    return ns > before_ns ? ns : before_ns;
}

/* Lanes, homes and requests of all engines. */
static void read_engines(const pl_log_fleet_t *fleet, pl_event_log_t *log)
{
    int32_t *running = log->last_counts.items + part_at(log, RUNNING);
    int32_t *waiting = log->last_counts.items + part_at(log, WAITING);
    size_t lane      = 0;
    size_t home      = 0;

    log->last = (sample_t){.tick = fleet->tick, .time_ns = fleet->time_ns};
    for (int32_t i = 0; i < fleet->n; i++) {
        const pl_engine_t *engine = fleet->engines[i];
        int32_t n_running         = read_homes(engine, log, home);

        home += (size_t)engine->n_homes;
        if (i < fleet->n_prefill) {
            read_lanes(engine, log, lane);
            lane += (size_t)pl_engine_lanes(engine);
        }
        log->last.running += n_running;
        log->last.waiting +=
            (int32_t)(engine->waiting.n - engine->waiting_head);
        if (log->n_instances > 0) {
            running[i] = n_running;
            waiting[i] = fleet->waiting[i];
            log->last_busy.items[i] =
                busy_ns(engine, fleet->time_ns, log->last_busy.items[i]);
        }
    }
}

/* Twice the stride: what does not lie on it goes. */
static void thin_out(pl_event_log_t *log)
{
    size_t n    = (size_t)log->n_instances;
    size_t kept = 0;

    log->stride *= 2;
    for (size_t i = 0; i < log->samples.n; i++) {
        if (log->samples.items[i].tick % log->stride == 0) {
            log->samples.items[kept] = log->samples.items[i];
            memmove(log->counts.items + kept * width(log),
                    log->counts.items + i * width(log),
                    width(log) * sizeof(*log->counts.items));
            if (n > 0) {
                memmove(log->busy.items + kept * n, log->busy.items + i * n,
                        n * sizeof(*log->busy.items));
            }
            kept++;
        }
    }
    log->samples.n = kept;
    log->counts.n  = kept * width(log);
    log->busy.n    = kept * n;
}

static pl_status_t keep_last(pl_event_log_t *log)
{
    size_t n = (size_t)log->n_instances;

    log->last_is_kept = false;
    while ((log->last.tick % log->stride == 0) &&
           (log->samples.n >= most_samples(log))) {
        thin_out(log);
    }
    if (log->last.tick % log->stride != 0) {
        return PL_OK;
    }
    PL_TRY(PL_ARRAY_RESERVE(&log->counts, log->counts.n + width(log)));
    PL_TRY(PL_ARRAY_RESERVE(&log->busy, log->busy.n + n));
    PL_TRY(PL_ARRAY_PUSH(&log->samples, log->last));
    memcpy(log->counts.items + log->counts.n, log->last_counts.items,
           width(log) * sizeof(*log->counts.items));
    log->counts.n += width(log);
    if (n > 0) {
        memcpy(log->busy.items + log->busy.n, log->last_busy.items,
               n * sizeof(*log->busy.items));
        log->busy.n += n;
    }
    log->last_is_kept = true;
    return PL_OK;
}

static pl_status_t first_sample(pl_event_log_t *log,
                                const pl_log_fleet_t *fleet)
{
    for (int32_t i = 0; i < fleet->n; i++) {
        log->n_lanes +=
            i < fleet->n_prefill ? pl_engine_lanes(fleet->engines[i]) : 0;
        log->n_homes += fleet->engines[i]->n_homes;
    }
    log->n_instances = fleet->waiting == NULL ? 0 : fleet->n;
    PL_TRY(PL_ARRAY_RESERVE(&log->last_counts, width(log)));
    log->last_counts.n = width(log);
    for (int32_t i = 0; i < log->n_instances; i++) {
        PL_TRY(PL_ARRAY_PUSH(&log->last_busy, 0));
    }
    return PL_OK;
}

bool pl_event_log_is_due(const pl_event_log_t *log, int64_t tick)
{
    return tick % log->stride == 0;
}

void pl_event_log_sample_fleet(pl_event_log_t *log, const pl_log_fleet_t *fleet)
{
    if (log->status != PL_OK) {
        return;
    }
    if (log->n_lanes == 0) {
        log->status = first_sample(log, fleet);
        if (log->status != PL_OK) {
            return;
        }
    }
    assert((log->samples.n == 0) || (fleet->tick > log->last.tick));
    read_engines(fleet, log);
    log->status = keep_last(log);
}

void pl_event_log_sample(pl_event_log_t *log, const pl_engine_t *engine)
{
    pl_log_fleet_t alone = {.tick      = engine->tick,
                            .time_ns   = engine->now_ns,
                            .engines   = &engine,
                            .n         = 1,
                            .n_prefill = 1};

    if (engine->tick >= 0) {
        pl_event_log_sample_fleet(log, &alone);
    }
}

/* Room in the columns that are handed out. */
static pl_status_t reserve_lanes(pl_event_log_t *log, size_t n)
{
    PL_TRY(PL_ARRAY_RESERVE(&log->times, 2 * n));
    PL_TRY(PL_ARRAY_RESERVE(&log->requests, 2 * n));
    for (int part = 0; part < PARTS; part++) {
        PL_TRY(PL_ARRAY_RESERVE(&log->parts[part], n * part_width(log, part)));
    }
    return PL_ARRAY_RESERVE(&log->all_busy, n * (size_t)log->n_instances);
}

/* Sample i of n, as a row of the columns. */
static void put_row(pl_event_log_t *log, size_t i, size_t n,
                    const sample_t *sample, const int32_t *counts,
                    const int64_t *busy)
{
    size_t n_instances = (size_t)log->n_instances;

    log->times.items[i]        = sample->tick;
    log->times.items[n + i]    = sample->time_ns;
    log->requests.items[i]     = sample->running;
    log->requests.items[n + i] = sample->waiting;
    for (int part = 0; part < PARTS; part++) {
        size_t n_part = part_width(log, part);

        if (n_part > 0) {
            memcpy(log->parts[part].items + i * n_part,
                   counts + part_at(log, part), n_part * sizeof(*counts));
        }
    }
    if (n_instances > 0) {
        memcpy(log->all_busy.items + i * n_instances, busy,
               n_instances * sizeof(*busy));
    }
}

pl_lane_history_t pl_event_log_lanes(pl_event_log_t *log)
{
    bool add_last          = (log->n_lanes > 0) && !log->last_is_kept;
    size_t n               = log->samples.n + (add_last ? 1 : 0);
    size_t n_instances     = (size_t)log->n_instances;
    pl_lane_history_t none = {0};
    pl_lane_history_t lanes;

    if ((n == 0) || (log->status != PL_OK)) {
        return none;
    }
    if (reserve_lanes(log, n) != PL_OK) {
        log->status = PL_ERR_MEMORY;
        return none;
    }
    for (size_t i = 0; i < log->samples.n; i++) {
        put_row(log, i, n, &log->samples.items[i],
                log->counts.items + i * width(log),
                n_instances > 0 ? log->busy.items + i * n_instances : NULL);
    }
    if (add_last) {
        put_row(log, n - 1, n, &log->last, log->last_counts.items,
                log->last_busy.items);
    }
    lanes = (pl_lane_history_t){
        .n                = n,
        .n_lanes          = log->n_lanes,
        .n_homes          = log->n_homes,
        .n_instances      = log->n_instances,
        .tick             = log->times.items,
        .time_ns          = log->times.items + n,
        .device_free      = log->parts[DEVICE].items,
        .host_free        = log->parts[HOST].items,
        .decode_free      = log->parts[DECODE].items,
        .decode_host_free = log->parts[DECODE_HOST].items,
        .running          = log->requests.items,
        .waiting          = log->requests.items + n,
        .instance_running = log->parts[RUNNING].items,
        .instance_waiting = log->parts[WAITING].items,
        .instance_busy_ns = log->all_busy.items,
    };
    return lanes;
}
