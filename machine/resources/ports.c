#include "machine/resources/ports.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/enc.h"

enum { PORTS = 65536 };

/* Its lock; -1: another task has it, or a program that knows nothing of locks; -2: no descriptor.
 */
static int port_lock(int64_t port)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "rest-lit/port/%d", (int)port);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -2;
	if (bind(fd, (const struct sockaddr *)&at,
	         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0 &&
	    port_is_free((uint16_t)port))
		return fd;
	(void)close(fd); /* nothing was written */
	return -1;
}

/* Returns what ports_take shall: n, or PORTS_NO_FILE after a lock of -2. */
static size_t ports_unlock(size_t n, const int *fd, int lock)
{
	for (size_t i = 0; i < n; i++)
		(void)close(fd[i]);
	return lock == -2 ? PORTS_NO_FILE : n;
}

/* From a random one on, so that a port that was in use a moment ago is seldom next. */
size_t ports_take(const struct port_range *r, size_t n, char **list, int *fd)
{
	STR_AUTO text = STR_INIT(1 << 20);
	uint32_t from;
	int64_t size = r->end - r->start;
	size_t got = 0;
	random_bytes(&from, sizeof(from));
	for (int64_t i = 0; i < size && got < n; i++) {
		int64_t port = r->start + (from + i) % size;
		int lock = port_lock(port);
		fd[got] = lock;
		if (lock >= 0)
			str_printf(&text, got++ ? ",%d" : "%d", (int)port);
		if (lock == -2)
			return ports_unlock(got, fd, lock);
	}
	if (got < n)
		return ports_unlock(got, fd, -1);
	*list = xstrdup(str_c(&text));
	return n;
}

size_t ports_take_again(const char *list, size_t n, int *fd)
{
	struct span rest = span_of(list);
	for (size_t got = 0; got < n; got++) {
		int64_t port = 0;
		(void)parse_i64(span_next(&rest, ','), 1, PORTS - 1, &port); /* as it was written */
		int lock = port_lock(port);
		fd[got] = lock;
		if (lock < 0)
			return ports_unlock(got, fd, lock);
	}
	return n;
}
