#define _GNU_SOURCE /* memfd_create */

#include "device/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"

/* In pl_share_t.handle.  The numbers of processes and files mean something on
 * one machine and in one namespace of processes only, and may be used again:
 * so where it is and which file it is are told as well. */
typedef struct handle {
    uint64_t place; /* place_of_processes() */
    uint64_t inode;
    int32_t fd;
} handle_t;

_Static_assert(sizeof(handle_t) <= sizeof(((pl_share_t *)0)->handle),
               "a handle fits into a share");

/* One number for this boot of this machine and this namespace of processes; 0
 * if it cannot be told. */
static uint64_t place_of_processes(void)
{
    char boot[64] = {0};
    struct stat names;
    int fd    = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, boot, sizeof(boot));

    if (fd >= 0) {
        (void)close(fd);
    }
    if ((n <= 0) || (stat("/proc/self/ns/pid", &names) != 0)) {
        return 0;
    }
    return pl_hash64(boot, (size_t)n, (uint64_t)names.st_ino);
}

/* ---- own ---- */

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) / page * page;
}

pl_status_t pl_shared_make(size_t bytes, pl_shared_t *shared_p)
{
    pl_shared_t shared = {.fd = -1};
    void *base;

    if (bytes > (size_t)PTRDIFF_MAX / 2) {
        errno = ENOMEM;
        return PL_ERR_MEMORY;
    }
    shared.bytes = whole_pages(bytes == 0 ? 1 : bytes);
    shared.fd    = memfd_create("pagelane", MFD_CLOEXEC);
    if (shared.fd < 0) {
        return PL_ERR_MEMORY;
    }
    if (ftruncate(shared.fd, (off_t)shared.bytes) != 0) {
        goto err_close;
    }
    base = mmap(NULL, shared.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                shared.fd, 0);
    if (base == MAP_FAILED) {
        goto err_close;
    }
    shared.base = base;
    *shared_p   = shared;
    return PL_OK;

err_close:
    (void)close(shared.fd); /* errno stays: this fails for no valid one */
    return PL_ERR_MEMORY;
}

void pl_shared_free(pl_shared_t *shared)
{
    if (shared->base == NULL) {
        return;
    }
    (void)munmap(shared->base, shared->bytes);
    if (shared->fd >= 0) {
        (void)close(shared->fd);
    }
    shared->base = NULL;
}

pl_status_t pl_shared_tell(const pl_shared_t *shared, const void *mem,
                           const pl_log_t *log, pl_share_t *share_p)
{
    handle_t handle  = {.place = place_of_processes(), .fd = shared->fd};
    pl_share_t share = {.process = (int64_t)getpid(),
                        .address = (uint64_t)(uintptr_t)mem,
                        .bytes   = shared->bytes};
    struct stat file;

    if (fstat(shared->fd, &file) != 0) {
        pl_log(log, PL_LOG_ERROR, "cannot share memory with other ranks: %s",
               strerror(errno));
        return PL_ERR_DEVICE;
    }
    share.offset = (uint64_t)((const uint8_t *)mem - shared->base);
    handle.inode = (uint64_t)file.st_ino;
    memcpy(share.handle, &handle, sizeof(handle));
    *share_p = share;
    return PL_OK;
}

/* ---- of others ---- */

/* Two processes have one number only in two places. */
bool pl_shared_is_here(const pl_share_t *share)
{
    handle_t handle;

    memcpy(&handle, share->handle, sizeof(handle));
    return (share->process == (int64_t)getpid()) &&
           (handle.place == place_of_processes());
}

/* The file descriptor, or -1 and one line. */
static int open_file(const pl_share_t *share, const pl_log_t *log)
{
    handle_t handle;
    struct stat file;
    char path[64];
    int fd;

    memcpy(&handle, share->handle, sizeof(handle));
    if (handle.place != place_of_processes()) {
        pl_log(log, PL_LOG_ERROR,
               "process %" PRId64 " is on another machine or in another "
               "container, so its memory cannot be read; use --comm mpi",
               share->process);
        return -1;
    }
    (void)snprintf(path, sizeof(path), "/proc/%" PRId64 "/fd/%d",
                   share->process, (int)handle.fd);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        pl_log(log, PL_LOG_ERROR,
               "cannot open the memory of process %" PRId64 " (%s): %s; run "
               "all ranks as one user, or use --comm mpi",
               share->process, path, strerror(errno));
        return -1;
    }
    if ((fstat(fd, &file) != 0) || ((uint64_t)file.st_ino != handle.inode)) {
        pl_log(log, PL_LOG_ERROR,
               "%s is not the memory that process %" PRId64 " shared: it has "
               "ended or freed it",
               path, share->process);
        (void)close(fd);
        return -1;
    }
    return fd;
}

pl_status_t pl_shared_map(const pl_share_t *share, const pl_log_t *log,
                          pl_shared_t *shared_p, void **mem_p)
{
    pl_shared_t shared = {.bytes = (size_t)share->bytes, .fd = -1};
    int fd             = open_file(share, log);
    void *base;

    if (fd < 0) {
        return PL_ERR_DEVICE;
    }
    base = mmap(NULL, shared.bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        pl_log(log, PL_LOG_ERROR,
               "cannot map %zu bytes of process %" PRId64 ": %s", shared.bytes,
               share->process, strerror(errno));
        (void)close(fd);
        return PL_ERR_DEVICE;
    }
    (void)close(fd); /* the mapping stays */
    shared.base = base;
    *shared_p   = shared;
    *mem_p      = shared.base + share->offset;
    return PL_OK;
}

/* ---- what a device has opened ---- */

pl_status_t pl_opened_add(pl_opened_list_t *opened, const pl_share_t *share,
                          const pl_log_t *log, void **mem_p)
{
    pl_opened_t one = {.shared = {.fd = -1}};

    if (PL_ARRAY_RESERVE(opened, opened->n + 1) != PL_OK) {
        pl_log(log, PL_LOG_ERROR, "no memory to open what a peer shares");
        return PL_ERR_MEMORY;
    }
    one.mem = (void *)(uintptr_t)share->address;
    if (!pl_shared_is_here(share)) {
        PL_TRY(pl_shared_map(share, log, &one.shared, &one.mem));
    }
    opened->items[opened->n++] = one;
    *mem_p                     = one.mem;
    return PL_OK;
}

void pl_opened_remove(pl_opened_list_t *opened, const void *mem)
{
    for (size_t i = 0; i < opened->n; i++) {
        if (opened->items[i].mem == mem) {
            pl_shared_free(&opened->items[i].shared);
            opened->items[i] = opened->items[--opened->n];
            return;
        }
    }
}

void pl_opened_free(pl_opened_list_t *opened, const char *device,
                    const pl_log_t *log)
{
    if (opened->n > 0) {
        pl_log(log, PL_LOG_WARN,
               "device %s: %zu allocations of peers were not closed", device,
               opened->n);
    }
    for (size_t i = 0; i < opened->n; i++) {
        pl_shared_free(&opened->items[i].shared);
    }
    PL_ARRAY_FREE(opened);
}
