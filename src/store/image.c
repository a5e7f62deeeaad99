#include "store/image.h"

#include <stdlib.h>

#include "base/hash.h"

enum { GROW_BYTES = 8 << 20 };

/* ---- structure ---- */

/* A place of its own from the start; nobody reads what was not written. */
static herr_t lay_in_one_piece(hid_t list)
{
    return (H5Pset_layout(list, H5D_CONTIGUOUS) < 0) ||
                   (H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY) < 0)
               ? -1
               : 0;
}

static herr_t lay_in_chunks(hid_t list, const pl_dataset_t *dataset)
{
    hsize_t rows[2] = {pl_dataset_chunk_rows(dataset), dataset->dims[1]};

    if ((H5Pset_chunk(list, dataset->n_dims, rows) < 0) ||
        ((pl_item_bytes(dataset->item, 0) > 1) && (H5Pset_shuffle(list) < 0))) {
        return -1;
    }
    return H5Pset_deflate(list, PL_PACK_LEVEL);
}

static hid_t create_list(const pl_dataset_t *dataset)
{
    hid_t list    = H5Pcreate(H5P_DATASET_CREATE);
    herr_t failed = -1;

    if ((list >= 0) && (H5Pset_obj_track_times(list, false) >= 0) &&
        (H5Pset_fill_time(list, H5D_FILL_TIME_NEVER) >= 0)) {
        failed = pl_dataset_chunk_rows(dataset) > 0
                     ? lay_in_chunks(list, dataset)
                     : lay_in_one_piece(list);
    }
    if ((failed < 0) && (list >= 0)) {
        (void)H5Pclose(list);
        return -1;
    }
    return list;
}

static herr_t describe(hid_t id, const pl_dataset_t *dataset)
{
    uint64_t digest = pl_hash64(dataset->data, pl_dataset_bytes(dataset), 0);

    if ((pl_h5_put_text(id, "unit", dataset->unit) < 0) ||
        (pl_h5_put_text(id, "description", dataset->description) < 0) ||
        (pl_h5_put_labels(id, dataset->labels, dataset->n_dims) < 0)) {
        return -1;
    }
    return pl_h5_put_unsigned(id, "xxh3_64", digest);
}

/* The chunks of dataset d, from chunk *next_p on. */
static herr_t write_chunks(hid_t id, const pl_pack_t *pack, size_t d,
                           size_t *next_p)
{
    const pl_dataset_t *dataset = &pack->content->datasets.items[d];
    bool shuffles               = pl_item_bytes(dataset->item, 0) > 1;
    uint32_t no_deflate         = shuffles ? 2 : 1; /* bit of the filter */

    while ((*next_p < pack->chunks.n) &&
           (pack->chunks.items[*next_p].dataset == d)) {
        const pl_packed_chunk_t *chunk = &pack->chunks.items[*next_p];
        hsize_t place[2]               = {chunk->first_row, 0};

        if (H5Dwrite_chunk(id, H5P_DEFAULT, chunk->is_deflated ? 0 : no_deflate,
                           place, chunk->n, chunk->bytes) < 0) {
            return -1;
        }
        ++*next_p;
    }
    return 0;
}

static herr_t write_data(hid_t id, const pl_dataset_t *dataset)
{
    hid_t type    = pl_h5_memory_type(dataset->item, dataset->text_bytes);
    herr_t failed = -1;

    if (type >= 0) {
        failed =
            H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, dataset->data);
        (void)H5Tclose(type);
    }
    return failed;
}

static hid_t open_dataset(hid_t file, const pl_dataset_t *dataset)
{
    hsize_t dims[2] = {dataset->dims[0], dataset->dims[1]};
    hid_t type      = pl_h5_file_type(dataset->item, dataset->text_bytes);
    hid_t space     = H5Screate_simple(dataset->n_dims, dims, NULL);
    hid_t list      = create_list(dataset);
    hid_t id        = -1;

    if ((type >= 0) && (space >= 0) && (list >= 0)) {
        id = H5Dcreate2(file, dataset->path, type, space, H5P_DEFAULT, list,
                        H5P_DEFAULT);
    }
    if (list >= 0) {
        (void)H5Pclose(list);
    }
    if (space >= 0) {
        (void)H5Sclose(space);
    }
    if (type >= 0) {
        (void)H5Tclose(type);
    }
    return id;
}

/* Where its bytes lie. */
static herr_t find_place(hid_t id, const pl_dataset_t *dataset,
                         pl_file_range_t *place_p)
{
    haddr_t place = H5Dget_offset(id);

    place_p->first = (uint64_t)place;
    place_p->n     = pl_dataset_bytes(dataset);
    return place == HADDR_UNDEF ? -1 : 0;
}

/* Dataset d; *next_p: the first chunk that is not written yet.  An empty one
 * lies nowhere and is never written. */
static herr_t create_dataset(hid_t file, const pl_pack_t *pack, size_t d,
                             size_t *next_p, pl_image_t *image)
{
    const pl_dataset_t *dataset = &pack->content->datasets.items[d];
    hid_t id                    = open_dataset(file, dataset);
    herr_t failed               = -1;

    if (id < 0) {
        return -1;
    }
    failed = describe(id, dataset);
    if ((failed >= 0) && (pl_dataset_chunk_rows(dataset) > 0)) {
        failed = write_chunks(id, pack, d, next_p);
    } else if ((failed >= 0) && (pl_dataset_bytes(dataset) > 0)) {
        failed = write_data(id, dataset);
        if ((failed >= 0) && (dataset->writer != PL_REPLICATED)) {
            failed = find_place(id, dataset, &image->raw[image->n_raw++]);
        }
    }
    return H5Dclose(id) < 0 ? -1 : failed;
}

static herr_t create_group(hid_t file, const char *path)
{
    hid_t list    = H5Pcreate(H5P_GROUP_CREATE);
    herr_t failed = -1;
    hid_t id      = -1;

    if ((list >= 0) && (H5Pset_obj_track_times(list, false) >= 0)) {
        id = H5Gcreate2(file, path, H5P_DEFAULT, list, H5P_DEFAULT);
    }
    if (id >= 0) {
        failed = H5Gclose(id);
    }
    if (list >= 0) {
        (void)H5Pclose(list);
    }
    return failed;
}

static herr_t create_attribute(hid_t file, const pl_attribute_t *attribute)
{
    hid_t group   = H5Gopen2(file, attribute->group, H5P_DEFAULT);
    herr_t failed = -1;

    if (group >= 0) {
        failed = attribute->text != NULL
                     ? pl_h5_put_text(group, attribute->name, attribute->text)
                     : pl_h5_put_integers(group, attribute->name,
                                          attribute->integers,
                                          attribute->n_integers);
        failed = H5Gclose(group) < 0 ? -1 : failed;
    }
    return failed;
}

static herr_t fill(hid_t file, const pl_pack_t *pack, pl_image_t *image)
{
    const pl_content_t *content = pack->content;
    size_t next                 = 0;

    for (size_t i = 0; i < content->groups.n; i++) {
        if (create_group(file, content->groups.items[i]) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < content->attributes.n; i++) {
        if (create_attribute(file, &content->attributes.items[i]) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < content->datasets.n; i++) {
        if (create_dataset(file, pack, i, &next, image) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- from HDF5's memory to ours ---- */

static hid_t create_file(const char *name)
{
    hid_t create = H5Pcreate(H5P_FILE_CREATE);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    hid_t file   = -1;

    if ((create >= 0) && (access >= 0) &&
        (H5Pset_obj_track_times(create, false) >= 0) &&
        (H5Pset_fapl_core(access, GROW_BYTES, false) >= 0)) {
        file = H5Fcreate(name, H5F_ACC_TRUNC, create, access);
    }
    if (access >= 0) {
        (void)H5Pclose(access);
    }
    if (create >= 0) {
        (void)H5Pclose(create);
    }
    return file;
}

static pl_status_t hdf5_refuses(const pl_log_t *log, const char *name)
{
    char reason[256];

    pl_h5_reason(reason, sizeof(reason));
    pl_log(log, PL_LOG_ERROR, "HDF5 cannot make %s in memory: %s", name,
           reason);
    return PL_ERR_INTERNAL;
}

static pl_status_t no_memory(const pl_log_t *log, const char *name, size_t n)
{
    pl_log(log, PL_LOG_ERROR, "%s: out of memory, %zu bytes", name, n);
    return PL_ERR_MEMORY;
}

static pl_status_t copy_out(hid_t file, const char *name, const pl_log_t *log,
                            pl_image_t *image)
{
    ssize_t n = -1;

    if (H5Fflush(file, H5F_SCOPE_LOCAL) >= 0) {
        n = H5Fget_file_image(file, NULL, 0);
    }
    if (n <= 0) {
        return hdf5_refuses(log, name);
    }
    image->n     = (uint64_t)n;
    image->bytes = malloc((size_t)n);
    if (image->bytes == NULL) {
        return no_memory(log, name, (size_t)n);
    }
    return H5Fget_file_image(file, image->bytes, (size_t)n) == n
               ? PL_OK
               : hdf5_refuses(log, name);
}

static int by_place(const void *a, const void *b)
{
    const pl_file_range_t *x = a;
    const pl_file_range_t *y = b;

    return (x->first > y->first) - (x->first < y->first);
}

pl_status_t pl_image_make(const pl_pack_t *pack, const char *name,
                          const pl_log_t *log, pl_image_t *image_p)
{
    pl_image_t image = {0};
    hid_t file       = create_file(name);
    pl_status_t status;

    image.raw = calloc(pack->content->datasets.n + 1, sizeof(*image.raw));
    if (image.raw == NULL) {
        status = no_memory(log, name,
                           pack->content->datasets.n * sizeof(*image.raw));
    } else if ((file < 0) || (fill(file, pack, &image) < 0)) {
        status = hdf5_refuses(log, name);
    } else {
        status = copy_out(file, name, log, &image);
    }
    if (file >= 0) {
        (void)H5Fclose(file);
    }
    if (status != PL_OK) {
        pl_image_free(&image);
        return status;
    }
    qsort(image.raw, image.n_raw, sizeof(*image.raw), by_place);
    *image_p = image;
    return PL_OK;
}

void pl_image_free(pl_image_t *image)
{
    free(image->bytes);
    free(image->raw);
    *image = (pl_image_t){0};
}
