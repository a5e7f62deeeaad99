#include "cli/covered.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sim/metrics.h"
#include "sim/validate.h"

static void look_at(const pl_record_t *record, pl_covered_t *covered)
{
    const pl_fit_t *fit = &covered->fit;
    bool input          = (record->prompt_tokens < fit->least_input) ||
                 (record->prompt_tokens > fit->most_input);
    bool output = (record->output_tokens < fit->least_output) ||
                  (record->output_tokens > fit->most_output);

    covered->n_inputs += input ? 1 : 0;
    covered->n_outputs += output ? 1 : 0;
    covered->n_outside += input || output ? 1 : 0;
    covered->n_requests++;
}

static pl_status_t look_at_all(const pl_outcome_t *outcome,
                               pl_covered_t *covered)
{
    int32_t n       = outcome->n;
    int64_t *starts = calloc((size_t)n + 1, sizeof(*starts));
    int64_t *ends   = calloc((size_t)n + 1, sizeof(*ends));
    bool is_whole   = (starts != NULL) && (ends != NULL);

    for (int32_t i = 0; is_whole && (i < n); i++) {
        const pl_record_t *record = &outcome->records[i];

        if (pl_metrics_counts(record) &&
            (record->finished_ns > record->arrival_ns)) {
            starts[covered->n_requests] = record->arrival_ns;
            ends[covered->n_requests]   = record->finished_ns;
            look_at(record, covered);
        }
    }
    if (is_whole) {
        covered->most_concurrent =
            pl_validate_most(starts, ends, (size_t)covered->n_requests);
    }
    free(starts);
    free(ends);
    return is_whole ? PL_OK : PL_ERR_MEMORY;
}

pl_status_t pl_covered_find(const pl_cli_t *cli, const pl_outcome_t *outcome,
                            pl_covered_t *covered_p)
{
    pl_measured_t measured = {0};

    *covered_p = (pl_covered_t){0};
    if (cli->options.calibrate == NULL) {
        return PL_OK;
    }
    PL_TRY(pl_calibrate_read(cli->options.calibrate, &cli->log, &measured));
    covered_p->fit = measured.fit;
    return measured.fit.n_requests == 0 ? PL_OK
                                        : look_at_all(outcome, covered_p);
}

static bool is_crowded(const pl_covered_t *covered)
{
    return covered->most_concurrent > covered->fit.most_concurrent;
}

bool pl_covered_is_outside(const pl_covered_t *covered)
{
    return (covered->fit.n_requests > 0) &&
           ((covered->n_outside > 0) || is_crowded(covered));
}

static void print_outside(const char *what, int64_t n, int64_t of,
                          int32_t least, int32_t most)
{
    if (n > 0) {
        printf("Extrapolated: %s outside the %" PRId32 " to %" PRId32
               " tokens that the calibration covers: %" PRId64 " of %" PRId64
               ".\n",
               what, least, most, n, of);
    }
}

void pl_covered_print(const pl_covered_t *covered)
{
    const pl_fit_t *fit = &covered->fit;

    if (!pl_covered_is_outside(covered)) {
        return;
    }
    print_outside("prompts", covered->n_inputs, covered->n_requests,
                  fit->least_input, fit->most_input);
    print_outside("answers", covered->n_outputs, covered->n_requests,
                  fit->least_output, fit->most_output);
    if (is_crowded(covered)) {
        printf("Extrapolated: up to %" PRId32 " requests at a time; the "
               "calibration covers %" PRId32 ".\n",
               covered->most_concurrent, fit->most_concurrent);
    }
    printf("\n");
}

void pl_covered_json(json_object *object, const pl_covered_t *covered)
{
    if (covered->fit.n_requests == 0) {
        return;
    }
    pl_json_integer(object, PL_COVERED_NAME,
                    pl_covered_is_outside(covered) ? 1 : 0);
    pl_json_integer(object, "extrapolated_prompts", covered->n_inputs);
    pl_json_integer(object, "extrapolated_answers", covered->n_outputs);
    pl_json_integer(object, "extrapolated_requests", covered->n_outside);
    pl_json_integer(object, "most_concurrent", covered->most_concurrent);
    pl_json_integer(object, "covered_concurrent", covered->fit.most_concurrent);
}
