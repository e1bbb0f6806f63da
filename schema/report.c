/* Writes sentences about violations, without values that are secret or repeat a secret. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/enc.h"
#include "schema/schema_internal.h"

enum { SECRET_PART_MIN = 4 }; /* shorter secrets are not searched inside of other text */

/* ---- secrets ---- */

/* Secret at any depth: logins to registries and git, and settings of users; and some at the top. */
static bool is_secret(const struct schema_walk *w, struct span key, bool top)
{
	static const char *const ANYWHERE[] = { "auth", "extension", NULL };
	return span_among(key, ANYWHERE) || (top && w->secret && span_among(key, w->secret));
}

static bool has_part(struct span whole, struct span part)
{
	return part.n >= SECRET_PART_MIN && memmem(whole.p, whole.n, part.p, part.n) != NULL;
}

/* The value equals a secret, is part of one, or contains one: aliases of YAML copy secrets. */
static bool repeats_secret(const struct node *n, const struct node *secret)
{
	for (uint32_t i = 0; secret->type == NODE_LIST && i < secret->n; i++) {
		if (repeats_secret(n, &secret->item[i]))
			return true;
	}
	for (uint32_t i = 0; secret->type == NODE_MAP && i < secret->n; i++) {
		if (repeats_secret(n, &secret->member[i].value))
			return true;
	}
	if (secret->type == NODE_TEXT && n->type == NODE_TEXT) {
		struct span a = node_span(n);
		struct span b = node_span(secret);
		return span_eq(a, b) || has_part(a, b) || has_part(b, a);
	}
	bool scalar =
	    node_is_number(secret) || secret->type == NODE_TEXT || secret->type == NODE_DATE;
	return scalar && node_equal(n, secret);
}

/* The same for all secrets below a node: members named auth or extension, and the secret members of
 * the root. */
static bool repeats_any(const struct schema_walk *w, const struct node *n, const struct node *in)
{
	for (uint32_t i = 0; in->type == NODE_LIST && i < in->n; i++) {
		if (repeats_any(w, n, &in->item[i]))
			return true;
	}
	for (uint32_t i = 0; in->type == NODE_MAP && i < in->n; i++) {
		const struct member *m = &in->member[i];
		bool secret = is_secret(w, member_key(m), in == w->root);
		if (secret ? repeats_secret(n, &m->value) : repeats_any(w, n, &m->value))
			return true;
	}
	return false;
}

/* ---- words for values and types ---- */

/* A value that is not secret. */
static void report_put_value(struct str *out, const struct node *n)
{
	char buf[4 * QUOTE_MAX];
	if (n->type == NODE_TEXT || n->type == NODE_DATE)
		str_printf(out, "\"%s\"", quote(buf, node_span(n)));
	else if (n->type == NODE_NULL || !node_put(out, n))
		str_puts(out, node_type_name(n));
}

void value_text(struct str *out, const struct schema_walk *w, const struct node *n,
                const struct path *at, bool typed)
{
	bool scalar = n->type == NODE_TEXT || n->type == NODE_DATE || node_is_number(n);
	bool hidden = scalar && repeats_any(w, n, w->root);
	for (; at; at = at->up)
		hidden = hidden || (at->key.p && is_secret(w, at->key, at->up == NULL));
	if (typed && !hidden && n->type == NODE_TEXT)
		str_puts(out, "text ");
	else if (typed && !hidden && n->type == NODE_DATE)
		str_puts(out, "a date, ");
	else if (typed && !hidden && node_is_number(n))
		str_puts(out, "the number ");
	if (hidden)
		str_puts(out, node_type_name(n));
	else
		report_put_value(out, n);
}

static void report_put_types(struct str *out, unsigned types)
{
	if (types & BIT_NUMBER)
		types &= ~(unsigned)BIT_INTEGER;
	if (types & ~(unsigned)BIT_NULL)
		types &= ~(unsigned)BIT_NULL; /* null means absent */
	bool first = true;
	for (size_t i = 0; i < SCHEMA_TYPES; i++) {
		if (!(types & SCHEMA_TYPE[i].bit))
			continue;
		types &= ~SCHEMA_TYPE[i].bit;
		str_puts(out, first ? "" : types & BIT_ANY ? ", " : " or ");
		str_puts(out, SCHEMA_TYPE[i].words);
		first = false;
	}
}

bool walk_is_mute(struct schema_walk *w)
{
	if (w->quiet || w->e->notes.n < NOTES_MAX)
		return w->quiet;
	w->e->notes.dropped++;
	return true;
}

/* ---- sentences ---- */

bool walk_fail_at(struct schema_walk *w, struct place where, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	FREE_AUTO char *msg = xvasprintf(fmt, ap);
	va_end(ap);
	(void)err_at(w->e, 400, w->code, where, "%s", msg);
	return false;
}

bool walk_fail(struct schema_walk *w, const struct node *n, const struct path *at, const char *fmt,
               ...)
{
	if (walk_is_mute(w))
		return false;
	va_list ap;
	va_start(ap, fmt);
	FREE_AUTO char *msg = xvasprintf(fmt, ap);
	va_end(ap);
	return walk_fail_at(w, path_place(w->arena, at, n), "%s", msg);
}

/* Advice for common mistakes of type. */
static const char *walk_type_advice(unsigned types, const struct node *n)
{
	static const char *const SWITCHES[] = { "yes", "no", "on", "off", "true", "false" };
	bool scalar = n->type == NODE_BOOL || node_is_number(n);
	/* Text is a keyword if the rule allows integers as well. */
	if (n->plain && scalar && (types & BIT_TEXT) && !(types & BIT_INTEGER))
		return "; put it in quotes";
	if (n->type == NODE_MAP && n->n == 1 && n->member->value.plain && (types & BIT_TEXT))
		return "; text with a `: ` in it needs quotes, or a line of its own below `|`";
	if (n->type == NODE_TEXT && n->plain && n->n > 1 && n->text[0] == '-' && (types & BIT_LIST))
		return "; a blank is missing behind the `-`";
	for (size_t i = 0; i < ARRAY_SIZE(SWITCHES); i++) {
		if (n->type == NODE_TEXT && (types & BIT_BOOL) &&
		    strcasecmp(n->text, SWITCHES[i]) == 0)
			return "; write true or false";
	}
	return "";
}

bool walk_fail_type(struct schema_walk *w, const struct rule *r, const struct node *n,
                    const struct path *at)
{
	if (walk_is_mute(w))
		return false;
	if (node_bits(n) & BIT_INFINITE)
		return walk_fail(w, n, at, "is not a finite number");
	if (n->type == NODE_DATE && (r->types & BIT_TEXT))
		return walk_fail(w, n, at, "looks like a date; quote it to make it text");
	STR_AUTO text = STR_INIT(SENTENCE_MAX);
	str_puts(&text, "must be ");
	report_put_types(&text, r->types);
	str_puts(&text, ", is ");
	value_text(&text, w, n, at, true);
	str_puts(&text, walk_type_advice(r->types, n));
	if (r->hint.p)
		str_printf(&text, "; %s", r->hint.p);
	return walk_fail(w, n, at, "%s", str_c(&text));
}

bool walk_fail_values(struct schema_walk *w, const struct test *t, const struct node *n,
                      const struct path *at)
{
	if (walk_is_mute(w))
		return false;
	STR_AUTO text = STR_INIT(SENTENCE_MAX);
	str_puts(&text, t->n > 2 ? "must be one of " : "must be ");
	for (size_t i = 0; i < t->n; i++) {
		str_puts(&text, i == 0 ? "" : i + 1 == t->n ? " or " : ", ");
		report_put_value(&text, &t->values[i]);
	}
	str_puts(&text, ", is ");
	value_text(&text, w, n, at, false);
	return walk_fail(w, n, at, "%s", str_c(&text));
}
