/* Reads statuses by tables of fields, and inflates roles that are stored compressed. */
#include "k8s/framework/view.h"

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

bool fw_view_inflate_roles(struct span value, struct arena *a, struct span *out)
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

bool fw_view_roles(const struct fw_view *f, struct arena *a, struct span *list)
{
	*list = f->roles;
	if (list->p || !f->packed_roles.p)
		return !list->p || scan_type(*list) == SCAN_ARRAY;
	return fw_view_inflate_roles(f->packed_roles, a, list);
}

bool fw_view_next(struct scan *tasks, struct arena *a, struct fw_view *out)
{
	out->roles = out->packed_roles = (struct span){ NULL, 0 };
	return scan_next_fields(tasks, TASK, out, a, &out->odd);
}

bool fw_view_task(const struct fw_view *f, struct span role, int64_t index, struct arena *a,
                  struct fw_view *out)
{
	struct span list;
	struct span item;
	if (!fw_view_roles(f, a, &list))
		return false;
	for (struct scan roles = scan_begin(list); scan_item(&roles, &item);) {
		if (!span_eq(scan_text(scan_get(item, "name"), a), role))
			continue;
		struct scan tasks = scan_begin(scan_get(item, "taskStatuses"));
		while (scan_item(&tasks, &item)) {
			int64_t n = -1;
			if (!scan_int(scan_get(item, "index"), 0, INT32_MAX, &n) || n != index)
				continue;
			*out = (struct fw_view){ 0 };
			out->odd = !scan_fields(item, TASK, out, a);
			return true;
		}
	}
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
