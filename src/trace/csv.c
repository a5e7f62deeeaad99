/* CSV with named columns, as the Azure traces (TIMESTAMP, ContextTokens,
 * GeneratedTokens), BurstGPT and Vidur have it.
 *
 * Names are compared without case, spaces and underscores; other columns are
 * passed over.  A time is a date or a number of seconds.  Nothing tells which
 * prompts begin alike: each is one block of its own. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "trace/id_map.h"
#include "trace/reader.h"

#define NS_PER_S INT64_C(1000000000)

enum { TIME, INPUT, OUTPUT, SESSION, ELAPSED, N_FIELDS };

/* Names of the columns, as they are compared. */
static const char *const NAMES[N_FIELDS][8] = {
    [TIME]    = {"timestamp", "arrivedat", "arrivaltime"},
    [INPUT]   = {"contexttokens", "requesttokens", "inputtokens", "inputlength",
                 "numprefilltokens", "prompttokens"},
    [OUTPUT]  = {"generatedtokens", "responsetokens", "outputtokens",
                 "outputlength", "numdecodetokens", "completiontokens"},
    [SESSION] = {"sessionid"},
    [ELAPSED] = {"elapsedtime"},
};
static const char *const WANTED[N_FIELDS] = {
    [TIME]   = "TIMESTAMP",
    [INPUT]  = "ContextTokens or Request tokens",
    [OUTPUT] = "GeneratedTokens or Response tokens",
};

/* A part of the text; without quotes around it. */
typedef struct piece {
    const char *text;
    size_t n;
} piece_t;

typedef struct line {
    const char *next, *end; /* the text not yet read */
    const char *text;
    size_t n;
    int64_t number;
} line_t;

/* Step to the next line with something on it. */
static bool next_line(line_t *line)
{
    while (line->next < line->end) {
        size_t left         = (size_t)(line->end - line->next);
        const char *newline = memchr(line->next, '\n', left);

        line->text = line->next;
        line->n    = newline == NULL ? left : (size_t)(newline - line->next);
        line->next = newline == NULL ? line->end : newline + 1;
        line->number++;
        while ((line->n > 0) &&
               (isspace((unsigned char)line->text[line->n - 1]) != 0)) {
            line->n--;
        }
        if (line->n > 0) {
            return true;
        }
    }
    return false;
}

/* The piece before the next comma that is not quoted; false at the end. */
static bool next_piece(const line_t *line, size_t *at, piece_t *piece)
{
    bool quoted = false;
    size_t i    = *at;

    if (i > line->n) {
        return false;
    }
    for (; (i < line->n) && (quoted || (line->text[i] != ',')); i++) {
        quoted ^= line->text[i] == '"';
    }
    *piece = (piece_t){line->text + *at, i - *at};
    *at    = i + 1;
    while ((piece->n > 0) && (strchr(" \t\"", piece->text[0]) != NULL)) {
        piece->text++;
        piece->n--;
    }
    while ((piece->n > 0) &&
           (strchr(" \t\"", piece->text[piece->n - 1]) != NULL)) {
        piece->n--;
    }
    return true;
}

static bool is_name(const piece_t *piece, const char *name)
{
    for (size_t i = 0; i < piece->n; i++) {
        char c = (char)tolower((unsigned char)piece->text[i]);

        if ((c == ' ') || (c == '_')) {
            continue;
        }
        if ((*name == '\0') || (c != *name)) {
            return false;
        }
        name++;
    }
    return *name == '\0';
}

/* columns[field]: where it stands, from 0; -1: nowhere. */
static void find_columns(const line_t *line, int *columns)
{
    size_t at = 0;
    piece_t piece;

    for (int f = 0; f < N_FIELDS; f++) {
        columns[f] = -1;
    }
    for (int c = 0; next_piece(line, &at, &piece); c++) {
        for (int f = 0; f < N_FIELDS; f++) {
            for (int k = 0; (NAMES[f][k] != NULL) && (columns[f] < 0); k++) {
                columns[f] = is_name(&piece, NAMES[f][k]) ? c : -1;
            }
        }
    }
}

static bool recognises(const pl_trace_source_t *source,
                       const struct json_object *first)
{
    line_t line = {.next = source->text, .end = source->text + source->n_bytes};
    int columns[N_FIELDS];

    if ((first != NULL) || !next_line(&line)) {
        return false;
    }
    find_columns(&line, columns);
    return (columns[INPUT] >= 0) || (columns[OUTPUT] >= 0);
}

/* ---- values ---- */

/* `n` digits at *at, which moves on. */
static bool take_digits(const piece_t *piece, size_t *at, size_t n,
                        int64_t *value_p)
{
    int64_t value = 0;

    for (size_t i = 0; i < n; i++, (*at)++) {
        if ((*at >= piece->n) ||
            (isdigit((unsigned char)piece->text[*at]) == 0)) {
            return false;
        }
        value = 10 * value + (piece->text[*at] - '0');
    }
    *value_p = value;
    return true;
}

static bool take(const piece_t *piece, size_t *at, const char *any)
{
    if ((*at < piece->n) && (piece->text[*at] != '\0') &&
        (strchr(any, piece->text[*at]) != NULL)) {
        (*at)++;
        return true;
    }
    return false;
}

/* A fraction of a second behind a point; what is finer than ns is dropped. */
static int64_t take_fraction(const piece_t *piece, size_t *at)
{
    int64_t unit  = NS_PER_S;
    int64_t value = 0;
    int64_t digit = 0;

    if (!take(piece, at, ".")) {
        return 0;
    }
    while (take_digits(piece, at, 1, &digit)) {
        unit /= 10;
        value += digit * unit;
    }
    return value;
}

/* Days from 1970-01-01 in the Gregorian calendar. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
    int64_t y   = month > 2 ? year : year - 1;
    int64_t era = y / 400;
    int64_t yoe = y - 400 * era;
    int64_t doy = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;

    return 146097 * era + 365 * yoe + yoe / 4 - yoe / 100 + doy - 719468;
}

/* 2023-11-16 18:17:03.9799600, with or without a zone: Z or +01:00. */
static bool read_date(const piece_t *piece, int64_t *ns_p)
{
    int64_t year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0;
    int64_t zone_h = 0, zone_m = 0, ns;
    size_t at    = 0;
    bool is_good = take_digits(piece, &at, 4, &year) && take(piece, &at, "-") &&
                   take_digits(piece, &at, 2, &month) &&
                   take(piece, &at, "-") && take_digits(piece, &at, 2, &day) &&
                   take(piece, &at, " T") &&
                   take_digits(piece, &at, 2, &hour) && take(piece, &at, ":") &&
                   take_digits(piece, &at, 2, &minute) &&
                   take(piece, &at, ":") && take_digits(piece, &at, 2, &second);

    if (!is_good || (year < 1970) || (year > 2254) || (month < 1) ||
        (month > 12) || (day < 1) || (day > 31) || (hour > 23) ||
        (minute > 59) || (second > 60)) {
        return false;
    }
    ns = take_fraction(piece, &at);
    if (!take(piece, &at, "Z") && (at < piece->n)) {
        int sign = piece->text[at] == '-' ? -1 : 1;

        if (!take(piece, &at, "+-") || !take_digits(piece, &at, 2, &zone_h) ||
            (take(piece, &at, ":") && !take_digits(piece, &at, 2, &zone_m))) {
            return false;
        }
        minute -= sign * (60 * zone_h + zone_m);
    }
    ns += NS_PER_S * (86400 * days_of(year, month, day) + 3600 * hour +
                      60 * minute + second);
    *ns_p = ns;
    return (at == piece->n) && (ns >= 0);
}

/* Seconds: exact if without an exponent. */
static bool read_seconds(const piece_t *piece, int64_t *ns_p)
{
    int64_t whole = 0;
    int64_t digit = 0;
    size_t at     = 0;
    char text[64];
    char *end;
    double value;

    while (take_digits(piece, &at, 1, &digit)) {
        whole = 10 * whole + digit;
        if (whole > PL_TRACE_MAX_NS / NS_PER_S) {
            return false;
        }
    }
    *ns_p = NS_PER_S * whole + take_fraction(piece, &at);
    if ((at == piece->n) && (piece->n > 0) && (piece->text[0] != '.')) {
        return true;
    }
    if ((piece->n == 0) || (piece->n >= sizeof(text))) {
        return false;
    }
    memcpy(text, piece->text, piece->n);
    text[piece->n] = '\0';
    value          = strtod(text, &end);
    if ((end != text + piece->n) || !isfinite(value) || (value < 0) ||
        (value * (double)NS_PER_S > (double)PL_TRACE_MAX_NS)) {
        return false;
    }
    *ns_p = (int64_t)(value * (double)NS_PER_S + 0.5);
    return true;
}

static pl_status_t bad_field(const pl_trace_source_t *source, int64_t line,
                             const char *name, const piece_t *piece,
                             const char *wanted)
{
    return pl_trace_bad(source, line,
                        "column %s is '%.*s': expected %s; fix or remove the "
                        "line",
                        name, piece->n < 40 ? (int)piece->n : 40, piece->text,
                        wanted);
}

static pl_status_t read_count(const pl_trace_source_t *source, int64_t line,
                              const char *name, const piece_t *piece,
                              int64_t least, int32_t *value_p)
{
    int64_t value = 0;
    size_t at     = 0;
    char wanted[64];

    if ((piece->n > 0) && (piece->n <= 10) &&
        take_digits(piece, &at, piece->n, &value) && (value >= least) &&
        (value <= INT32_MAX)) {
        *value_p = (int32_t)value;
        return PL_OK;
    }
    (void)snprintf(wanted, sizeof(wanted),
                   "a whole number from %" PRId64 " to %d", least,
                   (int)INT32_MAX);
    return bad_field(source, line, name, piece, wanted);
}

/* ---- rows ---- */

typedef struct reading {
    const pl_trace_source_t *source;
    pl_trace_rows_t *rows;
    int columns[N_FIELDS];
    size_t first;          /* row of this file */
    pl_id_map_t sessions;  /* by name: the last row */
    PL_ARRAY(int64_t) end; /* of each row of this file, or -1: not known */
} reading_t;

/* A turn comes when it came, but not before the one before it has ended; or so
 * long after that, if the file says when that was. */
static pl_status_t read_session(reading_t *reading, const piece_t *name,
                                pl_trace_row_t *row)
{
    pl_trace_rows_t *rows = reading->rows;
    pl_hash128_t hash     = pl_hash128(name->text, name->n, 0);
    uint64_t before       = 0;

    if (name->n == 0) {
        return PL_OK;
    }
    if (pl_id_map_find(&reading->sessions, hash.lo, hash.hi, &before)) {
        int64_t end = reading->end.items[before - reading->first];

        row->session    = rows->row.items[before].session;
        row->not_before = end < 0;
        row->delay_ns =
            (end >= 0) && (row->time_ns > end) ? row->time_ns - end : 0;
        PL_TRY(pl_trace_wait_for(rows, row, (size_t)before));
    } else {
        row->session = ++rows->n_sessions;
    }
    return pl_id_map_put(&reading->sessions, hash.lo, hash.hi, rows->row.n);
}

static pl_status_t read_row(reading_t *reading, const line_t *line)
{
    const pl_trace_source_t *source = reading->source;
    pl_trace_rows_t *rows           = reading->rows;
    piece_t fields[N_FIELDS] = {{"", 0}, {"", 0}, {"", 0}, {"", 0}, {"", 0}};
    pl_trace_row_t row       = {.line = line->number, .n = 1};
    int64_t elapsed          = 0;
    int64_t end              = -1;
    size_t at                = 0;
    piece_t piece;

    for (int c = 0; next_piece(line, &at, &piece); c++) {
        for (int f = 0; f < N_FIELDS; f++) {
            fields[f] = reading->columns[f] == c ? piece : fields[f];
        }
    }
    if (!read_date(&fields[TIME], &row.time_ns) &&
        !read_seconds(&fields[TIME], &row.time_ns)) {
        return bad_field(source, line->number, WANTED[TIME], &fields[TIME],
                         "a date and time, or seconds");
    }
    PL_TRY(read_count(source, line->number, "of input tokens", &fields[INPUT],
                      1, &row.input_tokens));
    PL_TRY(read_count(source, line->number, "of output tokens", &fields[OUTPUT],
                      0, &row.output_tokens));
    if (read_seconds(&fields[ELAPSED], &elapsed) &&
        (elapsed <= PL_TRACE_MAX_NS - row.time_ns)) {
        end = row.time_ns + elapsed;
    }
    PL_TRY(read_session(reading, &fields[SESSION], &row));
    PL_TRY(PL_ARRAY_PUSH(&reading->end, end));
    row.block_tokens = row.input_tokens;
    row.first        = rows->ids.n;
    PL_TRY(PL_ARRAY_PUSH(&rows->ids, (uint64_t)rows->row.n));
    return PL_ARRAY_PUSH(&rows->row, row);
}

static pl_status_t read_lines(reading_t *reading)
{
    const pl_trace_source_t *source = reading->source;
    line_t line = {.next = source->text, .end = source->text + source->n_bytes};

    if (!next_line(&line)) {
        return PL_OK;
    }
    find_columns(&line, reading->columns);
    for (int f = TIME; f <= OUTPUT; f++) {
        if (reading->columns[f] < 0) {
            return pl_trace_bad(source, line.number,
                                "a column is missing: expected %s; name the "
                                "columns on the first line",
                                WANTED[f]);
        }
    }
    while (next_line(&line)) {
        PL_TRY(read_row(reading, &line));
    }
    if (reading->rows->row.n == reading->first) {
        return pl_trace_bad(source, 0,
                            "no request in it: expected at least "
                            "one line below the names of columns; "
                            "check the path and the download");
    }
    return PL_OK;
}

static pl_status_t read_rows(const pl_trace_source_t *source,
                             pl_trace_rows_t *rows)
{
    reading_t reading  = {.source = source, .rows = rows, .first = rows->row.n};
    pl_status_t status = read_lines(&reading);

    pl_id_map_free(&reading.sessions);
    PL_ARRAY_FREE(&reading.end);
    return status;
}

const pl_trace_reader_t pl_trace_reader_csv = {
    .name       = "csv",
    .marks      = "CSV with columns such as TIMESTAMP, ContextTokens, "
                  "GeneratedTokens",
    .recognises = recognises,
    .read       = read_rows,
};
