/*
 * Is a port of this task taken?  Ports are drawn by a hash, so that two tasks on one node can get
 * the same one.  It is found by binding, on all addresses, IPv4 and IPv6, TCP and UDP: a listener
 * on any of them would be in the way.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime-assets/init/init.h"
#include "runtime-assets/init/socket_table.h"

enum { PORTS = 65536, MESSAGE_MAX = 1500 };

static socklen_t any_address(int family, uint16_t port, struct sockaddr_storage *at)
{
	memset(at, 0, sizeof(*at)); /* the address of all zeroes is any */
	at->ss_family = (sa_family_t)family;
	if (family == AF_INET6) {
		((struct sockaddr_in6 *)at)->sin6_port = htons(port);
		return sizeof(struct sockaddr_in6);
	}
	((struct sockaddr_in *)at)->sin_port = htons(port);
	return sizeof(struct sockaddr_in);
}

/* False only if the port is taken: what cannot be tried (no IPv6 here, no right to) is no conflict.
 */
static bool can_bind(int family, int type, uint16_t port)
{
	static const int ON = 1;
	struct sockaddr_storage at;
	FD_AUTO fd = socket(family, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return true;
	/* Connections of an earlier server that are only waited out are in nobody's way: servers
	 * bind with this.  For UDP it would mean sharing the port. */
	if (type == SOCK_STREAM)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &ON, sizeof(ON));
	if (family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &ON, sizeof(ON));
	socklen_t n = any_address(family, port, &at);
	return bind(fd, (struct sockaddr *)&at, n) == 0 || errno != EADDRINUSE;
}

/*
 * Linux gives clients ports from the same range.  A connection that happens to have ours, or the
 * minute after it, is no reason to fail a task that binds later, if at all.
 */
static bool is_taken(int type, unsigned protocol, uint16_t port)
{
	if (can_bind(AF_INET, type, port) && can_bind(AF_INET6, type, port))
		return false;
	if (!socket_only_connected(port, protocol))
		return true;
	say(SAY_WARNING, "port %d is that of another program's connection now", port);
	return false;
}

/* The protocols by which it is taken. */
static unsigned taken(uint16_t port)
{
	return (is_taken(SOCK_STREAM, PORT_TCP, port) ? PORT_TCP : 0) |
	       (is_taken(SOCK_DGRAM, PORT_UDP, port) ? PORT_UDP : 0);
}

/* The index of an earlier port of the same number, or i. */
static size_t first_of(const struct init *in, size_t i)
{
	size_t k = 0;
	while (in->port[k] != in->port[i])
		k++;
	return k;
}

struct conflicts {
	size_t n, told;
	struct str text; /* one sentence, parted by semicolons */
};

static void conflicts_done(struct conflicts *c)
{
	str_done(&c->text);
}

static void add_conflict(const struct init *in, size_t i, unsigned by, struct conflicts *c)
{
	static const char *const PROTOCOLS[] = { "", "TCP", "UDP", "TCP and UDP" };
	STR_AUTO one = STR_INIT(MESSAGE_MAX);
	str_printf(&one, "%sport %d (%s) is ", c->n++ ? "; " : "", in->port[i], in->port_label[i]);
	if (by)
		str_printf(&one, "taken, %s", PROTOCOLS[by]);
	else
		str_printf(&one, "also one of %s", in->port_label[first_of(in, i)]);
	if (c->text.n + one.n > MESSAGE_MAX)
		return; /* it is counted */
	str_span(&c->text, str_view(&one));
	c->told++;
}

int step_ports(struct init *in, struct err *e)
{
	__attribute__((cleanup(conflicts_done))) struct conflicts c = {
		.text = STR_INIT(MESSAGE_MAX + 64),
	};
	uint8_t seen[PORTS / 8] = { 0 };
	for (size_t i = 0; i < in->n_ports; i++) {
		uint8_t *byte = &seen[in->port[i] / 8];
		uint8_t bit = (uint8_t)(1 << in->port[i] % 8);
		unsigned by = *byte & bit ? 0 : taken(in->port[i]);
		if (by || *byte & bit)
			add_conflict(in, i, by, &c);
		*byte |= bit;
	}
	if (c.n == 0)
		return 0;
	if (c.n > c.told)
		str_printf(&c.text, "; and %zu more", c.n - c.told);
	(void)err_set(e, FAILED, "%s", str_c(&c.text));
	return INIT_PORT_CONFLICT;
}
