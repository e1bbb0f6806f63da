#pragma once
/*
 * A thread that follows one collection of the API server with LIST and WATCH, and passes on objects
 * as valid JSON text, which may have text of the event after its end.
 *
 * It begins with a streaming list (sendInitialEvents) if the server supports it, else (422) with a
 * LIST in pages, of which it holds one object at a time.  When a watch ends, the next one continues
 * from the last version; 410 causes a new list.  After errors it pauses for 1 s to 60 s with
 * jitter, and obeys Retry-After.  It closes silent connections.  Events in quick succession are
 * received together, up to 20 ms later.  Versions are compared as numbers only to find the newer
 * one, which Kubernetes 1.35 permits.
 *
 * Thread: own
 */
#include "base/counter.h"
#include "base/err.h"
#include "jobs/store/store.h"

struct reflector;

/* Written by its thread. */
struct reflector_counts {
	atomic_ullong lists; /* complete ones; each but the first is a restart */
	atomic_ullong watches, failures;
};

struct reflector_settings {
	struct login *login;        /* borrowed */
	const char *namespace_name; /* NULL: all of them */
	enum object_kind kind;
	bool metadata;        /* the metadata of objects is enough; they may come whole */
	const char *selector; /* appended to the query, percent-encoded; or NULL */
	size_t page;          /* objects of a page: 500 */
	size_t max_object;    /* bytes of one event or item; larger ones are cut to metadata */
	/* The thread calls these.  begin, end: around a list, whose objects come by put.  put,
	 * remove: changes.  seen: a bookmark; may be NULL.  trouble: the reason of an outage, for
	 * people, on each change; NULL: it is over.  absent: the API server does not know the kind.
	 */
	void (*begin)(void *arg);
	void (*end)(void *arg, int64_t version);
	void (*put)(void *arg, struct span object);
	void (*remove)(void *arg, struct span object);
	void (*seen)(void *arg, int64_t version);
	void (*trouble)(void *arg, const char *why, bool absent);
	void *arg;
};

/* Settings are copied, except for login.  NULL and *e (500). */
struct reflector *reflector_new(const struct reflector_settings *s, struct err *e);
/* Borrowed.  Thread: any. */
const struct reflector_counts *reflector_counts(const struct reflector *r);
/* Ends the thread without delay.  Accepts NULL. */
void reflector_free(struct reflector *r);
