/*
 * The creation of a job as a state machine; see submission.h.
 *
 * Its phases are the six things that can be under way, and TABLE, near the end, says
 * for each of them what to do after each outcome.  Read that first.
 *
 * The rule behind it: what is made first (the Framework) owns all that is made later, so
 * removing it removes everything; and nothing runs before the last step.  What cannot be
 * owned (a PriorityClass is not namespaced) is removed one by one.
 */
#include "k8s/submission.h"

#include <assert.h>
#include <stdlib.h>

#include "k8s/backend.h"
#include "k8s/explain.h"
#include "k8s/paths.h"
#include "k8s/reply.h"

enum {
	SETTLE_MS = 5000,    /* after the deadline, to find out or to clean up */
	COLLECTOR_MS = 5000, /* how long the garbage collector may need for an older job */
	PAUSE_MS = 500,      /* between two looks */
	INTERNAL_MAX = 3,    /* an API server that says 500 so often means it */
	ABSENT_MAX = 2,      /* and so often that it is not there */
	UID_ROOM = 64,
};

enum phase {
	MAKING,    /* POST of the object of this step */
	COMPARING, /* GET: is the one that is there ours? */
	REPLACING, /* DELETE of what an older job of this name has left */
	STARTING,  /* PATCH of the Framework to Start */
	UNDOING,   /* DELETE of something that was made */
	SEEKING,   /* GET, while undoing: was it made, and what is its uid? */
	PHASE_MAX
};

/* What is known of the object of a step. */
struct made {
	char uid[UID_ROOM]; /* "" if it was not made, or may have been */
	bool lost;          /* its POST was sent and not answered, and not settled since */
};

struct submission {
	struct store *store;
	const struct objects *objects;
	const struct submission_options *opt;
	submission_callback *done;
	void *arg;

	enum phase phase;
	size_t step;                      /* 0: the Framework; i: objects->v[i - 1] */
	struct made *made;                /* by step */
	struct store_request request;     /* the one under way */
	struct str patch;                 /* its body */
	struct str old_uid;               /* or the uid in it, when replacing */
	unsigned tries, internal, absent; /* of this step: POSTs; answers 500; "not there" */
	int64_t collector_ms;             /* wait for the garbage collector till then; 0: not yet */
	int64_t give_up_ms;               /* of settling and undoing */
	bool left_behind;                 /* undoing failed */
	struct err e;                     /* why it is undone */
};

typedef void handler(struct submission *b, const struct store_reply *reply);

static store_callback on_reply;

/* ---- requests ---------------------------------------------------------------------- */

static const struct object *object_of(const struct submission *b)
{
	return b->step == 0 ? objects_framework(b->objects) : &b->objects->v[b->step - 1];
}

/* Send b->request, of which verb, deadline and body are filled in, about this step's object. */
static void send(struct submission *b, enum phase phase, int64_t not_before_ms)
{
	struct store_request *r = &b->request;
	b->phase = phase;
	r->kind = object_of(b)->kind;
	r->name = object_of(b)->name;
	r->dry_run = b->opt->dry_run;
	r->not_before_ms = not_before_ms;
	r->done = on_reply;
	r->arg = b;
	store_request(b->store, r);
}

static void post(struct submission *b, int64_t not_before_ms)
{
	const struct object *o = object_of(b);
	b->request = (struct store_request){
		.verb = STORE_CREATE,
		.body = { o->body },
		.deadline_ms = b->opt->deadline_ms,
		.urgent = b->step > 0 || b->tries > 0,
	};
	if (o->uid_at > 0) {
		b->request.body[0] = (struct span){ o->body.p, o->uid_at };
		b->request.body[1] = span_of(b->made[0].uid);
		b->request.body[2] = (struct span){ o->body.p + o->uid_at, o->body.n - o->uid_at };
	}
	b->tries++;
	send(b, MAKING, not_before_ms);
}

static void get(struct submission *b, enum phase phase, int64_t not_before_ms)
{
	b->request = (struct store_request){
		.verb = STORE_GET,
		.deadline_ms = b->give_up_ms,
		.urgent = true,
	};
	send(b, phase, not_before_ms);
}

static void patch(struct submission *b, int64_t not_before_ms)
{
	b->step = 0;
	str_done(&b->patch);
	b->patch = STR_INIT(256);
	str_printf(&b->patch,
	           "{\"metadata\":{\"uid\":\"%s\"},\"spec\":{\"executionType\":\"Start\"}}",
	           b->made[0].uid);
	b->request = (struct store_request){
		.verb = STORE_PATCH,
		.body = { str_view(&b->patch) },
		.deadline_ms = b->opt->deadline_ms,
		.urgent = true,
	};
	send(b, STARTING, not_before_ms);
}

/* ---- the end, and the way back ----------------------------------------------------- */

static void finish(struct submission *b)
{
	b->done(b->arg, &b->e);
	err_done(&b->e);
	str_done(&b->patch);
	str_done(&b->old_uid);
	free(b->made);
	free(b);
}

/* Nobody knows what became of it, and it cannot be found out in time. */
static void unknown(struct submission *b, const char *why)
{
	err_set(&b->e, OUTCOME_UNKNOWN, "%s: it is not known whether job %s exists (submission %s)",
	        why, b->opt->display_name, b->opt->submission_id);
	finish(b);
}

/* Only the Framework, and what it cannot own, are removed by us. */
static bool must_undo(const struct submission *b)
{
	return b->step == 0 || !resource_of(object_of(b)->kind)->namespaced;
}

/* Remove the next thing there is, from this step on; then finish. */
static void undo(struct submission *b)
{
	for (; b->step < b->objects->n; b->step++) {
		const struct made *m = &b->made[b->step];
		if (!must_undo(b) || (m->uid[0] == '\0' && !m->lost))
			continue;
		if (m->uid[0] == '\0') {
			get(b, SEEKING, 0);
			return;
		}
		b->request = (struct store_request){
			.verb = STORE_DELETE,
			.uid = m->uid,
			.deadline_ms = b->give_up_ms,
			.urgent = true,
		};
		send(b, UNDOING, 0);
		return;
	}
	if (b->left_behind) {
		err_set(
		    &b->e, OUTCOME_UNKNOWN,
		    "%s; what had been made of job %s could not be removed again (submission %s)",
		    err_msg(&b->e), b->opt->display_name, b->opt->submission_id);
	}
	finish(b);
}

/* b->e says why. */
static void roll_back(struct submission *b)
{
	if (b->opt->dry_run) {
		finish(b);
		return;
	}
	int64_t enough = store_now_ms() + SETTLE_MS;
	if (b->give_up_ms < enough)
		b->give_up_ms = enough;
	b->step = 0;
	undo(b);
}

static void undone(struct submission *b, const struct store_reply *reply)
{
	(void)reply; /* deleted, or gone, or replaced by another one: ours is not there */
	b->step++;
	undo(b);
}

static void not_undone(struct submission *b, const struct store_reply *reply)
{
	(void)reply;
	b->left_behind = true;
	b->step++;
	undo(b);
}

static void sought(struct submission *b, const struct store_reply *reply)
{
	struct made *m = &b->made[b->step];
	if (reply->uid.n == 0 || reply->uid.n >= UID_ROOM) {
		not_undone(b, reply);
		return;
	}
	m->lost = false;
	if (reply_is_ours(reply->body, b->opt->submission_id))
		memcpy(m->uid, reply->uid.p, reply->uid.n);
	undo(b);
}

/* ---- the way forward --------------------------------------------------------------- */

static void next(struct submission *b)
{
	b->tries = b->internal = b->absent = 0;
	b->collector_ms = 0;
	b->step++;
	if (b->step < b->objects->n)
		post(b, 0);
	else if (b->objects->n > 1 && !b->opt->dry_run)
		patch(b, 0);
	else
		finish(b);
}

static void compare(struct submission *b, int64_t not_before_ms)
{
	get(b, COMPARING, not_before_ms);
}

/* The POST may have been executed. */
static void lost(struct submission *b, const struct store_reply *reply)
{
	b->internal += reply->status == 500;
	if (b->opt->dry_run) {
		err_set(&b->e, UNAVAILABLE, "the API server did not answer in time: %.*s",
		        (int)reply->message.n, reply->message.p);
		finish(b);
		return;
	}
	b->made[b->step].lost = true;
	compare(b, 0);
}

static void is_made(struct submission *b, const struct store_reply *reply)
{
	struct made *m = &b->made[b->step];
	struct span uid = b->opt->dry_run && reply->uid.n == 0 ? SPAN("dry-run") : reply->uid;
	if (uid.n == 0 || uid.n >= UID_ROOM) {
		lost(b, reply); /* not an answer of an API server: ask again */
		return;
	}
	memcpy(m->uid, uid.p, uid.n);
	m->uid[uid.n] = '\0';
	m->lost = false;
	next(b);
}

static void refused(struct submission *b, const struct store_reply *reply)
{
	explain(&b->e, &b->request, reply);
	roll_back(b);
}

static void unavailable(struct submission *b, const struct store_reply *reply)
{
	err_set(&b->e, UNAVAILABLE, "the API server could not be reached in time: %.*s",
	        (int)reply->message.n, reply->message.p);
	roll_back(b);
}

/* The POST was not executed, but an earlier one may have been. */
static void not_made(struct submission *b, const struct store_reply *reply)
{
	if (b->made[b->step].lost)
		compare(b, 0);
	else
		unavailable(b, reply);
}

static void no_room(struct submission *b, const struct store_reply *reply)
{
	(void)reply;
	err_set(&b->e, UNAVAILABLE, "too many jobs are being submitted; try again later");
	roll_back(b);
}

static void conflict(struct submission *b)
{
	err_set(&b->e, CONFLICT_JOB, "Job %s already exists.", b->opt->display_name);
	roll_back(b);
}

/* A dependent of this name belongs to an older job.  It goes soon, if it goes. */
static void wait_for_collector(struct submission *b)
{
	int64_t now = store_now_ms();
	if (b->collector_ms == 0)
		b->collector_ms = now + COLLECTOR_MS;
	int64_t again = now + PAUSE_MS;
	if (again < b->collector_ms && again < b->opt->deadline_ms) {
		post(b, again);
		return;
	}
	err_set(&b->e, CONFLICT_JOB,
	        "the %s of an older job %s still exists: that job is being deleted; "
	        "try again in a minute",
	        resource_of(object_of(b)->kind)->kind, b->opt->display_name);
	roll_back(b);
}

/*
 * Nobody collects what has no owner.  A PriorityClass is named after its Framework, so one that
 * this installation made for an older submission is left over for certain: the Framework
 * of that name is ours now.
 */
static bool is_left_over(const struct submission *b, const struct store_reply *reply)
{
	return b->step > 0 && !resource_of(object_of(b)->kind)->namespaced &&
	       reply->uid.n < UID_ROOM && reply_same_instance(reply->body, object_of(b)->body);
}

static void replace(struct submission *b, const struct store_reply *reply)
{
	b->made[b->step].lost = false;
	str_done(&b->old_uid);
	b->old_uid = STR_INIT(UID_ROOM);
	str_span(&b->old_uid, reply->uid);
	b->request = (struct store_request){
		.verb = STORE_DELETE,
		.uid = str_c(&b->old_uid),
		.deadline_ms = b->opt->deadline_ms,
		.urgent = true,
	};
	send(b, REPLACING, 0);
}

static void replaced(struct submission *b, const struct store_reply *reply)
{
	(void)reply;
	if (b->tries < 3)
		post(b, 0);
	else
		wait_for_collector(b); /* somebody makes them as fast as we remove them */
}

static void is_foreign(struct submission *b)
{
	b->made[b->step].lost = false;
	if (b->step == 0)
		conflict(b);
	else
		wait_for_collector(b);
}

/* 409 to a POST. */
static void exists(struct submission *b, const struct store_reply *reply)
{
	(void)reply;
	if (b->opt->dry_run)
		conflict(b);
	else
		compare(b, 0); /* it may be ours: something on the way may have repeated the POST */
}

/* Not there.  To POST again is the better proof: it makes it or meets it. */
static void is_absent(struct submission *b, const struct store_reply *reply)
{
	(void)reply;
	int64_t again = store_now_ms() + ((int64_t)PAUSE_MS >> (b->tries < 3 ? 3 - b->tries : 0));
	if (b->internal >= INTERNAL_MAX) {
		struct store_reply said = { .status = 500,
			                    .message = SPAN("it answered 500 again and again") };
		b->made[b->step].lost = false;
		refused(b, &said);
	} else if (again < b->opt->deadline_ms) {
		post(b, again);
	} else if (++b->absent < ABSENT_MAX) {
		compare(b, store_now_ms() + PAUSE_MS);
	} else {
		b->made[b->step].lost = false;
		err_set(&b->e, UNAVAILABLE, "the API server did not answer in time");
		roll_back(b);
	}
}

/* The GET that was to compare was refused: no right to it, most likely. */
static void cannot_compare(struct submission *b, const struct store_reply *reply)
{
	if (!b->made[b->step].lost) {
		is_foreign(b); /* as the 409 says */
	} else if (b->step > 0) {
		unavailable(b, reply); /* its owner is removed, or it is sought and removed */
	} else {
		explain(&b->e, &b->request, reply);
		unknown(b, err_msg(&b->e));
	}
}

static void not_compared(struct submission *b, const struct store_reply *reply)
{
	if (b->step == 0)
		unknown(b, "the API server did not answer in time");
	else
		unavailable(b, reply);
}

static void compared(struct submission *b, const struct store_reply *reply)
{
	if (reply->uid.n == 0)
		not_compared(b, reply); /* no object: not an answer of an API server */
	else if (reply_is_ours(reply->body, b->opt->submission_id))
		is_made(b, reply);
	else if (is_left_over(b, reply))
		replace(b, reply);
	else
		is_foreign(b);
}

static void started(struct submission *b, const struct store_reply *reply)
{
	(void)reply;
	finish(b);
}

/* Somebody wrote to it at the same time. */
static void start_again(struct submission *b, const struct store_reply *reply)
{
	(void)reply;
	patch(b, store_now_ms() + PAUSE_MS);
}

static void vanished(struct submission *b, const struct store_reply *reply)
{
	(void)reply;
	err_set(&b->e, UNAVAILABLE, "job %s was deleted while it was being made",
	        b->opt->display_name);
	roll_back(b);
}

/* clang-format off */
static handler *const TABLE[PHASE_MAX][STORE_OUTCOME_MAX] = {
	[MAKING] = {
		[STORE_OK]        = is_made,
		[STORE_EXISTS]    = exists,
		[STORE_CONFLICT]  = exists,
		[STORE_NOT_FOUND] = refused,
		[STORE_REFUSED]   = refused,
		[STORE_BUSY]      = not_made,
		[STORE_AMBIGUOUS] = lost,
		[STORE_FULL]      = no_room,
	},
	[COMPARING] = {
		[STORE_OK]        = compared,
		[STORE_EXISTS]    = cannot_compare,
		[STORE_CONFLICT]  = cannot_compare,
		[STORE_NOT_FOUND] = is_absent,
		[STORE_REFUSED]   = cannot_compare,
		[STORE_BUSY]      = not_compared,
		[STORE_AMBIGUOUS] = not_compared,
		[STORE_FULL]      = not_compared,
	},
	[REPLACING] = {
		[STORE_OK]        = replaced,
		[STORE_EXISTS]    = replaced,
		[STORE_CONFLICT]  = replaced,
		[STORE_NOT_FOUND] = replaced,
		[STORE_REFUSED]   = refused,
		[STORE_BUSY]      = unavailable,
		[STORE_AMBIGUOUS] = unavailable,
		[STORE_FULL]      = unavailable,
	},
	[STARTING] = {
		[STORE_OK]        = started,
		[STORE_EXISTS]    = start_again,
		[STORE_CONFLICT]  = start_again,
		[STORE_NOT_FOUND] = vanished,
		[STORE_REFUSED]   = refused,
		[STORE_BUSY]      = unavailable,
		[STORE_AMBIGUOUS] = unavailable,
		[STORE_FULL]      = unavailable,
	},
	[UNDOING] = {
		[STORE_OK]        = undone,
		[STORE_EXISTS]    = undone,
		[STORE_CONFLICT]  = undone,
		[STORE_NOT_FOUND] = undone,
		[STORE_REFUSED]   = not_undone,
		[STORE_BUSY]      = not_undone,
		[STORE_AMBIGUOUS] = not_undone,
		[STORE_FULL]      = not_undone,
	},
	[SEEKING] = {
		[STORE_OK]        = sought,
		[STORE_EXISTS]    = not_undone,
		[STORE_CONFLICT]  = not_undone,
		[STORE_NOT_FOUND] = undone,
		[STORE_REFUSED]   = not_undone,
		[STORE_BUSY]      = not_undone,
		[STORE_AMBIGUOUS] = not_undone,
		[STORE_FULL]      = not_undone,
	},
};
/* clang-format on */

static void on_reply(void *arg, const struct store_reply *reply)
{
	struct submission *b = arg;
	TABLE[b->phase][reply->outcome](b, reply);
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
	post(b, 0);
}
