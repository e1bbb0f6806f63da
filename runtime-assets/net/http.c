/* One HTTP/1.1 request and its reply; see http.h. */
#include "runtime-assets/net/http.h"

#include <stdio.h>
#include <strings.h>

#include "runtime-assets/files.h"
#include "runtime-assets/net/http_reader.h"
#include "runtime-assets/net/wire.h"

enum { REQUEST_MAX = 256 * 1024, WHERE_MAX = 300, PIECE = 16 * 1024 };

/* ---- the request -------------------------------------------------------------------------- */

/* What decides how the message is read, or is said by us. */
static const char *const RESERVED[] = { "Host",           "Connection",
	                                "Content-Length", "Transfer-Encoding",
	                                "Upgrade",        "Accept-Encoding",
	                                "Expect",         "TE" };

static bool visible(struct span text)
{
	for (size_t i = 0; i < text.n; i++) {
		if ((unsigned char)text.p[i] <= ' ' || (unsigned char)text.p[i] >= 0x7f)
			return false;
	}
	return text.n > 0;
}

static const char *header_problem(const char *line)
{
	const char *colon = strchr(line, ':');
	size_t n = colon ? (size_t)(colon - line) : 0;
	if (!http_is_token((struct span){ line, n }))
		return "a header has no name";
	for (const char *p = line; *p; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return "a header has control characters in it";
	}
	for (size_t i = 0; i < sizeof(RESERVED) / sizeof(RESERVED[0]); i++) {
		if (n == strlen(RESERVED[i]) && strncasecmp(line, RESERVED[i], n) == 0)
			return "a header is one that only this client sets";
	}
	return NULL;
}

/* NULL if the request can be sent as it is.  The text never shows what is wrong: it may be secret.
 */
static const char *request_problem(const struct http_request *q)
{
	const char *problem = NULL;
	if (!http_is_token(span_of(q->method)))
		return "the method is none";
	if (q->target[0] != '/' || !visible(span_of(q->target)))
		return "the path has blanks or control characters in it";
	if (!visible(span_of(q->host)) || (q->host_header && !visible(span_of(q->host_header))))
		return "the name of the host has blanks or control characters in it";
	for (size_t i = 0; problem == NULL && q->headers && q->headers[i]; i++)
		problem = header_problem(q->headers[i]);
	return problem;
}

static void put_host(struct str *out, const struct http_request *q, bool always_port)
{
	bool six = strchr(q->host, ':') != NULL;
	str_puts(out, six ? "[" : "");
	str_puts(out, q->host);
	str_puts(out, six ? "]" : "");
	if (always_port || q->port != (q->ca_bundle ? 443 : 80))
		str_printf(out, ":%u", q->port);
}

static void put_request(struct str *out, const struct http_request *q)
{
	str_puts(out, q->method);
	str_char(out, ' ');
	str_puts(out, q->target);
	str_puts(out, " HTTP/1.1\r\nHost: ");
	if (q->host_header)
		str_puts(out, q->host_header);
	else
		put_host(out, q, false);
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

static int write_all(struct wire *w, struct tls *t, struct span text)
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

static int read_all(struct wire *w, struct tls *t, struct http_reader *r)
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
		if (trouble) {
			(void)err_set(w->e, FAILED, "%s: the reply %s", w->where, r->problem);
			return trouble;
		}
	}
	return 0;
}

static int converse(struct wire *w, const struct http_request *q, struct http_reader *r)
{
	__attribute__((cleanup(tls_cleanup))) struct tls *t = NULL;
	STR_AUTO text = STR_SECRET(REQUEST_MAX);
	int trouble = 0;
	put_request(&text, q);
	if (text.full) {
		(void)err_set(w->e, FAILED, "%s: the request is too long", w->where);
		return HTTP_BAD_REQUEST;
	}
	if (q->ca_bundle)
		t = tls_open(w, q->ca_bundle, q->server_name ? q->server_name : q->host, &trouble);
	if (trouble)
		return trouble;
	ERR_AUTO unsent = { 0 };
	struct err *e = w->e;
	w->e = &unsent;
	trouble = write_all(w, t, str_view(&text));
	if (trouble == 0 && q->body.n)
		trouble = write_all(w, t, q->body);
	w->e = e;
	/* Who refuses early may cut the connection before it has heard all: what it said counts. */
	if (trouble && trouble != HTTP_BROKEN) {
		err_move(e, &unsent);
		return trouble;
	}
	return read_all(w, t, r);
}

static int exchange(struct wire *w, const struct http_request *q, struct http_reader *r)
{
	const char *problem = request_problem(q);
	const char *name = q->server_name ? q->server_name : q->host;
	if (problem) {
		(void)err_set(w->e, FAILED, "%s: nothing was sent: %s", w->where, problem);
		return HTTP_BAD_REQUEST;
	}
	if (q->ca_bundle && net_is_address(name)) {
		(void)err_set(w->e, FAILED,
		              "%s: TLS needs the name of the server; addresses in certificates "
		              "cannot be checked here",
		              w->where);
		return HTTP_TLS;
	}
	int trouble = net_open(w, q->host, q->port);
	return trouble ? trouble : converse(w, q, r);
}

int http_exchange(const struct http_request *q, struct arena *a, struct http_reply *reply,
                  struct err *e)
{
	__attribute__((cleanup(http_reader_done))) struct http_reader r;
	STR_AUTO where = STR_INIT(WHERE_MAX);
	char quoted[4 * QUOTE_MAX];
	put_host(&where, q, true);
	(void)quote(quoted, str_view(&where)); /* it goes to logs */
	__attribute__((cleanup(wire_close))) struct wire w = {
		.fd = -1, .deadline_ms = q->deadline_ms, .where = quoted, .e = e
	};
	http_reader_init(&r, q->method, q->headers_max, q->body_max);
	int trouble = exchange(&w, q, &r);
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
