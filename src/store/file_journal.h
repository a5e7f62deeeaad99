/* store/file_journal.h - what was written and not synced, to be taken back;
 * inside store/file*.c.
 *
 * A disk may lose, when a machine goes down, what was not brought to it:
 *   bytes and sizes of a file since its last sync;
 *   names (made, renamed, removed) since the last sync of their folder.
 * `file=lost` is the worst of it: all of that is lost.
 *
 * Whoever notes something holds the journal (pl_journal_hold) from before the
 * change until it is made.  A note that finds no memory or cannot read what it
 * should keep returns an error number, and the change is not made.
 */
#ifndef PL_STORE_FILE_JOURNAL_H
#define PL_STORE_FILE_JOURNAL_H

#include <stdint.h>

#include "store/file.h"

void pl_journal_hold(pl_files_journal_t *journal);
void pl_journal_drop(pl_files_journal_t *journal);

/* A file will be opened for writing (before), and is (after): from then on its
 * bytes can be noted. */
int pl_journal_will_open(pl_files_journal_t *journal, const char *path,
                         int flags);
int pl_journal_opened(pl_files_journal_t *journal, const char *path, int fd);

/* n bytes from `at` on will change, or the size if n == 0. */
int pl_journal_bytes(pl_files_journal_t *journal, int fd, uint64_t at,
                     uint64_t n);
int pl_journal_rename(pl_files_journal_t *journal, const char *from,
                      const char *to);
int pl_journal_unlink(pl_files_journal_t *journal, const char *path);
int pl_journal_mkdir(pl_files_journal_t *journal, const char *path);

/* The file, or the folder, is on the disk: nothing of it can be lost now. */
void pl_journal_synced(pl_files_journal_t *journal, int fd);
void pl_journal_synced_folder(pl_files_journal_t *journal, const char *folder);

/* Take back all that is noted. */
void pl_journal_lose(pl_files_journal_t *journal);

#endif /* PL_STORE_FILE_JOURNAL_H */
