#include "base/port.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/enc.h"
#include "base/fd.h"

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

static socklen_t port_any_address(int family, uint16_t port, struct sockaddr_storage *at)
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

bool port_can_bind(int family, int type, uint16_t port)
{
	static const int ON = 1;
	struct sockaddr_storage at;
	FD_AUTO fd = socket(family, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return true;
	/* Servers bind to ports in TIME_WAIT with this.  For UDP it would share the port. */
	if (type == SOCK_STREAM)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &ON, sizeof(ON));
	if (family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &ON, sizeof(ON));
	socklen_t n = port_any_address(family, port, &at);
	return bind(fd, (struct sockaddr *)&at, n) == 0 || errno != EADDRINUSE;
}

bool port_is_free(uint16_t port)
{
	return port_can_bind(AF_INET, SOCK_STREAM, port) &&
	       port_can_bind(AF_INET, SOCK_DGRAM, port) &&
	       port_can_bind(AF_INET6, SOCK_STREAM, port) &&
	       port_can_bind(AF_INET6, SOCK_DGRAM, port);
}
