#pragma once
/*
 * What an object of the store says of a token.  Objects are untrusted: every member may be missing
 * or of another type.  Pure.
 */
#include "base/str.h"

enum finding {
	FINDING_GOOD,
	FINDING_BAD,
	FINDING_NONE, /* the object is not what it should be: nothing is known */
};

enum { SUBJECT_MAX = 400 };

/* Is the token among the values of this Secret?  In constant time for each. */
enum finding finding_stored(struct span secret, struct span token);
/* Is it not among the keys of this Secret?  `id` as in token.h. */
enum finding finding_denied(struct span secret, const char *id);
/* A TokenReview with its status: authenticated, and for this audience.  GOOD: who it is, as the API
 * server names it. */
enum finding finding_review(struct span review, const char *audience,
                            char subject[static SUBJECT_MAX + 1]);
