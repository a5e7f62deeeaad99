/* cli/json.h - JSON on stdout, the same bytes every time.
 *
 * Integers are exact; reals have six digits behind the point.  Adding to NULL
 * (out of memory) does nothing; pl_json_print then says so.
 */
#ifndef PL_CLI_JSON_H
#define PL_CLI_JSON_H

#include <json.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <pagelane/status.h>

void pl_json_integer(json_object *object, const char *key, int64_t value);
void pl_json_real(json_object *object, const char *key, double value);
void pl_json_text(json_object *object, const char *key, const char *text);
/* 16 hex digits: a digest. */
void pl_json_digest(json_object *object, const char *key, uint64_t digest);
json_object *pl_json_integers(const int64_t *items, size_t n);

/* Print it to `file` and release it.  PL_OK, PL_ERR_MEMORY, PL_ERR_IO. */
PL_MUST_CHECK pl_status_t pl_json_print(json_object *object, FILE *file);

#endif /* PL_CLI_JSON_H */
