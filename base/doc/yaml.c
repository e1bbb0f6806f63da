/*
 * Builds a tree from the events of libyaml, which has no budgets, duplicate keys, aliases and
 * types. yaml_parser_load is not used: it recurses, and is quadratic on deep input.
 */
#include "base/doc/yaml.h"

#include <search.h>
#include <stdlib.h>

#include "base/doc/yaml_internal.h"
#include "base/enc.h"

static bool yaml_is_continuation(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* Counts from the last position, in either direction: successive positions are near. */
size_t yaml_byte(struct yaml_reader *y, const yaml_mark_t *m)
{
	if (y->ascii)
		return m->index < y->text.n ? m->index : y->text.n;
	for (; y->chars > m->index; y->chars--) {
		y->bytes--;
		while (yaml_is_continuation(y->text.p[y->bytes]))
			y->bytes--;
	}
	for (; y->chars < m->index && y->bytes < y->text.n; y->chars++) {
		y->bytes++;
		while (y->bytes < y->text.n && yaml_is_continuation(y->text.p[y->bytes]))
			y->bytes++;
	}
	return y->bytes;
}

struct place yaml_place(const struct yaml_reader *y, const yaml_event_t *ev)
{
	return build_place(&y->b, mark_line(&ev->start_mark), mark_column(&ev->start_mark));
}

/* ---- anchors: a tree of struct anchor, by name ---- */

/* The value of `&name`, as far as it is read. */
struct anchor {
	struct span name;
	struct node node;
	size_t nodes, text; /* its cost; while it is open, the budget spent before it */
	uint32_t height;    /* levels of containers in it */
	bool open;          /* being read: an alias to it is a cycle */
};

static int compare_anchors(const void *x, const void *y)
{
	const struct anchor *a = x;
	const struct anchor *b = y;
	if (a->name.n != b->name.n)
		return a->name.n < b->name.n ? -1 : 1;
	return memcmp(a->name.p, b->name.p, a->name.n);
}

/* `&a:b`: readers disagree on the end of the name. */
static void check_anchor_end(struct yaml_reader *y, size_t name_n)
{
	const yaml_event_t *ev = &y->event;
	size_t i = yaml_byte(y, &ev->start_mark);
	size_t end = y->text.n;
	if (i < end && y->text.p[i] == '!')
		i = span_skip_class(y->text, span_skip_class(y->text, i, "^ \t\r\n"), " \t");
	if (i >= end || y->text.p[i] != '&' || i + 1 + name_n >= end)
		return;
	if (class_has_char(y->text.p[i + 1 + name_n], ":?%@`"))
		notes_add(
		    y->warnings, yaml_place(y, ev),
		    "the name of this anchor ends before the `%c` here, but not elsewhere; put "
		    "a blank behind it, or quotes around the text",
		    y->text.p[i + 1 + name_n]);
}

/* A new, open anchor, which replaces an older one of its name. */
static struct anchor *anchor_new(struct yaml_reader *y, const yaml_char_t *name)
{
	/* The old anchor can be in use, so it is not changed. */
	struct anchor *a = ARENA_NEW(y->b.arena, struct anchor, 1);
	a->name = arena_span(y->b.arena, span_of((const char *)name));
	(void)tdelete(a, &y->anchors, compare_anchors);
	if (tsearch(a, &y->anchors, compare_anchors) == NULL)
		abort();
	check_anchor_end(y, a->name.n);
	a->open = true;
	a->nodes = y->b.nodes;
	a->text = y->b.text;
	return a;
}

/* NULL if the value has none. */
static inline struct anchor *anchor_begin(struct yaml_reader *y, const yaml_char_t *name)
{
	return name ? anchor_new(y, name) : NULL;
}

/* The value is complete, with `height` levels of containers.  The anchor can be NULL. */
static void anchor_end(struct yaml_reader *y, struct anchor *a, struct node *n, uint32_t height)
{
	if (a == NULL)
		return;
	n->flags |= NODE_SHARED | NODE_SHARES;
	a->node = *n;
	a->height = height;
	a->nodes = y->b.nodes - a->nodes;
	a->text = y->b.text - a->text;
	a->open = false;
}

/* The anchor of an alias, charged to the budget; NULL and the error if it is refused. */
static const struct anchor *alias_find(struct yaml_reader *y, const yaml_event_t *ev)
{
	const char *name = (const char *)ev->data.alias.anchor;
	struct anchor key = { .name = span_of(name) };
	struct anchor *const *found = tfind(&key, &y->anchors, compare_anchors);
	const struct anchor *a = found ? *found : NULL;
	const struct build_frame *f = build_top(&y->b);
	struct place at = yaml_place(y, ev);
	char buf[4 * QUOTE_MAX] NOT_ZEROED;
	if (a == NULL && build_sensitive(&y->b)) /* a password that begins with `*` */
		(void)err_at(y->b.e, INVALID_PROTOCOL, at,
		             "unknown alias (text that begins with `*` needs quotes)");
	else if (a == NULL)
		(void)err_at(y->b.e, INVALID_PROTOCOL, at,
		             "unknown alias `%s`: there is no anchor `&%s` before it",
		             quote(buf, span_of(name)), buf);
	else if (a->open)
		(void)err_at(y->b.e, INVALID_PROTOCOL, at, "%s",
		             f && f->merge ? "the merge key refers to its own mapping"
		                           : "the alias refers to a value that contains it");
	else if (build_spend(&y->b, a->nodes, a->text, at) == 0) {
		if (a->height + y->b.depth <= y->b.budget->depth)
			return a;
		(void)err_at(y->b.e, INVALID_PROTOCOL, at,
		             "with this alias, lists and mappings are nested more than %zu levels "
		             "deep",
		             y->b.budget->depth);
	}
	return NULL;
}

static void anchors_free_nothing(void *p)
{
	(void)p; /* anchors live in the arena */
}

/* ---- the tree ---- */

/* Adds the members of `source` to the innermost map.  shared: NODE_SHARED, also of its list. */
static void yaml_merge_map(struct yaml_reader *y, const struct node *source, uint8_t shared)
{
	build_top(&y->b)->flags |= source->flags & NODE_SHARES; /* of a key */
	for (uint32_t i = 0; i < source->n; i++) {
		const struct member *m = &source->member[i];
		struct node value = m->value;
		value.flags |= NODE_MERGED | (shared ? NODE_SHARED | NODE_SHARES : 0);
		build_top(&y->b)->key = *m;
		build_push(&y->b, &value);
	}
}

/* Adds a complete value to its container, or merges it. */
static int yaml_finish(struct yaml_reader *y, const struct node *n)
{
	struct build_frame *f = build_top(&y->b);
	if (f == NULL || !f->merge) {
		build_push(&y->b, n);
		return 0;
	}
	bool list = n->type == NODE_LIST;
	bool good = list || n->type == NODE_MAP;
	for (uint32_t i = 0; list && i < n->n; i++)
		good = good && n->item[i].type == NODE_MAP;
	f->merge = false;
	if (!good) {
		return err_at(y->b.e, INVALID_PROTOCOL, build_place(&y->b, n->line, n->column),
		              "the merge key `<<` needs a mapping or a list of mappings");
	}
	uint8_t shared = n->flags & NODE_SHARED;
	if (!list)
		yaml_merge_map(y, n, shared);
	for (uint32_t i = 0; list && i < n->n; i++)
		yaml_merge_map(y, &n->item[i], shared | (n->item[i].flags & NODE_SHARED));
	f->key.key = NULL;
	return 0;
}

static bool awaits_key(const struct yaml_reader *y)
{
	const struct build_frame *f = build_top(&y->b);
	return f && f->map && f->key.key == NULL && !f->merge;
}

/* The next key of the innermost map, which must be text or a number. */
static int yaml_set_key(struct yaml_reader *y, const yaml_event_t *ev, const struct node *n)
{
	struct span key = { NULL, 0 };
	if (n->type == NODE_TEXT || n->type == NODE_DATE) {
		key = node_span(n);
	} else if (node_is_number(n)) {
		char text[NUMBER_MAX];
		key = arena_span(y->b.arena,
		                 (struct span){ text, number_text(text, node_number(n)) });
	} else {
		return err_at(y->b.e, INVALID_PROTOCOL, yaml_place(y, ev),
		              "keys must be text or numbers, this is %s (quote it if it is text)",
		              node_type_name(n));
	}
	return build_key(&y->b, key, mark_line(&ev->start_mark), mark_column(&ev->start_mark));
}

static int yaml_on_key(struct yaml_reader *y, const yaml_event_t *ev)
{
	struct anchor *anchor = anchor_begin(y, ev->data.scalar.anchor);
	build_top(&y->b)->flags |= anchor ? NODE_SHARES : 0;
	struct span text = { (const char *)ev->data.scalar.value, ev->data.scalar.length };
	struct node n;
	if (yaml_scalar(y, ev, &n) < 0)
		return -1;
	if (n.plain && span_is(text, "<<")) {
		struct build_frame *f = build_top(&y->b);
		if (f->merges++)
			notes_add(y->warnings, yaml_place(y, ev),
			          "`<<` stands twice in this mapping: the first one wins here, "
			          "the last one elsewhere");
		f->merge = true;
		anchor_end(y, anchor, &n, 0);
		f->key = (struct member){ .key = "<<", .key_n = 2 };
		return 0;
	}
	if (yaml_set_key(y, ev, &n) < 0)
		return -1;
	size_t i = y->has_question ? yaml_byte(y, &ev->start_mark) : 0;
	if (i > 0 && y->text.p[i - 1] == '?') /* `{?x: 1}` */
		notes_add(y->warnings, yaml_place(y, ev),
		          "the `?` before this key does not belong to it here, but does elsewhere; "
		          "write the key in quotes");
	anchor_end(y, anchor, &n, 0);
	return 0;
}

static int yaml_on_scalar(struct yaml_reader *y, const yaml_event_t *ev)
{
	if (awaits_key(y))
		return yaml_on_key(y, ev);
	struct node n;
	struct anchor *anchor = anchor_begin(y, ev->data.scalar.anchor);
	if (yaml_scalar(y, ev, &n) < 0 || build_spend(&y->b, 1, ev->data.scalar.length,
	                                              (struct place){ NULL, n.line, n.column }) < 0)
		return -1;
	anchor_end(y, anchor, &n, 0);
	return yaml_finish(y, &n);
}

static int yaml_on_alias(struct yaml_reader *y, const yaml_event_t *ev)
{
	const struct anchor *a = alias_find(y, ev);
	struct build_frame *f = build_top(&y->b);
	if (a == NULL)
		return -1;
	if (awaits_key(y)) {
		f->flags |= NODE_SHARES;
		return yaml_set_key(y, ev, &a->node);
	}
	struct node n = a->node;
	n.line = mark_line(&ev->start_mark);
	n.column = mark_column(&ev->start_mark);
	if (f && f->height < a->height)
		f->height = a->height;
	return yaml_finish(y, &n);
}

static int yaml_on_start(struct yaml_reader *y, const yaml_event_t *ev)
{
	bool map = ev->type == YAML_MAPPING_START_EVENT;
	if (awaits_key(y)) {
		return err_at(y->b.e, INVALID_PROTOCOL, yaml_place(y, ev),
		              "keys must be text or numbers, this is %s",
		              map ? "a mapping (if it is a placeholder in braces, quote it)"
		                  : "a list");
	}
	struct anchor *anchor =
	    anchor_begin(y, map ? ev->data.mapping_start.anchor : ev->data.sequence_start.anchor);
	if (yaml_collection_tag(y, ev) < 0 ||
	    build_open(&y->b, map ? NODE_MAP : NODE_LIST, mark_line(&ev->start_mark),
	               mark_column(&ev->start_mark)) < 0)
		return -1;
	build_top(&y->b)->anchor = anchor;
	return 0;
}

/*
 * libyaml compares each %TAG with all before it, in quadratic time, so directives are limited
 * before it reads them.  They are before the document or after its `...`, among blank and comment
 * lines.
 */
static int check_directives(struct yaml_reader *y, size_t from)
{
	enum { DIRECTIVES_MAX = 8 };
	struct span rest = span_from(y->text, from);
	unsigned n = 0;
	while (rest.n) {
		size_t line = span_skip_class(rest, 0, "^\r\n");
		struct span text = span_trim((struct span){ rest.p, line });
		bool skipped = text.n == 0 || text.p[0] == '#' || span_starts(text, "...");
		if (rest.p[0] != '%' && !skipped)
			return 0;
		n += rest.p[0] == '%';
		if (n > DIRECTIVES_MAX)
			return err_at(
			    y->b.e, INVALID_PROTOCOL,
			    text_place(y->text, (size_t)(rest.p - y->text.p)),
			    "more than %d lines begin with `%%`; a job needs none, remove them",
			    DIRECTIVES_MAX);
		line += line < rest.n;
		rest = span_from(rest, line);
	}
	return 0;
}

static int yaml_on_event(struct yaml_reader *y, const yaml_event_t *ev)
{
	switch (ev->type) {
	case YAML_SCALAR_EVENT:
		return yaml_on_scalar(y, ev);
	case YAML_ALIAS_EVENT:
		return yaml_on_alias(y, ev);
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
		return yaml_on_start(y, ev);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT: {
		struct node n;
		struct anchor *anchor = build_top(&y->b)->anchor;
		uint32_t height = build_top(&y->b)->height + 1;
		build_close(&y->b, &n);
		anchor_end(y, anchor, &n, height);
		return yaml_finish(y, &n);
	}
	case YAML_STREAM_START_EVENT:
		return check_directives(y, 0);
	case YAML_DOCUMENT_END_EVENT:
		return check_directives(y, yaml_byte(y, &ev->end_mark));
	default:
		return 0;
	}
}

/* ---- libyaml, whose buffers and events can have secrets: it does not wipe them ---- */

/* Wipes the parser's buffers, of which at most n bytes were written. */
static void parser_wipe(yaml_parser_t *p, size_t n)
{
	size_t raw = (size_t)(p->raw_buffer.end - p->raw_buffer.start);
	size_t buffer = (size_t)(p->buffer.end - p->buffer.start);
	n++; /* a final NUL */
	explicit_bzero(p->raw_buffer.start, raw < n ? raw : n);
	explicit_bzero(p->buffer.start, buffer < n ? buffer : n);
	for (yaml_token_t *t = p->tokens.head; t != p->tokens.tail; t++) {
		if (t->type == YAML_SCALAR_TOKEN)
			explicit_bzero(t->data.scalar.value, t->data.scalar.length);
	}
}

/* All events of the one document. */
static int yaml_read_events(struct yaml_reader *y)
{
	yaml_event_t *ev = &y->event;
	unsigned documents = 0;
	bool written = false; /* a container, or a scalar that is not empty */
	for (bool more = true; more;) {
		if (!yaml_parser_parse(&y->parser, ev))
			return yaml_problem(y);
		int bad;
		if (ev->type == YAML_DOCUMENT_START_EVENT && ++documents > 1)
			bad = err_at(y->b.e, INVALID_PROTOCOL, mark_place(&ev->start_mark),
			             "a second document begins here; only one may be in a file");
		else
			bad = yaml_on_event(y, ev);
		if (!written && ev->type == YAML_SCALAR_EVENT)
			written = ev->data.scalar.length > 0 ||
			          ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
		else if (!written)
			written = ev->type == YAML_SEQUENCE_START_EVENT ||
			          ev->type == YAML_MAPPING_START_EVENT;
		more = ev->type != YAML_STREAM_END_EVENT;
		if (ev->type == YAML_SCALAR_EVENT)
			explicit_bzero(ev->data.scalar.value, ev->data.scalar.length);
		yaml_event_delete(ev);
		if (bad)
			return -1;
	}
	return written ? 0
	               : err_at(y->b.e, INVALID_PROTOCOL, (struct place){ "", 1, 1 },
	                        "empty document: there is no job in it");
}

/* Parameters as in the header.  NOLINTNEXTLINE(readability-function-size) */
int yaml_read(struct span text, const struct budget *budget, struct arena *a, struct doc *doc,
              struct notes *warnings, struct err *e)
{
	struct yaml_reader *y = ARENA_NEW(a, struct yaml_reader, 1);
	*doc = (struct doc){ 0 };
	build_init(&y->b, budget, a, e);
	y->text = text;
	y->warnings = warnings;
	y->ascii = text_is_ascii(text);
	y->has_bang = text.n && memchr(text.p, '!', text.n);
	y->has_question = text.n && memchr(text.p, '?', text.n);
	/* Readers disagree on a byte-order mark inside of the text. */
	size_t mark = y->ascii ? SIZE_MAX : span_find(text, 0, "\xef\xbb\xbf");
	if (mark != SIZE_MAX)
		return err_at(e, INVALID_PROTOCOL, text_place(text, mark), YAML_MARK_INSIDE);
	struct span input = y->ascii ? text : text_without_breaks(text, a);
	y->has_breaks = input.p != text.p;
	input = text_without_tabs(input, a, &y->has_tab_marks);
	y->input = input.p;
	if (!yaml_parser_initialize(&y->parser))
		abort();
	yaml_parser_set_encoding(&y->parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&y->parser, (const unsigned char *)input.p, input.n);
	int bad = yaml_read_events(y);
	doc->syntax = y->parser.error != YAML_NO_ERROR;
	parser_wipe(&y->parser, text.n);
	yaml_parser_delete(&y->parser);
	tdestroy(y->anchors, anchors_free_nothing);
	if (bad)
		return -1;
	*doc = (struct doc){ .root = y->b.root, .whole = !y->b.secret_twice };
	return y->b.refused ? -1 : 0;
}
