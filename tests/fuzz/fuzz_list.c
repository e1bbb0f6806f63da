/*
 * Any text as a page of a LIST.  The first byte is the size of the pieces in which it comes.  The
 * same items come of it as of the whole text; a page is a list that scan.h reads as well, and the
 * other way round.
 */
#include "k8s/watch/watch_internal.h"
#include "tests/fuzz/fuzz.h"

enum { ITEM_MAX = 256, SEEN_MAX = 1 << 24 };

struct seen {
	struct str text;
	size_t n;
	bool cut;
};

static void take_item(void *arg, struct span item, bool cut)
{
	struct seen *seen = arg;
	assert(cut ? item.n == ITEM_MAX : scan_valid(item, SCAN_DEPTH_MAX));
	seen->n++;
	seen->cut |= cut;
	str_span(&seen->text, item);
	str_puts(&seen->text, cut ? "!" : "|");
}

static bool read_page(struct span text, size_t piece, struct seen *seen)
{
	struct list_lines l;
	*seen = (struct seen){ .text = STR_INIT(SEEN_MAX) };
	list_lines_init(&l, ITEM_MAX, take_item, seen);
	bool ok = true;
	for (size_t at = 0; ok && at < text.n; at += piece) {
		size_t n = text.n - at < piece ? text.n - at : piece;
		ok = list_lines_take(&l, (struct span){ text.p + at, n });
	}
	ok = ok && list_lines_end(&l);
	list_lines_done(&l);
	return ok;
}

/* Both keys once, and no large value beside the items. */
static bool is_plain_list(struct span text)
{
	static const char *const KEYS[] = { "items", "metadata" };
	ARENA_AUTO a = { 0 };
	struct span value[2] = { { NULL, 0 }, { NULL, 0 } };
	size_t n[3] = { 0 };
	struct scan s = scan_begin(text);
	struct span key;
	struct span v;
	while (scan_member(&s, &key, &v)) {
		size_t i = scan_which(key, KEYS, 2);
		n[i]++;
		if (i < 2)
			value[i] = v;
		if (key.n + 2 > ITEM_MAX || (i != 0 && v.n > ITEM_MAX))
			return false;
	}
	struct span version = scan_text(scan_get(value[1], "resourceVersion"), &a);
	bool digits = version.n > 0 && version.n < VERSION_MAX;
	for (size_t i = 0; i < version.n; i++)
		digits &= is_digit(version.p[i]);
	return scan_type(text) == SCAN_OBJECT && n[0] == 1 && n[1] == 1 && digits &&
	       (scan_type(value[0]) == SCAN_ARRAY || scan_type(value[0]) == SCAN_NULL) &&
	       scan_type(value[1]) == SCAN_OBJECT;
}

FUZZ(text)
{
	if (text.n == 0)
		return;
	size_t piece = (size_t)fuzz_byte(&text) % 64 + 1;
	struct seen whole;
	struct seen pieces;
	bool ok = read_page(text, text.n + 1, &whole);
	bool same = read_page(text, piece, &pieces);
	assert(ok == same && whole.n == pieces.n);
	assert(span_eq(str_view(&whole.text), str_view(&pieces.text)));
	if (ok && !whole.cut)
		assert(scan_valid(text, SCAN_DEPTH_MAX) &&
		       whole.n == scan_count(scan_get(text, "items")));
	if (!ok && scan_valid(text, SCAN_DEPTH_MAX))
		assert(!is_plain_list(text));
	str_done(&whole.text);
	str_done(&pieces.text);
}
