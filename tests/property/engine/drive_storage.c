/* What a storage folder would hold, and what an index may say. */
#include <stdlib.h>
#include <string.h>

#include "cache/storage_table.h"
#include "property/engine/drive_internal.h"

/* ---- the folder ---- */

drive_disk_t *drive_disk_open(void)
{
    drive_disk_t *disk = calloc(1, sizeof(*disk));

    ck_assert_ptr_nonnull(disk);
    disk->next_stamp = 1;
    return disk;
}

void drive_disk_close(drive_disk_t *disk)
{
    free(disk->pool.bytes);
    free(disk->pool.readers);
    free(disk->pool.writers);
    free(disk->named);
    free(disk->finished);
    free(disk->finishing);
    PL_ARRAY_FREE(&disk->index);
    PL_ARRAY_FREE(&disk->naming);
    free(disk);
}

pl_page_t drive_place(const driver_t *driver, const pl_storage_place_t *place)
{
    const struct disk_set *set = &driver->disk->sets[place->set];

    MUST((place->set >= 0) && (place->set < driver->disk->n_sets) &&
             (place->rank >= 0) && (place->rank < set->n_ranks) &&
             (place->slot >= 0) && (place->slot < set->n_slots),
         "no such place: set %d, rank %d, slot %d", place->set, place->rank,
         place->slot);
    return set->base + place->slot * set->n_ranks + place->rank;
}

static int shares_of(const pl_engine_config_t *config)
{
    return pl_ownership_shares(config->ownership, config->n_prefill);
}

/* The set that a run of this kind goes on with, or a new one. */
static int choose_set(const drive_disk_t *disk,
                      const pl_engine_config_t *config)
{
    for (int i = disk->n_sets - 1; i >= 0; i--) {
        if ((disk->sets[i].n_ranks == shares_of(config)) &&
            (disk->sets[i].asked == config->storage_pages) &&
            (config->storage_pages != PL_PAGES_UNLIMITED)) {
            return i;
        }
    }
    return disk->n_sets;
}

void drive_start_from(driver_t *driver, pl_engine_config_t *config)
{
    drive_disk_t *disk = driver->disk;
    size_t n           = (size_t)driver->params->n_requests;

    driver->start.n_entries  = (int32_t)disk->index.n;
    driver->start.entries    = disk->index.items;
    driver->start.own_set    = choose_set(disk, config);
    driver->start.next_stamp = disk->next_stamp;
    config->storage_start    = &driver->start;
    driver->skip             = calloc(n + 1, 1);
    ck_assert_ptr_nonnull(driver->skip);
    if (driver->params->resume && (disk->finished != NULL)) {
        memcpy(driver->skip, disk->finished, n);
        config->skip = driver->skip;
    }
}

static void grow_array(void **items, size_t size, int64_t before, int64_t after)
{
    *items = realloc(*items, (size_t)(after + 1) * size);
    ck_assert_ptr_nonnull(*items);
    memset((char *)*items + (size_t)before * size, 0,
           (size_t)(after - before + 1) * size);
}

/* What the index says that was found: of runs that died, another was not out.
 */
static void note_named(drive_disk_t *disk)
{
    memset(disk->named, 0, (size_t)disk->n_places + 1);
    for (size_t i = 0; i < disk->index.n; i++) {
        const pl_storage_place_t *place = &disk->index.items[i].place;
        const struct disk_set *set      = &disk->sets[place->set];

        disk->named[set->base + place->slot * set->n_ranks + place->rank] =
            NAMED_OUT;
    }
}

/* Places of the set that the run writes. */
void drive_open_set(driver_t *driver)
{
    const pl_engine_config_t *config = pl_engine_config(driver->engine);
    drive_disk_t *disk               = driver->disk;
    int32_t slots                    = pl_engine_storage_pages(driver->engine);
    struct disk_set *set             = &disk->sets[driver->start.own_set];
    int32_t room =
        config->storage_pages > slots ? config->storage_pages : slots;
    int64_t after;

    for (int64_t i = 0; i < disk->n_places; i++) { /* of runs that died */
        disk->pool.bytes[i] =
            disk->pool.writers[i] > 0 ? 0 : disk->pool.bytes[i];
        disk->pool.readers[i] = 0;
        disk->pool.writers[i] = 0;
    }
    if (disk->n_places > 0) {
        note_named(disk);
    }
    if (driver->start.own_set < disk->n_sets) {
        MUST(slots <= room, "a set has become smaller");
        set->n_slots = slots > set->n_slots ? slots : set->n_slots;
        return;
    }
    ck_assert_int_lt(disk->n_sets, MAX_SETS);
    *set = (struct disk_set){.n_ranks = shares_of(config),
                             .n_slots = slots,
                             .asked   = config->storage_pages,
                             .base    = (pl_page_t)disk->n_places};
    disk->n_sets++;
    after = disk->n_places + (int64_t)room * shares_of(config);
    grow_array((void **)&disk->pool.bytes, sizeof(uint64_t), disk->n_places,
               after);
    grow_array((void **)&disk->pool.readers, sizeof(int32_t), disk->n_places,
               after);
    grow_array((void **)&disk->pool.writers, sizeof(int32_t), disk->n_places,
               after);
    grow_array((void **)&disk->named, 1, disk->n_places, after);
    disk->n_places = after;
}

void drive_close_storage(driver_t *driver)
{
    free(driver->skip);
    if (driver->params->disk == NULL) {
        drive_disk_close(driver->disk);
    }
}

/* ---- writes ---- */

/* 9.37 who holds the lane writes it; 9.38, I8: nothing that an index names, or
 * may name, is written over, and nothing that is read. */
void drive_check_store(driver_t *driver, const pl_op_t *op)
{
    const drive_disk_t *disk = driver->disk;

    MUST(!driver->params->config.storage_read_only, "storage is written");
    for (int32_t i = 0; i < op->n_pages; i++) {
        pl_page_t at = drive_place(driver, &op->places[i]);

        MUST(op->places[i].set == driver->start.own_set,
             "a set of old is written");
        MUST((driver->n_lanes == 1) || (op->places[i].rank == op->owners[i]),
             "a page is written by a rank that has it not");
        MUST(pl_page_owner(op->pages[i], driver->n_lanes) == op->owners[i],
             "host page %d is another rank's", op->pages[i]);
        MUST(disk->named[at] == 0,
             "a page that an index names is written over");
        MUST((disk->pool.readers[at] == 0) && (disk->pool.writers[at] == 0),
             "a place is written under a copy");
        MUST((op->stamps[i] == op->stamps[0]) &&
                 (op->stamps[i] >= disk->next_stamp),
             "a stamp does not ascend");
    }
    driver->disk->next_stamp = op->stamps[0] + 1;
}

/* ---- reads ---- */

/* 9.37, 9.38: what is fetched was written, by an earlier store, as this very
 * page; it comes into the lane that the directory names. */
void drive_check_fetch(driver_t *driver, const pl_plan_t *plan,
                       const pl_op_t *op)
{
    const pl_engine_config_t *config = &driver->params->config;
    way_t *way                       = &driver->ways[op->request];

    MUST((op->n_pages >= 1) && (op->n_pages <= PL_STORAGE_READ_PAGES),
         "a fetch of %d pages", op->n_pages);
    MUST(way->is_waiting,
         "pages are fetched for request %d, which does not wait", op->request);
    for (int32_t i = 0; i < op->n_pages; i++) {
        pl_page_t at = drive_place(driver, &op->places[i]);

        MUST(driver->disk->pool.bytes[at] ==
                 drive_expected(driver, op->request, op->first_page + i),
             "position %d of request %d is fetched from elsewhere",
             op->first_page + i, op->request);
        MUST(op->stamps[i] < driver->disk->next_stamp,
             "a page is read that nobody wrote");
        MUST(pl_page_owner(op->pages[i], driver->n_lanes) == op->owners[i],
             "host page %d is another rank's", op->pages[i]);
        MUST((op->places[i].set == driver->start.own_set) ||
                 (op->owners[i] == (op->first_page + i) % driver->n_lanes),
             "a page of old is laid to lane %d", op->owners[i]);
    }
    if (way->fetch_tokens == 0) {
        way->fetch_since = plan->now_ns;
    }
    way->fetch_tokens += (int64_t)op->n_pages * config->page_tokens;
    way->n_fetches++;
}

/* Which pages some rank finds bad, or cannot read: both may be. */
void drive_bad_pages(driver_t *driver, const pl_op_t *op, flight_t *flight)
{
    const drive_params_t *params = driver->params;
    uint64_t n                   = (uint64_t)op->n_pages;

    if (params->bad_pages != NULL) {
        pl_storage_end_t end = params->bad_pages(params->context, op);

        flight->bad    = end.bad;
        flight->unread = end.unread;
    }
    if (drive_fails(driver, op, true)) {
        flight->bad |= UINT64_C(1) << pl_rng_below(&driver->rng, n);
    }
    if (drive_fails(driver, op, true)) {
        flight->unread |= UINT64_C(1) << pl_rng_below(&driver->rng, n);
    }
}

/* ---- publication ---- */

static pl_status_t name(void *context, const pl_storage_entry_t *entry)
{
    driver_t *driver   = context;
    drive_disk_t *disk = driver->disk;
    pl_page_t at       = drive_place(driver, &entry->place);

    MUST((disk->pool.bytes[at] & 1) != 0 && (disk->pool.writers[at] == 0),
         "an index names a page that is not on disk");
    MUST(entry->key.hi == 7, "a page with generated tokens is kept");
    MUST((disk->named[at] & 4) == 0, "two entries name one place");
    disk->named[at] |= NAMED_NEW | 4;
    MUST(PL_ARRAY_PUSH(&disk->naming, *entry) == PL_OK, "no memory");
    return PL_OK;
}

/* I8: what an index names is on disk. */
void drive_publish(driver_t *driver, const pl_plan_t *plan)
{
    drive_disk_t *disk = driver->disk;

    MUST(!driver->params->config.storage_read_only, "an index is put out");
    disk->naming.n = 0;
    MUST(pl_storage_visit(plan->storage, name, driver) == PL_OK, "no memory");
    for (int64_t i = 0; i < disk->n_places; i++) {
        disk->named[i] &= (uint8_t)~4U;
    }
    free(disk->finishing);
    disk->finishing = malloc((size_t)plan->n_requests + 1);
    ck_assert_ptr_nonnull(disk->finishing);
    memcpy(disk->finishing, plan->finished, (size_t)plan->n_requests);
}

void drive_published(driver_t *driver, bool good)
{
    drive_disk_t *disk = driver->disk;

    if (!good) {
        return; /* it may be out all the same */
    }
    memset(disk->named, 0, (size_t)disk->n_places);
    disk->index.n = 0;
    for (size_t i = 0; i < disk->naming.n; i++) {
        const pl_storage_entry_t *entry = &disk->naming.items[i];

        disk->named[drive_place(driver, &entry->place)] = NAMED_OUT;
        MUST(PL_ARRAY_PUSH(&disk->index, *entry) == PL_OK, "no memory");
    }
    free(disk->finished);
    disk->finished  = disk->finishing;
    disk->finishing = NULL;
}
