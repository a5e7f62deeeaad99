#include "cli/fleet_sides.h"

static double quotient(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

double pl_fleet_batch(const pl_fleet_usage_t *usage, int64_t duration_ns,
                      int32_t homes)
{
    return quotient((double)usage->stepping_ns, (double)duration_ns * homes);
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
        pl_fleet_usage_t usage = outcome->usages[i];
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
            decodes ? pl_fleet_batch(&usage, duration_ns, homes) / side.n : 0;
    }
    side.imbalance = quotient((double)most * side.n, (double)side.tokens);
    return side;
}

pl_fleet_sides_t pl_fleet_sides(const pl_outcome_t *outcome,
                                const pl_metrics_t *metrics, int32_t homes)
{
    int64_t ns             = metrics->duration_ns;
    int32_t n              = outcome->n_prefill;
    pl_fleet_waits_t waits = outcome->waits;
    int32_t first          = outcome->n_engines == n ? 0 : n;
    pl_fleet_sides_t sides = {
        .prefill = measure(outcome, ns, 0, n, false, homes),
        .decode  = measure(outcome, ns, first, outcome->n_engines, true, homes),
        .for_prefill  = quotient((double)waits.for_prefill_ns, outcome->n),
        .for_home     = quotient((double)waits.for_decode_ns, outcome->n),
        .for_transfer = quotient((double)waits.for_transfer_ns, outcome->n),
        .for_batch    = quotient((double)waits.for_batch_ns, outcome->n)};

    return sides;
}
