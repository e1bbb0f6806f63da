#pragma once
/* Shared by the files of this folder.  All on the loop's thread. */
#include "jobs/submit/submission.h"
#include "server/http/loop.h"
#include "server/http/request.h"
#include "server/submit/submit.h"
#include "translate/translate.h"

struct job;
struct job_entry;
struct idempotency_claim;

/* DRY_RUN_HERE: by this server only; DRY_RUN_SERVER: by the API server too. */
enum dry_run { DRY_RUN_NO, DRY_RUN_HERE, DRY_RUN_SERVER };

/* The state of r, in its arena. */
struct submit {
	struct request *r;
	enum dry_run dry_run;
	bool yaml;                       /* format of a dry run's answer */
	bool claimed;                    /* it counts for the limit of the user's jobs */
	bool again;                      /* an earlier request has created the job */
	int64_t translate_us;            /* used to read the job and to build its objects */
	const char *key;                 /* Idempotency-Key; NULL without one */
	const char *tags;                /* a JSON list; NULL without any */
	struct hold *hold;               /* the job waits for it; NULL: it is started at once */
	const char *value;               /* its stored form (idempotency_value), or NULL */
	struct idempotency_claim *claim; /* its reservation, or NULL */
	const struct job *job;           /* NULL until the body is read */
	struct notes warnings;
	struct objects *shown; /* the objects of a dry run */
	struct code_fact code; /* of job->code */
};

/* ---- submit.c ---- */

/* The cache entry of a new job, without a document.  framework: the object that was created. Limits
 * are those of the roles; of pods of users, the watch adds those of further containers.  NULL
 * without a name; the caller owns the reference. */
struct job_entry *submit_entry(const struct job *job, struct span framework,
                               const struct submission_made *made);

/* Appends `,"warnings":[...]`; for clients of v1, which expect them there, also in a header. */
void submit_put_warnings(const struct submit *s);

/* ---- dry_run.c ---- */

/*
 * Reads `dryRun` from a query: true, server or All, false (the default).  -1 and *e (400
 * InvalidParametersError): another value, a repetition, or a similar name (dryrun, dry-run), so
 * that a dry run never creates a job by mistake.  Pure.
 */
int dry_run_read(const char *query, struct arena *a, enum dry_run *out, struct err *e);
/* Bytes of the list of s->shown. */
size_t dry_run_size(const struct submit *s);
/* Answers with the objects in s->shown. */
void dry_run_answer(struct submit *s);

/* ---- held.c ---- */

/* SUBMISSION[i].kind; 0: none of a held job. */
enum { PARAMETER_HOLD = 1, PARAMETER_AFTER, PARAMETER_ANY, PARAMETER_BEGIN, PARAMETER_MAX };

/* Reads the parameters hold, after, afterAny, begin and maxRunning into s->hold; its `after` have
 * names only (see jobs_after).  Needs s->tags.  -1 and *e: 400. */
int submit_read_hold(struct submit *s, struct err *e);
/* The annotation rest-lit/hold, in the arena; NULL: none. */
const char *submit_hold_text(const struct submit *s);
/* Appends `,"held":true,"begins":"..."` for a held job. */
void submit_put_hold(const struct submit *s);

/* ---- idempotency.c ---- */

/*
 * "KEY-BODY": MACs of s->key and of the body, in hex, in the request's arena; NULL without a key.
 * It is stored in the Framework (jobs/submit/submission.h).  The MAC key derives from the token
 * secret, so it is the same on all servers; without one, the client's key itself is used, which
 * must then be random.
 */
const char *idempotency_value(struct submit *s);
/*
 * Reserves s->value for s->job until idempotency_release, at the latest until the request ends.  1:
 * as far as the cache knows, this user has created this job with this key; else 0.  -1 and *e: 409
 * IdempotencyError if this process is creating a job with this user's key now, 422 if the key has
 * created another job in the last 24 hours.  Jobs that another server has just submitted, or that
 * the cache does not have yet, are not checked.
 */
int idempotency_claim(struct submit *s, struct err *e);
/* The job is created and in the cache, or it failed.  Takes a struct submit; may be called again.
 */
void idempotency_release(void *arg);
