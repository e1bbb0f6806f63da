#pragma once
/* An HTTP server that misbehaves by a script: a thread on a port of 127.0.0.1. Each request, in the
 * order of arrival, gets the next step of the script; the last step is repeated. The server keeps
 * the requests. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum manner {
	ANSWER,  /* send the text, keep the connection */
	SHUT,    /* read the request, close without a byte */
	CUT,     /* send the text, shorter than its length, and close */
	HANG,    /* never answer */
	ENDLESS, /* send the text, and then chunks without end */
	DROP,    /* close when something arrives, unread */
	LEAVE,   /* as SHUT, and accept no connection any more */
};

struct step {
	enum manner manner;
	const char *text;
};

enum { CONNECTIONS = 64, KEPT = 32 };

struct fault_server {
	int listener, port;
	int stop[2]; /* a pipe */
	pthread_t thread;
	const struct step *script;
	size_t steps;
	struct pollfd fd[CONNECTIONS + 2];
	size_t n, most; /* connections, and most that were open at once */
	_Atomic size_t requests;
	char kept[KEPT][4096]; /* requests as they came */
};

static inline void server_listen(struct fault_server *f)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
		                 .sin_port = htons((uint16_t)f->port),
		                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int one = 1;
	f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (setsockopt(f->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) != 0 ||
	    bind(f->listener, (struct sockaddr *)&a, sizeof(a)) != 0 ||
	    listen(f->listener, 64) != 0 ||
	    getsockname(f->listener, (struct sockaddr *)&a, &len) != 0)
		abort();
	f->port = ntohs(a.sin_port);
}

/* Read one request; false if the connection ended before. */
static inline bool server_read(int fd, char *out, size_t room)
{
	size_t n = 0;
	size_t want = 0;
	while (want == 0 || n < want) {
		ssize_t got = n + 1 < room ? read(fd, out + n, room - 1 - n) : 0;
		if (got <= 0)
			return false;
		n += (size_t)got;
		out[n] = '\0';
		const char *end = strstr(out, "\r\n\r\n");
		if (end == NULL || want > 0)
			continue;
		want = (size_t)(end - out) + 4;
		const char *length = strstr(out, "Content-Length: ");
		if (length != NULL && length < end)
			want += strtoul(length + 16, NULL, 10);
	}
	return true;
}

static inline bool server_send(int fd, const char *text)
{
	size_t n = strlen(text);
	return send(fd, text, n, MSG_NOSIGNAL) == (ssize_t)n;
}

/* One request; true if the connection stays. */
static inline bool server_serve(struct fault_server *f, int fd)
{
	size_t i = f->requests;
	const struct step *s = &f->script[i < f->steps ? i : f->steps - 1];
	char scrap[4096];
	char *kept = i < KEPT ? f->kept[i] : scrap;
	if (s->manner == DROP) {
		f->requests++;
		return false;
	}
	if (!server_read(fd, kept, sizeof(scrap)))
		return false;
	if (s->manner == LEAVE) {
		(void)close(f->listener);
		f->listener = f->fd[1].fd = -1;
	}
	f->requests++;
	if (s->text != NULL && !server_send(fd, s->text))
		return false;
	while (s->manner == ENDLESS && server_send(fd, "a\r\n0123456789\r\n"))
		;
	return s->manner == ANSWER || s->manner == HANG;
}

/* The connections that the client has not closed; it may have closed some that this thread has not
 * yet looked at. */
static inline size_t server_open_connections(const struct fault_server *f)
{
	struct pollfd now[CONNECTIONS];
	size_t open = 0;
	for (size_t i = 0; i < f->n; i++)
		now[i] = (struct pollfd){ .fd = f->fd[i + 2].fd, .events = POLLRDHUP };
	(void)poll(now, f->n, 0);
	for (size_t i = 0; i < f->n; i++)
		open += !(now[i].revents & (POLLRDHUP | POLLHUP | POLLERR));
	return open;
}

static inline void *server_run(void *arg)
{
	struct fault_server *f = arg;
	f->fd[0] = (struct pollfd){ .fd = f->stop[0], .events = POLLIN };
	f->fd[1] = (struct pollfd){ .fd = f->listener, .events = POLLIN };
	for (;;) {
		(void)poll(f->fd, f->n + 2, -1);
		if (f->fd[0].revents)
			break;
		if (f->fd[1].revents && f->n < CONNECTIONS) {
			int fd = accept(f->listener, NULL, NULL);
			f->fd[f->n++ + 2] = (struct pollfd){ .fd = fd, .events = POLLIN };
			size_t open = server_open_connections(f);
			if (open > f->most)
				f->most = open;
			continue;
		}
		for (size_t i = 2; i < f->n + 2; i++) {
			if (f->fd[i].revents == 0 || server_serve(f, f->fd[i].fd))
				continue;
			(void)close(f->fd[i].fd);
			f->fd[i--] = f->fd[f->n-- + 1];
		}
	}
	for (size_t i = 2; i < f->n + 2; i++)
		(void)close(f->fd[i].fd);
	(void)close(f->listener);
	return NULL;
}

/* f->port is 0, or a port to take. */
static inline void server_start(struct fault_server *f, const struct step *script, size_t steps)
{
	int port = f->port;
	memset(f, 0, sizeof(*f));
	f->port = port;
	f->script = script;
	f->steps = steps;
	server_listen(f);
	if (pipe(f->stop) != 0 || pthread_create(&f->thread, NULL, server_run, f) != 0)
		abort();
}

static inline void server_stop(struct fault_server *f)
{
	if (write(f->stop[1], "x", 1) != 1)
		abort();
	(void)pthread_join(f->thread, NULL);
	(void)close(f->stop[0]);
	(void)close(f->stop[1]);
}
