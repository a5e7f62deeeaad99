#include "model/census.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "model/weights_internal.h"

enum { SCALE_BLOCK = 128 };

typedef struct counting {
    pl_census_t census;
    pl_dtype_t dtype;
} counting_t;

/* Part of the first of these that its name contains. */
static pl_part_t part_of(const char *name)
{
    static const struct {
        const char *text;
        pl_part_t part;
    } PARTS[] = {
        {".mlp.experts.", PL_PART_EXPERTS},
        {".mlp.shared_experts.", PL_PART_SHARED},
        {".self_attn.indexer.", PL_PART_INDEXER},
        {".self_attn.", PL_PART_ATTENTION},
        {"model.layers.", PL_PART_LAYER},
    };

    for (size_t i = 0; i < sizeof(PARTS) / sizeof(*PARTS); i++) {
        if (strstr(name, PARTS[i].text) != NULL) {
            return PARTS[i].part;
        }
    }
    return PL_PART_VOCABULARY;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t m = strlen(end);

    return (n >= m) && (strcmp(text + n - m, end) == 0);
}

/* Do fp8 checkpoints store it as fp8? */
static bool is_converted(const pl_tensor_place_t *place)
{
    return (place->kind == PL_TENSOR_MATRIX) &&
           !ends_with(place->name, ".mlp.gate.weight") &&
           !ends_with(place->name, ".indexer.weights_proj.weight") &&
           !ends_with(place->name, "lm_head.weight");
}

/* What looks at all heads or values, such as projections down to a latent, is
 * whole on every GPU. */
static bool is_split(pl_part_t part, const pl_tensor_place_t *place)
{
    static const char *const SPLIT[] = {".self_attn.q_b_proj.weight",
                                        ".self_attn.kv_b_proj.weight",
                                        ".self_attn.o_proj.weight",
                                        ".gate_proj.weight",
                                        ".up_proj.weight",
                                        ".down_proj.weight",
                                        ".embed_tokens.weight",
                                        "lm_head.weight"};

    for (size_t i = 0; i < sizeof(SPLIT) / sizeof(*SPLIT); i++) {
        if (ends_with(place->name, SPLIT[i])) {
            return part != PL_PART_EXPERTS;
        }
    }
    return false;
}

static int64_t blocks_of(int32_t n)
{
    return ((int64_t)n + SCALE_BLOCK - 1) / SCALE_BLOCK;
}

static void count_tensor(pl_census_t *census, pl_part_t part,
                         int64_t parameters, int64_t bytes)
{
    census->n_tensors++;
    census->parameters[part] += parameters;
    census->bytes[part] += bytes;
}

static pl_status_t count(void *context, const pl_tensor_place_t *place)
{
    counting_t *counting = context;
    pl_census_t *census  = &counting->census;
    pl_part_t part       = part_of(place->name);
    int64_t parameters   = (int64_t)place->rows * place->cols;
    int64_t before       = census->bytes[part];

    if ((counting->dtype == PL_F8_E4M3) && is_converted(place)) {
        count_tensor(census, part, parameters, parameters);
        census->bytes[part] += blocks_of(place->rows) * blocks_of(place->cols) *
                               (int64_t)sizeof(float);
        census->n_scales++;
    } else {
        count_tensor(census, part, parameters,
                     parameters *
                         (place->kind == PL_TENSOR_ROUTER_BIAS ? 4 : 2));
    }
    if (is_split(part, place)) {
        census->split_parameters[part] += parameters;
        census->split_bytes[part] += census->bytes[part] - before;
    }
    return PL_OK;
}

/* eh_proj, enorm, hnorm, shared_head.norm: bf16 in every checkpoint. */
static void count_joint(pl_census_t *census, int64_t hidden)
{
    count_tensor(census, PL_PART_MTP, 2 * hidden * hidden, 4 * hidden * hidden);
    for (int i = 0; i < 3; i++) {
        count_tensor(census, PL_PART_MTP, hidden, 2 * hidden);
    }
}

pl_status_t pl_model_census(const pl_model_config_t *config, int32_t mtp_layers,
                            pl_dtype_t dtype, pl_census_t *census_p)
{
    pl_model_config_t whole = *config;
    counting_t counting     = {.dtype = dtype};
    pl_weights_t *weights   = NULL;
    pl_status_t status;

    assert((dtype == PL_BF16) || (dtype == PL_F8_E4M3));
    assert((mtp_layers >= 0) &&
           (mtp_layers <= PL_MAX_LAYERS - config->n_layers));
    for (int32_t i = 0; i < mtp_layers; i++) {
        whole.sparse_mlp[whole.n_layers]   = true;
        whole.full_indexer[whole.n_layers] = true;
        whole.n_layers++;
        count_joint(&counting.census, whole.hidden);
    }
    PL_TRY(pl_weights_make(&whole, &weights));
    status = pl_weights_each(&whole, weights, count, &counting);
    pl_weights_close(weights);
    if (status == PL_OK) {
        *census_p = counting.census;
    }
    return status;
}

static int64_t on_gpu(int64_t all, int64_t split, int32_t tp)
{
    return all - split + (split + tp - 1) / tp;
}

int64_t pl_census_parameters(const pl_census_t *census, pl_part_t part,
                             int32_t tp)
{
    return on_gpu(census->parameters[part], census->split_parameters[part], tp);
}

int64_t pl_census_bytes(const pl_census_t *census, pl_part_t part, int32_t tp)
{
    return on_gpu(census->bytes[part], census->split_bytes[part], tp);
}
