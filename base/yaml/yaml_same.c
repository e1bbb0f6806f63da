/*
 * Compares a text with a tree event by event, without a second tree.  Conservative: for anchors,
 * tags, merge keys and keys that are numbers, the answer is false.
 */
#include "base/yaml/yaml.h"

#include <assert.h>

#include "base/yaml/yaml_internal.h"

enum { DEPTH_MAX = 64 };

/* An open container and its next child. */
struct level {
	const struct node *node;
	uint32_t next;
	bool key; /* of a map: the key of that child was read */
};

struct same {
	struct span text;
	struct arena *arena;
	const struct hidden *hidden;
	size_t n_hidden; /* number found */
	bool bang;       /* an unquoted scalar can have a tag that libyaml does not report */
	struct level level[DEPTH_MAX];
	size_t depth;
	unsigned documents;
	const struct node *root; /* NULL when it was read */
};

static struct span scalar_text(const yaml_event_t *ev)
{
	return (struct span){ (const char *)ev->data.scalar.value, ev->data.scalar.length };
}

static bool same_is_plain(const yaml_event_t *ev)
{
	return ev->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

/* A scalar without anchor and tag. */
static bool is_simple(const struct same *s, const yaml_event_t *ev)
{
	if (ev->data.scalar.anchor || ev->data.scalar.tag)
		return false;
	size_t i = ev->start_mark.index;
	return !s->bang || !same_is_plain(ev) || i >= s->text.n || s->text.p[i] != '!';
}

static bool yaml_same_key(const yaml_event_t *ev, const struct member *m)
{
	struct span t = scalar_text(ev);
	if (same_is_plain(ev) && (!plain_surely_text(t) || span_is(t, "<<")))
		return false;
	return span_eq(t, member_key(m));
}

static bool same_scalar(struct same *s, const yaml_event_t *ev, const struct node *was)
{
	struct span t = scalar_text(ev);
	struct node now = { .plain = true };
	if (was->plain != same_is_plain(ev))
		return false;
	if (was->type == NODE_TEXT || (was->type == NODE_DATE && was->plain))
		return span_eq(t, node_span(was));
	if (!was->plain)
		return false;
	if (!plain_small_int(&now, t))
		yaml_resolve_plain(&now, t, s->arena);
	return node_equal(was, &now);
}

/* The expected value, or NULL if none is allowed. */
static const struct node *next_value(struct same *s)
{
	if (s->depth == 0)
		return TAKE(s->root);
	struct level *l = &s->level[s->depth - 1];
	if (l->next == l->node->n)
		return NULL;
	if (l->node->type == NODE_LIST)
		return &l->node->item[l->next++];
	if (!l->key)
		return NULL;
	l->key = false;
	return &l->node->member[l->next++].value;
}

static bool same_on_scalar(struct same *s, const yaml_event_t *ev)
{
	struct level *l = s->depth ? &s->level[s->depth - 1] : NULL;
	if (!is_simple(s, ev))
		return false;
	if (l && l->node->type == NODE_MAP && !l->key) {
		l->key = true;
		return l->next < l->node->n && yaml_same_key(ev, &l->node->member[l->next]);
	}
	const struct node *was = next_value(s);
	if (was == NULL)
		return false;
	const struct hidden *h = s->hidden;
	if (s->n_hidden == h->n || was != h->v[s->n_hidden])
		return same_scalar(s, ev, was);
	s->n_hidden++;
	return !same_is_plain(ev) && span_is(scalar_text(ev), h->as);
}

static bool same_on_start(struct same *s, enum node_type type, bool properties)
{
	const struct node *was = next_value(s);
	const struct hidden *h = s->hidden;
	if (was == NULL || was->type != type || properties || s->depth == DEPTH_MAX ||
	    (s->n_hidden < h->n && was == h->v[s->n_hidden]))
		return false;
	s->level[s->depth++] = (struct level){ .node = was };
	return true;
}

static bool same_on_end(struct same *s)
{
	const struct level *l = &s->level[--s->depth];
	assert(l->node);
	return !l->key && l->next == l->node->n;
}

static bool same_on_event(struct same *s, const yaml_event_t *ev)
{
	switch (ev->type) {
	case YAML_SCALAR_EVENT:
		return same_on_scalar(s, ev);
	case YAML_MAPPING_START_EVENT:
		return same_on_start(s, NODE_MAP,
		                     ev->data.mapping_start.anchor || ev->data.mapping_start.tag);
	case YAML_SEQUENCE_START_EVENT:
		return same_on_start(s, NODE_LIST,
		                     ev->data.sequence_start.anchor || ev->data.sequence_start.tag);
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT:
		return same_on_end(s);
	case YAML_DOCUMENT_START_EVENT:
		return s->documents++ == 0;
	case YAML_STREAM_START_EVENT:
	case YAML_DOCUMENT_END_EVENT:
	case YAML_STREAM_END_EVENT:
		return true;
	case YAML_ALIAS_EVENT:
	case YAML_NO_EVENT:
		break;
	}
	return false;
}

/* Equal scalars are not secret; the first different one can be, and is wiped. */
static bool same_read_events(struct same *s, yaml_parser_t *parser)
{
	yaml_event_t ev;
	bool good = true;
	bool more = true;
	while (good && more) {
		if (!yaml_parser_parse(parser, &ev))
			return false;
		more = ev.type != YAML_STREAM_END_EVENT;
		good = same_on_event(s, &ev);
		if (!good)
			event_wipe(&ev);
		yaml_event_delete(&ev);
	}
	return good;
}

/* No line breaks on which readers disagree, no byte-order mark. */
static bool is_ordinary(struct span text, struct arena *a)
{
	return text_without_breaks(text, a).p == text.p &&
	       memmem(text.p, text.n, "\xef\xbb\xbf", 3) == NULL;
}

bool yaml_same(struct span text, const struct node *was, const struct hidden *hidden,
               struct arena *a)
{
	struct same *s = ARENA_NEW(a, struct same, 1);
	yaml_parser_t *parser = ARENA_NEW(a, yaml_parser_t, 1);
	*s = (struct same){ .text = text, .arena = a, .hidden = hidden, .root = was };
	s->bang = text.n && memchr(text.p, '!', text.n);
	if (!text_is_ascii(text) && (s->bang || !is_ordinary(text, a)))
		return false;
	parser_open(parser, text);
	bool same = same_read_events(s, parser) && s->root == NULL && s->n_hidden == hidden->n;
	if (!same)
		parser_wipe(parser, text.n);
	parser_close(parser);
	return same;
}
