/* Attributes of a snapshot: type and size are checked before they are read. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/reader_inside.h"

enum { LONGEST_TEXT = 65536 };

/* "/layout/page_tokens" for messages. */
static void name_of(const char *group, const char *name, char *text, size_t n)
{
    (void)snprintf(text, n, "%s%s%s", group, strcmp(group, "/") == 0 ? "" : "/",
                   name);
}

static hid_t open_attribute(hid_t object, const char *name)
{
    return H5Aexists(object, name) > 0 ? H5Aopen(object, name, H5P_DEFAULT)
                                       : -1;
}

/* -1: not simple and of at most one dimension. */
static int64_t items_of(hid_t attribute)
{
    hid_t space = H5Aget_space(attribute);
    int64_t n   = -1;

    if (space >= 0) {
        if (H5Sget_simple_extent_ndims(space) <= 1) {
            n = H5Sget_simple_extent_npoints(space);
        }
        (void)H5Sclose(space);
    }
    return n;
}

static bool is_integer(hid_t type)
{
    return (H5Tget_class(type) == H5T_INTEGER) && (H5Tget_size(type) <= 8);
}

static bool is_text(hid_t type)
{
    return (H5Tget_class(type) == H5T_STRING) &&
           (H5Tis_variable_str(type) == 0) &&
           (H5Tget_size(type) <= LONGEST_TEXT);
}

/* Exactly n integers (0 and 1 both mean one). */
static bool read_integers(hid_t attribute, int n, hid_t memory_type,
                          void *integers)
{
    hid_t type = H5Aget_type(attribute);
    bool good  = (type >= 0) && is_integer(type) &&
                (items_of(attribute) == (n > 0 ? n : 1)) &&
                (H5Aread(attribute, memory_type, integers) >= 0);

    if (type >= 0) {
        (void)H5Tclose(type);
    }
    return good;
}

/* One fixed-length text, of which the caller frees *text_p; PL_ERR_INPUT: it is
 * none, PL_ERR_MEMORY; neither is printed. */
static pl_status_t read_text(hid_t attribute, char **text_p)
{
    hid_t type         = H5Aget_type(attribute);
    pl_status_t status = PL_ERR_INPUT;
    char *text         = NULL;

    if ((type >= 0) && is_text(type) && (items_of(attribute) == 1)) {
        text   = calloc(H5Tget_size(type) + 1, 1);
        status = text == NULL                         ? PL_ERR_MEMORY
                 : H5Aread(attribute, type, text) < 0 ? PL_ERR_INPUT
                                                      : PL_OK;
    }
    if (type >= 0) {
        (void)H5Tclose(type);
    }
    if (status != PL_OK) {
        free(text);
        return status;
    }
    *text_p = text;
    return PL_OK;
}

pl_status_t pl_inside_integers(const pl_inside_t *inside, const char *group,
                               const char *name, int n, int64_t *integers)
{
    char object[256];
    hid_t id        = pl_inside_object(inside, group, H5I_GROUP);
    hid_t attribute = id < 0 ? -1 : open_attribute(id, name);
    bool good       = (attribute >= 0) &&
                read_integers(attribute, n, H5T_NATIVE_INT64, integers);

    if (attribute >= 0) {
        (void)H5Aclose(attribute);
    }
    if (id >= 0) {
        (void)H5Oclose(id);
    }
    if (!good) {
        name_of(group, name, object, sizeof(object));
        return pl_inside_refuse(
            inside, object, "is missing, or is not %s; every %s has it",
            n < 2 ? "a whole number" : "two numbers", pl_inside_noun(inside));
    }
    return PL_OK;
}

pl_status_t pl_inside_integer(const pl_inside_t *inside, const char *group,
                              const char *name, int64_t min, int64_t max,
                              int64_t *value_p)
{
    char object[256];
    int64_t value = 0;

    PL_TRY(pl_inside_integers(inside, group, name, 0, &value));
    if ((value < min) || (value > max)) {
        name_of(group, name, object, sizeof(object));
        return pl_inside_refuse(inside, object,
                                "%" PRId64 " is out of range; expected "
                                "%" PRId64 " to %" PRId64,
                                value, min, max);
    }
    *value_p = value;
    return PL_OK;
}

pl_status_t pl_inside_digest(const pl_inside_t *inside, const char *path,
                             hid_t dataset, uint64_t *digest_p)
{
    hid_t attribute = open_attribute(dataset, "xxh3_64");
    uint64_t digest = 0;
    bool good       = (attribute >= 0) &&
                read_integers(attribute, 0, H5T_NATIVE_UINT64, &digest);

    if (attribute >= 0) {
        (void)H5Aclose(attribute);
    }
    if (!good) {
        return pl_inside_refuse(inside, path,
                                "the digest beside it (xxh3_64) is no number");
    }
    *digest_p = digest;
    return PL_OK;
}

/* A group, or a dataset. */
static hid_t open_holder(const pl_inside_t *inside, const char *path)
{
    hid_t id = pl_inside_object(inside, path, H5I_GROUP);

    return id >= 0 ? id : pl_inside_object(inside, path, H5I_DATASET);
}

pl_status_t pl_inside_text(const pl_inside_t *inside, const char *group,
                           const char *name, char **text_p)
{
    char object[256];
    hid_t id        = open_holder(inside, group);
    hid_t attribute = id < 0 ? -1 : open_attribute(id, name);
    pl_status_t status =
        attribute < 0 ? PL_ERR_INPUT : read_text(attribute, text_p);

    if (attribute >= 0) {
        (void)H5Aclose(attribute);
    }
    if (id >= 0) {
        (void)H5Oclose(id);
    }
    if (status == PL_OK) {
        return PL_OK;
    }
    name_of(group, name, object, sizeof(object));
    return status == PL_ERR_MEMORY
               ? pl_inside_no_memory(inside, object)
               : pl_inside_refuse(inside, object,
                                  "is missing, or is no text; is this a %s?",
                                  pl_inside_noun(inside));
}

/* ---- all of a group ---- */

typedef struct walk {
    const pl_inside_t *inside;
    const char *group;
    pl_snapshot_visit_t visit;
    void *context;
    pl_status_t status;
} walk_t;

static pl_status_t show(walk_t *walk, const char *name, hid_t attribute)
{
    char number[32];
    char object[256];
    int64_t integer    = 0;
    char *text         = NULL;
    pl_status_t status = read_text(attribute, &text);

    name_of(walk->group, name, object, sizeof(object));
    if (status == PL_OK) {
        status = walk->visit(walk->context, name, text, false);
        free(text);
        return status;
    }
    if (status == PL_ERR_MEMORY) {
        return pl_inside_no_memory(walk->inside, object);
    }
    if (read_integers(attribute, 0, H5T_NATIVE_INT64, &integer)) {
        (void)snprintf(number, sizeof(number), "%" PRId64, integer);
        return walk->visit(walk->context, name, number, true);
    }
    return pl_inside_refuse(walk->inside, object,
                            "is neither a number nor a text");
}

static herr_t step(hid_t object, const char *name, const H5A_info_t *about,
                   void *context)
{
    walk_t *walk    = context;
    hid_t attribute = open_attribute(object, name);

    (void)about;
    if (attribute < 0) {
        walk->status = pl_inside_refuse(walk->inside, walk->group,
                                        "what stands beside it cannot be read");
        return -1;
    }
    walk->status = show(walk, name, attribute);
    (void)H5Aclose(attribute);
    return walk->status == PL_OK ? 0 : -1;
}

pl_status_t pl_inside_attributes(const pl_inside_t *inside, const char *group,
                                 pl_snapshot_visit_t visit, void *context)
{
    walk_t walk = {inside, group, visit, context, PL_OK};
    hid_t id    = pl_inside_object(inside, group, H5I_GROUP);
    hsize_t at  = 0;
    herr_t failed;

    if (id < 0) {
        return pl_inside_refuse(inside, group, "is missing; every %s has it",
                                pl_inside_noun(inside));
    }
    failed = H5Aiterate2(id, H5_INDEX_NAME, H5_ITER_INC, &at, step, &walk);
    (void)H5Oclose(id);
    if ((failed < 0) && (walk.status == PL_OK)) {
        return pl_inside_refuse(inside, group,
                                "what stands beside it cannot be read");
    }
    return walk.status;
}
