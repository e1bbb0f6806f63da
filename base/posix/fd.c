/* Repeats reads and writes until they are complete, and reads only files that are regular. */
#include "base/posix/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

const int ERRORS_OF_LACK[] = { EAGAIN, ENOMEM, EMFILE, ENFILE, ENOSPC, EDQUOT, 0 };

void fd_cleanup(const int *fd)
{
	int saved = errno;
	if (*fd >= 0)
		(void)close(*fd);
	errno = saved;
}

int fd_write_all(int fd, struct span text)
{
	while (text.n > 0) {
		ssize_t n = write(fd, text.p, text.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		text = span_from(text, (size_t)n);
	}
	return 0;
}

int fd_open_above(int dir, const char *path, const char **name)
{
	char part[PATH_MAX]; /* a longer one is cut, and too long for the kernel */
	int at = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (const char *slash; at >= 0 && (slash = strchr(path, '/')); path = slash + 1) {
		FD_AUTO above = at;
		(void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
		at = openat(above, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	*name = path;
	return at;
}

int path_failed(const char *path, const char *what, struct err *e)
{
	char shown[4 * QUOTE_MAX];
	int saved = errno;
	(void)quote(shown, span_of(path));
	errno = saved;
	return err_set(e, UNKNOWN_ERROR, "\"%s\" %s: %m", shown, what);
}

static int fd_open_regular(int dir, const char *path)
{
	struct stat st;
	bool below = dir != AT_FDCWD && path[0] != '/' && strchr(path, '/');
	FD_AUTO above = below ? fd_open_above(dir, path, &path) : -1;
	if (below && above < 0)
		return -1;
	int fd = openat(below ? above : dir, path,
	                O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	bool known = fd >= 0 && fstat(fd, &st) == 0;
	if (known && S_ISREG(st.st_mode))
		return fd;
	fd_cleanup(&fd);
	if (known)
		errno = EINVAL;
	return -1;
}

int fd_read_all(int fd, struct str *out)
{
	char chunk[16384] NOT_ZEROED;
	ssize_t n;
	do {
		n = read(fd, chunk, sizeof(chunk));
		str_put(out, chunk, n > 0 ? (size_t)n : 0);
	} while ((n > 0 && !out->full) || (n < 0 && errno == EINTR));
	if (out->full)
		errno = EFBIG;
	explicit_bzero(chunk, sizeof(chunk));
	return out->full || n < 0 ? -1 : 0;
}

int fd_read_named(int fd, const char *path, struct str *out, struct err *e)
{
	if (fd_read_all(fd, out) == 0)
		return 0;
	return out->full ? err_set(e, UNKNOWN_ERROR, "%s: more than %zu bytes", path, out->max)
	                 : err_set(e, UNKNOWN_ERROR, "%s: %m", path);
}

ssize_t fd_read_at(int dir, const char *path, char *out, size_t max)
{
	size_t n = 0;
	ssize_t more = 1;
	FD_AUTO fd = fd_open_regular(dir, path);
	while (fd >= 0 && n < max - 1 && (more > 0 || (more < 0 && errno == EINTR))) {
		more = read(fd, out + n, max - 1 - n);
		n += more > 0 ? (size_t)more : 0;
	}
	bool good = fd >= 0 && more >= 0;
	out[good ? n : 0] = '\0';
	return good ? (ssize_t)n : -1;
}

int fd_read_str(int dir, const char *path, struct str *out)
{
	FD_AUTO fd = fd_open_regular(dir, path);
	return fd < 0 ? -1 : fd_read_all(fd, out);
}

int file_read_regular(const char *path, struct str *out, struct stat *st, struct err *e)
{
	struct stat after;
	/* A FIFO would make open() wait. */
	FD_AUTO fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, st) < 0)
		return err_set(e, UNKNOWN_ERROR, "%s: %m", path);
	if (!S_ISREG(st->st_mode))
		return err_set(e, UNKNOWN_ERROR, "%s: not a regular file", path);
	/* One allocation, so that growing leaves no copies. */
	if ((uint64_t)st->st_size <= out->max)
		(void)str_reserve(out, (size_t)st->st_size);
	if (fd_read_named(fd, path, out, e) < 0)
		return -1;
	if (fstat(fd, &after) < 0)
		return err_set(e, UNKNOWN_ERROR, "%s: %m", path);
	if (st->st_size != after.st_size || st->st_mtim.tv_sec != after.st_mtim.tv_sec ||
	    st->st_mtim.tv_nsec != after.st_mtim.tv_nsec || (uint64_t)after.st_size != out->n)
		return err_set(e, UNKNOWN_ERROR, "%s: it changed while it was read", path);
	return 0;
}

int dir_make_all(char *path, mode_t mode)
{
	for (char *p = path + 1;; p++) {
		char end = *p;
		if (end != '/' && end != '\0')
			continue;
		*p = '\0';
		struct stat there; /* it may exist on a read-only file system */
		bool made = mkdir(path, mode) == 0 || errno == EEXIST;
		int error = errno;
		made = made || (stat(path, &there) == 0 && S_ISDIR(there.st_mode));
		errno = error;
		if (!made || end == '\0')
			return made ? 0 : -1;
		*p = end;
	}
}

DIR *dir_list(int at, const char *path)
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	if (d == NULL)
		fd_cleanup(&fd);
	return d;
}

const char *dir_next(DIR *d)
{
	const struct dirent *entry;
	do {
		errno = 0;
		entry = d ? readdir(d) : NULL; /* NOLINT(concurrency-mt-unsafe): one thread */
	} while (entry && (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
	return entry ? entry->d_name : NULL;
}

void dir_cleanup(DIR *const *d)
{
	int saved = errno;
	if (*d)
		(void)closedir(*d);
	errno = saved;
}
