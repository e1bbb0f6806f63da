#include "server/http/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>

enum { V4_AT = 12, V4_BITS = 96, PREFIX_64 = 8 };

static const unsigned char MAPPED[V4_AT] = { [10] = 0xff, [11] = 0xff };

static bool is_v4(const struct peer *p)
{
	return memcmp(p->b, MAPPED, V4_AT) == 0;
}

static void map_v4(struct peer *out, const void *address)
{
	memcpy(out->b, MAPPED, V4_AT);
	memcpy(out->b + V4_AT, address, sizeof(struct in_addr));
}

bool peer_of(const struct sockaddr *from, struct peer *out)
{
	if (from->sa_family == AF_INET)
		map_v4(out, &((const struct sockaddr_in *)(const void *)from)->sin_addr);
	else if (from->sa_family == AF_INET6)
		memcpy(out->b, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr,
		       PEER_BYTES);
	else
		return false;
	return true;
}

/* An address alone. */
static bool parse_plain(struct span text, struct peer *out)
{
	char copy[INET6_ADDRSTRLEN];
	struct in_addr v4;
	struct in6_addr v6;
	if (text.n == 0 || text.n >= sizeof(copy) || memchr(text.p, '\0', text.n))
		return false;
	memcpy(copy, text.p, text.n);
	copy[text.n] = '\0';
	if (inet_pton(AF_INET, copy, &v4) == 1)
		map_v4(out, &v4);
	else if (inet_pton(AF_INET6, copy, &v6) == 1)
		memcpy(out->b, &v6, PEER_BYTES);
	else
		return false;
	return true;
}

static bool is_port(struct span text)
{
	int64_t port;
	return parse_i64(text, 0, 65535, &port) == 0;
}

bool peer_parse(struct span text, struct peer *out)
{
	const char *colon = memchr(text.p, ':', text.n);
	const char *bracket = memchr(text.p, ']', text.n);
	const char *end = text.p + text.n;
	if (span_starts(text, "[") && bracket) {
		struct span rest = { bracket + 1, (size_t)(end - bracket) - 1 };
		bool port =
		    rest.n && rest.p[0] == ':' && is_port((struct span){ rest.p + 1, rest.n - 1 });
		struct span inner = { text.p + 1, (size_t)(bracket - text.p) - 1 };
		return (rest.n == 0 || port) && memchr(inner.p, ':', inner.n) &&
		       parse_plain(inner, out);
	}
	/* One colon: IPv4 with a port.  More: IPv6. */
	if (colon && !memchr(colon + 1, ':', (size_t)(end - colon) - 1)) {
		if (!is_port((struct span){ colon + 1, (size_t)(end - colon) - 1 }))
			return false;
		text.n = (size_t)(colon - text.p);
	}
	return parse_plain(text, out);
}

void peer_text(const struct peer *p, char out[static PEER_TEXT])
{
	out[0] = '\0';
	if (is_v4(p))
		(void)inet_ntop(AF_INET, p->b + V4_AT, out, INET6_ADDRSTRLEN); /* it fits */
	else
		(void)inet_ntop(AF_INET6, p->b, out, INET6_ADDRSTRLEN); /* it fits */
}

struct span peer_key(const struct peer *p)
{
	return (struct span){ (const char *)p->b, is_v4(p) ? PEER_BYTES : PREFIX_64 };
}

/* ---- networks ---- */

static bool same_bits(const struct peer *a, const struct peer *b, unsigned bits)
{
	size_t whole = bits / 8;
	unsigned rest = bits % 8;
	if (memcmp(a->b, b->b, whole) != 0)
		return false;
	return rest == 0 || ((a->b[whole] ^ b->b[whole]) >> (8 - rest)) == 0;
}

static bool is_base(const struct peer *p, unsigned bits)
{
	for (unsigned i = bits; i < PEER_BYTES * 8; i++)
		if (p->b[i / 8] & (0x80u >> (i % 8)))
			return false;
	return true;
}

static bool parse_network(struct span text, struct peer *base, unsigned *bits)
{
	const char *slash = memchr(text.p, '/', text.n);
	struct span address = { text.p, slash ? (size_t)(slash - text.p) : text.n };
	int64_t n;
	if (!parse_plain(address, base))
		return false;
	/* A mapped address that was written as IPv6 counts its bits as such. */
	bool v4 = !memchr(address.p, ':', address.n);
	n = v4 ? 32 : 128;
	if (slash && parse_i64((struct span){ slash + 1, text.n - address.n - 1 }, 0, n, &n) < 0)
		return false;
	*bits = (unsigned)n + (v4 ? V4_BITS : 0);
	return is_base(base, *bits);
}

static int add_network(struct networks *out, struct span text, struct err *e)
{
	char quoted[4 * QUOTE_MAX];
	if (out->n == NETWORKS_MAX)
		return err_set(e, 400, NULL, "at most %d networks", NETWORKS_MAX);
	if (!parse_network(text, &out->v[out->n].base, &out->v[out->n].bits))
		return err_set(e, 400, NULL,
		               "\"%s\" is no address and no network, such as 10.0.0.7 or "
		               "10.0.0.0/8",
		               quote(quoted, text));
	out->n++;
	return 0;
}

int networks_parse(struct span text, struct networks *out, struct err *e)
{
	struct networks all = { .n = 0 };
	while (text.n) {
		const char *comma = memchr(text.p, ',', text.n);
		size_t n = comma ? (size_t)(comma - text.p) : text.n;
		struct span item = span_trim((struct span){ text.p, n });
		n += comma ? 1 : 0;
		text = (struct span){ text.p + n, text.n - n };
		if (item.n && add_network(&all, item, e) < 0)
			return -1;
	}
	*out = all;
	return 0;
}

bool networks_have(const struct networks *all, const struct peer *p)
{
	for (size_t i = 0; i < all->n; i++)
		if (same_bits(&all->v[i].base, p, all->v[i].bits))
			return true;
	return false;
}
