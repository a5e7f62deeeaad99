#include "trace/keyed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef PAGELANE_HAS_CRYPTO
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#endif

enum { MOST_BYTES = 4096 };

void pl_key_free(pl_key_t *key)
{
#ifdef PAGELANE_HAS_CRYPTO
    if (key->bytes != NULL) {
        OPENSSL_cleanse(key->bytes, key->n);
    }
#endif
    free(key->bytes);
    key->bytes = NULL;
    key->n     = 0;
}

static pl_status_t bad_key(const char *path, const char *why,
                           const pl_log_t *log)
{
    pl_log(log, PL_LOG_ERROR,
           "option --anonymize %s: %s; expected a file of %d to %d bytes that "
           "nobody can guess, such as head -c 32 /dev/urandom gives",
           path, why, PL_KEY_LEAST_BYTES, MOST_BYTES);
    return PL_ERR_INPUT;
}

static pl_status_t read_file(const char *path, const pl_log_t *log,
                             pl_key_t *key)
{
    FILE *file = fopen(path, "rb");
    size_t n;

    if (file == NULL) {
        return bad_key(path, strerror(errno), log);
    }
    key->bytes = calloc(1, MOST_BYTES + 1);
    if (key->bytes == NULL) {
        (void)fclose(file);
        return PL_ERR_MEMORY;
    }
    n = fread(key->bytes, 1, MOST_BYTES + 1, file);
    if (ferror(file) != 0) {
        pl_status_t status = bad_key(path, strerror(errno), log);

        (void)fclose(file);
        return status;
    }
    (void)fclose(file); /* only read: nothing can be lost */
    key->n = n;
    if (n < PL_KEY_LEAST_BYTES) {
        return bad_key(path, "the key is too short", log);
    }
    return n <= MOST_BYTES ? PL_OK : bad_key(path, "the key is too long", log);
}

pl_status_t pl_key_read(const char *path, const pl_log_t *log, pl_key_t *key)
{
    pl_status_t status;

    memset(key, 0, sizeof(*key));
#ifndef PAGELANE_HAS_CRYPTO
    pl_log(log, PL_LOG_ERROR,
           "option --anonymize: this program was built without OpenSSL, which "
           "hashes the ids; install libssl-dev and build it again");
    return PL_ERR_ARGUMENT;
#endif
    status = read_file(path, log, key);
    if (status != PL_OK) {
        pl_key_free(key);
    }
    return status;
}

#ifdef PAGELANE_HAS_CRYPTO
static void put(unsigned char *bytes, uint64_t value)
{
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(value >> (8 * i));
    }
}

pl_status_t pl_key_hash(const pl_key_t *key, const char *domain, uint64_t a,
                        uint64_t b, uint64_t *hash_p)
{
    unsigned char message[64]          = {0};
    unsigned char mac[EVP_MAX_MD_SIZE] = {0};
    unsigned int n                     = 0;
    uint64_t hash                      = 0;

    put(message, a);
    put(message + 8, b);
    (void)snprintf((char *)message + 16, sizeof(message) - 16, "%s", domain);
    if (HMAC(EVP_sha256(), key->bytes, (int)key->n, message, sizeof(message),
             mac, &n) == NULL) {
        return PL_ERR_MEMORY;
    }
    for (int i = 0; i < 8; i++) {
        hash |= (uint64_t)mac[i] << (8 * i);
    }
    *hash_p = hash & INT64_MAX;
    return PL_OK;
}
#else
pl_status_t pl_key_hash(const pl_key_t *key, const char *domain, uint64_t a,
                        uint64_t b, uint64_t *hash_p)
{
    (void)key;
    (void)domain;
    (void)a;
    (void)b;
    (void)hash_p;
    return PL_ERR_INTERNAL; /* no key was read */
}
#endif
