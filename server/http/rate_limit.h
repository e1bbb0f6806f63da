#pragma once
/*
 * Rate limits by client address and user, and the client's address behind a --trusted-proxy (the
 * last entry of X-Forwarded-For).
 *
 * Thread: any
 */
#include "server/http/request.h"

struct options;

/* ---- token buckets by key; bounded, the least recently used key is evicted ---- */

struct rate;

enum { RATE_KEY = 64 }; /* bytes of a key that are compared */

/* `count` tokens per `period_s`, which is also the burst, for `entries` keys.  count 0: no limit.
 */
struct rate *rate_new(int64_t count, int64_t period_s, size_t entries);
void rate_free(struct rate *r); /* NULL is allowed */
/* Takes one token.  0, or the seconds (at least 1) until one is available. */
int64_t rate_take(struct rate *r, struct span key, int64_t now_ms);
/* The same; take 0: it takes none, -1: it gives one back that was just taken. */
int64_t rate_ask(struct rate *r, struct span key, int64_t now_ms, int take);

/* ---- attempts to log in ----
 *
 * `count` a minute from one address to one account, LOGIN_TOTAL times as many from one address to
 * all accounts, and to one account from all addresses.  An address from which the password of the
 * account was right within 24 hours has LOGIN_KNOWN_TIMES `count` for that account, and no other
 * limit: others cannot lock it out.  An account has at most LOGIN_KNOWN such addresses, the oldest
 * one is forgotten; so an account is tried (LOGIN_TOTAL + LOGIN_KNOWN * LOGIN_KNOWN_TIMES) * count
 * times a minute at most.  Names are kept as keyed hashes, in about 1 MiB.
 */

struct login_limits;

enum { LOGIN_TOTAL = 3, LOGIN_KNOWN = 8, LOGIN_KNOWN_TIMES = 2 };

struct login_limits *login_limits_new(int64_t count); /* 0: no limit */
void login_limits_free(struct login_limits *l);       /* NULL is allowed */
/* Counts an attempt.  0, or the seconds (at least 1) until one is allowed.  address: a
 * client_address_key. */
int64_t login_limits_take(struct login_limits *l, struct span address, struct span account,
                          int64_t now_ms);
/* The password was right. */
void login_limits_right(struct login_limits *l, struct span address, struct span account,
                        int64_t now_ms);

/* ---- the limits of the server, shared by all loops ---- */

struct rate_limits;

/* NULL and *e (400): --trusted-proxy is malformed. */
struct rate_limits *rate_limits_new(const struct options *o, struct err *e);
void rate_limits_free(struct rate_limits *l); /* NULL is allowed */

/* Counts the begin (1) or the end (-1) of a connection of an address; 0: only asks.  false: it had
 * reached its limit before.  Addresses share counters by a keyed hash. */
bool rate_limit_count(struct rate_limits *l, const struct client_address *from, int change);

/* Called before the route is known: sets r->client by a trusted proxy's header; answers 429 if the
 * address sends too much.  /healthz and /readyz have no limit; with --no-auth there is none.
 * Thread: loop. */
void rate_limit_check(struct request *r);
/* The principal is known, or not needed: answer 429 if a user submits or lists too often.
 * Thread: loop. */
void rate_limit_user(struct request *r);
/* Counts an attempt to log in as `user`.  false: too many; r has been answered 429.
 * Thread: loop. */
bool rate_limit_login(struct request *r, struct span user);
/* The password was right: login_limits_right.  Thread: loop. */
void rate_limit_logged_in(struct request *r, struct span user);
/* Counts a cache-miss look-up of a job by this user (without a token: this address).  false: too
 * many; with `answer`, r has been answered 429.  Thread: loop. */
bool rate_limit_lookup(struct request *r, bool answer);

/* ---- CORS (cors.c) ---- */

struct cors;

/* NULL and *e (400): --cors is malformed. */
struct cors *cors_new(const struct options *o, struct err *e);
void cors_free(struct cors *c); /* NULL is allowed */
