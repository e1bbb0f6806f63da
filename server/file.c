#include "server/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static int complain(struct err *e, const char *path)
{
	char text[128];
	return err_set(e, UNKNOWN_ERROR, "%s: %s", path, strerror_r(errno, text, sizeof(text)));
}

static int read_all(int fd, const char *path, struct str *out, struct err *e)
{
	char part[16384];
	for (;;) {
		ssize_t n = read(fd, part, sizeof(part));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return complain(e, path);
		if (n == 0)
			break;
		str_put(out, part, (size_t)n);
		if (out->full)
			return err_set(e, UNKNOWN_ERROR, "%s: more than %zu bytes", path, out->max);
	}
	return 0;
}

int file_read(const char *path, size_t max, char **text, size_t *n, struct err *e)
{
	int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return complain(e, path);
	STR_AUTO all = STR_INIT(max);
	int r = read_all(fd, path, &all, e);
	(void)close(fd); /* it was only read */
	if (r < 0)
		return -1;
	*n = all.n;
	*text = str_take(&all);
	return 0;
}
