/* pagelane inspect F requests: what became of each request. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"
#include "cli/table.h"

typedef enum column {
    ARRIVAL,
    ADMITTED,
    FIRST_TOKEN,
    DECODE,
    FINISHED,
    PROMPT,
    OUTPUT,
    GENERATED,
    DEVICE_HIT,
    HOST_HIT,
    MISS_NEW,
    MISS_EVICTED,
    MISS_LANE,
    MISS_THRESHOLD,
    MISS_FAILED,
    MISS_LAST_PAGE,
    CUT,
    HOME,
    PREEMPTIONS,
    REENTRIES,
    READMISSIONS,
    FAILED,
    DIGEST,
    COLUMNS
} column_t;

static const pl_inspect_spec_t SPECS[COLUMNS] = {
    [ARRIVAL]        = {"arrival_ns", PL_ITEM_I64},
    [ADMITTED]       = {"admitted_ns", PL_ITEM_I64},
    [FIRST_TOKEN]    = {"first_token_ns", PL_ITEM_I64},
    [DECODE]         = {"decode_ns", PL_ITEM_I64},
    [FINISHED]       = {"finished_ns", PL_ITEM_I64},
    [PROMPT]         = {"prompt_tokens", PL_ITEM_I32},
    [OUTPUT]         = {"output_tokens", PL_ITEM_I32},
    [GENERATED]      = {"generated_tokens", PL_ITEM_I32},
    [DEVICE_HIT]     = {"device_hit_tokens", PL_ITEM_I32},
    [HOST_HIT]       = {"host_hit_tokens", PL_ITEM_I32},
    [MISS_NEW]       = {"miss_new", PL_ITEM_I32},
    [MISS_EVICTED]   = {"miss_evicted", PL_ITEM_I32},
    [MISS_LANE]      = {"miss_lane", PL_ITEM_I32},
    [MISS_THRESHOLD] = {"miss_threshold", PL_ITEM_I32},
    [MISS_FAILED]    = {"miss_failed", PL_ITEM_I32},
    [MISS_LAST_PAGE] = {"miss_last_page", PL_ITEM_I32},
    [CUT]            = {"cut_pages", PL_ITEM_I32},
    [HOME]           = {"home", PL_ITEM_I32},
    [PREEMPTIONS]    = {"preemptions", PL_ITEM_I32},
    [REENTRIES]      = {"reentries", PL_ITEM_I32},
    [READMISSIONS]   = {"readmissions", PL_ITEM_I32},
    [FAILED]         = {"failed", PL_ITEM_U8},
    [DIGEST]         = {"digest", PL_ITEM_U64},
};

typedef struct requests {
    pl_snapshot_column_t columns[COLUMNS];
    size_t n;
} requests_t;

static int64_t at(const requests_t *requests, column_t column, size_t i)
{
    return requests->columns[column].items[i];
}

static const char *state_of(const requests_t *requests, size_t i)
{
    if (at(requests, FAILED, i) != 0) {
        return "failed";
    }
    return at(requests, FINISHED, i) < 0 ? "unfinished" : "good";
}

/* ---- for people ---- */

/* A time in ms with three digits, "-" if it has not come. */
static void time_cell(pl_table_t *table, int64_t from_ns, int64_t to_ns)
{
    int64_t us;

    if ((from_ns < 0) || (to_ns < from_ns)) {
        pl_table_cell(table, "-");
        return;
    }
    us = (to_ns - from_ns) / 1000;
    pl_table_cell(table, "%" PRId64 ".%03" PRId64, us / 1000, us % 1000);
}

static void misses_cell(pl_table_t *table, const requests_t *requests, size_t i)
{
    static const column_t CAUSES[] = {MISS_NEW,    MISS_EVICTED,
                                      MISS_LANE,   MISS_THRESHOLD,
                                      MISS_FAILED, MISS_LAST_PAGE};
    char text[160]                 = "";
    size_t n                       = 0;

    for (size_t c = 0; c < sizeof(CAUSES) / sizeof(CAUSES[0]); c++) {
        int64_t pages = at(requests, CAUSES[c], i);

        if (pages != 0) {
            n += (size_t)snprintf(
                text + n, sizeof(text) - n, "%s%s %" PRId64, n > 0 ? ", " : "",
                SPECS[CAUSES[c]].name + strlen("miss_"), pages);
            n = n < sizeof(text) ? n : sizeof(text) - 1;
        }
    }
    pl_table_cell(table, "%s", text);
}

static pl_status_t print_table(const requests_t *requests)
{
    pl_table_t *table = pl_table_open(
        "request>,state<,arrival ms>,prompt tokens>,device hit tokens>,"
        "host hit tokens>,missed pages by cause<,first token after ms>,"
        "end after ms>,generated tokens>,home rank>,preempted>,digest<");
    pl_status_t status;

    for (size_t i = 0; i < requests->n; i++) {
        int64_t arrival = at(requests, ARRIVAL, i);

        pl_table_cell(table, "%zu", i);
        pl_table_cell(table, "%s", state_of(requests, i));
        time_cell(table, 0, arrival);
        pl_table_cell(table, "%" PRId64, at(requests, PROMPT, i));
        pl_table_cell(table, "%" PRId64, at(requests, DEVICE_HIT, i));
        pl_table_cell(table, "%" PRId64, at(requests, HOST_HIT, i));
        misses_cell(table, requests, i);
        time_cell(table, arrival, at(requests, FIRST_TOKEN, i));
        time_cell(table, arrival, at(requests, FINISHED, i));
        pl_table_cell(table, "%" PRId64, at(requests, GENERATED, i));
        pl_table_cell(table, "%" PRId64, at(requests, HOME, i));
        pl_table_cell(table, "%" PRId64,
                      at(requests, PREEMPTIONS, i) +
                          at(requests, REENTRIES, i));
        pl_table_cell(table, "%016" PRIx64, (uint64_t)at(requests, DIGEST, i));
    }
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return status;
}

/* ---- for programs ---- */

static json_object *json_of(const requests_t *requests, size_t i)
{
    json_object *object = json_object_new_object();
    char digest[32];

    pl_inspect_add_integer(object, "request", (int64_t)i);
    json_object_object_add(object, "state",
                           json_object_new_string(state_of(requests, i)));
    for (int c = 0; c < DIGEST; c++) {
        pl_inspect_add_integer(object, SPECS[c].name,
                               at(requests, (column_t)c, i));
    }
    (void)snprintf(digest, sizeof(digest), "%016" PRIx64,
                   (uint64_t)at(requests, DIGEST, i));
    json_object_object_add(object, "digest", json_object_new_string(digest));
    return object;
}

static pl_status_t print_json(const requests_t *requests)
{
    json_object *object = json_object_new_object();
    json_object *array  = json_object_new_array();

    for (size_t i = 0; i < requests->n; i++) {
        json_object_array_add(array, json_of(requests, i));
    }
    json_object_object_add(object, "requests", array);
    return pl_inspect_print(object);
}

pl_status_t pl_inspect_requests(const pl_snapshot_t *snapshot, bool json)
{
    requests_t requests = {0};
    pl_status_t status  = pl_inspect_columns(
         snapshot, "/requests", SPECS, COLUMNS, requests.columns, &requests.n);

    if (status == PL_OK) {
        status = json ? print_json(&requests) : print_table(&requests);
    }
    pl_inspect_free(requests.columns, COLUMNS);
    return status;
}

/* ---- totals ---- */

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* The smallest value that p percent of the values do not exceed, in ms. */
static double percentile_ms(const int64_t *sorted, size_t n, size_t p)
{
    size_t rank = (n * p + 99) / 100;

    return n == 0 ? 0.0 : (double)sorted[rank > 0 ? rank - 1 : 0] / 1e6;
}

/* Times from arrival to `column` of the requests that got there. */
static void times_to(const requests_t *requests, column_t column,
                     int64_t *times, double *mean_p, double *median_p,
                     double *p99_p)
{
    size_t n     = 0;
    double total = 0;

    for (size_t i = 0; i < requests->n; i++) {
        int64_t end = at(requests, column, i);

        if ((end >= 0) && (at(requests, FAILED, i) == 0)) {
            times[n] = end - at(requests, ARRIVAL, i);
            total += (double)times[n++];
        }
    }
    qsort(times, n, sizeof(*times), ascending);
    *mean_p   = n == 0 ? 0.0 : total / (double)n / 1e6;
    *median_p = percentile_ms(times, n, 50);
    *p99_p    = percentile_ms(times, n, 99);
}

static void add_up(const requests_t *requests, pl_inspect_requests_t *totals)
{
    totals->n = (int64_t)requests->n;
    for (size_t i = 0; i < requests->n; i++) {
        int64_t finished = at(requests, FINISHED, i);

        totals->n_finished += finished >= 0 ? 1 : 0;
        totals->n_failed += at(requests, FAILED, i) != 0 ? 1 : 0;
        totals->prompt_tokens += at(requests, PROMPT, i);
        totals->generated_tokens += at(requests, GENERATED, i);
        totals->device_hit_tokens += at(requests, DEVICE_HIT, i);
        totals->host_hit_tokens += at(requests, HOST_HIT, i);
        totals->end_ns = finished > totals->end_ns ? finished : totals->end_ns;
    }
}

pl_status_t pl_inspect_request_totals(const pl_snapshot_t *snapshot,
                                      pl_inspect_requests_t *totals_p)
{
    requests_t requests          = {0};
    pl_inspect_requests_t totals = {0};
    int64_t *times               = NULL;
    pl_status_t status           = PL_OK;

    PL_TRY_GOTO(status,
                pl_inspect_columns(snapshot, "/requests", SPECS, COLUMNS,
                                   requests.columns, &requests.n),
                free_columns);
    times = malloc((requests.n + 1) * sizeof(*times));
    if (times == NULL) {
        status = PL_ERR_MEMORY;
        goto free_columns;
    }
    add_up(&requests, &totals);
    times_to(&requests, FIRST_TOKEN, times, &totals.mean_ttft_ms,
             &totals.median_ttft_ms, &totals.p99_ttft_ms);
    times_to(&requests, FINISHED, times, &totals.mean_e2el_ms,
             &totals.median_e2el_ms, &totals.p99_e2el_ms);
    *totals_p = totals;
    free(times);

free_columns:
    pl_inspect_free(requests.columns, COLUMNS);
    return status;
}
