#pragma once
/* The parts of the janitor.  Private to jobs/gc/ and its tests. */
#include "jobs/gc/janitor.h"
#include "jobs/submit/ownership.h"

/* ---- orphans.c: the rules for removal.  Objects are untrusted input: only objects exactly as this
 * server makes them qualify.  Pure ---- */

/* This installation, and the namespace of its jobs. */
struct home {
	const char *instance, *namespace_name;
};

/* Returns true if, by metadata alone, it is a Framework of this installation that has not been
 * started.  It is an orphan if the whole object is ownership_is_untouched and old enough. */
bool orphan_is_listed(const struct marks *m, const struct home *home);
/* Returns true if, by metadata alone, it is a PriorityClass of a job of this installation.  It is
 * an orphan if the Framework named by the first 32 digits of its name does not exist. */
bool orphan_is_class(const struct marks *m, const struct home *home);

/* Candidates, and the time since which they look orphaned.  A bounded list: a later round finds the
 * others. */
enum { ORPHANS_MAX = 1024, ORPHAN_NAME = 64, ORPHAN_WORD = 64 };

struct orphan {
	char name[ORPHAN_NAME], uid[ORPHAN_WORD], version[ORPHAN_WORD];
	int64_t since_ms;
	bool listed; /* found in the current list */
	bool old;    /* old enough by the API server's clock; no need to watch it */
};

struct orphans {
	struct orphan *v; /* ORPHANS_MAX elements, allocated at first use */
	size_t n;
};

/* Finds an orphan by name and uid; NULL: there is none.  Borrowed until the next orphan_forget. */
struct orphan *orphan_find(const struct orphans *s, struct span name, struct span uid);
/* The same, added if needed.  NULL if the list is full, or name or uid are empty or too long. */
struct orphan *orphan_note(struct orphans *s, struct span name, struct span uid, int64_t now_ms);
void orphan_forget(struct orphans *s, struct orphan *one);
void orphans_done(struct orphans *s);

/* ---- janitor.c ---- */

enum {
	REMOVALS_MAX = 20, /* of each kind, per round */
	LOOKS_MAX = 100,   /* GETs of candidates, per round and kind */
	PAGES_MAX = 200,   /* per round and kind */
	HASH = 32, /* digits of a Framework's name, the prefix of its PriorityClass's name */
};

/* Candidates of one kind, and the progress of this round. */
struct orphan_kind {
	struct orphans orphans;
	size_t at;   /* the next to check; kept across rounds */
	size_t left; /* not checked in this round */
	size_t looks, removed, pages;
	struct str token; /* continue token; "" at the start */
};

struct janitor {
	struct caller *caller;
	char *instance, *namespace_name;
	struct home home; /* the two texts above */
	int64_t interval_ms, age_ms;
	bool priority_classes;
	unsigned failed; /* rounds in a row */

	/* State of this round: */
	struct str trouble;
	bool unreachable;
	int64_t date_s;      /* the API server's clock, from the current list */
	struct orphans page; /* PriorityClasses of the current page */

	struct orphan_kind frameworks, classes;
	char cursor[ORPHAN_NAME]; /* PriorityClasses up to this name are done */
};
