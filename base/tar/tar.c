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
static void tar_put_head(struct str *out, char type, const struct tar_entry *entry)
{
	enum { SIZE_BITS = 33 };
	struct ustar_head head = { .type = type };
	size_t n = strlen(entry->path);
	memcpy(head.name, entry->path, n < sizeof(head.name) ? n : sizeof(head.name));
	ustar_finish(&head, entry->kind == TAR_DIRECTORY || entry->executable,
	             entry->size >> SIZE_BITS ? 0 : entry->size, entry->time_ns / NS_OF_S);
	str_put(out, (const char *)&head, sizeof(head));
}

/* "LENGTH KEY=VALUE\n", where the length counts itself. */
static void tar_put_record(struct str *out, const char *key, const char *value)
{
	int n = (int)(strlen(key) + strlen(value)) + 3; /* blank, = and LF */
	n += snprintf(NULL, 0, "%d", n + snprintf(NULL, 0, "%d", n));
	str_printf(out, "%d %s=%s\n", n, key, value);
}

void tar_put_padding(struct str *out, int64_t size)
{
	str_put(out, USTAR_ZEROS, ustar_padding(size));
}

static void tar_put_extended(struct str *out, char type, struct span records)
{
	const struct tar_entry entry = { .path = "rest-lit", .size = (int64_t)records.n };
	tar_put_head(out, type, &entry);
	str_span(out, records);
	tar_put_padding(out, (int64_t)records.n);
}

void tar_put_entry(struct str *out, const struct tar_entry *entry)
{
	STR_AUTO records = STR_INIT(TAR_RECORDS);
	char text[64];
	int64_t time_s = entry->time_ns / NS_OF_S;
	assert(tar_path_ok(entry->path) && entry->size >= 0 && time_s >= 0 &&
	       time_s <= TAR_TIME_MAX);
	tar_put_record(&records, "path", entry->path);
	(void)snprintf(text, sizeof(text), "%lld", (long long)entry->size);
	tar_put_record(&records, "size", text);
	(void)snprintf(text, sizeof(text), "%lld.%09lld", (long long)time_s,
	               (long long)(entry->time_ns % NS_OF_S));
	tar_put_record(&records, "mtime", text);
	tar_put_extended(out, TAR_EXTENDED, str_view(&records));
	tar_put_head(out, entry->kind == TAR_DIRECTORY ? '5' : '0', entry);
}

void tar_put_note(struct str *out, const char *text)
{
	STR_AUTO record = STR_INIT(TAR_NOTE_RECORD);
	assert(strlen(text) <= TAR_NOTE);
	tar_put_record(&record, "comment", text);
	tar_put_extended(out, TAR_GLOBAL, str_view(&record));
}

void tar_put_end(struct str *out)
{
	str_put(out, USTAR_ZEROS, sizeof(USTAR_ZEROS));
}
