#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/code/code.h"
#include "base/posix/fd.h"

/* A file system that is full, a limit, a file that is there. */
static int unpack_failed(const struct code_unpack *u, struct err *e)
{
	char shown[4 * QUOTE_MAX];
	int saved = errno;
	(void)quote(shown, span_of(u->path));
	errno = saved;
	return err_set(e, UNKNOWN_ERROR, "\"%s\" cannot be written: %m", shown);
}

int code_unpack_end(struct code_unpack *u, struct err *e)
{
	int fd = u->file - 1;
	u->file = 0;
	return fd < 0 || close(fd) == 0 ? 0 : unpack_failed(u, e);
}

/* Opens the directory of the entry u->path, of which *name is the rest. */
static int unpack_parent(const struct code_unpack *u, const char **name)
{
	char part[CODE_PATH + 1];
	int dir = openat(u->dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	*name = u->path;
	for (const char *slash; dir >= 0 && (slash = strchr(*name, '/')); *name = slash + 1) {
		FD_AUTO above = dir;
		size_t n = (size_t)(slash - *name);
		memcpy(part, *name, n);
		part[n] = '\0';
		dir = openat(above, part, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	return dir;
}

static int unpack_entry(void *arg, const struct code_entry *entry, struct err *e)
{
	struct code_unpack *u = arg;
	const char *name;
	bool good;
	if (code_unpack_end(u, e) < 0)
		return -1;
	memcpy(u->path, entry->path, strlen(entry->path) + 1);
	FD_AUTO dir = unpack_parent(u, &name);
	if (dir < 0)
		return unpack_failed(u, e);
	if (entry->kind == CODE_LINK) {
		good = symlinkat(entry->target, dir, name) == 0;
	} else if (entry->kind == CODE_DIRECTORY) {
		good = mkdirat(dir, name, 0777) == 0;
		FD_AUTO made =
		    good ? openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
		if (u->writable)
			good = made >= 0 && fchmod(made, 0777) == 0;
	} else {
		mode_t mode = entry->executable ? 0777 : 0666;
		int fd =
		    openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
		u->file = fd + 1;
		good = fd >= 0 && (!u->writable || fchmod(fd, mode) == 0);
	}
	return good ? 0 : unpack_failed(u, e);
}

static int unpack_data(void *arg, struct span bytes, struct err *e)
{
	struct code_unpack *u = arg;
	return fd_write_all(u->file - 1, bytes) == 0 ? 0 : unpack_failed(u, e);
}

struct code_sink code_unpack_sink(struct code_unpack *u)
{
	return (struct code_sink){ unpack_entry, unpack_data, u };
}
