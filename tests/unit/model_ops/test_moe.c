/* Routing against its definition, ties included; the sort of pairs. */
#include "test_model_ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/ops.h"
#include "sample_ops.h"
#include "support/seed.h"

typedef struct ranked {
    double value;
    int32_t id;
} ranked_t;

static int compare_ranked(const void *a, const void *b)
{
    const ranked_t *x = a;
    const ranked_t *y = b;

    if (x->value != y->value) {
        return x->value > y->value ? -1 : 1;
    }
    return x->id - y->id;
}

/* chosen[i]: is value i among the k largest, lower ids first? */
static void choose(const double *values, int32_t n, int32_t k, bool *chosen)
{
    ranked_t ranked[64];

    for (int32_t i = 0; i < n; i++) {
        ranked[i] = (ranked_t){values[i], i};
        chosen[i] = false;
    }
    qsort(ranked, (size_t)n, sizeof(*ranked), compare_ranked);
    for (int32_t i = 0; i < k; i++) {
        chosen[ranked[i].id] = true;
    }
}

/* Router weights are few powers of two and x one-hot: scores repeat exactly, so
 * that ties are many and a reference in double sees the same ones. */
typedef struct routing {
    pl_model_config_t *config;
    float *router, *bias, *x;
    pl_tensor_t router_tensor, bias_tensor;
} routing_t;

static routing_t routing_open(pl_rng_t *rng)
{
    static const int32_t sizes[] = {1, 2, 3, 4, 8};
    routing_t made = {.config = calloc(1, sizeof(pl_model_config_t))};
    pl_model_config_t *config = made.config;
    int32_t size              = sizes[pl_rng_below(rng, 5)];

    config->n_group    = sample_between(rng, 1, 8);
    config->n_experts  = config->n_group * size;
    config->topk_group = sample_between(rng, 1, config->n_group);
    config->experts_per_token =
        sample_between(rng, 1, config->topk_group * size);
    config->norm_topk    = pl_rng_below(rng, 2) == 0;
    config->routed_scale = 2.5F;
    config->hidden       = sample_between(rng, 1, 20);
    made.x               = calloc((size_t)config->hidden, sizeof(float));
    made.x[pl_rng_below(rng, (uint64_t)config->hidden)] = 1.0F;
    made.router =
        sample_floats(rng, (size_t)config->n_experts * (size_t)config->hidden);
    made.bias = sample_floats(rng, (size_t)config->n_experts);
    for (int32_t i = 0; i < config->n_experts * config->hidden; i++) {
        made.router[i] = (float)sample_between(rng, -1, 1);
    }
    for (int32_t i = 0; i < config->n_experts; i++) {
        made.bias[i] = (float)sample_between(rng, -1, 1) * 0.25F;
    }
    made.router_tensor = (pl_tensor_t){.dtype = PL_F32,
                                       .rows  = config->n_experts,
                                       .cols  = config->hidden,
                                       .bytes = made.router};
    made.bias_tensor   = (pl_tensor_t){.dtype = PL_F32,
                                       .rows  = 1,
                                       .cols  = config->n_experts,
                                       .bytes = made.bias};
    return made;
}

static void routing_close(routing_t *routing)
{
    free(routing->config);
    free(routing->router);
    free(routing->bias);
    free(routing->x);
}

/* Which experts, by the definition; scores without the bias. */
static void reference(const routing_t *routing, float *scores, bool *chosen)
{
    const pl_model_config_t *config = routing->config;
    int32_t size                    = config->n_experts / config->n_group;
    double choices[64], groups[8];
    bool kept[8];

    for (int32_t e = 0; e < config->n_experts; e++) {
        double logit = 0.0;

        for (int32_t c = 0; c < config->hidden; c++) {
            logit += (double)routing->router[e * config->hidden + c] *
                     (double)routing->x[c];
        }
        scores[e]  = 1.0F / (1.0F + (float)exp(-logit));
        choices[e] = (double)(scores[e] + routing->bias[e]);
    }
    for (int32_t g = 0; g < config->n_group; g++) {
        double best = -INFINITY, second = -INFINITY;

        for (int32_t i = 0; i < size; i++) {
            double value = choices[g * size + i];

            second = fmax(second, fmin(best, value));
            best   = fmax(best, value);
        }
        groups[g] = size == 1 ? best : (double)((float)best + (float)second);
    }
    choose(groups, config->n_group, config->topk_group, kept);
    for (int32_t e = 0; e < config->n_experts; e++) {
        choices[e] = kept[e / size] ? choices[e] : -INFINITY;
    }
    choose(choices, config->n_experts, config->experts_per_token, chosen);
}

START_TEST(routing_is_its_definition)
{
    uint64_t seed = pl_test_seed("routing_is_its_definition");
    pl_rng_t rng  = pl_rng_seed(seed);

    for (int round = 0; round < 2000; round++) {
        routing_t routing               = routing_open(&rng);
        const pl_model_config_t *config = routing.config;
        size_t room    = (size_t)config->hidden + 3 * (size_t)config->n_experts;
        float *scratch = malloc(room * sizeof(float));
        float scores[64], weights[65];
        int32_t experts[65];
        bool chosen[64];
        double total = 0.0;
        int32_t k    = 0;

        reference(&routing, scores, chosen);
        for (int32_t e = 0; e < config->n_experts; e++) {
            total += chosen[e] ? (double)scores[e] : 0.0;
        }
        experts[config->experts_per_token] = -7;
        pl_route(config, &routing.router_tensor, &routing.bias_tensor,
                 routing.x, scratch, experts, weights);
        ck_assert_int_eq(experts[config->experts_per_token], -7);
        for (int32_t e = 0; e < config->n_experts; e++) {
            double want =
                (double)scores[e] * 2.5 / (config->norm_topk ? total : 1.0);

            if (chosen[e]) {
                ck_assert_int_eq(experts[k], e);
                ck_assert(fabs((double)weights[k] - want) < 1e-6 * want);
                k++;
            }
        }
        ck_assert_int_eq(k, config->experts_per_token);
        free(scratch);
        routing_close(&routing);
    }
}
END_TEST

/* The bias decides who is chosen, not with what weight. */
START_TEST(bias_chooses_but_does_not_weigh)
{
    pl_model_config_t *config = calloc(1, sizeof(*config));
    float router[4]           = {0, 0, 0, 0};
    float bias[4]             = {0, 5, 0, 9};
    float x[1]                = {1};
    float scratch[13], weights[2];
    int32_t experts[2];
    pl_tensor_t r = {.dtype = PL_F32, .rows = 4, .cols = 1, .bytes = router};
    pl_tensor_t b = {.dtype = PL_F32, .rows = 1, .cols = 4, .bytes = bias};

    config->n_group = config->topk_group = 1;
    config->n_experts                    = 4;
    config->experts_per_token            = 2;
    config->hidden                       = 1;
    config->routed_scale                 = 1.0F;
    pl_route(config, &r, &b, x, scratch, experts, weights);
    ck_assert_int_eq(experts[0], 1);
    ck_assert_int_eq(experts[1], 3);
    ck_assert(weights[0] == 0.5F && weights[1] == 0.5F);
    free(config);
}
END_TEST

/* Every pair once, experts ascending, pairs of an expert in order. */
START_TEST(expert_sort_is_stable)
{
    uint64_t seed = pl_test_seed("expert_sort_is_stable");
    pl_rng_t rng  = pl_rng_seed(seed);

    for (int round = 0; round < 300; round++) {
        int32_t n_experts = sample_between(&rng, 1, 40);
        int32_t n         = sample_between(&rng, 0, 200);
        int32_t experts[200], order[201], starts[42];

        for (int32_t i = 0; i < n; i++) {
            experts[i] = sample_between(&rng, 0, n_experts - 1);
        }
        order[n]              = -7;
        starts[n_experts + 1] = -7;
        pl_expert_sort(experts, n, n_experts, order, starts);
        ck_assert_int_eq(order[n], -7);
        ck_assert_int_eq(starts[n_experts + 1], -7);
        ck_assert_int_eq(starts[0], 0);
        ck_assert_int_eq(starts[n_experts], n);
        for (int32_t e = 0; e < n_experts; e++) {
            ck_assert_int_le(starts[e], starts[e + 1]);
            for (int32_t i = starts[e]; i < starts[e + 1]; i++) {
                ck_assert_int_eq(experts[order[i]], e);
                ck_assert(i == starts[e] || order[i - 1] < order[i]);
            }
        }
    }
}
END_TEST

TCase *moe_case(void)
{
    TCase *tcase = tcase_create("moe");

    tcase_add_test(tcase, routing_is_its_definition);
    tcase_add_test(tcase, bias_chooses_but_does_not_weigh);
    tcase_add_test(tcase, expert_sort_is_stable);
    return tcase;
}
