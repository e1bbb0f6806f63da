/* Splits references of images into their parts, and finds the registry that each means. */
#include "base/image/image.h"

#include "base/str.h"

enum { TAG_MAX = 128, SHA256_DIGITS = 64, ADDRESS_MAX = 47 /* an IPv6 address in brackets */ };

static const char HUB_API[] = "registry-1.docker.io";
static const char *const HUB_NAMES[] = { "docker.io", "index.docker.io", HUB_API };

/* ---- hosts ---- */

bool image_host_ok(struct span s)
{
	bool address = s.n > 0 && s.p[0] == '[';
	size_t end = span_chr(s, address ? ']' : ':'); /* of the host, where `:PORT` can follow */
	end += address && end < s.n;
	struct span host = span_to(s, end);
	bool ok;
	if (address) {
		/* This only excludes dangerous characters, the resolver checks the address. */
		struct span inner = span_from(span_to(host, host.n - 1), 1);
		ok = host.n >= 4 && host.n <= ADDRESS_MAX && host.p[end - 1] == ']' &&
		     span_all(inner, "0-9A-Fa-f:.") && span_chr(inner, ':') < inner.n;
	} else {
		ok = host.n > 0 && is_alnum(host.p[0]) && is_alnum(host.p[end - 1]) &&
		     span_all(host, "A-Za-z0-9._-");
	}
	int64_t port;
	return ok && (end == s.n ||
	              (s.p[end] == ':' && parse_i64(span_from(s, end + 1), 1, 65535, &port) == 0));
}

/* ---- the grammar ---- */

/* [a-z0-9]+((\.|_|__|-+)[a-z0-9]+)* */
static bool component_ok(struct span s)
{
	for (size_t i = 0;;) {
		size_t end = span_skip_class(s, i, "a-z0-9");
		if (end == i || end == s.n)
			return end > i;
		if (s.p[end] == '-')
			i = span_skip_class(s, end, "-");
		else if (s.p[end] == '_')
			i = end + (span_starts(span_from(s, end), "__") ? 2 : 1);
		else if (s.p[end] == '.')
			i = end + 1;
		else
			return false;
	}
}

/* A name, split before it is checked: HOST/, PATH, :TAG and @DIGEST. */
struct image_parts {
	struct span host, path; /* the host without its slash, empty if there is none */
	struct span tag, digest;
};

static struct image_parts image_split(struct span name)
{
	size_t at = span_chr(name, '@');
	struct span rest = span_to(name, at);
	/* The last colon, if no slash follows. */
	size_t colon = rest.n;
	while (colon > 0 && rest.p[colon - 1] != ':' && rest.p[colon - 1] != '/')
		colon--;
	colon = colon > 0 && rest.p[colon - 1] == ':' ? colon - 1 : rest.n;
	struct image_parts parts = { .tag = span_from(rest, colon), .digest = span_from(name, at) };
	/* The text before the first slash can also be a part of the path. */
	parts.path = span_to(rest, colon);
	size_t slash = span_chr(parts.path, '/');
	struct span first = span_to(parts.path, slash);
	bool is_host = span_is(first, "localhost") || span_skip_class(first, 0, "^.:A-Z") < first.n;
	parts.host = SPAN("");
	if (is_host && slash < parts.path.n) {
		parts.host = first;
		parts.path = span_from(parts.path, slash + 1);
	}
	return parts;
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
	static const char ALGORITHM[] = "@sha256:";
	struct image_parts p = image_split(name);
	if (p.digest.n && (p.digest.n != sizeof(ALGORITHM) - 1 + SHA256_DIGITS ||
	                   !span_starts(p.digest, ALGORITHM) ||
	                   !span_all(span_from(p.digest, sizeof(ALGORITHM) - 1), "0-9a-f")))
		return BAD;
	if (p.tag.n && (p.tag.n == 1 || p.tag.n > 1 + TAG_MAX || class_has_char(p.tag.p[1], ".-") ||
	                !span_all(span_from(p.tag, 1), "A-Za-z0-9_.-")))
		return BAD;
	if (p.host.n && !image_host_ok(p.host))
		return BAD;
	for (bool more = true; more;) {
		more = span_chr(p.path, '/') < p.path.n;
		if (!component_ok(span_next(&p.path, '/')))
			return BAD;
	}
	return NULL;
}

/* ---- the parts ---- */

int image_parse(struct span name, struct arena *a, struct image *out)
{
	if (image_problem(name))
		return -1;
	struct image_parts p = image_split(name);
	struct span reference = p.digest.n ? p.digest : p.tag;
	bool hub = p.host.n == 0;
	for (size_t i = 0; i < ARRAY_SIZE(HUB_NAMES); i++)
		hub = hub || span_same(p.host, span_of(HUB_NAMES[i]));
	bool official = hub && span_chr(p.path, '/') == p.path.n;
	*out = (struct image){
		.host = hub ? HUB_API : arena_dup(a, p.host),
		.repository =
		    arena_printf(a, "%s%.*s", official ? "library/" : "", (int)p.path.n, p.path.p),
		.reference = reference.n ? arena_dup(a, span_from(reference, 1)) : "latest",
		.hub = hub,
	};
	return 0;
}

/* ---- refusals ---- */

static bool message_has_one_of(struct span message, const char *const *words)
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
	return message_has_one_of(message, REFUSALS) && !message_has_one_of(message, OTHERS);
}

const char *image_pull_policy(struct span image)
{
	struct image_parts p = image_split(image);
	bool latest = p.tag.n == 0 || span_is(p.tag, ":latest");
	return p.digest.n == 0 && latest ? "Always" : "IfNotPresent";
}
