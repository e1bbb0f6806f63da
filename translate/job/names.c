/* Checks names, paths and values by the rules of Kubernetes, and makes valid names of others. */

#include "translate/job/names.h"

#include "base/enc.h"
#include "base/image/image.h"
#include "base/str.h"

/* Starts and ends with a letter or digit, `-_.` in between. */
bool names_label_value_ok(struct span v)
{
	return v.n > 0 && v.n <= LABEL_MAX && is_alnum(v.p[0]) && is_alnum(v.p[v.n - 1]) &&
	       span_only_alnum_or(v, "-_.");
}

bool user_name_ok(struct span name)
{
	return names_label_value_ok(name); /* the same form */
}

const char *names_role_object(struct arena *a, struct span role)
{
	char *p = arena_alloc(a, role.n + 1);
	p[span_lower_alnum(p, role)] = '\0';
	return p;
}

const char *names_variable(struct arena *a, struct span name)
{
	char *p = arena_dup(a, name);
	for (size_t i = 0; i < name.n; i++) {
		if (!is_alnum(p[i]))
			p[i] = '_';
	}
	return p;
}

bool names_identifier_ok(struct span name)
{
	return name.n > 0 && !is_digit(name.p[0]) && span_only_alnum_or(name, "_");
}

bool names_dns_label_ok(struct span s)
{
	for (size_t i = 0; i < s.n; i++) {
		bool inner = i > 0 && i + 1 < s.n;
		if (!is_lower_alnum(s.p[i]) && !(inner && s.p[i] == '-'))
			return false;
	}
	return s.n > 0;
}

bool names_storage_ok(struct span name)
{
	if (name.n > STORAGE_NAME_MAX)
		return false;
	for (;;) {
		size_t dot = span_chr(name, '.');
		if (!names_dns_label_ok(span_to(name, dot)))
			return false;
		if (dot == name.n)
			return true;
		name = span_from(name, dot + 1);
	}
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
	size_t slash = span_chr(registry, '/');
	if (!image_host_ok(span_to(registry, slash)))
		return BAD;
	return span_only_alnum_or(span_from(registry, slash), "/-._~") ? NULL : BAD;
}

struct span names_directory(struct arena *a, const struct node *server, const struct node *path)
{
	struct span dir = path ? node_span(path) : SPAN("");
	while (dir.n && dir.p[dir.n - 1] == '/')
		dir.n--;
	return server ? span_of(arena_printf(a, "nfs://%s%.*s", server->text, (int)dir.n, dir.p))
	              : dir;
}

struct span names_mount_path(struct span path)
{
	if (path.n > 1 && path.p[path.n - 1] == '/')
		path.n--;
	return path;
}

bool names_path_within(struct span path, struct span dir)
{
	return path.n >= dir.n && span_eq(span_to(path, dir.n), dir) &&
	       (path.n == dir.n || path.p[dir.n] == '/');
}

const char *names_path_problem(struct span path)
{
	if (path.n == 0 || path.p[0] != '/')
		return "must be an absolute path";
	if (path.n > MOUNT_PATH_MAX)
		return "is longer than 512 bytes";
	bool plain = utf8_plain(path);
	for (size_t i = 0; i < path.n && plain; i++)
		plain = !strchr(":\\{$", path.p[i]);
	if (!plain)
		return "must not contain control characters, marks of direction, or any of : \\ { "
		       "$";
	path = names_mount_path(path);
	for (size_t at = 1, n; path.n > 1 && at <= path.n; at += n + 1) {
		n = span_chr(span_from(path, at), '/');
		struct span one = { path.p + at, n };
		if (one.n == 0 || span_is(one, ".") || span_is(one, ".."))
			return "must not contain empty components, `.` or `..`";
	}
	return NULL;
}

const char *names_mount_path_problem(struct span path)
{
	/* Paths that a volume must not replace, nor those above and below them.  A `*` at the end
	 * stands for the rest of one component. */
	static const char *const RESERVED[] = { "/usr/local/pai*", "/proc", "/sys", "/dev", "/etc",
		                                "/var/run",        "/run" };
	const char *problem = names_path_problem(path);
	if (problem)
		return problem;
	path = names_mount_path(path);
	if (path.n == 1)
		return "is reserved: the root directory cannot be replaced";
	for (size_t r = 0; r < ARRAY_SIZE(RESERVED); r++) {
		const char *reserved = RESERVED[r];
		size_t i = 0;
		while (i < path.n && reserved[i] && reserved[i] != '*' && path.p[i] == reserved[i])
			i++;
		bool path_ends = i == path.n || path.p[i] == '/';
		bool reserved_ends = reserved[i] == '\0' || reserved[i] == '/';
		if (reserved[i] == '*' || (i == path.n && reserved_ends) ||
		    (reserved[i] == '\0' && path_ends))
			return "is reserved for the system";
	}
	return NULL;
}

/* Writes the escaped text to `out`, unless that is NULL.  Returns its length. */
static size_t kubernetes_put_escaped(char *out, struct span t)
{
	size_t size = 0;
	while (t.n) {
		size_t first = span_chr(t, '$');
		size_t end = first;
		while (end < t.n && t.p[end] == '$')
			end++;
		size_t n = end - first;
		size_t more = n > 1 || (end < t.n && t.p[end] == '(') ? n : 0;
		if (out) {
			memcpy(out + size, t.p, end);
			memset(out + size + end, '$', more);
		}
		size += end + more;
		t = span_from(t, end);
	}
	return size;
}

size_t kubernetes_escaped_size(struct span t)
{
	return kubernetes_put_escaped(NULL, t);
}

struct span kubernetes_escape(struct arena *a, struct span t)
{
	size_t size = kubernetes_escaped_size(t);
	if (size == t.n)
		return t;
	char *out = arena_alloc(a, size + 1);
	(void)kubernetes_put_escaped(out, t);
	out[size] = '\0';
	return (struct span){ out, size };
}

bool names_listed(const char *const *list, struct span name)
{
	while (*list && !span_is(name, *list))
		list++;
	return *list;
}

const char *arena_quoted(struct arena *a, struct span text)
{
	char shown[4 * QUOTE_MAX];
	return arena_dup(a, span_of(quote(shown, text)));
}
