/*
 * The creation of a job as a state machine.  TABLE names the action for each outcome in each phase:
 * read it first.  The Framework is created first and owns all later objects, so that removing it
 * removes everything, and it is started, or left as held, last.  In a store that is atomic one POST
 * is all.
 */
#include "jobs/submit/submission.h"

#include <assert.h>
#include <stdlib.h>

#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "jobs/store/paths.h"
#include "jobs/store/reply.h"
#include "jobs/submit/ownership.h"

enum {
	SETTLE_MS = 5000, /* after the deadline, to settle or to undo */
	PAUSE_MS = 500,   /* between two GETs */
	UID_ROOM = 64,
};
#define CREATING "/metadata/labels/rest-lit~1creating"
#define ORDER    "/metadata/annotations/rest-lit~1order"

enum submission_phase {
	VETTING,   /* POST of a pod of the user, as a dry run */
	MAKING,    /* POST of the object of this step */
	COMPARING, /* GET: checks if the existing object is ours */
	OWNING, /* GET: checks if the Framework is still ours, before a PriorityClass is replaced */
	REPLACING, /* DELETE of an object of an older or interrupted submission of this name */
	STARTING,  /* PATCH of the Framework: it is complete, and started unless it is held */
	CHECKING,  /* GET, after this has failed: checks if the Framework is still ours */
	UNDOING,   /* DELETE of a created object */
	SEEKING,   /* GET, while undoing: checks if it exists, and reads its uid */
	PHASE_MAX
};

/* The object of a step. */
struct made_object {
	char uid[UID_ROOM];     /* "": not created, or not known */
	bool lost;              /* its POST got no answer and is not settled */
	char version[UID_ROOM]; /* precondition of its DELETE; "": none */
};

struct submission {
	struct store *store;
	const struct objects *objects;
	const struct submission_options *opt;
	submission_callback *done;
	void *arg;

	enum submission_phase phase;
	size_t step;                      /* 0: the Framework; i: objects->v[i - 1] */
	size_t vetted;                    /* pods that the API server has accepted */
	struct made_object *made;         /* by step */
	struct store_request request;     /* under way */
	const struct store_reply *reply;  /* the answer to it, while a step handles it */
	char order[UID_ROOM];             /* of the Framework, if it is `ordered` */
	struct str patch;                 /* its body; empty before the first PATCH */
	struct made_object old;           /* the object that is replaced */
	unsigned tries, internal, absent; /* of this step: POSTs; answers 500; "not there" */
	bool met;                         /* of this step: a POST was answered 409 */
	unsigned conflicts, strange;      /* answers to the PATCH: 409; 200, but not started */
	int64_t patience_ms; /* end of the wait for another server, then for the collector; 0: not
	                        begun */
	int64_t give_up_ms;  /* of settling and undoing */
	bool left_behind;    /* undoing failed */
	bool again;          /* an earlier request with this key had succeeded */
	struct err e;        /* reason of the roll-back */
};

typedef void submission_step(struct submission *b);
static store_callback submission_on_reply;

/* ---- requests, about the object of the current step ---- */

static const struct object *submission_object(const struct submission *b)
{
	return b->step == 0 ? objects_framework(b->objects) : &b->objects->v[b->step - 1];
}

/* Completes and sends b->request, about the object of this step, or its owner. */
static void submission_send_step(struct submission *b, enum submission_phase phase,
                                 int64_t not_before_ms)
{
	struct store_request *r = &b->request;
	const struct object *o =
	    phase == OWNING ? objects_framework(b->objects) : submission_object(b);
	b->phase = phase;
	r->kind = o->kind;
	r->name = o->name;
	r->user = b->opt->user;
	r->dry_run = b->opt->dry_run && r->verb != STORE_GET;
	r->not_before_ms = not_before_ms;
	r->done = submission_on_reply;
	r->arg = b;
	store_request(b->store, r);
}

static void submission_post(struct submission *b, int64_t not_before_ms)
{
	const struct object *o = submission_object(b);
	b->request = (struct store_request){
		.verb = STORE_CREATE,
		.body = { o->body },
		.deadline_ms = b->opt->deadline_ms,
		.urgent = b->step > 0 || b->tries > 0,
	};
	if (store_is_atomic(b->store)) {
		b->request.with = b->objects->v;
		b->request.n_with = b->objects->n - 1;
	}
	if (o->uid_at > 0) {
		b->request.body[0] = (struct span){ o->body.p, o->uid_at };
		b->request.body[1] = span_of(b->made[0].uid);
		b->request.body[2] = (struct span){ o->body.p + o->uid_at, o->body.n - o->uid_at };
	}
	b->tries++;
	submission_send_step(b, MAKING, not_before_ms);
}

/* Checks the next pod; after the last one, creates the Framework.  On one machine the engine checks
 * pods. */
static void submission_vet(struct submission *b)
{
	if (b->vetted == b->objects->n_checks || store_is_atomic(b->store)) {
		submission_post(b, 0);
		return;
	}
	const struct object *pod = &b->objects->check[b->vetted];
	b->phase = VETTING;
	b->request = (struct store_request){
		.verb = STORE_CREATE,
		.kind = pod->kind,
		.name = pod->name,
		.body = { pod->body },
		.user = b->opt->user,
		.dry_run = true,
		.urgent = b->vetted > 0,
		.deadline_ms = b->opt->deadline_ms,
		.done = submission_on_reply,
		.arg = b,
	};
	store_request(b->store, &b->request);
}

static void submission_get(struct submission *b, enum submission_phase phase, int64_t not_before_ms)
{
	/* Only the whole object shows whether a Framework is started. */
	bool whole =
	    b->step == 0 && (phase == SEEKING || phase == CHECKING || b->opt->idempotency != NULL);
	b->request = (struct store_request){
		.verb = STORE_GET,
		.whole = whole,
		.deadline_ms = b->give_up_ms,
		.urgent = true,
	};
	submission_send_step(b, phase, not_before_ms);
}

/* DELETE of b->old. */
static void submission_replace(struct submission *b)
{
	b->request = (struct store_request){
		.verb = STORE_DELETE,
		.uid = b->old.uid,
		.resource_version = b->old.version,
		.deadline_ms = b->opt->deadline_ms,
		.urgent = true,
	};
	submission_send_step(b, REPLACING, 0);
}

/* Repeats step 0: one request removes the label, which may be gone, and starts the Framework unless
 * it is to be held.  Its test keeps a late or repeated one from taking back a stop. */
static void submission_patch(struct submission *b, int64_t not_before_ms)
{
	b->step = 0;
	str_done(&b->patch);
	b->patch = STR_INIT(512);
	str_printf(&b->patch,
	           "[{\"op\":\"test\",\"path\":\"/metadata/uid\",\"value\":\"%s\"},"
	           "{\"op\":\"test\",\"path\":\"/spec/executionType\",\"value\":\"Create\"},"
	           "{\"op\":\"add\",\"path\":\"" CREATING "\",\"value\":\"\"},"
	           "{\"op\":\"remove\",\"path\":\"" CREATING "\"}",
	           b->made[0].uid);
	if (b->opt->ordered)
		str_printf(&b->patch, ",{\"op\":\"add\",\"path\":\"" ORDER "\",\"value\":\"%s\"}",
		           b->order);
	if (!b->opt->held)
		str_puts(&b->patch, ",{\"op\":\"replace\",\"path\":\"/spec/executionType\","
		                    "\"value\":\"Start\"}");
	str_char(&b->patch, ']');
	b->request = (struct store_request){
		.verb = STORE_PATCH,
		.whole = true, /* executionType is not metadata */
		.json_patch = true,
		.body = { str_view(&b->patch) },
		.deadline_ms = b->opt->deadline_ms,
		.urgent = true,
	};
	submission_send_step(b, STARTING, not_before_ms);
}

/* The end. */
static void submission_finish(struct submission *b)
{
	b->done(b->arg, &b->e, b->again);
	err_done(&b->e);
	str_done(&b->patch);
	free(b->made);
	free(b);
}

/* ---- the way back ---- */

/* Removes the created objects, then finishes with b->e. */
static void submission_roll_back(struct submission *b);
static submission_step submission_undone, submission_not_undone, submission_in_the_way,
    submission_sought;

enum {
	COLLECTOR_MS = 5000, /* limit for the garbage collector */
	ANOTHER_MS = 3000,   /* limit for another server that seems to make the same job */
	INTERNAL_MAX = 3,    /* answers 500, the last of which is final */
	ABSENT_MAX = 2,      /* answers 404, likewise */
	CONFLICTS_MAX = 2,   /* 409 to the PATCH, before a GET */
	STRANGE_MAX = 8,     /* answers 200 to the PATCH that do not show the Framework started */
};

/* The outcome cannot be settled in time. */
static void submission_outcome_unknown(struct submission *b, const char *why)
{
	err_set(&b->e, OUTCOME_UNKNOWN, "%s: it is not known whether job %s exists (submission %s)",
	        why, b->opt->display_name, b->opt->submission_id);
	submission_finish(b);
}

/* ---- the way forward --------------------------------------------------------------- */

static void submission_next_step(struct submission *b)
{
	b->tries = b->internal = b->absent = 0;
	b->met = false;
	if (b->step == 0)
		b->patience_ms = 0;
	b->step++;
	bool whole = store_is_atomic(b->store);
	if (b->step < b->objects->n && !whole)
		submission_post(b, 0);
	else if ((b->objects->n > 1 || b->opt->ordered) && !b->opt->dry_run && !whole)
		submission_patch(b, 0);
	else
		submission_finish(b);
}

/* The POST may have been executed. */
static void submission_post_lost(struct submission *b)
{
	b->internal += b->reply->status == 500;
	if (b->opt->dry_run) {
		err_set(&b->e, UNAVAILABLE, "the API server did not answer in time: %.*s",
		        (int)b->reply->message.n, b->reply->message.p);
		submission_finish(b);
		return;
	}
	b->made[b->step].lost = true;
	submission_get(b, COMPARING, 0);
}

/* Or a PodTemplate of this name exists, which is noticed after the check. */
static void submission_pod_accepted(struct submission *b)
{
	b->vetted++;
	submission_vet(b);
}

static void submission_pod_rejected(struct submission *b)
{
	explain_refusal(&b->e, &b->request, b->reply);
	(void)err_wrap(&b->e, "the pod of task role %s", b->objects->check[b->vetted].name);
	submission_finish(b);
}

/* The uid is inserted into bodies without escaping. */
static bool submission_uid_ok(struct span uid)
{
	return uid.n > 0 && uid.n < UID_ROOM && span_only_alnum_or(uid, "-");
}

static void submission_copy_text(char *to, size_t room, struct span text)
{
	size_t n = text.n < room ? text.n : 0;
	memcpy(to, text.p, n);
	to[n] = '\0';
}

/* Notes the answer to the POST of the Framework, or to the PATCH that starts it. */
static void submission_note_framework(struct submission *b)
{
	struct submission_made *m = b->opt->made;
	if (!m || b->step > 0)
		return;
	ARENA_AUTO arena = { 0 };
	struct span created = scan_path(b->reply->body, "metadata", "creationTimestamp");
	submission_copy_text(m->uid, sizeof(m->uid), b->reply->uid);
	submission_copy_text(m->version, sizeof(m->version), b->reply->resource_version);
	submission_copy_text(m->created, sizeof(m->created), scan_text(created, &arena));
}

static void submission_is_made(struct submission *b)
{
	struct made_object *m = &b->made[b->step];
	struct span uid = b->opt->dry_run && b->reply->uid.n == 0 ? SPAN("dry-run") : b->reply->uid;
	if (!submission_uid_ok(uid)) {
		submission_post_lost(b); /* not an answer of an API server */
		return;
	}
	submission_copy_text(m->uid, UID_ROOM, uid);
	m->lost = false;
	if (b->step == 0)
		submission_copy_text(b->order, UID_ROOM,
		                     span_digits(b->reply->resource_version)
		                         ? b->reply->resource_version
		                         : SPAN("0"));
	submission_note_framework(b);
	submission_next_step(b);
}

static void submission_refused(struct submission *b)
{
	explain_refusal(&b->e, &b->request, b->reply);
	submission_roll_back(b);
}

static void submission_unavailable(struct submission *b)
{
	err_set(&b->e, UNAVAILABLE, "the API server could not be reached in time: %.*s",
	        (int)b->reply->message.n, b->reply->message.p);
	submission_roll_back(b);
}

/* The POST was not executed, but an earlier one may have been. */
static void submission_not_made(struct submission *b)
{
	if (b->made[b->step].lost)
		submission_get(b, COMPARING, 0);
	else
		submission_unavailable(b);
}

static void submission_no_room(struct submission *b)
{
	err_set(&b->e, UNAVAILABLE, "too many jobs are being submitted; try again later");
	submission_roll_back(b);
}

static void submission_fail_conflict(struct submission *b)
{
	err_set(&b->e, CONFLICT_JOB, "Job %s already exists.", b->opt->display_name);
	submission_roll_back(b);
}

/* The time of the next try; 0: `ms` have passed since the first, or the deadline is near. */
static int64_t submission_wait_ms(struct submission *b, int64_t ms)
{
	int64_t again = clock_ms() + PAUSE_MS;
	if (b->patience_ms == 0)
		b->patience_ms = again - PAUSE_MS + ms;
	return again < b->patience_ms && again < b->opt->deadline_ms ? again : 0;
}

/* An object of this name belongs to an older job, which may be under deletion. */
static void submission_wait_for_collector(struct submission *b)
{
	int64_t again = submission_wait_ms(b, COLLECTOR_MS);
	if (again) {
		submission_post(b, again);
		return;
	}
	const struct resource *res = resource_of(submission_object(b)->kind);
	if (res->namespaced)
		err_set(&b->e, BEING_DELETED,
		        "the %s of an older job %s still exists: that job is being deleted; "
		        "send the request again, with the same Idempotency-Key if it has one",
		        res->kind, b->opt->display_name);
	else
		err_set(&b->e, CONFLICT_JOB,
		        "a %s with the name that job %s needs was created by another program",
		        res->kind, b->opt->display_name);
	submission_roll_back(b);
}

static void submission_note_old(struct submission *b)
{
	b->made[b->step].lost = false;
	submission_copy_text(b->old.uid, UID_ROOM, b->reply->uid);
	submission_copy_text(b->old.version, UID_ROOM, b->reply->resource_version);
}

static void submission_job_vanished(struct submission *b)
{
	err_set(&b->e, UNAVAILABLE,
	        "job %s was deleted while it was being made; send the request again, with the same "
	        "Idempotency-Key if it has one",
	        b->opt->display_name);
	submission_roll_back(b);
}

/* A server that takes this submission over removes its Framework before it makes a PriorityClass,
 * so one that was there before this answer is older. */
static void submission_is_owner(struct submission *b)
{
	if (span_is(b->reply->uid, b->made[0].uid))
		submission_replace(b);
	else
		submission_job_vanished(b);
}

static void submission_replaced(struct submission *b)
{
	if (b->tries < 3)
		submission_post(b, 0);
	else if (b->step == 0)
		submission_get(b, COMPARING, clock_ms() + PAUSE_MS);
	else
		submission_wait_for_collector(b); /* another client keeps creating it */
}

static void submission_is_foreign(struct submission *b)
{
	b->made[b->step].lost = false;
	if (b->step == 0)
		submission_fail_conflict(b);
	else
		submission_wait_for_collector(b);
}

/*
 * Another server makes the same job, or was interrupted.  After a while the Framework is replaced
 * by one of this submission: an interrupted server that goes on finds another uid, and what it had
 * made, or makes late, is owned by a Framework that is gone.  The DELETE fails if the Framework is
 * started meanwhile.
 */
static void submission_take_over(struct submission *b, const struct marks *framework)
{
	ARENA_AUTO a = { 0 };
	struct marks ours = marks_of(submission_object(b)->body, &a);
	int64_t age_ms = (b->reply->date_s - framework->created_s) * 1000;
	if (!span_is(b->reply->uid, b->old.uid))
		b->patience_ms = 0; /* of yet another server */
	submission_note_old(b);
	int64_t again = age_ms < ANOTHER_MS ? submission_wait_ms(b, ANOTHER_MS) : 0;
	if (!ownership_is_untouched(framework) || !ownership_same_home(framework, &ours))
		submission_fail_conflict(b);
	else if (again)
		submission_get(b, COMPARING, again);
	else
		submission_replace(b);
}

/* A Framework of this name exists.  An earlier attempt of the same request may have created it. */
static void submission_is_taken(struct submission *b, const struct marks *framework)
{
	b->made[0].lost = false;
	if (framework->deleted.p) {
		err_set(&b->e, BEING_DELETED,
		        "an older job %s is being deleted; send the request again, with the same "
		        "Idempotency-Key if it has one",
		        b->opt->display_name);
		submission_finish(b);
		return;
	}
	switch (ownership_repeat(framework, b->reply->date_s, b->opt->idempotency)) {
	case REPEAT_NONE:
		submission_fail_conflict(b);
		return;
	case REPEAT_DONE:
		b->again = true;
		break;
	case REPEAT_UNDER_WAY:
		submission_take_over(b, framework);
		return;
	case REPEAT_OTHER_BODY:
		err_set(&b->e, KEY_REUSED,
		        "this Idempotency-Key was used before, with another body, for job %s",
		        b->opt->display_name);
		break;
	}
	submission_finish(b);
}

/* 409 to a POST. */
static void submission_exists(struct submission *b)
{
	b->met = true;
	if (b->opt->dry_run && b->step == 0)
		submission_fail_conflict(b);
	else
		submission_get(b, COMPARING,
		               0); /* it can be ours: a proxy can have repeated the POST */
}

/* The object is absent.  Another POST creates it or gets 409. */
static void submission_is_absent(struct submission *b)
{
	int64_t again = clock_ms() + ((int64_t)PAUSE_MS >> (b->tries < 3 ? 3 - b->tries : 0));
	if (b->internal >= INTERNAL_MAX) {
		static const struct store_reply SAID = {
			.status = 500, .message = { "it answered 500 repeatedly", 26 }
		};
		b->made[b->step].lost = false;
		b->reply = &SAID;
		submission_refused(b);
	} else if (again < b->opt->deadline_ms) {
		submission_post(b, again);
	} else if (++b->absent < ABSENT_MAX) {
		submission_get(b, COMPARING, clock_ms() + PAUSE_MS);
	} else {
		b->made[b->step].lost = false;
		err_set(&b->e, UNAVAILABLE, "the API server did not answer in time");
		submission_roll_back(b);
	}
}

/* The GET for the comparison was refused, probably by RBAC. */
static void submission_cannot_compare(struct submission *b)
{
	bool owned = resource_of(submission_object(b)->kind)->namespaced;
	if (!b->made[b->step].lost) {
		submission_is_foreign(b); /* the POST was answered 409 */
	} else if (b->step > 0 && !b->met && owned) {
		/* It is not known whether the object exists.  Another POST creates it, or gets 409
		 * without showing the owner: then the Framework is removed, and the dependent with
		 * it. */
		submission_is_absent(b);
	} else if (b->step > 0) {
		/* The roll-back removes the owner, or the object. */
		submission_unavailable(b);
	} else {
		explain_refusal(&b->e, &b->request, b->reply);
		submission_outcome_unknown(b, err_msg(&b->e));
	}
}

static void submission_not_compared(struct submission *b)
{
	if (b->step == 0)
		submission_outcome_unknown(b, "the API server did not answer in time");
	else
		submission_unavailable(b);
}

static void submission_compared(struct submission *b)
{
	ARENA_AUTO a = { 0 };
	const struct object *o = submission_object(b);
	struct marks there = marks_of(b->reply->body, &a);
	struct marks ours = marks_of(o->body, &a);
	/* Objects without owner are not collected.  A PriorityClass is named after its Framework,
	 * so one that this installation made for an older submission is left over: the Framework of
	 * that name is ours now. */
	bool left_over = !resource_of(o->kind)->namespaced && ownership_same_home(&there, &ours);
	if (!submission_uid_ok(b->reply->uid)) {
		submission_not_compared(b); /* not an answer of an API server */
	} else if (span_is(there.submission, b->opt->submission_id)) {
		submission_is_made(b);
	} else if (b->step == 0) {
		submission_is_taken(b, &there);
	} else if (!left_over) {
		submission_is_foreign(b);
	} else if (b->opt->dry_run) {
		submission_next_step(b); /* it would be replaced */
	} else {
		submission_note_old(b);
		submission_get(b, OWNING, 0);
	}
}

/* The answer is our Framework, and shows it complete. */
static bool submission_shows_end(const struct submission *b)
{
	ARENA_AUTO a = { 0 };
	struct marks framework = marks_of(b->reply->body, &a);
	return span_is(b->reply->uid, b->made[0].uid) && ownership_is_done(&framework);
}

static void submission_started(struct submission *b)
{
	if (!submission_shows_end(b)) {
		b->strange++;
		submission_get(b, CHECKING, 0); /* not an answer of an API server */
		return;
	}
	err_done(&b->e);
	submission_note_framework(b);
	submission_finish(b);
}

/* A concurrent write; or, if it repeats, another Framework has the name now. */
static void submission_start_again(struct submission *b)
{
	if (++b->conflicts < CONFLICTS_MAX)
		submission_patch(b, clock_ms() + PAUSE_MS);
	else
		submission_get(b, CHECKING, 0);
}

/* 422 also if the first try has started it, or another Framework has the name now. */
static void submission_not_started(struct submission *b)
{
	explain_refusal(&b->e, &b->request, b->reply);
	if (b->reply->status == 422)
		submission_get(b, CHECKING, 0);
	else
		submission_roll_back(b);
}

/* The Framework seems to exist.  b->e is set if it cannot be started. */
static void submission_not_yet_started(struct submission *b)
{
	if (!b->e.http && b->strange >= STRANGE_MAX)
		err_set(&b->e, UNAVAILABLE,
		        "the API server answers 200 repeatedly, but does not start job %s",
		        b->opt->display_name);
	if (b->e.http)
		submission_roll_back(b);
	else
		submission_patch(b, clock_ms() + PAUSE_MS);
}

static void submission_checked(struct submission *b)
{
	if (submission_shows_end(b)) {
		submission_started(b);
		return;
	}
	if (!submission_uid_ok(b->reply->uid) || span_is(b->reply->uid, b->made[0].uid)) {
		submission_not_yet_started(b);
		return;
	}
	/* Another Framework has the name.  If another server has taken this submission over and
	 * started the job, that is the answer; the objects made here are removed. */
	ARENA_AUTO a = { 0 };
	struct marks framework = marks_of(b->reply->body, &a);
	b->again =
	    ownership_repeat(&framework, b->reply->date_s, b->opt->idempotency) == REPEAT_DONE;
	if (!b->again) {
		submission_job_vanished(b);
		return;
	}
	err_done(&b->e);
	submission_roll_back(b);
}

/* clang-format off */
static submission_step *const TABLE[PHASE_MAX][STORE_OUTCOME_MAX] = {
	/* OK, EXISTS, CONFLICT, NOT_FOUND, REFUSED, BUSY, AMBIGUOUS, FULL */
	[VETTING] = {
		submission_pod_accepted, submission_pod_accepted,
		submission_pod_accepted, submission_pod_rejected,
		submission_pod_rejected, submission_unavailable,
		submission_unavailable, submission_no_room,
	},
	[MAKING] = {
		submission_is_made, submission_exists,
		submission_exists, submission_refused,
		submission_refused, submission_not_made,
		submission_post_lost, submission_no_room,
	},
	[COMPARING] = {
		submission_compared, submission_cannot_compare,
		submission_cannot_compare, submission_is_absent,
		submission_cannot_compare, submission_not_compared,
		submission_not_compared, submission_not_compared,
	},
	[OWNING] = {
		submission_is_owner, submission_unavailable,
		submission_unavailable, submission_job_vanished,
		submission_refused, submission_unavailable,
		submission_unavailable, submission_unavailable,
	},
	[REPLACING] = {
		submission_replaced, submission_replaced,
		submission_replaced, submission_replaced,
		submission_refused, submission_unavailable,
		submission_unavailable, submission_unavailable,
	},
	[STARTING] = {
		submission_started, submission_start_again,
		submission_start_again, submission_job_vanished,
		submission_not_started, submission_unavailable,
		submission_unavailable, submission_unavailable,
	},
	[CHECKING] = {
		submission_checked, submission_not_yet_started,
		submission_not_yet_started, submission_job_vanished,
		submission_not_yet_started, submission_unavailable,
		submission_unavailable, submission_unavailable,
	},
	[UNDOING] = {
		submission_undone, submission_in_the_way,
		submission_in_the_way, submission_undone,
		submission_not_undone, submission_not_undone,
		submission_not_undone, submission_not_undone,
	},
	[SEEKING] = {
		submission_sought, submission_not_undone,
		submission_not_undone, submission_undone,
		submission_not_undone, submission_not_undone,
		submission_not_undone, submission_not_undone,
	},
};
/* clang-format on */

static void submission_on_reply(void *arg, const struct store_reply *reply)
{
	struct submission *b = arg;
	b->reply = reply;
	TABLE[b->phase][reply->outcome](b);
}

void submission_start(struct store *s, const struct objects *o,
                      const struct submission_options *opt, submission_callback *done, void *arg)
{
	assert(o->n > 0); /* there is always a Framework */
	struct submission *b = xcalloc(1, sizeof(*b));
	b->store = s;
	b->objects = o;
	b->opt = opt;
	b->done = done;
	b->arg = arg;
	b->made = xcalloc(o->n, sizeof(*b->made));
	b->give_up_ms = opt->deadline_ms + SETTLE_MS;
	submission_vet(b);
}

/* ---- the way back: removing the Framework removes everything that it owns ---- */

/* Removes the next object from this step on; finishes after the last. */
static void submission_undo_next(struct submission *b)
{
	for (; b->step < b->objects->n; b->step++) {
		const struct made_object *m = &b->made[b->step];
		bool made = m->uid[0] != '\0';
		bool owned = b->step > 0 && resource_of(submission_object(b)->kind)->namespaced;
		if (owned || (!made && !m->lost))
			continue;
		if (!made) {
			submission_get(b, SEEKING, 0);
			return;
		}
		b->request = (struct store_request){
			.verb = STORE_DELETE,
			.uid = m->uid,
			.resource_version = m->version[0] ? m->version : NULL,
			.deadline_ms = b->give_up_ms,
			.urgent = true,
		};
		submission_send_step(b, UNDOING, 0);
		return;
	}
	if (b->left_behind && !b->again) {
		err_set(&b->e, OUTCOME_UNKNOWN,
		        "%s; the objects of job %s could not be removed (submission %s)",
		        err_msg(&b->e), b->opt->display_name, b->opt->submission_id);
	}
	submission_finish(b);
}

static void submission_roll_back(struct submission *b)
{
	if (b->opt->dry_run) {
		submission_finish(b);
		return;
	}
	int64_t enough = clock_ms() + SETTLE_MS;
	if (b->give_up_ms < enough)
		b->give_up_ms = enough;
	b->step = 0;
	if (b->patch.n > 0) /* it can be started: SEEKING looks */
		b->made[0] = (struct made_object){ .lost = true };
	submission_undo_next(b);
}

static void submission_undone(struct submission *b)
{
	b->step++;
	submission_undo_next(b);
}

static void submission_not_undone(struct submission *b)
{
	b->left_behind = true;
	/* The Framework can be running, and then needs the other objects. */
	b->step = b->step == 0 ? b->objects->n : b->step + 1;
	submission_undo_next(b);
}

/* Another object has the name now, or a concurrent change caused a conflict. */
static void submission_in_the_way(struct submission *b)
{
	struct made_object *m = &b->made[b->step];
	m->uid[0] = '\0';
	m->lost = true;
	submission_get(b, SEEKING, clock_ms() + PAUSE_MS);
}

static void submission_sought(struct submission *b)
{
	ARENA_AUTO a = { 0 };
	struct marks there = marks_of(b->reply->body, &a);
	struct made_object *m = &b->made[b->step];
	if (b->reply->uid.n == 0 || b->reply->uid.n >= UID_ROOM ||
	    b->reply->resource_version.n >= UID_ROOM) {
		submission_not_undone(b);
		return;
	}
	*m = (struct made_object){ .lost = false };
	if (span_is(there.submission, b->opt->submission_id)) {
		/* It is complete.  A repetition of the request with the same
		 * Idempotency-Key can have been answered with success already. */
		if (b->step == 0 && ownership_is_done(&there) && !there.deleted.p) {
			err_done(&b->e);
			submission_finish(b);
			return;
		}
		memcpy(m->uid, b->reply->uid.p, b->reply->uid.n);
		memcpy(m->version, b->reply->resource_version.p, b->reply->resource_version.n);
	}
	submission_undo_next(b);
}
