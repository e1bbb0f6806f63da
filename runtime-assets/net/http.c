/* One HTTP/1.1 request and its reply; see http.h. */
#include "runtime-assets/net/http.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/str.h"
#include "runtime-assets/files.h"
#include "runtime-assets/net/net_internal.h"

enum { REQUEST_MAX = 256 * 1024, WHERE_MAX = 300, PIECE = 16 * 1024 };

/* ---- the request -------------------------------------------------------------------------- */

/* Set by this client, or used to frame messages. */
static const char *const RESERVED[] = { "Host",           "Connection",
	                                "Content-Length", "Transfer-Encoding",
	                                "Upgrade",        "Accept-Encoding",
	                                "Expect",         "TE" };

static bool http_visible(struct span text)
{
	for (size_t i = 0; i < text.n; i++) {
		if ((unsigned char)text.p[i] <= ' ' || (unsigned char)text.p[i] >= 0x7f)
			return false;
	}
	return text.n > 0;
}

static const char *request_header_problem(const char *line)
{
	const char *colon = strchr(line, ':');
	size_t n = colon ? (size_t)(colon - line) : 0;
	if (!span_is_token((struct span){ line, n }))
		return "a header has no name";
	for (const char *p = line; *p; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return "a header has control characters in it";
	}
	for (size_t i = 0; i < ARRAY_SIZE(RESERVED); i++) {
		if (n == strlen(RESERVED[i]) && strncasecmp(line, RESERVED[i], n) == 0)
			return "a header is one that only this client sets";
	}
	return NULL;
}

/* NULL if the request is valid.  The text never quotes the request, which may be secret. */
static const char *request_problem(const struct http_request *q)
{
	const char *problem = NULL;
	if (!span_is_token(span_of(q->method)))
		return "the method is not valid";
	if (q->target[0] != '/' || !http_visible(span_of(q->target)))
		return "the path has blanks or control characters in it";
	if (!http_visible(span_of(q->host)))
		return "the name of the host has blanks or control characters in it";
	for (size_t i = 0; problem == NULL && q->headers && q->headers[i]; i++)
		problem = request_header_problem(q->headers[i]);
	return problem;
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

static void request_text(struct str *out, const struct http_request *q)
{
	str_puts(out, q->method);
	str_char(out, ' ');
	str_puts(out, q->target);
	str_puts(out, " HTTP/1.1\r\nHost: ");
	request_host(out, q, false);
	str_puts(out, "\r\nConnection: close\r\nAccept-Encoding: identity\r\n");
	for (size_t i = 0; q->headers && q->headers[i]; i++) {
		str_puts(out, q->headers[i]);
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

static void tls_cleanup(struct tls **t)
{
	tls_close(*t);
}

static int http_write(struct wire *w, struct tls *t, struct span text)
{
	w->doing = "sending the request";
	if (t)
		return tls_write(t, text);
	while (text.n) {
		size_t done = 0;
		int trouble = net_write(w, text.p, text.n, &done);
		if (trouble)
			return trouble;
		text = (struct span){ text.p + done, text.n - done };
	}
	return 0;
}

static int http_read(struct wire *w, struct tls *t, struct http_reader *r)
{
	STR_AUTO piece = STR_SECRET(PIECE);
	(void)str_reserve(&piece, PIECE);
	while (!r->done) {
		size_t n = 0;
		w->doing = r->status ? "reading the reply" : "waiting for the reply";
		int trouble = t ? tls_read(t, piece.p, PIECE, &n) : net_read(w, piece.p, PIECE, &n);
		if (trouble)
			return trouble;
		trouble = n ? http_reader_push(r, (struct span){ piece.p, n }) : http_reader_end(r);
		if (trouble)
			return wire_fail(w, trouble, ": the reply %s", r->problem);
	}
	return 0;
}

static int http_converse(struct wire *w, const struct http_request *q, struct http_reader *r)
{
	__attribute__((cleanup(tls_cleanup))) struct tls *t = NULL;
	STR_AUTO text = STR_SECRET(REQUEST_MAX);
	int trouble = 0;
	request_text(&text, q);
	if (text.full)
		return wire_fail(w, HTTP_BAD_REQUEST, ": the request is too long");
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

static int http_client_run(struct wire *w, const struct http_request *q, struct http_reader *r)
{
	const char *problem = request_problem(q);
	if (problem)
		return wire_fail(w, HTTP_BAD_REQUEST, ": nothing was sent: %s", problem);
	int trouble = net_open(w, q->host, q->port);
	return trouble ? trouble : http_converse(w, q, r);
}

int http_exchange(const struct http_request *q, struct arena *a, struct http_reply *reply,
                  struct err *e)
{
	__attribute__((cleanup(http_reader_done))) struct http_reader r;
	STR_AUTO where = STR_INIT(WHERE_MAX);
	char quoted[4 * QUOTE_MAX];
	request_host(&where, q, true);
	(void)quote(quoted, str_view(&where)); /* it goes to logs */
	__attribute__((cleanup(wire_close))) struct wire w = {
		.fd = -1, .deadline_ms = q->deadline_ms, .where = quoted, .e = e
	};
	http_reader_init(&r, q->method, q->headers_max, q->body_max);
	int trouble = http_client_run(&w, q, &r);
	if (trouble)
		return trouble;
	*reply = (struct http_reply){
		.status = r.status,
		.headers = arena_span(a, str_view(&r.head)),
		.body = arena_span(a, str_view(&r.body)),
	};
	return 0;
}

struct span http_header(const struct http_reply *r, const char *name, unsigned nth)
{
	return http_lines_find(r->headers, name, nth);
}

enum {
	CHUNK_LINE_MAX = 256, /* the size, and extensions, which are ignored */
	CHUNK_DIGITS_MAX = 15 /* so that the size fits */
};

static const char NO_CR[] = "has a line that does not end in CR LF";
static const char LARGE[] = "has a body larger than is accepted here";

static void reply_refuse(struct http_reader *r, int *trouble, int kind, const char *problem)
{
	r->problem = problem;
	*trouble = kind;
}

static void reply_broken(struct http_reader *r, int *trouble, const char *problem)
{
	reply_refuse(r, trouble, HTTP_BROKEN, problem);
}

static struct span reply_take(struct span *in, size_t n)
{
	struct span taken = { in->p, n < in->n ? n : in->n };
	in->p += taken.n;
	in->n -= taken.n;
	return taken;
}

static void reply_body(struct http_reader *r, struct span bytes, int *trouble)
{
	str_span(&r->body, bytes);
	if (r->body.full)
		reply_refuse(r, trouble, HTTP_TOO_LARGE, LARGE);
}

/* ---- the body: by length, to the end, in chunks ---------------------------------------------- */

static void reply_in_length(struct http_reader *r, struct span *in, int *trouble)
{
	struct span bytes = reply_take(in, r->left);
	r->left -= bytes.n;
	reply_body(r, bytes, trouble);
	r->done = r->left == 0;
}

static void reply_until_close(struct http_reader *r, struct span *in, int *trouble)
{
	reply_body(r, reply_take(in, in->n), trouble);
}

static bool reply_bare_end(struct span s)
{
	return s.n && s.p[s.n - 1] == '\n' && (s.n < 2 || s.p[s.n - 2] != '\r');
}

/* Reads a line around chunks; true when it is complete (without its CR LF).  Chunks of one byte
 * cost five more. */
static bool reply_line(struct http_reader *r, struct span *in, int *trouble, struct span *line)
{
	while (in->n) {
		str_span(&r->line, reply_take(in, 1));
		if (r->line.full || ++r->overhead > r->headers_max + 8 * r->body.n) {
			reply_broken(r, trouble, "has too much between its chunks");
			return false;
		}
		if (r->line.p[r->line.n - 1] != '\n')
			continue;
		if (reply_bare_end(str_view(&r->line))) {
			reply_broken(r, trouble, NO_CR);
			return false;
		}
		*line = (struct span){ r->line.p, r->line.n - 2 };
		r->line.n = 0;
		return true;
	}
	return false;
}

static void reply_in_trailer(struct http_reader *r, struct span *in, int *trouble)
{
	struct span line;
	if (reply_line(r, in, trouble, &line))
		r->done = line.n == 0;
}

static void reply_at_chunk(struct http_reader *r, struct span *in, int *trouble);

static void reply_behind_chunk(struct http_reader *r, struct span *in, int *trouble)
{
	struct span line;
	if (!reply_line(r, in, trouble, &line))
		return;
	if (line.n)
		reply_broken(r, trouble, "has a chunk that is longer than it says");
	r->next = reply_at_chunk;
}

static void reply_in_chunk(struct http_reader *r, struct span *in, int *trouble)
{
	struct span bytes = reply_take(in, r->left);
	r->left -= bytes.n;
	reply_body(r, bytes, trouble);
	if (r->left == 0)
		r->next = reply_behind_chunk;
}

static void reply_at_chunk(struct http_reader *r, struct span *in, int *trouble)
{
	struct span line;
	if (!reply_line(r, in, trouble, &line))
		return;
	size_t digits = 0;
	r->left = 0;
	while (digits < line.n && hex_value(line.p[digits]) >= 0)
		r->left = r->left << 4 | (uint64_t)hex_value(line.p[digits++]);
	bool ended = digits == line.n || line.p[digits] == ';' || line.p[digits] == ' ';
	if (digits == 0 || digits > CHUNK_DIGITS_MAX || !ended) {
		reply_broken(r, trouble, "has a chunk without a size");
	} else if (r->left > r->body.max - r->body.n) {
		reply_refuse(r, trouble, HTTP_TOO_LARGE, LARGE);
	} else {
		r->next = r->left ? reply_in_chunk : reply_in_trailer;
	}
}

/* ---- the head ---------------------------------------------------------------------- */

/* The next line, without its CR LF. */
static struct span reply_next_line(struct span *lines)
{
	size_t n = span_find(*lines, 0, "\r\n");
	if (n == SIZE_MAX)
		n = lines->n;
	struct span line = reply_take(lines, n);
	(void)reply_take(lines, 2);
	return line;
}

static struct span reply_trim(struct span s)
{
	while (s.n && (s.p[0] == ' ' || s.p[0] == '\t'))
		(void)reply_take(&s, 1);
	while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

/* Name and value of a line; the name is empty if there is no colon. */
static struct span reply_split_line(struct span line, struct span *name)
{
	const char *colon = line.n ? memchr(line.p, ':', line.n) : NULL;
	*name = (struct span){ line.p, colon ? (size_t)(colon - line.p) : 0 };
	if (!colon)
		return (struct span){ NULL, 0 };
	return reply_trim((struct span){ colon + 1, line.n - name->n - 1 });
}

static bool reply_same_name(struct span a, const char *b)
{
	return a.n == strlen(b) && strncasecmp(a.p, b, a.n) == 0;
}

struct span http_lines_find(struct span lines, const char *name, unsigned nth)
{
	while (lines.n) {
		struct span is;
		struct span value = reply_split_line(reply_next_line(&lines), &is);
		if (reply_same_name(is, name) && nth-- == 0)
			return value;
	}
	return (struct span){ NULL, 0 };
}

/* Control characters other than tab are refused, and lines without a name. */
static const char *reply_lines_problem(struct span lines)
{
	while (lines.n) {
		struct span name;
		struct span line = reply_next_line(&lines);
		(void)reply_split_line(line, &name);
		if (!span_is_token(name))
			return "has an invalid header";
		for (size_t i = 0; i < line.n; i++) {
			unsigned char c = (unsigned char)line.p[i];
			if ((c < ' ' && c != '\t') || c == 0x7f)
				return "has control characters in its headers";
		}
	}
	return NULL;
}

static bool reply_digits_at(struct span s, size_t from, size_t n)
{
	for (size_t i = from; i < from + n; i++) {
		if (i >= s.n || s.p[i] < '0' || s.p[i] > '9')
			return false;
	}
	return true;
}

/* HTTP/1.1 200 OK; the status, or 0. */
static int reply_status(struct span line)
{
	bool ok = (span_starts(line, "HTTP/1.1 ") || span_starts(line, "HTTP/1.0 ")) &&
	          reply_digits_at(line, 9, 3) && (line.n == 12 || line.p[12] == ' ');
	if (!ok)
		return 0;
	int status = (line.p[9] - '0') * 100 + (line.p[10] - '0') * 10 + line.p[11] - '0';
	return status >= 100 && status <= 599 ? status : 0;
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
	if (!reply_digits_at(first, 0, first.n) || parse_i64(first, 0, INT64_MAX, &n) != 0)
		return -1;
	*length = (uint64_t)n;
	return 1;
}

/* How long is the body?  RFC 9112, section 6.3. */
static void reply_choose_body(struct http_reader *r, int *trouble)
{
	struct span lines = str_view(&r->head);
	struct span coding = http_lines_find(lines, "Transfer-Encoding", 0);
	struct span content = http_lines_find(lines, "Content-Encoding", 0);
	int has_length = reply_length(lines, &r->left);
	if (has_length < 0)
		return reply_broken(r, trouble, "has a Content-Length that is no number, or two");
	if (coding.p && has_length)
		return reply_broken(r, trouble, "has two lengths: one in bytes, and chunks");
	if (r->without_body || r->status == 204 || r->status == 304) {
		r->done = true;
		return;
	}
	if (content.p && !reply_same_name(content, "identity"))
		return reply_broken(r, trouble, "is compressed, which was not asked for");
	if (coding.p) {
		if (!reply_same_name(coding, "chunked") ||
		    http_lines_find(lines, "Transfer-Encoding", 1).p)
			return reply_broken(r, trouble,
			                    "has a Transfer-Encoding other than chunked");
		r->next = reply_at_chunk;
	} else if (!has_length) {
		r->next = reply_until_close;
	} else if (r->left > r->body.max) {
		reply_refuse(r, trouble, HTTP_TOO_LARGE, LARGE);
	} else {
		r->next = reply_in_length;
		r->done = r->left == 0;
	}
}

static void reply_cut_front(struct str *s, size_t n)
{
	memmove(s->p, s->p + n, s->n - n);
	s->n -= n;
	s->p[s->n] = '\0';
}

static void reply_read_head(struct http_reader *r, int *trouble)
{
	struct span lines = str_view(&r->head);
	struct span first = reply_next_line(&lines);
	lines.n -= 2; /* the empty line at the end */
	r->status = reply_status(first);
	if (r->status == 0)
		return reply_broken(r, trouble, "does not begin as HTTP/1.1 does");
	r->problem = reply_lines_problem(lines);
	if (r->problem)
		return reply_broken(r, trouble, r->problem);
	if (r->status == 101)
		return reply_broken(r, trouble,
		                    "changes to another protocol, which was not asked for");
	if (r->status < 200) {
		r->overhead += r->head.n;
		r->head.n = 0; /* the real one is still to come */
		return;
	}
	r->head.n -= 2;
	reply_cut_front(&r->head, first.n + 2);
	reply_choose_body(r, trouble);
}

/* Detects another protocol at once. */
static bool reply_begins_well(struct span head)
{
	static const char START[] = "HTTP/1.";
	size_t n = head.n < sizeof(START) - 1 ? head.n : sizeof(START) - 1;
	return memcmp(head.p, START, n) == 0;
}

static bool reply_head_ended(struct span head)
{
	return head.n >= 4 && memcmp(head.p + head.n - 4, "\r\n\r\n", 4) == 0;
}

static void reply_in_head(struct http_reader *r, struct span *in, int *trouble)
{
	while (in->n) {
		str_span(&r->head, reply_take(in, 1));
		struct span head = str_view(&r->head);
		if (r->head.full || head.n + r->overhead > r->headers_max)
			return reply_refuse(r, trouble, HTTP_TOO_LARGE,
			                    "has more headers than are accepted here");
		if (!reply_begins_well(head))
			return reply_broken(r, trouble, "does not begin as HTTP/1.1 does");
		if (reply_bare_end(head))
			return reply_broken(r, trouble, NO_CR);
		if (reply_head_ended(head))
			return reply_read_head(r, trouble);
	}
}

/* ---- its interface ---------------------------------------------------------------------- */

void http_reader_init(struct http_reader *r, const char *method, size_t headers_max,
                      size_t body_max)
{
	*r = (struct http_reader){
		.head = STR_SECRET(headers_max),
		.body = STR_SECRET(body_max),
		.line = STR_INIT(CHUNK_LINE_MAX),
		.headers_max = headers_max,
		.without_body = strcmp(method, "HEAD") == 0,
		.next = reply_in_head,
	};
}

int http_reader_push(struct http_reader *r, struct span bytes)
{
	int trouble = 0;
	while (bytes.n && !r->done && trouble == 0)
		r->next(r, &bytes, &trouble);
	return trouble;
}

int http_reader_end(struct http_reader *r)
{
	r->done = r->done || r->next == reply_until_close;
	if (r->done)
		return 0;
	r->problem = r->head.n || r->next != reply_in_head ? "ends in the middle" : "is empty";
	return HTTP_BROKEN;
}

void http_reader_done(struct http_reader *r)
{
	str_done(&r->head);
	str_done(&r->body);
	str_done(&r->line);
}

static const char HTTP[] = "http://";
static const char HTTPS[] = "https://";

bool name_has_only(struct span name, const char *also)
{
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		if (!is_lower_alnum(c) && (c == '\0' || !strchr(also, c)))
			return false;
	}
	return name.n > 0 && name.n <= HOST_NAME_MAX_BYTES;
}

bool is_host_name(struct span name)
{
	return name_has_only(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ.-");
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

bool address_is_loopback(const struct address *a)
{
	return strcmp(a->host, "localhost") == 0 || strcmp(a->host, "::1") == 0 ||
	       (strncmp(a->host, "127.", 4) == 0 && address_is_family(a->host, AF_INET));
}

int address_set(struct address *a, struct span host, struct span port)
{
	int64_t number = a->tls ? 443 : 80;
	if (port.n && parse_i64(port, 1, UINT16_MAX, &number) != 0)
		return -1;
	if (host.n == 0 || host.n > HOST_NAME_MAX_BYTES || memchr(host.p, '\0', host.n))
		return -1;
	a->host = xstrndup(host.p, host.n);
	a->port = (uint16_t)number;
	return is_host_name(host) || address_is_ip(a->host) ? 0 : -1;
}

/* Host and port of "HOST[:PORT]" or "[IPV6][:PORT]"; -1 if it is neither. */
static int address_split(struct span t, struct span *host, struct span *port)
{
	const char *end = t.p + t.n;
	const char *after;
	if (span_starts(t, "[")) {
		const char *close = memchr(t.p, ']', t.n);
		if (close == NULL)
			return -1;
		*host = (struct span){ t.p + 1, (size_t)(close - t.p) - 1 };
		after = close + 1;
	} else {
		const char *colon = memchr(t.p, ':', t.n);
		after = colon ? colon : end;
		*host = (struct span){ t.p, (size_t)(after - t.p) };
	}
	*port = SPAN("");
	if (after == end)
		return 0;
	*port = (struct span){ after + 1, (size_t)(end - after - 1) };
	return *after == ':' && port->n > 0 ? 0 : -1;
}

int address_read(struct address *a, struct span url)
{
	struct span host;
	struct span port;
	a->tls = span_starts(url, HTTPS);
	if (!a->tls && !span_starts(url, HTTP))
		return -1;
	size_t skip = strlen(a->tls ? HTTPS : HTTP);
	url = (struct span){ url.p + skip, url.n - skip };
	if (url.n && url.p[url.n - 1] == '/')
		url.n--;
	return address_split(url, &host, &port) == 0 ? address_set(a, host, port) : -1;
}

void address_done(struct address *a)
{
	free(a->host);
	a->host = NULL;
}

char *address_url(const struct address *a)
{
	bool six = strchr(a->host, ':') != NULL; /* it needs brackets */
	return xasprintf(six ? "%s[%s]:%u" : "%s%s:%u", a->tls ? HTTPS : HTTP, a->host,
	                 (unsigned)a->port);
}
