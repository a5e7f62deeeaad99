#include "model/config.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "model/config_fields.h"

/* Of one size; keeps products of two within 64 bits. */
#define MAX_SIZE    (1 << 24)
#define MAX_EXPERTS (1 << 16)

static const struct {
    const char *type, *architecture;
    pl_family_t family;
    double norm_eps; /* Hugging Face's defaults: */
    int32_t n_group, topk_group;
} FAMILIES[] = {
    {"deepseek_v32", "DeepseekV32ForCausalLM", PL_FAMILY_DEEPSEEK_V32, 1e-6, 8,
     4},
    {"glm_moe_dsa", "GlmMoeDsaForCausalLM", PL_FAMILY_GLM_MOE_DSA, 1e-5, 1, 1},
};

#define N_FAMILIES (sizeof(FAMILIES) / sizeof(*FAMILIES))

static const struct {
    const char *field;
    size_t at;
    int32_t least, most;
    bool optional;
} SIZES[] = {
#define AT(member) offsetof(pl_model_config_t, member)
    {"vocab_size", AT(vocab_size), 1, MAX_SIZE, false},
    {"hidden_size", AT(hidden), 1, MAX_SIZE, false},
    {"intermediate_size", AT(dense_width), 1, MAX_SIZE, false},
    {"moe_intermediate_size", AT(expert_width), 1, MAX_SIZE, false},
    {"num_hidden_layers", AT(n_layers), 1, PL_MAX_LAYERS, false},
    {"num_attention_heads", AT(n_heads), 1, MAX_SIZE, false},
    {"q_lora_rank", AT(q_lora), 1, MAX_SIZE, false},
    {"kv_lora_rank", AT(kv_lora), 1, MAX_SIZE, false},
    {"qk_nope_head_dim", AT(nope), 1, MAX_SIZE, false},
    {"qk_rope_head_dim", AT(rope), 2, MAX_SIZE, false},
    {"v_head_dim", AT(v_dim), 1, MAX_SIZE, false},
    {"index_n_heads", AT(index_heads), 1, MAX_SIZE, false},
    {"index_head_dim", AT(index_dim), 2, MAX_SIZE, false},
    {"index_topk", AT(index_topk), 1, INT32_MAX, false},
    {"n_shared_experts", AT(n_shared), 0, MAX_SIZE, false},
    {"num_experts_per_tok", AT(experts_per_token), 1, MAX_SIZE, false},
    {"n_group", AT(n_group), 1, MAX_SIZE, true},
    {"topk_group", AT(topk_group), 1, MAX_SIZE, true},
    {"max_position_embeddings", AT(max_positions), 1, INT32_MAX, false},
#undef AT
};

#define N_SIZES (sizeof(SIZES) / sizeof(*SIZES))

/* Is it this string, or a list of it alone? */
static bool says(struct json_object *value, const char *name)
{
    size_t n;

    if (!json_object_is_type(value, json_type_array)) {
        return pl_json_is(value, name);
    }
    n = json_object_array_length(value);
    for (size_t i = 0; i < n; i++) {
        if (!pl_json_is(json_object_array_get_idx(value, i), name)) {
            return false;
        }
    }
    return n > 0;
}

static pl_status_t read_family(const pl_fields_t *fields,
                               pl_model_config_t *config)
{
    struct json_object *type          = pl_fields_find(fields, "model_type");
    struct json_object *architectures = pl_fields_find(fields, "architectures");

    for (size_t i = 0; i < N_FAMILIES; i++) {
        bool has_type         = (type == NULL) || says(type, FAMILIES[i].type);
        bool has_architecture = (architectures == NULL) ||
                                says(architectures, FAMILIES[i].architecture);

        if ((type != NULL || architectures != NULL) && has_type &&
            has_architecture) {
            config->family     = FAMILIES[i].family;
            config->norm_eps   = (float)FAMILIES[i].norm_eps;
            config->n_group    = FAMILIES[i].n_group;
            config->topk_group = FAMILIES[i].topk_group;
            return PL_OK;
        }
        if ((type != NULL) && has_type) {
            return pl_fields_bad(fields, "architectures",
                                 "[\"%s\"] with \"model_type\" \"%s\"",
                                 FAMILIES[i].architecture, FAMILIES[i].type);
        }
    }
    return pl_fields_bad(fields, type != NULL ? "model_type" : "architectures",
                         "%s (\"%s\") or %s (\"%s\"); other models are not "
                         "supported",
                         FAMILIES[0].type, FAMILIES[0].architecture,
                         FAMILIES[1].type, FAMILIES[1].architecture);
}

/* n_routed_experts by any of its names; all of them must agree. */
static pl_status_t read_experts(const pl_fields_t *fields,
                                pl_model_config_t *config)
{
    static const char *const NAMES[] = {"n_routed_experts", "num_experts",
                                        "num_local_experts"};
    const char *found                = NULL;

    for (size_t i = 0; i < 3; i++) {
        int32_t n = config->n_experts;

        if (pl_fields_find(fields, NAMES[i]) == NULL) {
            continue;
        }
        PL_TRY(pl_fields_count(fields, NAMES[i], 2, MAX_EXPERTS, false, &n));
        if ((found != NULL) && (n != config->n_experts)) {
            return pl_fields_bad(fields, NAMES[i],
                                 "%d as \"%s\" says; remove the wrong one",
                                 (int)config->n_experts, found);
        }
        found             = NAMES[i];
        config->n_experts = n;
    }
    if (found == NULL) {
        return pl_fields_bad(fields, NAMES[0], "a whole number from 2 to %d",
                             MAX_EXPERTS);
    }
    return PL_OK;
}

static pl_status_t read_sizes(const pl_fields_t *fields,
                              pl_model_config_t *config)
{
    for (size_t i = 0; i < N_SIZES; i++) {
        int32_t *size_p = (int32_t *)((char *)config + SIZES[i].at);

        PL_TRY(pl_fields_count(fields, SIZES[i].field, SIZES[i].least,
                               SIZES[i].most, SIZES[i].optional, size_p));
    }
    return read_experts(fields, config);
}

static pl_status_t check_routing(const pl_fields_t *fields,
                                 const pl_model_config_t *config)
{
    int32_t group = config->n_experts / config->n_group;

    if (config->n_experts % config->n_group != 0) {
        return pl_fields_bad(fields, "n_group",
                             "a divisor of %d, the number of experts",
                             (int)config->n_experts);
    }
    if (group < 2) {
        return pl_fields_bad(fields, "n_group",
                             "at most %d: a group of experts is judged by its "
                             "best two",
                             (int)config->n_experts / 2);
    }
    if (config->topk_group > config->n_group) {
        return pl_fields_bad(fields, "topk_group", "at most n_group, %d",
                             (int)config->n_group);
    }
    if (config->experts_per_token > config->topk_group * group) {
        return pl_fields_bad(fields, "num_experts_per_tok",
                             "at most %d, the experts in topk_group groups",
                             (int)(config->topk_group * group));
    }
    return PL_OK;
}

/* A thousand times what the largest models have; what is reckoned of as many
 * stays within 64 bits. */
#define MOST_PARAMETERS 1e15

static pl_status_t check_total(const pl_fields_t *fields,
                               const pl_model_config_t *c)
{
    double heads  = c->n_heads;
    double hidden = c->hidden;
    double up     = c->q_lora * (heads * (c->nope + (double)c->rope) +
                             (double)c->index_heads * c->index_dim) +
                c->kv_lora * heads * (c->nope + (double)c->v_dim);
    double experts = (double)c->n_experts + c->n_shared;
    double width   = 3.0 * c->dense_width + 3.0 * experts * c->expert_width +
                   heads * c->v_dim + c->q_lora + c->kv_lora + c->rope +
                   c->index_heads + c->index_dim + c->n_experts;
    double total = c->n_layers * (up + hidden * width) +
                   2 * hidden * (double)c->vocab_size;

    if (total > MOST_PARAMETERS) {
        return pl_model_bad(fields->log, fields->path,
                            "its sizes are those of %.0e parameters: expected "
                            "%.0e at most; correct the one that is too large",
                            total, MOST_PARAMETERS);
    }
    return PL_OK;
}

static pl_status_t check_sizes(const pl_fields_t *fields,
                               const pl_model_config_t *config)
{
    const struct {
        const char *field; /* of the tensor's rows */
        int64_t a, b;
    } products[] = {
        {"num_attention_heads", config->n_heads, config->nope + config->rope},
        {"num_attention_heads", config->n_heads, config->nope + config->v_dim},
        {"index_n_heads", config->index_heads, config->index_dim},
        {"n_shared_experts", config->n_shared, config->expert_width},
    };

    for (size_t i = 0; i < sizeof(products) / sizeof(*products); i++) {
        if (products[i].a * products[i].b > INT32_MAX) {
            return pl_fields_bad(fields, products[i].field,
                                 "at most %lld with the width of each",
                                 (long long)(INT32_MAX / products[i].b));
        }
    }
    if (config->rope % 2 != 0) {
        return pl_fields_bad(fields, "qk_rope_head_dim",
                             "an even number: pairs are rotated");
    }
    if (config->index_dim < config->rope) {
        return pl_fields_bad(fields, "index_head_dim",
                             "at least qk_rope_head_dim, %d: that many of its "
                             "values are rotated",
                             (int)config->rope);
    }
    return check_routing(fields, config);
}

/* What the forward pass takes for granted. */
static pl_status_t check_options(const pl_fields_t *fields,
                                 const pl_model_config_t *config)
{
    int32_t kv_heads = config->n_heads;

    PL_TRY(pl_fields_only(fields, "hidden_act", "silu"));
    PL_TRY(pl_fields_only(fields, "scoring_func", "sigmoid"));
    PL_TRY(pl_fields_only(fields, "topk_method", "noaux_tc"));
    PL_TRY(pl_fields_only_flag(fields, "attention_bias", false));
    PL_TRY(pl_fields_only_flag(fields, "mlp_bias", false));
    PL_TRY(pl_fields_count(fields, "num_key_value_heads", 1, MAX_SIZE, true,
                           &kv_heads));
    if (kv_heads != config->n_heads) {
        return pl_fields_bad(fields, "num_key_value_heads",
                             "%d, as \"num_attention_heads\": the latent "
                             "serves all heads",
                             (int)config->n_heads);
    }
    return PL_OK;
}

/* Which weights may be quantised, and how, beside what the tensors say. */
static pl_status_t check_quantization(const pl_fields_t *config)
{
    struct json_object *object = pl_fields_find(config, "quantization_config");
    pl_fields_t fields         = {.path   = config->path,
                                  .within = "quantization_config.",
                                  .log    = config->log,
                                  .object = object};
    struct json_object *block;

    if (object == NULL) {
        return PL_OK;
    }
    if (!json_object_is_type(object, json_type_object)) {
        return pl_fields_bad(config, "quantization_config", "an object");
    }
    if (pl_fields_find(&fields, "quant_method") == NULL) {
        return pl_fields_bad(&fields, "quant_method", "\"fp8\"");
    }
    PL_TRY(pl_fields_only(&fields, "quant_method", "fp8"));
    PL_TRY(pl_fields_only(&fields, "fmt", "e4m3"));
    block = pl_fields_find(&fields, "weight_block_size");
    if (!json_object_is_type(block, json_type_array) ||
        (json_object_array_length(block) != 2) ||
        (json_object_get_int64(json_object_array_get_idx(block, 0)) != 128) ||
        (json_object_get_int64(json_object_array_get_idx(block, 1)) != 128)) {
        return pl_fields_bad(&fields, "weight_block_size",
                             "[128, 128], nothing else is supported; use "
                             "another checkpoint");
    }
    return PL_OK;
}

static pl_status_t read_numbers(const pl_fields_t *fields,
                                pl_model_config_t *config)
{
    double scale = 2.5; /* Hugging Face's defaults */
    double eps   = config->norm_eps;
    double factor;

    config->norm_topk = true;
    PL_TRY(pl_fields_flag(fields, "norm_topk_prob", &config->norm_topk));
    PL_TRY(pl_fields_flag(fields, "tie_word_embeddings", &config->tied));
    PL_TRY(pl_fields_number(fields, "routed_scaling_factor", 0, true, &scale));
    PL_TRY(pl_fields_number(fields, "rms_norm_eps", 0, true, &eps));
    PL_TRY(pl_config_read_rope(fields, &config->rope_params));
    config->routed_scale    = (float)scale;
    config->norm_eps        = (float)eps;
    config->latent_norm_eps = 1e-6F;

    factor = 1 / sqrt((double)config->nope + config->rope);
    if (config->rope_params.yarn && (config->rope_params.mscale_all_dim > 0) &&
        (config->rope_params.factor > 1)) {
        double mscale = 0.1 * config->rope_params.mscale_all_dim *
                            log(config->rope_params.factor) +
                        1;

        factor *= mscale * mscale;
    }
    config->softmax_scale = (float)factor;
    return PL_OK;
}

static pl_status_t add_eos(const pl_fields_t *fields, struct json_object *value,
                           pl_model_config_t *config)
{
    int64_t id = json_object_get_int64(value);

    if (!json_object_is_type(value, json_type_int)) {
        return pl_fields_bad(fields, "eos_token_id",
                             "a token or a list of tokens");
    }
    if ((id < 0) || (id >= config->vocab_size)) {
        pl_log(fields->log, PL_LOG_WARN,
               "%s: \"eos_token_id\" %lld is passed over: expected a token "
               "below vocab_size, %d",
               fields->path, (long long)id, (int)config->vocab_size);
        return PL_OK;
    }
    if (config->n_eos == PL_MAX_EOS) {
        return pl_fields_bad(fields, "eos_token_id", "at most %d tokens",
                             PL_MAX_EOS);
    }
    config->eos[config->n_eos++] = (int32_t)id;
    return PL_OK;
}

/* *found_p: the field is there. */
static pl_status_t read_eos(const pl_fields_t *fields,
                            pl_model_config_t *config, bool *found_p)
{
    struct json_object *value = pl_fields_find(fields, "eos_token_id");

    *found_p = value != NULL;
    if (value == NULL) {
        return PL_OK;
    }
    if (!json_object_is_type(value, json_type_array)) {
        return add_eos(fields, value, config);
    }
    for (size_t i = 0; i < json_object_array_length(value); i++) {
        PL_TRY(add_eos(fields, json_object_array_get_idx(value, i), config));
    }
    return PL_OK;
}

/* From the file beside it, where there is one that names some. */
static pl_status_t read_generation(const char *config_path, const pl_log_t *log,
                                   pl_model_config_t *config, bool *found_p)
{
    char *path         = NULL;
    pl_fields_t fields = {.within = "", .log = log};
    pl_status_t status;

    *found_p = false;
    PL_TRY(pl_model_path(config_path, "generation_config.json", &path));
    if ((access(path, F_OK) != 0) && (errno == ENOENT)) {
        free(path);
        return PL_OK;
    }
    fields.path = path;
    status      = pl_json_read(path, log, &fields.object);
    if (status == PL_OK) {
        status = read_eos(&fields, config, found_p);
    }
    json_object_put(fields.object);
    free(path);
    return status;
}

/* All but the end-of-sequence ids. */
static pl_status_t read_config(const pl_fields_t *fields,
                               pl_model_config_t *config)
{
    PL_TRY(read_family(fields, config));
    PL_TRY(read_sizes(fields, config));
    PL_TRY(check_sizes(fields, config));
    PL_TRY(check_total(fields, config));
    PL_TRY(check_options(fields, config));
    PL_TRY(check_quantization(fields));
    PL_TRY(pl_config_read_layers(fields, config));
    return read_numbers(fields, config);
}

pl_status_t pl_model_config_read(const char *path, const pl_log_t *log,
                                 pl_model_config_t *config_p)
{
    pl_model_config_t config;
    pl_fields_t fields = {.within = "", .log = log};
    char *own_path     = NULL;
    bool found         = false;
    struct stat info;
    pl_status_t status;

    memset(&config, 0, sizeof(config));
    if ((stat(path, &info) == 0) && S_ISDIR(info.st_mode)) {
        PL_TRY(pl_model_path(path, "config.json", &own_path));
    }
    fields.path = own_path != NULL ? own_path : path;
    status      = pl_json_read(fields.path, log, &fields.object);
    if (status == PL_OK) {
        status = read_config(&fields, &config);
    }
    if (status == PL_OK) {
        status = read_generation(fields.path, log, &config, &found);
    }
    if ((status == PL_OK) && !found) {
        status = read_eos(&fields, &config, &found);
    }
    if (status == PL_OK) {
        *config_p = config;
    }
    json_object_put(fields.object);
    free(own_path);
    return status;
}

pl_status_t pl_model_config_parse(const char *name, const char *text,
                                  size_t n_bytes, const pl_log_t *log,
                                  pl_model_config_t *config_p)
{
    pl_model_config_t config;
    pl_fields_t fields = {.path = name, .within = "", .log = log};
    bool found         = false;
    pl_status_t status;

    memset(&config, 0, sizeof(config));
    PL_TRY(pl_json_parse(name, text, n_bytes, log, &fields.object));
    status = read_config(&fields, &config);
    if (status == PL_OK) {
        status = read_eos(&fields, &config, &found);
    }
    if (status == PL_OK) {
        *config_p = config;
    }
    json_object_put(fields.object);
    return status;
}
