/* The directory of a task: its volumes and mount points, and the file with what the shim runs. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lists.h"
#include "base/pod/results.h"
#include "base/pod/shim.h"
#include "base/posix/fd.h"
#include "machine/task/task.h"

enum { WORDS_MAX = 4096, SPEC_MAX = 32 << 20 };

/* The parts of a task while it is prepared. */
struct task_making {
	const struct pod *p;
	const struct task_settings *s;
	/* pai-runtime init reads the patterns of exit codes from this volume, which are put where
	 * it would copy them to: into this one, the work volume.  NULL: there is none. */
	const struct pod_volume *patterns, *work;
	const char *home;            /* of the containers: HOME=PATH */
	struct sandbox_mount *mount; /* its mounts in a sandbox; of one path the last one counts */
	size_t n_mounts;
	struct words same; /* APP_SAME */
	int dir;
	struct arena *a;
	struct err *e;
};

/* ---- files ----------------------------------------------------------------------------------- */

/* "cannot write PATH: No space left on device".  Returns -1. */
static int task_failed(struct err *e, const char *what, const char *dir, const char *path)
{
	return err_set(e, UNKNOWN_ERROR, "cannot %s %s%s%s: %s", what, dir, *path ? "/" : "", path,
	               strerrordesc_np(errno));
}

static const char *task_below(const struct task_making *m, const char *path)
{
	return arena_printf(m->a, "%s/%s", m->s->dir, path);
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

/* Writes a new file, in place of that of an earlier, interrupted call. */
static int task_new_file(struct task_making *m, const char *path, struct span text, mode_t mode)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
	(void)unlinkat(m->dir, path, 0);
	FD_AUTO fd = openat(m->dir, path, flags, 0600);
	if (fd < 0 || fd_write_all(fd, text) || fchmod(fd, mode) != 0)
		return task_failed(m->e, "write", m->s->dir, path);
	return 0;
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

/* The directory of a volume, relative to the task's: at its first mount point in root. */
static const char *task_volume_dir(const struct task_making *m, const struct pod_volume *v)
{
	assert(v); /* a pod's mounts have volumes */
	if (v == m->patterns && m->work)
		return arena_printf(m->a, "%s/runtime.d", task_volume_dir(m, m->work));
	const struct pod_mount *first = task_mount_of(m->p, v, true);
	return first ? arena_printf(m->a, "root%s", first->path)
	             : arena_printf(m->a, "volumes/%s", v->name);
}

/* The files of a volume that is seen: only init could see others, and needs none. */
static int task_put_files(struct task_making *m, const struct pod_volume *v)
{
	const char *dir = task_volume_dir(m, v);
	bool seen = v == m->patterns ? m->work != NULL : task_mount_of(m->p, v, false) != NULL;
	if (!seen || !v->from.name)
		return 0;
	if (task_make_dir(m, dir))
		return -1;
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
		const char *file = arena_printf(m->a, "%s/%s", dir, key);
		if (task_new_file(m, file, data.v[i].value, ((mode_t)v->mode & 0700) | 0400))
			return -1;
	}
	return 0;
}

/* ---- mount points ---------------------------------------------------------------------------- */

/* Paths that pai-runtime finds below its --root. */
static bool task_path_moves(const char *path)
{
	static const char *const PREFIXES[] = { "/usr/local/pai", "/usr/local/pai-config",
		                                "/var/run/secrets", "/run/secrets" };
	for (size_t i = 0; i < ARRAY_SIZE(PREFIXES); i++) {
		if (path_within(path, PREFIXES[i]))
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

static int task_link(struct task_making *m, const char *to, const char *at)
{
	if (task_make_above(m, at))
		return -1;
	if (symlinkat(to, m->dir, at) != 0 && errno != EEXIST)
		return task_failed(m->e, "make the link", m->s->dir, at);
	return 0;
}

/* The storage is named, because users know nothing of its directory.  ENOENT has words of its own:
 * with those of the C library the exit specification would take the command for missing (-1203). */
static int task_storage_refuse(struct task_making *m, const struct pod_mount *mount,
                               const char *path, const char *does)
{
	const char *storage = mount->volume->storage;
	const int *lack = ERRORS_OF_LACK;
	while (*lack && *lack != errno)
		lack++;
	return err_set(
	    m->e, *lack ? 503 : 400, *lack ? "UnavailableError" : "InvalidParametersError",
	    "%s cannot be mounted at %s: the directory %s of this machine %s: %s",
	    storage ? arena_printf(m->a, "storage `%s`", storage) : "the code of the job",
	    mount->path, path, does,
	    errno == ENOENT ? "it does not exist" : strerrordesc_np(errno));
}

/* Another task could replace a subPath of a storage by a link before it is mounted, so `shim
 * --exec` compares the directory that is mounted with that of now.  Like the kubelet, this makes a
 * directory that is not there. */
static int task_storage_put(struct task_making *m, const struct pod_mount *mount)
{
	const char *dir = mount->volume->dir;
	const char *path = arena_printf(m->a, "%s/%s", dir, mount->sub_path);
	struct stat st;
	FD_AUTO base = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (base < 0)
		return task_storage_refuse(m, mount, dir, "cannot be opened");
	if (!*mount->sub_path)
		return 0;
	if (!strchr(mount->sub_path, '/') && mkdirat(base, mount->sub_path, 0755) != 0 &&
	    errno != EEXIST)
		return task_storage_refuse(m, mount, path, "cannot be made");
	FD_AUTO fd = openat(base, mount->sub_path, O_PATH | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0)
		return task_storage_refuse(m, mount, path, "cannot be opened");
	/* The link has the path of what was opened. */
	if (!sandbox_hidden(arena_printf(m->a, "/proc/self/fd/%d", fd), &dir, 1))
		return err_set(m->e, INVALID_PARAMETERS, "%s is a link that leads out of %s", path,
		               dir);
	words_add(&m->same, arena_printf(m->a, "%llu:%llu:%s", (unsigned long long)st.st_dev,
	                                 (unsigned long long)st.st_ino, mount->path));
	return 0;
}

static bool task_is_results(const struct pod_volume *v)
{
	return v->storage && strcmp(v->storage, RESULTS_CLAIM) == 0;
}

/* A mount of a container.  Without a sandbox, PAI_RESULTS_DIR tells where results are, and other
 * mounts of a volume than the first are links. */
static int task_mount(struct task_making *m, const struct pod_mount *mount)
{
	const struct pod_volume *v = mount->volume;
	assert(v); /* a pod's mounts have volumes */
	const char *at = arena_printf(m->a, "root%s", mount->path);
	bool storage = v->kind == POD_STORAGE;
	bool memory = v->kind == POD_MEMORY;
	const char *dir = storage ? v->dir : task_volume_dir(m, v);
	if (*mount->sub_path)
		dir = arena_printf(m->a, "%s/%s", dir, mount->sub_path);
	if (!storage && !(memory && m->s->sandbox) && task_make_dir(m, dir))
		return -1;
	if (m->s->sandbox) {
		const char *source = memory ? NULL : storage ? dir : task_below(m, dir);
		m->mount[m->n_mounts++] = (struct sandbox_mount){ .source = source,
			                                          .path = mount->path,
			                                          .writable = !mount->read_only,
			                                          .size = (uint64_t)v->size,
			                                          .shared = storage };
		return storage ? task_storage_put(m, mount) : 0;
	}
	if ((storage && strcmp(dir, mount->path) == 0) || task_is_results(v) ||
	    (memory && strcmp(mount->path, "/dev/shm") == 0))
		return 0; /* the machine's */
	if (storage || !task_path_moves(mount->path))
		return task_needs_sandbox(m, v->name, mount->path);
	return strcmp(dir, at) == 0 ? 0 : task_link(m, task_below(m, dir), at);
}

/* Returns the path of the message.  With a sandbox it is outside of all directories that the
 * container can change. */
static const char *task_message_path(const struct task_making *m)
{
	return m->s->sandbox ? "message" : arena_printf(m->a, "root%s", m->p->app.message_path);
}

/* pai-runtime as the app container sees it: in the work volume, where plugins call it. */
static const char *task_program(const struct task_making *m)
{
	return !m->s->sandbox ? m->s->box.runtime
	       : m->work      ? "/usr/local/pai/runtime"
	                      : "/tmp/.pai-runtime";
}

static int task_layout(struct task_making *m)
{
	const struct pod_container *c = &m->p->app;
	const char *message = task_message_path(m);
	const struct pod_container *init = &m->p->init;
	m->mount = ARENA_NEW(m->a, struct sandbox_mount,
	                     c->n_mounts + init->n_mounts + m->s->box.mounts_n + 3);
	if (!m->s->box.rootfs)
		m->mount[m->n_mounts++] = (struct sandbox_mount){
			.source = task_below(m, "root/tmp"), .path = "/tmp", .writable = true
		};
	for (size_t i = 0; i < m->p->n_volumes; i++) {
		if (task_put_files(m, &m->p->volume[i]))
			return -1;
	}
	for (size_t i = 0; i < c->n_mounts; i++) {
		if (task_mount(m, &c->mount[i]))
			return -1;
	}
	/* Both containers are one sandbox.  Init alone mounts the archive with the code. */
	for (size_t i = 0; i < init->n_mounts; i++) {
		if (init->mount[i].volume->kind == POD_STORAGE &&
		    !task_volume_at(c, init->mount[i].path) && task_mount(m, &init->mount[i]))
			return -1;
	}
	for (size_t i = 0; i < m->s->box.mounts_n; i++) {
		const struct sandbox_mount *mount = &m->s->box.mounts[i];
		m->mount[m->n_mounts++] = *mount;
		if (!m->s->sandbox && !mount->device &&
		    !(mount->source && path_leads_to(mount->path, mount->source)))
			return task_needs_sandbox(m, mount->source ? mount->source : "tmpfs",
			                          mount->path);
	}
	m->mount[m->n_mounts++] = (struct sandbox_mount){ .source = task_below(m, message),
		                                          .path = c->message_path,
		                                          .writable = true };
	m->mount[m->n_mounts++] =
	    (struct sandbox_mount){ .source = m->s->box.runtime, .path = task_program(m) };
	/* Plugins call the runtime. */
	if (!m->s->sandbox && task_link(m, m->s->box.runtime, "root/usr/local/pai/runtime"))
		return -1;
	return (!m->s->box.rootfs && task_make_dir(m, "root/tmp")) || task_make_above(m, message) ||
	               task_new_file(m, message, SPAN(""), 0600)
	           ? -1
	           : 0;
}

/* ---- the environment ------------------------------------------------------------------------- */

static int task_environment(struct task_making *m, const struct pod_container *c, struct words *w)
{
	struct words pod = { .a = m->a };
	bool app = c == &m->p->app;
	if (pod_env_resolve(c, m->s->objects, &pod, m->e))
		return -1;
	words_add(w, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	words_add(w, m->home);
	words_set_all(w, app ? m->s->caller_env : NULL);
	words_set_all(w, app ? m->s->image_env : NULL);
	words_set_all(w, pod.v);
	words_set_all(w, app ? m->s->env : NULL);
	for (size_t i = 0; i < m->p->n_volumes && !m->s->sandbox; i++)
		if (task_is_results(&m->p->volume[i]))
			words_set(w, arena_printf(m->a, "PAI_RESULTS_DIR=%s", m->p->volume[i].dir));
	/* task_kill_leftovers finds processes by this variable. */
	words_set(w, arena_printf(m->a, "FC_POD_UID=%s", m->p->uid));
	return 0;
}

/* ---- the commands ---------------------------------------------------------------------------- */

/* The words that the pod gives to a container. */
static int task_words(struct task_making *m, const struct pod_container *c, const struct words *env,
                      struct words *given)
{
	const char **lists[] = { c->command, c->args };
	for (size_t k = 0; k < 2; k++) {
		for (size_t i = 0; lists[k][i] && given->n <= WORDS_MAX; i++)
			words_add(given, words_expand(env, lists[k][i]));
	}
	if (given->n > WORDS_MAX)
		return err_set(m->e, INVALID_PARAMETERS,
		               "the command of container %s has more than %d words", c->name,
		               WORDS_MAX);
	return 0;
}

/* `pai-runtime init`, from an image of which it is the entry point or from a ConfigMap, is done by
 * `shim --exec`. */
static int task_words_init(struct task_making *m, const struct words *env, struct words *w)
{
	struct words given = { .a = m->a };
	if (!m->p->has_init)
		return 0;
	if (task_words(m, &m->p->init, env, &given))
		return -1;
	bool entry = !m->p->init.command[0];
	const char *name = !entry ? given.v[0] : "pai-runtime";
	const char *slash = strrchr(name, '/');
	bool runtime = entry || (given.n > 1 && strcmp(given.v[1], "init") == 0 &&
	                         strcmp(slash ? slash + 1 : name, "pai-runtime") == 0);
	if (runtime)
		words_add(w, "");
	words_add_all(w, runtime && !entry ? given.v + 2 : given.v);
	if (runtime && !m->s->sandbox)
		WORDS_ADD(w, "--root", task_below(m, "root"));
	return 0;
}

static int task_words_app(struct task_making *m, const struct words *env, struct words *w)
{
	static const char PAI[] = "/usr/local/pai/";
	struct words given = { .a = m->a };
	if (task_words(m, &m->p->app, env, &given))
		return -1;
	if (!m->p->app.command[0])
		return err_set(m->e, NOT_IMPLEMENTED,
		               "container %s has no command, and that of its image is not known",
		               m->p->app.name);
	if (strcmp(given.v[0], "/usr/local/pai/runtime") == 0 && !given.v[1]) {
		WORDS_ADD(w, "", "--logs-kept");
		if (!m->s->sandbox)
			WORDS_ADD(w, "--root", task_below(m, "root"));
		return 0;
	}
	if (strncmp(given.v[0], PAI, strlen(PAI)) == 0 && !m->s->sandbox)
		given.v[0] = arena_printf(m->a, "%s/root%s", m->s->dir, given.v[0]);
	words_add_all(w, given.v);
	return 0;
}

/* The words of bubblewrap, which starts the command in the sandbox; NULL and an error. */
static const char *const *task_wrap(struct task_making *m, const char *cwd,
                                    const char *const *command)
{
	struct sandbox_spec box = m->s->box;
	box.mounts = m->mount;
	box.mounts_n = m->n_mounts;
	box.overlay = m->s->dir;
	box.memory = (uint64_t)m->p->need.memory;
	box.cwd = cwd;
	box.command = command;
	return sandbox_argv(&box, m->a, m->e);
}

/* ---- the file -------------------------------------------------------------------------------- */

static int task_spec_write(struct task_making *m)
{
	const struct pod_container *c = &m->p->app;
	const char *cwd = c->directory ? c->directory : m->s->start_directory;
	STR_AUTO spec = STR_SECRET(SPEC_MAX);
	struct words env = { .a = m->a };
	struct words init_env = { .a = m->a };
	struct words init = { .a = m->a };
	struct words command = { .a = m->a };
	if (task_environment(m, c, &env) || task_words_app(m, &env, &command) ||
	    (m->p->has_init && task_environment(m, &m->p->init, &init_env)) ||
	    task_words_init(m, &init_env, &init))
		return -1;
	/* Bubblewrap changes the directory by itself. */
	const char *const exec[] = { task_program(m), "shim", "--exec",
		                     m->s->sandbox ? "."
		                     : cwd         ? cwd
		                                   : "/",
		                     NULL };
	const char *const *argv = m->s->sandbox ? task_wrap(m, cwd, exec) : exec;
	if (!argv)
		return -1;
	const char *const head[] = {
		[SHIM_FORMAT] = SHIM_FORMAT_NOW,
		[SHIM_GRACE] = arena_printf(m->a, "%lld", (long long)m->p->grace_s),
		[SHIM_SANDBOX] = m->s->sandbox ? "sandbox" : "",
		[SHIM_INITS] = init.n ? "init" : "",
		[SHIM_CGROUP] = m->s->cgroup_procs
		                    ? arena_printf(m->a, "%s/cgroup.procs", m->s->cgroup_procs)
		                    : "",
		[SHIM_MESSAGE] = task_message_path(m),
		[SHIM_MARK] = arena_printf(m->a, "FC_POD_UID=%s", m->p->uid),
		[SHIM_NOTE] = m->s->note ? arena_printf(m->a, "[%s]", m->s->note) : "",
		[SHIM_WHOLE] = m->s->whole_log ? "whole" : "",
		[SHIM_PROGRAM] = task_program(m),
		[SHIM_HEADS] = NULL,
	};
	const char *const framework[] = { arena_dup(m->a, m->s->framework), NULL };
	const char *const *const first[SHIM_LISTS] = { [SHIM_HEAD] = head, [SHIM_ARGV] = argv };
	const char *const *const app[APP_LISTS] = {
		[APP_ENV] = env.v, [APP_COMMAND] = command.v, [APP_SAME] = m->same.v
	};
	const char *const *const before[INIT_LISTS] = {
		[INIT_ENV] = init_env.v, [INIT_COMMAND] = init.v, [INIT_FRAMEWORK] = framework
	};
	lists_put(&spec, first, SHIM_LISTS);
	lists_put(&spec, app, APP_LISTS);
	lists_put(&spec, before, INIT_LISTS);
	if (spec.full)
		return err_set(m->e, INVALID_PARAMETERS,
		               "the commands and variables of the pod are too long");
	return task_new_file(m, "spec", str_view(&spec), 0600);
}

/* ---- preparing ------------------------------------------------------------------------------- */

int task_prepare(const struct pod *p, const struct task_settings *s, struct err *e)
{
	ARENA_AUTO a = { 0 };
	if (mkdir(s->dir, 0700) != 0 && errno != EEXIST)
		return task_failed(e, "make the directory", s->dir, "");
	FD_AUTO dir = open(s->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return task_failed(e, "open", s->dir, "");
	if (faccessat(dir, "shim", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(e, UNKNOWN_ERROR, "a shim has been started in %s", s->dir);
	struct task_making m = { .p = p, .s = s, .same = { .a = &a }, .dir = dir, .a = &a, .e = e };
	m.home = arena_printf(&a, "HOME=%s", sandbox_home(s->box.rootfs != NULL, &a));
	m.patterns = task_volume_at(&p->init, "/usr/local/pai-config");
	m.work = task_volume_at(&p->app, "/usr/local/pai");
	if (m.work && m.work->kind != POD_DIRECTORY)
		m.work = NULL;
	int result = task_layout(&m) || task_spec_write(&m) ? -1 : 0;
	arena_wipe(&a); /* secrets */
	return result;
}
