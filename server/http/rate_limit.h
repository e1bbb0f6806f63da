#pragma once
/*
 * Rate limits by client address and user, and the client's address behind a --trusted-proxy (the
 * last entry of X-Forwarded-For).
 */
#include "server/http/request.h"

struct options;

/* ---- token buckets by key; bounded, the least recently used key is evicted.  Any thread. ---- */

struct rate;

enum { RATE_KEY = 64 }; /* bytes of a key that are compared */

/* `count` tokens per `period_s`, which is also the burst, for `entries` keys.  count 0: no limit.
 */
struct rate *rate_new(int64_t count, int64_t period_s, size_t entries);
void rate_free(struct rate *r); /* NULL is allowed */
/* Take one token.  0, or the seconds (at least 1) until one is available. */
int64_t rate_take(struct rate *r, struct span key, int64_t now_ms);

/* ---- the limits of the server, shared by all loops ---- */

struct rate_limits;

/* NULL and *e (400): --trusted-proxy is malformed. */
struct rate_limits *rate_limits_new(const struct options *o, struct err *e);
void rate_limits_free(struct rate_limits *l); /* NULL is allowed */

/* Connections per address: whether one more may begin; count a begin (1) or an end (-1).
 * Addresses share counters by a keyed hash.  Any thread. */
bool rate_limit_admits(struct rate_limits *l, const struct client_address *from);
void rate_limit_count(struct rate_limits *l, const struct client_address *from, int change);

/* Before the route is known: set r->client by a trusted proxy's header; answer 429 if the address
 * sends too much.  /healthz and /readyz have no limit; with --no-auth there is none. */
void rate_limit_check(struct request *r);
/* The principal is known, or not needed: answer 429 if a user submits or lists too often. */
void rate_limit_user(struct request *r);
/* Count an attempt to log in as `user`.  false: too many; r has been answered 429. */
bool rate_limit_login(struct request *r, struct span user);
/* Count a cache-miss look-up of a job by this user (without a token: this address).  false: too
 * many. */
bool rate_limit_lookup(struct request *r);
/* Answer 429, after rate_limit_lookup has returned false. */
void rate_limit_refuse_lookup(struct request *r);

/* ---- CORS (cors.c) ---- */

struct cors;

/* NULL and *e (400): --cors is malformed. */
struct cors *cors_new(const struct options *o, struct err *e);
void cors_free(struct cors *c); /* NULL is allowed */
