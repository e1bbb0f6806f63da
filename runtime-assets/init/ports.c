/* The ports of tasks: their numbers, and checking whether they are free. */
#include "runtime-assets/init/init_internal.h"

#include <stdio.h>
#include <sys/socket.h>

enum {
	MESSAGE_MAX = 1500,
	TABLE_MAX = 64 << 20 /* bytes of a table in /proc/net: 400 000 sockets */
};

/* <net/tcp_states.h> */
#define STATE_LISTEN    "0A"
#define STATE_UDP_BOUND "07"

/* ---- numbers --------------------------------------------------------------------------------- */

bool portspec_name_ok(const char *name)
{
	return *name && !is_digit(*name) && span_all(span_of(name), "A-Za-z0-9_");
}

/* Number i of a list; 0: it has less. */
static uint16_t portspec_given(const char *list, int64_t i)
{
	struct span rest = span_of(list);
	int64_t port = 0;
	while (i-- > 0 && rest.n)
		(void)span_next(&rest, ',');
	(void)parse_i64(span_next(&rest, ','), 1, PORTS_MAX - 1, &port); /* else 0 */
	return (uint16_t)port;
}

uint16_t portspec_port(const struct portspec *p, const struct port_label *l,
                       struct port_source from, int64_t index, int64_t i)
{
	if (p->sequential)
		return (uint16_t)(l->start + l->count * index + i);
	if (from.given)
		return portspec_given(from.given, l->first + i);
	return port_hashed(p->range, span_of(from.uid), span_of(l->name), i);
}

/* ---- is a port taken? ------------------------------------------------------------------------ */

enum { PORT_TCP = 1, PORT_UDP = 2 };

struct proc_found {
	bool seen;    /* the port is in a table */
	bool listens; /* ... with a socket that accepts connections, or datagrams from any sender */
};

/* One line: `sl: local:port remote:port state tx:rx tr:when retransmits ...`, numbers in hex. */
static void proc_line(struct span line, uint16_t port, struct proc_found *f)
{
	char end[8]; /* of the local address, and the state */
	(void)span_next(&line, ':');
	(void)span_next(&line, ':');
	(void)snprintf(end, sizeof(end), "%04X", port);
	if (!span_is(span_next(&line, ' '), end)) /* nearly all */
		return;
	(void)span_next(&line, ' ');
	struct span state = span_next(&line, ' ');
	f->seen = true;
	f->listens |= span_is(state, STATE_LISTEN) || span_is(state, STATE_UDP_BOUND);
}

/* Returns true if the port is used only by local ends of connections, or by sockets in TIME_WAIT.
 * False if no table has it. */
static bool proc_only_connected(uint16_t port, unsigned protocols)
{
	static const struct {
		unsigned protocol;
		const char *path;
	} TABLES[] = {
		{ PORT_TCP, "/proc/net/tcp" },
		{ PORT_TCP, "/proc/net/tcp6" },
		{ PORT_UDP, "/proc/net/udp" },
		{ PORT_UDP, "/proc/net/udp6" },
	};
	struct proc_found f = { 0 };
	for (size_t i = 0; i < ARRAY_SIZE(TABLES); i++) {
		ARENA_AUTO a = { 0 };
		struct span rest = SPAN(""); /* also of a table that cannot be read */
		if (protocols & TABLES[i].protocol)
			rest = file_text(TABLES[i].path, FILE_MOUNTED, TABLE_MAX, &a);
		while (rest.n > 0)
			proc_line(span_next(&rest, '\n'), port, &f);
	}
	return f.seen && !f.listens;
}

/* Linux gives ports of the same range to clients.  A connection, or its TIME_WAIT, is no conflict.
 */
static bool port_is_taken(int type, unsigned protocol, uint16_t port)
{
	if (port_can_bind(AF_INET, type, port) && port_can_bind(AF_INET6, type, port))
		return false;
	if (!proc_only_connected(port, protocol))
		return true;
	say_line(SAY_WARNING, "port %d is in use by a connection of another program", port);
	return false;
}

struct conflicts {
	size_t n, told;
	struct str text;
};

/* by: 0 if an earlier port of this task has the same number. */
static void port_add_conflict(const struct init *in, size_t i, unsigned by, struct conflicts *c)
{
	static const char *const PROTOCOLS[] = { "", "TCP", "UDP", "TCP and UDP" };
	STR_AUTO one = STR_INIT(MESSAGE_MAX);
	size_t first = 0;
	while (in->port[first] != in->port[i])
		first++;
	str_printf(&one, "%sport %d (%s) is ", c->n++ ? "; " : "", in->port[i], in->port_label[i]);
	if (by)
		str_printf(&one, "taken, %s", PROTOCOLS[by]);
	else
		str_printf(&one, "also one of %s", in->port_label[first]);
	if (c->text.n + one.n > MESSAGE_MAX)
		return; /* it is counted */
	str_span(&c->text, str_view(&one));
	c->told++;
}

int step_ports(struct init *in, struct err *e)
{
	struct conflicts c = { .text = STR_INIT(MESSAGE_MAX + 64) };
	uint8_t seen[PORTS_MAX / 8] = { 0 };
	for (size_t i = 0; i < in->n_ports; i++) {
		uint8_t *byte = &seen[in->port[i] / 8];
		uint8_t bit = (uint8_t)(1 << in->port[i] % 8);
		unsigned by = 0; /* the protocols that use it */
		if (!(*byte & bit) && port_is_taken(SOCK_STREAM, PORT_TCP, in->port[i]))
			by |= PORT_TCP;
		if (!(*byte & bit) && port_is_taken(SOCK_DGRAM, PORT_UDP, in->port[i]))
			by |= PORT_UDP;
		if (by || *byte & bit)
			port_add_conflict(in, i, by, &c);
		*byte |= bit;
	}
	if (c.n == 0)
		return 0;
	if (c.n > c.told)
		str_printf(&c.text, "; and %zu more", c.n - c.told);
	(void)err_set(e, FAILED, "%s", str_c(&c.text));
	str_done(&c.text);
	return INIT_PORT_CONFLICT;
}
