/* Compares a path with the rows of a table, segment by segment, and decodes the variable ones. */
#include "server/http/route.h"

#include "base/enc.h"

/* Cuts the first segment off a path that starts with '/'. */
static struct span route_next_segment(struct span *path)
{
	const char *start = path->p + 1;
	const char *slash = memchr(start, '/', path->n - 1);
	size_t n = slash ? (size_t)(slash - start) : path->n - 1;
	path->p = start + n;
	path->n -= n + 1;
	return (struct span){ start, n };
}

/* Percent-decoding, once.  false if the escape is broken or yields NUL or '/'. */
static bool route_decode(struct span in, bool any, struct arena *a, struct span *out)
{
	char *p = arena_alloc(a, in.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < in.n; i++) {
		int c = (unsigned char)in.p[i];
		if (c == '%') {
			c = percent_byte(in, i);
			i += 2;
		}
		if (c <= 0 || (c == '/' && in.p[i] != '/'))
			return false;
		p[n++] = (char)c;
	}
	p[n] = '\0';
	*out = (struct span){ p, n };
	return (any || utf8_check(*out) == n) && !span_is(*out, ".") && !span_is(*out, "..");
}

struct span route_strip(struct span path)
{
	struct span prefix = SPAN("/rest-server");
	if (span_starts(path, prefix.p) && path.n > prefix.n && path.p[prefix.n] == '/') {
		path.p += prefix.n;
		path.n -= prefix.n;
	}
	if (path.n > 1 && path.p[path.n - 1] == '/')
		path.n--;
	return path;
}

static bool route_matches(const struct route *route, struct span path, struct arena *a,
                          struct span args[static ROUTE_ARGS])
{
	struct span pattern = span_of(route->path);
	size_t n = 0;
	memset(args, 0, ROUTE_ARGS * sizeof(*args));
	while (pattern.n && path.n) {
		struct span want = route_next_segment(&pattern);
		bool rest = span_is(want, "{path}");
		struct span have = rest ? span_from(path, 1) : route_next_segment(&path);
		if (rest)
			path.n = 0;
		if (span_starts(want, "{")) {
			if (have.n == 0 || n == ROUTE_ARGS ||
			    !route_decode(have, rest, a, &args[n++]))
				return false;
		} else if (!span_eq(want, have)) {
			return false;
		}
	}
	return pattern.n == path.n;
}

const struct route *route_find(const struct route_table *t, const char *method, struct span path,
                               struct arena *a, struct span args[static ROUTE_ARGS])
{
	path = route_strip(path);
	if (!span_starts(path, "/"))
		return NULL;
	method = strcmp(method, "HEAD") == 0 ? "GET" : method;
	for (size_t i = 0; i < t->n; i++) {
		const char *own = t->row[i].method;
		if ((strcmp(own, method) == 0 || strcmp(own, "*") == 0) &&
		    route_matches(&t->row[i], path, a, args))
			return &t->row[i];
	}
	return NULL;
}

bool route_is_v1(const struct route *route)
{
	return span_starts(span_of(route->path), "/api/v1/");
}

bool route_names_user(const struct route *route)
{
	return strstr(route->path, "/{user}/");
}

const char *route_method(const struct route *route)
{
	return strcmp(route->method, "*") == 0 ? "any" : route->method;
}

void route_methods(const struct route_table *t, struct str *out, struct span path, struct arena *a)
{
	static const char *const METHODS[] = { "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE" };
	struct span args[ROUTE_ARGS];
	for (size_t i = 0; i < ARRAY_SIZE(METHODS); i++)
		if (route_find(t, METHODS[i], path, a, args))
			str_printf(out, "%s%s", out->n ? ", " : "", METHODS[i]);
	if (out->n)
		str_puts(out, ", OPTIONS");
}
