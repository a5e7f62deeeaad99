/* Random operations on the allocator, on a mirror of it, and on a model.
 *
 * Laws: allocator and model agree on every status, page, count, deficit and
 * generation; the mirror gives the same pages and the same state hash; a call
 * that does not succeed leaves the hash as it was; the counters survive a
 * recount.  9.3 mirrored lanes, I3, 9.7 all or nothing, 9.10 both counts, 9.11
 * double free and wrong lane, 9.12 groups.
 */
#include <pagelane/lanes.h>

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "property/lanes/model.h"

/* Check writes a file for each assertion: too slow for millions of them. */
#define LAW(x, condition)                                                      \
    do {                                                                       \
        if (!(condition)) {                                                    \
            ck_abort_msg("%s (C %d, seed %" PRIu64 ", operation %d)",          \
                         #condition, (x)->model.n_lanes, (x)->seed, (x)->op);  \
        }                                                                      \
    } while (0)

/* Operations a shape, looking at everything after each, and now and then. */
enum { N_CLOSE = 3000, N_FAR = 30000, MOST = 40 };

typedef struct experiment {
    uint64_t seed;
    int op;
    pl_rng_t rng;
    pl_lanes_t *lanes;
    pl_lanes_t *mirror;
    model_t model;
    pl_page_t used[MODEL_PAGES]; /* handed out, in any order */
    int32_t n_used;
    int n_refused, n_caught, n_merged; /* that the runs were not too tame */
} experiment_t;

static uint64_t below(experiment_t *x, uint64_t n)
{
    return pl_rng_below(&x->rng, n);
}

static void try_alloc(experiment_t *x)
{
    pl_owner_t owners[MOST];
    pl_page_t pages[MOST];
    pl_page_t mirrored[MOST];
    pl_page_t expected[MOST];
    int32_t deficits[PL_MAX_RANKS];
    int32_t n       = (int32_t)below(x, MOST + 1);
    int32_t run     = 1 + (int32_t)below(x, 12);
    uint64_t before = pl_lanes_state_hash(x->lanes);
    bool is_short   = false;
    int n_merges    = 0; /* lanes whose free pages do not do */
    pl_status_t status;
    bool fits;

    for (int32_t i = 0; i < n; i++) {
        owners[i] = i % run == 0
                        ? (pl_owner_t)below(x, (uint64_t)x->model.n_lanes)
                        : owners[i - 1];
    }
    LAW(x, pl_lanes_deficits(x->lanes, owners, n, deficits) ==
               pl_lanes_deficits(x->mirror, owners, n, deficits));
    for (int r = 0; r < x->model.n_lanes; r++) {
        int32_t lacks = -model_free_count(&x->model, r);

        for (int32_t i = 0; i < n; i++) {
            lacks += owners[i] == r;
        }
        LAW(x, deficits[r] == (lacks > 0 ? lacks : 0));
        is_short |= lacks > 0;
        n_merges += lacks + model_count(&x->model, r, STAGED) > 0;
    }
    fits   = model_alloc(&x->model, owners, n, expected);
    status = pl_lanes_alloc(x->lanes, owners, n, pages);
    LAW(x, status == (fits ? PL_OK : PL_REFUSED_SHORT));
    LAW(x, status == pl_lanes_alloc(x->mirror, owners, n, mirrored));
    LAW(x, fits != is_short);
    if (!fits) {
        x->n_refused++;
        LAW(x, pl_lanes_state_hash(x->lanes) == before);
        return;
    }
    x->n_merged += n_merges;
    for (int32_t i = 0; i < n; i++) {
        LAW(x, pages[i] == expected[i]);
        LAW(x, pages[i] == mirrored[i]);
        LAW(x, pl_lanes_generation(x->lanes, pages[i]) ==
                   x->model.generation[pages[i]]);
        x->used[x->n_used++] = pages[i];
    }
}

/* Spoil a good list of n pages in one of the ways that must be found. */
static void spoil(experiment_t *x, pl_page_t *pages, pl_owner_t *owners,
                  int32_t n)
{
    int32_t at    = (int32_t)below(x, (uint64_t)n);
    int32_t n_all = x->model.n_lanes * x->model.pages_per_lane;
    pl_page_t g   = (pl_page_t)below(x, (uint64_t)n_all);

    switch (below(x, 4)) {
    case 0: /* twice in the call, or of a lane of its own */
        pages[at]  = pages[below(x, (uint64_t)n)];
        owners[at] = pl_page_owner(pages[at], x->model.n_lanes);
        break;
    case 1: /* any page: free, staged, grouped, scratch or even right */
        pages[at]  = g;
        owners[at] = pl_page_owner(g, x->model.n_lanes);
        break;
    case 2:
        owners[at] = (pl_owner_t)below(x, (uint64_t)x->model.n_lanes);
        break;
    default:
        pages[at] = below(x, 2) == 0 ? -1 - g : n_all + g;
        break;
    }
}

static void try_free(experiment_t *x)
{
    pl_page_t pages[MOST];
    pl_owner_t owners[MOST];
    int32_t n       = (int32_t)below(x, MOST + 1);
    bool named      = below(x, 2) == 0;
    uint64_t before = pl_lanes_state_hash(x->lanes);
    pl_status_t status;
    bool is_good;

    n = n > x->n_used ? x->n_used : n;
    for (int32_t i = 0; i < n; i++) { /* the tail becomes a random choice */
        int32_t j      = (int32_t)below(x, (uint64_t)(x->n_used - i));
        int32_t last   = x->n_used - 1 - i;
        pl_page_t kept = x->used[last];

        x->used[last] = x->used[j];
        x->used[j]    = kept;
        pages[i]      = x->used[last];
        owners[i]     = pl_page_owner(pages[i], x->model.n_lanes);
    }
    if ((n > 0) && (below(x, 4) == 0)) {
        spoil(x, pages, owners, n);
    }
    is_good = model_free(&x->model, pages, named ? owners : NULL, n);
    status  = pl_lanes_free(x->lanes, pages, named ? owners : NULL, n);
    LAW(x, status == (is_good ? PL_OK : PL_ERR_INTERNAL));
    LAW(x, status == pl_lanes_free(x->mirror, pages, named ? owners : NULL, n));
    if (!is_good) {
        x->n_caught++;
        LAW(x, pl_lanes_state_hash(x->lanes) == before);
        return;
    }
    /* A spoiled list may be good all the same, with another page. */
    x->n_used = 0;
    for (pl_page_t g = 0; g < x->model.n_lanes * x->model.pages_per_lane; g++) {
        if (x->model.where[g] == USED) {
            x->used[x->n_used++] = g;
        }
    }
}

static void try_group(experiment_t *x)
{
    bool begin = below(x, 2) == 0;
    bool done =
        begin ? model_group_begin(&x->model) : model_group_end(&x->model);
    pl_status_t want = done ? PL_OK : PL_ERR_INTERNAL;

    if (begin) {
        LAW(x, pl_lanes_group_begin(x->lanes) == want);
        LAW(x, pl_lanes_group_begin(x->mirror) == want);
    } else {
        LAW(x, pl_lanes_group_end(x->lanes) == want);
        LAW(x, pl_lanes_group_end(x->mirror) == want);
    }
}

/* Everything that can be asked, against the model. */
static void compare_all(experiment_t *x)
{
    const model_t *model = &x->model;
    int64_t total        = 0;
    int32_t tightest     = INT32_MAX;

    for (int r = 0; r < model->n_lanes; r++) {
        int32_t n = model_free_count(model, r);

        LAW(x, pl_lanes_free_count(x->lanes, r) == n);
        total += n;
        tightest = n < tightest ? n : tightest;
    }
    LAW(x, pl_lanes_free_total(x->lanes) == total);
    LAW(x, pl_lanes_available(x->lanes) == (int64_t)tightest * model->n_lanes);
    for (pl_page_t g = 0; g < model->n_lanes * model->pages_per_lane; g++) {
        LAW(x, pl_lanes_is_free(x->lanes, g) ==
                   (model->where[g] == FREE || model->where[g] == STAGED));
        LAW(x, pl_lanes_generation(x->lanes, g) == model->generation[g]);
    }
    LAW(x, pl_lanes_check(x->lanes) == PL_OK);
}

static void run(experiment_t *x, int n_operations, int compare_every)
{
    for (x->op = 0; x->op < n_operations; x->op++) {
        uint64_t dice = below(x, 20);

        if (dice < 10) {
            try_alloc(x);
        } else if (dice < 19) {
            try_free(x);
        } else {
            try_group(x);
        }
        LAW(x, pl_lanes_state_hash(x->lanes) == pl_lanes_state_hash(x->mirror));
        if (x->op % compare_every == 0) {
            compare_all(x);
        }
    }
    compare_all(x);
}

/* One experiment: the first part looks at everything after each operation. */
static void experiment(int n_lanes, int32_t pages_per_lane, int32_t reserved,
                       uint64_t seed)
{
    pl_lanes_params_t params = {n_lanes, pages_per_lane, reserved, "property"};
    experiment_t *x          = calloc(1, sizeof(*x));

    ck_assert_ptr_nonnull(x);
    printf("lanes: C %d, %" PRId32 " pages a lane, %" PRId32
           " reserved, seed %" PRIu64 "\n",
           n_lanes, pages_per_lane, reserved, seed);
    x->seed = seed;
    x->rng  = pl_rng_seed(seed);
    model_open(&x->model, n_lanes, pages_per_lane, reserved);
    ck_assert_int_eq(pl_lanes_open(&params, NULL, &x->lanes), PL_OK);
    ck_assert_int_eq(pl_lanes_open(&params, NULL, &x->mirror), PL_OK);
    run(x, N_CLOSE, 1);
    run(x, N_FAR, 100);
    ck_assert_int_gt(x->n_refused, 100);
    ck_assert_int_gt(x->n_caught, 100);
    ck_assert_int_gt(x->n_merged, 100);
    pl_lanes_close(x->lanes);
    pl_lanes_close(x->mirror);
    free(x);
}

typedef struct shape {
    int n_lanes;
    int32_t pages_per_lane;
    int32_t reserved;
} shape_t;

/* One word and several, whole and cut words, and none or much reserved. */
static const shape_t shapes[] = {
    {1, 128, 1}, {1, 200, 0},  {2, 64, 1},  {2, 65, 1}, {2, 190, 70},
    {3, 63, 0},  {3, 130, 1},  {4, 129, 1}, {4, 33, 0}, {8, 66, 1},
    {8, 16, 0},  {127, 12, 1}, {127, 5, 0}, {127, 9, 3}};

START_TEST(allocator_mirror_and_model_agree)
{
    const shape_t *shape = &shapes[_i];
    const char *text     = getenv("PAGELANE_TEST_SEED");
    uint64_t seed        = text != NULL ? strtoull(text, NULL, 10) : 20260829;

    experiment(shape->n_lanes, shape->pages_per_lane, shape->reserved,
               seed + (uint64_t)_i);
}
END_TEST

int main(void)
{
    Suite *suite    = suite_create("property_lanes");
    TCase *tcase    = tcase_create("all");
    SRunner *runner = srunner_create(suite);
    int n_failed;

    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, allocator_mirror_and_model_agree, 0,
                        (int)(sizeof(shapes) / sizeof(*shapes)));
    srunner_run_all(runner, CK_NORMAL);
    n_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
