/* The code of a job that is being submitted. */
#include "server/code/job_code.h"

#include "base/posix/clock.h"
#include "server/config/options.h"
#include "server/http/loop.h"

/* Lives in the arena of the request. */
struct code_asked {
	struct code_use use;
	struct store_request request;
	char name[CODE_OBJECT + 1];
};

static void code_answered(void *arg, const struct store_reply *reply)
{
	struct code_asked *q = arg;
	struct request *r = q->use.r;
	struct code_archive c;
	ERR_AUTO e = { 0 };
	if (reply->outcome == STORE_CONFLICT && r->loop->store) {
		/* Others have just made it their last use, so that a look is enough. */
		q->request.verb = STORE_GET;
		store_request(r->loop->store, &q->request);
		return;
	}
	bool there = reply->outcome == STORE_OK && code_archive_read(reply->body, &r->arena, &c) &&
	             code_archive_usable(&c, r->loop->server->code_directory);
	const struct code_fact fact = { there ? c.parts : 0, there ? c.unpacked : 0 };
	bool gone = !there && (reply->outcome == STORE_OK || reply->outcome == STORE_NOT_FOUND);
	/* submit --code --dry-run sends nothing: parts are 0. */
	if (gone && !q->use.dry_run)
		(void)err_at(&e, 400, "NoCodeError", q->use.code->where,
		             "this code is not kept for user %s: upload it first, with rest-lit "
		             "submit --code DIR",
		             q->use.user);
	else if (!there && !gone)
		(void)code_fail(q->request, reply, &e);
	q->use.done(q->use.arg, &fact, &e);
}

void code_use(const struct code_use *use)
{
	struct request *r = use->r;
	struct code_asked *q = ARENA_NEW(&r->arena, struct code_asked, 1);
	q->use = *use;
	code_object_name(q->name, use->user, use->code->sha256);
	q->request = (struct store_request){
		.verb = use->dry_run ? STORE_GET : STORE_PATCH,
		.kind = KIND_CONFIGMAP,
		.name = q->name,
		.body = { span_of(code_renewal(NULL, &r->arena)) },
		.user = r->user,
		.deadline_ms = clock_ms() + r->loop->server->options->deadline_s * 1000,
		.done = code_answered,
		.arg = q,
	};
	request_wait(r);
	store_request(r->loop->store, &q->request);
}
