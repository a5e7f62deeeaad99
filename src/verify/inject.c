#include "verify/inject.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <string.h>

typedef enum default_when {
    EVERY_TIME,      /* each time, on every rank */
    ONCE,            /* the first time, on every rank */
    ONCE_ON_ONE_RANK /* the first time, on the first rank that comes */
} default_when_t;

/* In the order of pl_inject_point_t. */
static const struct point {
    const char *name;
    const char *action;
    default_when_t when;
    bool is_control; /* asked on all ranks alike: no rank may be named */
    bool is_of_disk; /* asked beside the run's ticks: none may be named */
} points[PL_INJECT_POINTS] = {
    {"load.alloc", "plain", EVERY_TIME, true, false},
    {"write.owner", "shift", EVERY_TIME, true, false},
    {"split", "during-write", ONCE, true, false},
    {"load", "delay", EVERY_TIME, false, false},
    {"load", "fail", ONCE_ON_ONE_RANK, false, false},
    {"host.alloc", "fail", ONCE_ON_ONE_RANK, false, false},
    {"flip", "device", ONCE_ON_ONE_RANK, false, false},
    {"flip", "host", ONCE_ON_ONE_RANK, false, false},
    {"flip", "transfer", ONCE_ON_ONE_RANK, false, false},
    {"transfer", "abort", ONCE_ON_ONE_RANK, false, false},
    {"backup", "fail", ONCE_ON_ONE_RANK, false, false},
    {"store", "fail", ONCE_ON_ONE_RANK, false, false},
    {"fetch", "fail", ONCE_ON_ONE_RANK, false, false},
    {"flip", "storage", ONCE_ON_ONE_RANK, false, true},
    {"die", "backup", ONCE_ON_ONE_RANK, false, false},
    {"die", "store", ONCE_ON_ONE_RANK, false, true},
    {"die", "store-sync", ONCE_ON_ONE_RANK, false, true},
    {"die", "publish", ONCE_ON_ONE_RANK, false, true},
    {"die", "publish-sync", ONCE_ON_ONE_RANK, false, true},
    {"die", "publish-rename", ONCE_ON_ONE_RANK, false, true},
    {"die", "publish-folder", ONCE_ON_ONE_RANK, false, true},
    {"die", "published", ONCE_ON_ONE_RANK, false, true},
    {"file", "fail", ONCE_ON_ONE_RANK, false, true},
    {"file", "short", ONCE_ON_ONE_RANK, false, true},
    {"file", "lost", ONCE_ON_ONE_RANK, false, true},
    {"disk", "full", ONCE_ON_ONE_RANK, false, true},
    {"rank", "die", ONCE_ON_ONE_RANK, false, false},
    {"rank", "stall", ONCE_ON_ONE_RANK, false, false},
};

#define POINTS                                                                 \
    "load.alloc=plain, write.owner=shift, split.during-write, load.delay, "    \
    "load.fail, host.alloc=fail, flip=device|host|transfer|storage, "          \
    "transfer.abort, backup.fail, store.fail, fetch.fail, "                    \
    "die=backup|store|store-sync|publish|publish-sync|publish-rename|"         \
    "publish-folder|published, file=fail|short|lost, disk=full, rank.die, "    \
    "rank.stall"
#define WHENS "rank:R, count:K (from 1), every, tick:T"

const char *pl_inject_help(void)
{
    return "load.alloc=plain       load-back allocates without saved owners\n"
           "write.owner=shift      a backup records owners one lane off\n"
           "split.during-write     a node is split while its backup runs\n"
           "load.delay             a load-back ends as late as it may\n"
           "load.fail              a load-back fails on one rank\n"
           "host.alloc=fail        host memory cannot be had on one rank\n"
           "flip=device|host|transfer|storage  one bit of a page flips in that "
           "tier\n"
           "transfer.abort         a send fails on one rank\n"
           "backup.fail            a backup fails on one rank\n"
           "store.fail             a write to storage fails on one rank\n"
           "fetch.fail             a page cannot be read from storage on one "
           "rank\n"
           "die=backup|store|store-sync|publish|publish-sync|publish-rename|\n"
           "publish-folder|published\n"
           "                       a rank kills itself at that step\n"
           "file=fail|short|lost   the count:K-th call of the file layer "
           "fails, "
           "writes half,\n"
           "                       or is the last and what was not synced is "
           "lost\n"
           "disk=full              from then on the disk is full\n"
           "rank.die               a rank kills itself\n"
           "rank.stall             a rank stops answering\n"
           "@WHEN: comma-separated " WHENS "\n";
}

/* ---- parsing ---- */

/* A piece of a text, without a copy. */
typedef struct piece {
    const char *at;
    size_t n;
} piece_t;

static bool piece_is(piece_t piece, const char *text)
{
    return (strlen(text) == piece.n) && (memcmp(piece.at, text, piece.n) == 0);
}

/* The piece up to the first `mark` (or all); *rest_p what follows the mark. */
static piece_t cut(piece_t text, char mark, piece_t *rest_p)
{
    const char *found = memchr(text.at, mark, text.n);
    piece_t first     = text;

    *rest_p = (piece_t){text.at + text.n, 0};
    if (found != NULL) {
        first.n    = (size_t)(found - text.at);
        rest_p->at = found + 1;
        rest_p->n  = text.n - first.n - 1;
    }
    return first;
}

/* "name=action", "name.action", or "name" alone where it names one point. */
static bool names_point(piece_t text, size_t p)
{
    size_t n     = strlen(points[p].name);
    bool is_only = strchr(points[p].name, '.') != NULL;
    char mark;

    if ((text.n < n) || (memcmp(text.at, points[p].name, n) != 0)) {
        return false;
    }
    if (text.n == n) {
        return is_only;
    }
    mark = text.at[n];
    return ((mark == '=') || (!is_only && (mark == '.'))) &&
           piece_is((piece_t){text.at + n + 1, text.n - n - 1},
                    points[p].action);
}

static size_t find_point(piece_t text)
{
    size_t p = 0;

    while ((p < PL_INJECT_POINTS) && !names_point(text, p)) {
        p++;
    }
    return p;
}

pl_inject_point_t pl_inject_point(const char *text)
{
    piece_t whens;

    return (pl_inject_point_t)find_point(
        cut((piece_t){text, strlen(text)}, '@', &whens));
}

static bool parse_number(piece_t text, int64_t most, int64_t *number_p)
{
    int64_t number = 0;

    if (text.n == 0) {
        return false;
    }
    for (size_t i = 0; i < text.n; i++) {
        int64_t digit = text.at[i] - '0';

        if ((digit < 0) || (digit > 9) || (number > (most - digit) / 10)) {
            return false;
        }
        number = number * 10 + digit;
    }
    *number_p = number;
    return true;
}

static bool parse_when(piece_t text, pl_inject_rule_t *rule)
{
    piece_t value;
    piece_t name   = cut(text, ':', &value);
    int64_t number = 0;

    if (piece_is(text, "every")) {
        rule->every = true;
        rule->count = 0;
        return true;
    }
    if (piece_is(name, "rank") && parse_number(value, INT32_MAX, &number)) {
        rule->rank = (int32_t)number;
        return true;
    }
    if (piece_is(name, "count") && parse_number(value, INT64_MAX, &number) &&
        (number >= 1)) {
        rule->every = false;
        rule->count = number;
        return true;
    }
    return piece_is(name, "tick") &&
           parse_number(value, INT64_MAX, &rule->tick);
}

static pl_inject_rule_t default_rule(default_when_t when)
{
    pl_inject_rule_t rule = {.active = true,
                             .every  = when == EVERY_TIME,
                             .rank   = when == ONCE_ON_ONE_RANK ? 0 : -1,
                             .count  = when == EVERY_TIME ? 0 : 1};

    return rule;
}

static pl_status_t check_rule(size_t p, const pl_inject_rule_t *rule,
                              const char *text, const pl_log_t *log)
{
    if (points[p].is_control && (rule->rank >= 0)) {
        pl_log(log, PL_LOG_ERROR,
               "option --inject %s: this point is the same on all ranks; "
               "leave out rank:%d",
               text, (int)rule->rank);
        return PL_ERR_ARGUMENT;
    }
    if (points[p].is_of_disk && (rule->tick > 0)) {
        pl_log(log, PL_LOG_ERROR,
               "option --inject %s: the disk knows no ticks; leave out "
               "tick:%" PRId64 ", count:K is the K-th time",
               text, rule->tick);
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

pl_status_t pl_inject_parse(pl_inject_t *inject, const char *text,
                            const pl_log_t *log)
{
    piece_t whens;
    piece_t point = cut((piece_t){text, strlen(text)}, '@', &whens);
    bool has_when = strchr(text, '@') != NULL;
    size_t p      = find_point(point);
    pl_inject_rule_t rule;

    if (p == PL_INJECT_POINTS) {
        pl_log(log, PL_LOG_ERROR,
               "option --inject %s: no such point; there are " POINTS, text);
        return PL_ERR_ARGUMENT;
    }
    rule = default_rule(points[p].when);
    while (has_when) {
        bool is_last = memchr(whens.at, ',', whens.n) == NULL;
        piece_t when = cut(whens, ',', &whens);

        if (!parse_when(when, &rule)) {
            pl_log(log, PL_LOG_ERROR,
                   "option --inject %s: '%.*s' is no time; it may be " WHENS,
                   text, (int)when.n, when.at);
            return PL_ERR_ARGUMENT;
        }
        has_when = !is_last;
    }
    PL_TRY(check_rule(p, &rule, text, log));
    inject->rules[p] = rule;
    return PL_OK;
}

/* ---- asking ---- */

_Static_assert(PL_INJECT_POINTS <= 64, "each point has a bit of `happened`");

bool pl_inject_is_active(const pl_inject_t *inject)
{
    for (int i = 0; i < PL_INJECT_POINTS; i++) {
        if (inject->rules[i].active) {
            return true;
        }
    }
    return false;
}

bool pl_inject_hit(pl_inject_t *inject, pl_inject_point_t point, int rank,
                   int64_t tick)
{
    pl_inject_rule_t *rule;

    assert((point >= 0) && (point < PL_INJECT_POINTS));
    if (inject == NULL) {
        return false;
    }
    rule = &inject->rules[point];
    if (!rule->active || (tick < rule->tick) ||
        ((rule->rank >= 0) && (rule->rank != rank))) {
        return false;
    }
    rule->reached++;
    if (!rule->every && (rule->reached != rule->count)) {
        return false;
    }
    if (inject->happened != NULL) {
        (void)atomic_fetch_or(inject->happened, UINT64_C(1) << point);
    }
    return true;
}
