/* A run's snapshot as a benchmark: what its requests took in time of day. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"
#include "cli/validate.h"

static const pl_inspect_spec_t SPECS[] = {{"arrival_ns", PL_ITEM_I64},
                                          {"first_token_ns", PL_ITEM_I64},
                                          {"finished_ns", PL_ITEM_I64}};

enum { ARRIVAL, FIRST_TOKEN, FINISHED, N_TIMES };

/* 63 years: their differences fit. */
static const int64_t LATEST = INT64_C(2000000000000000000);

bool pl_validate_is_run(const char *path)
{
    static const unsigned char HDF5[8] = {0x89, 'H',  'D',  'F',
                                          '\r', '\n', 0x1a, '\n'};
    unsigned char bytes[sizeof(HDF5)];
    FILE *file   = fopen(path, "rb");
    bool is_hdf5 = (file != NULL) &&
                   (fread(bytes, 1, sizeof(bytes), file) == sizeof(bytes)) &&
                   (memcmp(bytes, HDF5, sizeof(bytes)) == 0);

    if (file != NULL) {
        (void)fclose(file);
    }
    return is_hdf5;
}

static pl_status_t check_times(const pl_snapshot_t *snapshot,
                               const pl_snapshot_column_t *columns, size_t n)
{
    for (int c = 0; c < N_TIMES; c++) {
        for (size_t i = 0; i < n; i++) {
            int64_t ns = columns[c].items[i];

            if ((ns < -1) || (ns > LATEST)) {
                char path[64];

                (void)snprintf(path, sizeof(path), "/timing/%s", SPECS[c].name);
                return pl_snapshot_refuse(
                    snapshot, path,
                    "%" PRId64 " of request %zu is out of range; expected -1 "
                    "to %" PRId64,
                    ns, i, LATEST);
            }
        }
    }
    return PL_OK;
}

/* From one moment to another, if both were and it took any time. */
static int64_t between(int64_t from, int64_t to)
{
    return (from >= 0) && (to > from) ? to - from : 0;
}

static pl_status_t add_requests(const pl_record_t *records,
                                const pl_snapshot_column_t *columns, size_t n,
                                pl_bench_t *bench)
{
    for (size_t i = 0; i < n; i++) {
        const pl_record_t *record  = &records[i];
        int64_t arrival            = columns[ARRIVAL].items[i];
        pl_bench_request_t request = {
            .number        = (int64_t)i + 1,
            .start_ns      = arrival,
            .input_tokens  = record->prompt_tokens,
            .output_tokens = record->generated_tokens,
            .ttft_ns       = between(arrival, columns[FIRST_TOKEN].items[i]),
            .e2e_ns        = between(arrival, columns[FINISHED].items[i]),
            .failed        = record->failed || (record->generated_tokens < 1)};

        if (!record->skipped && (arrival >= 0)) {
            PL_TRY(PL_ARRAY_PUSH(&bench->requests, request));
        }
    }
    return PL_OK;
}

/* As they began, the first at 0. */
static pl_status_t put_in_order(const pl_snapshot_t *snapshot,
                                pl_bench_t *bench)
{
    bool is_any_good = false;

    for (size_t i = 0; i < bench->requests.n; i++) {
        is_any_good |= !bench->requests.items[i].failed;
    }
    if (!is_any_good) {
        return pl_snapshot_refuse(snapshot, "/timing/arrival_ns",
                                  "no request in it that did not fail; "
                                  "expected one or more");
    }
    pl_bench_sort(bench);
    for (size_t i = bench->requests.n; i-- > 0;) {
        bench->requests.items[i].start_ns -= bench->requests.items[0].start_ns;
    }
    return PL_OK;
}

static pl_status_t read_run(const pl_snapshot_t *snapshot,
                            const pl_record_t *records, size_t n,
                            pl_bench_t *bench)
{
    pl_snapshot_column_t columns[N_TIMES] = {{0}};
    size_t rows                           = 0;
    pl_status_t status;

    if (!pl_snapshot_has_dataset(snapshot, "/timing/arrival_ns")) {
        return pl_snapshot_refuse(snapshot, "/timing",
                                  "has no times of requests; expected the "
                                  "snapshot of a run that computed or moved "
                                  "bytes (--executor model or stamp)");
    }
    status =
        pl_inspect_columns(snapshot, "/timing", SPECS, N_TIMES, columns, &rows);
    if ((status == PL_OK) && (rows != n)) {
        status = pl_snapshot_refuse(snapshot, "/timing/arrival_ns",
                                    "has %zu rows; expected %zu", rows, n);
    }
    if (status == PL_OK) {
        status = check_times(snapshot, columns, n);
    }
    if (status == PL_OK) {
        status = add_requests(records, columns, n, bench);
    }
    pl_inspect_free(columns, N_TIMES);
    return status == PL_OK ? put_in_order(snapshot, bench) : status;
}

pl_status_t pl_validate_read_run(const char *path, const pl_log_t *log,
                                 pl_bench_t *bench_p)
{
    pl_snapshot_t *snapshot = NULL;
    pl_record_t *records    = NULL;
    pl_bench_t bench        = {.format = "pagelane", .is_timed = true};
    int32_t n               = 0;
    pl_status_t status;

    PL_TRY(pl_snapshot_open(path, log, &snapshot));
    status = pl_inspect_records(snapshot, &records, &n);
    if (status == PL_OK) {
        status = read_run(snapshot, records, (size_t)n, &bench);
    }
    free(records);
    pl_snapshot_close(snapshot);
    if (status != PL_OK) {
        pl_bench_free(&bench);
        return status;
    }
    *bench_p = bench;
    return PL_OK;
}
