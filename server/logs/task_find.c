#include "server/logs/task_find.h"

#include "base/json/scan.h"
#include "base/str.h"

enum { UID_MAX = 64 };

/* Of a list, the object whose member is this text or number; p is NULL if there is none. */
static struct span find_item(struct span list, const char *key, struct span wanted, struct arena *a)
{
	struct scan s = scan_begin(list);
	for (struct span item, text; scan_item(&s, &item);) {
		struct span value = scan_get(item, key);
		if (span_eq(value, wanted) ||
		    (scan_string(value, a, &text) && span_eq(text, wanted)))
			return item;
	}
	return (struct span){ NULL, 0 };
}

static bool uid_ok(struct span uid)
{
	for (size_t i = 0; i < uid.n; i++)
		if (!is_alnum(uid.p[i]) && uid.p[i] != '-')
			return false;
	return uid.n > 0 && uid.n <= UID_MAX;
}

/* States of FrameworkController between the making of a pod and its end. */
static bool state_runs(struct span state)
{
	return span_is(state, "AttemptCreationRequested") || span_is(state, "AttemptPreparing") ||
	       span_is(state, "AttemptRunning");
}

bool task_find(struct span doc, struct span role, struct span index, struct arena *a,
               struct task_found *out)
{
	struct span roles;
	struct span uid;
	struct span attempt = scan_path(doc, "status", "attemptStatus");
	bool known = job_entry_roles(attempt, a, &roles);
	struct span found = known ? find_item(roles, "name", role, a) : (struct span){ NULL, 0 };
	struct span task = find_item(scan_get(found, "taskStatuses"), "index", index, a);
	struct span latest = scan_get(task, "attemptStatus");
	struct task_found t = { .pod_uid = "" };
	if (!task.p || !scan_int(scan_get(attempt, "id"), 0, INT32_MAX, &t.attempt) ||
	    !scan_int(scan_get(latest, "id"), 0, INT32_MAX, &t.retry))
		return false;
	if (scan_string(scan_get(latest, "podUID"), a, &uid) && uid_ok(uid))
		t.pod_uid = arena_dup(a, uid);
	t.runs = state_runs(scan_text(scan_get(task, "state"), a));
	*out = t;
	return true;
}
