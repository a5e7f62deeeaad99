/* Checkpoints written at test time: of any form, with values that a test can
 * compute without the code under test. */
#ifndef PL_TESTS_CHECKPOINT_SUPPORT_H
#define PL_TESTS_CHECKPOINT_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>

#include "base/array.h"
#include "model/config.h"
#include "model/weights.h"

/* A log that remembers: how many lines of a level, and the last of each. */
typedef struct heard {
    int n_errors, n_warnings;
    char error[1024], warning[1024];
} heard_t;

pl_log_t log_of(heard_t *heard);

/* A new folder for a test; remove_folder() removes it and its files. */
char *make_folder(void);
void remove_folder(char *folder);
/* "<folder>/<name>" in a buffer of the caller; returns it. */
const char *path_in(const char *folder, const char *name, char path[4096]);
void write_file(const char *folder, const char *name, const void *bytes,
                size_t n_bytes);
/* The whole file, with a final 0; the caller frees it. */
char *read_whole(const char *path, size_t *n_bytes_p);

typedef struct made_tensor {
    char name[160];
    char dtype[12];
    int32_t n_dims;
    int64_t shape[3];
    uint8_t *bytes;
    size_t n_bytes;
    int shard;
} made_tensor_t;

typedef struct made {
    PL_ARRAY(made_tensor_t) tensors;
} made_t;

typedef struct made_form {
    const char *matrix, *vector; /* dtypes */
    bool fused;                  /* experts in one tensor */
    int n_shards;                /* 1: one file; more: with an index */
    size_t shift;                /* bytes that the header is longer */
} made_form_t;

/* Every tensor of the config, in this form. */
made_t make_tensors(const pl_model_config_t *config, const made_form_t *form);
made_tensor_t *find_made(made_t *made, const char *name);
void drop_made(made_t *made, const char *name);
/* Another one, of zero bytes. */
made_tensor_t *add_made(made_t *made, const char *name, const char *dtype,
                        int64_t rows, int64_t cols);
void free_made(made_t *made);

void write_checkpoint(const char *folder, const made_t *made,
                      const made_form_t *form);

/* All weights have the shapes of the config and the values of the form. */
void check_weights(const pl_model_config_t *config, pl_weights_t *weights,
                   const made_form_t *form);

/* A small model of the GLM family with sizes that no block divides. */
pl_model_config_t odd_config(void);

#endif /* PL_TESTS_CHECKPOINT_SUPPORT_H */
