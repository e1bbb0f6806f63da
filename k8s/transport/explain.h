#pragma once
/* Refusals of the API server as sentences for people.  Pure; private to k8s/. */
#include "k8s/transport/store.h"

/* What was asked for, as a right is named: "get secrets in namespace pai-user-v2"; the namespace
 * only if it is not the jobs'.  Appends. */
void explain_action(struct str *out, const struct store_request *r);

/*
 * Fill *e for a request that was answered with STORE_REFUSED, or with a status that did
 * not go away: what was tried, why it was refused, what to do.  Never quotes what the API
 * server says in its own words: those can hold pieces of the body.
 */
void explain(struct err *e, const struct store_request *r, const struct store_reply *reply);
