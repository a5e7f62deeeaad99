#include "base/option_value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

typedef struct suffix {
    const char *name;
    int64_t factor;
} suffix_t;

static const suffix_t SIZES[] = {{"TiB", INT64_C(1) << 40},
                                 {"GiB", INT64_C(1) << 30},
                                 {"MiB", INT64_C(1) << 20},
                                 {"KiB", INT64_C(1) << 10},
                                 {"B", 1},
                                 {NULL, 0}};

static const suffix_t TIMES[] = {{"s", INT64_C(1000000000)},
                                 {"ms", INT64_C(1000000)},
                                 {"us", INT64_C(1000)},
                                 {"ns", 1},
                                 {NULL, 0}};

/* Digits with an optional minus, from text on; *end_p is behind them.  False:
 * none there, or more than an int64 holds. */
static bool read_digits(const char *text, const char **end_p, int64_t *value_p)
{
    bool minus    = (*text == '-');
    const char *c = text + (minus ? 1 : 0);
    int64_t value = 0; /* kept negative: that side holds one more */

    if ((*c < '0') || (*c > '9')) {
        return false;
    }
    for (; (*c >= '0') && (*c <= '9'); c++) {
        int digit = *c - '0';

        if (value < (INT64_MIN + digit) / 10) {
            return false;
        }
        value = value * 10 - digit;
    }
    if (!minus && (value == INT64_MIN)) {
        return false;
    }
    *value_p = minus ? value : -value;
    *end_p   = c;
    return true;
}

static int64_t factor_of(const suffix_t *suffixes, const char *name)
{
    for (const suffix_t *s = suffixes; s->name != NULL; s++) {
        if (strcmp(s->name, name) == 0) {
            return s->factor;
        }
    }
    return 0;
}

static bool read_scaled(const pl_option_t *option, const suffix_t *suffixes,
                        const char *text, int64_t *value_p)
{
    const char *end;
    int64_t factor = 1;
    int64_t value;

    if (!read_digits(text, &end, &value)) {
        return false;
    }
    if ((suffixes != NULL) && (*end != '\0')) {
        factor = factor_of(suffixes, end);
    } else if (option->kind == PL_OPTION_DURATION) {
        factor = factor_of(suffixes, option->unit);
    } else if (*end != '\0') {
        return false;
    }
    if ((factor == 0) || (value > INT64_MAX / factor) ||
        (value < INT64_MIN / factor)) {
        return false;
    }
    value *= factor;
    if ((value < option->min) || (value > option->max)) {
        return false;
    }
    *value_p = value;
    return true;
}

#define GIGABYTE INT64_C(1000000000)

/* "64", "0.25": exact, in billionths: of gigabytes, bytes. */
static bool read_gigabytes(const pl_option_t *option, const char *text,
                           int64_t *value_p)
{
    int64_t unit = GIGABYTE;
    const char *end;
    int64_t value;

    if ((*text == '-') || !read_digits(text, &end, &value) ||
        (value > INT64_MAX / GIGABYTE - 1)) {
        return false;
    }
    value *= GIGABYTE;
    if (*end == '.') {
        end++;
        do {
            unit /= 10;
            if ((*end < '0') || (*end > '9') || (unit == 0)) {
                return false;
            }
            value += (*end - '0') * unit;
            end++;
        } while (*end != '\0');
    }
    if ((*end != '\0') || (value < option->min) || (value > option->max)) {
        return false;
    }
    *value_p = value;
    return true;
}

static bool read_flag(const char *text, bool *value_p)
{
    static const char *const YES[] = {"true", "on", "yes", "1"};
    static const char *const NO[]  = {"false", "off", "no", "0"};

    for (size_t i = 0; i < 4; i++) {
        if ((strcmp(text, YES[i]) == 0) || (strcmp(text, NO[i]) == 0)) {
            *value_p = (strcmp(text, YES[i]) == 0);
            return true;
        }
    }
    return false;
}

static bool read_choice(const pl_option_t *option, const char *text,
                        int32_t *value_p)
{
    for (int32_t i = 0; option->words[i] != NULL; i++) {
        if (strcmp(option->words[i], text) == 0) {
            *value_p = i;
            return true;
        }
    }
    return false;
}

static pl_status_t read_integers(const pl_option_t *option, const char *text,
                                 pl_option_integers_t *list)
{
    pl_option_integers_t fresh = {0};
    pl_status_t status;
    const char *c = text;

    for (;;) {
        int64_t value;

        if (!read_digits(c, &c, &value) || (value < option->min) ||
            (value > option->max) || ((*c != ',') && (*c != '\0'))) {
            status = PL_ERR_ARGUMENT;
            goto free_fresh;
        }
        PL_TRY_GOTO(status, PL_ARRAY_PUSH(&fresh, value), free_fresh);
        if (*c == '\0') {
            break;
        }
        c++;
    }
    PL_ARRAY_FREE(list);
    *list = fresh;
    return PL_OK;

free_fresh:
    PL_ARRAY_FREE(&fresh);
    return status;
}

static pl_status_t read_string(const char *text, char **value_p)
{
    char *copy = strdup(text);

    if (copy == NULL) {
        return PL_ERR_MEMORY;
    }
    free(*value_p);
    *value_p = copy;
    return PL_OK;
}

static pl_status_t read_strings(const char *text, pl_option_strings_t *list)
{
    pl_status_t status;

    PL_TRY(PL_ARRAY_PUSH(list, NULL));
    status = read_string(text, &list->items[list->n - 1]);
    if (status != PL_OK) {
        list->n--;
    }
    return status;
}

pl_status_t pl_option_read(const pl_option_t *option, const char *text,
                           void *slot)
{
    bool good = false;

    if ((text == NULL) || (*text == '\0')) {
        return PL_ERR_ARGUMENT;
    }
    switch (option->kind) {
    case PL_OPTION_FLAG:
        good = read_flag(text, slot);
        break;
    case PL_OPTION_INTEGER:
        good = read_scaled(option, NULL, text, slot);
        break;
    case PL_OPTION_BYTES:
        good = read_scaled(option, SIZES, text, slot);
        break;
    case PL_OPTION_GIGABYTES:
    case PL_OPTION_FRACTION:
        good = read_gigabytes(option, text, slot);
        break;
    case PL_OPTION_DURATION:
        good = read_scaled(option, TIMES, text, slot);
        break;
    case PL_OPTION_PAGES:
        if (strcmp(text, "unlimited") == 0) {
            *(int64_t *)slot = PL_OPTION_UNLIMITED;
            return PL_OK;
        }
        if (option->fits && (strcmp(text, "fit") == 0)) {
            *(int64_t *)slot = PL_OPTION_FIT;
            return PL_OK;
        }
        good = read_scaled(option, NULL, text, slot);
        break;
    case PL_OPTION_CHOICE:
        good = read_choice(option, text, slot);
        break;
    case PL_OPTION_STRING:
        return read_string(text, slot);
    case PL_OPTION_INTEGERS:
        return read_integers(option, text, slot);
    case PL_OPTION_STRINGS:
        return read_strings(text, slot);
    }
    return good ? PL_OK : PL_ERR_ARGUMENT;
}

/* The largest suffix that divides the value. */
static void add_scaled(pl_text_t *text, const suffix_t *suffixes, int64_t value)
{
    const suffix_t *s = suffixes;

    while ((s[1].name != NULL) && ((value == 0) || (value % s->factor != 0))) {
        s++;
    }
    pl_text_add(text, "%" PRId64 "%s", value / s->factor, s->name);
}

static void add_bound(const suffix_t *suffixes, int64_t bound, pl_text_t *text)
{
    if ((suffixes == NULL) || (bound == 0)) {
        pl_text_add(text, "%" PRId64, bound);
    } else {
        add_scaled(text, suffixes, bound);
    }
}

/* " from 1 to 8", or one side of it, or nothing; suffixes may be NULL. */
static void add_range(const pl_option_t *option, const suffix_t *suffixes,
                      pl_text_t *text)
{
    bool has_min = option->min > INT64_MIN;
    bool has_max = option->max < INT64_MAX;

    if (has_min) {
        pl_text_add(text, has_max ? " from " : " of at least ");
        add_bound(suffixes, option->min, text);
    }
    if (has_max) {
        pl_text_add(text, has_min ? " to " : " of at most ");
        add_bound(suffixes, option->max, text);
    }
}

void pl_option_expected(const pl_option_t *option, pl_text_t *text)
{
    switch (option->kind) {
    case PL_OPTION_FLAG:
        pl_text_add(text, "true or false");
        break;
    case PL_OPTION_INTEGER:
        pl_text_add(text, "an integer");
        add_range(option, NULL, text);
        break;
    case PL_OPTION_BYTES:
        pl_text_add(text, "a number of bytes");
        add_range(option, SIZES, text);
        pl_text_add(text, ", as 4096, 64KiB, 2MiB or 1GiB");
        break;
    case PL_OPTION_GIGABYTES:
        pl_text_add(text, "a number of GB (10^9 bytes), as 64 or 0.5");
        break;
    case PL_OPTION_FRACTION:
        pl_text_add(text, "a number above 0 and at most 1, as 0.88");
        break;
    case PL_OPTION_DURATION:
        pl_text_add(text, "a time");
        add_range(option, TIMES, text);
        pl_text_add(text, ", as 5ns, 5us, 5ms or 5s");
        break;
    case PL_OPTION_PAGES:
        pl_text_add(text, "an integer");
        add_range(option, NULL, text);
        pl_text_add(text,
                    option->fits ? ", unlimited or fit" : ", or unlimited");
        break;
    case PL_OPTION_CHOICE:
        for (int32_t i = 0; option->words[i] != NULL; i++) {
            pl_text_add(text, "%s%s",
                        i == 0                           ? ""
                        : (option->words[i + 1] == NULL) ? " or "
                                                         : ", ",
                        option->words[i]);
        }
        break;
    case PL_OPTION_STRING:
    case PL_OPTION_STRINGS:
        pl_text_add(text, "a %s", option->unit);
        break;
    case PL_OPTION_INTEGERS:
        pl_text_add(text, "integers");
        add_range(option, NULL, text);
        pl_text_add(text, ", as 1,2,4");
        break;
    }
}

void pl_option_clear(const pl_option_t *option, void *slot)
{
    if (option->kind == PL_OPTION_STRING) {
        char **value = slot;

        free(*value);
        *value = NULL;
    } else if (option->kind == PL_OPTION_INTEGERS) {
        PL_ARRAY_FREE((pl_option_integers_t *)slot);
    } else if (option->kind == PL_OPTION_STRINGS) {
        pl_option_strings_t *list = slot;

        for (size_t i = 0; i < list->n; i++) {
            free(list->items[i]);
        }
        PL_ARRAY_FREE(list);
    }
}

/* Without zeros behind the last digit that counts. */
static void add_gigabytes(pl_text_t *text, int64_t bytes)
{
    int64_t rest = bytes % GIGABYTE;
    int digits   = 9;

    pl_text_add(text, "%" PRId64, bytes / GIGABYTE);
    if (rest != 0) {
        for (; rest % 10 == 0; rest /= 10) {
            digits--;
        }
        pl_text_add(text, ".%0*" PRId64, digits, rest);
    }
}

static void add_lists(pl_text_t *text, const pl_option_t *option,
                      const void *slot)
{
    if (option->kind == PL_OPTION_INTEGERS) {
        const pl_option_integers_t *list = slot;

        for (size_t i = 0; i < list->n; i++) {
            pl_text_add(text, "%s%" PRId64, i == 0 ? "" : ",", list->items[i]);
        }
    } else {
        const pl_option_strings_t *list = slot;

        for (size_t i = 0; i < list->n; i++) {
            pl_text_add(text, "%s%s", i == 0 ? "" : " ", list->items[i]);
        }
    }
}

pl_status_t pl_option_value_text(const pl_option_t *option, const void *values,
                                 char **text_p)
{
    const void *slot = (const char *)values + option->offset;
    pl_text_t text   = {0};
    const char *string;

    switch (option->kind) {
    case PL_OPTION_FLAG:
        pl_text_add(&text, "%s", *(const bool *)slot ? "true" : "false");
        break;
    case PL_OPTION_INTEGER:
        pl_text_add(&text, "%" PRId64, *(const int64_t *)slot);
        break;
    case PL_OPTION_BYTES:
        add_scaled(&text, SIZES, *(const int64_t *)slot);
        break;
    case PL_OPTION_GIGABYTES:
    case PL_OPTION_FRACTION:
        add_gigabytes(&text, *(const int64_t *)slot);
        break;
    case PL_OPTION_DURATION:
        add_scaled(&text, TIMES, *(const int64_t *)slot);
        break;
    case PL_OPTION_PAGES:
        if (*(const int64_t *)slot == PL_OPTION_UNLIMITED) {
            pl_text_add(&text, "unlimited");
        } else if (*(const int64_t *)slot == PL_OPTION_FIT) {
            pl_text_add(&text, "fit");
        } else {
            pl_text_add(&text, "%" PRId64, *(const int64_t *)slot);
        }
        break;
    case PL_OPTION_CHOICE:
        pl_text_add(&text, "%s", option->words[*(const int32_t *)slot]);
        break;
    case PL_OPTION_STRING:
        string = *(char *const *)slot;
        pl_text_add(&text, "%s", string == NULL ? "" : string);
        break;
    case PL_OPTION_INTEGERS:
    case PL_OPTION_STRINGS:
        add_lists(&text, option, slot);
        break;
    }
    return pl_text_take(&text, text_p);
}

/* The configuration that a run records. */

pl_status_t pl_option_effective(const pl_option_table_t *table, uint32_t verb,
                                const void *values, pl_option_pair_t **pairs_p,
                                size_t *n_p)
{
    pl_option_pair_t *pairs = calloc(table->n + 1, sizeof(*pairs));
    pl_status_t status;
    size_t n = 0;

    if (pairs == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < table->n; i++) {
        const pl_option_t *option = &table->options[i];

        if (((option->verbs & verb) == 0) || !option->recorded) {
            continue;
        }
        PL_TRY_GOTO(status,
                    pl_option_value_text(option, values, &pairs[n].value),
                    free_pairs);
        pairs[n++].name = option->name;
    }
    *pairs_p = pairs;
    *n_p     = n;
    return PL_OK;

free_pairs:
    pl_option_pairs_free(pairs, n);
    return status;
}

void pl_option_pairs_free(pl_option_pair_t *pairs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(pairs[i].value);
    }
    free(pairs);
}
