/* What the shim runs: commands, environment and mounts of the containers. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "machine/task/task_internal.h"

enum {
	MOUNTS_MAX = 2048,
	WORDS_MAX = 4096,
	SPEC_MAX = 16 << 20,
	STATUS_FD = 7 /* SHIM_STATUS_FD */
};

static const char *task_below(const struct task_making *m, const char *path)
{
	return arena_printf(m->a, "%s/%s", m->s->dir, path);
}

/* ---- the environment ------------------------------------------------------------------------- */

static const char *task_home(const struct task_making *m)
{
	enum { ROOM = 16384 };
	struct passwd user;
	struct passwd *found = NULL;
	char *room = arena_alloc(m->a, ROOM);
	if (m->s->image || getpwuid_r(geteuid(), &user, room, ROOM, &found) != 0 || !found ||
	    user.pw_dir[0] != '/')
		return "/root";
	return user.pw_dir;
}

static int task_environment(struct task_making *m, const struct pod_container *c, struct words *w)
{
	struct words pod = { .a = m->a };
	bool app = c == &m->p->app;
	if (pod_env_resolve(c, m->s->objects, &pod, m->e))
		return -1;
	words_add(w, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	words_add(w, arena_printf(m->a, "HOME=%s", m->home));
	words_set_all(w, app ? m->s->image_env : NULL);
	words_set_all(w, pod.v);
	words_set_all(w, app ? m->s->env : NULL);
	/* By this, task_kill_leftovers finds processes. */
	words_set(w, arena_printf(m->a, "FC_POD_UID=%s", m->p->uid));
	return 0;
}

/* ---- the commands ---------------------------------------------------------------------------- */

/* pai-runtime as the app container sees it: in the work volume, where plugins call it. */
static const char *task_program(const struct task_making *m)
{
	return !m->s->sandbox ? m->s->runtime
	       : m->work      ? "/usr/local/pai/runtime"
	                      : "/tmp/.pai-runtime";
}

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
	const char *name = given.n && m->p->init.command[0] ? given.v[0] : "pai-runtime";
	const char *slash = strrchr(name, '/');
	bool entry = !m->p->init.command[0];
	bool runtime = entry || (given.n > 1 && strcmp(given.v[1], "init") == 0 &&
	                         strcmp(slash ? slash + 1 : name, "pai-runtime") == 0);
	if (runtime)
		words_add(w, "init");
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
		WORDS_ADD(w, "--run", "--logs-kept");
		if (!m->s->sandbox)
			WORDS_ADD(w, "--root", task_below(m, "root"));
		return 0;
	}
	bool below = strncmp(given.v[0], PAI, strlen(PAI)) == 0 && !m->s->sandbox;
	WORDS_ADD(w, "--",
	          below ? arena_printf(m->a, "%s/root%s", m->s->dir, given.v[0]) : given.v[0]);
	words_add_all(w, given.v + 1);
	return 0;
}

/* ---- mounts ---------------------------------------------------------------------------------- */

const char *task_message_path(const struct task_making *m)
{
	return m->s->sandbox ? "message" : arena_printf(m->a, "root%s", m->p->app.message_path);
}

struct task_mounts {
	struct sandbox_mount v[MOUNTS_MAX];
	size_t n;
};

static void task_mount_add(struct task_mounts *t, struct sandbox_mount mount)
{
	if (t->n < MOUNTS_MAX)
		t->v[t->n++] = mount;
}

static void task_mount_own(struct task_mounts *t, const char *source, const char *path,
                           bool writable)
{
	task_mount_add(t, (struct sandbox_mount){ source, path, writable, 0 });
}

static void task_mount_volume(struct task_making *m, const struct pod_mount *mount,
                              struct task_mounts *t)
{
	const struct pod_volume *v = mount->volume;
	const char *dir = v->kind == POD_STORAGE ? v->dir : task_below(m, task_volume_dir(m, v));
	struct sandbox_mount to = { .path = mount->path, .writable = !mount->read_only };
	if (v->kind == POD_MEMORY)
		to.size = (uint64_t)v->size;
	else
		to.source =
		    *mount->sub_path ? arena_printf(m->a, "%s/%s", dir, mount->sub_path) : dir;
	task_mount_add(t, to);
}

static void task_mounts_make(struct task_making *m, struct task_mounts *t)
{
	const struct pod_container *c = &m->p->app;
	t->n = 0;
	if (!m->s->image)
		task_mount_own(t, task_below(m, "tmp"), "/tmp", true);
	for (size_t i = 0; i < c->n_mounts; i++)
		task_mount_volume(m, &c->mount[i], t);
	for (size_t i = 0; i < m->s->n_mounts; i++)
		task_mount_add(t, m->s->mount[i]);
	task_mount_own(t, task_below(m, task_message_path(m)), c->message_path, true);
	task_mount_own(t, m->s->runtime, task_program(m), false);
}

/* The storage is named, because users know nothing of its directory.  ENOENT has words of its own:
 * with those of the C library the exit specification would take the command for missing (-1203). */
static int task_storage_refuse(struct task_making *m, const struct pod_mount *mount,
                               const char *path, const char *does, int fault)
{
	return err_set(m->e, INVALID_PARAMETERS,
	               "storage `%s` cannot be mounted at %s: the directory %s of this machine %s: "
	               "%s",
	               mount->volume->storage, mount->path, path, does,
	               fault == ENOENT ? "it does not exist" : strerrordesc_np(fault));
}

/* Another task could replace a subPath of a storage by a link before it is mounted, so `shim
 * --exec` compares the directory that is mounted with that of now.  Like the kubelet, this makes a
 * directory that is not there. */
static int task_storage_put(struct task_making *m, const struct pod_mount *mount, struct words *w)
{
	const char *dir = mount->volume->dir;
	const char *path = arena_printf(m->a, "%s/%s", dir, mount->sub_path);
	struct stat st;
	FD_AUTO base = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (base < 0)
		return task_storage_refuse(m, mount, dir, "cannot be opened", errno);
	if (!*mount->sub_path)
		return 0;
	if (!strchr(mount->sub_path, '/') && mkdirat(base, mount->sub_path, 0755) != 0 &&
	    errno != EEXIST)
		return task_storage_refuse(m, mount, path, "cannot be made", errno);
	FD_AUTO fd = openat(base, mount->sub_path, O_PATH | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0)
		return task_storage_refuse(m, mount, path, "cannot be opened", errno);
	/* The link has the path of what was opened. */
	if (!sandbox_hidden(arena_printf(m->a, "/proc/self/fd/%d", fd), &dir, 1))
		return err_set(m->e, INVALID_PARAMETERS, "%s is a link that leads out of %s", path,
		               dir);
	words_add(w, arena_printf(m->a, "%llu:%llu:%s", (unsigned long long)st.st_dev,
	                          (unsigned long long)st.st_ino, mount->path));
	return 0;
}

/* The words of bubblewrap, which starts the command in the sandbox; NULL and an error. */
static const char **task_wrap(struct task_making *m, const char *cwd, const char *const *command)
{
	struct task_mounts mounts;
	const struct sandbox_image layers = { m->s->image, task_below(m, "upper"),
		                              task_below(m, "work"), task_below(m, "merged") };
	task_mounts_make(m, &mounts);
	const struct sandbox_spec spec = { .runtime = m->s->runtime,
		                           .image = m->s->image ? &layers : NULL,
		                           .mounts = mounts.v,
		                           .mounts_n = mounts.n,
		                           .devices = m->s->device,
		                           .devices_n = m->s->n_devices,
		                           .hide = m->s->hide,
		                           .hide_n = m->s->n_hide,
		                           .memory = (uint64_t)m->p->need.memory,
		                           .home = m->home,
		                           .cwd = cwd,
		                           .status_fd = STATUS_FD,
		                           .command = command };
	return sandbox_argv(&spec, m->a, m->e);
}

/* ---- the files ------------------------------------------------------------------------------- */

/* Each ended by NUL. */
static void spec_put(struct str *out, const char *const *words)
{
	for (; words && *words; words++)
		str_put(out, *words, strlen(*words) + 1);
}

static int spec_write(struct task_making *m, const char *name, const struct str *text)
{
	if (text->full)
		return err_set(m->e, INVALID_PARAMETERS,
		               "the commands and variables of the pod are too long");
	return task_new_file(m, name, str_view(text), 0600);
}

int task_spec_write(struct task_making *m)
{
	const struct pod_container *c = &m->p->app;
	const char *cwd = c->directory ? c->directory : m->s->start_directory;
	STR_AUTO spec = STR_INIT(SPEC_MAX);
	STR_AUTO job = STR_SECRET(SPEC_MAX);
	struct words env = { .a = m->a };
	struct words init_env = { .a = m->a };
	struct words init = { .a = m->a };
	struct words command = { .a = m->a };
	m->home = task_home(m);
	/* Bubblewrap changes the directory by itself. */
	WORDS_ADD(&command, task_program(m), "shim", "--exec",
	          m->s->sandbox ? "."
	          : cwd         ? cwd
	                        : "/");
	for (size_t i = 0; m->s->sandbox && i < c->n_mounts; i++) {
		const struct pod_mount *mount = &c->mount[i];
		if (mount->volume->kind == POD_STORAGE && task_storage_put(m, mount, &command) < 0)
			return -1;
	}
	if (task_environment(m, c, &env) || task_words_app(m, &env, &command) ||
	    (m->p->has_init && task_environment(m, &m->p->init, &init_env)) ||
	    task_words_init(m, &init_env, &init))
		return -1;
	spec_put(&job, env.v);
	str_char(&job, '\0');
	spec_put(&job, init_env.v);
	str_char(&job, '\0');
	str_span(&job, m->s->framework);
	str_char(&job, '\0');
	spec_put(&job, init.v);
	const char **argv = m->s->sandbox ? task_wrap(m, cwd, command.v) : command.v;
	if (!argv)
		return -1;
	const char *const head[] = { "shim 3",
		                     arena_printf(m->a, "%lld", (long long)m->p->grace_s),
		                     m->s->sandbox ? "wrapped" : "",
		                     m->s->cgroup_procs ? m->s->cgroup_procs : "",
		                     init.n ? "init" : "",
		                     task_message_path(m),
		                     arena_printf(m->a, "FC_POD_UID=%s", m->p->uid),
		                     NULL };
	spec_put(&spec, head);
	spec_put(&spec, argv);
	return spec_write(m, "job", &job) || spec_write(m, "spec", &spec) ? -1 : 0;
}
