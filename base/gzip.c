#include "base/gzip.h"

#include <assert.h>
#include <stdlib.h>

enum { WINDOW = 15 /* bits */, GZIP = 16 /* zlib: with the head of gzip */ };
enum { RATIO_FROM = 64 << 10 /* bytes */ };

static void *gzip_allocate(void *arg, unsigned n, unsigned size)
{
	(void)arg;
	return xmalloc((size_t)n * size); /* a few hundred KiB */
}

static void gzip_free(void *arg, void *p)
{
	(void)arg;
	free(p);
}

z_stream gzip_stream(struct span in, char *out, size_t n)
{
	assert(in.n <= UINT32_MAX && n <= UINT32_MAX);
	return (z_stream){
		.zalloc = gzip_allocate,
		.zfree = gzip_free,
		.next_in = (const unsigned char *)in.p,
		.avail_in = (unsigned)in.n,
		.next_out = (unsigned char *)out,
		.avail_out = (unsigned)n,
	};
}

bool gzip_inflate(struct span packed, const struct span *dictionary, size_t n, struct arena *a,
                  struct span *text)
{
	char *p = arena_alloc(a, n + 1);
	z_stream z = gzip_stream(packed, p, n);
	if (inflateInit2(&z, dictionary ? -WINDOW : GZIP + WINDOW) != Z_OK)
		abort();
	bool ready = !dictionary || inflateSetDictionary(&z, (const unsigned char *)dictionary->p,
	                                                 (unsigned)dictionary->n) == Z_OK;
	bool done =
	    ready && inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_in == 0 && z.avail_out == 0;
	(void)inflateEnd(&z); /* cannot fail */
	p[n] = '\0';
	if (done)
		*text = (struct span){ p, n };
	return done;
}

bool gzip_unpack(struct span packed, size_t max, size_t ratio, struct arena *a, struct span *text)
{
	enum { TRAILER = 4, SMALLEST = 18 };
	if (packed.n < SMALLEST || packed.n > UINT32_MAX)
		return false;
	/* The trailer's ISIZE: the last four bytes, little-endian. */
	size_t n = 0;
	for (size_t i = TRAILER; i > 0; i--)
		n = n << 8 | (unsigned char)packed.p[packed.n - TRAILER + i - 1];
	if (n > max || (n > RATIO_FROM && n / ratio > packed.n))
		return false;
	return gzip_inflate(packed, NULL, n, a, text);
}

bool gzip_pack(struct span text, size_t max, struct arena *a, struct span *packed)
{
	char *out = arena_alloc(a, max);
	z_stream z = gzip_stream(text, out, max);
	if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, GZIP + WINDOW, MAX_MEM_LEVEL,
	                 Z_DEFAULT_STRATEGY) != Z_OK)
		abort();
	bool whole = deflate(&z, Z_FINISH) == Z_STREAM_END;
	*packed = (struct span){ out, z.total_out };
	(void)deflateEnd(&z); /* fails for unfinished streams, which `whole` shows */
	return whole;
}
