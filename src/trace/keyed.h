/* trace/keyed.h - names that cannot be led back without a key: HMAC-SHA-256 of
 * OpenSSL, cut to 63 bits, so that every JSON reader takes them as integers. */
#ifndef PL_TRACE_KEYED_H
#define PL_TRACE_KEYED_H

#include <stddef.h>
#include <stdint.h>

#include <pagelane/log.h>
#include <pagelane/status.h>

/* A shorter key can be tried out. */
#define PL_KEY_LEAST_BYTES 16

typedef struct pl_key {
    unsigned char *bytes; /* NULL: no key */
    size_t n;
} pl_key_t;

/* The whole file is the key.  PL_OK; PL_ERR_INPUT: cannot be read, or is
 * shorter than PL_KEY_LEAST_BYTES; PL_ERR_ARGUMENT: this program was built
 * without OpenSSL; one line in `log`.  PL_ERR_MEMORY. */
PL_MUST_CHECK pl_status_t pl_key_read(const char *path, const pl_log_t *log,
                                      pl_key_t *key);
void pl_key_free(pl_key_t *key);

/* 0 .. 2^63-1 for (domain, a, b): the same key gives the same. */
PL_MUST_CHECK pl_status_t pl_key_hash(const pl_key_t *key, const char *domain,
                                      uint64_t a, uint64_t b, uint64_t *hash_p);

#endif /* PL_TRACE_KEYED_H */
