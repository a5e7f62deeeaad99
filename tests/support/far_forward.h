/* The host's forward pass over memory of a far device (far_device.h): what is
 * queued on PL_STREAM_COMPUTE is done first, as if it were queued behind. */
#ifndef PL_TESTS_FAR_FORWARD_H
#define PL_TESTS_FAR_FORWARD_H

#include "model/transformer.h"

pl_forward_source_t far_forward_source(void);

#endif /* PL_TESTS_FAR_FORWARD_H */
