/* Weights from checkpoints of every form, what must be refused, and random
 * ones. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attn/rows.h"
#include "base/hash.h"
#include "checkpoint_support.h"
#include "model/safetensors.h"
#include "model/weights_internal.h"
#include "support/check_main.h"

#define GLM_TINY PAGELANE_SOURCE "/examples/glm-tiny"
#define DS_FP8   PAGELANE_SOURCE "/tests/data/dsv32-fp8"

static pl_weights_t *must_open(const char *dir, const pl_model_config_t *config)
{
    pl_weights_t *weights = NULL;
    heard_t heard;
    pl_log_t log = log_of(&heard);

    ck_assert_msg(pl_weights_open(dir, config, &log, &weights) == PL_OK, "%s",
                  heard.error);
    ck_assert_msg(heard.n_errors + heard.n_warnings == 0, "%s", heard.warning);
    return weights;
}

static pl_model_config_t must_read(const char *dir)
{
    pl_model_config_t config;

    ck_assert_int_eq(pl_model_config_read(dir, NULL, &config), PL_OK);
    return config;
}

/* ---- whole checkpoints ---- */

/* The tensor's rows, from the file alone. */
static pl_status_t same_as_file(void *context, const pl_tensor_place_t *place)
{
    const pl_safetensors_t *file  = context;
    const pl_safetensor_t *tensor = pl_safetensors_find(file, place->name);
    const pl_safetensor_t *scale;
    float *row = calloc((size_t)place->cols, sizeof(*row));
    char name[200];

    ck_assert_ptr_nonnull(row);
    ck_assert_msg(tensor != NULL, "%s", place->name);
    (void)snprintf(name, sizeof(name), "%s_scale_inv", place->name);
    scale = pl_safetensors_find(file, name);
    ck_assert_int_eq(place->tensor->rows, place->rows);
    ck_assert_int_eq(place->tensor->cols, place->cols);
    ck_assert((scale != NULL) == (place->tensor->dtype == PL_F8_E4M3));
    ck_assert_str_eq(tensor->dtype, scale != NULL ? "F8_E4M3" : "F32");
    for (int32_t r = 0; r < place->rows; r++) {
        pl_tensor_row(place->tensor, r, row);
        for (int32_t c = 0; c < place->cols; c++) {
            size_t i = (size_t)r * (size_t)place->cols + (size_t)c;
            float want;

            if (scale == NULL) {
                memcpy(&want, (const uint8_t *)tensor->bytes + 4 * i, 4);
            } else {
                size_t block = (size_t)(r / 128) * (size_t)scale->shape[1] +
                               (size_t)(c / 128);
                float by;

                memcpy(&by, (const uint8_t *)scale->bytes + 4 * block, 4);
                want = pl_e4m3_to_f32(((const uint8_t *)tensor->bytes)[i]) * by;
            }
            if (row[c] != want) { /* a check each would take minutes */
                ck_abort_msg("%s[%d][%d]", place->name, (int)r, (int)c);
            }
        }
    }
    free(row);
    return PL_OK;
}

static void check_against_file(const char *dir)
{
    pl_model_config_t config = must_read(dir);
    pl_weights_t *weights    = must_open(dir, &config);
    pl_safetensors_t *file   = NULL;
    char path[4096];

    ck_assert_int_eq(pl_safetensors_open(
                         path_in(dir, "model.safetensors", path), NULL, &file),
                     PL_OK);
    ck_assert_int_eq(pl_weights_each(&config, weights, same_as_file, file),
                     PL_OK);
    for (int32_t i = 0; i < config.n_layers; i++) {
        const pl_layer_weights_t *layer = &weights->layers[i];

        ck_assert((layer->index_k.bytes != NULL) == config.full_indexer[i]);
        ck_assert((layer->dense.up.bytes != NULL) == !config.sparse_mlp[i]);
        ck_assert((layer->experts != NULL) == config.sparse_mlp[i]);
        ck_assert((layer->router.bytes != NULL) == config.sparse_mlp[i]);
    }
    pl_safetensors_close(file);
    pl_weights_close(weights);
}

START_TEST(shipped_checkpoints)
{
    check_against_file(GLM_TINY);
    check_against_file(DS_FP8);
}
END_TEST

START_TEST(a_config_file_names_its_folder)
{
    pl_model_config_t config = must_read(GLM_TINY "/config.json");

    pl_weights_close(must_open(GLM_TINY "/config.json", &config));
}
END_TEST

/* The other checkpoints, where they are at hand. */
START_TEST(shared_checkpoints)
{
    static const char *const NAMES[] = {"glm-tiny", "glm-wide", "dsv32-tiny",
                                        "dsv32-fp8"};
    const char *shared               = getenv("PAGELANE_SHARED");
    char dir[4096];

    for (size_t i = 0; i < 4; i++) {
        pl_model_config_t config;

        (void)snprintf(dir, sizeof(dir), "%s/oracle/%s",
                       shared != NULL ? shared : PAGELANE_SHARED_DEFAULT,
                       NAMES[i]);
        if (access(dir, R_OK) != 0) {
            printf("skipped: no %s; set PAGELANE_SHARED to a folder that has "
                   "it\n",
                   dir);
            continue;
        }
        config = must_read(dir);
        pl_weights_close(must_open(dir, &config));
    }
}
END_TEST

/* ---- forms ---- */

static const made_form_t FORMS[] = {
    {"F32", "F32", false, 1, 0},     {"F32", "F32", false, 3, 0},
    {"F32", "F32", true, 1, 0},      {"F32", "F32", true, 2, 0},
    {"F32", "F32", false, 1, 1},     {"F32", "F32", true, 1, 2},
    {"F32", "BF16", false, 1, 4},    {"BF16", "F32", false, 1, 0},
    {"BF16", "BF16", true, 1, 0},    {"BF16", "BF16", true, 2, 3},
    {"F16", "F16", false, 1, 0},     {"F16", "F32", true, 1, 1},
    {"F8_E4M3", "F32", false, 1, 0}, {"F8_E4M3", "BF16", false, 4, 0},
    {"F8_E4M3", "BF16", true, 1, 0}, {"F8_E4M3", "F16", true, 2, 3},
    {"F8_E4M3", "F32", false, 1, 1},
};

START_TEST(all_forms_give_the_same)
{
    pl_model_config_t config = odd_config();
    const made_form_t *form  = &FORMS[_i];
    made_t made              = make_tensors(&config, form);
    char *folder             = make_folder();
    pl_weights_t *weights;

    write_checkpoint(folder, &made, form);
    weights = must_open(folder, &config);
    check_weights(&config, weights, form);
    ck_assert_ptr_ne(weights->head.bytes, weights->embed.bytes);
    pl_weights_close(weights);
    free_made(&made);
    remove_folder(folder);
}
END_TEST

START_TEST(a_tied_head_is_the_embedding)
{
    static const made_form_t FORM = {"F32", "F32", false, 1, 1};
    pl_model_config_t config      = odd_config();
    char *folder                  = make_folder();
    made_t made;
    pl_weights_t *weights;

    config.tied = true;
    made        = make_tensors(&config, &FORM);
    ck_assert_ptr_null(find_made(&made, "lm_head.weight"));
    for (int with_head = 0; with_head < 2; with_head++) {
        if (with_head != 0) {
            (void)add_made(&made, "lm_head.weight", "F32", config.vocab_size,
                           config.hidden);
        }
        write_checkpoint(folder, &made, &FORM);
        weights = must_open(folder, &config);
        check_weights(&config, weights, &FORM);
        ck_assert_ptr_eq(weights->head.bytes, weights->embed.bytes);
        ck_assert_int_eq(weights->head.rows, config.vocab_size);
        pl_weights_close(weights);
    }
    free_made(&made);
    remove_folder(folder);
}
END_TEST

/* Fewer layers of the same file: what lies beyond is not missed. */
START_TEST(layers_beyond_are_passed_over)
{
    static const made_form_t FORM = {"F32", "F32", false, 1, 0};
    pl_model_config_t config      = odd_config();
    made_t made                   = make_tensors(&config, &FORM);
    char *folder                  = make_folder();
    pl_weights_t *weights;

    (void)add_made(&made, "model.layers.2.eh_proj.weight", "U16", 3, 3);
    (void)add_made(&made, "model.layers.10.enorm.weight", "I16", 1, 3);
    write_checkpoint(folder, &made, &FORM);
    config.n_layers = 2;
    weights         = must_open(folder, &config);
    check_weights(&config, weights, &FORM);
    pl_weights_close(weights);
    free_made(&made);
    remove_folder(folder);
}
END_TEST

START_TEST(no_shared_experts)
{
    static const made_form_t FORM = {"F32", "F32", false, 1, 0};
    pl_model_config_t config      = odd_config();
    char *folder                  = make_folder();
    made_t made;
    pl_weights_t *weights;

    config.n_shared = 0;
    made            = make_tensors(&config, &FORM);
    /* as Hugging Face writes the layers of no width */
    (void)add_made(&made, "model.layers.1.mlp.shared_experts.up_proj.weight",
                   "F32", 0, config.hidden);
    write_checkpoint(folder, &made, &FORM);
    weights = must_open(folder, &config);
    ck_assert_int_eq(weights->layers[1].shared.gate.rows, 0);
    ck_assert_int_eq(weights->layers[1].shared.down.rows, 0);
    pl_weights_close(weights);
    free_made(&made);
    remove_folder(folder);
}
END_TEST

START_TEST(unknown_tensors_are_told_once)
{
    static const made_form_t FORM = {"F32", "F32", false, 1, 0};
    pl_model_config_t config      = odd_config();
    made_t made                   = make_tensors(&config, &FORM);
    char *folder                  = make_folder();
    pl_weights_t *weights         = NULL;
    heard_t heard;
    pl_log_t log = log_of(&heard);

    (void)add_made(&made, "model.layers.1.self_attn.indexer.wk.weight", "F32",
                   9, 131);
    (void)add_made(&made, "model.layers.x.y", "F32", 1, 1);
    write_checkpoint(folder, &made, &FORM);
    ck_assert_int_eq(pl_weights_open(folder, &config, &log, &weights), PL_OK);
    ck_assert_int_eq(heard.n_errors, 0);
    ck_assert_int_eq(heard.n_warnings, 1);
    ck_assert_msg(strstr(heard.warning,
                         "\"model.layers.1.self_attn.indexer.wk."
                         "weight\" is not used (so are 2") != NULL,
                  "%s", heard.warning);
    check_weights(&config, weights, &FORM);
    pl_weights_close(weights);
    free_made(&made);
    remove_folder(folder);
}
END_TEST

/* ---- bad checkpoints ---- */

static void drop_norm(made_t *made)
{
    drop_made(made, "model.layers.2.self_attn.kv_a_layernorm.weight");
}

static void drop_expert(made_t *made)
{
    drop_made(made, "model.layers.2.mlp.experts.3.down_proj.weight");
}

static void drop_head(made_t *made)
{
    drop_made(made, "lm_head.weight");
}

static void drop_scale(made_t *made)
{
    drop_made(made, "model.layers.0.self_attn.o_proj.weight_scale_inv");
}

static void reshape(made_t *made, const char *name, int32_t n_dims, int64_t a,
                    int64_t b)
{
    made_tensor_t *tensor = find_made(made, name);

    ck_assert_msg(tensor != NULL, "%s", name);
    ck_assert_int_le(a * b, tensor->shape[0] * tensor->shape[1]);
    tensor->n_bytes /= (size_t)(tensor->shape[0] *
                                (tensor->n_dims > 1 ? tensor->shape[1] : 1));
    tensor->n_dims   = n_dims;
    tensor->shape[0] = a;
    tensor->shape[1] = b;
    tensor->n_bytes *= (size_t)(a * (n_dims > 1 ? b : 1));
}

static void turn_matrix(made_t *made)
{
    reshape(made, "model.layers.0.self_attn.q_a_proj.weight", 2, 131, 19);
}

static void flatten_matrix(made_t *made)
{
    reshape(made, "model.layers.1.mlp.gate.weight", 1, 524, 1);
}

static void deepen_vector(made_t *made)
{
    reshape(made, "model.norm.weight", 2, 1, 131);
}

static void shorten_vocabulary(made_t *made)
{
    reshape(made, "model.embed_tokens.weight", 2, 36, 131);
}

static void cut_scale(made_t *made)
{
    reshape(made, "model.layers.0.self_attn.q_a_proj.weight_scale_inv", 2, 1,
            1);
}

static void retype(made_t *made, const char *name, const char *dtype)
{
    made_tensor_t *tensor = find_made(made, name);

    ck_assert_msg(tensor != NULL, "%s", name);
    (void)snprintf(tensor->dtype, sizeof(tensor->dtype), "%s", dtype);
}

static void integers(made_t *made)
{
    retype(made, "model.layers.1.self_attn.kv_b_proj.weight", "I32");
}

static void unknown_dtype(made_t *made)
{
    retype(made, "model.layers.1.self_attn.kv_b_proj.weight", "F33");
}

static void integer_scale(made_t *made)
{
    retype(made, "model.layers.0.self_attn.o_proj.weight_scale_inv", "U32");
}

static void f8_vector(made_t *made)
{
    made_tensor_t *tensor = find_made(made, "model.norm.weight");

    retype(made, "model.norm.weight", "F8_E4M3");
    tensor->n_bytes = 131;
}

static void both_forms(made_t *made)
{
    (void)add_made(made, "model.layers.1.mlp.experts.gate_up_proj", "F32", 4,
                   7);
}

static void alone_and_fused(made_t *made)
{
    (void)add_made(made, "model.layers.1.mlp.experts.0.down_proj.weight", "F32",
                   131, 128);
}

static void fused_of_fewer(made_t *made)
{
    made_tensor_t *tensor =
        find_made(made, "model.layers.1.mlp.experts.down_proj");

    tensor->n_bytes -= tensor->n_bytes / 4;
    tensor->shape[0] = 3;
}

static const struct {
    void (*spoil)(made_t *made);
    made_form_t form;
    const char *file, *says;
} BAD[] = {
    {drop_norm,
     {"F32", "F32", false, 1, 0},
     "model.safetensors",
     "\"model.layers.2.self_attn.kv_a_layernorm.weight\" is missing"},
    {drop_norm,
     {"F32", "F32", false, 2, 0},
     "model.safetensors.index.json",
     "\"model.layers.2.self_attn.kv_a_layernorm.weight\" is missing"},
    {drop_expert,
     {"F32", "F32", false, 1, 0},
     "model.safetensors",
     "\"model.layers.2.mlp.experts.3.down_proj.weight\" is missing"},
    {drop_head,
     {"F32", "F32", false, 1, 0},
     "model.safetensors",
     "tie_word_embeddings"},
    {drop_scale,
     {"F8_E4M3", "F32", false, 1, 0},
     "model.safetensors",
     "\"model.layers.0.self_attn.o_proj.weight\" is F8_E4M3 without"},
    {turn_matrix,
     {"F32", "F32", false, 1, 0},
     "model.safetensors",
     "\"model.layers.0.self_attn.q_a_proj.weight\" has shape [131, 19]: "
     "expected [19, 131]"},
    {turn_matrix,
     {"BF16", "F32", false, 3, 0},
     "safetensors",
     "\"model.layers.0.self_attn.q_a_proj.weight\" has shape [131, 19]: "
     "expected [19, 131]"},
    {flatten_matrix,
     {"F32", "F32", false, 1, 0},
     "model.safetensors",
     "has shape [524]: expected [4, 131]"},
    {deepen_vector,
     {"F32", "F32", false, 1, 0},
     "model.safetensors",
     "\"model.norm.weight\" has shape [1, 131]: expected [131]"},
    {shorten_vocabulary,
     {"F32", "F32", false, 1, 0},
     "model.safetensors",
     "\"model.embed_tokens.weight\" has shape [36, 131]: expected [37, 131]"},
    {cut_scale,
     {"F8_E4M3", "F32", false, 1, 0},
     "model.safetensors",
     "q_a_proj.weight_scale_inv\" has shape [1, 1]: expected [1, 2]"},
    {integers,
     {"F32", "F32", false, 1, 0},
     "model.safetensors",
     "kv_b_proj.weight\" has dtype I32: expected F32"},
    {unknown_dtype,
     {"F32", "F32", false, 1, 0},
     "model.safetensors",
     "dtype is \"F33\""},
    {integer_scale,
     {"F8_E4M3", "F32", false, 1, 0},
     "model.safetensors",
     "o_proj.weight_scale_inv\" has dtype U32: expected F32"},
    {f8_vector,
     {"F8_E4M3", "F32", false, 1, 0},
     "model.safetensors",
     "\"model.norm.weight\" has dtype F8_E4M3: expected F32, BF16 or F16"},
    {both_forms,
     {"F32", "F32", false, 1, 0},
     "model.safetensors",
     "both \"model.layers.1.mlp.experts.0.gate_proj.weight\" and "
     "\"model.layers.1.mlp.experts.gate_up_proj\""},
    {alone_and_fused,
     {"F32", "F32", true, 1, 0},
     "model.safetensors",
     "both \"model.layers.1.mlp.experts.0.down_proj.weight\""},
    {fused_of_fewer,
     {"F32", "F32", true, 1, 0},
     "model.safetensors",
     "experts.down_proj\" has shape [3, 131, 128]: expected [4, 131, 128]"},
};

static void check_refused(const char *folder, const pl_model_config_t *config,
                          const char *file, const char *says)
{
    pl_weights_t *weights = NULL;
    heard_t heard;
    pl_log_t log = log_of(&heard);

    ck_assert_int_eq(pl_weights_open(folder, config, &log, &weights),
                     PL_ERR_INPUT);
    ck_assert_ptr_null(weights);
    ck_assert_int_eq(heard.n_errors, 1);
    ck_assert_msg(strstr(heard.error, file) != NULL, "%s", heard.error);
    ck_assert_msg(strstr(heard.error, says) != NULL, "%s", heard.error);
    ck_assert_msg(strstr(heard.error, "expected ") != NULL, "%s", heard.error);
}

START_TEST(bad_checkpoints_are_refused)
{
    pl_model_config_t config = odd_config();
    made_t made              = make_tensors(&config, &BAD[_i].form);
    char *folder             = make_folder();

    BAD[_i].spoil(&made);
    write_checkpoint(folder, &made, &BAD[_i].form);
    check_refused(folder, &config, BAD[_i].file, BAD[_i].says);
    free_made(&made);
    remove_folder(folder);
}
END_TEST

/* The up projection's rows begin within a block of scales. */
START_TEST(fused_scales_must_fit)
{
    static const made_form_t FORM = {"F8_E4M3", "F32", true, 1, 0};
    pl_model_config_t config      = odd_config();
    char *folder                  = make_folder();
    made_t made;

    config.expert_width = 96;
    made                = make_tensors(&config, &FORM);
    write_checkpoint(folder, &made, &FORM);
    check_refused(folder, &config, "model.safetensors", "starts at row 96");
    free_made(&made);
    remove_folder(folder);
}
END_TEST

#define SHARD(name) "{\"weight_map\": {\"model.norm.weight\": " name "}}"

static const struct {
    const char *index; /* NULL: none at all */
    const char *file, *says;
} BAD_INDEX[] = {
    {NULL, "", "neither model.safetensors nor model.safetensors.index.json"},
    {"{", "index.json", "not one JSON object"},
    {"{}", "index.json", "\"weight_map\" is null"},
    {"{\"weight_map\": []}", "index.json", "\"weight_map\" is [ ]"},
    {"{\"weight_map\": {}}", "index.json", "\"weight_map\" is { }"},
    {SHARD("7"), "index.json", "lies in 7"},
    {SHARD("\"../model-0.safetensors\""), "index.json", "in the same folder"},
    {SHARD("\"/etc/passwd\""), "index.json", "in the same folder"},
    {SHARD("\"..\""), "index.json", "in the same folder"},
    {SHARD("\"\""), "index.json", "in the same folder"},
    {SHARD("\"model-9.safetensors\""), "model-9.safetensors",
     "No such file or directory"},
    {SHARD("\"cut.safetensors\""), "cut.safetensors", "5 bytes long"},
    /* it is in shard 0 or 1, and the index says otherwise */
    {"{\"weight_map\": {\"nobody\": \"model-0.safetensors\"}}", "index.json",
     "\"nobody\" is not in model-0.safetensors"},
    {"{\"weight_map\": {\"model.embed_tokens.weight\": "
     "\"model-1.safetensors\", \"model.norm.weight\": "
     "\"model-0.safetensors\"}}",
     "index.json", "is not in model-1.safetensors"},
    {"{\"weight_map\": {\"model.embed_tokens.weight\": "
     "\"model-0.safetensors\", \"model.norm.weight\": "
     "\"copy.safetensors\"}}",
     "index.json", "is in both model-0.safetensors and copy.safetensors"},
};

START_TEST(bad_indexes_are_refused)
{
    static const made_form_t FORM = {"F32", "F32", false, 2, 0};
    pl_model_config_t config      = odd_config();
    made_t made                   = make_tensors(&config, &FORM);
    char *folder                  = make_folder();
    size_t n_bytes;
    char path[4096];
    char *shard;

    write_checkpoint(folder, &made, &FORM);
    shard = read_whole(path_in(folder, "model-0.safetensors", path), &n_bytes);
    write_file(folder, "copy.safetensors", shard, n_bytes);
    write_file(folder, "cut.safetensors", shard, 5);
    free(shard);
    if (BAD_INDEX[_i].index != NULL) {
        write_file(folder, "model.safetensors.index.json", BAD_INDEX[_i].index,
                   strlen(BAD_INDEX[_i].index));
    } else {
        ck_assert_int_eq(
            unlink(path_in(folder, "model.safetensors.index.json", path)), 0);
    }
    check_refused(folder, &config, BAD_INDEX[_i].file, BAD_INDEX[_i].says);
    free_made(&made);
    remove_folder(folder);
}
END_TEST

/* A shipped file, cut as a broken download is. */
START_TEST(a_cut_checkpoint_is_refused)
{
    pl_model_config_t config = must_read(GLM_TINY);
    char *folder             = make_folder();
    size_t n_bytes;
    char *whole   = read_whole(GLM_TINY "/model.safetensors", &n_bytes);
    size_t cuts[] = {0, 7, 8, 100, n_bytes / 2, n_bytes - 1};

    for (size_t i = 0; i < sizeof(cuts) / sizeof(*cuts); i++) {
        pl_weights_t *weights = NULL;
        heard_t heard;
        pl_log_t log = log_of(&heard);

        write_file(folder, "model.safetensors", whole, cuts[i]);
        ck_assert_int_eq(pl_weights_open(folder, &config, &log, &weights),
                         PL_ERR_INPUT);
        ck_assert_int_eq(heard.n_errors, 1);
        ck_assert_ptr_nonnull(strstr(heard.error, "model.safetensors: "));
    }
    free(whole);
    remove_folder(folder);
}
END_TEST

/* Another model's config. */
START_TEST(a_config_that_does_not_belong)
{
    pl_model_config_t config = must_read(GLM_TINY);

    config.hidden = 65;
    check_refused(GLM_TINY, &config, "model.safetensors",
                  "\"model.embed_tokens.weight\" has shape [512, 64]: expected "
                  "[512, 65]");
    config          = must_read(GLM_TINY);
    config.n_layers = 5;
    check_refused(GLM_TINY, &config, "model.safetensors",
                  "\"model.layers.4.input_layernorm.weight\" is missing");
}
END_TEST

/* ---- random ---- */

typedef struct moments {
    double n, mean, square, largest;
    pl_tensor_kind_t kind;
} moments_t;

static pl_status_t add_moments(void *context, const pl_tensor_place_t *place)
{
    moments_t *moments = context;
    float *row         = calloc((size_t)place->cols, sizeof(*row));
    double scale       = sqrt((double)place->cols);

    ck_assert_ptr_nonnull(row);
    ck_assert_int_eq(place->tensor->dtype, PL_F32);
    ck_assert_int_eq(place->tensor->rows, place->rows);
    ck_assert_int_eq(place->tensor->cols, place->cols);
    for (int32_t r = 0; (place->kind == moments->kind) && (r < place->rows);
         r++) {
        pl_tensor_row(place->tensor, r, row);
        for (int32_t c = 0; c < place->cols; c++) {
            double x = (double)row[c];

            x = place->kind == PL_TENSOR_MATRIX ? x * scale : x;
            moments->n++;
            moments->mean += x;
            moments->square += x * x;
            moments->largest = fmax(moments->largest, fabs(x));
        }
    }
    free(row);
    return PL_OK;
}

static const struct {
    pl_tensor_kind_t kind;
    double mean, deviation;
} KINDS[] = {
    {PL_TENSOR_MATRIX, 0, 1.3},      {PL_TENSOR_EMBED, 0, 1},
    {PL_TENSOR_NORM, 1, 0.2},        {PL_TENSOR_NORM_BIAS, 0, 0.2},
    {PL_TENSOR_ROUTER_BIAS, 0, 0.1},
};

START_TEST(random_weights_are_spread)
{
    pl_model_config_t config = odd_config();
    pl_weights_t *weights    = NULL;
    moments_t moments        = {.kind = KINDS[_i].kind};
    double deviation;

    config.index_dim    = 900; /* enough of every kind */
    config.n_experts    = 900;
    config.vocab_size   = 900;
    config.expert_width = 3;
    ck_assert_int_eq(pl_weights_random(&config, 7, NULL, &weights), PL_OK);
    ck_assert_int_eq(pl_weights_each(&config, weights, add_moments, &moments),
                     PL_OK);
    ck_assert(moments.n > 1000);
    moments.mean /= moments.n;
    deviation = sqrt(moments.square / moments.n - moments.mean * moments.mean);
    /* five standard errors */
    ck_assert_double_eq_tol(moments.mean, KINDS[_i].mean,
                            5 * KINDS[_i].deviation / sqrt(moments.n));
    ck_assert_double_eq_tol(deviation, KINDS[_i].deviation,
                            5 * KINDS[_i].deviation / sqrt(2 * moments.n));
    ck_assert(moments.largest <=
              fabs(KINDS[_i].mean) + 6 * KINDS[_i].deviation);
    ck_assert(moments.largest >
              fabs(KINDS[_i].mean) + 2.5 * KINDS[_i].deviation);
    pl_weights_close(weights);
}
END_TEST

/* All values of a tensor, one after the other. */
static uint64_t hash_of(const pl_tensor_t *tensor)
{
    return pl_hash64(
        tensor->bytes,
        (size_t)tensor->rows * (size_t)tensor->cols * sizeof(float), 0);
}

/* Values depend on seed, name and place alone: not on the other tensors. */
START_TEST(random_weights_are_by_name)
{
    pl_model_config_t config = odd_config();
    pl_weights_t *a          = NULL;
    pl_weights_t *b          = NULL;
    pl_weights_t *c          = NULL;

    ck_assert_int_eq(pl_weights_random(&config, 1, NULL, &a), PL_OK);
    ck_assert_int_eq(pl_weights_random(&config, 2, NULL, &b), PL_OK);
    config.n_layers   = 2;
    config.vocab_size = 3;
    config.tied       = true;
    ck_assert_int_eq(pl_weights_random(&config, 1, NULL, &c), PL_OK);
    ck_assert_uint_eq(hash_of(&a->layers[1].o), hash_of(&c->layers[1].o));
    ck_assert_uint_eq(hash_of(&a->layers[1].experts[3].up),
                      hash_of(&c->layers[1].experts[3].up));
    ck_assert_mem_eq(a->embed.bytes, c->embed.bytes, 3 * 131 * sizeof(float));
    ck_assert_ptr_eq(c->head.bytes, c->embed.bytes);
    ck_assert_uint_ne(hash_of(&a->layers[1].o), hash_of(&b->layers[1].o));
    ck_assert_uint_ne(hash_of(&a->layers[1].o), hash_of(&a->layers[2].o));
    ck_assert_uint_ne(hash_of(&a->layers[1].experts[3].up),
                      hash_of(&a->layers[1].experts[3].gate));
    ck_assert_uint_ne(hash_of(&a->head), hash_of(&a->embed));
    pl_weights_close(a);
    pl_weights_close(b);
    pl_weights_close(c);
}
END_TEST

/* Written down once: every machine draws these bits. */
START_TEST(random_weights_are_the_same_everywhere)
{
    pl_model_config_t config = odd_config();
    pl_weights_t *weights    = NULL;
    const float *embed;
    const float *norm;

    ck_assert_int_eq(pl_weights_random(&config, 1, NULL, &weights), PL_OK);
    embed = weights->embed.bytes;
    norm  = weights->norm.bytes;
    ck_assert(embed[0] == -0x1.2a11p+0F);
    ck_assert(embed[1] == -0x1.05dfp+0F);
    ck_assert(norm[0] == 0x1.d85cp-1F);
    ck_assert(norm[130] == 0x1.452cccp+0F);
    ck_assert_uint_eq(hash_of(&weights->layers[0].q_b),
                      UINT64_C(0xE5EC35263BF1BF0C));
    pl_weights_close(weights);
}
END_TEST

typedef struct pairs {
    int32_t n;
    const pl_tensor_t *tensors[4096];
} pairs_t;

static pl_status_t take_tensor(void *context, const pl_tensor_place_t *place)
{
    pairs_t *pairs = context;

    ck_assert_int_lt(pairs->n, 4096);
    pairs->tensors[pairs->n++] = place->tensor;
    return PL_OK;
}

/* Weights without bytes have the values of those that have. */
START_TEST(drawn_weights_are_random_weights)
{
    static pairs_t with, without;
    pl_model_config_t config = odd_config();
    pl_weights_t *random     = NULL;
    pl_weights_t *drawn      = NULL;
    float row[4096];

    with.n    = 0;
    without.n = 0;
    ck_assert_int_eq(pl_weights_random(&config, 3, NULL, &random), PL_OK);
    ck_assert_int_eq(pl_weights_drawn(&config, 3, NULL, &drawn), PL_OK);
    ck_assert_int_eq(pl_weights_each(&config, random, take_tensor, &with),
                     PL_OK);
    ck_assert_int_eq(pl_weights_each(&config, drawn, take_tensor, &without),
                     PL_OK);
    for (int32_t i = 0; i < with.n; i++) {
        const pl_tensor_t *want = with.tensors[i];
        const pl_tensor_t *got  = without.tensors[i];
        size_t n                = (size_t)want->cols;

        ck_assert_int_eq(got->dtype, PL_DRAWN);
        ck_assert_ptr_null(got->bytes);
        ck_assert_int_eq(got->rows, want->rows);
        ck_assert_int_eq(got->cols, want->cols);
        ck_assert_int_le(got->cols, 4096);
        for (int32_t r = 0; r < want->rows; r++) {
            pl_tensor_row(got, r, row);
            ck_assert_mem_eq(row, (const float *)want->bytes + (size_t)r * n,
                             n * sizeof(float));
        }
    }
    pl_weights_close(random);
    pl_weights_close(drawn);
}
END_TEST

START_TEST(random_weights_that_do_not_fit)
{
    pl_model_config_t config = odd_config();
    pl_weights_t *weights    = NULL;
    heard_t heard;
    pl_log_t log = log_of(&heard);

    config.hidden     = 1 << 24; /* 2^50 bytes of embeddings */
    config.vocab_size = 1 << 24;
    ck_assert_int_eq(pl_weights_random(&config, 1, &log, &weights),
                     PL_ERR_RESOURCE);
    ck_assert_ptr_null(weights);
    ck_assert_int_eq(heard.n_errors, 1);
    ck_assert_msg(strstr(heard.error, "bytes (") != NULL, "%s", heard.error);
    ck_assert_msg(strstr(heard.error, "are available") != NULL, "%s",
                  heard.error);
}
END_TEST

static TCase *checkpoints(void)
{
    TCase *tcase = tcase_create("checkpoints");

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, shipped_checkpoints);
    tcase_add_test(tcase, a_config_file_names_its_folder);
    tcase_add_test(tcase, shared_checkpoints);
    tcase_add_loop_test(tcase, all_forms_give_the_same, 0,
                        (int)(sizeof(FORMS) / sizeof(*FORMS)));
    tcase_add_test(tcase, a_tied_head_is_the_embedding);
    tcase_add_test(tcase, layers_beyond_are_passed_over);
    tcase_add_test(tcase, no_shared_experts);
    tcase_add_test(tcase, unknown_tensors_are_told_once);
    return tcase;
}

static TCase *bad_ones(void)
{
    TCase *tcase = tcase_create("bad checkpoints");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, bad_checkpoints_are_refused, 0,
                        (int)(sizeof(BAD) / sizeof(*BAD)));
    tcase_add_test(tcase, fused_scales_must_fit);
    tcase_add_loop_test(tcase, bad_indexes_are_refused, 0,
                        (int)(sizeof(BAD_INDEX) / sizeof(*BAD_INDEX)));
    tcase_add_test(tcase, a_cut_checkpoint_is_refused);
    tcase_add_test(tcase, a_config_that_does_not_belong);
    return tcase;
}

static TCase *random_ones(void)
{
    TCase *tcase = tcase_create("random weights");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, random_weights_are_spread, 0,
                        (int)(sizeof(KINDS) / sizeof(*KINDS)));
    tcase_add_test(tcase, random_weights_are_by_name);
    tcase_add_test(tcase, random_weights_are_the_same_everywhere);
    tcase_add_test(tcase, drawn_weights_are_random_weights);
    tcase_add_test(tcase, random_weights_that_do_not_fit);
    return tcase;
}

PL_CHECK_MAIN("weights", checkpoints(), bad_ones(), random_ones())
