/* Reads an archive piece by piece: what is not what tar.c writes for the same entry is refused. */
#include <assert.h>
#include <stdlib.h>

#include "base/tar/tar_internal.h"

enum { HEADS = 3 * USTAR_BLOCK + TAR_RECORDS };

static const char NOT_OURS[] = "has an entry that rest-lit does not write";
static const char DIRTY[] = "has other bytes than zeros for padding";

struct tar_reader {
	struct tar_sink sink;
	struct ustar_stream tar;
	int64_t entries;         /* that may follow */
	char path[TAR_PATH + 1]; /* of the last entry; "": none */
	bool open;               /* it is a file that is not complete */
	char heads[HEADS];       /* of the next entry or note, as far as they have come */
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
	assert(entries >= 0);
	r->sink = sink;
	r->entries = entries;
	r->tar.heads = r->heads;
	return r;
}

void tar_reader_free(struct tar_reader *r)
{
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
static int tar_reader_entry(struct tar_reader *r, struct span records,
                            const struct ustar_head *head, struct err *e)
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
	    parse_i64(size, 0, INT64_MAX - USTAR_BLOCK, &entry.size) < 0 ||
	    parse_i64(span_to(time, dot), 0, TAR_TIME_MAX, &s) < 0 || dot >= time.n ||
	    parse_i64(span_from(time, dot + 1), 0, NS_OF_S - 1, &ns) < 0)
		return tar_refuse(e, r->path, NOT_OURS);
	memcpy(path, name.p, name.n);
	path[name.n] = '\0';
	entry.time_ns = s * NS_OF_S + ns;
	entry.kind = head->type == '5' ? TAR_DIRECTORY : TAR_FILE;
	entry.executable = entry.kind == TAR_FILE && head->mode[4] == '7';
	if (!tar_path_ok(path) || (entry.kind == TAR_DIRECTORY && entry.size))
		return tar_refuse(e, r->path, "has a path that leads elsewhere, or is too long");
	tar_put_entry(&wanted, &entry);
	if (!span_eq(str_view(&wanted), (struct span){ r->heads, r->tar.have }))
		return tar_refuse(e, r->path, NOT_OURS);
	if (r->entries-- == 0)
		return tar_refuse(e, r->path, "has too many entries");
	memcpy(r->path, path, name.n + 1);
	r->tar.left = entry.size;
	r->tar.padding = ustar_padding(entry.size);
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
	if (!span_eq(str_view(&wanted), (struct span){ r->heads, r->tar.have }) ||
	    r->entries-- == 0)
		return tar_refuse(e, r->path, "has a note that rest-lit does not write");
	return r->sink.note(r->sink.arg, text, e);
}

/* Headers have come: they are complete, or tell how many bytes follow. */
static int tar_reader_heads(struct tar_reader *r, struct err *e)
{
	const struct ustar_head *head = (const struct ustar_head *)r->heads;
	size_t size = (size_t)ustar_size(head);
	bool note = head->type == TAR_GLOBAL;
	if (r->tar.zeros < USTAR_END && (r->tar.zeros || !head->name[0]))
		return tar_refuse(e, r->path, DIRTY);
	if (!note && r->tar.zeros)
		return tar_refuse(e, r->path, "goes on after its end");
	if ((!note && head->type != TAR_EXTENDED) || size > TAR_RECORDS)
		return tar_refuse(e, r->path, NOT_OURS);
	size_t extended = USTAR_BLOCK + size + ustar_padding((int64_t)size);
	struct span records = { r->heads + USTAR_BLOCK, size };
	size_t need = extended + (note ? 0 : USTAR_BLOCK);
	if (r->tar.need < need) {
		r->tar.need = need;
		return 0;
	}
	head = (const struct ustar_head *)(r->heads + extended);
	return note ? tar_reader_note(r, records, e) : tar_reader_entry(r, records, head, e);
}

int tar_reader_feed(struct tar_reader *r, struct span bytes, struct err *e)
{
	struct span part;
	int rc = 0;
	while (bytes.n && rc == 0) {
		enum ustar_part is = ustar_take(&r->tar, &bytes, &part);
		if (is == USTAR_DIRTY)
			rc = tar_refuse(e, r->path, DIRTY);
		else if (is == USTAR_HEADS)
			rc = tar_reader_heads(r, e);
		else if (is == USTAR_DATA)
			rc = r->sink.data(r->sink.arg, part, e);
		if (rc == 0 && r->open && !r->tar.left) {
			r->open = false;
			rc = r->sink.complete(r->sink.arg, e);
		}
	}
	return rc;
}

int tar_reader_end(struct tar_reader *r, struct err *e)
{
	bool whole = r->tar.zeros == USTAR_END && r->tar.have == r->tar.need;
	return whole ? 0 : tar_refuse(e, r->path, "ends too early");
}
