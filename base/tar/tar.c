/* Writes the headers of entries: an extended one (pax) with all that ustar may cut, then its own.
 */
#include "base/tar/tar.h"

#include <assert.h>
#include <stdio.h>

#include "base/tar/tar_internal.h"

bool tar_path_ok(const char *path)
{
	enum { NAME = 255 };
	struct span rest = span_of(path);
	if (rest.n == 0 || rest.n > TAR_PATH || path[rest.n - 1] == '/')
		return false;
	for (size_t depth = 0; rest.n; depth++) {
		struct span part = span_next(&rest, '/');
		if (part.n == 0 || part.n > NAME || span_is(part, ".") || span_is(part, "..") ||
		    depth == TAR_DEPTH)
			return false;
	}
	return true;
}

/* A header; a size that does not fit is 0, as the extended header has it. */
static void tar_put_head(struct str *out, char type, struct span name, int64_t size, int64_t time_s)
{
	enum { BLANKS = 8, SIZE_MAX_OCTAL = 33 };
	struct tar_head head = { .magic = "ustar", .type = type };
	unsigned sum = 0;
	bool runs = type == '5' || type == '7';
	if (type == '7') /* a program */
		head.type = '0';
	memcpy(head.magic + 6, "00", 2);
	memcpy(head.name, name.p, name.n < sizeof(head.name) ? name.n : sizeof(head.name));
	(void)snprintf(head.mode, sizeof(head.mode), "%07o", runs ? 0755u : 0644u);
	(void)snprintf(head.user, sizeof(head.user), "%07o", 0u);
	(void)snprintf(head.group, sizeof(head.group), "%07o", 0u);
	(void)snprintf(head.size, sizeof(head.size), "%011llo",
	               size >> SIZE_MAX_OCTAL ? 0 : (unsigned long long)size);
	(void)snprintf(head.time, sizeof(head.time), "%011llo", (unsigned long long)time_s);
	memset(head.sum, ' ', BLANKS);
	for (size_t i = 0; i < sizeof(head); i++)
		sum += ((const unsigned char *)&head)[i];
	(void)snprintf(head.sum, sizeof(head.sum), "%06o", sum);
	str_put(out, (const char *)&head, sizeof(head));
}

/* "LENGTH KEY=VALUE\n", where the length counts itself. */
static void tar_put_record(struct str *out, const char *key, struct span value)
{
	char digits[24];
	size_t n = strlen(key) + value.n + 3; /* blank, = and LF */
	int all = snprintf(digits, sizeof(digits), "%zu", n);
	all = snprintf(digits, sizeof(digits), "%zu", n + (size_t)all);
	all = snprintf(digits, sizeof(digits), "%zu", n + (size_t)all);
	str_printf(out, "%s %s=", digits, key);
	str_span(out, value);
	str_char(out, '\n');
}

void tar_put_padding(struct str *out, int64_t size)
{
	static const char ZEROS[TAR_BLOCK];
	str_put(out, ZEROS, tar_padding(size));
}

static void tar_put_extended(struct str *out, char type, struct span records)
{
	tar_put_head(out, type, SPAN("rest-lit"), (int64_t)records.n, 0);
	str_span(out, records);
	tar_put_padding(out, (int64_t)records.n);
}

void tar_put_entry(struct str *out, const struct tar_entry *entry)
{
	STR_AUTO records = STR_INIT(TAR_RECORDS);
	char text[64];
	int64_t time_s = entry->time_ns / NS_OF_S;
	char type = '0';
	if (entry->kind == TAR_DIRECTORY)
		type = '5';
	else if (entry->executable)
		type = '7';
	assert(tar_path_ok(entry->path) && entry->size >= 0 && time_s >= 0 &&
	       time_s <= TAR_TIME_MAX);
	tar_put_record(&records, "path", span_of(entry->path));
	(void)snprintf(text, sizeof(text), "%lld", (long long)entry->size);
	tar_put_record(&records, "size", span_of(text));
	(void)snprintf(text, sizeof(text), "%lld.%09lld", (long long)time_s,
	               (long long)(entry->time_ns % NS_OF_S));
	tar_put_record(&records, "mtime", span_of(text));
	tar_put_extended(out, TAR_EXTENDED, str_view(&records));
	tar_put_head(out, type, span_of(entry->path), entry->size, time_s);
}

void tar_put_note(struct str *out, const char *text)
{
	STR_AUTO record = STR_INIT(TAR_NOTE_RECORD);
	assert(strlen(text) <= TAR_NOTE);
	tar_put_record(&record, "comment", span_of(text));
	tar_put_extended(out, TAR_GLOBAL, str_view(&record));
}

void tar_put_end(struct str *out)
{
	static const char ZEROS[TAR_END];
	str_put(out, ZEROS, sizeof(ZEROS));
}
