/*
 * Plain connections with a deadline.
 *
 * getaddrinfo has no time-out and cannot be interrupted, so a child process calls it, which can be
 * killed.  It costs 0.1 ms.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime-assets/common/files.h"
#include "runtime-assets/net/net_internal.h"

enum { ADDRESSES_MAX = 8 };

union sockaddr_any {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

/* The answer of the child, in one write of less than PIPE_BUF bytes. */
struct lookup {
	int rc; /* of getaddrinfo */
	int error;
	size_t n;
	union sockaddr_any v[ADDRESSES_MAX];
};

/* poll() until a point in time. */
static int net_poll(int fd, short events, int64_t when_ms)
{
	struct pollfd one = { .fd = fd, .events = events };
	for (;;) {
		int64_t left = when_ms - clock_ms();
		int timeout = left <= 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
		int rc = poll(&one, 1, timeout);
		if (rc > 0 || (rc == 0 && left <= timeout) || (rc < 0 && errno != EINTR))
			return rc;
		if (left <= 0)
			return 0;
	}
}

int wire_fail(struct wire *w, int trouble, const char *fmt, ...)
{
	char text[1024];
	va_list args;
	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	(void)err_set(w->e, FAILED, "%s%s", w->where, text);
	return trouble;
}

static int net_timed_out(struct wire *w)
{
	return wire_fail(w, HTTP_TIMEOUT, ": no answer in time, while %s", w->doing);
}

/* ---- names ----------------------------------------------------------------------------- */

static void net_resolve(const char *host, int flags, struct lookup *out)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };
	struct addrinfo *list = NULL;
	/* RFC 6761; an image may have no /etc/hosts. */
	bool here = flags == 0 && strcasecmp(host, "localhost") == 0;
	out->rc = getaddrinfo(here ? NULL : host, here ? "0" : NULL, &hints, &list);
	out->error = errno;
	if (out->rc != 0)
		return;
	for (struct addrinfo *i = list; i && out->n < ADDRESSES_MAX; i = i->ai_next) {
		if (i->ai_addrlen <= sizeof(out->v[0]))
			memcpy(&out->v[out->n++], i->ai_addr, i->ai_addrlen);
	}
	freeaddrinfo(list);
}

static const char *dns_problem(const struct lookup *a)
{
	switch (a->rc) {
	case EAI_NONAME:
#if defined(EAI_NODATA) && EAI_NODATA != EAI_NONAME
	case EAI_NODATA:
#endif
		return "there is no such name";
	case EAI_AGAIN:
		return "the name server does not answer";
	case EAI_SYSTEM:
		return strerror(a->error);
	default:
		return "the name cannot be looked up";
	}
}

static int net_resolve_in_time(struct wire *w, const char *host, struct lookup *a)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) != 0)
		return wire_fail(w, HTTP_DNS, ": no pipe: %s", strerror(errno));
	FD_AUTO from = ends[0];
	pid_t pid = fork();
	int error = errno;
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		net_resolve(host, 0, a);
		_exit(write(ends[1], a, sizeof(*a)) == (ssize_t)sizeof(*a) ? 0 : 1);
	}
	(void)close(ends[1]); /* the pipe ends with the child */
	if (pid < 0)
		return wire_fail(w, HTTP_DNS, ": no process to look the name up: %s",
		                 strerror(error));
	int ready = net_poll(from, POLLIN, w->deadline_ms);
	ssize_t got = ready > 0 ? read(from, a, sizeof(*a)) : 0;
	if (ready <= 0)
		(void)kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (ready == 0)
		return net_timed_out(w);
	if (got != (ssize_t)sizeof(*a))
		*a = (struct lookup){ .rc = EAI_FAIL };
	return 0;
}

static int net_addresses(struct wire *w, const char *host, struct lookup *a)
{
	w->doing = "looking the name up";
	net_resolve(host, AI_NUMERICHOST, a);
	if (a->rc == 0 && a->n > 0)
		return 0;
	*a = (struct lookup){ 0 };
	int trouble = net_resolve_in_time(w, host, a);
	if (trouble)
		return trouble;
	if (a->rc == 0 && a->n > 0)
		return 0;
	return wire_fail(w, HTTP_DNS, ": %s", dns_problem(a));
}

/* ---- connecting ------------------------------------------------------------------------ */

/* Connects w->fd; 0, or the reason why not. */
static int net_connect(struct wire *w, union sockaddr_any *to, uint16_t port, int64_t until_ms)
{
	bool six = to->any.sa_family == AF_INET6;
	if (six)
		to->v6.sin6_port = htons(port);
	else
		to->v4.sin_port = htons(port);
	FD_AUTO fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return errno;
	/* A handshake is several small writes, which must not wait for each other. */
	const int on = 1;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (connect(fd, &to->any, six ? sizeof(to->v6) : sizeof(to->v4)) != 0 &&
	    errno != EINPROGRESS)
		return errno;
	if (net_poll(fd, POLLOUT, until_ms) <= 0)
		return ETIMEDOUT;
	int error = 0;
	socklen_t size = sizeof(error);
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
		return errno;
	if (error == 0) {
		w->fd = fd;
		fd = -1; /* NOLINT(clang-analyzer-deadcode.DeadStores): the cleanup reads it */
	}
	return error;
}

int net_open(struct wire *w, const char *host, uint16_t port)
{
	struct lookup a = { 0 };
	int trouble = net_addresses(w, host, &a);
	int error = 0;
	if (trouble)
		return trouble;
	w->doing = "connecting";
	for (size_t i = 0; i < a.n; i++) {
		/* An address that does not answer leaves time for the others. */
		int64_t now = clock_ms();
		int64_t share = (w->deadline_ms - now) / (int64_t)(a.n - i);
		error = net_connect(w, &a.v[i], port, now + share);
		if (error == 0)
			return 0;
	}
	return clock_ms() >= w->deadline_ms
	           ? net_timed_out(w)
	           : wire_fail(w, HTTP_CONNECT, ": cannot connect: %s", strerror(error));
}

/* ---- bytes ------------------------------------------------------------------------------- */

/* Waits after a call that returned -1.  0: the caller tries again. */
static int net_wait(struct wire *w, short events)
{
	if (errno == EINTR)
		return 0;
	if (errno == EAGAIN)
		return net_poll(w->fd, events, w->deadline_ms) == 0 ? net_timed_out(w) : 0;
	return wire_fail(w, HTTP_BROKEN, ": the connection was cut while %s: %s", w->doing,
	                 strerror(errno));
}

int net_read(struct wire *w, void *p, size_t max, size_t *n)
{
	for (;;) {
		/* recv never waits if the server sends a byte now and then. */
		if (clock_ms() >= w->deadline_ms)
			return net_timed_out(w);
		ssize_t got = recv(w->fd, p, max, 0);
		if (got >= 0) {
			*n = (size_t)got;
			return 0;
		}
		int trouble = net_wait(w, POLLIN);
		if (trouble)
			return trouble;
	}
}

int net_write(struct wire *w, struct span text)
{
	while (text.n) {
		ssize_t put = send(w->fd, text.p, text.n, MSG_NOSIGNAL);
		int trouble = put < 0 ? net_wait(w, POLLOUT) : 0;
		if (trouble)
			return trouble;
		text = span_from(text, put > 0 ? (size_t)put : 0);
	}
	return 0;
}
