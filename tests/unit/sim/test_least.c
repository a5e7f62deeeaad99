/* sim/least.h: factors that rows were made of come back; none is negative; and
 * no other factors that are not are nearer. */
#include "sim/least.h"

#include <stdlib.h>

#include "base/rng.h"
#include "support/check_main.h"

enum { ROWS = 12, TRIES = 300, C = PL_LEAST_COLUMNS };

static double unit(pl_rng_t *rng)
{
    return (double)pl_rng_below(rng, 1000001) / 1e6;
}

static double error_of(const pl_least_row_t *rows, const double *factors)
{
    double sum = 0;

    for (int r = 0; r < ROWS; r++) {
        double off = -rows[r].wanted;

        for (int c = 0; c < C; c++) {
            off += rows[r].columns[c] * factors[c];
        }
        sum += off * off / (rows[r].unit * rows[r].unit);
    }
    return sum;
}

/* wanted: by `factors`, and so much off. */
static void make(pl_rng_t *rng, const double *factors, double off,
                 pl_least_row_t *rows)
{
    for (int r = 0; r < ROWS; r++) {
        rows[r] = (pl_least_row_t){.unit = 0.5 + unit(rng)};
        for (int c = 0; c < C; c++) {
            rows[r].columns[c] = unit(rng);
            rows[r].wanted += rows[r].columns[c] * factors[c];
        }
        rows[r].wanted += off * (unit(rng) - 0.5);
    }
}

START_TEST(factors_come_back)
{
    pl_rng_t rng = pl_rng_seed(11);

    for (int i = 0; i < TRIES; i++) {
        pl_least_row_t rows[ROWS];
        double factors[C], found[C];

        for (int c = 0; c < C; c++) {
            factors[c] = pl_rng_below(&rng, 3) == 0 ? 0 : 5 * unit(&rng);
        }
        make(&rng, factors, 0, rows);
        pl_least_squares(rows, ROWS, found);
        for (int c = 0; c < C; c++) {
            ck_assert_double_eq_tol(found[c], factors[c], 1e-6);
        }
    }
}
END_TEST

START_TEST(nothing_is_nearer)
{
    pl_rng_t rng = pl_rng_seed(12);

    for (int i = 0; i < TRIES; i++) {
        pl_least_row_t rows[ROWS];
        double factors[C], found[C], other[C];

        for (int c = 0; c < C; c++) {
            factors[c] = 2 * unit(&rng) - 1; /* some cannot be had */
        }
        make(&rng, factors, 1, rows);
        pl_least_squares(rows, ROWS, found);
        for (int k = 0; k < 100; k++) {
            for (int c = 0; c < C; c++) {
                double moved = found[c] + 0.1 * (unit(&rng) - 0.5);

                ck_assert_double_ge(found[c], 0);
                other[c] = moved > 0 ? moved : 0;
            }
            ck_assert_double_ge(error_of(rows, other),
                                error_of(rows, found) - 1e-12);
        }
    }
}
END_TEST

/* Columns of nothing, or twice the same: all is made up by what is left. */
START_TEST(what_depends_is_left_out)
{
    static const pl_least_row_t ROWS_2[] = {
        {.columns = {1, 0, 2}, .wanted = 6, .unit = 6},
        {.columns = {2, 0, 4}, .wanted = 12, .unit = 12}};
    double found[C];

    pl_least_squares(ROWS_2, 2, found);
    ck_assert_double_eq_tol(found[0] + 2 * found[2], 6, 1e-9);
    ck_assert(found[1] == 0 && found[3] == 0 && found[4] == 0);
}
END_TEST

static TCase *all(void)
{
    TCase *tcase = tcase_create("least");

    tcase_add_test(tcase, factors_come_back);
    tcase_add_test(tcase, nothing_is_nearer);
    tcase_add_test(tcase, what_depends_is_left_out);
    return tcase;
}

PL_CHECK_MAIN("least", all())
