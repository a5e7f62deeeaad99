#include "cli/fleet_sides.h"

/* Waiting for less than this part of the time from arrival to answer is none to
 * speak of. */
#define LITTLE 0.05

const char *pl_fleet_limit_text(pl_fleet_limit_t limit)
{
    static const char *const TEXTS[] = {[PL_FLEET_LIMIT_NONE]    = "none",
                                        [PL_FLEET_LIMIT_PREFILL] = "prefill",
                                        [PL_FLEET_LIMIT_DECODE]  = "decode",
                                        [PL_FLEET_LIMIT_LINK]    = "link"};

    return TEXTS[limit];
}

static double quotient(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

double pl_fleet_batch(const pl_outcome_t *outcome, int64_t duration_ns,
                      int32_t instance, int32_t homes)
{
    const pl_fleet_record_t *records = pl_fleet_records(outcome->fleet);
    bool whole                       = outcome->n_engines == outcome->n_prefill;
    double ns                        = 0;

    for (int32_t i = 0; i < outcome->n; i++) {
        const pl_record_t *record = &records[i].record;
        int32_t at = whole ? records[i].prefill : records[i].decode;

        if ((at == instance) && (record->decode_ns >= 0) &&
            (record->finished_ns > record->decode_ns)) {
            ns += (double)(record->finished_ns - record->decode_ns);
        }
    }
    return quotient(ns, (double)duration_ns * homes);
}

/* Of instances [first, end); `decodes`: their steps are looked at. */
static pl_fleet_side_t measure(const pl_outcome_t *outcome, int64_t duration_ns,
                               int32_t first, int32_t end, bool decodes,
                               int32_t homes)
{
    pl_fleet_side_t side = {.n = end - first};
    int64_t most         = 0;
    double all           = (double)duration_ns * side.n;

    for (int32_t i = first; i < end; i++) {
        pl_fleet_usage_t usage = pl_fleet_usage(outcome->fleet, i);
        int64_t tokens         = decodes ? usage.steps : usage.computed_tokens;
        int64_t ns             = decodes ? usage.decode_ns : usage.prefill_ns;

        side.busy += quotient((double)ns, all);
        side.link_busy += quotient((double)usage.link_ns, all);
        side.tokens += tokens;
        most              = tokens > most ? tokens : most;
        side.most_waiting = usage.most_waiting > side.most_waiting
                                ? usage.most_waiting
                                : side.most_waiting;
        side.batch +=
            decodes ? pl_fleet_batch(outcome, duration_ns, i, homes) / side.n
                    : 0;
    }
    side.imbalance = quotient((double)most * side.n, (double)side.tokens);
    return side;
}

static pl_fleet_limit_t find_limit(const pl_fleet_sides_t *s, double all)
{
    double decode = s->for_home + s->for_batch;

    if (s->for_prefill + decode + s->for_transfer < LITTLE * all) {
        return PL_FLEET_LIMIT_NONE;
    }
    if ((s->for_prefill >= decode) && (s->for_prefill >= s->for_transfer)) {
        return PL_FLEET_LIMIT_PREFILL;
    }
    return decode >= s->for_transfer ? PL_FLEET_LIMIT_DECODE
                                     : PL_FLEET_LIMIT_LINK;
}

pl_fleet_sides_t pl_fleet_sides(const pl_outcome_t *outcome,
                                const pl_metrics_t *metrics, int32_t homes)
{
    int64_t ns             = metrics->duration_ns;
    int32_t n              = outcome->n_prefill;
    pl_fleet_waits_t waits = pl_fleet_waits(outcome->fleet);
    int32_t first          = outcome->n_engines == n ? 0 : n;
    pl_fleet_sides_t sides = {
        .prefill = measure(outcome, ns, 0, n, false, homes),
        .decode  = measure(outcome, ns, first, outcome->n_engines, true, homes),
        .for_prefill  = quotient((double)waits.for_prefill_ns, outcome->n),
        .for_home     = quotient((double)waits.for_decode_ns, outcome->n),
        .for_transfer = quotient((double)waits.for_transfer_ns, outcome->n),
        .for_batch    = quotient((double)waits.for_batch_ns, outcome->n)};

    sides.limit = find_limit(&sides, metrics->e2e.mean);
    return sides;
}
