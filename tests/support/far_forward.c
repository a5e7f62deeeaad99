#include "support/far_forward.h"

#include <stdlib.h>

#include "support/far_device.h"

typedef struct far_forward {
    pl_forward_t forward;
    pl_forward_t *host;
    pl_device_t *device;
} far_forward_t;

static pl_forward_t *host_of(pl_forward_t *self)
{
    return ((far_forward_t *)self)->host;
}

static void *reach(const pl_forward_t *self, const void *mem)
{
    return mem == NULL ? NULL
                       : far_device_reach(((const far_forward_t *)self)->device,
                                          PL_STREAM_COMPUTE, mem);
}

static pl_status_t far_reserve(pl_forward_t *self, int32_t n,
                               int32_t n_positions)
{
    return host_of(self)->ops->reserve(host_of(self), n, n_positions);
}

static pl_status_t far_begin(pl_forward_t *self, const int32_t *tokens,
                             const int32_t *positions, int32_t n)
{
    return host_of(self)->ops->begin(host_of(self), tokens, positions, n);
}

static pl_status_t far_store(pl_forward_t *self, int32_t layer, int32_t first,
                             int32_t n, const int32_t *rows,
                             const pl_forward_pages_t *latent,
                             const pl_forward_pages_t *index)
{
    pl_forward_pages_t of_latent = *latent;
    pl_forward_pages_t of_index  = *index;

    of_latent.pages = reach(self, latent->pages);
    of_index.pages  = reach(self, index->pages);
    return host_of(self)->ops->store(host_of(self), layer, first, n, rows,
                                     &of_latent, &of_index);
}

static pl_status_t far_mix(pl_forward_t *self, int32_t layer,
                           const pl_view_t *latent, const pl_view_t *index)
{
    pl_view_t of_latent = *latent;
    pl_view_t of_index  = *index;

    of_latent.bytes = reach(self, latent->bytes);
    of_index.bytes  = reach(self, index->bytes);
    return host_of(self)->ops->mix(host_of(self), layer, &of_latent, &of_index);
}

static pl_status_t far_end(pl_forward_t *self, int32_t i, float *logits,
                           int32_t *token_p)
{
    return host_of(self)->ops->end(host_of(self), i, logits, token_p);
}

static void far_watch(pl_forward_t *self, pl_selected_t selected, void *context)
{
    host_of(self)->ops->watch(host_of(self), selected, context);
}

static void far_close(pl_forward_t *self)
{
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
