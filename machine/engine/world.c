/*
 * ConfigMaps and pods, as an API server would keep them, in memory only: a stored status says which
 * there are.  A pod that has begun to start has a directory DIR/pods/UID, with `task.json` in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/enc.h"
#include "base/fd.h"
#include "base/json/scan.h"
#include "base/lock.h"
#include "k8s/framework/view.h"
#include "machine/engine/engine_internal.h"

/* ---- ConfigMaps ------------------------------------------------------------------------------ */

/* A job has one at a time, whose name is made of its own. */
static bool world_configmap(void *arg, const char *name, struct framework_configmap *out)
{
	const struct engine_job *job = arg;
	(void)name;
	*out = (struct framework_configmap){ job->configmap, job->uid, job->dying };
	return job->configmap[0];
}

/* A Framework of the same name was deleted, and its tasks still run. */
static bool world_taken(const struct engine_job *job)
{
	const struct engine_job *other;
	bool taken = false;
	if (job->e->n_gone == 0)
		return false;
	TAILQ_FOREACH(other, &job->e->live, live)
	taken = taken || (other->gone && other->configmap[0] && other->name &&
	                  strcmp(other->name, job->name) == 0);
	return taken;
}

/* The garbage collector. */
void world_collect(struct engine_job *job)
{
	for (struct engine_pod **at = &job->pods; *at;) {
		struct engine_pod *p = *at;
		if (job->dying && !p->dying && p->state != POD_REMOVED)
			pod_delete(p, p->grace_s);
		if (p->state != POD_REMOVED) {
			at = &p->next;
			continue;
		}
		(void)pthread_mutex_lock(&job->e->lock); /* cannot fail */
		*at = p->next;
		(void)pthread_mutex_unlock(&job->e->lock);
		job->hint = NULL;
		pod_free(p);
	}
	if (job->configmap[0] && job->dying && !job->pods) {
		job->configmap[0] = '\0';
		job->look = true;
		engine_due(job, 0);
	}
}

/* ---- what the pods of a role need ------------------------------------------------------------ */

const struct pod *pod_spec(struct engine_pod *p, struct err *err)
{
	const struct framework_object what = { .kind = FRAMEWORK_POD,
		                               .role = p->role,
		                               .index = p->index };
	struct pod_settings settings = p->e->pods;
	if (p->spec)
		return p->spec;
	settings.ip = p->ip;
	json_decref(p->object);
	p->object = framework_object(p->job->machine, &what);
	json_object_set_new(json_object_get(p->object, "metadata"), "uid", json_string(p->uid));
	return p->spec = pod_read(p->object, &settings, &p->arena, err);
}

void pod_forget_spec(struct engine_pod *p)
{
	p->spec = NULL;
	json_decref(TAKE(p->object));
	arena_wipe(&p->arena);
}

/* What the pod needs, which is the same for all of its role: the job's pod that was made or found
 * last is often one of these.  -1 and *err: no such pod can run here. */
static int world_need(struct engine_pod *p, struct err *err)
{
	const struct engine_pod *like = p->job->hint;
	if (like && strcmp(like->role, p->role) == 0) {
		p->need = like->need;
		p->grace_s = like->grace_s;
		p->gang = like->gang;
		return 0;
	}
	if (!pod_spec(p, err))
		return -1;
	p->need = p->spec->need;
	p->grace_s = p->spec->grace_s;
	p->gang = p->spec->gang;
	return 0;
}

/* ---- pods ------------------------------------------------------------------------------------ */

static struct engine_pod *world_find(struct engine_job *job, const char *name)
{
	/* The machine asks for all pods in the order in which it has made them. */
	struct engine_pod *p = job->hint ? job->hint->next : NULL;
	if (p && p->state != POD_REMOVED && strcmp(p->name, name) == 0)
		return job->hint = p;
	for (p = job->pods; p; p = p->next) {
		if (p->state != POD_REMOVED && strcmp(p->name, name) == 0)
			return job->hint = p;
	}
	return NULL;
}

static bool world_pod(void *arg, const char *name, struct framework_pod *out)
{
	struct engine_job *job = arg;
	struct engine_pod *p = world_find(job, name);
	if (p)
		pod_view(p, out);
	return p != NULL;
}

static struct engine_pod *world_new_pod(struct engine_job *job, const struct framework_object *o,
                                        const char *uid)
{
	struct engine_pod *p = xcalloc(1, sizeof(*p));
	(void)snprintf(p->uid, sizeof(p->uid), "%s", uid);
	p->e = job->e;
	p->job = job;
	p->pidfd = -1;
	p->name = arena_dup(&p->texts, span_of(o->name));
	p->role = arena_dup(&p->texts, span_of(o->role));
	p->dir = arena_printf(&p->texts, "%s/pods/%s", job->e->set.dir, uid);
	p->ip = job->e->ip;
	p->index = o->index;
	p->attempt = o->attempt;
	p->retry = o->retry;
	return p;
}

/* At the end, which keeps them in the order in which they were made. */
static void world_add(struct engine_job *job, struct engine_pod *p)
{
	struct engine_pod **at = job->hint ? &job->hint->next : &job->pods;
	LOCK_AUTO(&job->e->lock);
	while (*at)
		at = &(*at)->next;
	*at = job->hint = p;
}

/* ---- what the machine asks ------------------------------------------------------------------- */

/* An answer 422 of an API server. */
static enum framework_answer world_refuse(struct engine_job *job, const char *name,
                                          const char *message, struct framework_created *out)
{
	json_decref(job->refusal);
	job->refusal = json_pack("{s:s, s:o, s:s, s:{s:s, s:s}}", "status", "Failure", "message",
	                         json_string_nocheck(message), "reason", "Invalid", "details",
	                         "name", name, "kind", "Pod");
	out->http = 422;
	out->status = job->refusal;
	return FRAMEWORK_REFUSED;
}

static enum framework_answer world_create(void *arg, const struct framework_object *o,
                                          struct framework_created *out)
{
	ERR_AUTO err = { 0 };
	char uid[UUID_TEXT];
	struct engine_job *job = arg;
	if (o->kind == FRAMEWORK_CONFIGMAP || world_find(job, o->name)) {
		if (o->kind == FRAMEWORK_POD || job->configmap[0] || world_taken(job))
			return FRAMEWORK_FAILED;
		random_uuid(job->configmap);
		job->dying = false;
		out->uid = job->configmap;
		job->look = true; /* it is seen at the next sync */
		return FRAMEWORK_DONE;
	}
	random_uuid(uid);
	struct engine_pod *p = world_new_pod(job, o, uid);
	if (world_need(p, &err) < 0) {
		pod_free(p);
		return world_refuse(job, o->name, err_msg(&err), out);
	}
	world_add(job, p);
	job->look = true;
	out->uid = p->uid;
	return FRAMEWORK_DONE;
}

static enum framework_answer world_remove(void *arg, const struct framework_delete *what)
{
	struct engine_job *job = arg;
	if (what->kind == FRAMEWORK_CONFIGMAP) {
		if (strcmp(job->configmap, what->uid) != 0)
			return FRAMEWORK_DONE;
		if (job->unstored && job->pods)
			return FRAMEWORK_PENDING; /* why they end is stored first */
		job->dying = true;
		world_collect(job);
		return job->configmap[0] && what->confirm ? FRAMEWORK_PENDING : FRAMEWORK_DONE;
	}
	struct engine_pod *p = world_find(job, what->name);
	if (!p || strcmp(p->uid, what->uid) != 0)
		return FRAMEWORK_DONE;
	if (job->unstored)
		return FRAMEWORK_PENDING; /* its exit code is stored first */
	if (!p->dying || what->force)
		pod_delete(p, what->force ? 0 : p->grace_s);
	return p->state != POD_REMOVED && what->confirm ? FRAMEWORK_PENDING : FRAMEWORK_DONE;
}

void world_callbacks(struct engine_job *job, struct framework_world *out)
{
	*out = (struct framework_world){
		.arg = job,
		.configmap = world_configmap,
		.pod = world_pod,
		.create = world_create,
		.remove = world_remove,
	};
}

/* ---- after a restart ------------------------------------------------------------------------- */

static bool world_is_deleted(const struct fw_view *f)
{
	return span_is(f->state, "AttemptDeletionRequested") ||
	       span_is(f->state, "AttemptDeleting");
}

/* A pod that a stored status names, of the attempt `f`.  What has been started is found again; what
 * was about to wait again. */
static void world_restore_pod(struct engine_job *job, struct span role, const struct fw_view *f,
                              const struct fw_view *t)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO err = { 0 };
	const char *of = arena_dup(&a, role);
	const struct framework_object o = {
		.name = arena_printf(&a, "%s-%s-%lld", job->name, of, (long long)t->index),
		.role = of,
		.index = t->index,
		.attempt = f->attempt,
		.retry = t->attempt,
	};
	struct engine_pod *p = world_new_pod(job, &o, arena_dup(&a, t->uid));
	p->ip = t->pod_ip.n ? arena_dup(&p->texts, t->pod_ip) : p->ip;
	p->ports = t->pod_ports.n ? xstrndup(t->pod_ports.p, t->pod_ports.n) : NULL;
	bool waits = world_need(p, &err) == 0 && (span_is(t->state, "AttemptCreationRequested") ||
	                                          span_is(t->state, "AttemptPreparing"));
	if (!pod_find(p) && !waits) {
		pod_free(p); /* the machine sees that it is gone */
		return;
	}
	world_add(job, p);
	if (world_is_deleted(t))
		pod_delete(p, p->grace_s);
}

void world_restore(struct engine_job *job, struct span status)
{
	/* In these states there is no ConfigMap, or none any more. */
	static const char *const NONE[] = { "", "AttemptCreationPending", "AttemptCompleted",
		                            "Completed", NULL };
	ARENA_AUTO a = { 0 };
	struct fw_view f;
	struct fw_view t;
	struct span list;
	struct span role;
	fw_view_read(status, &a, &f);
	if (span_among(f.state, NONE) || f.uid.n == 0 || f.uid.n >= UID_TEXT)
		return;
	(void)snprintf(job->configmap, UID_TEXT, "%.*s", (int)f.uid.n, f.uid.p);
	job->dying = world_is_deleted(&f);
	if (!fw_view_roles(&f, &a, &list))
		return;
	for (struct scan roles = scan_begin(list); scan_item(&roles, &role);) {
		struct span name = scan_text(scan_get(role, "name"), &a);
		struct scan tasks = scan_begin(scan_get(role, "taskStatuses"));
		while (scan_more(&tasks)) {
			if (fw_view_next(&tasks, &a, &t) && t.uid.n > 0 && t.uid.n < UID_TEXT &&
			    span_only(t.uid, "-"))
				world_restore_pod(job, name, &f, &t);
		}
	}
}

static bool world_has_pod(const struct engine *e, const char *uid)
{
	const struct engine_job *job;
	TAILQ_FOREACH(job, &e->live, live)
	for (const struct engine_pod *p = job->pods; p; p = p->next)
		if (strcmp(p->uid, uid) == 0)
			return true;
	return false;
}

void world_end_strangers(struct engine *e)
{
	enum { GRACE_S = 30 };
	DIR_AUTO *list = dir_list(e->pods_dir, ".");
	for (const char *uid; (uid = dir_next(list)) != NULL;) {
		if (uid[0] == '.' || strlen(uid) >= UID_TEXT || world_has_pod(e, uid))
			continue;
		/* As the pod of a job that was deleted. */
		(void)pthread_mutex_lock(&e->lock); /* cannot fail */
		struct engine_job *job = engine_job_of(e, span_of(uid));
		(void)pthread_mutex_unlock(&e->lock);
		const struct framework_object o = { .name = uid, .role = "" };
		struct engine_pod *p = world_new_pod(job, &o, uid);
		p->grace_s = GRACE_S;
		(void)pod_find(p); /* else only its directory is removed */
		world_add(job, p);
		job_remove(job);
	}
}
