/* An index as a file. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "store/h5.h"
#include "store/image.h"
#include "store/last_line.h"
#include "store/seal.h"
#include "store/tier_columns.h"

/* ---- what stands in it ---- */

typedef struct number {
    const char *name;
    int64_t value;
} number_t;

enum { NUMBERS = 11 };

static void list_numbers(const pl_tier_index_t *index,
                         number_t numbers[NUMBERS])
{
    const number_t all[NUMBERS] = {
        {"page_tokens", index->page_tokens},
        {"n_layers", index->n_layers},
        {"page_bytes", index->page_bytes},
        {"latent_row_bytes", index->latent_row_bytes},
        {"index_key_bytes", index->index_key_bytes},
        {"index_scale_bytes", index->index_scale_bytes},
        {"settled_stamp", index->settled_stamp},
        {"next_stamp", index->next_stamp},
        {"own_set", index->own_set},
        {"n_requests", index->n_requests},
        {"n_entries", index->n_entries},
    };

    memcpy(numbers, all, sizeof(all));
}

static void add_column(pl_content_t *content, const pl_tier_index_t *index,
                       pl_tier_column_t column)
{
    const pl_tier_column_about_t *about = &pl_tier_columns[column];
    int32_t rows                        = pl_tier_column_rows(index, column);
    pl_dataset_t shape                  = {.item        = about->item,
                                           .n_dims      = 1,
                                           .dims        = {(uint64_t)rows, 1},
                                           .labels      = {about->label},
                                           .unit        = about->unit,
                                           .description = about->description,
                                           .writer      = 0};
    void *items = pl_content_add(content, about->path, shape);

    for (int32_t i = 0; (items != NULL) && (i < rows); i++) {
        uint64_t value = pl_tier_column_get(index, column, i);

        if (pl_item_bytes(about->item, 0) == 1) {
            ((uint8_t *)items)[i] = (uint8_t)value;
        } else if (pl_item_bytes(about->item, 0) == 4) {
            ((uint32_t *)items)[i] = (uint32_t)value;
        } else {
            ((uint64_t *)items)[i] = value;
        }
    }
}

static void describe(pl_content_t *content, const pl_tier_index_t *index)
{
    number_t numbers[NUMBERS];
    char hex[32];

    list_numbers(index, numbers);
    pl_content_text(content, "/", "format", PL_TIER_FORMAT);
    pl_content_version(content, "/", "schema_version", PL_TIER_MAJOR,
                       PL_TIER_MINOR);
    pl_content_text(content, "/", "model", index->model);
    pl_content_text(content, "/", "tokens", index->tokens);
    pl_content_text(content, "/", "dtype", index->dtype);
    for (int i = 0; i < NUMBERS; i++) {
        pl_content_integer(content, "/", numbers[i].name, numbers[i].value);
    }
    (void)snprintf(hex, sizeof(hex), "%016" PRIx64, index->layout);
    pl_content_text(content, "/", "layout", hex);
    (void)snprintf(hex, sizeof(hex), "%016" PRIx64, index->trace);
    pl_content_text(content, "/", "trace", hex);
    pl_content_group(content, "/identity");
    pl_content_group(content, "/run");
    pl_content_group(content, "/sets");
    pl_content_group(content, "/entries");
    for (int i = 0; i < PL_TIER_COLUMNS; i++) {
        add_column(content, index, (pl_tier_column_t)i);
    }
}

/* ---- where it stands ---- */

/* The place of a column with those bytes: HDF5 does not say which of its pieces
 * is whose, but pieces with the same bytes are as good as each other. */
static uint64_t place_of(const pl_dataset_t *dataset, const pl_image_t *image)
{
    size_t n = pl_dataset_bytes(dataset);

    for (size_t i = 0; (n > 0) && (i < image->n_raw); i++) {
        if ((image->raw[i].n == n) &&
            (memcmp((const char *)image->bytes + image->raw[i].first,
                    dataset->data, n) == 0)) {
            return image->raw[i].first;
        }
    }
    return 0;
}

static void add_text(pl_text_t *text, const char *name, const char *value)
{
    pl_text_add(text, "%s %zu\n%s\n", name, strlen(value), value);
}

static void write_contents(const pl_tier_index_t *index,
                           const pl_content_t *content, const pl_image_t *image,
                           pl_text_t *text)
{
    number_t numbers[NUMBERS];

    list_numbers(index, numbers);
    pl_text_add(text, PL_TIER_FORMAT " %d %d\n", PL_TIER_MAJOR, PL_TIER_MINOR);
    add_text(text, "model", index->model);
    add_text(text, "tokens", index->tokens);
    add_text(text, "dtype", index->dtype);
    for (int i = 0; i < NUMBERS; i++) {
        pl_text_add(text, "%s %" PRId64 "\n", numbers[i].name,
                    numbers[i].value);
    }
    pl_text_add(text, "n_sets %" PRId32 "\n", index->n_sets);
    pl_text_add(text, "layout %016" PRIx64 "\n", index->layout);
    pl_text_add(text, "trace %016" PRIx64 "\n", index->trace);
    for (size_t i = 0; i < content->datasets.n; i++) {
        const pl_dataset_t *dataset = &content->datasets.items[i];

        pl_text_add(text, "%s %" PRIu64 "\n", dataset->path,
                    place_of(dataset, image));
    }
}

/* image + contents + last line + seal, in one piece, which takes the image's
 * place. */
static pl_status_t finish(const pl_tier_index_t *index,
                          const pl_content_t *content, pl_image_t *image)
{
    pl_text_t text = {0};
    char *contents = NULL;
    char last[PL_TIER_LAST_BYTES + 1];
    size_t n;
    char *bytes;

    write_contents(index, content, image, &text);
    n = text.n;
    PL_TRY(pl_text_take(&text, &contents));
    bytes = realloc(image->bytes,
                    image->n + n + PL_TIER_LAST_BYTES + PL_SEAL_BYTES);
    if (bytes == NULL) {
        free(contents);
        return PL_ERR_MEMORY;
    }
    memcpy(bytes + image->n, contents, n);
    free(contents);
    (void)snprintf(last, sizeof(last), "pagelane-contents %020" PRIu64 " \n",
                   image->n);
    image->bytes = bytes;
    image->n += n;
    memcpy(bytes + image->n, last, PL_TIER_LAST_BYTES);
    image->n += PL_TIER_LAST_BYTES;
    pl_seal_text(pl_seal_digest(bytes, image->n), image->n, bytes + image->n);
    image->n += PL_SEAL_BYTES;
    return PL_OK;
}

static pl_status_t make_image(const pl_content_t *content, const char *name,
                              const pl_log_t *log, pl_image_t *image)
{
    pl_pack_t pack = {0};
    pl_h5_quiet_t quiet;
    pl_status_t status;

    PL_TRY(pl_pack_open(content, &pack));
    quiet  = pl_h5_quiet();
    status = pl_image_make(&pack, name, log, image);
    pl_h5_loud(quiet);
    pl_pack_close(&pack);
    return status;
}

/* The file in memory; the caller frees it after any status. */
static pl_status_t make_file(const pl_tier_index_t *index, const char *name,
                             const pl_log_t *log, pl_image_t *image)
{
    pl_content_t content = {0};
    pl_status_t status;

    describe(&content, index);
    status = pl_content_status(&content);
    if (status == PL_OK) {
        status = make_image(&content, name, log, image);
    }
    if (status == PL_OK) {
        status = finish(index, &content, image);
    }
    if (status == PL_ERR_MEMORY) {
        pl_log(log, PL_LOG_ERROR, "%s: out of memory", name);
    }
    pl_content_free(&content);
    return status;
}

/* ---- putting it out ---- */

/* What no reader would take is not put out in the place of one that it does. */
static pl_status_t read_back(const pl_image_t *image, const char *path,
                             const pl_log_t *log)
{
    pl_tier_index_t again = {0};
    pl_last_line_t said;
    pl_status_t status;

    pl_last_line_open(&said, "out of memory");
    status = pl_tier_index_parse(path, image->bytes, (size_t)image->n,
                                 &said.log, &again);
    pl_tier_index_free(&again);
    if (status != PL_OK) {
        pl_log(log, PL_LOG_ERROR, "the new index is not put out: %s",
               said.text);
    }
    return (status == PL_OK) || (status == PL_ERR_MEMORY) ? status
                                                          : PL_ERR_INTERNAL;
}

static bool dies(pl_inject_t *inject, pl_inject_point_t point, int rank)
{
    return pl_inject_hit(inject, point, rank, INT64_MAX);
}

static void die_at(pl_inject_t *inject, pl_inject_point_t point, int rank)
{
    if (dies(inject, point, rank)) {
        (void)kill(getpid(), SIGKILL);
    }
}

/* In the place of the old one, at once and then for good. */
static pl_status_t replace(const char *partial, const char *path,
                           const char *folder, pl_files_t *files,
                           pl_inject_t *inject, int rank, const pl_log_t *log)
{
    int failed = pl_files_rename(files, partial, path);

    if (failed != 0) {
        pl_log(log, PL_LOG_ERROR, "cannot rename %s to %s: %s", partial, path,
               strerror(failed));
        return PL_ERR_IO;
    }
    die_at(inject, PL_INJECT_DIE_PUBLISH_FOLDER, rank);
    failed = pl_files_sync_folder(files, folder);
    if (failed != 0) {
        pl_log(log, PL_LOG_ERROR, "cannot bring %s to the disk: %s", folder,
               strerror(failed));
        return PL_ERR_IO;
    }
    die_at(inject, PL_INJECT_DIE_PUBLISHED, rank);
    return PL_OK;
}

static pl_status_t put_out(const pl_image_t *image, const char *partial,
                           const char *path, const char *folder,
                           pl_files_t *files, pl_inject_t *inject, int rank,
                           const pl_log_t *log)
{
    bool dying = dies(inject, PL_INJECT_DIE_PUBLISH, rank);
    uint64_t n = dying ? image->n / 2 : image->n;

    PL_TRY(pl_files_put(files, partial, image->bytes, n, NULL, 0, log));
    if (dying) {
        (void)kill(getpid(), SIGKILL);
    }
    die_at(inject, PL_INJECT_DIE_PUBLISH_SYNC, rank);
    PL_TRY(pl_files_sync_path(files, partial, log));
    die_at(inject, PL_INJECT_DIE_PUBLISH_RENAME, rank);
    return replace(partial, path, folder, files, inject, rank, log);
}

pl_status_t pl_tier_index_publish(const pl_tier_index_t *index,
                                  const char *folder, pl_files_t *files,
                                  pl_inject_t *inject, int rank,
                                  const pl_log_t *log)
{
    pl_image_t image = {0};
    pl_text_t name   = {0};
    char *path       = NULL;
    char *partial    = NULL;
    pl_status_t status;

    pl_text_add(&name, "%s/" PL_TIER_INDEX, folder);
    PL_TRY_GOTO(status, pl_text_take(&name, &path), out);
    PL_TRY_GOTO(status, pl_file_partial(path, log, &partial), out);
    PL_TRY_GOTO(status, make_file(index, path, log, &image), out);
    PL_TRY_GOTO(status, read_back(&image, path, log), out);
    status = put_out(&image, partial, path, folder, files, inject, rank, log);
    if (status != PL_OK) {
        pl_files_discard(files, partial);
    }

out:
    pl_image_free(&image);
    free(partial);
    free(path);
    return status;
}
