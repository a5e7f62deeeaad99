#include "store/h5_sparse.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 4096 };

/* ---- blocks ---- */

/* The next piece of [at, at + n) that lies in one block. */
static size_t piece_of(uint64_t at, size_t n)
{
    size_t room = BLOCK_BYTES - (size_t)(at % BLOCK_BYTES);

    return n < room ? n : room;
}

void pl_h5_sparse_read(const pl_h5_sparse_t *sparse, uint64_t at, size_t n,
                       void *bytes)
{
    uint8_t *to = bytes;

    while (n > 0) {
        size_t some  = piece_of(at, n);
        size_t block = (size_t)(at / BLOCK_BYTES);

        if ((block < sparse->blocks.n) &&
            (sparse->blocks.items[block] != NULL)) {
            memcpy(to, sparse->blocks.items[block] + at % BLOCK_BYTES, some);
        } else {
            memset(to, 0, some);
        }
        to += some;
        at += some;
        n -= some;
    }
}

/* The block's bytes, made if they are not there; NULL: out of memory. */
static uint8_t *block_of(pl_h5_sparse_t *sparse, size_t block)
{
    while (sparse->blocks.n <= block) {
        if (PL_ARRAY_PUSH(&sparse->blocks, NULL) != PL_OK) {
            return NULL;
        }
    }
    if (sparse->blocks.items[block] == NULL) {
        sparse->blocks.items[block] = calloc(1, BLOCK_BYTES);
    }
    return sparse->blocks.items[block];
}

static void write_bytes(pl_h5_sparse_t *sparse, uint64_t at, size_t n,
                        const uint8_t *from)
{
    while (n > 0) {
        size_t some    = piece_of(at, n);
        uint8_t *block = block_of(sparse, (size_t)(at / BLOCK_BYTES));

        if (block == NULL) {
            sparse->is_short = true;
            return;
        }
        memcpy(block + at % BLOCK_BYTES, from, some);
        from += some;
        at += some;
        n -= some;
    }
}

void pl_h5_sparse_free(pl_h5_sparse_t *sparse)
{
    for (size_t i = 0; i < sparse->blocks.n; i++) {
        free(sparse->blocks.items[i]);
    }
    PL_ARRAY_FREE(&sparse->blocks);
    sparse->n = 0;
}

/* ---- as HDF5 wants it ---- */

typedef struct sparse_file {
    H5FD_t hdf5; /* first */
    pl_h5_sparse_t *sparse;
} sparse_file_t;

/* What goes with a file access list. */
typedef struct info {
    pl_h5_sparse_t *sparse;
} info_t;

static pl_h5_sparse_t *sparse_of(const H5FD_t *file)
{
    return ((const sparse_file_t *)file)->sparse;
}

static H5FD_t *open_it(const char *name, unsigned flags, hid_t list,
                       haddr_t most)
{
    const info_t *info  = H5Pget_driver_info(list);
    sparse_file_t *file = calloc(1, sizeof(*file));

    (void)name;
    (void)flags;
    (void)most;
    if ((file == NULL) || (info == NULL)) {
        free(file);
        return NULL;
    }
    file->sparse = info->sparse;
    return &file->hdf5;
}

static herr_t close_it(H5FD_t *file)
{
    free(file);
    return 0;
}

static herr_t query(const H5FD_t *file, unsigned long *flags)
{
    (void)file;
    *flags = H5FD_FEAT_AGGREGATE_METADATA;
    return 0;
}

static haddr_t get_end(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return (haddr_t)sparse_of(file)->n;
}

static herr_t set_end(H5FD_t *file, H5FD_mem_t type, haddr_t end)
{
    (void)type;
    sparse_of(file)->n = (uint64_t)end;
    return 0;
}

static herr_t read_it(H5FD_t *file, H5FD_mem_t type, hid_t list, haddr_t at,
                      size_t n, void *bytes)
{
    (void)type;
    (void)list;
    pl_h5_sparse_read(sparse_of(file), (uint64_t)at, n, bytes);
    return 0;
}

static herr_t write_it(H5FD_t *file, H5FD_mem_t type, hid_t list, haddr_t at,
                       size_t n, const void *bytes)
{
    (void)type;
    (void)list;
    write_bytes(sparse_of(file), (uint64_t)at, n, bytes);
    return 0;
}

static const H5FD_class_t DRIVER = {
#ifdef H5FD_CLASS_VERSION
    .version = H5FD_CLASS_VERSION,
    .value   = H5_VFD_RESERVED,
#endif
    .name      = "pagelane_sparse",
    .maxaddr   = (haddr_t)INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(info_t),
    .open      = open_it,
    .close     = close_it,
    .query     = query,
    .get_eoa   = get_end,
    .set_eoa   = set_end,
    .get_eof   = get_end,
    .read      = read_it,
    .write     = write_it,
    .fl_map    = H5FD_FLMAP_SINGLE,
};

herr_t pl_h5_sparse_use(hid_t list, pl_h5_sparse_t *sparse)
{
    const info_t info = {sparse};
    hid_t driver      = H5FDregister(&DRIVER);
    herr_t failed     = driver < 0 ? -1 : H5Pset_driver(list, driver, &info);

    if (driver >= 0) {
        (void)H5FDunregister(driver); /* the list and the file hold it */
    }
    return failed;
}
