/* Refuses heads that a proxy could read differently, by the headers and by the addresses of their
 * bytes. */
#include "server/http/request_check.h"

#include <stdio.h>
#include <strings.h>

#include "base/str.h"

/* Blanks between name and value.  A larger distance means a folded header, whose name a lenient
 * library moves; more blanks are refused as well. */
enum { GAP_MAX = 64, AUTHORITY_MAX = 64, CRLF = 2 };

/* Limits within the 16 KiB buffer of a connection. */
enum { LINE_MAX_BYTES = 8 * 1024, HEAD_MAX_BYTES = 14 * 1024, SEPARATORS = 4 };

static const struct known_header {
	const char *name;
	bool once; /* two of them are refused */
} KNOWN[HEADER_MAX] = {
	[HEADER_CONTENT_LENGTH] = { "content-length", true },
	[HEADER_TRANSFER_ENCODING] = { "transfer-encoding", true },
	[HEADER_HOST] = { "host", true },
	[HEADER_AUTHORIZATION] = { "authorization", true },
	[HEADER_CONTENT_TYPE] = { "content-type", true },
	[HEADER_CONTENT_ENCODING] = { "content-encoding", true },
	[HEADER_ORIGIN] = { "origin", true },
	[HEADER_FETCH_SITE] = { "sec-fetch-site", true },
	[HEADER_REQUEST_ID] = { "x-request-id", false },
	/* Each proxy may add a header; the last one is used. */
	[HEADER_FORWARDED_FOR] = { "x-forwarded-for", false },
	[HEADER_WANTED_HEADERS] = { "access-control-request-headers", true },
	[HEADER_EXPECT] = { "expect", false },
	[HEADER_IDEMPOTENCY_KEY] = { "idempotency-key", true },
	[HEADER_ACCEPT] = { "accept", false },
};

static void head_refuse(struct request_head *f, const char *what)
{
	if (!f->wrong)
		f->wrong = what;
}

enum library request_check_library(const char *version)
{
	return strverscmp(version, "0.9.75") < 0 ? LIBRARY_REFUSED
	       : strverscmp(version, "1.0") < 0  ? LIBRARY_LENIENT
	       : strverscmp(version, "1.1") < 0  ? LIBRARY_STRICT
	                                         : LIBRARY_NOT_TRIED;
}

/* ---- headers ---- */

/* MHD skips repeated blanks between the parts, and a NUL ends a part. */
void head_take_line(struct request_head *f, const struct head_line *line)
{
	uintptr_t method_end = (uintptr_t)line->method + strlen(line->method);
	uintptr_t uri_end = (uintptr_t)line->uri + line->uri_n;
	if ((uintptr_t)line->uri != method_end + 1 || (uintptr_t)line->version != uri_end + 1)
		head_refuse(f, "the request line is malformed");
	f->next = (uintptr_t)line->version + strlen(line->version) + CRLF;
}

/* Each line must begin right after the CR LF of the line before. */
static void check_place(struct request_head *f, struct span name, struct span value)
{
	uintptr_t colon = (uintptr_t)name.p + name.n;
	uintptr_t gap = (uintptr_t)value.p - colon;
	if (!f->next)
		return;
	if (!value.p || gap < 1 || gap > GAP_MAX)
		head_refuse(f, "a header is folded over several lines");
	else if ((uintptr_t)name.p != f->next)
		head_refuse(f, "a header holds a NUL, or its line does not end in CR LF");
	f->next = (uintptr_t)value.p + value.n + CRLF;
}

void head_take_header(struct request_head *f, struct span name, struct span value)
{
	f->room += name.n + value.n + SEPARATORS + HEAD_NOTE;
	check_place(f, name, value);
	if (!span_is_token(name))
		head_refuse(f, "a header has an invalid name");
	else if (!value.p || span_has_control(value))
		head_refuse(f, "a header holds a control character");
	if (f->wrong)
		return;
	for (enum header h = 0; h < HEADER_MAX; h++) {
		if (!span_same(name, span_of(KNOWN[h].name)))
			continue;
		if (f->value[h].p && KNOWN[h].once)
			head_refuse(f, "a header that may occur once is repeated");
		f->value[h] = value;
	}
}

bool head_split_target(struct span *target, struct span *host)
{
	static const char *const SCHEMES[] = { "http://", "https://" };
	for (size_t i = 0; i < ARRAY_SIZE(SCHEMES); i++) {
		size_t begin = strlen(SCHEMES[i]);
		size_t end = begin;
		if (target->n < begin || strncasecmp(target->p, SCHEMES[i], begin) != 0)
			continue;
		while (end < target->n && target->p[end] != '/' && target->p[end] != '?')
			end++;
		*host = (struct span){ target->p + begin, end - begin };
		*target = (struct span){ target->p + end, target->n - end };
		return host->n > 0 && !memchr(host->p, '@', host->n);
	}
	return true;
}

enum head_size head_size(const struct request_head *f, size_t line_n)
{
	if (line_n > LINE_MAX_BYTES)
		return SIZE_LINE;
	return line_n + f->room > HEAD_MAX_BYTES ? SIZE_HEADERS : SIZE_OK;
}

const char *request_check(struct request_head *f, const char *version, const char *head_end)
{
	struct span length = f->value[HEADER_CONTENT_LENGTH];
	struct span encoding = f->value[HEADER_TRANSFER_ENCODING];
	bool http_1_1 = strcmp(version, "HTTP/1.1") == 0;
	int64_t n = 0;

	/* A lenient library treats a line that begins with a colon as the empty line. */
	if (f->next && f->next + CRLF != (uintptr_t)head_end)
		head_refuse(f, "the header does not end in an empty line");
	if (!http_1_1 && strcmp(version, "HTTP/1.0") != 0)
		head_refuse(f, "the version must be HTTP/1.1 or HTTP/1.0");
	else if (!f->value[HEADER_HOST].p && http_1_1)
		head_refuse(f, "the Host header is missing");

	if (length.p &&
	    (length.n > 18 || parse_i64(length, 0, INT64_MAX, &n) < 0 || length.p[0] == '-'))
		head_refuse(f, "Content-Length is not a number");
	f->length = (uint64_t)n;
	f->chunked = encoding.p;
	if (encoding.p && length.p)
		head_refuse(f, "a request must not have both Content-Length and Transfer-Encoding");
	else if (encoding.p && !span_same(encoding, SPAN("chunked")))
		head_refuse(f, "Transfer-Encoding must be chunked");
	else if (encoding.p && !http_1_1)
		head_refuse(f, "Transfer-Encoding is for HTTP/1.1 only");
	return f->wrong;
}

static bool authority_is_local(struct span authority, const char *scheme, uint16_t port)
{
	static const char *const NAMES[] = { "localhost", "127.0.0.1", "[::1]" };
	for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++) {
		STR_AUTO own = STR_INIT(AUTHORITY_MAX);
		str_printf(&own, "%s%s%s:%u", scheme, *scheme ? "://" : "", NAMES[i], port);
		if (span_same(authority, str_view(&own)))
			return true;
	}
	return false;
}

const char *request_check_local(const struct request_head *f, const char *scheme, uint16_t port)
{
	struct span origin = f->value[HEADER_ORIGIN];
	struct span site = f->value[HEADER_FETCH_SITE];
	if (!f->value[HEADER_HOST].p || !authority_is_local(f->value[HEADER_HOST], "", port))
		return "without logins, this server accepts localhost only: the Host header "
		       "must be localhost, 127.0.0.1 or [::1], with the port";
	if (origin.p && !authority_is_local(origin, scheme, port))
		return "without logins, this server refuses requests of other web pages (Origin)";
	if (site.p && !span_same(site, SPAN("same-origin")) && !span_same(site, SPAN("none")))
		return "without logins, this server refuses requests of other web pages "
		       "(Sec-Fetch-Site)";
	return NULL;
}

static const struct {
	const char *name;
	enum body_type type;
} TYPES[] = {
	{ "application/json", BODY_TYPE_JSON },
	{ "application/yaml", BODY_TYPE_YAML },
	{ "application/x-yaml", BODY_TYPE_YAML },
	{ "application/x-www-form-urlencoded", BODY_TYPE_FORM },
	{ "application/octet-stream", BODY_TYPE_BYTES },
	{ "application/gzip", BODY_TYPE_GZIP },
};

enum body_type head_body_type(const struct request_head *f)
{
	struct span type = f->value[HEADER_CONTENT_TYPE];
	struct span how = f->value[HEADER_CONTENT_ENCODING];
	if (how.p && !span_same(span_trim(how), SPAN("identity")))
		return BODY_ENCODING_REFUSED;
	if (!type.p)
		return BODY_TYPE_TEXT; /* Python's requests sends text without a type */
	type = span_trim(span_to(type, span_chr(type, ';')));
	for (size_t i = 0; i < ARRAY_SIZE(TYPES); i++)
		if (span_same(type, span_of(TYPES[i].name)))
			return TYPES[i].type;
	bool text = type.n > 5 && strncasecmp(type.p, "text/", 5) == 0;
	return text && span_is_token((struct span){ type.p + 5, type.n - 5 }) ? BODY_TYPE_TEXT
	                                                                      : BODY_TYPE_REFUSED;
}
