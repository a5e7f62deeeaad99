/* Of what kind each layer is. */
#include <string.h>

#include "model/config_fields.h"

/* A list of one word a layer, `yes` or `no` (NULL: nothing but `yes`), into
 * flags. */
static pl_status_t read_list(const pl_fields_t *fields, const char *field,
                             const char *yes, const char *no, int32_t n,
                             bool *flags, bool *found_p)
{
    struct json_object *list = pl_fields_find(fields, field);

    *found_p = list != NULL;
    if (list == NULL) {
        return PL_OK;
    }
    if (!json_object_is_type(list, json_type_array) ||
        (json_object_array_length(list) != (size_t)n)) {
        return pl_fields_bad(fields, field,
                             "a list of %d items, one for each layer", (int)n);
    }
    for (int32_t i = 0; i < n; i++) {
        struct json_object *item = json_object_array_get_idx(list, (size_t)i);

        flags[i] = pl_json_is(item, yes);
        if (!flags[i] && ((no == NULL) || !pl_json_is(item, no))) {
            return pl_model_bad(
                fields->log, fields->path,
                "\"%s\"[%d] is %.40s: expected \"%s\"%s%s%s", field, (int)i,
                json_object_to_json_string(item), yes,
                no != NULL ? " or \"" : "", no != NULL ? no : "",
                no != NULL ? "\"" : ", nothing else is supported");
        }
    }
    return PL_OK;
}

static pl_status_t read_mlp_layers(const pl_fields_t *fields,
                                   pl_model_config_t *config)
{
    int32_t n_dense = 3; /* Hugging Face's default */
    int32_t every   = 1; /* DeepSeek's own; Hugging Face writes the list */
    bool found      = false;

    PL_TRY(read_list(fields, "mlp_layer_types", "sparse", "dense",
                     config->n_layers, config->sparse_mlp, &found));
    PL_TRY(pl_fields_count(fields, "first_k_dense_replace", 0, INT32_MAX, true,
                           &n_dense));
    PL_TRY(
        pl_fields_count(fields, "moe_layer_freq", 1, INT32_MAX, true, &every));
    for (int32_t i = 0; (i < config->n_layers) && !found; i++) {
        config->sparse_mlp[i] = (i >= n_dense) && (i % every == 0);
    }
    return PL_OK;
}

/* "FSSF...", or the list that indexer_types would be. */
static pl_status_t read_pattern(const pl_fields_t *fields,
                                pl_model_config_t *config, bool *found_p)
{
    struct json_object *pattern = pl_fields_find(fields, "index_topk_pattern");
    const char *letters;

    if (!json_object_is_type(pattern, json_type_string)) {
        return read_list(fields, "index_topk_pattern", "full", "shared",
                         config->n_layers, config->full_indexer, found_p);
    }
    letters = json_object_get_string(pattern);
    if ((strlen(letters) != (size_t)config->n_layers) ||
        (strspn(letters, "FS") != (size_t)config->n_layers)) {
        return pl_fields_bad(fields, "index_topk_pattern",
                             "%d letters F (full) or S (shared), one for each "
                             "layer",
                             (int)config->n_layers);
    }
    for (int32_t i = 0; i < config->n_layers; i++) {
        config->full_indexer[i] = letters[i] == 'F';
    }
    *found_p = true;
    return PL_OK;
}

static pl_status_t read_indexer_layers(const pl_fields_t *fields,
                                       pl_model_config_t *config)
{
    int32_t every  = 1;
    int32_t offset = 2;
    bool found     = false;

    PL_TRY(read_list(fields, "indexer_types", "full", "shared",
                     config->n_layers, config->full_indexer, &found));
    if (!found) {
        PL_TRY(read_pattern(fields, config, &found));
    }
    PL_TRY(
        pl_fields_count(fields, "index_topk_freq", 0, INT32_MAX, true, &every));
    PL_TRY(pl_fields_count(fields, "index_skip_topk_offset", -PL_MAX_LAYERS,
                           PL_MAX_LAYERS, true, &offset));
    every = every > 0 ? every : 1;
    for (int32_t i = 0; (i < config->n_layers) && !found; i++) {
        int32_t past = i - offset + 1;

        config->full_indexer[i] = (past > 0 ? past : 0) % every == 0;
    }
    for (int32_t i = 0; i < config->n_layers; i++) {
        if (!config->full_indexer[i] &&
            ((i == 0) || (config->family == PL_FAMILY_DEEPSEEK_V32))) {
            return pl_model_bad(
                fields->log, fields->path,
                "layer %d shares the selection of an indexer (indexer_types, "
                "index_topk_pattern or index_topk_freq): expected \"full\", "
                "%s",
                (int)i,
                i == 0 ? "there is no layer before it"
                       : "deepseek_v32 has an indexer in every layer");
        }
    }
    return PL_OK;
}

pl_status_t pl_config_read_layers(const pl_fields_t *fields,
                                  pl_model_config_t *config)
{
    bool sparse_attention[PL_MAX_LAYERS];
    bool found = false;

    PL_TRY(read_list(fields, "layer_types", "deepseek_sparse_attention", NULL,
                     config->n_layers, sparse_attention, &found));
    PL_TRY(read_mlp_layers(fields, config));
    return read_indexer_layers(fields, config);
}
