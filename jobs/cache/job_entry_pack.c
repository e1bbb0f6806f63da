/* Packs small documents with a copy of a zlib stream that has read the dictionary already. */
#include "jobs/cache/job_entry_pack.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/embed.h"
#include "base/gzip.h"
#include "jobs/cache/job_entry.h"

/* The preset dictionary of deflate: typical stored Frameworks, the most frequent parts last.  It
 * halves the size.  Packed texts live in memory only, so the dictionary may change at any time. */
EMBED(dictionary, "jobs/dictionary.txt");

enum {
	WINDOW = 15,      /* bits */
	LARGE = 64 << 10, /* bytes; from this size on, speed matters more */
};

static void pack_begin(z_stream *z, int level, int window, int memory)
{
	struct span d = EMBEDDED(dictionary);
	/* Cannot fail: the arguments are valid, and gzip_allocate() aborts. */
	if (deflateInit2(z, level, Z_DEFLATED, -window, memory, Z_DEFAULT_STRATEGY) != Z_OK ||
	    deflateSetDictionary(z, (const unsigned char *)d.p, (unsigned)d.n) != Z_OK)
		abort();
}

/* Begins to compress a text that is not large: copies a stream that has read the dictionary, which
 * takes less time than reading it again.  The stream takes 100 KiB. */
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
		ready = gzip_stream(SPAN(""), NULL, 0);
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
	z_stream z = gzip_stream(text, out->p + out->n, room);
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

bool job_entry_unpack(struct span packed, size_t n, struct arena *a, struct span *text)
{
	struct span words = EMBEDDED(dictionary);
	return gzip_inflate(packed, &words, n, a, text);
}

bool job_entry_status(const struct job_entry *c, struct arena *a, struct span *status)
{
	*status = SPAN("");
	return c->doc.n && (!c->status.n || job_entry_unpack(c->status, c->status_size, a, status));
}

bool job_entry_doc(const struct job_entry *c, struct arena *a, struct span *doc)
{
	struct span own = c->doc;
	struct span status;
	if (!job_entry_status(c, a, &status) ||
	    (!c->plain && !job_entry_unpack(c->doc, c->doc_size, a, &own)))
		return false;
	if (status.n == 0) {
		*doc = c->plain ? arena_span(a, own) : own;
		return true;
	}
	static const char KEY[] = ",\"status\":";
	char *p = arena_alloc(a, own.n + sizeof(KEY) + status.n);
	char *end = mempcpy(p, own.p, own.n - 1); /* without the brace */
	end = mempcpy(end, KEY, sizeof(KEY) - 1);
	end = mempcpy(end, status.p, status.n);
	*end++ = '}';
	*doc = (struct span){ p, (size_t)(end - p) };
	return true;
}
