#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/code/code_internal.h"
#include "base/gzip.h"
#include "base/hash.h"

struct code_reader {
	struct code_limits limits;
	struct code_sink sink;
	z_stream gzip;
	bool gzip_ended;
	struct sha256 sha;
	struct code_facts facts;
	struct code_last last;
	int64_t left;           /* bytes of the last file that are to come */
	size_t padding;         /* bytes of it, after these */
	unsigned zeros;         /* blocks at the end */
	char block[CODE_BLOCK]; /* a header */
	size_t have;            /* bytes of it */
	char out[CODE_CHUNK];   /* inflated */
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
	return r;
}

void code_reader_free(struct code_reader *r)
{
	if (!r)
		return;
	(void)inflateEnd(&r->gzip); /* cannot fail */
	free(r);
}

/* The entry of a header, which is then compared with the one that the writer makes of it. */
static int code_reader_parse(const char *block, char path[static 2 * CODE_PATH],
                             char target[static HEAD_NAME_SIZE + 1], struct code_entry *out,
                             struct err *e)
{
	static const char *const OTHERS[] = { "1a hard link",
		                              "3a device",
		                              "4a device",
		                              "6a FIFO",
		                              "xan extension of pax",
		                              "gan extension of pax",
		                              "Lan extension of GNU",
		                              "Kan extension of GNU",
		                              "Sa sparse file" };
	const char *prefix = block + HEAD_PREFIX;
	int n = (int)strnlen(prefix, HEAD_PREFIX_SIZE);
	(void)snprintf(path, (size_t)2 * CODE_PATH, "%.*s%s%.*s", n, prefix, n ? "/" : "",
	               HEAD_NAME_SIZE, block + HEAD_NAME);
	(void)snprintf(target, HEAD_NAME_SIZE + 1, "%s", block + HEAD_TARGET);
	char type = block[HEAD_TYPE];
	const char *known = type ? strchr(HEAD_TYPES, type) : NULL;
	for (size_t i = 0; i < ARRAY_SIZE(OTHERS); i++)
		if (OTHERS[i][0] == type)
			return code_refuse(e, path, "it is %s; %s", OTHERS[i] + 1,
			                   "allowed are files, directories and symbolic links");
	if (!known || memcmp(block + HEAD_MAGIC, "ustar", 6) != 0)
		return code_refuse(e, path,
		                   "it is not a file, directory or symbolic link of ustar");
	*out = (struct code_entry){ (enum code_kind)(known - HEAD_TYPES), path, target,
		                    type == '0' && block[HEAD_MODE + 4] == '7', 0 };
	for (size_t i = 0; i < 11; i++)
		out->size = out->size << 3 | (block[HEAD_SIZE + i] & 7);
	return 0;
}

static int code_reader_head(struct code_reader *r, struct err *e)
{
	static const char ZEROS[CODE_BLOCK];
	char wanted[CODE_BLOCK];
	char path[2 * CODE_PATH];
	char target[HEAD_NAME_SIZE + 1];
	struct code_entry entry;
	r->have = 0;
	if (memcmp(r->block, ZEROS, CODE_BLOCK) == 0) {
		r->zeros++;
		return 0;
	}
	if (r->zeros)
		return err_set(e, 400, "InvalidCodeError", "the archive goes on after its end");
	if (code_reader_parse(r->block, path, target, &entry, e) < 0 ||
	    code_entry_next(&r->last, &entry, e) < 0 || code_header(wanted, &entry, e) < 0)
		return -1;
	if (memcmp(r->block, wanted, CODE_BLOCK) != 0)
		return code_header_differs(e, path, r->block, wanted);
	if (++r->facts.entries > r->limits.entries)
		return err_set(e, TOO_LARGE, "the archive has more than %lld entries",
		               (long long)r->limits.entries);
	if (entry.kind == CODE_FILE) {
		if (entry.size > r->limits.bytes - r->facts.bytes)
			return err_set(e, TOO_LARGE,
			               "the files of the archive have more than %lld bytes",
			               (long long)r->limits.bytes);
		r->facts.bytes += r->left = entry.size;
		r->padding = (size_t)(-entry.size & (CODE_BLOCK - 1));
	}
	return r->sink.entry ? r->sink.entry(r->sink.arg, &entry, e) : 0;
}

/* Takes bytes of the tar. */
static int code_reader_take(struct code_reader *r, struct span tar, struct err *e)
{
	sha256_add(&r->sha, tar);
	while (tar.n) {
		size_t n = tar.n;
		if (r->zeros == 2)
			return err_set(e, 400, "InvalidCodeError",
			               "the archive goes on after its end");
		if (r->left) {
			n = (int64_t)n < r->left ? n : (size_t)r->left;
			if (r->sink.data && r->sink.data(r->sink.arg, span_to(tar, n), e) < 0)
				return -1;
			r->left -= (int64_t)n;
		} else if (r->padding) {
			n = n < r->padding ? n : r->padding;
			for (size_t i = 0; i < n; i++)
				if (tar.p[i])
					return code_refuse(e, r->last.path,
					                   "the padding after it is not of zeros");
			r->padding -= n;
		} else {
			n = n < CODE_BLOCK - r->have ? n : CODE_BLOCK - r->have;
			memcpy(r->block + r->have, tar.p, n);
			r->have += n;
			if (r->have == CODE_BLOCK && code_reader_head(r, e) < 0)
				return -1;
		}
		tar = span_from(tar, n);
	}
	return 0;
}

int code_reader_feed(struct code_reader *r, struct span packed, struct err *e)
{
	z_stream *z = &r->gzip;
	assert(packed.n <= UINT32_MAX);
	z->next_in = (const unsigned char *)packed.p;
	z->avail_in = (unsigned)packed.n;
	do {
		if (r->gzip_ended && z->avail_in)
			return err_set(e, 400, "InvalidCodeError",
			               "bytes follow the end of the compressed archive");
		z->next_out = (unsigned char *)r->out;
		z->avail_out = sizeof(r->out);
		int rc = r->gzip_ended ? Z_OK : inflate(z, Z_NO_FLUSH);
		r->gzip_ended = r->gzip_ended || rc == Z_STREAM_END;
		if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
			return err_set(e, 400, "InvalidCodeError",
			               "the archive is not a whole gzip file: %s",
			               z->msg ? z->msg : "it needs a dictionary");
		struct span tar = { r->out, sizeof(r->out) - z->avail_out };
		if (code_reader_take(r, tar, e) < 0)
			return -1;
	} while (z->avail_in || z->avail_out == 0);
	return 0;
}

int code_reader_end(struct code_reader *r, struct code_facts *out, struct err *e)
{
	if (!r->gzip_ended || r->zeros != 2)
		return err_set(e, 400, "InvalidCodeError", "the archive ends too early");
	*out = r->facts;
	sha256_end(&r->sha, out->sha256);
	return 0;
}
