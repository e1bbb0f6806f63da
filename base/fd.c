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

ssize_t fd_read_at(int dir, const char *path, char *out, size_t max)
{
	struct stat st;
	size_t n = 0;
	FD_AUTO fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	out[0] = '\0';
	if (fd < 0 || fstat(fd, &st) != 0)
		return -1;
	if (!S_ISREG(st.st_mode)) {
		errno = EINVAL;
		return -1;
	}
	ssize_t more = 1;
	while (n < max - 1 && (more = read(fd, out + n, max - 1 - n)) > 0)
		n += (size_t)more;
	if (more < 0)
		n = 0;
	out[n] = '\0';
	return more < 0 ? -1 : (ssize_t)n;
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
