/* See job_scale.h; and the route. */
#include "server/jobs/job_scale.h"

#include <inttypes.h>

#include "base/json/scan.h"
#include "base/str.h"
#include "base/tree.h"
#include "server/http/answer.h"
#include "server/http/handlers.h"
#include "server/http/loop.h"
#include "server/http/query.h"
#include "server/jobs/job_change.h"

enum { ROLE_MAX = 256, PATCH_MAX = 8192, NAMES_SHOWN = 512, GPUS_MAX = 1 << 30 };

static const char SUCCEEDED[] = "minSucceededTaskCount";
static const char HIVED_SPEC[] = "hivedscheduler.microsoft.com/pod-scheduling-spec";

/* ---- what stands in the object --------------------------------------------------------------- */

/* A task role, found. */
struct found {
	struct span role, name;
	size_t index;
	int64_t old, total; /* tasks of the role, and of all */
	bool all_succeed;   /* its minSucceededTaskCount is the default: all of its tasks */
};

static struct span object_name(struct span role, char name[static ROLE_MAX])
{
	size_t n = 0;
	for (size_t i = 0; i < role.n && n < ROLE_MAX; i++) {
		char c = (char)(is_upper(role.p[i]) ? role.p[i] - 'A' + 'a' : role.p[i]);
		if (is_lower(c) || is_digit(c))
			name[n++] = c;
	}
	return (struct span){ name, n };
}

static int64_t count_of(struct span role, const char *key)
{
	int64_t n = 0;
	(void)scan_int(scan_get(role, key), 0, INT32_MAX, &n); /* what is no count is none */
	return n;
}

/* The job as it was submitted says itself how many of this role must succeed.  Of what is no job of
 * protocol 2 that is taken for granted. */
static bool says_succeeded(const struct scale *s, const struct found *f, struct arena *a)
{
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc;
	char buffer[ROLE_MAX];
	struct span text =
	    scan_text(scan_path(s->doc, "metadata", "annotations", "config", NULL), a);
	if (text.n == 0 || doc_read(text, &BUDGET_DEFAULT, a, &doc, &warnings, &e) < 0)
		return true;
	const struct node *roles = node_get(&doc.root, "taskRoles");
	for (uint32_t i = 0; node_is(roles, NODE_MAP) && i < roles->n; i++) {
		const struct member *m = &roles->member[i];
		if (!span_eq(object_name(member_key(m), buffer), f->name))
			continue;
		const struct node *n =
		    node_get(node_get(&m->value, "completion"), "minSucceededInstances");
		return n && n->type != NODE_NULL && !(node_is(n, NODE_INT) && n->integer == 0);
	}
	return true;
}

static bool all_succeed(const struct scale *s, const struct found *f, struct arena *a)
{
	struct span policy = scan_get(f->role, "frameworkAttemptCompletionPolicy");
	return f->old > 0 && count_of(policy, SUCCEEDED) == f->old && !says_succeeded(s, f, a);
}

static int find_role(const struct scale *s, struct arena *a, struct found *f, struct err *e)
{
	char buffer[ROLE_MAX];
	struct span asked = s->role.n > ROLE_MAX ? SPAN("") : s->role;
	struct span wanted = object_name(asked, buffer);
	STR_AUTO names = STR_INIT(NAMES_SHOWN);
	struct scan roles = scan_begin(scan_path(s->doc, "spec", "taskRoles", NULL));
	struct span role;
	for (size_t i = 0; scan_item(&roles, &role); i++) {
		struct span name = scan_text(scan_get(role, "name"), a);
		f->total += count_of(role, "taskNumber");
		str_printf(&names, "%s%.*s", i ? ", " : "", (int)name.n, name.p);
		if (f->role.p || name.n == 0 || !(span_eq(name, wanted) || span_eq(name, asked)))
			continue;
		f->role = role;
		f->name = name;
		f->index = i;
		f->old = count_of(role, "taskNumber");
	}
	if (f->role.p) {
		f->all_succeed = all_succeed(s, f, a);
		return 0;
	}
	return err_set(e, 404, "NoJobError", "the job has no such task role; it has: %s%s",
	               str_c(&names), names.full ? " ..." : "");
}

/* GPUs of one instance. */
static int64_t gpus_of(const struct scale *s, struct span role, struct arena *a)
{
	int64_t sum = 0;
	struct span container;
	struct scan containers =
	    scan_begin(scan_path(role, "task", "pod", "spec", "containers", NULL));
	while (scan_item(&containers, &container)) {
		struct span limits = scan_path(container, "resources", "limits", NULL);
		struct span value = scan_get(limits, s->device);
		struct span text = value;
		int64_t n = 0;
		(void)scan_string(value, a, &text); /* 1 or "1" */
		(void)parse_i64(text, 0, GPUS_MAX, &n);
		sum += n;
	}
	return sum < GPUS_MAX ? sum : GPUS_MAX;
}

/* ---- whether it can be ----------------------------------------------------------------------- */

/* A role whose policy waits for more tasks than there are never completes. */
static int check_policy(const struct scale *s, const struct found *f, struct err *e)
{
	static const struct {
		const char *key, *name;
	} COUNTS[] = { { "minFailedTaskCount", "minFailedInstances" },
		       { SUCCEEDED, "minSucceededInstances" } };
	struct span policy = scan_get(f->role, "frameworkAttemptCompletionPolicy");
	for (size_t i = 0; i < sizeof(COUNTS) / sizeof(COUNTS[0]); i++) {
		int64_t n = count_of(policy, COUNTS[i].key);
		bool is_scaled = f->all_succeed && strcmp(COUNTS[i].key, SUCCEEDED) == 0;
		if (n > s->n && !is_scaled)
			return err_set(e, INVALID_PARAMETERS,
			               "instances: must be at least %" PRId64 ", the %s of this "
			               "task role, is %" PRId64,
			               n, COUNTS[i].name, s->n);
	}
	return 0;
}

static int check(const struct scale *s, const struct found *f, struct arena *a, struct err *e)
{
	struct span type = scan_text(scan_path(s->doc, "spec", "executionType", NULL), a);
	struct span hived = scan_get(
	    scan_path(f->role, "task", "pod", "metadata", "annotations", NULL), HIVED_SPEC);
	if (!span_is(type, "Start"))
		return err_set(e, CONFLICT_JOB,
		               span_is(type, "Stop") ? "the job is being stopped, or was"
		                                     : "the job is still being made");
	if (hived.p)
		return err_set(e, NOT_IMPLEMENTED,
		               "HiveD was asked for the cells of all tasks at once: such a job "
		               "cannot be scaled, only submitted anew");
	if (f->total - f->old + s->n > s->max_tasks)
		return err_set(e, INVALID_PARAMETERS,
		               "instances: the job would have %" PRId64
		               " tasks, and may have %" PRId64,
		               f->total - f->old + s->n, s->max_tasks);
	return check_policy(s, f, e);
}

/* ---- the patch ------------------------------------------------------------------------------- */

static void put_operation(struct str *out, const char *op, const char *path, struct span json)
{
	str_printf(out, "%s{\"op\":\"%s\",\"path\":\"%s\",\"value\":", out->n ? "," : "[", op,
	           path);
	str_span(out, json);
	str_char(out, '}');
}

static void put_text(struct str *out, const char *op, const char *path, struct span text)
{
	STR_AUTO json = STR_INIT(PATCH_MAX);
	str_json(&json, text);
	put_operation(out, op, path, str_view(&json));
}

static void put_number(struct str *out, const char *op, const char *path, int64_t n)
{
	STR_AUTO json = STR_INIT(32);
	str_int(&json, n);
	put_operation(out, op, path, str_view(&json));
}

/* Where all have to succeed, all is another number now. */
static void put_policy(struct str *out, const struct scale *s, const struct found *f,
                       struct arena *a)
{
	const char *path = arena_printf(
	    a, "/spec/taskRoles/%zu/frameworkAttemptCompletionPolicy/%s", f->index, SUCCEEDED);
	if (!f->all_succeed)
		return;
	put_number(out, "test", path, f->old);
	put_number(out, "replace", path, s->n);
}

/* Lists show how many GPUs a job has by its annotation; what is none is left alone. */
static void put_gpus(struct str *out, const struct scale *s, const struct found *f, struct arena *a)
{
	static const char PATH[] = "/metadata/annotations/totalGpuNumber";
	int64_t old;
	int64_t change = gpus_of(s, f->role, a) * (s->n - f->old);
	struct span text =
	    scan_text(scan_path(s->doc, "metadata", "annotations", "totalGpuNumber", NULL), a);
	if (change == 0 || parse_i64(text, 0, GPUS_MAX, &old) < 0 || old + change < 0)
		return;
	put_text(out, "test", PATH, text);
	put_text(out, "replace", PATH, span_of(arena_printf(a, "%" PRId64, old + change)));
}

int scale_plan(const struct scale *s, struct arena *a, struct span *patch, struct err *e)
{
	struct found f = { .old = 0 };
	STR_AUTO out = STR_INIT(PATCH_MAX);
	if (find_role(s, a, &f, e) < 0 || check(s, &f, a, e) < 0)
		return -1;
	*patch = SPAN("");
	if (f.old == s->n)
		return 0;
	const char *at = arena_printf(a, "/spec/taskRoles/%zu", f.index);
	const char *number = arena_printf(a, "%s/taskNumber", at);
	put_text(&out, "test", "/metadata/uid", span_of(s->uid));
	put_text(&out, "test", "/spec/executionType", SPAN("Start"));
	put_text(&out, "test", arena_printf(a, "%s/name", at), f.name);
	put_number(&out, "test", number, f.old);
	put_number(&out, "replace", number, s->n);
	put_policy(&out, s, &f, a);
	put_gpus(&out, s, &f, a);
	str_char(&out, ']');
	if (out.full)
		return err_set(e, UNKNOWN_ERROR, "the name of this task role is too long");
	*patch = arena_span(a, str_view(&out));
	return 0;
}

/* ---- the route ------------------------------------------------------------------------------- */

static void scaled(struct change *c)
{
	const char *more = arena_printf(&c->r->arena, ",\"instances\":%" PRId64, c->n);
	change_answer(c->r, 202, more, "Scale task role %.*s of job %s to %" PRId64 " instances.",
	              (int)c->role.n, c->role.p, change_id(c), c->n);
}

static bool is_over(struct change *c)
{
	ERR_AUTO e = { 0 };
	const struct job_entry *job = c->job;
	if (!job_state_final(job->state) && job->state != JOB_STOPPING && !job->deleting)
		return false;
	(void)err_set(&e, CONFLICT_JOB, "the job is %s: only what runs, or will, can be scaled",
	              job->deleting ? "being removed" : JOB_STATES[job->state]);
	answer_error(c->r, &e);
	return true;
}

static bool plan(struct change *c)
{
	const struct options *o = c->r->loop->server->options;
	const struct scale s = {
		.doc = c->doc,
		.uid = c->uid,
		.role = c->role,
		.n = c->n,
		.max_tasks = o->max_tasks,
		.device = o->device,
	};
	ERR_AUTO e = { 0 };
	if (is_over(c))
		return false;
	if (scale_plan(&s, &c->r->arena, &c->patch, &e) < 0)
		answer_error(c->r, &e);
	else if (c->patch.n == 0)
		scaled(c);
	else
		return true;
	return false;
}

void scale_patch(struct request *r)
{
	int64_t max = r->loop->server->options->max_instances;
	struct change *c = change_read(r, "instances");
	if (!c)
		return;
	if (!c->value.p || parse_i64(c->value, 1, max, &c->n) < 0) {
		answer_bad(r,
		           arena_printf(&r->arena,
		                        "instances: must be a whole number from 1 to %" PRId64,
		                        max),
		           c->value);
		return;
	}
	c->role = r->args[1];
	c->reads = true;
	c->json_patch = true;
	c->plan = plan;
	c->done = scaled;
	change_start(c);
}
