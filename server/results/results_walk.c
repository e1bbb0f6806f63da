/* Reads a tree that its owner changes meanwhile, and that may be made to lead a reader astray. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/posix/fd.h"
#include "server/results/results_internal.h"

int results_open(int dir, const char *path, int flags)
{
	const struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.resolve =
		    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
	};
	return (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
}

int results_open_file(int dir, const char *path, struct stat *st)
{
	/* To open a fifo would wake its writer. */
	FD_AUTO seen = results_open(dir, path, O_PATH);
	bool regular = seen >= 0 && fstat(seen, st) == 0 && S_ISREG(st->st_mode);
	if (seen >= 0 && !regular)
		errno = EINVAL;
	int fd = regular ? results_open(dir, path, O_RDONLY | O_NONBLOCK | O_NOCTTY) : -1;
	if (fd < 0 || (fstat(fd, st) == 0 && S_ISREG(st->st_mode)))
		return fd;
	(void)close(fd); /* it was only opened for reading */
	errno = EINVAL;
	return -1;
}

static void walk_leave_out(struct results_walk *w)
{
	w->left_out += errno != ENOENT; /* it was removed just now */
}

static bool walk_file(struct results_walk *w, int at, const char *name)
{
	struct stat st;
	struct results_found x = { .path = w->path, .st = &st, .fd = -1 };
	if (w->wants && !w->wants(w->arg, w->path, false))
		return true;
	FD_AUTO fd = w->opens ? results_open_file(at, name, &st) : -1;
	x.fd = fd;
	if (w->opens ? fd < 0 : fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		walk_leave_out(w);
		return true;
	}
	return w->found(w->arg, &x);
}

static bool walk_directory(struct results_walk *w, int fd, size_t n);

/* An entry; w->path has n bytes before its name.  false: the walk ends. */
static bool walk_entry(struct results_walk *w, int at, const char *name, size_t n)
{
	struct stat st;
	size_t len = strlen(name);
	if (atomic_load(w->stop))
		return false;
	if (w->entries++ == TAR_ENTRIES) {
		w->full = true;
		return false;
	}
	bool fits = n + len <= TAR_PATH && strcmp(name, TAR_PART) != 0;
	if (fits)
		memcpy(w->path + n, name, len + 1);
	errno = 0;
	if (!fits || !tar_path_ok(w->path) || fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		walk_leave_out(w);
		return true;
	}
	if (S_ISREG(st.st_mode))
		return walk_file(w, at, name);
	if (!S_ISDIR(st.st_mode)) {
		w->left_out++;
		return true;
	}
	if (w->wants && !w->wants(w->arg, w->path, true))
		return true;
	int fd = results_open(at, name, O_RDONLY | O_DIRECTORY);
	if (fd >= 0 && fstat(fd, &st) == 0 &&
	    w->found(w->arg, &(struct results_found){ w->path, &st, -1 }))
		return walk_directory(w, fd, n + len);
	if (fd < 0) {
		walk_leave_out(w);
		return true;
	}
	(void)close(fd); /* a directory holds no data */
	return false;
}

/* All in the directory w->path, of n bytes.  Takes fd over. */
static bool walk_directory(struct results_walk *w, int fd, size_t n)
{
	DIR_AUTO *all = fdopendir(fd);
	bool more = true;
	if (!all) {
		(void)close(fd); /* likewise */
		w->left_out++;
		return true;
	}
	if (n > 0 && n < TAR_PATH)
		w->path[n++] = '/';
	for (const char *name; more && (name = dir_next(all)) != NULL;)
		more = walk_entry(w, dirfd(all), name, n);
	return more;
}

void results_walk_all(struct results_walk *w, int dir, const char *path)
{
	struct stat st;
	const char *name = path;
	if (!path[0]) {
		int all = results_open(dir, ".", O_RDONLY | O_DIRECTORY);
		(void)(all < 0 || walk_directory(w, all, 0)); /* of less is not told */
		return;
	}
	FD_AUTO above = results_open(dir, ".", O_PATH | O_DIRECTORY);
	for (const char *slash; (slash = strchr(name, '/')) != NULL; name = slash + 1) {
		FD_AUTO before = above;
		size_t n = (size_t)(slash - path);
		memcpy(w->path, path, n);
		w->path[n] = '\0';
		above = results_open(before, w->path + (name - path), O_PATH | O_DIRECTORY);
		if (above < 0 || fstat(above, &st) < 0)
			return;
		if (w->opens && !w->found(w->arg, &(struct results_found){ w->path, &st, -1 }))
			return;
		w->path[n] = '/';
	}
	(void)(above < 0 || walk_entry(w, above, name, (size_t)(name - path))); /* likewise */
}
