#pragma once
/*
 * Idempotency-Key: what a client sends so that repeating a submission does no harm.  What is kept
 * of it, on the Framework (k8s/submit/submission.h), tells nobody key or body: MACs of both, by a
 * key made from the secret that tokens are signed with.  Without such a secret the client's key
 * itself takes its place, so that it must be random for the same to hold.
 */
#include "server/submit/submit.h"

struct key_claims;

/* The keys of submissions under way at all loops.  Any thread. */
struct key_claims *key_claims_new(void);
void key_claims_free(struct key_claims *c); /* all are released before; NULL is nothing */

/* Of a header: [!-~]{1,128} */
bool idempotency_key_ok(struct span key);

/*
 * "KEY-BODY", both hex, for s->key and the body as it came; in the request's arena.  NULL without
 * a key.  The same for all servers that have the same secret.
 */
const char *idempotency_value(struct submit *s);

/*
 * s->value is used for the job s->job from now on, until the request has ended.  -1 and *e: 422
 * IdempotencyError if this user's key has made a job of another name in the last 24 hours that is
 * known here, 409 if it is making one at this moment.  Another server's submission of the last
 * moments is not known here; nor is any job while the first list of jobs is under way.
 * Without a key: 0.
 */
int idempotency_claim(struct submit *s, struct err *e);
