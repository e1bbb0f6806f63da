/* Cross-origin requests of web pages (the Fetch standard, "CORS protocol"). */
#include "server/config/options.h"
#include "server/http/http_internal.h"

#include <stdlib.h>

#include "server/http/rate_limit.h"

enum { ORIGINS_MAX = 64, REQUESTED_HEADERS_MAX = 200 /* bytes that are echoed */ };

static const char METHODS[] = "GET,HEAD,PUT,PATCH,POST,DELETE";
/* Response headers that a page may read, in addition to those that are always readable. */
static const char EXPOSED[] =
    "X-Request-Id, X-Warning, X-Wait, Idempotency-Replayed, Location, Retry-After, "
    "WWW-Authenticate, Allow, Accept-Ranges, Content-Range, X-Log-Offset, X-Log-Start, X-Log-Times";
/* The cache time of a preflight; browsers limit it to a day at most. */
static const char PREFLIGHT_AGE_S[] = "7200";

struct cors {
	bool any_origin; /* else only `origins` */
	char *text;      /* holds the origins */
	struct span origins[ORIGINS_MAX];
	size_t n_origins;
};

struct cors *cors_new(const struct options *o, struct err *e)
{
	struct cors *c = xcalloc(1, sizeof(*c));
	/* No origin is allowed with --no-auth, because every client of the port may submit. */
	bool none = o->no_auth || strcmp(o->cors, "none") == 0;
	c->any_origin = !none && strcmp(o->cors, "*") == 0;
	c->text = xstrdup(none || c->any_origin ? "" : o->cors);
	struct span rest = span_of(c->text);
	while (rest.n) {
		/* Exactly as browsers send it, because origins are compared byte by byte. */
		struct span origin = span_trim(span_next(&rest, ','));
		size_t scheme = span_find(origin, 0, "://");
		bool good = scheme != SIZE_MAX && scheme > 0 && scheme + 3 < origin.n;
		for (size_t i = 0; i < origin.n; i++)
			good &= origin.p[i] != '*' && !is_upper(origin.p[i]) &&
			        (origin.p[i] != '/' || i == scheme + 1 || i == scheme + 2);
		if (!origin.n)
			continue;
		if (good && c->n_origins < ORIGINS_MAX) {
			c->origins[c->n_origins++] = origin;
			continue;
		}
		char quoted[4 * QUOTE_MAX];
		if (good)
			(void)err_set(e, 400, NULL, "--cors: at most %d origins", ORIGINS_MAX);
		else
			(void)err_set(e, 400, NULL,
			              "--cors: \"%s\" is not an origin (scheme, host and port "
			              "only, such as https://pai.example or "
			              "http://localhost:3000), and not * or none alone",
			              quote(quoted, origin));
		cors_free(c);
		return NULL;
	}
	/* Origins become header values, which end in NUL. */
	for (size_t i = 0; i < c->n_origins; i++)
		c->text[(size_t)(c->origins[i].p - c->text) + c->origins[i].n] = '\0';
	return c;
}

void cors_free(struct cors *c)
{
	if (!c)
		return;
	free(c->text);
	free(c);
}

void cors_arrived(struct request *r)
{
	const struct cors *c = r->loop->server->cors;
	struct span origin = r->head.value[HEADER_ORIGIN];
	r->cors_origin = c->any_origin ? "*" : NULL;
	for (size_t i = 0; origin.p && i < c->n_origins; i++)
		if (span_eq(c->origins[i], origin))
			r->cors_origin = c->origins[i].p;
}

void cors_options(struct request *r, struct span methods)
{
	struct span names = r->head.value[HEADER_WANTED_HEADERS];
	if (methods.n)
		answer_header(r, "Allow", arena_dup(&r->arena, methods));
	if (r->cors_origin) {
		answer_header(r, "Access-Control-Allow-Methods", METHODS);
		if (names.n && names.n <= REQUESTED_HEADERS_MAX &&
		    span_only_alnum_or(names, "!#$%&'*+-.^_`|~, "))
			answer_header(r, "Access-Control-Allow-Headers",
			              arena_dup(&r->arena, names));
		answer_header(r, "Access-Control-Max-Age", PREFLIGHT_AGE_S);
	}
	r->reply.status = 204;
	answer_send(r);
}

void cors_headers(struct request *r)
{
	const struct cors *c = r->loop->server->cors;
	if (c->n_origins)
		answer_header(r, "Vary", "Origin");
	if (!r->cors_origin)
		return;
	answer_header(r, "Access-Control-Allow-Origin", r->cors_origin);
	answer_header(r, "Access-Control-Expose-Headers", EXPOSED);
}
