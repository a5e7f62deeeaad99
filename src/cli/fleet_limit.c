#include "cli/fleet_limit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sim/sweep.h"

/* Waiting for less than this part of the time from arrival to answer is none to
 * speak of. */
#define LITTLE 0.05

enum { TTFT, TPOT, E2E, LIMITS };

static const struct {
    const char *name;
    pl_metric_time_t time;
    pl_fleet_part_t first, last; /* what it is made of */
} LIMIT[LIMITS] = {
    {"ttft", PL_METRIC_TTFT, PL_FLEET_FIRST_CHUNK, PL_FLEET_PREFILL},
    {"tpot", PL_METRIC_TPOT, PL_FLEET_TRANSFER, PL_FLEET_STEPS},
    {"e2e", PL_METRIC_E2E, PL_FLEET_FIRST_CHUNK, PL_FLEET_STEPS},
};

static const struct {
    const char *name, *side, *words;
} PART[PL_FLEET_PARTS + 1] = {
    [PL_FLEET_FIRST_CHUNK] = {"first_chunk", "prefill", "Prefill limits"},
    [PL_FLEET_HOME]        = {"home", "decode", "Decode limits"},
    [PL_FLEET_PREFILL]     = {"prefill", "prefill", "Prefill limits"},
    [PL_FLEET_TRANSFER] = {"transfer", "link", "Links between instances limit"},
    [PL_FLEET_BATCH]    = {"batch", "decode", "Decode limits"},
    [PL_FLEET_CHUNKS]   = {"chunks", "prefill", "Prefill limits"},
    [PL_FLEET_STEPS]    = {"steps", "decode", "Decode limits"},
    [PL_FLEET_PARTS]    = {"none", "none", ""},
};

static double quotient(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

/* ---- where time goes ---- */

typedef struct spent {
    int64_t n, n_tokens; /* requests; tokens behind their first ones */
    double queue, prefill, transfer, decode;
} spent_t;

/* Of those that take longer for `time` than limit_ns.  On instances that decode
 * what they prefilled nothing is sent to another: what comes behind the first
 * token is decode. */
static spent_t add_up(const pl_outcome_t *outcome, pl_metric_time_t time,
                      int64_t limit_ns)
{
    bool is_whole = outcome->n_engines == outcome->n_prefill;
    spent_t s     = {0};

    for (int32_t i = 0; i < outcome->n; i++) {
        const pl_record_t *r = &outcome->records[i];
        int64_t ns           = 0;
        int64_t at_home;

        if (!pl_metrics_time(r, time, &ns) || (ns <= limit_ns)) {
            continue;
        }
        at_home = r->decode_ns >= 0 ? r->decode_ns : r->finished_ns;
        s.n++;
        s.n_tokens += r->generated_tokens - 1;
        s.queue += (double)(r->admitted_ns - r->arrival_ns);
        s.prefill += (double)(r->first_token_ns - r->admitted_ns);
        s.transfer += is_whole ? 0 : (double)(at_home - r->first_token_ns);
        s.decode +=
            (double)(r->finished_ns - (is_whole ? r->first_token_ns : at_home));
    }
    return s;
}

/* Share of their time in decode in which others' chunks were computed: on
 * instances that prefill too, what a token takes beyond the mean step. */
static double chunk_share(const pl_outcome_t *outcome, const spent_t *s,
                          const spent_t *all)
{
    double step_ns =
        quotient((double)outcome->counters.stepping_ns, (double)all->n_tokens);
    double steps = quotient((double)s->n_tokens * step_ns, s->decode);

    return (outcome->n_engines == outcome->n_prefill) && (steps < 1) ? 1 - steps
                                                                     : 0;
}

/* all: every request; which of their waits were for what is known. */
static void part_time(const pl_outcome_t *outcome, const spent_t *s,
                      const spent_t *all, const pl_fleet_sides_t *sides,
                      pl_fleet_limit_t *limit)
{
    double n = (double)s->n;
    double home =
        quotient(sides->for_home, sides->for_home + sides->for_prefill);
    double batch    = quotient(sides->for_batch * (double)all->n, all->decode);
    double chunks   = chunk_share(outcome, s, all);
    double stepping = quotient(s->decode, n);

    batch                           = batch > 1 ? 1 : batch;
    limit->ns[PL_FLEET_FIRST_CHUNK] = quotient(s->queue, n) * (1 - home);
    limit->ns[PL_FLEET_HOME]        = quotient(s->queue, n) * home;
    limit->ns[PL_FLEET_PREFILL]     = quotient(s->prefill, n);
    limit->ns[PL_FLEET_TRANSFER]    = quotient(s->transfer, n);
    limit->ns[PL_FLEET_BATCH]       = stepping * batch;
    limit->ns[PL_FLEET_CHUNKS]      = stepping * (1 - batch) * chunks;
    limit->ns[PL_FLEET_STEPS]       = stepping * (1 - batch) * (1 - chunks);
    limit->token_ns = quotient(s->transfer + s->decode, (double)s->n_tokens);
}

/* ---- what limits ---- */

static pl_fleet_part_t longest(const double *ns, pl_fleet_part_t first,
                               pl_fleet_part_t last)
{
    pl_fleet_part_t most = first;

    for (pl_fleet_part_t i = first; i <= last; i++) {
        most = ns[i] > ns[most] ? i : most;
    }
    return most;
}

/* Where no limit is broken: what is waited for, if anything is. */
static pl_fleet_part_t waited_for(const double *ns)
{
    double waits[PL_FLEET_PARTS] = {0};
    double all                   = 0;
    double waiting               = 0;

    for (int i = 0; i < PL_FLEET_PARTS; i++) {
        bool waits_so = (i != PL_FLEET_PREFILL) && (i != PL_FLEET_STEPS) &&
                        (i != PL_FLEET_CHUNKS);

        waits[i] = waits_so ? ns[i] : 0;
        waiting += waits[i];
        all += ns[i];
    }
    return waiting < LITTLE * all
               ? PL_FLEET_PARTS
               : longest(waits, PL_FLEET_FIRST_CHUNK, PL_FLEET_STEPS);
}

pl_fleet_limit_t pl_fleet_limit(const pl_outcome_t *outcome,
                                const pl_fleet_sides_t *sides,
                                const pl_slo_t *slo)
{
    pl_sweep_broken_t broken = pl_sweep_broken(outcome, slo);
    int64_t limits[LIMITS]   = {slo->ttft_ns, slo->tpot_ns, slo->e2e_ns};
    pl_fleet_limit_t limit   = {.broke = {broken.ttft, broken.tpot, broken.e2e},
                                .worst = -1};
    spent_t all              = add_up(outcome, PL_METRIC_E2E, -1);
    spent_t s                = all;

    for (int i = 0; i < LIMITS; i++) {
        if (limit.broke[i] > (limit.worst < 0 ? 0 : limit.broke[limit.worst])) {
            limit.worst = i;
        }
    }
    if (limit.worst >= 0) {
        s = add_up(outcome, LIMIT[limit.worst].time, limits[limit.worst]);
    }
    part_time(outcome, &s, &all, sides, &limit);
    limit.part = limit.worst < 0 ? waited_for(limit.ns)
                                 : longest(limit.ns, LIMIT[limit.worst].first,
                                           LIMIT[limit.worst].last);
    return limit;
}

/* ---- in words ---- */

static double all_ns(const pl_fleet_limit_t *limit)
{
    double all = 0;

    for (int i = 0; i < PL_FLEET_PARTS; i++) {
        all += limit->ns[i];
    }
    return all;
}

static double percent(const pl_fleet_limit_t *limit, double ns)
{
    return 100 * quotient(ns, all_ns(limit));
}

/* "tpot:30ms" of "ttft:5s,tpot:30ms". */
static void add_limit(pl_text_t *text, const char *slo_text, int which)
{
    const char *at = strstr(slo_text, LIMIT[which].name);

    pl_text_add(text, "%.*s", at == NULL ? 0 : (int)strcspn(at, ","),
                at == NULL ? "" : at);
}

static double decode_ns(const pl_fleet_limit_t *limit)
{
    return limit->ns[PL_FLEET_STEPS] + limit->ns[PL_FLEET_CHUNKS];
}

static void add_nothing(pl_text_t *text, const pl_fleet_limit_t *l)
{
    double decode  = decode_ns(l);
    double prefill = l->ns[PL_FLEET_PREFILL];

    pl_text_add(
        text,
        "Nothing is waited for: of the %.3f s of a request decode takes "
        "%.1f %%, prefill %.1f %%, waiting %.1f %%",
        all_ns(l) / 1e9, percent(l, decode), percent(l, prefill),
        percent(l, all_ns(l) - decode - prefill));
}

static void add_part(pl_text_t *text, const pl_fleet_limit_t *l,
                     const pl_fleet_sides_t *s)
{
    double wait = l->ns[l->part] / 1e9;

    switch (l->part) {
    case PL_FLEET_FIRST_CHUNK:
        pl_text_add(text, "a prompt waits %.3f s for its first chunk", wait);
        break;
    case PL_FLEET_HOME:
        pl_text_add(text, "a prompt waits %.3f s for a home with room", wait);
        break;
    case PL_FLEET_PREFILL:
        pl_text_add(
            text,
            "a prompt takes %.3f s from its first chunk to its first token",
            wait);
        break;
    case PL_FLEET_TRANSFER:
        pl_text_add(text, "a request waits %.3f s for its pages to be sent",
                    wait);
        break;
    case PL_FLEET_BATCH:
        pl_text_add(text, "a request waits %.3f s for a place in the batch",
                    wait);
        break;
    case PL_FLEET_CHUNKS:
        pl_text_add(
            text,
            "a token takes %.2f ms, more of it for chunks of other prompts "
            "than for its step",
            l->token_ns / 1e6);
        break;
    default:
        pl_text_add(
            text,
            "a token takes %.2f ms, and a home steps %.2f requests at a "
            "time",
            l->token_ns / 1e6, quotient(s->decode.batch, s->decode.busy));
        break;
    }
}

/* "12 of 200 requests break ttft:2s; of these " */
static void add_breakers(pl_text_t *text, const pl_fleet_limit_t *l,
                         const pl_metrics_t *metrics, const char *slo_text)
{
    int64_t n = l->broke[l->worst];

    pl_text_add(text, "%" PRId64 " of %" PRId64 " request%s break%s ", n,
                metrics->n_requests, pl_text_s(metrics->n_requests),
                n == 1 ? "s" : "");
    add_limit(text, slo_text, l->worst);
    pl_text_add(text, "; of these ");
}

const char *pl_fleet_limit_words(const pl_fleet_limit_t *limit)
{
    return PART[limit->part].words;
}

void pl_fleet_limit_explain(const pl_fleet_limit_t *l,
                            const pl_fleet_sides_t *sides,
                            const pl_metrics_t *metrics, const char *slo_text,
                            pl_text_t *text)
{
    if (l->part == PL_FLEET_PARTS) {
        add_nothing(text, l);
    } else {
        if (l->worst >= 0) {
            add_breakers(text, l, metrics, slo_text);
        }
        add_part(text, l, sides);
        if (l->worst < 0) {
            pl_text_add(text,
                        ", of the %.3f s of a request, of which decode takes "
                        "%.1f %%",
                        all_ns(l) / 1e9, percent(l, decode_ns(l)));
        }
    }
    pl_text_add(text, "; prefill is busy %.1f %%, decode %.1f %%",
                100 * sides->prefill.busy, 100 * sides->decode.busy);
}

pl_status_t pl_fleet_limit_print(const pl_fleet_limit_t *l,
                                 const pl_fleet_sides_t *sides,
                                 const pl_metrics_t *metrics,
                                 const char *slo_text)
{
    const char *words = pl_fleet_limit_words(l);
    pl_text_t text    = {0};
    char *made        = NULL;

    pl_fleet_limit_explain(l, sides, metrics, slo_text, &text);
    PL_TRY(pl_text_take(&text, &made));
    printf("%s%s%s.\n", words, *words == '\0' ? "" : ": ", made);
    free(made);
    return PL_OK;
}

void pl_fleet_limit_json(json_object *object, const pl_fleet_limit_t *limit,
                         const char *slo_text)
{
    if (slo_text != NULL) {
        pl_json_integer(object, "broke_ttft", limit->broke[TTFT]);
        pl_json_integer(object, "broke_tpot", limit->broke[TPOT]);
        pl_json_integer(object, "broke_e2el", limit->broke[E2E]);
        pl_json_text(object, "most_broken",
                     limit->worst < 0 ? "none" : LIMIT[limit->worst].name);
    }
    pl_json_text(object, "limiting_side", PART[limit->part].side);
    pl_json_text(object, "limiting_part", PART[limit->part].name);
}
