/* The host's forward pass over memory of a far device (far_device.h): queued on
 * PL_STREAM_COMPUTE, and done when that is waited for.  What fails there, `end`
 * says. */
#ifndef PL_TESTS_FAR_FORWARD_H
#define PL_TESTS_FAR_FORWARD_H

#include "model/transformer.h"

pl_forward_source_t far_forward_source(void);

#endif /* PL_TESTS_FAR_FORWARD_H */
