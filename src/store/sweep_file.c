/* The HDF5 file of a sweep. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "store/content.h"
#include "store/file.h"
#include "store/h5.h"
#include "store/seal.h"
#include "store/snapshot_internal.h"
#include "store/sweep_internal.h"

bool pl_sweep_is_millionths(const char *unit)
{
    static const char *const UNITS[] = {"ns", "us", "1e-6", "1e-6/s"};

    for (size_t i = 0; i < sizeof(UNITS) / sizeof(UNITS[0]); i++) {
        if (strcmp(unit, UNITS[i]) == 0) {
            return true;
        }
    }
    return false;
}

static const pl_dataset_t COLUMN = {.item   = PL_ITEM_I64,
                                    .n_dims = 1,
                                    .labels = {"point"},
                                    .unit   = "1",
                                    .writer = PL_REPLICATED};

static pl_dataset_t column(const pl_sweep_file_t *file, const char *unit,
                           const char *description)
{
    pl_dataset_t dataset = COLUMN;

    dataset.dims[0]     = file->n_points;
    dataset.unit        = unit;
    dataset.description = description;
    return dataset;
}

/* ---- texts ---- */

typedef const char *(*text_of_t)(const void *context, size_t i);

static void add_texts(pl_content_t *content, const pl_sweep_file_t *file,
                      const char *path, const char *description,
                      text_of_t text_of, const void *context)
{
    pl_dataset_t dataset = column(file, "1", description);
    size_t longest       = 1;
    char *texts;

    for (size_t i = 0; i < file->n_points; i++) {
        size_t n = strlen(text_of(context, i)) + 1;

        longest = n > longest ? n : longest;
    }
    dataset.item       = PL_ITEM_TEXT;
    dataset.text_bytes = longest;
    texts              = pl_content_add(content, path, dataset);
    for (size_t i = 0; (texts != NULL) && (i < file->n_points); i++) {
        const char *text = text_of(context, i);

        memcpy(texts + i * longest, text, strlen(text));
    }
}

static const char *axis_text(const void *context, size_t i)
{
    const pl_sweep_axis_t *axis = context;

    return axis->items[i];
}

static const char *limit_text(const void *context, size_t i)
{
    const pl_sweep_file_t *file = context;

    return file->limits[i];
}

static const char *status_text(const void *context, size_t i)
{
    const pl_sweep_file_t *file = context;

    return file->points[i].status == PL_OK
               ? "ok"
               : pl_status_text(file->points[i].status);
}

static const char *why_text(const void *context, size_t i)
{
    const pl_sweep_file_t *file = context;

    return file->points[i].why == NULL ? "" : file->points[i].why;
}

/* A path below a group, with '_' for '-'. */
static void name_path(const char *group, const char *name, char *path, size_t n)
{
    (void)snprintf(path, n, "/%s/%s", group, name);
    for (; *path != '\0'; path++) {
        *path = *path == '-' ? '_' : *path;
    }
}

/* ---- groups ---- */

static void add_config(pl_content_t *content, const pl_sweep_file_t *file)
{
    char path[160];

    pl_content_group(content, "/config");
    for (size_t i = 0; i < file->n_config; i++) {
        pl_content_text(content, "/config", file->config[i].name,
                        file->config[i].value);
    }
    pl_content_group(content, "/options");
    for (size_t i = 0; i < file->n_axes; i++) {
        name_path("options", file->axes[i].name, path, sizeof(path));
        add_texts(content, file, path, "the option's value at each point",
                  axis_text, &file->axes[i]);
    }
}

static void add_outcome(pl_content_t *content, const pl_sweep_file_t *file)
{
    pl_dataset_t place = column(file, "1", "1: the best by --objective");
    pl_dataset_t meets = column(file, "1", "1: meets the limits of --slo");
    pl_dataset_t hours =
        column(file, "1e-6", "of all GPUs, from first to last request");
    pl_dataset_t costs =
        column(file, "1e-6", "of these hours, in the money of the price");
    int64_t *seeds;

    pl_content_group(content, "/outcome");
    add_texts(content, file, "/outcome/status", "ok, or why it cannot be run",
              status_text, file);
    add_texts(content, file, "/outcome/message",
              "what is said of a point that cannot be run", why_text, file);
    add_texts(content, file, "/outcome/limited_by",
              "the limit that most requests break, or where time goes",
              limit_text, file);
    place.data = file->places;
    meets.data = file->meets;
    meets.item = PL_ITEM_U8;
    hours.data = file->gpu_hours;
    costs.data = file->costs;
    (void)pl_content_add(content, "/outcome/place", place);
    (void)pl_content_add(content, "/outcome/gpu_hours", hours);
    if (file->costs != NULL) {
        (void)pl_content_add(content, "/outcome/cost", costs);
    }
    (void)pl_content_add(content, "/outcome/meets_limits", meets);
    seeds = pl_content_add(content, "/outcome/seeds",
                           column(file, "1", "seeds that were run"));
    for (size_t i = 0; (seeds != NULL) && (i < file->n_points); i++) {
        seeds[i] = file->points[i].n_seeds;
    }
}

/* Every number that any point has, as the first says it that has it: points of
 * other options may have others. */
typedef PL_ARRAY(const pl_sweep_value_t *) likes_t;

/* Mostly it is at the same place. */
static bool is_liked(const likes_t *likes, const char *name, size_t at)
{
    if ((at < likes->n) && (strcmp(likes->items[at]->name, name) == 0)) {
        return true;
    }
    for (size_t i = 0; i < likes->n; i++) {
        if (strcmp(likes->items[i]->name, name) == 0) {
            return true;
        }
    }
    return false;
}

static pl_status_t find_likes(const pl_sweep_file_t *file, likes_t *likes)
{
    for (size_t i = 0; i < file->n_points; i++) {
        for (size_t v = 0; v < file->points[i].values.n; v++) {
            const pl_sweep_value_t *value = &file->points[i].values.items[v];

            if (!is_liked(likes, value->name, v)) {
                PL_TRY(PL_ARRAY_PUSH(likes, value));
            }
        }
    }
    return PL_OK;
}

static void add_column(pl_content_t *content, const pl_sweep_file_t *file,
                       const char *group, const pl_sweep_value_t *like,
                       bool halves, const char *description)
{
    char path[160];
    int64_t *numbers;

    name_path(group, like->name, path, sizeof(path));
    numbers =
        pl_content_add(content, path, column(file, like->unit, description));
    for (size_t i = 0; (numbers != NULL) && (i < file->n_points); i++) {
        const pl_sweep_value_t *value =
            pl_sweep_find(&file->points[i], like->name);

        if (value != NULL) {
            numbers[i] = halves ? value->half : value->mean;
        }
    }
}

static void add_numbers(pl_content_t *content, const pl_sweep_file_t *file,
                        const likes_t *likes, const char *group, bool halves,
                        const char *description)
{
    char path[160];

    (void)snprintf(path, sizeof(path), "/%s", group);
    pl_content_group(content, path);
    for (size_t i = 0; i < likes->n; i++) {
        add_column(content, file, group, likes->items[i], halves, description);
    }
}

/* Names of numbers that others have, with blanks between them. */
static pl_status_t find_lacks(const pl_sweep_point_t *point,
                              const likes_t *likes, char **lacks_p)
{
    pl_text_t text = {0};
    bool lacks     = (point->status == PL_OK) && (point->values.n < likes->n);

    pl_text_add(&text, "%s", "");
    for (size_t i = 0; lacks && (i < likes->n); i++) {
        const char *name = likes->items[i]->name;

        if (pl_sweep_find(point, name) == NULL) {
            pl_text_add(&text, "%s%s", text.n == 0 ? "" : " ", name);
        }
    }
    return pl_text_take(&text, lacks_p);
}

static const char *lacks_text(const void *context, size_t i)
{
    char *const *lacks = context;

    return lacks[i];
}

static pl_status_t add_lacks(pl_content_t *content, const pl_sweep_file_t *file,
                             const likes_t *likes)
{
    char **lacks       = calloc(file->n_points + 1, sizeof(*lacks));
    pl_status_t status = lacks == NULL ? PL_ERR_MEMORY : PL_OK;

    for (size_t i = 0; (i < file->n_points) && (status == PL_OK); i++) {
        status = find_lacks(&file->points[i], likes, &lacks[i]);
    }
    if (status == PL_OK) {
        add_texts(content, file, "/outcome/lacks",
                  "numbers that it does not have, though others do", lacks_text,
                  lacks);
    }
    for (size_t i = 0; (lacks != NULL) && (i < file->n_points); i++) {
        free(lacks[i]);
    }
    free(lacks);
    return status;
}

/* Sizes here are the same for any run, so that the rest stays where it is. */
static void add_timing(pl_content_t *content, const pl_sweep_file_t *file)
{
    int64_t *wall, *rank;

    pl_content_group(content, "/timing");
    pl_content_text(content, "/timing", "date", file->date);
    pl_content_integer(content, "/timing", "ranks", file->n_ranks);
    pl_content_integer(content, "/timing", "wall_ns", file->wall_ns);
    wall = pl_content_add(content, "/timing/point_ns",
                          column(file, "ns", "time of day that it took"));
    rank = pl_content_add(content, "/timing/point_rank",
                          column(file, "1", "rank that computed it"));
    for (size_t i = 0; (wall != NULL) && (rank != NULL) && (i < file->n_points);
         i++) {
        wall[i] = file->points[i].wall_ns;
        rank[i] = file->points[i].rank;
    }
}

static pl_status_t add_all(pl_content_t *content, const pl_sweep_file_t *file,
                           const likes_t *likes)
{
    pl_content_text(content, "/", "format", PL_SWEEP_FORMAT);
    pl_content_version(content, "/", "schema_version", PL_SWEEP_MAJOR,
                       PL_SWEEP_MINOR);
    add_config(content, file);
    pl_sweep_add_grid(content, file->grid);
    add_outcome(content, file);
    PL_TRY(add_lacks(content, file, likes));
    add_numbers(content, file, likes, "metrics", false,
                "of the point; the mean over its seeds");
    if (file->intervals) {
        add_numbers(content, file, likes, "interval", true,
                    "half of the 95 % interval of the mean over seeds");
    }
    add_timing(content, file);
    return pl_content_status(content);
}

/* ---- to the disk ---- */

static pl_status_t put(const pl_content_t *content, const char *partial,
                       const pl_log_t *log)
{
    pl_image_t image         = {0};
    char seal[PL_SEAL_BYTES] = "";
    pl_h5_quiet_t quiet      = pl_h5_quiet();
    pl_status_t status       = pl_snapshot_image(content, partial, log, &image);

    pl_h5_loud(quiet);
    if (status != PL_OK) {
        return status;
    }
    pl_seal_text(pl_seal_digest(image.bytes, image.n), image.n, seal);
    status = pl_file_write(partial, image.bytes, image.n, NULL, 0, log);
    pl_image_free(&image);
    if (status == PL_OK) {
        status = pl_file_append(partial, seal, PL_SEAL_BYTES, log);
    }
    return status == PL_OK ? pl_file_sync(partial, log) : status;
}

pl_status_t pl_sweep_write(const pl_sweep_file_t *file, const char *partial,
                           const char *path, const pl_log_t *log)
{
    pl_content_t content = {0};
    likes_t likes        = {0};
    pl_status_t status   = find_likes(file, &likes);

    if (status == PL_OK) {
        status = add_all(&content, file, &likes);
    }
    if (status != PL_OK) {
        pl_log(log, PL_LOG_ERROR, "%s: out of memory", partial);
    } else {
        status = put(&content, partial, log);
    }
    if (status == PL_OK) {
        status = pl_file_publish(partial, path, log);
    }
    PL_ARRAY_FREE(&likes);
    pl_content_free(&content);
    return status;
}
