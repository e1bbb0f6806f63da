/* See allow.h. */
#include "k8s/images/allow.h"

#include <netinet/in.h>
#include <strings.h>

#include "base/image/image.h"
#include "base/image/registry_place.h"

enum { HOSTS_MAX = 256, V4_AT = 12, ADDRESS_BYTES = 16 };

/* ---- the list ------------------------------------------------------------------------------- */

static void add(struct allow *out, struct arena *a, struct span authority, bool local)
{
	struct registry_place at = registry_place_at(authority, "/", a);
	out->v[out->n++] = (struct allow_entry){ at.host, at.port, local };
}

static int add_entry(struct allow *out, struct arena *a, struct span entry, struct err *e)
{
	static const char PRIVATE[] = "=private";
	char text[4 * QUOTE_MAX];
	size_t n = sizeof(PRIVATE) - 1;
	bool local = entry.n > n && span_is((struct span){ entry.p + entry.n - n, n }, PRIVATE);
	struct span authority = { entry.p, local ? entry.n - n : entry.n };
	if (!image_host_ok(authority))
		return err_set(e, 400, NULL, "\"%s\" is no HOST[:PORT][=private]",
		               quote(text, entry));
	if (span_is(authority, "docker.io") || span_is(authority, "index.docker.io")) {
		add(out, a, SPAN("registry-1.docker.io"), local);
		add(out, a, SPAN("auth.docker.io"), local);
	} else {
		add(out, a, authority, local);
	}
	return 0;
}

int allow_read(const char *list, struct arena *a, struct allow *out, struct err *e)
{
	struct allow l = { ARENA_NEW(a, struct allow_entry, HOSTS_MAX + 2), 0 };
	struct span rest = span_of(list);
	while (rest.n) {
		size_t comma = span_find(rest, 0, ",");
		size_t n = comma == SIZE_MAX ? rest.n : comma;
		struct span entry = span_trim((struct span){ rest.p, n });
		n += comma != SIZE_MAX;
		rest = (struct span){ rest.p + n, rest.n - n };
		if (l.n >= HOSTS_MAX)
			return err_set(e, 400, NULL, "more than %d hosts", HOSTS_MAX);
		if (entry.n && add_entry(&l, a, entry, e) < 0)
			return -1;
	}
	*out = l;
	return 0;
}

const struct allow_entry *allow_find(const struct allow *l, const char *host, uint16_t port)
{
	for (size_t i = 0; i < l->n; i++) {
		if (l->v[i].port == port && strcasecmp(l->v[i].host, host) == 0)
			return &l->v[i];
	}
	return NULL;
}

/* ---- addresses ---------------------------------------------------------------------------------
 */

enum reach { LOCAL, NEVER };

/* The first `bits` of an address; IPv4 as ::ffff:a.b.c.d. */
struct prefix {
	unsigned char bytes[ADDRESS_BYTES];
	unsigned bits;
	enum reach reach;
};

#define V4(a, b, c, n, reach)                                                                      \
	{                                                                                          \
		{ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c }, 96 + (n), reach             \
	}

/* What the registries of IANA do not call globally reachable.  The first that fits counts. */
static const struct prefix PREFIXES[] = {
	V4(127, 0, 0, 8, LOCAL),
	V4(10, 0, 0, 8, LOCAL),
	V4(172, 16, 0, 12, LOCAL),
	V4(192, 168, 0, 16, LOCAL),
	V4(100, 64, 0, 10, LOCAL), /* behind the NAT of a provider */
	V4(0, 0, 0, 8, NEVER),
	V4(169, 254, 0, 16, NEVER),
	V4(192, 0, 0, 24, NEVER),
	V4(192, 0, 2, 24, NEVER),
	V4(198, 18, 0, 15, NEVER),
	V4(198, 51, 100, 24, NEVER),
	V4(203, 0, 113, 24, NEVER),
	V4(224, 0, 0, 3, NEVER),
	{ { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1 }, 128, LOCAL },
	{ { 0xfc }, 7, LOCAL },
	{ { 0x20, 0x02 }, 16, NEVER },       /* IPv4 in 6to4 */
	{ { 0x20, 0x01, 0, 0 }, 23, NEVER }, /* Teredo and the like */
	{ { 0x20, 0x01, 0x0d, 0xb8 }, 32, NEVER },
};

static bool matches(const unsigned char *address, const struct prefix *p)
{
	unsigned whole = p->bits / 8;
	if (memcmp(address, p->bytes, whole) != 0)
		return false;
	unsigned rest = p->bits % 8;
	return rest == 0 || ((address[whole] ^ p->bytes[whole]) >> (8 - rest)) == 0;
}

/* 2000::/3, which is all of IPv6 that is given to anybody; or any IPv4. */
static bool is_global(const unsigned char *address)
{
	static const struct prefix V4_ALL = V4(0, 0, 0, 0, NEVER);
	return matches(address, &V4_ALL) || address[0] >> 5 == 1;
}

/* As 16 bytes; false for what is no internet address. */
static bool address_bytes(const struct sockaddr *address, unsigned char out[static ADDRESS_BYTES])
{
	static const unsigned char MAPPED[V4_AT] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
	if (address->sa_family == AF_INET) {
		struct sockaddr_in in;
		memcpy(&in, address, sizeof(in));
		memcpy(out, MAPPED, sizeof(MAPPED));
		memcpy(out + V4_AT, &in.sin_addr, sizeof(in.sin_addr));
	} else if (address->sa_family == AF_INET6) {
		struct sockaddr_in6 in6;
		memcpy(&in6, address, sizeof(in6));
		memcpy(out, &in6.sin6_addr, ADDRESS_BYTES);
	} else {
		return false;
	}
	return true;
}

bool allow_address(const struct allow_entry *entry, const struct sockaddr *address)
{
	unsigned char bytes[ADDRESS_BYTES];
	if (!address_bytes(address, bytes))
		return false;
	for (size_t i = 0; i < sizeof(PREFIXES) / sizeof(PREFIXES[0]); i++) {
		if (matches(bytes, &PREFIXES[i]))
			return PREFIXES[i].reach == LOCAL && entry->local;
	}
	return is_global(bytes);
}
