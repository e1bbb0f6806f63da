/* Parses, compares and prints addresses, opens listeners, and asks the kernel whose a local socket
 * is. */
#include "server/http/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/posix/fd.h"

enum { V4_AT = 12, V4_BITS = 96, PREFIX_64 = 8 };

static const unsigned char MAPPED[V4_AT] = { [10] = 0xff, [11] = 0xff };

static bool address_is_v4(const struct client_address *p)
{
	return memcmp(p->b, MAPPED, V4_AT) == 0;
}

static void address_map_v4(struct client_address *out, const void *address)
{
	memcpy(out->b, MAPPED, V4_AT);
	memcpy(out->b + V4_AT, address, sizeof(struct in_addr));
}

bool client_address_of(const struct sockaddr *from, struct client_address *out)
{
	out->account = 0;
	if (from->sa_family == AF_INET)
		address_map_v4(out, &((const struct sockaddr_in *)(const void *)from)->sin_addr);
	else if (from->sa_family == AF_INET6)
		memcpy(out->b, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr,
		       CLIENT_ADDRESS_BYTES);
	else
		return false;
	return true;
}

bool client_address_peer(int fd, struct client_address *out)
{
	struct ucred peer;
	socklen_t n = sizeof(peer);
	*out = (struct client_address){ 0 };
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &n) < 0)
		return false;
	out->account = peer.uid + 1;
	return out->account != 0; /* (uid_t)-1 is no account */
}

/* It is no address of a client of TCP. */
static bool address_is_of_peer(const struct client_address *p)
{
	static const unsigned char NONE[CLIENT_ADDRESS_BYTES];
	return p->account && memcmp(p->b, NONE, sizeof(NONE)) == 0;
}

/* An address without a port. */
static bool parse_plain(struct span text, struct client_address *out)
{
	char copy[INET6_ADDRSTRLEN];
	struct in_addr v4;
	struct in6_addr v6;
	if (text.n == 0 || text.n >= sizeof(copy) || memchr(text.p, '\0', text.n))
		return false;
	memcpy(copy, text.p, text.n);
	copy[text.n] = '\0';
	out->account = 0;
	if (inet_pton(AF_INET, copy, &v4) == 1)
		address_map_v4(out, &v4);
	else if (inet_pton(AF_INET6, copy, &v6) == 1)
		memcpy(out->b, &v6, CLIENT_ADDRESS_BYTES);
	else
		return false;
	return true;
}

bool client_address_parse(struct span text, struct client_address *out)
{
	const char *colon = memchr(text.p, ':', text.n);
	const char *bracket = memchr(text.p, ']', text.n);
	const char *end = text.p + text.n;
	int64_t port;
	if (span_starts(text, "[") && bracket) {
		struct span rest = { bracket + 1, (size_t)(end - bracket) - 1 };
		bool has_port =
		    span_starts(rest, ":") && parse_i64(span_from(rest, 1), 0, 65535, &port) == 0;
		struct span inner = { text.p + 1, (size_t)(bracket - text.p) - 1 };
		return (rest.n == 0 || has_port) && memchr(inner.p, ':', inner.n) &&
		       parse_plain(inner, out);
	}
	/* One colon: IPv4 with a port.  More: IPv6. */
	if (colon && !memchr(colon + 1, ':', (size_t)(end - colon) - 1)) {
		if (parse_i64((struct span){ colon + 1, (size_t)(end - colon) - 1 }, 0, 65535,
		              &port) < 0)
			return false;
		text.n = (size_t)(colon - text.p);
	}
	return parse_plain(text, out);
}

void client_address_text(const struct client_address *p, char out[static CLIENT_ADDRESS_TEXT])
{
	out[0] = '\0';
	if (address_is_of_peer(p))
		(void)snprintf(out, CLIENT_ADDRESS_TEXT, "uid %u", p->account - 1); /* it fits */
	else if (address_is_v4(p))
		(void)inet_ntop(AF_INET, p->b + V4_AT, out, INET6_ADDRSTRLEN); /* it fits */
	else
		(void)inet_ntop(AF_INET6, p->b, out, INET6_ADDRSTRLEN); /* it fits */
}

struct span client_address_key(const struct client_address *p)
{
	_Static_assert(sizeof(*p) == CLIENT_KEY_BYTES, "the account stands before the address");
	return (struct span){ (const char *)p,
		              address_is_v4(p) ? sizeof(*p) : sizeof(p->account) + PREFIX_64 };
}

/* Both families have the port at the same place. */
static in_port_t sockaddr_port(const void *socket)
{
	return ((const struct sockaddr_in *)socket)->sin_port;
}

static bool address_is_own(const struct client_address *p)
{
	return address_is_v4(p) ? p->b[V4_AT] == 127
	                        : memcmp(p->b, &in6addr_loopback, CLIENT_ADDRESS_BYTES) == 0;
}

void client_address_local(struct client_address *p, const struct sockaddr *from, int listen_fd)
{
	static const struct client_address ANY;
	static const struct client_address ANY_V4 = { .b = { [10] = 0xff, [11] = 0xff } };
	struct sockaddr_storage listener = { 0 };
	socklen_t n = sizeof(listener);
	struct client_address own;
	bool v4 = address_is_v4(p);
	size_t at = v4 ? V4_AT : 0;
	if (!address_is_own(p) || getsockname(listen_fd, (struct sockaddr *)&listener, &n) != 0 ||
	    !client_address_of((const struct sockaddr *)&listener, &own))
		return;
	if (memcmp(own.b, ANY.b, sizeof(own.b)) == 0 || memcmp(own.b, ANY_V4.b, sizeof(own.b)) == 0)
		own = *p; /* clients connect to the address from which they do */
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 of;
	} ask = { { .nlmsg_len = sizeof(ask),
		    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
		    .nlmsg_flags = NLM_F_REQUEST },
		  { .sdiag_family = v4 ? AF_INET : AF_INET6,
		    .sdiag_protocol = IPPROTO_TCP,
		    .idiag_states = UINT32_MAX,
		    .id = { .idiag_sport = sockaddr_port(from),
		            .idiag_dport = sockaddr_port(&listener),
		            .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } } } };
	struct {
		struct nlmsghdr head;
		struct inet_diag_msg socket; /* attributes behind it are cut off */
	} found;
	memcpy(ask.of.id.idiag_src, p->b + at, CLIENT_ADDRESS_BYTES - at);
	memcpy(ask.of.id.idiag_dst, own.b + at, CLIENT_ADDRESS_BYTES - at);
	/* A socket that its process has closed has no inode, and the uid 0 whosever it was. */
	FD_AUTO fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd >= 0 && send(fd, &ask, sizeof(ask), 0) == sizeof(ask) &&
	    recv(fd, &found, sizeof(found), MSG_DONTWAIT) == sizeof(found) &&
	    found.head.nlmsg_type == SOCK_DIAG_BY_FAMILY && found.socket.idiag_inode &&
	    found.socket.id.idiag_dport == ask.of.id.idiag_dport) /* else it listens */
		p->account = found.socket.idiag_uid + 1;
}

/* ---- networks ---- */

static bool parse_network(struct span text, struct client_address *base, unsigned *bits)
{
	struct span prefix = text;
	struct span address = span_next(&prefix, '/');
	int64_t n;
	if (!parse_plain(address, base))
		return false;
	/* The prefix of a mapped address in IPv6 notation counts IPv6 bits. */
	bool v4 = !memchr(address.p, ':', address.n);
	n = v4 ? 32 : 128;
	if (address.n < text.n && parse_i64(prefix, 0, n, &n) < 0)
		return false;
	*bits = (unsigned)n + (v4 ? V4_BITS : 0);
	for (unsigned i = *bits; i < CLIENT_ADDRESS_BYTES * 8; i++)
		if (base->b[i / 8] & (0x80u >> (i % 8)))
			return false;
	return true;
}

int networks_parse(struct span text, struct networks *out, struct err *e)
{
	char quoted[4 * QUOTE_MAX];
	struct networks all = { .n = 0 };
	while (text.n) {
		struct span item = span_trim(span_next(&text, ','));
		if (!item.n)
			continue;
		if (all.n == NETWORKS_MAX)
			return err_set(e, 400, NULL, "at most %d networks", NETWORKS_MAX);
		if (!parse_network(item, &all.v[all.n].base, &all.v[all.n].bits))
			return err_set(e, 400, NULL,
			               "\"%s\" is not an address or network such as 10.0.0.7 or "
			               "10.0.0.0/8",
			               quote(quoted, item));
		all.n++;
	}
	*out = all;
	return 0;
}

bool networks_have(const struct networks *all, const struct client_address *p)
{
	for (size_t i = 0; i < all->n; i++) {
		const unsigned char *base = all->v[i].base.b;
		size_t whole = all->v[i].bits / 8;
		unsigned rest = all->v[i].bits % 8;
		if (memcmp(base, p->b, whole) == 0 &&
		    (rest == 0 || ((base[whole] ^ p->b[whole]) >> (8 - rest)) == 0))
			return true;
	}
	return false;
}

enum { BACKLOG = 1024 };

static int parse_host(struct span host, int64_t port, struct address *out)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	struct client_address p;
	if (host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
		host = (struct span){ host.p + 1, host.n - 2 };
	if (span_is(host, "localhost"))
		host = SPAN("127.0.0.1");
	else if (host.n == 0)
		host = SPAN("0.0.0.0");
	if (!parse_plain(host, &p))
		return -1;
	bool six = memchr(host.p, ':', host.n); /* also if it is mapped */
	memcpy(&v4.sin_addr, p.b + V4_AT, sizeof(v4.sin_addr));
	memcpy(&v6.sin6_addr, p.b, sizeof(v6.sin6_addr));
	*out = (struct address){ .n = six ? sizeof(v6) : sizeof(v4) };
	memcpy(&out->socket, six ? (const void *)&v6 : &v4, out->n);
	return 0;
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

void address_unix(const char *path, struct address *out)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	(void)snprintf(to.sun_path, sizeof(to.sun_path), "%s", path); /* may be cut */
	*out = (struct address){ .n = sizeof(to) };
	memcpy(&out->socket, &to, sizeof(to));
}

static bool address_is_unix(const struct address *a)
{
	return a->socket.ss_family == AF_UNIX;
}

bool address_is_loopback(const struct address *a)
{
	struct client_address p;
	if (!client_address_of((const struct sockaddr *)&a->socket, &p))
		return true; /* a Unix socket */
	bool mapped = address_is_v4(&p) && a->socket.ss_family != AF_INET;
	return address_is_own(&p) && !mapped;
}

uint16_t address_port(const struct address *a)
{
	return address_is_unix(a) ? 0 : ntohs(sockaddr_port(&a->socket));
}

void address_text(struct str *out, const struct address *a)
{
	char host[INET6_ADDRSTRLEN] = "";
	if (address_is_unix(a)) {
		str_puts(out, ((const struct sockaddr_un *)(const void *)&a->socket)->sun_path);
		return;
	}
	(void)getnameinfo((const struct sockaddr *)&a->socket, a->n, host, sizeof(host), NULL, 0,
	                  NI_NUMERICHOST); /* the buffer is enough */
	str_printf(out, a->socket.ss_family == AF_INET ? "%s:%u" : "[%s]:%u", host,
	           address_port(a));
}

static int socket_open(const struct address *a, bool share, struct err *e)
{
	int one = 1;
	int fd = socket(a->socket.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool ok = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
	          (!share || address_is_unix(a) ||
	           setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) == 0) &&
	          bind(fd, (const struct sockaddr *)&a->socket, a->n) == 0 &&
	          (!share || listen(fd, BACKLOG) == 0);
	if (ok)
		return fd;
	STR_AUTO text = STR_INIT(128);
	address_text(&text, a);
	(void)err_set(e, UNKNOWN_ERROR, "cannot listen on %s: %m", str_c(&text));
	if (fd >= 0)
		(void)close(fd); /* unused: no data can be lost */
	return -1;
}

enum { EVERY_ACCOUNT = 0666 };

/* false: there is something at this path that must stay. */
static bool path_is_free(const struct address *a, const char *path, struct err *e)
{
	struct stat st;
	if (lstat(path, &st) < 0)
		return errno == ENOENT ||
		       err_set(e, UNKNOWN_ERROR, "cannot listen on %s: %m", path) == 0;
	if (!S_ISSOCK(st.st_mode))
		return err_set(e, UNKNOWN_ERROR,
		               "cannot listen on %s: it is there and not a socket", path) == 0;
	FD_AUTO fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool answers = fd < 0 || connect(fd, (const struct sockaddr *)&a->socket, a->n) == 0 ||
	               errno != ECONNREFUSED;
	return !answers ||
	       err_set(e, UNKNOWN_ERROR, "cannot listen on %s: another process does", path) == 0;
}

int listener_for_accounts(const char *path, struct err *e)
{
	struct address at;
	struct address before; /* its name until it listens */
	STR_AUTO name = STR_INIT(sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
	str_printf(&name, "%s.new", path);
	if (name.full)
		return err_set(e, 400, NULL, "--socket: a path has at most %zu bytes, is \"%s\"",
		               name.max - strlen(".new"), path);
	address_unix(path, &at);
	address_unix(str_c(&name), &before);
	if (!path_is_free(&at, path, e))
		return -1;
	(void)unlink(str_c(&name)); /* of a server that was killed; else it is not there */
	int fd = socket_open(&before, true, e);
	if (fd < 0)
		return err_wrap(e, "--socket %s", path);
	if (chmod(str_c(&name), EVERY_ACCOUNT) == 0 && rename(str_c(&name), path) == 0)
		return fd;
	(void)err_set(e, UNKNOWN_ERROR, "cannot listen on %s: %m", path);
	(void)close(fd); /* unused: no data can be lost */
	return -1;
}

int listeners_open(struct address *a, int *fds, size_t n, struct err *e)
{
	if (address_is_unix(a)) {
		assert(n == 1);
		fds[0] = socket_open(a, true, e);
		return fds[0] < 0 ? -1 : 0;
	}
	/* An exclusive socket shows if the port is free, and chooses one for port 0: shared sockets
	 * (SO_REUSEPORT) would also share the port with another process. */
	int claim = socket_open(a, false, e);
	if (claim < 0)
		return -1;
	a->n = sizeof(a->socket);
	(void)getsockname(claim, (struct sockaddr *)&a->socket, &a->n); /* a bound socket has one */
	(void)close(claim); /* unused: no data can be lost */
	for (size_t i = 0; i < n; i++) {
		fds[i] = socket_open(a, true, e);
		if (fds[i] >= 0)
			continue;
		while (i)
			(void)close(fds[--i]); /* unused: no data can be lost */
		return -1;
	}
	return 0;
}
