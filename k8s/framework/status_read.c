#include <stdlib.h>

#include "base/enc.h"
#include "base/tree.h"
#include "k8s/cache/job_entry.h"
#include "k8s/framework/framework_internal.h"

/* Tasks of one Framework; the inflated status may be as large as an object. */
enum { GZIP_RATIO = 1000 };

static const struct fw_bounds INT32 = { INT32_MIN, INT32_MAX };
static const struct fw_bounds NUMBER = { 0, INT32_MAX - 1 };

/* ---- completionStatus ---- */

/* Copies text members, which may be absent. */
static void status_texts(struct fw_reader *r, const struct path *p, const json_t *of,
                         const char *const *keys, struct str *out)
{
	for (; *keys; keys++)
		fw_go_member(out, *keys, fw_read_text(r, p, of, *keys, false));
}

static void status_attributes(struct fw_reader *r, const struct path *up, const json_t *type,
                              struct fw_outcome *o)
{
	struct path p = PATH_KEY(up, SPAN("attributes"));
	const json_t *list = fw_get(type, "attributes");
	if (!list) {
		o->attributes = xstrdup("null");
		return;
	}
	if (!json_is_array(list))
		fw_bad(r, &p, "must be a list, is %s", fw_kind(list));
	STR_AUTO out = STR_INIT(FRAMEWORK_OBJECT_MAX);
	str_char(&out, '[');
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *text = json_string_value(json_array_get(list, i));
		struct path at = PATH_INDEX(&p, i);
		if (!text) {
			fw_bad(r, &at, "must be text, is %s", fw_kind(json_array_get(list, i)));
			break;
		}
		if (i)
			str_char(&out, ',');
		fw_go_text(&out, text);
		o->transient |= strcmp(text, "Transient") == 0;
		o->conflict |= strcmp(text, "Conflict") == 0;
		o->permanent |= strcmp(text, "Permanent") == 0;
	}
	str_char(&out, ']');
	o->attributes = str_take(&out);
}

static void status_pod(struct fw_reader *r, const struct path *p, const json_t *pod,
                       struct str *out)
{
	static const char *const TEXTS[] = { "reason", "message", NULL };
	static const char *const CONTAINER[] = { "name", "reason", "message", NULL };
	str_puts(out, "\"pod\":{");
	status_texts(r, p, pod, TEXTS, out);
	const json_t *list = fw_get(pod, "containers");
	struct path of = PATH_KEY(p, SPAN("containers"));
	if (list && !json_is_array(list))
		fw_bad(r, &of, "must be a list, is %s", fw_kind(list));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *c = json_array_get(list, i);
		struct path at = PATH_INDEX(&of, i);
		if (!json_is_object(c))
			fw_bad(r, &at, "must be an object, is %s", fw_kind(c));
		if (!i)
			fw_go_key(out, "containers");
		str_puts(out, i ? ",{" : "[{");
		status_texts(r, &at, c, CONTAINER, out);
		if (fw_get(c, "signal")) {
			fw_go_key(out, "signal");
			str_int(out, fw_read_int(r, &at, c, "signal", INT32));
		}
		fw_go_key(out, "code");
		str_int(out, fw_read_int(r, &at, c, "code", INT32));
		str_char(out, '}');
	}
	str_puts(out, json_array_size(list) ? "]}" : "}");
}

static void status_trigger(struct fw_reader *r, const struct path *p, const json_t *trigger,
                           struct str *out)
{
	str_puts(out, "\"trigger\":{\"message\":");
	const char *message = fw_read_text(r, p, trigger, "message", true);
	fw_go_text(out, message ? message : "");
	const char *role = fw_read_text(r, p, trigger, "taskRoleName", true);
	str_puts(out, ",\"taskRoleName\":");
	fw_go_text(out, role ? role : "");
	str_printf(out, ",\"taskIndex\":%lld}",
	           (long long)fw_read_int(r, p, trigger, "taskIndex", NUMBER));
}

static struct fw_outcome *status_outcome(struct fw_reader *r, const struct path *up,
                                         const json_t *attempt)
{
	if (!fw_get(attempt, "completionStatus"))
		return NULL;
	struct path p = PATH_KEY(up, SPAN("completionStatus"));
	struct path of_type = PATH_KEY(&p, SPAN("type"));
	struct path of_name = PATH_KEY(&of_type, SPAN("name"));
	const json_t *from = fw_read_object(r, up, attempt, "completionStatus");
	const json_t *type = fw_read_object(r, &p, from, "type");
	struct fw_outcome *o = xcalloc(1, sizeof(*o));
	o->code = (int32_t)fw_read_int(r, &p, from, "code", INT32);
	const char *phrase = fw_read_text(r, &p, from, "phrase", true);
	const char *diagnostics = fw_read_text(r, &p, from, "diagnostics", true);
	const char *name = fw_read_text(r, &of_type, type, "name", true);
	o->phrase = xstrdup(phrase ? phrase : "");
	o->diagnostics = xstrdup(diagnostics ? diagnostics : "");
	o->succeeded = name && strcmp(name, "Succeeded") == 0;
	if (name && !o->succeeded && strcmp(name, "Failed") != 0)
		fw_bad(r, &of_name, "must be Succeeded or Failed");
	status_attributes(r, &of_type, type, o);
	STR_AUTO more = STR_INIT(FRAMEWORK_OBJECT_MAX);
	if (fw_get(from, "pod")) {
		struct path at = PATH_KEY(&p, SPAN("pod"));
		status_pod(r, &at, fw_read_object(r, &p, from, "pod"), &more);
	} else if (fw_get(from, "trigger")) {
		struct path at = PATH_KEY(&p, SPAN("trigger"));
		status_trigger(r, &at, fw_read_object(r, &p, from, "trigger"), &more);
	}
	if (more.n)
		o->more = str_take(&more);
	return o;
}

/* ---- Framework and tasks ---- */

static enum fw_state status_state(struct fw_reader *r, const struct path *up, const json_t *of)
{
	char shown[4 * QUOTE_MAX];
	const char *text = fw_read_text(r, up, of, "state", true);
	struct path p = PATH_KEY(up, SPAN("state"));
	for (enum fw_state s = 0; text && s < FW_STATE_MAX; s++)
		if (strcmp(text, FW_STATES[s]) == 0)
			return s;
	if (text)
		fw_bad(r, &p, "must be a state as AttemptRunning or Completed, is \"%s\"",
		       quote(shown, span_of(text)));
	return FW_COMPLETED;
}

/* What a state needs: without it the machine could not go on. */
static void status_check_life(struct fw_reader *r, const struct path *p, const struct fw_life *l)
{
	if (l->state >= FW_ATTEMPT_COMPLETED && !l->outcome)
		fw_bad(r, p, "is %s, but its attempt has no completionStatus", FW_STATES[l->state]);
	if (l->state == FW_CREATION_PENDING && l->uid)
		fw_bad(r, p, "is %s, but its attempt has a uid", FW_STATES[l->state]);
	if (l->state > FW_CREATION_PENDING && l->state < FW_ATTEMPT_COMPLETED && !l->uid)
		fw_bad(r, p, "is %s, but its attempt has no uid", FW_STATES[l->state]);
}

/* uid: the member with the uid of the ConfigMap or the pod. */
static void status_life(struct fw_reader *r, const struct path *p, const json_t *of,
                        const char *uid, struct fw_life *l)
{
	struct path of_attempt = PATH_KEY(p, SPAN("attemptStatus"));
	struct path of_retries = PATH_KEY(p, SPAN("retryPolicyStatus"));
	l->state = status_state(r, p, of);
	l->start_s = fw_read_time(r, p, of, "startTime", true);
	l->run_s = fw_read_time(r, p, of, "runTime", false);
	l->completion_s = fw_read_time(r, p, of, "completionTime", l->state == FW_COMPLETED);
	l->transition_s = fw_read_time(r, p, of, "transitionTime", true);
	const json_t *retries = fw_read_object(r, p, of, "retryPolicyStatus");
	l->retried = (int32_t)fw_read_int(r, &of_retries, retries, "totalRetriedCount", NUMBER);
	l->accountable =
	    (int32_t)fw_read_int(r, &of_retries, retries, "accountableRetriedCount", NUMBER);
	l->retry_delay_s = -1;
	if (fw_get(retries, "retryDelaySec"))
		l->retry_delay_s = fw_read_int(r, &of_retries, retries, "retryDelaySec", NUMBER);
	const json_t *attempt = fw_read_object(r, p, of, "attemptStatus");
	l->id = (int32_t)fw_read_int(r, &of_attempt, attempt, "id", NUMBER);
	l->attempt_start_s = fw_read_time(r, &of_attempt, attempt, "startTime", true);
	l->attempt_run_s = fw_read_time(r, &of_attempt, attempt, "runTime", false);
	l->attempt_completion_s = fw_read_time(r, &of_attempt, attempt, "completionTime", false);
	const char *text = fw_read_text(r, &of_attempt, attempt, uid, false);
	l->uid = text ? xstrdup(text) : NULL;
	l->outcome = status_outcome(r, &of_attempt, attempt);
	if (!r->bad)
		status_check_life(r, p, l);
}

static char *status_copy(struct fw_reader *r, const struct path *p, const json_t *of,
                         const char *key, bool needed)
{
	const char *text = fw_read_text(r, p, of, key, needed);
	return text ? xstrdup(text) : NULL;
}

static void status_task(struct fw_reader *r, const struct path *p, const json_t *of,
                        struct fw_role *role)
{
	size_t index = role->n;
	struct fw_task *t = fw_task_add(role);
	struct path of_attempt = PATH_KEY(p, SPAN("attemptStatus"));
	struct path of_index = PATH_KEY(p, SPAN("index"));
	status_life(r, p, of, "podUID", &t->life);
	if (fw_read_int(r, p, of, "index", NUMBER) != (int64_t)index)
		fw_bad(r, &of_index, "must be %zu, the place in the list", index);
	t->uid = status_copy(r, p, of, "instanceUID", true);
	const json_t *removing = fw_get(of, "deletionPending");
	struct path of_removing = PATH_KEY(p, SPAN("deletionPending"));
	if (removing && !json_is_boolean(removing))
		fw_bad(r, &of_removing, "must be true or false, is %s", fw_kind(removing));
	t->removing = json_is_true(removing);
	const json_t *attempt = fw_read_object(r, p, of, "attemptStatus");
	t->node = status_copy(r, &of_attempt, attempt, "podNodeName", false);
	t->ip = status_copy(r, &of_attempt, attempt, "podIP", false);
	t->host_ip = status_copy(r, &of_attempt, attempt, "podHostIP", false);
}

/* The roles of a status while they are read. */
struct status_roles {
	struct framework *f;
	json_t *names; /* of those before, as members */
	size_t tasks;
};

static void status_role(struct fw_reader *r, struct status_roles *all, const struct path *p,
                        const json_t *of)
{
	struct path of_name = PATH_KEY(p, SPAN("name"));
	struct path of_tasks = PATH_KEY(p, SPAN("taskStatuses"));
	struct fw_role *role = fw_role_add(all->f);
	role->name = status_copy(r, p, of, "name", true);
	role->uid = status_copy(r, p, of, "instanceUID", true);
	if (r->bad)
		return;
	if (!fw_name_ok(role->name))
		fw_bad(r, &of_name, "must be from 1 to %d lower-case letters and digits",
		       FW_LABEL_MAX);
	if (json_object_get(all->names, role->name))
		fw_bad(r, &of_name, "is that of another role, too");
	json_object_set_new(all->names, role->name, json_true());
	if (fw_get(of, "podGracefulDeletionTimeoutSec"))
		role->grace_s = fw_read_int(r, p, of, "podGracefulDeletionTimeoutSec", FW_SECONDS);
	const json_t *tasks = fw_get(of, "taskStatuses");
	if (tasks && !json_is_array(tasks))
		fw_bad(r, &of_tasks, "must be a list, is %s", fw_kind(tasks));
	all->tasks += json_array_size(tasks);
	if (all->tasks > FW_TASKS_MAX)
		fw_bad(r, &of_tasks, "has more than %d tasks with those before", FW_TASKS_MAX);
	for (size_t i = 0; i < json_array_size(tasks) && !r->bad; i++) {
		struct path at = PATH_INDEX(&of_tasks, i);
		status_task(r, &at, json_array_get(tasks, i), role);
	}
}

/* taskRoleStatuses, inflated if they are compressed.  New reference; NULL and the error. */
static json_t *status_roles_list(struct fw_reader *r, const struct path *up, const json_t *attempt)
{
	struct path p = PATH_KEY(up, SPAN("taskRoleStatuses"));
	struct path of_packed = PATH_KEY(up, SPAN("taskRoleStatusesCompressed"));
	json_t *list = json_incref(fw_get(attempt, "taskRoleStatuses"));
	if (!list && fw_get(attempt, "taskRoleStatusesCompressed")) {
		const char *base64 =
		    fw_read_text(r, up, attempt, "taskRoleStatusesCompressed", true);
		struct span bytes;
		struct span text;
		if (base64 && base64_decode(&r->arena, span_of(base64), &bytes) == 0 &&
		    job_entry_gunzip(bytes, FRAMEWORK_OBJECT_MAX, GZIP_RATIO, &r->arena, &text))
			list = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
		if (!list)
			fw_bad(r, &of_packed, "is not the gzip of a list in base64");
	}
	if (!json_is_array(list))
		fw_bad(r, &p, "must be a list, is %s", fw_kind(list));
	return list;
}

static void status_roles(struct fw_reader *r, struct framework *f, const json_t *status)
{
	struct path up = PATH_KEY(NULL, SPAN("attemptStatus"));
	struct path p = PATH_KEY(&up, SPAN("taskRoleStatuses"));
	const json_t *attempt = fw_read_object(r, NULL, status, "attemptStatus");
	JSON_AUTO *list = r->bad ? NULL : status_roles_list(r, &up, attempt);
	JSON_AUTO *names = json_object();
	struct status_roles all = { .f = f, .names = names };
	for (size_t i = 0; i < json_array_size(list) && !r->bad; i++) {
		struct path at = PATH_INDEX(&p, i);
		status_role(r, &all, &at, json_array_get(list, i));
	}
}

int fw_status_read(struct framework *f, const json_t *status, struct err *e)
{
	struct fw_reader r = {
		.e = e,
		.what = "the status of this Framework was not written by its controller: status",
	};
	if (!json_is_object(status))
		fw_bad(&r, NULL, "must be an object, is %s", fw_kind(status));
	f->has_status = true;
	f->life = FW_LIFE_NEW;
	if (!r.bad && status_state(&r, NULL, status) == FW_COMPLETED &&
	    !fw_get(status, "attemptStatus") && !r.bad) {
		/* Nothing more happens to it than its removal, which needs but this time. */
		f->life.state = FW_COMPLETED;
		f->life.transition_s = fw_read_time(&r, NULL, status, "transitionTime", false);
		if (f->life.transition_s == FW_NO_TIME)
			f->life.transition_s = FW_ZERO_TIME;
	} else if (!r.bad) {
		status_life(&r, NULL, status, "configMapUID", &f->life);
		status_roles(&r, f, status);
	}
	arena_done(&r.arena);
	if (r.bad)
		fw_status_clear(f);
	return r.bad ? -1 : 0;
}
