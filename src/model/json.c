#include "model/json.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <json-c/json_tokener.h>
#include <json-c/json_util.h>

#include "base/array.h"
#include "base/text.h"

pl_status_t pl_model_bad(const pl_log_t *log, const char *name,
                         const char *format, ...)
{
    char what[768];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    pl_log(log, PL_LOG_ERROR, "%s: %s", name, what);
    return PL_ERR_INPUT;
}

static size_t without_space_at_end(const char *text, size_t n_bytes)
{
    while ((n_bytes > 0) && (text[n_bytes - 1] != '\0') &&
           (strchr(" \t\r\n", text[n_bytes - 1]) != NULL)) {
        n_bytes--;
    }
    return n_bytes;
}

pl_status_t pl_json_parse(const char *name, const char *text, size_t n_bytes,
                          const pl_log_t *log, struct json_object **object_p)
{
    struct json_tokener *tokener = json_tokener_new();
    struct json_object *object;
    enum json_tokener_error error;
    size_t at;

    if (tokener == NULL) {
        return PL_ERR_MEMORY;
    }
    n_bytes = without_space_at_end(text, n_bytes);
    n_bytes = n_bytes < INT_MAX ? n_bytes : INT_MAX;
    json_tokener_set_flags(tokener,
                           JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    object = json_tokener_parse_ex(tokener, text, (int)n_bytes);
    error  = json_tokener_get_error(tokener);
    at     = json_tokener_get_parse_end(tokener);
    json_tokener_free(tokener);
    if ((error == json_tokener_success) && (at == n_bytes) &&
        json_object_is_type(object, json_type_object)) {
        *object_p = object;
        return PL_OK;
    }
    json_object_put(object);
    return pl_model_bad(
        log, name,
        "not one JSON object (byte %zu of %zu: %s): expected {...}; restore "
        "the file",
        at + 1, n_bytes,
        error == json_tokener_continue  ? "it ends within"
        : error != json_tokener_success ? json_tokener_error_desc(error)
                                        : "another value");
}

static pl_status_t cannot_read(const char *path, const pl_log_t *log, int error)
{
    return pl_model_bad(log, path,
                        "cannot be read (%s): expected a JSON file; check the "
                        "path and the download",
                        strerror(error));
}

pl_status_t pl_json_read(const char *path, const pl_log_t *log,
                         struct json_object **object_p)
{
    PL_ARRAY(char) text = {0};
    pl_status_t status  = PL_OK;
    FILE *file          = fopen(path, "rb");
    size_t got;

    if (file == NULL) {
        return cannot_read(path, log, errno);
    }
    do {
        PL_TRY_GOTO(status, PL_ARRAY_RESERVE(&text, text.n + 65536),
                    out_free_text);
        got = fread(text.items + text.n, 1, text.capacity - text.n, file);
        text.n += got;
    } while (got > 0);
    status = ferror(file) != 0
                 ? cannot_read(path, log, errno)
                 : pl_json_parse(path, text.items, text.n, log, object_p);

out_free_text:
    PL_ARRAY_FREE(&text);
    (void)fclose(file); /* only read: nothing can be lost */
    return status;
}

struct json_object *pl_json_find(struct json_object *object, const char *name)
{
    struct json_object *value = NULL;

    return json_object_object_get_ex(object, name, &value) != 0 ? value : NULL;
}

bool pl_json_is(struct json_object *value, const char *text)
{
    return json_object_is_type(value, json_type_string) &&
           (strcmp(json_object_get_string(value), text) == 0);
}

pl_status_t pl_model_path(const char *path, const char *name, char **beside_p)
{
    const char *slash = strrchr(path, '/');
    pl_text_t text    = {0};
    struct stat info;

    if ((stat(path, &info) != 0) || S_ISDIR(info.st_mode)) {
        pl_text_add(&text, "%s/%s", path, name);
    } else if (slash == NULL) {
        pl_text_add(&text, "%s", name);
    } else {
        pl_text_add(&text, "%.*s/%s", (int)(slash - path), path, name);
    }
    return pl_text_take(&text, beside_p);
}
