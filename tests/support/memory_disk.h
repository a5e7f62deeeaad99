/* A storage tier without a disk: doors to pages in memory, for tests of who
 * goes through them.  Bytes move when they are waited for: as late as they may.
 */
#ifndef PL_TESTS_MEMORY_DISK_H
#define PL_TESTS_MEMORY_DISK_H

#include "cache/storage_table.h"

typedef struct memory_disk memory_disk_t;

memory_disk_t *memory_disk_make(void);
void memory_disk_free(memory_disk_t *disk);
pl_storage_opener_t memory_disk_opener(memory_disk_t *disk);

int memory_disk_pages(memory_disk_t *disk);
int memory_disk_publications(memory_disk_t *disk);

/* What the last publication named, for a run that starts with it in a new set;
 * entries are the disk's. */
pl_storage_start_t memory_disk_start(memory_disk_t *disk);
/* Requests that it said were finished. */
int memory_disk_finished(memory_disk_t *disk);

/* Flip a bit of byte `at` of what lies there; aborts if nothing does. */
void memory_disk_flip(memory_disk_t *disk, pl_storage_place_t place, size_t at);
/* Nothing is there any more. */
void memory_disk_lose(memory_disk_t *disk, pl_storage_place_t place);
/* It cannot be read for now, or can be again. */
void memory_disk_hide(memory_disk_t *disk, pl_storage_place_t place,
                      bool hidden);
/* From now on: -1 no rank, else this rank cannot write, or its writes fail. */
void memory_disk_refuse(memory_disk_t *disk, int rank);
void memory_disk_break(memory_disk_t *disk, int rank);

#endif /* PL_TESTS_MEMORY_DISK_H */
