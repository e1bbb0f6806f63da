#pragma once
/*
 * Keeps what is known of the jobs up to date: a cache of all Frameworks (k8s/cache/cache.h), their
 * pods' Events (k8s/cache/events.h), each with a thread that watches the API server
 * (k8s/cache/reflector.h).  Of a directory (--standalone) it is told by the store itself.
 */
#include "server/server.h"

struct follow;

/* Begin; server->cache and server->events are there from now on.  NULL and *e (500). */
struct follow *follow_start(struct server *s, struct err *e);
/* End the threads; cache and events stay until follow_free. */
void follow_stop(struct follow *f);
void follow_free(struct follow *f); /* NULL is nothing */

/* Why lists cannot be answered now, for people; NULL if they can.  Any thread.  In the arena. */
const char *follow_problem(const struct server *s, struct arena *a);
