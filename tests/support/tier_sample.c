#include "support/tier_sample.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "cache/tree.h"
#include "verify/digest.h"

void tier_sample_empty(const char *folder)
{
    DIR *open = opendir(folder);
    struct dirent *entry;
    char path[400];

    while ((open != NULL) && ((entry = readdir(open)) != NULL)) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        (void)unlink(path); /* not "." and ".." */
    }
    if (open != NULL) {
        (void)closedir(open);
    }
}

tier_sample_t tier_sample_make(const char *folder, int n_ranks, int32_t n_slots,
                               const pl_log_t *log)
{
    return (tier_sample_t){.folder      = folder,
                           .n_ranks     = n_ranks,
                           .n_slots     = n_slots,
                           .page_tokens = 4,
                           .n_layers    = 2,
                           .row_bytes   = 24,
                           .log         = log};
}

/* ---- opening ---- */

static pl_status_t open_storage(tier_sample_t *sample)
{
    const pl_storage_params_t params = {.n_lanes        = sample->n_ranks,
                                        .n_ranks        = sample->n_ranks,
                                        .pages_per_lane = sample->n_slots,
                                        .read_only      = sample->read_only,
                                        .start = &sample->content.start};

    return pl_storage_open(&params, sample->log, &sample->storage);
}

static pl_status_t open_doors(tier_sample_t *sample)
{
    for (int rank = 0; rank < sample->n_ranks; rank++) {
        const pl_tier_params_t params = {.folder   = sample->folder,
                                         .identity = sample->identity,
                                         .own_set =
                                             sample->content.start.own_set,
                                         .n_ranks   = sample->n_ranks,
                                         .n_slots   = sample->n_slots,
                                         .read_only = sample->read_only,
                                         .rank      = rank,
                                         .trace     = 77,
                                         .files     = sample->files[rank],
                                         .inject    = sample->inject,
                                         .log       = sample->log};

        PL_TRY(pl_tier_open(&params, &sample->doors[rank]));
    }
    return PL_OK;
}

pl_status_t tier_sample_open(tier_sample_t *sample)
{
    pl_status_t status;

    sample->layout = pl_store_layout_stamp(
        sample->page_tokens, sample->n_layers, sample->row_bytes, 1);
    sample->identity.model  = "sample";
    sample->identity.tokens = "numbers";
    sample->identity.dtype  = sample->dtype == NULL ? "stamp" : sample->dtype;
    pl_tier_identity_layout(&sample->identity, &sample->layout);
    PL_TRY_GOTO(status, pl_files_journal_open(sample->inject, &sample->journal),
                err_close);
    for (int rank = 0; rank < sample->n_ranks; rank++) {
        PL_TRY_GOTO(status,
                    pl_files_open(sample->inject, rank, sample->journal,
                                  &sample->files[rank]),
                    err_close);
    }
    if (!sample->read_only) {
        PL_TRY_GOTO(status,
                    pl_tier_prepare(sample->folder, sample->files[0],
                                    sample->log, &sample->lock),
                    err_close);
    }
    PL_TRY_GOTO(status,
                pl_tier_read(sample->folder, &sample->identity, sample->n_ranks,
                             sample->n_slots, sample->log, &sample->content),
                err_close);
    PL_TRY_GOTO(status, open_storage(sample), err_close);
    PL_TRY_GOTO(status, open_doors(sample), err_close);
    return PL_OK;

err_close:
    tier_sample_close(sample);
    return status;
}

void tier_sample_close(tier_sample_t *sample)
{
    for (int rank = 0; rank < sample->n_ranks; rank++) {
        if (sample->doors[rank] != NULL) {
            sample->doors[rank]->ops->close(sample->doors[rank]);
        }
        pl_files_close(sample->files[rank]);
        sample->doors[rank] = NULL;
        sample->files[rank] = NULL;
    }
    pl_files_journal_close(sample->journal);
    pl_storage_close(sample->storage);
    pl_tier_content_free(&sample->content);
    pl_tier_release(sample->lock);
    sample->journal = NULL;
    sample->storage = NULL;
    sample->lock    = NULL;
}

/* ---- pages ---- */

static pl_page_key_t key_of(uint64_t prefix, int32_t page)
{
    return (pl_page_key_t){pl_mix64(prefix * 1000 + (uint64_t)page + 1),
                           prefix};
}

static void list_keys(uint64_t prefix, pl_page_key_t *keys)
{
    for (int32_t i = 0; i < TIER_SAMPLE_LONGEST; i++) {
        keys[i] = key_of(prefix, i);
    }
}

static uint64_t chain_before(uint64_t prefix, int32_t page)
{
    uint64_t chain = pl_tree_chain_start(0);

    for (int32_t i = 0; i < page; i++) {
        chain = pl_tree_chain_next(chain, key_of(prefix, i));
    }
    return chain;
}

static void fill_page(const tier_sample_t *sample, uint64_t chain,
                      uint8_t *bytes)
{
    for (int64_t i = 0; i < sample->identity.page_bytes; i++) {
        bytes[i] = (uint8_t)pl_mix64(chain + (uint64_t)i);
    }
}

/* The sum over layers and stores, as its writer takes it. */
static uint64_t digest_of(const tier_sample_t *sample, const uint8_t *bytes,
                          int32_t page)
{
    const pl_store_layout_t *layout = &sample->layout;
    int64_t position                = (int64_t)page * sample->page_tokens;
    uint64_t digest                 = 0;

    for (int which = 0; which < PL_STORES; which++) {
        pl_page_form_t form = pl_store_form(layout, which);

        for (int32_t layer = 0; layer < layout->n_layers; layer++) {
            digest += pl_digest_rows(&form, bytes, 0, layout->page_tokens,
                                     position, pl_digest_base(layer, which));
            bytes += pl_store_stride(layout, which);
        }
    }
    return digest;
}

/* ---- storing ---- */

typedef struct share {
    int32_t n;
    pl_storage_place_t places[TIER_SAMPLE_LONGEST];
    pl_storage_header_t headers[TIER_SAMPLE_LONGEST];
    pl_storage_piece_t pieces[TIER_SAMPLE_LONGEST * 2];
    int64_t ticket;
} share_t;

/* A page in two pieces of odd lengths. */
static void cut(const tier_sample_t *sample, uint8_t *page,
                pl_storage_piece_t *pieces)
{
    size_t n = (size_t)sample->identity.page_bytes;

    pieces[0] = (pl_storage_piece_t){page, n / 3};
    pieces[1] = (pl_storage_piece_t){page + n / 3, n - n / 3};
}

static pl_storage_io_t io_of(share_t *share)
{
    return (pl_storage_io_t){.n_pages  = share->n,
                             .places   = share->places,
                             .headers  = share->headers,
                             .pieces   = share->pieces,
                             .n_pieces = 2};
}

static void add_page(const tier_sample_t *sample, share_t *share,
                     pl_storage_place_t place, pl_storage_header_t header,
                     uint8_t *bytes)
{
    int32_t i = share->n++;

    share->places[i]  = place;
    share->headers[i] = header;
    cut(sample, bytes, &share->pieces[2 * i]);
}

static bool write_shares(tier_sample_t *sample, share_t *shares)
{
    uint64_t bad = 0;

    for (int rank = 0; rank < sample->n_ranks; rank++) {
        pl_storage_io_t io      = io_of(&shares[rank]);
        pl_storage_door_t *door = sample->doors[rank];

        if (!door->ops->can_write(door)) {
            bad = 1;
            continue;
        }
        if (door->ops->write(door, &io, &shares[rank].ticket) != PL_OK) {
            abort();
        }
    }
    for (int rank = 0; rank < sample->n_ranks; rank++) {
        pl_storage_door_t *door = sample->doors[rank];
        pl_storage_end_t mine   = {0};

        if ((shares[rank].ticket > 0) &&
            (door->ops->wait(door, shares[rank].ticket, &mine) != PL_OK)) {
            abort();
        }
        bad |= mine.bad;
    }
    return bad == 0;
}

bool tier_sample_store(tier_sample_t *sample, uint64_t prefix, int32_t first,
                       int32_t n)
{
    share_t *shares = calloc((size_t)sample->n_ranks, sizeof(*shares));
    uint8_t *bytes  = calloc((size_t)n, (size_t)sample->identity.page_bytes);
    pl_page_key_t keys[TIER_SAMPLE_LONGEST];
    pl_owner_t owners[TIER_SAMPLE_LONGEST];
    pl_page_t pages[TIER_SAMPLE_LONGEST];
    uint64_t chain = chain_before(prefix, first);
    int64_t stamp  = 0;
    bool good;

    list_keys(prefix, keys);
    for (int32_t i = 0; i < n; i++) {
        owners[i] =
            (pl_owner_t)((first + i + (int32_t)prefix) % sample->n_ranks);
    }
    good = pl_storage_take(sample->storage, chain, &keys[first], first, owners,
                           n, pages, &stamp) == PL_OK;
    for (int32_t i = 0; good && (i < n); i++) {
        uint8_t *page            = bytes + i * sample->identity.page_bytes;
        pl_storage_place_t place = {pl_storage_own_set(sample->storage),
                                    pages[i] % sample->n_ranks,
                                    pages[i] / sample->n_ranks};

        chain = pl_tree_chain_next(chain, keys[first + i]);
        fill_page(sample, chain, page);
        add_page(sample, &shares[place.rank], place,
                 (pl_storage_header_t){stamp, chain,
                                       digest_of(sample, page, first + i)},
                 page);
    }
    if (good) {
        good = write_shares(sample, shares);
        if (pl_storage_stored(sample->storage, stamp, good) != PL_OK) {
            abort();
        }
    }
    free(bytes);
    free(shares);
    return good;
}

bool tier_sample_publish(tier_sample_t *sample)
{
    const uint8_t finished[3]  = {1, 0, 1};
    const pl_storage_run_t run = {3, finished};
    pl_storage_door_t *door    = sample->doors[0];
    int64_t ticket             = 0;
    pl_storage_end_t end       = {0};

    pl_storage_publish(sample->storage);
    if ((door->ops->publish(door, sample->storage, &run, &ticket) != PL_OK) ||
        (door->ops->wait(door, ticket, &end) != PL_OK) ||
        (pl_storage_published(sample->storage, end.bad == 0) != PL_OK)) {
        abort();
    }
    return end.bad == 0;
}

/* ---- reading ---- */

/* By the rank that owns the page. */
static pl_storage_end_t read_share(tier_sample_t *sample, int rank,
                                   share_t *share)
{
    pl_storage_io_t io      = io_of(share);
    pl_storage_door_t *door = sample->doors[rank];
    pl_storage_end_t end    = {0};

    if ((door->ops->read(door, &io, &share->ticket) != PL_OK) ||
        (door->ops->wait(door, share->ticket, &end) != PL_OK)) {
        abort();
    }
    return end;
}

int32_t tier_sample_fetch(tier_sample_t *sample, uint64_t prefix)
{
    size_t page_bytes = (size_t)sample->identity.page_bytes;
    uint8_t *bytes    = calloc(TIER_SAMPLE_LONGEST + 1, page_bytes);
    uint8_t *wanted   = bytes + TIER_SAMPLE_LONGEST * page_bytes;
    pl_page_key_t keys[TIER_SAMPLE_LONGEST];
    pl_storage_entry_t entries[TIER_SAMPLE_LONGEST];
    uint64_t chain = pl_tree_chain_start(0);
    int32_t n, good = 0;
    int32_t first_bad = -1;
    bool lied         = false;

    list_keys(prefix, keys);
    n = pl_storage_find(sample->storage, chain, keys, 0, TIER_SAMPLE_LONGEST);
    if (pl_storage_hold(sample->storage, chain, keys, 0, n, entries) != PL_OK) {
        abort();
    }
    while (good < n) {
        const pl_storage_entry_t *entry = &entries[good];
        uint8_t *page                   = bytes + (size_t)good * page_bytes;
        share_t *share                  = calloc(1, sizeof(*share));
        pl_storage_end_t end;
        bool is_bad, is_right;

        add_page(sample, share, entry->place,
                 (pl_storage_header_t){entry->stamp, entry->chain, 0}, page);
        end    = read_share(sample, entry->owner, share);
        is_bad = (end.bad | end.unread) != 0;
        fill_page(sample, entry->chain, wanted);
        is_right = memcmp(page, wanted, page_bytes) == 0;
        /* Bytes that are wrong have another digest than stands beside them. */
        is_bad = is_bad ||
                 (digest_of(sample, page, good) != share->headers[0].digest);
        lied = lied || (!is_bad && !is_right);
        free(share);
        if (is_bad) {
            first_bad = end.unread != 0 ? n : good;
            break;
        }
        good++;
    }
    if (pl_storage_release(sample->storage, entries, n, good,
                           first_bad >= 0 ? first_bad : n) != PL_OK) {
        abort();
    }
    free(bytes);
    return lied ? -1 : good;
}

int32_t tier_sample_fetch_all(tier_sample_t *sample, uint64_t n)
{
    int32_t sum = 0;

    for (uint64_t prefix = 0; prefix < n; prefix++) {
        int32_t good = tier_sample_fetch(sample, prefix);

        if (good < 0) {
            return -1;
        }
        sum += good;
    }
    return sum;
}
