#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

static int fd_open_regular(int dir, const char *path)
{
	struct stat st;
	int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	bool known = fd >= 0 && fstat(fd, &st) == 0;
	if (known && S_ISREG(st.st_mode))
		return fd;
	fd_cleanup(&fd);
	if (known)
		errno = EINVAL;
	return -1;
}

/* 0 at the end, or when *n is max. */
static int fd_fill(int fd, char *out, size_t max, size_t *n)
{
	ssize_t more = 1;
	while (*n < max && (more > 0 || (more < 0 && errno == EINTR))) {
		more = read(fd, out + *n, max - *n);
		*n += more > 0 ? (size_t)more : 0;
	}
	return more < 0 ? -1 : 0;
}

ssize_t fd_read_at(int dir, const char *path, char *out, size_t max)
{
	size_t n = 0;
	FD_AUTO fd = fd_open_regular(dir, path);
	int rc = fd < 0 ? -1 : fd_fill(fd, out, max - 1, &n);
	out[rc ? 0 : n] = '\0';
	return rc ? -1 : (ssize_t)n;
}

int fd_read_str(int dir, const char *path, struct str *out)
{
	char chunk[16384];
	FD_AUTO fd = fd_open_regular(dir, path);
	for (size_t n = sizeof(chunk); fd >= 0 && n == sizeof(chunk);) {
		n = 0;
		if (fd_fill(fd, chunk, sizeof(chunk), &n))
			return -1;
		str_put(out, chunk, n);
		if (out->full) {
			errno = EFBIG;
			return -1;
		}
	}
	return fd < 0 ? -1 : 0;
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
