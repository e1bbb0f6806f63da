/* Decodes queries, small bodies and the header Range, and refuses values that no row allows. */
#include "server/http/query.h"

#include "base/doc/tree.h"
#include "base/enc.h"
#include "base/form.h"
#include "base/str.h"

static struct span query_decode(struct span in, struct arena *a)
{
	char *p = arena_alloc(a, in.n + 1);
	size_t n = 0;
	for (size_t i = 0; i < in.n; i++) {
		int byte = in.p[i] == '%' ? percent_byte(in, i) : -1;
		p[n++] = (char)(byte >= 0 ? byte : in.p[i] == '+' ? ' ' : in.p[i]);
		i += byte >= 0 ? 2 : 0;
	}
	p[n] = '\0';
	return (struct span){ p, n };
}

bool query_next(struct span *rest, struct arena *a, struct span *name, struct span *value)
{
	struct span one = { NULL, 0 };
	while (rest->n && one.n == 0)
		one = span_next(rest, '&');
	if (one.n == 0)
		return false;
	size_t equals = span_chr(one, '=');
	*name = query_decode(span_to(one, equals), a);
	*value =
	    equals < one.n ? query_decode(span_from(one, equals + 1), a) : (struct span){ NULL, 0 };
	return true;
}

bool query_find(struct span query, const char *name, struct arena *a, struct span *value)
{
	struct span found;
	while (query_next(&query, a, &found, value))
		if (span_is(found, name))
			return true;
	return false;
}

const struct parameter *parameter_named(const struct parameter *table, struct span name)
{
	while (table->name && !span_is(name, table->name))
		table++;
	return table->name ? table : NULL;
}

bool parameter_find(struct request *r, const struct parameter *p, struct span *value)
{
	return query_find(span_of(r->query), p->name, &r->arena, value);
}

int parameter_index(const struct parameter *p, struct span value)
{
	struct span rest = span_of(p->values);
	for (int i = 0; rest.n; i++)
		if (span_eq(span_next(&rest, '|'), value))
			return i;
	return -1;
}

int parameter_refuse(const struct parameter *p, struct span value, struct err *e)
{
	char quoted[4 * QUOTE_MAX];
	if (p->must)
		return err_set(e, INVALID_PARAMETERS, "%s must be %s, is \"%s\"", p->name, p->must,
		               quote(quoted, value));
	return err_set(e, INVALID_PARAMETERS, "%s must be a whole number from 0 to %ld, is \"%s\"",
	               p->name, (long)p->max, quote(quoted, value));
}

int parameter_number(const struct parameter *p, struct span value, int64_t *out, struct err *e)
{
	return parse_i64(value, 0, p->max, out) == 0 ? 0 : parameter_refuse(p, value, e);
}

enum { DEPTH = 8, NODES = 200, NESTED_NODES = 2000, KEY = 256, FORM_TEXT = FIELDS_BODY * 8 };

/* NULL: not an object, or over the budget. */
static const struct node *parse_map(struct request *r, struct span text,
                                    const struct budget *budget)
{
	ERR_AUTO why = { 0 };
	struct doc *doc = ARENA_NEW(&r->arena, struct doc, 1);
	if (utf8_check(text) != text.n || json_read(text, budget, &r->arena, doc, NULL, &why) < 0 ||
	    doc->root.type != NODE_MAP)
		return NULL;
	return &doc->root;
}

const struct node *fields_map(struct request *r, struct err *e)
{
	static const struct budget NESTED = { DEPTH, NESTED_NODES, FIELDS_BODY, KEY };
	const struct node *map = parse_map(r, span_trim(str_view(&r->body)), &NESTED);
	r->secret = true;
	if (!map)
		(void)err_set(e, INVALID_PARAMETERS,
		              "the body must be a JSON object of depth %d at most", DEPTH);
	return map;
}

int fields_read(struct request *r, struct fields *out, struct err *e)
{
	static const struct budget FLAT = { DEPTH, NODES, FORM_TEXT, KEY };
	struct span text = span_trim(str_view(&r->body));
	STR_AUTO json = STR_SECRET(FORM_TEXT);
	r->secret = true;
	out->n = 0;
	if (!text.n)
		return 0;
	/* curl sends every body as a form. */
	if (r->form && !span_starts(text, "{")) {
		if (form_json(text, NULL, &r->arena, &json, e) < 0)
			return -1;
		text = str_view(&json);
	}
	const struct node *map = json.full ? NULL : parse_map(r, text, &FLAT);
	/* The reader's messages could quote a password, so there is one message for all errors. */
	if (!map)
		return err_set(e, INVALID_PARAMETERS, "the body must be a JSON object or a form");
	for (uint32_t i = 0; i < map->n; i++) {
		const struct member *m = &map->member[i];
		struct span value = node_scalar(&r->arena, &m->value);
		char quoted[4 * QUOTE_MAX];
		if (m->value.type == NODE_NULL)
			continue;
		if (!value.p)
			return err_set(
			    e, INVALID_PARAMETERS,
			    "%s: must be a text, a number or a boolean, is a list or an object",
			    quote(quoted, member_key(m)));
		if (out->n == FIELDS_MAX)
			return err_set(e, INVALID_PARAMETERS, "the body has more than %d members",
			               FIELDS_MAX);
		out->v[out->n].name = member_key(m);
		out->v[out->n++].value = value;
	}
	return 0;
}

struct span fields_get(const struct fields *f, const char *name)
{
	for (size_t i = 0; i < f->n; i++)
		if (span_is(f->v[i].name, name))
			return f->v[i].value;
	return (struct span){ NULL, 0 };
}

static const char UNIT[] = "bytes=";

/* Digits; SIZE_MAX if the number is larger. */
static bool read_number(struct span text, size_t *out)
{
	size_t v = 0;
	bool over = false;
	for (size_t i = 0; i < text.n; i++) {
		if (!is_digit(text.p[i]))
			return false;
		over = over || __builtin_mul_overflow(v, 10, &v) ||
		       __builtin_add_overflow(v, (size_t)(text.p[i] - '0'), &v);
	}
	*out = over ? SIZE_MAX : v;
	return text.n > 0;
}

enum range_result range_read(const char *header, size_t size, size_t *from, size_t *n)
{
	struct span text = span_trim(span_of(header ? header : ""));
	const size_t unit = sizeof(UNIT) - 1;
	if (text.n < unit || strncasecmp(text.p, UNIT, unit) != 0)
		return RANGE_WHOLE;
	text = span_trim((struct span){ text.p + unit, text.n - unit });
	const char *dash = text.n ? memchr(text.p, '-', text.n) : NULL;
	if (!dash)
		return RANGE_WHOLE;
	struct span before = { text.p, (size_t)(dash - text.p) };
	struct span after = { dash + 1, text.n - before.n - 1 };
	size_t first;
	size_t last = SIZE_MAX;
	if (before.n == 0) { /* the last bytes, so many */
		/* Content-Range cannot express a part of nothing. */
		if (!read_number(after, &last) || (size == 0 && last > 0))
			return RANGE_WHOLE;
		if (last == 0)
			return RANGE_NONE;
		*n = last < size ? last : size;
		*from = size - *n;
		return RANGE_PART;
	}
	if (!read_number(before, &first) || (after.n && !read_number(after, &last)) || last < first)
		return RANGE_WHOLE;
	if (first >= size)
		return RANGE_NONE;
	*from = first;
	*n = (last < size ? last + 1 : size) - first;
	return RANGE_PART;
}
