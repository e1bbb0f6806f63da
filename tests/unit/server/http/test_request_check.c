/* Headers that a proxy may read in another way, and requests of web pages. */

#include "tests/unit/base/cmocka.h"

#include "server/http/request_check.h"

enum { PORT = 9186, BUFFER = 1024 };

/* A header as a lenient libmicrohttpd holds it: "Name: value CR LF" with NULs for colon, CR and LF.
 */
struct head {
	char text[BUFFER];
	size_t n;
	struct request_head f;
	const char *version;
};

static const char *put(struct head *h, const char *text, size_t n)
{
	const char *at = h->text + h->n;
	memcpy(h->text + h->n, text, n);
	h->n += n;
	return at;
}

static void begin(struct head *h, const char *version)
{
	*h = (struct head){ 0 };
	const char *method = put(h, "GET\0", 4);
	const char *uri = put(h, "/a\0", 3);
	h->version = put(h, version, strlen(version));
	(void)put(h, "\0\0", 2);
	head_take_line(&h->f, &(struct head_line){ method, uri, h->version, 2 });
}

/* After the empty line. */
static const char *check_all(struct head *h)
{
	(void)put(h, "\0\0", 2);
	return request_check(&h->f, h->version, h->text + h->n);
}

static void add(struct head *h, const char *name, const char *value)
{
	const char *n = put(h, name, strlen(name));
	(void)put(h, "\0 ", 2);
	const char *v = put(h, value, strlen(value));
	(void)put(h, "\0\0", 2);
	head_take_header(&h->f, (struct span){ n, strlen(name) },
	                 (struct span){ v, strlen(value) });
}

/* Headers as NAME, VALUE, ..., NULL. */
static const char *check(struct head *h, const char *version, const char *const *headers)
{
	begin(h, version);
	for (; *headers; headers += 2)
		add(h, headers[0], headers[1]);
	return check_all(h);
}

#define CHECK(h, version, ...) check((h), (version), (const char *const[]){ __VA_ARGS__, NULL })

TEST(test_framing_check_takes_length_or_chunked)
{
	struct head h;
	assert_null(CHECK(&h, "HTTP/1.1", "Host", "a", "Content-Length", "35", "X", ""));
	assert_int_equal(h.f.length, 35);
	assert_false(h.f.chunked);
	assert_null(CHECK(&h, "HTTP/1.1", "Host", "a", "transfer-encoding", "Chunked"));
	assert_true(h.f.chunked);
	assert_null(CHECK(&h, "HTTP/1.0", NULL));
	assert_non_null(CHECK(&h, "HTTP/1.1", "X", "a"));
	assert_null(CHECK(&h, "HTTP/1.0", "X", "a"));
	assert_non_null(CHECK(&h, "HTTP/9.9", "Host", "a"));
	assert_non_null(CHECK(&h, "HTTP/1.0", "Transfer-Encoding", "chunked"));
}

TEST(test_framing_check_refuses_ambiguous_lengths)
{
	static const char *const CASES[][5] = {
		{ "Content-Length", "4", "Transfer-Encoding", "chunked" },
		{ "Content-Length", "0", "content-length", "35" },
		{ "Content-Length", "+5" },
		{ "Content-Length", "-1" },
		{ "Content-Length", "-0" },
		{ "Content-Length", "5, 5" },
		{ "Content-Length", "" },
		{ "Content-Length", "18446744073709551621" },
		{ "Transfer-Encoding", "chunked, chunked" },
		{ "Transfer-Encoding", "gzip" },
		{ "Host", "b" },
		{ "Content-Length ", "5" },
		{ "a b", "c" },
		{ "", "c" },
		{ "X", "a\rb" },
		{ "X", "a\x7f" },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct head h;
		begin(&h, "HTTP/1.1");
		add(&h, "Host", "a");
		for (const char *const *header = CASES[i]; *header; header += 2)
			add(&h, header[0], header[1]);
		assert_non_null(check_all(&h));
	}
}

TEST(test_framing_size_of_line_and_headers_is_limited)
{
	static char large[12000];
	const struct span value = { large, sizeof(large) };
	struct head h;
	(void)CHECK(&h, "HTTP/1.1", "Host", "a");
	assert_int_equal(head_size(&h.f, 8192), SIZE_OK);
	assert_int_equal(head_size(&h.f, 8193), SIZE_LINE);
	head_take_header(&h.f, SPAN("X"), value);
	assert_int_equal(head_size(&h.f, 100), SIZE_OK);
	assert_int_equal(head_size(&h.f, 8000), SIZE_HEADERS);
	/* Many small ones take as much as one that is large. */
	begin(&h, "HTTP/1.1");
	for (size_t i = 0; i < 150; i++)
		head_take_header(&h.f, SPAN("X"), SPAN("a"));
	assert_int_equal(head_size(&h.f, 1), SIZE_OK);
	for (size_t i = 0; i < 100; i++)
		head_take_header(&h.f, SPAN("X"), SPAN("a"));
	assert_int_equal(head_size(&h.f, 1), SIZE_HEADERS);
}

/* libmicrohttpd moves the name of a folded header to another place. */
TEST(test_framing_refuses_folded_headers)
{
	struct head h;
	begin(&h, "HTTP/1.1");
	const char *value = put(&h, "35\0\0", 4);
	const char *name = put(&h, "Content-Length", 14);
	head_take_header(&h.f, (struct span){ name, 14 }, (struct span){ value, 2 });
	assert_non_null(check_all(&h));
}

TEST(test_framing_refuses_nul_in_a_value)
{
	struct head h;
	begin(&h, "HTTP/1.1");
	const char *name = put(&h, "Host\0 a\0b\0\0", 11);
	head_take_header(&h.f, (struct span){ name, 4 }, (struct span){ name + 6, 1 });
	assert_non_null(check_all(&h));
}

/* libmicrohttpd treats a line ": x" like the empty one. */
TEST(test_framing_refuses_a_header_without_a_name)
{
	struct head h;
	begin(&h, "HTTP/1.1");
	add(&h, "Host", "a");
	(void)put(&h, "\0 x\0\0", 5);
	assert_non_null(request_check(&h.f, h.version, h.text + h.n));
}

TEST(test_framing_refuses_a_bare_line_feed)
{
	struct head h;
	begin(&h, "HTTP/1.1");
	add(&h, "Host", "a");
	h.n--;
	add(&h, "X", "b");
	assert_non_null(check_all(&h));
}

TEST(test_framing_refuses_blanks_and_nul_in_the_request_line)
{
	static const char TEXT[] = "GET\0 /a\0b\0HTTP/1.1\0\0";
	static const struct head_line LINES[] = {
		{ TEXT, TEXT + 5, TEXT + 10, 4 },     /* two blanks before the path */
		{ TEXT + 1, TEXT + 4, TEXT + 10, 2 }, /* a NUL in it */
	};
	for (size_t i = 0; i < ARRAY_SIZE(LINES); i++) {
		struct request_head f = { 0 };
		head_take_line(&f, &LINES[i]);
		assert_non_null(f.wrong);
	}
}

/* With a strict library, only the given values are checked, not their place in memory. */
TEST(test_framing_check_of_a_strict_library_reads_values_only)
{
	struct request_head f = { 0 };
	head_take_header(&f, SPAN("Host"), SPAN("a"));
	head_take_header(&f, SPAN("Content-Length"), SPAN("5"));
	assert_null(request_check(&f, "HTTP/1.1", NULL));
	assert_int_equal(f.length, 5);
	head_take_header(&f, SPAN("X y"), SPAN("5"));
	assert_non_null(request_check(&f, "HTTP/1.1", NULL));
}

TEST(test_framing_depends_on_the_version_of_the_library)
{
	assert_int_equal(request_check_library(""), LIBRARY_REFUSED);
	assert_int_equal(request_check_library("0.9.74"), LIBRARY_REFUSED);
	assert_int_equal(request_check_library("0.9.75"), LIBRARY_LENIENT);
	assert_int_equal(request_check_library("0.9.77-1"), LIBRARY_LENIENT);
	assert_int_equal(request_check_library("1.0.0"), LIBRARY_STRICT);
	assert_int_equal(request_check_library("1.0.10"), LIBRARY_STRICT);
	assert_int_equal(request_check_library("1.1.0"), LIBRARY_NOT_TRIED);
	assert_int_equal(request_check_library("2.0"), LIBRARY_NOT_TRIED);
}

TEST(test_framing_splits_absolute_targets)
{
	static const struct {
		const char *target, *host, *rest;
		bool ok;
	} CASES[] = {
		{ "/a?http://b/c", NULL, "/a?http://b/c", true },
		{ "http://a:1/b?c", "a:1", "/b?c", true },
		{ "HTTPS://[::1]:1?c", "[::1]:1", "?c", true },
		{ "http://a", "a", "", true },
		{ "http://u@a/b", "u@a", "/b", false },
		{ "http:///b", "", "/b", false },
		{ "http:/b", NULL, "http:/b", true },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct span target = span_of(CASES[i].target);
		struct span host = { 0 };
		assert_int_equal(head_split_target(&target, &host), CASES[i].ok);
		assert_true(span_is(target, CASES[i].rest));
		assert_true(CASES[i].host ? span_is(host, CASES[i].host) : !host.p);
	}
}

TEST(test_local_requests_need_the_own_host_and_origin)
{
	static const struct {
		const char *host, *origin, *site;
		bool fine;
	} CASES[] = {
		{ "localhost:9186", NULL, NULL, true },
		{ "127.0.0.1:9186", NULL, NULL, true },
		{ "[::1]:9186", NULL, NULL, true },
		{ NULL, NULL, NULL, false },
		{ "localhost", NULL, NULL, false },
		{ "localhost:9187", NULL, NULL, false },
		{ "localhost.evil.example:9186", NULL, NULL, false },
		{ "localhost:9186", "http://localhost:9186", "same-origin", true },
		{ "localhost:9186", "https://localhost:9186", NULL, false },
		{ "localhost:9186", "http://evil.example", NULL, false },
		{ "localhost:9186", "null", NULL, false },
		{ "localhost:9186", "", NULL, false },
		{ "localhost:9186", NULL, "none", true },
		{ "localhost:9186", NULL, "cross-site", false },
		{ "localhost:9186", NULL, "same-site", false },
	};
	for (size_t i = 0; i < ARRAY_SIZE(CASES); i++) {
		struct request_head f = { 0 };
		if (CASES[i].host)
			f.value[HEADER_HOST] = span_of(CASES[i].host);
		if (CASES[i].origin)
			f.value[HEADER_ORIGIN] = span_of(CASES[i].origin);
		if (CASES[i].site)
			f.value[HEADER_FETCH_SITE] = span_of(CASES[i].site);
		if (!request_check_local(&f, "http", PORT) != CASES[i].fine)
			fail_msg("row %zu", i);
	}
}

static enum body_type type_of(const char *type, const char *encoding)
{
	struct request_head f = { 0 };
	if (type)
		f.value[HEADER_CONTENT_TYPE] = span_of(type);
	if (encoding)
		f.value[HEADER_CONTENT_ENCODING] = span_of(encoding);
	return head_body_type(&f);
}

TEST(test_body_type_follows_the_content_type)
{
	assert_int_equal(type_of(NULL, NULL), BODY_TYPE_TEXT);
	assert_int_equal(type_of("text/yaml", NULL), BODY_TYPE_TEXT);
	assert_int_equal(type_of("Text/Plain; charset=utf-8", "identity"), BODY_TYPE_TEXT);
	assert_int_equal(type_of("application/x-yaml ;a=b", NULL), BODY_TYPE_YAML);
	assert_int_equal(type_of("application/JSON", NULL), BODY_TYPE_JSON);
	assert_int_equal(type_of("application/x-www-form-urlencoded", NULL), BODY_TYPE_FORM);
	assert_int_equal(type_of("text/", NULL), BODY_TYPE_REFUSED);
	assert_int_equal(type_of("", NULL), BODY_TYPE_REFUSED);
	assert_int_equal(type_of("text/yaml", "gzip"), BODY_ENCODING_REFUSED);
}
