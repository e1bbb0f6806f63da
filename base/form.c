/*
 * The pairs of a form become a tree, which is written as JSON.  The tree has at most FORM_PAIRS
 * leaves and FORM_DEPTH + 1 levels, so a linear search through siblings is fast enough.
 */
#include "base/form.h"

#include "base/enc.h"
#include "base/str.h"

enum { NAME_SHOWN = 80, PATH_MAX_BYTES = 256, NUMBER_DIGITS = 10 };

enum form_shape { SHAPE_NONE, SHAPE_TEXT, SHAPE_LIST, SHAPE_MAP };

/* A value: a text, the items of a list, or the members of a map. */
struct form_value {
	enum form_shape shape;
	struct span key; /* in its map */
	size_t index;    /* in its list */
	struct span text;
	bool appended;                   /* a list whose items came as `[]` */
	size_t n;                        /* items of a list, members of a map */
	struct form_value *first, *next; /* children: items by index, members as they came */
};

/* The pair that is being read. */
struct form_pair {
	size_t number;
	struct span name; /* as sent */
	bool named;       /* there is a `=` */
	struct arena *a;
	struct err *e;
};

/* ---- errors ---- */

/* A name that is not plain can be part of a password, and is not shown. */
static int form_refuse(const struct form_pair *p, const char *what)
{
	bool plain =
	    p->name.n > 0 && p->name.n <= NAME_SHOWN && span_all(p->name, "A-Za-z0-9_.[]%-");
	if (p->named && plain)
		return err_set(p->e, INVALID_PARAMETERS, "the form's pair %zu, %.*s: %s", p->number,
		               (int)p->name.n, p->name.p, what);
	return err_set(p->e, INVALID_PARAMETERS, "the form's pair %zu: %s", p->number, what);
}

/* ---- decoding ---- */

static int form_decode(const struct form_pair *pair, struct span in, struct span *out)
{
	char *p = arena_alloc(pair->a, in.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < in.n; i++) {
		int c = in.p[i] == '+' ? ' ' : (unsigned char)in.p[i];
		if (c == '%') {
			c = percent_byte(in, i);
			i += 2;
		}
		if (c < 0)
			return form_refuse(pair, "a % must be followed by two hexadecimal digits");
		if (c == 0)
			return form_refuse(pair, "it contains a NUL");
		p[n++] = (char)c;
	}
	p[n] = '\0';
	*out = (struct span){ p, n };
	return utf8_check(*out) == n ? 0 : form_refuse(pair, "it is not UTF-8");
}

/* ---- the tree ---- */

/* Adds a child before *at. */
static struct form_value *form_add_child(struct arena *a, struct form_value *up,
                                         struct form_value **at)
{
	struct form_value *v = ARENA_NEW(a, struct form_value, 1);
	v->next = *at;
	*at = v;
	up->n++;
	return v;
}

static int form_set_shape(const struct form_pair *p, struct form_value *v, enum form_shape shape)
{
	if (v->shape != SHAPE_NONE && v->shape != shape)
		return form_refuse(p,
		                   "its type (text, list or names) differs from that in an earlier "
		                   "pair");
	v->shape = shape;
	return 0;
}

static struct form_value *form_member(const struct form_pair *p, struct form_value *map,
                                      struct span key)
{
	if (form_set_shape(p, map, SHAPE_MAP) < 0)
		return NULL;
	struct form_value **at = &map->first;
	while (*at && !span_eq((*at)->key, key))
		at = &(*at)->next;
	struct form_value *v = *at;
	if (v)
		return v;
	v = form_add_child(p->a, map, at);
	v->key = key;
	return v;
}

/* The child of `up` that "[key]" names; `last`: the name ends with it. */
static struct form_value *form_enter_child(const struct form_pair *p, struct form_value *up,
                                           struct span key, bool last)
{
	bool append = key.n == 0;
	int64_t index = 0;
	if (append && !last) {
		(void)form_refuse(p, "[] may stand at the end of a name only");
		return NULL;
	}
	if (!append && !span_digits(key))
		return form_member(p, up, key);
	if (!append &&
	    (parse_i64(key, 0, FORM_ITEMS - 1, &index) < 0 || (key.n > 1 && key.p[0] == '0'))) {
		(void)form_refuse(p, "a number in brackets must be from 0 to 999");
		return NULL;
	}
	if (form_set_shape(p, up, SHAPE_LIST) < 0)
		return NULL;
	if (up->n && up->appended != append) {
		(void)form_refuse(p, "[] and numbers in brackets cannot be mixed");
		return NULL;
	}
	struct form_value **at = &up->first;
	while (*at && (append || (*at)->index < (size_t)index))
		at = &(*at)->next;
	struct form_value *v = *at;
	if (v && v->index == (size_t)index)
		return v;
	v = form_add_child(p->a, up, at);
	v->index = append ? up->n - 1 : (size_t)index;
	up->appended = append;
	return v;
}

/* The value that "[b][0]" names below `v`. */
static struct form_value *form_follow(const struct form_pair *p, struct form_value *v,
                                      struct span rest)
{
	for (size_t depth = 0; v && rest.n; depth++) {
		struct span inner = span_from(rest, 1);
		size_t close = span_chr(inner, ']');
		if (rest.p[0] != '[' || close == inner.n || span_chr(inner, '[') < close) {
			(void)form_refuse(p,
			                  "brackets must stand in pairs, at the end of the name");
			return NULL;
		}
		if (depth == FORM_DEPTH) {
			(void)form_refuse(p, "there may be at most 5 pairs of brackets");
			return NULL;
		}
		struct span key = span_to(inner, close);
		rest = span_from(inner, close + 1);
		v = form_enter_child(p, v, key, rest.n == 0);
	}
	return v;
}

static int form_add_pair(const struct form_pair *p, struct form_value *root, struct span name,
                         struct span text)
{
	size_t n = 0;
	while (n < name.n && name.p[n] != '[' && name.p[n] != ']')
		n++;
	if (n == 0)
		return form_refuse(p, "it has no name");
	struct form_value *v = form_member(p, root, (struct span){ name.p, n });
	v = form_follow(p, v, span_from(name, n));
	if (!v)
		return -1;
	if (v->shape == SHAPE_TEXT)
		return form_refuse(p, "it is there twice");
	v->text = text;
	return form_set_shape(p, v, SHAPE_TEXT);
}

/* `name=value`, percent-encoded, with `&` between them. */
static int form_read_pairs(struct span text, struct arena *a, struct form_value *root,
                           struct err *e)
{
	struct form_pair p = { .a = a, .e = e };
	while (text.n) {
		struct span value = span_next(&text, '&');
		if (++p.number > FORM_PAIRS)
			return err_set(e, INVALID_PARAMETERS, "a form may have at most %d pairs",
			               FORM_PAIRS);
		if (value.n == 0)
			continue;
		struct span name = { 0 };
		p.named = span_chr(value, '=') < value.n;
		p.name = span_next(&value, '=');
		if (form_decode(&p, p.name, &name) < 0 || form_decode(&p, value, &value) < 0 ||
		    form_add_pair(&p, root, name, value) < 0)
			return -1;
	}
	return 0;
}

/* ---- JSON ---- */

struct form_writer {
	struct str *out;
	struct str path; /* as in struct form_number */
	const struct form_number *numbers;
	struct arena *a;
	struct err *e;
};

static void form_write_text(struct form_writer *w, struct span text)
{
	const struct form_number *number = w->numbers;
	while (number && number->path && !span_is(str_view(&w->path), number->path))
		number++;
	size_t sign = span_starts(text, "-") ? 1 : 0;
	struct span digits = span_from(text, sign);
	/* JSON has no leading zeros. */
	bool fits =
	    span_digits(digits) && digits.n <= NUMBER_DIGITS && (digits.p[0] != '0' || text.n == 1);
	if (!number || !number->path || (text.n && !fits))
		str_json(w->out, text);
	else if (text.n)
		str_span(w->out, text);
	else
		str_puts(w->out, number->empty_is_null ? "null" : "\"\"");
}

/* Recursion is limited to FORM_DEPTH + 1. */
static int form_write_value(struct form_writer *w, const struct form_value *v)
{
	bool list = v->shape == SHAPE_LIST;
	size_t up = w->path.n;
	size_t i = 0;
	if (!list && v->shape != SHAPE_MAP) {
		form_write_text(w, v->text);
		return 0;
	}
	str_char(w->out, list ? '[' : '{');
	for (const struct form_value *child = v->first; child; child = child->next, i++) {
		if (list && child->index != i)
			return err_set(w->e, INVALID_PARAMETERS,
			               "a list of the form has item %zu, but %zu items only",
			               child->index, v->n);
		str_puts(w->out, i ? "," : "");
		str_puts(&w->path, list ? "[]" : up ? "." : "");
		if (!list) {
			str_json(w->out, child->key);
			str_char(w->out, ':');
			str_span(&w->path, child->key);
		}
		if (form_write_value(w, child) < 0)
			return -1;
		w->path.n = up;
		w->path.full = false; /* no number has a path of this length */
	}
	str_char(w->out, list ? ']' : '}');
	return 0;
}

int form_json(struct span text, const struct form_number *numbers, struct arena *a, struct str *out,
              struct err *e)
{
	struct form_value root = { .shape = SHAPE_MAP };
	if (form_read_pairs(text, a, &root, e) < 0)
		return -1;
	struct form_writer w = { out, STR_INIT(PATH_MAX_BYTES), numbers, a, e };
	int rc = form_write_value(&w, &root);
	str_done(&w.path);
	return rc;
}
