#include "plain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct plain {
    const pl_model_config_t *c;
    const pl_layer_weights_t *w; /* of this layer */
    int32_t layer, n;
    double *h;           /* [n][hidden] */
    double *x;           /* [n][hidden] */
    double *resid;       /* [n][q_lora] */
    unsigned char *keep; /* [n][n]: query, key */
} plain_t;

static double *make(int64_t n)
{
    double *values = calloc((size_t)n + 1, sizeof(*values));

    if (values == NULL) {
        abort();
    }
    return values;
}

/* y[i] = w x[i]; the caller frees y. */
static double *times(const pl_tensor_t *w, const double *x, int32_t n)
{
    double *y  = make((int64_t)n * w->rows);
    float *row = calloc((size_t)w->cols, sizeof(*row));

    for (int32_t r = 0; r < w->rows; r++) {
        pl_tensor_row(w, r, row);
        for (int32_t i = 0; i < n; i++) {
            double sum = 0.0;

            for (int32_t c = 0; c < w->cols; c++) {
                sum += (double)row[c] * x[(int64_t)i * w->cols + c];
            }
            y[(int64_t)i * w->rows + r] = sum;
        }
    }
    free(row);
    return y;
}

static void rms(const pl_tensor_t *w, double eps, const double *x, double *y)
{
    float *weights = calloc((size_t)w->cols, sizeof(*weights));
    double sum     = 0.0;

    pl_tensor_row(w, 0, weights);
    for (int32_t c = 0; c < w->cols; c++) {
        sum += x[c] * x[c];
    }
    for (int32_t c = 0; c < w->cols; c++) {
        y[c] = (double)weights[c] * x[c] / sqrt(sum / w->cols + eps);
    }
    free(weights);
}

static void layer_norm(const pl_tensor_t *w, const pl_tensor_t *b, double *x)
{
    float *weights = calloc((size_t)w->cols, sizeof(*weights));
    float *bias    = calloc((size_t)w->cols, sizeof(*bias));
    double mean = 0.0, variance = 0.0;

    pl_tensor_row(w, 0, weights);
    pl_tensor_row(b, 0, bias);
    for (int32_t c = 0; c < w->cols; c++) {
        mean += x[c] / w->cols;
    }
    for (int32_t c = 0; c < w->cols; c++) {
        variance += (x[c] - mean) * (x[c] - mean) / w->cols;
    }
    for (int32_t c = 0; c < w->cols; c++) {
        x[c] = (x[c] - mean) / sqrt(variance + 1e-6) * (double)weights[c] +
               (double)bias[c];
    }
    free(weights);
    free(bias);
}

/* ---- rotation ---- */

static double corrected(const pl_rope_t *rope, double turns, int32_t dim)
{
    return dim * log(rope->original_positions / (turns * 2.0 * acos(-1.0))) /
           (2.0 * log(rope->theta));
}

static double frequency(const pl_rope_t *rope, int32_t i, int32_t dim)
{
    double plain = pow(rope->theta, -2.0 * i / dim);
    double low, high, part;

    if (!rope->yarn) {
        return plain;
    }
    low  = fmax(floor(corrected(rope, rope->beta_fast, dim)), 0.0);
    high = fmin(ceil(corrected(rope, rope->beta_slow, dim)), dim - 1.0);
    high += low == high ? 0.001 : 0.0;
    part = fmin(fmax((i - low) / (high - low), 0.0), 1.0);
    return plain / rope->factor * part + plain * (1.0 - part);
}

/* Pairs (2i, 2i+1), or (i, i + dim/2). */
static void rotate(const plain_t *p, double *x, int32_t position, bool pairs)
{
    int32_t dim = p->c->rope;

    for (int32_t i = 0; i < dim / 2; i++) {
        double angle    = position * frequency(&p->c->rope_params, i, dim);
        double *a       = pairs ? &x[2 * i] : &x[i];
        double *b       = pairs ? &x[2 * i + 1] : &x[i + dim / 2];
        double turned_a = *a * cos(angle) - *b * sin(angle);
        double turned_b = *b * cos(angle) + *a * sin(angle);

        *a = turned_a;
        *b = turned_b;
    }
}

/* ---- selection ---- */

/* Mark the k best of scores[0 .. n-1], the lowest index among equals. */
static void mark_best(const double *scores, int32_t n, int32_t k,
                      unsigned char *marks)
{
    memset(marks, 0, (size_t)n);
    for (int32_t taken = 0; (taken < k) && (taken < n); taken++) {
        int32_t best = -1;

        for (int32_t s = 0; s < n; s++) {
            if (!marks[s] && ((best < 0) || (scores[s] > scores[best]))) {
                best = s;
            }
        }
        if (best >= 0) {
            marks[best] = 1;
        }
    }
}

static void select_keys(plain_t *p)
{
    const pl_model_config_t *c = p->c;
    bool pairs                 = c->family == PL_FAMILY_GLM_MOE_DSA;
    double *q                  = times(&p->w->index_q_b, p->resid, p->n);
    double *k                  = times(&p->w->index_k, p->x, p->n);
    double *heads              = times(&p->w->index_weights, p->x, p->n);
    double *scores             = make(p->n);

    for (int32_t t = 0; t < p->n; t++) {
        double *qt = q + (int64_t)t * c->index_heads * c->index_dim;

        layer_norm(&p->w->index_k_norm, &p->w->index_k_norm_bias,
                   k + (int64_t)t * c->index_dim);
        rotate(p, k + (int64_t)t * c->index_dim, t, pairs);
        for (int32_t h = 0; h < c->index_heads; h++) {
            rotate(p, qt + (int64_t)h * c->index_dim, t, pairs);
        }
        for (int32_t s = 0; s <= t; s++) {
            scores[s] = 0.0;
            for (int32_t h = 0; h < c->index_heads; h++) {
                double dot = 0.0;

                for (int32_t d = 0; d < c->index_dim; d++) {
                    dot += qt[(int64_t)h * c->index_dim + d] *
                           k[(int64_t)s * c->index_dim + d];
                }
                scores[s] += heads[(int64_t)t * c->index_heads + h] /
                             sqrt((double)c->index_heads) *
                             fmax(dot / sqrt((double)c->index_dim), 0.0);
            }
        }
        mark_best(scores, t + 1, c->index_topk, p->keep + (int64_t)t * p->n);
    }
    free(q);
    free(k);
    free(heads);
    free(scores);
}

/* ---- attention ---- */

/* One head of one query over the kept keys; kv [n][heads][nope + v_dim], rope
 * keys in kv_a.  out [v_dim]. */
static void attend(const plain_t *p, int32_t t, int32_t head, const double *q,
                   const double *kv, const double *kv_a, double *out)
{
    const pl_model_config_t *c = p->c;
    int32_t each               = c->nope + c->v_dim;
    double *logits             = make(t + 1);
    double most = -INFINITY, sum = 0.0;

    for (int32_t s = 0; s <= t; s++) {
        const double *key = kv + ((int64_t)s * c->n_heads + head) * each;
        const double *rope =
            kv_a + (int64_t)s * (c->kv_lora + c->rope) + c->kv_lora;

        for (int32_t d = 0; d < c->nope; d++) {
            logits[s] += q[d] * key[d];
        }
        for (int32_t d = 0; d < c->rope; d++) {
            logits[s] += q[c->nope + d] * rope[d];
        }
        logits[s] = p->keep[(int64_t)t * p->n + s]
                        ? logits[s] * (double)c->softmax_scale
                        : -INFINITY;
        most      = fmax(most, logits[s]);
    }
    for (int32_t s = 0; s <= t; s++) {
        sum += exp(logits[s] - most);
    }
    for (int32_t s = 0; s <= t; s++) {
        const double *value =
            kv + ((int64_t)s * c->n_heads + head) * each + c->nope;

        for (int32_t d = 0; d < c->v_dim; d++) {
            out[d] += exp(logits[s] - most) / sum * value[d];
        }
    }
    free(logits);
}

static void add_attention(plain_t *p, double *kv_a)
{
    const pl_model_config_t *c = p->c;
    double *q                  = times(&p->w->q_b, p->resid, p->n);
    double *latent             = make((int64_t)p->n * c->kv_lora);
    double *values             = make((int64_t)p->n * c->n_heads * c->v_dim);
    double *kv, *out;

    for (int32_t t = 0; t < p->n; t++) {
        double *at = kv_a + (int64_t)t * (c->kv_lora + c->rope);

        rms(&p->w->kv_a_norm, 1e-6, at, latent + (int64_t)t * c->kv_lora);
        rotate(p, at + c->kv_lora, t, true);
    }
    kv = times(&p->w->kv_b, latent, p->n);
    for (int32_t t = 0; t < p->n; t++) {
        for (int32_t head = 0; head < c->n_heads; head++) {
            double *one =
                q + ((int64_t)t * c->n_heads + head) * (c->nope + c->rope);

            rotate(p, one + c->nope, t, true);
            attend(p, t, head, one, kv, kv_a,
                   values + ((int64_t)t * c->n_heads + head) * c->v_dim);
        }
    }
    out = times(&p->w->o, values, p->n);
    for (int64_t i = 0; i < (int64_t)p->n * c->hidden; i++) {
        p->h[i] += out[i];
    }
    free(q);
    free(latent);
    free(values);
    free(kv);
    free(out);
}

/* ---- experts ---- */

/* y += scale * MLP(x), one token. */
static void add_mlp(const pl_mlp_weights_t *mlp, const double *x, double scale,
                    double *y)
{
    double *gate = times(&mlp->gate, x, 1);
    double *up   = times(&mlp->up, x, 1);
    double *out;

    for (int32_t i = 0; i < mlp->gate.rows; i++) {
        up[i] *= gate[i] / (1.0 + exp(-gate[i]));
    }
    out = times(&mlp->down, up, 1);
    for (int32_t i = 0; i < mlp->down.rows; i++) {
        y[i] += scale * out[i];
    }
    free(gate);
    free(up);
    free(out);
}

/* Experts outside of the best groups are out. */
static void limit(const pl_model_config_t *c, double *choice)
{
    int32_t size         = c->n_experts / c->n_group;
    double *sums         = make(c->n_group);
    unsigned char *marks = calloc((size_t)c->n_group, 1);

    for (int32_t g = 0; g < c->n_group; g++) {
        double first = -INFINITY, second = -INFINITY;

        for (int32_t i = g * size; i < (g + 1) * size; i++) {
            second = fmax(second, fmin(first, choice[i]));
            first  = fmax(first, choice[i]);
        }
        sums[g] = first + second;
    }
    mark_best(sums, c->n_group, c->topk_group, marks);
    for (int32_t i = 0; i < c->n_experts; i++) {
        choice[i] = marks[i / size] ? choice[i] : -INFINITY;
    }
    free(sums);
    free(marks);
}

static void add_experts(const plain_t *p, const double *x, double *y)
{
    const pl_model_config_t *c = p->c;
    double *scores             = times(&p->w->router, x, 1);
    double *choice             = make(c->n_experts);
    float *bias                = calloc((size_t)c->n_experts, sizeof(*bias));
    unsigned char *marks       = calloc((size_t)c->n_experts, 1);
    double total               = 0.0;

    pl_tensor_row(&p->w->router_bias, 0, bias);
    for (int32_t e = 0; e < c->n_experts; e++) {
        scores[e] = 1.0 / (1.0 + exp(-scores[e]));
        choice[e] = scores[e] + (double)bias[e];
    }
    limit(c, choice);
    mark_best(choice, c->n_experts, c->experts_per_token, marks);
    for (int32_t e = 0; e < c->n_experts; e++) {
        total += marks[e] ? scores[e] : 0.0;
    }
    for (int32_t e = 0; e < c->n_experts; e++) {
        if (marks[e]) {
            add_mlp(&p->w->experts[e], x,
                    (c->norm_topk ? scores[e] / total : scores[e]) *
                        (double)c->routed_scale,
                    y);
        }
    }
    if (c->n_shared > 0) {
        add_mlp(&p->w->shared, x, 1.0, y);
    }
    free(scores);
    free(choice);
    free(bias);
    free(marks);
}

/* ---- layers ---- */

static void add_layer(plain_t *p)
{
    const pl_model_config_t *c = p->c;
    double *kv_a;

    for (int32_t t = 0; t < p->n; t++) {
        rms(&p->w->input_norm, (double)c->norm_eps,
            p->h + (int64_t)t * c->hidden, p->x + (int64_t)t * c->hidden);
    }
    p->resid = times(&p->w->q_a, p->x, p->n);
    for (int32_t t = 0; t < p->n; t++) {
        double *at = p->resid + (int64_t)t * c->q_lora;

        rms(&p->w->q_a_norm, 1e-6, at, at);
    }
    if (c->full_indexer[p->layer]) {
        select_keys(p);
    }
    kv_a = times(&p->w->kv_a, p->x, p->n);
    add_attention(p, kv_a);
    for (int32_t t = 0; t < p->n; t++) {
        double *h = p->h + (int64_t)t * c->hidden;
        double *x = p->x + (int64_t)t * c->hidden;

        rms(&p->w->post_norm, (double)c->norm_eps, h, x);
        if (c->sparse_mlp[p->layer]) {
            add_experts(p, x, h);
        } else {
            add_mlp(&p->w->dense, x, 1.0, h);
        }
    }
    free(kv_a);
    free(p->resid);
}

double *plain_logits(const pl_model_config_t *config,
                     const pl_weights_t *weights, const int32_t *tokens,
                     int32_t n)
{
    plain_t p  = {.c    = config,
                  .n    = n,
                  .h    = make((int64_t)n * config->hidden),
                  .x    = make((int64_t)n * config->hidden),
                  .keep = calloc((size_t)n * (size_t)n, 1)};
    float *row = calloc((size_t)config->hidden, sizeof(*row));
    double *logits;

    for (int32_t t = 0; t < n; t++) {
        pl_tensor_row(&weights->embed, tokens[t], row);
        for (int32_t c = 0; c < config->hidden; c++) {
            p.h[(int64_t)t * config->hidden + c] = (double)row[c];
        }
    }
    for (int32_t layer = 0; layer < config->n_layers; layer++) {
        p.layer = layer;
        p.w     = &weights->layers[layer];
        add_layer(&p);
    }
    for (int32_t t = 0; t < n; t++) {
        double *h = p.h + (int64_t)t * config->hidden;

        rms(&weights->norm, (double)config->norm_eps, h, h);
    }
    logits = times(&weights->head, p.h, n);
    free(row);
    free(p.h);
    free(p.x);
    free(p.keep);
    return logits;
}
