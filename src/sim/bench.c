#include "sim/bench.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json_tokener.h>

#include "model/json.h"

#define LARGEST_FILE ((size_t)1 << 30)
/* 63 years: two of them can be added. */
#define MOST_NS INT64_C(2000000000000000000)

typedef struct reading {
    const char *name;
    const pl_log_t *log;
    pl_bench_t *bench;
    int64_t n_objects;        /* read so far */
    PL_ARRAY(int64_t) starts; /* of each request, in ns since whenever */
} reading_t;

/* ---- numbers ---- */

static bool is_number(struct json_object *value)
{
    return json_object_is_type(value, json_type_double) ||
           json_object_is_type(value, json_type_int);
}

/* In ns; 0 if it is no time. */
static int64_t time_of(struct json_object *value, double unit_ns)
{
    double ns = json_object_get_double(value) * unit_ns;

    return is_number(value) && (ns > 0) && (ns < (double)MOST_NS) ? llround(ns)
                                                                  : 0;
}

/* 0 .. INT32_MAX; -1: it is no such number. */
static int32_t count_of(struct json_object *value)
{
    int64_t count = json_object_get_int64(value);
    double real   = json_object_get_double(value);
    bool fits     = is_number(value) && (real >= 0) && (real <= INT32_MAX) &&
                (real == (double)count);

    return fits ? (int32_t)count : -1;
}

static int32_t larger(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* Up to the most there is. */
static int64_t sum_of(int64_t a, int64_t b)
{
    return a + b < MOST_NS ? a + b : MOST_NS;
}

static size_t length_of(struct json_object *array)
{
    return json_object_is_type(array, json_type_array)
               ? json_object_array_length(array)
               : 0;
}

static struct json_object *item(struct json_object *array, size_t i)
{
    return i < length_of(array) ? json_object_array_get_idx(array, i) : NULL;
}

/* Gaps between the tokens of a request; their sum. */
static pl_status_t read_gaps(reading_t *reading, struct json_object *gaps,
                             double unit_ns, int64_t *sum_p)
{
    for (size_t i = 0; i < length_of(gaps); i++) {
        int64_t ns = time_of(item(gaps, i), unit_ns);

        *sum_p = sum_of(*sum_p, ns);
        PL_TRY(PL_ARRAY_PUSH(&reading->bench->gaps, ns));
    }
    return PL_OK;
}

static pl_status_t add(reading_t *reading, pl_bench_request_t *request,
                       int64_t start_ns)
{
    size_t n = reading->bench->requests.n;

    if (request->number == 0) {
        request->number = (int64_t)n + 1;
    }
    if (!request->failed &&
        ((request->input_tokens < 1) || (request->output_tokens < 1))) {
        return pl_model_bad(reading->log, reading->name,
                            "request %" PRId64 " has no length: expected its "
                            "input and output tokens, one or more",
                            request->number);
    }
    request->input_tokens = larger(request->input_tokens, 0);
    /* in one piece: nobody knows when its first token was there */
    if ((request->output_tokens > 1) && (request->e2e_ns > 0) &&
        (request->e2e_ns <= request->ttft_ns)) {
        request->ttft_ns = 0;
    }
    PL_TRY(PL_ARRAY_PUSH(&reading->starts, start_ns));
    return PL_ARRAY_PUSH(&reading->bench->requests, *request);
}

/* ---- SGLang and vLLM: an array a member ---- */

static bool has_text(struct json_object *value)
{
    return json_object_is_type(value, json_type_string) &&
           (json_object_get_string_len(value) > 0);
}

static pl_status_t read_columns(reading_t *reading, struct json_object *root)
{
    struct json_object *inputs  = pl_json_find(root, "input_lens");
    struct json_object *outputs = pl_json_find(root, "output_lens");
    struct json_object *ttfts   = pl_json_find(root, "ttfts");
    struct json_object *itls    = pl_json_find(root, "itls");
    struct json_object *errors  = pl_json_find(root, "errors");
    struct json_object *starts  = pl_json_find(root, "start_times");
    size_t n                    = length_of(inputs);

    if ((n == 0) || (length_of(outputs) != n) || (length_of(ttfts) != n) ||
        (length_of(itls) != n) ||
        ((starts != NULL) && (length_of(starts) != n))) {
        return pl_model_bad(reading->log, reading->name,
                            "expected input_lens, output_lens, ttfts and itls "
                            "of as many requests; run the client with "
                            "--output-details (sglang) or --save-detailed "
                            "(vllm)");
    }
    reading->bench->is_timed = starts != NULL;
    for (size_t i = 0; i < n; i++) {
        int32_t output             = count_of(item(outputs, i));
        pl_bench_request_t request = {.input_tokens = count_of(item(inputs, i)),
                                      .output_tokens = output,
                                      .ttft_ns = time_of(item(ttfts, i), 1e9),
                                      .failed  = (output == 0) ||
                                                has_text(item(errors, i))};
        int64_t between            = 0;

        if (!request.failed) {
            PL_TRY(read_gaps(reading, item(itls, i), 1e9, &between));
        }
        request.e2e_ns =
            request.ttft_ns > 0 ? sum_of(request.ttft_ns, between) : 0;
        PL_TRY(add(reading, &request, time_of(item(starts, i), 1e9)));
    }
    return PL_OK;
}

/* No start is told: as the client starts them, at even gaps of its rate and
 * with at most so many at a time. */
static pl_status_t reckon_starts(reading_t *reading, struct json_object *root)
{
    struct json_object *rate = pl_json_find(root, "request_rate");
    size_t n                 = reading->bench->requests.n;
    int32_t most             = count_of(pl_json_find(root, "max_concurrency"));
    size_t n_places = (most > 0) && ((size_t)most < n) ? (size_t)most : n;
    double per_s    = is_number(rate) ? json_object_get_double(rate) : 0;
    double gap_ns   = (per_s > 0) && isfinite(per_s) ? 1e9 / per_s : 0;
    int64_t *ends   = calloc(n_places, sizeof(*ends));

    if (ends == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < n; i++) {
        double due    = fmin(gap_ns * (double)i, (double)MOST_NS);
        int64_t start = llround(due);
        size_t first  = n_places < n ? 0 : i;

        for (size_t p = 1; (n_places < n) && (p < n_places); p++) {
            first = ends[p] < ends[first] ? p : first;
        }
        start       = ends[first] > start ? ends[first] : start;
        ends[first] = sum_of(start, reading->bench->requests.items[i].e2e_ns);

        reading->starts.items[i] = start;
    }
    free(ends);
    return PL_OK;
}

static pl_status_t read_run(reading_t *reading, struct json_object *root)
{
    if (reading->n_objects > 0) {
        return pl_model_bad(reading->log, reading->name,
                            "holds more than one run; keep the line of one");
    }
    reading->bench->format =
        pl_json_find(root, "model_id") != NULL ? "vllm" : "sglang";
    PL_TRY(read_columns(reading, root));
    reading->bench->is_replayed =
        !reading->bench->is_timed &&
        (pl_json_is(pl_json_find(root, "request_rate"), "trace") ||
         pl_json_is(pl_json_find(root, "dataset_name"), "mooncake"));
    return reading->bench->is_timed || reading->bench->is_replayed
               ? PL_OK
               : reckon_starts(reading, root);
}

/* ---- AIPerf: an object a request ---- */

/* {"value": V, "unit": U}; NULL: there is none. */
static struct json_object *value_of(struct json_object *metrics,
                                    const char *name, double *unit_ns_p)
{
    static const struct {
        const char *unit;
        double ns;
    } UNITS[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"sec", 1e9}};
    struct json_object *metric = pl_json_find(metrics, name);

    *unit_ns_p = 1e6;
    for (size_t i = 0; i < sizeof(UNITS) / sizeof(UNITS[0]); i++) {
        if (pl_json_is(pl_json_find(metric, "unit"), UNITS[i].unit)) {
            *unit_ns_p = UNITS[i].ns;
        }
    }
    return pl_json_find(metric, "value");
}

static int64_t metric_ns(struct json_object *metrics, const char *name)
{
    double unit                = 0;
    struct json_object *number = value_of(metrics, name, &unit);

    return time_of(number, unit);
}

/* Under either name. */
static int32_t metric_count(struct json_object *metrics, const char *name,
                            const char *other)
{
    double unit = 0;

    return larger(count_of(value_of(metrics, name, &unit)),
                  count_of(value_of(metrics, other, &unit)));
}

static pl_status_t read_record(reading_t *reading, struct json_object *record)
{
    struct json_object *about   = pl_json_find(record, "metadata");
    struct json_object *metrics = pl_json_find(record, "metrics");
    struct json_object *start   = pl_json_find(about, "request_start_ns");
    struct json_object *gaps;
    pl_bench_request_t request = {
        .number = reading->n_objects + 1,
        .input_tokens =
            metric_count(metrics, "input_sequence_length", "error_isl"),
        .output_tokens = metric_count(metrics, "output_sequence_length",
                                      "output_token_count"),
        .ttft_ns       = metric_ns(metrics, "time_to_first_token"),
        .e2e_ns        = metric_ns(metrics, "request_latency")};
    int64_t sum = 0;
    double unit = 0;

    if (pl_json_is(pl_json_find(about, "benchmark_phase"), "warmup")) {
        return PL_OK;
    }
    if (!json_object_is_type(start, json_type_int) ||
        (json_object_get_int64(start) < 0)) {
        return pl_model_bad(reading->log, reading->name,
                            "record %" PRId64 ": expected metadata with "
                            "request_start_ns, as profile_export.jsonl has it",
                            reading->n_objects + 1);
    }
    request.failed =
        (pl_json_find(record, "error") != NULL) || (request.output_tokens == 0);
    if (!request.failed) {
        gaps = value_of(metrics, "inter_chunk_latency", &unit);
        PL_TRY(read_gaps(reading, gaps, unit, &sum));
    }
    reading->bench->format   = "aiperf";
    reading->bench->is_timed = true;
    return add(reading, &request, json_object_get_int64(start));
}

/* ---- the file ---- */

static pl_status_t read_object(reading_t *reading, struct json_object *root)
{
    pl_status_t status;

    if (pl_json_find(root, "metadata") != NULL) {
        status = read_record(reading, root);
    } else if ((pl_json_find(root, "input_lens") != NULL) ||
               (pl_json_find(root, "mean_ttft_ms") != NULL)) {
        status = read_run(reading, root);
    } else {
        status = pl_model_bad(
            reading->log, reading->name,
            "holds no requests of a benchmark: expected what sglang's "
            "bench_serving writes with --output-details, vllm bench serve with "
            "--save-detailed, or AIPerf as profile_export.jsonl");
    }
    reading->n_objects++;
    return status;
}

static pl_status_t read_value(reading_t *reading, struct json_object *root)
{
    if (!json_object_is_type(root, json_type_array)) {
        return read_object(reading, root);
    }
    for (size_t i = 0; i < length_of(root); i++) {
        PL_TRY(read_object(reading, item(root, i)));
    }
    return PL_OK;
}

static pl_status_t read_all(reading_t *reading, const char *text,
                            size_t n_bytes, struct json_tokener *tokener)
{
    size_t at = 0;

    while (at + strspn(text + at, " \t\r\n") < n_bytes) {
        size_t left = n_bytes - at;
        struct json_object *root =
            json_tokener_parse_ex(tokener, text + at, (int)left);
        pl_status_t status;

        if (root == NULL) {
            return pl_model_bad(reading->log, reading->name,
                                "no JSON at byte %zu; expected what a "
                                "benchmark client wrote",
                                at);
        }
        at += json_tokener_get_parse_end(tokener);
        status = read_value(reading, root);
        json_object_put(root);
        PL_TRY(status);
    }
    return PL_OK;
}

static int by_start(const void *a, const void *b)
{
    const pl_bench_request_t *x = a;
    const pl_bench_request_t *y = b;

    if (x->start_ns != y->start_ns) {
        return x->start_ns < y->start_ns ? -1 : 1;
    }
    return (x->number > y->number) - (x->number < y->number);
}

void pl_bench_sort(pl_bench_t *bench)
{
    qsort(bench->requests.items, bench->requests.n,
          sizeof(*bench->requests.items), by_start);
}

static pl_status_t put_in_order(reading_t *reading)
{
    pl_bench_t *bench = reading->bench;
    int64_t first     = INT64_MAX;
    bool is_any_good  = false;

    for (size_t i = 0; i < bench->requests.n; i++) {
        int64_t start = reading->starts.items[i];

        first = start < first ? start : first;
        is_any_good |= !bench->requests.items[i].failed;
    }
    if (!is_any_good) {
        return pl_model_bad(reading->log, reading->name,
                            "no request in it that did not fail; expected one "
                            "or more");
    }
    for (size_t i = 0; i < bench->requests.n; i++) {
        int64_t since = reading->starts.items[i] - first; /* both from 0 */

        if (since > MOST_NS) {
            return pl_model_bad(reading->log, reading->name,
                                "request %" PRId64 " begins more than 63 years "
                                "after the first: expected times of one run",
                                bench->requests.items[i].number);
        }
        bench->requests.items[i].start_ns = since;
    }
    pl_bench_sort(bench);
    return PL_OK;
}

pl_status_t pl_bench_parse(const char *name, const char *text, size_t n_bytes,
                           const pl_log_t *log, pl_bench_t *bench_p)
{
    struct json_tokener *tokener = json_tokener_new();
    pl_bench_t bench             = {0};
    reading_t reading            = {.name = name, .log = log, .bench = &bench};
    pl_status_t status;

    if (tokener == NULL) {
        return PL_ERR_MEMORY;
    }
    status = read_all(&reading, text, n_bytes, tokener);
    json_tokener_free(tokener);
    if (status == PL_OK) {
        status = put_in_order(&reading);
    }
    PL_ARRAY_FREE(&reading.starts);
    if (status != PL_OK) {
        pl_bench_free(&bench);
        return status;
    }
    *bench_p = bench;
    return PL_OK;
}

pl_status_t pl_bench_read(const char *path, const pl_log_t *log,
                          pl_bench_t *bench_p)
{
    PL_ARRAY(char) text = {0};
    FILE *file          = fopen(path, "rb");
    pl_status_t status  = PL_OK;
    size_t got          = 0;

    if (file == NULL) {
        return pl_model_bad(log, path,
                            "cannot be read: %s; expected what a benchmark "
                            "client wrote",
                            strerror(errno));
    }
    do {
        status = PL_ARRAY_RESERVE(&text, text.n + 65536);
        got = status == PL_OK ? fread(text.items + text.n, 1, 65535, file) : 0;
        text.n += got;
    } while ((got > 0) && (text.n < LARGEST_FILE));
    if ((status == PL_OK) && ((ferror(file) != 0) || (got > 0))) {
        status = pl_model_bad(log, path,
                              "cannot be read; expected a file of less than "
                              "1 GiB");
    }
    if (status == PL_OK) {
        text.items[text.n] = '\0';
        status = pl_bench_parse(path, text.items, text.n, log, bench_p);
    }
    PL_ARRAY_FREE(&text);
    (void)fclose(file);
    return status;
}

void pl_bench_free(pl_bench_t *bench)
{
    PL_ARRAY_FREE(&bench->requests);
    PL_ARRAY_FREE(&bench->gaps);
}

int64_t pl_bench_tpot_ns(const pl_bench_request_t *request)
{
    int64_t rest = request->e2e_ns - request->ttft_ns;

    return (request->ttft_ns > 0) && (rest > 0) && (request->output_tokens > 1)
               ? rest / (request->output_tokens - 1)
               : 0;
}
