/* CSV with Azure's columns; dates count from 1970. */
#include <inttypes.h>

#include "trace/writing.h"

#define NS_PER_S INT64_C(1000000000)

/* Year, month and day of a day from 1970-01-01, in the Gregorian calendar. */
static void write_day(FILE *file, int64_t day)
{
    int64_t z     = day + 719468;
    int64_t era   = z / 146097;
    int64_t doe   = z - 146097 * era;
    int64_t yoe   = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy   = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t part  = (5 * doy + 2) / 153;
    int64_t month = part < 10 ? part + 3 : part - 9;

    fprintf(file, "%04" PRId64 "-%02" PRId64 "-%02" PRId64,
            yoe + 400 * era + (month <= 2 ? 1 : 0), month,
            doy - (153 * part + 2) / 5 + 1);
}

static pl_status_t write_csv(pl_writing_t *writing)
{
    const pl_trace_t *trace = writing->trace;
    FILE *file              = writing->file;

    fprintf(file, "TIMESTAMP,ContextTokens,GeneratedTokens\n");
    for (int32_t i = 0; i < trace->count; i++) {
        const pl_request_t *request = &trace->requests[i];
        int64_t s                   = request->arrival_ns / NS_PER_S;
        int64_t rest                = request->arrival_ns % NS_PER_S;

        if (trace->has_prefixes) {
            pl_writing_lose(writing, PL_LOSS_PREFIXES);
        }
        if (request->n_after > 0) {
            pl_writing_lose(writing, PL_LOSS_WAITS);
        }
        if (rest % 100 != 0) {
            pl_writing_lose(writing, PL_LOSS_TIME);
        }
        write_day(file, s / 86400);
        fprintf(file,
                " %02" PRId64 ":%02" PRId64 ":%02" PRId64 ".%07" PRId64
                ",%" PRId32 ",%" PRId32 "\n",
                s % 86400 / 3600, s % 3600 / 60, s % 60, rest / 100,
                request->input_tokens, request->output_tokens);
    }
    return PL_OK;
}

const pl_trace_writer_t pl_trace_writer_csv = {
    .name  = "csv",
    .write = write_csv,
};
