/* Anchors and aliases of YAML; see yaml_reader.h. */
#include <search.h>
#include <stdlib.h>

#include "base/yaml/yaml_reader.h"

static int compare_anchors(const void *x, const void *y)
{
	const struct anchor *a = x;
	const struct anchor *b = y;
	if (a->name.n != b->name.n)
		return a->name.n < b->name.n ? -1 : 1;
	return memcmp(a->name.p, b->name.p, a->name.n);
}

/* `&a:b`: where does the name end? */
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

/* A new meaning for the name, from here on.  Not a value yet. */
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
		/* Whoever holds the old one must not take the new one's end for its own. */
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

/* What the alias stands for, NULL and the error if nothing. */
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
