#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/code/code.h"
#include "base/posix/fd.h"

static const char NOT_WRITTEN[] = "cannot be written";

int code_unpack_end(struct code_unpack *u, struct err *e)
{
	int fd = u->file - 1;
	u->file = 0;
	return fd < 0 || close(fd) == 0 ? 0 : path_failed(u->path, NOT_WRITTEN, e);
}

static int unpack_entry(void *arg, const struct code_entry *entry, struct err *e)
{
	struct code_unpack *u = arg;
	const char *name;
	bool good;
	if (code_unpack_end(u, e) < 0)
		return -1;
	memcpy(u->path, entry->path, strlen(entry->path) + 1);
	FD_AUTO dir = fd_open_above(u->dir, u->path, &name);
	if (dir < 0)
		return path_failed(u->path, NOT_WRITTEN, e);
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
	return good ? 0 : path_failed(u->path, NOT_WRITTEN, e);
}

static int unpack_data(void *arg, struct span bytes, struct err *e)
{
	struct code_unpack *u = arg;
	return fd_write_all(u->file - 1, bytes) == 0 ? 0 : path_failed(u->path, NOT_WRITTEN, e);
}

struct code_sink code_unpack_sink(struct code_unpack *u)
{
	return (struct code_sink){ unpack_entry, unpack_data, u };
}
