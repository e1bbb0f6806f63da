/* Cuts the bytes of LIST and WATCH into objects, and decides which request a reflector sends next,
 * and when. */
#include "k8s/watch/watch_internal.h"

#include "base/enc.h"
#include "jobs/store/paths.h"

enum {
	CODE_MAX = 999,
	TOKEN_MAX = 8192,
	CARRY_KEPT = 64 << 10, /* bytes that stay allocated between lines */
	REST_MS = 20,          /* see reflect_rest_ms */
};

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

static enum watch_what watch_event_type(struct span type, struct arena *a)
{
	struct span text = scan_text(type, a);
	for (size_t i = 0; i < ARRAY_SIZE(TYPES); i++) {
		if (span_is(text, TYPES[i].type))
			return TYPES[i].what;
	}
	return WATCH_NONE;
}

/* The version is not escaped in URLs, so other characters are refused. */
static void watch_read_version(struct span metadata, struct arena *a, char out[static VERSION_MAX])
{
	struct span text = scan_text(scan_get(metadata, "resourceVersion"), a);
	out[0] = '\0';
	if (text.n >= VERSION_MAX || !span_only_alnum_or(text, "-_."))
		return;
	memcpy(out, text.p, text.n);
	out[text.n] = '\0';
}

/* The members of an event.  The API server writes the object last; its end is then that of the
 * line, and is not searched. */
static void watch_read_members(struct span line, struct span *type, struct span *object)
{
	struct scan s = scan_begin(line);
	struct span key;
	struct span value;
	*type = *object = (struct span){ NULL, 0 };
	while (scan_key(&s, &key)) {
		bool is_object = span_is(key, "object");
		if (is_object && type->p && !object->p && s.end[-1] == '}') {
			*object = (struct span){ s.p, (size_t)(s.end - s.p) - 1 };
			return;
		}
		if (!scan_value(&s, &value))
			return;
		struct span *member = is_object ? object : span_is(key, "type") ? type : NULL;
		if (member && !member->p)
			*member = value;
	}
}

struct watch_event watch_event_read(struct span line)
{
	ARENA_AUTO arena = { 0 };
	struct span type;
	struct watch_event e = { .what = WATCH_NONE };
	watch_read_members(line, &type, &e.object);
	e.what = watch_event_type(type, &arena);
	if (scan_type(e.object) != SCAN_OBJECT)
		e.what = WATCH_NONE;
	if (e.what == WATCH_ERROR) {
		(void)scan_int(scan_get(e.object, "code"), 0, CODE_MAX, &e.code); /* else 0 */
		return e;
	}
	struct span metadata = scan_inside(e.object, "metadata");
	watch_read_version(metadata, &arena, e.version);
	if (e.what == WATCH_BOOKMARK) {
		struct span end = scan_path(metadata, "annotations", "k8s.io/initial-events-end");
		e.initial_end = span_is(scan_text(end, &arena), "true");
	}
	return e;
}

struct span watch_stub(struct span object, struct arena *a)
{
	struct span metadata = scan_get(object, "metadata");
	/* The metadata of a cut object can be incomplete. */
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
	e.what = watch_event_type(scan_get(line, "type"), a);
	e.object = object;
	watch_read_version(scan_get(object, "metadata"), a, e.version);
	if (e.what != WATCH_PUT && e.what != WATCH_GONE)
		e.what = WATCH_NONE;
	return e;
}

int64_t version_number(const char *version)
{
	int64_t n = 0;
	(void)parse_i64(span_of(version), 0, INT64_MAX, &n); /* else 0 */
	return n;
}

static void watch_keep(struct watch_lines *l, struct span piece)
{
	size_t room = l->carry.max - l->carry.n;
	if (piece.n > room) {
		l->cut = true;
		piece.n = room;
	}
	str_span(&l->carry, piece);
}

static void watch_end_line(struct watch_lines *l, struct span piece, watch_line *each, void *arg)
{
	bool whole = l->carry.n == 0 && piece.n <= l->carry.max;
	if (!whole)
		watch_keep(l, piece);
	struct span line = whole ? piece : str_view(&l->carry);
	if (line.n > 0)
		each(arg, line, l->cut);
	if (l->carry.cap > CARRY_KEPT)
		watch_lines_clear(l);
	l->carry.n = 0;
	l->cut = false;
}

void watch_lines_take(struct watch_lines *l, struct span bytes, watch_line *each, void *arg)
{
	while (bytes.n > 0) {
		const char *newline = memchr(bytes.p, '\n', bytes.n);
		if (!newline) {
			watch_keep(l, bytes);
			return;
		}
		size_t n = (size_t)(newline - bytes.p);
		watch_end_line(l, (struct span){ bytes.p, n }, each, arg);
		bytes = (struct span){ newline + 1, bytes.n - n - 1 };
	}
}

void watch_lines_clear(struct watch_lines *l)
{
	size_t max = l->carry.max;
	str_done(&l->carry);
	*l = WATCH_LINES_INIT(max);
}

/* ---- a page of a LIST ------------------------------------------------------------------------ */

/* The brackets and separators that may come at each place, and the places after them. */
static const struct {
	char c;
	enum list_place next;
} LIST_MARKS[LIST_PLACES][2] = {
	[LIST_OPEN] = { { '{', LIST_FIRST_KEY } },
	[LIST_FIRST_KEY] = { { '}', LIST_WHOLE } },
	[LIST_COLON] = { { ':', LIST_VALUE } },
	[LIST_COMMA] = { { ',', LIST_KEY }, { '}', LIST_WHOLE } },
	[LIST_FIRST_ITEM] = { { ']', LIST_COMMA } },
	[LIST_ITEM_COMMA] = { { ',', LIST_ITEM }, { ']', LIST_COMMA } },
};
/* The places where a value may come, and those after it. */
static const enum list_place LIST_NEXT[LIST_PLACES] = {
	[LIST_FIRST_KEY] = LIST_COLON, [LIST_KEY] = LIST_COLON,
	[LIST_VALUE] = LIST_COMMA,     [LIST_FIRST_ITEM] = LIST_ITEM_COMMA,
	[LIST_ITEM] = LIST_ITEM_COMMA,
};

enum { LIST_ITEMS, LIST_METADATA, LIST_KEYS };

/* Each of the two comes once. */
static bool list_key(struct list_lines *l, struct span value)
{
	static const char *const KEYS[LIST_KEYS] = { "items", "metadata" };
	if (scan_type(value) != SCAN_STRING)
		return false;
	l->key = scan_which((struct span){ value.p + 1, value.n - 2 }, KEYS, LIST_KEYS);
	if (l->key == LIST_KEYS)
		return true;
	bool *seen = l->key == LIST_ITEMS ? &l->items : &l->metadata;
	bool first = !*seen;
	*seen = true;
	return first;
}

static bool list_member(struct list_lines *l, struct span value)
{
	if (l->key == LIST_ITEMS)
		return scan_type(value) == SCAN_NULL; /* Go writes an empty list so */
	if (l->key != LIST_METADATA)
		return true;
	if (scan_type(value) != SCAN_OBJECT)
		return false;
	watch_read_version(value, &l->arena, l->page.version);
	struct span more = scan_text(scan_get(value, "continue"), &l->arena);
	l->page.more = arena_span(&l->arena, more);
	return l->page.version[0] != '\0' && more.n <= TOKEN_MAX;
}

static void list_value(void *arg, struct span value, bool cut)
{
	struct list_lines *l = arg;
	bool item = l->place == LIST_ITEM || l->place == LIST_FIRST_ITEM;
	bool ok = cut ? item : scan_valid(value, SCAN_DEPTH_MAX);
	if (ok && item)
		l->each(l->arg, value, cut);
	else if (ok)
		ok = l->place == LIST_VALUE ? list_member(l, value) : list_key(l, value);
	l->place = ok ? LIST_NEXT[l->place] : LIST_BAD;
}

/* A byte outside of values.  0: a value begins there, or the text is not a list. */
static size_t list_take_mark(struct list_lines *l, char c)
{
	if (c == ' ' || c == '\n' || c == '\r' || c == '\t')
		return 1;
	if (l->place == LIST_VALUE && l->key == LIST_ITEMS && c == '[') {
		l->place = LIST_FIRST_ITEM;
		return 1;
	}
	for (size_t i = 0; i < 2; i++) {
		if (c && c == LIST_MARKS[l->place][i].c) {
			l->place = LIST_MARKS[l->place][i].next;
			return 1;
		}
	}
	l->inside = LIST_NEXT[l->place] != LIST_OPEN;
	if (!l->inside)
		l->place = LIST_BAD;
	return 0;
}

static size_t list_take_value(struct list_lines *l, struct span bytes)
{
	bytes.n = scan_tail(&l->tail, bytes);
	if (!l->tail.ended) {
		watch_keep(&l->value, bytes);
		return bytes.n;
	}
	if (bytes.n == 0 && l->value.carry.n == 0)
		l->place = LIST_BAD; /* a separator */
	l->inside = false;
	l->tail = (struct scan_tail){ 0 };
	watch_end_line(&l->value, bytes, list_value, l);
	return bytes.n;
}

/* Values are searched for their end only, marks one by one. */
bool list_lines_take(struct list_lines *l, struct span bytes)
{
	while (bytes.n > 0 && l->place != LIST_BAD)
		bytes = span_from(bytes, l->inside ? list_take_value(l, bytes)
		                                   : list_take_mark(l, *bytes.p));
	return l->place != LIST_BAD;
}

/* A page without one of its two members is not whole. */
const struct list_page *list_lines_end(const struct list_lines *l)
{
	return l->place == LIST_WHOLE && l->items && l->metadata ? &l->page : NULL;
}

void list_lines_init(struct list_lines *l, size_t max, watch_line *each, void *arg)
{
	*l = (struct list_lines){ .value = WATCH_LINES_INIT(max), .each = each, .arg = arg };
}

void list_lines_done(struct list_lines *l)
{
	watch_lines_clear(&l->value);
	arena_done(&l->arena);
}

/* ---- the next request ------------------------------------------------------------------------ */

enum {
	DOUBLINGS_MAX = 6,
	AWAY_MAX = 4, /* limit of failures while it cannot be reached: trying is cheap, and
	               * clients see old data meanwhile */
};

enum reflect_ask reflect_ask(const struct reflect *s)
{
	if (s->version[0])
		return ASK_WATCH;
	return s->lists_only ? ASK_LIST : ASK_STREAM;
}

void reflect_query(const struct reflect *s, const char *selector, unsigned watch_s, struct str *out)
{
	enum reflect_ask ask = reflect_ask(s);
	if (ask == ASK_LIST)
		str_printf(out, "limit=%zu", s->limit);
	else
		str_printf(out, "watch=true&allowWatchBookmarks=true&timeoutSeconds=%u", watch_s);
	if (ask == ASK_STREAM)
		str_puts(out, "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
	if (ask == ASK_WATCH)
		str_printf(out, "&resourceVersion=%s", s->version);
	if (ask == ASK_LIST && s->more.n > 0) {
		str_puts(out, "&continue=");
		query_encode(out, str_view(&s->more));
	}
	if (selector)
		str_printf(out, "&%s", selector);
}

static void reflect_set_token(struct reflect *s, struct span token)
{
	str_done(&s->more);
	s->more = STR_INIT(REFLECT_TOKEN_MAX);
	str_span(&s->more, token);
}

static void watch_begin_anew(struct reflect *s)
{
	s->version[0] = '\0';
	s->limit = s->page;
	reflect_set_token(s, (struct span){ "", 0 });
}

void reflect_note_version(struct reflect *s, const char *version)
{
	if (version[0])
		memcpy(s->version, version, strlen(version) + 1);
	s->failures = 0;
}

bool reflect_page(struct reflect *s, const struct list_page *page)
{
	reflect_set_token(s, page->more);
	s->failures = 0;
	if (page->more.n > 0)
		return false;
	watch_begin_anew(s);
	reflect_note_version(s, page->version);
	return true;
}

int64_t reflect_rest_ms(struct reflect *s, int64_t now_ms)
{
	if (!s->events)
		return 0;
	bool quick = now_ms - s->events_ms <= (int64_t)2 * REST_MS;
	s->events = false;
	s->events_ms = now_ms;
	return quick ? REST_MS : 0;
}

enum reflect_fault reflect_status(enum reflect_ask asked, int64_t status)
{
	if (status == 410)
		return FAULT_EXPIRED;
	if (asked == ASK_STREAM && (status == 422 || status == 400))
		return FAULT_NO_STREAM;
	if (status == 413)
		return FAULT_TOO_LARGE;
	if (status == 401 || status == 403 || status == 429 || status == 502 || status == 503)
		return FAULT_LATER;
	return FAULT_REFUSED;
}

int64_t reflect_pause_ms(unsigned failures, int retry_after_s)
{
	unsigned doublings = failures > 0 ? failures - 1 : 0;
	int64_t ms = doublings < DOUBLINGS_MAX ? (int64_t)REFLECT_PAUSE_MS << doublings
	                                       : REFLECT_PAUSE_MAX_MS;
	int64_t least = (int64_t)retry_after_s * 1000;
	uint16_t noise;
	random_bytes(&noise, sizeof(noise));
	if (ms > REFLECT_PAUSE_MAX_MS * 4 / 5)
		ms = REFLECT_PAUSE_MAX_MS * 4 / 5; /* with the jitter, at most the maximum */
	ms += (int64_t)noise % (ms / 2) - ms / 4;
	if (least > REFLECT_PAUSE_MAX_MS)
		least = REFLECT_PAUSE_MAX_MS;
	return ms > least ? ms : least;
}

/* Lists are expensive.  If no watch lasts after a list, the lists are spaced as if they had
 * failed. */
static void reflect_list_anew(struct reflect *s)
{
	watch_begin_anew(s);
	if (s->failures < s->lists)
		s->failures = s->lists;
	if (s->lists < UINT32_MAX)
		s->lists++;
}

int64_t reflect_end(struct reflect *s, enum reflect_fault fault, int retry_after_s)
{
	bool at_once = false;
	switch (fault) {
	case FAULT_NONE:
		s->failures = 0;
		return 0;
	case FAULT_NO_STREAM:
		s->lists_only = true;
		return 0;
	case FAULT_EXPIRED:
		/* The API server has answered: earlier failures do not count. */
		at_once = s->lists == 0;
		s->failures = 0;
		reflect_list_anew(s);
		break;
	case FAULT_AWAY:
		if (s->failures >= AWAY_MAX)
			s->failures = AWAY_MAX - 1;
		break;
	case FAULT_TOO_LARGE:
		at_once = s->limit > 1;
		s->limit = at_once ? s->limit / 2 : 1;
		if (at_once)
			return 0;
		break;
	case FAULT_REFUSED:
		reflect_list_anew(s);
		break;
	case FAULT_LATER:
	case FAULT_MAX:
		break;
	}
	if (s->failures < UINT32_MAX)
		s->failures++;
	return at_once ? 0 : reflect_pause_ms(s->failures, retry_after_s);
}
