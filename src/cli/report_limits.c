/* How many requests of a run keep the limits of its --slo. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/report_data.h"
#include "sim/sweep.h"

bool pl_report_limits(const pl_report_data_t *data, pl_report_limits_t *limits)
{
    const pl_metrics_t *m      = &data->metrics;
    const pl_outcome_t outcome = {.records = data->records, .n = data->n};
    pl_slo_t slo               = {0};

    *limits =
        (pl_report_limits_t){.text = pl_report_text(data, "config", "slo")};
    if ((limits->text == NULL) || !pl_slo_parse(limits->text, &slo)) {
        return false;
    }
    limits->n      = m->n_completed + m->n_failed + m->n_unfinished;
    limits->broken = pl_sweep_broken(&outcome, &slo);
    for (int32_t i = 0; i < data->n; i++) {
        limits->n_good += pl_metrics_counts(&data->records[i]) &&
                          pl_slo_keeps(&slo, &data->records[i]);
    }
    return true;
}

/* The one that most requests break; 0: none is broken. */
static int64_t worst_of(const pl_report_limits_t *limits, const char **name_p)
{
    const pl_sweep_broken_t *b = &limits->broken;
    const struct {
        const char *name;
        int64_t n;
    } all[]   = {{"ttft", b->ttft}, {"tpot", b->tpot}, {"e2e", b->e2e}};
    int worst = 0;

    for (int i = 1; i < 3; i++) {
        worst = all[i].n > all[worst].n ? i : worst;
    }
    *name_p = all[worst].name;
    return all[worst].n;
}

void pl_report_say_limits(const pl_report_limits_t *limits, char *text,
                          size_t n)
{
    const char *name = NULL;
    int64_t worst    = worst_of(limits, &name);
    int used =
        snprintf(text, n, "%.2f %% of the requests keep %.100s",
                 pl_report_percent(limits->n_good, limits->n), limits->text);

    if ((worst > 0) && (used > 0) && ((size_t)used < n)) {
        (void)snprintf(text + used, n - (size_t)used,
                       "; %s is broken most, by %.2f %%", name,
                       pl_report_percent(worst, limits->n));
    }
}

void pl_report_put_limits(pl_html_t *page, const pl_report_limits_t *limits)
{
    const pl_sweep_broken_t *b = &limits->broken;
    char value[64], note[160];

    (void)snprintf(value, sizeof(value), "%.2f %%",
                   pl_report_percent(limits->n_good, limits->n));
    (void)snprintf(note, sizeof(note),
                   "%" PRId64 " of %" PRId64 "; over ttft %" PRId64
                   ", tpot %" PRId64 ", e2e %" PRId64,
                   limits->n_good, limits->n, b->ttft, b->tpot, b->e2e);
    pl_html_tile(page, "requests in limits", value, note);
}
