/* Names and references; see names.h. */
#include "translate/names.h"

#include "base/enc.h"
#include "translate/translate.h"

enum { USER_NAME_MAX = 63, TAG_MAX = 128, SHA256_DIGITS = 64 };

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_lower(char c)
{
	return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
	return c >= 'A' && c <= 'Z';
}

static bool is_alnum(char c)
{
	return is_lower(c) || is_upper(c) || is_digit(c);
}

static bool is_lower_alnum(char c)
{
	return is_lower(c) || is_digit(c);
}

static bool is_word(char c)
{
	return is_alnum(c) || c == '_';
}

/* Only letters, digits and the characters in `extra`. */
static bool only(struct span s, const char *extra)
{
	for (size_t i = 0; i < s.n; i++) {
		if (!is_alnum(s.p[i]) && (s.p[i] == '\0' || strchr(extra, s.p[i]) == NULL))
			return false;
	}
	return true;
}

static struct span span_from(struct span s, size_t start)
{
	return (struct span){ s.p + start, s.n - start };
}

static struct span span_to(struct span s, size_t end)
{
	return (struct span){ s.p, end };
}

/* Offset of the first c, or s.n. */
static size_t find(struct span s, char c)
{
	const char *p = s.n ? memchr(s.p, c, s.n) : NULL;
	return p ? (size_t)(p - s.p) : s.n;
}

/* ---- names ------------------------------------------------------------------------ */

/* Starts and ends with a letter or digit, `-_.` in between: users and label values. */
static bool label_shape_ok(struct span v)
{
	return v.n > 0 && v.n <= LABEL_MAX && is_alnum(v.p[0]) && is_alnum(v.p[v.n - 1]) &&
	       only(v, "-_.");
}

bool user_name_ok(struct span name)
{
	return name.n <= USER_NAME_MAX && label_shape_ok(name);
}

bool names_label_value_ok(struct span v)
{
	return label_shape_ok(v);
}

struct span names_job_id(struct arena *a, const char *user, struct span job)
{
	size_t n = strlen(user);
	char *p = arena_alloc(a, n + 1 + job.n + 1);
	memcpy(p, user, n);
	p[n] = '~';
	memcpy(p + n + 1, job.p, job.n);
	p[n + 1 + job.n] = '\0';
	return (struct span){ p, n + 1 + job.n };
}

const char *names_role_object(struct arena *a, struct span role)
{
	char *p = arena_alloc(a, role.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < role.n; i++) {
		char c = role.p[i];
		if (is_upper(c))
			c = (char)(c - 'A' + 'a');
		if (is_lower_alnum(c))
			p[n++] = c;
	}
	p[n] = '\0';
	return p;
}

const char *names_variable(struct arena *a, struct span name)
{
	char *p = arena_dup(a, name);
	for (size_t i = 0; i < name.n; i++) {
		if (!is_word(p[i]))
			p[i] = '_';
	}
	return p;
}

bool names_identifier_ok(struct span name)
{
	return name.n > 0 && !is_digit(name.p[0]) && only(name, "_");
}

/* A DNS label, as far as `-` is concerned; the length is checked by the caller. */
static bool dns_label_ok(struct span s)
{
	if (s.n == 0 || s.p[0] == '-' || s.p[s.n - 1] == '-')
		return false;
	for (size_t i = 0; i < s.n; i++) {
		if (!is_lower_alnum(s.p[i]) && s.p[i] != '-')
			return false;
	}
	return true;
}

bool names_storage_ok(struct span name)
{
	if (name.n > STORAGE_NAME_MAX)
		return false;
	for (;;) {
		size_t dot = find(name, '.');
		if (!dns_label_ok(span_to(name, dot)))
			return false;
		if (dot == name.n)
			return true;
		name = span_from(name, dot + 1);
	}
}

/* ---- images and registries ---------------------------------------------------------- */

/* HOST or HOST:PORT; letters of both cases. */
static bool host_ok(struct span s)
{
	size_t colon = find(s, ':');
	struct span host = span_to(s, colon);
	if (host.n == 0 || !is_alnum(host.p[0]) || !is_alnum(host.p[host.n - 1]) ||
	    !only(host, "-._"))
		return false;
	int64_t port;
	return colon == s.n || parse_i64(span_from(s, colon + 1), 1, 65535, &port) == 0;
}

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
		while (n < s.n && is_lower_alnum(s.p[n]))
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

/* The text before the first slash names a host and no repository. */
static bool is_host(struct span s)
{
	return find(s, '.') < s.n || find(s, ':') < s.n || span_is(s, "localhost") || has_upper(s);
}

static bool repository_ok(struct span s)
{
	size_t slash = find(s, '/');
	if (slash < s.n && is_host(span_to(s, slash))) {
		if (!host_ok(span_to(s, slash)))
			return false;
		s = span_from(s, slash + 1);
	}
	for (;;) {
		slash = find(s, '/');
		if (!component_ok(span_to(s, slash)))
			return false;
		if (slash == s.n)
			return true;
		s = span_from(s, slash + 1);
	}
}

static bool tag_ok(struct span s)
{
	return s.n > 0 && s.n <= TAG_MAX && s.p[0] != '.' && s.p[0] != '-' && only(s, "_.-");
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

const char *names_image_problem(struct span image)
{
	static const char BAD[] =
	    "is not an image reference ([HOST[:PORT]/]NAME[:TAG][@sha256:DIGEST])";
	if (image.n == 0)
		return "is empty; it must name a container image";
	if (image.n > IMAGE_MAX)
		return "is longer than 512 bytes";
	if (memmem(image.p, image.n, "<%", 2))
		return "is not an image reference: placeholders are not filled in here";
	size_t at = find(image, '@');
	if (at < image.n && !digest_ok(span_from(image, at + 1)))
		return BAD;
	struct span name = span_to(image, at);
	size_t colon = tag_colon(name);
	if (colon < name.n && !tag_ok(span_from(name, colon + 1)))
		return BAD;
	return repository_ok(span_to(name, colon)) ? NULL : BAD;
}

const char *names_registry_problem(struct span registry)
{
	static const char BAD[] =
	    "is not the address of a registry (HOST[:PORT][/PATH] or https://...)";
	static const char HTTPS[] = "https://";
	if (registry.n > REGISTRY_MAX)
		return "is longer than 512 bytes";
	if (span_starts(registry, HTTPS))
		registry = span_from(registry, sizeof(HTTPS) - 1);
	size_t slash = find(registry, '/');
	if (!host_ok(span_to(registry, slash)))
		return BAD;
	return only(span_from(registry, slash), "/-._~") ? NULL : BAD;
}

/* ---- mount paths -------------------------------------------------------------------- */

/* What a volume must not replace.  A `*` at the end stands for the rest of one component. */
static const char *const RESERVED[] = {
	"/usr/local/pai*", "/proc", "/sys", "/dev", "/etc", "/var/run", "/run", NULL,
};

/* Is one path equal to the other, above or below it?  `path` starts with a slash and has none
 * at its end. */
static bool path_overlaps(struct span path, const char *reserved)
{
	size_t i = 0;
	while (i < path.n && reserved[i] && path.p[i] == reserved[i])
		i++;
	if (reserved[i] == '*')
		return true;
	bool path_ends = i == path.n || path.p[i] == '/';
	bool reserved_ends = reserved[i] == '\0' || reserved[i] == '/';
	return (i == path.n && reserved_ends) || (reserved[i] == '\0' && path_ends);
}

struct span names_mount_path(struct span path)
{
	if (path.n > 1 && path.p[path.n - 1] == '/')
		path.n--;
	return path;
}

/* No `.`, `..` or empty component. */
static bool components_ok(struct span path)
{
	while (path.n) {
		path = span_from(path, 1);
		size_t n = find(path, '/');
		struct span one = span_to(path, n);
		if (one.n == 0 || span_is(one, ".") || span_is(one, ".."))
			return false;
		path = span_from(path, n);
	}
	return true;
}

static bool path_characters_ok(struct span path)
{
	for (size_t i = 0; i < path.n; i++) {
		char c = path.p[i];
		if (c < ' ' || c > '~' || strchr(":\\{$", c))
			return false;
	}
	return true;
}

const char *names_mount_path_problem(struct span path)
{
	if (path.n == 0 || path.p[0] != '/')
		return "must be an absolute path";
	if (path.n > MOUNT_PATH_MAX)
		return "is longer than 512 bytes";
	if (!path_characters_ok(path))
		return "must not contain control or non-ASCII characters, or any of : \\ { $";
	path = names_mount_path(path);
	if (path.n == 1)
		return "is reserved: the root directory cannot be replaced";
	if (!components_ok(path))
		return "must not contain empty components, `.` or `..`";
	for (const char *const *r = RESERVED; *r; r++) {
		if (path_overlaps(path, *r))
			return "is reserved: the system needs what is there";
	}
	return NULL;
}
