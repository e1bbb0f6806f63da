/* Unpacks an archive piece by piece, and refuses all that code_writer.c would not have written. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/code/code_internal.h"
#include "base/gzip.h"
#include "base/hash.h"

static const char AFTER_END[] = "goes on after its end";

struct code_reader {
	struct code_limits limits;
	struct code_sink sink;
	z_stream gzip;
	bool gzip_ended;
	struct sha256 sha;
	struct code_facts facts;
	struct code_last last;
	struct ustar_stream tar;
	struct ustar_head head;
	char out[CODE_CHUNK]; /* inflated */
};

struct code_reader *code_reader_new(const struct code_limits *limits, const struct code_sink *sink)
{
	enum { WINDOW = 15 /* bits */, GZIP = 16 };
	struct code_reader *r = xcalloc(1, sizeof(*r));
	r->limits = *limits;
	r->sink = *sink;
	r->gzip = gzip_stream(SPAN(""), r->out, sizeof(r->out));
	if (inflateInit2(&r->gzip, GZIP + WINDOW) != Z_OK)
		abort();
	sha256_begin(&r->sha);
	r->tar.heads = (char *)&r->head;
	return r;
}

void code_reader_free(struct code_reader *r)
{
	if (!r)
		return;
	(void)inflateEnd(&r->gzip); /* cannot fail */
	free(r);
}

/* Reads a header; then it is compared with that of the same entry, byte by byte. */
static int code_reader_head(struct code_reader *r, struct err *e)
{
	enum { SUM_END = offsetof(struct ustar_head, type) };
	const struct ustar_head *head = &r->head;
	struct ustar_head wanted;
	char path[2 * CODE_PATH];
	char target[sizeof(head->target) + 1];
	char shown[4 * QUOTE_MAX];
	struct code_entry entry = { .path = path, .target = target };
	if (r->tar.zeros)
		return code_refuse(e, NULL, AFTER_END);
	(void)snprintf(path, sizeof(path), "%.155s%s%.100s", head->prefix,
	               head->prefix[0] ? "/" : "", head->name);
	(void)snprintf(target, sizeof(target), "%.100s", head->target);
	const char *type = strchr(HEAD_TYPES, head->type);
	if (!type || !*type || memcmp(head->magic, "ustar", 6) != 0)
		return code_refuse(
		    e, path,
		    "its type is \"%s\"; \"0\" (a file), \"5\" (a directory) and \"2\" "
		    "(a symbolic link) of ustar are allowed",
		    quote(shown, (struct span){ &head->type, 1 }));
	entry.kind = (enum code_kind)(type - HEAD_TYPES);
	entry.executable = entry.kind == CODE_FILE && head->mode[4] == '7';
	entry.size = entry.kind == CODE_FILE ? ustar_size(head) : 0;
	if (code_entry_next(&r->last, &entry, e) < 0 || code_header(&wanted, &entry, e) < 0)
		return -1;
	for (size_t i = 0, at; i < sizeof(wanted); i++) {
		at = (i + SUM_END) % sizeof(wanted); /* the sum is last: others change it, too */
		if (((const char *)head)[at] != ((const char *)&wanted)[at])
			return code_refuse(
			    e, path, "byte %zu of its header is not as rest-lit writes it", at);
	}
	if (++r->facts.entries > r->limits.entries)
		return err_set(e, TOO_LARGE, "the archive has more than %lld entries",
		               (long long)r->limits.entries);
	if (entry.size > r->limits.bytes - r->facts.bytes)
		return err_set(e, TOO_LARGE, "the files of the archive have more than %lld bytes",
		               (long long)r->limits.bytes);
	r->facts.bytes += r->tar.left = entry.size;
	r->tar.padding = ustar_padding(entry.size);
	return r->sink.entry ? r->sink.entry(r->sink.arg, &entry, e) : 0;
}

/* Takes bytes of the tar. */
static int code_reader_take(struct code_reader *r, struct span tar, struct err *e)
{
	struct span part;
	int rc = 0;
	sha256_add(&r->sha, tar);
	while (tar.n && rc == 0) {
		if (r->tar.zeros == USTAR_END)
			return code_refuse(e, NULL, AFTER_END);
		enum ustar_part is = ustar_take(&r->tar, &tar, &part);
		if (is == USTAR_DIRTY)
			return code_refuse(e, r->last.path, "the padding after it is not of zeros");
		if (is == USTAR_HEADS)
			rc = code_reader_head(r, e);
		else if (is == USTAR_DATA && r->sink.data)
			rc = r->sink.data(r->sink.arg, part, e);
	}
	return rc;
}

int code_reader_feed(struct code_reader *r, struct span packed, struct err *e)
{
	z_stream *z = &r->gzip;
	assert(packed.n <= UINT32_MAX);
	z->next_in = (const unsigned char *)packed.p;
	z->avail_in = (unsigned)packed.n;
	do {
		if (r->gzip_ended && z->avail_in)
			return code_refuse(e, NULL, "has bytes after the end of its gzip member");
		z->next_out = (unsigned char *)r->out;
		z->avail_out = sizeof(r->out);
		int rc = r->gzip_ended ? Z_OK : inflate(z, Z_NO_FLUSH);
		r->gzip_ended = r->gzip_ended || rc == Z_STREAM_END;
		if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
			return code_refuse(e, NULL, "is not a whole gzip file: %s",
			                   z->msg ? z->msg : "it needs a dictionary");
		struct span tar = { r->out, sizeof(r->out) - z->avail_out };
		if (code_reader_take(r, tar, e) < 0)
			return -1;
	} while (z->avail_in || z->avail_out == 0);
	return 0;
}

int code_reader_end(struct code_reader *r, struct code_facts *out, struct err *e)
{
	if (!r->gzip_ended || r->tar.zeros != USTAR_END)
		return code_refuse(e, NULL, "ends too early");
	*out = r->facts;
	sha256_end(&r->sha, out->sha256);
	return 0;
}
