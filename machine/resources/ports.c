/* Ports of tasks; see resources.h. */
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/enc.h"
#include "base/pod/portspec.h"
#include "machine/resources/resources.h"

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

size_t ports_take(const struct port_range *r, char **list, size_t n, int *fd)
{
	STR_AUTO text = STR_INIT(1 << 20);
	struct span rest = span_of(*list ?: "");
	int64_t size = *list ? (int64_t)n : r->end - r->start;
	uint32_t from; /* random, so that a port that was in use a moment ago is seldom next */
	size_t got = 0;
	int lock = 0;
	random_bytes(&from, sizeof(from));
	for (int64_t i = 0; i < size && got < n && lock != -2; i++) {
		int64_t port = r->start + (from + i) % size;
		if (*list)
			(void)parse_i64(span_next(&rest, ','), 1, PORTS_MAX - 1, &port);
		lock = port_lock(port);
		if (lock >= 0) {
			str_printf(&text, got ? ",%d" : "%d", (int)port);
			fd[got++] = lock;
		}
	}
	if (got == n && !*list)
		*list = xstrdup(str_c(&text));
	for (size_t i = 0; i < got && got < n; i++)
		(void)close(fd[i]); /* nothing was written */
	return lock == -2 ? PORTS_NO_FILE : got;
}
