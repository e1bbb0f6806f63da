/* One HTTP/1.1 request and its reply; see http.h. */
#include "runtime-assets/net/http.h"

#include <arpa/inet.h>
#include <assert.h>

#include "runtime-assets/common/files.h"
#include "runtime-assets/net/net_internal.h"

enum { REQUEST_MAX = 256 * 1024, WHERE_MAX = 300, PIECE = 16 * 1024 };

/* ---- the request -------------------------------------------------------------------------- */

/* Visible characters of ASCII, at least one. */
static bool http_visible(struct span text)
{
	return text.n > 0 && span_all(text, "!-~");
}

int token_append(const char *file, struct str *out, struct err *e)
{
	ARENA_SECRET a = { 0 };
	struct span text;
	/* One byte more than a token has, and a newline. */
	if (file_need(file, FILE_MOUNTED, TOKEN_MAX + 2, &a, &text, e))
		return -1;
	struct span token = span_trim(text);
	if (!http_visible(token) || token.n > TOKEN_MAX)
		return err_set(e, FAILED,
		               "%s: a token is one word of at most %d visible characters", file,
		               TOKEN_MAX);
	str_span(out, token);
	return 0;
}

static void request_host(struct str *out, const struct http_request *q, bool always_port)
{
	bool six = strchr(q->host, ':') != NULL;
	str_puts(out, six ? "[" : "");
	str_puts(out, q->host);
	str_puts(out, six ? "]" : "");
	if (always_port || q->port != (q->ca_bundle ? 443 : 80))
		str_printf(out, ":%u", q->port);
}

static void request_text(struct str *out, const struct http_request *q, struct span token)
{
	str_puts(out, q->method);
	str_char(out, ' ');
	str_puts(out, q->target);
	str_puts(out, " HTTP/1.1\r\nHost: ");
	request_host(out, q, false);
	str_puts(out, "\r\nConnection: close\r\nAccept-Encoding: identity\r\n");
	str_puts(out, q->headers ? q->headers : "");
	if (token.n) {
		str_puts(out, "Authorization: Bearer ");
		str_span(out, token);
		str_puts(out, "\r\n");
	}
	if (q->body.p)
		str_printf(out, "Content-Length: %zu\r\n", q->body.n);
	str_puts(out, "\r\n");
}

/* ---- the exchange ------------------------------------------------------------------------- */

static void wire_close(struct wire *w)
{
	fd_cleanup(&w->fd);
}

static int http_write(struct wire *w, struct tls_session *t, struct span text)
{
	w->doing = "sending the request";
	return t ? tls_write(t, text) : net_write(w, text);
}

static int http_read(struct wire *w, struct tls_session *t, struct http_reader *r)
{
	STR_AUTO piece = STR_SECRET(PIECE);
	(void)str_reserve(&piece, PIECE);
	while (!r->done) {
		size_t n = 0;
		w->doing = r->status ? "reading the reply" : "waiting for the reply";
		int trouble = t ? tls_read(t, piece.p, PIECE, &n) : net_read(w, piece.p, PIECE, &n);
		if (trouble)
			return trouble;
		trouble = http_reader_push(r, (struct span){ piece.p, n });
		if (trouble)
			return wire_fail(w, trouble, ": the reply %s", r->problem);
	}
	return 0;
}

static int http_converse(struct wire *w, const struct http_request *q, struct span token,
                         struct http_reader *r)
{
	__attribute__((cleanup(tls_close))) struct tls_session *t = NULL;
	STR_AUTO text = STR_SECRET(REQUEST_MAX);
	int trouble = 0;
	request_text(&text, q, token);
	assert(!text.full);
	if (q->ca_bundle)
		t = tls_open(w, q->ca_bundle, q->server_name ? q->server_name : q->host, &trouble);
	if (trouble)
		return trouble;
	ERR_AUTO unsent = { 0 };
	struct err *e = w->e;
	w->e = &unsent;
	trouble = http_write(w, t, str_view(&text));
	if (trouble == 0 && q->body.n)
		trouble = http_write(w, t, q->body);
	w->e = e;
	/* A server that refuses early may cut the connection; its answer counts. */
	if (trouble && trouble != HTTP_BROKEN) {
		err_move(e, &unsent);
		return trouble;
	}
	return http_read(w, t, r);
}

int http_exchange(const struct http_request *q, struct arena *a, struct http_reply *reply,
                  struct err *e)
{
	__attribute__((cleanup(http_reader_done))) struct http_reader r;
	STR_AUTO where = STR_INIT(WHERE_MAX);
	STR_AUTO token = STR_SECRET(TOKEN_MAX);
	char quoted[4 * QUOTE_MAX];
	request_host(&where, q, true);
	(void)quote(quoted, str_view(&where)); /* it goes to logs */
	__attribute__((cleanup(wire_close))) struct wire w = {
		.fd = -1, .deadline_ms = q->deadline_ms, .where = quoted, .e = e
	};
	http_reader_init(&r, q->headers_max, q->body_max);
	if (q->token_file && token_append(q->token_file, &token, e) != 0)
		return HTTP_BAD_REQUEST;
	int trouble = net_open(&w, q->host, q->port);
	if (trouble == 0)
		trouble = http_converse(&w, q, str_view(&token), &r);
	if (trouble)
		return trouble;
	*reply = (struct http_reply){
		.status = r.status,
		.headers = arena_span(a, str_view(&r.head)),
		.body = arena_span(a, str_view(&r.body)),
	};
	if (token.n && r.status != 200 && span_find(reply->body, 0, str_c(&token)) != SIZE_MAX)
		reply->body = SPAN("(an answer with the token in it: not shown)");
	return 0;
}

enum {
	CHUNK_LINE_MAX = 256, /* the size, and extensions, which are ignored */
	CHUNK_DIGITS_MAX = 15 /* so that the size fits */
};

static const char NO_CR[] = "has a line that does not end in CR LF";
static const char NOT_HTTP[] = "does not begin as HTTP/1.1 does";
static const char LARGE[] = "has a body larger than is accepted here";

static int reply_refuse(struct http_reader *r, int trouble, const char *problem)
{
	r->problem = problem;
	return trouble;
}

static struct span reply_take(struct span *in, size_t n)
{
	struct span taken = span_to(*in, n < in->n ? n : in->n);
	*in = span_from(*in, taken.n);
	return taken;
}

static int reply_body(struct http_reader *r, struct span bytes)
{
	str_span(&r->body, bytes);
	return r->body.full ? reply_refuse(r, HTTP_TOO_LARGE, LARGE) : 0;
}

/* ---- the body: by length, to the end, in chunks ---------------------------------------------- */

static int reply_in_length(struct http_reader *r, struct span *in)
{
	struct span bytes = reply_take(in, r->left);
	r->left -= bytes.n;
	r->done = r->left == 0;
	return reply_body(r, bytes);
}

static int reply_until_close(struct http_reader *r, struct span *in)
{
	return reply_body(r, reply_take(in, in->n));
}

static bool reply_bare_end(struct span s)
{
	return s.n && s.p[s.n - 1] == '\n' && (s.n < 2 || s.p[s.n - 2] != '\r');
}

/* Reads a line around chunks; its p is NULL until it is complete (without its CR LF).  Chunks of
 * one byte cost five more. */
static int reply_line(struct http_reader *r, struct span *in, struct span *line)
{
	*line = (struct span){ NULL, 0 };
	while (in->n && !line->p) {
		str_span(&r->line, reply_take(in, 1));
		if (r->line.full || ++r->overhead > r->headers_max + 8 * r->body.n)
			return reply_refuse(r, HTTP_BROKEN, "has too much between its chunks");
		if (r->line.p[r->line.n - 1] != '\n')
			continue;
		if (reply_bare_end(str_view(&r->line)))
			return reply_refuse(r, HTTP_BROKEN, NO_CR);
		*line = (struct span){ r->line.p, r->line.n - 2 };
		r->line.n = 0;
	}
	return 0;
}

static int reply_in_trailer(struct http_reader *r, struct span *in)
{
	struct span line;
	int trouble = reply_line(r, in, &line);
	r->done = line.p && line.n == 0;
	return trouble;
}

static int reply_at_chunk(struct http_reader *r, struct span *in);

static int reply_behind_chunk(struct http_reader *r, struct span *in)
{
	struct span line;
	int trouble = reply_line(r, in, &line);
	if (line.n)
		return reply_refuse(r, HTTP_BROKEN, "has a chunk that is longer than it says");
	if (line.p)
		r->next = reply_at_chunk;
	return trouble;
}

static int reply_in_chunk(struct http_reader *r, struct span *in)
{
	struct span bytes = reply_take(in, r->left);
	r->left -= bytes.n;
	if (r->left == 0)
		r->next = reply_behind_chunk;
	return reply_body(r, bytes);
}

static int reply_at_chunk(struct http_reader *r, struct span *in)
{
	struct span line;
	int trouble = reply_line(r, in, &line);
	if (!line.p)
		return trouble;
	size_t digits = 0;
	r->left = 0;
	while (digits < line.n && hex_value(line.p[digits]) >= 0)
		r->left = r->left << 4 | (uint64_t)hex_value(line.p[digits++]);
	bool ended = digits == line.n || line.p[digits] == ';' || line.p[digits] == ' ';
	if (digits == 0 || digits > CHUNK_DIGITS_MAX || !ended)
		return reply_refuse(r, HTTP_BROKEN, "has a chunk without a size");
	if (r->left > r->body.max - r->body.n)
		return reply_refuse(r, HTTP_TOO_LARGE, LARGE);
	r->next = r->left ? reply_in_chunk : reply_in_trailer;
	return 0;
}

/* ---- the head ---------------------------------------------------------------------- */

/* The next line, without its CR LF. */
static struct span reply_next_line(struct span *lines)
{
	struct span line = span_next(lines, '\n');
	line.n -= line.n > 0; /* each of them has a CR */
	return line;
}

struct span http_lines_find(struct span lines, const char *name, unsigned nth)
{
	while (lines.n) {
		struct span line = reply_next_line(&lines);
		size_t colon = span_chr(line, ':');
		if (colon < line.n && span_same(span_to(line, colon), span_of(name)) && nth-- == 0)
			return span_trim(span_from(line, colon + 1));
	}
	return (struct span){ NULL, 0 };
}

/* Control characters other than tab are refused, and lines without a name. */
static const char *reply_lines_problem(struct span lines)
{
	while (lines.n) {
		struct span line = reply_next_line(&lines);
		size_t colon = span_chr(line, ':');
		if (colon == line.n || !span_is_token(span_to(line, colon)))
			return "has an invalid header";
		if (span_has_control(line))
			return "has control characters in its headers";
	}
	return NULL;
}

/* 0 no length, 1 a length, -1 invalid: no number, or two different ones. */
static int reply_length(struct span lines, uint64_t *length)
{
	struct span first = http_lines_find(lines, "Content-Length", 0);
	struct span more = first;
	int64_t n = 0;
	if (!first.p)
		return 0;
	for (unsigned i = 1; more.p; i++) {
		if (!span_eq(first, more))
			return -1;
		more = http_lines_find(lines, "Content-Length", i);
	}
	if (!span_digits(first) || parse_i64(first, 0, INT64_MAX, &n) != 0)
		return -1;
	*length = (uint64_t)n;
	return 1;
}

/* Decides how the length of the body is found: RFC 9112, section 6.3. */
static int reply_choose_body(struct http_reader *r)
{
	struct span lines = str_view(&r->head);
	struct span coding = http_lines_find(lines, "Transfer-Encoding", 0);
	struct span content = http_lines_find(lines, "Content-Encoding", 0);
	int has_length = reply_length(lines, &r->left);
	if (has_length < 0)
		return reply_refuse(r, HTTP_BROKEN,
		                    "has a Content-Length that is no number, or two");
	if (coding.p && has_length)
		return reply_refuse(r, HTTP_BROKEN, "has two lengths: one in bytes, and chunks");
	r->done = r->status == 204 || r->status == 304;
	if (r->done)
		return 0;
	if (content.p && !span_same(content, SPAN("identity")))
		return reply_refuse(r, HTTP_BROKEN, "is compressed, which was not asked for");
	if (coding.p && (!span_same(coding, SPAN("chunked")) ||
	                 http_lines_find(lines, "Transfer-Encoding", 1).p))
		return reply_refuse(r, HTTP_BROKEN, "has a Transfer-Encoding other than chunked");
	if (has_length && r->left > r->body.max)
		return reply_refuse(r, HTTP_TOO_LARGE, LARGE);
	r->next = coding.p ? reply_at_chunk : has_length ? reply_in_length : reply_until_close;
	r->done = has_length && r->left == 0;
	return 0;
}

static int reply_read_head(struct http_reader *r)
{
	struct span lines = str_view(&r->head);
	struct span first = reply_next_line(&lines);
	lines.n -= 2;       /* the empty line at the end */
	int64_t status = 0; /* HTTP/1.1 200 OK */
	bool http = (span_starts(first, "HTTP/1.1 ") || span_starts(first, "HTTP/1.0 ")) &&
	            (first.n == 12 || (first.n > 12 && first.p[12] == ' '));
	if (!http || parse_i64((struct span){ first.p + 9, 3 }, 100, 599, &status) != 0)
		return reply_refuse(r, HTTP_BROKEN, NOT_HTTP);
	r->status = (int)status;
	r->problem = reply_lines_problem(lines);
	if (r->problem)
		return HTTP_BROKEN;
	if (status == 101)
		return reply_refuse(r, HTTP_BROKEN,
		                    "changes to another protocol, which was not asked for");
	if (status < 200) {
		r->overhead += r->head.n;
		r->head.n = 0; /* the real one is still to come */
		return 0;
	}
	r->head.n -= first.n + 4; /* the first line and the empty one go */
	memmove(r->head.p, r->head.p + first.n + 2, r->head.n);
	r->head.p[r->head.n] = '\0';
	return reply_choose_body(r);
}

static int reply_in_head(struct http_reader *r, struct span *in)
{
	static const char START[] = "HTTP/1.";
	while (in->n) {
		str_span(&r->head, reply_take(in, 1));
		struct span head = str_view(&r->head);
		if (r->head.full || head.n + r->overhead > r->headers_max)
			return reply_refuse(r, HTTP_TOO_LARGE,
			                    "has more headers than are accepted here");
		/* Detects another protocol at once. */
		if (memcmp(head.p, START, head.n < strlen(START) ? head.n : strlen(START)) != 0)
			return reply_refuse(r, HTTP_BROKEN, NOT_HTTP);
		if (reply_bare_end(head))
			return reply_refuse(r, HTTP_BROKEN, NO_CR);
		if (head.n >= 4 && memcmp(head.p + head.n - 4, "\r\n\r\n", 4) == 0)
			return reply_read_head(r);
	}
	return 0;
}

/* ---- its interface ---------------------------------------------------------------------- */

void http_reader_init(struct http_reader *r, size_t headers_max, size_t body_max)
{
	*r = (struct http_reader){
		.head = STR_SECRET(headers_max),
		.body = STR_SECRET(body_max),
		.line = STR_INIT(CHUNK_LINE_MAX),
		.headers_max = headers_max,
		.next = reply_in_head,
	};
}

int http_reader_push(struct http_reader *r, struct span bytes)
{
	int trouble = 0;
	if (bytes.n == 0) {
		r->done = r->done || r->next == reply_until_close;
		bool middle = r->head.n || r->next != reply_in_head;
		return r->done ? 0
		               : reply_refuse(r, HTTP_BROKEN,
		                              middle ? "ends in the middle" : "is empty");
	}
	while (bytes.n && !r->done && trouble == 0)
		trouble = r->next(r, &bytes);
	return trouble;
}

void http_reader_done(struct http_reader *r)
{
	str_done(&r->head);
	str_done(&r->body);
	str_done(&r->line);
}

bool name_has_only(struct span name, const char *class)
{
	return name.n > 0 && name.n <= HOST_NAME_MAX_BYTES && span_all(name, class);
}

bool is_host_name(struct span name)
{
	return name_has_only(name, "a-z0-9A-Z.-");
}

static bool address_is_family(const char *host, int family)
{
	unsigned char bytes[16];
	return inet_pton(family, host, bytes) == 1;
}

bool address_is_ip(const char *host)
{
	return address_is_family(host, AF_INET) || address_is_family(host, AF_INET6);
}

bool http_address_is_loopback(const struct url_address *a)
{
	return strcmp(a->host, "localhost") == 0 || strcmp(a->host, "::1") == 0 ||
	       (strncmp(a->host, "127.", 4) == 0 && address_is_family(a->host, AF_INET));
}

int http_address_set(struct url_address *to, struct span host, struct span port, struct arena *a)
{
	int64_t number = to->tls ? 443 : 80;
	if (port.n && parse_i64(port, 1, UINT16_MAX, &number) != 0)
		return -1;
	if (host.n == 0 || host.n > HOST_NAME_MAX_BYTES || memchr(host.p, '\0', host.n))
		return -1;
	to->host = arena_dup(a, host);
	to->port = (uint16_t)number;
	return is_host_name(host) || address_is_ip(to->host) ? 0 : -1;
}

int http_address_read(struct url_address *to, struct span url, struct arena *a)
{
	to->tls = span_starts(url, "https://");
	if (!to->tls && !span_starts(url, "http://"))
		return -1;
	struct span rest = span_from(url, strlen(to->tls ? "https://" : "http://"));
	if (rest.n && rest.p[rest.n - 1] == '/')
		rest.n--;
	/* HOST[:PORT] or [IPV6][:PORT] */
	bool six = span_starts(rest, "[");
	size_t end = span_chr(rest, six ? ']' : ':');
	if (six && end == rest.n)
		return -1;
	struct span host = six ? (struct span){ rest.p + 1, end - 1 } : span_to(rest, end);
	rest = span_from(rest, end + six);
	if (rest.n > 0 && (rest.n == 1 || rest.p[0] != ':'))
		return -1;
	return http_address_set(to, host, span_from(rest, rest.n > 0), a);
}
