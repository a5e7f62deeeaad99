#include "cli/run_clock.h"

#include <stdlib.h>
#include <string.h>

/* ---- while it runs ---- */

static int64_t ns_since(const struct timespec *then)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return ((int64_t)now.tv_sec - then->tv_sec) * 1000000000 + now.tv_nsec -
           then->tv_nsec;
}

void pl_run_clock_begin(pl_run_clock_t *clock)
{
    clock_gettime(CLOCK_MONOTONIC, &clock->began);
}

void pl_run_clock_tick(pl_run_clock_t *clock, const pl_engine_t *engine)
{
    int64_t n_jumps    = pl_engine_counters(engine)->idle_ticks;
    pl_run_tick_t tick = {.virtual_ns = pl_engine_now_ns(engine),
                          .real_ns    = ns_since(&clock->began),
                          .is_jump    = n_jumps > clock->n_jumps};

    clock->n_jumps = n_jumps;
    if (clock->status == PL_OK) {
        clock->status = PL_ARRAY_PUSH(&clock->ticks, tick);
    }
}

void pl_run_clock_free(pl_run_clock_t *clock)
{
    PL_ARRAY_FREE(&clock->ticks);
}

/* ---- when it is over ---- */

/* Requests that begin, and that end, each by time. */
typedef struct spans {
    int64_t *begins, *ends;
    size_t n_begins, n_ends;
} spans_t;

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static pl_status_t find_spans(const pl_record_t *records, int32_t n,
                              spans_t *spans)
{
    spans->begins = malloc((size_t)n * sizeof(int64_t) + 1);
    spans->ends   = malloc((size_t)n * sizeof(int64_t) + 1);
    if ((spans->begins == NULL) || (spans->ends == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < n; i++) {
        if ((records[i].arrival_ns >= 0) && (records[i].finished_ns >= 0)) {
            spans->begins[spans->n_begins++] = records[i].arrival_ns;
            spans->ends[spans->n_ends++]     = records[i].finished_ns;
        }
    }
    qsort(spans->begins, spans->n_begins, sizeof(int64_t), by_time);
    qsort(spans->ends, spans->n_ends, sizeof(int64_t), by_time);
    return PL_OK;
}

/* starts[k]: how late it is when tick k begins. */
static void find_starts(const pl_run_clock_t *clock, const spans_t *spans,
                        int64_t *starts)
{
    const pl_run_tick_t *ticks = clock->ticks.items;
    int64_t before             = 0;
    int64_t late               = 0;
    size_t begun               = 0;
    size_t ended               = 0;

    for (size_t k = 0; k < clock->ticks.n; k++) {
        int64_t now  = ticks[k].virtual_ns;
        int64_t real = ticks[k].real_ns - before;
        int64_t jump =
            k + 1 < clock->ticks.n ? ticks[k + 1].virtual_ns - now : 0;

        starts[k] = late;
        for (; (begun < spans->n_begins) && (spans->begins[begun] <= now);
             begun++) {
        }
        for (; (ended < spans->n_ends) && (spans->ends[ended] <= now);
             ended++) {
        }
        late +=
            ticks[k].is_jump && (begun == ended) && (jump > real) ? jump : real;
        before = ticks[k].real_ns;
    }
    starts[clock->ticks.n] = late;
}

/* The first tick that begins at `ns` or later; all ticks: none does. */
static size_t tick_from(const pl_run_clock_t *clock, int64_t ns)
{
    size_t low  = 0;
    size_t high = clock->ticks.n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (clock->ticks.items[middle].virtual_ns < ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static int64_t real_of(const pl_run_clock_t *clock, const int64_t *starts,
                       int64_t ns)
{
    const pl_run_tick_t *ticks = clock->ticks.items;
    size_t k                   = tick_from(clock, ns);
    double part;

    if (ns < 0) {
        return -1;
    }
    if ((k == 0) || (k == clock->ticks.n) || (ticks[k].virtual_ns == ns)) {
        return starts[k];
    }
    part = (double)(ns - ticks[k - 1].virtual_ns) /
           (double)(ticks[k].virtual_ns - ticks[k - 1].virtual_ns);
    return starts[k - 1] +
           (int64_t)(part * (double)(starts[k] - starts[k - 1]));
}

static pl_status_t make_times(int32_t n, pl_run_times_t *times)
{
    size_t bytes = (size_t)n * sizeof(int64_t) + 1;

    times->arrival_ns     = malloc(bytes);
    times->first_token_ns = malloc(bytes);
    times->finished_ns    = malloc(bytes);
    return (times->arrival_ns != NULL) && (times->first_token_ns != NULL) &&
                   (times->finished_ns != NULL)
               ? PL_OK
               : PL_ERR_MEMORY;
}

pl_status_t pl_run_clock_times_of(const pl_run_clock_t *clock,
                                  const pl_record_t *records, int32_t n,
                                  pl_run_times_t *times_p)
{
    spans_t spans      = {0};
    int64_t *starts    = malloc((clock->ticks.n + 1) * sizeof(*starts));
    pl_status_t status = starts == NULL ? PL_ERR_MEMORY : clock->status;

    memset(times_p, 0, sizeof(*times_p));
    if (status == PL_OK) {
        status = make_times(n, times_p);
    }
    if (status == PL_OK) {
        status = find_spans(records, n, &spans);
    }
    if (status == PL_OK) {
        find_starts(clock, &spans, starts);
    }
    for (int32_t i = 0; (status == PL_OK) && (i < n); i++) {
        const pl_record_t *r = &records[i];

        times_p->arrival_ns[i]     = real_of(clock, starts, r->arrival_ns);
        times_p->first_token_ns[i] = real_of(clock, starts, r->first_token_ns);
        times_p->finished_ns[i]    = real_of(clock, starts, r->finished_ns);
    }
    free(spans.begins);
    free(spans.ends);
    free(starts);
    return status;
}

pl_status_t pl_run_clock_times(const pl_run_clock_t *clock,
                               const pl_engine_t *engine,
                               pl_run_times_t *times_p)
{
    int32_t n            = pl_engine_n_requests(engine);
    pl_record_t *records = malloc(((size_t)n + 1) * sizeof(*records));
    pl_status_t status;

    memset(times_p, 0, sizeof(*times_p));
    if (records == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int32_t i = 0; i < n; i++) {
        records[i] = *pl_engine_record(engine, i);
    }
    status = pl_run_clock_times_of(clock, records, n, times_p);
    free(records);
    return status;
}

void pl_run_times_free(pl_run_times_t *times)
{
    free(times->arrival_ns);
    free(times->first_token_ns);
    free(times->finished_ns);
    memset(times, 0, sizeof(*times));
}
