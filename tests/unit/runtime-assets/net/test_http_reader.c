/* Replies, read as a whole and byte by byte. */
#include "runtime-assets/net/http.h"

#include "tests/unit/base/cmocka.h"

enum { HEADERS_MAX = 1000, BODY_MAX = 100 };

struct result {
	int trouble;
	bool done;
};

static struct result feed(struct http_reader *r, struct span text, size_t piece)
{
	int trouble = 0;
	http_reader_init(r, HEADERS_MAX, BODY_MAX);
	for (size_t i = 0; i < text.n && trouble == 0 && !r->done; i += piece) {
		size_t n = text.n - i < piece ? text.n - i : piece;
		trouble = http_reader_push(r, (struct span){ text.p + i, n });
	}
	return (struct result){ trouble, r->done };
}

/* The reply, then the end of the stream.  Checks that pieces make no difference. */
static int read_reply(struct http_reader *r, const char *text)
{
	struct http_reader bytes;
	struct result whole = feed(r, span_of(text), SIZE_MAX);
	struct result single = feed(&bytes, span_of(text), 1);
	if (whole.trouble == 0 && !whole.done)
		whole.trouble = http_reader_push(r, SPAN(""));
	if (single.trouble == 0 && !single.done)
		single.trouble = http_reader_push(&bytes, SPAN(""));
	assert_int_equal(whole.trouble, single.trouble);
	if (whole.trouble == 0) {
		assert_int_equal(r->status, bytes.status);
		assert_true(span_eq(str_view(&r->head), str_view(&bytes.head)));
		assert_true(span_eq(str_view(&r->body), str_view(&bytes.body)));
	}
	http_reader_done(&bytes);
	return whole.trouble;
}

#define READER __attribute__((cleanup(http_reader_done))) struct http_reader

static void good(const char *text, int status, const char *body)
{
	READER r;
	if (read_reply(&r, text) != 0)
		fail_msg("%s: %s", text, r.problem);
	assert_int_equal(r.status, status);
	assert_string_equal(str_c(&r.body), body);
}

static void bad(const char *text, int trouble, const char *problem)
{
	READER r;
	assert_int_equal(read_reply(&r, text), trouble);
	assert_string_equal(r.problem, problem);
}

TEST(test_reader_takes_valid_replies)
{
	/* Takes bodies with a length. */
	good("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello");
	good("HTTP/1.1 200 OK\r\ncontent-length:5 \r\n\r\nhello, more", 200, "hello");
	good("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, "");
	good("HTTP/1.1 404 \r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nno", 404, "no");
	/* Takes bodies until the connection closes. */
	good("HTTP/1.0 200 OK\r\n\r\nall of it", 200, "all of it");
	good("HTTP/1.1 500 Oh\r\n\r\n", 500, "");
	/* Takes chunked bodies. */
	good("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n"
	     "5\r\nhello\r\n0001;name=\"x\"\r\n,\r\nA \r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n",
	     200, "hello,0123456789");
	good("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200, "");
	/* Expects no body where http forbids it. */
	good("HTTP/1.1 204 No Content\r\n\r\n", 204, "");
	good("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, "");
}

TEST(test_reader_skips_interim_replies)
{
	good("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\n"
	     "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
	     200, "x");
	bad("HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", HTTP_BROKEN,
	    "changes to another protocol, which was not asked for");
}

TEST(test_reader_refuses_endless_interim_replies)
{
	STR_AUTO text = STR_INIT(100000);
	READER r;
	str_many(&text, "HTTP/1.1 100 C\r\n\r\n", 200);
	assert_int_equal(read_reply(&r, str_c(&text)), HTTP_TOO_LARGE);
}

TEST(test_reader_finds_headers_by_name)
{
	READER r;
	assert_int_equal(read_reply(&r, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n"
	                                "WWW-Authenticate: Basic realm=\"a:b\"\r\nx-empty:\r\n"
	                                "www-authenticate:\t Bearer \t\r\n\r\n"),
	                 0);
	struct span lines = str_view(&r.head);
	assert_true(span_is(http_lines_find(lines, "Www-Authenticate", 0), "Basic realm=\"a:b\""));
	assert_true(span_is(http_lines_find(lines, "Www-Authenticate", 1), "Bearer"));
	assert_null(http_lines_find(lines, "Www-Authenticate", 2).p);
	assert_non_null(http_lines_find(lines, "X-Empty", 0).p);
	assert_int_equal(http_lines_find(lines, "X-Empty", 0).n, 0);
	assert_null(http_lines_find(lines, "X", 0).p);
}

TEST(test_reader_refuses_replies_that_are_not_http)
{
	static const char problem[] = "does not begin as HTTP/1.1 does";
	static const char *const TEXTS[] = {
		"SSH-2.0-OpenSSH_9",        "\x15\x03\x01",
		"HTTP/2 200 OK\r\n\r\n",    "HTTP/1.2 200 OK\r\n\r\n",
		"HTTP/1.1 20 OK\r\n\r\n",   "HTTP/1.1 2000 OK\r\n\r\n",
		"HTTP/1.1 099 OK\r\n\r\n",  "HTTP/1.1 600 OK\r\n\r\n",
		"HTTP/1.1  200 OK\r\n\r\n", "HTTP/1.1 -20 OK\r\n\r\n",
		"http/1.1 200 OK\r\n\r\n",  "\r\nHTTP/1.1 200 OK\r\n\r\n"
	};
	for (size_t i = 0; i < ARRAY_SIZE(TEXTS); i++)
		bad(TEXTS[i], HTTP_BROKEN, problem);
}

TEST(test_reader_refuses_malformed_headers)
{
	static const char none[] = "has an invalid header";
	static const char bare[] = "has a line that does not end in CR LF";
	static const char control[] = "has control characters in its headers";
	bad("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", HTTP_BROKEN, none);
	bad("HTTP/1.1 200 OK\r\n: x\r\n\r\n", HTTP_BROKEN, none);
	bad("HTTP/1.1 200 OK\r\nA : x\r\n\r\n", HTTP_BROKEN, none);
	bad("HTTP/1.1 200 OK\r\nA: x\r\n folded: y\r\n\r\n", HTTP_BROKEN, none);
	bad("HTTP/1.1 200 OK\r\nA: x\rB: y\r\n\r\n", HTTP_BROKEN, control);
	bad("HTTP/1.1 200 OK\r\nA: \x1b[2J\r\n\r\n", HTTP_BROKEN, control);
	bad("HTTP/1.1 200 OK\nContent-Length: 0\n\n", HTTP_BROKEN, bare);
	bad("HTTP/1.1 200 OK\r\nA: x\nB: y\r\n\r\n", HTTP_BROKEN, bare);
}

TEST(test_reader_refuses_malformed_lengths)
{
	static const char length[] = "has a Content-Length that is no number, or two";
	static const char *const VALUES[] = { "",    "-1",
		                              "+5",  "5, 5",
		                              "0x5", "5\r\nContent-Length: 6",
		                              "5a",  "99999999999999999999" };
	for (size_t i = 0; i < ARRAY_SIZE(VALUES); i++) {
		STR_AUTO text = STR_INIT(200);
		str_printf(&text, "HTTP/1.1 200 OK\r\nContent-Length: %s\r\n\r\nhello", VALUES[i]);
		bad(str_c(&text), HTTP_BROKEN, length);
	}
	bad("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	    HTTP_BROKEN, "has two lengths: one in bytes, and chunks");
}

TEST(test_reader_refuses_other_codings)
{
	static const char other[] = "has a Transfer-Encoding other than chunked";
	bad("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", HTTP_BROKEN, other);
	bad("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
	    HTTP_BROKEN, other);
	bad("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", HTTP_BROKEN,
	    "is compressed, which was not asked for");
}

TEST(test_reader_refuses_malformed_chunks)
{
	static const struct {
		const char *chunks, *problem;
	} CASES[] = {
		{ "\r\n", "has a chunk without a size" },
		{ "x\r\n", "has a chunk without a size" },
		{ "-1\r\n", "has a chunk without a size" },
		{ "0x5\r\nhello\r\n", "has a chunk without a size" },
		{ "1234567890abcdef\r\n", "has a chunk without a size" },
		{ "5\nhello\r\n", "has a line that does not end in CR LF" },
		{ "5\r\nhello!\r\n0\r\n\r\n", "has a chunk that is longer than it says" },
		{ "5\r\nhel", "ends in the middle" },
		{ "5\r\nhello", "ends in the middle" },
		{ "5\r\nhello\r\n", "ends in the middle" },
		{ "5\r\nhello\r\n0\r\n", "ends in the middle" },
		{ "5\r\nhello\r\n0\r\nA: b\r\n", "ends in the middle" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		STR_AUTO text = STR_INIT(200);
		str_printf(&text, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%s",
		           CASES[i].chunks);
		bad(str_c(&text), HTTP_BROKEN, CASES[i].problem);
	}
}

TEST(test_reader_refuses_truncated_replies)
{
	bad("", HTTP_BROKEN, "is empty");
	bad("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", HTTP_BROKEN, "ends in the middle");
	bad("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", HTTP_BROKEN, "ends in the middle");
}

TEST(test_reader_refuses_a_body_that_is_too_large)
{
	static const char large[] = "has a body larger than is accepted here";
	char body[BODY_MAX + 2] = "";
	STR_AUTO close = STR_INIT(1000);
	STR_AUTO chunks = STR_INIT(1000);
	memset(body, 'x', BODY_MAX + 1);
	str_printf(&close, "HTTP/1.1 200 OK\r\n\r\n%s", body);
	str_printf(&chunks,
	           "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n%x\r\n",
	           BODY_MAX - 4);
	bad(str_c(&close), HTTP_TOO_LARGE, large);
	bad(str_c(&chunks), HTTP_TOO_LARGE, large);
	bad("HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n", HTTP_TOO_LARGE, large);
	bad("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n",
	    HTTP_TOO_LARGE, large);
}

TEST(test_reader_refuses_headers_that_are_too_large)
{
	STR_AUTO text = STR_INIT(5000);
	str_printf(&text, "HTTP/1.1 200 OK\r\nA: %0*d\r\n\r\n", HEADERS_MAX, 1);
	bad(str_c(&text), HTTP_TOO_LARGE, "has more headers than are accepted here");
}

TEST(test_reader_refuses_trailers_that_are_too_large)
{
	STR_AUTO text = STR_INIT(5000);
	str_puts(&text, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n");
	str_many(&text, "A: b\r\n", 400);
	bad(str_c(&text), HTTP_BROKEN, "has too much between its chunks");
}
