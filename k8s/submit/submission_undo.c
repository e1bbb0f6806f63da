/*
 * The way back of a submission: what is made first (the Framework) owns all that is made later, so
 * removing it removes everything.  What cannot be owned (a PriorityClass is in no namespace) is
 * removed one by one.
 */
#include "base/clock.h"
#include "k8s/submit/marks.h"
#include "k8s/submit/submission_steps.h"
#include "k8s/transport/paths.h"
#include "k8s/transport/reply.h"

/* Only the Framework, and what it cannot own, are removed by us. */
static bool must_undo(const struct submission *b)
{
	return b->step == 0 || !resource_of(submission_object(b)->kind)->namespaced;
}

/* Remove the next thing there is, from this step on; then finish. */
static void undo(struct submission *b)
{
	for (; b->step < b->objects->n; b->step++) {
		const struct made *m = &b->made[b->step];
		if (!must_undo(b) || (m->uid[0] == '\0' && !m->lost))
			continue;
		if (m->uid[0] == '\0')
			submission_get(b, SEEKING, 0);
		else
			submission_remove(b);
		return;
	}
	if (b->left_behind) {
		err_set(
		    &b->e, OUTCOME_UNKNOWN,
		    "%s; what had been made of job %s could not be removed again (submission %s)",
		    err_msg(&b->e), b->opt->display_name, b->opt->submission_id);
	}
	submission_finish(b);
}

void submission_roll_back(struct submission *b)
{
	if (b->opt->dry_run) {
		submission_finish(b);
		return;
	}
	int64_t enough = clock_ms() + SETTLE_MS;
	if (b->give_up_ms < enough)
		b->give_up_ms = enough;
	b->step = 0;
	if (b->patch.n > 0) /* whatever was said of it: it may be started by now */
		b->made[0] = (struct made){ .lost = true };
	undo(b);
}

void submission_undone(struct submission *b, const struct store_reply *reply)
{
	(void)reply; /* deleted, or gone: ours is not there */
	b->step++;
	undo(b);
}

void submission_not_undone(struct submission *b, const struct store_reply *reply)
{
	(void)reply;
	b->left_behind = true;
	/* A Framework that is there may be running: then it needs the rest. */
	b->step = b->step == 0 ? b->objects->n : b->step + 1;
	undo(b);
}

/* Another one has its name by now; or it is still ours, and a change at that moment was in the way.
 */
void submission_in_the_way(struct submission *b, const struct store_reply *reply)
{
	(void)reply;
	struct made *m = &b->made[b->step];
	m->uid[0] = '\0';
	m->lost = true;
	submission_get(b, SEEKING, clock_ms() + PAUSE_MS);
}

/* Started it is only when nothing is missing.  Then all is well, and somebody may have been told so
 * already: who has sent the same Idempotency-Key once more. */
static bool is_started(const struct submission *b, const json_t *object)
{
	return b->step == 0 && mark_is_started(object) && !mark_is_going(object);
}

void submission_sought(struct submission *b, const struct store_reply *reply)
{
	struct made *m = &b->made[b->step];
	JSON_AUTO *object = reply_parse(reply->body);
	if (reply->uid.n == 0 || reply->uid.n >= UID_ROOM ||
	    reply->resource_version.n >= UID_ROOM) {
		submission_not_undone(b, reply);
		return;
	}
	*m = (struct made){ .lost = false };
	if (strcmp(reply_mark(object, "submission"), b->opt->submission_id) == 0) {
		if (is_started(b, object)) {
			err_done(&b->e);
			submission_finish(b);
			return;
		}
		memcpy(m->uid, reply->uid.p, reply->uid.n);
		memcpy(m->version, reply->resource_version.p, reply->resource_version.n);
	}
	undo(b);
}
