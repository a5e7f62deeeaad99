#include "cli/fleet_shape.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* GPUs of a decode instance whose homes have several of them. */
enum { MOST_GPUS = 4096 };

bool pl_fleet_is_asked(const pl_options_t *options)
{
    return (options->prefill != NULL) || (options->decode != NULL) ||
           (options->pd != NULL);
}

int64_t pl_fleet_gpus(const pl_fleet_shape_t *shape)
{
    return (int64_t)shape->n_prefill * shape->prefill_gpus +
           (int64_t)shape->n_decode * shape->decode_gpus;
}

/* ---- reading ---- */

/* A whole number from 1 to `most`; *text_p goes behind it. */
static bool read_number(const char **text_p, int32_t most, int32_t *number_p)
{
    const char *text = *text_p;
    int32_t number   = 0;

    for (; (*text >= '0') && (*text <= '9'); text++) {
        number = number * 10 + *text - '0';
        if (number > most) {
            return false;
        }
    }
    if (number == 0) {
        return false;
    }
    *text_p   = text;
    *number_p = number;
    return true;
}

static bool read_word(const char **text_p, const char *word)
{
    size_t n = strlen(word);

    if (strncmp(*text_p, word, n) != 0) {
        return false;
    }
    *text_p += n;
    return true;
}

static bool read_prefill(const char **text_p, pl_fleet_shape_t *shape)
{
    return read_number(text_p, PL_FLEET_MOST_INSTANCES, &shape->n_prefill) &&
           read_word(text_p, "x") &&
           read_number(text_p, PL_MAX_RANKS, &shape->prefill_gpus);
}

static bool read_decode(const char **text_p, pl_fleet_shape_t *shape)
{
    if (!read_number(text_p, PL_FLEET_MOST_INSTANCES, &shape->n_decode) ||
        !read_word(text_p, "x") ||
        !read_number(text_p, MOST_GPUS, &shape->decode_gpus)) {
        return false;
    }
    shape->homes = shape->decode_gpus;
    return read_word(text_p, ":dp")
               ? read_number(text_p, MOST_GPUS, &shape->homes)
               : true;
}

static pl_status_t refuse_text(const pl_log_t *log, const char *option,
                               const char *text, const char *expected)
{
    pl_log(log, PL_LOG_ERROR, "option --%s: cannot use '%.80s'; expected %s",
           option, text, expected);
    return PL_ERR_ARGUMENT;
}

/* Homes share the GPUs of an instance evenly. */
static pl_status_t check_homes(const char *option, const pl_log_t *log,
                               const pl_fleet_shape_t *shape)
{
    int32_t k =
        shape->homes < shape->decode_gpus ? shape->homes : shape->decode_gpus;

    if ((shape->n_decode == 0) || ((shape->decode_gpus % shape->homes == 0) &&
                                   (shape->homes <= PL_MAX_RANKS))) {
        return PL_OK;
    }
    k = k < PL_MAX_RANKS ? k : PL_MAX_RANKS;
    while (shape->decode_gpus % k != 0) {
        k--;
    }
    pl_log(log, PL_LOG_ERROR,
           "option --%s: %" PRId32 " homes cannot share the %" PRId32
           " GPUs of an instance evenly, or are more than %d; use :dp%" PRId32,
           option, shape->homes, shape->decode_gpus, PL_MAX_RANKS, k);
    return PL_ERR_ARGUMENT;
}

static pl_status_t read_both(const char *text, const pl_log_t *log,
                             pl_fleet_shape_t *shape)
{
    const char *at = text;

    if (strcmp(text, "auto") == 0) {
        pl_log(log, PL_LOG_ERROR,
               "option --pd auto: only `sweep` tries them all; name one, as "
               "2x8+3x16");
        return PL_ERR_ARGUMENT;
    }
    if (!read_prefill(&at, shape) || !read_word(&at, "+") ||
        !read_decode(&at, shape) || (*at != '\0')) {
        return refuse_text(log, "pd", text,
                           "prefill and decode instances x GPUs, as 2x8+3x16 "
                           "or 2x8+3x16:dp4: up to 1000 of up to 127, and up "
                           "to 1000 of up to 4096");
    }
    return check_homes("pd", log, shape);
}

static pl_status_t read_prefill_option(const pl_options_t *o,
                                       const pl_log_t *log,
                                       pl_fleet_shape_t *shape)
{
    const char *at = o->prefill;

    if (o->prefill == NULL) {
        shape->n_prefill    = 1;
        shape->prefill_gpus = o->cp == 0 ? 1 : (int32_t)o->cp;
        return PL_OK;
    }
    if (!read_prefill(&at, shape) || (*at != '\0')) {
        return refuse_text(log, "prefill", o->prefill,
                           "instances x GPUs of each, as 2x8: up to 1000 of "
                           "up to 127");
    }
    return PL_OK;
}

static pl_status_t read_decode_option(const pl_options_t *o,
                                      const pl_log_t *log,
                                      pl_fleet_shape_t *shape)
{
    const char *at = o->decode;

    if (o->decode == NULL) {
        return PL_OK;
    }
    if (!read_decode(&at, shape) || (*at != '\0')) {
        return refuse_text(log, "decode", o->decode,
                           "instances x GPUs of each, as 3x16, or 3x16:dp4 "
                           "for 4 homes of 4 GPUs in each: up to 1000 of up "
                           "to 4096");
    }
    return check_homes("decode", log, shape);
}

static pl_status_t check_others(const pl_options_t *o, const pl_log_t *log)
{
    const char *text = NULL;

    if ((o->pd != NULL) && ((o->prefill != NULL) || (o->decode != NULL))) {
        text = "option --pd: it says what --prefill and --decode say; leave "
               "them out";
    } else if ((o->cp > 0) && ((o->prefill != NULL) || (o->pd != NULL))) {
        text = "option --cp: GPUs of an instance stand in --prefill or --pd "
               "already, behind the x; leave it out";
    } else if (o->decode_ranks > 0) {
        text = "option --decode-ranks: these are of one group without "
               "instances; say --decode 1xD for an instance of D GPUs";
    }
    if (text != NULL) {
        pl_log(log, PL_LOG_ERROR, "%s", text);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

pl_status_t pl_fleet_shape(const pl_options_t *options, const pl_log_t *log,
                           pl_fleet_shape_t *shape_p)
{
    *shape_p = (pl_fleet_shape_t){0};
    PL_TRY(check_others(options, log));
    if (options->pd != NULL) {
        return read_both(options->pd, log, shape_p);
    }
    PL_TRY(read_prefill_option(options, log, shape_p));
    return read_decode_option(options, log, shape_p);
}

/* ---- rates ---- */

int64_t pl_fleet_rate(const char *text)
{
    enum { MOST_GB = 1000000 };
    static const struct {
        const char *name;
        int64_t per_thousandth; /* thousandths of a byte a us */
    } UNITS[]        = {{"GB/s", 1000}, {"MB/s", 1}};
    int64_t thousand = 0;
    int digits       = 0;
    int32_t whole    = 0;
    bool has_digit   = (*text >= '0') && (*text <= '9');

    for (; (*text >= '0') && (*text <= '9'); text++) {
        whole = whole * 10 + *text - '0';
        if (whole > MOST_GB) {
            return 0;
        }
    }
    if (has_digit && (*text == '.')) {
        for (text++; (*text >= '0') && (*text <= '9'); text++, digits++) {
            thousand += digits == 0   ? (*text - '0') * 100
                        : digits == 1 ? (*text - '0') * 10
                        : digits == 2 ? *text - '0'
                                      : 0;
        }
        has_digit = digits > 0;
    }
    for (size_t i = 0; has_digit && (i < sizeof(UNITS) / sizeof(UNITS[0]));
         i++) {
        if (strcmp(text, UNITS[i].name) == 0) {
            return (whole * INT64_C(1000) + thousand) *
                   UNITS[i].per_thousandth / 1000;
        }
    }
    return 0;
}

/* ---- all ways ---- */

static pl_status_t add_split(int64_t n, int32_t cp, int64_t rest, int64_t size,
                             pl_fleet_splits_t *splits)
{
    pl_text_t text = {0};
    char *made     = NULL;
    pl_status_t status;

    pl_text_add(&text,
                "%" PRId64 "x%" PRId32 "+%" PRId64 "x%" PRId64 ":dp%" PRId64, n,
                cp, rest / size, size, size);
    PL_TRY(pl_text_take(&text, &made));
    status = PL_ARRAY_PUSH(splits, made);
    if (status != PL_OK) {
        free(made);
    }
    return status;
}

pl_status_t pl_fleet_split(int64_t gpus, const int32_t *cps, size_t n_cps,
                           int64_t node, pl_fleet_splits_t *splits)
{
    for (size_t i = 0; i < n_cps; i++) {
        for (int64_t n = 1;
             (n * cps[i] < gpus) && (n <= PL_FLEET_MOST_INSTANCES); n++) {
            int64_t rest = gpus - n * cps[i];

            for (int64_t size = node; (size <= rest) && (size <= PL_MAX_RANKS);
                 size *= 2) {
                if ((rest % size == 0) &&
                    (rest / size <= PL_FLEET_MOST_INSTANCES)) {
                    PL_TRY(add_split(n, cps[i], rest, size, splits));
                }
            }
        }
    }
    return PL_OK;
}

void pl_fleet_splits_free(pl_fleet_splits_t *splits)
{
    for (size_t i = 0; i < splits->n; i++) {
        free(splits->items[i]);
    }
    PL_ARRAY_FREE(splits);
}
