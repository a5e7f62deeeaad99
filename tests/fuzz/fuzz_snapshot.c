/* The reader of snapshots and sweeps on any file: refused with exactly one
 * line, or what was asked for, whole and within its type.
 *
 * An input is a file as it stands, which may break HDF5 and must not break the
 * reader.  One that begins with 'S' is a recipe, by which a file is made whose
 * structure is sound and whose content is not what a snapshot's should be: that
 * one is read without the process in between. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "store/image.h"
#include "store/reader_inside.h"
#include "store/snapshot.h"
#include "store/sweep_table.h"

static void require(bool law)
{
    if (!law) {
        abort();
    }
}

static void count_errors(void *context, pl_log_level_t level, const char *line)
{
    int *n_errors = context;

    require(strlen(line) > 0);
    require(strchr(line, '\n') == NULL);
    *n_errors += level == PL_LOG_ERROR;
}

/* ---- what is asked for ---- */

static const struct {
    const char *path;
    pl_item_t item;
    size_t columns;
} COLUMNS[] = {
    {"/requests/arrival_ns", PL_ITEM_I64, 0},
    {"/requests/home", PL_ITEM_I32, 0},
    {"/requests/failed", PL_ITEM_U8, 0},
    {"/requests/digest", PL_ITEM_U64, 0},
    {"/requests/tokens", PL_ITEM_I32, 0},
    {"/lanes/tick", PL_ITEM_I64, 0},
    {"/lanes/device_free", PL_ITEM_I32, 1},
    {"/hicache/nodes/parent", PL_ITEM_I64, 0},
    {"/hicache/nodes/hits", PL_ITEM_U32, 0},
    {"/hicache/page_owners", PL_ITEM_I8, 0},
    {"/events/kind", PL_ITEM_I32, 0},
};

enum { N_COLUMNS = sizeof(COLUMNS) / sizeof(COLUMNS[0]) };

typedef struct trial {
    pl_snapshot_t *snapshot; /* or NULL: */
    pl_inside_t inside;
    int n_errors;
} trial_t;

static pl_status_t read_one(const trial_t *trial, const char *path,
                            pl_item_t item, size_t columns,
                            pl_snapshot_column_t *column_p)
{
    return trial->snapshot != NULL
               ? pl_snapshot_read(trial->snapshot, path, item, PL_ANY_ROWS,
                                  columns, column_p)
               : pl_inside_read(&trial->inside, path, item, PL_ANY_ROWS,
                                columns, column_p);
}

/* One line for each status that is not good, no other line. */
static bool is_good(trial_t *trial, pl_status_t status)
{
    require(trial->n_errors == (status == PL_OK ? 0 : 1));
    require((status == PL_OK) || (status == PL_ERR_INPUT) ||
            (status == PL_ERR_MEMORY));
    trial->n_errors = 0;
    return status == PL_OK;
}

static void check_range(pl_item_t item, int64_t value)
{
    require((item != PL_ITEM_U8) || ((value >= 0) && (value <= UINT8_MAX)));
    require((item != PL_ITEM_I8) ||
            ((value >= INT8_MIN) && (value <= INT8_MAX)));
    require((item != PL_ITEM_I32) ||
            ((value >= INT32_MIN) && (value <= INT32_MAX)));
    require((item != PL_ITEM_U32) || ((value >= 0) && (value <= UINT32_MAX)));
}

static void read_columns(trial_t *trial)
{
    for (size_t i = 0; i < N_COLUMNS; i++) {
        pl_snapshot_column_t column = {0};
        pl_status_t status = read_one(trial, COLUMNS[i].path, COLUMNS[i].item,
                                      COLUMNS[i].columns, &column);

        require((status == PL_OK) == (column.items != NULL));
        if (is_good(trial, status)) {
            require(column.columns == 1);
            for (size_t k = 0; k < column.rows; k++) {
                check_range(COLUMNS[i].item, column.items[k]);
            }
        }
        pl_snapshot_column_free(&column);
    }
}

static void read_tokens(trial_t *trial)
{
    pl_snapshot_column_t tokens = {0}, offsets = {0}, arrivals = {0};

    if (is_good(trial,
                read_one(trial, "/requests/tokens", PL_ITEM_I32, 0, &tokens)) &&
        is_good(trial, read_one(trial, "/requests/arrival_ns", PL_ITEM_I64, 0,
                                &arrivals)) &&
        is_good(trial, pl_snapshot_read_offsets(
                           trial->snapshot, "/requests/tokens_offset",
                           arrivals.rows, tokens.rows, &offsets))) {
        require(offsets.rows == arrivals.rows + 1);
        require(offsets.items[0] == 0);
        for (size_t i = 0; i < arrivals.rows; i++) {
            require(offsets.items[i] <= offsets.items[i + 1]);
        }
        require(offsets.items[arrivals.rows] == (int64_t)tokens.rows);
    }
    pl_snapshot_column_free(&tokens);
    pl_snapshot_column_free(&offsets);
    pl_snapshot_column_free(&arrivals);
}

static pl_status_t visit(void *context, const char *name, const char *text,
                         bool is_number)
{
    size_t *n_bytes = context;

    (void)is_number;
    *n_bytes += strlen(name) + strlen(text);
    return PL_OK;
}

static void read_group(trial_t *trial, const char *group)
{
    const pl_snapshot_t *snapshot = trial->snapshot;
    const pl_inside_t *inside     = &trial->inside;
    size_t n_bytes                = 0;
    int64_t value                 = 0;
    char *text                    = NULL;

    (void)is_good(trial,
                  snapshot != NULL
                      ? pl_snapshot_attributes(snapshot, group, visit, &n_bytes)
                      : pl_inside_attributes(inside, group, visit, &n_bytes));
    if (is_good(trial, snapshot != NULL
                           ? pl_snapshot_integer(snapshot, group, "n_lanes", 1,
                                                 127, &value)
                           : pl_inside_integer(inside, group, "n_lanes", 1, 127,
                                               &value))) {
        require((value >= 1) && (value <= 127));
    }
    if (is_good(trial, snapshot != NULL
                           ? pl_snapshot_text(snapshot, group, "format", &text)
                           : pl_inside_text(inside, group, "format", &text))) {
        require(text != NULL);
    }
    free(text);
}

static void read_all(trial_t *trial)
{
    static const char *const GROUPS[] = {"/", "/config", "/layout",
                                         "/counters/engine", "/timing"};

    for (size_t i = 0; i < sizeof(GROUPS) / sizeof(GROUPS[0]); i++) {
        read_group(trial, GROUPS[i]);
    }
    read_columns(trial);
}

/* ---- a sweep ---- */

static void check_texts(const pl_snapshot_texts_t *texts, size_t n)
{
    require((texts->n == n) && (texts->stride > 1));
    for (size_t i = 0; i < n; i++) {
        require(strlen(pl_snapshot_text_at(texts, i)) < texts->stride);
    }
}

static void check_table(const pl_sweep_table_t *table)
{
    check_texts(&table->status, table->n);
    check_texts(&table->message, table->n);
    check_texts(&table->limited_by, table->n);
    for (size_t i = 0; i < table->options.n; i++) {
        check_texts(&table->options.items[i].values, table->n);
    }
    for (size_t i = 0; i < table->metrics.n; i++) {
        require(table->metrics.items[i].means.rows == table->n);
    }
    for (size_t k = 0; k < table->n; k++) {
        require(table->order[k] < table->n);
        require(table->place.items[table->order[k]] == (int64_t)k + 1);
        require((table->meets.items[k] == 0) || pl_sweep_ran(table, k));
    }
}

static void check_any(const char *path)
{
    trial_t trial          = {0};
    pl_log_t log           = {count_errors, &trial.n_errors, PL_LOG_WARN};
    pl_sweep_table_t table = {0};

    if (is_good(&trial, pl_snapshot_open_any(path, &log, &trial.snapshot)) &&
        pl_snapshot_is_sweep(trial.snapshot) &&
        is_good(&trial, pl_sweep_table_read(trial.snapshot, &table))) {
        check_table(&table);
    }
    pl_sweep_table_free(&table);
    pl_snapshot_close(trial.snapshot);
}

static void check_file(const char *path)
{
    trial_t trial      = {0};
    pl_log_t log       = {count_errors, &trial.n_errors, PL_LOG_WARN};
    pl_status_t status = pl_snapshot_open(path, &log, &trial.snapshot);

    require((status == PL_OK) == (trial.snapshot != NULL));
    if (is_good(&trial, status)) {
        require(pl_snapshot_minor(trial.snapshot) >= 0);
        read_all(&trial);
        read_tokens(&trial);
    }
    pl_snapshot_close(trial.snapshot);
}

static void check_inside(const char *path)
{
    trial_t trial       = {0};
    pl_log_t log        = {count_errors, &trial.n_errors, PL_LOG_WARN};
    pl_h5_quiet_t quiet = pl_h5_quiet();

    if (is_good(&trial, pl_inside_open(path, false, &log, &trial.inside))) {
        require(trial.inside.minor >= 0);
        read_all(&trial);
    }
    pl_inside_close(&trial.inside);
    pl_h5_loud(quiet);
}

/* ---- a file by recipe ---- */

typedef struct recipe {
    const uint8_t *data;
    size_t n;
} recipe_t;

static uint8_t take(recipe_t *recipe)
{
    if (recipe->n == 0) {
        return 0;
    }
    recipe->n--;
    return *recipe->data++;
}

/* The rows are small, large enough to be packed, or none. */
static uint64_t take_rows(recipe_t *recipe)
{
    uint8_t say = take(recipe);

    return say < 200 ? say % 20 : (uint64_t)(say - 200) * 100;
}

static void put_column(recipe_t *recipe, const char *path, pl_item_t item,
                       int n_dims, uint64_t columns, pl_content_t *content)
{
    uint8_t how          = take(recipe);
    pl_dataset_t dataset = {.item        = item,
                            .text_bytes  = 1,
                            .n_dims      = n_dims,
                            .dims        = {take_rows(recipe), columns},
                            .labels      = {"row", "column"},
                            .unit        = "1",
                            .description = "x",
                            .writer      = how & 8 ? 0 : PL_REPLICATED};
    uint8_t *bytes;

    if ((how & 7) == 1) {
        return; /* not there */
    }
    if ((how & 7) == 2) {
        pl_content_group(content, path);
        return;
    }
    if ((how & 7) == 3) {
        dataset.item = (pl_item_t)(take(recipe) % (PL_ITEM_TEXT + 1));
    }
    if ((how & 7) == 4) {
        dataset.n_dims  = 1 + take(recipe) % 2;
        dataset.dims[1] = take(recipe) % 4;
    }
    bytes = pl_content_add(content, path, dataset);
    for (size_t i = 0; (bytes != NULL) && (i < pl_dataset_bytes(&dataset)) &&
                       (recipe->n > 0) && (i < 64);
         i++) {
        bytes[i] = take(recipe);
    }
}

static void put_attributes(recipe_t *recipe, pl_content_t *content)
{
    uint8_t how   = take(recipe);
    char text[16] = "";

    if ((how & 1) != 0) {
        for (size_t i = 0; i + 1 < sizeof(text); i++) {
            text[i] = (char)take(recipe);
        }
    }
    if ((how & 2) == 0) {
        pl_content_text(content, "/", "format",
                        (how & 1) != 0 ? text : PL_SNAPSHOT_FORMAT);
    }
    if ((how & 4) != 0) {
        pl_content_integer(content, "/", "schema_version", take(recipe));
    } else {
        pl_content_version(content, "/", "schema_version",
                           (how & 8) != 0 ? (int8_t)take(recipe) : 1,
                           (how & 16) != 0 ? (int8_t)take(recipe) : 0);
    }
    if ((how & 32) != 0) {
        pl_content_text(content, "/layout", "n_lanes", text);
    } else {
        pl_content_integer(content, "/layout", "n_lanes", (int8_t)take(recipe));
    }
}

static void make_file(recipe_t recipe, const char *path)
{
    static const char *const GROUPS[] = {
        "/config",  "/layout",        "/requests", "/lanes",
        "/hicache", "/hicache/nodes", "/counters", "/counters/engine",
        "/events",  "/timing"};
    pl_content_t content = {0};
    pl_pack_t pack       = {0};
    pl_image_t image     = {0};

    for (size_t i = 0; i < sizeof(GROUPS) / sizeof(GROUPS[0]); i++) {
        pl_content_group(&content, GROUPS[i]);
    }
    put_attributes(&recipe, &content);
    for (size_t i = 0; i < N_COLUMNS; i++) {
        put_column(&recipe, COLUMNS[i].path, COLUMNS[i].item,
                   COLUMNS[i].columns > 0 ? 2 : 1, 1, &content);
    }
    put_column(&recipe, "/requests/tokens_offset", PL_ITEM_I64, 1, 1, &content);
    if ((pl_pack_open(&content, &pack) == PL_OK) &&
        (pl_pack_step(&pack, SIZE_MAX, 1) == PL_OK) &&
        (pl_image_make(&pack, path, NULL, &image) == PL_OK)) {
        require(pl_file_write(path, image.bytes, image.n, NULL, 0, NULL) ==
                PL_OK);
    } else {
        require(pl_file_write(path, "", 0, NULL, 0, NULL) == PL_OK);
    }
    pl_image_free(&image);
    pl_pack_close(&pack);
    pl_content_free(&content);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];

    (void)snprintf(path, sizeof(path), "fuzz-snapshot-%d.h5", (int)getpid());
    if ((size > 0) && (data[0] == 'S')) {
        make_file((recipe_t){data + 1, size - 1}, path);
        check_inside(path);
        if (size % 16 == 0) {
            check_file(path);
        }
    } else {
        require(pl_file_write(path, data, size, NULL, 0, NULL) == PL_OK);
        check_file(path);
        check_any(path);
    }
    (void)unlink(path);
    return 0;
}
