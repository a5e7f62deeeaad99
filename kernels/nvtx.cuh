/* kernels/nvtx.cuh - ranges that a profiler shows, with PAGELANE_NVTX=1.
 *
 *   pl_nvtx_t range("forward layer", layer);
 *
 * from there to the end of the scope.  Without the variable, or where the tool
 * kit lacks the header, nothing happens.
 */
#ifndef PL_KERNELS_NVTX_CUH
#define PL_KERNELS_NVTX_CUH

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define PL_HAS_NVTX 1
#endif

static inline bool pl_is_set(const char *variable)
{
    const char *value = getenv(variable);

    return (value != nullptr) && (value[0] == '1') && (value[1] == '\0');
}

static inline bool pl_nvtx_is_on(void)
{
    static const bool is_on = pl_is_set("PAGELANE_NVTX");

    return is_on;
}

/* The MoE sort is frequent enough to look like a hang: asked for apart. */
static inline bool pl_nvtx_moe_sort_is_on(void)
{
    static const bool is_on =
        pl_nvtx_is_on() && pl_is_set("PAGELANE_NVTX_MOE_SORT");

    return is_on;
}

class pl_nvtx_t
{
  public:
    /* number < 0: the name alone */
    explicit pl_nvtx_t(const char *name, int64_t number = -1,
                       bool is_wanted = pl_nvtx_is_on())
        : is_open(is_wanted)
    {
        if (is_open) {
            begin(name, number);
        }
    }
    ~pl_nvtx_t()
    {
#ifdef PL_HAS_NVTX
        if (is_open) {
            (void)nvtxRangePop();
        }
#endif
    }
    pl_nvtx_t(const pl_nvtx_t &)            = delete;
    pl_nvtx_t &operator=(const pl_nvtx_t &) = delete;

  private:
    static void begin(const char *name, int64_t number)
    {
#ifdef PL_HAS_NVTX
        char text[64];

        if (number < 0) {
            (void)nvtxRangePushA(name);
            return;
        }
        (void)snprintf(text, sizeof(text), "%s %lld", name, (long long)number);
        (void)nvtxRangePushA(text);
#else
        (void)name;
        (void)number;
#endif
    }

    bool is_open;
};

#endif /* PL_KERNELS_NVTX_CUH */
