/* Arrivals: at their own time, or behind others. */
#include <stdlib.h>

#include "property/engine/drive_internal.h"

/* Two that a request waits for at most, among the eight before it. */
enum { MOST_AFTER = 2, NEAR = 8 };

/* A third of the requests waits for others; the rest, and those of a script,
 * come as they are. */
void drive_draw_turns(driver_t *driver)
{
    const drive_params_t *params = driver->params;
    pl_rng_t rng                 = pl_rng_seed(params->seed ^ 0x70e25);
    int32_t *after               = NULL;

    for (int32_t i = 1; (i < params->n_requests) && params->turns; i++) {
        pl_request_t *request = &driver->requests[i];
        int32_t near          = i < NEAR ? i : NEAR;

        if (pl_rng_below(&rng, 3) > 0) {
            continue;
        }
        after = malloc(MOST_AFTER * sizeof(*after));
        ck_assert_ptr_nonnull(after);
        after[0] = i - 1 - (int32_t)pl_rng_below(&rng, (uint64_t)near);
        after[1] = i - 1;
        request->n_after =
            (after[0] < after[1]) && (pl_rng_below(&rng, 2) == 0) ? 2 : 1;
        request->after      = after;
        request->not_before = pl_rng_below(&rng, 4) == 0;
        request->delay_ns   = (int64_t)pl_rng_below(&rng, 500000000);
        if (pl_rng_below(&rng, 2) == 0) {
            request->delay_ns = 0;
        }
    }
}

/* Those that run and that request i still waits for. */
static bool waits(const driver_t *driver, int32_t i)
{
    const pl_request_t *request = &driver->requests[i];

    for (int32_t k = 0; k < request->n_after; k++) {
        if (!driver->ended[request->after[k]]) {
            return true;
        }
    }
    return false;
}

/* After it is known who is skipped. */
void drive_open_turns(driver_t *driver)
{
    size_t n = (size_t)driver->params->n_requests;

    driver->arrivals = calloc(n, sizeof(*driver->arrivals));
    driver->arrived  = calloc(n, sizeof(*driver->arrived));
    driver->ended    = calloc(n, sizeof(*driver->ended));
    ck_assert(driver->arrivals && driver->arrived && driver->ended);
    for (size_t i = 0; i < n; i++) {
        driver->ended[i] = driver->skip[i] != 0;
    }
    for (int32_t i = 0; i < driver->params->n_requests; i++) {
        driver->arrivals[i] =
            waits(driver, i) ? INT64_MAX : driver->requests[i].arrival_ns;
    }
}

static void note_end(driver_t *driver, int32_t ended)
{
    int64_t now = pl_engine_now_ns(driver->engine);

    driver->ended[ended] = true;
    for (int32_t i = ended + 1; i < driver->params->n_requests; i++) {
        const pl_request_t *request = &driver->requests[i];
        int64_t at                  = now + request->delay_ns;

        if ((driver->arrivals[i] == INT64_MAX) && !waits(driver, i)) {
            at = request->not_before && (request->arrival_ns > at)
                     ? request->arrival_ns
                     : at;
            driver->arrivals[i] = at;
            driver->result->turns++;
        }
    }
}

void drive_note_turns(driver_t *driver, const pl_event_t *event)
{
    if (event->kind == PL_EVENT_FINISH) {
        note_end(driver, event->request);
    } else if (event->kind == PL_EVENT_ARRIVE) {
        MUST(driver->arrivals[event->request] <=
                 pl_engine_now_ns(driver->engine),
             "request %d arrives before its turn", event->request);
        driver->arrived[event->request] = true;
    }
}

int64_t drive_next_arrival(const driver_t *driver)
{
    int64_t next = INT64_MAX;

    for (int32_t i = 0; i < driver->params->n_requests; i++) {
        if (!driver->arrived[i] && (driver->skip[i] == 0) &&
            (driver->arrivals[i] < next)) {
            next = driver->arrivals[i];
        }
    }
    return next;
}

void drive_close_turns(driver_t *driver)
{
    for (int32_t i = 0; i < driver->params->n_requests; i++) {
        union {
            const int32_t *borrowed;
            int32_t *owned;
        } after = {driver->requests[i].after};

        free(after.owned);
    }
    free(driver->arrivals);
    free(driver->arrived);
    free(driver->ended);
}
