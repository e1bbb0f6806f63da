#pragma once
/*
 * Where a request comes from, and how often: the client's address (of the connection; behind a
 * --trusted-proxy the last entry of X-Forwarded-For), limits of rate, and what web pages may do
 * (CORS).
 */
#include "server/http/request.h"

struct edge;
struct options;
struct peer;

/* Shared by all loops.  NULL and *e (400): --trusted-proxy or --cors are malformed. */
struct edge *edge_new(const struct options *o, struct err *e);
void edge_free(struct edge *e); /* NULL is nothing */

/* Connections of an address: whether one more may come, and that one came (1) or went (-1).  Two
 * addresses may count as one, by a hash that nobody outside knows.  Any thread. */
bool edge_admits(struct edge *e, const struct peer *from);
void edge_count(struct edge *e, const struct peer *from, int change);

/* The header of a request is there: note what answers will need. */
void edge_arrived(struct request *r);
/* Before anything else: behind a proxy, correct r->client and r->peer; answer 429 if its address
 * asks too often.  /healthz and /readyz are never limited; nothing is with --no-auth. */
void edge_check(struct request *r);
/* Who asks is known (or nobody need be): answer 429 if a user submits, or lists, too often. */
void edge_user(struct request *r);
/* An attempt to log in as `user`: false if there were too many, and r has been answered 429. */
bool edge_login(struct request *r, struct span user);
/* The store is to be asked for a job that is not known here: false if this user (without a token:
 * this address) has caused too many of that. */
bool edge_lookup(struct request *r);
/* Then: answer 429. */
void edge_lookup_refuse(struct request *r);
/* Any method OPTIONS: answer 204, with what CORS asks for. */
void edge_options(struct request *r, struct span methods);
/* Add the headers of CORS to an answer; once, just before it goes out. */
void edge_headers(struct request *r);
