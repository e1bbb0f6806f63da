#pragma once
/*
 * A stored Framework as its readers see it: typed, in place, without copies.  Objects are
 * untrusted: a member of a wrong type is absent, and `odd` says that there was one.  A text that is
 * absent has p NULL.  Texts live in the document or the arena.  Pure.
 *
 * Thread: any
 */
#include "base/arena.h"
#include "base/json/scan.h"

enum { FW_INFLATED_MAX = 32 << 20 /* bytes of a status that is stored compressed */ };

/* The status of a Framework, and of a task: they have the same members. */
struct fw_view {
	bool odd;
	int64_t index;     /* of a task */
	struct span state; /* p NULL before there is a status */
	int64_t start_ms, run_ms, completion_ms, transition_ms; /* -1: none */
	int64_t retried, accountable, retry_delay_s;            /* -1: none */
	int64_t alike;    /* attempts in a row that ended like `last`; -1: none */
	struct span last; /* of the attempt before: lastCompletionStatus, JSON; p NULL: none */
	/* Members of the latest attempt: */
	int64_t attempt;      /* its number; -1: none */
	struct span uid;      /* of its ConfigMap, or pod */
	struct span instance; /* instanceUID: of the attempt of a Framework; of a task */
	struct span node, pod_ip, host_ip, pod_ports, pod_gpus;
	int64_t attempt_start_ms, attempt_run_ms, attempt_completion_ms;
	struct span outcome;             /* completionStatus: JSON; p NULL: none */
	struct span roles, packed_roles; /* of a Framework: taskRoleStatuses, JSON */
};

/* The status of a Framework: scan_get(object, "status"). */
void fw_view_read(struct span status, struct arena *a, struct fw_view *out);
/* An attemptStatus by itself, also of an earlier attempt. */
void fw_view_attempt(struct span status, struct arena *a, struct fw_view *out);
/* The list of the statuses of its task roles, inflated if necessary; p NULL: none.  false: it is no
 * list, or cannot be inflated. */
bool fw_view_roles(const struct fw_view *f, struct arena *a, struct span *list);
/* The list in the value of taskRoleStatusesCompressed, in the arena.  false: it inflates to more
 * than FW_INFLATED_MAX, to more than 200 times its size, or is not a list. */
bool fw_view_inflate_roles(struct span value, struct arena *a, struct span *list);
/* The next one of taskStatuses, before which scan_more has stopped.  false: it is no object, and
 * passed over. */
bool fw_view_next(struct scan *tasks, struct arena *a, struct fw_view *out);
/* The task of this role and index.  false: there is none, or the roles cannot be inflated. */
bool fw_view_task(const struct fw_view *f, struct span role, int64_t index, struct arena *a,
                  struct fw_view *out);

/* Appends a sentence for users: what a policy of the cluster (Pod Security, a webhook, a quota) has
 * against a pod, by the API server's message of the refusal.  false, and nothing: it was refused
 * for another reason. */
bool fw_view_denial(struct str *out, struct span message);
