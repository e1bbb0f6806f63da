#pragma once
/* One question to the store about one token. */
#include "server/auth/finding.h"
#include "server/auth/token.h"

struct loop;
struct lookup;

enum lookup_how {
	LOOKUP_STORED, /* is it among the tokens of the user? */
	LOOKUP_DENIED, /* is it not in the deny list? */
	LOOKUP_REVIEW, /* is it a service account's, for our audience? */
};

struct question {
	enum lookup_how how;
	struct span token;    /* STORED, REVIEW */
	const char *user;     /* STORED, DENIED; else "" */
	const char *id;       /* DENIED */
	const char *audience; /* REVIEW */
};

/* who: of a REVIEW that is GOOD.  why: of one that is not, for the log, without a secret.  Both are
 * borrowed. */
typedef void lookup_callback(void *arg, enum finding f, const struct reviewed *who,
                             const char *why);

/* Ask.  All of the question is copied.  `done` is called later, once. */
struct lookup *lookup_start(struct loop *l, const struct question *q, lookup_callback *done,
                            void *arg);
/* `done` will not be called. */
void lookup_abandon(struct lookup *k);

/* Could tokens be looked up now?  false: none need be, and nothing is asked.  Else `done` is called
 * later, with NULL or static text: why not. */
bool lookup_probe(struct loop *l, int64_t deadline_ms, void (*done)(void *l, const char *problem));
