#pragma once
/* The parts of the janitor.  Private to jobs/gc/ and its tests. */
#include "jobs/gc/janitor.h"
#include "jobs/submit/ownership.h"

/* ---- orphans.c: the rules for removal.  Objects are untrusted input: only objects exactly as this
 * server makes them qualify.  Pure ---- */

/* Returns true if, by metadata alone, it is a Framework of this installation that has not been
 * started.  It is an orphan if the whole object is ownership_is_untouched and old enough. */
bool orphan_is_listed(const struct marks *m, const struct janitor_options *o);
/* Returns true if, by metadata alone, it is a PriorityClass of a job of this installation.  It is
 * an orphan if the Framework named by the first 32 digits of its name does not exist. */
bool orphan_is_class(const struct marks *m, const struct janitor_options *o);

/* ---- janitor.c ---- */

enum {
	REMOVALS_MAX = 20,  /* of each kind, per round */
	LOOKS_MAX = 100,    /* GETs of Frameworks that are listed, per round */
	CLASSES_PAGE = 500, /* the same of PriorityClasses, and the items of a page */
	PAGES_MAX = 200,    /* per round and kind */
	HASH = 32,        /* digits of a Framework's name, the prefix of its PriorityClass's name */
	ORPHAN_NAME = 64, /* bytes with a NUL */
};

/* The progress with one kind of object. */
struct orphan_kind {
	struct janitor *janitor;
	enum object_kind kind;
	struct str token;         /* continues the list; "": its start */
	char cursor[ORPHAN_NAME]; /* those up to this name were looked at; "" at the start */
	/* Of this round: */
	size_t looks, removed, pages;
	bool stopped; /* at a limit, or by trouble */
};

struct janitor {
	struct caller *caller;
	struct janitor_options options;
	unsigned failed; /* rounds in a row */
	/* Of this round: */
	struct str trouble;
	bool unreachable;
	int64_t date_s; /* the API server's clock, from the current list */
	struct orphan_kind frameworks, classes;
};
