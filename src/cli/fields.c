#include "cli/fields.h"

#include <inttypes.h>
#include <json.h>
#include <string.h>

void pl_fields_begin_row(pl_fields_t *fields, bool is_first)
{
    if (fields->json) {
        fprintf(fields->file, "%s    {", is_first ? "" : ",\n");
    }
    fields->first = true;
}

void pl_fields_end_row(pl_fields_t *fields)
{
    fprintf(fields->file, "%s", fields->json ? "}" : "\r\n");
}

void pl_fields_begin(pl_fields_t *fields, const char *name)
{
    if (fields->json) {
        fprintf(fields->file, "%s\"%s\": ", fields->first ? "" : ", ", name);
    } else if (!fields->first) {
        fputc(',', fields->file);
    }
    fields->first = false;
}

static void put_csv(FILE *file, const char *text)
{
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fprintf(file, "%s", text);
        return;
    }
    fputc('"', file);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            fputc('"', file);
        }
        fputc(*text, file);
    }
    fputc('"', file);
}

void pl_fields_text(pl_fields_t *fields, const char *text)
{
    if (fields->json) {
        json_object *string = json_object_new_string(text);

        fprintf(fields->file, "%s", json_object_to_json_string(string));
        json_object_put(string);
    } else {
        put_csv(fields->file, text);
    }
}

void pl_fields_integer(pl_fields_t *fields, int64_t value)
{
    fprintf(fields->file, "%" PRId64, value);
}

void pl_fields_real(pl_fields_t *fields, double value)
{
    fprintf(fields->file, "%.6f", value);
}

void pl_fields_nothing(pl_fields_t *fields)
{
    fputs(fields->json ? "null" : "", fields->file);
}
