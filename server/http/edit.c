#include "server/http/edit.h"

#include "base/posix/clock.h"
#include "server/config/options.h"
#include "server/http/loop.h"
#include "server/http/worker.h"

enum store_outcome edit_call(struct edit *t, struct store_request r, struct arena *a,
                             struct store_reply *reply)
{
	r.kind = KIND_SECRET;
	r.whole = r.verb == STORE_GET || r.verb == STORE_LIST;
	r.deadline_ms = t->deadline_ms;
	enum store_outcome outcome = store_call(t->caller, &r, a, reply);
	if (!r.whole)
		t->unknown = outcome == STORE_AMBIGUOUS || (t->unknown && outcome != STORE_OK);
	return outcome;
}

int edit_fail(struct edit *t, const char *message, struct span why)
{
	t->why = arena_dup(&t->arena, why);
	if (t->unknown)
		return err_set(&t->e, OUTCOME_UNKNOWN,
		               "the API server did not answer in time: it is not known whether "
		               "this was done; look, or repeat the request");
	return err_set(&t->e, UNAVAILABLE, "%s", message);
}

static void edit_run(struct caller *c, void *arg)
{
	struct edit *t = arg;
	t->caller = c;
	t->run(t);
}

static void edit_done(void *arg, bool ran)
{
	struct edit *t = arg;
	struct request *r = t->r;
	if (!ran)
		(void)err_set(&t->e, UNAVAILABLE, "this server is shutting down");
	if (t->why)
		r->why = arena_dup(&r->arena, span_of(t->why));
	if (t->e.http) {
		str_wipe(&t->body);
		answer_error(r, &t->e);
	} else {
		str_done(&r->reply.body);
		r->reply.body = t->body;
		t->done(t);
	}
	arena_wipe(&t->arena);
	err_done(&t->e);
}

void edit_start(struct request *r, void (*run)(struct edit *t), void (*done)(struct edit *t),
                void *arg)
{
	struct worker_inbox *edits = r->loop->has->edits;
	struct edit *t = ARENA_NEW(&r->arena, struct edit, 1);
	*t = (struct edit){
		.r = r,
		.arg = arg,
		.deadline_ms = clock_ms() + r->loop->server->options->deadline_s * 1000,
		.body = STR_SECRET(REPLY_MAX),
		.run = run,
		.done = done,
	};
	r->secret = true;
	request_wait(r);
	if (!edits || !worker_do(edits, r->user, edit_run, edit_done, t))
		answer_refuse(r, UNAVAILABLE,
		              edits ? "too many changes wait for the API server; try again"
		                    : "this server is shutting down");
}
