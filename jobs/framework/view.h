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
	struct span last; /* of the attempt before: JSON for fw_view_completion; p NULL: none */
	/* Members of the latest attempt: */
	int64_t attempt;      /* its number; -1: none */
	struct span uid;      /* of its ConfigMap, or pod */
	struct span instance; /* instanceUID: of the attempt of a Framework; of a task */
	struct span node, pod_ip, host_ip, pod_ports, pod_gpus;
	int64_t attempt_start_ms, attempt_run_ms, attempt_completion_ms;
	struct span outcome;             /* JSON for fw_view_completion; p NULL: none */
	struct span roles, packed_roles; /* of a Framework: taskRoleStatuses, JSON */
};

/* The members of a status that lists show. */
struct fw_summary {
	struct span state;                                    /* p NULL before there is a status */
	int64_t run_ms, completion_ms, transition_ms;         /* -1: none */
	int64_t retried, accountable, retry_delay_s, attempt; /* -1: none */
	bool has_code, has_last; /* how the latest attempt has ended, and the one before */
	int64_t code, last_code; /* 0 without one */
};

/* The status of a Framework: scan_get(object, "status"). */
void fw_view_read(struct span status, struct arena *a, struct fw_view *out);
/* An attemptStatus by itself, also of an earlier attempt. */
void fw_view_attempt(struct span status, struct arena *a, struct fw_view *out);
/* false: the ends of the attempts are malformed. */
bool fw_view_summary(const struct fw_view *f, struct arena *a, struct fw_summary *out);

/* The attemptStatus of a stored Framework, JSON; without its roles in the arena. */
struct span fw_view_attempt_json(struct span framework, bool roles, struct arena *a);

/* A completionStatus: how an attempt of a Framework, or of a task, has ended. */
struct completion_status {
	bool odd; /* it is no object, or a member is malformed, which counts as absent */
	bool has_code;
	int64_t code;                       /* 0 without one */
	struct span code_json, diagnostics; /* JSON */
	struct span phrase, type;
	struct span trigger_message, trigger_role;
	int64_t trigger_index; /* -1: none */
};
struct completion_status fw_view_completion(struct span completion_status, struct arena *a);

/* The roles and tasks of a Framework, in their order:
 *
 *	struct fw_walk w;
 *	if (fw_walk_begin(&w, &f, a))
 *		while (fw_walk_role(&w))
 *			while (fw_walk_task(&w, &t))
 *				use(w.role, &t);
 */
struct fw_walk {
	struct span role; /* its name; p NULL: it has none */
	size_t tasks;     /* seen so far, of all roles, with those that are no objects */
	struct scan in_roles, in_tasks;
	struct arena *a;
};
/* false, and no role follows: the roles are no list, or are stored compressed and inflate to more
 * than FW_INFLATED_MAX, or to more than 200 times their size. */
bool fw_walk_begin(struct fw_walk *w, const struct fw_view *f, struct arena *a);
bool fw_walk_role(struct fw_walk *w);
/* The next task of this role that is an object. */
bool fw_walk_task(struct fw_walk *w, struct fw_view *out);
/* The task of this role and index.  false: there is none, or the roles cannot be read. */
bool fw_view_task(const struct fw_view *f, struct span role, int64_t index, struct arena *a,
                  struct fw_view *out);

/* Appends a sentence for users: what a policy of the cluster (Pod Security, a webhook, a quota) has
 * against a pod, by the API server's message of the refusal.  false, and nothing: it was refused
 * for another reason. */
bool fw_view_denial(struct str *out, struct span message);
