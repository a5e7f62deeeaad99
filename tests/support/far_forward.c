#include "support/far_forward.h"

#include <stdlib.h>
#include <string.h>

#include "pool/store.h"
#include "support/far_device.h"

typedef struct far_forward {
    pl_forward_t forward;
    pl_forward_t *host;
    pl_device_t *device;
    pl_status_t status; /* the first that was not PL_OK */
} far_forward_t;

typedef enum step_kind { BEGIN, STORE, MIX } step_kind_t;

/* A call that is queued, with copies of what it names. */
typedef struct step {
    far_forward_t *far;
    step_kind_t kind;
    int32_t layer, first, n;
    int32_t *numbers;                    /* tokens, or rows */
    int32_t *others;                     /* positions, or rows of the index */
    pl_forward_pages_t pages[PL_STORES]; /* STORE */
    pl_view_t views[PL_STORES];          /* MIX */
} step_t;

static pl_forward_t *host_of(pl_forward_t *self)
{
    return ((far_forward_t *)self)->host;
}

static int32_t *copy_of(const int32_t *numbers, int32_t n)
{
    int32_t *copy = malloc(((size_t)n + 1) * sizeof(*copy));

    if (copy == NULL) {
        abort();
    }
    if (n > 0) {
        memcpy(copy, numbers, (size_t)n * sizeof(*copy));
    }
    return copy;
}

/* ---- done late ---- */

static pl_status_t do_step(step_t *step)
{
    pl_forward_t *host = step->far->host;

    for (int which = 0; which < PL_STORES; which++) {
        step->pages[which].pages = far_device_inside(step->pages[which].pages);
        step->views[which].bytes = far_device_inside(step->views[which].bytes);
    }
    switch (step->kind) {
    case BEGIN:
        return host->ops->begin(host, step->numbers, step->others, step->n);
    case STORE:
        return host->ops->store(host, step->layer, step->first, step->n,
                                step->numbers, &step->pages[PL_STORE_LATENT],
                                &step->pages[PL_STORE_INDEX]);
    default:
        step->views[PL_STORE_LATENT].rows = step->numbers;
        step->views[PL_STORE_INDEX].rows  = step->others;
        return host->ops->mix(host, step->layer, &step->views[PL_STORE_LATENT],
                              &step->views[PL_STORE_INDEX]);
    }
}

static void do_call(void *context)
{
    step_t *step       = context;
    pl_status_t status = do_step(step);

    if (step->far->status == PL_OK) {
        step->far->status = status;
    }
    free(step->numbers);
    free(step->others);
    free(step);
}

static pl_status_t queue(pl_forward_t *self, step_t step)
{
    step_t *own = malloc(sizeof(*own));

    if (own == NULL) {
        return PL_ERR_MEMORY;
    }
    *own     = step;
    own->far = (far_forward_t *)self;
    return far_device_call(own->far->device, PL_STREAM_COMPUTE, do_call, own);
}

static pl_status_t catch_up(const far_forward_t *far)
{
    pl_fence_t fence;

    PL_TRY(pl_device_record(far->device, PL_STREAM_COMPUTE, &fence));
    PL_TRY(pl_device_wait(far->device, PL_STREAM_COMPUTE, fence));
    return far->status;
}

/* ---- operations ---- */

static pl_status_t far_reserve(pl_forward_t *self, int32_t n,
                               int32_t n_positions)
{
    PL_TRY(catch_up((far_forward_t *)self));
    return host_of(self)->ops->reserve(host_of(self), n, n_positions);
}

static pl_status_t far_begin(pl_forward_t *self, const int32_t *tokens,
                             const int32_t *positions, int32_t n)
{
    return queue(self, (step_t){.kind    = BEGIN,
                                .n       = n,
                                .numbers = copy_of(tokens, n),
                                .others  = copy_of(positions, n)});
}

static pl_status_t far_store(pl_forward_t *self, int32_t layer, int32_t first,
                             int32_t n, const int32_t *rows,
                             const pl_forward_pages_t *latent,
                             const pl_forward_pages_t *index)
{
    step_t step = {.kind    = STORE,
                   .layer   = layer,
                   .first   = first,
                   .n       = n,
                   .numbers = copy_of(rows, n)};

    step.pages[PL_STORE_LATENT] = *latent;
    step.pages[PL_STORE_INDEX]  = *index;
    return queue(self, step);
}

static int32_t *rows_of(const pl_view_t *view)
{
    int32_t page_tokens = view->form.page_tokens;

    return view->bytes == NULL
               ? NULL
               : copy_of(view->rows,
                         (view->n_tokens + page_tokens - 1) / page_tokens);
}

static pl_status_t far_mix(pl_forward_t *self, int32_t layer,
                           const pl_view_t *latent, const pl_view_t *index)
{
    step_t step = {.kind    = MIX,
                   .layer   = layer,
                   .numbers = rows_of(latent),
                   .others  = rows_of(index)};

    step.views[PL_STORE_LATENT] = *latent;
    step.views[PL_STORE_INDEX]  = *index;
    return queue(self, step);
}

static pl_status_t far_end(pl_forward_t *self, int32_t i, float *logits,
                           int32_t *token_p)
{
    PL_TRY(catch_up((far_forward_t *)self));
    return host_of(self)->ops->end(host_of(self), i, logits, token_p);
}

static void far_watch(pl_forward_t *self, pl_selected_t selected, void *context)
{
    host_of(self)->ops->watch(host_of(self), selected, context);
}

static void far_close(pl_forward_t *self)
{
    pl_status_t status = catch_up((far_forward_t *)self);

    (void)status; /* nothing is queued any more */
    pl_forward_close(host_of(self));
    free(self);
}

static const pl_forward_ops_t far_ops = {.reserve = far_reserve,
                                         .begin   = far_begin,
                                         .store   = far_store,
                                         .mix     = far_mix,
                                         .end     = far_end,
                                         .watch   = far_watch,
                                         .close   = far_close};

static pl_status_t open_far(void *context, pl_device_t *device,
                            const pl_model_config_t *config,
                            const pl_weights_t *weights, pl_kv_dtype_t dtype,
                            const pl_log_t *log, pl_forward_t **forward_p)
{
    far_forward_t *far = calloc(1, sizeof(*far));
    pl_status_t status;

    (void)context;
    if (far == NULL) {
        return PL_ERR_MEMORY;
    }
    far->forward.ops = &far_ops;
    far->device      = device;
    status           = pl_forward_open(config, weights, dtype, log, &far->host);
    if (status != PL_OK) {
        free(far);
        return status;
    }
    *forward_p = &far->forward;
    return PL_OK;
}

pl_forward_source_t far_forward_source(void)
{
    return (pl_forward_source_t){.open = open_far};
}
