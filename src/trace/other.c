#include "trace/other.h"

#include <string.h>

#include <json-c/json_object.h>

/* A file by the bytes that stand in it at `at`. */
typedef struct kind {
    const char *bytes;
    size_t n, at;
    const char *what; /* it is; what to do */
} kind_t;

#define AS_LINES "expected JSON lines or CSV; "
#define UNPACKED "expected a trace as text, or packed by gzip or zstd; "

#define BYTES(literal) (literal), sizeof(literal) - 1

static const kind_t KINDS[] = {
    {BYTES("\xFD"
           "7zXZ"),
     0, "packed by xz: " UNPACKED "unpack it with xz -d"},
    {BYTES("BZh"), 0, "packed by bzip2: " UNPACKED "unpack it with bzip2 -d"},
    {BYTES("PK\x03\x04"), 0,
     "a zip archive: " UNPACKED "take it out with unzip"},
    {BYTES("\x1F\x8B"), 0,
     "packed twice: " UNPACKED "unpack it with gzip -d once"},
    {BYTES("\x28\xB5\x2F\xFD"), 0,
     "packed twice: " UNPACKED "unpack it with zstd -d once"},
    {BYTES("ustar"), 257,
     "a tar archive: " UNPACKED "take the trace out with tar -x"},
    {BYTES("PAR1"), 0,
     "a Parquet file: " AS_LINES "write it as such, as pandas does with "
     "to_json(orient='records', lines=True)"},
    {BYTES("\x89HDF"), 0,
     "an HDF5 file: " AS_LINES "a snapshot of a run is no trace, name the "
     "trace that was run"},
    {BYTES("\xFF\xFE"), 0,
     "text in UTF-16: expected UTF-8; convert it with iconv -f utf-16 -t "
     "utf-8"},
    {BYTES("\xFE\xFF"), 0,
     "text in UTF-16: expected UTF-8; convert it with iconv -f utf-16 -t "
     "utf-8"},
    {BYTES("version https://git-lfs"), 0,
     "a pointer of Git LFS: expected the file itself; get it with git lfs "
     "pull"},
    {BYTES("<"), 0,
     "a web page or XML: " AS_LINES "get the file itself (the raw download)"},
};

/* A field that lines of other formats have. */
typedef struct field {
    const char *name, *what;
    bool is_string; /* only then */
} field_t;

#define TEXT                                                                   \
    "requests as text: expected token counts (\"input_length\", "              \
    "\"output_length\", with \"hash_ids\" or without) or "                     \
    "\"prompt_token_ids\"; count tokens with the model's tokenizer"

static const field_t FIELDS[] = {
    {"schema",
     "a header line: expected requests alone, which say who waits by "
     "\"wait_for\" (the first version of agentic Mooncake rows) or "
     "are sessions with \"requests\"; export it as one of these",
     true},
    {"chat_id",
     "chats without \"hash_ids\": expected them on every line; add "
     "them, or write the lines as CSV",
     false},
    {"text_input", TEXT, true},
    {"messages", TEXT, false},
    {"payload", TEXT, false},
    {"conversations", TEXT, false},
    {"prompt", TEXT, true},
    {"text", TEXT, true},
};

pl_status_t pl_trace_other(const pl_trace_source_t *source,
                           const struct json_object *first)
{
    for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++) {
        const kind_t *kind = &KINDS[i];

        if ((source->n_bytes >= kind->at + kind->n) &&
            (memcmp(source->text + kind->at, kind->bytes, kind->n) == 0)) {
            return pl_trace_bad(source, 0, "%s", kind->what);
        }
    }
    for (size_t i = 0;
         (first != NULL) && (i < sizeof(FIELDS) / sizeof(FIELDS[0])); i++) {
        struct json_object *value = NULL;

        if (json_object_object_get_ex(first, FIELDS[i].name, &value) &&
            (!FIELDS[i].is_string ||
             json_object_is_type(value, json_type_string))) {
            return pl_trace_bad(source, 0, "%s", FIELDS[i].what);
        }
    }
    return PL_OK;
}
