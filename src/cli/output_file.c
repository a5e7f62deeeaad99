#include "cli/output_file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "store/file.h"

/* What is read must not be written over, nor what is no file. */
static pl_status_t check(const pl_cli_t *cli, const char *option,
                         const char *path)
{
    struct stat in, out;
    bool is_read = false;

    if (stat(path, &out) != 0) {
        return PL_OK; /* writing will tell */
    }
    for (size_t i = 0; i < cli->n_words; i++) {
        is_read |= (stat(cli->words[i], &in) == 0) &&
                   (in.st_dev == out.st_dev) && (in.st_ino == out.st_ino);
    }
    if (is_read || !S_ISREG(out.st_mode)) {
        pl_log(&cli->log, PL_LOG_ERROR,
               "option --%s %s: it is %s; name another file", option, path,
               is_read ? "read too" : "no regular file");
        return PL_ERR_ARGUMENT;
    }
    return PL_OK;
}

pl_status_t pl_output_publish(const pl_log_t *log, const char *path,
                              const char *bytes, size_t n)
{
    char *partial = NULL;
    pl_status_t status;

    PL_TRY(pl_file_partial(path, log, &partial));
    status = pl_file_write(partial, bytes, n, NULL, 0, log);
    if (status == PL_OK) {
        status = pl_file_sync(partial, log);
    }
    if (status == PL_OK) {
        status = pl_file_publish(partial, path, log);
    }
    if (status != PL_OK) {
        pl_file_discard(partial);
    }
    free(partial);
    return status;
}

pl_status_t pl_output_write(const pl_cli_t *cli, const char *option,
                            const char *path, pl_output_put_t put,
                            void *context)
{
    char *bytes = NULL;
    size_t n    = 0;
    pl_status_t status;
    FILE *file;
    bool whole;

    if (path == NULL) {
        return put(context, stdout);
    }
    PL_TRY(check(cli, option, path));
    file = open_memstream(&bytes, &n);
    if (file == NULL) {
        return PL_ERR_MEMORY;
    }
    status = put(context, file);
    whole  = (fflush(file) == 0) && !ferror(file);
    whole  = (fclose(file) == 0) && whole;
    if (!whole && ((status == PL_OK) || (status == PL_ERR_IO))) {
        pl_log(&cli->log, PL_LOG_ERROR, "%s: out of memory", path);
        status = PL_ERR_MEMORY;
    }
    if (status == PL_OK) {
        status = pl_output_publish(&cli->log, path, bytes, n);
    }
    free(bytes);
    return status;
}
