/* Writes the tar of an archive, packs it, and computes its hash on the way. */
#include <stdlib.h>

#include "base/code/code_internal.h"
#include "base/gzip.h"
#include "base/hash.h"

struct code_writer {
	code_output *output;
	void *arg;
	z_stream gzip;
	struct sha256 sha;
	struct code_facts facts;
	struct code_last last;
	int64_t left;   /* bytes of the last file that are to come */
	size_t padding; /* bytes of it, after these */
	char out[CODE_CHUNK];
};

struct code_writer *code_writer_new(code_output *output, void *arg)
{
	enum { WINDOW = 15 /* bits */, GZIP = 16, MEMORY = 8 };
	struct code_writer *w = xcalloc(1, sizeof(*w));
	w->output = output;
	w->arg = arg;
	w->gzip = gzip_stream(SPAN(""), w->out, sizeof(w->out));
	if (deflateInit2(&w->gzip, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP + WINDOW, MEMORY,
	                 Z_DEFAULT_STRATEGY) != Z_OK)
		abort();
	sha256_begin(&w->sha);
	return w;
}

static int code_writer_put(struct code_writer *w, struct span tar, int flush, struct err *e)
{
	z_stream *z = &w->gzip;
	sha256_add(&w->sha, tar);
	z->next_in = (const unsigned char *)tar.p;
	z->avail_in = (unsigned)tar.n;
	do {
		z->next_out = (unsigned char *)w->out;
		z->avail_out = sizeof(w->out);
		(void)deflate(z, flush); /* Z_BUF_ERROR: nothing was left to do */
		struct span packed = { w->out, sizeof(w->out) - z->avail_out };
		if (packed.n && w->output(w->arg, packed, e) < 0)
			return -1;
	} while (z->avail_out == 0);
	return 0;
}

int code_writer_entry(struct code_writer *w, const struct code_entry *entry, struct err *e)
{
	struct ustar_head head;
	if (w->left)
		return code_refuse(e, w->last.path, "%lld bytes of it are missing",
		                   (long long)w->left);
	if (code_entry_next(&w->last, entry, e) < 0 || code_header(&head, entry, e) < 0)
		return -1;
	w->facts.entries++;
	if (entry->kind == CODE_FILE) {
		w->facts.bytes += w->left = entry->size;
		w->padding = ustar_padding(entry->size);
	}
	return code_writer_put(w, (struct span){ (const char *)&head, sizeof(head) }, Z_NO_FLUSH,
	                       e);
}

int code_writer_data(struct code_writer *w, struct span bytes, struct err *e)
{
	if ((int64_t)bytes.n > w->left)
		return code_refuse(e, w->last.path, "it has more bytes than its size says");
	w->left -= (int64_t)bytes.n;
	if (code_writer_put(w, bytes, Z_NO_FLUSH, e) < 0)
		return -1;
	if (w->left)
		return 0;
	struct span padding = { USTAR_ZEROS, w->padding };
	w->padding = 0;
	return code_writer_put(w, padding, Z_NO_FLUSH, e);
}

int code_writer_end(struct code_writer *w, struct code_facts *out, struct err *e)
{
	int rc = 0;
	if (out && w->left)
		rc = code_refuse(e, w->last.path, "%lld bytes of it are missing",
		                 (long long)w->left);
	else if (out)
		rc = code_writer_put(w, (struct span){ USTAR_ZEROS, sizeof(USTAR_ZEROS) }, Z_FINISH,
		                     e);
	if (out && rc == 0) {
		*out = w->facts;
		sha256_end(&w->sha, out->sha256);
	}
	(void)deflateEnd(&w->gzip); /* fails for unfinished streams */
	free(w);
	return rc;
}
