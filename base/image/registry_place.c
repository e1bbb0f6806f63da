/* See registry_place.h. */
#include "base/image/registry_place.h"

#include "base/image/image.h"

enum { HTTPS_PORT = 443, URL_LIMIT = 4096 };

struct registry_place registry_place_at(struct span authority, const char *target, struct arena *a)
{
	struct span host = authority;
	int64_t port = HTTPS_PORT;
	size_t from = authority.p[0] == '[' ? span_find(authority, 0, "]") : 0;
	size_t colon = span_find(authority, from, ":");
	if (colon != SIZE_MAX) {
		int bad =
		    parse_i64((struct span){ authority.p + colon + 1, authority.n - colon - 1 }, 1,
		              UINT16_MAX, &port);
		(void)bad; /* image_host_ok() has looked */
		host.n = colon;
	}
	if (host.p[0] == '[')
		host = (struct span){ host.p + 1, host.n - 2 };
	return (struct registry_place){
		.authority = arena_dup(a, authority),
		.host = arena_dup(a, host),
		.port = (uint16_t)port,
		.target = target,
	};
}

bool registry_target_ok(struct span s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] <= ' ' || s.p[i] > '~' || strchr("\"<>\\^`{|}#", s.p[i]))
			return false;
	}
	return s.n <= URL_LIMIT;
}

int registry_place_read(struct span url, struct arena *a, struct registry_place *out)
{
	static const char HTTPS[] = "https://";
	size_t n = sizeof(HTTPS) - 1;
	if (url.n <= n || url.n > URL_LIMIT)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if ((url.p[i] | 0x20) != (HTTPS[i] | 0x20))
			return -1;
	}
	struct span rest = { url.p + n, url.n - n };
	for (n = 0; n < rest.n && rest.p[n] != '/' && rest.p[n] != '?'; n++)
		;
	struct span authority = { rest.p, n };
	struct span target = { rest.p + n, rest.n - n };
	if (!image_host_ok(authority) || !registry_target_ok(target))
		return -1;
	bool has_path = target.n && target.p[0] == '/';
	*out = registry_place_at(
	    authority, arena_printf(a, "%s%.*s", has_path ? "" : "/", (int)target.n, target.p), a);
	return 0;
}
