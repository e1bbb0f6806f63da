#include "runtime-assets/run/outlet.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime-assets/net/http.h"

/* Twice what supervise.c takes from a pipe at once, and lines. */
enum { QUEUE_MAX = 4 << 20 };

/*
 * O_NONBLOCK belongs to the open file description, which other processes share (a terminal, the
 * pipe of the container's runtime): so a description of our own is opened for pipes and terminals.
 * Not for files: it would have an offset of its own.
 */
void outlet_open(struct outlet *o, int fd)
{
	*o = (struct outlet){ .fd = fd, .queue = STR_INIT(QUEUE_MAX), .moved_at = clock_ms() };
	struct stat st;
	if (fstat(fd, &st) != 0) {
		o->fd = -1;
		o->error = errno;
		return;
	}
	if (S_ISSOCK(st.st_mode))
		o->kind = OUTLET_SOCKET;
	if (!S_ISFIFO(st.st_mode) && !S_ISCHR(st.st_mode))
		return;
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	o->kind = own >= 0 ? OUTLET_OWN : OUTLET_SHARED;
	if (own >= 0)
		o->fd = own;
}

void outlet_abandon(struct outlet *o, int error)
{
	o->lost += o->queue.n - o->head;
	o->head = o->queue.n = 0;
	if (o->fd > STDERR_FILENO)
		close(o->fd);
	o->fd = -1;
	if (!o->error)
		o->error = error;
}

static ssize_t write_some(const struct outlet *o, struct span text)
{
	if (o->kind == OUTLET_SOCKET)
		return send(o->fd, text.p, text.n, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (o->kind == OUTLET_OWN)
		return write(o->fd, text.p, text.n);
	/* A pipe that is writable takes PIPE_BUF bytes at once. */
	struct pollfd ready = { .fd = o->fd, .events = POLLOUT };
	if (poll(&ready, 1, 0) != 1) {
		errno = EAGAIN;
		return -1;
	}
	return write(o->fd, text.p, text.n < PIPE_BUF ? text.n : PIPE_BUF);
}

/* How much of it went through.  What cannot be written at all is counted as if it did. */
static size_t write_now(struct outlet *o, struct span text)
{
	size_t done = 0;
	while (done < text.n) {
		ssize_t n = write_some(o, (struct span){ text.p + done, text.n - done });
		if (n > 0) {
			done += (size_t)n;
			o->moved_at = clock_ms();
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return done;
		int error = n < 0 ? errno : EIO;
		o->lost += text.n - done;
		if (!o->error)
			o->error = error;
		/* A full disk may get room again; a reader that is gone does not come back. */
		if (error == EPIPE || error == ECONNRESET || error == EBADF)
			outlet_abandon(o, error);
		return text.n;
	}
	return done;
}

void outlet_flush(struct outlet *o)
{
	if (!outlet_waiting(o))
		return;
	struct span rest = { o->queue.p + o->head, o->queue.n - o->head };
	size_t done = write_now(o, rest);
	if (o->fd < 0)
		return; /* abandoned: the queue is empty */
	o->head += done;
	if (o->head == o->queue.n)
		o->head = o->queue.n = 0;
}

void outlet_put(struct outlet *o, struct span text)
{
	if (o->fd < 0) {
		o->lost += text.n;
		return;
	}
	size_t done = 0;
	if (!outlet_waiting(o)) {
		o->moved_at = clock_ms();
		done = write_now(o, text);
	}
	struct span rest = { text.p + done, text.n - done };
	if (rest.n == 0)
		return;
	if (o->queue.n + rest.n > QUEUE_MAX)
		o->lost += rest.n;
	else
		str_span(&o->queue, rest);
}

void outlet_done(struct outlet *o)
{
	if (o->fd > STDERR_FILENO)
		close(o->fd);
	o->fd = -1;
	str_done(&o->queue);
}
