/* What config.json says: both families as published, aliases, and what must be
 * refused with a line that names the field and what is possible. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "checkpoint_support.h"
#include "support/check_main.h"

#define GLM_TINY PAGELANE_SOURCE "/examples/glm-tiny"
#define DS_FP8   PAGELANE_SOURCE "/tests/data/dsv32-fp8"

/* As the models' own files have it. */
#define DEEPSEEK_V32                                                           \
    "{\"architectures\": [\"DeepseekV32ForCausalLM\"], \"model_type\": "       \
    "\"deepseek_v32\", \"vocab_size\": 129280, \"hidden_size\": 7168, "        \
    "\"intermediate_size\": 18432, \"moe_intermediate_size\": 2048, "          \
    "\"num_hidden_layers\": 61, \"num_attention_heads\": 128, "                \
    "\"num_key_value_heads\": 128, \"q_lora_rank\": 1536, \"kv_lora_rank\": "  \
    "512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, "               \
    "\"v_head_dim\": 128, \"index_n_heads\": 64, \"index_head_dim\": 128, "    \
    "\"index_topk\": 2048, \"n_routed_experts\": 256, \"n_shared_experts\": "  \
    "1, \"num_experts_per_tok\": 8, \"n_group\": 8, \"topk_group\": 4, "       \
    "\"norm_topk_prob\": true, \"routed_scaling_factor\": 2.5, "               \
    "\"scoring_func\": \"sigmoid\", \"topk_method\": \"noaux_tc\", "           \
    "\"first_k_dense_replace\": 3, \"moe_layer_freq\": 1, \"rms_norm_eps\": "  \
    "1e-06, \"max_position_embeddings\": 163840, \"rope_theta\": 10000, "      \
    "\"rope_scaling\": {\"type\": \"yarn\", \"factor\": 40, \"beta_fast\": "   \
    "32, \"beta_slow\": 1, \"mscale\": 1.0, \"mscale_all_dim\": 1.0, "         \
    "\"original_max_position_embeddings\": 4096}, \"attention_bias\": false, " \
    "\"attention_dropout\": 0.0, \"hidden_act\": \"silu\", "                   \
    "\"tie_word_embeddings\": false, \"eos_token_id\": 1, \"ep_size\": 1, "    \
    "\"quantization_config\": {\"activation_scheme\": \"dynamic\", \"fmt\": "  \
    "\"e4m3\", \"quant_method\": \"fp8\", \"scale_fmt\": \"ue8m0\", "          \
    "\"weight_block_size\": [128, 128]}}"
#define GLM_52                                                                 \
    "{\"architectures\": [\"GlmMoeDsaForCausalLM\"], \"model_type\": "         \
    "\"glm_moe_dsa\", \"vocab_size\": 154880, \"hidden_size\": 6144, "         \
    "\"intermediate_size\": 12288, \"moe_intermediate_size\": 2048, "          \
    "\"num_hidden_layers\": 78, \"num_attention_heads\": 64, "                 \
    "\"num_key_value_heads\": 64, \"q_lora_rank\": 2048, \"kv_lora_rank\": "   \
    "512, \"qk_nope_head_dim\": 192, \"qk_rope_head_dim\": 64, "               \
    "\"v_head_dim\": 256, \"head_dim\": 192, \"index_n_heads\": 32, "          \
    "\"index_head_dim\": 128, \"index_topk\": 2048, "                          \
    "\"indexer_rope_interleave\": true, \"index_topk_freq\": 4, "              \
    "\"index_skip_topk_offset\": 3, \"index_topk_pattern\": null, "            \
    "\"n_routed_experts\": 256, \"n_shared_experts\": 1, "                     \
    "\"num_experts_per_tok\": 8, \"n_group\": 1, \"topk_group\": 1, "          \
    "\"norm_topk_prob\": true, \"routed_scaling_factor\": 2.5, "               \
    "\"first_k_dense_replace\": 3, \"rms_norm_eps\": 1e-05, "                  \
    "\"max_position_embeddings\": 1048576, \"rope_parameters\": "              \
    "{\"rope_theta\": 8000000, \"rope_type\": \"default\"}, "                  \
    "\"eos_token_id\": [154820, 154827, 154829], \"pad_token_id\": 154820}"

static pl_status_t read_text(const char *text, const char *generation,
                             heard_t *heard, pl_model_config_t *config)
{
    char *folder = make_folder();
    pl_log_t log = log_of(heard);
    pl_status_t status;

    write_file(folder, "config.json", text, strlen(text));
    if (generation != NULL) {
        write_file(folder, "generation_config.json", generation,
                   strlen(generation));
    }
    status = pl_model_config_read(folder, &log, config);
    remove_folder(folder);
    return status;
}

static pl_model_config_t must_read(const char *text, const char *generation)
{
    pl_model_config_t config;
    heard_t heard;
    pl_status_t status = read_text(text, generation, &heard, &config);

    ck_assert_msg(status == PL_OK, "%s", heard.error);
    ck_assert_int_eq(heard.n_errors + heard.n_warnings, 0);
    return config;
}

static pl_model_config_t must_read_path(const char *path)
{
    pl_model_config_t config;
    heard_t heard;
    pl_log_t log = log_of(&heard);

    ck_assert_msg(pl_model_config_read(path, &log, &config) == PL_OK, "%s",
                  heard.error);
    ck_assert_int_eq(heard.n_errors + heard.n_warnings, 0);
    return config;
}

START_TEST(glm_tiny)
{
    pl_model_config_t config = must_read_path(GLM_TINY);
    pl_model_config_t same   = must_read_path(GLM_TINY "/config.json");

    ck_assert_mem_eq(&config, &same, sizeof(config));
    ck_assert_int_eq(config.family, PL_FAMILY_GLM_MOE_DSA);
    ck_assert_int_eq(config.vocab_size, 512);
    ck_assert_int_eq(config.hidden, 64);
    ck_assert_int_eq(config.n_layers, 4);
    ck_assert_int_eq(config.n_heads, 4);
    ck_assert_int_eq(config.q_lora, 32);
    ck_assert_int_eq(config.kv_lora, 32);
    ck_assert_int_eq(config.nope, 24);
    ck_assert_int_eq(config.rope, 16);
    ck_assert_int_eq(config.v_dim, 32);
    ck_assert_int_eq(config.index_heads, 16);
    ck_assert_int_eq(config.index_dim, 32);
    ck_assert_int_eq(config.index_topk, 48);
    ck_assert_int_eq(config.dense_width, 96);
    ck_assert_int_eq(config.expert_width, 48);
    ck_assert_int_eq(config.n_experts, 8);
    ck_assert_int_eq(config.n_shared, 1);
    ck_assert_int_eq(config.experts_per_token, 2);
    ck_assert_int_eq(config.n_group, 1);
    ck_assert_int_eq(config.topk_group, 1);
    ck_assert(config.norm_topk);
    ck_assert(!config.tied);
    ck_assert(config.routed_scale == 2.5F);
    ck_assert(config.norm_eps == 1e-5F);
    ck_assert(config.latent_norm_eps == 1e-6F);
    ck_assert_int_eq(config.max_positions, 4096);
    ck_assert(!config.rope_params.yarn);
    ck_assert(config.rope_params.theta == 1e6);
    ck_assert(config.rope_params.attention_factor == 1);
    ck_assert_double_eq_tol(config.softmax_scale, pow(40, -0.5), 1e-8);
    ck_assert_int_eq(config.n_eos, 1);
    ck_assert_int_eq(config.eos[0], 1);
    for (int i = 0; i < 4; i++) {
        ck_assert(config.sparse_mlp[i] == (i > 0));
        ck_assert(config.full_indexer[i] == (i % 2 == 0));
    }
}
END_TEST

START_TEST(deepseek_tiny)
{
    pl_model_config_t config = must_read_path(DS_FP8);

    ck_assert_int_eq(config.family, PL_FAMILY_DEEPSEEK_V32);
    ck_assert(config.rope_params.yarn);
    ck_assert(config.rope_params.theta == 10000);
    ck_assert(config.rope_params.factor == 4);
    ck_assert(config.rope_params.beta_fast == 32);
    ck_assert(config.rope_params.beta_slow == 1);
    ck_assert(config.rope_params.mscale == 1);
    ck_assert(config.rope_params.mscale_all_dim == 1);
    ck_assert_int_eq(config.rope_params.original_positions, 1024);
    ck_assert(config.rope_params.attention_factor == 1);
    ck_assert(config.norm_eps == 1e-6F);
    ck_assert_double_eq_tol(config.softmax_scale,
                            pow(96, -0.5) * pow(0.1 * log(4) + 1, 2), 1e-8);
    ck_assert_int_eq(config.n_group, 2);
    ck_assert(!config.sparse_mlp[0] && config.sparse_mlp[1]);
    ck_assert(config.full_indexer[0] && config.full_indexer[1]);
}
END_TEST

START_TEST(published_models)
{
    pl_model_config_t config = must_read(DEEPSEEK_V32, NULL);
    int n_full               = 0;

    ck_assert_double_eq_tol(config.softmax_scale, 0.1352337789, 1e-8);
    ck_assert(config.rope_params.attention_factor == 1);
    ck_assert_int_eq(config.n_group, 8);
    ck_assert_int_eq(config.topk_group, 4);
    for (int i = 0; i < 61; i++) {
        ck_assert(config.full_indexer[i]);
        ck_assert(config.sparse_mlp[i] == (i >= 3));
    }

    config = must_read(GLM_52, NULL);
    ck_assert(config.softmax_scale == 0.0625F);
    ck_assert(config.rope_params.theta == 8e6);
    ck_assert_int_eq(config.n_eos, 3);
    ck_assert_int_eq(config.eos[2], 154829);
    for (int i = 0; i < 78; i++) {
        /* 0, 1, 2, 6, 10, ..., 74 */
        bool full = (i < 2) || (i % 4 == 2);

        ck_assert_msg(config.full_indexer[i] == full, "layer %d", i);
        n_full += full;
    }
    ck_assert_int_eq(n_full, 21);
}
END_TEST

/* glm-tiny's config with fields changed: "name", value as JSON or NULL to
 * remove the field, ... NULL. */
static char *changed(const char *base_path, const char *const *changes)
{
    size_t n_bytes;
    char *text               = read_whole(base_path, &n_bytes);
    struct json_object *root = json_tokener_parse(text);
    char *result;

    ck_assert_ptr_nonnull(root);
    free(text);
    for (; changes[0] != NULL; changes += 2) {
        json_object_object_del(root, changes[0]);
        if (changes[1] != NULL) {
            json_object_object_add(root, changes[0],
                                   json_tokener_parse(changes[1]));
        }
    }
    result = strdup(json_object_to_json_string(root));
    ck_assert_ptr_nonnull(result);
    json_object_put(root);
    return result;
}

#define YARN(rest)                                                             \
    "{\"rope_type\": \"yarn\", \"rope_theta\": 1e4, "                          \
    "\"original_max_position_embeddings\": 1024" rest "}"

static const struct {
    const char *changes[9]; /* of glm-tiny's config */
    const char *says;       /* the field and what it is */
    const char *possible;   /* after "expected" */
} BAD[] = {
    {{"model_type", "\"llama\""},
     "\"model_type\" is \"llama\"",
     "deepseek_v32"},
    {{"model_type", NULL, "architectures", "[\"LlamaForCausalLM\"]"},
     "\"architectures\" is",
     "GlmMoeDsaForCausalLM"},
    {{"model_type", NULL, "architectures", NULL},
     "\"architectures\" is missing",
     "glm_moe_dsa"},
    {{"model_type", "\"deepseek_v32\""}, "\"architectures\" is", "DeepseekV32"},
    {{"architectures", "[]"}, "\"architectures\" is []", "GlmMoeDsa"},
    {{"hidden_size", NULL}, "\"hidden_size\" is missing", "from 1"},
    {{"hidden_size", "null"}, "\"hidden_size\" is missing", "from 1"},
    {{"hidden_size", "0"}, "\"hidden_size\" is 0", "from 1"},
    {{"hidden_size", "-64"}, "\"hidden_size\" is -64", "from 1"},
    {{"hidden_size", "64.0"}, "\"hidden_size\" is 64.0", "whole number"},
    {{"hidden_size", "\"64\""}, "\"hidden_size\" is", "whole number"},
    {{"hidden_size", "99999999999999999999"}, "\"hidden_size\" is", "whole"},
    {{"hidden_size", "4294967360"}, "\"hidden_size\" is 42949", "whole"},
    {{"vocab_size", "0"}, "\"vocab_size\" is 0", "from 1"},
    {{"num_hidden_layers", "513"}, "\"num_hidden_layers\" is 513", "to 512"},
    {{"num_hidden_layers", "5"}, "\"layer_types\" is", "5 items"},
    {{"num_hidden_layers", "5", "layer_types", NULL},
     "\"mlp_layer_types\" is",
     "5 items"},
    {{"num_hidden_layers", "5", "layer_types", NULL, "mlp_layer_types", NULL},
     "\"indexer_types\" is",
     "5 items"},
    {{"num_key_value_heads", "2"}, "\"num_key_value_heads\" is 2", "4, as"},
    {{"num_attention_heads", "16777216", "num_key_value_heads", NULL,
      "v_head_dim", "200"},
     "\"num_attention_heads\" is 16777216",
     "at most"},
    {{"hidden_size", "16777216", "intermediate_size", "16777216"},
     "parameters",
     "1e+15 at most"},
    {{"qk_rope_head_dim", "15"}, "\"qk_rope_head_dim\" is 15", "even"},
    {{"index_head_dim", "14"}, "\"index_head_dim\" is 14", "at least qk_rope"},
    {{"index_topk", "0"}, "\"index_topk\" is 0", "from 1"},
    {{"n_shared_experts", "-1"}, "\"n_shared_experts\" is -1", "from 0"},
    {{"n_routed_experts", NULL}, "\"n_routed_experts\" is missing", "from 2"},
    {{"n_routed_experts", "1"}, "\"n_routed_experts\" is 1", "from 2"},
    {{"num_experts", "16"}, "\"num_experts\" is 16", "8 as"},
    {{"n_group", "3"}, "\"n_group\" is 3", "divisor of 8"},
    {{"n_group", "8"}, "\"n_group\" is 8", "at most 4"},
    {{"topk_group", "2"}, "\"topk_group\" is 2", "at most n_group, 1"},
    {{"num_experts_per_tok", "9"}, "\"num_experts_per_tok\" is 9", "at most 8"},
    {{"n_group", "4", "num_experts_per_tok", "3"},
     "\"num_experts_per_tok\" is 3",
     "at most 2"},
    {{"hidden_act", "\"gelu\""}, "\"hidden_act\" is \"gelu\"", "\"silu\""},
    {{"scoring_func", "\"softmax\""}, "\"scoring_func\" is", "\"sigmoid\""},
    {{"topk_method", "\"greedy\""}, "\"topk_method\" is", "\"noaux_tc\""},
    {{"attention_bias", "true"}, "\"attention_bias\" is true", "false"},
    {{"mlp_bias", "true"}, "\"mlp_bias\" is true", "false"},
    {{"norm_topk_prob", "1"}, "\"norm_topk_prob\" is 1", "true or false"},
    {{"rms_norm_eps", "0"}, "\"rms_norm_eps\" is 0", "above 0"},
    {{"rms_norm_eps", "1e999"}, "\"rms_norm_eps\" is", "above 0"},
    {{"routed_scaling_factor", "-1"}, "\"routed_scaling_factor\"", "above 0"},
    {{"layer_types", "[\"full_attention\", \"full_attention\", "
                     "\"full_attention\", \"full_attention\"]"},
     "\"layer_types\"[0] is \"full_attention\"",
     "deepseek_sparse_attention"},
    {{"mlp_layer_types", "[\"dense\", \"moe\", \"sparse\", \"sparse\"]"},
     "\"mlp_layer_types\"[1] is \"moe\"",
     "\"sparse\" or \"dense\""},
    {{"indexer_types", "[\"full\", \"full\", \"full\", \"none\"]"},
     "\"indexer_types\"[3] is \"none\"",
     "\"full\" or \"shared\""},
    {{"indexer_types", "[\"shared\", \"full\", \"full\", \"full\"]"},
     "layer 0 shares",
     "\"full\""},
    {{"indexer_types", NULL, "index_topk_pattern", "\"FSXF\""},
     "\"index_topk_pattern\" is \"FSXF\"",
     "letters F"},
    {{"indexer_types", NULL, "index_topk_pattern", "\"FSF\""},
     "\"index_topk_pattern\" is \"FSF\"",
     "4 letters"},
    {{"model_type", "\"deepseek_v32\"", "architectures",
      "[\"DeepseekV32ForCausalLM\"]"},
     "layer 1 shares",
     "every layer"},
    {{"first_k_dense_replace", "-1"}, "\"first_k_dense_replace\"", "from 0"},
    {{"moe_layer_freq", "0"}, "\"moe_layer_freq\" is 0", "from 1"},
    {{"rope_parameters", NULL}, "\"rope_theta\" is missing", "a number"},
    {{"rope_parameters", "{\"rope_type\": \"default\"}"},
     "\"rope_theta\" is missing",
     "a number"},
    {{"rope_parameters", "{\"rope_type\": \"llama3\", \"rope_theta\": 1e4}"},
     "\"rope_parameters.rope_type\" is \"llama3\"",
     "\"default\" or \"yarn\""},
    {{"rope_parameters", NULL, "rope_theta", "1e4", "rope_scaling",
      "{\"type\": \"linear\", \"factor\": 2}"},
     "\"rope_scaling.type\" is \"linear\"",
     "\"default\" or \"yarn\""},
    {{"rope_scaling", "{\"type\": \"yarn\"}"},
     "\"rope_scaling\" is",
     "remove one"},
    {{"rope_parameters", "{\"rope_theta\": 1}"},
     "\"rope_parameters.rope_theta\" is 1",
     "above 1"},
    {{"rope_parameters",
      "{\"rope_theta\": 1e4, \"partial_rotary_factor\": 0.5}"},
     "partial_rotary_factor\" is 0.5",
     "1,"},
    {{"rope_parameters", YARN("")}, "parameters.factor\" is missing", "from 1"},
    {{"rope_parameters", YARN(", \"factor\": 0.5")},
     "parameters.factor\" is 0.5",
     "from 1"},
    {{"rope_parameters",
      "{\"rope_type\": \"yarn\", \"rope_theta\": 1e4, \"factor\": 4}"},
     "original_max_position_embeddings\" is missing",
     "from 1"},
    {{"rope_parameters", YARN(", \"factor\": 4, \"beta_fast\": 0.5")},
     "beta_fast\" is 0.5",
     "at least beta_slow"},
    {{"rope_parameters", YARN(", \"factor\": 4, \"truncate\": false")},
     "truncate\" is false",
     "true"},
    {{"rope_parameters", YARN(", \"factor\": 4, \"mscale\": -1")},
     "mscale\" is -1",
     "above 0"},
    {{"quantization_config", "{\"quant_method\": \"gptq\"}"},
     "quant_method\" is \"gptq\"",
     "\"fp8\""},
    {{"quantization_config", "{\"bits\": 8}"},
     "quant_method\" is missing",
     "\"fp8\""},
    {{"quantization_config",
      "{\"quant_method\": \"fp8\", \"weight_block_size\": [64, 128]}"},
     "weight_block_size\" is [64",
     "[128, 128]"},
    {{"quantization_config", "{\"quant_method\": \"fp8\"}"},
     "weight_block_size\" is missing",
     "[128, 128]"},
    {{"quantization_config", "{\"quant_method\": \"fp8\", \"fmt\": \"e5m2\", "
                             "\"weight_block_size\": [128, 128]}"},
     "fmt\" is \"e5m2\"",
     "\"e4m3\""},
    {{"eos_token_id", "\"</s>\""}, "\"eos_token_id\" is", "a token"},
    {{"eos_token_id", "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]"},
     "\"eos_token_id\" is",
     "at most 16"},
};

START_TEST(bad_configs_are_refused)
{
    char *text =
        changed(GLM_TINY "/config.json", (const char *const *)BAD[_i].changes);
    pl_model_config_t config;
    pl_model_config_t before;
    heard_t heard;
    const char *expected;

    memset(&config, 7, sizeof(config));
    before = config;
    ck_assert_msg(read_text(text, NULL, &heard, &config) == PL_ERR_INPUT,
                  "taken: %s", text);
    ck_assert_mem_eq(&config, &before, sizeof(config));
    ck_assert_int_eq(heard.n_errors, 1);
    ck_assert_msg(strstr(heard.error, "/config.json: ") != NULL, "%s",
                  heard.error);
    ck_assert_msg(strstr(heard.error, BAD[_i].says) != NULL, "%s", heard.error);
    expected = strstr(heard.error, "expected ");
    ck_assert_msg((expected != NULL) &&
                      (strstr(expected, BAD[_i].possible) != NULL),
                  "%s", heard.error);
    free(text);
}
END_TEST

static pl_model_config_t must_change(const char *const *changes)
{
    char *text               = changed(GLM_TINY "/config.json", changes);
    pl_model_config_t config = must_read(text, NULL);

    free(text);
    return config;
}

#define CHANGE(...) must_change((const char *const[]){__VA_ARGS__, NULL})

START_TEST(other_names_mean_the_same)
{
    pl_model_config_t plain = CHANGE("nothing", "1");
    pl_model_config_t config;

    config = CHANGE("n_routed_experts", NULL, "num_experts", "8");
    ck_assert_mem_eq(&config, &plain, sizeof(plain));
    config = CHANGE("num_local_experts", "8");
    ck_assert_mem_eq(&config, &plain, sizeof(plain));
    config = CHANGE("model_type", NULL);
    ck_assert_mem_eq(&config, &plain, sizeof(plain));
    config = CHANGE("architectures", NULL);
    ck_assert_mem_eq(&config, &plain, sizeof(plain));
    config = CHANGE("rope_parameters", NULL, "rope_theta", "1000000");
    ck_assert_mem_eq(&config, &plain, sizeof(plain));
    config = CHANGE("rope_parameters", NULL, "rope_theta", "1000000",
                    "rope_scaling", "{\"type\": \"default\"}");
    ck_assert_mem_eq(&config, &plain, sizeof(plain));
    /* the nearer theta wins */
    config = CHANGE("rope_theta", "10000");
    ck_assert_mem_eq(&config, &plain, sizeof(plain));
    config = CHANGE("mlp_layer_types", NULL, "layer_types", NULL);
    ck_assert_mem_eq(&config, &plain, sizeof(plain));
    /* the list wins */
    config = CHANGE("first_k_dense_replace", "3", "moe_layer_freq", "2",
                    "index_topk_pattern", "\"FFFF\"", "index_topk_freq", "1");
    ck_assert_mem_eq(&config, &plain, sizeof(plain));
    config = CHANGE("indexer_types", NULL, "index_topk_pattern", "\"FSFS\"");
    ck_assert_mem_eq(&config, &plain, sizeof(plain));
    config = CHANGE("indexer_types", NULL, "index_topk_pattern",
                    "[\"full\", \"shared\", \"full\", \"shared\"]");
    ck_assert_mem_eq(&config, &plain, sizeof(plain));
    config = CHANGE("indexer_types", NULL, "index_topk_freq", "2",
                    "index_skip_topk_offset", "1");
    ck_assert_mem_eq(&config, &plain, sizeof(plain));
    /* without a meaning here */
    config = CHANGE("head_dim", "192", "rope_interleave", "false",
                    "indexer_rope_interleave", "false", "qk_head_dim", "1");
    ck_assert_mem_eq(&config, &plain, sizeof(plain));
    /* Hugging Face's defaults */
    config =
        CHANGE("n_group", NULL, "topk_group", NULL, "norm_topk_prob", "null",
               "routed_scaling_factor", NULL, "rms_norm_eps", NULL);
    ck_assert_mem_eq(&config, &plain, sizeof(plain));
}
END_TEST

START_TEST(options_are_taken)
{
    pl_model_config_t config;

    config = CHANGE("norm_topk_prob", "false", "tie_word_embeddings", "true",
                    "n_shared_experts", "0", "rms_norm_eps", "1e-3");
    ck_assert(!config.norm_topk && config.tied);
    ck_assert_int_eq(config.n_shared, 0);
    ck_assert(config.norm_eps == 1e-3F);

    config = CHANGE("mlp_layer_types", NULL, "first_k_dense_replace", "0");
    ck_assert(config.sparse_mlp[0] && config.sparse_mlp[3]);
    config = CHANGE("mlp_layer_types", NULL, "first_k_dense_replace", "9");
    ck_assert(!config.sparse_mlp[0] && !config.sparse_mlp[3]);
    config = CHANGE("mlp_layer_types", NULL, "moe_layer_freq", "2");
    ck_assert(!config.sparse_mlp[1] && config.sparse_mlp[2]);

    config = CHANGE("indexer_types", NULL);
    ck_assert(config.full_indexer[1] && config.full_indexer[3]);

    /* 2.2: factor 4, an mscale of its own */
    config = CHANGE("rope_parameters", YARN(", \"factor\": 4"));
    ck_assert_double_eq_tol(config.rope_params.attention_factor,
                            0.1 * log(4) + 1, 1e-15);
    ck_assert_double_eq_tol(config.softmax_scale, pow(40, -0.5), 1e-8);
    ck_assert(config.rope_params.beta_fast == 32);
    ck_assert(config.rope_params.beta_slow == 1);
    config = CHANGE("rope_parameters", YARN(", \"factor\": 4, \"mscale\": 0.5, "
                                            "\"mscale_all_dim\": 2.0"));
    ck_assert_double_eq_tol(config.rope_params.attention_factor,
                            (0.05 * log(4) + 1) / (0.2 * log(4) + 1), 1e-15);
    ck_assert_double_eq_tol(config.softmax_scale,
                            pow(40, -0.5) * pow(0.2 * log(4) + 1, 2), 1e-8);
    config = CHANGE("rope_parameters",
                    YARN(", \"factor\": 4, \"attention_factor\": 1.25"));
    ck_assert(config.rope_params.attention_factor == 1.25);
}
END_TEST

static const struct {
    const char *in_config, *generation;
    int32_t n;
    int32_t eos[3];
} EOS[] = {
    {"5", NULL, 1, {5}},
    {"[5, 6]", NULL, 2, {5, 6}},
    {"null", NULL, 0, {0}},
    {"5", "{\"eos_token_id\": [7, 8, 9]}", 3, {7, 8, 9}},
    {"5", "{\"eos_token_id\": 0}", 1, {0}},
    {"5", "{\"eos_token_id\": []}", 0, {0}},
    {"5", "{\"eos_token_id\": null}", 1, {5}},
    {"5", "{}", 1, {5}},
};

START_TEST(end_of_sequence)
{
    const char *changes[]    = {"eos_token_id", EOS[_i].in_config, NULL};
    char *text               = changed(GLM_TINY "/config.json", changes);
    pl_model_config_t config = must_read(text, EOS[_i].generation);

    ck_assert_int_eq(config.n_eos, EOS[_i].n);
    for (int32_t i = 0; i < config.n_eos; i++) {
        ck_assert_int_eq(config.eos[i], EOS[_i].eos[i]);
    }
    free(text);
}
END_TEST

START_TEST(end_of_sequence_beyond_the_vocabulary)
{
    const char *changes[] = {"eos_token_id", "[512, 3, -1]", NULL};
    char *text            = changed(GLM_TINY "/config.json", changes);
    pl_model_config_t config;
    heard_t heard;

    ck_assert_int_eq(read_text(text, NULL, &heard, &config), PL_OK);
    ck_assert_int_eq(heard.n_warnings, 2);
    ck_assert_int_eq(config.n_eos, 1);
    ck_assert_int_eq(config.eos[0], 3);
    free(text);
}
END_TEST

START_TEST(files_that_cannot_be_read)
{
    static const char *const TEXTS[] = {
        "", "{", "[]", "{} {}", "{\"a\": 1,}", "null", "{\"a\": \"\xFF\"}"};
    pl_model_config_t config;
    heard_t heard;
    pl_log_t log = log_of(&heard);

    ck_assert_int_eq(pl_model_config_read("no/such/model", &log, &config),
                     PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(heard.error, "no/such/model: cannot be read"));
    for (size_t i = 0; i < sizeof(TEXTS) / sizeof(*TEXTS); i++) {
        ck_assert_msg(read_text(TEXTS[i], NULL, &heard, &config) ==
                          PL_ERR_INPUT,
                      "%s", TEXTS[i]);
        ck_assert_int_eq(heard.n_errors, 1);
        ck_assert_ptr_nonnull(strstr(heard.error, "not one JSON object"));
    }
    ck_assert_int_eq(
        read_text(GLM_52, "{\"eos_token_id\": \"x\"}", &heard, &config),
        PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(heard.error, "/generation_config.json: "));
    ck_assert_int_eq(read_text(GLM_52, "{", &heard, &config), PL_ERR_INPUT);
    ck_assert_ptr_nonnull(strstr(heard.error, "/generation_config.json: "));
}
END_TEST

static TCase *configs(void)
{
    TCase *tcase = tcase_create("configs");

    tcase_add_test(tcase, glm_tiny);
    tcase_add_test(tcase, deepseek_tiny);
    tcase_add_test(tcase, published_models);
    tcase_add_test(tcase, other_names_mean_the_same);
    tcase_add_test(tcase, options_are_taken);
    tcase_add_loop_test(tcase, end_of_sequence, 0,
                        (int)(sizeof(EOS) / sizeof(*EOS)));
    tcase_add_test(tcase, end_of_sequence_beyond_the_vocabulary);
    tcase_add_loop_test(tcase, bad_configs_are_refused, 0,
                        (int)(sizeof(BAD) / sizeof(*BAD)));
    tcase_add_test(tcase, files_that_cannot_be_read);
    return tcase;
}

PL_CHECK_MAIN("config", configs())
