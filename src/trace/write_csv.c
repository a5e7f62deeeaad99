/* CSV with Azure's columns, and those of turns if there are any; dates count
 * from 1970. */
#include <inttypes.h>

#include "trace/writing_turns.h"

#define NS_PER_S INT64_C(1000000000)

enum { S = 9 };

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

static void write_time(pl_writing_t *writing, int64_t ns)
{
    int64_t s    = ns / NS_PER_S;
    int64_t rest = ns % NS_PER_S;

    if (rest % 100 != 0) {
        pl_writing_lose(writing, PL_LOSS_TIME);
    }
    write_day(writing->file, s / 86400);
    fprintf(writing->file,
            " %02" PRId64 ":%02" PRId64 ":%02" PRId64 ".%07" PRId64,
            s % 86400 / 3600, s % 3600 / 60, s % 60, rest / 100);
}

/* The session of request i, and how long after the turn before it comes; where
 * that is empty, at its time but not before that turn has ended. */
static pl_status_t write_turn(const pl_writing_turns_t *turns, int32_t i)
{
    pl_writing_t *writing       = turns->writing;
    const pl_request_t *request = &writing->trace->requests[i];
    uint64_t session            = 0;

    if (!turns->is_turn[i]) {
        fprintf(writing->file, ",,");
        return PL_OK;
    }
    PL_TRY(pl_writing_name(writing, "session",
                           (uint64_t)pl_writing_session(writing, i), &session));
    fprintf(writing->file, ",%" PRIu64 ",", session);
    if ((request->n_after > 0) && !request->not_before) {
        pl_writing_time(writing->file, request->delay_ns, S);
    }
    return PL_OK;
}

static pl_status_t write_row(const pl_writing_turns_t *turns, bool has_turns,
                             int32_t i)
{
    pl_writing_t *writing       = turns->writing;
    const pl_request_t *request = &writing->trace->requests[i];

    if (writing->trace->has_prefixes) {
        pl_writing_lose(writing, PL_LOSS_PREFIXES);
    }
    if ((request->n_after > 0) && !turns->is_turn[i]) {
        pl_writing_lose(writing, PL_LOSS_SOME_WAITS);
    }
    write_time(writing, request->arrival_ns);
    if (has_turns) {
        PL_TRY(write_turn(turns, i));
    }
    fprintf(writing->file, ",%" PRId32 ",%" PRId32 "\n", request->input_tokens,
            request->output_tokens);
    return PL_OK;
}

/* Does any turn follow another one? */
static bool find_turns(const pl_writing_turns_t *turns)
{
    const pl_trace_t *trace = turns->writing->trace;

    for (int32_t i = 0; i < trace->count; i++) {
        if (turns->is_turn[i] && (trace->requests[i].n_after > 0)) {
            return true;
        }
    }
    return false;
}

static pl_status_t write_csv(pl_writing_t *writing)
{
    pl_writing_turns_t turns = {0};
    pl_status_t status       = pl_writing_turns(writing, &turns);
    bool has_turns           = (status == PL_OK) && find_turns(&turns);

    fprintf(writing->file, "TIMESTAMP%s,ContextTokens,GeneratedTokens\n",
            has_turns ? ",Session ID,think_time" : "");
    for (int32_t i = 0; (i < writing->trace->count) && (status == PL_OK); i++) {
        status = write_row(&turns, has_turns, i);
    }
    pl_writing_turns_free(&turns);
    return status;
}

const pl_trace_writer_t pl_trace_writer_csv = {
    .name  = "csv",
    .write = write_csv,
};
