/* Image references; see image.h. */
#include "base/image/image.h"

#include "base/str.h"

enum { TAG_MAX = 128, SHA256_DIGITS = 64, ADDRESS_MAX = 47 /* an IPv6 address in brackets */ };

static const char HUB_API[] = "registry-1.docker.io";
static const char *const HUB_NAMES[] = { "docker.io", "index.docker.io", HUB_API };

/* ---- hosts ---- */

/* [hex digits, colons and dots]: this only excludes dangerous characters, the resolver checks the
 * address. */
static bool address_ok(struct span s)
{
	if (s.n < 4 || s.n > ADDRESS_MAX || s.p[s.n - 1] != ']')
		return false;
	bool colon = false;
	for (size_t i = 1; i < s.n - 1; i++) {
		char c = to_lower(s.p[i]);
		if (!is_digit(c) && !(c >= 'a' && c <= 'f') && c != ':' && c != '.')
			return false;
		colon |= c == ':';
	}
	return colon;
}

static bool dns_name_ok(struct span s)
{
	return s.n > 0 && is_alnum(s.p[0]) && is_alnum(s.p[s.n - 1]) && span_only(s, "-._");
}

/* The end of the host, where `:PORT` can follow. */
static size_t host_end(struct span s)
{
	if (s.n == 0 || s.p[0] != '[')
		return span_chr(s, ':');
	size_t bracket = span_chr(s, ']');
	return bracket < s.n ? bracket + 1 : s.n;
}

bool image_host_ok(struct span s)
{
	size_t end = host_end(s);
	struct span host = span_to(s, end);
	bool ok = s.n > 0 && s.p[0] == '[' ? address_ok(host) : dns_name_ok(host);
	int64_t port;
	if (!ok || end == s.n)
		return ok;
	return s.p[end] == ':' && parse_i64(span_from(s, end + 1), 1, 65535, &port) == 0;
}

/* ---- the grammar ---- */

/* Length of a separator at the start of s: `.`, `_`, `__` or any number of `-`; else 0. */
static size_t separator(struct span s)
{
	if (s.n == 0)
		return 0;
	if (s.p[0] == '.')
		return 1;
	if (s.p[0] == '_')
		return s.n > 1 && s.p[1] == '_' ? 2 : 1;
	size_t n = 0;
	while (n < s.n && s.p[n] == '-')
		n++;
	return n;
}

/* [a-z0-9]+((\.|_|__|-+)[a-z0-9]+)* */
static bool component_ok(struct span s)
{
	for (;;) {
		size_t n = 0;
		while (n < s.n && (is_lower(s.p[n]) || is_digit(s.p[n])))
			n++;
		if (n == 0)
			return false;
		s = span_from(s, n);
		if (s.n == 0)
			return true;
		n = separator(s);
		if (n == 0)
			return false;
		s = span_from(s, n);
	}
}

static bool has_upper(struct span s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (is_upper(s.p[i]))
			return true;
	}
	return false;
}

/* The text before the first slash is a host, not a part of the repository. */
static bool is_host(struct span s)
{
	return span_chr(s, '.') < s.n || span_chr(s, ':') < s.n || span_is(s, "localhost") ||
	       has_upper(s);
}

/* Removes "HOST/" from the start of a name; *host is empty if there is none. */
static struct span cut_host(struct span name, struct span *host)
{
	size_t slash = span_chr(name, '/');
	*host = (struct span){ "", 0 };
	if (slash == name.n || !is_host(span_to(name, slash)))
		return name;
	*host = span_to(name, slash);
	return span_from(name, slash + 1);
}

static bool repository_ok(struct span s)
{
	struct span host;
	s = cut_host(s, &host);
	if (host.n && !image_host_ok(host))
		return false;
	for (;;) {
		size_t slash = span_chr(s, '/');
		if (!component_ok(span_to(s, slash)))
			return false;
		if (slash == s.n)
			return true;
		s = span_from(s, slash + 1);
	}
}

static bool image_tag_ok(struct span s)
{
	return s.n > 0 && s.n <= TAG_MAX && s.p[0] != '.' && s.p[0] != '-' && span_only(s, "_.-");
}

static bool digest_ok(struct span s)
{
	static const char ALGORITHM[] = "sha256:";
	if (!span_starts(s, ALGORITHM) || s.n != sizeof(ALGORITHM) - 1 + SHA256_DIGITS)
		return false;
	for (size_t i = sizeof(ALGORITHM) - 1; i < s.n; i++) {
		if (!is_digit(s.p[i]) && !(s.p[i] >= 'a' && s.p[i] <= 'f'))
			return false;
	}
	return true;
}

/* Offset of the colon before the tag, or s.n: the last one, if no slash follows. */
static size_t tag_colon(struct span s)
{
	for (size_t i = s.n; i > 0 && s.p[i - 1] != '/'; i--) {
		if (s.p[i - 1] == ':')
			return i - 1;
	}
	return s.n;
}

const char *image_problem(struct span name)
{
	static const char BAD[] =
	    "is not an image reference ([HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST])";
	if (name.n == 0)
		return "is empty; it must name a container image";
	if (name.n > IMAGE_MAX)
		return "is longer than 512 bytes";
	if (span_find(name, 0, "<%") != SIZE_MAX)
		return "is not an image reference: placeholders are not filled in here";
	size_t at = span_chr(name, '@');
	if (at < name.n && !digest_ok(span_from(name, at + 1)))
		return BAD;
	struct span rest = span_to(name, at);
	size_t colon = tag_colon(rest);
	if (colon < rest.n && !image_tag_ok(span_from(rest, colon + 1)))
		return BAD;
	return repository_ok(span_to(rest, colon)) ? NULL : BAD;
}

/* ---- the parts ---- */

static bool is_hub(struct span host)
{
	for (size_t i = 0; i < ARRAY_SIZE(HUB_NAMES); i++) {
		if (span_same(host, span_of(HUB_NAMES[i])))
			return true;
	}
	return false;
}

int image_parse(struct span name, struct arena *a, struct image *out)
{
	if (image_problem(name))
		return -1;
	size_t at = span_chr(name, '@');
	struct span rest = span_to(name, at);
	size_t colon = tag_colon(rest);
	struct span reference = SPAN("latest");
	if (at < name.n)
		reference = span_from(name, at + 1);
	else if (colon < rest.n)
		reference = span_from(rest, colon + 1);
	struct span host;
	struct span repository = cut_host(span_to(rest, colon), &host);
	bool hub = host.n == 0 || is_hub(host);
	bool official = hub && span_chr(repository, '/') == repository.n;
	*out = (struct image){
		.name = arena_dup(a, name),
		.host = hub ? HUB_API : arena_dup(a, host),
		.repository = arena_printf(a, "%s%.*s", official ? "library/" : "",
		                           (int)repository.n, repository.p),
		.reference = arena_dup(a, reference),
		.hub = hub,
	};
	return 0;
}

/* ---- logins ---- */

struct span image_default_registry(struct span name, struct arena *a)
{
	struct image i;
	if (image_parse(name, a, &i) || i.hub)
		return SPAN("https://index.docker.io/v1/");
	return span_of(i.host);
}

/* ---- refusals ---- */

static bool image_says(struct span message, const char *const *words)
{
	while (*words && span_find(message, 0, *words) == SIZE_MAX)
		words++;
	return *words;
}

bool image_is_refused(struct span message)
{
	/* The blanks in front keep names of images out. */
	static const char *const REFUSALS[] = {
		" not found",
		" manifest unknown",
		" name unknown",
		" not known to registry",
		" denied",
		" unauthorized",
		" Unauthorized",
		" authentication required",
		" no basic auth credentials",
		" invalid username/password",
		" invalid reference format",
		NULL,
	};
	/* Passing causes, and those of the node; each of several mirrors can have another one. */
	static const char *const OTHERS[] = {
		" 429",
		" toomanyrequests",
		" 500",
		" 502",
		" 503",
		" 504",
		" timeout",
		" context deadline",
		" no such host",
		" server misbehaving",
		" connection re",
		" permission denied",
		" executable file not found",
		" content digest",
		NULL,
	};
	return image_says(message, REFUSALS) && !image_says(message, OTHERS);
}
