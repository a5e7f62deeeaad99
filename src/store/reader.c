/* The asking side: nothing of the file gets into this process unseen. */
#include "store/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/h5.h"
#include "store/reader_wire.h"

struct pl_snapshot {
    char *path;
    const pl_log_t *log;
    pid_t child; /* the process that reads; 0: it is gone */
    int fd;      /* to it; -1 */
    int64_t minor;
    bool is_sweep; /* else a snapshot */
};

pl_status_t pl_snapshot_refuse(const pl_snapshot_t *snapshot,
                               const char *object, const char *format, ...)
{
    char why[512];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(why, sizeof(why), format, arguments);
    va_end(arguments);
    pl_log(snapshot->log, PL_LOG_ERROR, "%s: %s: %s", snapshot->path, object,
           why);
    return PL_ERR_INPUT;
}

static pl_status_t no_memory(const pl_snapshot_t *snapshot, const char *object)
{
    pl_log(snapshot->log, PL_LOG_ERROR, "%s: %s: out of memory", snapshot->path,
           object);
    return PL_ERR_MEMORY;
}

/* ---- the process that reads ---- */

/* In the child.  What it says of its own end is for nobody. */
static void read_for_other(int fd, const char *path, bool any,
                           pl_log_level_t level)
{
    static const int SIGNALS[]  = {SIGSEGV, SIGBUS, SIGFPE, SIGILL,
                                   SIGABRT, SIGINT, SIGTERM};
    const struct rlimit no_core = {0, 0};
    int nowhere                 = open("/dev/null", O_RDWR);

    for (size_t i = 0; i < sizeof(SIGNALS) / sizeof(SIGNALS[0]); i++) {
        (void)signal(SIGNALS[i], SIG_DFL);
    }
    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)dup2(nowhere, STDOUT_FILENO);
    (void)dup2(nowhere, STDERR_FILENO);
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    pl_wire_serve(fd, path, any, level);
}

/* No thread of ours is inside HDF5 while its state is copied. */
static pid_t start_child(const pl_snapshot_t *snapshot, bool any, int theirs)
{
    pl_log_level_t level =
        snapshot->log == NULL ? PL_LOG_ERROR : snapshot->log->level;
    pl_h5_quiet_t quiet = pl_h5_quiet();
    pid_t child         = fork();

    if (child == 0) {
        (void)close(snapshot->fd);
        read_for_other(theirs, snapshot->path, any, level);
        (void)raise(SIGKILL); /* without the handlers of a process that ends */
    }
    pl_h5_loud(quiet);
    return child;
}

static pl_status_t start(pl_snapshot_t *snapshot, bool any)
{
    int ends[2] = {-1, -1};
    pid_t child = -1;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0) {
        snapshot->fd = ends[0];
        child        = start_child(snapshot, any, ends[1]);
        (void)close(ends[1]);
    }
    if (child < 0) {
        pl_log(snapshot->log, PL_LOG_ERROR,
               "cannot read %s: no process can be started for it: %s",
               snapshot->path, strerror(errno));
        return PL_ERR_MEMORY;
    }
    snapshot->child = child;
    return PL_OK;
}

/* It has nothing that is worth to be kept. */
static void stop(pl_snapshot_t *snapshot)
{
    if (snapshot->fd >= 0) {
        (void)close(snapshot->fd);
        snapshot->fd = -1;
    }
    if (snapshot->child > 0) {
        (void)kill(snapshot->child, SIGKILL);
        while ((waitpid(snapshot->child, NULL, 0) < 0) && (errno == EINTR)) {
        }
        snapshot->child = 0;
    }
}

/* ---- one question and its answer ---- */

typedef struct reply {
    pl_snapshot_visit_t visit; /* or NULL */
    void *context;
    bool has_said; /* an error, in this call */
    bool no_room;  /* for what comes in */
    pl_status_t visited;
    char *text;                  /* owned */
    pl_snapshot_column_t column; /* owned */
    pl_snapshot_texts_t texts;   /* owned */
    int64_t number;
    uint64_t rows;
    const char *object; /* asked for */
} reply_t;

static pl_status_t broken(pl_snapshot_t *snapshot, const reply_t *reply)
{
    stop(snapshot);
    if (reply->no_room) {
        return no_memory(snapshot, reply->object);
    }
    if (!reply->has_said) {
        (void)pl_snapshot_refuse(
            snapshot, reply->object,
            "cannot be read: it breaks the program that "
            "reads it, or never ends; the file is damaged");
    }
    return PL_ERR_INPUT;
}

/* `text` has n bytes and a NUL behind them. */
static void take_text(const pl_snapshot_t *snapshot,
                      const pl_wire_frame_t *frame, char *text, size_t n,
                      reply_t *reply)
{
    size_t n_name = strlen(text) + 1;

    if (frame->kind == PL_WIRE_LOG) {
        reply->has_said |= frame->number == PL_LOG_ERROR;
        pl_log(snapshot->log, (pl_log_level_t)frame->number, "%s", text);
    } else if (frame->kind == PL_WIRE_STRING) {
        free(reply->text);
        reply->text = strdup(text); /* NULL: pl_snapshot_text tells of it */
    } else if ((reply->visit != NULL) && (reply->visited == PL_OK) &&
               (n_name < n)) {
        reply->visited = reply->visit(reply->context, text, text + n_name,
                                      frame->number != 0);
    }
}

static bool receive_text(const pl_snapshot_t *snapshot,
                         const pl_wire_frame_t *frame, reply_t *reply)
{
    size_t n   = (size_t)frame->n_bytes;
    char *text = n <= 2 * PL_WIRE_TEXT ? calloc(n + 1, 1) : NULL;
    bool good;

    reply->no_room = (text == NULL) && (n <= 2 * PL_WIRE_TEXT);
    good           = (text != NULL) &&
           pl_wire_receive(snapshot->fd, text, n, PL_SNAPSHOT_SECONDS);
    if (good) {
        take_text(snapshot, frame, text, n, reply);
    }
    free(text);
    return good;
}

static bool receive_items(const pl_snapshot_t *snapshot,
                          const pl_wire_frame_t *frame, reply_t *reply)
{
    pl_snapshot_column_t *column = &reply->column;
    size_t n                     = (size_t)frame->n_bytes;

    if ((column->items != NULL) || (frame->columns == 0) ||
        (frame->rows > SIZE_MAX / sizeof(int64_t) / frame->columns) ||
        (frame->rows * frame->columns * sizeof(int64_t) != n)) {
        return false;
    }
    column->rows    = (size_t)frame->rows;
    column->columns = (size_t)frame->columns;
    column->items   = malloc(n > 0 ? n : 1);
    reply->no_room  = column->items == NULL;
    return (column->items != NULL) &&
           pl_wire_receive(snapshot->fd, column->items, n, PL_SNAPSHOT_SECONDS);
}

static bool receive_texts(const pl_snapshot_t *snapshot,
                          const pl_wire_frame_t *frame, reply_t *reply)
{
    size_t n                   = (size_t)frame->rows;
    size_t width               = (size_t)frame->columns;
    pl_snapshot_texts_t *texts = &reply->texts;

    if ((texts->bytes != NULL) || (n == 0) || (width == 0) ||
        (width > PL_SNAPSHOT_TEXT_BYTES) || (n > SIZE_MAX / (width + 1)) ||
        (frame->n_bytes != n * width)) {
        return false;
    }
    texts->bytes   = calloc(n, width + 1);
    texts->n       = n;
    texts->stride  = width + 1;
    reply->no_room = texts->bytes == NULL;
    if ((texts->bytes == NULL) ||
        !pl_wire_receive(snapshot->fd, texts->bytes, n * width,
                         PL_SNAPSHOT_SECONDS)) {
        return false;
    }
    /* apart, back to front, so that each gets its NUL */
    for (size_t i = n; i-- > 0;) {
        memmove(texts->bytes + i * texts->stride, texts->bytes + i * width,
                width);
        texts->bytes[i * texts->stride + width] = '\0';
    }
    return true;
}

static bool receive(const pl_snapshot_t *snapshot, const pl_wire_frame_t *frame,
                    reply_t *reply)
{
    switch ((pl_wire_kind_t)frame->kind) {
    case PL_WIRE_ITEMS:
        return receive_items(snapshot, frame, reply);
    case PL_WIRE_TEXTS:
        return receive_texts(snapshot, frame, reply);
    default:
        return receive_text(snapshot, frame, reply);
    }
}

static pl_status_t receive_reply(pl_snapshot_t *snapshot, reply_t *reply)
{
    pl_wire_frame_t frame;

    while (pl_wire_receive(snapshot->fd, &frame, sizeof(frame),
                           PL_SNAPSHOT_SECONDS)) {
        if (frame.kind == PL_WIRE_DONE) {
            reply->number = frame.number;
            reply->rows   = frame.rows;
            return (pl_status_t)frame.status;
        }
        if (!receive(snapshot, &frame, reply)) {
            break;
        }
    }
    return broken(snapshot, reply);
}

static pl_status_t ask(const pl_snapshot_t *asked, pl_wire_request_t request,
                       const char *path, const char *name, reply_t *reply)
{
    /* The reader's state, which is the same snapshot before and after. */
    pl_snapshot_t *snapshot = (pl_snapshot_t *)(uintptr_t)asked;
    pl_status_t status;

    reply->object = path;
    if ((strlen(path) >= PL_WIRE_NAME) || (strlen(name) >= PL_WIRE_NAME)) {
        return pl_snapshot_refuse(snapshot, path, "the name is too long");
    }
    memcpy(request.path, path, strlen(path) + 1);
    memcpy(request.name, name, strlen(name) + 1);
    if ((snapshot->child == 0) ||
        !pl_wire_send(snapshot->fd, &request, sizeof(request))) {
        return broken(snapshot, reply);
    }
    status = receive_reply(snapshot, reply);
    return status == PL_OK ? reply->visited : status;
}

/* ---- what can be asked ---- */

static pl_status_t open_file(const char *path, bool any, const pl_log_t *log,
                             pl_snapshot_t **snapshot_p)
{
    pl_snapshot_t *snapshot = calloc(1, sizeof(*snapshot));
    reply_t reply           = {.object = "/"};
    pl_status_t status;

    if (snapshot != NULL) {
        snapshot->log  = log;
        snapshot->fd   = -1;
        snapshot->path = strdup(path);
    }
    if ((snapshot == NULL) || (snapshot->path == NULL)) {
        free(snapshot);
        pl_log(log, PL_LOG_ERROR, "%s: out of memory", path);
        return PL_ERR_MEMORY;
    }
    PL_TRY_GOTO(status, start(snapshot, any), err_close);
    PL_TRY_GOTO(status, receive_reply(snapshot, &reply), err_close);
    snapshot->minor    = reply.number;
    snapshot->is_sweep = reply.rows != 0;
    *snapshot_p        = snapshot;
    return PL_OK;

err_close:
    pl_snapshot_close(snapshot);
    return status;
}

pl_status_t pl_snapshot_open(const char *path, const pl_log_t *log,
                             pl_snapshot_t **snapshot_p)
{
    return open_file(path, false, log, snapshot_p);
}

pl_status_t pl_snapshot_open_any(const char *path, const pl_log_t *log,
                                 pl_snapshot_t **snapshot_p)
{
    return open_file(path, true, log, snapshot_p);
}

bool pl_snapshot_is_sweep(const pl_snapshot_t *snapshot)
{
    return snapshot->is_sweep;
}

void pl_snapshot_close(pl_snapshot_t *snapshot)
{
    if (snapshot == NULL) {
        return;
    }
    stop(snapshot);
    free(snapshot->path);
    free(snapshot);
}

const char *pl_snapshot_path(const pl_snapshot_t *snapshot)
{
    return snapshot->path;
}

int64_t pl_snapshot_minor(const pl_snapshot_t *snapshot)
{
    return snapshot->minor;
}

static bool has(const pl_snapshot_t *snapshot, const char *path,
                pl_wire_ask_t what)
{
    pl_wire_request_t request = {.ask = (int32_t)what};
    reply_t reply             = {.has_said = true}; /* this one is silent */

    return (ask(snapshot, request, path, "", &reply) == PL_OK) &&
           (reply.number != 0);
}

bool pl_snapshot_has(const pl_snapshot_t *snapshot, const char *path)
{
    return has(snapshot, path, PL_ASK_HAS);
}

bool pl_snapshot_has_dataset(const pl_snapshot_t *snapshot, const char *path)
{
    return has(snapshot, path, PL_ASK_HAS_DATASET);
}

pl_status_t pl_snapshot_integer(const pl_snapshot_t *snapshot,
                                const char *group, const char *name,
                                int64_t min, int64_t max, int64_t *value_p)
{
    pl_wire_request_t request = {.ask = PL_ASK_INTEGER, .min = min, .max = max};
    reply_t reply             = {0};

    PL_TRY(ask(snapshot, request, group, name, &reply));
    *value_p = reply.number;
    return PL_OK;
}

pl_status_t pl_snapshot_text(const pl_snapshot_t *snapshot, const char *group,
                             const char *name, char **text_p)
{
    pl_wire_request_t request = {.ask = PL_ASK_TEXT};
    reply_t reply             = {0};
    pl_status_t status        = ask(snapshot, request, group, name, &reply);

    if ((status == PL_OK) && (reply.text == NULL)) {
        status = no_memory(snapshot, group);
    }
    if (status != PL_OK) {
        free(reply.text);
        return status;
    }
    *text_p = reply.text;
    return PL_OK;
}

pl_status_t pl_snapshot_attributes(const pl_snapshot_t *snapshot,
                                   const char *group, pl_snapshot_visit_t visit,
                                   void *context)
{
    pl_wire_request_t request = {.ask = PL_ASK_ATTRIBUTES};
    reply_t reply             = {.visit = visit, .context = context};

    return ask(snapshot, request, group, "", &reply);
}

/* ---- members and texts ---- */

typedef struct members {
    pl_snapshot_member_visit_t visit;
    void *context;
} members_t;

static pl_status_t take_member(void *context, const char *name,
                               const char *text, bool is_dataset)
{
    const members_t *members    = context;
    pl_snapshot_member_t member = {.name = name, .is_group = !is_dataset};
    int item                    = 0;

    if (is_dataset && ((sscanf(text, "%d %zu", &item, &member.columns) != 2) ||
                       (item < 0) || (item > PL_ITEM_TEXT))) {
        return PL_ERR_INPUT;
    }
    member.item = (pl_item_t)item;
    return members->visit(members->context, &member);
}

pl_status_t pl_snapshot_members(const pl_snapshot_t *snapshot,
                                const char *group,
                                pl_snapshot_member_visit_t visit, void *context)
{
    members_t members         = {visit, context};
    pl_wire_request_t request = {.ask = PL_ASK_MEMBERS};
    reply_t reply             = {.visit = take_member, .context = &members};

    return ask(snapshot, request, group, "", &reply);
}

pl_status_t pl_snapshot_read_texts(const pl_snapshot_t *snapshot,
                                   const char *path, size_t rows,
                                   pl_snapshot_texts_t *texts_p)
{
    pl_wire_request_t request = {.ask = PL_ASK_TEXTS, .rows = rows};
    reply_t reply             = {0};
    pl_status_t status        = ask(snapshot, request, path, "", &reply);

    if ((status == PL_OK) && (reply.texts.bytes == NULL)) {
        status = no_memory(snapshot, path);
    }
    if (status != PL_OK) {
        pl_snapshot_texts_free(&reply.texts);
        return status;
    }
    *texts_p = reply.texts;
    return PL_OK;
}

void pl_snapshot_texts_free(pl_snapshot_texts_t *texts)
{
    free(texts->bytes);
    *texts = (pl_snapshot_texts_t){0};
}

/* ---- columns ---- */

pl_status_t pl_snapshot_read(const pl_snapshot_t *snapshot, const char *path,
                             pl_item_t item, size_t rows, size_t columns,
                             pl_snapshot_column_t *column_p)
{
    pl_wire_request_t request = {.ask     = PL_ASK_READ,
                                 .item    = (int32_t)item,
                                 .rows    = rows,
                                 .columns = columns};
    reply_t reply             = {0};
    pl_status_t status        = ask(snapshot, request, path, "", &reply);

    if ((status == PL_OK) && (reply.column.items == NULL)) {
        status = no_memory(snapshot, path);
    }
    if (status != PL_OK) {
        pl_snapshot_column_free(&reply.column);
        return status;
    }
    *column_p = reply.column;
    return PL_OK;
}

pl_status_t pl_snapshot_read_offsets(const pl_snapshot_t *snapshot,
                                     const char *path, size_t n, size_t n_items,
                                     pl_snapshot_column_t *column_p)
{
    pl_snapshot_column_t column = {0};
    const char *why             = NULL;

    PL_TRY(pl_snapshot_read(snapshot, path, PL_ITEM_I64, n + 1, 0, &column));
    if (column.items == NULL) {
        return no_memory(snapshot, path);
    }
    if (column.items[0] != 0) {
        why = "does not begin at 0";
    }
    for (size_t i = 0; (why == NULL) && (i < n); i++) {
        if (column.items[i] > column.items[i + 1]) {
            why = "falls";
        }
    }
    if ((why == NULL) && (column.items[n] != (int64_t)n_items)) {
        why = "does not end where its items end";
    }
    if (why != NULL) {
        pl_snapshot_column_free(&column);
        return pl_snapshot_refuse(snapshot, path, "%s", why);
    }
    *column_p = column;
    return PL_OK;
}

void pl_snapshot_column_free(pl_snapshot_column_t *column)
{
    free(column->items);
    *column = (pl_snapshot_column_t){0};
}

/* ---- nodes ---- */

/* Which of the ids it is; n: none of them. */
static size_t find_id(const int64_t *ids, size_t n, int64_t id)
{
    size_t low  = 0;
    size_t high = n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (ids[middle] < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return (low < n) && (ids[low] == id) ? low : n;
}

/* Up from each node until the root, or what an earlier way has come by: walk[i]
 * is the way (1 ..) that came by node i first.  Returns the node at which a way
 * meets itself; n: none. */
static size_t find_cycle(const size_t *parents, size_t n, size_t *walk)
{
    for (size_t i = 0; i < n; i++) {
        size_t at = i;

        while ((at < n) && (walk[at] == 0)) {
            walk[at] = i + 1;
            at       = parents[at];
        }
        if ((at < n) && (walk[at] == i + 1)) {
            return at;
        }
    }
    return n;
}

static pl_status_t check_parents(const pl_snapshot_t *snapshot,
                                 const char *object, const int64_t *ids,
                                 const int64_t *parents, size_t n,
                                 size_t *places)
{
    size_t cycle;

    for (size_t i = 0; i < n; i++) {
        places[i] = parents[i] == 0 ? n : find_id(ids, n, parents[i]);
        if ((parents[i] != 0) && (places[i] == n)) {
            return pl_snapshot_refuse(snapshot, object,
                                      "node %" PRId64 " lies below %" PRId64
                                      ", which is no node",
                                      ids[i], parents[i]);
        }
    }
    cycle = find_cycle(places, n, places + n);
    return cycle == n ? PL_OK
                      : pl_snapshot_refuse(snapshot, object,
                                           "node %" PRId64 " lies below itself",
                                           ids[cycle]);
}

pl_status_t pl_snapshot_check_tree(const pl_snapshot_t *snapshot,
                                   const char *object, const int64_t *ids,
                                   const int64_t *parents, size_t n)
{
    size_t *places;
    pl_status_t status;

    for (size_t i = 0; i < n; i++) {
        if (ids[i] <= (i == 0 ? 0 : ids[i - 1])) {
            return pl_snapshot_refuse(snapshot, object,
                                      "the ids of the nodes do not ascend: "
                                      "%" PRId64 " is one of them",
                                      ids[i]);
        }
    }
    places = calloc(2 * n + 1, sizeof(*places)); /* and the ways */
    if (places == NULL) {
        return no_memory(snapshot, object);
    }
    status = check_parents(snapshot, object, ids, parents, n, places);
    free(places);
    return status;
}
