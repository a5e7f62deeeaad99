#define _XOPEN_SOURCE 700 /* recursive mutexes */
#include "store/h5.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* HDF5 has one state for the whole process, and so has this lock of it. */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t one_at_a_time;

static void make_lock(void)
{
    pthread_mutexattr_t kind;

    (void)pthread_mutexattr_init(&kind);
    (void)pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&one_at_a_time, &kind);
    (void)pthread_mutexattr_destroy(&kind);
}

pl_h5_quiet_t pl_h5_quiet(void)
{
    pl_h5_quiet_t quiet = {NULL, NULL};

    (void)pthread_once(&once, make_lock);
    (void)pthread_mutex_lock(&one_at_a_time);
    (void)H5Eget_auto2(H5E_DEFAULT, &quiet.print, &quiet.context);
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return quiet;
}

void pl_h5_loud(pl_h5_quiet_t quiet)
{
    (void)H5Eset_auto2(H5E_DEFAULT, quiet.print, quiet.context);
    (void)pthread_mutex_unlock(&one_at_a_time);
}

typedef struct reason {
    char *text;
    size_t n;
} reason_t;

/* Upward, the first record is where it began. */
static herr_t take_reason(unsigned n, const H5E_error2_t *error, void *context)
{
    reason_t *reason = context;

    if ((n == 0) && (error->desc != NULL)) {
        (void)snprintf(reason->text, reason->n, "%s", error->desc);
    }
    return 0;
}

void pl_h5_reason(char *text, size_t n)
{
    reason_t reason = {text, n};

    (void)snprintf(text, n, "HDF5 gives no reason");
    (void)H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take_reason, &reason);
}

pl_status_t pl_h5_failed(const pl_log_t *log, const char *what,
                         const char *file)
{
    char reason[256];

    pl_h5_reason(reason, sizeof(reason));
    pl_log(log, PL_LOG_ERROR, "cannot %s %s: %s", what, file, reason);
    return PL_ERR_IO;
}

/* ---- types ---- */

static hid_t text_type(size_t bytes)
{
    hid_t type = H5Tcopy(H5T_C_S1);

    if ((type >= 0) && (H5Tset_size(type, bytes) < 0)) {
        (void)H5Tclose(type);
        return -1;
    }
    return type;
}

hid_t pl_h5_file_type(pl_item_t item, size_t text_bytes)
{
    switch (item) {
    case PL_ITEM_I8:
        return H5Tcopy(H5T_STD_I8LE);
    case PL_ITEM_U8:
        return H5Tcopy(H5T_STD_U8LE);
    case PL_ITEM_I32:
        return H5Tcopy(H5T_STD_I32LE);
    case PL_ITEM_U32:
        return H5Tcopy(H5T_STD_U32LE);
    case PL_ITEM_I64:
        return H5Tcopy(H5T_STD_I64LE);
    case PL_ITEM_U64:
        return H5Tcopy(H5T_STD_U64LE);
    case PL_ITEM_TEXT:
        break;
    }
    return text_type(text_bytes);
}

hid_t pl_h5_memory_type(pl_item_t item, size_t text_bytes)
{
    switch (item) {
    case PL_ITEM_I8:
        return H5Tcopy(H5T_NATIVE_INT8);
    case PL_ITEM_U8:
        return H5Tcopy(H5T_NATIVE_UINT8);
    case PL_ITEM_I32:
        return H5Tcopy(H5T_NATIVE_INT32);
    case PL_ITEM_U32:
        return H5Tcopy(H5T_NATIVE_UINT32);
    case PL_ITEM_I64:
        return H5Tcopy(H5T_NATIVE_INT64);
    case PL_ITEM_U64:
        return H5Tcopy(H5T_NATIVE_UINT64);
    case PL_ITEM_TEXT:
        break;
    }
    return text_type(text_bytes);
}

/* ---- attributes ---- */

static herr_t put(hid_t object, const char *name, hid_t file_type,
                  hid_t memory_type, hid_t space, const void *value)
{
    hid_t attribute =
        H5Acreate2(object, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT);
    herr_t failed = -1;

    if (attribute >= 0) {
        failed = H5Awrite(attribute, memory_type, value);
        if (H5Aclose(attribute) < 0) {
            failed = -1;
        }
    }
    return failed;
}

static hid_t space_of(int n)
{
    hsize_t dims = (hsize_t)n;

    return n == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &dims, NULL);
}

herr_t pl_h5_put_text(hid_t object, const char *name, const char *text)
{
    hid_t type    = text_type(strlen(text) + 1);
    hid_t space   = space_of(0);
    herr_t failed = -1;

    if ((type >= 0) && (space >= 0)) {
        failed = put(object, name, type, type, space, text);
    }
    if (space >= 0) {
        (void)H5Sclose(space);
    }
    if (type >= 0) {
        (void)H5Tclose(type);
    }
    return failed;
}

herr_t pl_h5_put_integers(hid_t object, const char *name,
                          const int64_t *integers, int n)
{
    hid_t space   = space_of(n);
    herr_t failed = -1;

    if (space >= 0) {
        failed =
            put(object, name, H5T_STD_I64LE, H5T_NATIVE_INT64, space, integers);
        (void)H5Sclose(space);
    }
    return failed;
}

herr_t pl_h5_put_unsigned(hid_t object, const char *name, uint64_t value)
{
    hid_t space   = space_of(0);
    herr_t failed = -1;

    if (space >= 0) {
        failed =
            put(object, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, space, &value);
        (void)H5Sclose(space);
    }
    return failed;
}

herr_t pl_h5_put_labels(hid_t dataset, const char *const *labels, int n)
{
    hid_t type    = text_type(H5T_VARIABLE);
    hid_t space   = space_of(n);
    herr_t failed = -1;

    if ((type >= 0) && (space >= 0)) {
        failed = put(dataset, "DIMENSION_LABELS", type, type, space, labels);
    }
    if (space >= 0) {
        (void)H5Sclose(space);
    }
    if (type >= 0) {
        (void)H5Tclose(type);
    }
    return failed;
}
