#include "cli/run_files.h"

#include <stdlib.h>

pl_status_t pl_run_files_open(pl_run_files_t *files, const pl_inject_t *inject,
                              int n_ranks, int first, int n)
{
    PL_TRY(pl_files_journal_open(inject, &files->journal));
    files->ranks = calloc((size_t)n_ranks, sizeof(pl_files_t *));
    if (files->ranks == NULL) {
        return PL_ERR_MEMORY;
    }
    files->n_ranks = n_ranks;
    for (int i = first; i < first + n; i++) {
        PL_TRY(pl_files_open(inject, i, files->journal, &files->ranks[i]));
    }
    return PL_OK;
}

void pl_run_files_close(pl_run_files_t *files)
{
    for (int i = 0; i < files->n_ranks; i++) {
        pl_files_close(files->ranks[i]);
    }
    free(files->ranks);
    pl_files_journal_close(files->journal);
    *files = (pl_run_files_t){0};
}
