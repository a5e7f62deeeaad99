#include "cli/limit.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const char *const METRICS[PL_METRICS] = {
    [PL_METRIC_IS_TTFT]        = "ttft",
    [PL_METRIC_IS_E2E]         = "e2e",
    [PL_METRIC_IS_TPOT]        = "tpot",
    [PL_METRIC_IS_QUEUEING]    = "queueing",
    [PL_METRIC_IS_DEVICE_HIT]  = "device_hit",
    [PL_METRIC_IS_HOST_HIT]    = "host_hit",
    [PL_METRIC_IS_STORAGE_HIT] = "storage_hit",
    [PL_METRIC_IS_COMPUTED]    = "computed",
};

static const char *const STATS[PL_STATS] = {
    [PL_STAT_MEAN] = "mean",
    [PL_STAT_P50]  = "p50",
    [PL_STAT_P90]  = "p90",
    [PL_STAT_P99]  = "p99",
};

static const struct {
    const char *name;
    double ns;
} UNITS[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

enum { N_UNITS = sizeof(UNITS) / sizeof(UNITS[0]) };

const char *pl_metric_name(pl_metric_t metric)
{
    return METRICS[metric];
}

bool pl_metric_is_time(pl_metric_t metric)
{
    return metric <= PL_METRIC_IS_QUEUEING;
}

const char *pl_stat_name(int stat)
{
    return STATS[stat];
}

/* Which of the names the n characters are; -1: none. */
static int name_at(const char *text, size_t n, const char *const *names,
                   int n_names)
{
    for (int i = 0; i < n_names; i++) {
        if ((strlen(names[i]) == n) && (strncmp(names[i], text, n) == 0)) {
            return i;
        }
    }
    return -1;
}

/* Digits with at most one point among them, as "5", "0.5"; *end_p is behind. */
static bool read_amount(const char *text, const char **end_p, double *amount_p)
{
    size_t digits = strspn(text, "0123456789");
    size_t n      = digits;

    if (text[n] == '.') {
        size_t more = strspn(text + n + 1, "0123456789");

        n += 1 + more;
        digits += more;
    }
    if ((digits == 0) || (n > 18)) {
        return false;
    }
    *amount_p = strtod(text, NULL); /* the program never leaves the C locale */
    *end_p    = text + n;
    return true;
}

/* What stands behind the number; what is wrong with it, or NULL. */
static const char *read_unit(const char *unit, pl_limit_t *limit)
{
    bool is_time = pl_metric_is_time(limit->metric);

    limit->is_percent = strcmp(unit, "%") == 0;
    if (limit->is_percent) {
        return NULL;
    }
    for (size_t i = 0; is_time && (i < N_UNITS); i++) {
        if (strcmp(unit, UNITS[i].name) == 0) {
            limit->change *= UNITS[i].ns;
            return NULL;
        }
    }
    if (!is_time && (strcmp(unit, "tokens") == 0)) {
        return NULL;
    }
    return is_time ? "%, ns, us, ms or s behind the number"
                   : "% or tokens behind the number";
}

/* What was expected, or NULL: it is good. */
static const char *parse(const char *text, pl_limit_t *limit)
{
    size_t name = strcspn(text, ".<>");
    size_t stat = text[name] == '.' ? strcspn(text + name + 1, "<>") : 0;
    const char *at;
    int which;

    which = name_at(text, name, METRICS, PL_METRICS);
    if (which < 0) {
        return "ttft, e2e, tpot, queueing, device_hit, host_hit, storage_hit "
               "or computed at the start";
    }
    limit->metric = (pl_metric_t)which;
    limit->stat   = name_at(text + name + 1, stat, STATS, PL_STATS);
    if ((text[name] != '.') || (limit->stat < 0)) {
        return ".mean, .p50, .p90 or .p99 behind the metric";
    }
    at = text + name + 1 + stat;
    if ((*at != '<') && (*at != '>')) {
        return "> or < behind the metric";
    }
    limit->above = *at++ == '>';
    if ((*at != '+') && (*at != '-')) {
        return "a change with its sign, + or -, behind > or <";
    }
    if (!read_amount(at + 1, &at, &limit->change)) {
        return "a number behind the sign";
    }
    return read_unit(at, limit);
}

pl_status_t pl_limit_parse(const char *text, const pl_log_t *log,
                           pl_limit_t *limit_p)
{
    pl_limit_t limit  = {0};
    const char *wrong = parse(text, &limit);

    if (wrong != NULL) {
        pl_log(log, PL_LOG_ERROR,
               "option --fail-if '%.80s': expected %s; as in ttft.p99>+5%%, "
               "computed.mean>+64tokens or e2e.p50>+20ms",
               text, wrong);
        return PL_ERR_ARGUMENT;
    }
    if (strpbrk(text, "<>")[1] == '-') {
        limit.change = -limit.change;
    }
    *limit_p = limit;
    return PL_OK;
}

bool pl_limit_is_broken(const pl_limit_t *limit, double a, double b)
{
    double change = b - a;

    if (limit->is_percent) {
        change = (change == 0) ? 0
                 : (a == 0)    ? change * HUGE_VAL
                               : 100 * change / fabs(a);
    }
    return limit->above ? change > limit->change : change < limit->change;
}
