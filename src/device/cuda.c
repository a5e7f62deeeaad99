#include "device/cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Why there is no module.  A build without CUDA makes none; what else the
 * loader says names a library that the module needs. */
static void tell_why(char *why, size_t room)
{
    static const char MISSING[] = PL_CUDA_MODULE_FILE ": cannot open";
    const char *error           = dlerror();

    if (strncmp(error, MISSING, strlen(MISSING)) == 0) {
        error = "there is no " PL_CUDA_MODULE_FILE
                " beside the library; build with -DPAGELANE_CUDA=ON";
    }
    (void)snprintf(why, room, "%s", error);
}

const pl_cuda_module_t *pl_cuda_open(char *why, size_t room)
{
    /* Found by the run path of this library; opened twice it is the same. */
    void *file   = dlopen(PL_CUDA_MODULE_FILE, RTLD_NOW | RTLD_LOCAL);
    void *symbol = file != NULL ? dlsym(file, PL_CUDA_MODULE_SYMBOL) : NULL;
    const pl_cuda_module_t *module;
    pl_cuda_module_get_t get;

    if (symbol == NULL) {
        tell_why(why, room);
        return NULL;
    }
    memcpy(&get, &symbol, sizeof(get)); /* ISO C has no cast for it */
    module = get();
    if (module->abi != PL_CUDA_MODULE_ABI) {
        (void)snprintf(why, room,
                       PL_CUDA_MODULE_FILE
                       " is of another version (%u, this program's %u)",
                       (unsigned)module->abi, (unsigned)PL_CUDA_MODULE_ABI);
        return NULL;
    }
    return module;
}

int pl_cuda_gpus(void)
{
    char why[256];
    const pl_cuda_module_t *module = pl_cuda_open(why, sizeof(why));

    return module != NULL ? module->count(why, sizeof(why)) : 0;
}

pl_status_t pl_device_open_cuda(int gpu, const pl_log_t *log,
                                pl_device_t **device_p)
{
    char why[256]                  = "";
    const pl_cuda_module_t *module = pl_cuda_open(why, sizeof(why));

    if ((module == NULL) || (module->count(why, sizeof(why)) == 0)) {
        pl_log(log, PL_LOG_ERROR,
               "device cuda:%d cannot be opened: %s; or use --device cpu", gpu,
               why);
        return PL_ERR_RESOURCE;
    }
    return module->open_device(gpu, log, device_p);
}
