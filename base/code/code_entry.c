/* Checks the entries of an archive, and makes the one header that each of them has. */
#include <stdio.h>

#include "base/code/code_internal.h"
#include "base/enc.h"

enum { TARGET_MAX = sizeof(((struct ustar_head *)0)->target) };
int code_refuse(struct err *e, const char *path, const char *fmt, ...)
{
	char shown[4 * QUOTE_MAX];
	size_t n = path ? strlen(path) : 0;
	size_t from = n > QUOTE_MAX - 3 ? n - (QUOTE_MAX - 6) : 0; /* its end says more */
	va_list ap;
	va_start(ap, fmt);
	FREE_AUTO char *text = xvasprintf(fmt, ap);
	va_end(ap);
	if (!path)
		return err_set(e, 400, "InvalidCodeError", "the archive %s", text);
	return err_set(e, 400, "InvalidCodeError", "entry \"%s%s\": %s", from ? "..." : "",
	               quote(shown, span_of(path + from)), text);
}

int code_path_compare(const char *a, const char *b)
{
	for (; *a && *a == *b; a++)
		b++;
	int x = *a == '/' ? 1 : (unsigned char)*a;
	int y = *b == '/' ? 1 : (unsigned char)*b;
	return x - y;
}

/* The part of a link before the first name must not go above the top.  After a name there is no
 * `..`: the name can be that of a link. */
static bool code_target_stays(const char *path, struct span target)
{
	size_t depth = 0;
	bool named = false;
	for (; *path; path++)
		depth += *path == '/';
	while (target.n) {
		struct span part = span_next(&target, '/');
		bool up = span_is(part, "..");
		if (up && (named || depth-- == 0))
			return false;
		named = named || !(up || part.n == 0 || span_is(part, "."));
	}
	return true;
}

static bool code_text_ok(struct span text)
{
	return utf8_check(text) == text.n && utf8_plain(text);
}

int code_entry_check(const struct code_entry *entry, struct err *e)
{
	const char *path = entry->path;
	size_t n = strlen(path);
	char parts[CODE_PATH + 3];
	if (n == 0 || n > CODE_PATH)
		return code_refuse(e, path, "a path has 1 to %d bytes, this one %zu", CODE_PATH, n);
	if (!code_text_ok(span_of(path)))
		return code_refuse(e, path, "a path is UTF-8 without control characters");
	(void)snprintf(parts, sizeof(parts), "/%s/", path);
	if (strstr(parts, "//") || strstr(parts, "/./") || strstr(parts, "/../"))
		return code_refuse(e, path,
		                   "a path is relative, without \".\", \"..\" and empty parts");
	if (entry->kind != CODE_LINK)
		return 0;
	char shown[4 * QUOTE_MAX];
	struct span target = span_of(entry->target);
	(void)quote(shown, target);
	if (target.n == 0 || target.n > TARGET_MAX || !code_text_ok(target))
		return code_refuse(e, path,
		                   "the link to \"%s\": a target is UTF-8 without control "
		                   "characters, of 1 to %d bytes",
		                   shown, TARGET_MAX);
	if (*target.p == '/' || !code_target_stays(path, target))
		return code_refuse(e, path,
		                   "the link to \"%s\" leaves the directory: a target is relative, "
		                   "with \"..\" only at its beginning",
		                   shown);
	return 0;
}

int code_entry_next(struct code_last *last, const struct code_entry *entry, struct err *e)
{
	char shown[4 * QUOTE_MAX];
	const char *slash = strrchr(entry->path, '/');
	size_t above = slash ? (size_t)(slash - entry->path) : 0; /* bytes of its directory */
	if (code_entry_check(entry, e) < 0)
		return -1;
	if (code_path_compare(last->path, entry->path) >= 0)
		return code_refuse(e, entry->path,
		                   "it is after \"%s\": entries are sorted, each once",
		                   quote(shown, span_of(last->path)));
	/* All entries above the last one are directories. */
	char end = 'x';
	if (strncmp(last->path, entry->path, above) == 0)
		end = last->path[above];
	if (above && end != '/' && !(end == '\0' && last->kind == CODE_DIRECTORY))
		return code_refuse(e, entry->path,
		                   "the entry before it is neither its directory nor in it");
	last->kind = entry->kind;
	memcpy(last->path, entry->path, strlen(entry->path) + 1);
	return 0;
}

int code_header(struct ustar_head *head, const struct code_entry *entry, struct err *e)
{
	struct span name = span_of(entry->path);
	struct span prefix = span_to(name, 0);
	while (name.n > sizeof(head->name)) { /* the shortest prefix whose rest fits */
		size_t n = span_chr(name, '/');
		if (n == name.n)
			break;
		name = span_from(name, n + 1);
		prefix.n = (size_t)(name.p - 1 - prefix.p);
	}
	if (name.n > sizeof(head->name) || prefix.n > sizeof(head->prefix))
		return code_refuse(e, entry->path,
		                   "at most 155 bytes, a / and 100 bytes fit into a path");
	bool file = entry->kind == CODE_FILE;
	if (file && entry->size >> 33)
		return code_refuse(e, entry->path, "a file has less than 8 GiB");
	*head = (struct ustar_head){ .type = HEAD_TYPES[entry->kind] };
	memcpy(head->name, name.p, name.n);
	memcpy(head->prefix, prefix.p, prefix.n);
	if (entry->kind == CODE_LINK)
		memcpy(head->target, entry->target, strlen(entry->target));
	bool runs = file ? entry->executable : entry->kind == CODE_DIRECTORY;
	ustar_finish(head, runs, file ? entry->size : 0, 0);
	return 0;
}
