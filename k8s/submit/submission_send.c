/* The requests of a submission, and its end. */
#include "k8s/submit/submission_steps.h"

#include <stdlib.h>

const struct object *submission_object(const struct submission *b)
{
	return b->step == 0 ? objects_framework(b->objects) : &b->objects->v[b->step - 1];
}

/* Send b->request, of which verb, deadline and body are filled in, about this step's object. */
static void send(struct submission *b, enum phase phase, int64_t not_before_ms)
{
	struct store_request *r = &b->request;
	b->phase = phase;
	r->kind = submission_object(b)->kind;
	r->name = submission_object(b)->name;
	r->user = b->opt->user;
	r->dry_run = b->opt->dry_run && r->verb != STORE_GET; /* there are POSTs only */
	r->not_before_ms = not_before_ms;
	r->done = submission_on_reply;
	r->arg = b;
	store_request(b->store, r);
}

void submission_post(struct submission *b, int64_t not_before_ms)
{
	const struct object *o = submission_object(b);
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

void submission_get(struct submission *b, enum phase phase, int64_t not_before_ms)
{
	/* To know whether a Framework is started, its labels are not enough. */
	bool whole =
	    b->step == 0 && (phase == SEEKING || phase == CHECKING || b->opt->idempotency != NULL);
	b->request = (struct store_request){
		.verb = STORE_GET,
		.whole = whole,
		.deadline_ms = b->give_up_ms,
		.urgent = true,
	};
	send(b, phase, not_before_ms);
}

void submission_replace(struct submission *b)
{
	b->request = (struct store_request){
		.verb = STORE_DELETE,
		.uid = str_c(&b->old_uid),
		.deadline_ms = b->opt->deadline_ms,
		.urgent = true,
	};
	send(b, REPLACING, 0);
}

void submission_remove(struct submission *b)
{
	const struct made *m = &b->made[b->step];
	b->request = (struct store_request){
		.verb = STORE_DELETE,
		.uid = m->uid,
		.resource_version = m->version[0] ? m->version : NULL,
		.deadline_ms = b->give_up_ms,
		.urgent = true,
	};
	send(b, UNDOING, 0);
}

/* In one request: what has the label is not started, and what has not is. */
void submission_patch(struct submission *b, int64_t not_before_ms)
{
	b->step = 0;
	str_done(&b->patch);
	b->patch = STR_INIT(256);
	str_printf(&b->patch,
	           "{\"metadata\":{\"uid\":\"%s\",\"labels\":{\"rest-lit/creating\":null}},"
	           "\"spec\":{\"executionType\":\"Start\"}}",
	           b->made[0].uid);
	b->request = (struct store_request){
		.verb = STORE_PATCH,
		.whole = true, /* executionType is no metadata */
		.body = { str_view(&b->patch) },
		.deadline_ms = b->opt->deadline_ms,
		.urgent = true,
	};
	send(b, STARTING, not_before_ms);
}

void submission_finish(struct submission *b)
{
	b->done(b->arg, &b->e, b->again);
	err_done(&b->e);
	str_done(&b->patch);
	str_done(&b->old_uid);
	free(b->made);
	free(b);
}
