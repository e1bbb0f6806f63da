/* Task roles, tasks, their ports and the diagnostics of their ends. */
#include "server/jobs/jobs_internal.h"

#include <stddef.h>

#include "base/doc/tree.h"
#include "base/doc/yaml.h"
#include "base/enc.h"
#include "base/image/image.h"
#include "base/json/fields.h"
#include "base/str.h"
#include "jobs/store/paths.h"

enum { ROLE_NAME_MAX = 63, HIVED_DEPTH = 32, PATH_MAX_BYTES = 4096 };
enum { KUBERNETES_GRACE_S = 30 }; /* of a pod that names no time */

#define POD_REFUSED "Failed to create Pod: " /* the API server's answer follows, as JSON */

enum { DEPTH = 16, READABLE_MAX = 16 * DIAGNOSTICS_MAX };

/* The message of the API server that refused the pod; "" if it did not. */
static struct span said_refusal(struct span text, struct arena *a)
{
	struct span json = span_from(text, sizeof(POD_REFUSED) - 1);
	if (!span_starts(text, POD_REFUSED) || !scan_valid(json, DEPTH))
		return SPAN("");
	return scan_text(scan_path(json, "ErrStatus", "message"), a);
}

void show_exit_spec(struct shower *w, const char *key, const struct completion_status *o)
{
	bool final = w->s->attempt.n > 0 || job_state_final(w->s->job->state);
	STR_AUTO spec = STR_INIT(READABLE_MAX);
	STR_AUTO denial = STR_INIT(READABLE_MAX);
	json_put_key(w->out, key);
	if (!o->has_code) {
		str_puts(w->out, "null");
		return;
	}
	exit_spec_json(&spec, w->s->spec, o->code, final);
	struct span reason = scan_get(str_view(&spec), "reason");
	if (reason.p && span_starts(o->diagnostics, "\"" POD_REFUSED) &&
	    fw_view_denial(&denial, said_refusal(scan_text(o->diagnostics, w->a), w->a))) {
		size_t at = (size_t)(reason.p - spec.p);
		str_put(w->out, spec.p, at);
		str_json(w->out, str_view(&denial));
		str_span(w->out, span_from(str_view(&spec), at + reason.n));
	} else {
		str_span(w->out, str_view(&spec));
	}
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

static const struct budget READABLE = { DEPTH, 4096, DIAGNOSTICS_MAX, 256 };

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

/* The report of the first failed container that has one, a YAML mapping: as JSON, with the name of
 * the container. */
static struct span report_find(struct span pod, struct arena *a)
{
	struct span name = { NULL, 0 };
	struct span report = said_report(message_find(pod, a, &name));
	const struct node *map = report.p ? doc_quiet(report, &READABLE, a) : NULL;
	STR_AUTO out = STR_INIT(READABLE_MAX);
	if (!node_is(map, NODE_MAP))
		return (struct span){ NULL, 0 };
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

/* The JSON in diagnostics, which begins at *at, to the end of its line; p is NULL if there is none.
 */
static struct span said_pod(struct span text, size_t *at)
{
	*at = text.n <= DIAGNOSTICS_MAX ? span_find(text, 0, MATCHED) : SIZE_MAX;
	if (*at == SIZE_MAX)
		return (struct span){ NULL, 0 };
	*at += sizeof(MATCHED) - 1;
	struct span json = span_from(text, *at);
	json = span_to(json, span_chr(json, '\n'));
	json = span_to(json, span_chr(json, '\r'));
	return scan_valid(json, DEPTH) ? json : (struct span){ NULL, 0 };
}

struct split_diagnostics said_read(struct span diagnostics, bool with_runtime, struct arena *a)
{
	struct span text = scan_text(diagnostics, a);
	struct split_diagnostics said = { .summary = text.n ? text : (struct span){ NULL, 0 } };
	struct span refusal = said_refusal(text, a);
	STR_AUTO denial = STR_INIT(READABLE_MAX);
	if (fw_view_denial(&denial, refusal))
		said.summary = refusal;
	size_t at;
	struct span json = said_pod(text, &at);
	const struct node *pod = json.p ? doc_quiet(json, &READABLE, a) : NULL;
	if (pod) { /* the sentence, followed by the JSON as YAML */
		STR_AUTO out = STR_INIT(READABLE_MAX);
		str_put(&out, text.p, at - 1);
		str_char(&out, '\n');
		yaml_write(&out, pod);
		if (!out.full)
			said.summary = arena_span(a, str_view(&out));
	}
	if (json.p && with_runtime)
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
static void show_diagnostics(struct shower *w, const char *key, struct span diagnostics)
{
	json_put_key(w->out, key);
	if (w->same_in.p && span_eq(w->same_in, diagnostics)) {
		if (str_reserve(w->out, w->same_n))
			str_put(w->out, w->out->p + w->same_at, w->same_n);
		return;
	}
	w->same_in = diagnostics;
	w->same_at = w->out->n;
	struct span summary;
	if (diagnostics.n <= w->readable) {
		summary = said_read(diagnostics, false, w->a).summary;
		w->readable -= diagnostics.n;
	} else {
		summary = scan_text(diagnostics, w->a);
	}
	if (summary.n)
		str_json(w->out, summary);
	else
		str_puts(w->out, "null");
	w->same_n = w->out->n - w->same_at;
}

/* ---- roles ---- */

static void templates_read(struct shower *w)
{
	struct scan roles = scan_begin(scan_path(w->s->doc, "spec", "taskRoles"));
	w->template = ARENA_NEW(w->a, struct template, SHOWN_ROLES);
	for (struct span role; w->n_templates < SHOWN_ROLES && scan_item(&roles, &role);)
		w->template[w->n_templates++] = (struct template){
			.name = scan_text(scan_get(role, "name"), w->a),
			.pod = scan_path(role, "task", "pod"),
			.role = role,
		};
}

/* p is NULL if the attempt has no number. */
static struct span log_path(const struct shower *w, struct span role)
{
	STR_AUTO out = STR_INIT(PATH_MAX_BYTES);
	STR_AUTO id = STR_INIT(PATH_MAX_BYTES);
	if (w->attempt.attempt < 0)
		return (struct span){ NULL, 0 };
	job_id_text(&id, w->s->job);
	str_puts(&out, "/api/v2/jobs/");
	query_encode(&out, str_view(&id));
	str_puts(&out, "/attempts/");
	str_int(&out, w->attempt.attempt);
	str_puts(&out, "/taskRoles/");
	query_encode(&out, role);
	str_puts(&out, "/taskIndex/");
	return arena_span(w->a, str_view(&out));
}

bool role_read(struct shower *w, struct detail_role *out, struct span name, size_t at)
{
	enum { PORTS, HIVED, N };
	static const char *const KEYS[N] = { "rest-server/port-scheduling-spec",
		                             "hivedscheduler.microsoft.com/pod-scheduling-spec" };
	const struct job_shown *s = w->s;
	struct arena *a = w->a;
	struct span v[N];
	ERR_AUTO wrong = { 0 };
	bool good = name.n > 0 && name.n <= ROLE_NAME_MAX;
	for (size_t i = 0; i < name.n && good; i++)
		good = is_lower_alnum(name.p[i]);
	if (!good) /* FrameworkController refuses it */
		return false;
	if (!w->template)
		templates_read(w);
	/* The template usually has the same index as the status. */
	const struct template *own = w->template;
	const struct template *end = own + w->n_templates;
	if (at < w->n_templates && span_eq(own[at].name, name))
		own += at;
	while (own < end && !span_eq(own->name, name))
		own++;
	struct span pod = own < end ? own->pod : (struct span){ NULL, 0 };
	*out = (struct detail_role){ .name = name, .log = log_path(w, name) };
	out->gpus = pod.p ? job_entry_role_gpus(own->role, a) : 0;
	scan_members(scan_path(pod, "metadata", "annotations"), KEYS, v, N);
	/* An invalid label is left out. */
	(void)portspec_read(scan_text(v[PORTS], a), -1, a, &out->ports, &wrong);
	if (!scan_int(scan_path(pod, "spec", "terminationGracePeriodSeconds"), 0, INT32_MAX,
	              &out->grace_s))
		out->grace_s = -1;
	out->host_network = span_is(scan_path(pod, "spec", "hostNetwork"), "true");
	struct span hived = s->hived ? scan_text(v[HIVED], a) : SPAN("");
	if (scan_valid(hived, HIVED_DEPTH))
		(void)scan_string(scan_path(hived, "affinityGroup", "name"), a, &out->group);
	struct scan containers = scan_begin(scan_path(pod, "spec", "containers"));
	struct span app;
	if (s->host_files && scan_item(&containers, &app))
		out->image = scan_text(scan_get(app, "image"), a);
	if (span_is(out->image, IMAGE_OF_HOST))
		out->image = SPAN("");
	return true;
}

/* ---- a task ---- */

static const char *state_word(enum job_state state, bool v1)
{
	return JOB_STATES[v1 && state == JOB_STOPPING ? JOB_RUNNING : state];
}

/* {"ssh":"20000","http":"20001,20002"} of one task.  Ports are not stored. */
static void show_ports(struct shower *w, const struct portspec *p, const struct fw_view *t)
{
	enum { UID_MAX = 256 };
	/* The numbers that the task was given; else they are computed. */
	struct span given = t->pod_ports;
	bool is_given = given.n > 0;
	bool waits = w->s->here && !is_given && t->pod_ip.n == 0;
	bool known = t->uid.n && t->uid.n <= UID_MAX && t->index >= 0 &&
	             p->total <= (int64_t)w->ports && !waits;
	str_char(w->out, '{');
	for (size_t i = 0; known && i < p->n && i < SHOWN_LABELS; i++) {
		const struct port_label *l = &p->label[i];
		json_put_text(w->out, NULL, span_of(l->name));
		str_puts(w->out, ":\"");
		for (int64_t k = 0; k < l->count; k++) {
			int64_t port = p->sequential
			                   ? l->start + l->count * t->index + k
			                   : port_hashed(p->range, t->uid, span_of(l->name), k);
			if (is_given &&
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

/* Their indexes, if they are known. */
static void show_gpus(struct shower *w, struct span indexes)
{
	int64_t index;
	if (!indexes.n)
		return;
	json_put_open(w->out, "gpuIndexes", '[');
	while (indexes.n)
		if (parse_i64(span_next(&indexes, ','), 0, INT32_MAX, &index) == 0)
			json_put_int(w->out, NULL, index);
	str_char(w->out, ']');
}

void show_task_attempt(struct shower *w, const struct detail_role *role, const struct fw_view *t,
                       const struct completion_status *o)
{
	struct str *out = w->out;
	static const struct span NONE = { NULL, 0 };
	enum job_state is = attempt_state_of(t->state, o->has_code, o->code);
	json_put_word(out, "attemptState", state_word(is, w->s->v1));
	json_put_known(out, "attemptId", t->attempt >= 0, t->attempt);
	job_put_ms(out, "currentAttemptCreatedTime", t->attempt_start_ms);
	job_put_ms(out, "currentAttemptLaunchedTime",
	           t->attempt_run_ms >= 0 ? t->attempt_run_ms : t->attempt_completion_ms);
	job_put_ms(out, "currentAttemptCompletedTime", t->attempt_completion_ms);
	json_put_text(out, "containerId", t->uid);
	struct span ip = role->host_network ? t->host_ip : t->pod_ip;
	json_put_text(out, "containerIp", ip.n && span_all(ip, "0-9a-fA-F.:") ? ip : NONE);
	json_put_text(out, "containerNodeName", t->node);
	if (span_is(t->state, "AttemptDeleting") && t->transition_ms >= 0 && !w->s->here) {
		int64_t grace_s = role->grace_s >= 0 ? role->grace_s : KUBERNETES_GRACE_S;
		json_put_int(out, "deletionDue", t->transition_ms + grace_s * 1000);
	}
	json_put_key(out, "containerPorts");
	show_ports(w, &role->ports, t);
	json_put_null(out, "containerGpus");
	show_gpus(w, t->pod_gpus);
	json_put_key(out, "containerLog");
	if (role->log.p && t->index >= 0 && t->attempt >= 0) {
		str_char(out, '"');
		str_span(out, role->log);
		str_int(out, t->index);
		str_puts(out, "/attempts/");
		str_int(out, t->attempt);
		str_puts(out, "/logs\"");
	} else {
		str_puts(out, "null");
	}
	json_put_known(out, "containerExitCode", o->has_code, o->code);
	show_exit_spec(w, "containerExitSpec", o);
	show_diagnostics(w, "containerExitDiagnostics", o->diagnostics);
	if (!w->s->hived)
		return;
	json_put_open(out, "hived", '{');
	json_put_text(out, "affinityGroupName", role->group);
	str_puts(out, ",\"lazyPreempted\":null,\"lazyPreemptionStatus\":null}");
}

void show_task(struct shower *w, const struct fw_view *t, const struct completion_status *o)
{
	struct str *out = w->out;
	enum job_state is = job_state_of(t->state, o->has_code, o->code);
	json_put_known(out, "taskIndex", t->index >= 0, t->index);
	json_put_text(out, "taskUid", t->instance);
	json_put_word(out, "taskState", state_word(is, w->s->v1));
	json_put_known(out, "retries", t->retried >= 0, t->retried);
	json_put_known(out, "accountableRetries", t->accountable >= 0, t->accountable);
	const struct completion_status last = fw_view_completion(t->last, w->a);
	if (last.has_code)
		json_put_int(out, "previousExitCode", last.code);
	job_put_ms(out, "createdTime", t->start_ms);
	job_put_ms(out, "launchedTime", t->run_ms >= 0 ? t->run_ms : t->completion_ms);
	job_put_ms(out, "completedTime", t->completion_ms);
}

/* ---- all roles ---- */

static void show_role(struct shower *w, const struct detail_role *role)
{
	NOT_ZEROED struct fw_view t;
	json_put_text(w->out, NULL, role->name);
	str_puts(w->out, ":{\"taskRoleStatus\":{");
	json_put_text(w->out, "name", role->name);
	if (role->image.n)
		json_put_text(w->out, "imageUnused", role->image);
	if (role->gpus)
		json_put_int(w->out, "gpuNumber", role->gpus);
	if (role->grace_s >= 0)
		json_put_int(w->out, "gracePeriodSeconds", role->grace_s);
	str_puts(w->out, "},\"taskStatuses\":[");
	while (w->walk.tasks < SHOWN_TASKS && !w->out->full && fw_walk_task(&w->walk, &t)) {
		const struct completion_status ended = fw_view_completion(t.outcome, w->a);
		json_put_open(w->out, NULL, '{');
		show_task(w, &t, &ended);
		show_task_attempt(w, role, &t, &ended);
		str_char(w->out, '}');
		if (w->ends)
			task_ends_add(w, role->name, &t, &ended);
	}
	str_puts(w->out, "]}");
}

int show_roles(struct shower *w, struct err *e)
{
	struct span *names = ARENA_NEW(w->a, struct span, SHOWN_ROLES);
	size_t n = 0;
	str_char(w->out, '{');
	for (size_t at = 0; n < SHOWN_ROLES && fw_walk_role(&w->walk); at++) {
		struct detail_role role;
		bool good = role_read(w, &role, w->walk.role, at);
		for (size_t i = 0; good && i < n; i++)
			good = !span_eq(names[i], role.name);
		if (!good)
			continue;
		names[n++] = role.name;
		show_role(w, &role);
	}
	str_char(w->out, '}');
	return w->out->full ? err_set(e, UNKNOWN_ERROR, "the stored job is too large") : 0;
}
