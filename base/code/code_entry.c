#include <stdlib.h>

#include "base/code/code_internal.h"
#include "base/enc.h"

enum { TARGET_MAX = 100, SIZE_DIGITS = 11 };
/* All bytes of a header.  The checksum is last: it differs where another field does. */
static const struct {
	const char *name;
	size_t at, n;
} FIELDS[] = {
	{ "name", HEAD_NAME, HEAD_NAME_SIZE },
	{ "mode", HEAD_MODE, 8 },
	{ "owner", 108, 8 },
	{ "group", 116, 8 },
	{ "size", HEAD_SIZE, 12 },
	{ "time", 136, 12 },
	{ "type", HEAD_TYPE, 1 },
	{ "target", HEAD_TARGET, 100 },
	{ "format", HEAD_MAGIC, 8 },
	{ "owner's name", 265, 32 },
	{ "group's name", 297, 32 },
	{ "device", 329, 16 },
	{ "prefix", HEAD_PREFIX, HEAD_PREFIX_SIZE },
	{ "padding", 500, 12 },
	{ "checksum", 148, 8 },
};

int code_refuse(struct err *e, const char *path, const char *fmt, ...)
{
	char shown[4 * QUOTE_MAX];
	size_t n = strlen(path); /* the end of a long path says more than its beginning */
	size_t from = n > QUOTE_MAX - 3 ? n - (QUOTE_MAX - 6) : 0;
	va_list ap;
	va_start(ap, fmt);
	FREE_AUTO char *text = xvasprintf(fmt, ap);
	va_end(ap);
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

static int code_entry_check(const struct code_entry *entry, struct err *e)
{
	const char *path = entry->path;
	struct span rest = span_of(path);
	if (rest.n == 0 || rest.n > CODE_PATH)
		return code_refuse(e, path, "a path has 1 to %d bytes, this one %zu", CODE_PATH,
		                   rest.n);
	if (!code_text_ok(rest))
		return code_refuse(e, path, "a path is UTF-8 without control characters");
	if (*path == '/')
		return code_refuse(e, path, "a path is relative");
	for (bool more = true; more;) {
		struct span part = span_to(rest, span_chr(rest, '/'));
		more = part.n < rest.n;
		if (part.n == 0 || span_is(part, ".") || span_is(part, ".."))
			return code_refuse(e, path,
			                   "a path has no empty part, no \".\" and \"..\"");
		rest = span_from(rest, part.n + more);
	}
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
	int order = code_path_compare(last->path, entry->path);
	(void)quote(shown, span_of(last->path));
	if (order == 0)
		return code_refuse(e, entry->path, "it is there twice");
	if (order > 0)
		return code_refuse(e, entry->path, "it comes after \"%s\", and must be before it",
		                   shown);
	/* All entries above the last one are directories. */
	bool same = strncmp(last->path, entry->path, above) == 0;
	if (above && same && last->path[above] == '\0' && last->kind != CODE_DIRECTORY)
		return code_refuse(e, entry->path, "it is below \"%s\", which is no directory",
		                   shown);
	if (above && !(same && (last->path[above] == '\0' || last->path[above] == '/')))
		return code_refuse(e, entry->path, "its directory is not an entry before it");
	last->kind = entry->kind;
	memcpy(last->path, entry->path, strlen(entry->path) + 1);
	return 0;
}

/* Octal digits and NUL. */
static void code_number(char *at, int digits, uint64_t v)
{
	for (at[digits] = '\0'; digits > 0; v >>= 3)
		at[--digits] = (char)('0' + (v & 7));
}

int code_header(char block[static CODE_BLOCK], const struct code_entry *entry, struct err *e)
{
	enum { DIGITS = 7, SUM_AT = 148, SUM_DIGITS = 6 };
	static const char MAGIC[8] = { 'u', 's', 't', 'a', 'r', '\0', '0', '0' };
	struct span name = span_of(entry->path);
	struct span prefix = span_to(name, 0);
	memset(block, 0, CODE_BLOCK);
	while (name.n > HEAD_NAME_SIZE) { /* the shortest prefix that leaves a name that fits */
		size_t n = span_chr(name, '/');
		if (n == name.n)
			break;
		name = span_from(name, n + 1);
		prefix.n = (size_t)(name.p - 1 - prefix.p);
	}
	if (name.n > HEAD_NAME_SIZE || prefix.n > HEAD_PREFIX_SIZE)
		return code_refuse(e, entry->path,
		                   "at most 155 bytes, a / and 100 bytes fit into a path");
	if (entry->size >> 3 * SIZE_DIGITS)
		return code_refuse(e, entry->path, "a file has less than 8 GiB");
	memcpy(block + HEAD_NAME, name.p, name.n);
	memcpy(block + HEAD_PREFIX, prefix.p, prefix.n);
	bool runs =
	    entry->kind == CODE_DIRECTORY || (entry->kind == CODE_FILE && entry->executable);
	code_number(block + HEAD_MODE, DIGITS, runs ? 0755 : 0644);
	code_number(block + 108, DIGITS, 0);
	code_number(block + 116, DIGITS, 0);
	code_number(block + HEAD_SIZE, SIZE_DIGITS,
	            entry->kind == CODE_FILE ? (uint64_t)entry->size : 0);
	code_number(block + 136, SIZE_DIGITS, 0);
	block[HEAD_TYPE] = HEAD_TYPES[entry->kind];
	if (entry->kind == CODE_LINK)
		memcpy(block + HEAD_TARGET, entry->target, strlen(entry->target));
	memcpy(block + HEAD_MAGIC, MAGIC, sizeof(MAGIC));
	unsigned sum = 8 * ' '; /* its own field counts as blanks */
	for (size_t i = 0; i < CODE_BLOCK; i++)
		sum += (unsigned char)block[i];
	code_number(block + SUM_AT, SUM_DIGITS, sum);
	block[SUM_AT + DIGITS] = ' ';
	return 0;
}

int code_header_differs(struct err *e, const char *path, const char *is, const char *wanted)
{
	char shown[4 * QUOTE_MAX];
	char other[4 * QUOTE_MAX];
	size_t i = 0;
	while (memcmp(is + FIELDS[i].at, wanted + FIELDS[i].at, FIELDS[i].n) == 0)
		i++; /* to the checksum at most: something differs */
	size_t at = FIELDS[i].at;
	struct span found = { is + at, strnlen(is + at, FIELDS[i].n) };
	struct span right = { wanted + at, strnlen(wanted + at, FIELDS[i].n) };
	if (span_eq(found, right))
		return code_refuse(e, path, "after its %s there are other bytes than zeros",
		                   FIELDS[i].name);
	return code_refuse(e, path, "its %s is \"%s\", rest-lit writes \"%s\"", FIELDS[i].name,
	                   quote(shown, found), quote(other, right));
}
