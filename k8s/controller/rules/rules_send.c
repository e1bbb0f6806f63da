/* The requests of the rules: what is sent to the API server. */
#include <stdio.h>
#include <stdlib.h>

#include "base/json/put.h"
#include "jobs/store/paths.h"
#include "k8s/controller/rules/rules_internal.h"

/* ---- writes of a Framework ------------------------------------------------------------------- */

static void fence_put(struct str *out, const char *op, const char *path)
{
	json_put_open(out, NULL, '{');
	json_put_word(out, "op", op);
	json_put_word(out, "path", path);
}

static void fence_put_text(struct str *out, const char *op, const char *path, const char *value)
{
	fence_put(out, op, path);
	json_put_word(out, "value", value);
	str_char(out, '}');
}

/* RULES_WAITING, if the stored one is another. */
static void store_put_waiting(struct rules_op *op)
{
	static const char ANNOTATION[] = "/metadata/annotations/rest-lit~1waiting";
	ARENA_AUTO a = { 0 };
	const struct rules_job *job = op->job;
	const char *waiting = job_wait_text(job, &a);
	const char *told = job->admission ? job->admission->told : NULL;
	op->told = waiting ? xstrdup(waiting) : NULL;
	if (waiting && (!told || strcmp(told, waiting) != 0)) {
		fence_put_text(&op->body, "add", ANNOTATION, waiting);
	} else if (told && !waiting) {
		fence_put(&op->body, "remove", ANNOTATION);
		str_char(&op->body, '}');
	}
}

/* The API server evaluates the tests inside of its update: a former leader cannot write, and a
 * write that is executed late replaces nothing newer. */
static void store_write(struct rules_op *op)
{
	static const char ANNOTATION[] = "/metadata/annotations/rest-lit~1controller";
	struct rules_job *job = op->job;
	const char *identity = job->r->set.identity;
	struct str *out = &op->body;
	char version[24];
	op->takes = job->write.fence != FENCE_OURS;
	op->version = job->read.version;
	(void)snprintf(version, sizeof(version), "%lld", (long long)op->version); /* fits */
	json_put_open(out, NULL, '[');
	fence_put_text(out, "test", "/metadata/uid", job->uid);
	fence_put_text(out, "test", "/metadata/resourceVersion", version);
	if (op->takes) {
		if (job->write.fence == FENCE_NONE) {
			fence_put(out, "add", "/metadata/annotations");
			json_put_raw(out, "value", SPAN("{}"));
			str_char(out, '}');
		}
		fence_put_text(out, "add", ANNOTATION, identity);
	} else {
		fence_put_text(out, "test", ANNOTATION, identity);
	}
	store_put_waiting(op);
	if (job->state != JOB_STORED) {
		fence_put(out, "add", "/status");
		json_put_key(out, "value");
		(job->write.packs ? framework_status_write_packed
		                  : framework_status_write)(job->framework, out);
		str_char(out, '}');
		counter_add(&job->r->set.counts->writes, 1);
	}
	str_char(out, ']');
}

static void review_write(const struct rules_op *op, struct str *out)
{
	json_put_open(out, NULL, '{');
	json_put_word(out, "apiVersion", "authorization.k8s.io/v1");
	json_put_word(out, "kind", "SelfSubjectAccessReview");
	json_put_open(out, "spec", '{');
	json_put_open(out, "resourceAttributes", '{');
	json_put_word(out, "verb", "create");
	json_put_word(out, "resource", resource_of(op->kind)->plural);
	json_put_word(out, "namespace", op->job->namespace_name);
	str_puts(out, "}}}");
}

/* ---- requests -------------------------------------------------------------------------------- */

static void op_write_create(struct rules_op *op, struct store_request *out)
{
	if (op->stage == STAGE_SETTLE) {
		const struct rules_object *o =
		    object_find_known(op->job, op->kind, op->name, false);
		free(op->uid);
		op->uid = o && o->state != OBJECT_NONE ? xstrdup(o->view.uid) : NULL;
		out->verb = STORE_GET;
		out->whole = op->kind == KIND_POD; /* with its phase */
		return;
	}
	out->verb = STORE_CREATE;
	if (op->stage == STAGE_REVIEW) {
		out->kind = KIND_ACCESS_REVIEW;
		out->name = out->namespace_name = NULL;
		out->whole = true;
		review_write(op, &op->body);
	} else if (job_fatten(op->job)) {
		ARENA_AUTO a = { 0 };
		if (op->kind == KIND_POD)
			op->object.more = job_pod_additions(op->job, op->role, &a);
		framework_object_write(op->job->framework, &op->object, &op->body);
	}
	out->body[0] = str_view(&op->body);
}

/* A body that could not be made is empty, which the API server refuses. */
void op_write_request(struct rules_op *op, const struct rules_time *now, struct store_request *out)
{
	op->list = op->job->r->lists[op->kind];
	switch (op->verb) {
	case OP_CREATE:
		op_write_create(op, out);
		break;
	case OP_DELETE:
		out->verb = op->stage == STAGE_LOOK ? STORE_GET : STORE_DELETE;
		out->whole = op->stage == STAGE_LOOK && op->kind == KIND_POD;
		out->uid = op->uid;
		out->force = op->force;
		out->foreground = op->kind == KIND_FRAMEWORK;
		break;
	case OP_LOOK:
	case OP_READ:
		out->verb = STORE_GET;
		out->whole = op->kind != KIND_CONFIGMAP;
		break;
	case OP_ADMIT:
	case OP_FETCH:
		admission_write_request(op, now, out);
		break;
	case OP_STORE:
		out->verb = STORE_PATCH;
		out->json_patch = true;
		op->begun_ms = now->ms;
		store_write(op);
		out->body[0] = str_view(&op->body);
		break;
	}
}
