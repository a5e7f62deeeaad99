#include "model/config_fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

struct json_object *pl_fields_find(const pl_fields_t *fields, const char *field)
{
    return pl_json_find(fields->object, field);
}

pl_status_t pl_fields_bad(const pl_fields_t *fields, const char *field,
                          const char *format, ...)
{
    struct json_object *value = pl_fields_find(fields, field);
    char expected[512];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(expected, sizeof(expected), format, arguments);
    va_end(arguments);
    if (value == NULL) {
        return pl_model_bad(fields->log, fields->path,
                            "\"%s%s\" is missing: expected %s", fields->within,
                            field, expected);
    }
    return pl_model_bad(
        fields->log, fields->path, "\"%s%s\" is %.80s: expected %s",
        fields->within, field,
        json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN),
        expected);
}

pl_status_t pl_fields_count(const pl_fields_t *fields, const char *field,
                            int32_t least, int32_t most, bool optional,
                            int32_t *value_p)
{
    struct json_object *value = pl_fields_find(fields, field);
    int64_t number;

    if ((value == NULL) && optional) {
        return PL_OK;
    }
    /* What passes 64 bits comes as the largest of them: too large as well. */
    number = json_object_get_int64(value);
    if (!json_object_is_type(value, json_type_int) || (number < least) ||
        (number > most)) {
        return pl_fields_bad(fields, field, "a whole number from %d to %d",
                             (int)least, (int)most);
    }
    *value_p = (int32_t)number;
    return PL_OK;
}

pl_status_t pl_fields_number(const pl_fields_t *fields, const char *field,
                             double least, bool optional, double *value_p)
{
    struct json_object *value = pl_fields_find(fields, field);
    double number;

    if ((value == NULL) && optional) {
        return PL_OK;
    }
    number = json_object_get_double(value);
    if ((!json_object_is_type(value, json_type_int) &&
         !json_object_is_type(value, json_type_double)) ||
        !isfinite(number) || (number < least) ||
        ((least == 0) && (number == 0))) {
        return pl_fields_bad(fields, field, "a number %s %g",
                             least > 0 ? "from" : "above", least);
    }
    *value_p = number;
    return PL_OK;
}

pl_status_t pl_fields_flag(const pl_fields_t *fields, const char *field,
                           bool *value_p)
{
    struct json_object *value = pl_fields_find(fields, field);

    if (value == NULL) {
        return PL_OK;
    }
    if (!json_object_is_type(value, json_type_boolean)) {
        return pl_fields_bad(fields, field, "true or false");
    }
    *value_p = json_object_get_boolean(value) != 0;
    return PL_OK;
}

pl_status_t pl_fields_only(const pl_fields_t *fields, const char *field,
                           const char *wanted)
{
    struct json_object *value = pl_fields_find(fields, field);

    if ((value == NULL) || pl_json_is(value, wanted)) {
        return PL_OK;
    }
    return pl_fields_bad(fields, field,
                         "\"%s\", nothing else is supported; use another "
                         "model",
                         wanted);
}

pl_status_t pl_fields_only_flag(const pl_fields_t *fields, const char *field,
                                bool wanted)
{
    bool value = wanted;

    PL_TRY(pl_fields_flag(fields, field, &value));
    if (value == wanted) {
        return PL_OK;
    }
    return pl_fields_bad(fields, field,
                         "%s, nothing else is supported; use another model",
                         wanted ? "true" : "false");
}
