#include "trace/jsonl.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

/* Of an id that is a string. */
enum { ID_DIGITS = 16 };

pl_status_t pl_jsonl_open(const pl_trace_source_t *source, pl_jsonl_t *jsonl)
{
    memset(jsonl, 0, sizeof(*jsonl));
    jsonl->source  = source;
    jsonl->next    = source->text;
    jsonl->tokener = json_tokener_new();
    if (jsonl->tokener == NULL) {
        return PL_ERR_MEMORY;
    }
    json_tokener_set_flags(jsonl->tokener,
                           JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    return PL_OK;
}

void pl_jsonl_close(pl_jsonl_t *jsonl)
{
    json_object_put(jsonl->object);
    jsonl->object = NULL;
    if (jsonl->tokener != NULL) {
        json_tokener_free(jsonl->tokener);
        jsonl->tokener = NULL;
    }
}

static bool is_blank(const char *line, size_t n_bytes)
{
    for (size_t i = 0; i < n_bytes; i++) {
        if (strchr(" \t\r", line[i]) == NULL || (line[i] == '\0')) {
            return false;
        }
    }
    return true;
}

/* Step to the next line that is not blank. */
static bool next_line(pl_jsonl_t *jsonl)
{
    const char *end = jsonl->source->text + jsonl->source->n_bytes;

    while (jsonl->next < end) {
        size_t left         = (size_t)(end - jsonl->next);
        const char *newline = memchr(jsonl->next, '\n', left);

        jsonl->line = jsonl->next;
        jsonl->n_bytes =
            newline == NULL ? left : (size_t)(newline - jsonl->next);
        jsonl->next = newline == NULL ? end : newline + 1;
        jsonl->number++;
        if (!is_blank(jsonl->line, jsonl->n_bytes)) {
            return true;
        }
    }
    return false;
}

/* Does the integer literal digits[0 .. n-1] pass 64 bits? */
static bool is_too_long(const char *digits, size_t n)
{
    static const char LARGEST[] = "18446744073709551615";
    size_t n_largest            = sizeof(LARGEST) - 1;

    return (n > n_largest) ||
           ((n == n_largest) && (memcmp(digits, LARGEST, n) > 0));
}

/* json-c gives UINT64_MAX for every integer beyond it: look at the text. */
static bool line_has_overflow(const pl_jsonl_t *jsonl)
{
    char quote = '\0';

    for (size_t i = 0; i < jsonl->n_bytes; i++) {
        char c   = jsonl->line[i];
        size_t n = 0;

        if (quote != '\0') {
            if (c == '\\') {
                i++;
            } else if (c == quote) {
                quote = '\0';
            }
            continue;
        }
        if ((c == '"') || (c == '\'')) {
            quote = c;
            continue;
        }
        while ((i + n < jsonl->n_bytes) &&
               (isdigit((unsigned char)jsonl->line[i + n]) != 0)) {
            n++;
        }
        if (is_too_long(&jsonl->line[i], n)) {
            return true;
        }
        i += n > 0 ? n - 1 : 0;
    }
    return false;
}

static pl_status_t parse_line(pl_jsonl_t *jsonl)
{
    enum json_tokener_error error;
    size_t at;

    if (jsonl->n_bytes >= INT_MAX) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "the line is %zu bytes long: expected one JSON "
                            "object of less than 2 GiB; split it",
                            jsonl->n_bytes);
    }
    json_tokener_reset(jsonl->tokener);
    jsonl->object =
        json_tokener_parse_ex(jsonl->tokener, jsonl->line, (int)jsonl->n_bytes);
    error = json_tokener_get_error(jsonl->tokener);
    at    = json_tokener_get_parse_end(jsonl->tokener);
    if (error == json_tokener_continue) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "the line ends within its JSON: expected one "
                            "whole object a line%s; restore or remove it",
                            jsonl->number == 1 ? " (jq -c . makes lines)" : "");
    }
    if ((error != json_tokener_success) || (at != jsonl->n_bytes)) {
        return pl_trace_bad(
            jsonl->source, jsonl->number,
            "not JSON (byte %zu: %s): expected one object a line; fix or "
            "remove the line",
            at + 1,
            error == json_tokener_success ? "unexpected character"
                                          : json_tokener_error_desc(error));
    }
    if (!json_object_is_type(jsonl->object, json_type_object)) {
        return pl_trace_bad(
            jsonl->source, jsonl->number,
            "a JSON %s: expected one object {...} a line; "
            "write one request on each line, as jq -c '.[]' does",
            json_type_to_name(json_object_get_type(jsonl->object)));
    }
    jsonl->has_overflow = line_has_overflow(jsonl);
    return PL_OK;
}

pl_status_t pl_jsonl_next(pl_jsonl_t *jsonl, bool *more_p)
{
    json_object_put(jsonl->object);
    jsonl->object = NULL;
    if (!next_line(jsonl)) {
        *more_p = false;
        return PL_OK;
    }
    PL_TRY(parse_line(jsonl));
    *more_p = true;
    return PL_OK;
}

pl_status_t pl_jsonl_whole(pl_jsonl_t *jsonl)
{
    json_object_put(jsonl->object);
    jsonl->object  = NULL;
    jsonl->number  = 0;
    jsonl->line    = jsonl->source->text;
    jsonl->n_bytes = jsonl->source->n_bytes;
    jsonl->next    = jsonl->line + jsonl->n_bytes;
    while ((jsonl->n_bytes > 0) &&
           (is_blank(&jsonl->line[jsonl->n_bytes - 1], 1) ||
            (jsonl->line[jsonl->n_bytes - 1] == '\n'))) {
        jsonl->n_bytes--;
    }
    return parse_line(jsonl);
}

pl_status_t pl_jsonl_each(const pl_trace_source_t *source,
                          pl_jsonl_row_t read_row, void *context)
{
    bool more = true;
    pl_jsonl_t jsonl;
    pl_status_t status;

    PL_TRY(pl_jsonl_open(source, &jsonl));
    for (;;) {
        PL_TRY_GOTO(status, pl_jsonl_next(&jsonl, &more), out);
        if (!more) {
            break;
        }
        PL_TRY_GOTO(status, read_row(&jsonl, context), out);
    }

out:
    pl_jsonl_close(&jsonl);
    return status;
}

pl_status_t pl_jsonl_find(const pl_jsonl_t *jsonl, const char *const *names,
                          const char *wanted, struct json_object **value_p)
{
    struct json_object *found = NULL;
    const char *found_name    = NULL;

    for (size_t i = 0; names[i] != NULL; i++) {
        struct json_object *value = NULL;

        if (!json_object_object_get_ex(jsonl->object, names[i], &value) ||
            (value == NULL)) {
            continue;
        }
        if (found != NULL) {
            return pl_trace_bad(jsonl->source, jsonl->number,
                                "both \"%s\" and \"%s\": expected one of them; "
                                "remove the other",
                                found_name, names[i]);
        }
        found      = value;
        found_name = names[i];
    }
    if ((found == NULL) && (wanted != NULL)) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "\"%s\"%s%s%s is missing: expected %s; add it or "
                            "remove the line",
                            names[0], names[1] == NULL ? "" : " (or \"",
                            names[1] == NULL ? "" : names[1],
                            names[1] == NULL ? "" : "\")", wanted);
    }
    *value_p = found;
    return PL_OK;
}

bool pl_jsonl_unsigned(const pl_jsonl_t *jsonl, struct json_object *value,
                       uint64_t *value_p)
{
    if (!json_object_is_type(value, json_type_int) ||
        (json_object_get_int64(value) < 0)) {
        return false;
    }
    *value_p = json_object_get_uint64(value);
    return (*value_p < UINT64_MAX) || !jsonl->has_overflow;
}

const char *pl_jsonl_shown(const pl_jsonl_t *jsonl, struct json_object *value)
{
    if (json_object_is_type(value, json_type_int) && jsonl->has_overflow &&
        (json_object_get_uint64(value) == UINT64_MAX)) {
        return "a number of more than 64 bits";
    }
    return json_object_to_json_string(value);
}

/* As pl_jsonl_unsigned(), and 600.0 is 600. */
static bool read_length(const pl_jsonl_t *jsonl, struct json_object *value,
                        uint64_t *value_p)
{
    double number;

    if (!json_object_is_type(value, json_type_double)) {
        return pl_jsonl_unsigned(jsonl, value, value_p);
    }
    number = json_object_get_double(value);
    if (!(number >= 0) || (number > INT32_MAX) || (number != floor(number))) {
        return false;
    }
    *value_p = (uint64_t)number;
    return true;
}

pl_status_t pl_jsonl_count(const pl_jsonl_t *jsonl, const char *const *names,
                           int32_t least, bool optional, int32_t *value_p)
{
    struct json_object *value = NULL;
    uint64_t number           = 0;

    PL_TRY(pl_jsonl_find(jsonl, names, optional ? NULL : "a whole number",
                         &value));
    if (value == NULL) {
        return PL_OK;
    }
    if (!read_length(jsonl, value, &number) || (number < (uint64_t)least) ||
        (number > INT32_MAX)) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "\"%s\" is %.40s: expected a whole number from %d "
                            "to %d; fix or remove the line",
                            names[0], pl_jsonl_shown(jsonl, value), (int)least,
                            (int)INT32_MAX);
    }
    *value_p = (int32_t)number;
    return PL_OK;
}

static pl_status_t read_time(const pl_jsonl_t *jsonl, const char *const *names,
                             bool optional, const char *unit, int64_t unit_ns,
                             int64_t *time_ns_p)
{
    int64_t most              = PL_TRACE_MAX_NS / unit_ns;
    struct json_object *value = NULL;
    char wanted[32];
    double time;
    int64_t whole;

    (void)snprintf(wanted, sizeof(wanted), "a time in %s", unit);
    PL_TRY(pl_jsonl_find(jsonl, names, optional ? NULL : wanted, &value));
    if (value == NULL) {
        return PL_OK;
    }
    time = json_object_get_double(value);
    if ((!json_object_is_type(value, json_type_int) &&
         !json_object_is_type(value, json_type_double)) ||
        !isfinite(time) || (time < 0) || (time > (double)most)) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "\"%s\" is %.40s: expected %s from 0 to %lld; fix "
                            "or remove the line",
                            names[0], json_object_to_json_string(value), wanted,
                            (long long)most);
    }
    whole      = json_object_is_type(value, json_type_int)
                     ? json_object_get_int64(value)
                     : (int64_t)time;
    *time_ns_p = whole * unit_ns;
    if (json_object_is_type(value, json_type_double)) {
        *time_ns_p += (int64_t)((time - (double)whole) * (double)unit_ns + 0.5);
    }
    return PL_OK;
}

pl_status_t pl_jsonl_time(const pl_jsonl_t *jsonl, const char *const *names,
                          bool optional, int64_t *time_ns_p)
{
    return read_time(jsonl, names, optional, "ms", NS_PER_MS, time_ns_p);
}

pl_status_t pl_jsonl_seconds(const pl_jsonl_t *jsonl, const char *const *names,
                             bool optional, int64_t *time_ns_p)
{
    return read_time(jsonl, names, optional, "s", NS_PER_S, time_ns_p);
}

pl_status_t pl_jsonl_array(const pl_jsonl_t *jsonl, const char *const *names,
                           struct json_object **array_p, size_t *n_p)
{
    struct json_object *value = NULL;

    PL_TRY(pl_jsonl_find(jsonl, names, "an array of whole numbers", &value));
    if (!json_object_is_type(value, json_type_array) ||
        (json_object_array_length(value) == 0)) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "\"%s\" is %.40s: expected an array with at least "
                            "one whole number; fix or remove the line",
                            names[0], json_object_to_json_string(value));
    }
    *array_p = value;
    *n_p     = json_object_array_length(value);
    return PL_OK;
}

/* A whole number, or 64 bits as 16 hexadecimal digits. */
static bool read_id(const pl_jsonl_t *jsonl, struct json_object *value,
                    uint64_t *id_p)
{
    const char *digits;
    uint64_t id = 0;

    if (!json_object_is_type(value, json_type_string)) {
        return pl_jsonl_unsigned(jsonl, value, id_p);
    }
    digits = json_object_get_string(value);
    if (json_object_get_string_len(value) != ID_DIGITS) {
        return false;
    }
    for (int i = 0; i < ID_DIGITS; i++) {
        unsigned char c = (unsigned char)tolower((unsigned char)digits[i]);

        if (isxdigit(c) == 0) {
            return false;
        }
        id = (id << 4) | (uint64_t)(isdigit(c) != 0 ? c - '0' : c - 'a' + 10);
    }
    *id_p = id;
    return true;
}

/* The number of ids does not fit the length: what an id would have to stand
 * for, so that it did. */
static pl_status_t other_number(const pl_jsonl_t *jsonl,
                                const pl_trace_row_t *row)
{
    int64_t n      = (int64_t)row->n;
    int64_t size   = row->block_tokens;
    int64_t low    = (row->input_tokens + n - 1) / n;
    int64_t high   = n > 1 ? (row->input_tokens - 1) / (n - 1) : INT32_MAX;
    char fits[128] = "";

    if ((low <= high) && (n > 1)) {
        (void)snprintf(fits, sizeof(fits),
                       ", or if an id stands for %lld to %lld tokens say so "
                       "(\"block_size\" or --trace-block-size)",
                       (long long)low, (long long)high);
    } else if (n == 1) {
        (void)snprintf(fits, sizeof(fits),
                       ", or if an id stands for %lld tokens or more say so "
                       "(\"block_size\" or --trace-block-size)",
                       (long long)low);
    }
    return pl_trace_bad(jsonl->source, jsonl->number,
                        "\"input_length\" %d with %lld hash ids: expected %lld "
                        "to %lld (an id is a block of %lld tokens); fix the "
                        "length or the ids%s",
                        (int)row->input_tokens, (long long)n,
                        (long long)((n - 1) * size + 1), (long long)(n * size),
                        (long long)size, fits);
}

pl_status_t pl_jsonl_ids(const pl_jsonl_t *jsonl, const char *const *names,
                         pl_trace_row_t *row, pl_trace_rows_t *rows)
{
    int64_t size = row->block_tokens;
    struct json_object *array;
    int64_t most;

    PL_TRY(pl_jsonl_array(jsonl, names, &array, &row->n));
    row->first = rows->ids.n;
    PL_TRY(PL_ARRAY_RESERVE(&rows->ids, rows->ids.n + row->n));
    for (size_t i = 0; i < row->n; i++) {
        struct json_object *item = json_object_array_get_idx(array, i);
        uint64_t id              = 0;

        if (!read_id(jsonl, item, &id)) {
            return pl_trace_bad(jsonl->source, jsonl->number,
                                "\"%s\"[%zu] is %.40s: expected a whole number "
                                "from 0 to %" PRIu64 " (or a string of 16 "
                                "hexadecimal digits); fix or remove the line",
                                names[0], i, pl_jsonl_shown(jsonl, item),
                                UINT64_MAX);
        }
        rows->ids.items[rows->ids.n++] = id;
    }
    most = (int64_t)row->n * size;
    if ((row->input_tokens > most) || (row->input_tokens <= most - size)) {
        return other_number(jsonl, row);
    }
    return PL_OK;
}

pl_status_t pl_jsonl_tokens(const pl_jsonl_t *jsonl, struct json_object *array,
                            const char *name, pl_trace_row_t *row,
                            pl_trace_rows_t *rows)
{
    int32_t limit    = jsonl->source->token_limit;
    uint64_t largest = limit > 0 ? (uint64_t)limit - 1 : INT32_MAX;

    row->n     = json_object_array_length(array);
    row->first = rows->tokens.n;
    if (row->n > INT32_MAX) {
        return pl_trace_bad(jsonl->source, jsonl->number,
                            "%s has %zu tokens: expected at most %d; split the "
                            "prompt",
                            name, row->n, (int)INT32_MAX);
    }
    row->input_tokens = (int32_t)row->n;
    PL_TRY(PL_ARRAY_RESERVE(&rows->tokens, rows->tokens.n + row->n));
    for (size_t i = 0; i < row->n; i++) {
        struct json_object *item = json_object_array_get_idx(array, i);
        uint64_t token           = 0;

        if (!pl_jsonl_unsigned(jsonl, item, &token) || (token > largest)) {
            return pl_trace_bad(jsonl->source, jsonl->number,
                                "%s[%zu] is %.40s: expected a token from 0 to "
                                "%llu%s; fix or remove it",
                                name, i, pl_jsonl_shown(jsonl, item),
                                (unsigned long long)largest,
                                limit > 0 ? " (the model's vocabulary)" : "");
        }
        rows->tokens.items[rows->tokens.n++] = (int32_t)token;
    }
    return PL_OK;
}
