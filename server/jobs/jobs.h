#pragma once
/*
 * The routes about existing jobs: lists, one job, changes, events and watches; jobs are created by
 * server/submit/.  Begin with job_find.c, which finds the job of a path and checks access; then
 * job_list.c and job_show.c (reading), job_change.c (writing), job_watch.c (streams).
 *
 * This header is for other folders.
 *
 *	static void ssh_found(struct request *r, const struct job_entry *job) { ... answers r ... }
 *	void ssh_get(struct request *r)
 *	{
 *		job_find(r, ssh_found);
 *	}
 *
 * Thread: loop
 */
#include "jobs/cache/job_entry.h"
#include "jobs/store/store.h"
#include "server/http/query.h"
#include "server/http/route.h"

/* Called once, immediately or later.  The request holds a reference to the job until it ends. */
typedef void job_found(struct request *r, const struct job_entry *job);

/*
 * Finds the job in the path of r ({job} is USER~NAME; v1 has {user} and {job}), in the cache or
 * else in the store, and checks that the client has the access r->route->need.  A job is found only
 * if the stored user and name are the requested ones.  Otherwise r is answered: 404, 403, 503.
 */
void job_find(struct request *r, job_found *found);

/* Gets the document of a job, in the arena of r, from the store if the cache has dropped it.  If
 * the job is gone, r is answered 404. */
typedef void job_doc_came(struct request *r, const struct job_entry *job, struct span doc);
/* job_find, then job_doc. */
void job_find_doc(struct request *r, job_doc_came *came);
void job_doc(struct request *r, const struct job_entry *job, job_doc_came *came);

/*
 * Completes h->after, whose members have the USER~NAME of a job: with the Framework and its uid, in
 * the arena of r.  done is called once, immediately or later; *e: 400, one of them is no job that
 * the client may see; 503.
 */
struct hold;
void jobs_after(struct request *r, struct hold *h, void (*done)(void *arg, struct err *e),
                void *arg);

/* GET of an object on behalf of r, which is suspended until `done`.  The name lives until then.
 * r->loop->store must not be NULL. */
void job_store_get(struct request *r, enum object_kind kind, const char *name, store_callback *done,
                   void *arg);
/* Neither done nor refused by the store: the answer is 503.  Thread: any. */
bool job_store_silent(const struct store_reply *reply);

/* Tags are a JSON list of strings in the annotation rest-lit/tags.  Commas separate tags in
 * queries.  Thread: any. */
#define TAG_MUST "a tag: 1 to 63 bytes, without commas, control characters and marks of direction"
bool job_tag_ok(struct span tag);
enum tags_changed { TAGS_CHANGED, TAGS_AS_BEFORE, TAGS_FULL };
/* Writes the list with or without a tag to *out, which counts only if that changes it.
 * Thread: any. */
enum tags_changed tags_change(struct str *out, struct span list, struct span tag, bool with,
                              struct arena *a);

/*
 * Clients of one loop that wait for changes of jobs.  *fd is readable when followers_run_once
 * has something to do.  NULL and *e: 500.  The caller frees it when no request is left; NULL is
 * allowed.
 */
struct followers;
struct cache;

struct followers *followers_new(struct cache *c, int *fd, struct err *e);
void followers_run_once(struct followers *all);
void followers_free(struct followers *all);

/* ---- handlers, and the parameters of their routes ---- */

/* job_list.c */
handler jobs_get;
extern const struct parameter JOB_FILTERS[], JOB_PAGES[];

/* job_show.c */
handler job_get, job_probe, job_task_get, attempts_health, attempts_get, attempt_get, config_get,
    ssh_get;
extern const struct parameter JOB_CONFIG[];

/* job_watch.c */
handler jobs_watch, job_watch;
extern const struct parameter JOB_WAIT[], JOBS_WATCH[], JOB_WATCH[];

/* job_change.c */
handler execution_put, tag_edit, job_delete, scale_patch, keep_put;

/* job_events.c */
handler events_get;
extern const struct parameter JOB_EVENTS[];

/* job_machine.c */
handler machine_get;

/* job_usage.c */
handler job_usage_get;

/* job_report.c */
handler report_get;
extern const struct parameter REPORT[];

/* backup.c */
handler backup_get;
