/* Is there a job of this name, and how is it?  What clients ask before and after they submit. */
#include <jansson.h>

#include "base/enc.h"
#include "k8s/store.h"
#include "server/account.h"
#include "server/answer.h"
#include "server/handlers.h"
#include "server/loop.h"

enum { STOPPED_BY_USER = -210, STOPPED_BY_TASK = -220 };

/* What FrameworkController's states are in OpenPAI, by the exit code of the latest attempt:
 * stopped, 0, any other or none. */
static const struct {
	const char *state, *stopped, *zero, *other;
} STATES[] = {
	{ "AttemptCreationPending", "WAITING", "WAITING", "WAITING" },
	{ "AttemptCreationRequested", "WAITING", "WAITING", "WAITING" },
	{ "AttemptPreparing", "WAITING", "WAITING", "WAITING" },
	{ "AttemptRunning", "RUNNING", "RUNNING", "RUNNING" },
	{ "AttemptDeletionPending", "STOPPING", "RUNNING", "RUNNING" },
	{ "AttemptDeletionRequested", "STOPPING", "RUNNING", "RUNNING" },
	{ "AttemptDeleting", "STOPPING", "RUNNING", "RUNNING" },
	{ "AttemptCompleted", "STOPPING", "RUNNING", "RUNNING" },
	{ "Completed", "STOPPED", "SUCCEEDED", "FAILED" },
};

static const char *state_of(const json_t *framework)
{
	const json_t *status = json_object_get(framework, "status");
	const char *state = json_string_value(json_object_get(status, "state"));
	const json_t *attempt = json_object_get(status, "attemptStatus");
	const json_t *code = json_object_get(json_object_get(attempt, "completionStatus"), "code");
	json_int_t n = json_integer_value(code);
	if (!json_is_object(status))
		state = "AttemptCreationPending"; /* the controller has not seen it yet */
	for (size_t i = 0; state && i < sizeof(STATES) / sizeof(STATES[0]); i++) {
		if (strcmp(state, STATES[i].state) != 0)
			continue;
		if (json_is_integer(code) && (n == STOPPED_BY_USER || n == STOPPED_BY_TASK))
			return STATES[i].stopped;
		return json_is_integer(code) && n == 0 ? STATES[i].zero : STATES[i].other;
	}
	return "UNKNOWN";
}

/* user~name; the first ~ splits, for a user's name has none. */
struct job_id {
	struct request *r;
	struct span user, name;
	char hash[33];
};

static void show(const struct job_id *id, struct span object)
{
	struct request *r = id->r;
	json_auto_t *framework = json_loadb(object.p, object.n, JSON_REJECT_DUPLICATES, NULL);
	const char *state = state_of(framework);
	/* Clients of v1 do not know that one. */
	if (r->v1 && strcmp(state, "STOPPING") == 0)
		state = "RUNNING";
	struct str *out = &r->reply.body;
	str_puts(out, "{\"name\":");
	str_json(out, id->name);
	str_puts(out, ",\"jobStatus\":{\"username\":");
	str_json(out, id->user);
	str_printf(out, ",\"state\":\"%s\"}}\n", state);
	answer_json(r, 200);
}

static void no_job(struct request *r)
{
	answer_refuse(r, 404, "NoJobError", "there is no such job");
}

static void got(void *arg, const struct store_reply *reply)
{
	const struct job_id *id = arg;
	ERR_AUTO e = { 0 };
	switch (reply->outcome) {
	case STORE_OK:
		show(id, reply->body);
		return;
	case STORE_NOT_FOUND:
		no_job(id->r);
		return;
	case STORE_REFUSED:
		(void)err_set(&e, UNKNOWN_ERROR, "%.*s", (int)reply->message.n, reply->message.p);
		break;
	case STORE_EXISTS:
	case STORE_CONFLICT:
	case STORE_BUSY:
	case STORE_AMBIGUOUS:
	case STORE_FULL:
	case STORE_OUTCOME_MAX:
		(void)err_set(&e, UNAVAILABLE, "the store does not answer");
		break;
	}
	answer_error(id->r, &e);
}

static void find(struct request *r, struct span user, struct span name)
{
	struct loop *l = r->loop;
	if (!l->store) {
		answer_refuse(r, UNAVAILABLE, "this server is shutting down");
		return;
	}
	struct job_id *id = ARENA_NEW(&r->arena, struct job_id, 1);
	*id = (struct job_id){ .r = r, .user = user, .name = name };
	const char *text =
	    arena_printf(&r->arena, "%.*s~%.*s", (int)user.n, user.p, (int)name.n, name.p);
	md5_hex(id->hash, span_of(text));
	request_wait(r);
	store_request(l->store,
	              &(struct store_request){
			  .verb = STORE_GET,
			  .kind = KIND_FRAMEWORK,
			  .name = id->hash,
			  .whole = true,
			  .user = r->who->name,
			  .deadline_ms = store_now_ms() + l->server->options->deadline_s * 1000,
			  .done = got,
			  .arg = id,
		      });
}

void job_get(struct request *r)
{
	struct span id = r->args[0];
	const char *tilde = memchr(id.p, '~', id.n);
	if (!tilde) {
		no_job(r);
		return;
	}
	size_t n = (size_t)(tilde - id.p);
	find(r, (struct span){ id.p, n }, (struct span){ tilde + 1, id.n - n - 1 });
}

void job_get_v1(struct request *r)
{
	r->v1 = true;
	if (memchr(r->args[0].p, '~', r->args[0].n))
		no_job(r); /* nobody's name; and user~x with the job y is not user with x~y */
	else
		find(r, r->args[0], r->args[1]);
}

void job_probe(struct request *r)
{
	no_job(r);
}
