/* Trees of job documents: look-up, comparison, JSON, places; see tree.h. */
#include "base/doc/tree.h"

#include <math.h>

#include "base/enc.h"

enum { POINTER_MAX = 64 * 1024 };

const struct member *node_member(const struct node *map, struct span key)
{
	if (!node_is(map, NODE_MAP))
		return NULL;
	for (uint32_t i = 0; i < map->n; i++) {
		const struct member *m = &map->member[i];
		if (m->key_n != key.n)
			continue;
		if (key.n == 0 || (m->key[0] == key.p[0] && memcmp(m->key, key.p, key.n) == 0))
			return m;
	}
	return NULL;
}

const char *node_type_name(const struct node *n)
{
	static const char *const NAMES[NODE_TYPE_MAX] = {
		[NODE_NULL] = "null",     [NODE_BOOL] = "a boolean", [NODE_INT] = "an integer",
		[NODE_REAL] = "a number", [NODE_TEXT] = "text",      [NODE_DATE] = "a date",
		[NODE_LIST] = "a list",   [NODE_MAP] = "a mapping",
	};
	return NAMES[n->type];
}

bool node_equal(const struct node *a, const struct node *b)
{
	if (node_is_number(a) && node_is_number(b)) {
		double x = node_number(a);
		double y = node_number(b);
		return x == y || (isnan(x) && isnan(y));
	}
	if (a->type != b->type)
		return false;
	if (a->type == NODE_BOOL)
		return a->boolean == b->boolean;
	if (a->type == NODE_TEXT || a->type == NODE_DATE)
		return span_eq(node_span(a), node_span(b));
	if (a->type == NODE_NULL || a->n != b->n)
		return a->type == NODE_NULL;
	for (uint32_t i = 0; a->type == NODE_LIST && i < a->n; i++) {
		if (!node_equal(&a->item[i], &b->item[i]))
			return false;
	}
	for (uint32_t i = 0; a->type == NODE_MAP && i < a->n; i++) {
		/* Usually the members have the same order. */
		const struct member *m = &a->member[i];
		const struct member *other = &b->member[i];
		if (!span_eq(member_key(m), member_key(other)))
			other = node_member(b, member_key(m));
		if (other == NULL || !node_equal(&m->value, &other->value))
			return false;
	}
	return true;
}

bool node_put(struct str *out, const struct node *n)
{
	switch ((enum node_type)n->type) {
	case NODE_NULL:
		return true;
	case NODE_BOOL:
		str_puts(out, n->boolean ? "true" : "false");
		return true;
	case NODE_INT:
		str_int(out, n->integer);
		return true;
	case NODE_REAL:
		number_put(out, n->real);
		return true;
	case NODE_TEXT:
	case NODE_DATE:
		str_span(out, node_span(n));
		return true;
	case NODE_LIST:
	case NODE_MAP:
	case NODE_TYPE_MAX:
		break;
	}
	return false;
}

/* null, or a number that JSON does not have. */
static bool node_is_nothing(const struct node *n)
{
	return n->type == NODE_NULL || (n->type == NODE_REAL && !isfinite(n->real));
}

struct span node_scalar(struct arena *a, const struct node *n)
{
	STR_AUTO text = STR_INIT(NUMBER_MAX);
	if (n->type == NODE_TEXT || n->type == NODE_DATE)
		return node_span(n);
	if (node_is_nothing(n) || !node_put(&text, n))
		return (struct span){ NULL, 0 };
	return arena_span(a, str_view(&text));
}

void node_json(struct str *out, const struct node *n)
{
	bool map = n->type == NODE_MAP;
	if (n->type == NODE_TEXT || n->type == NODE_DATE) {
		str_json(out, node_span(n));
	} else if (node_is_nothing(n)) {
		str_puts(out, "null");
	} else if (!map && n->type != NODE_LIST) {
		(void)node_put(out, n);
	} else {
		str_char(out, map ? '{' : '[');
		for (uint32_t i = 0; i < n->n; i++) {
			if (i)
				str_char(out, ',');
			if (map) {
				str_json(out, member_key(&n->member[i]));
				str_char(out, ':');
			}
			node_json(out, map ? &n->member[i].value : &n->item[i]);
		}
		str_char(out, map ? '}' : ']');
	}
}

void pointer_key(struct str *out, struct span key)
{
	str_char(out, '/');
	for (size_t i = 0; i < key.n;) {
		size_t from = i;
		while (i < key.n && key.p[i] != '~' && key.p[i] != '/')
			i++;
		str_put(out, key.p + from, i - from);
		if (i < key.n)
			str_puts(out, key.p[i++] == '~' ? "~0" : "~1");
	}
}

void pointer_index(struct str *out, size_t index)
{
	str_char(out, '/');
	str_int(out, (int64_t)index);
}

static void tree_put_path(struct str *out, const struct path *p)
{
	if (p == NULL)
		return;
	tree_put_path(out, p->up);
	if (p->key.p)
		pointer_key(out, p->key);
	else
		pointer_index(out, p->index);
}

static const char *path_pointer(struct arena *a, const struct path *p)
{
	enum { INDEX_DIGITS = 20 };
	size_t cap = 1; /* an upper bound */
	for (const struct path *up = p; up; up = up->up)
		cap += 1 + (up->key.p ? 2 * up->key.n : INDEX_DIGITS);
	if (cap > POINTER_MAX)
		cap = POINTER_MAX;
	struct str at = { .p = arena_alloc(a, cap), .cap = cap, .max = cap - 1 };
	at.p[0] = '\0';
	tree_put_path(&at, p);
	return at.p;
}

struct place path_place(struct arena *a, const struct path *p, const struct node *n)
{
	return (struct place){ path_pointer(a, p), n ? n->line : 0, n ? n->column : 0 };
}

struct place path_place_key(struct arena *a, const struct path *p, const struct member *m)
{
	struct path at = PATH_KEY(p, member_key(m));
	return (struct place){ path_pointer(a, &at), m->key_line, m->key_column };
}
