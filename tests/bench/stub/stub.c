/*
 * An API server that does nothing: it takes any request and answers at once, after a time, or
 * never.  So what is measured against it is what the client costs, not what a cluster does.
 *
 *	stub PORT [DELAY_MS]     DELAY_MS -1: never answers
 *
 * A POST is answered 201 with a uid, the same for all; a PATCH as the start of that Framework;
 * GET of a collection with an empty list, GET of an object 404, all else 200.  One thread,
 * HTTP/1.1 with Content-Length, on loopback.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define UID "00000000-0000-4000-8000-000000000000"

enum { EVENTS = 256, INPUT = 64 << 10, NAME_MAX_LEN = 253, ANSWER_MAX = 1024 };

struct client {
	int fd;
	size_t n;    /* bytes of the request so far, or of its header once that is over */
	size_t left; /* bytes of the body that are still to come */
	char *in;
	char answer[ANSWER_MAX];
	size_t answer_n;
	int64_t due_ms;
	struct client *next; /* in the order in which they are due: all wait equally long */
};

static struct client *first, **last = &first;
static int epoll_fd;
static int64_t delay_ms;

static int64_t now_ms(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void drop(struct client *c)
{
	for (struct client **p = &first; *p; p = &(*p)->next) {
		if (*p != c)
			continue;
		*p = c->next;
		if (last == &c->next)
			last = p;
		break;
	}
	(void)close(c->fd);
	free(c->in);
	free(c);
}

static void send_answer(struct client *c)
{
	size_t n = c->answer_n;
	c->answer_n = 0;
	/* Small enough for the socket's buffer; who has gone is noticed when reading. */
	(void)!send(c->fd, c->answer, n, MSG_NOSIGNAL);
}

static void write_answer(struct client *c, const char *status, const char *body)
{
	int n = snprintf(
	    c->answer, sizeof(c->answer),
	    "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
	    status, strlen(body), body);
	c->answer_n = n > 0 && n < ANSWER_MAX ? (size_t)n : 0;
}

/* The header in c->in, which ends in NUL: decide what to say. */
static void make_answer(struct client *c)
{
	static unsigned long made;
	char path[512] = "";
	char body[768];
	const char *space = strchr(c->in, ' ');
	if (space)
		(void)snprintf(path, sizeof(path), "%.*s", (int)strcspn(space + 1, " ?"),
		               space + 1);
	const char *name = strrchr(path, '/');
	name = name ? name + 1 : "";
	if (strncmp(c->in, "POST ", 5) == 0) {
		(void)snprintf(
		    body, sizeof(body),
		    "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\","
		    "\"metadata\":{\"name\":\"made\",\"uid\":\"" UID "\","
		    "\"resourceVersion\":\"%lu\"}}",
		    made++);
		write_answer(c, "201 Created", body);
	} else if (strncmp(c->in, "GET ", 4) == 0 && strlen(name) == 32) {
		(void)snprintf(
		    body, sizeof(body),
		    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":"
		    "\"Failure\","
		    "\"reason\":\"NotFound\",\"details\":{\"name\":\"%s\"},\"code\":404}",
		    name);
		write_answer(c, "404 Not Found", body);
	} else if (strncmp(c->in, "GET ", 4) == 0 && strchr(space ? space : "", '?')) {
		write_answer(c, "200 OK",
		             "{\"kind\":\"List\",\"metadata\":{\"resourceVersion\":\"1\"},"
		             "\"items\":[]}");
	} else if (strncmp(c->in, "GET ", 4) == 0) {
		(void)snprintf(
		    body, sizeof(body),
		    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":"
		    "\"Failure\","
		    "\"reason\":\"NotFound\",\"details\":{\"name\":\"%.200s\"},\"code\":404}",
		    name);
		write_answer(c, "404 Not Found", body);
	} else {
		write_answer(
		    c, "200 OK",
		    "{\"kind\":\"Framework\",\"metadata\":{\"name\":\"made\",\"uid\":\"" UID
		    "\"},\"spec\":{\"executionType\":\"Start\"}}");
	}
}

static void answer(struct client *c)
{
	make_answer(c);
	c->n = 0;
	if (delay_ms < 0)
		return;
	if (delay_ms == 0) {
		send_answer(c);
		return;
	}
	c->due_ms = now_ms() + delay_ms;
	c->next = NULL;
	*last = c;
	last = &c->next;
}

/* The header is over at `end`: what comes after it belongs to the body. */
static void begin_body(struct client *c, char *end)
{
	size_t length = 0;
	*end = '\0';
	const char *field = strcasestr(c->in, "\r\nContent-Length:");
	if (field)
		length = (size_t)strtoul(field + 17, NULL, 10);
	size_t have = c->n - (size_t)(end + 4 - c->in);
	c->left = length > have ? length - have : 0;
	if (c->left == 0)
		answer(c);
}

static void take(struct client *c)
{
	char sink[INPUT];
	ssize_t n;
	if (c->left) {
		n = recv(c->fd, sink, c->left < sizeof(sink) ? c->left : sizeof(sink), 0);
		if (n <= 0) {
			drop(c);
			return;
		}
		c->left -= (size_t)n;
		if (c->left == 0)
			answer(c);
		return;
	}
	n = recv(c->fd, c->in + c->n, INPUT - 1 - c->n, 0);
	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			drop(c);
		return;
	}
	c->n += (size_t)n;
	c->in[c->n] = '\0';
	char *end = strstr(c->in, "\r\n\r\n");
	if (end)
		begin_body(c, end);
}

static void welcome(int listener)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd < 0)
		return;
	int yes = 1;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	struct client *c = calloc(1, sizeof(*c));
	if (!c || !(c->in = malloc(INPUT)))
		abort();
	c->fd = fd;
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = c };
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
		abort();
	/* epoll gives it back. NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
}

static int open_listener(uint16_t port)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int yes = 1;
	struct sockaddr_in a = { .sin_family = AF_INET,
		                 .sin_port = htons(port),
		                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(fd, 4096) < 0) {
		perror("stub");
		_exit(1);
	}
	return fd;
}

static int send_what_is_due(void)
{
	int64_t now = now_ms();
	while (first && first->due_ms <= now) {
		struct client *c = first;
		first = c->next;
		if (!first)
			last = &first;
		c->next = NULL;
		send_answer(c);
	}
	return first ? (int)(first->due_ms - now) : -1;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	struct rlimit files = { 20000, 20000 };
	(void)setrlimit(RLIMIT_NOFILE, &files);
	delay_ms = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
	int listener = open_listener((uint16_t)strtoul(argv[1], NULL, 10));
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
	(void)epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &event);
	(void)puts("ready");
	(void)fflush(stdout);
	for (;;) {
		struct epoll_event events[EVENTS];
		int n = epoll_wait(epoll_fd, events, EVENTS, send_what_is_due());
		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr)
				take(events[i].data.ptr);
			else
				welcome(listener);
		}
	}
}
