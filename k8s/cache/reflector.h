#pragma once
/*
 * One collection of the API server, followed: LIST in pages, then WATCH from there, for ever, by a
 * thread of its own.  What is heard is handed over as text, which was checked to be JSON.
 *
 * It begins with a streaming list (sendInitialEvents) where the server has it, else (422) with
 * LIST, in pages that are of one version.  An end of the watch, by whomever, is followed by another
 * from the last version heard of; 410 by a new list.  Trouble is followed by pauses, 1 s and longer
 * up to 60 s, of random length; Retry-After is obeyed.  A connection on which nothing comes, not
 * even a bookmark, is given up after a while.  Versions are compared for equality only; as numbers
 * only to tell what is newer (Kubernetes 1.35 says that one may).
 */
#include "base/err.h"
#include "k8s/transport/store.h"

struct reflector;

struct reflector_settings {
	struct login *login; /* borrowed */
	const char *namespace_name;
	enum object_kind kind; /* KIND_FRAMEWORK, KIND_EVENT */
	const char *selector;  /* more of the query: "fieldSelector=...", percent-encoded; NULL */
	size_t page;           /* objects of a page: 500 */
	size_t max_object; /* bytes of one event or item; what is larger is passed over by name */
	size_t max_page;   /* bytes of one page */
	/* All called by the thread.  begin..end: a list, in which every object comes by put; `end`
	 * has its version.  between: put and remove as they happen; seen: a bookmark.  trouble: why
	 * nothing is heard (for people: verb, resource, status), once for each time it changes;
	 * NULL: all is well again. */
	void (*begin)(void *arg);
	void (*end)(void *arg, int64_t version);
	void (*put)(void *arg, struct span object);
	void (*remove)(void *arg, struct span object);
	void (*seen)(void *arg, int64_t version);
	void (*trouble)(void *arg, const char *why);
	void *arg;
};

/* Begin.  Settings are copied, but for login.  NULL and *e (500). */
struct reflector *reflector_new(const struct reflector_settings *s, struct err *e);
/* End the thread, at once.  NULL is nothing. */
void reflector_free(struct reflector *r);
