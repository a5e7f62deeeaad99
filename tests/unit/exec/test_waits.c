/* The host waits for its device where it needs what comes out, never for a
 * layer: counted on a device that is far, whose forward pass is late.
 *
 * With verification off these waits are left, each for what the host goes on
 * with:
 *   - a prompt's last chunk, and a decode step: one, for the token;
 *   - a chunk behind one that is no prompt's last: one, as the buffers of the
 *     forward pass are free only then (this forward's; a GPU's asks for what it
 *     was handed two chunks before);
 *   - a load-back, a backup, an offload, a resume that is due: one on a rank
 *     that has pages of it, as its source is then another's;
 *   - a send: one before its message goes out, and one or two until a buffer of
 *     a message can be used again;
 *   - a view or buffer that grows to twice its size: one a stream.
 */
#include <stdlib.h>

#include "support/check_main.h"
#include "support/far_device.h"
#include "support/far_forward.h"
#include "support/seed.h"
#include "support/waits.h"

enum { SHALLOW = 2, DEEP = 6 };

static waits_run_t *take(uint64_t seed, int c, int d, int32_t n_layers,
                         pl_forward_source_t forward)
{
    waits_params_t params = {.seed      = seed,
                             .n_prefill = c,
                             .n_decode  = d,
                             .n_layers  = n_layers,
                             .device    = far_device_source(),
                             .forward   = forward,
                             .verify    = PL_VERIFY_OFF};
    waits_run_t *run      = waits_take(&params);

    waits_must_be_good(run);
    return run;
}

/* Ticks of a rank in which the two waited another number of times. */
static int differences(const waits_run_t *a, const waits_run_t *b, int rank)
{
    int n = 0;

    ck_assert_uint_eq(a->ticks[rank].n, b->ticks[rank].n);
    for (size_t i = 0; i < a->ticks[rank].n; i++) {
        const waits_tick_t *one   = &a->ticks[rank].items[i];
        const waits_tick_t *other = &b->ticks[rank].items[i];

        ck_assert_int_eq(one->chunks, other->chunks);
        ck_assert_int_eq(one->steps, other->steps);
        n += one->waits != other->waits ? 1 : 0;
    }
    return n;
}

static const struct {
    int c, d;
} machines[] = {{1, 0}, {2, 0}, {1, 1}, {2, 1}, {3, 0}};

#define N_MACHINES ((int)(sizeof(machines) / sizeof(machines[0])))

START_TEST(waits_do_not_grow_with_the_layers)
{
    uint64_t seed        = pl_test_seed("waits");
    int c                = machines[_i].c;
    int d                = machines[_i].d;
    waits_run_t *shallow = take(seed, c, d, SHALLOW, far_forward_source());
    waits_run_t *deep    = take(seed, c, d, DEEP, far_forward_source());

    for (int rank = 0; rank < c + d; rank++) {
        ck_assert_int_gt(waits_sum(shallow, rank), 0);
        ck_assert_msg(differences(shallow, deep, rank) == 0,
                      "rank %d waits %d times with %d layers, %d with %d", rank,
                      (int)waits_sum(shallow, rank), SHALLOW,
                      (int)waits_sum(deep, rank), DEEP);
    }
    waits_free(shallow);
    waits_free(deep);
}
END_TEST

/* The list above, summed up. */
START_TEST(nothing_else_waits)
{
    enum { GROWTHS = 8, SEND = 4 };
    waits_run_t *run = take(pl_test_seed("waits"), machines[_i].c,
                            machines[_i].d, DEEP, far_forward_source());
    const pl_engine_counters_t *engine = &run->result->engine;
    const pl_hicache_counters_t *cache = &run->result->cache;
    int64_t most = 2 * engine->chunks + engine->decode_steps +
                   engine->offloads + engine->resumes + cache->loads +
                   cache->backups + SEND * engine->sends + GROWTHS * PL_STREAMS;

    for (int rank = 0; rank < run->n_ranks; rank++) {
        ck_assert_int_le(waits_sum(run, rank), most);
    }
    waits_free(run);
}
END_TEST

/* ---- can it be seen? ---- */

static pl_forward_ops_t slow_ops;
static const pl_forward_ops_t *far_ops;
static _Thread_local pl_device_t *device; /* of the rank's thread */

static pl_status_t wait_and_mix(pl_forward_t *self, int32_t layer,
                                const pl_view_t *latent, const pl_view_t *index)
{
    pl_fence_t fence;

    PL_TRY(far_ops->mix(self, layer, latent, index));
    PL_TRY(pl_device_record(device, PL_STREAM_COMPUTE, &fence));
    return pl_device_wait(device, PL_STREAM_COMPUTE, fence);
}

static pl_status_t open_slow(void *context, pl_device_t *of,
                             const pl_model_config_t *config,
                             const pl_weights_t *weights, pl_kv_dtype_t dtype,
                             const pl_log_t *log, pl_forward_t **forward_p)
{
    pl_forward_source_t far = far_forward_source();

    (void)context;
    PL_TRY(far.open(far.context, of, config, weights, dtype, log, forward_p));
    device            = of;
    far_ops           = (*forward_p)->ops;
    slow_ops          = *far_ops;
    slow_ops.mix      = wait_and_mix;
    (*forward_p)->ops = &slow_ops;
    return PL_OK;
}

START_TEST(a_wait_in_a_layer_shows)
{
    pl_forward_source_t slow           = {.open = open_slow};
    uint64_t seed                      = pl_test_seed("waits");
    waits_run_t *shallow               = take(seed, 1, 0, SHALLOW, slow);
    waits_run_t *deep                  = take(seed, 1, 0, DEEP, slow);
    const pl_engine_counters_t *engine = &deep->result->engine;

    ck_assert_int_gt(differences(shallow, deep, 0), 0);
    ck_assert_int_ge(waits_sum(deep, 0),
                     DEEP * (engine->chunks + engine->decode_steps));
    waits_free(shallow);
    waits_free(deep);
}
END_TEST

static TCase *waits_case(void)
{
    TCase *tcase = tcase_create("waits");

    tcase_set_timeout(tcase, 200);
    tcase_add_loop_test(tcase, waits_do_not_grow_with_the_layers, 0,
                        N_MACHINES);
    tcase_add_loop_test(tcase, nothing_else_waits, 0, N_MACHINES);
    tcase_add_test(tcase, a_wait_in_a_layer_shows);
    return tcase;
}

PL_CHECK_MAIN("exec waits", waits_case())
