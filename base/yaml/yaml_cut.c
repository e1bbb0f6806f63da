/*
 * Which bytes of a job are its secrets, and whether they may be cut out of it.
 * The stored job carries the text without them, so nothing of them may stand
 * elsewhere: no alias, anchor or merge may lead in or out.
 */
#include "base/yaml/yaml_reader.h"

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

static void check_key(struct yaml_reader *y, const yaml_event_t *ev)
{
	struct span rest = { y->text.p + y->cut.from, y->text.n - y->cut.from };
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

/* The span ends where the next key starts, which must be at the start of its line. */
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
		cut_value(y, ev); /* keys, too, can be aliases and have anchors */
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
	check_key(y, ev);
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
