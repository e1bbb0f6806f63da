#include "machine/task/task.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/time.h"
#include "k8s/transport/reply.h"
#include "machine/task/task_internal.h"
#include "machine/task/tree.h"

enum {
	STATE_MAX = 128 << 10,
	SMALL_MAX = 4096,
	ENVIRON_MAX = 256 << 10,
	CLEAN_BUDGET = 100000,
	LEFTOVER_ROUNDS = 10,
	CLAIM_WAITS = 50,
	CLAIM_WAIT_MS = 20,
	TASK_DIR = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC
};

/* ---- files ----------------------------------------------------------------------------------- */

/* "cannot write PATH: No space left on device".  Returns -1. */
static int task_failed(struct err *e, const char *what, const char *dir, const char *path)
{
	return err_set(e, UNKNOWN_ERROR, "cannot %s %s%s%s: %s", what, dir, *path ? "/" : "", path,
	               strerrordesc_np(errno));
}

/* Makes the directories above a path in the task's; those of "a/b/" are a and b. */
static int task_make_above(struct task_making *m, const char *path)
{
	for (const char *slash = path; (slash = strchr(slash, '/')) != NULL; slash++) {
		const char *part = arena_dup(m->a, (struct span){ path, (size_t)(slash - path) });
		if (mkdirat(m->dir, part, 0755) != 0 && errno != EEXIST)
			return task_failed(m->e, "make the directory", m->s->dir, part);
	}
	return 0;
}

static int task_make_dir(struct task_making *m, const char *path)
{
	return task_make_above(m, arena_printf(m->a, "%s/", path));
}

int task_new_file(struct task_making *m, const char *path, struct span text, mode_t mode)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	FD_AUTO fd = openat(m->dir, path, flags, 0600);
	if (fd < 0 || fd_write_all(fd, text) || fchmod(fd, mode) != 0)
		return task_failed(m->e, "write", m->s->dir, path);
	return 0;
}

static bool task_is_there(const struct task_making *m, const char *path)
{
	return faccessat(m->dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* ---- volumes --------------------------------------------------------------------------------- */

/* The volume that is mounted here; NULL. */
static const struct pod_volume *task_volume_at(const struct pod_container *c, const char *path)
{
	for (size_t i = 0; i < c->n_mounts; i++) {
		if (strcmp(c->mount[i].path, path) == 0 && !*c->mount[i].sub_path)
			return c->mount[i].volume;
	}
	return NULL;
}

/* The first mount of a volume; NULL.  whole: without sub-path. */
static const struct pod_mount *task_mount_of(const struct pod *p, const struct pod_volume *v,
                                             bool whole)
{
	for (size_t k = 0; k < p->app.n_mounts; k++) {
		const struct pod_mount *mount = &p->app.mount[k];
		if (mount->volume == v && !(whole && *mount->sub_path))
			return mount;
	}
	return NULL;
}

const char *task_volume_dir(const struct task_making *m, const struct pod_volume *v)
{
	if (v == m->patterns && m->work)
		return arena_printf(m->a, "%s/runtime.d", task_volume_dir(m, m->work));
	const struct pod_mount *first = m->s->sandbox ? NULL : task_mount_of(m->p, v, true);
	return first ? arena_printf(m->a, "root%s", first->path)
	             : arena_printf(m->a, "volumes/%s", v->name);
}

static int task_put_files(struct task_making *m, const struct pod_volume *v)
{
	struct pod_data data;
	if (pod_source_get(&v->from, m->s->objects, m->a, &data, m->e))
		return -1;
	for (size_t i = 0; i < data.n; i++) {
		const char *key = arena_dup(m->a, data.v[i].key);
		if (strchr(key, '/') || strcmp(key, ".") == 0 || strcmp(key, "..") == 0)
			return err_set(m->e, INVALID_PARAMETERS,
			               "a key of %s, from which volume %s comes, is no file "
			               "name",
			               v->from.name, v->name);
		const char *file = arena_printf(m->a, "%s/%s", task_volume_dir(m, v), key);
		if (task_new_file(m, file, data.v[i].value, ((mode_t)v->mode & 0700) | 0400))
			return -1;
	}
	return 0;
}

static int task_make_volume(struct task_making *m, const struct pod_volume *v)
{
	/* Only init could see others, and needs none. */
	bool seen = v == m->patterns ? m->work != NULL : task_mount_of(m->p, v, false) != NULL;
	if (v->kind == POD_STORAGE || (v->kind == POD_MEMORY && m->s->sandbox) || !seen)
		return 0;
	if (task_make_dir(m, task_volume_dir(m, v)))
		return -1;
	return v->from.name ? task_put_files(m, v) : 0;
}

/* ---- mount points without sandbox ------------------------------------------------------------ */

/* Paths that pai-runtime finds below its --root. */
static bool task_path_moves(const char *path)
{
	static const char *const PREFIXES[] = { "/usr/local/pai", "/usr/local/pai-config",
		                                "/var/run/secrets", "/run/secrets" };
	for (size_t i = 0; i < ARRAY_SIZE(PREFIXES); i++) {
		size_t n = strlen(PREFIXES[i]);
		if (strncmp(path, PREFIXES[i], n) == 0 && (path[n] == '/' || path[n] == '\0'))
			return true;
	}
	return false;
}

static int task_needs_sandbox(struct task_making *m, const char *name, const char *path)
{
	return err_set(m->e, NOT_IMPLEMENTED,
	               "%s cannot be shown at %s without a sandbox: install bubblewrap, and allow "
	               "user namespaces",
	               name, path);
}

/* Other mounts of a volume than the first are links. */
static int task_link_mount(struct task_making *m, const struct pod_mount *mount)
{
	const struct pod_volume *v = mount->volume;
	const char *at = arena_printf(m->a, "root%s", mount->path);
	const char *dir = arena_printf(m->a, "%s/%s", task_volume_dir(m, v), mount->sub_path);
	const char *to = arena_printf(m->a, "%s/%s", m->s->dir, dir);
	if (strcmp(task_volume_dir(m, v), at) == 0)
		return 0;
	if (task_make_dir(m, dir) || task_make_above(m, at))
		return -1;
	if (symlinkat(to, m->dir, at) != 0 && errno != EEXIST)
		return task_failed(m->e, "make the link", m->s->dir, at);
	return 0;
}

static int task_link_mounts(struct task_making *m, const struct pod_container *c)
{
	for (size_t i = 0; i < c->n_mounts; i++) {
		const struct pod_mount *mount = &c->mount[i];
		const struct pod_volume *v = mount->volume;
		bool shm = v->kind == POD_MEMORY && strcmp(mount->path, "/dev/shm") == 0;
		bool same =
		    v->kind == POD_STORAGE && !*mount->sub_path && strcmp(v->dir, mount->path) == 0;
		if (shm || same)
			continue; /* the machine's */
		if (v->kind == POD_STORAGE || !task_path_moves(mount->path))
			return task_needs_sandbox(m, v->name, mount->path);
		if (task_link_mount(m, mount))
			return -1;
	}
	return 0;
}

static int task_layout_plain(struct task_making *m)
{
	for (size_t i = 0; i < m->s->n_mounts; i++) {
		const struct sandbox_mount *mount = &m->s->mount[i];
		if (!mount->source || strcmp(mount->source, mount->path) != 0)
			return task_needs_sandbox(m, mount->source ? mount->source : "tmpfs",
			                          mount->path);
	}
	/* Plugins call the runtime. */
	const char *program = "root/usr/local/pai/runtime";
	const char *message = task_message_path(m);
	if (task_make_above(m, message) || task_new_file(m, message, SPAN(""), 0600) ||
	    task_make_above(m, program))
		return -1;
	if (symlinkat(m->s->runtime, m->dir, program) != 0)
		return task_failed(m->e, "make the link", m->s->dir, program);
	return task_link_mounts(m, &m->p->app);
}

/* The sources of mounts must exist, those of sub-paths too. */
static int task_layout_sandbox(struct task_making *m)
{
	static const char *const DIRS[] = { "tmp", "upper", "work", "merged" };
	const struct pod_container *c = &m->p->app;
	for (size_t i = m->s->image ? 1 : 0; i < (m->s->image ? ARRAY_SIZE(DIRS) : 1); i++) {
		if (task_make_dir(m, DIRS[i]))
			return -1;
	}
	for (size_t k = 0; k < c->n_mounts; k++) {
		const struct pod_mount *mount = &c->mount[k];
		const char *dir = task_volume_dir(m, mount->volume);
		if (*mount->sub_path && mount->volume->kind == POD_DIRECTORY &&
		    task_make_dir(m, arena_printf(m->a, "%s/%s", dir, mount->sub_path)))
			return -1;
	}
	return task_new_file(m, task_message_path(m), SPAN(""), 0600);
}

/* ---- preparing ------------------------------------------------------------------------------- */

/* What an earlier, interrupted call has left. */
static int task_clean(struct task_making *m)
{
	static const char *const OLD[] = { "volumes", "root",    "tmp", "upper", "work",
		                           "merged",  "message", "job", "spec" };
	if (task_is_there(m, "shim"))
		return err_set(m->e, UNKNOWN_ERROR, "a shim has been started in %s", m->s->dir);
	for (size_t i = 0; i < ARRAY_SIZE(OLD); i++) {
		if (tree_remove(m->dir, OLD[i], CLEAN_BUDGET) != 0)
			return task_failed(m->e, "remove", m->s->dir, OLD[i]);
	}
	return 0;
}

static int task_prepare_all(struct task_making *m)
{
	if (task_clean(m) || task_make_dir(m, "volumes"))
		return -1;
	for (size_t i = 0; i < m->p->n_volumes; i++) {
		if (task_make_volume(m, &m->p->volume[i]))
			return -1;
	}
	if (m->s->sandbox ? task_layout_sandbox(m) : task_layout_plain(m))
		return -1;
	return task_spec_write(m);
}

int task_prepare(const struct pod *p, const struct task_settings *s, struct err *e)
{
	ARENA_AUTO a = { 0 };
	if (mkdir(s->dir, 0700) != 0 && errno != EEXIST)
		return task_failed(e, "make the directory", s->dir, "");
	FD_AUTO dir = open(s->dir, TASK_DIR);
	if (dir < 0)
		return task_failed(e, "open", s->dir, "");
	struct task_making m = { .p = p, .s = s, .dir = dir, .a = &a, .e = e };
	m.patterns = task_volume_at(&p->init, "/usr/local/pai-config");
	m.work = task_volume_at(&p->app, "/usr/local/pai");
	if (m.work && m.work->kind != POD_DIRECTORY)
		m.work = NULL;
	int result = task_prepare_all(&m);
	arena_wipe(&a); /* secrets */
	return result;
}

void task_log(const char *dir, const char *text)
{
	ARENA_AUTO a = { 0 };
	char when[RFC3339_MAX];
	(void)rfc3339_put(when, clock_wall_ms(), 0);
	const char *path = arena_printf(&a, "%s/log", dir);
	FD_AUTO fd =
	    open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	const char *line = arena_printf(&a, "%.19s.000000000Z stderr F [%s]\n", when, text);
	if (fd >= 0)
		(void)fd_write_all(fd, span_of(line)); /* see above */
}

/* ---- starting -------------------------------------------------------------------------------- */

/* Signals wait until the shim takes them. */
static void task_spawn_attributes(posix_spawnattr_t *attr)
{
	sigset_t all;
	sigset_t blocked;
	sigfillset(&all);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigaddset(&blocked, SIGUSR1);
	(void)posix_spawnattr_setsigdefault(attr, &all);
	(void)posix_spawnattr_setsigmask(attr, &blocked);
	(void)posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF |
	                                         POSIX_SPAWN_SETSIGMASK);
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
int task_start(const char *dir, const char *runtime, int tether, const int *keep, size_t n_keep,
               struct err *e)
{
	ARENA_AUTO a = { 0 };
	char *argv[] = { arena_dup(&a, SPAN("pai-runtime")),
		         arena_dup(&a, SPAN("shim")),
		         arena_dup(&a, span_of(dir)),
		         tether >= 0 ? arena_dup(&a, SPAN("--tether")) : NULL,
		         arena_printf(&a, "%d", tether),
		         NULL };
	char *env[] = { arena_dup(&a, SPAN("PATH=/usr/local/bin:/usr/bin:/bin")), NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	pid_t pid;
	(void)posix_spawn_file_actions_init(&files);
	(void)posix_spawnattr_init(&attr);
	task_spawn_attributes(&attr);
	int error = posix_spawn_file_actions_addopen(
	    &files, STDERR_FILENO, arena_printf(&a, "%s/shim.error", dir),
	    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
	/* The shim gets the same numbers; this removes FD_CLOEXEC. */
	if (!error && tether >= 0)
		error = posix_spawn_file_actions_adddup2(&files, tether, tether);
	for (size_t i = 0; !error && i < n_keep; i++)
		error = posix_spawn_file_actions_adddup2(&files, keep[i], keep[i]);
	if (!error)
		error = posix_spawn(&pid, runtime, &files, &attr, argv, env);
	(void)posix_spawn_file_actions_destroy(&files);
	(void)posix_spawnattr_destroy(&attr);
	if (error)
		return err_set(e, UNKNOWN_ERROR, "cannot start %s: %s", runtime,
		               strerrordesc_np(error));
	int pidfd = pidfd_open(pid, 0); /* it is not reaped yet */
	if (pidfd < 0)
		(void)err_set(e, UNKNOWN_ERROR, "pidfd_open: %s", strerrordesc_np(errno));
	return pidfd;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The process with this identity; -1 if it has ended. */
static int task_find_process(const char *identity)
{
	char now[PROCESS_IDENTITY_MAX];
	int64_t pid;
	if (parse_i64(span_to(span_of(identity), strcspn(identity, " ")), 2, INT32_MAX, &pid))
		return -1;
	/* First, so that it is that of the process that is looked at. */
	int pidfd = pidfd_open((pid_t)pid, 0);
	process_identity((pid_t)pid, now);
	if (pidfd >= 0 && strcmp(now, identity) == 0)
		return pidfd;
	fd_cleanup(&pidfd);
	return -1;
}

/* Has a shim taken the lock, which it does before it writes its identity? */
static bool task_is_locked(int dir)
{
	FD_AUTO fd = openat(dir, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

enum task_found task_find(const char *path, int *pidfd)
{
	char identity[PROCESS_IDENTITY_MAX];
	FD_AUTO dir = open(path, TASK_DIR);
	*pidfd = -1;
	if (dir < 0)
		return TASK_NOT_STARTED;
	for (int i = 0; fd_read_at(dir, "shim", identity, sizeof(identity)) <= 0; i++) {
		if (i == CLAIM_WAITS || !task_is_locked(dir))
			return TASK_NOT_STARTED;
		clock_sleep(CLAIM_WAIT_MS);
	}
	*pidfd = task_find_process(identity);
	return *pidfd >= 0 ? TASK_ALIVE : TASK_GONE;
}

void task_reap(int pidfd)
{
	siginfo_t info;
	(void)waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG); /* it may be no child */
	close(pidfd);
}

/* ---- state ----------------------------------------------------------------------------------- */

static int64_t state_number(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static struct task_container state_container(const json_t *c, struct arena *a)
{
	int64_t code = state_number(c, "code");
	int64_t signal = state_number(c, "signal");
	return (struct task_container){ .started = json_is_true(json_object_get(c, "started")),
		                        .ended = json_is_true(json_object_get(c, "ended")),
		                        .code = code >= 0 && code <= 255 ? (int)code : 255,
		                        .signal = signal >= 0 && signal <= 64 ? (int)signal : 0,
		                        .started_ms = state_number(c, "startedMs"),
		                        .ended_ms = state_number(c, "endedMs"),
		                        .reason = arena_dup(a, span_of(reply_text(c, "reason"))),
		                        .message =
		                            arena_dup(a, span_of(reply_text(c, "message"))) };
}

int task_read_state(const char *path, struct arena *a, struct task_state *out, struct err *e)
{
	static const char *const PHASES[] = {
		[TASK_INIT] = "init", [TASK_RUN] = "run", [TASK_ENDED] = "ended"
	};
	static const struct task_container NONE = { .reason = "", .message = "" };
	FD_AUTO dir = open(path, TASK_DIR);
	FREE_AUTO char *text = xmalloc(STATE_MAX);
	*out = (struct task_state){ TASK_STARTING, false, NONE, NONE };
	if (dir < 0 || fd_read_at(dir, "state", text, STATE_MAX) <= 0) {
		if (dir >= 0 && fd_read_at(dir, "shim.error", text, SMALL_MAX) > 0)
			out->app.message = arena_dup(a, span_trim(span_of(text)));
		return 1;
	}
	JSON_AUTO *root = reply_parse(span_of(text));
	const char *phase = reply_text(root, "phase");
	for (int i = TASK_INIT; i <= TASK_ENDED; i++) {
		if (strcmp(phase, PHASES[i]) == 0)
			out->phase = (enum task_phase)i;
	}
	if (!root || out->phase == TASK_STARTING)
		return err_set(e, UNKNOWN_ERROR, "%s/state is damaged", path);
	out->stopped = json_is_true(json_object_get(root, "stopped"));
	out->init = state_container(json_object_get(root, "init"), a);
	out->app = state_container(json_object_get(root, "app"), a);
	return 0;
}

/* ---- ending ---------------------------------------------------------------------------------- */

void task_stop(int pidfd, int64_t grace_s)
{
	siginfo_t info = { .si_signo = SIGTERM, .si_code = SI_QUEUE };
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = (int)(grace_s < INT32_MAX ? grace_s : INT32_MAX);
	(void)pidfd_send_signal(pidfd, SIGTERM, grace_s < 0 ? NULL : &info, 0);
}

void task_kill(int pidfd)
{
	(void)pidfd_send_signal(pidfd, SIGUSR1, NULL, 0);
}

/* Kills a process whose environment has this variable. */
static bool leftover_kill(int proc, const char *name, pid_t pid, const char *variable, char *text)
{
	char path[320];
	(void)snprintf(path, sizeof(path), "%s/environ", name);
	/* First, so that the process that is looked at is the one that is killed. */
	FD_AUTO pidfd = pidfd_open(pid, 0);
	ssize_t n = pidfd >= 0 ? fd_read_at(proc, path, text, ENVIRON_MAX) : -1;
	struct span rest = { text, n > 0 ? (size_t)n : 0 };
	while (rest.n > 0) {
		if (span_is(span_next(&rest, '\0'), variable))
			return pidfd_send_signal(pidfd, SIGKILL, NULL, 0) == 0;
	}
	return false;
}

int task_kill_leftovers(const char *uid)
{
	FREE_AUTO char *variable = xasprintf("FC_POD_UID=%s", uid);
	FREE_AUTO char *text = xmalloc(ENVIRON_MAX);
	int total = 0;
	int before = -1;
	/* They could have started others meanwhile. */
	for (int i = 0; i < LEFTOVER_ROUNDS && total != before; i++) {
		DIR_AUTO *all = dir_list(AT_FDCWD, "/proc");
		int64_t pid;
		before = total;
		for (const char *name; (name = dir_next(all)) != NULL;)
			total += parse_i64(span_of(name), 2, INT32_MAX, &pid) == 0 &&
			         leftover_kill(dirfd(all), name, (pid_t)pid, variable, text);
	}
	return total;
}
