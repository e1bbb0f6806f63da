/*
 * Any bytes as the reply to a request; the first one chooses the size of pieces.
 * Whatever comes: the same verdict in pieces as in whole, nothing beyond its limits, and of a reply
 * that is taken, no control characters in the headers.
 */
#include "runtime-assets/net/http.h"
#include "tests/fuzz/fuzz.h"

enum { HEADERS_MAX = 512, BODY_MAX = 1024 };

static int read_in_pieces(struct http_reader *r, struct span text, size_t piece)
{
	int trouble = 0;
	http_reader_init(r, HEADERS_MAX, BODY_MAX);
	for (size_t i = 0; i < text.n && trouble == 0 && !r->done; i += piece) {
		size_t n = text.n - i < piece ? text.n - i : piece;
		trouble = http_reader_push(r, (struct span){ text.p + i, n });
	}
	if (trouble == 0 && !r->done)
		trouble = http_reader_push(r, SPAN(""));
	return trouble;
}

static void check_reply(const struct http_reader *r)
{
	struct span head = str_view(&r->head);
	assert(r->done && r->status >= 200 && r->status <= 599);
	assert(head.n <= HEADERS_MAX && r->body.n <= BODY_MAX);
	for (size_t i = 0; i < head.n; i++) {
		unsigned char c = (unsigned char)head.p[i];
		assert(c >= ' ' || c == '\t' || c == '\r' || c == '\n');
	}
	assert(head.n == 0 || (head.n >= 4 && memcmp(head.p + head.n - 2, "\r\n", 2) == 0));
	static const char *const NAMES[] = { "WWW-Authenticate", "Date", "Retry-After" };
	for (unsigned i = 0; i < 3; i++) {
		struct span value = http_lines_find(head, NAMES[i], i);
		assert(!value.p || (value.p >= head.p && value.p + value.n <= head.p + head.n));
	}
}

FUZZ(text)
{
	if (text.n == 0)
		return;
	unsigned char byte = fuzz_byte(&text);
	struct http_reader whole;
	struct http_reader pieces;
	int first = read_in_pieces(&whole, text, SIZE_MAX / 2);
	int second = read_in_pieces(&pieces, text, (size_t)(byte & 0x7f) + 1);
	assert(first == second);
	if (first == 0) {
		check_reply(&whole);
		assert(whole.status == pieces.status);
		assert(span_eq(str_view(&whole.head), str_view(&pieces.head)));
		assert(span_eq(str_view(&whole.body), str_view(&pieces.body)));
	} else {
		assert(whole.problem && pieces.problem);
	}
	http_reader_done(&whole);
	http_reader_done(&pieces);
}
