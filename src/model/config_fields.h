/* model/config_fields.h - the fields of one JSON object of a config, each
 * checked; for config.c and config_rope.c.
 *
 * Whatever is wrong is reported with file, field, what was found and what is
 * possible, and is PL_ERR_INPUT.  null is absent; an absent field leaves
 * *value_p alone where `optional`, else that is an error.
 */
#ifndef PL_MODEL_CONFIG_FIELDS_H
#define PL_MODEL_CONFIG_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "model/config.h"
#include "model/json.h"

typedef struct pl_fields {
    const char *path;
    const char *within; /* "" or "rope_parameters." and the like */
    const pl_log_t *log;
    struct json_object *object;
} pl_fields_t;

/* Report "<path>: "<field>" is <what it is>: expected <expected>". */
pl_status_t pl_fields_bad(const pl_fields_t *fields, const char *field,
                          const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

struct json_object *pl_fields_find(const pl_fields_t *fields,
                                   const char *field);

/* A whole number least .. most. */
pl_status_t pl_fields_count(const pl_fields_t *fields, const char *field,
                            int32_t least, int32_t most, bool optional,
                            int32_t *value_p);
/* A finite number from `least` (above it, if least is 0). */
pl_status_t pl_fields_number(const pl_fields_t *fields, const char *field,
                             double least, bool optional, double *value_p);
pl_status_t pl_fields_flag(const pl_fields_t *fields, const char *field,
                           bool *value_p);
/* If the field is there, it must be this string; this flag. */
pl_status_t pl_fields_only(const pl_fields_t *fields, const char *field,
                           const char *wanted);
pl_status_t pl_fields_only_flag(const pl_fields_t *fields, const char *field,
                                bool wanted);

/* config_rope.c: rope_parameters, or rope_scaling and rope_theta. */
pl_status_t pl_config_read_rope(const pl_fields_t *config, pl_rope_t *rope_p);

/* config_layers.c: sparse_mlp and full_indexer; needs family and n_layers. */
pl_status_t pl_config_read_layers(const pl_fields_t *fields,
                                  pl_model_config_t *config);

#endif /* PL_MODEL_CONFIG_FIELDS_H */
