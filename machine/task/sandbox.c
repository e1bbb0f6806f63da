/*
 * A sandbox is a tree of struct sandbox_view, which has the mounts; sandbox_argv builds it and
 * writes it as arguments, parents first.  Paths in it are absolute and without links.
 */
#include "machine/task/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/posix/child.h"
#include "base/posix/fd.h"
#include "machine/words.h"

enum {
	STEPS_MAX = 500,    /* parts of a path, with its links */
	SHADOWED_MAX = 1000 /* entries of a directory */
};

/* ---- paths of the machine -------------------------------------------------------------------- */

bool path_within(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	if (n == 1) /* "/" */
		return true;
	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

/* Returns the path without links, in the arena; NULL and errno. */
static const char *path_real(const char *path, struct arena *a)
{
	char real[PATH_MAX];
	return realpath(path, real) ? arena_dup(a, span_of(real)) : NULL;
}

bool path_leads_to(const char *path, const char *file)
{
	char real[PATH_MAX];
	return strcmp(path, file) == 0 || (realpath(path, real) && strcmp(real, file) == 0);
}

const char *sandbox_home(bool image, struct arena *a)
{
	enum { ROOM = 16384 };
	struct passwd user;
	struct passwd *found = NULL;
	char *room = arena_alloc(a, ROOM);
	bool known = !image && getpwuid_r(geteuid(), &user, room, ROOM, &found) == 0 && found;
	return known && user.pw_dir[0] == '/' ? user.pw_dir : "/root";
}

/* Returns true if the path is a directory that programs need, or above one. */
static bool path_needed(const char *path)
{
	static const char *const NEEDED[] = { "/usr", "/bin", "/sbin", "/lib", "/etc",
		                              "/dev", "/sys", "/proc", "/var" };
	for (size_t i = 0; i < ARRAY_SIZE(NEEDED); i++) {
		if (path_within(NEEDED[i], path))
			return true;
	}
	return false;
}

static void hide_add(struct words *hidden, const char *path)
{
	const char *real = path && *path ? path_real(path, hidden->a) : NULL;
	if (real && !path_needed(real))
		words_add(hidden, real);
}

const char **sandbox_hide(const char *const *more, size_t n, struct arena *a)
{
	/* Those from the sixth on belong to root, also without capabilities. */
	static const char *const USUAL[] = { "/home",
		                             "/root",
		                             "/run",
		                             "/tmp",
		                             "/var/tmp",
		                             "/etc/shadow",
		                             "/etc/shadow-",
		                             "/etc/gshadow",
		                             "/etc/gshadow-",
		                             "/etc/ssh",
		                             "/etc/ssl/private",
		                             "/var/spool/cron" };
	struct words hidden = { .a = a };
	for (size_t i = 0; i < (geteuid() == 0 ? ARRAY_SIZE(USUAL) : 5); i++)
		hide_add(&hidden, USUAL[i]);
	hide_add(&hidden, getenv("HOME")); /* NOLINT(concurrency-mt-unsafe): not changed */
	hide_add(&hidden, sandbox_home(false, a));
	for (size_t i = 0; i < n; i++)
		hide_add(&hidden, more[i]);
	return hidden.v ? hidden.v : ARENA_NEW(a, const char *, 1);
}

bool sandbox_hidden(const char *path, const char *const *dirs, size_t n)
{
	ARENA_AUTO a = { 0 };
	const char *real = path_real(path, &a);
	for (size_t i = 0; i < n; i++) {
		const char *dir = path_real(dirs[i], &a);
		if (dir && path_within(real ? real : path, dir))
			return true;
	}
	return false;
}

/* Returns false if bubblewrap, which has no capabilities, may not open the path with these flags.
 * The capabilities are those of this thread. */
static bool path_opens(const char *path, int flags)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct all[2];
	bool root = geteuid() == 0 && syscall(SYS_capget, &head, all) == 0;
	struct __user_cap_data_struct none[2] = { 0 };
	if (root) {
		none[0] = all[0];
		none[1] = all[1];
		none[0].effective = none[1].effective = 0;
		root = syscall(SYS_capset, &head, none) == 0;
	}
	FD_AUTO fd = open(path, flags | O_CLOEXEC);
	bool refused = fd < 0 && errno == EACCES;
	if (root)
		(void)syscall(SYS_capset, &head, all); /* as before */
	return !refused;
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* Options of bubblewrap by which a view is mounted. */
static const char READ_ONLY[] = "--ro-bind", WRITABLE[] = "--bind", DEVICE[] = "--dev-bind",
		  TMPFS[] = "--tmpfs", DIR_ONLY[] = "--dir", PROC[] = "--proc", DEV[] = "--dev";

struct sandbox_view {
	const char *option; /* one of these; NULL: it shows nothing, but what is below does */
	const char *source; /* of the machine, with all mounts below it */
	const char *look;   /* path on the machine of the files seen here; NULL: none */
	uint64_t size;      /* TMPFS: of bytes; 0: as every one */
	bool fixed;         /* TMPFS: only mount points are made in it */
	bool shared;        /* as in struct sandbox_mount */
	const char *name;
	struct sandbox_view *child, *next;
};

struct sandbox {
	const struct sandbox_spec *spec;
	const char **hide;
	struct sandbox_view root;
	struct words args, last; /* last: after all mounts */
	const char *unreadable;  /* a mount in which no mount point can be made; or NULL */
	struct arena *a;
	struct err *e;
};

static int sandbox_refuse(const struct sandbox *s, const char *path, const char *why)
{
	return err_set(s->e, INVALID_PARAMETERS, "%s cannot be a mount point%s%s", path,
	               *why ? ": " : "", why);
}

/* rest: "" or what is below. */
static const char *view_join(struct arena *a, const char *dir, const char *rest)
{
	if (!*rest)
		return dir;
	return arena_printf(a, "%s/%s", strcmp(dir, "/") == 0 ? "" : dir, rest);
}

static struct sandbox_view *view_child(const struct sandbox_view *v, struct span name)
{
	struct sandbox_view *c = v->child;
	while (c && !span_is(name, c->name))
		c = c->next;
	return c;
}

/* A view above a mount point, whose files the machine has at *look.  bubblewrap 0.12 must read this
 * directory.  If it may not, an empty directory takes its place, with every version: its entries
 * could not be listed anyway. */
static void view_above(struct sandbox *s, struct sandbox_view *v, struct span path,
                       const char **look)
{
	if (path_opens(*look, O_RDONLY | O_DIRECTORY | O_NONBLOCK))
		return;
	if (v->option || path_needed(arena_dup(s->a, path))) {
		s->unreadable = *look;
		return;
	}
	v->option = TMPFS;
	v->fixed = true;
	*look = NULL;
}

/* Puts a view at the path; the last one for a path counts, but a directory replaces nothing. */
static struct sandbox_view *view_put(struct sandbox *s, const char *path, const char *option,
                                     const char *source)
{
	struct sandbox_view *v = &s->root;
	const char *look = v->look;
	struct span rest = span_of(path + 1);
	while (rest.n > 0) {
		struct span name = span_next(&rest, '/');
		struct sandbox_view *c = view_child(v, name);
		if (!c) {
			c = ARENA_NEW(s->a, struct sandbox_view, 1);
			*c = (struct sandbox_view){ .name = arena_dup(s->a, name),
				                    .next = v->child };
			v->child = c;
		}
		v = c;
		look = v->option ? v->look : look ? view_join(s->a, look, v->name) : NULL;
		if (look && rest.n > 0)
			view_above(s, v, span_to(span_of(path), (size_t)(rest.p - path) - 1),
			           &look);
	}
	if (option == DIR_ONLY && v->option)
		return v;
	v->option = option;
	v->source = v->look = source;
	v->size = 0;
	v->fixed = v->shared = false;
	return v;
}

/* Returns the machine's path of the files that the sandbox shows at this path; NULL: none.  *shown:
 * the view at it, or the deepest one above. */
static const char *view_find_path(const struct sandbox *s, const char *path,
                                  const struct sandbox_view **shown)
{
	const struct sandbox_view *v = &s->root;
	struct span rest = span_of(path + 1);
	const char *below = rest.p;
	*shown = v;
	while (v && rest.n > 0) {
		v = view_child(v, span_next(&rest, '/'));
		if (v && v->option) {
			*shown = v;
			below = path + strlen(path) - rest.n;
		}
	}
	return (*shown)->look ? view_join(s->a, (*shown)->look, below) : NULL;
}

/* Another task could put a link into a shared mount in the meantime, which bubblewrap would follow:
 * before 0.12 also to other places of the machine. */
static int sandbox_refuse_shared(const struct sandbox *s, const char *path)
{
	return sandbox_refuse(s, path,
	                      "it would be in a storage, where other tasks can change it; choose "
	                      "another path");
}

/* A path of the sandbox without links, as far as the machine has it; NULL and an error.  mount: it
 * shall be a mount point. */
static const char *view_resolve(const struct sandbox *s, const char *path, bool mount)
{
	const char *done = "/";
	const char *rest = path;
	for (unsigned steps = 0; steps < STEPS_MAX; steps++) {
		char target[PATH_MAX];
		rest += strspn(rest, "/");
		struct span name = { rest, strcspn(rest, "/") };
		rest += name.n;
		if (name.n == 0)
			return done;
		if (span_is(name, "."))
			continue;
		if (span_is(name, "..")) {
			size_t n = (size_t)(strrchr(done, '/') - done);
			done = arena_dup(s->a, (struct span){ done, n ? n : 1 });
			continue;
		}
		const char *next = view_join(s->a, done, arena_dup(s->a, name));
		const struct sandbox_view *shown;
		const char *look = view_find_path(s, next, &shown);
		if (mount && shown->shared && strcmp(look, shown->look) != 0) {
			(void)sandbox_refuse_shared(s, path);
			return NULL;
		}
		ssize_t n = look ? readlink(look, target, sizeof(target)) : -1;
		if (n < 0)
			done = next;
		else
			rest = arena_printf(s->a, "%.*s%s", (int)n, target, rest);
		if (n > 0 && *target == '/')
			done = "/";
	}
	(void)sandbox_refuse(s, path,
	                     arena_printf(s->a, "a symbolic link at %s leads nowhere", done));
	return NULL;
}

/* An empty directory, or a file that cannot be opened, in place of each hidden one, where the path
 * shows what the machine has at `look`. */
static void view_hide(struct sandbox *s, const char *path, const char *look)
{
	size_t n = strcmp(look, "/") == 0 ? 0 : strlen(look);
	for (const char **hide = s->hide; *hide; hide++) {
		struct stat st;
		const struct sandbox_view *shown;
		if (!path_within(*hide, look) || strcmp(*hide, look) == 0)
			continue;
		const char *at = view_join(s->a, path, *hide + n + 1);
		if (view_find_path(s, at, &shown) == NULL || stat(*hide, &st) != 0)
			continue;
		/* In a bind mount of a user namespace, devices cannot be opened. */
		bool dir = S_ISDIR(st.st_mode);
		(void)view_put(s, at, dir ? TMPFS : READ_ONLY, dir ? NULL : "/dev/null");
	}
}

static int sandbox_root(struct sandbox *s)
{
	static const char *const OWN[] = { "/proc", "/dev", "/sys" };
	/* Root needs no capability to write its files in there, and bubblewrap looks at the
	 * directories only. */
	static const char *const OF_ROOT[] = { "/proc/sys",   "/proc/irq",  "/proc/bus",
		                               "/proc/acpi",  "/proc/scsi", "/proc/fs",
		                               "/proc/driver" };
	bool image = s->spec->rootfs != NULL;
	s->root.option = image ? WRITABLE : READ_ONLY;
	s->root.look = image ? s->spec->rootfs : "/";
	s->root.source = image ? view_join(s->a, s->spec->overlay, "merged") : NULL;
	/* An image could have links in place of what is mounted there. */
	for (size_t i = 0; image && i < ARRAY_SIZE(OWN); i++) {
		const char *path = view_resolve(s, OWN[i], true);
		if (path == NULL)
			return -1;
		if (strcmp(path, OWN[i]) != 0)
			return err_set(s->e, INVALID_PARAMETERS,
			               "the image cannot be used: its %s is a symbolic link",
			               OWN[i]);
	}
	if (image)
		(void)view_put(s, "/sys", READ_ONLY, "/sys");
	(void)view_put(s, "/proc", PROC, NULL);
	for (size_t i = 0; geteuid() == 0 && i < ARRAY_SIZE(OF_ROOT); i++) {
		if (access(OF_ROOT[i], F_OK) == 0)
			(void)view_put(s, OF_ROOT[i], READ_ONLY, OF_ROOT[i]);
	}
	(void)view_put(s, "/dev", DEV, NULL);
	(void)view_put(s, "/dev/shm", TMPFS, NULL);
	if (!image)
		view_hide(s, "/", "/");
	return 0;
}

static int sandbox_mount_put(struct sandbox *s, const struct sandbox_mount *m)
{
	if (m->path[0] != '/' || (m->source && m->source[0] != '/'))
		return err_set(s->e, INVALID_PARAMETERS,
		               "the mount of %s at %s: paths must begin with /",
		               m->source ? m->source : "a tmpfs", m->path);
	const char *path = view_resolve(s, m->path, true);
	if (path == NULL)
		return -1;
	if (strcmp(path, "/") == 0 || strcmp(path, "/dev") == 0 || path_within(path, "/proc"))
		return sandbox_refuse(s, m->path, "");
	if (m->source == NULL) {
		view_put(s, path, TMPFS, NULL)->size = m->size;
		return 0;
	}
	const char *real = path_real(m->source, s->a);
	if (real == NULL)
		return err_set(
		    s->e, INVALID_PARAMETERS,
		    "%s, which is to be shown at %s, cannot be found on this machine: %s",
		    m->source, m->path, strerrordesc_np(errno));
	if (!path_opens(real, O_PATH))
		return err_set(
		    s->e, INVALID_PARAMETERS,
		    "%s, which is to be shown at %s, is in a directory that root can enter only by "
		    "rights that it does not have in a sandbox: let others enter the directories "
		    "above it (chmod o+x), use one elsewhere, or run as its owner",
		    m->source, m->path);
	struct sandbox_view *v = view_put(s, path,
	                                  m->device     ? DEVICE
	                                  : m->writable ? WRITABLE
	                                                : READ_ONLY,
	                                  real);
	v->shared = m->shared;
	if (v->shared && v->child)
		return sandbox_refuse_shared(s, view_join(s->a, path, v->child->name));
	view_hide(s, path, real);
	return 0;
}

/* Parents first, because links in them can be in the way of others. */
static int sandbox_mounts(struct sandbox *s)
{
	size_t n = s->spec->mounts_n;
	/* The machine's is often a link to a hidden directory. */
	static const char DNS[] = "/etc/resolv.conf";
	const char *real = path_real(DNS, s->a);
	const struct sandbox_mount dns = { .source = real, .path = DNS };
	if (real && (s->spec->rootfs || strcmp(real, DNS) != 0) && sandbox_mount_put(s, &dns) != 0)
		return -1;
	const struct sandbox_mount **sorted = ARENA_NEW(s->a, const struct sandbox_mount *, n + 1);
	for (size_t i = 0; i < n; i++) {
		size_t at = i;
		for (; at > 0 && strcmp(sorted[at - 1]->path, s->spec->mounts[i].path) > 0; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = &s->spec->mounts[i];
	}
	for (size_t i = 0; i < n; i++) {
		if (sandbox_mount_put(s, sorted[i]) != 0)
			return -1;
	}
	return 0;
}

/* A directory that shall be there; its links are resolved, and nothing is hidden by it. */
static const char *sandbox_dir(struct sandbox *s, const char *dir)
{
	const struct sandbox_view *shown;
	struct stat st;
	const char *path = view_resolve(s, dir ? dir : "/", false);
	if (path == NULL)
		return NULL;
	const char *look = view_find_path(s, path, &shown);
	bool there = look && stat(look, &st) == 0;
	if (there && !S_ISDIR(st.st_mode)) {
		(void)err_set(s->e, INVALID_PARAMETERS, "the working directory %s is no directory",
		              dir);
		return NULL;
	}
	if (!there && shown->shared) {
		(void)sandbox_refuse_shared(s, path);
		return NULL;
	}
	if (!there && shown->option != PROC)
		(void)view_put(s, path, DIR_ONLY, NULL);
	return path;
}

/* ---- the arguments --------------------------------------------------------------------------- */

static void args_mount(struct sandbox *s, const struct sandbox_view *v, const char *path)
{
	static const char *const FOR_ALL[] = { "/tmp", "/var/tmp", "/dev/shm", NULL };
	uint64_t size = v->size ? v->size : s->spec->memory;
	if (v->option == TMPFS && size)
		WORDS_ADD(&s->args, "--size", arena_printf(s->a, "%llu", (unsigned long long)size));
	if (v->option == TMPFS)
		WORDS_ADD(&s->args, "--perms",
		          span_among(span_of(path), FOR_ALL) ? "1777" : "0755");
	words_add(&s->args, v->option);
	if (v->source)
		words_add(&s->args, v->source);
	words_add(&s->args, path);
	if (v->option == DEV || v->fixed)
		WORDS_ADD(&s->last, "--remount-ro", path);
}

/* A new directory in place of `look`, with its entries, but for those that show something else. */
static int args_shadow(struct sandbox *s, const struct sandbox_view *v, const char *path,
                       const char *look)
{
	struct stat st;
	size_t count = 0;
	DIR_AUTO *d = dir_list(AT_FDCWD, look);
	if (d == NULL || fstat(dirfd(d), &st) != 0)
		return err_set(
		    s->e, INVALID_PARAMETERS,
		    "a mount point in %s cannot be made: the directory cannot be read: %s", path,
		    strerrordesc_np(errno));
	if (v != &s->root) /* bubblewrap begins with an empty one */
		args_mount(s, &(struct sandbox_view){ .option = TMPFS }, path);
	WORDS_ADD(&s->last, "--remount-ro", path);
	for (const char *name; (name = dir_next(d)) != NULL;) {
		char target[PATH_MAX];
		const struct sandbox_view *own = view_child(v, span_of(name));
		const char *at = view_join(s->a, path, name);
		const char *from = view_join(s->a, look, name);
		if (++count > SHADOWED_MAX)
			return err_set(
			    s->e, INVALID_PARAMETERS,
			    "a mount point in %s cannot be made: the directory has more than %d "
			    "entries; create it on this machine, or choose another path",
			    path, SHADOWED_MAX);
		if (own && own->option)
			continue;
		/* An empty directory needs no mount, unless it is one itself (as of an
		 * automounter). */
		DIR_AUTO *below = dir_list(AT_FDCWD, from);
		struct stat inside;
		bool empty = below && fstat(dirfd(below), &inside) == 0 &&
		             inside.st_dev == st.st_dev && !dir_next(below);
		ssize_t n = readlink(from, target, sizeof(target));
		if (n > 0 && n < PATH_MAX)
			WORDS_ADD(&s->args, "--symlink",
			          arena_dup(s->a, (struct span){ target, (size_t)n }), at);
		else if (!empty) /* it may vanish */
			WORDS_ADD(&s->args, "--ro-bind-try", from, at);
		else if (!own)
			WORDS_ADD(&s->args, "--dir", at);
	}
	return 0;
}

/* Returns true if a path shall be shown where the view has no directory for it. */
static bool args_need_shadow(const struct sandbox *s, const struct sandbox_view *v,
                             const char *look)
{
	struct stat st;
	for (const struct sandbox_view *c = v->child; c; c = c->next) {
		if (lstat(view_join(s->a, look, c->name), &st) != 0)
			return true;
	}
	return false;
}

/* look: where the machine has what was seen here so far; NULL: nowhere.  fixed: bubblewrap cannot
 * make mount points there. */
static int args_view(struct sandbox *s, const struct sandbox_view *v, const char *path,
                     const char *look, bool fixed)
{
	struct stat st;
	bool there = look && lstat(look, &st) == 0;
	bool dir = there && S_ISDIR(st.st_mode);
	if (v->option) {
		bool wanted = !v->source || stat(v->source, &st) != 0 || S_ISDIR(st.st_mode);
		if (there && wanted != dir)
			return sandbox_refuse(s, path,
			                      dir ? "a directory is there" : "a file is there");
		look = v->look;
		fixed = v->option == READ_ONLY;
		there = look != NULL;
		dir = wanted;
	}
	if (v->child && there && !dir)
		return sandbox_refuse(s, view_join(s->a, path, v->child->name),
		                      arena_printf(s->a, "%s is no directory", path));
	fixed = fixed && there;
	bool shadow = fixed && v->child && (v == &s->root || args_need_shadow(s, v, look));
	if (shadow && args_shadow(s, v, path, look) != 0)
		return -1;
	if (!shadow && v->option)
		args_mount(s, v, path);
	if (s->args.n > SANDBOX_ARGS_MAX)
		return err_set(s->e, INVALID_PARAMETERS, "a sandbox of more than %d arguments",
		               SANDBOX_ARGS_MAX);
	for (const struct sandbox_view *c = v->child; c; c = c->next) {
		const char *below = there ? view_join(s->a, look, c->name) : NULL;
		if (args_view(s, c, view_join(s->a, path, c->name), below, fixed) != 0)
			return -1;
	}
	return 0;
}

const char **sandbox_argv(const struct sandbox_spec *spec, struct arena *a, struct err *e)
{
	struct sandbox s = { spec, sandbox_hide(spec->hide, spec->hide_n, a), .a = a, .e = e };
	struct words *args = &s.args;
	/* Below an overlay, the user is root of the namespace that mount-overlay makes. */
	const char *uid = arena_printf(a, "%u", spec->rootfs ? 0 : geteuid());
	const char *gid = arena_printf(a, "%u", spec->rootfs ? 0 : getegid());
	const char *bwrap = program_find("bwrap", a);
	if (bwrap == NULL) {
		(void)err_set(e, UNAVAILABLE, "bwrap is not in PATH: %s",
		              program_install("bubblewrap", a));
		return NULL;
	}
	s.args.a = s.last.a = a;
	if (sandbox_root(&s) != 0 || sandbox_mounts(&s) != 0 ||
	    !sandbox_dir(&s, sandbox_home(spec->rootfs != NULL, a)))
		return NULL;
	const char *cwd = sandbox_dir(&s, spec->cwd);
	if (cwd == NULL)
		return NULL;
	if (s.unreadable) {
		(void)err_set(e, INVALID_PARAMETERS,
		              "%s cannot be read by this user (uid %u), so that nothing in it can "
		              "be a mount point: its owner can change that (chmod o+r %s)",
		              s.unreadable, geteuid(), s.unreadable);
		return NULL;
	}
	if (spec->rootfs)
		WORDS_ADD(args, spec->runtime, "mount-overlay", spec->rootfs, spec->overlay, "--");
	/* As root, bubblewrap keeps capabilities unless it is told not to. */
	WORDS_ADD(args, bwrap, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
	          "--die-with-parent", "--cap-drop", "ALL", "--uid", uid, "--gid", gid,
	          "--as-pid-1");
	if (args_view(&s, &s.root, "/", NULL, false) != 0)
		return NULL;
	words_add_all(args, s.last.v);
	WORDS_ADD(args, "--chdir", cwd, "--");
	words_add_all(args, spec->command);
	return args->v;
}
