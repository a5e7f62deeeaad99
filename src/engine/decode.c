/* Decode homes: reservation, steps, growth, preemption, resume, re-entry. */
#include <string.h>

#include "engine/state.h"

/* ---- lists and pages ---- */

static void list_remove(pl_id_list_t *list, int32_t request)
{
    for (size_t i = 0; i < list->n; i++) {
        if (list->items[i] == request) {
            memmove(list->items + i, list->items + i + 1,
                    (list->n - i - 1) * sizeof(*list->items));
            list->n--;
            return;
        }
    }
}

/* Oldest first. */
static pl_status_t list_insert(pl_engine_t *engine, pl_id_list_t *list,
                               int32_t request)
{
    size_t at = list->n;

    PL_TRY(PL_ARRAY_PUSH(list, request));
    while ((at > 0) && (engine->live[list->items[at - 1]].age >
                        engine->live[request].age)) {
        list->items[at] = list->items[at - 1];
        at--;
    }
    list->items[at] = request;
    return PL_OK;
}

static void emit_pages(pl_engine_t *engine, pl_event_kind_t kind,
                       int32_t request, int32_t home, const pl_page_t *pages,
                       size_t n)
{
    pl_event_t event = pl_event_make(kind);

    event.request = request;
    event.value   = home;
    event.pages   = pages;
    event.n_pages = (int32_t)n;
    pl_engine_emit(engine, event);
}

/* Append n pages of the home's pool to `pages`, all or nothing. */
static pl_status_t take_pages(pl_lanes_t *lanes, int32_t n,
                              pl_page_list_t *pages, const pl_owner_t *zeros)
{
    PL_TRY(PL_ARRAY_RESERVE(pages, pages->n + (size_t)n));
    PL_TRY(pl_lanes_alloc(lanes, zeros, n, pages->items + pages->n));
    pages->n += (size_t)n;
    return PL_OK;
}

static pl_status_t take_decode_pages(pl_engine_t *engine, int32_t request,
                                     int32_t n)
{
    pl_live_t *live = &engine->live[request];
    pl_home_t *home = &engine->homes[live->home_index];
    size_t before   = live->decode_pages.n;

    memset(engine->owners, 0, (size_t)n * sizeof(*engine->owners));
    PL_TRY(take_pages(home->pool, n, &live->decode_pages, engine->owners));
    emit_pages(engine, PL_EVENT_DECODE_ALLOC, request, home->rank,
               live->decode_pages.items + before, (size_t)n);
    return PL_OK;
}

/* Give decode pages from index `keep` on back. */
static pl_status_t give_decode_pages(pl_engine_t *engine, int32_t request,
                                     size_t keep)
{
    pl_live_t *live = &engine->live[request];
    pl_home_t *home = &engine->homes[live->home_index];
    pl_page_t *from = live->decode_pages.items + keep;
    size_t n        = live->decode_pages.n - keep;

    if (n == 0) {
        return PL_OK;
    }
    PL_TRY(pl_lanes_free(home->pool, from, NULL, (int32_t)n));
    PL_TRY(pl_ops_freed(engine, PL_FREED_DECODE, home->rank, from, (int32_t)n));
    emit_pages(engine, PL_EVENT_DECODE_FREE, request, home->rank, from, n);
    live->decode_pages.n = keep;
    pl_engine_released(engine);
    return PL_OK;
}

static pl_status_t give_host_pages(pl_engine_t *engine, int32_t request)
{
    pl_live_t *live = &engine->live[request];
    pl_home_t *home = &engine->homes[live->home_index];

    PL_TRY(pl_lanes_free(home->host, live->decode_host_pages.items, NULL,
                         (int32_t)live->decode_host_pages.n));
    PL_TRY(pl_ops_freed(engine, PL_FREED_DECODE_HOST, home->rank,
                        live->decode_host_pages.items,
                        (int32_t)live->decode_host_pages.n));
    PL_ARRAY_FREE(&live->decode_host_pages);
    return PL_OK;
}

/* ---- reservation ---- */

/* The home with the fewest reserved pages, then the lowest rank; -1: none has
 * room, or those that have must resume a request first. */
static int32_t choose_home(const pl_engine_t *engine, int32_t n_pages)
{
    int32_t best = -1;
    int32_t most = n_pages - 1;

    for (int32_t i = 0; i < engine->n_homes; i++) {
        int32_t n_free = pl_lanes_free_count(engine->homes[i].pool, 0);

        if ((engine->homes[i].offloaded.n == 0) && (n_free > most)) {
            best = i;
            most = n_free;
        }
    }
    return best;
}

/* A prompt that re-enters may fill the pool to its last page. */
static int32_t pages_reserved(const pl_engine_t *engine, int32_t prompt_tokens)
{
    int32_t n    = pl_pages_for(engine, prompt_tokens) + 1;
    int32_t most = engine->decode_pages - 1;

    return n < most ? n : most;
}

int32_t pl_decode_room(const pl_engine_t *engine, int32_t prompt_tokens)
{
    int32_t n     = pages_reserved(engine, prompt_tokens);
    int32_t index = choose_home(engine, n);

    return index < 0 ? -1
                     : pl_lanes_free_count(engine->homes[index].pool, 0) - n;
}

pl_status_t pl_decode_reserve(pl_engine_t *engine, int32_t request, bool *ok_p)
{
    pl_live_t *live = &engine->live[request];
    int32_t n       = pages_reserved(engine, live->prompt_tokens);
    int32_t index;

    if (engine->config.role == PL_ROLE_PREFILL) {
        return pl_port_reserve(engine, request, ok_p);
    }
    index = choose_home(engine, n);
    *ok_p = index >= 0;
    if (index < 0) {
        return PL_OK;
    }
    live->home_index              = index;
    engine->records[request].home = engine->homes[index].rank;
    return take_decode_pages(engine, request, n);
}

pl_status_t pl_decode_release(pl_engine_t *engine, int32_t request)
{
    if (engine->config.role == PL_ROLE_PREFILL) {
        return pl_port_release(engine, request);
    }
    PL_TRY(give_decode_pages(engine, request, 0));
    PL_ARRAY_FREE(&engine->live[request].decode_pages);
    return PL_OK;
}

/* ---- steps ---- */

static pl_status_t end_decode(pl_engine_t *engine, int32_t request)
{
    PL_TRY(pl_decode_release(engine, request));
    return pl_request_finish(engine, request, false);
}

/* A token so long after the one before; steps of one tick mostly add up. */
static void note_gap(pl_engine_t *engine, int64_t ns)
{
    size_t n           = engine->gaps.n;
    pl_token_gap_t gap = {ns, 1};

    if ((n > 0) && (engine->gaps.items[n - 1].ns == ns)) {
        engine->gaps.items[n - 1].n++;
    } else if (PL_ARRAY_PUSH(&engine->gaps, gap) != PL_OK) {
        engine->callback_status = PL_ERR_MEMORY;
    }
}

/* n >= 1 more tokens are known, which came together.  Was the last among them?
 */
static bool generate(pl_engine_t *engine, int32_t request, int32_t n)
{
    pl_record_t *record = &engine->records[request];
    pl_live_t *live     = &engine->live[request];

    if (live->generated > 0) {
        note_gap(engine, engine->now_ns - live->token_ns);
        live->token_ns = engine->now_ns;
    } else {
        live->token_ns = record->first_token_ns;
    }
    live->generated += n;
    record->generated_tokens =
        live->ended_at > 0 ? live->ended_at : live->generated;
    return (live->ended_at > 0) || (live->generated == record->output_tokens);
}

pl_status_t pl_decode_arrived(pl_engine_t *engine, int32_t request)
{
    pl_live_t *live = &engine->live[request];

    if (engine->records[request].decode_ns < 0) {
        engine->records[request].decode_ns = engine->now_ns;
    }
    live->unseen_tokens = pl_draft_unseen(engine, request);
    if (generate(engine, request, 1)) {
        return end_decode(engine, request);
    }
    live->phase = PL_PHASE_READY;
    return list_insert(engine, &engine->homes[live->home_index].ready, request);
}

/* Its text ended while it could not step. */
static bool has_ended(pl_engine_t *engine, int32_t request)
{
    const pl_live_t *live = &engine->live[request];

    if (live->ended_at > 0) {
        engine->records[request].generated_tokens = live->ended_at;
    }
    return live->ended_at > 0;
}

static pl_status_t apply_home(pl_engine_t *engine, pl_home_t *home)
{
    size_t kept = 0;

    for (size_t i = 0; i < home->running.n; i++) {
        int32_t request = home->running.items[i];
        pl_live_t *live = &engine->live[request];
        bool ends       = ((live->step_tokens > 0) &&
                     generate(engine, request, live->step_tokens)) ||
                    has_ended(engine, request);

        live->step_tokens = 0;
        if (ends) {
            PL_TRY(end_decode(engine, request));
        } else {
            home->running.items[kept++] = request;
        }
    }
    home->running.n = kept;
    return PL_OK;
}

pl_status_t pl_decode_apply(pl_engine_t *engine)
{
    for (int32_t i = 0; i < engine->n_homes; i++) {
        PL_TRY(apply_home(engine, &engine->homes[i]));
    }
    return PL_OK;
}

/* ---- preemption ---- */

static pl_status_t add_host_copy(pl_engine_t *engine, int32_t request,
                                 pl_op_kind_t kind)
{
    pl_live_t *live  = &engine->live[request];
    pl_home_t *home  = &engine->homes[live->home_index];
    size_t n         = live->decode_host_pages.n;
    size_t bytes     = n * sizeof(pl_page_t);
    pl_event_t event = pl_event_make(kind == PL_OP_OFFLOAD ? PL_EVENT_OFFLOAD
                                                           : PL_EVENT_RESUME);
    pl_op_t op       = {0};
    int64_t id       = 0;

    op.kind     = kind;
    op.request  = request;
    op.node     = -1;
    op.n_pages  = (int32_t)n;
    op.n_tokens = pl_rows_held(engine, request);
    op.home     = home->rank;
    op.pages    = pl_plan_keep(engine, live->decode_pages.items, bytes);
    op.other    = pl_plan_keep(engine, live->decode_host_pages.items, bytes);
    if ((op.pages == NULL) || (op.other == NULL)) {
        return PL_ERR_MEMORY;
    }
    PL_TRY(pl_plan_add(engine, op, &id));
    PL_TRY(pl_ops_start(engine, &op, id, PL_LINK_OFFLOAD,
                        (int64_t)n * engine->config.page_bytes));
    event.op      = id;
    event.request = request;
    event.value   = home->rank;
    event.pages   = op.pages;
    event.other   = op.other;
    event.n_pages = op.n_pages;
    pl_engine_emit(engine, event);
    return PL_OK;
}

static pl_status_t offload(pl_engine_t *engine, int32_t request)
{
    pl_live_t *live = &engine->live[request];
    pl_home_t *home = &engine->homes[live->home_index];

    live->phase = PL_PHASE_OFFLOADING;
    home->offloads_under_way++;
    engine->counters.offloads++;
    engine->counters.offload_pages += (int64_t)live->decode_host_pages.n;
    engine->records[request].preemptions++;
    PL_TRY(give_decode_pages(engine, request, live->decode_host_pages.n));
    PL_TRY(list_insert(engine, &home->offloaded, request));
    return add_host_copy(engine, request, PL_OP_OFFLOAD);
}

/* As a new prompt: what it was asked and what it has said so far. */
static pl_status_t reenter(pl_engine_t *engine, int32_t request)
{
    pl_live_t *live  = &engine->live[request];
    pl_event_t event = pl_event_make(PL_EVENT_REENTER);
    pl_op_t op       = {0};
    int64_t id       = 0;

    live->prompt_tokens = pl_rows_held(engine, request) + 1;
    PL_TRY(pl_decode_release(engine, request));
    if (engine->config.role == PL_ROLE_DECODE) {
        return pl_port_reenter(engine, request);
    }
    if (!pl_fit_again(engine, request, live->prompt_tokens)) {
        return pl_request_finish(engine, request, true);
    }
    op.kind     = PL_OP_REENTER;
    op.request  = request;
    op.node     = -1;
    op.n_tokens = live->prompt_tokens;
    op.home     = engine->homes[live->home_index].rank;
    PL_TRY(pl_plan_add(engine, op, &id));
    event.request = request;
    event.value   = op.home;
    event.value2  = live->prompt_tokens;
    pl_engine_emit(engine, event);
    engine->counters.reentries++;
    engine->records[request].reentries++;
    PL_TRY(pl_admit_enqueue(engine, request, false));
    return engine->config.port != NULL ? pl_port_reentered(engine, request)
                                       : PL_OK;
}

static pl_status_t preempt_youngest(pl_engine_t *engine, pl_home_t *home,
                                    int32_t *victim_p)
{
    int32_t victim  = home->running.items[--home->running.n];
    pl_live_t *live = &engine->live[victim];
    int32_t n       = pl_pages_for(engine, pl_rows_held(engine, victim));
    pl_status_t status;

    *victim_p = victim;
    if ((home->host == NULL) || live->no_offload) {
        return reenter(engine, victim);
    }
    memset(engine->owners, 0, (size_t)n * sizeof(*engine->owners));
    status =
        take_pages(home->host, n, &live->decode_host_pages, engine->owners);
    if (status == PL_REFUSED_SHORT) {
        return reenter(engine, victim);
    }
    PL_TRY(status);
    return offload(engine, victim);
}

/* Rows that the next step writes: those of its drafts too, kept or not. */
static int32_t rows_of_step(const pl_engine_t *engine, int32_t request)
{
    int32_t left = engine->records[request].output_tokens -
                   engine->live[request].generated;
    int32_t n = 1 + engine->config.mtp.draft_tokens;

    return n < left ? n : left;
}

/* Pages for the next rows; *ok_p false: it has to wait, or was itself sent off.
 */
static pl_status_t grow(pl_engine_t *engine, pl_home_t *home, int32_t request,
                        bool *ok_p)
{
    pl_live_t *live = &engine->live[request];
    int32_t need = pl_pages_for(engine, (int64_t)pl_rows_held(engine, request) +
                                            rows_of_step(engine, request));
    int32_t victim = -1;

    *ok_p = false;
    while ((int32_t)live->decode_pages.n < need) {
        pl_status_t status = take_decode_pages(
            engine, request, need - (int32_t)live->decode_pages.n);

        if (status == PL_OK) {
            break;
        }
        if (status != PL_REFUSED_SHORT) {
            return status;
        }
        if (home->offloads_under_way > 0) {
            return PL_OK; /* its pages will do */
        }
        PL_TRY(preempt_youngest(engine, home, &victim));
        if (victim == request) {
            return PL_OK;
        }
    }
    *ok_p = true;
    return PL_OK;
}

/* ---- planning ---- */

static pl_status_t start_ready(pl_engine_t *engine, pl_home_t *home)
{
    while ((home->ready.n > 0) &&
           ((int32_t)home->running.n < engine->config.max_batch)) {
        int32_t request  = home->ready.items[0];
        pl_event_t event = pl_event_make(PL_EVENT_START);

        list_remove(&home->ready, request);
        engine->live[request].phase = PL_PHASE_RUNNING;
        PL_TRY(list_insert(engine, &home->running, request));
        event.request = request;
        event.value   = home->rank;
        pl_engine_emit(engine, event);
    }
    return PL_OK;
}

static pl_status_t add_step(pl_engine_t *engine, pl_home_t *home,
                            int32_t request)
{
    pl_live_t *live   = &engine->live[request];
    pl_op_t op        = {0};
    int64_t id        = 0;
    int32_t n_drafted = 0;

    op.kind        = PL_OP_DECODE;
    op.request     = request;
    op.node        = -1;
    op.n_pages     = (int32_t)live->decode_pages.n;
    op.pages       = live->decode_pages.items;
    op.first_token = pl_rows_held(engine, request);
    op.n_tokens    = pl_draft_kept(engine, request, &n_drafted);
    op.home        = home->rank;
    PL_TRY(pl_plan_add(engine, op, &id));
    live->step_tokens = op.n_tokens;
    engine->counters.decode_steps++;
    engine->counters.drafted_tokens += n_drafted;
    engine->counters.accepted_tokens += op.n_tokens - 1;
    return PL_OK;
}

/* Before anybody is preempted: a text that ended stays ended wherever it goes.
 */
static pl_status_t watch(pl_engine_t *engine, const pl_home_t *home)
{
    for (size_t i = 0; engine->config.stops && (i < home->running.n); i++) {
        PL_TRY(PL_ARRAY_PUSH(&engine->watched, home->running.items[i]));
    }
    return PL_OK;
}

static pl_status_t plan_home(pl_engine_t *engine, pl_home_t *home,
                             bool *stalled_p)
{
    PL_TRY(start_ready(engine, home));
    PL_TRY(watch(engine, home));
    for (size_t i = 0; i < home->running.n; i++) {
        int32_t request = home->running.items[i];
        bool ok         = false;

        PL_TRY(grow(engine, home, request, &ok));
        if (ok) {
            PL_TRY(add_step(engine, home, request));
        } else {
            *stalled_p = true;
        }
    }
    return PL_OK;
}

/* Oldest first, and only with a page to spare for each that runs: else it would
 * be the next to be sent off again. */
static pl_status_t resume_home(pl_engine_t *engine, pl_home_t *home)
{
    for (size_t i = 0; i < home->offloaded.n; i++) {
        int32_t request = home->offloaded.items[i];
        pl_live_t *live = &engine->live[request];
        int32_t n =
            pl_rows_held(engine, request) / engine->config.page_tokens + 1;

        if (live->phase != PL_PHASE_OFFLOADED) {
            continue;
        }
        if (pl_lanes_free_count(home->pool, 0) < n + (int32_t)home->running.n) {
            return PL_OK;
        }
        PL_TRY(take_decode_pages(engine, request, n));
        live->phase = PL_PHASE_RESUMING;
        engine->counters.resumes++;
        PL_TRY(add_host_copy(engine, request, PL_OP_RESUME));
    }
    return PL_OK;
}

pl_status_t pl_decode_plan(pl_engine_t *engine)
{
    for (int32_t i = 0; i < engine->n_homes; i++) {
        bool stalled = false;

        PL_TRY(plan_home(engine, &engine->homes[i], &stalled));
        if (!stalled) {
            PL_TRY(resume_home(engine, &engine->homes[i]));
        }
    }
    return PL_OK;
}

/* ---- ends of copies ---- */

static void emit_end(pl_engine_t *engine, pl_event_kind_t kind, int32_t request,
                     int64_t op, bool good)
{
    pl_event_t event = pl_event_make(kind);

    event.op      = op;
    event.request = request;
    event.value   = good;
    pl_engine_emit(engine, event);
}

pl_status_t pl_decode_offloaded(pl_engine_t *engine, int32_t request,
                                int64_t op, bool good)
{
    pl_live_t *live = &engine->live[request];
    pl_home_t *home = &engine->homes[live->home_index];

    emit_end(engine, PL_EVENT_OFFLOADED, request, op, good);
    home->offloads_under_way--;
    if (good) {
        live->phase = PL_PHASE_OFFLOADED;
        return give_decode_pages(engine, request, 0);
    }
    /* Nothing was lost: it holds its pages still, and next time re-enters. */
    list_remove(&home->offloaded, request);
    live->no_offload = true;
    live->phase      = PL_PHASE_READY;
    PL_TRY(give_host_pages(engine, request));
    return list_insert(engine, &home->ready, request);
}

pl_status_t pl_decode_resumed(pl_engine_t *engine, int32_t request, int64_t op,
                              bool good)
{
    pl_live_t *live = &engine->live[request];
    pl_home_t *home = &engine->homes[live->home_index];

    emit_end(engine, PL_EVENT_RESUMED, request, op, good);
    if (!good) {
        live->phase = PL_PHASE_OFFLOADED;
        return give_decode_pages(engine, request, 0);
    }
    list_remove(&home->offloaded, request);
    live->phase = PL_PHASE_READY;
    pl_draft_resumed(engine, request);
    PL_TRY(give_host_pages(engine, request));
    return list_insert(engine, &home->ready, request);
}
