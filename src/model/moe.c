#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "model/ops.h"
#include "model/tensor.h"

/* Is value i before value j: larger, or equal and earlier?  NaN comes last. */
static bool comes_before(const float *values, int32_t i, int32_t j)
{
    if (isnan(values[i]) || isnan(values[j])) {
        return isnan(values[i]) == isnan(values[j]) ? i < j : !isnan(values[i]);
    }
    return values[i] > values[j] || (i < j && values[i] == values[j]);
}

/* Mark the k first of n values in that order: 1.0, the others 0.0. */
static void mark_largest(const float *values, int32_t n, int32_t k,
                         float *marks)
{
    for (int32_t i = 0; i < n; i++) {
        marks[i] = 0.0F;
    }
    for (int32_t taken = 0; taken < k && taken < n; taken++) {
        int32_t best = -1;

        for (int32_t i = 0; i < n; i++) {
            if (marks[i] == 0.0F &&
                (best < 0 || comes_before(values, i, best))) {
                best = i;
            }
        }
        marks[best] = 1.0F;
    }
}

/* What a group is worth: the sum of its two best choices. */
static float group_score(const float *choices, int32_t n)
{
    float first = -INFINITY, second = -INFINITY;

    for (int32_t i = 0; i < n; i++) {
        if (choices[i] > first) {
            second = first;
            first  = choices[i];
        } else if (choices[i] > second) {
            second = choices[i];
        }
    }
    return n == 1 ? first : first + second;
}

/* Experts outside of the best groups: -inf.  scores: n_group floats. */
static void limit_groups(const pl_model_config_t *config, float *choices,
                         float *scores)
{
    const int32_t size = config->n_experts / config->n_group;

    for (int32_t g = 0; g < config->n_group; g++) {
        scores[g] = group_score(choices + (ptrdiff_t)g * size, size);
    }
    for (int32_t g = 0; g < config->n_group; g++) {
        int32_t better = 0;

        for (int32_t other = 0; other < config->n_group; other++) {
            better += other != g && comes_before(scores, other, g) ? 1 : 0;
        }
        for (int32_t i = 0; better >= config->topk_group && i < size; i++) {
            choices[g * size + i] = -INFINITY;
        }
    }
}

void pl_route(const pl_model_config_t *config, const pl_tensor_t *router,
              const pl_tensor_t *bias, const float *x, float *scratch,
              int32_t *experts, float *weights)
{
    const int32_t n = config->n_experts;
    float *scores   = scratch + config->hidden; /* without the bias */
    float *choices  = scores + n;               /* with it */
    float *marks    = choices + n;
    float total     = 0.0F;
    int32_t k       = 0;

    pl_linear(router, 0, n, x, 1, config->hidden, scratch, scores, n);
    pl_tensor_part(bias, 0, 0, n, choices);
    for (int32_t i = 0; i < n; i++) {
        scores[i] = 1.0F / (1.0F + (float)exp(-(double)scores[i]));
        choices[i] += scores[i];
    }
    if (config->n_group > 1) {
        /* the row's place in scratch is free again; groups are experts at most
         */
        limit_groups(config, choices, marks);
    }
    mark_largest(choices, n, config->experts_per_token, marks);
    for (int32_t i = 0; i < n && k < config->experts_per_token; i++) {
        if (marks[i] != 0.0F) {
            experts[k]   = i;
            weights[k++] = scores[i];
            total += scores[i];
        }
    }
    for (int32_t j = 0; j < k; j++) {
        if (config->norm_topk) {
            weights[j] /= total + 1e-20F;
        }
        weights[j] *= config->routed_scale;
    }
}

void pl_expert_sort(const int32_t *experts, int32_t n_pairs, int32_t n_experts,
                    int32_t *order, int32_t *starts)
{
    memset(starts, 0, (size_t)(n_experts + 1) * sizeof(*starts));
    for (int32_t i = 0; i < n_pairs; i++) {
        starts[experts[i] + 1]++;
    }
    for (int32_t e = 0; e < n_experts; e++) {
        starts[e + 1] += starts[e];
    }
    for (int32_t i = 0; i < n_pairs; i++) {
        order[starts[experts[i]]++] = i;
    }
    /* each start has moved to its end, the next one's start */
    memmove(starts + 1, starts, (size_t)n_experts * sizeof(*starts));
    starts[0] = 0;
}
