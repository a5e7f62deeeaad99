/* The safetensors reader on any bytes: refused with exactly one line, or
 * tensors that lie within the bytes, side by side. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "model/safetensors_internal.h"

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

static void check_file(const pl_safetensors_t *file, const uint8_t *data,
                       size_t size)
{
    const uint8_t *end = NULL;

    for (size_t i = 0; i < pl_safetensors_count(file); i++) {
        const pl_safetensor_t *tensor = pl_safetensors_at(file, i);
        const uint8_t *bytes          = tensor->bytes;

        require(pl_safetensors_find(file, tensor->name) == tensor);
        require((tensor->n_dims >= 0) && (tensor->n_dims <= 8));
        for (int32_t d = 0; d < tensor->n_dims; d++) {
            require(tensor->shape[d] >= 0);
        }
        require((bytes >= data + 8) && (bytes <= data + size));
        require((end == NULL) || (bytes == end));
        end = bytes + tensor->n_bytes;
        require(end <= data + size);
    }
    require((end == NULL) || (end == data + size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    pl_safetensors_t *file = NULL;
    int n_errors           = 0;
    pl_log_t log           = {count_errors, &n_errors, PL_LOG_WARN};
    pl_status_t status =
        pl_safetensors_open_memory("fuzz", data, size, &log, &file);

    require((status == PL_OK) == (file != NULL));
    require(n_errors == (status == PL_OK ? 0 : 1));
    if (file != NULL) {
        check_file(file, data, size);
    }
    pl_safetensors_close(file);
    return 0;
}
