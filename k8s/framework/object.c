#include <stdlib.h>

#include "k8s/framework/framework_internal.h"

enum { TASK_NUMBER_MAX = 10000, UID_BYTES_MAX = 128, NAMESPACE_BYTES_MAX = 253 };

/* A Framework's metadata and spec while they are read; moved to the machine if all is well. */
struct put {
	struct fw_reader r;
	struct framework new;
};

static const struct fw_bounds RETRIES = { -2, INT32_MAX };
static const struct fw_bounds MINIMUM = { -1, INT32_MAX };
static const struct fw_bounds TASKS = { 0, TASK_NUMBER_MAX };

static int32_t put_int(struct put *t, const struct path *up, const json_t *of, const char *key,
                       struct fw_bounds b)
{
	return fw_get(of, key) ? (int32_t)fw_read_int(&t->r, up, of, key, b) : 0;
}

static const json_t *put_object(struct put *t, const struct path *up, const json_t *of,
                                const char *key)
{
	return fw_get(of, key) ? fw_read_object(&t->r, up, of, key) : NULL;
}

static struct fw_policy put_policy(struct put *t, const struct path *up, const json_t *of)
{
	struct path p = PATH_KEY(up, SPAN("retryPolicy"));
	struct path of_fancy = PATH_KEY(&p, SPAN("fancyRetryPolicy"));
	const json_t *policy = put_object(t, up, of, "retryPolicy");
	const json_t *fancy = fw_get(policy, "fancyRetryPolicy");
	if (fancy && !json_is_boolean(fancy))
		fw_bad(&t->r, &of_fancy, "must be true or false, is %s", fw_kind(fancy));
	return (struct fw_policy){ .fancy = json_is_true(fancy),
		                   .max = put_int(t, &p, policy, "maxRetryCount", RETRIES) };
}

static void put_role(struct put *t, const struct path *p, const json_t *of,
                     struct fw_role_spec *out)
{
	struct path of_name = PATH_KEY(p, SPAN("name"));
	struct path of_policy = PATH_KEY(p, SPAN("frameworkAttemptCompletionPolicy"));
	struct path of_task = PATH_KEY(p, SPAN("task"));
	out->name = fw_read_text(&t->r, p, of, "name", true);
	if (!out->name)
		return;
	if (!fw_name_ok(out->name))
		fw_bad(&t->r, &of_name, "must be from 1 to %d lower-case letters and digits",
		       FW_LABEL_MAX);
	if (json_object_get(t->new.places, out->name))
		fw_bad(&t->r, &of_name, "is that of another role, too; names must differ");
	json_object_set_new(t->new.places, out->name, json_integer(out - t->new.role_specs));
	out->number = put_int(t, p, of, "taskNumber", TASKS);
	const json_t *policy = put_object(t, p, of, "frameworkAttemptCompletionPolicy");
	out->min_failed = put_int(t, &of_policy, policy, "minFailedTaskCount", MINIMUM);
	out->min_succeeded = put_int(t, &of_policy, policy, "minSucceededTaskCount", MINIMUM);
	const json_t *task = put_object(t, p, of, "task");
	out->policy = put_policy(t, &of_task, task);
	out->grace_s = FW_NO_TIME;
	if (fw_get(task, "podGracefulDeletionTimeoutSec"))
		out->grace_s =
		    fw_read_int(&t->r, &of_task, task, "podGracefulDeletionTimeoutSec", FW_SECONDS);
	(void)put_object(t, &of_task, task, "pod");
	out->pod = fw_get(task, "pod");
}

static void put_roles(struct put *t, const struct path *up)
{
	struct path p = PATH_KEY(up, SPAN("taskRoles"));
	const json_t *list = fw_get(t->new.spec, "taskRoles");
	t->new.places = json_object();
	if (list && !json_is_array(list))
		fw_bad(&t->r, &p, "must be a list, is %s", fw_kind(list));
	t->new.n_role_specs = json_array_size(list);
	t->new.role_specs = xcalloc(t->new.n_role_specs + 1, sizeof(*t->new.role_specs));
	int64_t tasks = 0;
	for (size_t i = 0; i < t->new.n_role_specs && !t->r.bad; i++) {
		struct path at = PATH_INDEX(&p, i);
		if (!json_is_object(json_array_get(list, i)))
			fw_bad(&t->r, &at, "must be an object, is %s",
			       fw_kind(json_array_get(list, i)));
		put_role(t, &at, json_array_get(list, i), &t->new.role_specs[i]);
		tasks += t->new.role_specs[i].number;
	}
	t->new.wanted = tasks;
	if (tasks > FW_TASKS_MAX)
		fw_bad(&t->r, &p, "has %lld tasks; at most %d are allowed", (long long)tasks,
		       FW_TASKS_MAX);
}

static const char *put_text(struct put *t, const char *key, size_t max)
{
	struct path up = PATH_KEY(NULL, SPAN("metadata"));
	struct path p = PATH_KEY(&up, span_of(key));
	const char *text = fw_read_text(&t->r, &up, t->new.metadata, key, true);
	if (text && (text[0] == '\0' || strlen(text) > max))
		fw_bad(&t->r, &p, "must have from 1 to %zu bytes", max);
	return text;
}

static void put_object_read(struct put *t, json_t *object)
{
	struct framework *new = &t->new;
	struct path up = PATH_KEY(NULL, SPAN("spec"));
	struct path of_name = PATH_KEY(NULL, SPAN("metadata"));
	new->metadata = json_incref(fw_get(object, "metadata"));
	new->spec = json_incref(fw_get(object, "spec"));
	(void)fw_read_object(&t->r, NULL, object, "metadata");
	(void)fw_read_object(&t->r, NULL, object, "spec");
	if (t->r.bad)
		return;
	new->name = put_text(t, "name", FW_LABEL_MAX);
	if (new->name && !fw_name_ok(new->name))
		fw_bad(&t->r, &of_name, "has no name of lower-case letters and digits");
	new->namespace_name = put_text(t, "namespace", NAMESPACE_BYTES_MAX);
	new->uid = put_text(t, "uid", UID_BYTES_MAX);
	new->dying = fw_get(new->metadata, "deletionTimestamp") != NULL;
	const char *execution = fw_read_text(&t->r, &up, new->spec, "executionType", false);
	new->execution = FW_START;
	if (execution && strcmp(execution, "Create") == 0)
		new->execution = FW_CREATE;
	else if (execution && strcmp(execution, "Stop") == 0)
		new->execution = FW_STOP;
	new->policy = put_policy(t, &up, new->spec);
	put_roles(t, &up);
}

/* What a put has read, and the next one replaces. */
static void put_free(struct framework *f)
{
	json_decref(f->metadata);
	json_decref(f->spec);
	json_decref(f->places);
	free(f->role_specs);
}

static void put_move(struct framework *f, const struct framework *from)
{
	put_free(f);
	f->metadata = from->metadata;
	f->spec = from->spec;
	f->places = from->places;
	f->name = from->name;
	f->namespace_name = from->namespace_name;
	f->uid = from->uid;
	f->dying = from->dying;
	f->execution = from->execution;
	f->policy = from->policy;
	f->role_specs = from->role_specs;
	f->n_role_specs = from->n_role_specs;
	f->wanted = from->wanted;
}

int framework_put(struct framework *f, struct span object, struct err *e)
{
	struct put t = { .r = { .e = e, .what = "this Framework cannot be run: " } };
	bool first = !f->spec;
	JSON_AUTO *parsed = object.n <= FRAMEWORK_OBJECT_MAX ? reply_parse(object) : NULL;
	if (!parsed)
		fw_bad(&t.r, NULL, "is not a JSON object of at most %d bytes",
		       FRAMEWORK_OBJECT_MAX);
	else
		put_object_read(&t, parsed);
	if (!t.r.bad && !first &&
	    (strcmp(t.new.uid, f->uid) != 0 || strcmp(t.new.name, f->name) != 0))
		fw_bad(&t.r, NULL, "is another one than before");
	json_t *status = fw_get(parsed, "status");
	if (!t.r.bad && first && status && fw_status_read(f, status, e) < 0)
		t.r.bad = true;
	arena_done(&t.r.arena);
	if (t.r.bad) {
		put_free(&t.new);
		return -1;
	}
	put_move(f, &t.new);
	return 0;
}

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
	put_free(f);
	free(f);
}

const char *framework_state(const struct framework *f)
{
	return f->has_status ? FW_STATES[f->life.state] : "";
}
