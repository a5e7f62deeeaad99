#include "trace/csv_values.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trace/reader.h"

#define NS_PER_S INT64_C(1000000000)

/* `n` digits at *at, which moves on. */
static bool take_digits(const pl_csv_piece_t *piece, size_t *at, size_t n,
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

static bool take(const pl_csv_piece_t *piece, size_t *at, const char *any)
{
    if ((*at < piece->n) && (piece->text[*at] != '\0') &&
        (strchr(any, piece->text[*at]) != NULL)) {
        (*at)++;
        return true;
    }
    return false;
}

/* A fraction of a unit behind a point; what is finer than ns is dropped. */
static int64_t take_fraction(const pl_csv_piece_t *piece, size_t *at,
                             int64_t unit)
{
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

static int64_t days_in(int64_t year, int64_t month)
{
    return month == 12 ? 31
                       : days_of(year, month + 1, 1) - days_of(year, month, 1);
}

/* 2023-11-16 18:17:03.9799600, with or without a zone: Z or +01:00. */
bool pl_csv_date(const pl_csv_piece_t *piece, int64_t *ns_p)
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

    if (!is_good || (year < 1970) || (year > 2255) || (month < 1) ||
        (month > 12) || (day < 1) || (day > days_in(year, month)) ||
        (hour > 23) || (minute > 59) || (second > 60)) {
        return false;
    }
    ns = take_fraction(piece, &at, NS_PER_S);
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
    return (at == piece->n) && (ns >= 0) && (ns <= PL_TRACE_MAX_NS);
}

/* A number of units: exact if without an exponent. */
bool pl_csv_number(const pl_csv_piece_t *piece, int64_t unit_ns, int64_t *ns_p)
{
    int64_t whole = 0;
    int64_t digit = 0;
    size_t at     = 0;
    char text[64];
    char *end;
    double value;

    while (take_digits(piece, &at, 1, &digit)) {
        whole = 10 * whole + digit;
        if (whole > PL_TRACE_MAX_NS / unit_ns) {
            return false;
        }
    }
    *ns_p = unit_ns * whole + take_fraction(piece, &at, unit_ns);
    if ((at == piece->n) && (piece->n > 0) && (piece->text[0] != '.')) {
        return true;
    }
    if ((piece->n == 0) || (piece->n >= sizeof(text))) {
        return false;
    }
    memcpy(text, piece->text, piece->n);
    text[piece->n] = '\0';
    value          = strtod(text, &end);
    if ((end != text + piece->n) ||
        (strspn(text, "0123456789.eE+-") != piece->n) || !isfinite(value) ||
        (value < 0) || (value * (double)unit_ns > (double)PL_TRACE_MAX_NS)) {
        return false;
    }
    *ns_p = (int64_t)(value * (double)unit_ns + 0.5);
    return true;
}

bool pl_csv_whole(const pl_csv_piece_t *piece, int64_t *value_p)
{
    int64_t value = 0;
    int64_t digit = 0;
    size_t at     = 0;

    while ((at < 18) && take_digits(piece, &at, 1, &digit)) {
        value = 10 * value + digit;
    }
    if ((at > 0) && take(piece, &at, ".")) {
        while (take(piece, &at, "0")) {
        }
    }
    *value_p = value;
    return (piece->n > 0) && (at == piece->n);
}
