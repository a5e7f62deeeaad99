/* A storage tier whose index or segment is any bytes: read by a run, checked,
 * repaired.  Refused with exactly one line, or pages that are right; after a
 * repair nothing is found.
 *
 * The first byte says which file it is, whether what follows is the whole file
 * or changes to a good one (four bytes of place, one of value), and whether its
 * seal, or its block's digest, is made right again: so that what is behind them
 * is reached, too. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "fuzz.h"
#include "store/check.h"
#include "store/seal.h"
#include "store/segment.h"
#include "store/tier.h"
#include "store/tier_index.h"
#include "support/tier_sample.h"

enum { IS_SEGMENT = 1, IS_WHOLE = 2, IS_SEALED = 4, CHANGE_BYTES = 5 };
enum { SLOTS = 12, PAGES = 8, PREFIXES = 2 };

static const char INDEX[]   = "index.h5";
static const char SEGMENT[] = "set0-rank0-0000.h5";

typedef struct file {
    uint8_t *bytes;
    size_t n;
} file_t;

static char folder[64];
static file_t good_index, good_segment;

static void require(bool law)
{
    if (!law) {
        abort();
    }
}

static void count_errors(void *context, pl_log_level_t level, const char *line)
{
    int *n_errors = context;

    require(strlen(line) > 0);
    *n_errors += level == PL_LOG_ERROR;
}

static void path_of(const char *name, char path[128])
{
    (void)snprintf(path, 128, "%s/%s", folder, name);
}

static void write_file(const char *name, const uint8_t *bytes, size_t n)
{
    char path[128];
    int fd;

    path_of(name, path);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    require(fd >= 0);
    require(write(fd, bytes, n) == (ssize_t)n);
    (void)close(fd);
}

static file_t read_file(const char *name)
{
    char path[128];
    struct stat about;
    file_t file;
    int fd;

    path_of(name, path);
    fd = open(path, O_RDONLY);
    require((fd >= 0) && (fstat(fd, &about) == 0));
    file.n     = (size_t)about.st_size;
    file.bytes = malloc(file.n);
    require(file.bytes != NULL);
    require(read(fd, file.bytes, file.n) == (ssize_t)file.n);
    (void)close(fd);
    return file;
}

/* ---- a good tier, once ---- */

static void remove_folder(void)
{
    static const char *const NAMES[] = {"index.h5", "index.h5.partial",
                                        "set0-rank0-0000.h5", "lock"};

    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        char path[128];

        path_of(NAMES[i], path);
        (void)unlink(path);
    }
    (void)rmdir(folder);
}

static void make_good(void)
{
    tier_sample_t sample;

    (void)strcpy(folder, access("/dev/shm", W_OK) == 0
                             ? "/dev/shm/fuzz-tier-XXXXXX"
                             : "fuzz-tier-XXXXXX");
    require(mkdtemp(folder) != NULL);
    (void)atexit(remove_folder);
    sample = tier_sample_make(folder, 1, SLOTS, NULL);
    require(tier_sample_open(&sample) == PL_OK);
    for (uint64_t i = 0; i < PREFIXES; i++) {
        require(tier_sample_store(&sample, i, 0, PAGES / PREFIXES));
    }
    require(tier_sample_publish(&sample));
    tier_sample_close(&sample);
    good_index   = read_file(INDEX);
    good_segment = read_file(SEGMENT);
}

/* ---- what the input makes of it ---- */

/* The block's last line says a digest of all before. */
static void seal_block(file_t *file)
{
    static const char MARK[] = "xxh3_64 ";
    char digest[17];

    for (size_t i = 0; i + sizeof(MARK) + 16 < file->n; i++) {
        if (memcmp(file->bytes + i, MARK, sizeof(MARK) - 1) == 0) {
            (void)snprintf(digest, sizeof(digest), "%016llx",
                           (unsigned long long)pl_hash64(file->bytes, i, 0));
            memcpy(file->bytes + i + sizeof(MARK) - 1, digest, 16);
            return;
        }
    }
}

static void seal_index(file_t *file)
{
    if (file->n >= PL_SEAL_BYTES) {
        uint64_t n = file->n - PL_SEAL_BYTES;

        pl_seal_text(pl_seal_digest(file->bytes, n), n,
                     (char *)file->bytes + n);
    }
}

static file_t make_file(const uint8_t *data, size_t size, uint8_t mode)
{
    const file_t *good = (mode & IS_SEGMENT) != 0 ? &good_segment : &good_index;
    file_t file        = {NULL, (mode & IS_WHOLE) != 0 ? size : good->n};

    file.bytes = malloc(file.n + 1);
    require(file.bytes != NULL);
    if ((mode & IS_WHOLE) != 0) {
        memcpy(file.bytes, data, size);
    } else {
        memcpy(file.bytes, good->bytes, good->n);
        for (; size >= CHANGE_BYTES; size -= CHANGE_BYTES) {
            uint32_t at = 0;

            memcpy(&at, data, sizeof(at));
            file.bytes[at % file.n] ^= data[4];
            data += CHANGE_BYTES;
        }
    }
    if ((mode & IS_SEALED) != 0) {
        ((mode & IS_SEGMENT) != 0 ? seal_block : seal_index)(&file);
    }
    return file;
}

/* ---- the laws ---- */

/* What a run gets is right or not there. */
static void start_with_it(void)
{
    int n_errors         = 0;
    pl_log_t log         = {count_errors, &n_errors, PL_LOG_WARN};
    tier_sample_t sample = tier_sample_make(folder, 1, SLOTS, &log);
    pl_status_t status;

    sample.read_only = true;
    status           = tier_sample_open(&sample);
    require(n_errors == (status == PL_OK ? 0 : 1));
    if (status == PL_OK) {
        require(tier_sample_fetch_all(&sample, PREFIXES) >= 0);
        tier_sample_close(&sample);
    }
}

static void check_it(void)
{
    int n_errors = 0;
    pl_log_t log = {count_errors, &n_errors, PL_LOG_WARN};
    pl_check_report_t report;
    int64_t good;

    if (pl_check(folder, true, &log, &report) != PL_OK) {
        require(n_errors == 1);
        return;
    }
    require(n_errors == 0);
    good = report.good;
    require(pl_check(folder, false, &log, &report) == PL_OK);
    require((pl_check_total(&report) == 0) && (report.good == good) &&
            (report.pages == good));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    file_t file;

    if (size == 0) {
        return 0;
    }
    if (good_index.bytes == NULL) {
        make_good();
    }
    file = make_file(data + 1, size - 1, data[0]);
    if ((data[0] & IS_SEGMENT) != 0) {
        write_file(INDEX, good_index.bytes, good_index.n);
        write_file(SEGMENT, file.bytes, file.n);
    } else {
        write_file(INDEX, file.bytes, file.n);
        write_file(SEGMENT, good_segment.bytes, good_segment.n);
    }
    free(file.bytes);
    start_with_it();
    check_it();
    return 0;
}
