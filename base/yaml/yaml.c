/*
 * Builds a tree from the events of libyaml, which has no budgets, duplicate keys, aliases and
 * types. yaml_parser_load is not used: it recurses, and is quadratic on deep input.
 */
#include "base/yaml/yaml.h"

#include <search.h>
#include <stdlib.h>

#include "base/enc.h"
#include "base/yaml/yaml_internal.h"

static bool continues(char c)
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
		while (continues(y->text.p[y->bytes]))
			y->bytes--;
	}
	for (; y->chars < m->index && y->bytes < y->text.n; y->chars++) {
		y->bytes++;
		while (y->bytes < y->text.n && continues(y->text.p[y->bytes]))
			y->bytes++;
	}
	return y->bytes;
}

struct place yaml_place(const struct yaml_reader *y, const yaml_event_t *ev)
{
	return build_place(&y->b, mark_line(&ev->start_mark), mark_column(&ev->start_mark));
}

/* Adds the members of `source` to the innermost map. */
static void yaml_merge_map(struct yaml_reader *y, const struct node *source)
{
	for (uint32_t i = 0; i < source->n; i++) {
		const struct member *m = &source->member[i];
		struct node value = m->value;
		value.flags |= NODE_MERGED | (source->flags & NODE_ALIASED);
		cut_merged(y, m);
		build_top(&y->b)->key = *m;
		build_push(&y->b, &value);
	}
}

static int yaml_merge(struct yaml_reader *y, const struct node *n)
{
	struct frame *f = build_top(&y->b);
	f->merge = false;
	bool good = n->type == NODE_MAP;
	if (n->type == NODE_LIST) {
		good = true;
		for (uint32_t i = 0; i < n->n; i++)
			good = good && n->item[i].type == NODE_MAP;
	}
	if (!good) {
		return err_at(y->b.e, INVALID_PROTOCOL, build_place(&y->b, n->line, n->column),
		              "the merge key `<<` needs a mapping or a list of mappings");
	}
	if (n->type == NODE_MAP)
		yaml_merge_map(y, n);
	for (uint32_t i = 0; n->type == NODE_LIST && i < n->n; i++)
		yaml_merge_map(y, &n->item[i]);
	f->key.key = NULL;
	return 0;
}

/* Adds a complete value to its container. */
static int yaml_finish(struct yaml_reader *y, const struct node *n)
{
	const struct frame *f = build_top(&y->b);
	if (f && f->merge)
		return yaml_merge(y, n);
	build_push(&y->b, n);
	return 0;
}

COLD static struct span number_key(struct yaml_reader *y, const struct node *n)
{
	char text[NUMBER_MAX];
	double v = n->type == NODE_INT ? (double)n->integer : n->real;
	return arena_span(y->b.arena, (struct span){ text, number_text(text, v) });
}

/* The text of a key, which must be text or a number. */
static int yaml_key_text(struct yaml_reader *y, const yaml_event_t *ev, const struct node *n,
                         struct span *key)
{
	switch ((enum node_type)n->type) {
	case NODE_TEXT:
	case NODE_DATE:
		*key = node_span(n);
		return 0;
	case NODE_INT:
	case NODE_REAL:
		*key = number_key(y, n);
		return 0;
	case NODE_NULL:
	case NODE_BOOL:
	case NODE_LIST:
	case NODE_MAP:
	case NODE_TYPE_MAX:
		break;
	}
	return err_at(y->b.e, INVALID_PROTOCOL, yaml_place(y, ev),
	              "keys must be text or numbers, this is %s (quote it if it is text)",
	              node_type_name(n));
}

static bool awaits_key(const struct yaml_reader *y)
{
	const struct frame *f = build_top(&y->b);
	return f && f->map && f->key.key == NULL && !f->merge;
}

static int set_key(struct yaml_reader *y, const yaml_event_t *ev, const struct node *n)
{
	struct span key = { NULL, 0 };
	if (yaml_key_text(y, ev, n, &key) < 0)
		return -1;
	cut_key(y, ev, key);
	return build_key(&y->b, key, mark_line(&ev->start_mark), mark_column(&ev->start_mark));
}

static bool is_merge_key(const yaml_event_t *ev)
{
	return ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && ev->data.scalar.length == 2 &&
	       ev->data.scalar.tag == NULL && memcmp(ev->data.scalar.value, "<<", 2) == 0;
}

/* `{?x: 1}` */
static void check_question(struct yaml_reader *y, const yaml_event_t *ev)
{
	size_t i = yaml_byte(y, &ev->start_mark);
	if (i > 0 && y->text.p[i - 1] == '?')
		notes_add(y->warnings, yaml_place(y, ev),
		          "the `?` before this key does not belong to it here, but does elsewhere; "
		          "write the key in quotes");
}

static int on_key(struct yaml_reader *y, const yaml_event_t *ev)
{
	struct anchor *anchor = anchor_new(y, ev->data.scalar.anchor);
	struct node n;
	if (yaml_scalar(y, ev, &n) < 0)
		return -1;
	if (n.plain && is_merge_key(ev)) {
		struct frame *f = build_top(&y->b);
		cut_merge(y, ev);
		if (f->merges++)
			notes_add(y->warnings, yaml_place(y, ev),
			          "`<<` stands twice in this mapping: the first one wins here, "
			          "the last one elsewhere");
		f->merge = true;
		anchor_end(y, anchor, &n, 0);
		f->key = (struct member){ .key = "<<", .key_n = 2 };
		return 0;
	}
	if (set_key(y, ev, &n) < 0)
		return -1;
	if (y->has_question)
		check_question(y, ev);
	anchor_end(y, anchor, &n, 0);
	return 0;
}

static int yaml_on_scalar(struct yaml_reader *y, const yaml_event_t *ev)
{
	if (awaits_key(y))
		return on_key(y, ev);
	struct node n;
	struct anchor *anchor = anchor_new(y, ev->data.scalar.anchor);
	cut_value(y, ev);
	if (yaml_scalar(y, ev, &n) < 0 || build_spend(&y->b, 1, ev->data.scalar.length,
	                                              (struct place){ NULL, n.line, n.column }) < 0)
		return -1;
	anchor_end(y, anchor, &n, 0);
	return yaml_finish(y, &n);
}

static int on_alias(struct yaml_reader *y, const yaml_event_t *ev)
{
	bool key = awaits_key(y);
	if (!key)
		cut_value(y, ev);
	const struct anchor *a = alias_find(y, ev);
	if (a == NULL)
		return -1;
	if (key)
		return set_key(y, ev, &a->node);
	struct node n = a->node;
	n.line = mark_line(&ev->start_mark);
	n.column = mark_column(&ev->start_mark);
	n.flags |= NODE_ALIASED;
	struct frame *f = build_top(&y->b);
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
	cut_value(y, ev);
	struct anchor *anchor =
	    anchor_new(y, map ? ev->data.mapping_start.anchor : ev->data.sequence_start.anchor);
	if (yaml_collection_tag(y, ev) < 0 ||
	    build_open(&y->b, map ? NODE_MAP : NODE_LIST, mark_line(&ev->start_mark),
	               mark_column(&ev->start_mark)) < 0)
		return -1;
	build_top(&y->b)->anchor = anchor;
	return 0;
}

static int yaml_on_end(struct yaml_reader *y, const yaml_event_t *ev)
{
	struct node n;
	struct anchor *anchor = build_top(&y->b)->anchor;
	uint32_t height = build_top(&y->b)->height + 1;
	cut_end(y, ev);
	build_close(&y->b, &n);
	anchor_end(y, anchor, &n, height);
	return yaml_finish(y, &n);
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
		size_t line = 0;
		while (line < rest.n && rest.p[line] != '\n' && rest.p[line] != '\r')
			line++;
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

static int on_document(struct yaml_reader *y, const yaml_event_t *ev)
{
	if (ev->type == YAML_STREAM_START_EVENT)
		return check_directives(y, 0);
	return check_directives(y, yaml_byte(y, &ev->end_mark));
}

static int yaml_on_event(struct yaml_reader *y, const yaml_event_t *ev)
{
	switch (ev->type) {
	case YAML_SCALAR_EVENT:
		return yaml_on_scalar(y, ev);
	case YAML_ALIAS_EVENT:
		return on_alias(y, ev);
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
		return yaml_on_start(y, ev);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		return yaml_on_end(y, ev);
	case YAML_STREAM_START_EVENT:
	case YAML_DOCUMENT_END_EVENT:
		return on_document(y, ev);
	default:
		return 0;
	}
}

static int empty_document(struct yaml_reader *y)
{
	return err_at(y->b.e, INVALID_PROTOCOL, (struct place){ "", 1, 1 },
	              "empty document: there is no job in it");
}

COLD static int second_document(struct yaml_reader *y, const yaml_event_t *ev)
{
	struct place at = { NULL, mark_line(&ev->start_mark), mark_column(&ev->start_mark) };
	return err_at(y->b.e, INVALID_PROTOCOL, at,
	              "a second document begins here; only one may be in a file");
}

/* The event is a container, or a scalar that is not empty. */
static bool is_written(const yaml_event_t *ev)
{
	if (ev->type == YAML_SCALAR_EVENT)
		return ev->data.scalar.length || ev->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
	return ev->type == YAML_SEQUENCE_START_EVENT || ev->type == YAML_MAPPING_START_EVENT;
}

/* All events of the one document. */
static int yaml_read_events(struct yaml_reader *y)
{
	yaml_event_t *ev = &y->event;
	unsigned documents = 0;
	bool written = false;
	for (bool more = true; more;) {
		if (!yaml_parser_parse(&y->parser, ev))
			return yaml_problem(y);
		bool second = ev->type == YAML_DOCUMENT_START_EVENT && ++documents > 1;
		int bad = second ? second_document(y, ev) : yaml_on_event(y, ev);
		written = written || is_written(ev);
		more = ev->type != YAML_STREAM_END_EVENT;
		event_wipe(ev);
		yaml_event_delete(ev);
		if (bad)
			return -1;
	}
	return written ? 0 : empty_document(y);
}

/* Readers disagree on a byte-order mark inside of the text. */
static int refuse_mark(struct yaml_reader *y)
{
	const char *mark = memmem(y->text.p, y->text.n, "\xef\xbb\xbf", 3);
	if (mark == NULL)
		return 0;
	return err_at(y->b.e, INVALID_PROTOCOL, text_place(y->text, (size_t)(mark - y->text.p)),
	              "a byte-order mark (U+FEFF) may only be at the start");
}

/* Parameters as in the header.  NOLINTNEXTLINE(readability-function-size) */
int yaml_try(struct span text, const struct budget *budget, struct arena *a, struct doc *doc,
             struct notes *warnings, bool *syntax, struct err *e)
{
	struct yaml_reader *y = ARENA_NEW(a, struct yaml_reader, 1);
	*syntax = false;
	build_init(&y->b, budget, a, e);
	y->text = text;
	y->warnings = warnings;
	y->ascii = text_is_ascii(text);
	y->has_bang = text.n && memchr(text.p, '!', text.n);
	y->has_question = text.n && memchr(text.p, '?', text.n);
	if (!y->ascii && refuse_mark(y) < 0)
		return -1;
	struct span input = y->ascii ? text : text_without_breaks(text, a);
	y->has_breaks = input.p != text.p;
	input = text_without_tabs(input, a, &y->has_tab_marks);
	y->input = input.p;
	parser_open(&y->parser, input);
	int bad = yaml_read_events(y);
	*syntax = y->parser.error != YAML_NO_ERROR;
	parser_wipe(&y->parser, text.n);
	parser_close(&y->parser);
	anchors_done(y);
	if (bad)
		return -1;
	*doc = (struct doc){ .root = y->b.root, .whole = !y->b.secret_twice };
	cut_finish(y, doc);
	return y->b.refused ? -1 : 0;
}

/* Parameters as in the header.  NOLINTNEXTLINE(readability-function-size) */
int yaml_read(struct span text, const struct budget *budget, struct arena *a, struct doc *doc,
              struct notes *warnings, struct err *e)
{
	bool syntax = false;
	return yaml_try(text, budget, a, doc, warnings, &syntax, e);
}

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
	if (i < end && y->text.p[i] == '!') {
		while (i < end && !strchr(" \t\r\n", y->text.p[i]))
			i++;
		while (i < end && strchr(" \t", y->text.p[i]))
			i++;
	}
	if (i >= end || y->text.p[i] != '&' || i + 1 + name_n >= end)
		return;
	if (strchr(":?%@`", y->text.p[i + 1 + name_n]))
		notes_add(
		    y->warnings, yaml_place(y, ev),
		    "the name of this anchor ends before the `%c` here, but not elsewhere; put "
		    "a blank behind it, or quotes around the text",
		    y->text.p[i + 1 + name_n]);
}

struct anchor *anchor_begin(struct yaml_reader *y, const yaml_char_t *name)
{
	struct anchor key = { .name = span_of((const char *)name) };
	struct anchor *const *found = tfind(&key, &y->anchors, compare_anchors);
	struct anchor *a = found ? *found : ARENA_NEW(y->b.arena, struct anchor, 1);
	if (!found) {
		a->name = arena_span(y->b.arena, key.name);
		if (tsearch(a, &y->anchors, compare_anchors) == NULL)
			abort();
	} else {
		/* The old anchor can be in use: the name gets a new one. */
		struct anchor *again = ARENA_NEW(y->b.arena, struct anchor, 1);
		again->name = a->name;
		(void)tdelete(a, &y->anchors, compare_anchors);
		if (tsearch(again, &y->anchors, compare_anchors) == NULL)
			abort();
		a = again;
	}
	check_anchor_end(y, key.name.n);
	a->open = true;
	a->nodes = y->b.nodes;
	a->text = y->b.text;
	return a;
}

void anchor_end(struct yaml_reader *y, struct anchor *a, const struct node *n, uint32_t height)
{
	if (a == NULL)
		return;
	a->node = *n;
	a->height = height;
	a->nodes = y->b.nodes - a->nodes;
	a->text = y->b.text - a->text;
	a->open = false;
}

COLD static int unknown_alias(struct yaml_reader *y, const yaml_event_t *ev)
{
	char buf[4 * QUOTE_MAX];
	const char *name = (const char *)ev->data.alias.anchor;
	if (build_sensitive(&y->b)) { /* a password that begins with `*` */
		return err_at(y->b.e, INVALID_PROTOCOL, yaml_place(y, ev),
		              "unknown alias (text that begins with `*` needs quotes)");
	}
	return err_at(y->b.e, INVALID_PROTOCOL, yaml_place(y, ev),
	              "unknown alias `%s`: there is no anchor `&%s` before it",
	              quote(buf, span_of(name)), buf);
}

const struct anchor *alias_find(struct yaml_reader *y, const yaml_event_t *ev)
{
	struct anchor key = { .name = span_of((const char *)ev->data.alias.anchor) };
	struct anchor *const *found = tfind(&key, &y->anchors, compare_anchors);
	if (found == NULL) {
		(void)unknown_alias(y, ev);
		return NULL;
	}
	const struct anchor *a = *found;
	if (a->open) {
		const struct frame *f = build_top(&y->b);
		(void)err_at(y->b.e, INVALID_PROTOCOL, yaml_place(y, ev), "%s",
		             f && f->merge ? "the merge key refers to its own mapping"
		                           : "the alias refers to a value that contains it");
		return NULL;
	}
	if (build_spend(&y->b, a->nodes, a->text, yaml_place(y, ev)) < 0)
		return NULL;
	if (a->height + y->b.depth > y->b.budget->depth) {
		(void)err_at(y->b.e, INVALID_PROTOCOL, yaml_place(y, ev),
		             "with this alias, lists and mappings are nested more than %zu levels "
		             "deep",
		             y->b.budget->depth);
		return NULL;
	}
	return a;
}

static void no_free(void *p)
{
	(void)p; /* anchors live in the arena */
}

void anchors_done(struct yaml_reader *y)
{
	tdestroy(y->anchors, no_free);
	y->anchors = NULL;
}

/*
 * ---- the bytes of the secrets ----
 *
 * The stored job has the text without its secrets.  They can be cut out only if no alias, anchor or
 * merge connects them with the rest.
 */

static void unsafe(struct yaml_reader *y, const char *why, const yaml_event_t *ev)
{
	if (y->cut.unsafe)
		return;
	y->cut.unsafe = why;
	y->cut.at =
	    (struct place){ "/secrets", mark_line(&ev->start_mark), mark_column(&ev->start_mark) };
}

static bool has_anchor(const yaml_event_t *ev)
{
	switch (ev->type) {
	case YAML_SCALAR_EVENT:
		return ev->data.scalar.anchor != NULL;
	case YAML_SEQUENCE_START_EVENT:
		return ev->data.sequence_start.anchor != NULL;
	case YAML_MAPPING_START_EVENT:
		return ev->data.mapping_start.anchor != NULL;
	default:
		return false;
	}
}

static void yaml_check_key(struct yaml_reader *y, const yaml_event_t *ev)
{
	struct span rest = span_from(y->text, y->cut.from);
	while (rest.n && (rest.p[0] == ' ' || rest.p[0] == '\t')) {
		rest.p++;
		rest.n--;
	}
	if (ev->type == YAML_ALIAS_EVENT)
		unsafe(y, "the key `secrets` is an alias", ev);
	else if (ev->data.scalar.tag)
		unsafe(y, "the key `secrets` has a tag", ev);
	else if (ev->data.scalar.anchor)
		unsafe(y, "the key `secrets` has an anchor", ev);
	else if (rest.n == 0 || rest.p[0] != ':')
		unsafe(y, "the key `secrets` is written with `?`", ev);
}

/* The span ends at the next key, which must be in the same column. */
static void close_span(struct yaml_reader *y, const yaml_event_t *ev)
{
	struct cut *c = &y->cut;
	c->open = false;
	c->to = yaml_byte(y, &ev->start_mark);
	if (c->block && ev->type != YAML_MAPPING_END_EVENT && ev->start_mark.column != c->column)
		unsafe(y, "the key after `secrets` does not start in the same column", ev);
}

void cut_end(struct yaml_reader *y, const yaml_event_t *ev)
{
	if (y->b.depth != 1)
		return;
	y->cut.inside = false;
	if (y->cut.open)
		close_span(y, ev);
}

void cut_look(struct yaml_reader *y, const yaml_event_t *ev)
{
	if (y->b.depth == 0 && ev->type == YAML_MAPPING_START_EVENT)
		y->cut.block = ev->data.mapping_start.style != YAML_FLOW_MAPPING_STYLE;
	if (!y->cut.inside)
		return;
	if (ev->type == YAML_ALIAS_EVENT)
		unsafe(y, "there is an alias in `secrets`", ev);
	else if (has_anchor(ev))
		unsafe(y, "there is an anchor in `secrets`", ev);
	else if (y->b.depth == 1 && ev->type != YAML_MAPPING_START_EVENT)
		unsafe(y, "`secrets` is not a mapping", ev);
	else if (y->b.depth == 1 && ev->data.mapping_start.tag)
		unsafe(y, "`secrets` has a tag", ev);
}

void cut_key(struct yaml_reader *y, const yaml_event_t *ev, struct span key)
{
	struct cut *c = &y->cut;
	if (y->b.depth != 1) {
		cut_value(y, ev); /* keys can also be aliases and have anchors */
		return;
	}
	c->inside = false;
	if (c->open)
		close_span(y, ev);
	if (!span_is(key, "secrets"))
		return;
	c->seen = c->inside = c->open = true;
	c->column = (unsigned)ev->start_mark.column;
	c->from = c->to = yaml_byte(y, &ev->end_mark);
	yaml_check_key(y, ev);
}

void cut_merge(struct yaml_reader *y, const yaml_event_t *ev)
{
	if (y->b.depth == 1) {
		cut_key(y, ev, SPAN("<<"));
		return;
	}
	if (y->cut.inside)
		unsafe(y, "there is a merge key in `secrets`", ev);
}

void cut_merged(struct yaml_reader *y, const struct member *m)
{
	if (y->b.depth != 1 || y->cut.unsafe || !span_is(member_key(m), "secrets"))
		return;
	y->cut.unsafe = "`secrets` is merged in by `<<`";
	y->cut.at = (struct place){ "/secrets", m->key_line, m->key_column };
}

void cut_finish(struct yaml_reader *y, struct doc *doc)
{
	const struct cut *c = &y->cut;
	doc->secrets_unsafe = c->unsafe;
	doc->secrets_at = c->at;
	if (c->seen) {
		doc->secrets_member = node_member(&y->b.root, SPAN("secrets"));
		doc->secrets = (struct span){ y->text.p + c->from, c->to - c->from };
	}
}
