#include "trace/unpack.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <zlib.h>
#ifdef PAGELANE_HAS_ZSTD
#include <zstd.h>
#endif

typedef PL_ARRAY(char) text_t;

enum { STEP = 1 << 16, MOST_WINDOW_BITS = 31 };

static pl_status_t damaged(const pl_trace_source_t *source, const char *by,
                           const char *why)
{
    return pl_trace_bad(source, 0,
                        "packed by %s, and damaged (%s): expected a whole "
                        "file; get it again",
                        by, why);
}

static bool begins_with(const pl_trace_source_t *source, const char *magic,
                        size_t n)
{
    return (source->n_bytes >= n) && (memcmp(source->text, magic, n) == 0);
}

/* A frame of zstd that says nothing, which some packers begin with. */
static bool begins_skippable(const pl_trace_source_t *source)
{
    return (source->n_bytes >= 4) && ((source->text[0] & 0xF0) == 0x50) &&
           (memcmp(source->text + 1, "\x2A\x4D\x18", 3) == 0);
}

/* Is there nothing but zeros, as behind what comes from a tape? */
static bool is_padding(const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != '\0') {
            return false;
        }
    }
    return true;
}

/* Members of a gzip file, one after the other. */
static pl_status_t inflate_all(const pl_trace_source_t *source, z_stream *z,
                               text_t *text)
{
    const char *next = source->text;
    size_t left      = source->n_bytes;
    int code         = Z_OK;

    while ((left > 0) || (z->avail_in > 0)) {
        if (z->avail_in == 0) {
            size_t n = left < INT_MAX ? left : INT_MAX;
            union {
                const char *borrowed;
                Bytef *bytes;
            } in = {next};

            z->next_in  = in.bytes;
            z->avail_in = (uInt)n;
            next += n;
            left -= n;
        }
        PL_TRY(PL_ARRAY_RESERVE(text, text->n + STEP));
        z->next_out  = (Bytef *)text->items + text->n;
        z->avail_out = STEP;
        code         = inflate(z, Z_NO_FLUSH);
        text->n += STEP - z->avail_out;
        if (code == Z_MEM_ERROR) {
            return PL_ERR_MEMORY;
        }
        if ((code != Z_OK) && (code != Z_STREAM_END)) {
            return damaged(source, "gzip", z->msg != NULL ? z->msg : "cut");
        }
        if ((code == Z_STREAM_END) && (inflateReset(z) != Z_OK)) {
            return PL_ERR_INTERNAL;
        }
        if ((code == Z_STREAM_END) &&
            is_padding((const char *)z->next_in, z->avail_in + left)) {
            return PL_OK;
        }
    }
    while (code == Z_OK) { /* what is left inside */
        PL_TRY(PL_ARRAY_RESERVE(text, text->n + STEP));
        z->next_out  = (Bytef *)text->items + text->n;
        z->avail_out = STEP;
        code         = inflate(z, Z_FINISH);
        text->n += STEP - z->avail_out;
        if ((code == Z_BUF_ERROR) && (z->avail_out == 0)) {
            code = Z_OK;
        }
    }
    return code == Z_STREAM_END ? PL_OK : damaged(source, "gzip", "cut");
}

static pl_status_t unpack_gzip(const pl_trace_source_t *source, text_t *text)
{
    z_stream z = {0};
    pl_status_t status;

    if (inflateInit2(&z, 15 + 16) != Z_OK) {
        return PL_ERR_MEMORY;
    }
    status = inflate_all(source, &z, text);
    (void)inflateEnd(&z);
    return status;
}

#ifdef PAGELANE_HAS_ZSTD
static pl_status_t unpack_zstd(const pl_trace_source_t *source, text_t *text)
{
    ZSTD_inBuffer in   = {source->text, source->n_bytes, 0};
    ZSTD_DStream *z    = ZSTD_createDStream();
    pl_status_t status = z != NULL ? PL_OK : PL_ERR_MEMORY;
    size_t left        = 1; /* 0: a frame is whole */

    if ((z != NULL) && /* by --long=31 too */
        ZSTD_isError(
            ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, MOST_WINDOW_BITS))) {
        status = PL_ERR_INTERNAL;
    }
    while (status == PL_OK) {
        ZSTD_outBuffer out = {0};

        status = PL_ARRAY_RESERVE(text, text->n + STEP);
        if (status != PL_OK) {
            break;
        }
        out  = (ZSTD_outBuffer){text->items + text->n, STEP, 0};
        left = ZSTD_decompressStream(z, &out, &in);
        if (ZSTD_isError(left) != 0) {
            status = damaged(source, "zstd", ZSTD_getErrorName(left));
            break;
        }
        text->n += out.pos;
        if ((in.pos == in.size) && (out.pos < out.size)) {
            status = left == 0 ? PL_OK : damaged(source, "zstd", "cut");
            break;
        }
    }
    (void)ZSTD_freeDStream(z);
    return status;
}
#else
static pl_status_t unpack_zstd(const pl_trace_source_t *source, text_t *text)
{
    (void)text;
    return pl_trace_bad(source, 0,
                        "packed by zstd, which this program was built without "
                        "(Debian: libzstd-dev); unpack it with zstd -d");
}
#endif

pl_status_t pl_trace_unpack(pl_trace_source_t *source, char **owned_p)
{
    text_t text        = {0};
    pl_status_t status = PL_OK;

    *owned_p = NULL;
    if (begins_with(source, "\x1F\x8B", 2)) {
        status = unpack_gzip(source, &text);
    } else if (begins_with(source, "\x28\xB5\x2F\xFD", 4) ||
               begins_skippable(source)) {
        status = unpack_zstd(source, &text);
    } else {
        return PL_OK;
    }
    if (status != PL_OK) {
        PL_ARRAY_FREE(&text);
        return status;
    }
    *owned_p        = text.items;
    source->text    = text.items != NULL ? text.items : "";
    source->n_bytes = text.n;
    return PL_OK;
}
