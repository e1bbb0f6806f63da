#include "k8s/local/sandbox.h"

#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "k8s/local/sandbox_internal.h"

/* Arguments; `n` counts those that did not fit too. */
struct sandbox_args {
	struct arena *a;
	const char **v;
	size_t n;
};

static void args_put(struct sandbox_args *args, const char *text)
{
	if (args->n < SANDBOX_ARGS_MAX)
		args->v[args->n] = text;
	args->n++;
}

/* At most three; NULL ends the list. */
static void args_add(struct sandbox_args *args, const char *x, const char *y, const char *z)
{
	args_put(args, x);
	if (y)
		args_put(args, y);
	if (y && z)
		args_put(args, z);
}

static void args_tmpfs(struct sandbox_args *args, const struct plan_op *op)
{
	bool all = strcmp(op->path, "/tmp") == 0 || strcmp(op->path, "/var/tmp") == 0 ||
	           strcmp(op->path, "/dev/shm") == 0;
	if (op->size)
		args_add(args, "--size",
		         arena_printf(args->a, "%llu", (unsigned long long)op->size), NULL);
	args_add(args, "--perms", all ? "1777" : "0755", NULL);
	args_add(args, "--tmpfs", op->path, NULL);
}

static void args_op(struct sandbox_args *args, const struct plan_op *op)
{
	switch (op->kind) {
	case PLAN_READ_ONLY:
		args_add(args, op->entry ? "--ro-bind-try" : "--ro-bind", op->source, op->path);
		return;
	case PLAN_WRITABLE:
		args_add(args, "--bind", op->source, op->path);
		return;
	case PLAN_DEVICE:
		args_add(args, "--dev-bind", op->source, op->path);
		return;
	case PLAN_LINK:
		args_add(args, "--symlink", op->source, op->path);
		return;
	case PLAN_TMPFS:
		args_tmpfs(args, op);
		return;
	case PLAN_SHADOW:
		/* bubblewrap begins with an empty "/". */
		if (strcmp(op->path, "/") != 0)
			args_tmpfs(args, op);
		return;
	case PLAN_DIR:
		args_add(args, "--dir", op->path, NULL);
		return;
	case PLAN_PROC:
		args_add(args, "--proc", op->path, NULL);
		return;
	case PLAN_DEV:
		args_add(args, "--dev", op->path, NULL);
		return;
	}
}

static void args_overlay(struct sandbox_args *args, const struct sandbox_spec *spec)
{
	args_add(args, spec->runtime, "mount-overlay", NULL);
	args_add(args, spec->image->rootfs, spec->image->upper, spec->image->work);
	args_add(args, spec->image->merged, "--", NULL);
}

static void args_namespaces(struct sandbox_args *args, const struct sandbox_spec *spec)
{
	args_add(args, "--unshare-user", "--unshare-pid", "--unshare-ipc");
	/* As root, bubblewrap keeps capabilities unless it is told not to. */
	args_add(args, "--unshare-uts", "--die-with-parent", NULL);
	args_add(args, "--cap-drop", "ALL", NULL);
	if (spec->hostname)
		args_add(args, "--hostname", spec->hostname, NULL);
	/* Below an overlay, the user is root of the namespace that mount-overlay makes. */
	args_add(args, "--uid", arena_printf(args->a, "%u", spec->as_root ? 0 : geteuid()), NULL);
	args_add(args, "--gid", arena_printf(args->a, "%u", spec->as_root ? 0 : getegid()), NULL);
	if (spec->as_pid_1)
		args_put(args, "--as-pid-1");
	if (spec->status_fd > 0)
		args_add(args, "--json-status-fd", arena_printf(args->a, "%d", spec->status_fd),
		         NULL);
}

const char **sandbox_argv(const struct sandbox_spec *spec, struct arena *a, struct err *e)
{
	const char *bwrap = sandbox_program("bwrap", a);
	if (bwrap == NULL) {
		(void)err_set(e, UNAVAILABLE,
		              "bwrap is not in PATH; install the package bubblewrap");
		return NULL;
	}
	struct plan plan;
	if (plan_make(&plan, spec, a, e) != 0)
		return NULL;
	struct sandbox_args args = { .a = a };
	args.v = ARENA_NEW(a, const char *, SANDBOX_ARGS_MAX + 1);
	if (spec->image)
		args_overlay(&args, spec);
	args_put(&args, bwrap);
	args_namespaces(&args, spec);
	for (size_t i = 0; i < plan.n; i++)
		args_op(&args, &plan.op[i]);
	for (size_t i = 0; i < plan.n; i++) {
		if (plan.op[i].kind == PLAN_SHADOW)
			args_add(&args, "--remount-ro", plan.op[i].path, NULL);
	}
	const char *cwd = spec->cwd ? plan_resolve(&plan, spec->cwd, e) : "/";
	if (cwd == NULL)
		return NULL;
	args_add(&args, "--chdir", cwd, "--");
	for (const char *const *word = spec->command; *word; word++)
		args_put(&args, *word);
	if (args.n > SANDBOX_ARGS_MAX) {
		(void)err_set(e, INVALID_PARAMETERS, "a sandbox of more than %d arguments",
		              SANDBOX_ARGS_MAX);
		return NULL;
	}
	return args.v;
}

const char *sandbox_program(const char *name, struct arena *a)
{
	const char *path = getenv("PATH"); /* NOLINT(concurrency-mt-unsafe): not changed */
	for (const char *dir = path ? path : "/usr/local/bin:/usr/bin:/bin"; *dir;) {
		size_t n = strcspn(dir, ":");
		/* A relative directory would mean another program in another directory. */
		if (n > 0 && *dir == '/') {
			const char *file = arena_printf(a, "%.*s/%s", (int)n, dir, name);
			if (access(file, X_OK) == 0)
				return file;
		}
		dir += n + (dir[n] == ':');
	}
	return NULL;
}

/* A directory that is, or contains, what programs need. */
static bool hide_never(const char *dir)
{
	static const char *const NEEDED[] = { "/usr", "/bin", "/sbin", "/lib", "/etc",
		                              "/dev", "/sys", "/proc", "/var" };
	for (size_t i = 0; i < sizeof(NEEDED) / sizeof(NEEDED[0]); i++) {
		if (plan_within(NEEDED[i], dir))
			return true;
	}
	return false;
}

struct hide {
	struct arena *a;
	const char **v;
	size_t n;
};

static void hide_add(struct hide *h, const char *path)
{
	const char *real = path && *path ? plan_real(path, h->a) : NULL;
	if (real && !hide_never(real))
		h->v[h->n++] = real;
}

static void hide_add_home(struct hide *h)
{
	enum { ROOM = 16384 };
	struct passwd user;
	struct passwd *found = NULL;
	char *room = arena_alloc(h->a, ROOM);
	hide_add(h, getenv("HOME")); /* NOLINT(concurrency-mt-unsafe): not changed */
	if (getpwuid_r(geteuid(), &user, room, ROOM, &found) == 0 && found)
		hide_add(h, found->pw_dir);
}

const char **sandbox_hide(const char *const *more, size_t n, struct arena *a)
{
	static const char *const USUAL[] = { "/home", "/root", "/run", "/tmp", "/var/tmp" };
	/* Root owns them also without capabilities. */
	static const char *const OF_ROOT[] = { "/etc/shadow",    "/etc/shadow-", "/etc/gshadow",
		                               "/etc/gshadow-",  "/etc/ssh",     "/etc/ssl/private",
		                               "/var/spool/cron" };
	enum { USUAL_N = sizeof(USUAL) / sizeof(USUAL[0]) };
	enum { OF_ROOT_N = sizeof(OF_ROOT) / sizeof(OF_ROOT[0]) };
	struct hide h = { a, ARENA_NEW(a, const char *, n + USUAL_N + OF_ROOT_N + 3), 0 };
	for (size_t i = 0; i < USUAL_N; i++)
		hide_add(&h, USUAL[i]);
	hide_add_home(&h);
	for (size_t i = 0; geteuid() == 0 && i < OF_ROOT_N; i++)
		hide_add(&h, OF_ROOT[i]);
	for (size_t i = 0; i < n; i++)
		hide_add(&h, more[i]);
	return h.v;
}

bool sandbox_hidden(const char *path, const char *const *dirs, size_t n)
{
	ARENA_AUTO a = { 0 };
	const char *real = plan_real(path, &a);
	for (size_t i = 0; i < n; i++) {
		const char *dir = plan_real(dirs[i], &a);
		if (dir && plan_within(real ? real : path, dir))
			return true;
	}
	return false;
}
