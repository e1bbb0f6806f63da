/*
 * ConfigMaps and pods, as an API server would keep them.  A ConfigMap is in memory only: a stored
 * status says whether there is one.  A pod is a directory DIR/pods/UID with `pod.json`, the object,
 * and `engine.json`, what was decided about it.
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
#include "machine/engine/engine_internal.h"
#include "machine/resources/ports.h"

/* ---- ConfigMaps ------------------------------------------------------------------------------ */

void world_restore_configmap(struct engine_job *job, struct span status)
{
	/* In these states there is none, or none any more. */
	static const char *const NONE[] = { "", "AttemptCreationPending", "AttemptCompleted",
		                            "Completed" };
	ARENA_AUTO a = { 0 };
	struct engine_configmap *c = &job->configmap;
	struct span attempt = scan_get(status, "attemptStatus");
	struct span state = scan_text(scan_get(status, "state"), &a);
	struct span name = scan_text(scan_get(attempt, "configMapName"), &a);
	struct span uid = scan_text(scan_get(attempt, "configMapUID"), &a);
	for (size_t i = 0; i < ARRAY_SIZE(NONE); i++) {
		if (span_is(state, NONE[i]))
			return;
	}
	if (uid.n == 0 || uid.n >= UID_TEXT || name.n >= sizeof(c->name))
		return;
	(void)snprintf(c->name, sizeof(c->name), "%.*s", (int)name.n, name.p);
	(void)snprintf(c->uid, sizeof(c->uid), "%.*s", (int)uid.n, uid.p);
	c->there = true;
	c->dying = span_is(state, "AttemptDeletionRequested") || span_is(state, "AttemptDeleting");
}

static bool world_configmap(void *arg, const char *name, struct framework_configmap *out)
{
	const struct engine_job *job = arg;
	const struct engine_configmap *c = &job->configmap;
	if (!c->there || strcmp(c->name, name) != 0)
		return false;
	*out = (struct framework_configmap){ c->uid, job->uid, c->dying };
	return true;
}

/* A Framework of the same name was deleted, and its tasks still run. */
static bool world_taken(const struct engine_job *job, const char *name)
{
	const struct engine *e = job->e;
	for (size_t i = 0; i < e->n_jobs; i++) {
		const struct engine_configmap *c = &e->job[i]->configmap;
		if (c->there && strcmp(c->name, name) == 0)
			return true;
	}
	return false;
}

static enum framework_answer world_create_configmap(struct engine_job *job, const char *name,
                                                    struct framework_created *out)
{
	struct engine_configmap *c = &job->configmap;
	if (world_taken(job, name) || strlen(name) >= sizeof(c->name))
		return FRAMEWORK_FAILED;
	(void)snprintf(c->name, sizeof(c->name), "%s", name);
	random_uuid(c->uid);
	c->there = true;
	c->dying = false;
	out->uid = c->uid;
	return FRAMEWORK_DONE;
}

/* The garbage collector. */
void world_collect(struct engine_job *job)
{
	struct engine_configmap *c = &job->configmap;
	bool some = false;
	for (struct engine_pod *p = job->pods; p; p = p->next) {
		if (p->state == POD_REMOVED)
			continue;
		bool owned = c->there && strcmp(p->owner, c->uid) == 0;
		if (!p->dying && (!owned || c->dying))
			pod_delete(p, p->grace_s);
		some = some || (owned && p->state != POD_REMOVED);
	}
	if (c->there && c->dying && !some) {
		c->there = false;
		job->look = true;
		engine_due(job, 0);
	}
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

static struct span world_annotation(struct span object, const char *key, struct arena *a)
{
	return scan_text(scan_path(object, "metadata", "annotations", key), a);
}

static void world_number(struct span object, const char *key, int64_t *out)
{
	ARENA_AUTO a = { 0 };
	(void)parse_i64(world_annotation(object, key, &a), 0, INT32_MAX, out); /* else 0 */
}

/* GANG_ALLOCATION of the init container. */
bool world_gang(const struct pod *spec)
{
	for (size_t i = 0; i < spec->init.n_env; i++) {
		const struct pod_env *v = &spec->init.env[i];
		if (strcmp(v->name, "GANG_ALLOCATION") == 0)
			return v->value && strcmp(v->value, "true") == 0;
	}
	return false;
}

struct amounts pod_amounts(const struct pod *spec, struct span object)
{
	return (struct amounts){ spec->app.gpus, spec->app.cpu_milli, spec->app.memory,
		                 ports_wanted(object) };
}

static struct engine_pod *world_new_pod(struct engine_job *job, struct span object,
                                        const struct pod *spec)
{
	ARENA_AUTO a = { 0 };
	struct engine_pod *p = xcalloc(1, sizeof(*p));
	p->e = job->e;
	p->job = job;
	p->pidfd = p->watch = -1;
	p->name = xstrdup(spec->name);
	p->role = xstrdup(arena_dup(&a, world_annotation(object, "FC_TASKROLE_NAME", &a)));
	p->dir = xasprintf("%s/pods/%s", job->e->set.dir, spec->uid);
	(void)snprintf(p->uid, sizeof(p->uid), "%s", spec->uid);
	(void)snprintf(p->owner, sizeof(p->owner), "%s",
	               arena_dup(&a, world_annotation(object, "FC_CONFIGMAP_UID", &a)));
	world_number(object, "FC_TASK_INDEX", &p->index);
	world_number(object, "FC_FRAMEWORK_ATTEMPT_ID", &p->attempt);
	world_number(object, "FC_TASK_ATTEMPT_ID", &p->retry);
	p->grace_s = spec->grace_s;
	p->need = pod_amounts(spec, object);
	p->gang = world_gang(spec);
	p->ip = xstrdup(job->e->ip);
	return p;
}

/* At the end, which keeps them in the order in which they were made. */
static void world_add(struct engine_job *job, struct engine_pod *p)
{
	struct engine_pod **at = &job->pods;
	if (job->hint && !job->hint->next)
		at = &job->hint->next;
	while (*at)
		at = &(*at)->next;
	(void)pthread_mutex_lock(&job->e->lock); /* cannot fail */
	*at = p;
	(void)pthread_mutex_unlock(&job->e->lock);
	job->hint = p;
}

void world_sweep(struct engine_job *job)
{
	for (struct engine_pod **at = &job->pods; *at;) {
		struct engine_pod *p = *at;
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
}

/* The object with uid and namespace. */
static int world_complete_pod(const struct engine *e, struct span object, const char *uid,
                              struct str *out)
{
	struct span meta = scan_get(object, "metadata");
	if (scan_type(meta) != SCAN_OBJECT)
		return -1;
	size_t at = (size_t)(meta.p - object.p) + 1;
	str_span(out, span_to(object, at));
	str_printf(out, "\"uid\":\"%s\",", uid);
	if (scan_type(scan_get(meta, "namespace")) == SCAN_NONE)
		str_printf(out, "\"namespace\":\"%s\",", e->set.namespace_name);
	str_span(out, span_from(object, at));
	return out->full ? -1 : 0;
}

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

const struct pod *world_read_pod(const struct engine *e, struct span object, const char *ip,
                                 struct arena *a, struct err *err)
{
	const struct pod_settings s = { e->node, ip, e->set.storages, e->set.n_storages };
	return pod_read(object, &s, a, err);
}

/* DIR/pods/UID with the object, on disk. */
static int world_write_pod(struct engine *e, const char *uid, struct span object)
{
	if (mkdirat(e->pods_dir, uid, 0700) < 0 && errno != EEXIST)
		return -1;
	FD_AUTO dir = openat(e->pods_dir, uid, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return -1;
	return engine_write(dir, "pod.json", object, !e->set.foreground);
}

static enum framework_answer world_create_pod(struct engine_job *job, const char *name,
                                              struct span object, struct framework_created *out)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO err = { 0 };
	STR_AUTO text = STR_INIT(POD_OBJECT_MAX);
	struct engine *e = job->e;
	if (world_find(job, name))
		return FRAMEWORK_FAILED;
	random_uuid(job->pod_uid);
	if (world_complete_pod(e, object, job->pod_uid, &text) < 0)
		return world_refuse(job, name, "the pod is larger than 4 MiB", out);
	const struct pod *spec = world_read_pod(e, str_view(&text), e->ip, &a, &err);
	if (!spec)
		return world_refuse(job, name, err_msg(&err), out);
	if (world_write_pod(e, job->pod_uid, str_view(&text)) < 0) {
		job_trouble(job, "a pod cannot be created", span_of(strerrordesc_np(errno)));
		trash_pod(e, job->pod_uid);
		return FRAMEWORK_FAILED;
	}
	world_add(job, world_new_pod(job, str_view(&text), spec));
	out->uid = job->pod_uid;
	return FRAMEWORK_DONE;
}

/* ---- what the machine asks ------------------------------------------------------------------- */

static enum framework_answer world_create(void *arg, enum framework_kind kind, const char *name,
                                          struct span object, struct framework_created *out)
{
	struct engine_job *job = arg;
	enum framework_answer answer = kind == FRAMEWORK_POD
	                                   ? world_create_pod(job, name, object, out)
	                                   : world_create_configmap(job, name, out);
	job->look = job->look || answer == FRAMEWORK_DONE; /* it is seen at the next sync */
	return answer;
}

static enum framework_answer world_remove(void *arg, const struct framework_delete *what)
{
	struct engine_job *job = arg;
	struct engine_configmap *c = &job->configmap;
	if (what->kind == FRAMEWORK_CONFIGMAP) {
		if (!c->there || strcmp(c->uid, what->uid) != 0)
			return FRAMEWORK_DONE;
		if (job->unstored && job->pods)
			return FRAMEWORK_PENDING; /* why they end is stored first */
		c->dying = true;
		world_collect(job);
		return c->there && what->confirm ? FRAMEWORK_PENDING : FRAMEWORK_DONE;
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

/* A task that cannot be known. */
static void world_end_stranger(struct engine *e, const char *uid)
{
	FREE_AUTO char *dir = xasprintf("%s/pods/%s", e->set.dir, uid);
	int pidfd = -1;
	if (task_find(dir, &pidfd) == TASK_ALIVE) {
		task_kill(pidfd);
		task_reap(pidfd);
	}
	trash_pod(e, uid);
}

static void world_restore_pod(struct engine *e, const char *uid)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO err = { 0 };
	STR_AUTO text = STR_INIT(POD_OBJECT_MAX);
	FD_AUTO dir = openat(e->pods_dir, uid, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	bool read = dir >= 0 && fd_read_str(dir, "pod.json", &text) == 0 &&
	            scan_valid(str_view(&text), 100);
	struct span object = str_view(&text);
	const struct pod *spec = read ? world_read_pod(e, object, e->ip, &a, &err) : NULL;
	struct span framework = read ? world_annotation(object, "FC_FRAMEWORK_UID", &a) : SPAN("");
	if (spec && strcmp(spec->uid, uid) == 0 && framework.n > 0 && framework.n < UID_TEXT) {
		struct engine_job *job = engine_job_of(e, framework);
		struct engine_pod *p = world_new_pod(job, object, spec);
		world_add(job, p);
		pod_found(p, dir);
	} else {
		engine_notice(e, ENGINE_WARNING, "the task in %s/pods/%s is removed: %s",
		              e->set.dir, uid,
		              err_msg(&err)[0] ? err_msg(&err) : "pod.json is not readable");
		world_end_stranger(e, uid);
	}
}

int world_restore(struct engine *e, struct err *err)
{
	DIR_AUTO *list = dir_list(e->pods_dir, ".");
	if (!list)
		return err_set(err, UNKNOWN_ERROR, "%s/pods: %s", e->set.dir,
		               strerrordesc_np(errno));
	for (const char *name; (name = dir_next(list)) != NULL;) {
		if (name[0] != '.')
			world_restore_pod(e, name);
	}
	return 0;
}
