#include "server/http/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 1024, HOST_MAX = 64 };

static int parse_host(struct span host, int64_t port, struct address *out)
{
	char text[HOST_MAX];
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	if (host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
		host = (struct span){ host.p + 1, host.n - 2 };
	if (span_is(host, "localhost"))
		host = SPAN("127.0.0.1");
	else if (host.n == 0)
		host = SPAN("0.0.0.0");
	if (host.n >= sizeof(text))
		return -1;
	memcpy(text, host.p, host.n);
	text[host.n] = '\0';
	*out = (struct address){ 0 };
	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
		memcpy(&out->socket, &v4, sizeof(v4));
		out->n = sizeof(v4);
	} else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1) {
		memcpy(&out->socket, &v6, sizeof(v6));
		out->n = sizeof(v6);
	}
	return out->n ? 0 : -1;
}

int address_parse(const char *option, const char *text, struct address *out, struct err *e)
{
	const char *colon = strrchr(text, ':');
	int64_t port;
	if (!colon || parse_i64(span_of(colon + 1), 0, 65535, &port) < 0 ||
	    parse_host((struct span){ text, (size_t)(colon - text) }, port, out) < 0)
		return err_set(e, 400, "InvalidOption",
		               "%s: \"%s\" is not ADDRESS:PORT, such as 127.0.0.1:9186 or "
		               "[::1]:9186",
		               option, text);
	return 0;
}

static const struct sockaddr_in *v4_of(const struct address *a)
{
	return (const struct sockaddr_in *)(const void *)&a->socket;
}

static const struct sockaddr_in6 *v6_of(const struct address *a)
{
	return (const struct sockaddr_in6 *)(const void *)&a->socket;
}

bool address_is_loopback(const struct address *a)
{
	if (a->socket.ss_family == AF_INET)
		return ntohl(v4_of(a)->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&v6_of(a)->sin6_addr);
}

uint16_t address_port(const struct address *a)
{
	return ntohs(a->socket.ss_family == AF_INET ? v4_of(a)->sin_port : v6_of(a)->sin6_port);
}

void address_text(struct str *out, const struct address *a)
{
	char host[INET6_ADDRSTRLEN] = "";
	bool v4 = a->socket.ss_family == AF_INET;
	const void *bytes = v4 ? (const void *)&v4_of(a)->sin_addr : &v6_of(a)->sin6_addr;
	(void)inet_ntop(a->socket.ss_family, bytes, host, sizeof(host)); /* the buffer is enough */
	str_printf(out, v4 ? "%s:%u" : "[%s]:%u", host, address_port(a));
}

static int socket_open(const struct address *a, bool share, struct err *e)
{
	int one = 1;
	int fd = socket(a->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool ok = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
	          (!share || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) == 0) &&
	          bind(fd, (const struct sockaddr *)&a->socket, a->n) == 0 &&
	          (!share || listen(fd, BACKLOG) == 0);
	if (ok)
		return fd;
	char why[128];
	STR_AUTO text = STR_INIT(128);
	address_text(&text, a);
	(void)err_set(e, UNKNOWN_ERROR, "cannot listen on %s: %s", str_c(&text),
	              strerror_r(errno, why, sizeof(why)));
	if (fd >= 0)
		(void)close(fd); /* nothing went over it */
	return -1;
}

/* Sockets that share a port would also share it with another process: so look first, with one
 * that does not share, whether the port is free (and which one is, for port 0). */
static int claim(struct address *a, struct err *e)
{
	int fd = socket_open(a, false, e);
	if (fd < 0)
		return -1;
	a->n = sizeof(a->socket);
	(void)getsockname(fd, (struct sockaddr *)&a->socket, &a->n); /* a bound socket has one */
	(void)close(fd);                                             /* nothing went over it */
	return 0;
}

int listeners_open(struct address *a, int *fds, size_t n, struct err *e)
{
	if (claim(a, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		fds[i] = socket_open(a, true, e);
		if (fds[i] >= 0)
			continue;
		while (i)
			(void)close(fds[--i]); /* nothing went over it */
		return -1;
	}
	return 0;
}
