/* cli/output_file.h - a file that a verb writes whole or not at all. */
#ifndef PL_CLI_OUTPUT_FILE_H
#define PL_CLI_OUTPUT_FILE_H

#include <stdio.h>

#include <pagelane/status.h>

#include "cli/cli.h"

/* Writes a file's bytes; its status is handed on. */
typedef pl_status_t (*pl_output_put_t)(void *context, FILE *file);

/* What is read, the verb's words and what options name, must not be written
 * over, nor what is no file.  PL_ERR_ARGUMENT. */
PL_MUST_CHECK pl_status_t pl_output_check(const pl_cli_t *cli,
                                          const char *option, const char *path);

/* `put` into `path`, which must be a regular file or none, and none that is
 * read; NULL: to stdout.  `option` names it in messages.  PL_OK,
 * PL_ERR_ARGUMENT, PL_ERR_MEMORY, PL_ERR_IO, or what `put` says. */
PL_MUST_CHECK pl_status_t pl_output_write(const pl_cli_t *cli,
                                          const char *option, const char *path,
                                          pl_output_put_t put, void *context);

/* n bytes into `path`: the file is there whole, or as it was before.
 * PL_ERR_MEMORY, PL_ERR_IO. */
PL_MUST_CHECK pl_status_t pl_output_publish(const pl_log_t *log,
                                            const char *path, const char *bytes,
                                            size_t n);

#endif /* PL_CLI_OUTPUT_FILE_H */
