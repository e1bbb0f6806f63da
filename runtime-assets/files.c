#include "runtime-assets/files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/enc.h"

void fd_cleanup(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

int fd_write_all(int fd, struct span text)
{
	while (text.n > 0) {
		ssize_t n = write(fd, text.p, text.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		text.p += n;
		text.n -= (size_t)n;
	}
	return 0;
}

static int failed(struct err *e, const char *what, const char *path)
{
	return err_set(e, FAILED, "%s %s: %s", what, path, strerror(errno));
}

/* A name beside `path` that nobody else has. */
static int temporary_name(char out[static PATH_MAX], const char *path)
{
	char random[17];
	random_hex(random, 8);
	int n = snprintf(out, PATH_MAX, "%s.%s.tmp", path, random);
	if (n < 0 || n >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return -1;
	}
	return 0;
}

/* Where a file is made before it gets its name. */
struct fresh {
	char path[PATH_MAX];
	int fd;
};

static int fresh_open(struct fresh *f, const char *path)
{
	f->fd = -1;
	if (temporary_name(f->path, path))
		return -1;
	f->fd = open(f->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	return f->fd < 0 ? -1 : 0;
}

/* Give it its mode and its name, or remove it if `ok` is false; errno is that of the failure. */
static int fresh_finish(struct fresh *f, const char *path, mode_t mode, bool ok)
{
	ok = ok && fchmod(f->fd, mode) == 0;
	int error = errno;
	if (close(f->fd) != 0 && ok) {
		ok = false;
		error = errno;
	}
	if (ok && rename(f->path, path) == 0)
		return 0;
	if (ok)
		error = errno;
	(void)unlink(f->path); /* what cannot be removed is beside what is told below */
	errno = error;
	return -1;
}

int file_write(const char *path, struct span text, mode_t mode, struct err *e)
{
	struct fresh f;
	if (fresh_open(&f, path))
		return failed(e, "cannot write", path);
	bool ok = fd_write_all(f.fd, text) == 0;
	return fresh_finish(&f, path, mode, ok) ? failed(e, "cannot write", path) : 0;
}

/* All that is left of `in`; false and errno. */
static bool copy_all(int in, int out)
{
	char buffer[16384];
	for (;;) {
		ssize_t n = read(in, buffer, sizeof(buffer));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0;
		if (fd_write_all(out, (struct span){ buffer, (size_t)n }))
			return false;
	}
}

int file_copy(const char *from, const char *to, mode_t mode, struct err *e)
{
	FD_AUTO in = open(from, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (in < 0)
		return failed(e, "cannot read", from);
	struct fresh f;
	if (fresh_open(&f, to))
		return failed(e, "cannot write", to);
	bool ok = copy_all(in, f.fd);
	return fresh_finish(&f, to, mode, ok) ? failed(e, "cannot write", to) : 0;
}

/* Read to the end; what has more than `max` bytes is an error (EFBIG). */
static int read_all(int fd, size_t hint, size_t max, struct str *out)
{
	str_reserve(out, hint < max ? hint : max);
	for (;;) {
		char buffer[8192];
		ssize_t n = read(fd, buffer, sizeof(buffer));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n == 0 ? 0 : -1;
		str_put(out, buffer, (size_t)n);
		if (out->full) {
			errno = EFBIG;
			return -1;
		}
	}
}

/* The parameters are those of the door.  NOLINTNEXTLINE(readability-function-size) */
int file_read(const char *path, enum file_kind kind, size_t max, struct arena *a, struct span *text,
              struct err *e)
{
	int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	FD_AUTO fd = open(path, flags | (kind == FILE_THEIRS ? O_NOFOLLOW : 0));
	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		*text = SPAN("");
		return 1;
	}
	if (fd < 0)
		return failed(e, "cannot read", path);
	struct stat st;
	if (fstat(fd, &st) != 0)
		return failed(e, "cannot read", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, FAILED, "cannot read %s: it is no regular file", path);
	/* Secrets come this way, too. */
	STR_AUTO all = STR_SECRET(max);
	if (read_all(fd, (size_t)st.st_size, max, &all)) {
		if (errno == EFBIG)
			return err_set(e, FAILED, "cannot read %s: it has more than %zu bytes",
			               path, max);
		return failed(e, "cannot read", path);
	}
	*text = arena_span(a, str_view(&all));
	return 0;
}

/* One directory; 0 if it is there afterwards. */
static int make_one(const char *path)
{
	if (mkdir(path, 0755) == 0 || errno == EEXIST)
		return 0;
	struct stat st; /* on a read-only file system it may be there all the same */
	int error = errno;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	errno = error;
	return -1;
}

int dir_make(const char *path, mode_t mode, struct err *e)
{
	char part[PATH_MAX];
	size_t n = strlen(path);
	if (n >= sizeof(part)) {
		errno = ENAMETOOLONG;
		return failed(e, "cannot make directory", path);
	}
	memcpy(part, path, n + 1);
	for (size_t i = 1; i <= n; i++) {
		if (part[i] != '/' && part[i] != '\0')
			continue;
		part[i] = '\0';
		if (make_one(part))
			return failed(e, "cannot make directory", part);
		if (i < n)
			part[i] = '/';
	}
	FD_AUTO fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return failed(e, "cannot make directory", path);
	struct stat st;
	if (fstat(fd, &st) == 0 && (st.st_mode & 07777) == mode)
		return 0;
	return fchmod(fd, mode) == 0 ? 0 : failed(e, "cannot set the mode of", path);
}

void no_core(void)
{
	/* Less than a page is no core file; and a program that core_pattern names is not started
	 * for 1, though it is for 0. */
	static const struct rlimit NONE = { 1, 1 };
	(void)setrlimit(RLIMIT_CORE, &NONE);
}
