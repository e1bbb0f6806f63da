/* Any bytes as base64 of gzip, and as gzip: at most so many come out, and what was packed comes out
 * as it was. */
#include <zlib.h>

#include "base/enc.h"
#include "runtime-assets/init/init.h"
#include "tests/fuzz/fuzz.h"

enum { OUT_MAX = 1 << 16, PACKED_MAX = 1 << 20, TEXT_MAX = 2 << 20 };

static int try_base64(struct span text, struct arena *a, struct span *out)
{
	ERR_AUTO e = { 0 };
	size_t before = a->used;
	int failed = gunzip_base64(text, OUT_MAX, a, out, &e);
	assert((failed != 0) == (e.notes.n > 0));
	assert(a->used - before <= OUT_MAX + 8);
	assert(failed || (out->n <= OUT_MAX && out->p[out->n] == '\0'));
	return failed;
}

static int try_gzip(struct span gzip, struct arena *a, struct span *out)
{
	STR_AUTO text = STR_INIT(TEXT_MAX);
	str_base64(&text, gzip);
	return try_base64(str_view(&text), a, out);
}

static void round_trip(struct span text, struct arena *a)
{
	z_stream z = { 0 };
	FREE_AUTO uint8_t *gzip = xmalloc(text.n + 1024);
	FREE_AUTO char *copy = xstrndup(text.p, text.n);
	struct span out;
	int status = deflateInit2(&z, 1, Z_DEFLATED, 15 + 16, 1, Z_DEFAULT_STRATEGY);
	assert(status == Z_OK);
	z.next_in = (Bytef *)copy;
	z.avail_in = (uInt)text.n;
	z.next_out = gzip;
	z.avail_out = (uInt)text.n + 1024;
	status = deflate(&z, Z_FINISH);
	assert(status == Z_STREAM_END);
	int failed = try_gzip((struct span){ (const char *)gzip, z.total_out }, a, &out);
	assert((failed != 0) == (text.n > OUT_MAX));
	assert(failed || span_eq(out, text));
	deflateEnd(&z);
}

FUZZ(text)
{
	ARENA_AUTO a = { 0 };
	struct span out;
	if (text.n > PACKED_MAX)
		return;
	(void)try_base64(text, &a, &out); /* any result: what is asserted stands in it */
	(void)try_gzip(text, &a, &out);
	round_trip(text, &a);
}
