/* What stands in a group, and texts. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/reader_inside.h"

/* ---- members ---- */

/* The item that pl_snapshot_read would take; -1: none. */
static int item_of(hid_t type)
{
    static const pl_item_t ITEMS[] = {PL_ITEM_I8,  PL_ITEM_U8,  PL_ITEM_I32,
                                      PL_ITEM_U32, PL_ITEM_I64, PL_ITEM_U64};

    if (H5Tget_class(type) == H5T_STRING) {
        return PL_ITEM_TEXT;
    }
    if (H5Tget_class(type) != H5T_INTEGER) {
        return -1;
    }
    for (size_t i = 0; i < sizeof(ITEMS) / sizeof(ITEMS[0]); i++) {
        bool is_unsigned = (ITEMS[i] == PL_ITEM_U8) ||
                           (ITEMS[i] == PL_ITEM_U32) ||
                           (ITEMS[i] == PL_ITEM_U64);

        if ((H5Tget_size(type) == pl_item_bytes(ITEMS[i], 0)) &&
            ((H5Tget_sign(type) == H5T_SGN_NONE) == is_unsigned)) {
            return (int)ITEMS[i];
        }
    }
    return -1;
}

/* Item and columns of a dataset; false: it is nothing that a inside has. */
static bool describe(hid_t dataset, pl_snapshot_member_t *member)
{
    hid_t type      = H5Dget_type(dataset);
    hid_t space     = H5Dget_space(dataset);
    int n_dims      = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
    int item        = type < 0 ? -1 : item_of(type);
    hsize_t dims[2] = {0, 0};

    if ((n_dims == 1) || (n_dims == 2)) {
        (void)H5Sget_simple_extent_dims(space, dims, NULL);
    }
    if (space >= 0) {
        (void)H5Sclose(space);
    }
    if (type >= 0) {
        (void)H5Tclose(type);
    }
    member->item    = item < 0 ? PL_ITEM_TEXT : (pl_item_t)item;
    member->columns = n_dims == 2 ? (size_t)dims[1] : 0;
    return (item >= 0) && ((n_dims == 1) || ((n_dims == 2) && (dims[1] > 0)));
}

typedef struct walk {
    const pl_inside_t *inside;
    const char *group;
    pl_snapshot_visit_t visit;
    void *context;
    pl_status_t status;
} walk_t;

static pl_status_t show(const walk_t *walk, const char *name)
{
    pl_snapshot_member_t member = {.name = name};
    char path[256];
    char text[64];
    hid_t id;
    bool good = true;

    (void)snprintf(path, sizeof(path), "%s/%s",
                   strcmp(walk->group, "/") == 0 ? "" : walk->group, name);
    id              = pl_inside_object(walk->inside, path, H5I_GROUP);
    member.is_group = id >= 0;
    if (!member.is_group) {
        id   = pl_inside_object(walk->inside, path, H5I_DATASET);
        good = (id >= 0) && describe(id, &member);
    }
    if (id >= 0) {
        (void)H5Oclose(id);
    }
    if (!good) {
        return pl_inside_refuse(walk->inside, path,
                                "is neither a group nor a table's column");
    }
    (void)snprintf(text, sizeof(text), "%d %zu", (int)member.item,
                   member.columns);
    return walk->visit(walk->context, name, member.is_group ? "group" : text,
                       !member.is_group);
}

static herr_t step(hid_t group, const char *name, const H5L_info_t *about,
                   void *context)
{
    walk_t *walk = context;

    (void)group;
    (void)about;
    walk->status = show(walk, name);
    return walk->status == PL_OK ? 0 : -1;
}

pl_status_t pl_inside_members(const pl_inside_t *inside, const char *group,
                              pl_snapshot_visit_t visit, void *context)
{
    walk_t walk = {inside, group, visit, context, PL_OK};
    hid_t id    = pl_inside_object(inside, group, H5I_GROUP);
    hsize_t at  = 0;
    herr_t failed;

    if (id < 0) {
        return pl_inside_refuse(inside, group, "is missing");
    }
    failed = H5Literate(id, H5_INDEX_NAME, H5_ITER_INC, &at, step, &walk);
    (void)H5Oclose(id);
    if ((failed < 0) && (walk.status == PL_OK)) {
        return pl_inside_refuse(inside, group, "cannot be read");
    }
    return walk.status;
}

/* ---- texts ---- */

/* Bytes of a text; 0: these are no texts that a file of ours has. */
static size_t width_of(hid_t dataset)
{
    hid_t type   = H5Dget_type(dataset);
    size_t width = 0;

    if ((type >= 0) && (H5Tget_class(type) == H5T_STRING) &&
        (H5Tis_variable_str(type) == 0) && pl_inside_is_plain(dataset)) {
        width = H5Tget_size(type);
    }
    if (type >= 0) {
        (void)H5Tclose(type);
    }
    return width <= PL_SNAPSHOT_TEXT_BYTES ? width : 0;
}

static pl_status_t read_bytes(const pl_inside_t *inside, const char *path,
                              hid_t dataset, size_t n, size_t width,
                              char *bytes)
{
    hid_t type = pl_h5_memory_type(PL_ITEM_TEXT, width);
    pl_status_t status;

    if ((type < 0) ||
        (H5Dread(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) < 0)) {
        status = pl_inside_refuse(inside, path,
                                  "its bytes cannot be read; the file is "
                                  "damaged");
    } else {
        status =
            pl_inside_check_digest(inside, path, dataset, bytes, n * width);
    }
    if (type >= 0) {
        (void)H5Tclose(type);
    }
    return status;
}

static pl_status_t read_texts(const pl_inside_t *inside, const char *path,
                              hid_t dataset, size_t rows, char **bytes_p,
                              size_t *n_p, size_t *width_p)
{
    pl_snapshot_column_t shape = {0};
    size_t width               = dataset < 0 ? 0 : width_of(dataset);
    pl_status_t status;
    char *bytes;

    if (width == 0) {
        return pl_inside_refuse(inside, path,
                                "is missing, or is no list of texts");
    }
    PL_TRY(pl_inside_shape(inside, path, dataset, rows, 0, &shape));
    if (shape.rows == 0) {
        return pl_inside_refuse(inside, path, "is empty; expected texts");
    }
    PL_TRY(pl_inside_check_size(inside, path, dataset, width, &shape));
    bytes = calloc(shape.rows, width);
    if (bytes == NULL) {
        return pl_inside_no_memory(inside, path);
    }
    status = read_bytes(inside, path, dataset, shape.rows, width, bytes);
    if (status != PL_OK) {
        free(bytes);
        return status;
    }
    *bytes_p = bytes;
    *n_p     = shape.rows;
    *width_p = width;
    return PL_OK;
}

pl_status_t pl_inside_texts(const pl_inside_t *inside, const char *path,
                            size_t rows, char **bytes_p, size_t *n_p,
                            size_t *width_p)
{
    hid_t dataset = pl_inside_object(inside, path, H5I_DATASET);
    pl_status_t status =
        read_texts(inside, path, dataset, rows, bytes_p, n_p, width_p);

    if (dataset >= 0) {
        (void)H5Dclose(dataset);
    }
    return status;
}
