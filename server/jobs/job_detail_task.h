#pragma once
/* A task role and its tasks, as they are read; for those who show them. */
#include "server/jobs/job_detail.h"

/* Pod templates of the roles, by their names. */
struct template
{
	struct span name, pod;
};
struct templates {
	const struct job_shown *s;
	struct arena *a;
	struct template *v;
	size_t n;
};
struct templates templates_read(const struct job_shown *s, struct arena *a);

struct role {
	struct span name;
	struct span tasks; /* taskStatuses, to be walked into (scan_inside) */
	struct ports ports;
	bool host_network;
	struct span group; /* of HiveD, as it lies */
	struct span log;   /* path of its logs up to the index; p is NULL if there can be none */
};
/* `at`: where it stands.  false: it is none that a pod could be of. */
bool role_read(struct role *out, struct span status, size_t at, const struct templates *t);

enum task_member {
	TASK_INDEX,
	TASK_UID,
	TASK_STARTED,
	TASK_RAN,
	TASK_ENDED,
	TASK_STATE,
	TASK_RETRIES,
	TASK_ATTEMPT,
	TASK_MEMBERS
};
/* Of its attempt. */
enum try_member {
	TRY_ID,
	TRY_STARTED,
	TRY_RAN,
	TRY_ENDED,
	TRY_POD,
	TRY_NODE,
	TRY_POD_IP,
	TRY_HOST_IP,
	TRY_OUTCOME,
	TRY_MEMBERS
};
struct task {
	struct span v[TASK_MEMBERS], at[TRY_MEMBERS];
	struct outcome outcome;
	int64_t index; /* -1: it says none */
};
void task_read(struct task *out, struct span status);

/* The members of a task, and of its attempt, without braces. */
void show_task(struct shower *w, const struct task *t);
void show_try(struct shower *w, const struct role *role, const struct task *t);
