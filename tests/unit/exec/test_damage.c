/* What goes wrong on the way is seen where it is. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"
#include "test_exec.h"

/* ---- what goes wrong is seen, where it is ---- */

typedef enum damage {
    HOST_BIT,       /* a bit of a host page */
    HOST_INDEX_BIT, /* the same in the index store: 9.24 */
    DEVICE_BIT,
    HOST_STALE,   /* another page was written over it */
    WRONG_OWNERS, /* load-back allocates elsewhere: the historical bug */
    NEVER_WRITTEN,
    LATE_OVERWRITE, /* the source changes under a late copy */
    DECODE_BIT,
    DAMAGES
} damage_t;

static void flip(rig_t *rig, int tier, int which, pl_page_t page, int n_lanes)
{
    if ((n_lanes == 1) || (pl_page_owner(page, n_lanes) == rig->comm->rank)) {
        uint8_t *bytes =
            rig_page(rig, tier, which, 1, pl_page_slot(page, n_lanes));

        bytes[3] ^= 1;
    }
}

typedef struct damaged {
    damage_t damage;
    pl_violations_t seen;
    pl_page_t page; /* that must be named */
} damaged_t;

static void load_and_read(rig_t *rig, rig_pages_t *host, int32_t whole,
                          damaged_t *out)
{
    int32_t size    = rig->params->page_tokens;
    rig_pages_t hit = {.n = 0};
    pl_owner_t owners[RIG_ROOM];
    int64_t load;

    memcpy(owners, host->owners, sizeof(owners));
    if (out->damage == WRONG_OWNERS) {
        owners[1] = (pl_owner_t)((owners[1] + 1) % rig->params->n_prefill);
    }
    rig_take(rig->device_lanes, owners, whole, &hit);
    load = rig_start_copy(rig, PL_OP_LOAD, &hit, host, whole);
    rig_extend(rig, &hit, 1, whole * size, RIG_PROMPT);
    rig_prefill(rig, &hit, 1, whole * size, RIG_PROMPT, true, load);
    rig_tick(rig);
    rig_due(rig, load, PL_OP_LOAD);
    rig_tick(rig);
    if (out->damage == WRONG_OWNERS) {
        out->page = hit.pages[1];
    }
}

static void late_overwrite(rig_t *rig, rig_pages_t *host, damaged_t *out)
{
    rig_pages_t hit = {.n = 0};
    int64_t load;

    rig_take(rig->device_lanes, host->owners, 2, &hit);
    load = rig_start_copy(rig, PL_OP_LOAD, &hit, host, 2);
    rig_tick(rig);
    flip(rig, PL_FREED_HOST, PL_STORE_LATENT, host->pages[1],
         rig->params->n_prefill);
    out->page = host->pages[1];
    rig_due(rig, load, PL_OP_LOAD);
    rig_tick(rig);
}

static void decode_bit(rig_t *rig, const rig_pages_t *cold, damaged_t *out)
{
    rig_pages_t to = {.n = 0};

    rig_send_all(rig, cold, &to, 0);
    if (rig->comm->rank == rig_home(rig)) {
        flip(rig, PL_FREED_DECODE, PL_STORE_INDEX, to.pages[1], 1);
    }
    out->page = to.pages[1];
    RIG_CHECK(rig, rig->executor->ops->finish(rig->executor, 9) == PL_OK);
}

static void damaged(rig_t *rig, void *context)
{
    damaged_t *shared = context;
    damaged_t mine    = *shared;
    damaged_t *out    = rig->comm->rank == 0 ? shared : &mine;
    int n             = rig->params->n_prefill;
    int32_t whole     = (RIG_PROMPT - 1) / rig->params->page_tokens;
    rig_pages_t cold = {.n = 0}, host = {.n = 0};

    rig_prefill_cold(rig, &cold, 0);
    rig_back_up(rig, &cold, &host, whole);
    RIG_CHECK(rig, rig_violations(rig).n == 0);
    out->page = host.pages[1];
    switch (out->damage) {
    case HOST_BIT:
        flip(rig, PL_FREED_HOST, PL_STORE_LATENT, host.pages[1], n);
        load_and_read(rig, &host, whole, out);
        break;
    case HOST_INDEX_BIT:
        flip(rig, PL_FREED_HOST, PL_STORE_INDEX, host.pages[1], n);
        load_and_read(rig, &host, whole, out);
        break;
    case HOST_STALE:
        RIG_CHECK(rig, pl_lanes_free(rig->host_lanes, &host.pages[1], NULL,
                                     1) == PL_OK);
        host.n = 1;
        rig_take(rig->host_lanes, host.owners + 1, 1, &host);
        host.n    = whole;
        out->page = host.pages[1];
        load_and_read(rig, &host, whole, out);
        break;
    case WRONG_OWNERS:
        load_and_read(rig, &host, whole, out);
        break;
    case LATE_OVERWRITE:
        late_overwrite(rig, &host, out);
        break;
    case DECODE_BIT:
        decode_bit(rig, &cold, out);
        break;
    case DEVICE_BIT:
        flip(rig, PL_FREED_DEVICE, PL_STORE_LATENT, cold.pages[1], n);
        out->page = cold.pages[1];
        rig_prefill(rig, &cold, 0, RIG_PROMPT / 16 * 16, RIG_PROMPT, true, 0);
        rig_tick(rig);
        break;
    default: /* NEVER_WRITTEN: a page that was taken and not filled */
        cold.n = whole;
        rig_extend(rig, &cold, 0, whole * rig->params->page_tokens,
                   (whole + 1) * rig->params->page_tokens);
        out->page = cold.pages[whole];
        rig_extend(rig, &cold, 0, (whole + 1) * rig->params->page_tokens,
                   (whole + 1) * rig->params->page_tokens + 1);
        rig->request.input_tokens = (whole + 1) * rig->params->page_tokens + 1;
        rig_prefill(rig, &cold, 0, (whole + 1) * rig->params->page_tokens,
                    (whole + 1) * rig->params->page_tokens + 1, true, 0);
        rig_tick(rig);
        break;
    }
    out->seen = rig_violations(rig);
}

/* 9.24, I5, I6, I7: in which tier and store, and which page */
START_TEST(damage_is_seen_where_it_is)
{
    static const struct {
        int invariant;
        pl_place_t tier;
        int store;
    } want[DAMAGES] = {[HOST_BIT]       = {7, PL_PLACE_HOST, 0},
                       [HOST_INDEX_BIT] = {7, PL_PLACE_HOST, 1},
                       [DEVICE_BIT]     = {7, PL_PLACE_DEVICE, 0},
                       [HOST_STALE]     = {6, PL_PLACE_HOST, 0},
                       [WRONG_OWNERS]   = {6, PL_PLACE_DEVICE, 0},
                       [NEVER_WRITTEN]  = {6, PL_PLACE_DEVICE, 0},
                       [LATE_OVERWRITE] = {7, PL_PLACE_HOST, 0},
                       [DECODE_BIT]     = {7, PL_PLACE_DECODE, 1}};
    char failed[512];
    bool far                   = _i >= DAMAGES;
    damaged_t out              = {.damage = (damage_t)(_i % DAMAGES)};
    const char *near           = out.damage == LATE_OVERWRITE ? "guard" : "cpu";
    rig_point_t point          = {4, 1, 16, far ? "far" : near};
    rig_params_t params        = rig_params_of(&point, PL_VERIFY_DIGEST);
    const pl_violation_t *seen = &out.seen.least;

    ck_assert_str_eq(rig_run(&params, damaged, &out, failed), "");
    ck_assert_int_gt(out.seen.n, 0);
    ck_assert_int_eq(seen->invariant, want[out.damage].invariant);
    ck_assert_int_eq(seen->tier, want[out.damage].tier);
    ck_assert_int_eq(seen->store, want[out.damage].store);
    ck_assert_int_eq(seen->page, out.page);
}
END_TEST

TCase *damage_case(void)
{
    TCase *tcase = tcase_create("damage");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, damage_is_seen_where_it_is, 0, 2 * DAMAGES);
    return tcase;
}
