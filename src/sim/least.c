#include "sim/least.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* What is left of a column's own square, below which it is rounding. */
#define TINY 1e-9

enum { N = PL_LEAST_COLUMNS };

typedef struct equations {
    double m[N][N + 1]; /* sums of squares; the right side last */
    int of[N];          /* which column each is */
    int n;
} equations_t;

static void set_up(const pl_least_row_t *rows, size_t n, unsigned set,
                   equations_t *e)
{
    memset(e, 0, sizeof(*e));
    for (int c = 0; c < N; c++) {
        if ((set >> c & 1U) != 0) {
            e->of[e->n++] = c;
        }
    }
    for (size_t r = 0; r < n; r++) {
        double weight = 1 / (rows[r].unit * rows[r].unit);

        for (int i = 0; i < e->n; i++) {
            double x = rows[r].columns[e->of[i]] * weight;

            for (int j = 0; j < e->n; j++) {
                e->m[i][j] += x * rows[r].columns[e->of[j]];
            }
            e->m[i][e->n] += x * rows[r].wanted;
        }
    }
}

/* False: the columns depend on each other, or a factor is negative. */
static bool solve(equations_t *e, double factors[N])
{
    double least[N];

    for (int i = 0; i < e->n; i++) {
        least[i] = e->m[i][i] * TINY;
    }
    for (int i = 0; i < e->n; i++) {
        if (!(e->m[i][i] > least[i])) {
            return false;
        }
        for (int r = 0; r < e->n; r++) {
            double by = r == i ? 0 : e->m[r][i] / e->m[i][i];

            for (int c = i; c <= e->n; c++) {
                e->m[r][c] -= by * e->m[i][c];
            }
        }
    }
    memset(factors, 0, N * sizeof(*factors));
    for (int i = 0; i < e->n; i++) {
        double factor = e->m[i][e->n] / e->m[i][i];

        if (!(factor >= 0)) {
            return false;
        }
        factors[e->of[i]] = factor;
    }
    return true;
}

static double error_of(const pl_least_row_t *rows, size_t n,
                       const double *factors)
{
    double sum = 0;

    for (size_t r = 0; r < n; r++) {
        double off = -rows[r].wanted;

        for (int c = 0; c < N; c++) {
            off += rows[r].columns[c] * factors[c];
        }
        sum += off * off / (rows[r].unit * rows[r].unit);
    }
    return sum;
}

/* The best is that of some set of columns with no limit on its factors, and
 * there are few sets. */
void pl_least_squares(const pl_least_row_t *rows, size_t n,
                      double factors[PL_LEAST_COLUMNS])
{
    double least = INFINITY;

    memset(factors, 0, N * sizeof(*factors));
    for (unsigned set = 1; set < 1U << N; set++) {
        equations_t e;
        double tried[N];
        double error;

        set_up(rows, n, set, &e);
        if (!solve(&e, tried)) {
            continue;
        }
        error = error_of(rows, n, tried);
        if (error < least) {
            least = error;
            memcpy(factors, tried, sizeof(tried));
        }
    }
}
