/* The life of a pod: bound, image, Secrets, shim, end.  What the kubelet does in a cluster. */
#include <errno.h>
#include <fcntl.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/json/scan.h"
#include "machine/engine/engine_internal.h"

enum {
	RETRY_MIN = 8, /* engine_backoff: 1.28 s */
	RETRY_MS = 60000,
	QUICK_MS = 10000, /* a task that fails sooner makes the next one wait */
	QUICK_WAIT_MS = 10000,
	QUICK_MANY = 8,
	KILL_MARGIN_MS = 10000,  /* after the grace */
	STARTS_MAX = 8,          /* in one turn of the thread */
	STARTING_MS = 5000,      /* until a shim has written its pid */
	CODE_IMAGE_ABSENT = 254, /* of the exit specification */
	CODE_CANNOT_RUN = 128,   /* as Docker */
	TASK_FILE_MAX = 64 << 10,
	PULLS_MANY = 3,
	FILES_MS = 1000, /* until descriptors for ports are looked for again */
};

/* ---- what is noted --------------------------------------------------------------------------- */

static void pod_changes(struct engine_pod *p)
{
	p->job->look = true;
	engine_due(p->job, 0);
}

static void pod_shim_ready(void *arg)
{
	struct engine_pod *p = arg;
	(void)epoll_ctl(p->e->epoll, EPOLL_CTL_DEL, p->pidfd, NULL); /* was added before */
	p->shim_ended = true;
	engine_due(p->job, 0);
}

void pod_image_changed(void *arg)
{
	struct engine_pod *p = arg;
	engine_due(p->job, 0);
}

static int pods_compare(const void *a, const void *b)
{
	const struct engine_pod *x = a;
	const struct engine_pod *y = b;
	return (x->watch > y->watch) - (x->watch < y->watch);
}

static void pods_watched(struct engine *e, int watch)
{
	const struct engine_pod key = { .watch = watch };
	struct engine_pod *const *found = tfind(&key, &e->watched, pods_compare);
	if (!found)
		return; /* it has ended */
	(*found)->changed = true;
	engine_due((*found)->job, 0);
}

static void pods_inotify_ready(void *arg)
{
	struct engine *e = arg;
	_Alignas(struct inotify_event) char buffer[4096];
	ssize_t n;
	while ((n = read(e->inotify, buffer, sizeof(buffer))) > 0) {
		for (char *at = buffer; at < buffer + n;) {
			const struct inotify_event *event = (const struct inotify_event *)at;
			if (event->len && strcmp(event->name, "state") == 0)
				pods_watched(e, event->wd);
			at += sizeof(*event) + event->len;
		}
	}
}

int pods_watch_open(struct engine *e)
{
	e->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (e->inotify < 0)
		return -1;
	e->inotify_source = (struct engine_source){ pods_inotify_ready, e };
	engine_watch(e, e->inotify, &e->inotify_source);
	return 0;
}

void pod_watch_state(struct engine_pod *p)
{
	if (p->watch >= 0)
		return;
	p->watch = inotify_add_watch(p->e->inotify, p->dir, IN_MOVED_TO | IN_ONLYDIR);
	if (p->watch < 0)
		engine_notice(p->e, ENGINE_WARNING, "%s cannot be watched: %s", p->dir,
		              strerrordesc_np(errno));
	else if (!tsearch(p, &p->e->watched, pods_compare))
		abort(); /* no memory */
}

static void pod_watch_shim(struct engine_pod *p)
{
	p->source = (struct engine_source){ pod_shim_ready, p };
	engine_watch(p->e, p->pidfd, &p->source);
}

/* ---- task.json ------------------------------------------------------------------------------- */

int pod_write_file(const struct engine_pod *p)
{
	STR_AUTO text = STR_INIT(TASK_FILE_MAX);
	str_puts(&text, "{\"gpus\":[");
	grant_nodes(p->e, p->grant, &text);
	str_puts(&text, "]}\n");
	FREE_AUTO char *path = xasprintf("%s/task.json", p->dir);
	FD_AUTO fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	return fd < 0 || text.full ? -1 : fd_write_all(fd, str_view(&text));
}

/* ---- end ------------------------------------------------------------------------------------- */

static void pod_set_container(struct engine_pod *p, bool app, const struct task_container *now)
{
	struct task_container *c = app ? &p->task.app : &p->task.init;
	char **text = p->text[app];
	free(text[0]);
	free(text[1]);
	*c = *now;
	c->reason = text[0] = now->reason ? xstrdup(now->reason) : NULL;
	c->message = text[1] = now->message ? xstrdup(now->message) : NULL;
}

static void pod_read_state(struct engine_pod *p)
{
	ERR_AUTO err = { 0 };
	ARENA_AUTO a = { 0 };
	struct task_state now;
	if (task_read_state(p->dir, &a, &now, &err) != 0)
		return; /* at the end this is a lost task */
	p->task.phase = now.phase;
	pod_set_container(p, false, &now.init);
	pod_set_container(p, true, &now.app);
}

static void pod_release(struct engine_pod *p)
{
	pod_drop_ports(p);
	pod_forget_spec(p);
	images_release(TAKE(p->image));
	if (p->watch >= 0) {
		(void)tdelete(p, &p->e->watched, pods_compare);
		(void)inotify_rm_watch(p->e->inotify, p->watch); /* the directory may be gone */
	}
	p->watch = -1;
	if (p->pidfd >= 0) {
		if (!p->shim_ended)
			(void)epoll_ctl(p->e->epoll, EPOLL_CTL_DEL, p->pidfd, NULL); /* was added */
		task_reap(p->pidfd);
	}
	p->pidfd = -1;
}

static void pod_remove(struct engine_pod *p)
{
	pod_release(p);
	if (p->grant && !p->grant->task.holds)
		grants_end(p->job, p->role, p->index);
	if (p->grant) {
		grant_unlock(p->e, p->grant, true);
		p->grant->pod = NULL;
	}
	p->grant = NULL;
	if (p->state >= POD_STARTED)
		logs_keep(p);
	trash_pod(p->e, p->uid);
	p->state = POD_REMOVED;
	pod_changes(p);
}

/* The shim has ended or vanished. */
static void pod_shim_ended(struct engine_pod *p)
{
	pod_read_state(p);
	p->lost = p->task.phase != TASK_ENDED;
	pod_release(p);
	bool killed = false;
	if (p->e->cgroup)
		killed = cgroup_end(p->e->cgroup, p->uid, &p->oom);
	if (p->lost && !killed) /* else the shim has waited for all */
		(void)task_kill_leftovers(p->uid);
	p->state = POD_ENDED;
	const struct task_container *c = &p->task.app;
	bool quick =
	    !p->lost && !p->dying && c->code != 0 && c->ended_ms - c->started_ms < QUICK_MS;
	p->job->quick = quick ? p->job->quick + 1 : 0;
	if (p->lost && !p->dying)
		pod_event(p, "Warning", "NodeLost", "%s", POD_LOST);
	pod_changes(p);
	if (p->dying)
		pod_remove(p);
}

/* It ends without having started. */
static void pod_never(struct engine_pod *p, const char *reason, int code, const char *message)
{
	bool init = code == CODE_IMAGE_ABSENT;
	const struct task_container end = {
		.ended = true,
		.code = code,
		.ended_ms = clock_wall_ms(),
		.reason = reason,
		.message = message,
	};
	pod_set_container(p, !init, &end);
	p->task.phase = TASK_ENDED;
	pod_event(p, "Warning", "Failed", "%s", message);
	pod_release(p);
	grant_unlock(p->e, p->grant, true);
	p->state = POD_ENDED;
	pod_changes(p);
}

void pod_delete(struct engine_pod *p, int64_t grace_s)
{
	int64_t now = clock_wall_ms() / 1000;
	p->dying = true;
	p->deletion_s = now + grace_s;
	p->deletion_grace_s = grace_s;
	if (p->state != POD_STARTED) {
		pod_remove(p);
		return;
	}
	pod_event(p, "Normal", "Killing", "Stopping container app");
	if (p->pidfd >= 0 && grace_s > 0)
		task_stop(p->pidfd, grace_s);
	else if (p->pidfd >= 0)
		task_kill(p->pidfd);
	p->due_ms = clock_ms() + grace_s * 1000 + KILL_MARGIN_MS;
	engine_due(p->job, p->due_ms);
	pod_changes(p);
}

/* ---- start ----------------------------------------------------------------------------------- */

static void pod_say(struct engine_pod *p, const char *problem)
{
	free(p->problem);
	p->problem =
	    problem ? xasprintf("task %s-%lld: %s", p->role, (long long)p->index, problem) : NULL;
}

/* Tries again after a while. */
static void pod_fails(struct engine_pod *p, const char *reason, const char *why)
{
	if (!p->problem || !strstr(p->problem, why))
		pod_event(p, "Warning", reason, "%s", why);
	pod_say(p, why);
	p->state = POD_BOUND;
	p->due_ms = clock_ms() + engine_backoff(RETRY_MIN + p->failures++, RETRY_MS);
	engine_due(p->job, p->due_ms);
}

static void pod_run(struct engine_pod *p)
{
	ERR_AUTO err = { 0 };
	p->e->starts++;
	if (pod_start(p, &err) < 0) {
		if (err.http == 400)
			pod_never(p, "ContainerCannotRun", CODE_CANNOT_RUN, err_msg(&err));
		else
			pod_fails(p, err.http == 503 ? "FailedMount" : "FailedCreate",
			          err_msg(&err));
		return;
	}
	images_release(TAKE(p->image)); /* the shim keeps the lock */
	pod_forget_spec(p);
	p->state = POD_STARTED;
	p->failures = 0;
	pod_say(p, NULL);
	pod_watch_shim(p);
	p->changed = true; /* it may have been written before it was watched */
	engine_due(p->job, 0);
}

static void pod_pull(struct engine_pod *p)
{
	STR_AUTO logins = STR_SECRET(1 << 20);
	ARENA_AUTO a = { 0 };
	ERR_AUTO err = { 0 };
	const struct pod_container *c;
	if (pod_logins(p, &logins, &a, &c, &err) < 0) {
		pod_fails(p, "FailedToRetrieveImagePullSecret", err_msg(&err));
	} else {
		p->image = images_want(p->e->images, span_of(c->image), str_view(&logins), p);
		pod_event(p, "Normal", "Pulling", "Pulling image \"%s\"", c->image);
		p->state = POD_PULLING;
		engine_due(p->job, 0);
	}
	arena_wipe(&a);
}

/* Texts of sockets have ports, which differ. */
static bool pod_same_but_digits(const char *a, const char *b)
{
	static const char DIGITS[] = "0123456789";
	for (;; a++, b++) {
		a += strspn(a, DIGITS);
		b += strspn(b, DIGITS);
		if (*a != *b || !*a)
			return *a == *b;
	}
}

static void pod_count_pull(struct engine_pod *p, const char *why)
{
	bool same = p->pull_problem && pod_same_but_digits(p->pull_problem, why);
	p->pulls_failed = same ? p->pulls_failed + 1 : 1;
	free(p->pull_problem);
	p->pull_problem = xstrdup(why);
	if (p->pulls_failed == PULLS_MANY && p->e->set.pulls_failed)
		p->e->set.pulls_failed(p->e->set.arg, why);
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
		pod_say(p, NULL);
		pod_run(p);
	} else if (s->state == IMAGES_FAILED && s->absent) {
		pod_never(p, "Error", CODE_IMAGE_ABSENT, s->text);
	} else if (s->state == IMAGES_FAILED) {
		pod_fails(p, "Failed", s->text);
		pod_count_pull(p, s->text);
		images_release(TAKE(p->image));
	} else {
		pod_say(p, s->text);
	}
}

static void pod_advance(struct engine_pod *p)
{
	const char *why;
	if (p->e->starts == STARTS_MAX) {
		engine_due(p->job, 0);
	} else if (p->state == POD_PULLING) {
		pod_look_at_image(p);
	} else if (p->state == POD_BOUND && p->grant) {
		if (!grant_lock(p->e, p->grant))
			pod_fails(p, "FailedScheduling", "its GPU is used by another program");
		else if ((why = pod_take_ports(p)))
			pod_fails(p, "FailedScheduling", why);
		else if (p->job->look)
			engine_due(p->job, 0); /* ports that are new are stored first */
		else if (p->e->images && !p->image)
			pod_pull(p);
		else if (p->image && images_status(p->image)->state != IMAGES_READY)
			p->state = POD_PULLING; /* since it had its resources before */
		else
			pod_run(p);
	}
}

/* After only `n` were free to choose from. */
static void pod_note_ports_away(struct engine *e, size_t n)
{
	int64_t known = (int64_t)n;
	const struct engine_job *job;
	TAILQ_FOREACH(job, &e->live, live)
	for (const struct engine_pod *p = job->pods; p; p = p->next)
		known += p->port_fd || p->state == POD_STARTED ? p->need.ports : 0;
	e->foreign.ports = e->inventory.total.ports > known ? e->inventory.total.ports - known : 1;
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
		pod_say(p, got == PORTS_NO_FILE ? NO_FILE : NULL);
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
	p->state = POD_BOUND;
	if (p->job->quick > 0)
		p->due_ms = clock_ms() + engine_backoff(p->job->quick, QUICK_WAIT_MS);
	if (p->job->quick >= QUICK_MANY)
		pod_say(p, "the last tries have failed soon after their start, so the next one is "
		           "delayed by some seconds");
	pod_event(p, "Normal", "Scheduled", "Successfully assigned %s to %s", p->name, p->e->node);
	pod_changes(p);
}

/* ---- a look ---------------------------------------------------------------------------------- */

static void pod_look_at_state(struct engine_pod *p)
{
	p->changed = false;
	pod_read_state(p);
	/* It may have ended meanwhile. */
	if (p->running || (p->task.phase != TASK_RUN && !p->task.app.started))
		return;
	p->running = true;
	pod_event(p, "Normal", "Started", "Started container app");
	pod_changes(p);
}

/* The earlier process was killed before it started the shim: this one does it. */
static void pod_start_again(struct engine_pod *p)
{
	FREE_AUTO char *shim = xasprintf("%s/shim", p->dir);
	/* A shim makes this file first, so this one had started. */
	p->shim_ended = p->dying || access(shim, F_OK) == 0;
	if (p->shim_ended)
		return;
	p->state = POD_BOUND;
	engine_due(p->job, 0);
}

static void pod_take_shim(struct engine_pod *p, enum task_found found)
{
	p->shim_ended = found == TASK_GONE;
	if (p->shim_ended)
		return;
	pod_limit(p);
	pod_watch_shim(p);
	p->changed = true;
	if (p->dying)
		task_stop(p->pidfd, p->deletion_grace_s);
}

/* A shim that an earlier process was about to start. */
static void pod_look_for_shim(struct engine_pod *p)
{
	enum task_found found = task_find(p->dir, &p->pidfd);
	if (found != TASK_NOT_STARTED)
		pod_take_shim(p, found);
	else if (clock_ms() < p->due_ms)
		engine_due(p->job, clock_ms() + STARTING_MS / 10);
	else
		pod_start_again(p);
}

void pod_step(struct engine_pod *p, bool stored)
{
	int64_t now = clock_ms();
	bool ran = p->running;
	if (p->state == POD_STARTED && p->pidfd < 0 && !p->shim_ended)
		pod_look_for_shim(p);
	if (p->state == POD_STARTED && (p->changed || (p->shim_ended && !ran)))
		pod_look_at_state(p);
	/* The machine sees that it runs before it sees its end. */
	if (p->state == POD_STARTED && p->shim_ended && p->running == ran) {
		pod_shim_ended(p);
	} else if (p->state == POD_STARTED && p->dying && p->pidfd >= 0) {
		if (now >= p->due_ms) {
			task_kill(p->pidfd);
			p->due_ms = now + KILL_MARGIN_MS;
		}
		engine_due(p->job, p->due_ms);
	} else if (p->state == POD_QUEUED && stored) {
		pod_forget_spec(p); /* it waits */
	} else if (p->state == POD_BOUND && now < p->due_ms) {
		engine_due(p->job, p->due_ms);
	} else if (stored && p->state < POD_STARTED) {
		pod_advance(p);
	}
}

bool pod_find(struct engine_pod *p)
{
	STR_AUTO text = STR_INIT(TASK_FILE_MAX);
	FREE_AUTO char *file = xasprintf("%s/task.json", p->dir);
	FREE_AUTO char *shim = xasprintf("%s/shim", p->dir);
	bool read = fd_read_str(AT_FDCWD, file, &text) == 0;
	/* A shim has made its file; this one may not have survived a power failure. */
	if (!read && access(shim, F_OK) != 0)
		return false;
	if (read && scan_valid(str_view(&text), 10)) {
		struct span gpus = scan_get(str_view(&text), "gpus");
		p->gpus_found = xstrndup(gpus.p ?: "", gpus.n);
	}
	p->state = POD_STARTED;
	p->due_ms = clock_ms() + STARTING_MS;
	pod_watch_state(p);
	enum task_found found = task_find(p->dir, &p->pidfd);
	if (found != TASK_NOT_STARTED)
		pod_take_shim(p, found);
	return true;
}

/* ---- as the machine sees it ------------------------------------------------------------------ */

static void pod_view_container(const struct engine_pod *p, const struct task_container *c,
                               struct framework_container *out)
{
	bool oom = p->oom && c == &p->task.app && c->code != 0;
	*out = (struct framework_container){
		.name = c == &p->task.app ? "app" : "init",
		.terminated = c->ended,
		.reason = oom          ? "OOMKilled"
		          : c->ended   ? c->reason
		          : c->started ? ""
		                       : "PodInitializing",
		.message = c->ended ? c->message : "",
		.code = c->code,
		.finished_s = c->ended_ms / 1000,
	};
}

/* The container that the machine could not start, for want of something; NULL. */
static const struct task_container *pod_short(const struct engine_pod *p)
{
	const struct task_container *const both[] = { &p->task.init, &p->task.app };
	for (size_t i = 0; i < 2; i++) {
		if (both[i]->ended && strcmp(both[i]->reason, "OutOfResources") == 0 && !p->oom)
			return both[i];
	}
	return NULL;
}

static const char *pod_phase(const struct engine_pod *p)
{
	if (p->state != POD_ENDED)
		return p->running ? "Running" : "Pending";
	bool ok = !p->lost && p->task.app.ended && p->task.app.code == 0;
	return ok ? "Succeeded" : "Failed";
}

void pod_view(struct engine_pod *p, struct framework_pod *out)
{
	bool bound = p->state > POD_QUEUED; /* has a node and an address */
	const struct task_container *lacks = pod_short(p);
	pod_view_container(p, &p->task.init, &p->view[0]);
	pod_view_container(p, &p->task.app, &p->view[1]);
	*out = (struct framework_pod){
		.uid = p->uid,
		.owner_uid = p->owner,
		.dying = p->dying,
		.deletion_s = p->deletion_s,
		.grace_s = p->deletion_grace_s,
		.phase = pod_phase(p),
		.reason = p->lost ? "NodeLost"
		          : lacks ? lacks->reason
		                  : "",
		.message = p->lost ? POD_LOST
		           : lacks ? lacks->message
		                   : "",
		.node = bound ? p->e->node : "",
		.ip = bound ? p->ip : "",
		.ports = bound ? p->ports : NULL,
		.host_ip = bound ? p->ip : "",
		.containers = p->view,
		.n_containers = 2,
	};
}

void pod_free(struct engine_pod *p)
{
	pod_release(p);
	if (p->grant)
		p->grant->pod = NULL;
	pod_set_container(p, false, &(struct task_container){ 0 });
	pod_set_container(p, true, &(struct task_container){ 0 });
	free(p->gpus_found);
	free(p->name);
	free(p->role);
	free(p->dir);
	free(p->ip);
	free(p->ports);
	free(p->problem);
	free(p->pull_problem);
	free(p);
}
