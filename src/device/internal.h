/* device/internal.h - the constructors behind pl_device_open. */
#ifndef PL_DEVICE_INTERNAL_H
#define PL_DEVICE_INTERNAL_H

#include "device/device.h"

typedef pl_status_t (*pl_device_opener_t)(const pl_log_t *log,
                                          pl_device_t **device_p);

PL_MUST_CHECK pl_status_t pl_device_open_cpu(const pl_log_t *log,
                                             pl_device_t **device_p);
PL_MUST_CHECK pl_status_t pl_device_open_guard(const pl_log_t *log,
                                               pl_device_t **device_p);

#endif /* PL_DEVICE_INTERNAL_H */
