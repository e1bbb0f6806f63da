/* Reads an archive piece by piece: what is not what tar.c writes for the same entry is refused. */
#include <stdlib.h>
#include <sys/types.h>

#include "base/tar/tar_internal.h"

enum { HEADS = 2 * TAR_BLOCK + TAR_RECORDS + TAR_BLOCK };

struct tar_reader {
	struct tar_sink sink;
	struct str heads;        /* of the next entry or note, as far as they have come */
	size_t need;             /* bytes of them */
	int64_t left;            /* bytes of the last file that are to come */
	size_t padding;          /* bytes of it, after these */
	size_t zeros;            /* bytes of the end so far */
	int64_t entries;         /* that may follow */
	char path[TAR_PATH + 1]; /* of the last entry; "": none */
	bool open;               /* it is a file that is not complete */
};

static int tar_refuse(struct err *e, const char *path, const char *text)
{
	char shown[4 * QUOTE_MAX];
	if (!path[0])
		return err_set(e, 502, NULL, "the archive %s", text);
	return err_set(e, 502, NULL, "the archive, behind \"%s\", %s", quote(shown, span_of(path)),
	               text);
}

struct tar_reader *tar_reader_new(struct tar_sink sink, int64_t entries)
{
	struct tar_reader *r = xcalloc(1, sizeof(*r));
	r->sink = sink;
	r->entries = entries;
	r->heads = STR_INIT(HEADS);
	r->need = TAR_BLOCK;
	return r;
}

void tar_reader_free(struct tar_reader *r)
{
	if (!r)
		return;
	str_done(&r->heads);
	free(r);
}

/* The next record of an extended header, if it has this key; else p is NULL. */
static struct span tar_record(struct span *records, const char *key)
{
	struct span none = { NULL, 0 };
	int64_t n;
	size_t digits = span_chr(*records, ' ');
	size_t skip = digits + 1 + strlen(key) + 1;
	if (parse_i64(span_to(*records, digits), 1, (int64_t)records->n, &n) < 0 ||
	    (size_t)n < skip + 1 || !span_starts(span_from(*records, digits + 1), key))
		return none;
	struct span value = { records->p + skip, (size_t)n - skip - 1 };
	*records = span_from(*records, (size_t)n);
	return value;
}

/* The entry of r->heads is complete, and compared with that which the writer makes. */
static int tar_reader_entry(struct tar_reader *r, struct span records, const struct tar_head *head,
                            struct err *e)
{
	STR_AUTO wanted = STR_INIT(HEADS);
	char path[TAR_PATH + 1];
	struct tar_entry entry = { .path = path };
	struct span name = tar_record(&records, "path");
	struct span size = tar_record(&records, "size");
	struct span time = tar_record(&records, "mtime");
	int64_t s;
	int64_t ns;
	size_t dot = span_chr(time, '.');
	if (!name.p || name.n > TAR_PATH || memchr(name.p, '\0', name.n) ||
	    parse_i64(size, 0, INT64_MAX - TAR_BLOCK, &entry.size) < 0 ||
	    parse_i64(span_to(time, dot), 0, TAR_TIME_MAX, &s) < 0 || dot >= time.n ||
	    parse_i64(span_from(time, dot + 1), 0, NS_OF_S - 1, &ns) < 0)
		return tar_refuse(e, r->path, "has an entry that rest-lit does not write");
	memcpy(path, name.p, name.n);
	path[name.n] = '\0';
	entry.time_ns = s * NS_OF_S + ns;
	entry.kind = head->type == '5' ? TAR_DIRECTORY : TAR_FILE;
	entry.executable = entry.kind == TAR_FILE && head->mode[4] == '7';
	if (!tar_path_ok(path) || (entry.kind == TAR_DIRECTORY && entry.size))
		return tar_refuse(e, r->path, "has a path that leads elsewhere, or is too long");
	tar_put_entry(&wanted, &entry);
	if (!span_eq(str_view(&wanted), str_view(&r->heads)))
		return tar_refuse(e, r->path, "has an entry that rest-lit does not write");
	if (r->entries-- == 0)
		return tar_refuse(e, r->path, "has too many entries");
	memcpy(r->path, path, name.n + 1);
	r->left = entry.size;
	r->padding = tar_padding(entry.size);
	r->open = entry.kind == TAR_FILE;
	return r->sink.entry(r->sink.arg, &entry, e);
}

static int tar_reader_note(struct tar_reader *r, struct span records, struct err *e)
{
	STR_AUTO wanted = STR_INIT(HEADS);
	char text[TAR_NOTE + 1];
	struct span comment = tar_record(&records, "comment");
	if (comment.p && comment.n <= TAR_NOTE && !memchr(comment.p, '\0', comment.n)) {
		memcpy(text, comment.p, comment.n);
		text[comment.n] = '\0';
		tar_put_note(&wanted, text);
	}
	if (!wanted.n || !span_eq(str_view(&wanted), str_view(&r->heads)) || r->entries-- == 0)
		return tar_refuse(e, r->path, "has a note that rest-lit does not write");
	return r->sink.note(r->sink.arg, text, e);
}

/* r->need bytes of headers have come: they are complete, or tell how many follow. */
static int tar_reader_heads(struct tar_reader *r, struct err *e)
{
	const struct tar_head *head = (const struct tar_head *)(const void *)r->heads.p;
	int64_t size = 0;
	bool note = head->type == TAR_GLOBAL;
	for (size_t i = 0; i + 1 < sizeof(head->size); i++)
		size = size << 3 | (head->size[i] & 7);
	if (!note && r->zeros)
		return tar_refuse(e, r->path, "goes on after its end");
	if ((!note && head->type != TAR_EXTENDED) || size > TAR_RECORDS)
		return tar_refuse(e, r->path, "has an entry that rest-lit does not write");
	size_t extended = TAR_BLOCK + (size_t)size + tar_padding(size);
	struct span records = { r->heads.p + TAR_BLOCK, (size_t)size };
	size_t need = extended + (note ? 0 : TAR_BLOCK);
	if (r->need < need) {
		r->need = need;
		return 0;
	}
	head = (const struct tar_head *)(const void *)(r->heads.p + extended);
	int rc = note ? tar_reader_note(r, records, e) : tar_reader_entry(r, records, head, e);
	r->heads.n = 0;
	r->need = TAR_BLOCK;
	return rc;
}

/* Takes some of the bytes; returns how many, or -1 and *e. */
static ssize_t tar_reader_take(struct tar_reader *r, struct span bytes, struct err *e)
{
	size_t n = bytes.n;
	bool ends = r->zeros == TAR_END;
	bool zeros =
	    r->padding || (r->zeros && !ends) || (r->heads.n == 0 && bytes.p[0] == '\0' && !ends);
	if (r->left) {
		n = (int64_t)n < r->left ? n : (size_t)r->left;
		r->left -= (int64_t)n;
		return r->sink.data(r->sink.arg, span_to(bytes, n), e) < 0 ? -1 : (ssize_t)n;
	}
	size_t most = r->padding ? r->padding : zeros ? TAR_END - r->zeros : r->need - r->heads.n;
	n = n < most ? n : most;
	for (size_t i = 0; zeros && i < n; i++)
		if (bytes.p[i])
			return tar_refuse(e, r->path, "has other bytes than zeros for padding");
	if (r->padding)
		r->padding -= n;
	else if (zeros)
		r->zeros += n;
	else
		str_put(&r->heads, bytes.p, n);
	return !zeros && r->heads.n == r->need && tar_reader_heads(r, e) < 0 ? -1 : (ssize_t)n;
}

int tar_reader_feed(struct tar_reader *r, struct span bytes, struct err *e)
{
	while (bytes.n) {
		ssize_t n = tar_reader_take(r, bytes, e);
		if (n < 0)
			return -1;
		bytes = span_from(bytes, (size_t)n);
		if (r->open && !r->left) {
			r->open = false;
			if (r->sink.complete(r->sink.arg, e) < 0)
				return -1;
		}
	}
	return 0;
}

int tar_reader_end(struct tar_reader *r, struct err *e)
{
	bool whole = r->zeros == TAR_END && r->heads.n == 0;
	return whole ? 0 : tar_refuse(e, r->path, "ends too early");
}
