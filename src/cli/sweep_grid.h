/* cli/sweep_grid.h - options of a simulation that have several values.
 *
 * An option is an axis if `sim` takes it and it has one value there: every row
 * of the option table but those of the group "output", flags, and lists.  In a
 * grid its value may be a list with commas, wherever it comes from: defaults,
 * --config, a variable, the command line.  A point is one choice of all axes;
 * the last axis of the table runs fastest.
 */
#ifndef PL_CLI_SWEEP_GRID_H
#define PL_CLI_SWEEP_GRID_H

#include <stdbool.h>
#include <stddef.h>

#include "base/array.h"
#include "cli/options.h"

#define PL_GRID_MOST_POINTS 100000

typedef struct pl_axis {
    const pl_option_t *option; /* of pl_options_table */
    char *text;                /* owned; the items, each ended by a NUL */
    PL_ARRAY(const char *) items;
} pl_axis_t;

typedef struct pl_grid pl_grid_t; /* opaque */

/* As pl_options_load, for the verb sweep.  *options: what is no axis;
 * pl_options_free it, and close the grid (NULL after help, version or bad). */
pl_option_result_t pl_grid_load(int argc, const char *const *argv,
                                const char *const *environment,
                                pl_options_t *options, pl_option_words_t *words,
                                pl_grid_t **grid_p);
void pl_grid_close(pl_grid_t *grid); /* NULL is allowed */

size_t pl_grid_n_points(const pl_grid_t *grid);

/* The axes that are given or have a default, with one value or more, in the
 * order of the table. */
const pl_axis_t *pl_grid_axes(const pl_grid_t *grid, size_t *n_p);

/* Which of an axis' items a point has. */
size_t pl_grid_choice(const pl_grid_t *grid, size_t point, size_t axis);

/* The options of `sim` at a point, not checked yet (pl_options_check);
 * pl_options_free them after any status.  PL_OK, PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_grid_point(const pl_grid_t *grid,
                                        const pl_options_t *base, size_t point,
                                        pl_options_t *options);

bool pl_grid_is_axis(const pl_option_t *option);

/* Was it `--pd auto`, which parts --gpus?  That is a list too, and only here;
 * options->gpus: a value of it that is not the usual one, or else that. */
bool pl_grid_parts_gpus(const pl_grid_t *grid);

#endif /* PL_CLI_SWEEP_GRID_H */
