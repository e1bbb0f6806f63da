#pragma once
/*
 * One look-up of one token at the API server.
 *
 * Thread: loop
 */
#include "base/str.h"
#include "server/auth/token.h"

struct loop;

/* The result of reading an object of the store about a token.  Objects are untrusted: every member
 * may be missing or of another type. */
enum token_verdict {
	TOKEN_VALID,
	TOKEN_INVALID,
	TOKEN_UNKNOWN, /* the object is malformed */
};

enum { SUBJECT_MAX = 400, POD_NAME_MAX = 253, POD_UID_MAX = 64 };

/* The user of a TokenReview, and the pod that the token is bound to, "" if none. */
struct review_user {
	char subject[SUBJECT_MAX + 1];
	char pod_name[POD_NAME_MAX + 1], pod_uid[POD_UID_MAX + 1];
};

/* Finds out if the Secret contains the token.  Constant time per entry.  Thread: any. */
enum token_verdict token_verdict_stored(struct span secret, struct span token);
/* Finds out if the Secret has no such key.  `id` as in token.h.  Thread: any. */
enum token_verdict token_verdict_denied(struct span secret, const char *id);
/* Finds out if a TokenReview's status has authenticated the token for this audience; then sets
 * *out.  Thread: any. */
enum token_verdict token_verdict_review(struct span review, const char *audience,
                                        struct review_user *out);
/*
 * Reads the claims of a service account token, unverified: good for an early refusal only.  Returns
 * NULL, and *out is set; or the reason why a TokenReview cannot authenticate it for this audience,
 * a static text.  now_s: since 1970.  The arena gets parts of the token.
 * Thread: any. */
const char *token_review_claims(struct span token, const char *audience, int64_t now_s,
                                struct arena *a, struct review_user *out);

enum lookup_how {
	LOOKUP_STORED, /* checks if it is among the user's tokens */
	LOOKUP_DENIED, /* checks if it is missing from the deny list */
	LOOKUP_REVIEW, /* TokenReview: checks if it is a service account's, for the configured
	                  audience */
};

struct token_question {
	enum lookup_how how;
	struct span token; /* STORED, REVIEW */
	/* REVIEW: new reviews of several of these start in turn; "": before all others. */
	const char *user;
	const char *id;       /* DENIED */
	const char *audience; /* REVIEW */
};

/* who: the user of a valid REVIEW. why: the reason why a token is not valid, for the log, without
 * secrets.  Both are borrowed. */
typedef void token_lookup_callback(void *arg, enum token_verdict v, const struct review_user *who,
                                   const char *why);

/* Starts a look-up.  Copies the question.  Calls `done` once, later. */
void token_lookup_start(struct loop *l, const struct token_question *q, token_lookup_callback *done,
                        void *arg);

/* Checks for /readyz if tokens can be looked up.  false: the configuration needs no look-ups.  Else
 * calls `done` later, with NULL or a static problem text. */
bool token_lookup_probe(struct loop *l, int64_t deadline_ms,
                        void (*done)(void *l, const char *problem));
