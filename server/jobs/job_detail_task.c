/* Task roles, tasks, their ports and the diagnostics of their ends. */
#include "server/jobs/jobs_internal.h"

#include <arpa/inet.h>

#include "base/enc.h"
#include "base/str.h"
#include "base/tree.h"
#include "base/yaml/yaml.h"

enum { ROLE_NAME_MAX = 63, HIVED_DEPTH = 32, PATH_MAX_BYTES = 4096 };

/* ---- roles ---- */

/* Names that FrameworkController accepts; other roles have no pods. */
static bool is_role_name(struct span t)
{
	for (size_t i = 0; i < t.n; i++) {
		if (!is_alnum(t.p[i]) || is_upper(t.p[i]))
			return false;
	}
	return t.n > 0 && t.n <= ROLE_NAME_MAX;
}

/* The pod template of a role; it usually has the same index as the status. */
static struct span pod_of(const struct templates *t, size_t at, struct span name)
{
	if (at < t->n && span_eq(t->v[at].name, name))
		return t->v[at].pod;
	for (size_t i = 0; i < t->n; i++) {
		if (span_eq(t->v[i].name, name))
			return t->v[i].pod;
	}
	return (struct span){ NULL, 0 };
}

struct templates templates_read(const struct job_shown *s, struct arena *a)
{
	struct templates t = { s, a, ARENA_NEW(a, struct template, SHOWN_ROLES), 0 };
	struct scan roles = scan_begin(scan_path(s->doc, "spec", "taskRoles"));
	struct span role;
	while (t.n < SHOWN_ROLES && scan_item(&roles, &role)) {
		t.v[t.n++] = (struct template){
			.name = scan_text(scan_get(role, "name"), a),
			.pod = scan_path(role, "task", "pod"),
		};
	}
	return t;
}

/* The affinity group of HiveD. */
static struct span role_group(struct span annotation, struct arena *a)
{
	struct span spec = scan_text(annotation, a);
	if (!scan_valid(spec, HIVED_DEPTH))
		return (struct span){ NULL, 0 };
	return scan_path(spec, "affinityGroup", "name");
}

static struct span log_path(const struct job_shown *s, struct span attempt, struct span role,
                            struct arena *a)
{
	STR_AUTO out = STR_INIT(PATH_MAX_BYTES);
	STR_AUTO id = STR_INIT(PATH_MAX_BYTES);
	int64_t n;
	if (!scan_int(scan_get(attempt, "id"), 0, INT32_MAX, &n))
		return (struct span){ NULL, 0 };
	job_id_text(&id, s->job);
	str_puts(&out, "/api/v2/jobs/");
	job_path_segment(&out, str_view(&id));
	str_puts(&out, "/attempts/");
	str_int(&out, n);
	str_puts(&out, "/taskRoles/");
	job_path_segment(&out, role);
	str_puts(&out, "/taskIndex/");
	return arena_span(a, str_view(&out));
}

bool role_read(struct role *out, struct span status, size_t at, const struct templates *t)
{
	enum { PORTS, HIVED, N };
	static const char *const KEYS[N] = { "rest-server/port-scheduling-spec",
		                             "hivedscheduler.microsoft.com/pod-scheduling-spec" };
	const struct job_shown *s = t->s;
	struct arena *a = t->a;
	struct span v[N];
	ERR_AUTO wrong = { 0 };
	*out = (struct role){ .name = scan_text(scan_get(status, "name"), a) };
	if (!is_role_name(out->name))
		return false;
	struct span pod = pod_of(t, at, out->name);
	scan_members(scan_path(pod, "metadata", "annotations"), KEYS, v, N);
	/* An invalid label is left out. */
	(void)portspec_read(scan_text(v[PORTS], a), -1, a, &out->ports, &wrong);
	out->tasks = scan_inside(status, "taskStatuses");
	(void)scan_bool(scan_path(pod, "spec", "hostNetwork"), &out->host_network);
	if (s->hived)
		out->group = role_group(v[HIVED], a);
	struct scan containers = scan_begin(scan_path(pod, "spec", "containers"));
	struct span app;
	if (s->host_files && scan_item(&containers, &app))
		out->image = scan_text(scan_get(app, "image"), a);
	out->log = log_path(s, shown_attempt(s), out->name, a);
	return true;
}

/* ---- a task ---- */

static const char *const TASK[TASK_MEMBERS] = {
	[TASK_INDEX] = "index",
	[TASK_UID] = "instanceUID",
	[TASK_STARTED] = "startTime",
	[TASK_RAN] = "runTime",
	[TASK_ENDED] = "completionTime",
	[TASK_STATE] = "state",
	[TASK_RETRIES] = "retryPolicyStatus",
	[TASK_ATTEMPT] = "attemptStatus",
};
static const char *const TRY[TRY_MEMBERS] = {
	[TRY_ID] = "id",          [TRY_STARTED] = "startTime",
	[TRY_RAN] = "runTime",    [TRY_ENDED] = "completionTime",
	[TRY_POD] = "podUID",     [TRY_NODE] = "podNodeName",
	[TRY_POD_IP] = "podIP",   [TRY_HOST_IP] = "podHostIP",
	[TRY_PORTS] = "podPorts", [TRY_OUTCOME] = "completionStatus",
};

/* The walk stands before attemptStatus. */
static struct span read_try(struct task *out, struct scan *s)
{
	struct span value = { s->p, (size_t)(s->end - s->p) };
	struct scan in = scan_enter(s);
	scan_rest(&in, TRY, out->at, TRY_MEMBERS);
	scan_leave(s, &in);
	value.n = (size_t)(s->p - value.p);
	return value;
}

/* One pass over a task; tasks are most of the text of a job. */
static void task_walk(struct task *out, struct scan *s)
{
	struct span key;
	struct span value;
	memset(out, 0, sizeof(*out));
	while (scan_key(s, &key)) {
		size_t i = scan_which(key, TASK, TASK_MEMBERS);
		bool first = i < TASK_MEMBERS && !out->v[i].p;
		if (first && i == TASK_ATTEMPT && scan_peek(s) == SCAN_OBJECT)
			value = read_try(out, s);
		else if (!scan_value(s, &value))
			break;
		if (first)
			out->v[i] = value;
	}
	out->outcome = outcome_read(out->at[TRY_OUTCOME]);
	out->index = -1;
	(void)scan_int(out->v[TASK_INDEX], 0, INT32_MAX, &out->index);
}

void task_read(struct task *out, struct span status)
{
	struct scan s = scan_begin(status);
	task_walk(out, &s);
}

/* Reads the next item of a list; false: skipped, it is not a task. */
static bool task_next(struct task *out, struct scan *tasks)
{
	struct span other;
	if (scan_peek(tasks) != SCAN_OBJECT) {
		(void)scan_value(tasks, &other); /* if it fails, the walk ends */
		return false;
	}
	struct scan in = scan_enter(tasks);
	task_walk(out, &in);
	scan_leave(tasks, &in);
	return true;
}

static const char *state_word(enum job_state state, bool v1)
{
	return JOB_STATES[v1 && state == JOB_STOPPING ? JOB_RUNNING : state];
}

/* Only a valid IP address is shown. */
static void show_address(struct shower *w, const char *key, struct span value)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr parsed;
	struct span t = scan_text(value, w->a);
	bool fits = t.n > 0 && t.n < sizeof(text);
	if (fits) {
		memcpy(text, t.p, t.n);
		text[t.n] = '\0';
	}
	bool valid = fits && (inet_pton(AF_INET, text, &parsed) == 1 ||
	                      inet_pton(AF_INET6, text, &parsed) == 1);
	json_put_word(w->out, key, valid ? text : NULL);
}

/* {"ssh":"20000","http":"20001,20002"} of one task; pod is its uid without quotes.  Ports are not
 * stored. */
static void show_ports(struct shower *w, const struct portspec *p, const struct task *t,
                       struct span pod)
{
	enum { UID_MAX = 256 };
	/* The numbers that the task was given; else they are computed. */
	struct span given = scan_text(t->at[TRY_PORTS], w->a);
	given.p = given.n ? given.p : NULL;
	bool waits = w->s->here && !given.p && scan_text(t->at[TRY_POD_IP], w->a).n == 0;
	bool known =
	    pod.n && pod.n <= UID_MAX && t->index >= 0 && p->total <= (int64_t)w->ports && !waits;
	str_char(w->out, '{');
	for (size_t i = 0; known && i < p->n && i < SHOWN_LABELS; i++) {
		const struct port_label *l = &p->label[i];
		json_put_text(w->out, NULL, span_of(l->name));
		str_puts(w->out, ":\"");
		for (int64_t k = 0; k < l->count; k++) {
			int64_t port = p->sequential
			                   ? l->start + l->count * t->index + k
			                   : port_hashed(p->range, pod, span_of(l->name), k);
			if (given.p &&
			    parse_i64(span_next(&given, ','), 1, PORTS_MAX - 1, &port) < 0)
				break;
			if (port >= PORTS_MAX)
				break;
			if (k)
				str_char(w->out, ',');
			str_int(w->out, port);
		}
		str_char(w->out, '"');
	}
	str_char(w->out, '}');
	if (known)
		w->ports -= (size_t)p->total;
}

static void task_show_log(struct shower *w, const struct role *role, const struct task *t)
{
	int64_t id;
	if (!role->log.p || t->index < 0 || !scan_int(t->at[TRY_ID], 0, INT32_MAX, &id)) {
		json_put_null(w->out, "containerLog");
		return;
	}
	json_put_key(w->out, "containerLog");
	str_char(w->out, '"');
	str_span(w->out, role->log);
	str_int(w->out, t->index);
	str_puts(w->out, "/attempts/");
	str_int(w->out, id);
	str_puts(w->out, "/logs\"");
}

void show_try(struct shower *w, const struct role *role, const struct task *t)
{
	struct span state = scan_text(t->v[TASK_STATE], w->a);
	const struct outcome *o = &t->outcome;
	enum job_state is = attempt_state_of(state, o->has_code, o->code);
	json_put_word(w->out, "attemptState", state_word(is, w->s->v1));
	show_int(w->out, "attemptId", t->at[TRY_ID]);
	show_time(w->out, "currentAttemptCreatedTime", t->at[TRY_STARTED]);
	show_either(w->out, "currentAttemptLaunchedTime", t->at[TRY_RAN], t->at[TRY_ENDED]);
	show_time(w->out, "currentAttemptCompletedTime", t->at[TRY_ENDED]);
	show_text(w, "containerId", t->at[TRY_POD]);
	show_address(w, "containerIp", t->at[role->host_network ? TRY_HOST_IP : TRY_POD_IP]);
	show_text(w, "containerNodeName", t->at[TRY_NODE]);
	json_put_key(w->out, "containerPorts");
	show_ports(w, &role->ports, t, scan_text(t->at[TRY_POD], w->a));
	json_put_null(w->out, "containerGpus");
	task_show_log(w, role, t);
	json_put_known(w->out, "containerExitCode", o->has_code, o->code);
	show_exit_spec(w, "containerExitSpec", o);
	show_diagnostics(w, "containerExitDiagnostics", o->diagnostics);
	if (!w->s->hived)
		return;
	json_put_open(w->out, "hived", '{');
	show_text(w, "affinityGroupName", role->group);
	str_puts(w->out, ",\"lazyPreempted\":null,\"lazyPreemptionStatus\":null}");
}

void show_task(struct shower *w, const struct task *t)
{
	enum { TOTAL, ACCOUNTABLE, N };
	static const char *const KEYS[N] = { "totalRetriedCount", "accountableRetriedCount" };
	struct span retries[N];
	const struct outcome *o = &t->outcome;
	struct span state = scan_text(t->v[TASK_STATE], w->a);
	scan_members(t->v[TASK_RETRIES], KEYS, retries, N);
	json_put_known(w->out, "taskIndex", t->index >= 0, t->index);
	show_text(w, "taskUid", t->v[TASK_UID]);
	json_put_word(w->out, "taskState",
	              state_word(job_state_of(state, o->has_code, o->code), w->s->v1));
	show_int(w->out, "retries", retries[TOTAL]);
	show_int(w->out, "accountableRetries", retries[ACCOUNTABLE]);
	show_time(w->out, "createdTime", t->v[TASK_STARTED]);
	show_either(w->out, "launchedTime", t->v[TASK_RAN], t->v[TASK_ENDED]);
	show_time(w->out, "completedTime", t->v[TASK_ENDED]);
}

/* ---- all roles ---- */

static void show_role(struct shower *w, const struct role *role, size_t *n)
{
	struct scan tasks = scan_begin(role->tasks);
	json_put_text(w->out, NULL, role->name);
	str_puts(w->out, ":{\"taskRoleStatus\":{");
	json_put_text(w->out, "name", role->name);
	if (role->image.n)
		json_put_text(w->out, "imageUnused", role->image);
	str_puts(w->out, "},\"taskStatuses\":[");
	while (*n < SHOWN_TASKS && !w->out->full && tasks.open == '[' && scan_more(&tasks)) {
		NOT_ZEROED struct task t;
		++*n;
		if (!task_next(&t, &tasks))
			continue;
		json_put_open(w->out, NULL, '{');
		show_task(w, &t);
		show_try(w, role, &t);
		str_char(w->out, '}');
		if (w->ends)
			ends_add(w, role->name, &t);
	}
	str_puts(w->out, "]}");
}

int show_roles(struct shower *w, struct span attempt, struct err *e)
{
	struct templates templates = templates_read(w->s, w->a);
	struct span *names = ARENA_NEW(w->a, struct span, SHOWN_ROLES);
	struct span list;
	struct span status;
	size_t n = 0;
	size_t tasks = 0;
	if (attempt_roles(attempt, w->a, &list, e) < 0)
		return -1;
	struct scan roles = scan_begin(list);
	str_char(w->out, '{');
	for (size_t at = 0; n < SHOWN_ROLES && scan_item(&roles, &status); at++) {
		struct role role;
		bool good = role_read(&role, status, at, &templates);
		for (size_t i = 0; good && i < n; i++)
			good = !span_eq(names[i], role.name);
		if (!good)
			continue;
		names[n++] = role.name;
		show_role(w, &role, &tasks);
	}
	str_char(w->out, '}');
	if (w->out->full)
		return err_set(e, UNKNOWN_ERROR, "the stored job is too large");
	return 0;
}

/*
 * ---- diagnostics ----
 *
 * The diagnostics of FrameworkController are a sentence, often followed by JSON: "Pod failed:
 * PodPattern unmatched: {"containers":[...]}".  A termination message in it may contain the report
 * of pai-runtime, YAML between two markers.
 */

#define MATCHED      "matched: "
#define REPORT_START "[PAI_RUNTIME_ERROR_START]"
#define REPORT_END   "[PAI_RUNTIME_ERROR_END]"

enum { DEPTH = 16, NODES = 4096, KEY = 256, READABLE_MAX = 16 * DIAGNOSTICS_MAX };

struct outcome outcome_read(struct span completion_status)
{
	enum { CODE, PHRASE, TYPE, DIAGNOSTICS, TRIGGER, N };
	static const char *const KEYS[N] = { "code", "phrase", "type", "diagnostics", "trigger" };
	struct span v[N];
	struct outcome o = { .has_code = false };
	scan_members(completion_status, KEYS, v, N);
	o.has_code = scan_int(v[CODE], INT32_MIN, INT32_MAX, &o.code);
	o.phrase = v[PHRASE];
	o.type = scan_get(v[TYPE], "name");
	o.diagnostics = v[DIAGNOSTICS];
	o.trigger = v[TRIGGER];
	return o;
}

void show_exit_spec(struct shower *w, const char *key, const struct outcome *o)
{
	json_put_key(w->out, key);
	bool final = w->s->attempt.n > 0 || job_state_final(w->s->job->state);
	if (o->has_code)
		exit_spec_json(w->out, w->s->spec, o->code, final);
	else
		str_puts(w->out, "null");
}

/* ---- report of pai-runtime ---- */

/* A YAML mapping as JSON, with the name of the container. */
static struct span report_json(const struct node *map, struct span name, struct arena *a)
{
	STR_AUTO out = STR_INIT(READABLE_MAX);
	str_char(&out, '{');
	for (uint32_t i = 0; i < map->n; i++) {
		if (name.p && span_is(member_key(&map->member[i]), "name"))
			continue;
		json_put_text(&out, NULL, member_key(&map->member[i]));
		str_char(&out, ':');
		node_json(&out, &map->member[i].value);
	}
	if (name.p)
		json_put_text(&out, "name", name);
	str_char(&out, '}');
	return out.full ? (struct span){ NULL, 0 } : arena_span(a, str_view(&out));
}

static struct span report_read(struct span yaml, struct span name, struct arena *a)
{
	const struct budget budget = { DEPTH, NODES, DIAGNOSTICS_MAX, KEY };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc;
	if (yaml_read(yaml, &budget, a, &doc, &warnings, &e) < 0 || doc.root.type != NODE_MAP)
		return (struct span){ NULL, 0 };
	return report_json(&doc.root, name, a);
}

struct span said_report(struct span message)
{
	size_t from = span_find(message, 0, REPORT_START);
	size_t to = from == SIZE_MAX ? SIZE_MAX : span_find(message, from, REPORT_END);
	if (to == SIZE_MAX)
		return (struct span){ NULL, 0 };
	from += sizeof(REPORT_START) - 1;
	return (struct span){ message.p + from, to - from };
}

/* See said_message; *name: that of the container, p is NULL if it has none. */
static struct span message_find(struct span pod, struct arena *a, struct span *name)
{
	enum { NAME, CODE, MESSAGE, N };
	static const char *const KEYS[N] = { "name", "code", "message" };
	struct scan containers = scan_begin(scan_get(pod, "containers"));
	struct span container;
	struct span other = { NULL, 0 };
	while (scan_item(&containers, &container)) {
		struct span v[N];
		int64_t code;
		scan_members(container, KEYS, v, N);
		if (!scan_int(v[CODE], 1, INT32_MAX, &code))
			continue;
		struct span message = scan_text(v[MESSAGE], a);
		if (!other.n)
			other = message;
		*name = (struct span){ NULL, 0 };
		(void)scan_string(v[NAME], a, name); /* optional */
		if (said_report(message).p)
			return message;
	}
	return other;
}

/* The report of the first failed container that has one. */
static struct span report_find(struct span pod, struct arena *a)
{
	struct span name = { NULL, 0 };
	struct span report = said_report(message_find(pod, a, &name));
	return report.p ? report_read(report, name, a) : report;
}

/* ---- diagnostics ---- */

/* The sentence, followed by the JSON as YAML. */
static struct span said_summary(struct span text, size_t head, struct span json, struct arena *a)
{
	const struct budget budget = { DEPTH, NODES, DIAGNOSTICS_MAX, KEY };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	struct doc doc;
	bool syntax;
	STR_AUTO out = STR_INIT(READABLE_MAX);
	if (json_read(json, &budget, a, &doc, &warnings, &syntax, &e) < 0)
		return text;
	str_put(&out, text.p, head);
	str_char(&out, '\n');
	yaml_write(&out, &doc.root);
	return out.full ? text : arena_span(a, str_view(&out));
}

static struct span line_at(struct span text, size_t from)
{
	size_t n = 0;
	while (from + n < text.n && text.p[from + n] != '\n' && text.p[from + n] != '\r')
		n++;
	return (struct span){ text.p + from, n };
}

/* The JSON in diagnostics, which begins at *at; p is NULL if there is none. */
static struct span said_pod(struct span text, size_t *at)
{
	*at = text.n <= DIAGNOSTICS_MAX ? span_find(text, 0, MATCHED) : SIZE_MAX;
	if (*at == SIZE_MAX)
		return (struct span){ NULL, 0 };
	*at += sizeof(MATCHED) - 1;
	struct span json = line_at(text, *at);
	return scan_valid(json, DEPTH) ? json : (struct span){ NULL, 0 };
}

struct said said_read(struct span diagnostics, bool with_runtime, struct arena *a)
{
	struct said said = { { NULL, 0 }, { NULL, 0 } };
	struct span text = scan_text(diagnostics, a);
	size_t at;
	if (text.n == 0)
		return said;
	said.summary = text;
	struct span json = said_pod(text, &at);
	if (!json.p)
		return said;
	said.summary = said_summary(text, at - 1, json, a);
	if (with_runtime)
		said.runtime = report_find(json, a);
	return said;
}

struct span said_message(struct span diagnostics, struct arena *a)
{
	struct span name;
	size_t at;
	return message_find(said_pod(scan_text(diagnostics, a), &at), a, &name);
}

/* Diagnostics of many tasks are often equal; the amount that is parsed is limited. */
void show_diagnostics(struct shower *w, const char *key, struct span diagnostics)
{
	json_put_key(w->out, key);
	if (w->same_in.p && span_eq(w->same_in, diagnostics)) {
		if (str_reserve(w->out, w->same_n))
			str_put(w->out, w->out->p + w->same_at, w->same_n);
		return;
	}
	w->same_in = diagnostics;
	w->same_at = w->out->n;
	struct said said = { { NULL, 0 }, { NULL, 0 } };
	if (diagnostics.n <= w->readable) {
		said = said_read(diagnostics, false, w->a);
		w->readable -= diagnostics.n;
	} else {
		said.summary = scan_text(diagnostics, w->a);
	}
	if (said.summary.n)
		str_json(w->out, said.summary);
	else
		str_puts(w->out, "null");
	w->same_n = w->out->n - w->same_at;
}
