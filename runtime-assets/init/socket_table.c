#include "runtime-assets/init/socket_table.h"

#include <fcntl.h>
#include <unistd.h>

#include "runtime-assets/files.h"

enum {
	TABLE_MAX = 8 << 20, /* 50 000 sockets */
	PIECE = 16 << 10,
	STATE_LISTEN = 10, /* include/net/tcp_states.h */
	STATE_UDP_BOUND = 7
};

struct found {
	bool seen;    /* the port is in a table */
	bool listens; /* ... with a socket that takes connections, or datagrams of everybody */
};

/* The next word of a line, without the blanks before it. */
static struct span next_word(struct span *line)
{
	while (line->n && *line->p == ' ')
		*line = (struct span){ line->p + 1, line->n - 1 };
	size_t n = 0;
	while (n < line->n && line->p[n] != ' ')
		n++;
	struct span word = { line->p, n };
	*line = (struct span){ line->p + n, line->n - n };
	return word;
}

/* Hexadecimal, as /proc/net writes it; -1 if it is none of up to four digits. */
static int hex_of(struct span t)
{
	static const char DIGITS[] = "0123456789ABCDEF";
	int v = 0;
	for (size_t i = 0; i < t.n; i++) {
		const char *at = memchr(DIGITS, t.p[i], sizeof(DIGITS) - 1);
		if (!at || i == 4)
			return -1;
		v = v * 16 + (int)(at - DIGITS);
	}
	return t.n ? v : -1;
}

/* One line: `sl local:port remote:port state tx:rx tr:when retransmits ...`. */
static void read_line(struct span line, uint16_t port, struct found *f)
{
	enum { LOCAL = 1, STATE = 3, WORDS };
	struct span word[WORDS];
	for (size_t i = 0; i <= LOCAL; i++)
		word[i] = next_word(&line);
	const char *colon = word[LOCAL].n ? memrchr(word[LOCAL].p, ':', word[LOCAL].n) : NULL;
	if (!colon)
		return;
	struct span local = { colon + 1, (size_t)(word[LOCAL].p + word[LOCAL].n - colon - 1) };
	if (hex_of(local) != port) /* nearly all */
		return;
	for (size_t i = LOCAL + 1; i < WORDS; i++)
		word[i] = next_word(&line);
	int state = hex_of(word[STATE]);
	f->seen = true;
	f->listens |= state == STATE_LISTEN || state == STATE_UDP_BOUND;
}

/* The whole lines in it; how many bytes those are. */
static size_t read_lines(struct span text, uint16_t port, struct found *f)
{
	const char *end;
	size_t used = 0;
	while ((end = memchr(text.p + used, '\n', text.n - used)) != NULL) {
		size_t n = (size_t)(end - text.p) - used;
		read_line((struct span){ text.p + used, n }, port, f);
		used += n + 1;
	}
	return used;
}

/* In pieces: a node that serves many has megabytes of connections.  A table that cannot be read
 * has no ports. */
static void read_table(const char *path, uint16_t port, struct found *f)
{
	FD_AUTO fd = open(path, O_RDONLY | O_CLOEXEC);
	char piece[PIECE];
	size_t have = 0;
	size_t total = 0;
	ssize_t n;
	while (fd >= 0 && total < TABLE_MAX &&
	       (n = read(fd, piece + have, sizeof(piece) - have)) > 0) {
		have += (size_t)n;
		total += (size_t)n;
		size_t used = read_lines((struct span){ piece, have }, port, f);
		if (used == 0 && have == sizeof(piece))
			used = have; /* no line of such a table */
		have -= used;
		memmove(piece, piece + used, have);
	}
}

static struct found look_up(uint16_t port, unsigned protocols)
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
	struct found f = { 0 };
	for (size_t i = 0; i < sizeof(TABLES) / sizeof(TABLES[0]); i++) {
		if (protocols & TABLES[i].protocol)
			read_table(TABLES[i].path, port, &f);
	}
	return f;
}

bool socket_only_connected(uint16_t port, unsigned protocols)
{
	struct found f = look_up(port, protocols);
	return f.seen && !f.listens;
}
