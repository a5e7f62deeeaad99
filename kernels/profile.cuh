/* kernels/profile.cuh - where the time of a device's streams goes.
 *
 * A mark on a stream says what is queued behind it is; the device's clock is
 * read when the stream comes to it, and nobody waits.  Off until profile_begin
 * of table device/device.h: then a mark is one look at a pointer.
 */
#ifndef PL_KERNELS_PROFILE_CUH
#define PL_KERNELS_PROFILE_CUH

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is queued on the stream of a cuda device from now on is such work.
 * Returns what it was; an error is told by profile_read. */
pl_work_t pl_cuda_mark(pl_device_t *device, pl_stream_t stream, pl_work_t work);

#ifdef __cplusplus
}

/* From here to the end of the scope; then it is again what it was. */
class pl_cuda_timed_t
{
  public:
    pl_cuda_timed_t(pl_device_t *device, pl_stream_t stream, pl_work_t work)
        : device(device), stream(stream),
          before(pl_cuda_mark(device, stream, work))
    {
    }
    ~pl_cuda_timed_t()
    {
        (void)pl_cuda_mark(device, stream, before);
    }
    pl_cuda_timed_t(const pl_cuda_timed_t &)            = delete;
    pl_cuda_timed_t &operator=(const pl_cuda_timed_t &) = delete;

  private:
    pl_device_t *device;
    pl_stream_t stream;
    pl_work_t before;
};
#endif

#endif /* PL_KERNELS_PROFILE_CUH */
