/* What instances say, and requests on their way between them. */
#include <string.h>

#include "sim/fleet_internal.h"

/* ---- who waits ---- */

/* What `n` requests waited, ns each, over all of them; 0 if it is more than can
 * be counted, with which the run ends. */
static int64_t count_wait(pl_fleet_t *fleet, int64_t n, int64_t ns)
{
    if ((n > 0) && (ns > (PL_FLEET_MOST_NS - fleet->waited_ns) / n)) {
        fleet->waits_too_long = true;
        return 0;
    }
    fleet->waited_ns += n * ns;
    return n * ns;
}

/* Before anything that it depends on changes. */
static void add_waiting(pl_fleet_instance_t *instance)
{
    int64_t now_ns = instance->fleet->now_ns;
    int64_t ns     = count_wait(instance->fleet, instance->n_waiting,
                                now_ns - instance->waiting_since_ns);

    instance->usage.waiting_ns += ns;
    instance->usage.refused_ns += instance->refused_tokens > 0 ? ns : 0;
    instance->waiting_since_ns = now_ns;
}

static void begin_waiting(pl_fleet_instance_t *instance,
                          const pl_handover_t *handover)
{
    add_waiting(instance);
    instance->fleet->live[handover->request].waits_at = instance->number;
    instance->n_waiting++;
    if (instance->n_waiting > instance->usage.most_waiting) {
        instance->usage.most_waiting = instance->n_waiting;
    }
    instance->usage.requests++;
    instance->usage.prompt_tokens += handover->prompt_tokens;
}

void pl_fleet_begun(pl_fleet_t *fleet, int32_t instance, int32_t request)
{
    pl_fleet_instance_t *at = &fleet->instances[instance];

    if (fleet->live[request].waits_at == instance) {
        add_waiting(at);
        fleet->live[request].waits_at = -1;
        at->n_waiting--;
    }
}

void pl_fleet_stepped(pl_fleet_t *fleet, int32_t instance, int32_t request)
{
    pl_fleet_instance_t *at = &fleet->instances[instance];

    if (fleet->live[request].has_stepped) {
        return;
    }
    fleet->live[request].has_stepped = true;
    if (instance < fleet->params.n_prefill) {
        at->usage.batch_wait_ns += count_wait(
            fleet, 1,
            fleet->now_ns - pl_engine_record(at->engine, request)->decode_ns);
    }
}

/* tokens: of the prompt that found no home; 0: it is to look again. */
static void set_refused(pl_fleet_instance_t *instance, int32_t tokens)
{
    add_waiting(instance);
    instance->fleet->n_refused += (tokens > 0) - (instance->refused_tokens > 0);
    instance->refused_tokens = tokens;
}

/* ---- to prefill ---- */

pl_status_t pl_fleet_give(pl_fleet_t *fleet, const pl_handover_t *handover)
{
    pl_fleet_live_t *live = &fleet->live[handover->request];
    int32_t number        = 0;
    pl_fleet_instance_t *instance;

    PL_TRY(pl_fleet_route(fleet, handover, &number, &live->load_ns));
    instance                                  = &fleet->instances[number];
    live->handover                            = *handover;
    live->all_sent                            = false;
    live->has_left                            = false;
    live->comes_back                          = false;
    fleet->records[handover->request].prefill = number;
    instance->load_ns += live->load_ns;
    begin_waiting(instance, handover);
    PL_TRY(pl_engine_give(instance->engine, handover, fleet->now_ns));
    pl_fleet_given(fleet, number);
    return PL_OK;
}

/* What the first prefill of a request came to. */
static void note_prefill(const pl_record_t *from, int64_t now_ns,
                         pl_record_t *to)
{
    if (to->first_token_ns >= 0) {
        return;
    }
    to->first_token_ns     = now_ns;
    to->admitted_ns        = from->admitted_ns;
    to->admitted_tick      = from->admitted_tick;
    to->device_hit_tokens  = from->device_hit_tokens;
    to->host_hit_tokens    = from->host_hit_tokens;
    to->storage_hit_tokens = from->storage_hit_tokens;
    to->cut_pages          = from->cut_pages;
    memcpy(to->miss_pages, from->miss_pages, sizeof(to->miss_pages));
}

static pl_status_t take_prefilled(void *context, int32_t request)
{
    pl_fleet_instance_t *instance = context;
    pl_fleet_t *fleet             = instance->fleet;
    pl_fleet_live_t *live         = &fleet->live[request];

    note_prefill(pl_engine_record(instance->engine, request), fleet->now_ns,
                 &fleet->records[request].record);
    instance->load_ns -= live->load_ns;
    live->load_ns = 0; /* on an instance that decodes too it may re-enter */
    live->prefilled_ns = fleet->now_ns;
    return PL_OK;
}

/* ---- a place to decode ---- */

/* The decode instance with the most room; -1: none has any. */
static int32_t find_room(const pl_fleet_t *fleet, int32_t prompt_tokens)
{
    int32_t best = fleet->params.n_prefill + pl_knockout_first(&fleet->by_room);

    return pl_engine_room(fleet->instances[best].engine, prompt_tokens) < 0
               ? -1
               : best;
}

static pl_status_t reserve(void *context, int32_t request,
                           int32_t prompt_tokens, bool *ok_p)
{
    pl_fleet_instance_t *instance = context;
    pl_fleet_t *fleet             = instance->fleet;
    pl_fleet_record_t *record     = &fleet->records[request];
    int32_t number                = find_room(fleet, prompt_tokens);
    pl_engine_t *decode;

    *ok_p = number >= 0;
    if (number < 0) {
        instance->usage.refusals++;
        set_refused(instance, prompt_tokens);
        return PL_OK;
    }
    set_refused(instance, 0);
    decode = fleet->instances[number].engine;
    PL_TRY(pl_engine_reserve(decode, request, prompt_tokens));
    pl_fleet_given(fleet, number);
    record->decode      = number;
    record->record.home = pl_engine_home(decode, request);
    return PL_OK;
}

void pl_fleet_nudge(pl_fleet_t *fleet)
{
    for (int32_t i = 0; (fleet->n_refused > 0) && (i < fleet->params.n_prefill);
         i++) {
        pl_fleet_instance_t *instance = &fleet->instances[i];

        if ((instance->refused_tokens > 0) &&
            (find_room(fleet, instance->refused_tokens) >= 0)) {
            set_refused(instance, 0);
            pl_engine_nudge(instance->engine, fleet->now_ns);
            pl_fleet_changed(fleet, i);
        }
    }
}

static pl_status_t release(void *context, int32_t request)
{
    pl_fleet_instance_t *instance = context;
    pl_fleet_t *fleet             = instance->fleet;
    pl_fleet_record_t *record     = &fleet->records[request];

    PL_TRY(pl_engine_withdraw(fleet->instances[record->decode].engine, request,
                              fleet->now_ns));
    pl_fleet_changed(fleet, record->decode);
    record->decode      = -1;
    record->record.home = -1;
    pl_fleet_nudge(fleet);
    return PL_OK;
}

/* ---- from prefill to decode ---- */

static pl_status_t send(void *context, int32_t request, int64_t op,
                        int64_t bytes, bool last)
{
    pl_fleet_instance_t *instance = context;
    pl_fleet_live_t *live         = &instance->fleet->live[request];

    live->n_sends++;
    live->all_sent = live->all_sent || last;
    return pl_links_start(instance->fleet, instance->number, request, op,
                          bytes);
}

/* The home has all pages, and goes on at once: its prefill instance may be in
 * the middle of another prompt's chunk. */
pl_status_t pl_fleet_sent(pl_fleet_t *fleet, int32_t request)
{
    pl_fleet_record_t *record = &fleet->records[request];
    pl_fleet_live_t *live     = &fleet->live[request];

    live->n_sends--;
    if ((live->n_sends > 0) || !live->all_sent) {
        return PL_OK;
    }
    fleet->transfer_ns +=
        count_wait(fleet, 1, fleet->now_ns - live->prefilled_ns);
    if (record->record.decode_ns < 0) {
        record->record.decode_ns = fleet->now_ns;
    }
    live->handover.first_token_ns = record->record.first_token_ns;
    begin_waiting(&fleet->instances[record->decode], &live->handover);
    PL_TRY(pl_engine_enter(fleet->instances[record->decode].engine,
                           &live->handover, fleet->now_ns));
    pl_fleet_changed(fleet, record->decode);
    return PL_OK;
}

/* It leaves an instance, whose record begins anew if it comes back. */
static void add_left(const pl_fleet_instance_t *instance, int32_t request)
{
    const pl_record_t *there = pl_engine_record(instance->engine, request);
    pl_record_t *record      = &instance->fleet->records[request].record;

    record->preemptions += there->preemptions;
    record->readmissions += there->readmissions;
}

static pl_status_t end_request(pl_fleet_t *fleet, int32_t request, bool failed)
{
    pl_record_t *record = &fleet->records[request].record;
    int64_t soonest_ns  = INT64_MAX;

    record->finished_ns = fleet->now_ns;
    record->failed      = failed;
    fleet->n_finished++;
    return pl_turns_ended(&fleet->turns, request, fleet->now_ns, &soonest_ns);
}

/* Nothing that is sent fails here. */
static pl_status_t take_delivered(void *context, int32_t request, bool good)
{
    pl_fleet_instance_t *instance = context;
    pl_fleet_live_t *live         = &instance->fleet->live[request];

    if (!good) {
        return PL_ERR_INTERNAL;
    }
    live->has_left = true;
    add_left(instance, request);
    return live->comes_back ? PL_ARRAY_PUSH(&instance->fleet->back, request)
                            : PL_OK;
}

pl_status_t pl_fleet_give_back(pl_fleet_t *fleet)
{
    for (size_t i = 0; i < fleet->back.n; i++) {
        pl_handover_t so_far = fleet->live[fleet->back.items[i]].handover;

        PL_TRY(pl_fleet_give(fleet, &so_far));
    }
    fleet->back.n = 0;
    return PL_OK;
}

/* ---- from decode ---- */

static void note_decode(const pl_record_t *from, pl_record_t *to)
{
    if (to->decode_ns < 0) {
        to->decode_ns = from->decode_ns;
    }
    to->generated_tokens = from->generated_tokens;
}

static pl_status_t take_reentered(void *context, const pl_handover_t *so_far)
{
    pl_fleet_instance_t *instance = context;
    pl_fleet_t *fleet             = instance->fleet;
    int32_t request               = so_far->request;
    pl_fleet_live_t *live         = &fleet->live[request];

    pl_fleet_begun(fleet, instance->number, request);
    note_decode(pl_engine_record(instance->engine, request),
                &fleet->records[request].record);
    add_left(instance, request);
    /* They are all alike. */
    if (!pl_engine_fits_again(fleet->instances[0].engine, request,
                              so_far->prompt_tokens)) {
        return end_request(fleet, request, true);
    }
    fleet->records[request].record.reentries++;
    if (!live->has_left) { /* it has it still, until the end of its tick */
        live->handover   = *so_far;
        live->comes_back = true;
        return PL_OK;
    }
    return pl_fleet_give(fleet, so_far);
}

/* An instance that decodes too has it in its own queue. */
static pl_status_t take_queued(void *context, const pl_handover_t *so_far)
{
    begin_waiting(context, so_far);
    return PL_OK;
}

static pl_status_t take_finished(void *context, int32_t request, bool failed)
{
    pl_fleet_instance_t *instance = context;
    pl_fleet_t *fleet             = instance->fleet;
    pl_record_t *record           = &fleet->records[request].record;
    const pl_record_t *there      = pl_engine_record(instance->engine, request);

    pl_fleet_begun(fleet, instance->number, request);
    note_decode(there, record);
    add_left(instance, request);
    record->finished_tick = there->finished_tick;
    if (fleet->params.n_decode == 0) {
        record->home      = there->home;
        record->reentries = there->reentries;
    }
    return end_request(fleet, request, failed);
}

/* As an engine alone takes in at once whom it has kept waiting. */
static pl_status_t take_arrivals(void *context)
{
    return pl_fleet_arrivals(((pl_fleet_instance_t *)context)->fleet);
}

void pl_fleet_fill_port(pl_fleet_instance_t *instance)
{
    pl_engine_port_t *port = &instance->port;
    bool prefills = instance->number < instance->fleet->params.n_prefill;
    bool is_whole = instance->fleet->params.n_decode == 0;

    port->context = instance;
    if (prefills) {
        port->prefilled = take_prefilled;
    }
    if (prefills && !is_whole) {
        port->reserve   = reserve;
        port->release   = release;
        port->send      = send;
        port->delivered = take_delivered;
    }
    if (is_whole) {
        port->arriving = take_arrivals;
    }
    if (!prefills || is_whole) {
        port->reentered = is_whole ? take_queued : take_reentered;
        port->finished  = take_finished;
    }
}
