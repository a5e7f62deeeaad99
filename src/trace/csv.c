/* CSV with named columns, as the Azure traces (TIMESTAMP, ContextTokens,
 * GeneratedTokens), BurstGPT and Vidur have it.
 *
 * Names are compared without case, spaces and underscores; other columns are
 * passed over.  Columns are parted by commas, semicolons or tabs.  A time is a
 * date, a number of seconds, or of ms if the column's name says so.  Nothing
 * tells which prompts begin alike: each is one block of its own. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "trace/csv_values.h"
#include "trace/id_map.h"
#include "trace/reader.h"

#define NS_PER_S INT64_C(1000000000)

enum { TIME, INPUT, OUTPUT, SESSION, ELAPSED, THINK, TIME_MS, N_FIELDS };

/* Names of the columns, as they are compared. */
static const char *const NAMES[N_FIELDS][8] = {
    [TIME]    = {"timestamp", "arrivedat", "arrivaltime", "sessionstartat"},
    [INPUT]   = {"contexttokens", "requesttokens", "inputtokens", "inputlength",
                 "numprefilltokens", "prompttokens"},
    [OUTPUT]  = {"generatedtokens", "responsetokens", "outputtokens",
                 "outputlength", "numdecodetokens", "completiontokens"},
    [SESSION] = {"sessionid"},
    [ELAPSED] = {"elapsedtime"},
    [THINK]   = {"thinktime"},
    [TIME_MS] = {"timestampms", "arrivedatms", "arrivaltimems", "arrivalms"},
};
static const char *const WANTED[N_FIELDS] = {
    [INPUT]  = "ContextTokens or Request tokens",
    [OUTPUT] = "GeneratedTokens or Response tokens",
};

typedef struct line {
    const char *next, *end; /* the text not yet read */
    const char *text;
    size_t n;
    int64_t number;
    char parts; /* columns: a comma or what stands for it */
} line_t;

static bool is_blank(const line_t *line)
{
    for (size_t i = 0; i < line->n; i++) {
        if (isspace((unsigned char)line->text[i]) == 0) {
            return false;
        }
    }
    return true;
}

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
        while ((line->n > 0) && (line->text[line->n - 1] == '\r')) {
            line->n--;
        }
        if (!is_blank(line)) {
            return true;
        }
    }
    return false;
}

/* The piece up to where the next column begins, unquoted; false at the end. */
static bool next_piece(const line_t *line, size_t *at, pl_csv_piece_t *piece)
{
    bool quoted = false;
    size_t i    = *at;

    if (i > line->n) {
        return false;
    }
    for (; (i < line->n) && (quoted || (line->text[i] != line->parts)); i++) {
        quoted ^= line->text[i] == '"';
    }
    *piece = (pl_csv_piece_t){line->text + *at, i - *at};
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

static bool is_name(const pl_csv_piece_t *piece, const char *name)
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

/* The field of a name of a column; N_FIELDS: none. */
static int field_of(const pl_csv_piece_t *piece)
{
    for (int f = 0; f < N_FIELDS; f++) {
        for (int k = 0; NAMES[f][k] != NULL; k++) {
            if (is_name(piece, NAMES[f][k])) {
                return f;
            }
        }
    }
    return N_FIELDS;
}

/* columns[field]: where it stands, from 0; -1: nowhere.  Finds out what parts
 * the columns.  *twice_p: a name that says what another one said, or NULL. */
static void find_columns(line_t *line, int *columns, pl_csv_piece_t *twice_p)
{
    static const char PARTS[] = {',', ';', '\t'};

    for (size_t p = 0; p < sizeof(PARTS); p++) {
        size_t at = 0;
        pl_csv_piece_t piece;

        *twice_p    = (pl_csv_piece_t){NULL, 0};
        line->parts = PARTS[p];
        for (int f = 0; f < N_FIELDS; f++) {
            columns[f] = -1;
        }
        for (int c = 0; next_piece(line, &at, &piece); c++) {
            int f = field_of(&piece);

            if (f == N_FIELDS) {
                continue;
            }
            if (columns[f] >= 0) {
                *twice_p = piece;
            }
            columns[f] = c;
        }
        if ((columns[INPUT] >= 0) || (columns[OUTPUT] >= 0)) {
            return;
        }
    }
}

static bool recognises(const pl_trace_source_t *source,
                       const struct json_object *first)
{
    line_t line = {.next = source->text, .end = source->text + source->n_bytes};
    int columns[N_FIELDS];
    pl_csv_piece_t twice;

    if ((first != NULL) || !next_line(&line)) {
        return false;
    }
    find_columns(&line, columns, &twice);
    return (columns[INPUT] >= 0) || (columns[OUTPUT] >= 0);
}

/* ---- values ---- */

static pl_status_t bad_field(const pl_trace_source_t *source, int64_t line,
                             const char *name, const pl_csv_piece_t *piece,
                             const char *wanted)
{
    return pl_trace_bad(source, line,
                        "column %s is '%.*s': expected %s; fix or remove the "
                        "line",
                        name, piece->n < 40 ? (int)piece->n : 40, piece->text,
                        wanted);
}

static pl_status_t read_count(const pl_trace_source_t *source, int64_t line,
                              const char *name, const pl_csv_piece_t *piece,
                              int64_t least, int32_t *value_p)
{
    int64_t value = 0;
    char wanted[64];

    if (pl_csv_whole(piece, &value) && (value >= least) &&
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
    int n_columns;
    int64_t n_empty;       /* lines without a prompt */
    int64_t first_empty;   /* of them */
    size_t first;          /* row of this file */
    pl_id_map_t sessions;  /* by name: the last row */
    PL_ARRAY(int64_t) end; /* of each row of this file, or -1: not known */
} reading_t;

/* The row before it in its session, if there is one. */
static bool find_before(const reading_t *reading, const pl_csv_piece_t *session,
                        pl_hash128_t *hash_p, size_t *before_p)
{
    uint64_t before = 0;

    *hash_p = pl_hash128(session->text, session->n, 0);
    if ((session->n == 0) ||
        !pl_id_map_find(&reading->sessions, hash_p->lo, hash_p->hi, &before)) {
        return false;
    }
    *before_p = (size_t)before;
    return true;
}

/* A turn comes so long after the answer before it as the file says: by its
 * think time, or if it tells when that answer was; else when it came, but not
 * before that answer. */
static pl_status_t read_session(reading_t *reading,
                                const pl_csv_piece_t *fields,
                                pl_trace_row_t *row)
{
    pl_trace_rows_t *rows = reading->rows;
    int64_t think         = 0;
    size_t before         = 0;
    pl_hash128_t hash;

    if (fields[SESSION].n == 0) {
        return PL_OK;
    }
    if (find_before(reading, &fields[SESSION], &hash, &before)) {
        int64_t end    = reading->end.items[before - reading->first];
        bool has_think = pl_csv_number(&fields[THINK], NS_PER_S, &think);

        row->session    = rows->row.items[before].session;
        row->not_before = !has_think && (end < 0);
        row->delay_ns   = has_think ? think
                          : (end >= 0) && (row->time_ns > end)
                              ? row->time_ns - end
                              : 0;
        PL_TRY(pl_trace_wait_for(rows, row, before));
    } else {
        row->session = ++rows->n_sessions;
    }
    return pl_id_map_put(&reading->sessions, hash.lo, hash.hi, rows->row.n);
}

/* A turn whose think time is there needs no time. */
static pl_status_t read_time(const reading_t *reading,
                             const pl_csv_piece_t *fields, int64_t line,
                             int64_t *time_ns_p)
{
    bool in_ms                  = reading->columns[TIME_MS] >= 0;
    const pl_csv_piece_t *field = &fields[in_ms ? TIME_MS : TIME];
    int64_t think               = 0;
    size_t before               = 0;
    pl_hash128_t hash;

    *time_ns_p = PL_TRACE_NO_TIME;
    if (!in_ms && (reading->columns[TIME] < 0)) {
        return PL_OK;
    }
    if (pl_csv_number(field, in_ms ? NS_PER_S / 1000 : NS_PER_S, time_ns_p) ||
        (!in_ms && pl_csv_date(field, time_ns_p))) {
        return PL_OK;
    }
    *time_ns_p = PL_TRACE_NO_TIME;
    if ((field->n == 0) && pl_csv_number(&fields[THINK], NS_PER_S, &think) &&
        find_before(reading, &fields[SESSION], &hash, &before)) {
        return PL_OK;
    }
    return bad_field(reading->source, line, "of times", field,
                     in_ms ? "a number of ms"
                           : "a date and time (2023-11-16 18:17:03.98), or "
                             "seconds below 9e9 (ms: name the column "
                             "TIMESTAMP_MS)");
}

static pl_status_t read_row(reading_t *reading, const line_t *line)
{
    const pl_trace_source_t *source = reading->source;
    pl_trace_rows_t *rows           = reading->rows;
    pl_csv_piece_t fields[N_FIELDS];
    pl_trace_row_t row = {.line = line->number, .n = 1};
    int64_t elapsed    = 0;
    int64_t end        = -1;
    size_t at          = 0;
    pl_csv_piece_t piece;

    for (int f = 0; f < N_FIELDS; f++) {
        fields[f] = (pl_csv_piece_t){"", 0};
    }
    for (int c = 0; next_piece(line, &at, &piece); c++) {
        if ((c >= reading->n_columns) && (piece.n > 0)) {
            return pl_trace_bad(source, line->number,
                                "column %d is '%.*s': expected %d columns, as "
                                "the first line names; quote what holds a "
                                "separator, or fix the line",
                                c + 1, piece.n < 40 ? (int)piece.n : 40,
                                piece.text, reading->n_columns);
        }
        for (int f = 0; f < N_FIELDS; f++) {
            fields[f] = reading->columns[f] == c ? piece : fields[f];
        }
    }
    PL_TRY(read_time(reading, fields, line->number, &row.time_ns));
    PL_TRY(read_count(source, line->number, "of input tokens", &fields[INPUT],
                      0, &row.input_tokens));
    PL_TRY(read_count(source, line->number, "of output tokens", &fields[OUTPUT],
                      0, &row.output_tokens));
    if (row.input_tokens == 0) {
        reading->first_empty =
            reading->n_empty == 0 ? line->number : reading->first_empty;
        reading->n_empty++;
        return PL_OK;
    }
    if ((row.time_ns != PL_TRACE_NO_TIME) &&
        pl_csv_number(&fields[ELAPSED], NS_PER_S, &elapsed) &&
        (elapsed <= PL_TRACE_MAX_NS - row.time_ns)) {
        end = row.time_ns + elapsed;
    }
    PL_TRY(read_session(reading, fields, &row));
    PL_TRY(PL_ARRAY_PUSH(&reading->end, end));
    row.block_tokens = row.input_tokens;
    row.first        = rows->ids.n;
    PL_TRY(PL_ARRAY_PUSH(&rows->ids, (uint64_t)rows->row.n));
    return PL_ARRAY_PUSH(&rows->row, row);
}

/* The names of the columns. */
static pl_status_t read_header(reading_t *reading, line_t *line)
{
    const pl_trace_source_t *source = reading->source;
    int *columns                    = reading->columns;
    size_t at                       = 0;
    pl_csv_piece_t twice;

    find_columns(line, columns, &twice);
    for (pl_csv_piece_t piece; next_piece(line, &at, &piece);) {
        reading->n_columns++;
    }
    if (twice.text != NULL) {
        return pl_trace_bad(source, line->number,
                            "column %.*s says what another one says: expected "
                            "one of them; rename the other",
                            twice.n < 40 ? (int)twice.n : 40, twice.text);
    }
    if ((columns[TIME] >= 0) && (columns[TIME_MS] >= 0)) {
        return pl_trace_bad(source, line->number,
                            "two columns of times, one of them in ms: expected "
                            "one of them; rename the other");
    }
    for (int f = INPUT; f <= OUTPUT; f++) {
        if (columns[f] < 0) {
            return pl_trace_bad(source, line->number,
                                "a column is missing: expected %s; name the "
                                "columns on the first line",
                                WANTED[f]);
        }
    }
    return PL_OK;
}

static pl_status_t read_lines(reading_t *reading)
{
    const pl_trace_source_t *source = reading->source;
    line_t line = {.next = source->text, .end = source->text + source->n_bytes};

    if (!next_line(&line)) {
        return PL_OK;
    }
    PL_TRY(read_header(reading, &line));
    while (next_line(&line)) {
        PL_TRY(read_row(reading, &line));
    }
    if (reading->rows->row.n == reading->first) {
        return pl_trace_bad(source, 0,
                            "no request in it: expected at least "
                            "one line below the names of columns, with a "
                            "prompt; check the path and the download");
    }
    if (reading->n_empty > 0) {
        pl_log(source->log, PL_LOG_WARN,
               "%s:%lld: a prompt of 0 tokens (%lld lines in all have none) "
               "is no request: expected 1 or more; passed over",
               source->name, (long long)reading->first_empty,
               (long long)reading->n_empty);
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
