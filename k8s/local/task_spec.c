/* What the shim runs: commands, environment and mounts of the containers.  The format is described
 * in runtime-assets/shim/shim_internal.h. */
#include "k8s/local/task_internal.h"

#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOUNTS_MAX = 2048, WORDS_MAX = 4096 };

/* Descriptors that the shim gives to a wrapped command. */
#define REPORT_FD "5"
#define ENV_FD    "6"
enum { STATUS_FD = 7 };

/* In a sandbox. */
#define HELPER_PATH    "/tmp/.pai-runtime"
#define FRAMEWORK_PATH "/tmp/.pai-framework.json"

const char *const TASK_NAMES[TASK_WHICH_MAX] = { "init", "app" };

static const struct pod_container *task_container_of(const struct task_making *m,
                                                     enum task_which which)
{
	return which == TASK_WHICH_INIT ? &m->p->init : &m->p->app;
}

/* ---- the environment ------------------------------------------------------------------------- */

/* The last value of a name counts. */
struct task_words {
	const char **v; /* NULL-terminated */
	size_t n, room;
};

static void task_word(struct task_making *m, struct task_words *w, const char *text)
{
	if (w->n + 1 >= w->room) {
		size_t room = w->room ? 2 * w->room : 64;
		const char **more = ARENA_NEW(m->a, const char *, room);
		if (w->n)
			memcpy(more, w->v, w->n * sizeof(*more));
		w->v = more;
		w->room = room;
	}
	w->v[w->n++] = text;
	w->v[w->n] = NULL;
}

/* NAME=VALUE in place of an earlier value. */
static void task_variable(struct task_making *m, struct task_words *w, const char *text)
{
	size_t name = strcspn(text, "=") + 1;
	for (size_t i = 0; i < w->n; i++) {
		if (strncmp(w->v[i], text, name) == 0) {
			w->v[i] = text;
			return;
		}
	}
	task_word(m, w, text);
}

static void task_variables(struct task_making *m, struct task_words *w, const char *const *list)
{
	for (; list && *list; list++)
		task_variable(m, w, *list);
}

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

static int task_environment(struct task_making *m, enum task_which which, struct task_words *w)
{
	const char *const *own = which == TASK_WHICH_APP ? m->s->env : NULL;
	char **pod = pod_env_resolve(task_container_of(m, which), m->s->objects, m->a, m->e);
	if (!pod)
		return -1;
	task_word(m, w, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	task_word(m, w, arena_printf(m->a, "HOME=%s", task_home(m)));
	if (which == TASK_WHICH_APP)
		task_variables(m, w, m->s->image_env);
	for (; *pod; pod++)
		task_variable(m, w, *pod);
	task_variables(m, w, own);
	/* By this, task_kill_leftovers finds processes. */
	task_variable(m, w, arena_printf(m->a, "FC_POD_UID=%s", m->p->uid));
	if (which == TASK_WHICH_INIT)
		task_variable(m, w, "IMAGE_CHECK=off"); /* the image is here, or not used */
	return 0;
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool task_is_runtime(const char *path)
{
	const char *slash = strrchr(path, '/');
	return strcmp(slash ? slash + 1 : path, "pai-runtime") == 0;
}

/* `pai-runtime init`, from an image of which it is the entry point or from a ConfigMap, is the
 * program of this machine and gets the Framework as a file. */
static void task_command_init(struct task_making *m, char *const *words, struct task_words *w)
{
	task_word(m, w, m->s->sandbox ? HELPER_PATH : m->s->runtime);
	task_word(m, w, "init");
	for (size_t i = words[0] && words[1] ? 2 : 0; words[i]; i++)
		task_word(m, w, words[i]);
	task_word(m, w, "--framework");
	task_word(m, w,
	          m->s->sandbox ? FRAMEWORK_PATH
	                        : arena_printf(m->a, "%s/framework.json", m->s->dir));
	if (!m->s->sandbox) {
		task_word(m, w, "--root");
		task_word(m, w, m->root);
	}
}

static void task_command_app(struct task_making *m, char *const *words, struct task_words *w)
{
	static const char PAI[] = "/usr/local/pai/";
	bool below = strncmp(words[0], PAI, strlen(PAI)) == 0;
	task_word(m, w,
	          below && !m->s->sandbox ? arena_printf(m->a, "%s%s", m->root, words[0])
	                                  : words[0]);
	for (size_t i = 1; words[i]; i++)
		task_word(m, w, words[i]);
	if (strcmp(words[0], "/usr/local/pai/runtime") != 0 || words[1])
		return;
	task_word(m, w, "run");
	task_word(m, w, "--logs-kept");
	if (!m->s->sandbox) {
		task_word(m, w, "--root");
		task_word(m, w, m->root);
	}
}

static int task_command(struct task_making *m, enum task_which which, const struct task_words *env,
                        struct task_words *w)
{
	const struct pod_container *c = task_container_of(m, which);
	char *words[WORDS_MAX];
	char **variables = ARENA_NEW(m->a, char *, env->n + 1);
	size_t n = 0;
	/* Replacing does not change them. */
	memcpy(variables, env->v, env->n * sizeof(*variables));
	for (char **list = c->command; list; list = list == c->command ? c->args : NULL) {
		for (size_t i = 0; list[i] && n < WORDS_MAX; i++)
			words[n++] = pod_expand(list[i], variables, m->a);
	}
	if (n == WORDS_MAX)
		return err_set(m->e, INVALID_PARAMETERS, "the command of container %s has %d words",
		               c->name, WORDS_MAX);
	words[n] = NULL;
	bool runtime = n > 1 && task_is_runtime(words[0]) && strcmp(words[1], "init") == 0;
	if (which == TASK_WHICH_INIT && (!c->command[0] || runtime))
		task_command_init(m, words, w);
	else if (c->command[0])
		task_command_app(m, words, w);
	else
		return err_set(m->e, NOT_IMPLEMENTED,
		               "container %s has no command, and that of its image is not known",
		               c->name);
	return 0;
}

/* ---- mounts ---------------------------------------------------------------------------------- */

const char *task_message_path(const struct task_making *m, enum task_which which)
{
	const char *path = task_container_of(m, which)->message_path;
	return m->s->sandbox ? arena_printf(m->a, "message-%s", TASK_NAMES[which])
	                     : arena_printf(m->a, "root%s", path);
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

static const char *task_below(const struct task_making *m, const char *path)
{
	return arena_printf(m->a, "%s/%s", m->s->dir, path);
}

static int task_mount_volume(struct task_making *m, const struct pod_mount *mount,
                             struct task_mounts *t)
{
	const struct pod_volume *v = mount->volume;
	struct sandbox_mount to = { .path = mount->path, .writable = !mount->read_only };
	if (v->kind == POD_MEMORY) {
		to.size = (uint64_t)v->size;
		task_mount_add(t, to);
		return 0;
	}
	const char *dir = v->kind == POD_STORAGE ? v->dir : task_below(m, task_volume_dir(m, v));
	to.source = *mount->sub_path ? arena_printf(m->a, "%s/%s", dir, mount->sub_path) : dir;
	to.within = v->kind == POD_STORAGE ? dir : NULL;
	task_mount_add(t, to);
	return 0;
}

static void task_mounts_make(struct task_making *m, enum task_which which, struct task_mounts *t)
{
	const struct pod_container *c = task_container_of(m, which);
	bool init = which == TASK_WHICH_INIT;
	t->n = 0;
	if (init || !m->s->image)
		task_mount_add(t, (struct sandbox_mount){ .source = task_below(m, "tmp"),
		                                          .path = "/tmp",
		                                          .writable = true });
	for (size_t i = 0; i < c->n_mounts; i++) {
		if (task_mount_needed(&c->mount[i]))
			(void)task_mount_volume(m, &c->mount[i], t);
	}
	for (size_t i = 0; !init && i < m->s->n_mounts; i++)
		task_mount_add(t, m->s->mount[i]);
	const char *message = task_below(m, task_message_path(m, which));
	task_mount_add(t, (struct sandbox_mount){ message, c->message_path, true, 0, NULL });
	task_mount_add(t, (struct sandbox_mount){ m->s->runtime, HELPER_PATH, false, 0, NULL });
	if (init)
		task_mount_add(t, (struct sandbox_mount){ task_below(m, "framework.json"),
		                                          FRAMEWORK_PATH, false, 0, NULL });
}

/* The words of bubblewrap, which starts `shim --exec` in the sandbox. */
static const char **task_wrap(struct task_making *m, enum task_which which,
                              const struct task_words *w)
{
	struct task_mounts mounts;
	struct task_words command = { 0 };
	const struct pod_container *c = task_container_of(m, which);
	bool app = which == TASK_WHICH_APP;
	const char *hide[] = { m->s->hide };
	const char *start = app ? m->s->start_directory : NULL;
	struct sandbox_image image = { m->s->image, task_below(m, "upper"), task_below(m, "work"),
		                       task_below(m, "merged") };
	static const char *const HELPER[] = {
		HELPER_PATH, "shim", "--exec", REPORT_FD, ENV_FD, "--"
	};
	for (size_t i = 0; i < sizeof(HELPER) / sizeof(*HELPER); i++)
		task_word(m, &command, HELPER[i]);
	for (size_t i = 0; i < w->n; i++)
		task_word(m, &command, w->v[i]);
	task_mounts_make(m, which, &mounts);
	const struct sandbox_spec spec = { .runtime = m->s->runtime,
		                           .image = app && m->s->image ? &image : NULL,
		                           .mounts = mounts.v,
		                           .mounts_n = mounts.n,
		                           .devices = m->s->device,
		                           .devices_n = app ? m->s->n_devices : 0,
		                           .hide = hide,
		                           .hide_n = m->s->hide ? 1 : 0,
		                           .home = task_home(m),
		                           .cwd = c->directory ? c->directory : start,
		                           .as_root = app && m->s->image,
		                           .as_pid_1 = true,
		                           .status_fd = STATUS_FD,
		                           .command = command.v };
	return sandbox_argv(&spec, m->a, m->e);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void spec_put(struct str *out, const char *word, const char *value)
{
	str_puts(out, word);
	if (value) {
		str_char(out, ' ');
		str_puts(out, value);
	}
	str_char(out, '\0');
}

static int spec_put_container(struct task_making *m, enum task_which which, struct str *out)
{
	const struct pod_container *c = task_container_of(m, which);
	struct task_words env = { 0 };
	struct task_words words = { 0 };
	if (task_environment(m, which, &env) || task_command(m, which, &env, &words))
		return -1;
	const char **argv = m->s->sandbox ? task_wrap(m, which, &words) : NULL;
	if (m->s->sandbox && !argv)
		return -1;
	spec_put(out, "container", TASK_NAMES[which]);
	if (c->directory || m->s->start_directory)
		spec_put(out, "directory", c->directory ? c->directory : m->s->start_directory);
	if (m->s->cgroup_procs)
		spec_put(out, "cgroup", m->s->cgroup_procs);
	for (size_t i = 0; argv ? argv[i] != NULL : i < words.n; i++)
		spec_put(out, "arg", argv ? argv[i] : words.v[i]);
	for (size_t i = 0; i < env.n; i++)
		spec_put(out, "env", env.v[i]);
	return 0;
}

int task_spec_write(struct task_making *m, struct str *out)
{
	spec_put(out, "shim 1", NULL);
	spec_put(out, "grace", arena_printf(m->a, "%lld", (long long)m->p->grace_s));
	for (int i = m->p->has_init ? 0 : 1; i < TASK_WHICH_MAX; i++)
		spec_put(out, TASK_NAMES[i], task_message_path(m, (enum task_which)i));
	if (m->s->sandbox)
		spec_put(out, "wrapped", NULL);
	str_char(out, '\0');
	for (int i = m->p->has_init ? 0 : 1; i < TASK_WHICH_MAX; i++) {
		if (spec_put_container(m, (enum task_which)i, out))
			return -1;
	}
	return out->full ? err_set(m->e, INVALID_PARAMETERS,
	                           "the commands and variables of the pod are too long")
	                 : 0;
}
