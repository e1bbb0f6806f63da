#include "machine/task/sandbox.h"

#include <pwd.h>
#include <stdlib.h>
#include <unistd.h>

#include "machine/task/sandbox_internal.h"
#include "machine/words.h"

static void args_tmpfs(struct words *args, const struct plan_op *op)
{
	bool all = strcmp(op->path, "/tmp") == 0 || strcmp(op->path, "/var/tmp") == 0 ||
	           strcmp(op->path, "/dev/shm") == 0;
	if (op->size)
		WORDS_ADD(args, "--size",
		          arena_printf(args->a, "%llu", (unsigned long long)op->size));
	WORDS_ADD(args, "--perms", all ? "1777" : "0755", "--tmpfs", op->path);
}

static void args_op(struct words *args, const struct plan_op *op)
{
	static const char *const OPTIONS[] = {
		[PLAN_READ_ONLY] = "--ro-bind", [PLAN_WRITABLE] = "--bind",
		[PLAN_DEVICE] = "--dev-bind",   [PLAN_LINK] = "--symlink",
		[PLAN_DIR] = "--dir",           [PLAN_PROC] = "--proc",
		[PLAN_DEV] = "--dev",
	};
	/* bubblewrap begins with an empty "/". */
	if (op->kind == PLAN_SHADOW && strcmp(op->path, "/") == 0)
		return;
	if (op->kind == PLAN_TMPFS || op->kind == PLAN_SHADOW) {
		args_tmpfs(args, op);
		return;
	}
	bool may_vanish = op->kind == PLAN_READ_ONLY && op->entry;
	words_add(args, may_vanish ? "--ro-bind-try" : OPTIONS[op->kind]);
	if (op->source)
		words_add(args, op->source);
	words_add(args, op->path);
}

static void args_namespaces(struct words *args, const struct sandbox_spec *spec)
{
	/* Below an overlay, the user is root of the namespace that mount-overlay makes. */
	const char *uid = arena_printf(args->a, "%u", spec->image ? 0 : geteuid());
	const char *gid = arena_printf(args->a, "%u", spec->image ? 0 : getegid());
	/* As root, bubblewrap keeps capabilities unless it is told not to. */
	WORDS_ADD(args, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
	          "--die-with-parent", "--cap-drop", "ALL", "--uid", uid, "--gid", gid,
	          "--as-pid-1");
	if (spec->status_fd > 0)
		WORDS_ADD(args, "--json-status-fd", arena_printf(args->a, "%d", spec->status_fd));
}

const char **sandbox_argv(const struct sandbox_spec *spec, struct arena *a, struct err *e)
{
	const struct sandbox_image *image = spec->image;
	const char *bwrap = sandbox_program("bwrap", a);
	if (bwrap == NULL) {
		(void)err_set(e, UNAVAILABLE,
		              "bwrap is not in PATH; install the package bubblewrap");
		return NULL;
	}
	struct plan plan;
	if (plan_make(&plan, spec, a, e) != 0)
		return NULL;
	const char *cwd = spec->cwd ? plan_resolve(&plan, spec->cwd, e) : "/";
	if (cwd == NULL)
		return NULL;
	struct words args = { .a = a };
	if (image)
		WORDS_ADD(&args, spec->runtime, "mount-overlay", image->rootfs, image->upper,
		          image->work, image->merged, "--");
	words_add(&args, bwrap);
	args_namespaces(&args, spec);
	for (size_t i = 0; i < plan.n; i++) {
		struct plan_op op = plan.op[i];
		if (op.kind == PLAN_TMPFS && !op.size)
			op.size = spec->memory;
		args_op(&args, &op);
	}
	for (size_t i = 0; i < plan.n; i++) {
		if (plan.op[i].kind == PLAN_SHADOW || plan.op[i].kind == PLAN_DEV)
			WORDS_ADD(&args, "--remount-ro", plan.op[i].path);
	}
	WORDS_ADD(&args, "--chdir", cwd, "--");
	words_add_all(&args, spec->command);
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
	struct span rest = span_of(path ? path : "/usr/local/bin:/usr/bin:/bin");
	while (rest.n) {
		struct span dir = span_next(&rest, ':');
		const char *file = arena_printf(a, "%.*s/%s", (int)dir.n, dir.p, name);
		/* A relative directory would mean another program in another directory. */
		if (*file == '/' && dir.n && access(file, X_OK) == 0)
			return file;
	}
	return NULL;
}

/* A directory that is, or contains, what programs need. */
static bool hide_never(const char *dir)
{
	static const char *const NEEDED[] = { "/usr", "/bin", "/sbin", "/lib", "/etc",
		                              "/dev", "/sys", "/proc", "/var" };
	for (size_t i = 0; i < ARRAY_SIZE(NEEDED); i++) {
		if (plan_within(NEEDED[i], dir))
			return true;
	}
	return false;
}

static void hide_add(struct words *hidden, const char *path)
{
	const char *real = path && *path ? plan_real(path, hidden->a) : NULL;
	if (real && !hide_never(real))
		words_add(hidden, real);
}

const char **sandbox_hide(const char *const *more, size_t n, struct arena *a)
{
	static const char *const USUAL[] = { "/home", "/root", "/run", "/tmp", "/var/tmp" };
	/* Root owns them also without capabilities. */
	static const char *const OF_ROOT[] = { "/etc/shadow",    "/etc/shadow-", "/etc/gshadow",
		                               "/etc/gshadow-",  "/etc/ssh",     "/etc/ssl/private",
		                               "/var/spool/cron" };
	enum { ROOM = 16384 };
	struct words hidden = { .a = a };
	struct passwd user;
	struct passwd *found = NULL;
	char *room = arena_alloc(a, ROOM);
	for (size_t i = 0; i < ARRAY_SIZE(USUAL); i++)
		hide_add(&hidden, USUAL[i]);
	hide_add(&hidden, getenv("HOME")); /* NOLINT(concurrency-mt-unsafe): not changed */
	if (getpwuid_r(geteuid(), &user, room, ROOM, &found) == 0 && found)
		hide_add(&hidden, found->pw_dir);
	for (size_t i = 0; geteuid() == 0 && i < ARRAY_SIZE(OF_ROOT); i++)
		hide_add(&hidden, OF_ROOT[i]);
	for (size_t i = 0; i < n; i++)
		hide_add(&hidden, more[i]);
	return hidden.v ? hidden.v : ARENA_NEW(a, const char *, 1);
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
