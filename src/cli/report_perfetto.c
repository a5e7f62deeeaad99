/* Requests, operations and lanes as trace events in Chrome's JSON format, which
 * ui.perfetto.dev opens. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/report_data.h"

/* Processes of the trace; instances have one each. */
enum { REQUESTS = 1, OPERATIONS = 2, LANES = 3, FIRST_INSTANCE = 10 };

/* Threads of one link: slices of one thread must not overlap. */
enum { LINK_THREADS = 1 << 24 };

typedef struct operation {
    const char *begin, *end; /* kinds of events */
    const char *link;
} operation_t;

static const operation_t KINDS[] = {
    {"load", "loaded", "host to device"},
    {"backup", "backed_up", "device to host"},
    {"send", "sent", "prefill to decode"},
    {"offload", "offloaded", "decode to its host buffer"},
    {"resume", "resumed", "host buffer to decode"},
    {"store", "stored", "host to storage"},
    {"fetch", "fetched", "storage to host"},
};

enum { N_KINDS = sizeof(KINDS) / sizeof(KINDS[0]) };

typedef struct slice {
    int64_t id, from_ns, to_ns;    /* to_ns -1: it has not ended */
    int64_t request, pages, bytes; /* bytes: moved, as the file says */
    int kind;
    int64_t good; /* value of its end */
} slice_t;

/* A thread, and the time from which it is free. */
typedef struct thread {
    int64_t free_ns, number;
} thread_t;

/* The threads of a process: a heap, the one that is free first on top. */
typedef struct threads {
    PL_ARRAY(thread_t) heap;
} threads_t;

typedef struct writer {
    const pl_report_data_t *data;
    FILE *file;
    bool first; /* no event so far */
    int64_t last_ns;
    PL_ARRAY(slice_t) slices;
    threads_t requests, links[N_KINDS];
    threads_t *instances; /* [instances] */
    int64_t *thread_of;   /* [request] */
} writer_t;

/* ---- writing ---- */

static void begin(writer_t *w, const char *phase, int pid, int64_t tid)
{
    fprintf(w->file, "%s{\"ph\":\"%s\",\"pid\":%d,\"tid\":%" PRId64,
            w->first ? "" : ",\n", phase, pid, tid);
    w->first = false;
}

/* Microseconds, exactly. */
static void put_time(writer_t *w, const char *name, int64_t ns)
{
    fprintf(w->file, ",\"%s\":%" PRId64 ".%03" PRId64, name, ns / 1000,
            ns % 1000);
}

static void put_span(writer_t *w, int64_t from_ns, int64_t to_ns)
{
    put_time(w, "ts", from_ns);
    put_time(w, "dur", to_ns - from_ns);
}

static void name_it(writer_t *w, const char *what, int pid, int64_t tid,
                    const char *name)
{
    begin(w, "M", pid, tid);
    fprintf(w->file, ",\"name\":\"%s\",\"args\":{\"name\":\"%s\"}}", what,
            name);
}

static bool is_before(const thread_t *a, const thread_t *b)
{
    return a->free_ns != b->free_ns ? a->free_ns < b->free_ns
                                    : a->number < b->number;
}

static void swap(thread_t *a, thread_t *b)
{
    thread_t kept = *a;

    *a = *b;
    *b = kept;
}

static void sink(threads_t *threads)
{
    thread_t *heap = threads->heap.items;
    size_t n       = threads->heap.n;
    size_t i       = 0;

    for (;;) {
        size_t first = i;

        for (size_t child = 2 * i + 1; (child < n) && (child <= 2 * i + 2);
             child++) {
            first = is_before(&heap[child], &heap[first]) ? child : first;
        }
        if (first == i) {
            return;
        }
        swap(&heap[i], &heap[first]);
        i = first;
    }
}

static void rise(threads_t *threads)
{
    thread_t *heap = threads->heap.items;

    for (size_t i = threads->heap.n - 1;
         (i > 0) && is_before(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2) {
        swap(&heap[i], &heap[(i - 1) / 2]);
    }
}

/* A thread that is free then, or a new one; taken until to_ns.  -1: no memory.
 */
static int64_t take_thread(threads_t *threads, int64_t from_ns, int64_t to_ns)
{
    thread_t *top = threads->heap.items;
    thread_t made = {.free_ns = to_ns, .number = (int64_t)threads->heap.n};

    if ((threads->heap.n > 0) && (top->free_ns <= from_ns)) {
        made.number  = top->number;
        top->free_ns = to_ns;
        sink(threads);
    } else if (PL_ARRAY_PUSH(&threads->heap, made) == PL_OK) {
        rise(threads);
    } else {
        return -1;
    }
    return made.number;
}

/* ---- requests ---- */

static const char *const PHASES[] = {"queueing", "prefill", "transfer",
                                     "decode"};

enum { N_PHASES = sizeof(PHASES) / sizeof(PHASES[0]) };

static void put_request(writer_t *w, int32_t i, int64_t thread, int64_t end_ns)
{
    const pl_record_t *r = &w->data->records[i];

    begin(w, "X", REQUESTS, thread);
    put_span(w, r->arrival_ns, end_ns);
    fprintf(w->file,
            ",\"cat\":\"request\",\"name\":\"request %" PRId32
            "\",\"args\":{\"request\":%" PRId32 ",\"prompt_tokens\":%" PRId32
            ",\"device_hit_tokens\":%" PRId32 ",\"host_hit_tokens\":%" PRId32
            ",\"storage_hit_tokens\":%" PRId32 ",\"generated_tokens\":%" PRId32
            ",\"home\":%" PRId32 ",\"failed\":%s}}",
            i, i, r->prompt_tokens, r->device_hit_tokens, r->host_hit_tokens,
            r->storage_hit_tokens, r->generated_tokens, r->home,
            r->failed ? "true" : "false");
}

static pl_status_t put_one_request(writer_t *w, int32_t i)
{
    const pl_record_t *r              = &w->data->records[i];
    const int64_t times[N_PHASES + 1] = {r->arrival_ns, r->admitted_ns,
                                         r->first_token_ns, r->decode_ns,
                                         r->finished_ns};
    int64_t end                       = r->arrival_ns;
    int64_t thread;

    w->thread_of[i] = -1;
    if (r->skipped || (r->arrival_ns < 0)) {
        return PL_OK;
    }
    for (int p = 1; p <= N_PHASES; p++) {
        end = times[p] > end ? times[p] : end;
    }
    w->last_ns = end > w->last_ns ? end : w->last_ns;
    thread     = take_thread(&w->requests, r->arrival_ns, end);
    if (thread < 0) {
        return PL_ERR_MEMORY;
    }
    w->thread_of[i] = thread;
    put_request(w, i, thread, end);
    for (int p = 0; p < N_PHASES; p++) {
        if ((times[p] >= 0) && (times[p + 1] > times[p])) {
            begin(w, "X", REQUESTS, thread);
            put_span(w, times[p], times[p + 1]);
            fprintf(w->file,
                    ",\"cat\":\"phase\",\"name\":\"%s\",\"args\":{\"request\":"
                    "%" PRId32 "}}",
                    PHASES[p], i);
        }
    }
    return PL_OK;
}

static pl_status_t put_requests(writer_t *w)
{
    name_it(w, "process_name", REQUESTS, 0, "requests");
    for (int32_t i = 0; i < w->data->n; i++) {
        PL_TRY(put_one_request(w, i));
    }
    for (size_t i = 0; i < w->requests.heap.n; i++) {
        char name[64];

        (void)snprintf(name, sizeof(name), "place %zu", i);
        name_it(w, "thread_name", REQUESTS, (int64_t)i, name);
    }
    return PL_OK;
}

/* ---- operations ---- */

/* Ids ascend in the order in which operations begin. */
static slice_t *find_slice(writer_t *w, int64_t id)
{
    size_t low  = 0;
    size_t high = w->slices.n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (w->slices.items[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (low < w->slices.n) && (w->slices.items[low].id == id)
               ? &w->slices.items[low]
               : NULL;
}

/* An operation has a beginning for each node that it is about. */
static pl_status_t begin_slice(writer_t *w, int kind, size_t i)
{
    const pl_events_t *events = &w->data->events;
    int64_t id                = pl_event_at(events, PL_FIELD_OP, i);
    slice_t *slice            = find_slice(w, id);
    size_t pages              = 0;
    int64_t bytes =
        w->data->moved_bytes.rows > 0 ? w->data->moved_bytes.items[i] : 0;
    slice_t made;

    (void)pl_event_pages(events, i, &pages);
    if (slice != NULL) {
        slice->pages += (int64_t)pages;
        slice->bytes += bytes;
        return PL_OK;
    }
    if ((w->slices.n > 0) && (w->slices.items[w->slices.n - 1].id > id)) {
        return PL_OK; /* a file that contradicts itself is not followed */
    }
    made = (slice_t){.id      = id,
                     .from_ns = pl_event_at(events, PL_FIELD_TIME, i),
                     .to_ns   = -1,
                     .request = pl_event_at(events, PL_FIELD_REQUEST, i),
                     .pages   = (int64_t)pages,
                     .bytes   = bytes,
                     .kind    = kind,
                     .good    = -1};
    return PL_ARRAY_PUSH(&w->slices, made);
}

static void put_chunk(writer_t *w, size_t i)
{
    const pl_events_t *events = &w->data->events;
    int64_t request           = pl_event_at(events, PL_FIELD_REQUEST, i);

    if ((request < 0) || (request >= w->data->n) ||
        (w->thread_of[request] < 0)) {
        return;
    }
    begin(w, "i", REQUESTS, w->thread_of[request]);
    put_time(w, "ts", pl_event_at(events, PL_FIELD_TIME, i));
    fprintf(w->file,
            ",\"s\":\"t\",\"cat\":\"chunk\",\"name\":\"chunk\",\"args\":{"
            "\"request\":%" PRId64 ",\"first_token\":%" PRId64
            ",\"tokens\":%" PRId64 "}}",
            request, pl_event_at(events, PL_FIELD_VALUE, i),
            pl_event_at(events, PL_FIELD_VALUE2, i));
}

static pl_status_t take_event(writer_t *w, size_t i)
{
    const pl_events_t *events = &w->data->events;
    const char *name          = pl_event_name(events, i);
    int64_t ns                = pl_event_at(events, PL_FIELD_TIME, i);

    w->last_ns = ns > w->last_ns ? ns : w->last_ns;
    if (pl_event_kind(events, i) == PL_KIND_CHUNK) {
        put_chunk(w, i);
        return PL_OK;
    }
    for (int kind = 0; kind < N_KINDS; kind++) {
        slice_t *slice;

        if (strcmp(name, KINDS[kind].begin) == 0) {
            return begin_slice(w, kind, i);
        }
        if (strcmp(name, KINDS[kind].end) == 0) {
            slice = find_slice(w, pl_event_at(events, PL_FIELD_OP, i));
            if ((slice != NULL) && (ns >= slice->from_ns)) {
                slice->to_ns = ns;
                slice->good  = pl_event_at(events, PL_FIELD_VALUE, i);
            }
            return PL_OK;
        }
    }
    return PL_OK;
}

static pl_status_t put_slice(writer_t *w, const slice_t *slice)
{
    int64_t to     = slice->to_ns < 0 ? w->last_ns : slice->to_ns;
    int64_t thread = take_thread(&w->links[slice->kind], slice->from_ns, to);

    if (thread < 0) {
        return PL_ERR_MEMORY;
    }
    begin(w, "X", OPERATIONS, (int64_t)slice->kind * LINK_THREADS + thread);
    put_span(w, slice->from_ns, to);
    fprintf(w->file,
            ",\"cat\":\"%s\",\"name\":\"%s\",\"args\":{\"op\":%" PRId64
            ",\"request\":%" PRId64 ",\"pages\":%" PRId64 ",\"bytes\":%" PRId64
            ",\"value\":%" PRId64 "}}",
            KINDS[slice->kind].link, KINDS[slice->kind].begin, slice->id,
            slice->request, slice->pages, slice->bytes, slice->good);
    return PL_OK;
}

static pl_status_t put_operations(writer_t *w)
{
    if (!w->data->has_events) {
        return PL_OK;
    }
    name_it(w, "process_name", OPERATIONS, 0, "operations by link");
    for (size_t i = 0; i < w->data->events.n; i++) {
        PL_TRY(take_event(w, i));
    }
    for (size_t i = 0; i < w->slices.n; i++) {
        PL_TRY(put_slice(w, &w->slices.items[i]));
    }
    for (int kind = 0; kind < N_KINDS; kind++) {
        for (size_t i = 0; i < w->links[kind].heap.n; i++) {
            name_it(w, "thread_name", OPERATIONS,
                    (int64_t)kind * LINK_THREADS + (int64_t)i,
                    KINDS[kind].link);
        }
    }
    return PL_OK;
}

/* ---- instances ---- */

/* A phase of a request where it was. */
static pl_status_t put_stay(writer_t *w, int32_t request, int64_t instance,
                            const char *phase, int64_t from_ns, int64_t to_ns)
{
    int64_t thread;

    if ((instance < 0) || (from_ns < 0) || (to_ns <= from_ns)) {
        return PL_OK;
    }
    thread = take_thread(&w->instances[instance], from_ns, to_ns);
    if (thread < 0) {
        return PL_ERR_MEMORY;
    }
    begin(w, "X", FIRST_INSTANCE + (int)instance, thread);
    put_span(w, from_ns, to_ns);
    fprintf(w->file,
            ",\"cat\":\"%s\",\"name\":\"request %" PRId32
            "\",\"args\":{\"request\":%" PRId32 "}}",
            phase, request, request);
    return PL_OK;
}

/* Of who came back the file has the first prefill and the last instances, which
 * need not belong together: it is left out. */
static pl_status_t put_stays(writer_t *w, const int32_t *order, bool prefills)
{
    const pl_fleet_file_t *file = &w->data->fleet.file;

    for (int32_t k = 0; k < w->data->n; k++) {
        int32_t i            = order[k];
        const pl_record_t *r = &w->data->records[i];

        if (r->reentries > 0) {
            continue;
        }
        PL_TRY(prefills ? put_stay(w, i, file->prefill.items[i], "prefill",
                                   r->admitted_ns, r->first_token_ns)
                        : put_stay(w, i, file->decode.items[i], "decode",
                                   r->decode_ns, r->finished_ns));
    }
    return PL_OK;
}

typedef struct start {
    int64_t ns;
    int32_t request;
} start_t;

static int by_start(const void *a, const void *b)
{
    const start_t *x = a;
    const start_t *y = b;

    return x->ns != y->ns
               ? (x->ns > y->ns) - (x->ns < y->ns)
               : (x->request > y->request) - (x->request < y->request);
}

/* Requests in the order in which they began a phase: threads are taken so. */
static pl_status_t put_phase(writer_t *w, bool prefills)
{
    size_t n           = (size_t)w->data->n;
    start_t *starts    = malloc((n + 1) * sizeof(*starts));
    int32_t *order     = malloc((n + 1) * sizeof(*order));
    pl_status_t status = PL_ERR_MEMORY;

    if ((starts != NULL) && (order != NULL)) {
        for (size_t i = 0; i < n; i++) {
            const pl_record_t *r = &w->data->records[i];

            starts[i] =
                (start_t){prefills ? r->admitted_ns : r->decode_ns, (int32_t)i};
        }
        qsort(starts, n, sizeof(*starts), by_start);
        for (size_t i = 0; i < n; i++) {
            order[i] = starts[i].request;
        }
        status = put_stays(w, order, prefills);
    }
    free(starts);
    free(order);
    return status;
}

static void name_instance(writer_t *w, int32_t i)
{
    char name[PL_FLEET_NAME_BYTES + 16];

    pl_fleet_name(&w->data->fleet.file, i, name);
    name_it(w, "process_name", FIRST_INSTANCE + i, 0, name);
    for (size_t t = 0; t < w->instances[i].heap.n; t++) {
        (void)snprintf(name, sizeof(name), "place %zu", t);
        name_it(w, "thread_name", FIRST_INSTANCE + i, (int64_t)t, name);
    }
}

static pl_status_t put_instances(writer_t *w)
{
    size_t n = (size_t)w->data->fleet.file.n;

    if (n == 0) {
        return PL_OK;
    }
    w->instances = calloc(n, sizeof(*w->instances));
    if (w->instances == NULL) {
        return PL_ERR_MEMORY;
    }
    PL_TRY(put_phase(w, true));
    PL_TRY(put_phase(w, false));
    for (size_t i = 0; i < n; i++) {
        name_instance(w, (int32_t)i);
    }
    return PL_OK;
}

/* ---- lanes ---- */

static void put_counter(writer_t *w, int pid, const char *name, size_t sample)
{
    begin(w, "C", pid, 0);
    put_time(w, "ts", w->data->lanes.time.items[sample]);
    fprintf(w->file, ",\"name\":\"%s\",\"args\":{", name);
}

/* Pages held in lanes [first, end) of a tier. */
static void put_held(writer_t *w, int pid, int tier, size_t sample,
                     size_t first, size_t end, int64_t number)
{
    char name[64];

    if (!w->data->lanes.used[tier] || (first == end)) {
        return;
    }
    (void)snprintf(name, sizeof(name), "%s pages", PL_REPORT_TIER_NAMES[tier]);
    put_counter(w, pid, name, sample);
    for (size_t lane = first; lane < end; lane++) {
        fprintf(w->file, "%s\"%" PRId64 "\":%" PRId64, lane == first ? "" : ",",
                number + (int64_t)(lane - first),
                pl_report_held(w->data, tier, sample, lane));
    }
    fprintf(w->file, "}}");
}

/* Of each instance: its requests, and the pages of its lanes and homes. */
static void put_instance_samples(writer_t *w, size_t sample)
{
    const pl_report_fleet_t *fleet = &w->data->fleet;
    size_t n                       = (size_t)fleet->file.n;
    size_t lane                    = 0;
    size_t home                    = 0;

    for (size_t i = 0; i < n; i++) {
        int pid      = FIRST_INSTANCE + (int)i;
        size_t lanes = lane + (size_t)fleet->file.rows[i].lanes;
        size_t homes = home + (size_t)fleet->file.rows[i].homes;

        put_counter(w, pid, "requests", sample);
        fprintf(w->file, "\"waiting\":%" PRId64 ",\"decoding\":%" PRId64 "}}",
                fleet->waiting.items[sample * n + i],
                fleet->running.items[sample * n + i]);
        put_held(w, pid, PL_REPORT_DEVICE, sample, lane, lanes, 0);
        put_held(w, pid, PL_REPORT_HOST, sample, lane, lanes, 0);
        put_held(w, pid, PL_REPORT_DECODE, sample, home, homes, 0);
        put_held(w, pid, PL_REPORT_DECODE_HOST, sample, home, homes, 0);
        lane = lanes;
        home = homes;
    }
}

static void put_sample(writer_t *w, size_t sample)
{
    const pl_report_data_t *data = w->data;

    put_counter(w, LANES, "requests", sample);
    fprintf(w->file, "\"waiting\":%" PRId64 ",\"decoding\":%" PRId64 "}}",
            data->lanes.waiting.items[sample],
            data->lanes.running.items[sample]);
    if (data->fleet.file.n > 0) {
        put_instance_samples(w, sample);
        return;
    }
    for (int tier = 0; tier < PL_REPORT_TIERS; tier++) {
        put_held(w, LANES, tier, sample, 0, pl_report_lanes_of(data, tier),
                 tier < PL_REPORT_DECODE ? 0 : data->layout.first_home);
    }
}

/* ---- the whole ---- */

static pl_status_t put_all(writer_t *w)
{
    fprintf(w->file,
            "{\"displayTimeUnit\":\"ms\",\"otherData\":{"
            "\"dropped_events\":%" PRId64 "},\"traceEvents\":[\n",
            w->data->has_events ? w->data->events.n_dropped : 0);
    PL_TRY(put_requests(w));
    PL_TRY(put_operations(w));
    PL_TRY(put_instances(w));
    name_it(w, "process_name", LANES, 0,
            w->data->fleet.file.n > 0 ? "all instances" : "lanes");
    for (size_t i = 0; i < w->data->lanes.n; i++) {
        put_sample(w, i);
    }
    fprintf(w->file, "\n]}\n");
    return ferror(w->file) ? PL_ERR_IO : PL_OK;
}

pl_status_t pl_report_perfetto(const pl_report_data_t *data, FILE *file)
{
    writer_t w = {.data = data, .file = file, .first = true};
    pl_status_t status;

    w.thread_of = malloc(((size_t)data->n + 1) * sizeof(*w.thread_of));
    status      = w.thread_of == NULL ? PL_ERR_MEMORY : put_all(&w);
    for (int kind = 0; kind < N_KINDS; kind++) {
        PL_ARRAY_FREE(&w.links[kind].heap);
    }
    for (int32_t i = 0; (w.instances != NULL) && (i < data->fleet.file.n);
         i++) {
        PL_ARRAY_FREE(&w.instances[i].heap);
    }
    free(w.instances);
    PL_ARRAY_FREE(&w.requests.heap);
    PL_ARRAY_FREE(&w.slices);
    free(w.thread_of);
    return status;
}
