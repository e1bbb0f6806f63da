#include "runtime-assets/net/address.h"

#include <arpa/inet.h>
#include <stdlib.h>

static const char HTTP[] = "http://";
static const char HTTPS[] = "https://";

bool name_has_only(struct span name, const char *also)
{
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];
		bool word = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
		if (!word && (c == '\0' || !strchr(also, c)))
			return false;
	}
	return name.n > 0 && name.n <= HOST_NAME_MAX_BYTES;
}

bool is_host_name(struct span name)
{
	return name_has_only(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ.-");
}

static bool address_is_family(const char *host, int family)
{
	unsigned char bytes[16];
	return inet_pton(family, host, bytes) == 1;
}

bool address_is_ip(const char *host)
{
	return address_is_family(host, AF_INET) || address_is_family(host, AF_INET6);
}

bool address_is_loopback(const struct address *a)
{
	return strcmp(a->host, "localhost") == 0 || strcmp(a->host, "::1") == 0 ||
	       (strncmp(a->host, "127.", 4) == 0 && address_is_family(a->host, AF_INET));
}

int address_set(struct address *a, struct span host, struct span port)
{
	int64_t number = a->tls ? 443 : 80;
	if (port.n && parse_i64(port, 1, UINT16_MAX, &number) != 0)
		return -1;
	if (host.n == 0 || host.n > HOST_NAME_MAX_BYTES || memchr(host.p, '\0', host.n))
		return -1;
	a->host = xstrndup(host.p, host.n);
	a->port = (uint16_t)number;
	return is_host_name(host) || address_is_ip(a->host) ? 0 : -1;
}

/* Host and port of "HOST[:PORT]" or "[IPV6][:PORT]"; -1 if it is neither. */
static int split_authority(struct span t, struct span *host, struct span *port)
{
	const char *end = t.p + t.n;
	const char *after;
	if (span_starts(t, "[")) {
		const char *close = memchr(t.p, ']', t.n);
		if (close == NULL)
			return -1;
		*host = (struct span){ t.p + 1, (size_t)(close - t.p) - 1 };
		after = close + 1;
	} else {
		const char *colon = memchr(t.p, ':', t.n);
		after = colon ? colon : end;
		*host = (struct span){ t.p, (size_t)(after - t.p) };
	}
	*port = SPAN("");
	if (after == end)
		return 0;
	*port = (struct span){ after + 1, (size_t)(end - after - 1) };
	return *after == ':' && port->n > 0 ? 0 : -1;
}

int address_read(struct address *a, struct span url)
{
	struct span host;
	struct span port;
	a->tls = span_starts(url, HTTPS);
	if (!a->tls && !span_starts(url, HTTP))
		return -1;
	size_t skip = strlen(a->tls ? HTTPS : HTTP);
	url = (struct span){ url.p + skip, url.n - skip };
	if (url.n && url.p[url.n - 1] == '/')
		url.n--;
	return split_authority(url, &host, &port) == 0 ? address_set(a, host, port) : -1;
}

void address_done(struct address *a)
{
	free(a->host);
	a->host = NULL;
}

char *address_url(const struct address *a)
{
	bool six = strchr(a->host, ':') != NULL; /* it needs brackets */
	return xasprintf(six ? "%s[%s]:%u" : "%s%s:%u", a->tls ? HTTPS : HTTP, a->host,
	                 (unsigned)a->port);
}
