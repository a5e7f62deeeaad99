/* Rope parameters, in the form of today (rope_parameters) or of yesterday
 * (rope_scaling, with rope_theta beside it). */
#include <math.h>

#include "model/config_fields.h"

/* Hugging Face's yarn: how much longer contexts sharpen attention. */
static double mscale_of(double factor, double mscale)
{
    return factor > 1 ? 0.1 * mscale * log(factor) + 1 : 1;
}

/* A number from 0 upwards; 0 means the same as absence. */
static pl_status_t read_mscale(const pl_fields_t *fields, const char *field,
                               double *value_p)
{
    struct json_object *value = pl_fields_find(fields, field);

    if ((value != NULL) && (json_object_get_double(value) == 0) &&
        (json_object_is_type(value, json_type_int) ||
         json_object_is_type(value, json_type_double))) {
        return PL_OK;
    }
    return pl_fields_number(fields, field, 0, true, value_p);
}

static pl_status_t read_yarn(const pl_fields_t *fields, pl_rope_t *rope)
{
    rope->yarn      = true;
    rope->beta_fast = 32;
    rope->beta_slow = 1;
    PL_TRY(pl_fields_number(fields, "factor", 1, false, &rope->factor));
    PL_TRY(pl_fields_number(fields, "beta_fast", 0, true, &rope->beta_fast));
    PL_TRY(pl_fields_number(fields, "beta_slow", 0, true, &rope->beta_slow));
    PL_TRY(read_mscale(fields, "mscale", &rope->mscale));
    PL_TRY(read_mscale(fields, "mscale_all_dim", &rope->mscale_all_dim));
    PL_TRY(pl_fields_count(fields, "original_max_position_embeddings", 1,
                           INT32_MAX, false, &rope->original_positions));
    PL_TRY(pl_fields_only_flag(fields, "truncate", true));
    if (rope->beta_fast < rope->beta_slow) {
        return pl_fields_bad(fields, "beta_fast",
                             "at least beta_slow, which is %g",
                             rope->beta_slow);
    }
    rope->attention_factor =
        (rope->mscale > 0) && (rope->mscale_all_dim > 0)
            ? mscale_of(rope->factor, rope->mscale) /
                  mscale_of(rope->factor, rope->mscale_all_dim)
            : mscale_of(rope->factor, 1);
    return pl_fields_number(fields, "attention_factor", 0, true,
                            &rope->attention_factor);
}

static pl_status_t read_type(const pl_fields_t *fields, bool *is_yarn_p)
{
    const char *field =
        pl_fields_find(fields, "rope_type") != NULL ? "rope_type" : "type";
    struct json_object *type = pl_fields_find(fields, field);

    *is_yarn_p = pl_json_is(type, "yarn");
    if ((type == NULL) || *is_yarn_p || pl_json_is(type, "default")) {
        return PL_OK;
    }
    return pl_fields_bad(fields, field,
                         "\"default\" or \"yarn\", nothing else is supported; "
                         "use another model");
}

/* rope_parameters or rope_scaling as `fields`; fields->object is NULL where
 * there is neither. */
static pl_status_t find_object(const pl_fields_t *config, pl_fields_t *fields)
{
    static const char *const FIELDS[] = {"rope_parameters", "rope_scaling"};
    static const char *const WITHIN[] = {"rope_parameters.", "rope_scaling."};

    *fields        = *config;
    fields->object = NULL;
    for (size_t i = 0; i < 2; i++) {
        struct json_object *object = pl_fields_find(config, FIELDS[i]);

        if (object == NULL) {
            continue;
        }
        if (fields->object != NULL) {
            return pl_fields_bad(config, FIELDS[i],
                                 "either this or \"%s\"; remove one",
                                 FIELDS[1 - i]);
        }
        if (!json_object_is_type(object, json_type_object)) {
            return pl_fields_bad(config, FIELDS[i],
                                 "an object with \"rope_type\"");
        }
        fields->within = WITHIN[i];
        fields->object = object;
    }
    return PL_OK;
}

pl_status_t pl_config_read_rope(const pl_fields_t *config, pl_rope_t *rope_p)
{
    const pl_fields_t *of_theta = config;
    pl_rope_t rope              = {.attention_factor = 1};
    double partial              = 1;
    bool is_yarn                = false;
    pl_fields_t fields;

    PL_TRY(find_object(config, &fields));
    if ((fields.object != NULL) &&
        (pl_fields_find(&fields, "rope_theta") != NULL)) {
        of_theta = &fields;
    }
    PL_TRY(pl_fields_number(of_theta, "rope_theta", 0, false, &rope.theta));
    if (rope.theta <= 1) {
        return pl_fields_bad(of_theta, "rope_theta", "a number above 1");
    }
    if (fields.object != NULL) {
        PL_TRY(read_type(&fields, &is_yarn));
        PL_TRY(pl_fields_number(&fields, "partial_rotary_factor", 0, true,
                                &partial));
    }
    if (partial != 1) {
        return pl_fields_bad(&fields, "partial_rotary_factor",
                             "1, nothing else is supported");
    }
    if (is_yarn) {
        PL_TRY(read_yarn(&fields, &rope));
    }
    *rope_p = rope;
    return PL_OK;
}
