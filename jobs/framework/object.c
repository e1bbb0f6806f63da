/* Reads metadata and spec of a Framework object; if anything is wrong, the old ones stay. */
#include <jansson.h>
#include <stdlib.h>

#include "base/json/scan.h"
#include "jobs/framework/framework_internal.h"

enum { TASK_NUMBER_MAX = 10000, UID_BYTES_MAX = 128, NAMESPACE_BYTES_MAX = 253 };

static const struct fw_bounds RETRIES = { -2, INT32_MAX, 0 };
static const struct fw_bounds MINIMUM = { -1, INT32_MAX, 0 };
static const struct fw_bounds TASKS = { 0, TASK_NUMBER_MAX, 0 };

static struct fw_policy object_policy(const struct fw_value *of)
{
	struct fw_value policy = fw_get(of, "retryPolicy", NODE_MAP, false);
	return (struct fw_policy){ fw_bool(&policy, "fancyRetryPolicy"),
		                   (int32_t)fw_int(&policy, "maxRetryCount", RETRIES) };
}

/* A copy that the spec keeps. */
static const char *object_dup(struct fw_spec *s, const char *text)
{
	return text ? arena_dup(&s->arena, span_of(text)) : NULL;
}

/* text: the role as JSON. */
static void object_role(struct fw_spec *out, const struct fw_value *v, struct span text,
                        struct fw_role_spec *role)
{
	struct fw_value policy = fw_get(v, "frameworkAttemptCompletionPolicy", NODE_MAP, false);
	struct fw_value task = fw_get(v, "task", NODE_MAP, false);
	*role = (struct fw_role_spec){
		.name = object_dup(out, fw_name(v)),
		.number = (int32_t)fw_int(v, "taskNumber", TASKS),
		.min = { (int32_t)fw_int(&policy, "minFailedTaskCount", MINIMUM),
		         (int32_t)fw_int(&policy, "minSucceededTaskCount", MINIMUM) },
		.policy = object_policy(&task),
		.grace_s = fw_int(&task, "podGracefulDeletionTimeoutSec", FW_GRACE),
		.pod = SPAN("{}"),
	};
	if (fw_get(&task, "pod", NODE_MAP, false).n)
		role->pod = arena_span(&out->templates, scan_path(text, "task", "pod"));
	if (v->r->bad)
		return;
	struct fw_value name = fw_get(v, "name", NODE_TEXT, true);
	if (json_object_get(out->places, role->name))
		fw_bad(&name, "is that of another role, too; names must differ");
	json_object_set_new(out->places, role->name, json_integer(role - out->roles));
	out->wanted += role->number;
}

static void object_spec(struct fw_spec *out, const struct fw_value *spec, struct span text)
{
	struct span role;
	struct scan roles = scan_begin(scan_get(text, "taskRoles"));
	const char *execution = fw_text(spec, "executionType", false);
	out->execution = FW_START;
	if (execution && strcmp(execution, "Create") == 0)
		out->execution = FW_CREATE;
	else if (execution && strcmp(execution, "Stop") == 0)
		out->execution = FW_STOP;
	out->policy = object_policy(spec);
	struct fw_value list = fw_get(spec, "taskRoles", NODE_LIST, false);
	out->places = json_object();
	out->n_roles = list.n ? list.n->n : 0;
	out->roles = ARENA_NEW(&out->arena, struct fw_role_spec, out->n_roles);
	for (size_t i = 0; i < out->n_roles && !list.r->bad && scan_item(&roles, &role); i++) {
		struct fw_value item = fw_item(&list, i, NODE_MAP);
		object_role(out, &item, role, &out->roles[i]);
	}
	if (out->wanted > FW_TASKS_MAX)
		fw_bad(&list, "has %lld tasks; at most %d are allowed", (long long)out->wanted,
		       FW_TASKS_MAX);
}

static const char *object_text(struct fw_spec *s, const struct fw_value *metadata, const char *key,
                               size_t max)
{
	struct fw_value v = fw_get(metadata, key, NODE_TEXT, true);
	if (v.n && (v.n->n == 0 || v.n->n > max))
		fw_bad(&v, "must have from 1 to %zu bytes", max);
	return object_dup(s, v.n ? v.n->text : NULL);
}

static void object_spec_free(struct fw_spec *s)
{
	json_decref(s->places);
	arena_done(&s->arena);
	arena_done(&s->templates);
}

/* Reads all of it; errors are in v->r. */
static void object_read(struct framework *f, struct fw_spec *new, const struct fw_value *v,
                        struct span object)
{
	static const char *const KEYS[] = { "metadata", "spec", "status" };
	struct span part[ARRAY_SIZE(KEYS)];
	scan_members(object, KEYS, part, ARRAY_SIZE(KEYS));
	struct fw_value metadata = fw_parse(v, KEYS[0], part[0], NODE_MAP);
	struct fw_value spec = fw_parse(v, KEYS[1], part[1], NODE_MAP);
	if (!v->r->bad) {
		const struct node *deleted = node_get(metadata.n, "deletionTimestamp");
		new->name = object_dup(new, fw_name(&metadata));
		new->namespace_name = object_text(new, &metadata, "namespace", NAMESPACE_BYTES_MAX);
		new->uid = object_text(new, &metadata, "uid", UID_BYTES_MAX);
		new->dying = deleted && deleted->type != NODE_NULL;
	}
	if (!v->r->bad)
		object_spec(new, &spec, part[1]);
	if (v->r->bad)
		return;
	if (f->spec.uid &&
	    (strcmp(new->uid, f->spec.uid) != 0 || strcmp(new->name, f->spec.name) != 0))
		fw_bad(v, "is another one than before");
	else if (!f->spec.uid && scan_type(part[2]) > SCAN_NULL)
		v->r->bad = fw_status_read(f, part[2], v->r->e) < 0;
}

int framework_put(struct framework *f, struct span object, struct err *e)
{
	struct fw_spec new = { 0 };
	ARENA_AUTO a = { 0 };
	struct fw_reader r = { &a, e, "this Framework cannot be run", false };
	const struct fw_value v = { .r = &r };
	if (object.n > FRAMEWORK_OBJECT_MAX || !scan_valid(object, FW_DEPTH_MAX))
		fw_bad(&v, "is not a JSON object of at most %d bytes and %d levels",
		       FRAMEWORK_OBJECT_MAX, FW_DEPTH_MAX);
	else
		object_read(f, &new, &v, object);
	if (r.bad) {
		object_spec_free(&new);
		return -1;
	}
	object_spec_free(&f->spec);
	f->spec = new;
	return 0;
}

/* Makes a Framework without a spec, which the first framework_put sets. */
struct framework *framework_new(const struct framework_config *c)
{
	struct framework *f = xcalloc(1, sizeof(*f));
	f->config = c;
	return f;
}

void framework_free(struct framework *f)
{
	if (!f)
		return;
	fw_status_clear(f);
	object_spec_free(&f->spec);
	free(f);
}

void framework_slim(struct framework *f)
{
	for (size_t i = 0; i < f->spec.n_roles; i++)
		f->spec.roles[i].pod = (struct span){ NULL, 0 };
	arena_done(&f->spec.templates);
}

bool framework_role_at(const struct framework *f, size_t i, struct framework_role *out)
{
	if (i >= f->spec.n_roles)
		return false;
	const struct fw_role_spec *spec = &f->spec.roles[i];
	const struct fw_role *r = fw_role_find(f, spec->name);
	*out = (struct framework_role){ spec->name, spec->pod, spec->number, 0, true };
	for (size_t k = 0; r && k < r->n; k++) {
		const struct fw_task *t = &r->tasks[k];
		bool left = t->life.state != FW_COMPLETED;
		out->left += left;
		out->runs = out->runs && (!left || t->removing || t->life.state == FW_RUNNING);
	}
	return true;
}

int64_t framework_tasks_before(const struct framework *f, const char *role, int64_t index)
{
	const struct fw_role *r = fw_role_find(f, role);
	int64_t n = 0;
	for (int64_t k = 0; r && k < index && k < (int64_t)r->n; k++)
		n += r->tasks[k].life.state != FW_COMPLETED;
	return n;
}

const char *framework_state(const struct framework *f)
{
	return f->has_status ? FW_STATES[f->life.state] : "";
}

const char *framework_task_pod(const struct framework *f, const char *role, int64_t index)
{
	const struct fw_role *r = fw_role_find(f, role);
	if (!r || index < 0 || (size_t)index >= r->n)
		return NULL;
	const struct fw_life *l = &r->tasks[index].life;
	if (l->state == FW_DELETION_REQUESTED)
		return NULL;
	return l->uid ? l->uid : l->state == FW_CREATION_PENDING ? "" : NULL;
}

unsigned framework_state_index(const struct framework *f)
{
	return f->has_status ? f->life.state : FRAMEWORK_STATES;
}
