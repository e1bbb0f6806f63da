#include "server/routes.h"

#include "base/enc.h"
#include "server/handlers.h"

/* clang-format off */
const struct route ROUTES[] = {
	{ "GET", "/", index_get, NULL, AUTH_NONE, false,
	  "A page for people: what this is and how to submit." },
	{ "GET", "/healthz", healthz_get, NULL, AUTH_NONE, false,
	  "200 `ok` while the process lives." },
	{ "GET", "/readyz", readyz_get, NULL, AUTH_NONE, false,
	  "200 `ok` if the store answers (looked at most every 2 s); 503 if not, and while draining." },
	{ "POST", "/api/v2/jobs", submit_v2, NULL, AUTH_USER, true,
	  "Submit a PAI v2 job, YAML or JSON. 202 when everything exists and the job is started." },
	{ "POST", "/api/v1/jobs", submit_v1, NULL, AUTH_USER, true,
	  "Submit a PAI v1 job, JSON with comments allowed, or a v2 job." },
	{ "POST", "/api/v1/user/{user}/jobs", submit_v1, submit_may, AUTH_USER, true,
	  "The same; `user` must be the one who submits, else 403." },
	{ "POST", "/api/v1/user/{user}/jobs/{job}", submit_v1, submit_may, AUTH_USER, true,
	  "The same; `job` must be the job's name, else 400." },
	{ "PUT", "/api/v1/user/{user}/jobs/{job}", submit_v1, submit_may, AUTH_USER, true,
	  "The same." },
};
/* clang-format on */
const size_t N_ROUTES = sizeof(ROUTES) / sizeof(ROUTES[0]);

/* Cut the first segment off a path that starts with '/'. */
static struct span next_segment(struct span *path)
{
	const char *start = path->p + 1;
	const char *slash = memchr(start, '/', path->n - 1);
	size_t n = slash ? (size_t)(slash - start) : path->n - 1;
	path->p = start + n;
	path->n -= n + 1;
	return (struct span){ start, n };
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	char lower = (char)(c | 0x20);
	return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* Percent-decoding, once.  false if the escape is broken or yields NUL or '/'. */
static bool decode(struct span in, struct arena *a, struct span *out)
{
	char *p = arena_alloc(a, in.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < in.n; i++) {
		char c = in.p[i];
		if (c == '%') {
			if (in.n - i < 3)
				return false;
			int high = hex_value(in.p[i + 1]);
			int low = hex_value(in.p[i + 2]);
			if (high < 0 || low < 0)
				return false;
			c = (char)(high * 16 + low);
			i += 2;
		}
		if (c == '\0' || c == '/')
			return false;
		p[n++] = c;
	}
	p[n] = '\0';
	*out = (struct span){ p, n };
	return utf8_check(*out) == n && !span_is(*out, ".") && !span_is(*out, "..");
}

/* A leading "/rest-server" and one trailing slash go. */
static struct span strip(struct span path)
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

static bool match(const struct route *route, struct span path, struct arena *a,
                  struct span args[static ROUTE_ARGS])
{
	struct span pattern = span_of(route->path);
	size_t n = 0;
	memset(args, 0, ROUTE_ARGS * sizeof(*args));
	while (pattern.n && path.n) {
		struct span want = next_segment(&pattern);
		struct span have = next_segment(&path);
		if (span_starts(want, "{")) {
			if (have.n == 0 || n == ROUTE_ARGS || !decode(have, a, &args[n++]))
				return false;
		} else if (!span_eq(want, have)) {
			return false;
		}
	}
	return pattern.n == path.n;
}

static bool same_method(const struct route *route, const char *method)
{
	return strcmp(route->method, strcmp(method, "HEAD") == 0 ? "GET" : method) == 0;
}

const struct route *route_find(const char *method, struct span path, struct arena *a,
                               struct span args[static ROUTE_ARGS])
{
	path = strip(path);
	if (!span_starts(path, "/"))
		return NULL;
	for (size_t i = 0; i < N_ROUTES; i++)
		if (same_method(&ROUTES[i], method) && match(&ROUTES[i], path, a, args))
			return &ROUTES[i];
	return NULL;
}

void route_methods(struct str *out, struct span path, struct arena *a)
{
	struct span args[ROUTE_ARGS];
	path = strip(path);
	if (!span_starts(path, "/"))
		return;
	for (size_t i = 0; i < N_ROUTES; i++) {
		if (!match(&ROUTES[i], path, a, args))
			continue;
		str_printf(out, "%s%s", out->n ? ", " : "", ROUTES[i].method);
		if (strcmp(ROUTES[i].method, "GET") == 0)
			str_puts(out, ", HEAD");
	}
	if (out->n)
		str_puts(out, ", OPTIONS");
}

static const char PAGE_HEAD[] =
    "# Routes\n"
    "\n"
    "Generated from the table in `server/routes.c`; `make pages` writes it anew.\n"
    "\n"
    "Every route is also served below `/rest-server`, and with a trailing slash. Anything else is\n"
    "answered 404 `NoApiError`. A GET route answers HEAD too, and every path OPTIONS. Bodies are\n"
    "`text/*`, `application/json`, `application/yaml` or `application/x-yaml`. Errors are JSON:\n"
    "`{\"code\", \"message\", \"errors\": [{\"pointer\", \"line\", \"column\", \"message\"}]}`.\n"
    "\n"
    "| method | path | who | |\n"
    "|---|---|---|---|\n";

void routes_page(struct str *out)
{
	str_puts(out, PAGE_HEAD);
	for (size_t i = 0; i < N_ROUTES; i++)
		str_printf(out, "| %s | `%s` | %s | %s |\n", ROUTES[i].method, ROUTES[i].path,
		           ROUTES[i].auth == AUTH_USER ? "user" : "anyone", ROUTES[i].doc);
}
