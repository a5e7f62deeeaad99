#include "cli/sweep_files.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <pagelane/version.h>

#include "base/hash.h"
#include "base/text.h"
#include "cli/sweep_grid.h"

/* ---- what is swept ---- */

/* Does a simulation look at it, and not every verb? */
static bool decides(const pl_option_t *option)
{
    return ((option->verbs & PL_VERB_SIM) != 0) &&
           ((option->verbs & PL_VERB_SWEEP) != 0) &&
           ((option->verbs & PL_VERB_DOCTOR) == 0);
}

/* Of the bytes of a regular file; false: it is none. */
static bool hash_file(const char *path, uint64_t *hash_p)
{
    enum { PIECE = 1 << 20 };
    struct stat about;
    FILE *file    = NULL;
    char *piece   = NULL;
    uint64_t hash = 0;
    size_t n;

    if ((stat(path, &about) == 0) && S_ISREG(about.st_mode)) {
        file = fopen(path, "rb");
    }
    piece = malloc(PIECE);
    while ((file != NULL) && (piece != NULL) &&
           ((n = fread(piece, 1, PIECE, file)) > 0)) {
        hash = pl_hash64(piece, n, hash);
    }
    free(piece);
    if (file != NULL) {
        (void)fclose(file);
    }
    *hash_p = hash;
    return (file != NULL) && (piece != NULL);
}

/* Of a model's folder a simulation reads the config.json. */
static pl_status_t add_file(pl_text_t *text, const char *path)
{
    pl_text_t within = {0};
    char *config     = NULL;
    uint64_t hash    = 0;

    if (hash_file(path, &hash)) {
        pl_text_add(text, "file %s = %016" PRIx64 "\n", path, hash);
        return PL_OK;
    }
    pl_text_add(&within, "%s/config.json", path);
    PL_TRY(pl_text_take(&within, &config));
    if (hash_file(config, &hash)) {
        pl_text_add(text, "file %s = %016" PRIx64 "\n", config, hash);
    }
    free(config);
    return PL_OK;
}

static pl_status_t add_axes(pl_text_t *text, const pl_grid_t *grid)
{
    size_t n              = 0;
    const pl_axis_t *axes = pl_grid_axes(grid, &n);

    for (size_t a = 0; a < n; a++) {
        pl_text_add(text, "%s = ", axes[a].option->name);
        for (size_t i = 0; i < axes[a].items.n; i++) {
            pl_text_add(text, "%s%s", i == 0 ? "" : ",",
                        axes[a].items.items[i]);
        }
        pl_text_add(text, "\n");
        for (size_t i = 0; i < axes[a].items.n; i++) {
            if (axes[a].option->kind == PL_OPTION_STRING) {
                PL_TRY(add_file(text, axes[a].items.items[i]));
            }
        }
    }
    return PL_OK;
}

static pl_status_t add_others(pl_text_t *text, const pl_options_t *o)
{
    const pl_option_table_t *table = pl_options_table();

    for (size_t i = 0; i < table->n; i++) {
        const pl_option_t *option = &table->options[i];
        char *value               = NULL;

        if (decides(option) && !pl_grid_is_axis(option)) {
            PL_TRY(pl_option_value_text(option, o, &value));
            pl_text_add(text, "%s = %s\n", option->name, value);
            free(value);
        }
    }
    for (size_t i = 0; i < o->merge.n; i++) {
        PL_TRY(add_file(text, o->merge.items[i]));
    }
    return PL_OK;
}

pl_status_t pl_sweep_identity(const pl_cli_t *cli, char **text_p)
{
    pl_text_t text = {0};
    pl_status_t status;

    pl_text_add(&text, "pagelane = %s %s\nrepeat = %" PRId64 "\n", pl_version(),
                pl_version_commit(), cli->options.repeat);
    status = add_axes(&text, cli->grid);
    if (status == PL_OK) {
        status = add_others(&text, &cli->options);
    }
    if (status != PL_OK) {
        pl_text_free(&text);
        return status;
    }
    return pl_text_take(&text, text_p);
}

/* ---- the file ---- */

/* What is written, as long as it takes. */
typedef struct save {
    PL_ARRAY(pl_sweep_text_t) config;
    PL_ARRAY(char *) values; /* owned; of config */
    PL_ARRAY(pl_sweep_axis_t) axes;
    int64_t *hours, *costs;
} save_t;

static void free_save(save_t *save)
{
    for (size_t i = 0; i < save->values.n; i++) {
        free(save->values.items[i]);
    }
    for (size_t i = 0; i < save->axes.n; i++) {
        free((void *)(uintptr_t)save->axes.items[i].items);
    }
    PL_ARRAY_FREE(&save->values);
    PL_ARRAY_FREE(&save->axes);
    PL_ARRAY_FREE(&save->config);
    free(save->hours);
    free(save->costs);
}

static pl_status_t add_axis(const pl_grid_t *grid, size_t n_points, size_t a,
                            save_t *save)
{
    size_t n              = 0;
    const pl_axis_t *axis = &pl_grid_axes(grid, &n)[a];
    const char **items;

    if (axis->items.n == 1) {
        pl_sweep_text_t text = {axis->option->name, axis->items.items[0]};

        return PL_ARRAY_PUSH(&save->config, text);
    }
    items = calloc(n_points, sizeof(*items));
    if (items == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < n_points; i++) {
        items[i] = axis->items.items[pl_grid_choice(grid, i, a)];
    }
    if (PL_ARRAY_PUSH(&save->axes, ((pl_sweep_axis_t){axis->option->name,
                                                      items})) != PL_OK) {
        free(items);
        return PL_ERR_MEMORY;
    }
    return PL_OK;
}

static bool is_of_sweep(const pl_option_t *option)
{
    return (option->verbs == PL_VERB_SWEEP) ||
           (option->offset == offsetof(pl_options_t, repeat));
}

static pl_status_t add_option(const pl_option_t *option, const pl_options_t *o,
                              save_t *save)
{
    pl_sweep_text_t text = {option->name, NULL};
    char *value          = NULL;

    PL_TRY(pl_option_value_text(option, o, &value));
    if (PL_ARRAY_PUSH(&save->values, value) != PL_OK) {
        free(value);
        return PL_ERR_MEMORY;
    }
    text.value = value;
    return PL_ARRAY_PUSH(&save->config, text);
}

static pl_status_t fill(const pl_cli_t *cli, const pl_sweep_verdict_t *v,
                        save_t *save)
{
    const pl_option_table_t *table = pl_options_table();
    size_t n_axes                  = 0;

    (void)pl_grid_axes(cli->grid, &n_axes);
    for (size_t a = 0; a < n_axes; a++) {
        PL_TRY(add_axis(cli->grid, v->n, a, save));
    }
    for (size_t i = 0; i < table->n; i++) {
        const pl_option_t *option = &table->options[i];

        if ((decides(option) && !pl_grid_is_axis(option)) ||
            is_of_sweep(option)) {
            PL_TRY(add_option(option, &cli->options, save));
        }
    }
    save->hours = calloc(v->n, sizeof(*save->hours));
    save->costs = calloc(v->n, sizeof(*save->costs));
    if ((save->hours == NULL) || (save->costs == NULL)) {
        return PL_ERR_MEMORY;
    }
    for (size_t i = 0; i < v->n; i++) {
        save->hours[i] = llround(1e6 * v->hours[i]);
        save->costs[i] = llround(1e6 * v->costs[i]);
    }
    return PL_OK;
}

pl_status_t pl_sweep_save(const pl_cli_t *cli, const pl_sweep_point_t *points,
                          const pl_sweep_verdict_t *verdict,
                          const pl_sweep_times_t *times, const char *identity,
                          const char *partial)
{
    save_t save   = {0};
    char date[32] = "";
    time_t now    = time(NULL);
    struct tm broken;
    pl_status_t status = fill(cli, verdict, &save);
    pl_sweep_file_t file;

    if (gmtime_r(&now, &broken) != NULL) {
        (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%SZ", &broken);
    }
    file = (pl_sweep_file_t){
        .config    = save.config.items,
        .n_config  = save.config.n,
        .axes      = save.axes.items,
        .n_axes    = save.axes.n,
        .grid      = identity,
        .points    = points,
        .places    = verdict->places,
        .meets     = verdict->meets,
        .gpu_hours = save.hours,
        .costs     = verdict->priced ? save.costs : NULL,
        .limits    = (const char *const *)verdict->limits,
        .n_points  = verdict->n,
        .intervals = cli->options.repeat > 1,
        .n_ranks   = times->n_ranks,
        .wall_ns   = times->wall_ns,
        .date      = date,
    };
    if (status == PL_OK) {
        status = pl_sweep_write(&file, partial, cli->options.output, &cli->log);
    }
    free_save(&save);
    return status;
}
