/*
 * Bodies that go to a descriptor while they arrive.  When the descriptor is full, the connection is
 * suspended with the rest in MHD's buffer, and MHD hands that over again when it is resumed.  So a
 * request never waits without a rest: MHD would not tell the end of the body apart.
 */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "server/http/http_internal.h"
#include "server/http/stream.h"

struct body_pipe {
	struct pipe_end pipe;
	struct request *r;
	bool waits, over; /* over: nobody reads it any more */
};

static void body_pipe_resume(struct body_pipe *b)
{
	if (!b->waits)
		return;
	b->waits = false;
	http_resume(b->r, WAITING);
}

/* Ends the connection. */
static void body_pipe_stop(struct body_pipe *b)
{
	if (!b->over)
		(void)pipe_end_watch(b->r->loop, EPOLL_CTL_DEL, &b->pipe, 0); /* it was added */
	b->over = true;
	b->r->why = b->r->why ?: "the session has ended";
	body_pipe_resume(b);
	connection_cut(http_connection_of(b->r->connection));
}

static void body_pipe_ready(struct pipe_end *p, uint32_t events)
{
	struct body_pipe *b = (struct body_pipe *)p;
	/* Watched on, for the end of the reader. */
	if (events & (EPOLLERR | EPOLLHUP) || pipe_end_watch(b->r->loop, EPOLL_CTL_MOD, p, 0) < 0)
		body_pipe_stop(b);
	else
		body_pipe_resume(b);
}

static void body_pipe_event(void *arg, enum long_lived_event event)
{
	if (event != LONG_LIVED_TICK)
		body_pipe_stop(arg);
}

static void body_pipe_end(void *arg)
{
	struct body_pipe *b = arg;
	if (!b->over)
		(void)pipe_end_watch(b->r->loop, EPOLL_CTL_DEL, &b->pipe, 0); /* it was added */
}

bool body_to_fd(struct request *r, int fd)
{
	struct body_pipe *b = ARENA_NEW(&r->arena, struct body_pipe, 1);
	*b = (struct body_pipe){ .pipe = { body_pipe_ready, fd }, .r = r };
	if (!long_lived_begin(r, LONG_LIVED_UNLIMITED, body_pipe_event, b))
		return false;
	/* Without events it still tells that the reader has gone. */
	if (pipe_end_watch(r->loop, EPOLL_CTL_ADD, &b->pipe, 0) < 0) {
		answer_refuse(r, UNAVAILABLE, "the server has no memory for another session");
		return false;
	}
	request_on_end(r, body_pipe_end, b);
	r->pipe = b;
	connection_set_activity(http_connection_of(r->connection), WAITING);
	return true;
}

size_t body_pipe_put(struct request *r, struct span part)
{
	struct body_pipe *b = r->pipe;
	size_t done = 0;
	while (!b->over && done < part.n) {
		ssize_t n = write(b->pipe.fd, part.p + done, part.n - done);
		if (n > 0)
			done += (size_t)n;
		else if (errno != EAGAIN ||
		         pipe_end_watch(r->loop, EPOLL_CTL_MOD, &b->pipe, EPOLLOUT) < 0)
			body_pipe_stop(b);
		else
			break;
	}
	if (b->over)
		return part.n;
	if (done < part.n) {
		b->waits = true;
		request_wait(r);
	}
	return done;
}
