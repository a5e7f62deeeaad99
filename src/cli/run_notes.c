#include "cli/run_notes.h"

#include "verify/inject.h"

/* Is there a later text for the same point?  It replaces this one. */
static bool is_replaced(const pl_option_strings_t *texts, size_t i)
{
    for (size_t j = i + 1; j < texts->n; j++) {
        if (pl_inject_point(texts->items[j]) ==
            pl_inject_point(texts->items[i])) {
            return true;
        }
    }
    return false;
}

void pl_run_note_faults(const pl_cli_t *cli, uint64_t happened)
{
    const pl_option_strings_t *texts = &cli->options.inject;

    for (size_t i = 0; i < texts->n; i++) {
        pl_inject_point_t point = pl_inject_point(texts->items[i]);

        if (is_replaced(texts, i)) {
            pl_log(&cli->log, PL_LOG_WARN,
                   "option --inject %s has no effect: a later one for the "
                   "same point replaces it",
                   texts->items[i]);
        } else if ((point < PL_INJECT_POINTS) &&
                   (((happened >> point) & 1) == 0)) {
            pl_log(&cli->log, PL_LOG_WARN,
                   "option --inject %s never happened: the run did not come "
                   "to that point, at that time, on that rank",
                   texts->items[i]);
        }
    }
}
