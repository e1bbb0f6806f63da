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

/* In a sandbox. */
#define HELPER_PATH    "/tmp/.pai-runtime"
#define FRAMEWORK_PATH "/tmp/.pai-framework.json"

static const char *const TASK_NAMES[TASK_WHICH_MAX] = { "init", "app" };

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

static int task_environment(struct task_making *m, enum task_which which, struct words *w)
{
	struct words pod = { .a = m->a };
	bool app = which == TASK_WHICH_APP;
	if (pod_env_resolve(&m->p->container[which], m->s->objects, &pod, m->e))
		return -1;
	words_add(w, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	words_add(w, arena_printf(m->a, "HOME=%s", task_home(m)));
	words_set_all(w, app ? m->s->image_env : NULL);
	words_set_all(w, pod.v);
	words_set_all(w, app ? m->s->env : NULL);
	/* By this, task_kill_leftovers finds processes. */
	words_set(w, arena_printf(m->a, "FC_POD_UID=%s", m->p->uid));
	return 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool task_is_runtime(const char *path)
{
	const char *slash = strrchr(path, '/');
	return strcmp(slash ? slash + 1 : path, "pai-runtime") == 0;
}

static void task_command_init(struct task_making *m, const char *const *words, struct words *w)
{
	WORDS_ADD(w, m->s->sandbox ? HELPER_PATH : m->s->runtime, "init");
	words_add_all(w, words);
	WORDS_ADD(w, "--framework",
	          m->s->sandbox ? FRAMEWORK_PATH : task_below(m, "framework.json"));
}

/* Returns whether it is the runtime. */
static bool task_command_app(struct task_making *m, const char *const *words, struct words *w)
{
	static const char PAI[] = "/usr/local/pai/";
	bool below = strncmp(words[0], PAI, strlen(PAI)) == 0;
	bool runtime = strcmp(words[0], "/usr/local/pai/runtime") == 0 && !words[1];
	words_add(w, below && !m->s->sandbox ? arena_printf(m->a, "%s/root%s", m->s->dir, words[0])
	                                     : words[0]);
	words_add_all(w, words + 1);
	if (runtime)
		WORDS_ADD(w, "run", "--logs-kept");
	return runtime;
}

/* `pai-runtime init`, from an image of which it is the entry point or from a ConfigMap, is the
 * program of this machine and gets the Framework as a file. */
static int task_command(struct task_making *m, enum task_which which, const struct words *env,
                        struct words *w)
{
	const struct pod_container *c = &m->p->container[which];
	const char **lists[] = { c->command, c->args };
	struct words given = { .a = m->a };
	for (size_t k = 0; k < 2; k++) {
		for (size_t i = 0; lists[k][i] && given.n <= WORDS_MAX; i++)
			words_add(&given, words_expand(env, lists[k][i]));
	}
	if (given.n > WORDS_MAX)
		return err_set(m->e, INVALID_PARAMETERS,
		               "the command of container %s has more than %d words", c->name,
		               WORDS_MAX);
	bool entry = !c->command[0];
	bool named =
	    !entry && given.n > 1 && task_is_runtime(given.v[0]) && strcmp(given.v[1], "init") == 0;
	bool runtime = which == TASK_WHICH_INIT && (named || entry);
	if (runtime)
		task_command_init(m, given.v && named ? given.v + 2 : given.v, w);
	else if (entry)
		return err_set(m->e, NOT_IMPLEMENTED,
		               "container %s has no command, and that of its image is not known",
		               c->name);
	else
		runtime = task_command_app(m, given.v, w);
	if (runtime && !m->s->sandbox)
		WORDS_ADD(w, "--root", task_below(m, "root"));
	return 0;
}

/* ---- mounts ---------------------------------------------------------------------------------- */

const char *task_message_path(const struct task_making *m, enum task_which which)
{
	return m->s->sandbox ? arena_printf(m->a, "message-%s", TASK_NAMES[which])
	                     : arena_printf(m->a, "root%s", m->p->container[which].message_path);
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

static void task_mounts_make(struct task_making *m, enum task_which which, struct task_mounts *t)
{
	const struct pod_container *c = &m->p->container[which];
	bool init = which == TASK_WHICH_INIT;
	t->n = 0;
	if (init || !m->s->image)
		task_mount_own(t, task_below(m, "tmp"), "/tmp", true);
	for (size_t i = 0; i < c->n_mounts; i++) {
		if (task_mount_needed(&c->mount[i]))
			task_mount_volume(m, &c->mount[i], t);
	}
	for (size_t i = 0; !init && i < m->s->n_mounts; i++)
		task_mount_add(t, m->s->mount[i]);
	task_mount_own(t, task_below(m, task_message_path(m, which)), c->message_path, true);
	task_mount_own(t, m->s->runtime, HELPER_PATH, false);
	if (init)
		task_mount_own(t, task_below(m, "framework.json"), FRAMEWORK_PATH, false);
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
static const char **task_wrap(struct task_making *m, enum task_which which, const char *cwd,
                              const char *const *command)
{
	struct task_mounts mounts;
	bool app = which == TASK_WHICH_APP;
	bool image = app && m->s->image;
	const struct sandbox_image layers = { m->s->image, task_below(m, "upper"),
		                              task_below(m, "work"), task_below(m, "merged") };
	task_mounts_make(m, which, &mounts);
	const struct sandbox_spec spec = { .runtime = m->s->runtime,
		                           .image = image ? &layers : NULL,
		                           .mounts = mounts.v,
		                           .mounts_n = mounts.n,
		                           .devices = m->s->device,
		                           .devices_n = app ? m->s->n_devices : 0,
		                           .hide = m->s->hide,
		                           .hide_n = m->s->n_hide,
		                           .memory = (uint64_t)m->p->app.memory,
		                           .home = task_home(m),
		                           .cwd = cwd,
		                           .status_fd = STATUS_FD,
		                           .command = command };
	return sandbox_argv(&spec, m->a, m->e);
}

/* ---- the files ------------------------------------------------------------------------------- */

/* Words, each ended by NUL. */
static int spec_put(struct task_making *m, const char *path, const char *const *words)
{
	STR_AUTO out = STR_SECRET(SPEC_MAX);
	for (; *words; words++)
		str_put(&out, *words, strlen(*words) + 1);
	if (out.full)
		return err_set(m->e, INVALID_PARAMETERS,
		               "the commands and variables of the pod are too long");
	return task_new_file(m, path, str_view(&out), 0600);
}

static int spec_put_container(struct task_making *m, enum task_which which)
{
	const struct pod_container *c = &m->p->container[which];
	const char *cwd = c->directory;
	struct words env = { .a = m->a };
	struct words command = { .a = m->a };
	if (!cwd && which == TASK_WHICH_APP)
		cwd = m->s->start_directory;
	/* Bubblewrap changes the directory by itself. */
	WORDS_ADD(&command, m->s->sandbox ? HELPER_PATH : m->s->runtime, "shim", "--exec",
	          m->s->sandbox ? "."
	          : cwd         ? cwd
	                        : "/");
	for (size_t i = 0; m->s->sandbox && i < c->n_mounts; i++) {
		const struct pod_mount *mount = &c->mount[i];
		if (mount->volume->kind == POD_STORAGE && task_storage_put(m, mount, &command) < 0)
			return -1;
	}
	words_add(&command, "--");
	if (task_environment(m, which, &env) || task_command(m, which, &env, &command))
		return -1;
	const char **argv = m->s->sandbox ? task_wrap(m, which, cwd, command.v) : command.v;
	if (!argv || spec_put(m, arena_printf(m->a, "%s.env", TASK_NAMES[which]), env.v))
		return -1;
	return spec_put(m, arena_printf(m->a, "%s.argv", TASK_NAMES[which]), argv);
}

int task_spec_write(struct task_making *m)
{
	bool init = m->p->has_init;
	const char *const head[] = { "shim 2",
		                     arena_printf(m->a, "%lld", (long long)m->p->grace_s),
		                     m->s->sandbox ? "wrapped" : "",
		                     m->s->cgroup_procs ? m->s->cgroup_procs : "",
		                     init ? task_message_path(m, TASK_WHICH_INIT) : "",
		                     task_message_path(m, TASK_WHICH_APP),
		                     NULL };
	if ((init && spec_put_container(m, TASK_WHICH_INIT)) ||
	    spec_put_container(m, TASK_WHICH_APP))
		return -1;
	return spec_put(m, "spec", head);
}
