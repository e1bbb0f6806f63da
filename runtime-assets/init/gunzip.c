/*
 * Bounded inflation: what a few kilobytes of gzip become is not known before, and may be more than
 * the memory of the node.  gzip says at its end how long the whole is.  That much memory is
 * taken, if it is within the bound, and not a byte more written; zlib checks that it was true.
 */
#define ZLIB_CONST
#include <zlib.h>

#include "base/enc.h"
#include "runtime-assets/files.h"
#include "runtime-assets/init/framework.h"

enum { GZIP_SHORTEST = 18, GZIP_WINDOW = 15 + 16 /* largest window, gzip only */ };

static size_t little_endian32(const char *p)
{
	const unsigned char *b = (const unsigned char *)p;
	return b[0] | (size_t)b[1] << 8 | (size_t)b[2] << 16 | (size_t)b[3] << 24;
}

static int inflate_whole(struct span gzip, char *out, size_t n, struct err *e)
{
	z_stream z = {
		.next_in = (const Bytef *)gzip.p,
		.avail_in = (uInt)gzip.n,
		.next_out = (Bytef *)out,
		.avail_out = (uInt)n,
	};
	if (inflateInit2(&z, GZIP_WINDOW) != Z_OK)
		return err_set(e, FAILED, "zlib does not start");
	int status = inflate(&z, Z_FINISH);
	bool whole = status == Z_STREAM_END && z.avail_in == 0 && z.avail_out == 0;
	(void)inflateEnd(&z); /* frees; there is nothing to do about a failure */
	return whole ? 0 : err_set(e, FAILED, "is damaged: no whole gzip of one part");
}

int gunzip_base64(struct span text, size_t max, struct arena *a, struct span *out, struct err *e)
{
	ARENA_AUTO packed = { 0 };
	struct span gzip;
	if (text.n > FRAMEWORK_MAX)
		return err_set(e, FAILED, "is longer than %d bytes", FRAMEWORK_MAX);
	if (base64_decode(&packed, text, &gzip) < 0)
		return err_set(e, FAILED, "is no base64");
	if (gzip.n < GZIP_SHORTEST)
		return err_set(e, FAILED, "is too short for gzip");
	size_t n = little_endian32(gzip.p + gzip.n - 4);
	if (n > max)
		return err_set(e, FAILED, "becomes %zu bytes when inflated; at most %zu are taken",
		               n, max);
	char *p = arena_alloc(a, n + 1);
	if (inflate_whole(gzip, p, n, e) < 0)
		return -1;
	p[n] = '\0';
	*out = (struct span){ p, n };
	return 0;
}
