#include "store/content.h"

#include <stdlib.h>
#include <string.h>

size_t pl_item_bytes(pl_item_t item, size_t text_bytes)
{
    switch (item) {
    case PL_ITEM_I8:
    case PL_ITEM_U8:
        return 1;
    case PL_ITEM_I32:
    case PL_ITEM_U32:
        return 4;
    case PL_ITEM_I64:
    case PL_ITEM_U64:
        return 8;
    case PL_ITEM_TEXT:
        break;
    }
    return text_bytes;
}

void pl_content_free(pl_content_t *content)
{
    for (size_t i = 0; i < content->groups.n; i++) {
        free(content->groups.items[i]);
    }
    for (size_t i = 0; i < content->attributes.n; i++) {
        free(content->attributes.items[i].group);
        free(content->attributes.items[i].name);
        free(content->attributes.items[i].text);
    }
    for (size_t i = 0; i < content->datasets.n; i++) {
        free(content->datasets.items[i].path);
        free(content->datasets.items[i].owned);
    }
    PL_ARRAY_FREE(&content->groups);
    PL_ARRAY_FREE(&content->attributes);
    PL_ARRAY_FREE(&content->datasets);
    content->status = PL_OK;
}

pl_status_t pl_content_status(const pl_content_t *content)
{
    return content->status;
}

void pl_content_group(pl_content_t *content, const char *path)
{
    char *copy = strdup(path);

    if ((copy == NULL) || (PL_ARRAY_PUSH(&content->groups, copy) != PL_OK)) {
        free(copy);
        content->status = PL_ERR_MEMORY;
    }
}

/* ---- attributes ---- */

static void make_name(char *name)
{
    for (; *name != '\0'; name++) {
        bool is_letter = ((*name >= 'a') && (*name <= 'z')) ||
                         ((*name >= 'A') && (*name <= 'Z'));
        bool is_digit = (*name >= '0') && (*name <= '9');

        if (!is_letter && !is_digit) {
            *name = '_';
        }
    }
}

/* Takes attribute.text over. */
static void add_attribute(pl_content_t *content, const char *group,
                          const char *name, pl_attribute_t attribute)
{
    attribute.group = strdup(group);
    attribute.name  = strdup(name);
    if ((attribute.group != NULL) && (attribute.name != NULL)) {
        make_name(attribute.name);
        if (PL_ARRAY_PUSH(&content->attributes, attribute) == PL_OK) {
            return;
        }
    }
    free(attribute.group);
    free(attribute.name);
    free(attribute.text);
    content->status = PL_ERR_MEMORY;
}

void pl_content_integer(pl_content_t *content, const char *group,
                        const char *name, int64_t value)
{
    pl_attribute_t attribute = {.integers = {value}};

    add_attribute(content, group, name, attribute);
}

void pl_content_version(pl_content_t *content, const char *group,
                        const char *name, int64_t major, int64_t minor)
{
    pl_attribute_t attribute = {.integers = {major, minor}, .n_integers = 2};

    add_attribute(content, group, name, attribute);
}

void pl_content_text(pl_content_t *content, const char *group, const char *name,
                     const char *text)
{
    pl_attribute_t attribute = {.text = strdup(text)};

    if (attribute.text == NULL) {
        content->status = PL_ERR_MEMORY;
        return;
    }
    add_attribute(content, group, name, attribute);
}

/* ---- datasets ---- */

uint64_t pl_dataset_items(const pl_dataset_t *dataset)
{
    return dataset->n_dims == 1 ? dataset->dims[0]
                                : dataset->dims[0] * dataset->dims[1];
}

void *pl_content_add(pl_content_t *content, const char *path,
                     pl_dataset_t dataset)
{
    size_t bytes = pl_item_bytes(dataset.item, dataset.text_bytes);
    size_t n     = (size_t)pl_dataset_items(&dataset);

    dataset.path = strdup(path);
    if (dataset.data == NULL) {
        dataset.owned = calloc(n > 0 ? n : 1, bytes);
        dataset.data  = dataset.owned;
    }
    if ((dataset.path == NULL) || (dataset.data == NULL) ||
        (PL_ARRAY_PUSH(&content->datasets, dataset) != PL_OK)) {
        free(dataset.path);
        free(dataset.owned);
        content->status = PL_ERR_MEMORY;
        return NULL;
    }
    /* cppcheck-suppress memleak; the content owns the path */
    return dataset.owned;
}

size_t pl_dataset_row_bytes(const pl_dataset_t *dataset)
{
    return pl_item_bytes(dataset->item, dataset->text_bytes) *
           (dataset->n_dims == 1 ? 1 : (size_t)dataset->dims[1]);
}

size_t pl_dataset_bytes(const pl_dataset_t *dataset)
{
    return pl_dataset_row_bytes(dataset) * (size_t)dataset->dims[0];
}

uint64_t pl_dataset_chunk_rows(const pl_dataset_t *dataset)
{
    /* Half of the chunk cache that readers have by default. */
    enum { CHUNK_BYTES = 512 * 1024 };
    uint64_t rows;

    if ((dataset->writer != PL_REPLICATED) || (dataset->item == PL_ITEM_TEXT) ||
        (pl_dataset_bytes(dataset) < PL_PACK_LEAST_BYTES)) {
        return 0;
    }
    rows = CHUNK_BYTES / pl_dataset_row_bytes(dataset);
    rows = rows > 0 ? rows : 1;
    return rows < dataset->dims[0] ? rows : dataset->dims[0];
}

pl_status_t pl_content_own(pl_content_t *content)
{
    for (size_t i = 0; i < content->datasets.n; i++) {
        pl_dataset_t *dataset = &content->datasets.items[i];
        size_t n              = pl_dataset_bytes(dataset);

        if (dataset->owned != NULL) {
            continue;
        }
        dataset->owned = malloc(n > 0 ? n : 1);
        if (dataset->owned == NULL) {
            content->status = PL_ERR_MEMORY;
            return PL_ERR_MEMORY;
        }
        memcpy(dataset->owned, dataset->data, n);
        dataset->data = dataset->owned;
    }
    return PL_OK;
}
