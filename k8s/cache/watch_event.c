#include "k8s/cache/watch_event.h"

enum { CODE_MAX = 999, TOKEN_MAX = 8192 };

/* clang-format off */
static const struct {
	const char *type;
	enum watch_what what;
} TYPES[] = {
	{ "ADDED",    WATCH_PUT },
	{ "MODIFIED", WATCH_PUT },
	{ "DELETED",  WATCH_GONE },
	{ "BOOKMARK", WATCH_BOOKMARK },
	{ "ERROR",    WATCH_ERROR },
};
/* clang-format on */

static enum watch_what what_of(struct span type, struct arena *a)
{
	struct span text = scan_text(type, a);
	for (size_t i = 0; i < sizeof(TYPES) / sizeof(TYPES[0]); i++) {
		if (span_is(text, TYPES[i].type))
			return TYPES[i].what;
	}
	return WATCH_NONE;
}

/* It goes into a URL as it is: what is no such text is none. */
static void read_version(struct span metadata, struct arena *a, char out[static VERSION_MAX])
{
	struct span text = scan_text(scan_get(metadata, "resourceVersion"), a);
	out[0] = '\0';
	if (text.n >= VERSION_MAX)
		return;
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];
		if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
		    c != '-' && c != '_' && c != '.')
			return;
	}
	memcpy(out, text.p, text.n);
	out[text.n] = '\0';
}

struct watch_event watch_event_read(struct span line)
{
	static const char *const KEYS[] = { "type", "object" };
	ARENA_AUTO arena = { 0 };
	struct span value[2];
	struct watch_event e = { .what = WATCH_NONE };
	scan_members(line, KEYS, value, 2);
	e.what = what_of(value[0], &arena);
	e.object = value[1];
	if (scan_type(e.object) != SCAN_OBJECT)
		e.what = WATCH_NONE;
	if (e.what == WATCH_ERROR) {
		(void)scan_int(scan_get(e.object, "code"), 0, CODE_MAX, &e.code); /* else 0 */
		return e;
	}
	struct span metadata = scan_get(e.object, "metadata");
	read_version(metadata, &arena, e.version);
	struct span end = scan_path(metadata, "annotations", "k8s.io/initial-events-end");
	e.initial_end = e.what == WATCH_BOOKMARK && span_is(scan_text(end, &arena), "true");
	return e;
}

struct span watch_stub(struct span object, struct arena *a)
{
	struct span metadata = scan_get(object, "metadata");
	/* Of an object that was cut, what looks like a value may be half of one. */
	if (scan_type(metadata) != SCAN_OBJECT || !scan_valid(metadata, SCAN_DEPTH_MAX))
		return (struct span){ NULL, 0 };
	return span_of(arena_printf(a, "{\"metadata\":%.*s,\"status\":\"too large\"}",
	                            (int)metadata.n, metadata.p));
}

struct watch_event watch_event_read_cut(struct span line, struct arena *a)
{
	struct watch_event e = { .what = WATCH_NONE };
	struct span object = watch_stub(scan_get(line, "object"), a);
	if (!object.p)
		return e;
	e.what = what_of(scan_get(line, "type"), a);
	e.object = object;
	read_version(scan_get(object, "metadata"), a, e.version);
	if (e.what != WATCH_PUT && e.what != WATCH_GONE)
		e.what = WATCH_NONE;
	return e;
}

bool list_page_read(struct span body, struct arena *a, struct list_page *out)
{
	static const char *const KEYS[] = { "items", "metadata" };
	struct span value[2];
	scan_members(body, KEYS, value, 2);
	enum scan_type items = scan_type(value[0]);
	/* null: what Go writes for none */
	if ((items != SCAN_ARRAY && items != SCAN_NULL) || scan_type(value[1]) != SCAN_OBJECT)
		return false;
	out->items = value[0];
	read_version(value[1], a, out->version);
	out->more = scan_text(scan_get(value[1], "continue"), a);
	return out->version[0] != '\0' && out->more.n <= TOKEN_MAX;
}

int64_t version_number(const char *version)
{
	int64_t n = 0;
	(void)parse_i64(span_of(version), 0, INT64_MAX, &n); /* else 0 */
	return n;
}

static void keep(struct watch_lines *l, struct span piece)
{
	size_t room = l->carry.max - l->carry.n;
	if (piece.n > room) {
		l->cut = true;
		piece.n = room;
	}
	str_span(&l->carry, piece);
}

static void end_line(struct watch_lines *l, struct span piece, watch_line *each, void *arg)
{
	bool whole = l->carry.n == 0 && piece.n <= l->carry.max;
	if (!whole)
		keep(l, piece);
	struct span line = whole ? piece : str_view(&l->carry);
	if (line.n > 0)
		each(arg, line, l->cut);
	watch_lines_clear(l);
}

void watch_lines_take(struct watch_lines *l, struct span bytes, watch_line *each, void *arg)
{
	while (bytes.n > 0) {
		const char *newline = memchr(bytes.p, '\n', bytes.n);
		if (!newline) {
			keep(l, bytes);
			return;
		}
		size_t n = (size_t)(newline - bytes.p);
		end_line(l, (struct span){ bytes.p, n }, each, arg);
		bytes = (struct span){ newline + 1, bytes.n - n - 1 };
	}
}

void watch_lines_clear(struct watch_lines *l)
{
	size_t max = l->carry.max;
	if (l->carry.n > 0)
		str_done(&l->carry);
	*l = WATCH_LINES_INIT(max);
}
