#pragma once
/*
 * The job that a request is about, by its path: {job} as USER~NAME, or the {user} and {job} of v1;
 * a Framework of others by its own name.  From the cache; what is not there, or while the cache is
 * not yet complete, from the store, by one GET.
 *
 * The id decides nothing: a job is found only if the user and the name that are stored in the
 * object are those asked for, else 404 NoJobError; and who owns it is what is stored.
 */
#include "k8s/cache/job_entry.h"
#include "k8s/transport/store.h"
#include "server/http/request.h"
#include "server/http/routes.h"

/* Called at once or later, on the loop's thread: the job is r's until r ends. */
typedef void job_found(struct request *r, const struct job_entry *job);

/* Find the job of r, which its route needs for r->route->need.  What is no job, or not allowed, has
 * been answered: 404, 403, 503. */
void job_find(struct request *r, job_found *found);
/* What may he see of this job?  For what one route shows of it only to some. */
bool job_may(const struct request *r, const struct job_entry *job, enum job_need need);
/* Takes a reference over, until r ends. */
void job_keep(struct request *r, const struct job_entry *job);
/* Its document; in r's arena.  What is not kept is asked of the store.  404 if it is gone. */
typedef void job_doc_came(struct request *r, const struct job_entry *job, struct span doc);
void job_doc(struct request *r, const struct job_entry *job, job_doc_came *came);
/* Answer with what the store has said, which was not STORE_OK, to a request for a Framework. */
void job_store_failed(struct request *r, enum store_verb verb, const struct store_reply *reply);
/* As people call it: USER~NAME, or the name of others' Frameworks.  Appends. */
void job_id_text(struct str *out, const struct job_entry *job);

/*
 * What people call a job: USER~NAME, where the first ~ splits, since no user's name has one; and a
 * Framework that others have made by its own name.  Pure.
 */
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
bool job_id_fits(const struct job_id *id, const struct job_entry *found);
bool job_id_fits_alias(const struct job_id *id, const struct job_entry *found);
