/* store/reader_wire.h - what is said between a process and the one that reads a
 * snapshot for it (store/reader.h), over a pair of sockets.
 *
 * A request is one struct; an answer is any number of frames, the last of them
 * WIRE_DONE.  Both ends are the same program on the same machine.  What comes
 * from the reading side is not trusted: sizes are looked at before use.
 */
#ifndef PL_STORE_READER_WIRE_H
#define PL_STORE_READER_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>

enum { PL_WIRE_NAME = 256, PL_WIRE_TEXT = 70000 };

typedef enum pl_wire_ask {
    PL_ASK_HAS,
    PL_ASK_HAS_DATASET,
    PL_ASK_MEMBERS, /* answered by attributes: pl_inside_members */
    PL_ASK_TEXTS,
    PL_ASK_INTEGER,
    PL_ASK_TEXT,
    PL_ASK_ATTRIBUTES,
    PL_ASK_READ
} pl_wire_ask_t;

typedef struct pl_wire_request {
    int32_t ask;  /* pl_wire_ask_t */
    int32_t item; /* pl_item_t */
    uint64_t rows, columns;
    int64_t min, max;
    char path[PL_WIRE_NAME], name[PL_WIRE_NAME];
} pl_wire_request_t;

typedef enum pl_wire_kind {
    PL_WIRE_LOG,       /* number: the level; text */
    PL_WIRE_ATTRIBUTE, /* number: is it one; name and text, NUL between */
    PL_WIRE_STRING,    /* text */
    PL_WIRE_ITEMS,     /* rows, columns; then rows * columns int64 */
    PL_WIRE_TEXTS,     /* rows, columns; then rows texts of so many bytes */
    PL_WIRE_DONE       /* status; number: the answer; rows: see below */
} pl_wire_kind_t;

typedef struct pl_wire_frame {
    int32_t kind;   /* pl_wire_kind_t */
    int32_t status; /* pl_status_t */
    int64_t number;
    uint64_t n_bytes; /* that follow */
    uint64_t rows, columns;
} pl_wire_frame_t;

/* All n bytes or false: the other end is gone, or (seconds > 0) nothing came
 * for so long. */
bool pl_wire_send(int fd, const void *bytes, size_t n);
bool pl_wire_receive(int fd, void *bytes, size_t n, int seconds);

/* The reading side: open `path`, of a sweep only if `any` (the answer is a DONE
 * with the minor version; rows is 1 if it is one), then answer requests until
 * the other end is closed.  Returns to end the process. */
void pl_wire_serve(int fd, const char *path, bool any, pl_log_level_t level);

#endif /* PL_STORE_READER_WIRE_H */
