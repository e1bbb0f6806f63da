#include "tests/controller/traces/play.h"

/*
 * Faults may change times, uids, texts of diagnostics, which states a task has passed, and how
 * often something was asked.  All this must be the same: whether the Framework is there; its state,
 * attempt, code and retries; its roles and their tasks, each with state, attempt, code, retries and
 * mark of removal; and which pods there are, with phase and node.
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
		"from",
		"to",
		"each",
		"number",
		"first",
		"last",
	};
	for (size_t i = 0; i < ARRAY_SIZE(KEYS); i++)
		if (strcmp(key, KEYS[i]) == 0)
			return true;
	return false;
}

json_t *end_of(json_t *after)
{
	const char *key;
	json_t *v;
	size_t i;
	if (json_is_array(after)) {
		json_t *list = json_array();
		json_array_foreach (after, i, v)
			json_array_append_new(list, end_of(v));
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
