#include "k8s/local/task.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "k8s/local/task_internal.h"
#include "k8s/local/tree.h"
#include "k8s/transport/reply.h"

enum {
	SPEC_MAX = 16 << 20,
	STATE_MAX = 128 << 10,
	SMALL_MAX = 4096,
	ENVIRON_MAX = 256 << 10,
	KEEP_MAX = 64,
	FIRST_KEPT = 16, /* descriptors of the shim */
	ABOVE_KEPT = 256,
	CLEAN_BUDGET = 100000,
	LEFTOVER_ROUNDS = 10,
	CLAIM_WAITS = 50,
	CLAIM_WAIT_MS = 20
};

#define TASK_FD_AUTO __attribute__((cleanup(task_fd_done))) int
static void task_fd_done(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

/* ---- files ----------------------------------------------------------------------------------- */

int task_failed(struct task_making *m, const char *what, const char *path)
{
	return err_set(m->e, UNKNOWN_ERROR, "cannot %s %s/%s: %s", what, m->s->dir, path,
	               strerrordesc_np(errno));
}

static int task_write_all(int fd, struct span text)
{
	while (text.n > 0) {
		ssize_t n = write(fd, text.p, text.n);
		if (n < 0 && errno != EINTR)
			return -1;
		text = span_from(text, n > 0 ? (size_t)n : 0);
	}
	return 0;
}

int task_make_dir(struct task_making *m, const char *path)
{
	char *part = arena_dup(m->a, span_of(path));
	for (char *c = part; *c; c++) {
		if (*c != '/' || c == part)
			continue;
		*c = '\0';
		if (mkdirat(m->dir, part, 0755) != 0 && errno != EEXIST)
			return task_failed(m, "make the directory", part);
		*c = '/';
	}
	if (mkdirat(m->dir, part, 0755) != 0 && errno != EEXIST)
		return task_failed(m, "make the directory", path);
	return 0;
}

int task_new_file(struct task_making *m, const char *path, struct span text, mode_t mode)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	TASK_FD_AUTO fd = openat(m->dir, path, flags, 0600);
	if (fd < 0 || task_write_all(fd, text) || fchmod(fd, mode) != 0)
		return task_failed(m, "write", path);
	return 0;
}

/* A small regular file; 1 if there is none. */
static int task_read_file(int at, const char *path, char *out, size_t max)
{
	struct stat st;
	TASK_FD_AUTO fd = openat(at, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n =
	    fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? read(fd, out, max - 1) : -1;
	out[n > 0 ? n : 0] = '\0';
	return n > 0 ? 0 : 1;
}

/* ---- volumes --------------------------------------------------------------------------------- */

bool task_mount_needed(const struct pod_mount *mount)
{
	return strcmp(mount->path, "/usr/local/pai-bin") != 0;
}

/* The first mount of the whole volume; NULL. */
static const struct pod_mount *task_first_mount(const struct pod *p, const struct pod_volume *v)
{
	const struct pod_container *containers[] = { &p->init, &p->app };
	for (size_t i = 0; i < 2; i++) {
		for (size_t k = 0; k < containers[i]->n_mounts; k++) {
			const struct pod_mount *mount = &containers[i]->mount[k];
			if (mount->volume == v && !*mount->sub_path)
				return mount;
		}
	}
	return NULL;
}

const char *task_volume_dir(const struct task_making *m, const struct pod_volume *v)
{
	const struct pod_mount *first = m->s->sandbox ? NULL : task_first_mount(m->p, v);
	return first ? arena_printf(m->a, "root%s", first->path)
	             : arena_printf(m->a, "volumes/%s", v->name);
}

static int task_put_item(struct task_making *m, const struct pod_volume *v, const char *path,
                         struct span text, int mode)
{
	const char *file = arena_printf(m->a, "%s/%s", task_volume_dir(m, v), path);
	const char *slash = strrchr(file, '/');
	struct span above = { file, (size_t)(slash - file) };
	mode_t owner = (mode_t)(mode < 0 ? v->mode : mode) & 0700;
	if (task_make_dir(m, arena_dup(m->a, above)))
		return -1;
	return task_new_file(m, file, text, owner | 0400);
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
static int task_put_key(struct task_making *m, const struct pod_volume *v,
                        const struct pod_source *from, const struct pod_item *item,
                        const struct pod_data *data, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (span_is(data[i].key, item->key))
			return task_put_item(m, v, item->path, data[i].value, item->mode);
	}
	if (from->optional)
		return 0;
	return err_set(m->e, INVALID_PARAMETERS, "%s %s, which volume %s comes from, has no key %s",
	               from->secret ? "Secret" : "ConfigMap", from->name, v->name, item->key);
}

static int task_put_source(struct task_making *m, const struct pod_volume *v,
                           const struct pod_source *from)
{
	struct pod_data *data = NULL;
	const struct pod_objects *o = m->s->objects;
	size_t n = 0;
	for (size_t i = 0; !from->name && i < from->n_items; i++) {
		const struct pod_item *item = &from->item[i];
		if (task_put_item(m, v, item->path, span_of(item->key), item->mode))
			return -1;
	}
	int got = from->name ? o->get(o->arg, from->secret, from->name, m->a, &data, &n, m->e) : 0;
	if (got > 0 && !from->optional)
		return err_set(m->e, INVALID_PARAMETERS,
		               "%s %s, which volume %s comes from, does not exist",
		               from->secret ? "Secret" : "ConfigMap", from->name, v->name);
	if (got != 0)
		return got < 0 ? -1 : 0;
	for (size_t i = 0; from->name && from->item && i < from->n_items; i++) {
		if (task_put_key(m, v, from, &from->item[i], data, n))
			return -1;
	}
	for (size_t i = 0; from->name && !from->item && i < n; i++) {
		if (task_put_item(m, v, data[i].key.p, data[i].value, -1))
			return -1;
	}
	return 0;
}

static bool task_volume_needed(const struct pod *p, const struct pod_volume *v)
{
	const struct pod_container *containers[] = { &p->init, &p->app };
	for (size_t i = 0; i < 2; i++) {
		for (size_t k = 0; k < containers[i]->n_mounts; k++) {
			if (containers[i]->mount[k].volume == v &&
			    task_mount_needed(&containers[i]->mount[k]))
				return true;
		}
	}
	return false;
}

static int task_make_volume(struct task_making *m, const struct pod_volume *v)
{
	bool files = v->kind != POD_MEMORY || !m->s->sandbox;
	if (v->kind == POD_STORAGE || !files || !task_volume_needed(m->p, v))
		return 0;
	if (task_make_dir(m, task_volume_dir(m, v)))
		return -1;
	for (size_t i = 0; i < v->n_sources; i++) {
		if (task_put_source(m, v, &v->source[i]))
			return -1;
	}
	return 0;
}

/* ---- mount points without sandbox ------------------------------------------------------------ */

/* Paths that pai-runtime finds below its --root. */
static bool task_path_moves(const char *path)
{
	static const char *const PREFIXES[] = { "/usr/local/pai", "/usr/local/pai-config",
		                                "/var/run/secrets", "/run/secrets" };
	for (size_t i = 0; i < sizeof(PREFIXES) / sizeof(*PREFIXES); i++) {
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
	const char *slash = strrchr(at, '/');
	if (strcmp(task_volume_dir(m, v), at) == 0)
		return 0;
	if (task_make_dir(m, dir) ||
	    task_make_dir(m, arena_dup(m->a, (struct span){ at, (size_t)(slash - at) })))
		return -1;
	if (symlinkat(to, m->dir, at) != 0 && errno != EEXIST)
		return task_failed(m, "make the link", at);
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
		if (shm || same || !task_mount_needed(mount))
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
	for (size_t i = 0; i < TASK_WHICH_MAX; i++) {
		const char *file = task_message_path(m, (enum task_which)i);
		const char *slash = strrchr(file, '/');
		struct span above = { file, (size_t)(slash - file) };
		if (task_make_dir(m, arena_dup(m->a, above)) ||
		    (faccessat(m->dir, file, F_OK, AT_SYMLINK_NOFOLLOW) != 0 &&
		     task_new_file(m, file, SPAN(""), 0600)))
			return -1;
	}
	return task_link_mounts(m, &m->p->init) || task_link_mounts(m, &m->p->app) ? -1 : 0;
}

/* The sources of mounts must exist, those of sub-paths too. */
static int task_layout_sandbox(struct task_making *m)
{
	static const char *const DIRS[] = { "tmp", "upper", "work", "merged" };
	const struct pod_container *containers[] = { &m->p->init, &m->p->app };
	for (size_t i = 0; i < sizeof(DIRS) / sizeof(*DIRS); i++) {
		if (task_make_dir(m, DIRS[i]))
			return -1;
	}
	for (size_t i = 0; i < TASK_WHICH_MAX; i++) {
		if (task_new_file(m, task_message_path(m, (enum task_which)i), SPAN(""), 0600))
			return -1;
		for (size_t k = 0; k < containers[i]->n_mounts; k++) {
			const struct pod_mount *mount = &containers[i]->mount[k];
			if (*mount->sub_path && mount->volume->kind == POD_EMPTY &&
			    task_make_dir(m, arena_printf(m->a, "%s/%s",
			                                  task_volume_dir(m, mount->volume),
			                                  mount->sub_path)))
				return -1;
		}
	}
	return 0;
}

/* ---- preparing ------------------------------------------------------------------------------- */

/* What an earlier, interrupted call has left. */
static int task_clean(struct task_making *m)
{
	static const char *const OLD[] = { "volumes",      "root",        "tmp",
		                           "upper",        "work",        "merged",
		                           "message-init", "message-app", "spec" };
	for (size_t i = 0; i < sizeof(OLD) / sizeof(*OLD); i++) {
		if (faccessat(m->dir, "shim", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			return err_set(m->e, UNKNOWN_ERROR, "a shim has been started in %s",
			               m->s->dir);
		if (tree_remove(m->dir, OLD[i], CLEAN_BUDGET) != 0)
			return task_failed(m, "remove", OLD[i]);
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
	/* bubblewrap's arguments name it; its contents come later. */
	if (faccessat(m->dir, "framework.json", F_OK, AT_SYMLINK_NOFOLLOW) != 0 &&
	    task_new_file(m, "framework.json", SPAN(""), 0600))
		return -1;
	STR_AUTO spec = STR_SECRET(SPEC_MAX);
	if (task_spec_write(m, &spec))
		return -1;
	return task_new_file(m, "spec", str_view(&spec), 0600);
}

int task_prepare(const struct pod *p, const struct task_settings *s, struct err *e)
{
	ARENA_AUTO a = { 0 };
	if (mkdir(s->dir, 0700) != 0 && errno != EEXIST)
		return err_set(e, UNKNOWN_ERROR, "cannot make the directory %s: %s", s->dir,
		               strerrordesc_np(errno));
	TASK_FD_AUTO dir = open(s->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return err_set(e, UNKNOWN_ERROR, "cannot open %s: %s", s->dir,
		               strerrordesc_np(errno));
	struct task_making m = { p, s, dir, arena_printf(&a, "%s/root", s->dir), &a, e };
	int result = task_prepare_all(&m);
	arena_wipe(&a); /* secrets */
	return result;
}

int task_put_framework(const char *dir, struct span object, struct err *e)
{
	ARENA_AUTO a = { 0 };
	const char *path = arena_printf(&a, "%s/framework.json", dir);
	/* In place: the file may be a mount already. */
	int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	TASK_FD_AUTO fd = open(path, flags, 0600);
	if (fd < 0 || task_write_all(fd, object))
		return err_set(e, UNKNOWN_ERROR, "cannot write %s: %s", path,
		               strerrordesc_np(errno));
	return 0;
}

/* ---- starting -------------------------------------------------------------------------------- */

static int task_pidfd(pid_t pid)
{
	return (int)syscall(SYS_pidfd_open, pid, 0);
}

static void task_spawn_streams(posix_spawn_file_actions_t *f, const char *errors)
{
	int flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW;
	(void)posix_spawn_file_actions_addopen(f, STDIN_FILENO, "/dev/null", O_RDWR, 0);
	(void)posix_spawn_file_actions_adddup2(f, STDIN_FILENO, STDOUT_FILENO);
	(void)posix_spawn_file_actions_addopen(f, STDERR_FILENO, errors, flags, 0600);
	(void)posix_spawn_file_actions_addchdir_np(f, "/");
}

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

/* Gives the shim copies of descriptors, from FIRST_KEPT on.  The copies made here are above them,
 * so that none is overwritten before it is copied. */
static int task_spawn_keep(posix_spawn_file_actions_t *f, const int *keep, size_t n, int *copies)
{
	for (size_t i = 0; i < n; i++) {
		copies[i] = fcntl(keep[i], F_DUPFD_CLOEXEC, ABOVE_KEPT);
		if (copies[i] < 0)
			return -1;
		(void)posix_spawn_file_actions_adddup2(f, copies[i], FIRST_KEPT + (int)i);
	}
	return 0;
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
static int task_spawn(const char *dir, const char *runtime, const int *keep, size_t n, bool tether,
                      pid_t *pid)
{
	static char name[] = "pai-runtime";
	static char command[] = "shim";
	static char option[] = "--tether";
	static char path[] = "PATH=/usr/local/bin:/usr/bin:/bin";
	ARENA_AUTO a = { 0 };
	char *number = arena_printf(&a, "%d", FIRST_KEPT);
	char *argv[] = { name,   command, arena_dup(&a, span_of(dir)), tether ? option : NULL,
		         number, NULL };
	char *env[] = { path, NULL };
	int copies[KEEP_MAX + 1];
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	for (size_t i = 0; i < n; i++)
		copies[i] = -1;
	(void)posix_spawn_file_actions_init(&files);
	(void)posix_spawnattr_init(&attr);
	task_spawn_streams(&files, arena_printf(&a, "%s/shim.error", dir));
	task_spawn_attributes(&attr);
	int error = task_spawn_keep(&files, keep, n, copies) ? errno : 0;
	if (!error)
		error = posix_spawn(pid, runtime, &files, &attr, argv, env);
	for (size_t i = 0; i < n; i++)
		task_fd_done(&copies[i]);
	(void)posix_spawn_file_actions_destroy(&files);
	(void)posix_spawnattr_destroy(&attr);
	return error;
}

/* NOLINTNEXTLINE(readability-function-size): its parameters */
int task_start(const char *dir, const char *runtime, int tether, const int *keep, size_t n_keep,
               struct err *e)
{
	int all[KEEP_MAX + 1];
	size_t n = 0;
	pid_t pid;
	if (n_keep > KEEP_MAX)
		return err_set(e, UNKNOWN_ERROR, "a task has more than %d locks", KEEP_MAX);
	if (tether >= 0)
		all[n++] = tether;
	for (size_t i = 0; i < n_keep; i++)
		all[n++] = keep[i];
	int error = task_spawn(dir, runtime, all, n, tether >= 0, &pid);
	if (error)
		return err_set(e, UNKNOWN_ERROR, "cannot start %s: %s", runtime,
		               strerrordesc_np(error));
	int pidfd = task_pidfd(pid); /* it is not reaped yet */
	if (pidfd < 0)
		(void)err_set(e, UNKNOWN_ERROR, "pidfd_open: %s", strerrordesc_np(errno));
	return pidfd;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* The start time of a process in clock ticks since the boot; -1 if it has ended. */
static int64_t task_start_time(pid_t pid)
{
	enum { STATE = 3, START = 22 };
	char text[SMALL_MAX];
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
	int64_t start = -1;
	char *end = task_read_file(AT_FDCWD, path, text, sizeof(text)) ? NULL : strrchr(text, ')');
	struct span rest = end ? span_of(end + 1) : SPAN("");
	for (int field = STATE - 1; rest.n > 0; field++) {
		size_t n = span_chr(rest, ' ');
		struct span part = span_to(rest, n);
		if (field == STATE && (span_is(part, "Z") || span_is(part, "X")))
			return -1;
		if (field == START)
			return parse_i64(part, 0, INT64_MAX, &start) ? -1 : start;
		rest = span_from(rest, n < rest.n ? n + 1 : n);
	}
	return -1;
}

/* Is the process that wrote this line, "PID START BOOT", alive? */
static int task_find_process(const char *line)
{
	char boot[SMALL_MAX];
	int64_t pid;
	int64_t start;
	struct span rest = span_of(line);
	size_t n = span_chr(rest, ' ');
	if (n == rest.n || parse_i64(span_to(rest, n), 2, INT32_MAX, &pid))
		return -1;
	rest = span_from(rest, n + 1);
	n = span_chr(rest, ' ');
	if (n == rest.n || parse_i64(span_to(rest, n), 0, INT64_MAX, &start) ||
	    task_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof(boot)) ||
	    !span_eq(span_trim(span_from(rest, n + 1)), span_trim(span_of(boot))))
		return -1;
	int pidfd = task_pidfd((pid_t)pid);
	if (pidfd >= 0 && task_start_time((pid_t)pid) == start)
		return pidfd;
	if (pidfd >= 0)
		close(pidfd);
	return -1;
}

/* Has a shim taken the lock, which it does before it writes its pid? */
static bool task_is_locked(int dir)
{
	TASK_FD_AUTO fd = openat(dir, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

enum task_found task_find(const char *path, int *pidfd)
{
	char line[SMALL_MAX];
	TASK_FD_AUTO dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	*pidfd = -1;
	if (dir < 0)
		return TASK_NOT_STARTED;
	for (int i = 0; task_read_file(dir, "shim", line, sizeof(line)); i++) {
		if (i == CLAIM_WAITS || !task_is_locked(dir))
			return TASK_NOT_STARTED;
		clock_sleep(CLAIM_WAIT_MS);
	}
	*pidfd = task_find_process(line);
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
	TASK_FD_AUTO dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char *text = arena_alloc(a, STATE_MAX);
	*out = (struct task_state){ TASK_STARTING, false, NONE, NONE };
	if (dir < 0 || task_read_file(dir, "state", text, STATE_MAX)) {
		if (dir >= 0 && task_read_file(dir, "shim.error", text, SMALL_MAX) == 0)
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
	(void)syscall(SYS_pidfd_send_signal, pidfd, SIGTERM, grace_s < 0 ? NULL : &info, 0);
}

void task_kill(int pidfd)
{
	(void)syscall(SYS_pidfd_send_signal, pidfd, SIGUSR1, NULL, 0);
}

/* Does the environment have this variable, as a whole? */
static bool environ_has(struct span environ_text, const char *variable)
{
	size_t n = strlen(variable) + 1; /* with its NUL */
	while (environ_text.n >= n) {
		if (memcmp(environ_text.p, variable, n) == 0)
			return true;
		size_t end = span_chr(environ_text, '\0');
		if (end == environ_text.n)
			return false;
		environ_text = span_from(environ_text, end + 1);
	}
	return false;
}

/* Kills a process of the task. */
static bool leftover_kill(int proc, const char *name, pid_t pid, const char *variable, char *text)
{
	char path[320];
	(void)snprintf(path, sizeof(path), "%s/environ", name);
	/* First, so that the process that is looked at is the one that is killed. */
	TASK_FD_AUTO pidfd = task_pidfd(pid);
	TASK_FD_AUTO fd = pidfd >= 0 ? openat(proc, path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n = fd >= 0 ? read(fd, text, ENVIRON_MAX) : -1;
	if (n <= 0 || !environ_has((struct span){ text, (size_t)n }, variable))
		return false;
	return syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) == 0;
}

static int leftovers_kill(const char *variable, char *text)
{
	DIR *all = opendir("/proc");
	int found = 0;
	int64_t pid;
	// NOLINTNEXTLINE(concurrency-mt-unsafe): a stream of its own
	for (struct dirent *d; all && (d = readdir(all));) {
		if (parse_i64(span_of(d->d_name), 2, INT32_MAX, &pid) == 0 &&
		    leftover_kill(dirfd(all), d->d_name, (pid_t)pid, variable, text))
			found++;
	}
	if (all)
		closedir(all);
	return found;
}

int task_kill_leftovers(const char *uid)
{
	FREE_AUTO char *variable = xasprintf("FC_POD_UID=%s", uid);
	FREE_AUTO char *text = xmalloc(ENVIRON_MAX);
	int total = 0;
	int found = 1;
	/* They could have started others meanwhile. */
	for (int i = 0; i < LEFTOVER_ROUNDS && found; i++) {
		found = leftovers_kill(variable, text);
		total += found;
	}
	return total;
}

int task_remove(const char *dir, size_t budget, struct err *e)
{
	int result = tree_remove(AT_FDCWD, dir, budget);
	if (result < 0)
		return err_set(e, UNKNOWN_ERROR, "cannot remove %s: %s", dir,
		               strerrordesc_np(errno));
	return result;
}
