#pragma once
/*
 * Shared by the files of this folder.  Absent values have p == NULL.
 *
 *	static void counts_found(struct request *r, const struct job_entry *job)
 *	{
 *		struct span status;
 *		if (job_entry_status(job, &r->arena, &status))
 *			job_counts(&r->reply.body, status, &r->arena);
 *		answer_json(r, 200);
 *	}
 *
 * A handler calls job_find(r, counts_found).  Errors answer the request.  The thread of r's loop.
 */
#include "base/arena.h"
#include "base/err.h"
#include "base/json/put.h"
#include "base/json/scan.h"
#include "base/pod/portspec.h"
#include "jobs/cache/cache.h"
#include "jobs/cache/events.h"
#include "jobs/cache/job_entry.h"
#include "jobs/framework/view.h"
#include "server/cluster/follow.h"
#include "server/cluster/job_fields.h"
#include "server/config/exit_spec.h"
#include "server/http/loop.h"
#include "server/jobs/jobs.h"

#define NO_JOB   404, "NoJobError", "there is no such job"
#define JOB_GONE 404, "NoJobError", "the job was deleted"

/* ---- job_find.c ---- */

/* Returns true if the client has this access to the job. */
bool job_access_allowed(const struct request *r, const struct job_entry *job, enum job_need need);
/* Gives a reference to r, which drops it when it ends. */
void job_keep(struct request *r, const struct job_entry *job);
/* Answers r after the store did not return STORE_OK for a Framework. */
void job_store_failed(struct request *r, enum store_verb verb, const struct store_reply *reply);
/* Appends USER~NAME, or the name of a Framework that rest-lit did not create. */
void job_id_text(struct str *out, const struct job_entry *job);

enum { JOB_ID_MAX = 512 };

/* The id of a job in a path. */
struct job_id {
	struct span user, job; /* p is NULL: a Framework that rest-lit did not create */
	const char *name;      /* metadata.name; NULL if no object can have this id */
	/* The name by which OpenPAI shows a foreign Framework: without a leading `unknown`, lower
	 * case, letters and digits only.  NULL if it equals `name` or is empty. */
	const char *alias;
};

/* Reads {job} of v2, or {user} and {job} of v1, into the arena.  false: no job can have this id. */
bool job_id_read(struct span id, struct arena *a, struct job_id *out);
bool job_id_pair(struct span user, struct span job, struct arena *a, struct job_id *out);
/* Returns true if user and name stored in the Framework match the id, or its alias.  An alias gives
 * read access only. */
bool job_id_fits(const struct job_id *id, const struct job_entry *found, bool alias);

/* ---- job_watch.c ---- */

/* A client that waits for changes of one job, or of all. */
struct follower {
	struct follower *next, **at;
	struct span name; /* metadata.name, borrowed; "": all jobs */
	/* now == NULL: deleted; before == NULL: new.  Both borrowed.  told > 0: after this call, a
	 * follower of all jobs knows all changes up to this version.  It may end this follower, no
	 * other one. */
	void (*changed)(struct follower *f, const struct job_entry *now,
	                const struct job_entry *before, int64_t told);
	void (*lost)(struct follower *f); /* changes were lost: compare with a view */
};

/*
 * ?wait=SECONDS[&for=running|completed]: delays the answer until the job runs or has ended, or the
 * time is over (at most `stream-lifetime`; 0: immediately).  Calls go_on with the latest state;
 * X-Wait is then "reached" or "timeout".  Otherwise r is answered: 400, 401, 404, 429, 503.
 */
void job_wait(struct request *r, const struct job_entry *job, job_found *go_on);

/* ---- job_list.c ---- */

enum { JOB_LIMIT = 5000, JOB_LIMIT_MAX = 50000 };

/* Any of these texts, which are sorted; n == 0 matches everything. */
struct any_of {
	const struct span *v;
	size_t n;
};

enum job_order {
	ORDER_SUBMITTED,
	ORDER_NAME,
	ORDER_USER,
	ORDER_CLUSTER,
	ORDER_RETRIES,
	ORDER_TASKS,
	ORDER_GPUS,
	ORDER_STATE,
	ORDER_COMPLETED,
	ORDER_PRIORITY,
	ORDER_MAX
};

/* The query of a list or of a watch.  The rules are OpenPAI's, except for docs/DEVIATIONS.md. */
struct job_query {
	bool v1; /* includes foreign Frameworks; STOPPING counts as RUNNING */
	struct any_of users, clusters, priorities;
	struct any_of tags, without_tags; /* as JSON strings, with quotes */
	unsigned states;                  /* bits: 1u << JOB_RUNNING */
	struct span keyword;              /* in user, name or virtual cluster */
	enum job_order order;
	bool descending;
	bool with_total;
	struct span next_name; /* the next free name behind this one is asked for; p == NULL: no */
	int64_t offset, limit;
};

/* Reads the text after the `?`, into the arena.  Unknown and empty parameters are ignored; of
 * repeated ones the last value wins.  -1 and *e: 400 InvalidParametersError. */
int job_query_read(struct job_query *q, const char *query, bool v1, struct arena *a, struct err *e);
bool job_query_takes(const struct job_query *q, const struct job_entry *job);

/* The sort key of a job: the field as a number in the first word, or the beginning of its text, so
 * that most comparisons do not read the entries, which lie apart; then the latest first
 * (created_ms, submitted_ms); then metadata.name. */
enum { KEY_WORDS = 3 };
struct job_key {
	uint64_t field[KEY_WORDS], age;
	const struct job_entry *job;
};

/*
 * One page of a list, without sorting the whole list.  Jobs are added in any order, then
 * job_page_end is called: v[0..n) is the page.  At most 2 * (offset + limit) jobs are held,
 * borrowed.
 */
struct job_page {
	const struct job_query *query;
	size_t total; /* jobs added */
	struct job_key *v;
	size_t n, cap;
	size_t wanted; /* offset + limit */
	bool cut;      /* v[wanted - 1] is the last job that can be in the page */
	uint64_t random;
};

void job_page_begin(struct job_page *p, const struct job_query *q);
void job_page_add(struct job_page *p, const struct job_entry *job);
/* Adds all jobs of a view that the query takes. */
void job_page_gather(struct job_page *p, const struct cache_view *view);
void job_page_end(struct job_page *p);
void job_page_done(struct job_page *p);
/* Loads a job that is read soon into the processor's cache: its numbers, or its texts as well. */
void job_prefetch(const struct job_entry *job, bool texts);
#define JOB_PAGE_AUTO __attribute__((cleanup(job_page_done))) struct job_page

/* The reason why a job waits. */
struct job_why {
	const struct event *event; /* NULL: none, or the client may not see it */
	/* The engine's sentence, or what a held job waits for; "": none, or the client may not see
	 * it. */
	struct span machine;
	enum neglect neglect;
};

/* Appends a row of a list: {"name", "username", "state", ...}.  why == NULL: no waitingReason. */
void job_row(struct str *out, const struct job_entry *job, const struct job_why *why, bool v1);

/* ---- job_events.c ---- */

/*
 * Appends {"totalCount", "data": [...]}: the Events of this type ("" for all), up to 4 MiB.  Events
 * of pods older than created_ms (since 1970, or -1) belong to an earlier job of the same name and
 * are left out.
 */
void job_events_show(struct str *out, const struct event *all, size_t n, int64_t created_ms,
                     struct span type);

/* ---- job_usage.c ---- */

enum { USAGE_TASKS = 2000, USAGE_CURVES = 200, USAGE_NOTES = 20 };

/* Appends {"tasks", "tasksTotal", "notes"}: v is in any order, and may have two rows of a pod, of
 * which that counts which has ended, else that which is longer; it is sorted.  At most USAGE_TASKS
 * rows, the first USAGE_CURVES with curves, and USAGE_NOTES notes. */
struct attempt;
void job_usage_show(struct str *out, struct attempt *v, size_t n);
/* true: r was answered 404, because this server runs no jobs itself. */
bool machine_refuses(struct request *r);

/* ---- job_report.c ---- */

struct attempts_query;
struct attempts_sum;
/* Reads the parameters since, until and by.  -1 and *e: 400. */
int report_query_read(struct request *r, int64_t now_ms, struct attempts_query *q, struct err *e);
void report_show(struct str *out, const struct attempts_query *q, const struct attempts_sum *v,
                 size_t n, bool more);

struct job_shown;

/*
 * The Event that says why a job waits, or NULL.  v[0..n): the Events of its Framework, the latest
 * first.  Only a Warning about the current pod of a waiting task counts, else about the Framework;
 * problems with image, volumes or scheduling come first.  job_row_event uses the Events alone,
 * without the document.
 */
const struct event *job_waiting(const struct job_shown *s, const struct event *v, size_t n,
                                struct arena *a);
const struct event *job_row_event(const struct job_entry *job, const struct event *v, size_t n);
/* Appends `,"waitingReason":{..}` of a job in full, or of a row, if there is a reason. */
enum { ROW_MESSAGE_MAX = 200 }; /* bytes of the message in a row */
void job_waiting_put(struct str *out, const struct job_entry *job, const struct job_why *why,
                     bool full);

/* ---- job_show.c ---- */

/* The content of an answer about one job. */
struct job_shown {
	const struct job_entry *job;
	struct span doc;     /* its document */
	struct span attempt; /* attemptStatus of an earlier attempt; empty: the latest */
	const struct exit_spec *spec;
	struct job_why why;
	bool v1;
	bool hived;
	bool here;       /* jobs run on this machine, whose engine gives out the ports */
	bool host_files; /* ... and tasks see its files instead of their images */
	bool results_deleted;
};

/* The Events that may say why a job waits, if the client may see them; returns their number. */
size_t job_look_events(const struct request *r, const struct job_entry *job, struct arena *a,
                       struct event **v);
/* The sentence of the engine on why a job waits, or what a held job waits for, if the client may
 * see it; else "". */
struct span job_look_machine(const struct request *r, const struct job_entry *job, struct arena *a);
enum neglect job_look_neglect(const struct request *r, const struct job_entry *job);

/*
 * Appends the submitted configuration as JSON, with `secrets` and literal values in `auth` of
 * prerequisites redacted as "******".  `text` is YAML or JSON.  false: it is not a job.
 */
bool config_json(struct str *out, struct span text, struct arena *a);

/* ---- job_change.c ---- */

struct scale {
	struct span doc;           /* the stored Framework; valid JSON */
	const char *uid, *version; /* its own */
	struct span role;          /* name in the object, or as submitted */
	int64_t n;                 /* 1 or more */
	int64_t max_tasks;
	const char *device; /* the resource name of a GPU */
};

/* Makes the JSON patch (RFC 6902) of this version that scales a task role, in the arena; empty: no
 * change.  -1 and *e: 404 NoJobError (no such role), 400, 409. */
int scale_plan(const struct scale *s, struct arena *a, struct span *patch, struct err *e);

/* The annotation rest-lit/gpu-keep with `hours` more, from the later of now and its end; `reason`
 * replaces the old one.  In the arena.  NULL and *e (400): more than `most` in all. */
const char *keep_add(struct span annotation, int64_t hours, int64_t most, struct span reason,
                     struct arena *a, struct err *e);

/* ---- job_detail.c ---- */

/* Appends a job in full, one entry of job-attempts, or all attempts of one task.  -1 and *e: 500 if
 * the stored object cannot be shown; 404 NoJobError if there is no such task. */
struct task_name {
	struct span role;
	int64_t index;
};
int job_detail(struct str *out, const struct job_shown *s, struct arena *a, struct err *e);
int job_attempt(struct str *out, const struct job_shown *s, bool latest, struct arena *a,
                struct err *e);
int job_task(struct str *out, const struct job_shown *s, const struct task_name *task,
             struct arena *a, struct err *e);
/* Appends the number of tasks by role and state: {"worker":{"WAITING":1,"RUNNING":3}}. */
void job_counts(struct str *out, struct span status, struct arena *a);

enum {
	SHOWN_ROLES = 1024,        /* per job; the rest is not shown */
	SHOWN_TASKS = 20000,       /* per job; likewise */
	SHOWN_LABELS = 256,        /* port labels per role; likewise */
	SHOWN_PORTS = 200000,      /* per job; further tasks show {} */
	SHOWN_READABLE = 1 << 20,  /* bytes of diagnostics per job that are reformatted */
	DIAGNOSTICS_MAX = 64 << 10 /* bytes of one diagnostics text that are reformatted */
};

struct template
{
	struct span name, pod, role; /* role: all of it */
};

/* An answer that is being written.  Objects are untrusted: a value of a wrong type is null. */
struct shower {
	struct str *out;
	const struct job_shown *s;
	struct arena *a;
	size_t readable, ports; /* the rest of SHOWN_READABLE and SHOWN_PORTS */
	struct fw_view attempt; /* that is shown */
	struct completion_status outcome;
	struct fw_walk walk;       /* over its tasks */
	struct template *template; /* the task roles of the Framework, once they are read */
	size_t n_templates;
	struct span stop_reason; /* reason of the server's stop; n is 0 if there was none */
	struct task_ends *ends;  /* gets those of all roles; NULL: nobody asks for them */
	/* The latest diagnostics and the text written for them: tasks often share them. */
	struct span same_in;
	size_t same_at, same_n;
};

/* The attempt to show; of the latest one also the members of the Framework. */
void shown_view(const struct job_shown *s, struct arena *a, struct fw_view *out);

/* ---- job_detail_task.c ---- */

/* The entry of the exit specification for its code, or null. */
void show_exit_spec(struct shower *w, const char *key, const struct completion_status *o);

/* Diagnostics, split; in the arena. */
struct split_diagnostics {
	struct span summary; /* text */
	struct span runtime; /* the report of pai-runtime: a JSON object */
};
struct split_diagnostics said_read(struct span diagnostics, bool with_runtime, struct arena *a);
/* The termination message of the first failed container that has a report of pai-runtime, else of
 * the first that has a message; in the arena.  And the report in it, from behind its start marker;
 * p is NULL if there is none. */
struct span said_message(struct span diagnostics, struct arena *a);
struct span said_report(struct span message);

struct detail_role {
	struct span name;
	struct portspec ports; /* n is 0 if it has none or they are invalid */
	bool host_network;
	struct span group; /* HiveD affinity group; p is NULL if it has none */
	struct span log;   /* path of its logs up to the index */
	struct span image; /* if it is not used; else "" */
	int64_t gpus;      /* of each task */
	int64_t grace_s;   /* that each task gets to end; -1: unknown */
};
/* `at`: index of the status in its list, a guess.  false: no pod can belong to such a role. */
bool role_read(struct shower *w, struct detail_role *out, struct span name, size_t at);

/* The members of a task, and of its attempt, without braces. */
void show_task(struct shower *w, const struct fw_view *t, const struct completion_status *o);
void show_task_attempt(struct shower *w, const struct detail_role *role, const struct fw_view *t,
                       const struct completion_status *o);
/* {"worker":{"taskRoleStatus":..,"taskStatuses":[..]}}.  -1 and *e (500): too large. */
int show_roles(struct shower *w, struct err *e);

/* ---- first_failure.c ---- */

#define END_UNKNOWN INT64_MAX

/* The failed end of a task. */
struct task_end {
	struct span role;
	int64_t index, code;
	int64_t ended_ms; /* since 1970, or END_UNKNOWN */
	int64_t rank;     /* -1: unknown */
	struct completion_status outcome;
	enum end_kind kind;
	const char *why; /* if it is not END_ORIGIN */
};

/* Sets `kind` and `why` by the code and by what the task said at its end. */
void task_end_classify(struct task_end *t, const struct exit_spec *spec, struct span said);
/* The earliest of those that failed by themselves, else the earliest of those that followed; of
 * equal times the first in the list.  SIZE_MAX: none.  Pure. */
size_t first_failure(const struct task_end *v, size_t n);
/* The failed ends of an attempt, in the order of its tasks; at most SHOWN_TASKS. */
struct task_ends {
	struct task_end *v; /* in an arena */
	size_t n, cap;
	size_t read; /* bytes of diagnostics */
};
/* Adds the task if it has failed. */
void task_ends_add(struct shower *w, struct span role, const struct fw_view *t,
                   const struct completion_status *o);
/* Appends `,"firstFailure":{..}`, if a task has failed. */
void show_first_failure(struct shower *w, const struct task_ends *all);
