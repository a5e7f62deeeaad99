#include "cli/uses.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- prefixes ---- */

/* An earlier request, and no more pages than the prompt has: so that names end
 * somewhere. */
static pl_status_t check(const pl_snapshot_t *snapshot,
                         const pl_sharing_t *sharing,
                         const pl_record_t *records, int32_t page_tokens)
{
    for (size_t i = 0; i < sharing->n; i++) {
        int64_t with  = sharing->with.items[i];
        int64_t pages = sharing->pages.items[i];
        bool is_none  = (with == -1) && (pages == 0);

        if (!is_none && ((with < 0) || (with >= (int64_t)i) || (pages < 1) ||
                         (pages > records[i].prompt_tokens / page_tokens))) {
            return pl_snapshot_refuse(snapshot, "/requests/shared_with",
                                      "request %zu cannot share %" PRId64
                                      " pages with request %" PRId64,
                                      i, pages, with);
        }
    }
    return PL_OK;
}

pl_status_t pl_sharing_load(const pl_snapshot_t *snapshot,
                            const pl_record_t *records, int32_t n,
                            int32_t page_tokens, pl_sharing_t *sharing)
{
    sharing->n = (size_t)n;
    PL_TRY(pl_snapshot_read(snapshot, "/requests/shared_with", PL_ITEM_I32,
                            sharing->n, 0, &sharing->with));
    PL_TRY(pl_snapshot_read(snapshot, "/requests/shared_pages", PL_ITEM_I32,
                            sharing->n, 0, &sharing->pages));
    return check(snapshot, sharing, records, page_tokens);
}

void pl_sharing_free(pl_sharing_t *sharing)
{
    pl_snapshot_column_free(&sharing->with);
    pl_snapshot_column_free(&sharing->pages);
}

int64_t pl_sharing_key(const pl_sharing_t *sharing, int64_t request,
                       int64_t page)
{
    if ((request < 0) || (request >= (int64_t)sharing->n)) {
        return -1;
    }
    while (page < sharing->pages.items[request]) {
        request = sharing->with.items[request];
    }
    return request << 31 | page;
}

int64_t pl_sharing_common(const pl_sharing_t *sharing, int64_t a, int64_t b,
                          int64_t most)
{
    int64_t low  = 0;
    int64_t high = most;

    if (pl_sharing_key(sharing, a, 0) < 0) {
        return 0;
    }
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;

        if (pl_sharing_key(sharing, a, middle - 1) ==
            pl_sharing_key(sharing, b, middle - 1)) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

/* ---- uses ---- */

typedef struct finder {
    const pl_events_t *events;
    const pl_record_t *records;
    int32_t n, page_tokens, n_lanes;
    int64_t *prompt_tokens; /* [n] of the next admission */
    size_t *open;           /* [n] the use under way; PL_NO_EVENT: none */
    pl_uses_t *uses;
} finder_t;

/* A number of tokens; 0 where it can be none. */
static int64_t tokens_of(const pl_events_t *events, pl_event_field_t field,
                         size_t i)
{
    int64_t value = pl_event_at(events, field, i);

    return (value >= 0) && (value <= INT32_MAX) ? value : 0;
}

static pl_status_t admit(finder_t *f, size_t i, int64_t request)
{
    const pl_events_t *events = f->events;
    pl_use_t use              = {
                     .request   = request,
                     .begin     = i,
                     .end       = PL_NO_EVENT,
                     .hit_pages = (tokens_of(events, PL_FIELD_VALUE, i) +
                      tokens_of(events, PL_FIELD_VALUE2, i)) /
                                  f->page_tokens,
                     .prompt_tokens = f->prompt_tokens[request],
                     .first         = PL_NO_EVENT,
    };

    if (f->open[request] != PL_NO_EVENT) {
        pl_use_t *before = &f->uses->uses.items[f->open[request]];

        before->end = before->end == PL_NO_EVENT ? i : before->end;
    }
    f->open[request] = f->uses->uses.n;
    return PL_ARRAY_PUSH(&f->uses->uses, use);
}

/* Pages from `first` on, of the prompt's: all that were computed, or (`hits`)
 * only those of the hit. */
static pl_status_t touch(finder_t *f, size_t i, pl_use_t *use, int64_t first,
                         bool hits)
{
    size_t n;
    const int64_t *pages = pl_event_pages(f->events, i, &n);

    if ((first < 0) || (first > INT32_MAX)) {
        return PL_OK;
    }
    for (size_t p = 0; p < n; p++) {
        int64_t page       = first + (int64_t)p;
        pl_touch_t touched = {page, (int32_t)(pages[p] % f->n_lanes),
                              hits ? use->begin : i, use->first};

        if ((page > INT32_MAX - 1) || (hits && (page >= use->hit_pages))) {
            return PL_OK;
        }
        PL_TRY(PL_ARRAY_PUSH(&f->uses->touches, touched));
        use->first = f->uses->touches.n - 1;
    }
    return PL_OK;
}

static pl_status_t see(finder_t *f, size_t i)
{
    const pl_events_t *events = f->events;
    pl_kind_t kind            = pl_event_kind(events, i);
    int64_t request           = pl_event_at(events, PL_FIELD_REQUEST, i);
    int64_t value             = pl_event_at(events, PL_FIELD_VALUE, i);
    int64_t value2            = pl_event_at(events, PL_FIELD_VALUE2, i);
    pl_use_t *use;

    if ((request < 0) || (request >= f->n)) {
        return PL_OK;
    }
    if (kind == PL_KIND_ADMIT) {
        return admit(f, i, request);
    }
    if (kind == PL_KIND_REENTER) {
        f->prompt_tokens[request] = tokens_of(events, PL_FIELD_VALUE2, i);
    }
    if (f->open[request] == PL_NO_EVENT) {
        return PL_OK;
    }
    use = &f->uses->uses.items[f->open[request]];
    if (kind == PL_KIND_CHUNK) {
        return touch(f, i, use, value / f->page_tokens, false);
    }
    if (kind == PL_KIND_SEND) {
        return touch(f, i, use, value2, true);
    }
    if ((kind == PL_KIND_SENT) ||
        ((kind == PL_KIND_FINISH) && (use->end == PL_NO_EVENT))) {
        use->end = i;
    }
    return PL_OK;
}

pl_status_t pl_uses_find(const pl_events_t *events, const pl_record_t *records,
                         int32_t n, int32_t page_tokens, int32_t n_lanes,
                         pl_uses_t *uses)
{
    size_t room        = (size_t)n + 1;
    finder_t f         = {.events        = events,
                          .records       = records,
                          .n             = n,
                          .page_tokens   = page_tokens,
                          .n_lanes       = n_lanes,
                          .prompt_tokens = malloc(room * sizeof(int64_t)),
                          .open          = malloc(room * sizeof(size_t)),
                          .uses          = uses};
    pl_status_t status = PL_OK;

    if ((f.prompt_tokens == NULL) || (f.open == NULL)) {
        status = PL_ERR_MEMORY;
    }
    for (int32_t r = 0; (status == PL_OK) && (r < n); r++) {
        f.prompt_tokens[r] = records[r].prompt_tokens;
        f.open[r]          = PL_NO_EVENT;
    }
    for (size_t i = 0; (status == PL_OK) && (i < events->n); i++) {
        status = see(&f, i);
    }
    free(f.prompt_tokens);
    free(f.open);
    return status;
}

void pl_uses_free(pl_uses_t *uses)
{
    PL_ARRAY_FREE(&uses->uses);
    PL_ARRAY_FREE(&uses->touches);
}
