/* The skeleton of a segment, made by HDF5 in memory. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/h5.h"
#include "store/h5_sparse.h"
#include "store/segment.h"

/* Stands for `number` until a segment has one: no other eight bytes of a
 * skeleton are these. */
#define NUMBER_MARK INT64_C(0x6C616E655E706167)

enum { LEAST_ALIGNED = 16384 };

uint64_t pl_tier_identity_hash(const pl_tier_identity_t *identity)
{
    const char *texts[] = {identity->model, identity->tokens, identity->dtype};
    uint64_t h          = (uint64_t)identity->page_tokens;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        h = pl_fold64(h, pl_hash64(texts[i], strlen(texts[i]), i));
    }
    h = pl_fold64(h, (uint64_t)identity->n_layers);
    h = pl_fold64(h, (uint64_t)identity->page_bytes);
    return pl_fold64(h, identity->layout);
}

/* ---- what stands in it ---- */

static herr_t put_attributes(hid_t file, const pl_tier_identity_t *identity,
                             const pl_segment_form_t *form)
{
    const int64_t version[2] = {PL_SEGMENT_MAJOR, 0};
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"set", form->name.set},
        {"rank", form->name.rank},
        {"number", NUMBER_MARK},
        {"slots", form->slots},
        {"page_bytes", identity->page_bytes},
        {"page_tokens", identity->page_tokens},
        {"n_layers", identity->n_layers},
        {"latent_row_bytes", identity->latent_row_bytes},
        {"index_key_bytes", identity->index_key_bytes},
        {"index_scale_bytes", identity->index_scale_bytes},
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (pl_h5_put_integers(file, numbers[i].name, &numbers[i].value, 0) <
            0) {
            return -1;
        }
    }
    if ((pl_h5_put_text(file, "format", PL_SEGMENT_FORMAT) < 0) ||
        (pl_h5_put_integers(file, "schema_version", version, 2) < 0) ||
        (pl_h5_put_text(file, "model", identity->model) < 0) ||
        (pl_h5_put_text(file, "tokens", identity->tokens) < 0) ||
        (pl_h5_put_text(file, "dtype", identity->dtype) < 0)) {
        return -1;
    }
    return pl_h5_put_unsigned(file, "identity", form->identity);
}

static hid_t header_type(void)
{
    hid_t type = H5Tcreate(H5T_COMPOUND, PL_HEADER_BYTES);

    if ((type >= 0) && ((H5Tinsert(type, "stamp", 0, H5T_STD_I64LE) < 0) ||
                        (H5Tinsert(type, "chain", 8, H5T_STD_U64LE) < 0) ||
                        (H5Tinsert(type, "digest", 16, H5T_STD_U64LE) < 0))) {
        (void)H5Tclose(type);
        return -1;
    }
    return type;
}

/* In one piece, with its place from the start, and no times. */
static hid_t one_piece(void)
{
    hid_t list = H5Pcreate(H5P_DATASET_CREATE);

    if ((list >= 0) && ((H5Pset_obj_track_times(list, false) < 0) ||
                        (H5Pset_layout(list, H5D_CONTIGUOUS) < 0) ||
                        (H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY) < 0) ||
                        (H5Pset_fill_time(list, H5D_FILL_TIME_NEVER) < 0))) {
        (void)H5Pclose(list);
        return -1;
    }
    return list;
}

/* Takes `type` over.  *place_p: where its bytes lie in the file. */
static herr_t add_dataset(hid_t file, const char *name, hid_t type, int n_dims,
                          const hsize_t *dims, const char *description,
                          uint64_t *place_p)
{
    static const char *const LABELS[] = {"slot", "byte"};
    hid_t space                       = H5Screate_simple(n_dims, dims, NULL);
    hid_t list                        = one_piece();
    hid_t id                          = -1;
    haddr_t place                     = HADDR_UNDEF;
    herr_t failed                     = -1;

    if ((type >= 0) && (space >= 0) && (list >= 0)) {
        id =
            H5Dcreate2(file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
    }
    if (id >= 0) {
        place = H5Dget_offset(id);
        if ((place != HADDR_UNDEF) && (pl_h5_put_text(id, "unit", "1") >= 0) &&
            (pl_h5_put_text(id, "description", description) >= 0) &&
            (pl_h5_put_labels(id, LABELS, n_dims) >= 0)) {
            failed = 0;
        }
        failed = H5Dclose(id) < 0 ? -1 : failed;
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
    *place_p = (uint64_t)place;
    return failed;
}

static herr_t fill(hid_t file, const pl_tier_identity_t *identity,
                   pl_segment_form_t *form)
{
    hsize_t dims[2] = {(hsize_t)form->slots, (hsize_t)form->page_bytes};

    if ((put_attributes(file, identity, form) < 0) ||
        (add_dataset(file, "headers", header_type(), 1, dims,
                     "of the page in each slot: which write made it, of which "
                     "prefix, and the digest of its rows; a stamp of 0: none",
                     &form->headers_at) < 0)) {
        return -1;
    }
    return add_dataset(file, "pages", H5Tcopy(H5T_STD_U8LE), 2, dims,
                       "the latent pages of all layers, then the index pages",
                       &form->pages_at);
}

/* ---- from HDF5's memory to ours ---- */

static hid_t create_file(pl_h5_sparse_t *sparse)
{
    hid_t create = H5Pcreate(H5P_FILE_CREATE);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    hid_t file   = -1;

    if ((create >= 0) && (access >= 0) &&
        (H5Pset_obj_track_times(create, false) >= 0) &&
        (H5Pset_userblock(create, PL_SEGMENT_BLOCK) >= 0) &&
        (H5Pset_alignment(access, LEAST_ALIGNED, PL_SEGMENT_BLOCK) >= 0) &&
        (pl_h5_sparse_use(access, sparse) >= 0)) {
        file = H5Fcreate("segment", H5F_ACC_TRUNC, create, access);
    }
    if (access >= 0) {
        (void)H5Pclose(access);
    }
    if (create >= 0) {
        (void)H5Pclose(create);
    }
    return file;
}

static pl_status_t copy_gap(const pl_h5_sparse_t *sparse, uint64_t first,
                            uint64_t end, int i, pl_segment_mould_t *mould)
{
    size_t n       = (size_t)(end - first);
    uint8_t *bytes = malloc(n > 0 ? n : 1);

    if (bytes == NULL) {
        return PL_ERR_MEMORY;
    }
    pl_h5_sparse_read(sparse, first, n, bytes);
    mould->pieces[i].at    = first;
    mould->pieces[i].n     = n;
    mould->pieces[i].bytes = bytes;
    return PL_OK;
}

/* Everything but block, headers and pages (which lie in this order). */
static pl_status_t copy_gaps(const pl_h5_sparse_t *sparse,
                             pl_segment_mould_t *mould)
{
    const pl_segment_form_t *form = &mould->form;
    uint64_t slots                = (uint64_t)form->slots;
    uint64_t headers_end          = form->headers_at + slots * PL_HEADER_BYTES;
    uint64_t pages_end = form->pages_at + slots * (uint64_t)form->page_bytes;

    if ((form->headers_at < PL_SEGMENT_BLOCK) ||
        (form->pages_at < headers_end) || (form->bytes < pages_end)) {
        return PL_ERR_INTERNAL;
    }
    PL_TRY(copy_gap(sparse, PL_SEGMENT_BLOCK, form->headers_at, 0, mould));
    PL_TRY(copy_gap(sparse, headers_end, form->pages_at, 1, mould));
    return copy_gap(sparse, pages_end, form->bytes, 2, mould);
}

static pl_status_t find_number(pl_segment_mould_t *mould)
{
    const int64_t mark = NUMBER_MARK;
    uint8_t bytes[8];
    int n = 0;

    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)((uint64_t)mark >> (8 * i));
    }
    for (int i = 0; i < 3; i++) {
        for (size_t at = 0; at + 8 <= mould->pieces[i].n; at++) {
            if (memcmp(mould->pieces[i].bytes + at, bytes, 8) == 0) {
                mould->number = mould->pieces[i].bytes + at;
                n++;
            }
        }
    }
    return n == 1 ? PL_OK : PL_ERR_INTERNAL;
}

/* Right after HDF5 failed; of memory make() speaks. */
static void say_why(const pl_h5_sparse_t *sparse, const pl_log_t *log)
{
    if (!sparse->is_short) {
        (void)pl_h5_failed(log, "make in memory", "a segment");
    }
}

static pl_status_t make(const pl_tier_identity_t *identity,
                        pl_h5_sparse_t *sparse, pl_segment_mould_t *mould,
                        const pl_log_t *log)
{
    hid_t file    = create_file(sparse);
    herr_t failed = file < 0 ? -1 : fill(file, identity, &mould->form);
    pl_status_t status;

    if (failed < 0) {
        say_why(sparse, log);
    }
    if ((file >= 0) && (H5Fclose(file) < 0) && (failed >= 0)) {
        say_why(sparse, log);
        failed = -1;
    }
    if ((failed < 0) && !sparse->is_short) {
        return PL_ERR_INTERNAL;
    }
    mould->form.bytes = sparse->n;
    status = sparse->is_short ? PL_ERR_MEMORY : copy_gaps(sparse, mould);
    status = status == PL_OK ? find_number(mould) : status;
    if (status != PL_OK) {
        pl_log(log, PL_LOG_ERROR, "cannot make a segment in memory: %s",
               pl_status_text(status));
    }
    return status;
}

pl_status_t pl_segment_mould_make(const pl_tier_identity_t *identity,
                                  pl_segment_name_t name, int32_t slots,
                                  const pl_log_t *log,
                                  pl_segment_mould_t *mould_p)
{
    pl_segment_mould_t mould = {
        .form = {.name       = name,
                 .slots      = slots,
                 .page_bytes = identity->page_bytes,
                 .identity   = pl_tier_identity_hash(identity)}};
    pl_h5_sparse_t sparse = {0};
    pl_h5_quiet_t quiet   = pl_h5_quiet();
    pl_status_t status    = make(identity, &sparse, &mould, log);

    pl_h5_loud(quiet);
    pl_h5_sparse_free(&sparse);
    if (status != PL_OK) {
        pl_segment_mould_free(&mould);
        return status;
    }
    *mould_p = mould;
    return PL_OK;
}
