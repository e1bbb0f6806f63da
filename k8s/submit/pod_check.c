#include "k8s/submit/pod_check.h"

#include <assert.h>
#include <stdlib.h>

#include "k8s/transport/reply.h"

struct pod_check {
	struct store *store;
	const struct objects *objects;
	size_t step; /* of objects->check */
	struct store_request request;
	pod_check_callback *done;
	void *arg;
};

static void pod_check_post(struct pod_check *c)
{
	c->request.body[0] = c->objects->check[c->step].body;
	store_request(c->store, &c->request);
}

static void pod_check_explain(const struct pod_check *c, const struct store_reply *reply,
                              struct err *e)
{
	if (reply->outcome == STORE_REFUSED || reply->outcome == STORE_NOT_FOUND)
		explain_refusal(e, &c->request, reply);
	else
		(void)err_set(e, UNAVAILABLE, "the API server did not answer in time: %.*s",
		              (int)reply->message.n, reply->message.p);
	(void)err_wrap(e, "the pod of task role %s", c->objects->check[c->step].name);
}

static void pod_check_on_reply(void *arg, const struct store_reply *reply)
{
	struct pod_check *c = arg;
	ERR_AUTO e = { 0 };
	/* A PodTemplate of this name may exist: it was checked before that was noticed. */
	bool good = reply->outcome == STORE_OK || reply->outcome == STORE_EXISTS;
	if (!good)
		pod_check_explain(c, reply, &e);
	else if (++c->step < c->objects->n_checks) {
		pod_check_post(c);
		return;
	}
	c->done(c->arg, &e);
	free(c);
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
void pod_check_start(struct store *s, const struct objects *o, const char *user,
                     int64_t deadline_ms, pod_check_callback *done, void *arg)
{
	struct pod_check *c = xcalloc(1, sizeof(*c));
	assert(o->n_checks > 0);
	*c = (struct pod_check){ .store = s, .objects = o, .done = done, .arg = arg };
	c->request = (struct store_request){
		.verb = STORE_CREATE,
		.kind = KIND_PODTEMPLATE,
		.user = user,
		.dry_run = true,
		.deadline_ms = deadline_ms,
		.done = pod_check_on_reply,
		.arg = c,
	};
	pod_check_post(c);
}
