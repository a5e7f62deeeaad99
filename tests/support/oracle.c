#include "oracle.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log_capture.h"

#define PATH 4096

/* In this repository, or in PAGELANE_SHARED. */
static const struct {
    const char *root, *name;
} places[ORACLES] = {{PAGELANE_SOURCE "/examples", "glm-tiny"},
                     {PAGELANE_SOURCE "/tests/data", "dsv32-fp8"},
                     {NULL, "dsv32-tiny"},
                     {NULL, "glm-wide"}};

static void folder_of(int i, char *folder)
{
    const char *shared = getenv("PAGELANE_SHARED");

    shared = shared != NULL ? shared : PAGELANE_SHARED_DEFAULT;
    if (places[i].root != NULL) {
        (void)snprintf(folder, PATH, "%s/%s", places[i].root, places[i].name);
    } else {
        (void)snprintf(folder, PATH, "%s/oracle/%s", shared, places[i].name);
    }
}

/* The tokens of one prompt, after its '['. */
static void read_prompt(oracle_t *oracle, FILE *file)
{
    int32_t *tokens = calloc(ORACLE_TOKENS, sizeof(*tokens));
    int32_t n       = 0;
    char after      = '\0';

    ck_assert_int_lt(oracle->n_prompts, ORACLE_PROMPTS);
    do {
        ck_assert_int_lt(n, ORACLE_TOKENS);
        ck_assert_int_eq(fscanf(file, "%" SCNd32 " %c", &tokens[n], &after), 2);
        n++;
    } while (after == ',');
    oracle->prompts[oracle->n_prompts] = tokens;
    oracle->lengths[oracle->n_prompts] = n;
    oracle->n_prompts++;
}

static void read_prompts(oracle_t *oracle, const char *path)
{
    FILE *file = fopen(path, "r");
    char mark  = '\0';

    ck_assert_msg(file != NULL, "no %s", path);
    ck_assert_int_eq(fscanf(file, " { \"prompts\" : ["), 0);
    while ((fscanf(file, " %c", &mark) == 1) && (mark != ']')) {
        if (mark == '[') {
            read_prompt(oracle, file);
        } else {
            ck_assert_int_eq(mark, ',');
        }
    }
    ck_assert_int_gt(oracle->n_prompts, 0);
    (void)fclose(file);
}

oracle_t *oracle_open(int i)
{
    char folder[PATH], path[PATH + 64];
    oracle_t *oracle;
    log_capture_t said;

    folder_of(i, folder);
    (void)snprintf(path, sizeof(path), "%s/config.json", folder);
    if ((places[i].root == NULL) && (access(path, R_OK) != 0)) {
        printf("skipped: no %s; set PAGELANE_SHARED to a folder that has it\n",
               path);
        return NULL;
    }
    oracle = calloc(1, sizeof(*oracle));
    log_capture_open(&said);
    ck_assert_msg(pl_model_config_read(folder, &said.log, &oracle->config) ==
                      PL_OK,
                  "%s", said.text);
    ck_assert_msg(pl_weights_open(folder, &oracle->config, &said.log,
                                  &oracle->weights) == PL_OK,
                  "%s", said.text);
    (void)snprintf(path, sizeof(path), "%s/expected.safetensors", folder);
    ck_assert_msg(pl_safetensors_open(path, &said.log, &oracle->expected) ==
                      PL_OK,
                  "%s", said.text);
    log_capture_close(&said);
    (void)snprintf(path, sizeof(path), "%s/prompts.json", folder);
    read_prompts(oracle, path);
    return oracle;
}

void oracle_close(oracle_t *oracle)
{
    for (int32_t i = 0; i < oracle->n_prompts; i++) {
        free(oracle->prompts[i]);
    }
    pl_safetensors_close(oracle->expected);
    pl_weights_close(oracle->weights);
    free(oracle);
}

const pl_safetensor_t *oracle_find(const oracle_t *oracle, const char *what,
                                   int prompt, int layer)
{
    char name[64];

    if (layer < 0) {
        (void)snprintf(name, sizeof(name), "%s_%d", what, prompt);
    } else {
        (void)snprintf(name, sizeof(name), "%s_%d_%d", what, prompt, layer);
    }
    return pl_safetensors_find(oracle->expected, name);
}
