#pragma once
/*
 * The inside of the janitor.  One request at a time, each answered by the function that says what
 * comes next.  Private to janitor.c and its benchmark.
 */
#include "k8s/gc/janitor.h"
#include "k8s/gc/orphans.h"
#include "k8s/transport/reply.h"

enum {
	REMOVALS_MAX = 20, /* of each kind, per round */
	LOOKS_MAX = 100,   /* GETs of suspects, per round and kind */
	PAGES_MAX = 200,   /* per round and kind */
	HASH = 32,         /* digits of a Framework's name; a PriorityClass's begins with them */
};

/* Frameworks or PriorityClasses: what is suspected, and how far this round is with it. */
struct part {
	struct orphans orphans;
	size_t at;   /* the one to look at; goes on from round to round */
	size_t left; /* so many have not been looked at in this round */
	size_t looks, removed, pages;
	struct str token; /* where the list goes on; "" at its start */
};

struct janitor {
	struct store *store;
	char *instance, *namespace_name;
	struct home home; /* these two */
	int64_t interval_ms, age_ms;
	bool priority_classes;
	janitor_callback *report;
	void *arg;

	bool busy;       /* a round is under way */
	int64_t next_ms; /* when the next one begins */
	unsigned failed; /* rounds in a row */
	struct str trouble;

	struct part frameworks, classes;
	bool paged;               /* Frameworks are listed page by page, in this round */
	int64_t date_s;           /* the API server's clock, of the list that is being read */
	struct orphans page;      /* PriorityClasses of the page at hand, */
	size_t page_at;           /* and how many of them have been checked */
	bool begun_anew;          /* their list, in this round, since it had expired */
	char cursor[ORPHAN_NAME]; /* PriorityClasses up to this name have been checked */

	struct store_request request; /* the one under way */
	struct str query;
	char name[ORPHAN_NAME], uid[ORPHAN_WORD], version[ORPHAN_WORD];
};

/* ---- requests ------------------------------------------------------------------------------ */

/* The Framework of which this is the name, or the beginning of it. */
void janitor_get(struct janitor *j, const char *name, bool whole, store_callback *done);
void janitor_delete(struct janitor *j, enum object_kind kind, const struct orphan *one,
                    struct span version, store_callback *done);

/* What of this installation has another label (KEY, or KEY=VALUE) besides; all at once, from the
 * API server's memory (limit 0), or the next page of so many. */
struct selection {
	enum object_kind kind;
	const char *key, *value;
	int limit;
};
void janitor_list(struct janitor *j, struct part *p, const struct selection *what,
                  store_callback *done);
/* The items of an answer; where the list goes on is then in p->token.  -1, and it is said:
 * it is no list. */
int janitor_read(struct janitor *j, struct part *p, const struct store_reply *reply,
                 item_callback *each);

/* ---- suspects ------------------------------------------------------------------------------ */

/* The next one that has been suspected for long enough; NULL if that is all for this round.  It is
 * the one at p->at, and stays there until it is forgotten or passed (p->at++). */
struct orphan *janitor_next(const struct janitor *j, struct part *p);
void janitor_forget(struct part *p);
/* By the API server's clock it was made twice `age_ms` ago: a server that is often restarted would
 * never have watched it for long enough. */
bool janitor_is_old(const struct janitor *j, const json_t *object);
/* Say why something was not answered as it should be.  false: the API server cannot be reached, so
 * there is no use in asking for anything else in this round. */
bool janitor_trouble(struct janitor *j, const struct store_reply *reply);

/* ---- the course of a round ----------------------------------------------------------------- */

void janitor_check_frameworks(struct janitor *j); /* then janitor_check_classes */
void janitor_check_classes(struct janitor *j);    /* then janitor_end_round */
void janitor_end_round(struct janitor *j);
