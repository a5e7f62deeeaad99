/* pagelane inspect F why R: why each page of a prompt was missed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/inspect.h"
#include "cli/stack.h"
#include "cli/table.h"

enum { NONE = -1, MOST_PAGES = 1 << 20 /* of a prompt, without a look */ };

/* What is known of one page of the prompt. */
typedef struct page {
    int cause;          /* pl_miss_t; NONE: it was hit */
    size_t left_device; /* event; PL_NO_EVENT: it is there, or never was */
    size_t left_host;   /* likewise */
    int32_t host_lane;  /* of its last copy; NONE: it never had one */
    size_t used_by;     /* its last use before; PL_NO_EVENT: none */
} page_t;

typedef struct why {
    const pl_snapshot_t *snapshot;
    pl_inspect_layout_t layout;
    pl_record_t *records;
    int32_t n_records;
    int64_t request;
    pl_events_t events;
    pl_sharing_t sharing;
    pl_uses_t uses;
    size_t admitted; /* the event whose hit the record tells */
    page_t *pages;   /* [n] of the prompt */
    int64_t n;
    int64_t *keys;            /* [n] */
    PL_ARRAY(int64_t) copied; /* keys with a host copy before `admitted` */
} why_t;

static const pl_record_t *record_of(const why_t *why)
{
    return &why->records[why->request];
}

/* ---- loading ---- */

/* The last admission before the prompt came back with tokens of its own. */
static void find_admission(why_t *why)
{
    why->admitted = PL_NO_EVENT;
    for (size_t i = 0; i < why->events.n; i++) {
        pl_kind_t kind = pl_event_kind(&why->events, i);

        if (pl_event_at(&why->events, PL_FIELD_REQUEST, i) != why->request) {
            continue;
        }
        if (kind == PL_KIND_REENTER) {
            return;
        }
        if (kind == PL_KIND_ADMIT) {
            why->admitted = i;
        }
    }
}

static pl_status_t make_pages(why_t *why)
{
    int64_t page_tokens = why->layout.page_tokens;
    int64_t prompt      = record_of(why)->prompt_tokens;
    size_t n            = (size_t)((prompt + page_tokens - 1) / page_tokens);

    if ((n > MOST_PAGES) && (n > why->events.pages.rows)) {
        return pl_snapshot_refuse(why->snapshot, "/requests/prompt_tokens",
                                  "request %" PRId64 " has %zu pages, but the "
                                  "events name %zu",
                                  why->request, n, why->events.pages.rows);
    }
    why->pages = calloc(n, sizeof(*why->pages));
    why->keys  = calloc(n, sizeof(*why->keys));
    if ((why->pages == NULL) || (why->keys == NULL)) {
        return PL_ERR_MEMORY;
    }
    why->n = (int64_t)n;
    for (int64_t p = 0; p < why->n; p++) {
        why->keys[p] = pl_sharing_key(&why->sharing, why->request, p);
        why->pages[p] =
            (page_t){NONE, PL_NO_EVENT, PL_NO_EVENT, NONE, PL_NO_EVENT};
    }
    return PL_OK;
}

static pl_status_t load(const pl_inspect_t *inspect, why_t *why)
{
    why->snapshot = inspect->snapshot;
    PL_TRY(pl_inspect_layout(why->snapshot, &why->layout));
    PL_TRY(pl_inspect_records(why->snapshot, &why->records, &why->n_records));
    PL_TRY(pl_inspect_number(inspect, 2, "request", (int64_t)why->n_records - 1,
                             &why->request));
    PL_TRY(pl_events_load(why->snapshot, "inspect why", true, &why->events));
    PL_TRY(pl_sharing_load(why->snapshot, why->records, why->n_records,
                           (int32_t)why->layout.page_tokens, &why->sharing));
    find_admission(why);
    PL_TRY(make_pages(why));
    return pl_uses_find(&why->events, why->records, why->n_records,
                        (int32_t)why->layout.page_tokens,
                        (int32_t)why->layout.n_lanes, &why->uses);
}

static void unload(why_t *why)
{
    free(why->records);
    free(why->pages);
    free(why->keys);
    PL_ARRAY_FREE(&why->copied);
    pl_events_free(&why->events);
    pl_sharing_free(&why->sharing);
    pl_uses_free(&why->uses);
}

/* ---- which page was missed for which cause ---- */

/* Pages of the prompt that a copy was to bring and did not: [first, end). */
typedef struct span {
    int64_t first, end;
} span_t;

/* Of the last load-back that failed, or the last fetch that brought too little,
 * before the admission. */
static span_t find_bad(const why_t *why, pl_kind_t begins, pl_kind_t ends)
{
    const pl_events_t *events = &why->events;
    span_t asked = {0, 0}, bad = {0, 0};
    int64_t op = 0;

    for (size_t i = 0; (i < events->n) && (i < why->admitted); i++) {
        pl_kind_t kind = pl_event_kind(events, i);
        int64_t value  = pl_event_at(events, PL_FIELD_VALUE, i);
        size_t n       = 0;

        if ((value < 0) || (value > INT32_MAX)) {
            continue;
        }
        if ((kind == begins) &&
            (pl_event_at(events, PL_FIELD_REQUEST, i) == why->request)) {
            (void)pl_event_pages(events, i, &n);
            op    = pl_event_at(events, PL_FIELD_OP, i);
            asked = (span_t){value, value + (int64_t)n};
        }
        if ((kind == ends) && (op != 0) &&
            (pl_event_at(events, PL_FIELD_OP, i) == op)) {
            int64_t came = ends == PL_KIND_FETCHED ? value
                           : value != 0            ? INT32_MAX
                                                   : 0;

            if (asked.first + came < asked.end) {
                bad = (span_t){asked.first + came, asked.end};
            }
            op = 0;
        }
    }
    return bad;
}

static int64_t common_part(span_t a, int64_t first, int64_t end)
{
    first = a.first > first ? a.first : first;
    end   = a.end < end ? a.end : end;
    return end > first ? end - first : 0;
}

static bool is_in(span_t span, int64_t page)
{
    return (page >= span.first) && (page < span.end);
}

/* The next n pages from *at_p on. */
static void mark(why_t *why, int64_t *at_p, int64_t n, pl_miss_t cause)
{
    for (int64_t i = 0; (i < n) && (*at_p < why->n); i++) {
        why->pages[(*at_p)++].cause = (int)cause;
    }
}

/* Pages missed for a cause; a file may say anything. */
static int64_t missed(const why_t *why, pl_miss_t cause)
{
    int64_t n = record_of(why)->miss_pages[cause];

    return n < 0 ? 0 : n > why->n ? why->n : n;
}

/* How the pages that failed are shared out. */
typedef struct failures {
    int64_t passed; /* before what was held once */
    int64_t lost;   /* of what was held once */
    span_t load, fetch;
} failures_t;

/* Do they add up, if so many were passed over and lost?  held: where what was
 * held once begins, without those passed over. */
static bool adds_up(const why_t *why, const failures_t *f, int64_t held)
{
    int64_t end  = held + f->passed + missed(why, PL_MISS_EVICTED) + f->lost;
    int64_t last = why->n - missed(why, PL_MISS_LAST);

    return f->passed + f->lost + common_part(f->fetch, end, last) ==
           missed(why, PL_MISS_FAILED);
}

static void share_failures(const why_t *why, int64_t held, failures_t *f)
{
    int64_t failed = missed(why, PL_MISS_FAILED);

    for (f->passed = 0; f->passed <= failed; f->passed++) {
        int64_t first = held + f->passed;

        f->lost = common_part(f->load, first,
                              first + missed(why, PL_MISS_EVICTED) + failed -
                                  f->passed);
        if (adds_up(why, f, held)) {
            return;
        }
        f->lost = 0;
        if (adds_up(why, f, held)) {
            return;
        }
    }
    f->passed = failed;
    f->lost   = 0;
}

/* The engine looks at a prompt from its start: what was hit, what was passed
 * over (too short a host hit, or a load that had failed), what was cut off for
 * want of room, what is on storage, what was held once, what is new; the rest
 * holds the last token.  Of what was held once a failed load lost some, and
 * some of what is new here a fetch should have brought. */
static void mark_causes(why_t *why)
{
    const pl_record_t *record = record_of(why);
    int64_t at = ((int64_t)record->device_hit_tokens + record->host_hit_tokens +
                  record->storage_hit_tokens) /
                 why->layout.page_tokens;
    failures_t f = {.load  = find_bad(why, PL_KIND_LOAD, PL_KIND_LOADED),
                    .fetch = find_bad(why, PL_KIND_FETCH, PL_KIND_FETCHED)};
    int64_t end;

    at = at > 0 ? at : 0;
    share_failures(why,
                   at + missed(why, PL_MISS_THRESHOLD) +
                       missed(why, PL_MISS_LANE) + missed(why, PL_MISS_STORAGE),
                   &f);
    mark(why, &at, missed(why, PL_MISS_THRESHOLD), PL_MISS_THRESHOLD);
    mark(why, &at, f.passed, PL_MISS_FAILED);
    mark(why, &at, missed(why, PL_MISS_LANE), PL_MISS_LANE);
    mark(why, &at, missed(why, PL_MISS_STORAGE), PL_MISS_STORAGE);
    end = at + missed(why, PL_MISS_EVICTED) + f.lost;
    while ((at < end) && (at < why->n)) {
        mark(why, &at, 1, is_in(f.load, at) ? PL_MISS_FAILED : PL_MISS_EVICTED);
    }
    end = why->n - missed(why, PL_MISS_LAST);
    while (at < end) {
        mark(why, &at, 1, is_in(f.fetch, at) ? PL_MISS_FAILED : PL_MISS_NEW);
    }
    mark(why, &at, why->n - at, PL_MISS_LAST);
}

/* ---- when pages of the prompt came and went ---- */

/* The pages of the prompt that a node has: [*first_p, *end_p). */
static void part_of_prompt(const why_t *why, const pl_replay_node_t *node,
                           int64_t *first_p, int64_t *end_p)
{
    int64_t common = pl_sharing_common(
        &why->sharing, node->request, why->request,
        record_of(why)->prompt_tokens / why->layout.page_tokens);

    *first_p = node->first < common ? node->first : common;
    *end_p   = node->first + node->n < common ? node->first + node->n : common;
}

static pl_status_t note_copy(why_t *why, const pl_replay_node_t *node, size_t i)
{
    const int64_t *other = pl_event_other(&why->events, i);
    int64_t first, end;
    size_t n;

    (void)pl_event_pages(&why->events, i, &n);
    if ((other == NULL) || ((int64_t)n != node->n)) {
        return PL_OK;
    }
    for (int64_t p = 0; p < node->n; p++) {
        PL_TRY(PL_ARRAY_PUSH(
            &why->copied,
            pl_sharing_key(&why->sharing, node->request, node->first + p)));
    }
    part_of_prompt(why, node, &first, &end);
    for (int64_t p = first; p < end; p++) {
        why->pages[p].host_lane =
            (int32_t)(other[p - node->first] % why->layout.n_lanes);
        why->pages[p].left_host = PL_NO_EVENT;
    }
    return PL_OK;
}

/* What an event does to the node it names, as that stood before. */
static pl_status_t note_change(why_t *why, const pl_replay_node_t *node,
                               size_t i)
{
    pl_kind_t kind = pl_event_kind(&why->events, i);
    int64_t first, end;

    if (kind == PL_KIND_BACKUP) {
        return note_copy(why, node, i);
    }
    if ((kind != PL_KIND_EVICT) && (kind != PL_KIND_HOST_DROP)) {
        return PL_OK;
    }
    part_of_prompt(why, node, &first, &end);
    for (int64_t p = first; p < end; p++) {
        if (kind == PL_KIND_EVICT) {
            why->pages[p].left_device = i;
        } else {
            why->pages[p].left_host = i;
        }
    }
    return PL_OK;
}

static int by_number(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static pl_status_t play_back(why_t *why)
{
    pl_replay_t replay = {.events = &why->events};
    pl_status_t status = PL_OK;

    for (size_t i = 0; (i < why->admitted) && (status == PL_OK); i++) {
        const pl_replay_node_t *node = pl_replay_find(
            &replay, pl_event_at(&why->events, PL_FIELD_NODE, i));

        if (node != NULL) {
            status = note_change(why, node, i);
        }
        if (status == PL_OK) {
            status = pl_replay_step(&replay, i);
        }
    }
    pl_replay_free(&replay);
    if (why->copied.n > 0) {
        qsort(why->copied.items, why->copied.n, sizeof(int64_t), by_number);
    }
    return status;
}

/* The last use of each page that had ended before. */
static void find_last_uses(why_t *why)
{
    int64_t whole = record_of(why)->prompt_tokens / why->layout.page_tokens;

    for (size_t u = 0; u < why->uses.uses.n; u++) {
        const pl_use_t *use = &why->uses.uses.items[u];
        int64_t common;

        if (use->end >= why->admitted) {
            continue;
        }
        common =
            pl_sharing_common(&why->sharing, use->request, why->request, whole);
        for (int64_t p = 0; p < common; p++) {
            size_t before = why->pages[p].used_by;

            if ((before == PL_NO_EVENT) ||
                (why->uses.uses.items[before].end < use->end)) {
                why->pages[p].used_by = u;
            }
        }
    }
}

/* ---- how many pages would have been enough ---- */

/* Pages next to each other with the same fate. */
typedef struct run {
    int64_t first, n;
    int64_t device_pages, host_pages; /* per rank; NONE: no number is known */
} run_t;

/* The lane each page of the prompt had in a use; [n]. */
static int32_t *lanes_in(const why_t *why, size_t use)
{
    int32_t *lanes = malloc((size_t)why->n * sizeof(*lanes));

    for (int64_t p = 0; (lanes != NULL) && (p < why->n); p++) {
        lanes[p] = NONE;
    }
    for (size_t t = why->uses.uses.items[use].first;
         (lanes != NULL) && (t != PL_NO_EVENT);
         t = why->uses.touches.items[t].next) {
        const pl_touch_t *touch = &why->uses.touches.items[t];

        if (touch->page < why->n) {
            lanes[touch->page] = touch->lane;
        }
    }
    return lanes;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* In each lane the last page of the run needs most, since those before it are
 * counted with it. */
static void size_run(const why_t *why, const pl_stack_t *stack,
                     const int32_t *lanes, const int32_t *host_lanes,
                     run_t *run)
{
    const pl_stack_path_t device = {why->n, why->keys, lanes};
    const pl_stack_path_t host   = {why->n, why->keys, host_lanes};
    bool has_device[128]         = {false}; /* lanes are int8 */
    bool has_host[128]           = {false};
    bool all_copied              = true;

    run->device_pages = run->host_pages = NONE;
    for (int64_t p = run->first + run->n - 1; p >= run->first; p--) {
        int32_t lane      = lanes[p];
        int32_t host_lane = host_lanes[p];

        all_copied = all_copied && (host_lane != NONE);
        if ((lane != NONE) && !has_device[lane]) {
            has_device[lane] = true;
            run->device_pages =
                larger(run->device_pages,
                       pl_stack_depth(stack, &device, p, lane, false) +
                           why->layout.device_reserved);
        }
        if ((host_lane != NONE) && !has_host[host_lane]) {
            has_host[host_lane] = true;
            run->host_pages =
                larger(run->host_pages,
                       pl_stack_depth(stack, &host, p, host_lane, true) +
                           why->layout.host_reserved);
        }
    }
    if (!all_copied) {
        run->host_pages = NONE;
    }
}

static int32_t *host_lanes(const why_t *why)
{
    int32_t *lanes = malloc((size_t)why->n * sizeof(*lanes));

    for (int64_t p = 0; (lanes != NULL) && (p < why->n); p++) {
        lanes[p] = why->pages[p].host_lane;
    }
    return lanes;
}

/* All runs of one last use: the demand since then is the same. */
static pl_status_t size_runs_of(const why_t *why, size_t use, run_t *runs,
                                size_t n)
{
    pl_stack_t stack   = {0};
    int32_t *lanes     = lanes_in(why, use);
    int32_t *host      = host_lanes(why);
    pl_status_t status = PL_ERR_MEMORY;

    if ((lanes != NULL) && (host != NULL)) {
        status = pl_stack_make(&why->uses, &why->sharing,
                               why->layout.page_tokens, use, why->admitted,
                               why->copied.items, why->copied.n, &stack);
    }
    for (size_t i = 0; (i < n) && (status == PL_OK); i++) {
        const page_t *page = &why->pages[runs[i].first];

        if ((page->cause == PL_MISS_EVICTED) && (page->used_by == use)) {
            size_run(why, &stack, lanes, host, &runs[i]);
        }
    }
    pl_stack_free(&stack);
    free(lanes);
    free(host);
    return status;
}

static pl_status_t size_runs(const why_t *why, run_t *runs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const page_t *page = &why->pages[runs[i].first];
        bool done          = false;

        for (size_t j = 0; j < i; j++) {
            done = done || (why->pages[runs[j].first].used_by == page->used_by);
        }
        if (!done && (page->used_by != PL_NO_EVENT)) {
            PL_TRY(size_runs_of(why, page->used_by, runs, n));
        }
    }
    return PL_OK;
}

static bool is_same_fate(const page_t *a, const page_t *b)
{
    bool evicted = a->cause == PL_MISS_EVICTED;

    return (a->cause == b->cause) &&
           (!evicted ||
            ((a->left_device == b->left_device) &&
             (a->left_host == b->left_host) && (a->used_by == b->used_by)));
}

static pl_status_t make_runs(const why_t *why, run_t **runs_p, size_t *n_p)
{
    run_t *runs = calloc((size_t)why->n + 1, sizeof(*runs));
    size_t n    = 0;

    if (runs == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int64_t p = 0; p < why->n; p++) {
        if (why->pages[p].cause == NONE) {
            continue;
        }
        if ((n > 0) && (runs[n - 1].first + runs[n - 1].n == p) &&
            is_same_fate(&why->pages[p - 1], &why->pages[p])) {
            runs[n - 1].n++;
        } else {
            runs[n++] = (run_t){p, 1, NONE, NONE};
        }
    }
    *runs_p = runs;
    *n_p    = n;
    return PL_OK;
}

/* ---- printing ---- */

static const char *cause_of(const why_t *why, const run_t *run)
{
    static const char *const TEXTS[] = {
#define MISS(name, text) text,
        PL_MISS_LIST(MISS)
#undef MISS
    };

    return TEXTS[why->pages[run->first].cause];
}

/* Tick of an event and the request it was for; NONE, NONE: no event. */
static void whose(const why_t *why, const run_t *run, size_t event,
                  int64_t *tick_p, int64_t *request_p)
{
    bool known = (why->pages[run->first].cause == PL_MISS_EVICTED) &&
                 (event != PL_NO_EVENT);

    *tick_p    = NONE;
    *request_p = NONE;
    if (known) {
        *tick_p    = pl_event_at(&why->events, PL_FIELD_TICK, event);
        *request_p = pl_event_at(&why->events, PL_FIELD_REQUEST, event);
    }
}

static int64_t last_user(const why_t *why, const run_t *run)
{
    const page_t *page = &why->pages[run->first];

    return (page->cause != PL_MISS_EVICTED) || (page->used_by == PL_NO_EVENT)
               ? NONE
               : why->uses.uses.items[page->used_by].request;
}

static void number_cell(pl_table_t *table, int64_t value)
{
    if (value == NONE) {
        pl_table_cell(table, "-");
    } else {
        pl_table_cell(table, "%" PRId64, value);
    }
}

/* The largest of the numbers: what would have been enough for all. */
static int64_t enough(const run_t *runs, size_t n, bool host)
{
    int64_t most = NONE;

    for (size_t i = 0; i < n; i++) {
        most = larger(most, host ? runs[i].host_pages : runs[i].device_pages);
    }
    return most;
}

static void print_enough(const run_t *runs, size_t n)
{
    int64_t device = enough(runs, n, false);
    int64_t host   = enough(runs, n, true);

    if (device != NONE) {
        printf("\n%" PRId64 " device pages per rank would have kept what was "
               "evicted",
               device);
        if (host != NONE) {
            printf(", or %" PRId64 " host pages", host);
        }
        printf(", had the run gone\non as it did and evicted page by page "
               "(docs/inspect.md)\n");
    }
}

static void add_row(pl_table_t *table, const why_t *why, const run_t *run)
{
    const page_t *page = &why->pages[run->first];
    int64_t tick, request;

    pl_table_cell(table, "%" PRId64 "-%" PRId64, run->first,
                  run->first + run->n - 1);
    pl_table_cell(table, "%" PRId64, run->n);
    pl_table_cell(table, "%s", cause_of(why, run));
    number_cell(table, last_user(why, run));
    whose(why, run, page->left_device, &tick, &request);
    number_cell(table, tick);
    number_cell(table, request);
    whose(why, run, page->left_host, &tick, &request);
    number_cell(table, tick);
    number_cell(table, request);
    number_cell(table, run->device_pages);
    number_cell(table, run->host_pages);
}

static pl_status_t print_table(const why_t *why, const run_t *runs, size_t n)
{
    const pl_record_t *record = record_of(why);
    pl_table_t *table         = pl_table_open(
                "pages<,missed>,cause<,last used by>,left device in tick>,"
                        "for request>,left host in tick>,for request>,device pages enough>,"
                        "host pages enough>");
    pl_status_t status;

    printf("request %" PRId64 ": %" PRId32 " prompt tokens on %" PRId64
           " pages; hit %" PRId32 " tokens on device, %" PRId32 " on host, "
           "%" PRId32 " on storage\n\n",
           why->request, record->prompt_tokens, why->n,
           record->device_hit_tokens, record->host_hit_tokens,
           record->storage_hit_tokens);
    for (size_t i = 0; i < n; i++) {
        add_row(table, why, &runs[i]);
    }
    status = pl_table_print(table, stdout);
    pl_table_close(table);
    print_enough(runs, n);
    return status;
}

static json_object *run_json(const why_t *why, const run_t *run)
{
    const page_t *page  = &why->pages[run->first];
    json_object *object = json_object_new_object();
    int64_t tick, request;

    pl_json_integer(object, "first_page", run->first);
    pl_json_integer(object, "pages", run->n);
    pl_json_text(object, "cause", cause_of(why, run));
    pl_json_integer(object, "last_used_by", last_user(why, run));
    whose(why, run, page->left_device, &tick, &request);
    pl_json_integer(object, "left_device_tick", tick);
    pl_json_integer(object, "left_device_for", request);
    whose(why, run, page->left_host, &tick, &request);
    pl_json_integer(object, "left_host_tick", tick);
    pl_json_integer(object, "left_host_for", request);
    pl_json_integer(object, "device_pages_enough", run->device_pages);
    pl_json_integer(object, "host_pages_enough", run->host_pages);
    return object;
}

static pl_status_t print_json(const why_t *why, const run_t *runs, size_t n)
{
    const pl_record_t *record = record_of(why);
    json_object *object       = json_object_new_object();
    json_object *array        = json_object_new_array();

    pl_json_integer(object, "request", why->request);
    pl_json_integer(object, "prompt_tokens", record->prompt_tokens);
    pl_json_integer(object, "prompt_pages", why->n);
    pl_json_integer(object, "device_hit_tokens", record->device_hit_tokens);
    pl_json_integer(object, "host_hit_tokens", record->host_hit_tokens);
    pl_json_integer(object, "storage_hit_tokens", record->storage_hit_tokens);
    for (size_t i = 0; i < n; i++) {
        json_object_array_add(array, run_json(why, &runs[i]));
    }
    json_object_object_add(object, "missed", array);
    pl_json_integer(object, "device_pages_enough", enough(runs, n, false));
    pl_json_integer(object, "host_pages_enough", enough(runs, n, true));
    return pl_json_print(object, stdout);
}

static pl_status_t answer(const why_t *why, bool json)
{
    run_t *runs = NULL;
    size_t n    = 0;
    pl_status_t status;

    PL_TRY(make_runs(why, &runs, &n));
    status = size_runs(why, runs, n);
    if (status == PL_OK) {
        status = json ? print_json(why, runs, n) : print_table(why, runs, n);
    }
    free(runs);
    return status;
}

pl_status_t pl_inspect_why(const pl_inspect_t *inspect)
{
    why_t why          = {0};
    pl_status_t status = load(inspect, &why);

    if ((status == PL_OK) && (why.admitted == PL_NO_EVENT)) {
        status = pl_snapshot_refuse(why.snapshot, "/requests/admitted_tick",
                                    "request %" PRId64 " was not admitted in "
                                    "this run: nothing was hit or missed",
                                    why.request);
    }
    if (status == PL_OK) {
        mark_causes(&why);
        status = play_back(&why);
    }
    if (status == PL_OK) {
        find_last_uses(&why);
        status = answer(&why, inspect->json);
    }
    unload(&why);
    return status;
}
