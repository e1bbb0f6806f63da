#pragma once
/*
 * The job that a request is about, by its path: {job} as USER~NAME, or the {user} and {job} of v1;
 * a Framework of others by its own name.  From the cache; what is not there, or while the cache is
 * not yet complete, from the store, by one GET.
 *
 * The id decides nothing: a job is found only if the user and the name that are stored in the
 * object are those asked for, else 404 NoJobError; and who owns it is what is stored.
 */
#include "k8s/cache/cached.h"
#include "k8s/transport/store.h"
#include "server/http/request.h"
#include "server/http/routes.h"

/* Called at once or later, on the loop's thread: the job is r's until r ends. */
typedef void job_found(struct request *r, const struct cached *job);

/* Find the job of r, which its route needs for r->route->need.  What is no job, or not allowed, has
 * been answered: 404, 403, 503. */
void job_find(struct request *r, job_found *found);
/* What may he see of this job?  For what one route shows of it only to some. */
bool job_may(const struct request *r, const struct cached *job, enum job_need need);
/* Takes a reference over, until r ends. */
void job_keep(struct request *r, const struct cached *job);
/* Its document; in r's arena.  What is not kept is asked of the store.  404 if it is gone. */
typedef void job_doc_came(struct request *r, const struct cached *job, struct span doc);
void job_doc(struct request *r, const struct cached *job, job_doc_came *came);
/* Answer with what the store has said, which was not STORE_OK, to a request for a Framework. */
void job_store_failed(struct request *r, enum store_verb verb, const struct store_reply *reply);
/* As people call it: USER~NAME, or the name of others' Frameworks.  Appends. */
void job_id_text(struct str *out, const struct cached *job);
