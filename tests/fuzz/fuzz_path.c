/*
 * Any path and any headers: "METHOD PATH\nNAME: VALUE\n...".  What a route hands to its
 * handler is decoded text without slashes, NULs and dot segments; headers that
 * pass say one length at most.
 */
#include "base/enc.h"
#include "server/http/request_check.h"
#include "server/serve/routes.h"
#include "tests/fuzz/fuzz.h"

enum { HEAD_MAX = 4096 };

static void check_arg(struct span arg)
{
	assert(arg.p[arg.n] == '\0' && strlen(arg.p) == arg.n);
	assert(!memchr(arg.p, '/', arg.n) && utf8_check(arg) == arg.n);
	assert(!span_is(arg, ".") && !span_is(arg, ".."));
}

static void try_path(struct span line)
{
	static const char *const METHODS[] = { "GET", "POST", "PUT", "HEAD" };
	ARENA_AUTO a = { 0 };
	STR_AUTO methods = STR_INIT(HEAD_MAX);
	struct span args[ROUTE_ARGS];
	for (size_t i = 0; i < sizeof(METHODS) / sizeof(METHODS[0]); i++) {
		const struct route *route = route_find(&ROUTES, METHODS[i], line, &a, args);
		for (size_t k = 0; route && k < ROUTE_ARGS; k++)
			if (args[k].p)
				check_arg(args[k]);
	}
	route_methods(&ROUTES, &methods, line, &a);
}

/* As libmicrohttpd would hold it: the colon and the end of the line become NULs. */
static void add_header(struct request_head *f, char *line, size_t n)
{
	char *colon = memchr(line, ':', n);
	if (!colon)
		return;
	struct span name = { line, (size_t)(colon - line) };
	struct span value = { colon + 1, n - name.n - 1 };
	*colon = '\0';
	head_take_header(f, name, value);
}

static void try_headers(struct span text)
{
	char buffer[HEAD_MAX + 16] = "HTTP/1.1\0";
	char *p = buffer + 10;
	struct request_head f = { .next = (uintptr_t)p };
	while (text.n) {
		const char *end = memchr(text.p, '\n', text.n);
		size_t n = end ? (size_t)(end - text.p) : text.n;
		memcpy(p, text.p, n);
		add_header(&f, p, n);
		p += n + 2;
		text.p += n + (end != NULL);
		text.n -= n + (end != NULL);
		if ((size_t)(p - buffer) + text.n >= HEAD_MAX)
			return;
	}
	if (!request_check(&f, buffer, p + 2))
		assert(!f.chunked || (f.length == 0 && !f.value[HEADER_CONTENT_LENGTH].p));
	(void)request_check_local(&f, "http", 80);
	(void)head_body_type(&f);
}

FUZZ(text)
{
	text.n = text.n > HEAD_MAX / 4 ? HEAD_MAX / 4 : text.n;
	const char *end = memchr(text.p, '\n', text.n);
	size_t n = end ? (size_t)(end - text.p) : text.n;
	try_path((struct span){ text.p, n });
	if (end)
		try_headers((struct span){ end + 1, text.n - n - 1 });
}
