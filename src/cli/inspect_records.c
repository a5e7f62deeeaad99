/* /requests of a snapshot as the records that the engine kept. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"

/* A member of pl_record_t and where it comes from. */
typedef struct field {
    const char *name;
    pl_item_t item;
    size_t offset;
    bool later; /* files of the first versions have none: 0 */
} field_t;

#define I64(member)                                                            \
    {                                                                          \
#member, PL_ITEM_I64, offsetof(pl_record_t, member), false             \
    }
#define I32(member)                                                            \
    {                                                                          \
#member, PL_ITEM_I32, offsetof(pl_record_t, member), false             \
    }

static const field_t FIELDS[] = {
    I64(arrival_ns),
    I64(admitted_ns),
    I64(first_token_ns),
    I64(decode_ns),
    I64(finished_ns),
    I64(admitted_tick),
    I64(finished_tick),
    I32(prompt_tokens),
    I32(output_tokens),
    I32(generated_tokens),
    I32(device_hit_tokens),
    I32(host_hit_tokens),
    {"storage_hit_tokens", PL_ITEM_I32,
     offsetof(pl_record_t, storage_hit_tokens), true},
    I32(cut_pages),
    I32(home),
    I32(preemptions),
    I32(reentries),
    I32(readmissions),
    {"failed", PL_ITEM_U8, offsetof(pl_record_t, failed), false},
    {"skipped", PL_ITEM_U8, offsetof(pl_record_t, skipped), true},
#define MISS(name, text)                                                       \
    {"miss_" text, PL_ITEM_I32, offsetof(pl_record_t, miss_pages[name]),       \
     name == PL_MISS_STORAGE},
    PL_MISS_LIST(MISS)
#undef MISS
};

enum { N_FIELDS = sizeof(FIELDS) / sizeof(FIELDS[0]) };

/* Far enough from the ends of int64 that differences are safe. */
static const int64_t LATEST = INT64_MAX / 4;

static void put(pl_record_t *record, const field_t *field, int64_t value)
{
    char *member = (char *)record + field->offset;

    if (field->item == PL_ITEM_I64) {
        memcpy(member, &value, sizeof(value));
    } else if (field->item == PL_ITEM_I32) {
        int32_t narrow = (int32_t)value;

        memcpy(member, &narrow, sizeof(narrow));
    } else {
        *(bool *)member = value != 0;
    }
}

static pl_status_t read_field(const pl_snapshot_t *snapshot,
                              const field_t *field, pl_record_t *records,
                              size_t n)
{
    pl_snapshot_column_t column = {0};
    char path[64];
    pl_status_t status = PL_OK;

    (void)snprintf(path, sizeof(path), "/requests/%s", field->name);
    if (field->later && !pl_snapshot_has_dataset(snapshot, path)) {
        return PL_OK;
    }
    PL_TRY(pl_snapshot_read(snapshot, path, field->item, n, 0, &column));
    for (size_t i = 0; (status == PL_OK) && (i < n); i++) {
        if ((column.items[i] < -1) || (column.items[i] > LATEST)) {
            status = pl_snapshot_refuse(snapshot, path,
                                        "%" PRId64 " of request %zu is out of "
                                        "range; expected -1 to %" PRId64,
                                        column.items[i], i, LATEST);
        } else {
            put(&records[i], field, column.items[i]);
        }
    }
    pl_snapshot_column_free(&column);
    return status;
}

static pl_status_t check_prompts(const pl_snapshot_t *snapshot,
                                 const pl_record_t *records, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (records[i].prompt_tokens < 1) {
            return pl_snapshot_refuse(snapshot, "/requests/prompt_tokens",
                                      "request %zu has no prompt", i);
        }
    }
    return PL_OK;
}

pl_status_t pl_inspect_records(const pl_snapshot_t *snapshot,
                               pl_record_t **records_p, int32_t *n_p)
{
    pl_snapshot_column_t first = {0};
    pl_record_t *records;
    pl_status_t status;
    size_t n;

    PL_TRY(pl_snapshot_read(snapshot, "/requests/arrival_ns", PL_ITEM_I64,
                            PL_ANY_ROWS, 0, &first));
    n = first.rows;
    pl_snapshot_column_free(&first);
    if (n > INT32_MAX) {
        return pl_snapshot_refuse(snapshot, "/requests/arrival_ns",
                                  "has %zu rows; expected %d at most", n,
                                  INT32_MAX);
    }
    records = calloc(n + 1, sizeof(*records));
    if (records == NULL) {
        return PL_ERR_MEMORY;
    }
    for (size_t f = 0; f < N_FIELDS; f++) {
        PL_TRY_GOTO(status, read_field(snapshot, &FIELDS[f], records, n),
                    free_records);
    }
    PL_TRY_GOTO(status, check_prompts(snapshot, records, n), free_records);
    *records_p = records;
    *n_p       = (int32_t)n;
    return PL_OK;

free_records:
    free(records);
    return status;
}

void pl_inspect_record_json(json_object *object, const pl_record_t *record)
{
    for (size_t f = 0; f < N_FIELDS; f++) {
        const field_t *field = &FIELDS[f];
        const char *member   = (const char *)record + field->offset;
        int64_t wide         = 0;
        int32_t narrow       = 0;

        if (field->item == PL_ITEM_I64) {
            memcpy(&wide, member, sizeof(wide));
        } else if (field->item == PL_ITEM_I32) {
            memcpy(&narrow, member, sizeof(narrow));
            wide = narrow;
        } else {
            wide = *(const bool *)member;
        }
        pl_json_integer(object, field->name, wide);
    }
}
