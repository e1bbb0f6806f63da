#include "server/http/edge.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/hash.h"
#include "k8s/transport/store.h"
#include "server/http/answer.h"
#include "server/http/loop.h"
#include "server/http/rate.h"
#include "server/http/routes.h"
#include "server/log.h"

enum {
	ADDRESSES = 16384,
	USERS = 4096,
	COUNTERS = 1 << 16,
	ORIGINS_MAX = 64,
	ECHO_MAX = 200, /* bytes of Access-Control-Request-Headers that are said again */
	MINUTE_S = 60,
	HOUR_S = 3600,
};

static const char METHODS[] = "GET,HEAD,PUT,PATCH,POST,DELETE";
/* What a page may read of our answers, besides what it always may. */
static const char EXPOSED[] =
    "X-Request-Id, X-Warning, X-Wait, Idempotency-Replayed, Location, Retry-After, "
    "WWW-Authenticate, Allow, Accept-Ranges, Content-Range";
/* For so long browsers need not ask again; none keeps it for longer than a day. */
static const char PREFLIGHT_AGE_S[] = "7200";

struct edge {
	bool limited; /* by address, user and login; not with --no-auth */
	struct networks proxies;
	struct rate *addresses, *users, *lists, *login_users, *login_addresses, *lookups;
	/* CORS: for any page; else for these. */
	bool any_origin;
	char *origins_text;
	struct span origins[ORIGINS_MAX];
	size_t n_origins;
	/* Connections, by a hash of the address: no locks, and no memory that grows. */
	int64_t per_address; /* 0: no limit */
	struct hash_key hash;
	atomic_int *connections;
	atomic_bool warned; /* of a proxy that is not trusted */
};

/* ---- start ---- */

static int bad_origin(struct err *e, struct span text)
{
	char quoted[4 * QUOTE_MAX];
	return err_set(e, 400, NULL,
	               "--cors: \"%s\" is no origin: it is scheme, host and port only, such as "
	               "https://pai.example or http://localhost:3000, or * or none alone",
	               quote(quoted, text));
}

/* As browsers write one: compared byte by byte, so what they never send is a mistake. */
static bool is_origin(struct span o)
{
	size_t scheme = span_find(o, 0, "://");
	if (scheme == SIZE_MAX || scheme == 0 || scheme + 3 == o.n)
		return false;
	for (size_t i = 0; i < o.n; i++)
		if (o.p[i] == '*' || (o.p[i] >= 'A' && o.p[i] <= 'Z') ||
		    ((i < scheme || i > scheme + 2) && o.p[i] == '/'))
			return false;
	return true;
}

static int add_origin(struct edge *edge, struct span o, struct err *e)
{
	if (!is_origin(o))
		return bad_origin(e, o);
	if (edge->n_origins == ORIGINS_MAX)
		return err_set(e, 400, NULL, "--cors: at most %d origins", ORIGINS_MAX);
	edge->origins[edge->n_origins++] = o;
	return 0;
}

static int parse_cors(struct edge *edge, const char *cors, struct err *e)
{
	edge->any_origin = strcmp(cors, "*") == 0;
	if (edge->any_origin || strcmp(cors, "none") == 0)
		return 0;
	edge->origins_text = xstrdup(cors);
	for (char *p = edge->origins_text; *p;) {
		size_t n = strcspn(p, ",");
		struct span item = span_trim((struct span){ p, n });
		if (item.n && add_origin(edge, item, e) < 0)
			return -1;
		p += n + (p[n] ? 1 : 0);
	}
	/* Each ends in NUL from now on, and can be a header's value as it is. */
	for (size_t i = 0; i < edge->n_origins; i++)
		edge->origins_text[(size_t)(edge->origins[i].p - edge->origins_text) +
		                   edge->origins[i].n] = '\0';
	return 0;
}

struct edge *edge_new(const struct options *o, struct err *e)
{
	struct edge *edge = xcalloc(1, sizeof(*edge));
	edge->limited = !o->no_auth;
	edge->per_address = o->no_auth ? 0 : o->connections_per_address;
	edge->hash = hash_key_new();
	edge->addresses = rate_new(o->rate_address, MINUTE_S, ADDRESSES);
	edge->users = rate_new(o->rate_submit, HOUR_S, USERS);
	edge->lists = rate_new(o->rate_list, MINUTE_S, USERS);
	edge->login_users = rate_new(o->rate_login, MINUTE_S, USERS);
	edge->login_addresses = rate_new(o->rate_login, MINUTE_S, USERS);
	edge->lookups = rate_new(o->rate_lookup, MINUTE_S, USERS);
	edge->connections = xcalloc(COUNTERS, sizeof(*edge->connections));
	int r = networks_parse(span_of(o->trusted_proxy), &edge->proxies, e);
	if (r < 0)
		(void)err_wrap(e, "--trusted-proxy");
	/* Without logins the port is the right to submit: no web page gets at it. */
	if (r == 0 && !o->no_auth)
		r = parse_cors(edge, o->cors, e);
	if (r == 0)
		return edge;
	edge_free(edge);
	return NULL;
}

void edge_free(struct edge *edge)
{
	if (!edge)
		return;
	rate_free(edge->addresses);
	rate_free(edge->users);
	rate_free(edge->lists);
	rate_free(edge->login_users);
	rate_free(edge->login_addresses);
	rate_free(edge->lookups);
	free(edge->connections);
	free(edge->origins_text);
	free(edge);
}

/* ---- connections ---- */

static atomic_int *counter(struct edge *edge, const struct peer *from)
{
	return &edge->connections[hash_bytes(&edge->hash, peer_key(from)) % COUNTERS];
}

bool edge_admits(struct edge *edge, const struct peer *from)
{
	return !edge->per_address || networks_have(&edge->proxies, from) ||
	       atomic_load(counter(edge, from)) < edge->per_address;
}

void edge_count(struct edge *edge, const struct peer *from, int change)
{
	if (edge->per_address)
		atomic_fetch_add(counter(edge, from), change);
}

/* ---- requests ---- */

static const char *allowed_origin(const struct edge *edge, struct span origin)
{
	if (edge->any_origin)
		return "*";
	for (size_t i = 0; origin.p && i < edge->n_origins; i++)
		if (span_eq(edge->origins[i], origin))
			return edge->origins[i].p;
	return NULL;
}

void edge_arrived(struct request *r)
{
	r->cors_origin = allowed_origin(r->loop->server->edge, r->framing.value[HEADER_ORIGIN]);
}

static struct span last_entry(struct span list)
{
	const char *comma = memrchr(list.p, ',', list.n);
	if (comma)
		list = (struct span){ comma + 1, list.n - (size_t)(comma - list.p) - 1 };
	return span_trim(list);
}

/* Once: clients that cannot be told apart are limited as one. */
static void warn_of_proxy(struct edge *edge, const struct request *r)
{
	if (edge->limited && !atomic_exchange(&edge->warned, true))
		log_event(
		    LOG_WARN,
		    "X-Forwarded-For is ignored: it comes from no --trusted-proxy (said once)",
		    "peer", r->peer);
}

/* From now on the client is whom the proxy names. */
static void believe_proxy(struct edge *edge, struct request *r)
{
	struct span list = r->framing.value[HEADER_FORWARDED_FOR];
	struct peer client;
	if (!list.p)
		return;
	if (!networks_have(&edge->proxies, &r->client)) {
		warn_of_proxy(edge, r);
	} else if (peer_parse(last_entry(list), &client)) {
		r->client = client;
		peer_text(&client, r->peer);
	}
}

/* Supervisors ask these often, and decide by them whether the server lives. */
static bool is_free(struct span path)
{
	static const char *const FREE[] = { "/healthz", "/readyz" };
	path = route_strip(path);
	for (size_t i = 0; i < sizeof(FREE) / sizeof(FREE[0]); i++)
		if (span_is(path, FREE[i]))
			return true;
	return false;
}

static bool refuse(struct request *r, int64_t wait_s, const char *what)
{
	ERR_AUTO e = { 0 };
	if (!wait_s)
		return false;
	(void)err_set(&e, 429, "TooManyRequestsError",
	              "too many %s, please try again in %ld second%s", what, (long)wait_s,
	              wait_s == 1 ? "" : "s");
	answer_header(r, "Retry-After", arena_printf(&r->arena, "%ld", (long)wait_s));
	answer_error(r, &e);
	return true;
}

void edge_check(struct request *r)
{
	struct edge *edge = r->loop->server->edge;
	believe_proxy(edge, r);
	if (edge->limited && !is_free(span_of(r->path)))
		(void)refuse(r, rate_take(edge->addresses, peer_key(&r->client), clock_ms()),
		             "requests from this address");
}

static bool is_submission(const struct route *route)
{
	return route->body == BODY_JOB || route->body == BODY_JOB_V1;
}

static bool is_list(const struct route *route)
{
	return route->answer == ANSWER_JOBS || route->answer == ANSWER_JOBS_V1 ||
	       route->answer == ANSWER_CLUSTERS || route->answer == ANSWER_CLUSTER;
}

void edge_user(struct request *r)
{
	struct edge *edge = r->loop->server->edge;
	int64_t now_ms = clock_ms();
	struct span user = r->user ? span_of(r->user) : peer_key(&r->client);
	if (!edge->limited)
		return;
	if (is_submission(r->route))
		(void)refuse(r, rate_take(edge->users, user, now_ms), "jobs of this user");
	else if (is_list(r->route))
		(void)refuse(r, rate_take(edge->lists, user, now_ms), "lists for this user");
}

bool edge_login(struct request *r, struct span user)
{
	struct edge *edge = r->loop->server->edge;
	int64_t now_ms = clock_ms();
	if (!edge->limited)
		return true;
	/* First the address, so that one alone cannot use up what a user may. */
	return !refuse(r, rate_take(edge->login_addresses, peer_key(&r->client), now_ms),
	               "attempts to log in from this address") &&
	       !refuse(r, rate_take(edge->login_users, user, now_ms),
	               "attempts to log in as this user");
}

static int64_t lookup_wait_s(const struct request *r)
{
	struct edge *edge = r->loop->server->edge;
	struct span key = r->user ? span_of(r->user) : peer_key(&r->client);
	return edge->limited ? rate_take(edge->lookups, key, clock_ms()) : 0;
}

bool edge_lookup(struct request *r)
{
	return !lookup_wait_s(r);
}

void edge_lookup_refuse(struct request *r)
{
	(void)refuse(r, lookup_wait_s(r) ?: 1, "questions for jobs that are not known yet");
}

/* ---- CORS ---- */

static bool may_echo(struct span names)
{
	if (!names.p || names.n == 0 || names.n > ECHO_MAX)
		return false;
	for (size_t i = 0; i < names.n; i++)
		if (!framing_is_token((struct span){ names.p + i, 1 }) && names.p[i] != ',' &&
		    names.p[i] != ' ')
			return false;
	return true;
}

void edge_options(struct request *r, struct span methods)
{
	struct span names = r->framing.value[HEADER_WANTED_HEADERS];
	if (methods.n)
		answer_header(r, "Allow", arena_dup(&r->arena, methods));
	if (r->cors_origin) {
		answer_header(r, "Access-Control-Allow-Methods", METHODS);
		if (may_echo(names))
			answer_header(r, "Access-Control-Allow-Headers",
			              arena_dup(&r->arena, names));
		answer_header(r, "Access-Control-Max-Age", PREFLIGHT_AGE_S);
	}
	r->reply.status = 204;
	answer_send(r);
}

void edge_headers(struct request *r)
{
	const struct edge *edge = r->loop->server->edge;
	if (edge->n_origins)
		answer_header(r, "Vary", "Origin");
	if (!r->cors_origin)
		return;
	answer_header(r, "Access-Control-Allow-Origin", r->cors_origin);
	answer_header(r, "Access-Control-Expose-Headers", EXPOSED);
}
