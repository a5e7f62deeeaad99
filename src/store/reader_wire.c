/* The process that reads: it answers until nobody asks any more. */
#include "store/reader_wire.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "store/reader_inside.h"

bool pl_wire_send(int fd, const void *bytes, size_t n)
{
    const char *at = bytes;

    while (n > 0) {
        ssize_t done = send(fd, at, n, MSG_NOSIGNAL);

        if ((done < 0) && (errno == EINTR)) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        at += done;
        n -= (size_t)done;
    }
    return true;
}

bool pl_wire_receive(int fd, void *bytes, size_t n, int seconds)
{
    char *at = bytes;

    while (n > 0) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready          = poll(&wait, 1, seconds > 0 ? seconds * 1000 : -1);
        ssize_t done       = ready > 0 ? recv(fd, at, n, 0) : -1;

        if (((ready < 0) || (ready > 0 && done < 0)) && (errno == EINTR)) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        at += done;
        n -= (size_t)done;
    }
    return true;
}

/* ---- answers ---- */

static void answer(int fd, pl_wire_frame_t frame, const void *bytes)
{
    if (pl_wire_send(fd, &frame, sizeof(frame)) && (frame.n_bytes > 0)) {
        (void)pl_wire_send(fd, bytes, (size_t)frame.n_bytes);
    }
}

static void send_line(void *context, pl_log_level_t level, const char *line)
{
    const int *fd         = context;
    pl_wire_frame_t frame = {
        .kind = PL_WIRE_LOG, .number = level, .n_bytes = strlen(line) + 1};

    answer(*fd, frame, line);
}

static pl_status_t send_attribute(void *context, const char *name,
                                  const char *text, bool is_number)
{
    const int *fd         = context;
    size_t n_name         = strlen(name) + 1;
    size_t n_text         = strlen(text) + 1;
    char *both            = malloc(n_name + n_text);
    pl_wire_frame_t frame = {.kind    = PL_WIRE_ATTRIBUTE,
                             .number  = is_number,
                             .n_bytes = n_name + n_text};

    if (both == NULL) {
        return PL_ERR_MEMORY;
    }
    memcpy(both, name, n_name);
    memcpy(both + n_name, text, n_text);
    answer(*fd, frame, both);
    free(both);
    return PL_OK;
}

static pl_status_t send_text(int fd, const pl_inside_t *inside,
                             const pl_wire_request_t *request)
{
    char *text            = NULL;
    pl_wire_frame_t frame = {.kind = PL_WIRE_STRING};

    PL_TRY(pl_inside_text(inside, request->path, request->name, &text));
    frame.n_bytes = strlen(text) + 1;
    answer(fd, frame, text);
    free(text);
    return PL_OK;
}

static pl_status_t send_items(int fd, const pl_inside_t *inside,
                              const pl_wire_request_t *request)
{
    pl_snapshot_column_t column = {0};
    pl_wire_frame_t frame       = {.kind = PL_WIRE_ITEMS};

    PL_TRY(pl_inside_read(inside, request->path, (pl_item_t)request->item,
                          (size_t)request->rows, (size_t)request->columns,
                          &column));
    frame.rows    = column.rows;
    frame.columns = column.columns;
    frame.n_bytes = column.rows * column.columns * sizeof(*column.items);
    answer(fd, frame, column.items);
    pl_snapshot_column_free(&column);
    return PL_OK;
}

static pl_status_t send_texts(int fd, const pl_inside_t *inside,
                              const pl_wire_request_t *request)
{
    char *bytes           = NULL;
    size_t n              = 0;
    size_t width          = 0;
    pl_wire_frame_t frame = {.kind = PL_WIRE_TEXTS};

    PL_TRY(pl_inside_texts(inside, request->path, (size_t)request->rows, &bytes,
                           &n, &width));
    frame.rows    = n;
    frame.columns = width;
    frame.n_bytes = n * width;
    answer(fd, frame, bytes);
    free(bytes);
    return PL_OK;
}

static pl_status_t answer_request(int fd, const pl_inside_t *inside,
                                  const pl_wire_request_t *request,
                                  int64_t *number_p)
{
    switch ((pl_wire_ask_t)request->ask) {
    case PL_ASK_HAS:
        *number_p = pl_inside_has(inside, request->path, H5I_GROUP);
        return PL_OK;
    case PL_ASK_HAS_DATASET:
        *number_p = pl_inside_has(inside, request->path, H5I_DATASET);
        return PL_OK;
    case PL_ASK_MEMBERS:
        return pl_inside_members(inside, request->path, send_attribute, &fd);
    case PL_ASK_TEXTS:
        return send_texts(fd, inside, request);
    case PL_ASK_INTEGER:
        return pl_inside_integer(inside, request->path, request->name,
                                 request->min, request->max, number_p);
    case PL_ASK_TEXT:
        return send_text(fd, inside, request);
    case PL_ASK_ATTRIBUTES:
        return pl_inside_attributes(inside, request->path, send_attribute, &fd);
    case PL_ASK_READ:
        return send_items(fd, inside, request);
    }
    return PL_ERR_INTERNAL;
}

void pl_wire_serve(int fd, const char *path, bool any, pl_log_level_t level)
{
    pl_log_t log         = {send_line, &fd, level};
    pl_inside_t inside   = {0};
    pl_status_t status   = pl_inside_open(path, any, &log, &inside);
    pl_wire_frame_t done = {.kind   = PL_WIRE_DONE,
                            .status = status,
                            .number = inside.minor,
                            .rows   = inside.is_sweep};
    pl_wire_request_t request;

    answer(fd, done, NULL);
    while ((status == PL_OK) &&
           pl_wire_receive(fd, &request, sizeof(request), 0)) {
        done.number = 0;
        done.status = answer_request(fd, &inside, &request, &done.number);
        answer(fd, done, NULL);
    }
    pl_inside_close(&inside);
}
