/* Addresses of servers: https, or http where nothing secret is said; nothing that a token could
 * leak through (user names, queries). */
#include "k8s/transport/login.h"

enum { URL_MAX = 512 };

static bool is_loopback(struct span host)
{
	return span_is(host, "localhost") || span_is(host, "127.0.0.1") || span_is(host, "[::1]");
}

static bool host_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == ':' || c == '[' || c == ']';
}

/* Host of "host[:port]", empty if that is not what it is. */
static struct span host_of(struct span authority)
{
	size_t n = authority.n;
	for (size_t i = 0; i < n; i++) {
		if (!host_char(authority.p[i]))
			return SPAN("");
	}
	const char *bracket = memchr(authority.p, ']', n);
	if (bracket)
		return (struct span){ authority.p, (size_t)(bracket - authority.p) + 1 };
	const char *colon = memchr(authority.p, ':', n);
	return (struct span){ authority.p, colon ? (size_t)(colon - authority.p) : n };
}

/* What follows the host: nothing, or ":" and a port that there can be. */
static bool port_ok(struct span authority, struct span host)
{
	int64_t port;
	if (authority.n == host.n)
		return true;
	if (authority.p[host.n] != ':')
		return false;
	struct span text = { authority.p + host.n + 1, authority.n - host.n - 1 };
	return parse_i64(text, 1, UINT16_MAX, &port) == 0;
}

/* Why rest (what follows the scheme) is no HOST[:PORT][/PATH], or NULL. */
static const char *fault_of(struct span rest, bool only_here)
{
	const char *slash = memchr(rest.p, '/', rest.n);
	struct span authority = { rest.p, slash ? (size_t)(slash - rest.p) : rest.n };
	struct span host = host_of(authority);
	for (size_t i = 0; i < rest.n; i++) {
		if (!host_char(rest.p[i]) && rest.p[i] != '/' && rest.p[i] != '_')
			host = SPAN("");
	}
	if (host.n == 0)
		return "must be https://HOST[:PORT][/PATH]";
	if (!port_ok(authority, host))
		return "the port must be a number from 1 to 65535";
	if (only_here && !is_loopback(host))
		return "http is for this machine only, use https";
	return NULL;
}

char *address_read(const char *text, bool secrets, const char **fault)
{
	struct span url = span_trim(span_of(text));
	bool plain = span_starts(url, "http://");
	size_t scheme = plain ? strlen("http://") : strlen("https://");
	*fault = secrets ? "must start with https://" : "must start with https:// or http://";
	if ((plain || span_starts(url, "https://")) && url.n <= URL_MAX) {
		while (url.n > scheme && url.p[url.n - 1] == '/')
			url.n--;
		*fault =
		    fault_of((struct span){ url.p + scheme, url.n - scheme }, plain && secrets);
	}
	return *fault ? NULL : xstrndup(url.p, url.n);
}

char *address_check(const char *server, struct err *e)
{
	const char *fault;
	char *url = address_read(server, true, &fault);
	if (!url)
		err_set(e, UNKNOWN_ERROR, "the API server's address: %s", fault);
	return url;
}
