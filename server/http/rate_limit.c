/*
 * A token bucket is one number: the time at which it is full again.  Each token taken adds period /
 * count to it (the generic cell rate algorithm).
 */
#include "server/http/rate_limit.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/posix/clock.h"
#include "base/posix/lock.h"
#include "jobs/store/store.h"
#include "server/config/options.h"
#include "server/http/loop.h"
#include "server/http/route.h"
#include "server/state/log.h"
#include "server/state/ttl_cache.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

struct rate {
	pthread_mutex_t lock;
	int64_t step_ns, depth_ns; /* 0: no limit */
	/* The times at which buckets are full again, as int64_t, until then. */
	struct ttl_cache *full_ns;
};

struct rate *rate_new(int64_t count, int64_t period_s, size_t entries)
{
	struct rate *r = xcalloc(1, sizeof(*r));
	assert(entries > 0 && count >= 0 && period_s > 0);
	(void)pthread_mutex_init(&r->lock, NULL); /* cannot fail on Linux */
	if (count == 0)
		return r;
	r->step_ns = period_s * NS_PER_S / count;
	r->depth_ns = r->step_ns * count;
	r->full_ns = ttl_cache_new((struct ttl_cache_limits){ entries, SIZE_MAX }, free);
	return r;
}

void rate_free(struct rate *r)
{
	if (!r)
		return;
	(void)pthread_mutex_destroy(&r->lock);
	ttl_cache_free(r->full_ns);
	free(r);
}

/* Takes a token of the bucket that is full again at *full_ns.  0, or nanoseconds until there is
 * one. */
static int64_t bucket_take(int64_t *full_ns, int64_t step_ns, int64_t depth_ns, int64_t now)
{
	int64_t full = (*full_ns > now ? *full_ns : now) + step_ns;
	if (full - now > depth_ns)
		return full - now - depth_ns;
	*full_ns = full;
	return 0;
}

static int64_t whole_seconds(int64_t ns)
{
	return (ns + NS_PER_S - 1) / NS_PER_S;
}

int64_t rate_ask(struct rate *r, struct span key, int64_t now_ms, int take)
{
	if (!r->step_ns)
		return 0;
	key.n = key.n > RATE_KEY ? RATE_KEY : key.n;
	LOCK_AUTO(&r->lock);
	const int64_t *was_ns = ttl_cache_get(r->full_ns, key, now_ms, NULL);
	int64_t *full_ns = xmalloc(sizeof(*full_ns));
	int64_t wait = 0;
	*full_ns = was_ns ? *was_ns : 0;
	if (take < 0) {
		*full_ns -= r->step_ns;
	} else {
		int64_t then_ns = *full_ns;
		wait = bucket_take(&then_ns, r->step_ns, r->depth_ns, now_ms * NS_PER_MS);
		*full_ns = take ? then_ns : *full_ns;
	}
	/* Also what has not changed: the keys that were seen last are kept. */
	ttl_cache_put(r->full_ns, key, full_ns,
	              (struct ttl_cache_terms){ .until_ms = *full_ns / NS_PER_MS + 1 });
	return whole_seconds(wait);
}

int64_t rate_take(struct rate *r, struct span key, int64_t now_ms)
{
	return rate_ask(r, key, now_ms, 1);
}

/* ---- attempts to log in ---- */

enum { MINUTE_S = 60, PAIRS = 16384, ACCOUNTS = 1 << 16, ROWS = 4096 };
#define KNOWN_MS (INT64_C(24) * 3600 * 1000)

/* An address from which the password of an account was right. */
struct login_known {
	uint64_t who;     /* hash of both */
	int64_t until_ms; /* 0: none */
	int64_t full_ns;  /* its bucket */
};

struct login_limits {
	struct rate *pairs, *addresses;
	pthread_mutex_t lock;
	int64_t step_ns; /* of one address and account */
	struct hash_key hash;
	/* Buckets by a hash of the account: never evicted, so that other names cannot empty one. */
	int64_t *accounts;
	/* Rows by a keyed hash of the account: addresses of an account replace each other, and
	 * those of accounts that share its row, which nobody can choose. */
	struct login_known (*known)[LOGIN_KNOWN];
};

struct login_limits *login_limits_new(int64_t count)
{
	struct login_limits *l = xcalloc(1, sizeof(*l));
	(void)pthread_mutex_init(&l->lock, NULL); /* cannot fail on Linux */
	l->hash = hash_key_new();
	l->pairs = rate_new(count, MINUTE_S, PAIRS);
	l->addresses = rate_new(count * LOGIN_TOTAL, MINUTE_S, PAIRS);
	l->step_ns = count ? MINUTE_S * NS_PER_S / count : 0;
	l->accounts = xcalloc(ACCOUNTS, sizeof(*l->accounts));
	l->known = xcalloc(ROWS, sizeof(*l->known));
	return l;
}

void login_limits_free(struct login_limits *l)
{
	if (!l)
		return;
	(void)pthread_mutex_destroy(&l->lock);
	rate_free(l->pairs);
	rate_free(l->addresses);
	free(l->accounts);
	free(l->known);
	free(l);
}

/* An attempt: its account, and the entry of account and address; else, if `add`, the entry to
 * replace. */
struct login_place {
	uint64_t account, who;
	struct login_known *known; /* NULL: none */
};

static struct login_place login_find(struct login_limits *l, struct span address,
                                     struct span account, bool add)
{
	struct login_place at = { .account = hash_bytes(&l->hash, account) };
	char pair[sizeof(at.account) + CLIENT_KEY_BYTES];
	memcpy(pair, &at.account, sizeof(at.account));
	memcpy(pair + sizeof(at.account), address.p, address.n);
	at.who = hash_bytes(&l->hash, (struct span){ pair, sizeof(at.account) + address.n });
	struct login_known *row = l->known[at.account % ROWS];
	struct login_known *oldest = row;
	for (size_t i = 0; i < LOGIN_KNOWN; i++) {
		if (row[i].who == at.who)
			at.known = &row[i];
		if (row[i].until_ms < oldest->until_ms)
			oldest = &row[i];
	}
	if (add && !at.known)
		at.known = oldest;
	return at;
}

int64_t login_limits_take(struct login_limits *l, struct span address, struct span account,
                          int64_t now_ms)
{
	int64_t minute = MINUTE_S * NS_PER_S;
	int64_t wait;
	if (!l->step_ns)
		return 0;
	(void)pthread_mutex_lock(&l->lock); /* cannot fail */
	struct login_place at = login_find(l, address, account, false);
	bool known = at.known && at.known->until_ms > now_ms;
	if (known)
		wait = bucket_take(&at.known->full_ns, l->step_ns / LOGIN_KNOWN_TIMES, minute,
		                   now_ms * NS_PER_MS);
	(void)pthread_mutex_unlock(&l->lock);
	if (known)
		return whole_seconds(wait);
	wait = rate_take(l->pairs, (struct span){ (const char *)&at.who, sizeof(at.who) }, now_ms);
	/* The account last, so that one address cannot use up the limit of an account. */
	if (!wait)
		wait = rate_take(l->addresses, address, now_ms);
	if (wait)
		return wait;
	(void)pthread_mutex_lock(&l->lock);
	wait = bucket_take(&l->accounts[at.account % ACCOUNTS], l->step_ns / LOGIN_TOTAL, minute,
	                   now_ms * NS_PER_MS);
	(void)pthread_mutex_unlock(&l->lock);
	return whole_seconds(wait);
}

void login_limits_right(struct login_limits *l, struct span address, struct span account,
                        int64_t now_ms)
{
	LOCK_AUTO(&l->lock);
	struct login_place at = login_find(l, address, account, true);
	if (at.known->who != at.who)
		*at.known = (struct login_known){ .who = at.who };
	at.known->until_ms = now_ms + KNOWN_MS;
}

/* ---- the limits ---- */

enum { ADDRESSES = 16384, USERS = 4096, COUNTERS = 1 << 16, HOUR_S = 3600 };

struct rate_limits {
	bool on; /* not with --no-auth */
	struct networks proxies;
	struct rate *addresses, *users, *lists, *lookups;
	struct login_limits *logins;
	/* Connections by a hash of the address: no locks, and constant memory. */
	int64_t per_address; /* 0: no limit */
	struct hash_key hash;
	atomic_int *connections;
	atomic_bool warned; /* about a proxy that is not trusted */
};

struct rate_limits *rate_limits_new(const struct options *o, struct err *e)
{
	struct rate_limits *l = xcalloc(1, sizeof(*l));
	l->on = !o->no_auth;
	l->per_address = o->no_auth ? 0 : o->connections_per_address;
	l->hash = hash_key_new();
	l->addresses = rate_new(o->rate_address, MINUTE_S, ADDRESSES);
	l->users = rate_new(o->rate_submit, HOUR_S, USERS);
	l->lists = rate_new(o->rate_list, MINUTE_S, USERS);
	l->logins = login_limits_new(o->rate_login);
	l->lookups = rate_new(o->rate_lookup, MINUTE_S, USERS);
	l->connections = xcalloc(COUNTERS, sizeof(*l->connections));
	if (networks_parse(span_of(o->trusted_proxy), &l->proxies, e) == 0)
		return l;
	(void)err_wrap(e, "--trusted-proxy");
	rate_limits_free(l);
	return NULL;
}

void rate_limits_free(struct rate_limits *l)
{
	if (!l)
		return;
	rate_free(l->addresses);
	rate_free(l->users);
	rate_free(l->lists);
	login_limits_free(l->logins);
	rate_free(l->lookups);
	free(l->connections);
	free(l);
}

bool rate_limit_count(struct rate_limits *l, const struct client_address *from, int change)
{
	if (!l->per_address)
		return true;
	uint64_t row = hash_bytes(&l->hash, client_address_key(from)) % COUNTERS;
	int before = atomic_fetch_add(&l->connections[row], change);
	return before < l->per_address || networks_have(&l->proxies, from);
}

/* Takes the client's address from the header of a trusted proxy. */
static void believe_proxy(struct rate_limits *l, struct request *r)
{
	struct span list = r->head.value[HEADER_FORWARDED_FOR];
	struct client_address client;
	if (!list.p)
		return;
	if (!networks_have(&l->proxies, &r->client)) {
		/* Once, because clients behind this proxy share one limit. */
		if (l->on && !atomic_exchange(&l->warned, true))
			log_event(LOG_WARN,
			          "X-Forwarded-For is ignored: the peer is not a --trusted-proxy "
			          "(logged once)",
			          "peer", r->client_text);
		return;
	}
	const char *comma = memrchr(list.p, ',', list.n);
	if (comma) /* the last entry */
		list = span_from(list, (size_t)(comma + 1 - list.p));
	if (client_address_parse(span_trim(list), &client)) {
		r->client = client;
		client_address_text(&client, r->client_text);
	}
}

static bool rate_limit_refuse(struct request *r, int64_t wait_s, const char *what)
{
	if (!wait_s)
		return false;
	answer_header(r, "Retry-After", arena_printf(&r->arena, "%ld", (long)wait_s));
	answer_refuse(r, 429, "TooManyRequestsError",
	              arena_printf(&r->arena, "too many %s, please try again in %ld second%s", what,
	                           (long)wait_s, wait_s == 1 ? "" : "s"));
	return true;
}

void rate_limit_check(struct request *r)
{
	struct rate_limits *l = r->loop->server->rate_limits;
	/* Pods share the address of their node; their uploads have limits of their own. */
	bool shared = r->loop->only && r->loop->only->auth == AUTH_POD;
	struct span path = route_strip(span_of(r->path));
	bool probe = span_is(path, "/healthz") || span_is(path, "/readyz");
	if (!r->loop->of_accounts)
		believe_proxy(l, r);
	if (l->on && !shared && !probe)
		(void)rate_limit_refuse(
		    r, rate_take(l->addresses, client_address_key(&r->client), clock_ms()),
		    "requests from this address");
}

static struct span rate_limit_user_key(const struct request *r)
{
	return r->user ? span_of(r->user) : client_address_key(&r->client);
}

void rate_limit_user(struct request *r)
{
	static const char *const LISTS[] = { "jobs", "jobs-v1", "clusters", "cluster", NULL };
	struct rate_limits *l = r->loop->server->rate_limits;
	bool job = r->route->body == BODY_JOB || r->route->body == BODY_JOB_V1;
	/* Behind a program of this machine there may be several users. */
	if (l->on && r->client.account && r->user && !r->loop->only) {
		(void)rate_ask(l->addresses, client_address_key(&r->client), clock_ms(), -1);
		if (rate_limit_refuse(r, rate_take(l->addresses, span_of(r->user), clock_ms()),
		                      "requests of this user"))
			return;
	}
	bool list = span_among(span_of(r->route->answer ?: ""), LISTS);
	if (l->on && (job || list))
		(void)rate_limit_refuse(
		    r, rate_take(job ? l->users : l->lists, rate_limit_user_key(r), clock_ms()),
		    job ? "jobs of this user" : "lists for this user");
}

bool rate_limit_login(struct request *r, struct span user)
{
	struct rate_limits *l = r->loop->server->rate_limits;
	struct span address = client_address_key(&r->client);
	return !l->on ||
	       !rate_limit_refuse(r, login_limits_take(l->logins, address, user, clock_ms()),
	                          "attempts to log in as this user or from this address");
}

/* The limits of logins are opaque elsewhere. */
void rate_limit_logged_in(struct request *r, struct span user)
{
	login_limits_right(r->loop->server->rate_limits->logins, client_address_key(&r->client),
	                   user, clock_ms());
}

bool rate_limit_lookup(struct request *r, bool answer)
{
	struct rate_limits *l = r->loop->server->rate_limits;
	int64_t wait_s = l->on ? rate_take(l->lookups, rate_limit_user_key(r), clock_ms()) : 0;
	if (answer)
		(void)rate_limit_refuse(r, wait_s,
		                        "requests for jobs that this server does not know");
	return !wait_s;
}
