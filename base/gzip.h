#pragma once
/*
 * gzip and raw deflate (zlib), whole texts at once.  The memory of zlib is xmalloc's, so that there
 * is no error for want of memory.  Pure.
 *
 *	struct span packed, text;
 *	if (gzip_pack(SPAN("a long text"), 4096, &arena, &packed))
 *		assert(gzip_unpack(packed, 1 << 20, 200, &arena, &text));
 *
 * Thread: any
 */
#define ZLIB_CONST /* the input of a z_stream */
#include <zlib.h>

#include "base/arena.h"
#include "base/str.h"

/* Unpacks one gzip member, in the arena.  false: damaged, more than max bytes, or (from 64 KiB on)
 * more than `ratio` times its compressed size. */
bool gzip_unpack(struct span packed, size_t max, size_t ratio, struct arena *a, struct span *text);
/* The text as one gzip member, in the arena.  false: it would have more than max bytes. */
bool gzip_pack(struct span text, size_t max, struct arena *a, struct span *packed);

/* A stream from `in` to n bytes at out. */
z_stream gzip_stream(struct span in, char *out, size_t n);
/* Inflates all of `packed` to exactly n bytes in the arena: raw deflate with this preset
 * dictionary, or gzip if it is NULL. */
bool gzip_inflate(struct span packed, const struct span *dictionary, size_t n, struct arena *a,
                  struct span *text);
