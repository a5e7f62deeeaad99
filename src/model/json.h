/* model/json.h - JSON files of a checkpoint, and where they lie. */
#ifndef PL_MODEL_JSON_H
#define PL_MODEL_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include <json-c/json_object.h>
#include <json-c/linkhash.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

/* Report "<name>: <what>".  Returns PL_ERR_INPUT. */
pl_status_t pl_model_bad(const pl_log_t *log, const char *name,
                         const char *format, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;

/* One JSON object and nothing else; `name` is for the message.  The caller
 * releases *object_p with json_object_put().  PL_ERR_INPUT (reported),
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_json_parse(const char *name, const char *text,
                                        size_t n_bytes, const pl_log_t *log,
                                        struct json_object **object_p);

/* The same of a file. */
PL_MUST_CHECK pl_status_t pl_json_read(const char *path, const pl_log_t *log,
                                       struct json_object **object_p);

/* The member, borrowed; NULL if there is none or it is null. */
struct json_object *pl_json_find(struct json_object *object, const char *name);

/* Is it this string? */
bool pl_json_is(struct json_object *value, const char *text);

/* `name` in the folder `path`, or beside the file `path`; the caller frees
 * *beside_p.  PL_OK or PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_model_path(const char *path, const char *name,
                                        char **beside_p);

#endif /* PL_MODEL_JSON_H */
