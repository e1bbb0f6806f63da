/* Reads and writes the status of a Framework by one table of its members, in the order of Go. */
#include <stdlib.h>

#include "base/enc.h"
#include "base/gzip.h"
#include "base/json/scan.h"
#include "base/time.h"
#include "jobs/framework/framework_internal.h"

const char *const FW_STATES[FW_STATE_MAX] = {
	"AttemptCreationPending", "AttemptCreationRequested", "AttemptPreparing",
	"AttemptRunning",         "AttemptDeletionPending",   "AttemptDeletionRequested",
	"AttemptDeleting",        "AttemptCompleted",         "Completed",
};

void fw_outcome_free(struct fw_outcome *o)
{
	if (!o)
		return;
	free(o->phrase);
	free(o->diagnostics);
	free(o->attributes);
	free(o->more);
	free(o);
}

void fw_attempt_clear(struct fw_life *l)
{
	free(TAKE(l->uid));
	fw_outcome_free(TAKE(l->outcome));
	l->attempt_start_s = l->attempt_run_s = l->attempt_completion_s = FW_NO_TIME;
}

void fw_task_clear(struct fw_task *t)
{
	fw_attempt_clear(&t->life);
	fw_outcome_free(t->life.last);
	free(t->uid);
	free(t->node);
	free(t->ip);
	free(t->host_ip);
	free(t->ports);
	free(t->gpus);
	*t = (struct fw_task){ 0 };
}

void fw_role_clear(struct fw_role *r)
{
	for (size_t i = 0; i < r->n; i++)
		fw_task_clear(&r->tasks[i]);
	free(r->tasks);
	free(r->name);
	free(r->uid);
	*r = (struct fw_role){ 0 };
}

void fw_status_clear(struct framework *f)
{
	for (size_t i = 0; i < f->n_roles; i++)
		fw_role_clear(&f->roles[i]);
	free(TAKE(f->roles));
	f->n_roles = f->cap_roles = 0;
	fw_attempt_clear(&f->life);
	fw_outcome_free(f->life.last);
	f->life = (struct fw_life){ 0 };
	f->has_status = false;
}

struct fw_role *fw_role_find(const struct framework *f, const char *name)
{
	for (size_t i = 0; i < f->n_roles; i++)
		if (strcmp(f->roles[i].name, name) == 0)
			return &f->roles[i];
	return NULL;
}

struct fw_role *fw_role_add(struct framework *f)
{
	if (f->n_roles == f->cap_roles) {
		f->cap_roles = f->cap_roles ? 2 * f->cap_roles : 4;
		f->roles = xrealloc(f->roles, f->cap_roles * sizeof(*f->roles));
	}
	struct fw_role *r = &f->roles[f->n_roles++];
	*r = (struct fw_role){ .grace_s = FW_NO_TIME };
	return r;
}

struct fw_task *fw_task_add(struct fw_role *r)
{
	if (r->n == r->cap) {
		r->cap = r->cap ? 2 * r->cap : 4;
		r->tasks = xrealloc(r->tasks, r->cap * sizeof(*r->tasks));
	}
	struct fw_task *t = &r->tasks[r->n++];
	*t = (struct fw_task){ 0 };
	return t;
}

const char *fw_configmap_name(const struct framework *f, char *out)
{
	(void)snprintf(out, FW_NAME_MAX, "%s-attempt", f->spec.name);
	return out;
}

const char *fw_pod_name(const struct framework *f, const struct fw_role *r, size_t index, char *out)
{
	(void)snprintf(out, FW_NAME_MAX, "%s-%s-%zu", f->spec.name, r->name, index);
	return out;
}

/* ---- its members, as they are read and written ---- */

enum field_kind {
	FIELD_TIME,
	FIELD_COUNT, /* int32_t */
	FIELD_DELAY, /* int64_t; null if it is negative */
	FIELD_TEXT,
	/* Not of FrameworkController, so left out if they are empty: a text, an int32_t, an
	 * outcome. */
	FIELD_NUMBERS,
	FIELD_ALIKE,
	FIELD_LAST,
	FIELD_BOOL,
	FIELD_STATE,
	FIELD_OUTCOME,
	FIELD_INDEX,    /* of a task: its place */
	FIELD_NAME,     /* of the ConfigMap or pod; not read */
	FIELD_INSTANCE, /* of the attempt; not read */
	FIELD_OPEN,     /* an object of the members that follow */
	FIELD_CLOSE
};

enum { OF_FRAMEWORK = 1, OF_TASK = 2, OF_BOTH = OF_FRAMEWORK | OF_TASK };

/* The members in Go's order.  An offset in fw_life is the same in fw_task, which begins with it. */
#define LIFE(member) offsetof(struct fw_life, member)
#define TASK(member) offsetof(struct fw_task, member)
static const struct status_member {
	const char *key;
	enum field_kind kind;
	int of;
	size_t at;
	bool needed;
} FIELDS[] = {
	{ "index", FIELD_INDEX, OF_TASK, 0, true },
	{ "instanceUID", FIELD_TEXT, OF_TASK, TASK(uid), true },
	{ "startTime", FIELD_TIME, OF_BOTH, LIFE(start_s), true },
	{ "runTime", FIELD_TIME, OF_BOTH, LIFE(run_s), false },
	{ "completionTime", FIELD_TIME, OF_BOTH, LIFE(completion_s), false },
	{ "state", FIELD_STATE, OF_BOTH, LIFE(state), true },
	{ "transitionTime", FIELD_TIME, OF_BOTH, LIFE(transition_s), true },
	{ "deletionPending", FIELD_BOOL, OF_TASK, TASK(removing), false },
	{ "retryPolicyStatus", FIELD_OPEN, OF_BOTH, 0, true },
	{ "totalRetriedCount", FIELD_COUNT, OF_BOTH, LIFE(retried), true },
	{ "accountableRetriedCount", FIELD_COUNT, OF_BOTH, LIFE(accountable), true },
	{ "retryDelaySec", FIELD_DELAY, OF_BOTH, LIFE(retry_delay_s), false },
	{ "alikeCount", FIELD_ALIKE, OF_BOTH, LIFE(alike), false },
	{ "lastCompletionStatus", FIELD_LAST, OF_BOTH, LIFE(last), false },
	{ "", FIELD_CLOSE, OF_BOTH, 0, true },
	{ "attemptStatus", FIELD_OPEN, OF_BOTH, 0, true },
	{ "id", FIELD_COUNT, OF_BOTH, LIFE(id), true },
	{ "startTime", FIELD_TIME, OF_BOTH, LIFE(attempt_start_s), true },
	{ "runTime", FIELD_TIME, OF_BOTH, LIFE(attempt_run_s), false },
	{ "completionTime", FIELD_TIME, OF_BOTH, LIFE(attempt_completion_s), false },
	{ "instanceUID", FIELD_INSTANCE, OF_BOTH, LIFE(uid), false },
	{ "configMapName", FIELD_NAME, OF_FRAMEWORK, 0, false },
	{ "configMapUID", FIELD_TEXT, OF_FRAMEWORK, LIFE(uid), false },
	{ "podName", FIELD_NAME, OF_TASK, 0, false },
	{ "podUID", FIELD_TEXT, OF_TASK, LIFE(uid), false },
	{ "podNodeName", FIELD_TEXT, OF_TASK, TASK(node), false },
	{ "podIP", FIELD_TEXT, OF_TASK, TASK(ip), false },
	{ "podHostIP", FIELD_TEXT, OF_TASK, TASK(host_ip), false },
	{ "podPorts", FIELD_NUMBERS, OF_TASK, TASK(ports), false },
	{ "podGpus", FIELD_NUMBERS, OF_TASK, TASK(gpus), false },
	{ "completionStatus", FIELD_OUTCOME, OF_BOTH, LIFE(outcome), false },
};
enum { FIELDS_N = ARRAY_SIZE(FIELDS) };

/* The inflated status may be as large as an object. */
enum { GZIP_RATIO = 1000 };

static const struct fw_bounds INT32 = { INT32_MIN, INT32_MAX, FW_NEEDED };
static const struct fw_bounds NUMBER = { 0, INT32_MAX - 1, FW_NEEDED };
static const struct fw_bounds DELAY = { 0, INT32_MAX - 1, -1 };
static const struct fw_bounds ALIKE = { 0, INT32_MAX - 1, 0 };

static char *status_copy(const struct fw_value *of, const char *key, bool needed)
{
	const char *text = fw_text(of, key, needed);
	return text ? xstrdup(text) : NULL;
}

/* ---- reading ---- */

static struct fw_outcome *status_outcome(const struct fw_value *of, const char *key)
{
	struct fw_value v = fw_get(of, key, NODE_MAP, false);
	if (!v.n)
		return NULL;
	struct fw_value type = fw_get(&v, "type", NODE_MAP, true);
	struct fw_value name = fw_get(&type, "name", NODE_TEXT, true);
	struct fw_value pod = fw_get(&v, "pod", NODE_MAP, false);
	struct fw_value trigger = fw_get(&v, "trigger", NODE_MAP, false);
	int32_t code = (int32_t)fw_int(&v, "code", INT32);
	const char *phrase = fw_text(&v, "phrase", true);
	const char *diagnostics = fw_text(&v, "diagnostics", true);
	bool succeeded = name.n && strcmp(name.n->text, "Succeeded") == 0;
	if (name.n && !succeeded && strcmp(name.n->text, "Failed") != 0)
		fw_bad(&name, "must be Succeeded or Failed");
	struct fw_outcome *o =
	    fw_outcome_make(code, succeeded, phrase ? phrase : "", fw_attributes(&type),
	                    diagnostics ? diagnostics : "");
	STR_AUTO more = STR_INIT(FRAMEWORK_OBJECT_MAX);
	if (pod.n || trigger.n) {
		str_puts(&more, pod.n ? "\"pod\":" : "\"trigger\":");
		node_json(&more, pod.n ?: trigger.n);
		o->more = str_take(&more);
	}
	return o;
}

static enum fw_state status_state(const struct fw_value *of)
{
	char shown[4 * QUOTE_MAX];
	struct fw_value v = fw_get(of, "state", NODE_TEXT, true);
	for (enum fw_state s = 0; v.n && s < FW_STATE_MAX; s++)
		if (strcmp(v.n->text, FW_STATES[s]) == 0)
			return s;
	if (v.n)
		fw_bad(&v, "must be a state as AttemptRunning or Completed, is \"%s\"",
		       quote(shown, node_span(v.n)));
	return FW_COMPLETED;
}

/* Checks for the members without which the state machine could not continue. */
static void status_check_life(const struct fw_value *v, const struct fw_life *l)
{
	const char *state = FW_STATES[l->state];
	if (l->state >= FW_ATTEMPT_COMPLETED && !l->outcome)
		fw_bad(v, "is %s, but its attempt has no completionStatus", state);
	if (l->state == FW_COMPLETED && l->completion_s == FW_NO_TIME)
		fw_bad(v, "is %s, but has no completionTime", state);
	if (l->state == FW_CREATION_PENDING && l->uid)
		fw_bad(v, "is %s, but its attempt has a uid", state);
	if (l->state > FW_CREATION_PENDING && l->state < FW_ATTEMPT_COMPLETED && !l->uid)
		fw_bad(v, "is %s, but its attempt has no uid", state);
}

static void status_field(const struct status_member *f, const struct fw_value *of, void *at,
                         int64_t index)
{
	if (f->kind == FIELD_TIME)
		*(int64_t *)at = fw_time(of, f->key, f->needed);
	else if (f->kind == FIELD_COUNT)
		*(int32_t *)at = (int32_t)fw_int(of, f->key, NUMBER);
	else if (f->kind == FIELD_DELAY)
		*(int64_t *)at = fw_int(of, f->key, DELAY);
	else if (f->kind == FIELD_TEXT || f->kind == FIELD_NUMBERS)
		*(char **)at = status_copy(of, f->key, f->needed);
	else if (f->kind == FIELD_BOOL)
		*(bool *)at = fw_bool(of, f->key);
	else if (f->kind == FIELD_STATE)
		*(enum fw_state *)at = status_state(of);
	else if (f->kind == FIELD_ALIKE)
		*(int32_t *)at = (int32_t)fw_int(of, f->key, ALIKE);
	else if (f->kind == FIELD_OUTCOME || f->kind == FIELD_LAST)
		*(struct fw_outcome **)at = status_outcome(of, f->key);
	else if (f->kind == FIELD_INDEX)
		(void)fw_int(of, f->key, (struct fw_bounds){ index, index, FW_NEEDED });
}

/* base: a struct fw_life, or a struct fw_task. */
static void status_fields(const struct fw_value *v, int of, size_t index, void *base)
{
	struct fw_value inner = { 0 };
	const struct fw_value *at = v;
	for (const struct status_member *f = FIELDS; f < FIELDS + FIELDS_N; f++) {
		if (!(f->of & of))
			continue;
		if (f->kind == FIELD_OPEN)
			inner = fw_get(v, f->key, NODE_MAP, true);
		if (f->kind == FIELD_OPEN || f->kind == FIELD_CLOSE)
			at = f->kind == FIELD_OPEN ? &inner : v;
		status_field(f, at, (char *)base + f->at, (int64_t)index);
	}
	if (!v->r->bad)
		status_check_life(v, base);
}

/* names: those of the roles before, as members. */
static void status_role(struct framework *f, const struct fw_value *v, json_t *names, size_t *tasks)
{
	struct fw_role *role = fw_role_add(f);
	struct fw_value name = fw_get(v, "name", NODE_TEXT, true);
	struct fw_value list = fw_get(v, "taskStatuses", NODE_LIST, false);
	size_t n = list.n ? list.n->n : 0;
	(void)fw_name(v);
	role->name = status_copy(v, "name", true);
	role->uid = status_copy(v, "instanceUID", true);
	role->grace_s = fw_int(v, "podGracefulDeletionTimeoutSec", FW_GRACE);
	if (v->r->bad)
		return;
	if (json_object_get(names, role->name))
		fw_bad(&name, "is that of another role, too");
	json_object_set_new(names, role->name, json_true());
	*tasks += n;
	if (*tasks > FW_TASKS_MAX)
		fw_bad(&list, "has more than %d tasks with those before", FW_TASKS_MAX);
	for (size_t i = 0; i < n && !v->r->bad; i++) {
		struct fw_value item = fw_item(&list, i, NODE_MAP);
		status_fields(&item, OF_TASK, i, fw_task_add(role));
	}
}

/* taskRoleStatuses, inflated if they are compressed. */
static struct fw_value status_roles(const struct fw_value *attempt)
{
	struct fw_value packed = fw_get(attempt, "taskRoleStatusesCompressed", NODE_TEXT, false);
	struct fw_value list = fw_get(attempt, "taskRoleStatuses", NODE_LIST, !packed.n);
	if (list.n || !packed.n)
		return list;
	struct arena *a = attempt->r->arena;
	struct span bytes;
	struct span text = { 0 };
	if (base64_decode(a, node_span(packed.n), &bytes) == 0 &&
	    gzip_unpack(bytes, FRAMEWORK_OBJECT_MAX, GZIP_RATIO, a, &text))
		return fw_parse(attempt, "taskRoleStatusesCompressed", text, NODE_LIST);
	fw_bad(&packed, "is not the gzip of a list in base64");
	return list;
}

int fw_status_read(struct framework *f, struct span json, struct err *e)
{
	ARENA_AUTO arena = { 0 };
	struct fw_reader r = { &arena, e,
		               "the status of this Framework was not written by its controller",
		               false };
	struct fw_value root = { .r = &r };
	struct fw_value status = fw_parse(&root, "status", json, NODE_MAP);
	struct fw_value attempt = fw_get(&status, "attemptStatus", NODE_MAP, false);
	f->has_status = true;
	f->life = FW_LIFE_NEW;
	if (!r.bad && status_state(&status) == FW_COMPLETED && !attempt.n && !r.bad) {
		/* The job only waits for its removal, which needs this time alone. */
		f->life.state = FW_COMPLETED;
		f->life.transition_s = fw_time(&status, "transitionTime", false);
		if (f->life.transition_s == FW_NO_TIME)
			f->life.transition_s = FW_ZERO_TIME;
	} else if (!r.bad) {
		status_fields(&status, OF_FRAMEWORK, 0, &f->life);
		struct fw_value list = status_roles(&attempt);
		JSON_AUTO *names = json_object();
		size_t tasks = 0;
		for (size_t i = 0; !r.bad && i < list.n->n; i++) {
			struct fw_value item = fw_item(&list, i, NODE_MAP);
			status_role(f, &item, names, &tasks);
		}
	}
	if (r.bad)
		fw_status_clear(f);
	return r.bad ? -1 : 0;
}

/* ---- writing ---- */

/* The JSON of taskRoleStatuses from which on it is compressed. */
enum { COMPRESS_FROM = 700 << 10 };

static void status_write_text(struct str *out, const char *text)
{
	if (text)
		fw_put_text(out, text);
	else
		str_puts(out, "null");
}

static void status_write_outcome(struct str *out, const struct fw_outcome *o)
{
	if (!o) {
		str_puts(out, "null");
		return;
	}
	str_char(out, '{');
	json_put_int(out, "code", o->code);
	fw_put_text_member(out, "phrase", o->phrase);
	str_printf(out, ",\"type\":{\"name\":\"%s\",\"attributes\":%s}",
	           o->succeeded ? "Succeeded" : "Failed", o->attributes);
	fw_put_text_member(out, "diagnostics", o->diagnostics);
	if (o->more)
		str_printf(out, ",%s", o->more);
	str_char(out, '}');
}

static void status_write_field(struct str *out, const struct status_member *f, const void *at)
{
	char time[RFC3339_MAX];
	if (f->kind == FIELD_TIME)
		status_write_text(out, *(const int64_t *)at == FW_NO_TIME
		                           ? NULL
		                           : rfc3339_put(time, *(const int64_t *)at * 1000, 0));
	else if (f->kind == FIELD_COUNT || f->kind == FIELD_ALIKE)
		str_int(out, *(const int32_t *)at);
	else if (f->kind == FIELD_DELAY && *(const int64_t *)at < 0)
		str_puts(out, "null");
	else if (f->kind == FIELD_DELAY)
		str_int(out, *(const int64_t *)at);
	else if (f->kind == FIELD_TEXT || f->kind == FIELD_NUMBERS)
		status_write_text(out, *(char *const *)at);
	else if (f->kind == FIELD_BOOL)
		str_puts(out, *(const bool *)at ? "true" : "false");
	else if (f->kind == FIELD_STATE)
		status_write_text(out, FW_STATES[*(const enum fw_state *)at]);
	else if (f->kind == FIELD_OUTCOME || f->kind == FIELD_LAST)
		status_write_outcome(out, *(struct fw_outcome *const *)at);
	else
		str_char(out, f->kind == FIELD_OPEN ? '{' : '}');
}

/* base: a struct fw_life, or a struct fw_task; name: of its ConfigMap or pod.  attemptStatus stays
 * open. */
static void status_write_fields(struct str *out, int of, size_t index, const char *name,
                                const void *base)
{
	const struct fw_life *l = base;
	FREE_AUTO char *instance = l->uid ? xasprintf("%d_%s", l->id, l->uid) : NULL;
	json_put_open(out, NULL, '{');
	for (const struct status_member *f = FIELDS; f < FIELDS + FIELDS_N; f++) {
		if (!(f->of & of))
			continue;
		const void *at = (const char *)base + f->at;
		const char *text = f->kind == FIELD_NUMBERS ? *(char *const *)at : "-";
		if (!text || !*text || (f->kind == FIELD_ALIKE && *(const int32_t *)at == 0) ||
		    (f->kind == FIELD_LAST && !*(struct fw_outcome *const *)at))
			continue;
		if (f->key[0])
			json_put_key(out, f->key);
		if (f->kind == FIELD_INDEX)
			str_int(out, (int64_t)index);
		else if (f->kind == FIELD_NAME)
			status_write_text(out, name);
		else if (f->kind == FIELD_INSTANCE)
			status_write_text(out, instance);
		else
			status_write_field(out, f, at);
	}
}

static void status_write_roles(struct str *out, const struct framework *f)
{
	char name[FW_NAME_MAX];
	str_char(out, '[');
	for (size_t i = 0; i < f->n_roles; i++) {
		const struct fw_role *r = &f->roles[i];
		json_put_open(out, NULL, '{');
		fw_put_text_member(out, "name", r->name);
		fw_put_text_member(out, "instanceUID", r->uid);
		json_put_known(out, "podGracefulDeletionTimeoutSec", r->grace_s != FW_NO_TIME,
		               r->grace_s);
		json_put_open(out, "taskStatuses", '[');
		for (size_t k = 0; k < r->n; k++) {
			status_write_fields(out, OF_TASK, k, fw_pod_name(f, r, k, name),
			                    &r->tasks[k]);
			str_puts(out, "}}");
		}
		str_puts(out, "]}");
	}
	str_char(out, ']');
}

/* The roles are compressed from `from` bytes on. */
static void status_write(const struct framework *f, size_t from, struct str *out)
{
	if (!f->has_status) {
		str_puts(out, "null");
		return;
	}
	char name[FW_NAME_MAX];
	status_write_fields(out, OF_FRAMEWORK, 0, fw_configmap_name(f, name), &f->life);
	STR_AUTO roles = STR_INIT(out->max);
	ARENA_AUTO a = { 0 };
	struct span packed;
	status_write_roles(&roles, f);
	out->full |= roles.full;
	json_put_key(out, "taskRoleStatuses");
	if (roles.n >= from && gzip_pack(str_view(&roles), roles.n, &a, &packed)) {
		str_puts(out, "null,\"taskRoleStatusesCompressed\":\"");
		str_base64(out, packed);
		str_char(out, '"');
	} else {
		str_span(out, str_view(&roles));
	}
	str_puts(out, "}}");
}

void framework_status_write(const struct framework *f, struct str *out)
{
	status_write(f, f->config->compress ? COMPRESS_FROM : SIZE_MAX, out);
}

/* Milliseconds since 1970; -1: none. */
static int64_t status_ms(int64_t s)
{
	return s < 0 ? -1 : s * 1000; /* also FW_NO_TIME and FW_ZERO_TIME */
}

void framework_summary(const struct framework *f, struct fw_summary *out)
{
	const struct fw_life *l = &f->life;
	if (!f->has_status) {
		*out = (struct fw_summary){ { NULL, 0 }, -1, -1,    -1,    -1, -1,
			                    -1,          -1, false, false, 0,  0 };
		return;
	}
	*out = (struct fw_summary){ .state = span_of(FW_STATES[l->state]),
		                    .run_ms = status_ms(l->run_s),
		                    .completion_ms = status_ms(l->completion_s),
		                    .transition_ms = status_ms(l->transition_s),
		                    .retried = l->retried,
		                    .accountable = l->accountable,
		                    .retry_delay_s = l->retry_delay_s,
		                    .attempt = l->id,
		                    .has_code = l->outcome,
		                    .has_last = l->last,
		                    .code = l->outcome ? l->outcome->code : 0,
		                    .last_code = l->last ? l->last->code : 0 };
}

void framework_status_write_packed(const struct framework *f, struct str *out)
{
	status_write(f, 0, out);
}
