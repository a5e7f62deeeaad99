#include "cli/output_file.h"

#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "store/file.h"

static bool is_same(const char *a, const struct stat *b)
{
    struct stat about;

    return (stat(a, &about) == 0) && (about.st_dev == b->st_dev) &&
           (about.st_ino == b->st_ino);
}

/* Does the verb read that file? */
static bool is_read(const pl_cli_t *cli, const struct stat *about)
{
    const pl_options_t *o = &cli->options;
    const char *files[]   = {o->trace,     o->validate, o->config,
                             o->calibrate, o->hardware, o->model};
    bool found            = false;

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        found |= (files[i] != NULL) && is_same(files[i], about);
    }
    for (size_t i = 0; i < cli->n_words; i++) {
        found |= is_same(cli->words[i], about);
    }
    for (size_t i = 0; i < o->merge.n; i++) {
        found |= is_same(o->merge.items[i], about);
    }
    return found;
}

pl_status_t pl_output_check(const pl_cli_t *cli, const char *option,
                            const char *path)
{
    struct stat about;
    bool read;

    if (stat(path, &about) != 0) {
        return PL_OK; /* writing will tell */
    }
    read = is_read(cli, &about);
    if (read || !S_ISREG(about.st_mode)) {
        pl_log(&cli->log, PL_LOG_ERROR,
               "option --%s %s: it is %s; name another file", option, path,
               read ? "read too" : "no regular file");
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
    PL_TRY(pl_output_check(cli, option, path));
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
