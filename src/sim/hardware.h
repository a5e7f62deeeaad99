/* sim/hardware.h - what a device can do: one JSON object.
 *
 *     {
 *       "name": "H200",
 *       "kind": "gpu",                                    or "cpu"
 *       "note": "...",                                    optional
 *       "devices_per_node": {"value": 8, "source": "..."},
 *       "memory_bytes": {...},
 *       "memory_bandwidth_bytes_per_s": {...},
 *       "bf16_dense_flop_per_s": {...},
 *       "fp8_dense_flop_per_s": {...},                    0: no such unit
 *       "nvlink_bytes_per_s": {...},                      0: no such link
 *       "pcie_bytes_per_s": {...},
 *       "network_bytes_per_s": {...}
 *     }
 *
 * Every number is whole and says where it comes from; one too small for its
 * unit (GB, TFLOP) is refused.  All are of one device; memory is what
 * its driver counts, links are of one direction, rates without sparsity.
 * Other fields are passed over.  datasets/hardware has the files that ship.
 */
#ifndef PL_SIM_HARDWARE_H
#define PL_SIM_HARDWARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

typedef struct pl_hardware {
    char name[64];
    bool is_gpu;
    int64_t devices_per_node;
    int64_t memory_bytes;
    int64_t memory_bandwidth_bytes_per_s;
    int64_t bf16_dense_flop_per_s;
    int64_t fp8_dense_flop_per_s;
    int64_t nvlink_bytes_per_s;
    int64_t pcie_bytes_per_s;
    int64_t network_bytes_per_s;
} pl_hardware_t;

/* A file.  PL_ERR_INPUT names file, field, what was expected and the remedy;
 * PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_hardware_read(const char *path,
                                           const pl_log_t *log,
                                           pl_hardware_t *hardware_p);

/* The same of a text; `name` is for messages. */
PL_MUST_CHECK pl_status_t pl_hardware_parse(const char *name, const char *text,
                                            size_t n_bytes, const pl_log_t *log,
                                            pl_hardware_t *hardware_p);

#endif /* PL_SIM_HARDWARE_H */
