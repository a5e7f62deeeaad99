/* What stands in a snapshot, but for /hicache. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/snapshot_internal.h"

static size_t requests_of(const pl_snapshot_input_t *input)
{
    return (size_t)pl_engine_n_requests(input->engine);
}

/* ---- configuration and layout ---- */

/* What the options cannot say, as no path is recorded. */
static void add_storage_tier(const pl_snapshot_input_t *input,
                             pl_content_t *content)
{
    const char *tier = "none";
    char pages[32];

    if (pl_engine_storage(input->engine) != NULL) {
        tier = pl_engine_config(input->engine)->storage_read_only ? "read"
                                                                  : "kept";
    }
    pl_content_text(content, "/config", "storage_tier", tier);
    (void)snprintf(pages, sizeof(pages), "%" PRId64, input->started_pages);
    pl_content_text(content, "/config", "storage_start", pages);
}

static void add_root(const pl_snapshot_input_t *input, pl_content_t *content)
{
    pl_content_text(content, "/", "format", PL_SNAPSHOT_FORMAT);
    pl_content_version(content, "/", "schema_version", PL_SNAPSHOT_MAJOR,
                       PL_SNAPSHOT_MINOR);
    pl_content_group(content, "/config");
    for (size_t i = 0; i < input->n_options; i++) {
        pl_content_text(content, "/config", input->options[i].name,
                        input->options[i].value);
    }
    add_storage_tier(input, content);
}

static void add_layout(const pl_snapshot_input_t *input, pl_content_t *content)
{
    const pl_engine_t *engine        = input->engine;
    const pl_engine_config_t *config = pl_engine_config(engine);
    pl_snapshot_shape_t shape        = pl_snapshot_shape(input);
    char ownership[PL_OWNERSHIP_TEXT_BYTES];
    const struct {
        const char *name;
        int64_t value;
    } facts[] = {
        {"n_lanes", shape.n_lanes},
        {"n_decode_ranks", shape.n_decode},
        {"n_homes", shape.n_homes},
        {"first_home", shape.first_home},
        {"page_tokens", config->page_tokens},
        {"chunk_tokens", config->chunk_tokens},
        {"page_bytes", config->page_bytes},
        {"device_pages", pl_engine_device_pages(engine)},
        {"host_pages", pl_engine_host_pages(engine)},
        {"decode_pages", pl_engine_decode_pages(shape.decodes)},
        {"decode_host_pages",
         pl_engine_config(shape.decodes)->decode_host_pages},
        {"device_reserved", 1},
        {"host_reserved", 0},
        {"decode_reserved", 1},
        {"decode_host_reserved", 0},
    };

    pl_content_group(content, "/layout");
    for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++) {
        pl_content_integer(content, "/layout", facts[i].name, facts[i].value);
    }
    pl_ownership_text(config->ownership, ownership);
    pl_content_text(content, "/layout", "ownership", ownership);
}

/* ---- requests ---- */

/* A member of pl_record_t as a column. */
typedef struct field {
    const char *name;
    pl_item_t item;
    size_t offset;
    const char *unit, *description;
} field_t;

#define I64(member, unit, description)                                         \
    {                                                                          \
#member, PL_ITEM_I64, offsetof(pl_record_t, member), unit, description \
    }
#define I32(member, unit, description)                                         \
    {                                                                          \
#member, PL_ITEM_I32, offsetof(pl_record_t, member), unit, description \
    }

static const field_t FIELDS[] = {
    I64(arrival_ns, "ns", "when it arrived; virtual time, as all of these"),
    I64(admitted_ns, "ns", "when it was first admitted; -1: never"),
    I64(first_token_ns, "ns", "when its first token was known; -1: never"),
    I64(decode_ns, "ns", "when decode had its KV; -1: never"),
    I64(finished_ns, "ns", "when it ended; -1: has not"),
    I64(admitted_tick, "tick", "tick of admitted_ns; -1: never"),
    I64(finished_tick, "tick", "tick of finished_ns; -1: has not"),
    I32(prompt_tokens, "token", "length of the prompt"),
    I32(output_tokens, "token", "tokens wanted"),
    I32(generated_tokens, "token", "tokens generated"),
    I32(device_hit_tokens, "token", "of the prompt, found on the device tier"),
    I32(host_hit_tokens, "token", "of the prompt, loaded from the host tier"),
    I32(storage_hit_tokens, "token", "of the prompt, fetched from storage"),
    I32(cut_pages, "page", "of the hit, given up because a lane was short"),
    I32(home, "1", "rank that decoded it last; -1: none"),
    I32(preemptions, "1", "times it was sent to the decode host buffer"),
    I32(reentries, "1", "times it came back as a new prompt"),
    I32(readmissions, "1", "times it was admitted anew after a failed load"),
};

enum { N_FIELDS = sizeof(FIELDS) / sizeof(FIELDS[0]) };

static void *add_request_column(pl_content_t *content, const char *name,
                                pl_item_t item, size_t n, const void *data,
                                const char *unit, const char *description)
{
    char path[96];
    pl_dataset_t dataset = {.item        = item,
                            .n_dims      = 1,
                            .dims        = {n},
                            .labels      = {"request"},
                            .unit        = unit,
                            .description = description,
                            .data        = n > 0 ? data : NULL,
                            .writer      = PL_REPLICATED};

    (void)snprintf(path, sizeof(path), "/requests/%s", name);
    return pl_content_add(content, path, dataset);
}

/* Tokens of skipped requests come from elsewhere: as many as stand there. */
static void count_skipped(const pl_snapshot_input_t *input, int32_t *generated)
{
    for (size_t i = 0; i < requests_of(input); i++) {
        if (pl_snapshot_record(input, i)->skipped &&
            (input->tokens_offset != NULL)) {
            generated[i] = (int32_t)(input->tokens_offset[i + 1] -
                                     input->tokens_offset[i]);
        }
    }
}

static void add_fields(const pl_snapshot_input_t *input, pl_content_t *content)
{
    size_t n = requests_of(input);

    for (size_t f = 0; f < N_FIELDS; f++) {
        const field_t *field = &FIELDS[f];
        size_t bytes         = pl_item_bytes(field->item, 0);
        char *column =
            add_request_column(content, field->name, field->item, n, NULL,
                               field->unit, field->description);

        for (size_t i = 0; (column != NULL) && (i < n); i++) {
            const char *record = (const char *)pl_snapshot_record(input, i);

            memcpy(column + i * bytes, record + field->offset, bytes);
        }
        if ((column != NULL) &&
            (field->offset == offsetof(pl_record_t, generated_tokens))) {
            count_skipped(input, (int32_t *)(void *)column);
        }
    }
}

static void add_misses(const pl_snapshot_input_t *input, pl_content_t *content)
{
    static const char *const NAMES[] = {
#define MISS_COLUMN(name, text) "miss_" text,
        PL_MISS_LIST(MISS_COLUMN)
#undef MISS_COLUMN
    };
    size_t n = requests_of(input);

    for (size_t cause = 0; cause < PL_MISSES; cause++) {
        int32_t *column = add_request_column(
            content, NAMES[cause], PL_ITEM_I32, n, NULL, "page",
            "pages of the prompt computed for this cause; docs/schema.md");

        for (size_t i = 0; (column != NULL) && (i < n); i++) {
            column[i] = pl_snapshot_record(input, i)->miss_pages[cause];
        }
    }
}

static void add_shared_column(pl_content_t *content, const char *path, size_t n,
                              const int32_t *data, const char *unit,
                              const char *description)
{
    pl_dataset_t dataset = {.item        = PL_ITEM_I32,
                            .n_dims      = 1,
                            .dims        = {n},
                            .labels      = {"request"},
                            .unit        = unit,
                            .description = description,
                            .data        = n > 0 ? data : NULL,
                            .writer      = 0};

    (void)pl_content_add(content, path, dataset);
}

static void add_shared(const pl_snapshot_input_t *input, pl_content_t *content)
{
    size_t n = requests_of(input);

    if (input->shared) {
        add_shared_column(content, "/requests/shared_with", n,
                          input->shared_with, "1",
                          "first request that began as this one; -1: none");
        add_shared_column(content, "/requests/shared_pages", n,
                          input->shared_pages, "page",
                          "whole pages that both begin with");
    }
}

static void add_tokens(const pl_snapshot_input_t *input, pl_content_t *content)
{
    size_t n             = requests_of(input);
    bool has_tokens      = input->tokens_offset != NULL;
    size_t n_tokens      = has_tokens ? (size_t)input->tokens_offset[n] : 0;
    pl_dataset_t offsets = {.item        = PL_ITEM_I64,
                            .n_dims      = 1,
                            .dims        = {n + 1},
                            .labels      = {"request+1"},
                            .unit        = "1",
                            .description = "where a request's tokens begin",
                            .data   = has_tokens ? input->tokens_offset : NULL,
                            .writer = PL_REPLICATED};
    pl_dataset_t tokens  = {.item        = PL_ITEM_I32,
                            .n_dims      = 1,
                            .dims        = {n_tokens},
                            .labels      = {"token"},
                            .unit        = "1",
                            .description = "ids of the tokens generated",
                            .data        = n_tokens > 0 ? input->tokens : NULL,
                            .writer      = PL_REPLICATED};

    (void)pl_content_add(content, "/requests/tokens_offset", offsets);
    (void)pl_content_add(content, "/requests/tokens", tokens);
}

static void add_requests(const pl_snapshot_input_t *input,
                         pl_content_t *content)
{
    size_t n = requests_of(input);
    uint8_t *failed, *skipped;

    pl_content_group(content, "/requests");
    add_fields(input, content);
    add_misses(input, content);
    failed = add_request_column(content, "failed", PL_ITEM_U8, n, NULL, "1",
                                "1: recorded as failed");
    for (size_t i = 0; (failed != NULL) && (i < n); i++) {
        failed[i] = pl_snapshot_record(input, i)->failed ? 1 : 0;
    }
    skipped = add_request_column(content, "skipped", PL_ITEM_U8, n, NULL, "1",
                                 "1: finished before this run");
    for (size_t i = 0; (skipped != NULL) && (i < n); i++) {
        skipped[i] = pl_snapshot_record(input, i)->skipped ? 1 : 0;
    }
    (void)add_request_column(content, "digest", PL_ITEM_U64, n, input->digests,
                             "1", "digest of the prompt rows decode received");
    add_shared(input, content);
    pl_snapshot_add_placed(input, content);
    add_tokens(input, content);
}

/* ---- lanes over time ---- */

static void add_lane_column(pl_content_t *content, const char *path,
                            pl_item_t item, size_t n, size_t n_columns,
                            const char *label, const void *data,
                            const char *unit, const char *description)
{
    pl_dataset_t dataset = {.item        = item,
                            .n_dims      = label == NULL ? 1 : 2,
                            .dims        = {n, n_columns},
                            .labels      = {"sample", label},
                            .unit        = unit,
                            .description = description,
                            .data        = n > 0 ? data : NULL,
                            .writer      = PL_REPLICATED};

    (void)pl_content_add(content, path, dataset);
}

static void add_lanes(const pl_snapshot_input_t *input, pl_content_t *content)
{
    pl_snapshot_shape_t shape = pl_snapshot_shape(input);
    pl_lane_history_t lanes   = {0};
    size_t n_lanes            = (size_t)shape.n_lanes;
    size_t n_homes            = (size_t)shape.n_homes;

    if (input->log != NULL) {
        lanes = pl_event_log_lanes(input->log);
    }
    pl_content_group(content, "/lanes");
    add_lane_column(content, "/lanes/tick", PL_ITEM_I64, lanes.n, 1, NULL,
                    lanes.tick, "tick", "the state is that of its end");
    add_lane_column(content, "/lanes/time_ns", PL_ITEM_I64, lanes.n, 1, NULL,
                    lanes.time_ns, "ns", "virtual time of the tick's start");
    add_lane_column(content, "/lanes/device_free", PL_ITEM_I32, lanes.n,
                    n_lanes, "lane", lanes.device_free, "page",
                    "free pages of the device tier");
    add_lane_column(content, "/lanes/host_free", PL_ITEM_I32, lanes.n, n_lanes,
                    "lane", lanes.host_free, "page",
                    "free pages of the host tier");
    add_lane_column(content, "/lanes/decode_free", PL_ITEM_I32, lanes.n,
                    n_homes, "home", lanes.decode_free, "page",
                    "free pages of the decode pools");
    add_lane_column(content, "/lanes/decode_host_free", PL_ITEM_I32, lanes.n,
                    n_homes, "home", lanes.decode_host_free, "page",
                    "free pages of the decode host buffers");
    add_lane_column(content, "/lanes/running", PL_ITEM_I32, lanes.n, 1, NULL,
                    lanes.running, "1", "requests that decode");
    add_lane_column(content, "/lanes/waiting", PL_ITEM_I32, lanes.n, 1, NULL,
                    lanes.waiting, "1", "requests that wait for admission");
    pl_snapshot_add_instance_lanes(&lanes, content);
}

/* ---- events ---- */

static void add_kinds(pl_content_t *content)
{
    enum { TEXT_BYTES = 16 };
    pl_dataset_t dataset = {.item        = PL_ITEM_TEXT,
                            .text_bytes  = TEXT_BYTES,
                            .n_dims      = 1,
                            .dims        = {PL_EVENT_KINDS},
                            .labels      = {"kind"},
                            .unit        = "1",
                            .description = "names of the values of kind",
                            .writer      = PL_REPLICATED};
    char *texts          = pl_content_add(content, "/events/kinds", dataset);

    for (int kind = 0; (texts != NULL) && (kind < PL_EVENT_KINDS); kind++) {
        (void)snprintf(texts + kind * TEXT_BYTES, TEXT_BYTES, "%s",
                       pl_event_kind_text((pl_event_kind_t)kind));
    }
}

/* What the operation that event i begins has moved, or the decode steps of the
 * request that it ends; NULL: nothing. */
static const pl_op_record_t *record_of(const pl_snapshot_input_t *input,
                                       const pl_event_columns_t *events,
                                       size_t i)
{
    size_t low  = 0;
    size_t high = input->n_ops;

    switch (events->kind[i]) {
    case PL_EVENT_FINISH:
        return input->steps == NULL ? NULL : &input->steps[events->request[i]];
    case PL_EVENT_CHUNK:
    case PL_EVENT_BACKUP:
    case PL_EVENT_LOAD:
    case PL_EVENT_STORE:
    case PL_EVENT_FETCH:
    case PL_EVENT_SEND:
    case PL_EVENT_OFFLOAD:
    case PL_EVENT_RESUME:
        break;
    default:
        return NULL;
    }
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (input->ops[middle].op < events->op[i]) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (low < input->n_ops) && (input->ops[low].op == events->op[i])
               ? &input->ops[low]
               : NULL;
}

static void add_moved(const pl_snapshot_input_t *input,
                      const pl_event_columns_t *events, pl_content_t *content)
{
    static const struct {
        const char *path;
        pl_item_t item;
        const char *unit, *description;
        size_t at;
    } COLUMNS[] = {
        {"/events/moved_pages", PL_ITEM_I64, "page",
         "pages that the operation moved, on all ranks",
         offsetof(pl_op_record_t, pages)},
        {"/events/moved_bytes", PL_ITEM_I64, "byte", "bytes of them",
         offsetof(pl_op_record_t, bytes)},
        {"/events/moved_hash", PL_ITEM_U64, "1",
         "of each from which slot to which; docs/schema.md",
         offsetof(pl_op_record_t, hash)},
    };

    for (size_t c = 0; c < sizeof(COLUMNS) / sizeof(COLUMNS[0]); c++) {
        pl_dataset_t dataset = {.item        = COLUMNS[c].item,
                                .n_dims      = 1,
                                .dims        = {events->n},
                                .labels      = {"event"},
                                .unit        = COLUMNS[c].unit,
                                .description = COLUMNS[c].description,
                                .writer      = PL_REPLICATED};
        uint64_t *column = pl_content_add(content, COLUMNS[c].path, dataset);

        for (size_t i = 0; (column != NULL) && (i < events->n); i++) {
            const pl_op_record_t *record = record_of(input, events, i);

            column[i] = 0;
            if (record != NULL) {
                memcpy(&column[i], (const char *)record + COLUMNS[c].at,
                       sizeof(column[i]));
            }
        }
    }
}

static void add_events(const pl_snapshot_input_t *input, pl_content_t *content)
{
    pl_event_columns_t events;

    if ((input->log == NULL) || !pl_event_log_has_events(input->log)) {
        return;
    }
    events = pl_event_log_events(input->log);
    pl_content_group(content, "/events");
    pl_content_integer(content, "/events", "dropped",
                       pl_event_log_dropped(input->log));
    pl_content_integer(content, "/events", "first_tick",
                       events.n > 0 ? events.tick[0] : 0);
    add_kinds(content);

    const struct {
        const char *path;
        pl_item_t item;
        size_t n;
        const char *label;
        const void *data;
        const char *unit, *description;
    } columns[] = {
        {"/events/tick", PL_ITEM_I64, events.n, "event", events.tick, "tick",
         "tick it happened in"},
        {"/events/time_ns", PL_ITEM_I64, events.n, "event", events.time_ns,
         "ns", "virtual time of the tick's start"},
        {"/events/kind", PL_ITEM_I32, events.n, "event", events.kind, "1",
         "index into kinds"},
        {"/events/request", PL_ITEM_I32, events.n, "event", events.request, "1",
         "request; -1: none"},
        {"/events/node", PL_ITEM_I64, events.n, "event", events.node, "1",
         "node id; -1: none"},
        {"/events/op", PL_ITEM_I64, events.n, "event", events.op, "1",
         "operation id; 0: none"},
        {"/events/value", PL_ITEM_I64, events.n, "event", events.value, "1",
         "depends on kind; docs/schema.md"},
        {"/events/value2", PL_ITEM_I64, events.n, "event", events.value2, "1",
         "depends on kind; docs/schema.md"},
        {"/events/pages_offset", PL_ITEM_I64, events.n + 1, "event+1",
         events.pages_offset, "1", "where an event's pages begin"},
        {"/events/pages", PL_ITEM_I32, (size_t)events.pages_offset[events.n],
         "page", events.pages, "1", "logical pages"},
        {"/events/other_offset", PL_ITEM_I64, events.n + 1, "event+1",
         events.other_offset, "1", "where an event's other pages begin"},
        {"/events/other", PL_ITEM_I32, (size_t)events.other_offset[events.n],
         "page", events.other, "1", "logical pages of the other tier"},
    };

    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
        pl_dataset_t dataset = {.item        = columns[i].item,
                                .n_dims      = 1,
                                .dims        = {columns[i].n},
                                .labels      = {columns[i].label},
                                .unit        = columns[i].unit,
                                .description = columns[i].description,
                                .data =
                                    columns[i].n > 0 ? columns[i].data : NULL,
                                .writer = PL_REPLICATED};

        (void)pl_content_add(content, columns[i].path, dataset);
    }
    add_moved(input, &events, content);
}

/* ---- counters and timing ---- */

static void add_engine_counters(const pl_engine_counters_t *c,
                                pl_content_t *content)
{
    static const char *const LINKS[PL_LINKS] = {
        [PL_LINK_H2D]     = "link_bytes_h2d",
        [PL_LINK_D2H]     = "link_bytes_d2h",
        [PL_LINK_PD]      = "link_bytes_pd",
        [PL_LINK_OFFLOAD] = "link_bytes_offload",
        [PL_LINK_STORE]   = "link_bytes_store",
        [PL_LINK_FETCH]   = "link_bytes_fetch",
    };
    const struct {
        const char *name;
        int64_t value;
    } counters[] = {
        {"ticks", c->ticks},
        {"idle_ticks", c->idle_ticks},
        {"chunks", c->chunks},
        {"decode_steps", c->decode_steps},
        {"prefill_tokens", c->prefill_tokens},
        {"sends", c->sends},
        {"send_pages", c->send_pages},
        {"sends_failed", c->sends_failed},
        {"offloads", c->offloads},
        {"offload_pages", c->offload_pages},
        {"resumes", c->resumes},
        {"reentries", c->reentries},
        {"hit_cuts", c->hit_cuts},
        {"waits_for_write_back", c->waits_for_write_back},
        {"reservations_failed", c->reservations_failed},
        {"operations_failed", c->operations_failed},
    };

    pl_content_group(content, "/counters/engine");
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        pl_content_integer(content, "/counters/engine", counters[i].name,
                           counters[i].value);
    }
    for (int link = 0; link < PL_LINKS; link++) {
        pl_content_integer(content, "/counters/engine", LINKS[link],
                           c->link_bytes[link]);
    }
    for (int part = 0; part < PL_COST_PARTS; part++) {
        const char *text = pl_cost_part_text((pl_cost_part_t)part);
        char name[64];

        (void)snprintf(name, sizeof(name), "prefill_%s_ns", text);
        pl_content_integer(content, "/counters/engine", name,
                           c->prefill_ns[part]);
        (void)snprintf(name, sizeof(name), "decode_%s_ns", text);
        pl_content_integer(content, "/counters/engine", name,
                           c->decode_ns[part]);
    }
}

static void add_cache_counters(const pl_hicache_counters_t *c,
                               pl_content_t *content)
{
    const struct {
        const char *name;
        int64_t value;
    } counters[] = {
        {"allocations", c->takes},
        {"deficits", c->deficits},
        {"alone_deficits", c->alone_deficits},
        {"retries", c->retries},
        {"retries_failed", c->retries_failed},
        {"evictions", c->evictions},
        {"evicted_pages", c->evicted_pages},
        {"lane_collateral_pages", c->lane_collateral_pages},
        {"host_drops", c->host_drops},
        {"host_dropped_pages", c->host_dropped_pages},
        {"backups", c->backups},
        {"backup_pages", c->backup_pages},
        {"backups_skipped", c->backups_skipped},
        {"backups_failed", c->backups_failed},
        {"loads", c->loads},
        {"load_pages", c->load_pages},
        {"loads_failed", c->loads_failed},
        {"write_backs", c->write_backs},
    };

    pl_content_group(content, "/counters/cache");
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        pl_content_integer(content, "/counters/cache", counters[i].name,
                           counters[i].value);
    }
}

static void add_storage_counters(const pl_engine_t *engine,
                                 pl_content_t *content)
{
    const pl_storage_t *storage      = pl_engine_storage(engine);
    const pl_storage_counters_t none = {0};
    const pl_storage_counters_t *c =
        storage == NULL ? &none : pl_storage_counters(storage);
    const struct {
        const char *name;
        int64_t value;
    } counters[] = {
        {"start_pages", c->start_pages},
        {"left_out_pages", c->left_out_pages},
        {"new_pages", c->new_pages},
        {"moved_pages", c->moved_pages},
        {"dropped_pages", c->dropped_pages},
        {"stores", c->stores},
        {"store_pages", c->store_pages},
        {"stores_failed", c->stores_failed},
        {"stores_skipped", c->stores_skipped},
        {"fetches", c->fetches},
        {"fetch_pages", c->fetch_pages},
        {"fetched_pages", c->fetched_pages},
        {"bad_pages", c->bad_pages},
        {"unread_pages", c->unread_pages},
        {"evicted_pages", c->evicted_pages},
        {"publications", c->publications},
        {"publications_failed", c->publications_failed},
        {"kept_pages", storage == NULL ? 0 : pl_storage_n_kept(storage)},
        {"indexed_pages", storage == NULL ? 0 : pl_storage_n_indexed(storage)},
    };

    pl_content_group(content, "/counters/storage");
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        pl_content_integer(content, "/counters/storage", counters[i].name,
                           counters[i].value);
    }
}

static void add_counters(const pl_snapshot_input_t *input,
                         pl_content_t *content)
{
    const pl_snapshot_fleet_t *fleet = input->fleet;
    const pl_engine_t *engine        = input->engine;

    pl_content_group(content, "/counters");
    add_engine_counters(
        fleet != NULL ? fleet->counters : pl_engine_counters(engine), content);
    add_cache_counters(fleet != NULL
                           ? fleet->caches
                           : pl_hicache_counters(pl_engine_cache(engine)),
                       content);
    add_storage_counters(input->engine, content);
    pl_content_group(content, "/counters/data");
    for (size_t i = 0; i < input->n_data_counters; i++) {
        pl_content_integer(content, "/counters/data",
                           input->data_counters[i].name,
                           input->data_counters[i].value);
    }
}

static void add_time_column(const pl_snapshot_input_t *input, const char *path,
                            const int64_t *data, const char *description,
                            pl_content_t *content)
{
    size_t n             = requests_of(input);
    pl_dataset_t dataset = {.item        = PL_ITEM_I64,
                            .n_dims      = 1,
                            .dims        = {n},
                            .labels      = {"request"},
                            .unit        = "ns",
                            .description = description,
                            .data        = n > 0 ? data : NULL,
                            .writer      = 0};

    (void)pl_content_add(content, path, dataset);
}

static void add_timing(const pl_snapshot_input_t *input, pl_content_t *content)
{
    pl_content_group(content, "/timing");
    for (size_t i = 0; i < input->n_about; i++) {
        pl_content_text(content, "/timing", input->about[i].name,
                        input->about[i].value);
    }
    for (size_t i = 0; i < input->n_timing; i++) {
        pl_content_integer(content, "/timing", input->timing[i].name,
                           input->timing[i].value);
    }
    if (input->timed) {
        add_time_column(input, "/timing/arrival_ns", input->arrival_ns,
                        "when it arrived; time of day, as all of these",
                        content);
        add_time_column(input, "/timing/first_token_ns", input->first_token_ns,
                        "when its first token was known; -1: never", content);
        add_time_column(input, "/timing/finished_ns", input->finished_ns,
                        "when it ended; -1: has not", content);
    }
}

pl_status_t pl_snapshot_content(const pl_snapshot_input_t *input,
                                const pl_log_t *log, pl_content_t *content)
{
    const pl_hicache_t *cache = pl_engine_cache(input->engine);

    return pl_snapshot_content_of(input, pl_hicache_tree(cache), log, content);
}

pl_status_t pl_snapshot_content_of(const pl_snapshot_input_t *input,
                                   const pl_tree_t *tree, const pl_log_t *log,
                                   pl_content_t *content)
{
    pl_status_t status;

    add_root(input, content);
    add_layout(input, content);
    add_requests(input, content);
    pl_snapshot_add_instances(input, content);
    add_lanes(input, content);
    if (input->fleet == NULL) {
        pl_snapshot_add_cache(input->engine, tree, content);
    }
    add_counters(input, content);
    add_events(input, content);
    add_timing(input, content);
    status = pl_content_status(content);
    if ((status == PL_OK) && (input->log != NULL)) {
        status = pl_event_log_status(input->log);
    }
    if (status != PL_OK) {
        pl_log(log, PL_LOG_ERROR,
               "snapshot: out of memory; --events off makes it smaller");
    }
    return status;
}
