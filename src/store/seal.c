#include "store/seal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* Digests are taken block by block, so that no file has to fit in memory. */
enum { BLOCK_BYTES = 1 << 20 };

static uint64_t add_block(uint64_t digest, const void *bytes, size_t n)
{
    return pl_fold64(digest, pl_hash64(bytes, n, 0));
}

uint64_t pl_seal_digest(const void *bytes, uint64_t n)
{
    const char *at  = bytes;
    uint64_t digest = 0;

    for (uint64_t first = 0; first < n; first += BLOCK_BYTES) {
        uint64_t left = n - first;

        digest = add_block(digest, at + first,
                           left < BLOCK_BYTES ? (size_t)left : BLOCK_BYTES);
    }
    return digest;
}

void pl_seal_text(uint64_t digest, uint64_t n, char text[PL_SEAL_BYTES])
{
    char line[PL_SEAL_BYTES + 1];

    (void)snprintf(line, sizeof(line),
                   "\npagelane-seal %016" PRIx64 " %020" PRIu64 "%*s\n", digest,
                   n, 11, "");
    memcpy(text, line, PL_SEAL_BYTES);
}

bool pl_seal_is(const char text[PL_SEAL_BYTES])
{
    static const char START[] = "\npagelane-seal ";

    return memcmp(text, START, sizeof(START) - 1) == 0;
}

/* The digest of the next n bytes; false: errno says why there is none. */
static bool digest_of(FILE *file, uint64_t n, uint64_t *digest_p)
{
    void *block     = malloc(BLOCK_BYTES);
    uint64_t digest = 0;

    while ((block != NULL) && (n > 0)) {
        size_t want = n < BLOCK_BYTES ? (size_t)n : BLOCK_BYTES;

        if (fread(block, 1, want, file) != want) {
            break;
        }
        digest = add_block(digest, block, want);
        n -= want;
    }
    if (block == NULL) {
        errno = ENOMEM;
    }
    free(block);
    *digest_p = digest;
    return n == 0;
}

static pl_status_t cannot_read(const pl_log_t *log, const char *path)
{
    pl_status_t status = errno == ENOMEM ? PL_ERR_MEMORY : PL_ERR_INPUT;

    pl_log(log, PL_LOG_ERROR, "cannot read %s: %s", path,
           errno == 0 ? "it ends too soon" : strerror(errno));
    return status;
}

/* Does the text stand behind n bytes?  Then what it says of them. */
static bool is_seal(const char *text, uint64_t n, uint64_t *digest_p)
{
    char again[PL_SEAL_BYTES];
    char line[PL_SEAL_BYTES + 1] = "";

    memcpy(line, text, PL_SEAL_BYTES);
    if (sscanf(line, "\npagelane-seal %16" SCNx64, digest_p) != 1) {
        return false;
    }
    pl_seal_text(*digest_p, n, again);
    return memcmp(again, text, PL_SEAL_BYTES) == 0;
}

bool pl_seal_fits(const char text[PL_SEAL_BYTES], uint64_t n)
{
    uint64_t digest;

    return is_seal(text, n, &digest);
}

/* What the seal says, if there is one. */
typedef struct seal {
    bool is_there;
    uint64_t digest, n; /* of the bytes before */
} seal_t;

static pl_status_t read_seal(FILE *file, const char *path, const pl_log_t *log,
                             seal_t *seal_p)
{
    char text[PL_SEAL_BYTES];
    seal_t seal = {.is_there = false};
    long end;

    errno = 0;
    if ((fseek(file, 0, SEEK_END) != 0) || ((end = ftell(file)) < 0)) {
        return cannot_read(log, path);
    }
    if (end >= PL_SEAL_BYTES) {
        seal.n = (uint64_t)end - PL_SEAL_BYTES;
        if ((fseek(file, (long)seal.n, SEEK_SET) != 0) ||
            (fread(text, 1, PL_SEAL_BYTES, file) != PL_SEAL_BYTES)) {
            return cannot_read(log, path);
        }
        seal.is_there = is_seal(text, seal.n, &seal.digest);
    }
    *seal_p = seal;
    return PL_OK;
}

static pl_status_t check_open(FILE *file, const char *path, const pl_log_t *log)
{
    seal_t seal;
    uint64_t digest;

    PL_TRY(read_seal(file, path, log, &seal));
    if (!seal.is_there) {
        return PL_OK;
    }
    if ((fseek(file, 0, SEEK_SET) != 0) || !digest_of(file, seal.n, &digest)) {
        return cannot_read(log, path);
    }
    if (digest != seal.digest) {
        pl_log(log, PL_LOG_ERROR,
               "%s: its bytes are not those that were written: the file is "
               "damaged; write it anew or take another copy",
               path);
        return PL_ERR_INPUT;
    }
    return PL_OK;
}

pl_status_t pl_seal_check(const char *path, const pl_log_t *log)
{
    FILE *file = fopen(path, "rb");
    pl_status_t status;

    if (file == NULL) {
        return cannot_read(log, path);
    }
    status = check_open(file, path, log);
    (void)fclose(file);
    return status;
}

pl_status_t pl_seal_find(const char *path, const pl_log_t *log,
                         bool *is_there_p)
{
    FILE *file = fopen(path, "rb");
    seal_t seal;
    pl_status_t status;

    if (file == NULL) {
        return cannot_read(log, path);
    }
    status = read_seal(file, path, log, &seal);
    (void)fclose(file);
    if (status == PL_OK) {
        *is_there_p = seal.is_there;
    }
    return status;
}
