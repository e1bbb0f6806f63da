#pragma once
/*
 * Creates the objects of one job in an order that survives being killed:
 *
 *	no dependents    POST Framework (Start)
 *	dependents       POST Framework (Create); POST each dependent, owned by the
 *	                 Framework's uid; PATCH the Framework to Start
 *	error            DELETE the created objects; report the error
 *
 * A Framework that is to be held is created with Create in both cases, and not started by the
 *PATCH.
 *
 * A store that is atomic gets one request instead, the POST of the Framework (Start) with all
 * dependents, and nothing of the following can happen there but lost answers and older jobs.
 *
 * Before all, the API server checks the pods of users (objects.check), since one pod that
 * FrameworkController cannot decode stops it for all: each as a PodTemplate, as a dry run.
 *
 * Lost answers are settled by a GET that compares the submission id.  On success everything exists
 * and the job is started, or held; on failure nothing is left, except with 504 OutcomeUnknown.  A
 * Framework that turns out to be complete is never removed, because a repetition of the same
 *request may have been answered with success.
 *
 * One case cannot be excluded: the API server executes a POST after the deadline and after two GETs
 * found nothing.  A job with dependents is then never started, and the janitor removes it; a job
 * without dependents runs.
 *
 * Objects of an older or interrupted submission are never adopted, because random parts (keys) and
 * templates of another version differ.  An interrupted submission of the same request, or one of
 * another server that is not done within 3 s, is taken over: its Framework is deleted, with uid and
 * resourceVersion as preconditions, and created anew.  Then the first server can no longer start
 * the job, its roll-back finds another uid, and dependents that it still creates belong to a
 * Framework that is gone.  It answers with the result of the second one, or with 503.
 *
 * The submission waits up to 5 s for the garbage collector to remove Secrets and ConfigMaps, whose
 * removal by this server would take the right to read Secrets.  It replaces a PriorityClass of this
 * installation, which nothing collects.
 *
 * Rights: podtemplates create, for pods of users; frameworks create, get, patch, delete; secrets
 * and configmaps create (without get, a lost answer means that the job is rolled back); with
 * priority classes: create, get, delete.
 *
 * Errors: 409 ConflictJobError, 503 BeingDeletedError (an older job of this name is being deleted),
 * 503 UnavailableError, 504 OutcomeUnknown, 413 PayloadTooLargeError, 400 InvalidProtocolError (the
 * API server's validation; names the fields), 500 UnknownError (rights, namespace, CRD).
 *
 * Thread: own
 */
#include "base/err.h"
#include "base/object.h"
#include "jobs/store/store.h"

/* The Idempotency-Key was used before, with another body or job. */
#define KEY_REUSED 422, "IdempotencyError"
/* An older job of this name, or a dependent of it, is still being removed. */
#define BEING_DELETED 503, "BeingDeletedError"

struct submission;

enum { SUBMISSION_KEY_S = 24 * 3600 }; /* lifetime of an Idempotency-Key */

/* *e is borrowed; e->http is 0 on success.  again: an earlier request with the same key had
 * succeeded; nothing was created now. */
typedef void submission_callback(void *arg, const struct err *e, bool again);

/* Metadata from the API server. */
struct submission_made {
	char uid[64], version[64]; /* resourceVersion; "" if unknown */
	char created[32];          /* metadata.creationTimestamp, likewise */
};

struct submission_options {
	const char *submission_id; /* 32 hex digits, of which the first 12 are the time (ms since
	                            * 1970); also in the Framework */
	const char *display_name;  /* user~job, for messages */
	const char *user;          /* for the fair queue */
	/*
	 * The Framework's annotation rest-lit/idempotency, "KEY-BODY", both hex; NULL if the client
	 * sent no key.  If a Framework of this name with the same KEY was created less than 24
	 * hours ago (by the API server's clock): another BODY: 422 IdempotencyError; the same BODY
	 * and started: success, with `again`; not started: this submission takes it over.  The
	 * caller ensures that this process has one submission per key at a time.
	 */
	const char *idempotency;
	bool held; /* the Framework is not started (jobs/cache/hold.h) */
	/* It gets the annotation rest-lit/order, a resourceVersion between its creation and its
	 * completion, which makes it complete only by a PATCH.  Not in a store that is atomic. */
	bool ordered;
	int64_t deadline_ms; /* by clock_ms; settling may take 5 s more, undoing another 5 s */
	/* POSTs with ?dryRun=All, without PATCH and DELETE: no object is created or changed.
	 * Dependents refer to a Framework that does not exist, which the API server accepts. */
	bool dry_run;
	/* Filled in when the job was created, before the callback; or NULL. */
	struct submission_made *made;
};

/* Objects and options are borrowed until the callback, which is called exactly once, later, from
 * store_reap or store_free. */
void submission_start(struct store *s, const struct objects *o,
                      const struct submission_options *opt, submission_callback *done, void *arg);
