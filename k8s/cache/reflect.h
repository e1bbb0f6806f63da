#pragma once
/*
 * What a reflector asks for next, and when: its decisions, without its connection.  Pure, but for
 * the jitter; private to k8s/.
 */
#include "k8s/cache/watch_event.h"

enum {
	REFLECT_PAUSE_MS = 1000, /* after the first failure; twice as long after each further one */
	REFLECT_PAUSE_MAX_MS = 60000,
	REFLECT_WATCH_MIN_S = 240, /* how long one watch is asked for, at least and at most: */
	REFLECT_WATCH_MAX_S = 480, /* not all watches of a cluster are to end at once */
};

enum reflect_ask {
	ASK_STREAM, /* WATCH that begins with all there is (1.32, 1.34 and later) */
	ASK_LIST,   /* a page of a LIST */
	ASK_WATCH,  /* WATCH from a version */
	ASK_MAX
};

/* How an exchange has ended. */
enum reflect_fault {
	FAULT_NONE,      /* something was heard, and then it was over: no trouble */
	FAULT_EXPIRED,   /* 410: of what we know, the server knows no more */
	FAULT_NO_STREAM, /* 422 or 400 to a streaming list, or one that did not come to its end */
	FAULT_TOO_LARGE, /* a page */
	FAULT_REFUSED,   /* it will not, or not at this version */
	FAULT_LATER,     /* 401, 403, 429, 502, 503; lost before all else */
	FAULT_AWAY,      /* no connection, or no answer */
	FAULT_MAX
};

struct reflect {
	bool lists_only;           /* this server has no streaming lists */
	char version[VERSION_MAX]; /* all is known up to there; "": a list is needed */
	struct str more;           /* in the middle of a list: the token by which it goes on */
	size_t page, limit;        /* objects of a page: wanted, and what fits */
	unsigned failures;         /* in a row */
	unsigned lists;            /* begun anew since a watch has lasted */
};

void reflect_init(struct reflect *s, size_t page);
void reflect_done(struct reflect *s);
enum reflect_ask reflect_ask(const struct reflect *s);
/* The query of the next request: "watch=true&...".  selector: more of it, or NULL.  Appends. */
void reflect_query(const struct reflect *s, const char *selector, unsigned watch_s,
                   struct str *out);

/* A page has come, and all of it was handed over.  true: that was the last one. */
bool reflect_page(struct reflect *s, const struct list_page *page);
/* Something was heard, up to this version ("": unknown). */
void reflect_heard(struct reflect *s, const char *version);
/* A watch has lasted for a while: the list before it was worth its price. */
void reflect_lasts(struct reflect *s);
/* What a status means that is none of success, in answer to this. */
enum reflect_fault reflect_status(enum reflect_ask asked, int64_t status);
/* An exchange is over; how long to pause before the next one. */
int64_t reflect_end(struct reflect *s, enum reflect_fault fault, int retry_after_s);

/* Milliseconds after so many failures in a row, give or take a quarter; at least so many seconds.
 */
int64_t reflect_pause_ms(unsigned failures, int retry_after_s);
