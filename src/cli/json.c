#include "cli/json.h"

#include <inttypes.h>
#include <stdio.h>

/* `value` goes to the object, or away. */
static void add(json_object *object, const char *key, json_object *value)
{
    if ((object == NULL) || (json_object_object_add(object, key, value) != 0)) {
        json_object_put(value);
    }
}

void pl_json_integer(json_object *object, const char *key, int64_t value)
{
    add(object, key, json_object_new_int64(value));
}

void pl_json_real(json_object *object, const char *key, double value)
{
    char text[352]; /* of the longest double */

    (void)snprintf(text, sizeof(text), "%.6f", value);
    add(object, key, json_object_new_double_s(value, text));
}

void pl_json_text(json_object *object, const char *key, const char *text)
{
    add(object, key, json_object_new_string(text));
}

void pl_json_digest(json_object *object, const char *key, uint64_t digest)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%016" PRIx64, digest);
    pl_json_text(object, key, text);
}

json_object *pl_json_integers(const int64_t *items, size_t n)
{
    json_object *array = json_object_new_array();

    for (size_t i = 0; (array != NULL) && (i < n); i++) {
        json_object_array_add(array, json_object_new_int64(items[i]));
    }
    return array;
}

pl_status_t pl_json_print(json_object *object, FILE *file)
{
    const char *text = json_object_to_json_string_ext(
        object, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED);
    pl_status_t status =
        (object == NULL) || (text == NULL) ? PL_ERR_MEMORY : PL_OK;

    if ((status == PL_OK) && (fprintf(file, "%s\n", text) < 0)) {
        status = PL_ERR_IO;
    }
    json_object_put(object);
    return status;
}
