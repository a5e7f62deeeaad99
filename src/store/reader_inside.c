#include "store/reader_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "store/h5.h"
#include "store/seal.h"
#include "store/segment.h"
#include "store/snapshot.h"
#include "store/sweep.h"
#include "store/tier_index.h"

pl_status_t pl_inside_refuse(const pl_inside_t *inside, const char *object,
                             const char *format, ...)
{
    char why[512];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    pl_log(inside->log, PL_LOG_ERROR, "%s: %s: %s", inside->path, object, why);
    return PL_ERR_INPUT;
}

pl_status_t pl_inside_no_memory(const pl_inside_t *inside, const char *object)
{
    pl_log(inside->log, PL_LOG_ERROR, "%s: %s: out of memory", inside->path,
           object);
    return PL_ERR_MEMORY;
}

/* ---- objects ---- */

/* Each step of an absolute path must be a plain link within the file. */
static bool is_linked_plainly(const pl_inside_t *inside, const char *path)
{
    char part[256];
    size_t n = strlen(path);

    if (n >= sizeof(part)) {
        return false;
    }
    for (size_t i = 1; i <= n; i++) {
        H5L_info_t link;

        if ((path[i] != '/') && (path[i] != '\0')) {
            continue;
        }
        memcpy(part, path, i);
        part[i] = '\0';
        if ((i > 1) &&
            ((H5Lexists(inside->file, part, H5P_DEFAULT) <= 0) ||
             (H5Lget_info(inside->file, part, &link, H5P_DEFAULT) < 0) ||
             (link.type != H5L_TYPE_HARD))) {
            return false;
        }
    }
    return true;
}

hid_t pl_inside_object(const pl_inside_t *inside, const char *path,
                       H5I_type_t kind)
{
    hid_t id;

    if (!is_linked_plainly(inside, path)) {
        return -1;
    }
    id = H5Oopen(inside->file, path, H5P_DEFAULT);
    if ((id >= 0) && (H5Iget_type(id) != kind)) {
        (void)H5Oclose(id);
        return -1;
    }
    return id;
}

bool pl_inside_has(const pl_inside_t *inside, const char *path, H5I_type_t kind)
{
    hid_t id = pl_inside_object(inside, path, kind);

    if (id >= 0) {
        (void)H5Oclose(id);
    }
    return id >= 0;
}

/* ---- opening ---- */

const char *pl_inside_noun(const pl_inside_t *inside)
{
    return inside->is_sweep ? "sweep" : "snapshot";
}

static pl_status_t refuse_format(const pl_inside_t *inside, const char *format)
{
    if (strcmp(format, PL_SWEEP_FORMAT) == 0) {
        return pl_inside_refuse(inside, "/format",
                                "is '%s': the file of a sweep; expected a "
                                "snapshot; `pagelane report` and `pagelane "
                                "export` read sweeps",
                                format);
    }
    if ((strcmp(format, PL_TIER_FORMAT) == 0) ||
        (strcmp(format, PL_SEGMENT_FORMAT) == 0)) {
        return pl_inside_refuse(inside, "/format",
                                "is '%s': a file of a storage tier; expected a "
                                "snapshot; `pagelane check FOLDER` looks into "
                                "the tier's folder",
                                format);
    }
    return pl_inside_refuse(inside, "/format",
                            "is not '" PL_SNAPSHOT_FORMAT
                            "'; expected a snapshot that `pagelane "
                            "run --snapshot` has written");
}

/* Is it what it says it is, and may we read it? */
static pl_status_t check_version(pl_inside_t *inside, bool any)
{
    int major          = PL_SNAPSHOT_MAJOR;
    int64_t version[2] = {0};
    char *format       = NULL;
    pl_status_t status = pl_inside_text(inside, "/", "format", &format);

    if ((status == PL_OK) && any && (strcmp(format, PL_SWEEP_FORMAT) == 0)) {
        inside->is_sweep = true;
        major            = PL_SWEEP_MAJOR;
    } else if ((status == PL_OK) && (strcmp(format, PL_SNAPSHOT_FORMAT) != 0)) {
        status = refuse_format(inside, format);
    }
    free(format);
    PL_TRY(status);
    PL_TRY(pl_inside_integers(inside, "/", "schema_version", 2, version));
    if ((version[0] != major) || (version[1] < 0)) {
        return pl_inside_refuse(
            inside, "/schema_version",
            "%" PRId64 ".%" PRId64
            " cannot be read; this program reads version %d of any minor; use "
            "the pagelane that wrote the file",
            version[0], version[1], major);
    }
    inside->minor = version[1];
    return PL_OK;
}

static pl_status_t open_file(pl_inside_t *inside)
{
    struct stat about;

    if (stat(inside->path, &about) != 0) {
        pl_log(inside->log, PL_LOG_ERROR, "cannot read %s: %s", inside->path,
               strerror(errno));
        return PL_ERR_INPUT;
    }
    if (S_ISDIR(about.st_mode)) {
        pl_log(inside->log, PL_LOG_ERROR,
               "cannot read %s: it is a folder; expected a snapshot; `pagelane "
               "check %s` looks into the folder of a storage tier",
               inside->path, inside->path);
        return PL_ERR_INPUT;
    }
    if (!S_ISREG(about.st_mode)) {
        pl_log(inside->log, PL_LOG_ERROR,
               "cannot read %s: it is no regular file; expected a snapshot",
               inside->path);
        return PL_ERR_INPUT;
    }
    inside->file_bytes = (uint64_t)about.st_size;
    if (H5Fis_hdf5(inside->path) == 0) {
        pl_log(inside->log, PL_LOG_ERROR,
               "cannot read %s: it is no HDF5 file; expected a snapshot",
               inside->path);
        return PL_ERR_INPUT;
    }
    PL_TRY(pl_seal_check(inside->path, inside->log));
    inside->file = H5Fopen(inside->path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (inside->file < 0) {
        char reason[256];

        pl_h5_reason(reason, sizeof(reason));
        pl_log(inside->log, PL_LOG_ERROR,
               "cannot read %s: it is damaged, or not whole (HDF5 says: %s)",
               inside->path, reason);
        return PL_ERR_INPUT;
    }
    return PL_OK;
}

pl_status_t pl_inside_open(const char *path, bool any, const pl_log_t *log,
                           pl_inside_t *inside)
{
    *inside = (pl_inside_t){.path = path, .log = log, .file = -1};
    PL_TRY(open_file(inside));
    return check_version(inside, any);
}

void pl_inside_close(pl_inside_t *inside)
{
    if (inside->file >= 0) {
        (void)H5Fclose(inside->file);
        inside->file = -1;
    }
}

/* ---- datasets ---- */

/* Deflate makes at most 1,032 bytes of one. */
enum { LARGEST_RATIO = 1032 };

/* Only what a snapshot has: bytes in this file, packed by filters that come
 * with HDF5. */
bool pl_inside_is_plain(hid_t dataset)
{
    hid_t list   = H5Dget_create_plist(dataset);
    bool plainly = list >= 0;

    if (plainly) {
        H5D_layout_t layout = H5Pget_layout(list);
        int n_filters       = H5Pget_nfilters(list);

        plainly = ((layout == H5D_CONTIGUOUS) || (layout == H5D_CHUNKED) ||
                   (layout == H5D_COMPACT)) &&
                  (H5Pget_external_count(list) == 0) && (n_filters >= 0);
        for (int i = 0; plainly && (i < n_filters); i++) {
            unsigned flags, config;
            size_t n_values     = 0;
            H5Z_filter_t filter = H5Pget_filter2(
                list, (unsigned)i, &flags, &n_values, NULL, 0, NULL, &config);

            plainly = (filter == H5Z_FILTER_DEFLATE) ||
                      (filter == H5Z_FILTER_SHUFFLE) ||
                      (filter == H5Z_FILTER_FLETCHER32);
        }
        (void)H5Pclose(list);
    }
    return plainly;
}

static bool has_item_type(hid_t dataset, pl_item_t item)
{
    hid_t type = H5Dget_type(dataset);
    bool is_unsigned =
        (item == PL_ITEM_U8) || (item == PL_ITEM_U32) || (item == PL_ITEM_U64);
    bool has = (type >= 0) && (H5Tget_class(type) == H5T_INTEGER) &&
               (H5Tget_size(type) == pl_item_bytes(item, 0)) &&
               ((H5Tget_sign(type) == H5T_SGN_NONE) == is_unsigned);

    if (type >= 0) {
        (void)H5Tclose(type);
    }
    return has;
}

static const char *type_name(pl_item_t item)
{
    static const char *const NAMES[] = {
        [PL_ITEM_I8]   = "signed 8-bit numbers",
        [PL_ITEM_U8]   = "unsigned 8-bit numbers",
        [PL_ITEM_I32]  = "signed 32-bit numbers",
        [PL_ITEM_U32]  = "unsigned 32-bit numbers",
        [PL_ITEM_I64]  = "signed 64-bit numbers",
        [PL_ITEM_U64]  = "unsigned 64-bit numbers",
        [PL_ITEM_TEXT] = "texts",
    };

    return NAMES[item];
}

/* Rows and columns as they stand in the file. */
pl_status_t pl_inside_shape(const pl_inside_t *inside, const char *path,
                            hid_t dataset, size_t rows, size_t columns,
                            pl_snapshot_column_t *column)
{
    hsize_t dims[2] = {0, 1};
    hid_t space     = H5Dget_space(dataset);
    int n_dims      = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    int wanted      = columns > 0 ? 2 : 1;

    if (n_dims == wanted) {
        (void)H5Sget_simple_extent_dims(space, dims, NULL);
    }
    if (space >= 0) {
        (void)H5Sclose(space);
    }
    if (n_dims != wanted) {
        return pl_inside_refuse(inside, path,
                                "is a table of %d dimensions; expected %d",
                                n_dims, wanted);
    }
    if ((rows != PL_ANY_ROWS) && (dims[0] != rows)) {
        return pl_inside_refuse(inside, path,
                                "has %" PRIu64 " rows; expected %zu",
                                (uint64_t)dims[0], rows);
    }
    if ((columns > 0) && (dims[1] != columns)) {
        return pl_inside_refuse(inside, path,
                                "has %" PRIu64 " columns; expected %zu",
                                (uint64_t)dims[1], columns);
    }
    column->rows    = (size_t)dims[0];
    column->columns = columns > 0 ? columns : 1;
    return PL_OK;
}

/* Could the file hold that many items? */
pl_status_t pl_inside_check_size(const pl_inside_t *inside, const char *path,
                                 hid_t dataset, size_t item_bytes,
                                 const pl_snapshot_column_t *column)
{
    uint64_t most = (uint64_t)H5Dget_storage_size(dataset);

    most = most < inside->file_bytes ? most : inside->file_bytes;
    most =
        most > UINT64_MAX / LARGEST_RATIO ? UINT64_MAX : most * LARGEST_RATIO;
    if ((column->rows > 0) &&
        (column->rows > most / item_bytes / column->columns)) {
        return pl_inside_refuse(inside, path,
                                "says it has %zu rows, which its bytes in "
                                "the file cannot hold; it is not whole",
                                column->rows);
    }
    return PL_OK;
}

/* The bytes as they are, with the digest beside them. */
pl_status_t pl_inside_check_digest(const pl_inside_t *inside, const char *path,
                                   hid_t dataset, const void *bytes, size_t n)
{
    uint64_t digest;

    if (H5Aexists(dataset, "xxh3_64") <= 0) {
        return PL_OK; /* whoever edits a file takes it away */
    }
    PL_TRY(pl_inside_digest(inside, path, dataset, &digest));
    if (digest != pl_hash64(bytes, n, 0)) {
        return pl_inside_refuse(inside, path,
                                "its bytes do not have the digest that "
                                "stands beside them; the file was changed "
                                "or damaged");
    }
    return PL_OK;
}

/* From item_bytes each to int64, in place, back to front. */
static void widen(int64_t *items, size_t n, pl_item_t item)
{
    const void *narrow = items;

    for (size_t i = n; i-- > 0;) {
        switch (item) {
        case PL_ITEM_I8:
            items[i] = (int64_t)((const int8_t *)narrow)[i];
            break;
        case PL_ITEM_U8:
            items[i] = ((const uint8_t *)narrow)[i];
            break;
        case PL_ITEM_I32:
            items[i] = ((const int32_t *)narrow)[i];
            break;
        case PL_ITEM_U32:
            items[i] = ((const uint32_t *)narrow)[i];
            break;
        case PL_ITEM_I64:
        case PL_ITEM_U64:
        case PL_ITEM_TEXT:
            break;
        }
    }
}

static pl_status_t read_items(const pl_inside_t *inside, const char *path,
                              hid_t dataset, pl_item_t item,
                              pl_snapshot_column_t *column)
{
    size_t n   = column->rows * column->columns;
    hid_t type = pl_h5_memory_type(item, 0);
    pl_status_t status;

    column->items = calloc(n > 0 ? n : 1, sizeof(*column->items));
    if (column->items == NULL) {
        status = pl_inside_no_memory(inside, path);
        goto close_type;
    }
    if ((n > 0) && (H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                            column->items) < 0)) {
        char reason[256];

        pl_h5_reason(reason, sizeof(reason));
        status = pl_inside_refuse(inside, path,
                                  "cannot be read; it is damaged (HDF5 says: "
                                  "%s)",
                                  reason);
        goto free_items;
    }
    PL_TRY_GOTO(status,
                pl_inside_check_digest(inside, path, dataset, column->items,
                                       n * pl_item_bytes(item, 0)),
                free_items);
    widen(column->items, n, item);
    goto close_type;

free_items:
    pl_snapshot_column_free(column);
close_type:
    if (type >= 0) {
        (void)H5Tclose(type);
    }
    return status;
}

pl_status_t pl_inside_read(const pl_inside_t *inside, const char *path,
                           pl_item_t item, size_t rows, size_t columns,
                           pl_snapshot_column_t *column_p)
{
    pl_snapshot_column_t column = {0};
    hid_t dataset               = pl_inside_object(inside, path, H5I_DATASET);
    pl_status_t status;

    if (dataset < 0) {
        return pl_inside_refuse(inside, path,
                                "is missing, or is no column; every %s has it",
                                pl_inside_noun(inside));
    }
    if (!has_item_type(dataset, item)) {
        status = pl_inside_refuse(inside, path, "has another type; expected %s",
                                  type_name(item));
        goto close_dataset;
    }
    if (!pl_inside_is_plain(dataset)) {
        status = pl_inside_refuse(inside, path,
                                  "its bytes lie in other files or are "
                                  "packed in a way no snapshot is");
        goto close_dataset;
    }
    PL_TRY_GOTO(status,
                pl_inside_shape(inside, path, dataset, rows, columns, &column),
                close_dataset);
    PL_TRY_GOTO(status,
                pl_inside_check_size(inside, path, dataset,
                                     pl_item_bytes(item, 0), &column),
                close_dataset);
    PL_TRY_GOTO(status, read_items(inside, path, dataset, item, &column),
                close_dataset);
    *column_p = column;

close_dataset:
    (void)H5Dclose(dataset);
    return status;
}
