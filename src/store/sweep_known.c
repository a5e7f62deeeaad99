/* What the file of a sweep knows, for a sweep that goes on from it. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "store/sweep_internal.h"
#include "store/sweep_table.h"

static const char GRID_PATH[] = "/grid/lines";

/* ---- what is swept ---- */

/* Longer lines go on in the next text. */
enum { MOST_TEXT = 1000 };

/* Of the text that begins there, its newline included. */
static size_t text_bytes(const char *at)
{
    size_t n = strcspn(at, "\n");

    n += at[n] == '\n' ? 1 : 0;
    return n < MOST_TEXT ? n : MOST_TEXT;
}

void pl_sweep_add_grid(pl_content_t *content, const char *grid)
{
    pl_dataset_t lines = {.item        = PL_ITEM_TEXT,
                          .n_dims      = 1,
                          .labels      = {"line"},
                          .unit        = "1",
                          .description = "what is swept, for --resume",
                          .writer      = PL_REPLICATED};
    size_t longest     = 0;
    size_t n           = 0;
    char *texts;

    for (const char *at = grid; *at != '\0'; at += text_bytes(at)) {
        longest = text_bytes(at) > longest ? text_bytes(at) : longest;
        n++;
    }
    lines.dims[0]    = n;
    lines.text_bytes = longest + 1;
    pl_content_group(content, "/grid");
    texts = pl_content_add(content, GRID_PATH, lines);
    for (const char *at = grid; (texts != NULL) && (*at != '\0');
         at += text_bytes(at)) {
        memcpy(texts, at, text_bytes(at));
        texts += longest + 1;
    }
}

static pl_status_t check_grid(const pl_snapshot_t *file, const char *grid,
                              const pl_log_t *log)
{
    pl_snapshot_texts_t lines = {0};
    pl_text_t text            = {0};
    char *was                 = NULL;
    pl_status_t status;

    if (!pl_snapshot_has_dataset(file, GRID_PATH)) {
        return pl_snapshot_refuse(file, GRID_PATH,
                                  "is missing: an older program wrote the "
                                  "file; leave out --resume, or name another "
                                  "file with --output");
    }
    PL_TRY(pl_snapshot_read_texts(file, GRID_PATH, PL_ANY_ROWS, &lines));
    for (size_t i = 0; i < lines.n; i++) {
        pl_text_add(&text, "%s", pl_snapshot_text_at(&lines, i));
    }
    pl_snapshot_texts_free(&lines);
    PL_TRY(pl_text_take(&text, &was));
    status = pl_sweep_compare_grids(
        pl_snapshot_path(file), was, grid,
        "repeat that one, leave out --resume, or name another file with "
        "--output",
        log);
    free(was);
    return status;
}

/* ---- points ---- */

/* The columns that a table of the file is without. */
typedef struct more {
    pl_snapshot_column_t wall, rank;
} more_t;

static void free_more(more_t *more)
{
    pl_snapshot_column_free(&more->wall);
    pl_snapshot_column_free(&more->rank);
}

static pl_status_t read_more(const pl_snapshot_t *file, size_t n, more_t *more)
{
    PL_TRY(pl_snapshot_read(file, "/timing/point_ns", PL_ITEM_I64, n, 0,
                            &more->wall));
    return pl_snapshot_read(file, "/timing/point_rank", PL_ITEM_I64, n, 0,
                            &more->rank);
}

static pl_status_t add_values(const pl_sweep_table_t *table, size_t i,
                              pl_sweep_point_t *point)
{
    for (size_t m = 0; m < table->metrics.n; m++) {
        const pl_sweep_metric_t *metric = &table->metrics.items[m];
        pl_sweep_value_t value          = {.mean = metric->means.items[i]};

        if (!pl_sweep_has(table, metric, i)) {
            continue;
        }
        memcpy(value.name, metric->name, sizeof(value.name));
        memcpy(value.unit, metric->unit, sizeof(value.unit));
        value.half = metric->halves.rows > 0 ? metric->halves.items[i] : 0;
        PL_TRY(PL_ARRAY_PUSH(&point->values, value));
    }
    return PL_OK;
}

/* The status that the file has as text. */
static pl_status_t status_of(const char *text)
{
    static const pl_status_t ALL[] = {PL_ERR_ARGUMENT, PL_ERR_INPUT,
                                      PL_ERR_RESOURCE};

    for (size_t i = 0; i < sizeof(ALL) / sizeof(ALL[0]); i++) {
        if (strcmp(text, pl_status_text(ALL[i])) == 0) {
            return ALL[i];
        }
    }
    return PL_ERR_INTERNAL;
}

static pl_status_t make_point(const pl_sweep_table_t *table, const more_t *more,
                              size_t i, pl_sweep_point_t *point)
{
    *point = (pl_sweep_point_t){.is_known = true,
                                .n_seeds  = (int32_t)table->seeds.items[i],
                                .rank     = (int32_t)more->rank.items[i],
                                .wall_ns  = more->wall.items[i]};
    if (pl_sweep_ran(table, i)) {
        return add_values(table, i, point);
    }
    point->status = status_of(pl_snapshot_text_at(&table->status, i));
    point->why    = strdup(pl_snapshot_text_at(&table->message, i));
    return point->why == NULL ? PL_ERR_MEMORY : PL_OK;
}

static pl_status_t read_points(const pl_snapshot_t *file,
                               pl_sweep_point_t *points, size_t n_points)
{
    pl_sweep_table_t table = {0};
    more_t more            = {0};
    pl_status_t status     = pl_sweep_table_read(file, &table);

    if ((status == PL_OK) && (table.n != n_points)) {
        status = pl_snapshot_refuse(file, "/outcome/place",
                                    "has %zu rows; expected %zu, as /grid says",
                                    table.n, n_points);
    }
    if (status == PL_OK) {
        status = read_more(file, n_points, &more);
    }
    for (size_t i = 0; (i < n_points) && (status == PL_OK); i++) {
        status = make_point(&table, &more, i, &points[i]);
    }
    free_more(&more);
    pl_sweep_table_free(&table);
    return status;
}

pl_status_t pl_sweep_known_read(const char *path, const char *grid,
                                pl_sweep_point_t *points, size_t n_points,
                                const pl_log_t *log)
{
    pl_snapshot_t *file = NULL;
    pl_status_t status;

    PL_TRY(pl_snapshot_open_any(path, log, &file));
    if (pl_snapshot_is_sweep(file)) {
        status = check_grid(file, grid, log);
    } else {
        status = pl_snapshot_refuse(file, "/format",
                                    "is that of a snapshot; name the file of "
                                    "a sweep, or leave out --resume");
    }
    if (status == PL_OK) {
        status = read_points(file, points, n_points);
    }
    pl_snapshot_close(file);
    return status;
}
