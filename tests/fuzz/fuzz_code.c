/* Any bytes as gzip, and as a tar (whose checksums are mended) in gzip: what the reader accepts is
 * what the writer makes of its entries. */
#include "base/code/code.h"
#include "base/gzip.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/ustar.h"

enum { BLOCK = 512, PACKED_MAX = 2 << 20, ENTRIES = 50, BYTES = 1 << 16 };

static int again_output(void *arg, struct span packed, struct err *e)
{
	(void)arg, (void)packed, (void)e;
	return 0;
}

static int again_entry(void *arg, const struct code_entry *entry, struct err *e)
{
	struct span path = span_of(entry->path);
	assert(path.n && path.p[0] != '/' && span_find(path, 0, "../") == SIZE_MAX);
	assert(!span_has_control(path));
	assert(entry->kind != CODE_LINK || entry->target[0] != '/');
	int rc = code_writer_entry(arg, entry, e);
	assert(rc == 0);
	return rc;
}

static int again_data(void *arg, struct span bytes, struct err *e)
{
	int rc = code_writer_data(arg, bytes, e);
	assert(rc == 0);
	return rc;
}

static void code_read(struct span packed, size_t piece)
{
	ERR_AUTO e = { 0 };
	struct code_facts facts;
	struct code_facts again;
	const struct code_limits limits = { ENTRIES, BYTES };
	struct code_writer *w = code_writer_new(again_output, NULL);
	struct code_sink sink = { again_entry, again_data, w };
	struct code_reader *r = code_reader_new(&limits, &sink);
	int rc = 0;
	while (packed.n && rc == 0) {
		size_t n = piece < packed.n ? piece : packed.n;
		rc = code_reader_feed(r, span_to(packed, n), &e);
		packed = span_from(packed, n);
	}
	if (rc == 0)
		rc = code_reader_end(r, &facts, &e);
	assert((rc != 0) == (e.notes.n > 0));
	assert(rc == 0 || e.http == 400 || e.http == 413);
	if (rc == 0) {
		assert(facts.entries <= ENTRIES && facts.bytes <= BYTES);
		rc = code_writer_end(w, &again, &e);
		assert(rc == 0 && strcmp(facts.sha256, again.sha256) == 0);
	} else {
		(void)code_writer_end(w, NULL, &e);
	}
	code_reader_free(r);
}

FUZZ(text)
{
	ARENA_AUTO a = { 0 };
	struct span packed;
	size_t piece = text.n ? 1 + fuzz_byte(&text) : 1;
	code_read(text, piece);
	char *tar = arena_dup(&a, text);
	for (size_t at = 0; at + BLOCK <= text.n; at += BLOCK)
		if (memcmp(tar + at + 257, "ustar", 6) == 0)
			head_sum(tar + at, 0);
	if (gzip_pack((struct span){ tar, text.n }, PACKED_MAX, &a, &packed))
		code_read(packed, piece);
}
