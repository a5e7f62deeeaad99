/* sim/knockout.h against a look at all keys. */
#include "sim/knockout.h"

#include "base/rng.h"
#include "support/check_main.h"
#include "support/seed.h"

static int32_t look_at_all(const pl_knockout_key_t *keys, int32_t n)
{
    int32_t best = 0;

    for (int32_t i = 1; i < n; i++) {
        if ((keys[i].first < keys[best].first) ||
            ((keys[i].first == keys[best].first) &&
             (keys[i].then < keys[best].then))) {
            best = i;
        }
    }
    return best;
}

/* Few keys, so that many are alike. */
static void change_many(pl_rng_t *rng, int32_t n)
{
    pl_knockout_t knockout = {0};
    pl_knockout_key_t keys[200];

    ck_assert_int_eq(pl_knockout_open(n, &knockout), PL_OK);
    ck_assert_int_eq(pl_knockout_first(&knockout), 0);
    for (int32_t i = 0; i < n; i++) {
        keys[i] = (pl_knockout_key_t){INT64_MAX, INT64_MAX};
    }
    for (int change = 0; change < 500; change++) {
        int32_t number        = (int32_t)pl_rng_below(rng, (uint64_t)n);
        pl_knockout_key_t key = {(int64_t)pl_rng_below(rng, 5) - 2,
                                 (int64_t)pl_rng_below(rng, 3)};

        if (pl_rng_below(rng, 4) == 0) {
            key.first = INT64_MAX; /* it goes on no more */
        }
        keys[number] = key;
        pl_knockout_set(&knockout, number, key);
        ck_assert_int_eq(pl_knockout_first(&knockout), look_at_all(keys, n));
        ck_assert_int_eq(pl_knockout_key(&knockout, number).first, key.first);
        ck_assert_int_eq(pl_knockout_key(&knockout, number).then, key.then);
    }
    pl_knockout_close(&knockout);
    pl_knockout_close(&knockout);
}

START_TEST(the_first_is_that_of_a_look_at_all)
{
    static const int32_t sizes[] = {1, 2, 3, 7, 8, 9, 64, 200};
    pl_rng_t rng =
        pl_rng_seed(pl_test_seed("the_first_is_that_of_a_look_at_all"));

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        change_many(&rng, sizes[i]);
    }
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("knockout");

    tcase_add_test(tcase, the_first_is_that_of_a_look_at_all);
    return tcase;
}

PL_CHECK_MAIN("knockout", all())
