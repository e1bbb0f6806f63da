#pragma once
/*
 * Making the objects of one job, in an order that survives being killed:
 *
 *	no dependents    POST Framework (Start)
 *	dependents       POST Framework (Create); POST each dependent, owned by the
 *	                 Framework's uid; PATCH the Framework to Start
 *	trouble          DELETE what was made; say so
 *
 * A lost answer is settled by a GET that compares the submission id.  When the
 * callback says ok, everything exists and the job is started; when it does not,
 * nothing is left behind, except with 504 OutcomeUnknown, which says so.
 *
 * Whether it was started is looked up before it is removed: what runs is never taken back, for the
 * same request, sent once more with its key, may have been told of it.
 *
 * One thing no client of an API server can exclude: a POST without an answer that is executed only
 * after the deadline, and after two looks that found nothing.  A job with dependents is then never
 * started, and the janitor removes it; one without them runs, and its name is taken.
 *
 * What an older job of the same name has left is never adopted.  A Secret or ConfigMap of it is
 * waited for, since the garbage collector is at it; a PriorityClass of this installation,
 * which nobody collects, is replaced.
 *
 * Rights that it needs: frameworks create, get, patch, delete; secrets and configmaps create (if
 * the answer to one of these is lost and it was made, then without get the job is rolled back); and
 * if there are priority classes, these create, get, delete.
 *
 * Errors: 409 ConflictJobError (the name is taken), 503 BeingDeletedError (an older job of this
 *name is being deleted; its dependents are waited for up to 5 s), 503 UnavailableError, 504
 *OutcomeUnknown, 413 PayloadTooLargeError, 400 InvalidProtocolError (refused by the API server's
 *validation, naming the fields), 500 UnknownError (rights, namespace, CRD: the sentence says
 *which).
 */
#include "base/err.h"
#include "base/object.h"
#include "k8s/transport/store.h"

/* What can become of a request whose Idempotency-Key was seen before, besides success. */
#define KEY_UNDER_WAY 409, "IdempotencyError"
#define KEY_REUSED    422, "IdempotencyError"
/* An older job of this name, or what belonged to it, is still being removed: later it will do. */
#define BEING_DELETED 503, "BeingDeletedError"

struct submission;

enum { SUBMISSION_KEY_S = 24 * 3600 }; /* how long an Idempotency-Key counts */

/* *e is borrowed; e->http is 0 if all went well.  again: it had gone well before, with the same
 * key; nothing was made now. */
typedef void submission_callback(void *arg, const struct err *e, bool again);

/* What an API server has added to a Framework. */
struct submission_made {
	char uid[64], version[64]; /* resourceVersion; "" if it was not said */
	char created[32];          /* metadata.creationTimestamp, likewise */
};

struct submission_options {
	const char *submission_id; /* 32 hex digits, of which the first 12 are the time (ms since
	                            * 1970); also in the Framework */
	const char *display_name;  /* user~job, for messages */
	const char *user;          /* whose turn in the queue it is */
	/*
	 * What the Framework carries in its annotation rest-lit/idempotency, "KEY-BODY", both hex;
	 * NULL if the client sent no key.  If a Framework of this name is there already, started
	 * and made less than 24 hours ago (by the API server's clock), with the same KEY-BODY, then
	 * that is success: e->http is 0 and `again` true.  With the same KEY and another BODY: 422
	 * IdempotencyError.  With the same KEY-BODY and not yet started: 409 IdempotencyError, the
	 * first one is still under way.
	 */
	const char *idempotency;
	int64_t deadline_ms; /* by clock_ms; finding out may take 5 s more, undoing again 5 s */
	/* Each POST with ?dryRun=All, and neither PATCH nor DELETE: nothing stays, and nothing that
	 * is there is touched.  Dependents refer to a Framework that never was, which no API
	 * server minds. */
	bool dry_run;
	/* Filled in when a job was made, before the callback; NULL: nobody wants to know. */
	struct submission_made *made;
};

/*
 * Start.  Objects and options are borrowed until the callback, which is called exactly
 * once, later, from store_reap (or store_free) of this store.
 */
void submission_start(struct store *s, const struct objects *o,
                      const struct submission_options *opt, submission_callback *done, void *arg);
