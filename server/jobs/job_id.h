#pragma once
/*
 * What people call a job: USER~NAME, where the first ~ splits, since no user's name has one; and a
 * Framework that others have made by its own name.  Pure.
 */
#include "k8s/cache/cached.h"

enum { JOB_ID_MAX = 512 };

struct job_id {
	struct span user, job; /* p is NULL: a Framework of others */
	/* metadata.name of the one that it would be; NULL if none can have it. */
	const char *name;
	/* What OpenPAI would call a Framework of others that is asked for by these words: without
	 * a leading `unknown`, in lower case, of letters and digits only.  NULL if that is the same
	 * or nothing. */
	const char *alias;
};

/* {job} of v2; {user} and {job} of v1.  false: no job can be called so.  In the arena. */
bool job_id_read(struct span id, struct arena *a, struct job_id *out);
bool job_id_pair(struct span user, struct span job, struct arena *a, struct job_id *out);
/* Whether the Framework that has been found by name is the job that was asked for: user and name
 * are those stored in it.  What is found by its alias may only be looked at. */
bool job_id_fits(const struct job_id *id, const struct cached *found);
bool job_id_fits_alias(const struct job_id *id, const struct cached *found);
