#include "base/pod/port.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/enc.h"
#include "base/posix/fd.h"

static uint64_t port_part(const unsigned char *bytes, size_t n)
{
	uint64_t v = 0;
	for (size_t i = 0; i < n; i++)
		v = v << 8 | bytes[i];
	return v;
}

uint16_t port_hashed(struct port_range r, struct span uid, struct span label, int64_t i)
{
	NOT_ZEROED char space[1024];
	struct str text = { .p = space, .cap = sizeof(space), .max = sizeof(space) - 1 };
	unsigned char hash[16];
	str_char(&text, '[');
	str_span(&text, uid);
	str_puts(&text, "][");
	str_span(&text, label);
	str_puts(&text, "][");
	str_int(&text, i);
	str_char(&text, ']');
	md5_bytes(hash, str_view(&text));
	uint64_t sum = port_part(hash, 6) + port_part(hash + 6, 6) + port_part(hash + 12, 4);
	return (uint16_t)((uint64_t)r.start + sum % (uint64_t)(r.end - r.start));
}

bool port_can_bind(int family, int type, uint16_t port)
{
	static const int ON = 1;
	/* The address of all zeroes is any. */
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	FD_AUTO fd = socket(family, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return true;
	/* Servers bind to ports in TIME_WAIT with this.  For UDP it would share the port. */
	if (type == SOCK_STREAM)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &ON, sizeof(ON));
	if (family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &ON, sizeof(ON));
	int rc = family == AF_INET6 ? bind(fd, (const struct sockaddr *)&v6, sizeof(v6))
	                            : bind(fd, (const struct sockaddr *)&v4, sizeof(v4));
	return rc == 0 || errno != EADDRINUSE;
}

/* Hides that each protocol of each family has ports of its own. */
bool port_is_free(uint16_t port)
{
	return port_can_bind(AF_INET, SOCK_STREAM, port) &&
	       port_can_bind(AF_INET, SOCK_DGRAM, port) &&
	       port_can_bind(AF_INET6, SOCK_STREAM, port) &&
	       port_can_bind(AF_INET6, SOCK_DGRAM, port);
}
