#pragma once
/*
 * A job as answers show it.  Pure: texts in, JSON out; objects are untrusted.
 */
#include "k8s/cache/events.h"
#include "k8s/cache/job_entry.h"
#include "server/cluster/neglect.h"
#include "server/exit_spec.h"

/* v1 knows no STOPPING: it is RUNNING there. */
enum job_state job_shown_state(const struct job_entry *job, bool v1);
/* Why nothing of a job runs. */
struct job_why {
	const struct event *event; /* NULL: none is known, or the client may not see it */
	enum neglect neglect;
};

/* One row of a list: {"name", "username", "state", ...}.  why NULL: without waitingReason.
 * Appends. */
void job_row(struct str *out, const struct job_entry *job, const struct job_why *why, bool v1);
/* Its `,"waitingReason":{..}`, if there is one. */
void job_row_waiting(struct str *out, const struct job_entry *job, const struct job_why *why);
enum { ROW_MESSAGE_MAX = 200 }; /* bytes of an Event's message in it */
/* As job_waiting, for a row: from the Events alone, without the job's document. */
const struct event *job_row_event(const struct job_entry *job, const struct event *v, size_t n);

struct job_shown {
	const struct job_entry *job;
	struct span doc;     /* of it (job_entry_doc) */
	struct span attempt; /* an earlier attemptStatus that is to be shown; or empty */
	const struct exit_spec *spec;
	struct job_why why;
	bool v1;
	bool hived;
};

/* All of it: {"name", "jobStatus", "taskRoles"}.  -1 and *e (500): what is stored cannot be shown.
 */
int job_detail(struct str *out, const struct job_shown *s, struct arena *a, struct err *e);
/* All attempts of one task; -1 and *e: 404 NoJobError. */
struct task_name {
	struct span role;
	int64_t index;
};
int job_task(struct str *out, const struct job_shown *s, const struct task_name *task,
             struct arena *a, struct err *e);
/* One entry of job-attempts. */
int job_attempt(struct str *out, const struct job_shown *s, bool latest, struct arena *a,
                struct err *e);
/* Of the events of its Framework, the last one first, the one that says why it waits; NULL if none
 * does. Only a Warning counts, about the pod that a task which waits has now.  What is wrong with
 * image, volumes or scheduling comes first; what the kubelet says of the node's configuration is no
 * reason. */
const struct event *job_waiting(const struct job_shown *s, const struct event *v, size_t n,
                                struct arena *a);
/* How many tasks of each role are in which state: {"worker":{"WAITING":1,"RUNNING":3}}. */
void job_counts(struct str *out, struct span doc, struct arena *a);
