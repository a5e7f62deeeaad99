#include "cli/run_notes.h"

#include <stdlib.h>
#include <string.h>

#include "verify/inject.h"

/* ---- options ---- */

/* An option, when it has no effect, and what would give it one. */
typedef struct note {
    const char *option;
    bool (*is_idle)(const pl_options_t *options);
    const char *why;
} note_t;

static bool has_no_model(const pl_options_t *o)
{
    return o->model == NULL;
}

static bool has_model(const pl_options_t *o)
{
    return o->model != NULL;
}

static bool copies_all(const pl_options_t *o)
{
    return o->write_policy != PL_OPT_WRITE_THROUGH_SELECTIVE;
}

static bool has_no_snapshot(const pl_options_t *o)
{
    return o->snapshot == NULL;
}

static bool has_no_bytes(const pl_options_t *o)
{
    return o->executor == PL_OPT_EXECUTOR_COST;
}

static const note_t NOTES[] = {
    {"kv-dtype", has_no_model, "only a model's KV has types; add --model"},
    {"stamp-layers", has_model, "it is for runs without --model"},
    {"stamp-row-bytes", has_model, "it is for runs without --model"},
    {"hot-threshold", copies_all,
     "it is for --write-policy write_through_selective"},
    {"events", has_no_snapshot, "events go to a snapshot; add --snapshot"},
    {"verify", has_no_bytes, "--executor cost has no bytes to check"},
    {"device", has_no_bytes, "--executor cost has no bytes to keep"},
};

static const pl_option_t *find_option(const char *name)
{
    const pl_option_table_t *table = pl_options_table();

    for (size_t i = 0; i < table->n; i++) {
        if (strcmp(table->options[i].name, name) == 0) {
            return &table->options[i];
        }
    }
    return NULL;
}

static pl_status_t note_option(const pl_cli_t *cli, const note_t *note,
                               const pl_options_t *defaults)
{
    const pl_option_t *option = find_option(note->option);
    char *was                 = NULL;
    char *is                  = NULL;
    pl_status_t status;

    if ((option == NULL) || !note->is_idle(&cli->options)) {
        return PL_OK;
    }
    PL_TRY(pl_option_value_text(option, defaults, &was));
    status = pl_option_value_text(option, &cli->options, &is);
    if ((status == PL_OK) && (strcmp(was, is) != 0)) {
        pl_log(&cli->log, PL_LOG_WARN, "option --%s %s has no effect: %s",
               note->option, is, note->why);
    }
    free(was);
    free(is);
    return status;
}

pl_status_t pl_run_note_options(const pl_cli_t *cli)
{
    const pl_option_table_t *table = pl_options_table();
    pl_options_t defaults          = {0};
    pl_status_t status             = PL_OK;

    if (pl_option_defaults(table, &defaults).verdict != PL_OPTION_OKAY) {
        status = PL_ERR_MEMORY; /* the table itself is sound */
    }
    for (size_t i = 0;
         (i < sizeof(NOTES) / sizeof(NOTES[0])) && (status == PL_OK); i++) {
        status = note_option(cli, &NOTES[i], &defaults);
    }
    pl_option_free(table, &defaults);
    return status;
}

/* ---- faults ---- */

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
                   "--inject %s has no effect: a later one for the same point "
                   "replaces it",
                   texts->items[i]);
        } else if ((point < PL_INJECT_POINTS) &&
                   (((happened >> point) & 1) == 0)) {
            pl_log(&cli->log, PL_LOG_WARN,
                   "--inject %s never happened: the run did not come to that "
                   "point, at that time, on that rank",
                   texts->items[i]);
        }
    }
}
