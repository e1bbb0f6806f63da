#pragma once
/* One question to the store about one token. */
#include "base/str.h"
#include "server/auth/token.h"

struct loop;
struct lookup;

/*
 * What an object of the store says of a token.  Objects are untrusted: every member may be missing
 * or of another type.  Pure.
 */
enum finding {
	FINDING_GOOD,
	FINDING_BAD,
	FINDING_NONE, /* the object is not what it should be: nothing is known */
};

enum { SUBJECT_MAX = 400, POD_NAME_MAX = 253, POD_UID_MAX = 64 };

/* Whose token it is, as the API server names it; and the pod that it is bound to, "" if to none. */
struct reviewed {
	char subject[SUBJECT_MAX + 1];
	char pod_name[POD_NAME_MAX + 1], pod_uid[POD_UID_MAX + 1];
};

/* Is the token among the values of this Secret?  In constant time for each. */
enum finding finding_stored(struct span secret, struct span token);
/* Is it not among the keys of this Secret?  `id` as in token.h. */
enum finding finding_denied(struct span secret, const char *id);
/* A TokenReview with its status: authenticated, and for this audience.  GOOD: *out is set. */
enum finding finding_review(struct span review, const char *audience, struct reviewed *out);

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
