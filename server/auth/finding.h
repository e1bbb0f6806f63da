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
