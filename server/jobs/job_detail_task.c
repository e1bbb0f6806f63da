/* Task roles and their tasks. */
#include "server/jobs/job_detail_task.h"

#include <arpa/inet.h>

#include "base/chars.h"

enum { ROLE_NAME_MAX = 63, HIVED_DEPTH = 32, PATH_MAX_BYTES = 4096 };

/* ---- roles ---- */

/* As FrameworkController has them; others have no pods. */
static bool is_role_name(struct span t)
{
	for (size_t i = 0; i < t.n; i++) {
		if (!is_alnum(t.p[i]) || is_upper(t.p[i]))
			return false;
	}
	return t.n > 0 && t.n <= ROLE_NAME_MAX;
}

/* The pod template of a role of this name.  Mostly it stands where the role stands in the status.
 */
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

/* The name of its group of cells, as it lies in the annotation. */
static struct span group_of(struct span annotation, struct arena *a)
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
	show_segment(&out, str_view(&id));
	str_puts(&out, "/attempts/");
	str_int(&out, n);
	str_puts(&out, "/taskRoles/");
	show_segment(&out, role);
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
	*out = (struct role){ .name = scan_text(scan_get(status, "name"), a) };
	if (!is_role_name(out->name))
		return false;
	struct span pod = pod_of(t, at, out->name);
	scan_members(scan_path(pod, "metadata", "annotations"), KEYS, v, N);
	out->ports = ports_read(v[PORTS], a);
	out->tasks = scan_inside(status, "taskStatuses");
	(void)scan_bool(scan_path(pod, "spec", "hostNetwork"), &out->host_network);
	if (s->hived)
		out->group = group_of(v[HIVED], a);
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
	[TRY_ID] = "id",
	[TRY_STARTED] = "startTime",
	[TRY_RAN] = "runTime",
	[TRY_ENDED] = "completionTime",
	[TRY_POD] = "podUID",
	[TRY_NODE] = "podNodeName",
	[TRY_POD_IP] = "podIP",
	[TRY_HOST_IP] = "podHostIP",
	[TRY_OUTCOME] = "completionStatus",
};

/* Of a walk before its attempt. */
static struct span read_try(struct task *out, struct scan *s)
{
	struct span value = { s->p, (size_t)(s->end - s->p) };
	struct scan in = scan_enter(s);
	scan_rest(&in, TRY, out->at, TRY_MEMBERS);
	scan_leave(s, &in);
	value.n = (size_t)(s->p - value.p);
	return value;
}

/* One walk over all that there is of a task, which is most of the text of a job. */
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

/* The next item of a list of tasks; false if it is none, and passed over. */
static bool task_next(struct task *out, struct scan *tasks)
{
	struct span other;
	if (scan_peek(tasks) != SCAN_OBJECT) {
		(void)scan_value(tasks, &other); /* if not even that, the walk is over */
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

/* What is no address, of whatever the object says, is none. */
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
	if (fits &&
	    (inet_pton(AF_INET, text, &parsed) == 1 || inet_pton(AF_INET6, text, &parsed) == 1))
		show_word(w, key, text);
	else
		show_null(w, key);
}

static void show_log(struct shower *w, const struct role *role, const struct task *t)
{
	int64_t id;
	if (!role->log.p || t->index < 0 || !scan_int(t->at[TRY_ID], 0, INT32_MAX, &id)) {
		show_null(w, ",\"containerLog\":");
		return;
	}
	str_puts(w->out, ",\"containerLog\":\"");
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
	str_puts(w->out, "\"attemptState\":\"");
	str_puts(w->out, state_word(is, w->s->v1));
	str_char(w->out, '"');
	show_int(w, ",\"attemptId\":", t->at[TRY_ID]);
	show_time(w, ",\"currentAttemptCreatedTime\":", t->at[TRY_STARTED]);
	show_either(w, ",\"currentAttemptLaunchedTime\":", t->at[TRY_RAN], t->at[TRY_ENDED]);
	show_time(w, ",\"currentAttemptCompletedTime\":", t->at[TRY_ENDED]);
	show_text(w, ",\"containerId\":", t->at[TRY_POD]);
	show_address(w, ",\"containerIp\":", t->at[role->host_network ? TRY_HOST_IP : TRY_POD_IP]);
	show_text(w, ",\"containerNodeName\":", t->at[TRY_NODE]);
	str_puts(w->out, ",\"containerPorts\":");
	show_ports(w, &role->ports, scan_text(t->at[TRY_POD], w->a), t->index);
	show_null(w, ",\"containerGpus\":");
	show_log(w, role, t);
	if (o->has_code)
		show_number(w, ",\"containerExitCode\":", o->code);
	else
		show_null(w, ",\"containerExitCode\":");
	show_exit_spec(w, ",\"containerExitSpec\":", o);
	show_diagnostics(w, ",\"containerExitDiagnostics\":", o->diagnostics);
	if (!w->s->hived)
		return;
	show_text(w, ",\"hived\":{\"affinityGroupName\":", role->group);
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
	if (t->index >= 0)
		show_number(w, "\"taskIndex\":", t->index);
	else
		show_null(w, "\"taskIndex\":");
	show_text(w, ",\"taskUid\":", t->v[TASK_UID]);
	str_puts(w->out, ",\"taskState\":\"");
	str_puts(w->out, state_word(job_state_of(state, o->has_code, o->code), w->s->v1));
	str_char(w->out, '"');
	show_int(w, ",\"retries\":", retries[TOTAL]);
	show_int(w, ",\"accountableRetries\":", retries[ACCOUNTABLE]);
	show_time(w, ",\"createdTime\":", t->v[TASK_STARTED]);
	show_either(w, ",\"launchedTime\":", t->v[TASK_RAN], t->v[TASK_ENDED]);
	show_time(w, ",\"completedTime\":", t->v[TASK_ENDED]);
}

/* ---- all of them ---- */

static void show_role(struct shower *w, const struct role *role, size_t *n)
{
	struct scan tasks = scan_begin(role->tasks);
	bool first = true;
	str_json(w->out, role->name);
	str_puts(w->out, ":{\"taskRoleStatus\":{\"name\":");
	str_json(w->out, role->name);
	str_puts(w->out, "},\"taskStatuses\":[");
	while (*n < SHOWN_TASKS && !w->out->full && tasks.open == '[' && scan_more(&tasks)) {
		NOT_ZEROED struct task t;
		++*n;
		if (!task_next(&t, &tasks))
			continue;
		str_puts(w->out, first ? "{" : ",{");
		show_task(w, &t);
		str_char(w->out, ',');
		show_try(w, role, &t);
		str_char(w->out, '}');
		first = false;
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
		if (n)
			str_char(w->out, ',');
		names[n++] = role.name;
		show_role(w, &role, &tasks);
	}
	str_char(w->out, '}');
	if (w->out->full)
		return err_set(e, UNKNOWN_ERROR, "what is stored of the job is too large");
	return 0;
}
