/* An index from a file that may be anything.  Nothing here is handed to HDF5:
 * the contents say where each column lies. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"
#include "pool/store.h"
#include "store/seal.h"
#include "store/segment.h"
#include "store/tier_columns.h"

enum { MOST_RANKS = PL_MAX_RANKS, MOST_LAYERS = 65536, NAME_BYTES = 32 };
#define MOST_STAMP (INT64_MAX / 2)
#define NOT_WHOLE                                                              \
    "its bytes are not those that were written: the index is damaged or not "  \
    "whole"

typedef struct reader {
    const char *path;
    const pl_log_t *log;
    const uint8_t *bytes; /* all of the file */
    size_t n;
    size_t at, end; /* what is left of the contents */
} reader_t;

static pl_status_t refuse(const reader_t *reader, const char *format, ...)
    PL_TEXT_FORMAT(2, 3);

static pl_status_t refuse(const reader_t *reader, const char *format, ...)
{
    char why[256];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    pl_log(reader->log, PL_LOG_ERROR, "%s: %s", reader->path, why);
    return PL_ERR_INPUT;
}

/* ---- the file ---- */

static pl_status_t cannot_read(const reader_t *reader)
{
    pl_log(reader->log, PL_LOG_ERROR, "cannot read %s: %s", reader->path,
           errno == 0 ? "it ends too soon" : strerror(errno));
    return PL_ERR_IO;
}

static pl_status_t read_bytes(reader_t *reader, int fd, size_t n)
{
    uint8_t *bytes     = malloc(n);
    struct iovec piece = {bytes, n};

    if (bytes == NULL) {
        pl_log(reader->log, PL_LOG_ERROR, "%s: out of memory, %zu bytes",
               reader->path, n);
        return PL_ERR_MEMORY;
    }
    reader->bytes = bytes;
    reader->n     = n;
    if (!pl_segment_read(fd, &piece, 1, 0)) {
        return cannot_read(reader);
    }
    return PL_OK;
}

/* Before all of it is read, which may be much: does it end as an index does? */
static pl_status_t read_sealed(reader_t *reader, int fd, uint64_t n)
{
    char seal[PL_SEAL_BYTES];
    struct iovec piece = {seal, sizeof(seal)};

    if (n < PL_SEAL_BYTES) {
        return refuse(reader, "is no index of a storage tier");
    }
    if (!pl_segment_read(fd, &piece, 1, n - PL_SEAL_BYTES)) {
        return cannot_read(reader);
    }
    return pl_seal_fits(seal, n - PL_SEAL_BYTES)
               ? read_bytes(reader, fd, (size_t)n)
               : refuse(reader, NOT_WHOLE);
}

static pl_status_t read_file(reader_t *reader)
{
    int fd = open(reader->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat about;
    pl_status_t status;

    if ((fd < 0) || (fstat(fd, &about) != 0)) {
        status = cannot_read(reader);
        if (fd >= 0) {
            (void)close(fd);
        }
        return status;
    }
    if (!S_ISREG(about.st_mode) || (about.st_size == 0)) {
        status = refuse(reader, "is no index of a storage tier");
    } else {
        status = read_sealed(reader, fd, (uint64_t)about.st_size);
    }
    (void)close(fd);
    return status;
}

/* What was sealed is what is there; then where the contents begin. */
static pl_status_t check_seal(reader_t *reader)
{
    size_t n = reader->n - PL_SEAL_BYTES;
    char seal[PL_SEAL_BYTES];
    char last[PL_TIER_LAST_BYTES + 1] = "";
    uint64_t at                       = 0;

    if (reader->n < PL_SEAL_BYTES + PL_TIER_LAST_BYTES) {
        return refuse(reader, "is no index of a storage tier");
    }
    pl_seal_text(pl_seal_digest(reader->bytes, n), n, seal);
    if (memcmp(seal, reader->bytes + n, PL_SEAL_BYTES) != 0) {
        return refuse(reader, NOT_WHOLE);
    }
    n -= PL_TIER_LAST_BYTES;
    memcpy(last, reader->bytes + n, PL_TIER_LAST_BYTES);
    if ((sscanf(last, "pagelane-contents %20" SCNu64, &at) != 1) || (at > n)) {
        return refuse(reader, "is no index of a storage tier");
    }
    reader->at  = (size_t)at;
    reader->end = n;
    return PL_OK;
}

/* ---- the contents ---- */

/* The next line, "NAME VALUE": the value into value[n].  False: it is not
 * there. */
static bool next_value(reader_t *reader, const char *name, char *value,
                       size_t n)
{
    const char *line = (const char *)reader->bytes + reader->at;
    size_t left      = reader->end - reader->at;
    const char *stop = memchr(line, '\n', left);
    size_t length    = stop == NULL ? 0 : (size_t)(stop - line);
    size_t skip      = strlen(name) + 1;

    if ((stop == NULL) || (length <= skip) || (length - skip >= n) ||
        (memcmp(line, name, skip - 1) != 0) || (line[skip - 1] != ' ')) {
        return false;
    }
    memcpy(value, line + skip, length - skip);
    value[length - skip] = '\0';
    reader->at += length + 1;
    return true;
}

static pl_status_t next_integer(reader_t *reader, const char *name, int64_t min,
                                int64_t max, int64_t *value_p)
{
    char text[NAME_BYTES];
    char *stop    = text;
    int64_t value = 0;

    errno = 0;
    if (next_value(reader, name, text, sizeof(text))) {
        value = strtoll(text, &stop, 10);
    }
    if ((stop == text) || (*stop != '\0') || (errno != 0) || (value < min) ||
        (value > max)) {
        return refuse(reader, "its contents have no good '%s'", name);
    }
    *value_p = value;
    return PL_OK;
}

static pl_status_t next_int32(reader_t *reader, const char *name, int64_t min,
                              int64_t max, int32_t *value_p)
{
    int64_t value = 0;

    PL_TRY(next_integer(reader, name, min, max, &value));
    *value_p = (int32_t)value;
    return PL_OK;
}

static pl_status_t next_hex(reader_t *reader, const char *name,
                            uint64_t *value_p)
{
    char text[NAME_BYTES];
    char *stop = text;

    if (next_value(reader, name, text, sizeof(text))) {
        *value_p = strtoull(text, &stop, 16);
    }
    return (stop == text) || (*stop != '\0')
               ? refuse(reader, "its contents have no good '%s'", name)
               : PL_OK;
}

static pl_status_t no_memory(const reader_t *reader)
{
    pl_log(reader->log, PL_LOG_ERROR, "%s: out of memory", reader->path);
    return PL_ERR_MEMORY;
}

static pl_status_t next_text(reader_t *reader, const char *name, char **text_p)
{
    int64_t n = 0;
    char *text;

    PL_TRY(next_integer(reader, name, 0, 65536, &n));
    if ((size_t)n + 1 > reader->end - reader->at) {
        return refuse(reader, "its contents have no good '%s'", name);
    }
    text = calloc(1, (size_t)n + 1);
    if (text == NULL) {
        return no_memory(reader);
    }
    memcpy(text, reader->bytes + reader->at, (size_t)n);
    reader->at += (size_t)n + 1;
    *text_p = text;
    return PL_OK;
}

static pl_status_t read_version(reader_t *reader)
{
    char text[NAME_BYTES];
    int major = 0;

    if (!next_value(reader, PL_TIER_FORMAT, text, sizeof(text)) ||
        (sscanf(text, "%9d", &major) != 1)) {
        return refuse(reader, "is no index of a storage tier");
    }
    if (major != PL_TIER_MAJOR) {
        (void)refuse(reader,
                     "version %d cannot be read; this program reads version %d "
                     "of any minor; use the pagelane that wrote it",
                     major, PL_TIER_MAJOR);
        return PL_REFUSED_UNSUPPORTED;
    }
    return PL_OK;
}

static pl_status_t read_numbers(reader_t *reader, pl_tier_index_t *index)
{
    const int64_t most = INT32_MAX;

    PL_TRY(next_int32(reader, "page_tokens", 1, PL_MAX_PAGE_TOKENS,
                      &index->page_tokens));
    PL_TRY(next_int32(reader, "n_layers", 1, MOST_LAYERS, &index->n_layers));
    PL_TRY(next_integer(reader, "page_bytes", 1, INT64_C(1) << 40,
                        &index->page_bytes));
    PL_TRY(next_int32(reader, "latent_row_bytes", 0, PL_ROW_BYTES_MAX,
                      &index->latent_row_bytes));
    PL_TRY(next_int32(reader, "index_key_bytes", 0, PL_ROW_BYTES_MAX,
                      &index->index_key_bytes));
    PL_TRY(next_int32(reader, "index_scale_bytes", 0, PL_ROW_BYTES_MAX,
                      &index->index_scale_bytes));
    PL_TRY(next_integer(reader, "settled_stamp", 0, MOST_STAMP,
                        &index->settled_stamp));
    PL_TRY(
        next_integer(reader, "next_stamp", 1, MOST_STAMP, &index->next_stamp));
    if (index->settled_stamp >= index->next_stamp) {
        return refuse(reader, "'settled_stamp' is not below 'next_stamp'");
    }
    PL_TRY(next_int32(reader, "own_set", 0, PL_TIER_MOST_SETS - 1,
                      &index->own_set));
    PL_TRY(next_int32(reader, "n_requests", 0, most, &index->n_requests));
    PL_TRY(next_int32(reader, "n_entries", 0, most, &index->n_entries));
    PL_TRY(next_int32(reader, "n_sets", 1, PL_TIER_MOST_SETS, &index->n_sets));
    PL_TRY(next_hex(reader, "layout", &index->layout));
    return next_hex(reader, "trace", &index->trace);
}

/* ---- the columns ---- */

static uint64_t item_at(const uint8_t *bytes, pl_item_t item)
{
    size_t n       = pl_item_bytes(item, 0);
    uint64_t value = 0;

    for (size_t i = n; i-- > 0;) {
        value = value << 8 | bytes[i];
    }
    if (item == PL_ITEM_I8) {
        return (uint64_t)(int64_t)(int8_t)value;
    }
    return item == PL_ITEM_I32 ? (uint64_t)(int64_t)(int32_t)value : value;
}

/* Where a column begins; all its rows lie in the HDF5 part. */
static pl_status_t next_column(reader_t *reader, const pl_tier_index_t *index,
                               pl_tier_column_t column, size_t h5_bytes,
                               size_t *at_p)
{
    const pl_tier_column_about_t *about = &pl_tier_columns[column];
    size_t rows = (size_t)pl_tier_column_rows(index, column);
    int64_t at  = 0;

    PL_TRY(next_integer(reader, about->path, 0, (int64_t)h5_bytes, &at));
    if (rows > (h5_bytes - (size_t)at) / pl_item_bytes(about->item, 0)) {
        return refuse(reader, "'%s' has more rows than the file can hold",
                      about->path);
    }
    *at_p = (size_t)at;
    return PL_OK;
}

static pl_status_t make_room(const reader_t *reader, pl_tier_index_t *index)
{
    size_t n         = (size_t)index->n_entries + 1;
    index->has_index = calloc((size_t)index->n_layers + 1, 1);
    index->finished  = calloc((size_t)index->n_requests + 1, 1);
    index->sets      = calloc((size_t)index->n_sets + 1, sizeof(*index->sets));
    index->entries   = calloc(n, sizeof(*index->entries));
    index->digests   = calloc(n, sizeof(*index->digests));
    return (index->has_index == NULL) || (index->finished == NULL) ||
                   (index->sets == NULL) || (index->entries == NULL) ||
                   (index->digests == NULL)
               ? no_memory(reader)
               : PL_OK;
}

/* First that all columns could be there, then memory for them. */
static pl_status_t read_columns(reader_t *reader, size_t h5_bytes,
                                pl_tier_index_t *index)
{
    size_t at[PL_TIER_COLUMNS] = {0};

    for (int i = 0; i < PL_TIER_COLUMNS; i++) {
        PL_TRY(
            next_column(reader, index, (pl_tier_column_t)i, h5_bytes, &at[i]));
    }
    PL_TRY(make_room(reader, index));
    for (int i = 0; i < PL_TIER_COLUMNS; i++) {
        pl_tier_column_t column = (pl_tier_column_t)i;
        int32_t rows            = pl_tier_column_rows(index, column);
        pl_item_t item          = pl_tier_columns[i].item;
        size_t step             = pl_item_bytes(item, 0);

        for (int32_t row = 0; row < rows; row++) {
            pl_tier_column_set(
                index, column, row,
                item_at(reader->bytes + at[i] + (size_t)row * step, item));
        }
    }
    return PL_OK;
}

/* ---- do the numbers make sense? ---- */

static pl_status_t check_sets(const reader_t *reader,
                              const pl_tier_index_t *index)
{
    for (int32_t i = 0; i < index->n_sets; i++) {
        const pl_tier_set_t *set = &index->sets[i];

        if ((set->number < 0) || (set->number >= PL_TIER_MOST_SETS) ||
            ((i > 0) && (set->number <= set[-1].number)) || (set->ranks < 1) ||
            (set->ranks > MOST_RANKS) || (set->slots < 1) ||
            (set->slots > INT32_MAX / set->ranks) ||
            ((set->lanes != 1) && (set->lanes != set->ranks))) {
            return refuse(reader, "'/sets' row %" PRId32 " is out of range", i);
        }
    }
    return pl_tier_index_set(index, index->own_set) != NULL
               ? PL_OK
               : refuse(reader, "'own_set' is none of its sets");
}

static pl_status_t check_entries(const reader_t *reader,
                                 const pl_tier_index_t *index)
{
    const pl_tier_set_t *set = NULL;

    for (int32_t i = 0; i < index->n_entries; i++) {
        const pl_storage_entry_t *entry = &index->entries[i];
        const pl_storage_place_t *place = &entry->place;

        if ((set == NULL) || (set->number != place->set)) {
            set = pl_tier_index_set(index, place->set);
        }
        if ((set == NULL) || (place->rank < 0) || (place->rank >= set->ranks) ||
            (place->slot < 0) || (place->slot >= set->slots) ||
            (entry->position < 0) ||
            (entry->position >= INT32_MAX / index->page_tokens) ||
            (entry->owner < 0) || (entry->stamp < 1) ||
            (entry->stamp >= index->next_stamp)) {
            return refuse(reader, "'/entries' row %" PRId32 " is out of range",
                          i);
        }
    }
    return PL_OK;
}

/* Do the rows of a page make its bytes? */
static pl_status_t check_rows(const reader_t *reader,
                              const pl_tier_index_t *index)
{
    const pl_store_layout_t layout = {
        .page_tokens       = index->page_tokens,
        .n_layers          = index->n_layers,
        .latent_row_bytes  = index->latent_row_bytes,
        .index_key_bytes   = index->index_key_bytes,
        .index_scale_bytes = index->index_scale_bytes,
        .n_slots           = 1,
        .has_index         = index->has_index,
    };

    return (pl_store_layout_check(&layout, NULL) == PL_OK) &&
                   (pl_store_page_bytes(&layout) == (size_t)index->page_bytes)
               ? PL_OK
               : refuse(reader, "its rows do not make pages of its size");
}

/* From the reader's bytes. */
static pl_status_t read_index(reader_t *reader, pl_tier_index_t *index)
{
    size_t h5_bytes;

    PL_TRY(check_seal(reader));
    h5_bytes = reader->at;
    PL_TRY(read_version(reader));
    PL_TRY(next_text(reader, "model", &index->model));
    PL_TRY(next_text(reader, "tokens", &index->tokens));
    PL_TRY(next_text(reader, "dtype", &index->dtype));
    PL_TRY(read_numbers(reader, index));
    PL_TRY(read_columns(reader, h5_bytes, index));
    PL_TRY(check_rows(reader, index));
    PL_TRY(check_sets(reader, index));
    return check_entries(reader, index);
}

pl_status_t pl_tier_index_read(const char *path, const pl_log_t *log,
                               pl_tier_index_t *index_p)
{
    reader_t reader    = {.path = path, .log = log};
    pl_status_t status = read_file(&reader);

    if (status == PL_OK) {
        status =
            pl_tier_index_parse(path, reader.bytes, reader.n, log, index_p);
    }
    free((void *)(uintptr_t)reader.bytes);
    return status;
}

pl_status_t pl_tier_index_parse(const char *path, const void *bytes, size_t n,
                                const pl_log_t *log, pl_tier_index_t *index_p)
{
    reader_t reader       = {.path = path, .log = log, .bytes = bytes, .n = n};
    pl_tier_index_t index = {0};
    pl_status_t status    = read_index(&reader, &index);

    if (status != PL_OK) {
        pl_tier_index_free(&index);
        return status;
    }
    *index_p = index;
    return PL_OK;
}
