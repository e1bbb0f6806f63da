#pragma once
/*
 * A stored Framework as its readers see it: typed, in place, without copies.  Objects are
 * untrusted: a member of a wrong type is absent, and `odd` says that there was one.  Texts live in
 * the document or the arena.  Pure; any thread.
 */
#include "base/arena.h"
#include "base/str.h"

/* The status of a Framework, and of a task: they have the same members. */
struct fw_view {
	bool odd;
	int64_t index;                                          /* of a task */
	struct span state;                                      /* "" before there is a status */
	int64_t start_ms, run_ms, completion_ms, transition_ms; /* -1: none */
	int64_t retried, accountable, retry_delay_s;            /* -1: none */
	/* Of the latest attempt. */
	int64_t attempt; /* its number; -1: none */
	struct span uid; /* of its ConfigMap, or pod */
	struct span node, pod_ip, host_ip;
	int64_t attempt_start_ms, attempt_run_ms, attempt_completion_ms;
	struct span outcome;             /* completionStatus: JSON; p NULL: none */
	struct span roles, packed_roles; /* of a Framework: taskRoleStatuses, JSON */
};

/* The status of a Framework: scan_get(object, "status"). */
void fw_view_read(struct span status, struct arena *a, struct fw_view *out);
/* The task of this role and index.  false: there is none, or the roles cannot be inflated. */
bool fw_view_task(const struct fw_view *f, struct span role, int64_t index, struct arena *a,
                  struct fw_view *out);
