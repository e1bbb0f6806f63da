#pragma once
/*
 * One document of a web service, asked for again and again by a thread of its own: for what this
 * server wants to know of the cluster and no request may wait for.  Nothing secret is told, hence
 * http will do where the address says so; of https, nothing can be switched off.
 */
#include <stdint.h>

#include "base/err.h"

struct fetch;

enum {
	FETCH_PATIENCE = 3,      /* attempts in a row that fail before the pauses grow */
	FETCH_PAUSE_MS = 60000,  /* as long as they get, unless the interval is longer */
	FETCH_TIMEOUT_MS = 10000 /* of one attempt, unless the interval is shorter */
};

struct fetch_settings {
	const char
	    *url; /* http:// or https://HOST[:PORT][/PATH]; slashes at its end do not count */
	const char *path;    /* what follows it: "/v1/..." */
	const char *ca_file; /* PEM; "": the machine's own */
	int64_t interval_ms; /* from attempt to attempt */
	size_t max;          /* bytes of an answer */
	/* Both are called by the thread.  take: an answer with status 200; -1 and *e if it is of no
	 * use.  failed: nothing came, or nothing of use, for so many attempts in a row. */
	int (*take)(void *arg, struct span body, struct err *e);
	void (*failed)(void *arg, unsigned attempts, const struct err *e);
	void *arg;
};

/* Begin to ask.  Settings are copied.  Reads files: at start.  NULL and *e (400 or 500). */
struct fetch *fetch_new(const struct fetch_settings *s, struct err *e);
/* End the thread, at once, whatever the service does.  NULL is nothing. */
void fetch_free(struct fetch *f);

/* When the next attempt begins, reckoned from the beginning of the last one, after so many in a row
 * that failed.  Pure. */
int64_t fetch_pause_ms(int64_t interval_ms, unsigned failures);
