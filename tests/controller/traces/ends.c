#include "tests/controller/traces/play.h"

/*
 * Faults may change times, uids, texts of diagnostics, which states a task has passed, and how
 * often something was asked.  All this must be the same: whether the Framework is there; its state,
 * attempt, code and retries; its roles and their tasks, each with state, attempt, code, retries and
 * mark of removal; and which pods there are, with phase and node.
 *
 * If the user patches the Framework earlier than in the record, only a stop must not be lost
 * (end_allow_early).  Else one thing may differ (end_allow_trigger): if several tasks end in the
 * same step, a fault that delays one of them makes another the trigger, and the Framework's code is
 * that of the trigger.
 */
static bool end_counts(const char *key)
{
	static const char *const KEYS[] = {
		"framework",
		"status",
		"pods",
		"phase",
		"node",
		"state",
		"id",
		"code",
		"totalRetriedCount",
		"accountableRetriedCount",
		"deletionPending",
		"attemptStatus",
		"completionStatus",
		"retryPolicyStatus",
		"taskRoleStatuses",
		"taskRoleStatusesCompressed",
		"gzip of JSON",
		"taskStatuses",
		"name",
		"index",
		"number",
		"first",
		"last",
	};
	for (size_t i = 0; i < ARRAY_SIZE(KEYS); i++)
		if (strcmp(key, KEYS[i]) == 0)
			return true;
	return false;
}

/* An item of a list; long lists of tasks are in short (symbols_shorten). */
static void end_append(json_t *list, json_t *item)
{
	json_t *each = json_object_get(item, "each");
	json_int_t to = json_integer_value(json_object_get(item, "to"));
	if (!each)
		json_array_append_new(list, end_of(item));
	for (json_int_t i = json_integer_value(json_object_get(item, "from")); each && i <= to;
	     i++) {
		json_t *task = end_of(each);
		json_object_set_new(task, "index", json_integer(i));
		json_array_append_new(list, task);
	}
}

json_t *end_of(json_t *after)
{
	const char *key;
	json_t *v;
	size_t i;
	if (json_is_array(after)) {
		json_t *list = json_array();
		json_array_foreach (after, i, v)
			end_append(list, v);
		return list;
	}
	if (!json_is_object(after))
		return json_deep_copy(after);
	json_t *kept = json_object();
	json_object_foreach (after, key, v)
		if (end_counts(key))
			json_object_set_new(kept, key, end_of(v));
	return kept;
}

/* ---- what a fault may choose ----------------------------------------------------------------- */

static const json_t *end_status(const json_t *after)
{
	return json_object_get(json_object_get(after, "framework"), "status");
}

static json_t *end_outcome(const json_t *after)
{
	return json_object_get(json_object_get(end_status(after), "attemptStatus"),
	                       "completionStatus");
}

/* The task that a trigger names. */
static const json_t *end_trigger(const json_t *after, const json_t *trigger)
{
	const json_t *roles = symbols_roles(end_status(after));
	json_int_t index = json_integer_value(json_object_get(trigger, "taskIndex"));
	size_t i;
	json_t *role;
	json_array_foreach (roles, i, role)
		if (strcmp(reply_text(role, "name"), reply_text(trigger, "taskRoleName")) == 0)
			return json_array_get(json_object_get(role, "taskStatuses"), (size_t)index);
	return NULL;
}

void end_allow_trigger(const json_t *recorded, json_t *got)
{
	const json_t *want_trigger = json_object_get(end_outcome(recorded), "trigger");
	const json_t *got_trigger = json_object_get(end_outcome(got), "trigger");
	const json_t *one = end_trigger(recorded, want_trigger);
	const json_t *other = end_trigger(recorded, got_trigger);
	const char *at = reply_text(one, "completionTime");
	const json_t *code = json_object_get(
	    json_object_get(json_object_get(other, "attemptStatus"), "completionStatus"), "code");
	if (one != other && at[0] && strcmp(at, reply_text(other, "completionTime")) == 0 &&
	    json_equal(code, json_object_get(end_outcome(got), "code")))
		json_object_set(end_outcome(got), "code",
		                json_object_get(end_outcome(recorded), "code"));
}

void end_allow_early(json_t *recorded, json_t *got, const json_t *patch)
{
	const json_t *with = json_object_get(json_object_get(patch, "stimulus"), "patch");
	const json_t *spec = json_object_get(with, "spec");
	const char *state = reply_text(end_status(got), "state");
	bool stops = strcmp(reply_text(spec, "executionType"), "Stop") == 0;
	bool ends = !state[0] || strcmp(state, "Completed") == 0 ||
	            strcmp(state, reply_text(end_status(recorded), "state")) == 0 ||
	            strncmp(state, "AttemptDelet", strlen("AttemptDelet")) == 0;
	if (!stops || ends)
		json_object_update(got, recorded);
}
