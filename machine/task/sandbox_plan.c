#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fd.h"
#include "machine/task/sandbox_internal.h"

enum { PLAN_STEPS_MAX = 500 /* parts of a path, with its links */, PLAN_SHADOWS_MAX = 64 };

bool plan_within(const char *path, const char *dir)
{
	size_t n = strlen(dir);
	if (n == 1) /* "/" */
		return true;
	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

const char *plan_real(const char *path, struct arena *a)
{
	char *real = realpath(path, NULL);
	if (real == NULL)
		return NULL;
	const char *copy = arena_dup(a, span_of(real));
	free(real);
	return copy;
}

/* dir/rest, where rest is what follows the prefix `dir` of a path: "" or "/...". */
static const char *plan_join(struct arena *a, const char *dir, const char *rest)
{
	if (*rest == '\0')
		return dir;
	return arena_printf(a, "%s%s", strcmp(dir, "/") == 0 ? "" : dir, rest);
}

/* What follows a directory in a path below it. */
static const char *plan_rest(const char *path, const char *dir)
{
	return strcmp(dir, "/") == 0 ? path : path + strlen(dir);
}

static void plan_add(struct plan *p, struct plan_op op)
{
	if (p->n == PLAN_MAX) {
		p->full = true;
		return;
	}
	op.order = (unsigned)p->n;
	p->op[p->n++] = op;
}

/* The operation that decides what is at the path: the deepest at it or above. */
static const struct plan_op *plan_cover(const struct plan *p, const char *path, bool above)
{
	const struct plan_op *best = NULL;
	for (size_t i = 0; i < p->n; i++) {
		const struct plan_op *op = &p->op[i];
		if (!plan_within(path, op->path) || (above && strcmp(path, op->path) == 0))
			continue;
		if (best == NULL || strlen(op->path) >= strlen(best->path)) /* the later one */
			best = op;
	}
	return best;
}

/* Where the machine has what the sandbox shows at this path; NULL: nowhere. */
static const char *plan_look(const struct plan *p, const char *path)
{
	const struct plan_op *op = plan_cover(p, path, false);
	if (op == NULL || op->look == NULL)
		return NULL;
	const char *rest = plan_rest(path, op->path);
	return plan_join(p->a, op->look, strcmp(rest, "/") == 0 ? "" : rest);
}

static const char *plan_parent(struct arena *a, const char *path)
{
	const char *slash = strrchr(path, '/');
	if (slash == NULL || slash == path)
		return "/";
	return arena_dup(a, (struct span){ path, (size_t)(slash - path) });
}

/* Goes from *done to its entry `name`; returns the rest of the path, behind the target of the entry
 * if that is a link. */
static const char *plan_step(const struct plan *p, const char **done, struct span name)
{
	const char *after = name.p + name.n;
	if (span_is(name, "."))
		return after;
	if (span_is(name, "..")) {
		*done = plan_parent(p->a, *done);
		return after;
	}
	const char *next = plan_join(p->a, *done, arena_printf(p->a, "/%.*s", (int)name.n, name.p));
	const char *look = plan_look(p, next);
	char target[PATH_MAX];
	ssize_t n = look ? readlink(look, target, sizeof(target)) : -1;
	if (n < 0) {
		*done = next;
		return after;
	}
	if (*target == '/')
		*done = "/";
	return arena_printf(p->a, "%.*s/%s", (int)n, target, after);
}

const char *plan_resolve(const struct plan *p, const char *path, struct err *e)
{
	const char *done = "/";
	const char *rest = path;
	for (unsigned steps = 0; steps < PLAN_STEPS_MAX; steps++) {
		rest += strspn(rest, "/");
		size_t n = strcspn(rest, "/");
		if (n == 0)
			return done;
		rest = plan_step(p, &done, (struct span){ rest, n });
	}
	(void)err_set(e, INVALID_PARAMETERS,
	              "%s cannot be a mount point: a symbolic link at %s leads nowhere", path,
	              done);
	return NULL;
}

/* ---- the operations ---- */

static void plan_bind(struct plan *p, enum plan_kind kind, const char *source, const char *path)
{
	plan_add(p,
	         (struct plan_op){ .kind = kind, .source = source, .path = path, .look = source });
}

/* An image could have links in place of the directories that bubblewrap mounts by itself. */
static int plan_image_ok(const struct plan *p, struct err *e)
{
	static const char *const DIRS[] = { "/proc", "/dev", "/sys" };
	for (size_t i = 0; i < ARRAY_SIZE(DIRS); i++) {
		const char *path = plan_resolve(p, DIRS[i], e);
		if (path == NULL)
			return -1;
		if (strcmp(path, DIRS[i]) != 0)
			return err_set(e, INVALID_PARAMETERS,
			               "the image cannot be used: its %s is a symbolic link",
			               DIRS[i]);
	}
	return 0;
}

/* Root needs no capability to write its files in there, and bubblewrap looks at the directories
 * only. */
static void plan_root_proc(struct plan *p)
{
	static const char *const DIRS[] = { "/proc/sys",  "/proc/irq", "/proc/bus",   "/proc/acpi",
		                            "/proc/scsi", "/proc/fs",  "/proc/driver" };
	for (size_t i = 0; geteuid() == 0 && i < ARRAY_SIZE(DIRS); i++) {
		if (access(DIRS[i], F_OK) == 0)
			plan_bind(p, PLAN_READ_ONLY, DIRS[i], DIRS[i]);
	}
}

/* An empty directory, or a file that cannot be opened, in place of each hidden one, wherever the
 * operation shows it. */
static void plan_hide(struct plan *p, const struct plan_op *shown, const char *const *hide)
{
	for (; *hide; hide++) {
		struct stat st;
		if (!plan_within(*hide, shown->look) || strcmp(*hide, shown->look) == 0)
			continue;
		const char *rest = plan_rest(*hide, shown->look);
		const char *path = plan_join(p->a, shown->path, rest);
		if (plan_look(p, path) == NULL || stat(*hide, &st) != 0)
			continue;
		if (S_ISDIR(st.st_mode))
			plan_add(p, (struct plan_op){ .kind = PLAN_TMPFS, .path = path });
		else /* in a bind mount of a user namespace, devices cannot be opened */
			plan_bind(p, PLAN_READ_ONLY, "/dev/null", path);
	}
}

/* An empty directory needs no mount, unless it is one itself (as of an automounter). */
static bool plan_is_empty(const char *look, dev_t parent)
{
	struct stat st;
	DIR_AUTO *d = dir_list(AT_FDCWD, look);
	return d && fstat(dirfd(d), &st) == 0 && st.st_dev == parent && !dir_next(d);
}

/* Shows at `path` a new directory with the entries of `look`, except for those that are in the plan
 * already. */
static int plan_shadow(struct plan *p, const char *path, const char *look, struct err *e)
{
	struct stat st;
	DIR_AUTO *d = dir_list(AT_FDCWD, look);
	if (d == NULL || fstat(dirfd(d), &st) != 0)
		return err_set(
		    e, INVALID_PARAMETERS,
		    "a mount point in %s cannot be made: the directory cannot be read: %s", path,
		    strerrordesc_np(errno));
	plan_add(p, (struct plan_op){ .kind = PLAN_SHADOW, .path = path, .look = look });
	size_t count = 0;
	for (const char *name; (name = dir_next(d)) != NULL && count <= PLAN_SHADOWED_MAX;
	     count++) {
		const char *slash = arena_printf(p->a, "/%s", name);
		struct plan_op op = { .kind = PLAN_READ_ONLY, .entry = true };
		op.path = plan_join(p->a, path, slash);
		op.source = op.look = plan_join(p->a, look, slash);
		const struct plan_op *at = plan_cover(p, op.path, false);
		if (strcmp(at->path, op.path) == 0)
			continue;
		char target[PATH_MAX];
		ssize_t n = readlink(op.look, target, sizeof(target));
		if (n > 0 && n < PATH_MAX) {
			op.kind = PLAN_LINK;
			op.source = arena_dup(p->a, (struct span){ target, (size_t)n });
		} else if (plan_is_empty(op.look, st.st_dev)) {
			op = (struct plan_op){ .kind = PLAN_DIR, .path = op.path, .entry = true };
		}
		plan_add(p, op);
	}
	if (count > PLAN_SHADOWED_MAX)
		return err_set(e, INVALID_PARAMETERS,
		               "a mount point in %s cannot be made: the directory has more than %d "
		               "entries; create it on this machine, or choose another path",
		               path, PLAN_SHADOWED_MAX);
	return 0;
}

/* Of the machine's root, everything but what is hidden is shown: no entry that comes later. */
static int plan_root(struct plan *p, const struct sandbox_spec *spec, const char *const *hide,
                     struct err *e)
{
	if (spec->image) {
		plan_add(p, (struct plan_op){ .kind = PLAN_WRITABLE,
		                              .source = spec->image->merged,
		                              .path = "/",
		                              .look = spec->image->rootfs });
		if (plan_image_ok(p, e) != 0)
			return -1;
		plan_bind(p, PLAN_READ_ONLY, "/sys", "/sys");
	}
	plan_add(p, (struct plan_op){ .kind = PLAN_PROC, .path = "/proc" });
	plan_root_proc(p);
	plan_add(p, (struct plan_op){ .kind = PLAN_DEV, .path = "/dev" });
	plan_add(p, (struct plan_op){ .kind = PLAN_TMPFS, .path = "/dev/shm" });
	if (spec->image)
		return 0;
	const struct plan_op machine = { .path = "/", .look = "/" };
	plan_add(p, machine);
	plan_hide(p, &machine, hide);
	return plan_shadow(p, "/", "/", e);
}

/* Can bubblewrap find it, which has no capabilities?  They are those of this thread. */
static bool plan_can_enter(const char *path)
{
	struct __user_cap_header_struct head = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct all[2];
	if (geteuid() != 0 || syscall(SYS_capget, &head, all) != 0)
		return true;
	struct __user_cap_data_struct none[2] = { all[0], all[1] };
	none[0].effective = none[1].effective = 0;
	if (syscall(SYS_capset, &head, none) != 0)
		return true;
	FD_AUTO fd = open(path, O_PATH | O_CLOEXEC);
	bool refused = fd < 0 && errno == EACCES;
	(void)syscall(SYS_capset, &head, all); /* as before */
	return !refused;
}

static int plan_mount(struct plan *p, const struct sandbox_mount *m, struct err *e)
{
	if (m->path[0] != '/' || (m->source && m->source[0] != '/'))
		return err_set(e, INVALID_PARAMETERS,
		               "the mount of %s at %s: paths must begin with /",
		               m->source ? m->source : "a tmpfs", m->path);
	const char *path = plan_resolve(p, m->path, e);
	if (path == NULL)
		return -1;
	if (strcmp(path, "/") == 0 || strcmp(path, "/dev") == 0 || plan_within(path, "/proc"))
		return err_set(e, INVALID_PARAMETERS, "%s cannot be a mount point", m->path);
	if (m->source == NULL) {
		plan_add(p, (struct plan_op){ .kind = PLAN_TMPFS, .path = path, .size = m->size });
		return 0;
	}
	const char *real = plan_real(m->source, p->a);
	if (real == NULL)
		return err_set(
		    e, INVALID_PARAMETERS,
		    "%s, which is to be shown at %s, cannot be found on this machine: %s",
		    m->source, m->path, strerrordesc_np(errno));
	if (!plan_can_enter(real))
		return err_set(
		    e, INVALID_PARAMETERS,
		    "%s, which is to be shown at %s, is in a directory that root can enter only by "
		    "rights that it does not have in a sandbox: let others enter the directories "
		    "above it (chmod o+x), use one elsewhere, or run as its owner",
		    m->source, m->path);
	plan_bind(p, m->writable ? PLAN_WRITABLE : PLAN_READ_ONLY, real, path);
	return 0;
}

static int plan_by_path(const void *a, const void *b)
{
	const struct plan_op *x = a;
	const struct plan_op *y = b;
	int c = strcmp(x->path, y->path);
	return c ? c : (x->order > y->order) - (x->order < y->order);
}

/* Parents first, and one operation for each path. */
static void plan_sort(struct plan *p)
{
	qsort(p->op, p->n, sizeof(*p->op), plan_by_path);
	size_t kept = 0;
	for (size_t i = 0; i < p->n; i++) {
		if (i + 1 < p->n && strcmp(p->op[i].path, p->op[i + 1].path) == 0)
			continue;
		p->op[kept] = p->op[i];
		p->op[kept].order = (unsigned)kept;
		kept++;
	}
	p->n = kept;
}

static int mount_by_path(const void *a, const void *b)
{
	const struct sandbox_mount *const *x = a;
	const struct sandbox_mount *const *y = b;
	int c = strcmp((*x)->path, (*y)->path);
	return c ? c : (*x > *y) - (*x < *y);
}

static int plan_mounts(struct plan *p, const struct sandbox_spec *spec, const char *const *hide,
                       struct err *e)
{
	/* Parents first, because links in them can be in the way of others. */
	const struct sandbox_mount **sorted =
	    ARENA_NEW(p->a, const struct sandbox_mount *, spec->mounts_n + 1);
	for (size_t i = 0; i < spec->mounts_n; i++)
		sorted[i] = &spec->mounts[i];
	qsort(sorted, spec->mounts_n, sizeof(const struct sandbox_mount *), mount_by_path);
	for (size_t i = 0; i < spec->mounts_n; i++) {
		size_t before = p->n;
		if (plan_mount(p, sorted[i], e) != 0)
			return -1;
		if (p->n > before && p->op[before].look)
			plan_hide(p, &p->op[before], hide);
	}
	return 0;
}

/* The machine's resolv.conf is often a link to a hidden directory. */
static int plan_dns(struct plan *p, const struct sandbox_spec *spec, struct err *e)
{
	const char *real = plan_real("/etc/resolv.conf", p->a);
	const char *path = plan_resolve(p, "/etc/resolv.conf", e);
	if (path == NULL)
		return -1;
	if (real && (spec->image || strcmp(real, path) != 0 || plan_look(p, path) == NULL))
		plan_bind(p, PLAN_READ_ONLY, real, path);
	return 0;
}

/* Directories that shall be there; their links are resolved, and nothing is hidden by them. */
static int plan_dirs(struct plan *p, const struct sandbox_spec *spec, struct err *e)
{
	const char *dirs[] = { spec->home, spec->cwd };
	for (size_t i = 0; i < 2; i++) {
		const char *path = dirs[i] ? plan_resolve(p, dirs[i], e) : "/";
		if (path == NULL)
			return -1;
		const char *look = plan_look(p, path);
		struct stat st;
		bool there = look && stat(look, &st) == 0;
		if (there && !S_ISDIR(st.st_mode))
			return err_set(e, INVALID_PARAMETERS,
			               "the working directory %s is no directory", dirs[i]);
		const struct plan_op *op = plan_cover(p, path, false);
		if (!there && strcmp(op->path, path) != 0 && !plan_within(path, "/proc"))
			plan_add(p, (struct plan_op){ .kind = PLAN_DIR, .path = path });
	}
	return 0;
}

/* ---- mount points that do not exist ---- */

static int plan_no_point(const struct plan_op *op, const char *found, struct err *e)
{
	return err_set(e, INVALID_PARAMETERS, "%s cannot be a mount point: %s", op->path, found);
}

/* Makes sure that the mount point of an operation will be there.  1: the plan has grown. */
static int plan_point(struct plan *p, const struct plan_op *op, struct err *e)
{
	const struct plan_op *above = plan_cover(p, op->path, true);
	if (above == NULL || above->look == NULL || op->entry)
		return 0; /* bubblewrap makes it */
	bool dir = true;
	struct stat st;
	if (op->source && stat(op->source, &st) == 0)
		dir = S_ISDIR(st.st_mode);
	const char *look = plan_join(p->a, above->look, plan_rest(op->path, above->path));
	if (lstat(look, &st) == 0) {
		if (dir != S_ISDIR(st.st_mode))
			return plan_no_point(op, dir ? "a file is there" : "a directory is there",
			                     e);
		return 0;
	}
	if (above->kind != PLAN_READ_ONLY)
		return 0;
	const char *path = op->path;
	do {
		path = plan_parent(p->a, path);
		look = plan_parent(p->a, look);
	} while (strlen(path) > strlen(above->path) && lstat(look, &st) != 0);
	if (lstat(look, &st) != 0 || !S_ISDIR(st.st_mode))
		return plan_no_point(op, arena_printf(p->a, "%s is no directory", path), e);
	return plan_shadow(p, path, look, e) == 0 ? 1 : -1;
}

static int plan_points(struct plan *p, struct err *e)
{
	unsigned shadows = 0;
	for (size_t i = 0; i < p->n;) {
		int rc = plan_point(p, &p->op[i], e);
		if (rc < 0)
			return -1;
		if (rc > 0 && ++shadows > PLAN_SHADOWS_MAX)
			return err_set(e, INVALID_PARAMETERS,
			               "mount points in more than %d read-only directories",
			               PLAN_SHADOWS_MAX);
		if (rc > 0)
			plan_sort(p);
		i = rc > 0 ? 0 : i + 1;
	}
	return 0;
}

int plan_make(struct plan *p, const struct sandbox_spec *spec, struct arena *a, struct err *e)
{
	*p = (struct plan){ .a = a, .op = ARENA_NEW(a, struct plan_op, PLAN_MAX) };
	const char **hide = sandbox_hide(spec->hide, spec->hide_n, a);
	if (plan_root(p, spec, hide, e) != 0 || plan_dns(p, spec, e) != 0 ||
	    plan_mounts(p, spec, hide, e) != 0 || plan_dirs(p, spec, e) != 0)
		return -1;
	for (size_t i = 0; i < spec->devices_n; i++)
		plan_bind(p, PLAN_DEVICE, spec->devices[i].source, spec->devices[i].path);
	plan_sort(p);
	if (plan_points(p, e) != 0)
		return -1;
	if (p->full)
		return err_set(e, INVALID_PARAMETERS, "more than %d mounts in a sandbox", PLAN_MAX);
	return 0;
}
