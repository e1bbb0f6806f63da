#pragma once
/*
 * Idempotency-Key: what a client sends so that repeating a submission does no harm.  What is kept
 * of it, on the Framework (k8s/submission.h), tells nobody key or body: MACs of both, by a key made
 * from the secret that tokens are signed with.  Without such a secret the client's key itself takes
 * its place, so that it must be random for the same to hold.
 */
#include "server/request.h"

/* Of a header: [!-~]{1,128} */
bool idempotency_key_ok(struct span key);

/*
 * "KEY-BODY", both hex, for r->key and r->body as it came; in the request's arena.  NULL without
 * a key.  The same for all servers that have the same secret.
 */
const char *idempotency_value(struct request *r);
