/* Reads statuses by tables of fields, and inflates roles that are stored compressed. */
#include "jobs/framework/view.h"

#include <stddef.h>

#include "base/enc.h"
#include "base/gzip.h"
#include "base/json/fields.h"

#define AT(member) offsetof(struct fw_view, member)

static const struct scan_field RETRIES[] = {
	{ "totalRetriedCount", SCAN_TO_INT, AT(retried), NULL },
	{ "accountableRetriedCount", SCAN_TO_INT, AT(accountable), NULL },
	{ "retryDelaySec", SCAN_TO_INT, AT(retry_delay_s), NULL },
	{ "alikeCount", SCAN_TO_INT, AT(alike), NULL },
	{ "lastCompletionStatus", SCAN_TO_RAW, AT(last), NULL },
	{ 0 },
};
/* A Framework has configMapUID, a task podUID. */
#define ATTEMPT(uid_key)                                                                           \
	{ "id", SCAN_TO_INT, AT(attempt), NULL }, { uid_key, SCAN_TO_TEXT, AT(uid), NULL },        \
	    { "startTime", SCAN_TO_TIME, AT(attempt_start_ms), NULL },                             \
	    { "runTime", SCAN_TO_TIME, AT(attempt_run_ms), NULL },                                 \
	    { "completionTime", SCAN_TO_TIME, AT(attempt_completion_ms), NULL },                   \
	{                                                                                          \
		"completionStatus", SCAN_TO_RAW, AT(outcome), NULL                                 \
	}
#define LIFE(attempt)                                                                              \
	{ "state", SCAN_TO_TEXT, AT(state), NULL },                                                \
	    { "startTime", SCAN_TO_TIME, AT(start_ms), NULL },                                     \
	    { "runTime", SCAN_TO_TIME, AT(run_ms), NULL },                                         \
	    { "completionTime", SCAN_TO_TIME, AT(completion_ms), NULL },                           \
	    { "transitionTime", SCAN_TO_TIME, AT(transition_ms), NULL },                           \
	    { "retryPolicyStatus", SCAN_TO_MEMBERS, 0, RETRIES },                                  \
	{                                                                                          \
		"attemptStatus", SCAN_TO_MEMBERS, 0, attempt                                       \
	}
static const struct scan_field FRAMEWORK_ATTEMPT[] = {
	ATTEMPT("configMapUID"),
	{ "instanceUID", SCAN_TO_TEXT, AT(instance), NULL },
	{ "taskRoleStatuses", SCAN_TO_RAW, AT(roles), NULL },
	{ "taskRoleStatusesCompressed", SCAN_TO_RAW, AT(packed_roles), NULL },
	{ 0 },
};
static const struct scan_field TASK_ATTEMPT[] = {
	ATTEMPT("podUID"),
	{ "podNodeName", SCAN_TO_TEXT, AT(node), NULL },
	{ "podIP", SCAN_TO_TEXT, AT(pod_ip), NULL },
	{ "podHostIP", SCAN_TO_TEXT, AT(host_ip), NULL },
	{ "podPorts", SCAN_TO_TEXT, AT(pod_ports), NULL },
	{ "podGpus", SCAN_TO_TEXT, AT(pod_gpus), NULL },
	{ 0 },
};
static const struct scan_field FRAMEWORK[] = { LIFE(FRAMEWORK_ATTEMPT), { 0 } };
static const struct scan_field TASK[] = { { "index", SCAN_TO_INT, AT(index), NULL },
	                                  { "instanceUID", SCAN_TO_TEXT, AT(instance), NULL },
	                                  LIFE(TASK_ATTEMPT),
	                                  { 0 } };

static bool view_is_object(struct span status)
{
	enum scan_type type = scan_type(status);
	return type == SCAN_NONE || type == SCAN_NULL || type == SCAN_OBJECT;
}

void fw_view_read(struct span status, struct arena *a, struct fw_view *out)
{
	*out = (struct fw_view){ .index = -1 };
	out->odd = !scan_fields(status, FRAMEWORK, out, a) || !view_is_object(status);
}

void fw_view_attempt(struct span status, struct arena *a, struct fw_view *out)
{
	*out = (struct fw_view){ .index = -1 };
	out->odd = !scan_fields(status, FRAMEWORK_ATTEMPT, out, a) || !view_is_object(status);
}

/* The list in the value of taskRoleStatusesCompressed. */
static bool view_inflate_roles(struct span value, struct arena *a, struct span *out)
{
	enum { RATIO = 200, DEPTH = 64 };
	struct span packed;
	struct span text;
	if (!scan_string(value, a, &text) || base64_decode(a, text, &packed) < 0 ||
	    !gzip_unpack(packed, FW_INFLATED_MAX, RATIO, a, &text) || !scan_valid(text, DEPTH) ||
	    scan_type(text) != SCAN_ARRAY)
		return false;
	*out = text;
	return true;
}

struct span fw_view_attempt_json(struct span framework, bool roles, struct arena *a)
{
	struct span attempt = scan_path(framework, "status", "attemptStatus");
	if (roles || scan_type(attempt) != SCAN_OBJECT)
		return attempt;
	STR_AUTO out = STR_INIT(attempt.n + 1);
	struct scan members = scan_begin(attempt);
	struct span key;
	struct span value;
	str_char(&out, '{');
	while (scan_member(&members, &key, &value)) {
		if (span_is(key, "taskRoleStatuses") || span_is(key, "taskRoleStatusesCompressed"))
			continue;
		str_puts(&out, out.n > 1 ? ",\"" : "\"");
		str_span(&out, key);
		str_puts(&out, "\":");
		str_span(&out, value);
	}
	str_char(&out, '}');
	return arena_span(a, str_view(&out));
}

struct completion_status fw_view_completion(struct span completion_status, struct arena *a)
{
#define COMPLETION_AT(member) offsetof(struct completion_status, member)
	static const struct scan_field TYPE[] = {
		{ "name", SCAN_TO_TEXT, COMPLETION_AT(type), NULL }, { 0 }
	};
	static const struct scan_field TRIGGER[] = {
		{ "message", SCAN_TO_TEXT, COMPLETION_AT(trigger_message), NULL },
		{ "taskRoleName", SCAN_TO_TEXT, COMPLETION_AT(trigger_role), NULL },
		{ "taskIndex", SCAN_TO_INT, COMPLETION_AT(trigger_index), NULL },
		{ 0 },
	};
	static const struct scan_field FIELDS[] = {
		{ "code", SCAN_TO_RAW, COMPLETION_AT(code_json), NULL },
		{ "phrase", SCAN_TO_TEXT, COMPLETION_AT(phrase), NULL },
		{ "type", SCAN_TO_MEMBERS, 0, TYPE },
		{ "diagnostics", SCAN_TO_RAW, COMPLETION_AT(diagnostics), NULL },
		{ "trigger", SCAN_TO_MEMBERS, 0, TRIGGER },
		{ 0 },
	};
	struct completion_status o = { .has_code = false };
	o.odd =
	    !scan_fields(completion_status, FIELDS, &o, a) || !view_is_object(completion_status);
	o.has_code = scan_int(o.code_json, INT32_MIN, INT32_MAX, &o.code);
	o.odd |= o.code_json.p && !o.has_code;
	return o;
}

bool fw_view_summary(const struct fw_view *f, struct arena *a, struct fw_summary *out)
{
	const struct completion_status end = fw_view_completion(f->outcome, a);
	const struct completion_status last = fw_view_completion(f->last, a);
	*out = (struct fw_summary){ .state = f->state,
		                    .run_ms = f->run_ms,
		                    .completion_ms = f->completion_ms,
		                    .transition_ms = f->transition_ms,
		                    .retried = f->retried,
		                    .accountable = f->accountable,
		                    .retry_delay_s = f->retry_delay_s,
		                    .attempt = f->attempt,
		                    .has_code = end.has_code,
		                    .has_last = last.has_code,
		                    .code = end.code,
		                    .last_code = last.code };
	return !end.odd && !last.odd;
}

bool fw_walk_begin(struct fw_walk *w, const struct fw_view *f, struct arena *a)
{
	struct span list = f->roles;
	bool good = list.p              ? scan_type(list) == SCAN_ARRAY
	            : f->packed_roles.p ? view_inflate_roles(f->packed_roles, a, &list)
	                                : true;
	*w = (struct fw_walk){ .in_roles = scan_begin(good ? list : SPAN("")), .a = a };
	return good;
}

bool fw_walk_role(struct fw_walk *w)
{
	struct span role;
	if (!scan_item(&w->in_roles, &role))
		return false;
	w->role = scan_text(scan_get(role, "name"), w->a);
	w->in_tasks = scan_begin(scan_inside(role, "taskStatuses"));
	return true;
}

bool fw_walk_task(struct fw_walk *w, struct fw_view *out)
{
	while (w->in_tasks.open == '[' && scan_more(&w->in_tasks)) {
		w->tasks++;
		out->roles = out->packed_roles = (struct span){ NULL, 0 };
		if (scan_next_fields(&w->in_tasks, TASK, out, w->a, &out->odd))
			return true;
	}
	return false;
}

bool fw_view_task(const struct fw_view *f, struct span role, int64_t index, struct arena *a,
                  struct fw_view *out)
{
	struct fw_walk w;
	(void)fw_walk_begin(&w, f, a); /* else there is no role */
	while (fw_walk_role(&w))
		while (span_eq(w.role, role) && fw_walk_task(&w, out))
			if (out->index == index)
				return true;
	return false;
}

bool fw_view_denial(struct str *out, struct span message)
{
	static const char FORBIDDEN[] = " is forbidden: "; /* as admission plugins begin */
	size_t at = span_find(message, 0, FORBIDDEN);
	struct span why = at == SIZE_MAX ? message : span_from(message, at + sizeof(FORBIDDEN) - 1);
	/* 'User "x" cannot create resource "pods"': a missing right. */
	if (at == SIZE_MAX ? span_find(message, 0, "denied the request") == SIZE_MAX
	                   : span_starts(why, "User "))
		return false;
	str_puts(out, "The cluster's policy forbids the pod; ask the administrator of the "
	              "cluster: ");
	str_span(out, why);
	return true;
}
