#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#define ZLIB_CONST /* the input of a z_stream */
#include <zlib.h>

#include "base/embed.h"
#include "base/enc.h"
#include "base/json/scan.h"
#include "k8s/cache/cache_internal.h"
#include "k8s/cache/job_entry.h"

/* The preset dictionary of deflate: typical stored Frameworks, the most frequent parts last.  It
 * halves the size.  Packed texts live in memory only, so the dictionary may change at any time. */
EMBED(dictionary, "k8s/dictionary.txt");

enum {
	WINDOW = 15,           /* bits */
	LARGE = 64 << 10,      /* bytes; from this size on, speed matters more */
	RATIO_FROM = 64 << 10, /* bytes */
};

static void *allocate(void *arg, unsigned n, unsigned size)
{
	(void)arg;
	return xmalloc((size_t)n * size); /* a few hundred KiB */
}

static void give_back(void *arg, void *p)
{
	(void)arg;
	free(p);
}

static z_stream job_entry_pack_stream_of(struct span in, char *out, size_t n)
{
	assert(in.n <= UINT32_MAX && n <= UINT32_MAX);
	return (z_stream){
		.zalloc = allocate,
		.zfree = give_back,
		.next_in = (const unsigned char *)in.p,
		.avail_in = (unsigned)in.n,
		.next_out = (unsigned char *)out,
		.avail_out = (unsigned)n,
	};
}

static void pack_begin(z_stream *z, int level, int window, int memory)
{
	struct span d = EMBEDDED(dictionary);
	/* Cannot fail: the arguments are valid, and allocate() aborts. */
	if (deflateInit2(z, level, Z_DEFLATED, -window, memory, Z_DEFAULT_STRATEGY) != Z_OK ||
	    deflateSetDictionary(z, (const unsigned char *)d.p, (unsigned)d.n) != Z_OK)
		abort();
}

/* For texts that are not large.  To copy a stream that has read the dictionary takes less time than
 * to read it again.  The stream takes 100 KiB. */
static void pack_begin_copy(z_stream *z)
{
	enum { LEVEL = 3, WINDOW_SMALL = 14, MEMORY = 6 };
	/* Longer searches than level 3 has, for 3 % fewer bytes. */
	enum { GOOD = 4, LAZY = 16, NICE = 64, CHAIN = 64 };
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static z_stream ready;
	z_stream own = *z;
	(void)pthread_mutex_lock(&lock);
	if (!ready.state) {
		ready = (z_stream){ .zalloc = allocate, .zfree = give_back };
		pack_begin(&ready, LEVEL, WINDOW_SMALL, MEMORY);
		(void)deflateTune(&ready, GOOD, LAZY, NICE, CHAIN); /* cannot fail */
	}
	if (deflateCopy(z, &ready) != Z_OK) /* as above */
		abort();
	(void)pthread_mutex_unlock(&lock);
	z->next_in = own.next_in;
	z->avail_in = own.avail_in;
	z->next_out = own.next_out;
	z->avail_out = own.avail_out;
}

bool job_entry_pack(struct str *out, struct span text)
{
	size_t room = text.n + text.n / 1000 + 64;
	if (room > out->max - out->n)
		room = out->max - out->n;
	if (!str_reserve(out, room))
		return false;
	z_stream z = job_entry_pack_stream_of(text, out->p + out->n, room);
	if (text.n < LARGE)
		pack_begin_copy(&z);
	else
		pack_begin(&z, Z_BEST_SPEED, WINDOW, MAX_MEM_LEVEL - 1);
	bool done = deflate(&z, Z_FINISH) == Z_STREAM_END;
	if (done)
		out->n += z.total_out;
	(void)deflateEnd(&z); /* fails for unfinished streams, which `done` shows */
	return done;
}

/* Inflates all of `packed` to exactly n bytes in the arena. */
static bool inflate_all(struct span packed, int window, size_t n, struct arena *a,
                        struct span *text)
{
	struct span d = EMBEDDED(dictionary);
	char *p = arena_alloc(a, n + 1);
	z_stream z = job_entry_pack_stream_of(packed, p, n);
	if (inflateInit2(&z, window) != Z_OK)
		abort();
	bool ready = window > 0 ||
	             inflateSetDictionary(&z, (const unsigned char *)d.p, (unsigned)d.n) == Z_OK;
	bool done =
	    ready && inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_in == 0 && z.avail_out == 0;
	(void)inflateEnd(&z); /* cannot fail */
	p[n] = '\0';
	if (done)
		*text = (struct span){ p, n };
	return done;
}

bool job_entry_doc(const struct job_entry *c, struct arena *a, struct span *doc)
{
	if (!c->doc.n)
		return false;
	if (!c->plain)
		return inflate_all(c->doc, -WINDOW, c->doc_size, a, doc);
	*doc = arena_span(a, c->doc);
	return true;
}

bool job_entry_gunzip(struct span packed, size_t max, size_t ratio, struct arena *a,
                      struct span *text)
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
	return inflate_all(packed, 16 + WINDOW, n, a, text);
}

bool job_entry_gzip(struct span text, size_t max, struct arena *a, struct span *packed)
{
	char *out = arena_alloc(a, max);
	z_stream z = job_entry_pack_stream_of(text, out, max);
	if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + WINDOW, MAX_MEM_LEVEL,
	                 Z_DEFAULT_STRATEGY) != Z_OK)
		abort();
	bool whole = deflate(&z, Z_FINISH) == Z_STREAM_END;
	*packed = (struct span){ out, z.total_out };
	(void)deflateEnd(&z); /* as above */
	return whole;
}

bool job_entry_inflate_roles(struct span value, struct arena *a, struct span *out)
{
	enum { RATIO = 200, DEPTH = 64 };
	struct span packed;
	struct span text;
	if (!scan_string(value, a, &text) || base64_decode(a, text, &packed) < 0 ||
	    !job_entry_gunzip(packed, JOB_ENTRY_INFLATED_MAX, RATIO, a, &text) ||
	    !scan_valid(text, DEPTH) || scan_type(text) != SCAN_ARRAY)
		return false;
	*out = text;
	return true;
}

bool job_entry_roles(struct span attempt_status, struct arena *a, struct span *out)
{
	enum { PLAIN, COMPRESSED, N };
	static const char *const KEYS[N] = { "taskRoleStatuses", "taskRoleStatusesCompressed" };
	struct span v[N];
	scan_members(attempt_status, KEYS, v, N);
	if (scan_type(v[PLAIN]) > SCAN_NULL) {
		*out = v[PLAIN];
		return scan_type(v[PLAIN]) == SCAN_ARRAY;
	}
	if (scan_type(v[COMPRESSED]) > SCAN_NULL)
		return job_entry_inflate_roles(v[COMPRESSED], a, out);
	*out = (struct span){ NULL, 0 };
	return true;
}
