/* The life of a pod: bound, image, Secrets, shim, end.  The kubelet does this in a cluster.  A pod
 * that has begun to start has a directory DIR/pods/UID, with `spec` in it. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/embed.h"
#include "base/enc.h"
#include "base/image/image.h"
#include "base/json/scan.h"
#include "base/posix/clock.h"
#include "base/posix/fd.h"
#include "base/posix/lock.h"
#include "machine/engine/engine_internal.h"

enum {
	RETRY_MIN = 8, /* drive_backoff_ms: 1.28 s */
	RETRY_MS = 60000,
	QUICK_MS = 10000, /* a task that fails sooner makes the next one wait */
	QUICK_WAIT_MS = 10000,
	QUICK_MANY = 8,
	KILL_MARGIN_MS = 10000, /* after the grace */
	STARTS_MAX = 8,         /* in one round of the thread */
	STARTING_MS = 5000,     /* until a shim has written its pid */
	LOOK_MS = 10,           /* from its start until it is asked whether the task runs */
	LOOK_MIN = 2,           /* drive_backoff_ms, for the next time: 20 ms */
	LOOK_MOST_MS = 100,
	CODE_IMAGE_ABSENT = 254, /* of the exit specification */
	CODE_CANNOT_RUN = 128,   /* as Docker */
	GPUS_TEXT = 64 << 10,
	PULLS_MANY = 3,
	EVENT_TEXT = 1024,
	FILES_MS = 1000, /* until descriptors for ports are looked for again */
};

/* The default for clusters without this ConfigMap of OpenPAI. */
EMBED(exit_patterns, "runtime-assets/runtime-exit-spec.yaml");
static const char EXIT_PATTERNS[] = "runtime-exit-spec-configuration";

/* The states that may follow each one: the queue can take resources back, and a start can fail. */
#define TO(state) (1u << POD_##state)
static const unsigned POD_NEXT[POD_REMOVED + 1] = {
	[POD_QUEUED] = TO(BOUND) | TO(PULLING) | TO(SOUGHT) | TO(REMOVED),
	[POD_BOUND] = TO(QUEUED) | TO(BOUND) | TO(PULLING) | TO(STARTED) | TO(ENDED) | TO(REMOVED),
	[POD_PULLING] = TO(QUEUED) | TO(BOUND) | TO(STARTED) | TO(ENDED) | TO(REMOVED),
	[POD_SOUGHT] = TO(BOUND) | TO(STARTED) | TO(EXITED),
	[POD_STARTED] = TO(EXITED),
	[POD_EXITED] = TO(ENDED),
	[POD_ENDED] = TO(REMOVED),
};

void pod_become(struct engine_pod *p, enum engine_pod_state state)
{
	assert(POD_NEXT[p->state] & 1u << state);
	p->state = state;
}

void pod_changes(void *arg)
{
	const struct engine_pod *p = arg;
	p->job->look = true;
	engine_due(p->job, 0);
}

void pod_notify(struct engine_pod *p, const char *problem)
{
	char *text =
	    problem ? xasprintf("task %s-%lld: %s", p->role, (long long)p->index, problem) : NULL;
	LOCK_AUTO(&p->e->lock);
	free(p->problem);
	p->problem = text;
}

void pod_event(struct engine_pod *p, const char *type, const char *reason, const char *fmt, ...)
{
	const struct engine *e = p->e;
	char text[EVENT_TEXT];
	char id[17];
	va_list args;
	if (!p->job->name)
		return;
	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args); /* may be cut */
	va_end(args);
	random_hex(id, 8);
	int64_t now_ms = clock_wall_ms() / 1000 * 1000;
	const struct event event = { .uid = span_of(id),
		                     .framework = span_of(p->job->name),
		                     .role = span_of(p->role),
		                     .pod = span_of(p->name),
		                     .pod_uid = span_of(p->uid),
		                     .type = span_of(type),
		                     .reason = span_of(reason),
		                     .message = span_cut(span_of(text), EVENT_TEXT),
		                     .component = SPAN("rest-lit"),
		                     .host = span_of(e->pods.node_name),
		                     .index = p->index,
		                     .count = 1,
		                     .first_ms = now_ms,
		                     .last_ms = now_ms };
	e->set.event(e->set.arg, &event);
}

/* ---- what the pods of a role need ------------------------------------------------------------ */

static const struct pod *pod_spec(struct engine_pod *p, struct err *err)
{
	const struct framework_object what = { .kind = FRAMEWORK_POD,
		                               .role = p->role,
		                               .index = p->index };
	struct pod_settings settings = p->e->pods;
	if (p->spec)
		return p->spec;
	settings.ip = p->ip;
	settings.uid = p->uid;
	settings.results = results_path(p->e, p->job->uid, &p->arena);
	return p->spec = pod_read(framework_object(p->job->framework, &what, &p->arena), &settings,
	                          &p->arena, err);
}

static void pod_forget_spec(struct engine_pod *p)
{
	p->spec = NULL;
	arena_wipe(&p->arena);
}

/* The needs are the same for all pods of a role; the job's pod that was made or found last is often
 * one of these.  -1 and *err: no such pod can run here. */
int pod_read_need(struct engine_pod *p, struct err *err)
{
	const struct engine_pod *like = p->job->last_found;
	if (like && strcmp(like->role, p->role) == 0) {
		p->need = like->need;
		p->grace_s = like->grace_s;
		p->gang = like->gang;
		return 0;
	}
	const struct pod *pod = pod_spec(p, err);
	if (!pod)
		return -1;
	p->need = pod->need;
	p->grace_s = pod->grace_s;
	p->gang = pod->gang;
	/* It often starts at once.  Most pods wait long, so only the latest keeps what was read. */
	struct engine_pod *before = p->e->latest;
	if (before && before->state != POD_BOUND && before->state != POD_PULLING)
		pod_forget_spec(before);
	p->e->latest = p;
	return 0;
}

/* ---- what a start needs ---------------------------------------------------------------------- */

/* struct pod_objects: an object that is needed and does not exist may do so later. */
static int pod_source_object(void *arg, const struct pod_source *s, struct arena *a,
                             struct pod_data *out, struct err *err)
{
	struct local_answer answer;
	enum object_kind kind = s->secret ? KIND_SECRET : KIND_CONFIGMAP;
	int result = 1;
	if (engine_get(arg, kind, s->name, &answer) == STORE_OK) {
		result = pod_data_read(str_view(&answer.body), s->secret, a, out, err);
	} else if (answer.outcome != STORE_NOT_FOUND) {
		result = err_set(err, UNAVAILABLE, "%s", answer.message);
	} else if (!s->secret && strcmp(s->name, EXIT_PATTERNS) == 0) {
		out->v = ARENA_NEW(a, struct pod_pair, out->n = 1);
		*out->v =
		    (struct pod_pair){ SPAN("runtime-exit-spec.yaml"), EMBEDDED(exit_patterns) };
		result = 0;
	}
	local_answer_done(&answer);
	return result;
}

/* The logins for its image as a Docker configuration, in which the last one for a registry counts.
 */
static int pod_logins(const struct engine_pod *p, struct str *out, struct err *err)
{
	const struct pod_objects objects = { pod_source_object, p->e };
	ARENA_SECRET a = { 0 };
	for (size_t i = 0; i < p->spec->n_pull_secrets; i++) {
		const struct pod_source s = { p->spec->pull_secret[i], true, true };
		struct pod_data data;
		if (pod_source_get(&s, &objects, &a, &data, err) < 0)
			return -1;
		for (size_t j = 0; j < data.n; j++) {
			struct span auths = data.v[j].value;
			bool good = span_is(data.v[j].key, ".dockerconfigjson") &&
			            scan_valid(auths, SCAN_DEPTH_MAX);
			auths = good ? scan_get(auths, "auths") : SPAN("");
			if (scan_type(auths) != SCAN_OBJECT || scan_count(auths) == 0)
				continue;
			str_puts(out, out->n ? "," : "{\"auths\":{");
			str_span(out, span_from(span_to(auths, auths.n - 1), 1));
		}
	}
	if (out->n)
		str_puts(out, "}}");
	return 0;
}

/* Nodes, mounts and variables of the pod's GPUs, and what all tasks see. */
static void pod_start_files(const struct engine_pod *p, struct arena *a, struct task_settings *set)
{
	const struct engine *e = p->e;
	const struct gpu **gpus = ARENA_NEW(a, const struct gpu *, e->inventory.gpus_n + 1);
	size_t n = 0;
	size_t files = e->set.n_mounts + 2;
	for (size_t i = 0; i < e->inventory.gpus_n; i++)
		files += e->inventory.gpus[i].files_n;
	struct sandbox_mount *mount = ARENA_NEW(a, struct sandbox_mount, files);
	for (size_t i = 0; i < e->inventory.gpus_n; i++) {
		const struct gpu *gpu = &e->inventory.gpus[i];
		if (gpu->holder != p->allocation)
			continue;
		gpus[n++] = gpu;
		for (size_t j = 0; j < gpu->files_n; j++)
			mount[set->box.mounts_n++] = gpu->files[j];
	}
	if (e->shows_cwd)
		mount[set->box.mounts_n++] =
		    (struct sandbox_mount){ .source = e->set.cwd, .path = e->set.cwd };
	for (size_t i = 0; i < e->set.n_mounts; i++)
		mount[set->box.mounts_n++] = e->set.mounts[i];
	if (e->shows_cwd && e->set.results && results_wanted(p->spec))
		mount[set->box.mounts_n++] = (struct sandbox_mount){ .source = e->set.results,
			                                             .path = e->set.results,
			                                             .writable = true };
	set->box.mounts = mount;
	set->env = gpu_env(gpus, n, e->sandbox, a);
}

/* *procs: for task_settings, to be freed; NULL without cgroups. */
static int pod_start_cgroup(const struct engine_pod *p, char **procs, struct err *err)
{
	return p->e->cgroup ? cgroup_make(p->e->cgroup, p->uid, &p->need, procs, err) : 0;
}

/* Writes the directory of the task. */
static int pod_start_prepare(struct engine_pod *p, const char *procs, struct arena *a,
                             struct err *err)
{
	struct engine *e = p->e;
	static const struct images_status HOST;
	const struct images_status *image = p->image ? images_status(p->image) : &HOST;
	const struct pod_objects objects = { pod_source_object, e };
	const struct pod *spec = pod_spec(p, err);
	struct local_answer framework;
	if (!spec) {
		err->http = 503; /* a storage was there when the pod was made */
		return -1;
	}
	struct task_settings set = {
		.dir = p->dir,
		.sandbox = e->sandbox,
		.box = { .runtime = e->set.runtime,
		         .rootfs = image->rootfs,
		         .hide = e->hide.v,
		         .hide_n = e->hide.n },
		.start_directory = e->set.cwd ?: image->directory,
		.cgroup_procs = procs,
		.caller_env = e->set.env,
		.image_env = image->env,
		.note = image->note,
		.whole_log = e->set.once,
		.objects = &objects,
	};
	const char *results = results_path(e, p->job->uid, a);
	if (results_wanted(spec) && mkdir(results, 0700) != 0 && errno != EEXIST)
		return err_set(err, UNAVAILABLE, "the directory of the results, %s: %m", results);
	pod_start_files(p, a, &set);
	bool found = engine_get(e, KIND_FRAMEWORK, p->job->name, &framework) == STORE_OK;
	set.framework = str_view(&framework.body);
	int bad = found ? task_prepare(spec, &set, err)
	                : err_set(err, UNAVAILABLE, "%s", framework.message);
	local_answer_done(&framework);
	return bad;
}

static int pod_start(struct engine_pod *p, struct err *err)
{
	const struct engine *e = p->e;
	ARENA_SECRET a = { 0 };
	FREE_AUTO char *procs = NULL;
	FREE_AUTO char *file = xasprintf("%s/spec", p->dir);
	size_t n = 0; /* of the locks that the shim inherits */
	int *keep = ARENA_NEW(&a, int, e->inventory.gpus_n + (size_t)p->need.ports + 1);
	for (size_t i = 0; i < e->inventory.gpus_n; i++) {
		if (e->inventory.gpus[i].holder == p->allocation)
			keep[n++] = e->inventory.gpus[i].fd;
	}
	for (int64_t i = 0; i < p->need.ports; i++)
		keep[n++] = p->port_fd[i];
	if (p->image)
		keep[n++] = images_status(p->image)->lock;
	(void)mkdir(p->dir, 0700); /* may be there */
	owner_write(p->job, p->dir);
	pod_write_bound(p);
	if (pod_start_cgroup(p, &procs, err) == 0 && pod_start_prepare(p, procs, &a, err) == 0)
		p->pidfd = task_start(p->dir, e->set.runtime, e->set.foreground, e->set.input, keep,
		                      n, err);
	if (p->pidfd < 0) {
		(void)unlink(file); /* else a restart takes it as started */
		return -1;
	}
	allocation_unlock(p->e, p->allocation, true); /* the shim has the locks */
	pod_drop_ports(p);
	return 0;
}

void pod_limit(struct engine_pod *p)
{
	FREE_AUTO char *procs = NULL;
	ERR_AUTO err = { 0 };
	if (pod_start_cgroup(p, &procs, &err) < 0)
		engine_notice(p->e, ENGINE_WARNING, "limits of a running task: %s", err_msg(&err));
}

/* ---- end ------------------------------------------------------------------------------------- */

static void pod_read_state(struct engine_pod *p)
{
	struct task_state now;
	/* The state is as it was, if this fails; at the end this is a lost task. */
	if (task_read_state(p->dir, &p->texts, &now))
		p->task = now;
}

/* Returns the CPU time of its shim and all that this has waited for, in ms; -1: unknown. */
static int64_t pod_release(struct engine_pod *p)
{
	struct rusage used;
	pod_drop_ports(p);
	pod_forget_spec(p);
	images_release(TAKE(p->image));
	if (p->pidfd < 0)
		return -1;
	(void)epoll_ctl(p->e->epoll, EPOLL_CTL_DEL, p->pidfd, NULL); /* was added */
	/* It may be no child.  glibc's function lacks the last parameter. */
	siginfo_t info = { 0 };
	long bad = syscall(SYS_waitid, P_PIDFD, p->pidfd, &info, WEXITED | WNOHANG, &used);
	(void)close(p->pidfd);
	p->pidfd = -1;
	if (bad || info.si_pid == 0)
		return -1;
	return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * INT64_C(1000) +
	       (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1000;
}

static void pod_remove(struct engine_pod *p)
{
	struct engine_allocation *g = TAKE(p->allocation);
	pod_usage_end(p, pod_release(p));
	allocation_unlock(p->e, g, true);
	if (g)
		g->pod = NULL;
	if (g && !g->task.holds)
		allocations_end(p->job, p->role, p->index);
	if (p->state >= POD_ENDED)
		logs_keep(p);
	if (p->job->life == LIFE_LOST)
		engine_set_aside(p->e, p->dir, p->job->label, "a task, which was ended, of ");
	else
		trash_take(p->e, p->e->pods_dir, p->uid);
	pod_become(p, POD_REMOVED);
	pod_changes(p);
}

/* The shim has ended or vanished. */
static void pod_shim_ended(struct engine_pod *p)
{
	pod_read_state(p);
	bool lost = p->task.phase != TASK_ENDED;
	pod_usage_end(p, pod_release(p));
	bool oom = false;
	bool killed = p->e->cgroup && cgroup_end(p->e->cgroup, p->uid, &oom);
	if (lost && !killed) /* else the shim has waited for all */
		(void)task_kill_leftovers(p->uid);
	pod_become(p, POD_ENDED);
	struct framework_container *c = &p->task.container[1];
	if (oom && c->code != 0)
		c->reason = "OOMKilled";
	bool quick = !lost && !p->dying && c->code != 0 && p->task.ran_ms < QUICK_MS;
	p->job->quick = quick ? p->job->quick + 1 : 0;
	if (lost && !p->dying)
		pod_event(p, "Warning", "NodeLost", "%s", POD_LOST);
	if (p->dying) /* it is removed when its row is stored; nobody sees that it has ended */
		engine_due(p->job, 0);
	else
		pod_changes(p);
}

/* Ends a pod that has not started. */
static void pod_fail_before_start(struct engine_pod *p, const char *reason, int code,
                                  const char *message)
{
	struct framework_container *c = &p->task.container[code != CODE_IMAGE_ABSENT];
	p->task.phase = TASK_ENDED;
	c->terminated = true;
	c->code = code;
	c->finished_s = clock_wall_ms() / 1000;
	c->reason = reason;
	c->message = arena_dup(&p->texts, span_of(message));
	pod_event(p, "Warning", "Failed", "%s", message);
	pod_notify(p, NULL);
	pod_usage_end(p, pod_release(p));
	allocation_unlock(p->e, p->allocation, true);
	pod_become(p, POD_ENDED);
	pod_changes(p);
}

void pod_delete(struct engine_pod *p, int64_t grace_s)
{
	p->dying = true;
	p->deletion_s = clock_wall_ms() / 1000 + grace_s;
	p->deletion_grace_s = grace_s;
	if (!pod_is_started(p)) {
		pod_remove(p);
		return;
	}
	pod_event(p, "Normal", "Killing", "Stopping container app");
	if (p->pidfd >= 0 && grace_s > 0)
		task_stop(p->pidfd, grace_s);
	else if (p->pidfd >= 0)
		task_kill(p->pidfd);
	p->due_ms = clock_ms() + grace_s * 1000 + KILL_MARGIN_MS;
	pod_changes(p);
}

/* ---- start ----------------------------------------------------------------------------------- */

/* Tries again after a while. */
static void pod_fails(struct engine_pod *p, const char *reason, const char *why)
{
	if (!p->problem || !strstr(p->problem, why))
		pod_event(p, "Warning", reason, "%s", why);
	pod_notify(p, why);
	pod_become(p, POD_BOUND);
	p->due_ms = clock_ms() + drive_backoff_ms(RETRY_MIN + p->tries++, RETRY_MS);
}

static void pod_run(struct engine_pod *p)
{
	ERR_AUTO err = { 0 };
	p->e->starts++;
	if (pod_start(p, &err) < 0) {
		if (err.http == 400)
			pod_fail_before_start(p, "ContainerCannotRun", CODE_CANNOT_RUN,
			                      err_msg(&err));
		else
			pod_fails(p, err.http == 503 ? "FailedMount" : "FailedCreate",
			          err_msg(&err));
		return;
	}
	images_release(TAKE(p->image)); /* the shim keeps the lock */
	pod_forget_spec(p);
	pod_become(p, POD_STARTED);
	pod_usage_begin(p, false);
	p->tries = 0;
	p->due_ms = clock_ms() + LOOK_MS;
	pod_notify(p, NULL);
	engine_watch(p->e, p->pidfd, p);
}

static void pod_pull(struct engine_pod *p)
{
	STR_AUTO logins = STR_SECRET(1 << 20);
	ERR_AUTO err = { 0 };
	if (!pod_spec(p, &err) || pod_logins(p, &logins, &err) < 0) {
		pod_fails(p, "FailedToRetrieveImagePullSecret", err_msg(&err));
		return;
	}
	const struct pod_container *c = &p->spec->app;
	if (strcmp(c->image, IMAGE_OF_HOST) == 0 && !p->e->set.only_images) {
		pod_run(p);
		return;
	}
	p->image = images_request(p->e->images, span_of(c->image), str_view(&logins), p);
	pod_event(p, "Normal", "Pulling", "Pulling image \"%s\"", c->image);
	pod_become(p, POD_PULLING);
	engine_due(p->job, 0);
}

void pod_count_pull(struct engine_pod *p, const char *why)
{
	/* The texts before the last colon differ: sockets have ports, and fail when they dial, read
	 * or write. */
	const char *cause = strrchr(why, ':') ?: why;
	bool same = p->pull_problem && strcmp(p->pull_problem, cause) == 0;
	p->pulls_failed = same ? p->pulls_failed + 1 : 1;
	free(p->pull_problem);
	p->pull_problem = xstrdup(cause);
	if (p->pulls_failed == PULLS_MANY)
		engine_notice(p->e, ENGINE_NO_IMAGE, "%s", why);
}

static void pod_look_at_image(struct engine_pod *p)
{
	const struct images_status *s = images_status(p->image);
	if (s->state == IMAGES_READY) {
		if (s->note)
			pod_event(p, "Warning", "Pulled", "%s", s->note);
		else
			pod_event(p, "Normal", "Pulled", "Successfully pulled image (%s)",
			          s->digest);
		p->pulls_failed = 0;
		pod_run(p);
	} else if (s->state == IMAGES_FAILED && s->absent) {
		pod_fail_before_start(p, "Error", CODE_IMAGE_ABSENT, s->text);
	} else if (s->state == IMAGES_FAILED) {
		pod_fails(p, "Failed", s->text);
		pod_count_pull(p, s->text);
		images_release(TAKE(p->image));
	} else {
		pod_notify(p, s->text);
	}
}

/* Notes the GPUs that its allocation has. */
static void pod_note_gpus(struct engine_pod *p)
{
	STR_AUTO list = STR_INIT(GPUS_TEXT);
	const struct inventory *has = &p->e->inventory;
	for (size_t i = 0; i < has->gpus_n; i++)
		if (p->allocation && has->gpus[i].holder == p->allocation)
			str_printf(&list, "%s%zu", list.n ? "," : "", i);
	if (strcmp(str_c(&list), p->gpus ?: "") == 0)
		return;
	free(p->gpus);
	p->gpus = xstrdup(str_c(&list));
	pod_changes(p);
}

static void pod_advance(struct engine_pod *p)
{
	const char *why;
	if (p->e->starts == STARTS_MAX) {
		engine_due(p->job, 0);
	} else if (p->state == POD_PULLING) {
		pod_look_at_image(p);
	} else if (p->allocation && !allocation_lock(p->e, p->allocation)) {
		pod_fails(p, "FailedScheduling", "its GPU is used by another program");
	} else if (p->allocation) {
		pod_note_gpus(p);
		if ((why = pod_take_ports(p)))
			pod_fails(p, "FailedScheduling", why);
		else if (p->job->look)
			engine_due(p->job, 0); /* GPUs and ports that are new are stored first */
		else if (p->e->images && !p->image)
			pod_pull(p);
		else
			pod_run(p);
	}
}

/* Notes that only `n` ports were free to choose from. */
static void pod_note_ports_away(struct engine *e, size_t n)
{
	int64_t known = (int64_t)n;
	const struct engine_job *job;
	LOCK_AUTO(&e->lock);
	TAILQ_FOREACH(job, &e->live, live)
	for (const struct engine_pod *p = job->pods; p; p = p->next)
		known += p->port_fd || pod_is_started(p) ? p->need.ports : 0;
	e->queue->foreign.ports =
	    e->inventory.total.ports > known ? e->inventory.total.ports - known : 1;
}

/* The numbers that were told to other tasks stay, unless they are not known any more. */
const char *pod_take_ports(struct engine_pod *p)
{
	static const char NO_FILE[] =
	    "this server has no more open files for the ports of tasks that start";
	struct engine *e = p->e;
	size_t n = (size_t)p->need.ports;
	bool queued = p->state == POD_QUEUED;
	bool chooses = queued || !p->ports;
	if (n == 0 || p->port_fd)
		return NULL;
	int *fd = xcalloc(n, sizeof(int));
	size_t got = PORTS_NO_FILE;
	if (e->ports_held == 0 || e->ports_held + n <= ENGINE_PORTS_HELD)
		got = p->ports ? ports_take(&e->set.ports, &p->ports, n, fd) : 0;
	if (got < n && chooses) {
		free(TAKE(p->ports));
		got = ports_take(&e->set.ports, &p->ports, n, fd);
		if (got < n)
			pod_note_ports_away(e, got);
	}
	if (queued)
		pod_notify(p, got == PORTS_NO_FILE ? NO_FILE : NULL);
	if (got == n) {
		p->port_fd = fd;
		e->ports_held += n;
		if (chooses && !queued)
			pod_changes(p);
		return NULL;
	}
	free(fd);
	if (got == PORTS_NO_FILE && queued)
		e->probe_ms = clock_ms() + FILES_MS;
	return got == PORTS_NO_FILE ? NO_FILE : "its ports are used by another program";
}

void pod_drop_ports(struct engine_pod *p)
{
	if (!p->port_fd)
		return;
	for (int64_t i = 0; i < p->need.ports; i++)
		(void)close(p->port_fd[i]); /* nothing was written */
	p->e->ports_held -= (size_t)p->need.ports;
	free(TAKE(p->port_fd));
}

void pod_bind(struct engine_pod *p)
{
	pod_note_bound(p);
	pod_note_gpus(p);
	/* It can have had its resources before. */
	pod_become(p, p->image ? POD_PULLING : POD_BOUND);
	if (p->job->quick > 0)
		p->due_ms = clock_ms() + drive_backoff_ms(p->job->quick, QUICK_WAIT_MS);
	if (p->job->quick >= QUICK_MANY)
		pod_notify(p,
		           "the last tries have failed soon after their start, so the next one is "
		           "delayed by some seconds");
	pod_event(p, "Normal", "Scheduled", "Successfully assigned %s to %s", p->name,
	          p->e->pods.node_name);
	pod_changes(p);
}

/* ---- a look ---------------------------------------------------------------------------------- */

/* Looks if it runs, or has ended meanwhile.  A task that ends at once need not be seen before. */
static void pod_look_at_state(struct engine_pod *p)
{
	pod_read_state(p);
	if (p->task.started) {
		pod_event(p, "Normal", "Started", "Started container app");
		pod_changes(p);
	} else {
		p->due_ms = clock_ms() + drive_backoff_ms(LOOK_MIN + p->tries++, LOOK_MOST_MS);
	}
}

/* A shim that an earlier process was about to start. */
static void pod_look_for_shim(struct engine_pod *p)
{
	enum task_found found = task_find(p->dir, &p->pidfd);
	if (found == TASK_ALIVE) {
		pod_become(p, POD_STARTED);
		pod_usage_begin(p, true);
		p->due_ms = p->dying ? p->due_ms : 0;
		pod_limit(p);
		engine_watch(p->e, p->pidfd, p);
		if (p->dying)
			task_stop(p->pidfd, p->deletion_grace_s);
	} else if (found == TASK_NOT_STARTED && clock_ms() < p->due_ms) {
		engine_due(p->job, clock_ms() + STARTING_MS / 10);
	} else if (found == TASK_GONE || p->dying) {
		pod_become(p, POD_EXITED);
	} else {
		pod_become(p, POD_BOUND); /* it was not started */
	}
}

void pod_step(struct engine_pod *p, bool stored)
{
	if (p->state == POD_SOUGHT)
		pod_look_for_shim(p);
	int64_t now = clock_ms();
	bool due = now >= p->due_ms;
	bool ran = p->task.started;
	if (!ran && (p->state == POD_EXITED || (p->state == POD_STARTED && due && !p->dying)))
		pod_look_at_state(p);
	/* The state machine sees that it runs before it sees its end. */
	if (p->state == POD_EXITED && p->task.started == ran) {
		pod_shim_ended(p);
	} else if (p->state == POD_ENDED && p->dying) {
		if (p->e->rows_n == 0)
			pod_remove(p);
		else /* when they are stored */
			engine_due(p->job, 0);
	} else if (p->state == POD_STARTED && p->dying && due) {
		task_kill(p->pidfd);
		p->due_ms = now + KILL_MARGIN_MS;
	} else if (p->state > POD_QUEUED && p->state < POD_SOUGHT && stored && due) {
		pod_advance(p);
	}
	if (p->state < POD_ENDED && p->due_ms > now)
		engine_due(p->job, p->due_ms);
}

bool pod_find(struct engine_pod *p)
{
	FREE_AUTO char *spec = xasprintf("%s/spec", p->dir);
	FREE_AUTO char *shim = xasprintf("%s/shim", p->dir);
	/* The shim removes the first one, which may not have survived a power failure either. */
	if (access(spec, F_OK) < 0 && access(shim, F_OK) < 0)
		return false;
	pod_become(p, POD_SOUGHT);
	pod_read_bound(p);
	p->due_ms = clock_ms() + STARTING_MS;
	return true;
}

/* ---- as the state machine sees it
 * ------------------------------------------------------------------ */

void pod_view(struct engine_pod *p, struct framework_pod *out)
{
	const struct framework_container *app = &p->task.container[1];
	const struct framework_container *lacks = NULL; /* was not started, for want of something */
	bool bound = p->state > POD_QUEUED;             /* has a node and an address */
	bool ended = p->state == POD_ENDED && !p->dying;
	bool lost = ended && p->task.phase != TASK_ENDED;
	bool good = !lost && app->terminated && app->code == 0;
	for (const struct framework_container *c = p->task.container; c <= app && !lacks; c++)
		lacks = c->terminated && strcmp(c->reason, "OutOfResources") == 0 ? c : NULL;
	*out = (struct framework_pod){
		.uid = p->uid,
		.owner_uid = p->job->configmap,
		.dying = p->dying,
		.deletion_s = p->deletion_s,
		.grace_s = p->deletion_grace_s,
		.phase = !ended ? (p->task.started ? "Running" : "Pending")
		         : good ? "Succeeded"
		                : "Failed",
		.reason = lost    ? "NodeLost"
		          : lacks ? lacks->reason
		                  : "",
		.message = lost    ? POD_LOST
		           : lacks ? lacks->message
		                   : "",
		.node = bound ? p->e->pods.node_name : "",
		.ip = bound ? p->ip : "",
		.ports = bound ? p->ports : NULL,
		.gpus = bound ? p->gpus : NULL,
		.host_ip = bound ? p->ip : "",
		.containers = p->task.container,
		.n_containers = 2,
	};
}

void pod_free(struct engine_pod *p)
{
	(void)pod_release(p);
	if (p->e->latest == p)
		p->e->latest = NULL;
	if (p->allocation)
		p->allocation->pod = NULL;
	free(p->ports);
	free(p->gpus);
	free(p->problem);
	free(p->pull_problem);
	arena_done(&p->texts);
	free(p);
}
