#include "store/file_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"

typedef enum kind {
    GONE,    /* on the disk by now */
    BYTES,   /* of `file`: `n` from `at` on, and its size */
    MADE,    /* `path` was not there */
    FOLDER,  /* likewise, a folder */
    RENAMED, /* `other` was called `path`; `file`: what was called `other` */
    REMOVED  /* `path` was `file` */
} kind_t;

typedef struct file_id {
    dev_t device;
    ino_t inode;
} file_id_t;

typedef struct note {
    kind_t kind;
    int file; /* index; -1: none */
    uint64_t at, size;
    void *bytes;
    size_t n;
    char *path, *other;
    file_id_t folder;
} note_t;

/* A file that was open for writing; our own descriptor keeps it alive. */
typedef struct known {
    file_id_t id;
    int fd;
} known_t;

struct pl_files_journal {
    pthread_mutex_t mutex;
    PL_ARRAY(known_t) files;
    PL_ARRAY(note_t) notes;
};

pl_status_t pl_files_journal_open(const pl_inject_t *inject,
                                  pl_files_journal_t **journal_p)
{
    pl_files_journal_t *journal = NULL;

    if ((inject != NULL) && inject->rules[PL_INJECT_FILE_LOST].active) {
        journal = calloc(1, sizeof(*journal));
        if (journal == NULL) {
            return PL_ERR_MEMORY;
        }
        (void)pthread_mutex_init(&journal->mutex, NULL);
    }
    *journal_p = journal;
    return PL_OK;
}

static void free_note(note_t *note)
{
    free(note->bytes);
    free(note->path);
    free(note->other);
    *note = (note_t){.kind = GONE, .file = -1};
}

void pl_files_journal_close(pl_files_journal_t *journal)
{
    if (journal == NULL) {
        return;
    }
    for (size_t i = 0; i < journal->notes.n; i++) {
        free_note(&journal->notes.items[i]);
    }
    for (size_t i = 0; i < journal->files.n; i++) {
        (void)close(journal->files.items[i].fd);
    }
    PL_ARRAY_FREE(&journal->notes);
    PL_ARRAY_FREE(&journal->files);
    (void)pthread_mutex_destroy(&journal->mutex);
    free(journal);
}

void pl_journal_hold(pl_files_journal_t *journal)
{
    (void)pthread_mutex_lock(&journal->mutex);
}

void pl_journal_drop(pl_files_journal_t *journal)
{
    (void)pthread_mutex_unlock(&journal->mutex);
}

/* ---- who is who ---- */

static bool same(file_id_t a, file_id_t b)
{
    return (a.device == b.device) && (a.inode == b.inode);
}

static int id_of_path(const char *path, file_id_t *id_p)
{
    struct stat about;

    if (stat(path, &about) != 0) {
        return errno;
    }
    *id_p = (file_id_t){about.st_dev, about.st_ino};
    return 0;
}

static int id_of_folder(const char *path, file_id_t *id_p)
{
    char *copy = strdup(path);
    int failed = copy == NULL ? ENOMEM : id_of_path(dirname(copy), id_p);

    free(copy);
    return failed;
}

/* The index of an open file; -1: it was not opened here. */
static int find(const pl_files_journal_t *journal, int fd)
{
    struct stat about;

    if (fstat(fd, &about) != 0) {
        return -1;
    }
    for (size_t i = 0; i < journal->files.n; i++) {
        if (same(journal->files.items[i].id,
                 (file_id_t){about.st_dev, about.st_ino})) {
            return (int)i;
        }
    }
    return -1;
}

/* Get to know the file of that name; -1 if there is none. */
static int know(pl_files_journal_t *journal, const char *path, int *file_p)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat about;

    *file_p = -1;
    if (fd < 0) {
        return errno == ENOENT ? 0 : errno;
    }
    *file_p = find(journal, fd);
    if ((*file_p >= 0) || (fstat(fd, &about) != 0)) {
        (void)close(fd);
        return 0;
    }
    if (PL_ARRAY_PUSH(&journal->files,
                      ((known_t){{about.st_dev, about.st_ino}, fd})) != PL_OK) {
        (void)close(fd);
        return ENOMEM;
    }
    *file_p = (int)journal->files.n - 1;
    return 0;
}

/* ---- notes ---- */

/* Takes note.bytes over. */
static int add(pl_files_journal_t *journal, note_t note, const char *path,
               const char *other)
{
    int failed = 0;

    if (path != NULL) {
        note.path = strdup(path);
        failed = note.path == NULL ? ENOMEM : id_of_folder(path, &note.folder);
    }
    if ((failed == 0) && (other != NULL)) {
        note.other = strdup(other);
        failed     = note.other == NULL ? ENOMEM : 0;
    }
    if ((failed == 0) && (PL_ARRAY_PUSH(&journal->notes, note) != PL_OK)) {
        failed = ENOMEM;
    }
    if (failed != 0) {
        free_note(&note);
    }
    /* cppcheck-suppress memleak; the journal owns the texts */
    return failed;
}

static int note_bytes(pl_files_journal_t *journal, int file, uint64_t at,
                      uint64_t n)
{
    note_t note = {.kind = BYTES, .file = file, .at = at};
    int fd      = journal->files.items[file].fd;
    struct stat about;

    if (fstat(fd, &about) != 0) {
        return errno;
    }
    note.size = (uint64_t)about.st_size;
    if ((n > 0) && (at < note.size)) {
        note.n     = (size_t)(n < note.size - at ? n : note.size - at);
        note.bytes = malloc(note.n);
        if (note.bytes == NULL) {
            return ENOMEM;
        }
        if (pread(fd, note.bytes, note.n, (off_t)at) != (ssize_t)note.n) {
            free(note.bytes);
            return EIO;
        }
    }
    return add(journal, note, NULL, NULL);
}

int pl_journal_bytes(pl_files_journal_t *journal, int fd, uint64_t at,
                     uint64_t n)
{
    int file = find(journal, fd);

    return file < 0 ? EBADF : note_bytes(journal, file, at, n);
}

int pl_journal_will_open(pl_files_journal_t *journal, const char *path,
                         int flags)
{
    int file   = -1;
    int failed = know(journal, path, &file);

    if ((failed == 0) && (file < 0) && ((flags & O_CREAT) != 0)) {
        return add(journal, (note_t){.kind = MADE, .file = -1}, path, NULL);
    }
    if ((failed == 0) && (file >= 0) && ((flags & O_TRUNC) != 0)) {
        failed = note_bytes(journal, file, 0, UINT64_MAX);
    }
    return failed;
}

int pl_journal_opened(pl_files_journal_t *journal, const char *path, int fd)
{
    int file = find(journal, fd);

    return file >= 0 ? 0 : know(journal, path, &file);
}

int pl_journal_rename(pl_files_journal_t *journal, const char *from,
                      const char *to)
{
    note_t note = {.kind = RENAMED};
    int failed  = know(journal, to, &note.file);

    return failed != 0 ? failed : add(journal, note, from, to);
}

int pl_journal_unlink(pl_files_journal_t *journal, const char *path)
{
    note_t note = {.kind = REMOVED};
    int failed  = know(journal, path, &note.file);

    return (failed != 0) || (note.file < 0) ? failed
                                            : add(journal, note, path, NULL);
}

int pl_journal_mkdir(pl_files_journal_t *journal, const char *path)
{
    return add(journal, (note_t){.kind = FOLDER, .file = -1}, path, NULL);
}

void pl_journal_synced(pl_files_journal_t *journal, int fd)
{
    int file = find(journal, fd);

    for (size_t i = 0; i < journal->notes.n; i++) {
        note_t *note = &journal->notes.items[i];

        if ((note->kind == BYTES) && (note->file == file)) {
            free_note(note);
        }
    }
}

void pl_journal_synced_folder(pl_files_journal_t *journal, const char *folder)
{
    file_id_t id = {0};

    if (id_of_path(folder, &id) != 0) {
        return;
    }
    for (size_t i = 0; i < journal->notes.n; i++) {
        note_t *note = &journal->notes.items[i];

        if ((note->path != NULL) && same(note->folder, id)) {
            free_note(note);
        }
    }
}

/* ---- taking back ---- */

static void restore_bytes(const pl_files_journal_t *journal, const note_t *note)
{
    int fd = journal->files.items[note->file].fd;

    if (note->n > 0) {
        (void)!pwrite(fd, note->bytes, note->n, (off_t)note->at);
    }
    (void)!ftruncate(fd, (off_t)note->size);
}

/* A file that has lost its name: its bytes under that name again. */
static void restore_file(const pl_files_journal_t *journal, int file,
                         const char *path)
{
    char block[65536];
    int to   = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    off_t at = 0;
    ssize_t n;

    while ((to >= 0) && ((n = pread(journal->files.items[file].fd, block,
                                    sizeof(block), at)) > 0)) {
        (void)!pwrite(to, block, (size_t)n, at);
        at += n;
    }
    if (to >= 0) {
        (void)close(to);
    }
}

static void restore_name(const pl_files_journal_t *journal, const note_t *note)
{
    if (note->kind == MADE) {
        (void)unlink(note->path);
    } else if (note->kind == FOLDER) {
        (void)rmdir(note->path);
    } else if (note->kind == REMOVED) {
        restore_file(journal, note->file, note->path);
    } else if (note->kind == RENAMED) {
        (void)rename(note->other, note->path);
        if (note->file >= 0) {
            restore_file(journal, note->file, note->other);
        }
    }
}

void pl_journal_lose(pl_files_journal_t *journal)
{
    /* Bytes are found by the file, so they can all go before the names. */
    for (size_t i = journal->notes.n; i-- > 0;) {
        if (journal->notes.items[i].kind == BYTES) {
            restore_bytes(journal, &journal->notes.items[i]);
        }
    }
    for (size_t i = journal->notes.n; i-- > 0;) {
        restore_name(journal, &journal->notes.items[i]);
    }
}
