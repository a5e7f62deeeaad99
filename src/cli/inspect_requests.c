/* pagelane inspect F requests: what became of each request. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/fleet_file.h"
#include "cli/inspect.h"
#include "cli/table.h"

static const char *state_of(const pl_record_t *record)
{
    if (record->failed) {
        return "failed";
    }
    if (record->skipped) {
        return "skipped";
    }
    return record->finished_ns < 0 ? "unfinished" : "good";
}

/* ---- for people ---- */

/* A time in ms with three digits, "-" if it has not come. */
static void time_cell(pl_table_t *table, int64_t from_ns, int64_t to_ns)
{
    int64_t us;

    if ((from_ns < 0) || (to_ns < from_ns)) {
        pl_table_cell(table, "-");
        return;
    }
    us = (to_ns - from_ns) / 1000;
    pl_table_cell(table, "%" PRId64 ".%03" PRId64, us / 1000, us % 1000);
}

static void misses_cell(pl_table_t *table, const pl_record_t *record)
{
    static const char *const CAUSES[] = {
#define MISS(name, text) text,
        PL_MISS_LIST(MISS)
#undef MISS
    };
    char text[256] = "";
    size_t n       = 0;

    for (int miss = 0; miss < PL_MISSES; miss++) {
        if ((record->miss_pages[miss] != 0) && (n < sizeof(text))) {
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %" PRId32,
                                  n > 0 ? ", " : "", CAUSES[miss],
                                  record->miss_pages[miss]);
        }
    }
    pl_table_cell(table, "%s", text);
}

static void add_row(pl_table_t *table, int32_t i, const pl_record_t *record,
                    int64_t digest)
{
    pl_table_cell(table, "%" PRId32, i);
    pl_table_cell(table, "%s", state_of(record));
    time_cell(table, 0, record->arrival_ns);
    pl_table_cell(table, "%" PRId32, record->prompt_tokens);
    pl_table_cell(table, "%" PRId32, record->device_hit_tokens);
    pl_table_cell(table, "%" PRId32, record->host_hit_tokens);
    pl_table_cell(table, "%" PRId32, record->storage_hit_tokens);
    misses_cell(table, record);
    time_cell(table, record->arrival_ns, record->first_token_ns);
    time_cell(table, record->arrival_ns, record->finished_ns);
    pl_table_cell(table, "%" PRId32, record->generated_tokens);
    pl_table_cell(table, "%" PRId32, record->home);
    pl_table_cell(table, "%" PRId64,
                  (int64_t)record->preemptions + record->reentries);
    pl_table_cell(table, "%016" PRIx64, (uint64_t)digest);
}

static void instance_cell(pl_table_t *table, const pl_fleet_file_t *fleet,
                          int64_t instance)
{
    char name[PL_FLEET_NAME_BYTES] = "-";

    if (instance >= 0) {
        pl_fleet_name(fleet, (int32_t)instance, name);
    }
    pl_table_cell(table, "%s", name);
}

#define TITLES                                                                 \
    "request>,state<,arrival ms>,prompt tokens>,hit on device>,"               \
    "hit on host>,hit on storage>,missed pages by cause<,"                     \
    "time to first token ms>,end to end ms>,generated tokens>,home rank>,"     \
    "preempted>,digest<"

static pl_status_t print_table(const pl_record_t *records, int32_t n,
                               const int64_t *digests,
                               const pl_fleet_file_t *fleet)
{
    bool is_alone = fleet->n == 0;
    pl_table_t *table =
        pl_table_open(is_alone ? TITLES : TITLES ",prefilled on<,decoded on<");
    pl_status_t status;

    for (int32_t i = 0; i < n; i++) {
        add_row(table, i, &records[i], digests[i]);
        if (!is_alone) {
            instance_cell(table, fleet, fleet->prefill.items[i]);
            instance_cell(table, fleet, fleet->decode.items[i]);
        }
    }
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    return status;
}

/* ---- for programs ---- */

static pl_status_t print_json(const pl_record_t *records, int32_t n,
                              const int64_t *digests,
                              const pl_fleet_file_t *fleet)
{
    json_object *object = json_object_new_object();
    json_object *array  = json_object_new_array();

    for (int32_t i = 0; i < n; i++) {
        json_object *request = json_object_new_object();

        pl_json_integer(request, "request", i);
        pl_json_text(request, "state", state_of(&records[i]));
        pl_inspect_record_json(request, &records[i]);
        pl_json_digest(request, "digest", (uint64_t)digests[i]);
        if (fleet->n > 0) {
            pl_json_integer(request, "prefill_instance",
                            fleet->prefill.items[i]);
            pl_json_integer(request, "decode_instance", fleet->decode.items[i]);
        }
        json_object_array_add(array, request);
    }
    json_object_object_add(object, "requests", array);
    return pl_json_print(object, stdout);
}

pl_status_t pl_inspect_requests(const pl_inspect_t *inspect)
{
    pl_snapshot_column_t digests = {0};
    pl_fleet_file_t fleet        = {0};
    pl_record_t *records         = NULL;
    int32_t n                    = 0;
    pl_status_t status;

    PL_TRY(pl_inspect_records(inspect->snapshot, &records, &n));
    status = pl_snapshot_read(inspect->snapshot, "/requests/digest",
                              PL_ITEM_U64, (size_t)n, 0, &digests);
    if (status == PL_OK) {
        status = pl_fleet_read(inspect->snapshot, n, &fleet);
    }
    if (status == PL_OK) {
        status = inspect->json ? print_json(records, n, digests.items, &fleet)
                               : print_table(records, n, digests.items, &fleet);
    }
    pl_fleet_file_free(&fleet);
    pl_snapshot_column_free(&digests);
    free(records);
    return status;
}
