/*
 * Reading templates: holes are found and checked here, before anything is merged,
 * so that every complaint can name the file and the line.
 */
#include "translate/render/template.h"

#include "base/err.h"
#include "base/yaml/yaml.h"

/* What is known on the way down a file. */
struct reader {
	const char *file;
	enum manifest_role role;
	unsigned has;
	const struct vocabulary *v;
	struct arena *a;
	struct err *e;
};

/* Members below which Kubernetes takes text only; a number there stops the controller. */
static const char *const TEXT_MAPS[] = { "labels",     "annotations",  "data",
	                                 "stringData", "nodeSelector", "matchLabels" };

/* Lists of which the same goes for the elements. */
static const char *const TEXT_LISTS[] = { "command", "args", "values" };

static const char NO_END[] = "a hole without end or name (for ${ itself write $${)";

static const char *const NAMED_LISTS[] = { "containers", "initContainers" };

static int fail(const struct reader *r, unsigned line, const char *text, struct span about)
{
	char shown[4 * QUOTE_MAX];
	return err_set(r->e, UNKNOWN_ERROR, "template %s, line %u: %s: `%s`", r->file, line, text,
	               quote(shown, about));
}

const struct hole *hole_find(const struct vocabulary *v, struct span name)
{
	for (size_t g = 0; g < v->n_groups; g++)
		for (size_t i = 0; i < v->groups[g].n; i++)
			if (span_is(name, v->groups[g].v[i].name))
				return &v->groups[g].v[i];
	return NULL;
}

const struct constant *constant_find(const struct vocabulary *v, struct span name)
{
	for (size_t i = 0; i < v->n_constants; i++)
		if (span_is(name, v->constants[i].name))
			return &v->constants[i];
	return NULL;
}

static int fail_unknown(const struct reader *r, unsigned line, struct span name)
{
	struct guess g = { .name = name };
	char shown[4 * QUOTE_MAX];
	for (size_t k = 0; k < r->v->n_groups; k++)
		for (size_t i = 0; i < r->v->groups[k].n; i++)
			guess_try(&g, r->v->groups[k].v[i].name);
	for (size_t i = 0; i < r->v->n_constants; i++)
		guess_try(&g, r->v->constants[i].name);
	if (g.best)
		return err_set(r->e, UNKNOWN_ERROR,
		               "template %s, line %u: unknown hole: `%s`; did you mean `%s`?",
		               r->file, line, quote(shown, name), g.best);
	return err_set(r->e, UNKNOWN_ERROR,
	               "template %s, line %u: unknown hole: `%s`; `rest-lit page translation` "
	               "lists all",
	               r->file, line, quote(shown, name));
}

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '_';
}

static bool at(struct span s, size_t i, const char *what)
{
	return span_starts((struct span){ s.p + i, s.n - i }, what);
}

/* `rest` begins with ${ */
static int piece_hole(struct span *rest, struct piece *p)
{
	size_t from = 2;
	p->hole = true;
	p->list = rest->n > 2 && rest->p[2] == '*';
	if (p->list)
		from++;
	size_t to = from;
	while (to < rest->n && is_name_char(rest->p[to]))
		to++;
	if (to == from || to == rest->n || rest->p[to] != '}')
		return -1;
	p->text = (struct span){ rest->p + from, to - from };
	*rest = (struct span){ rest->p + to + 1, rest->n - to - 1 };
	return 1;
}

int piece_next(struct span *rest, struct piece *p)
{
	if (rest->n == 0)
		return 0;
	if (at(*rest, 0, "${"))
		return piece_hole(rest, p);
	*p = (struct piece){ 0 };
	if (at(*rest, 0, "$${")) {
		p->text = (struct span){ rest->p + 1, 2 };
		*rest = (struct span){ rest->p + 3, rest->n - 3 };
		return 1;
	}
	size_t n = 1;
	while (n < rest->n && !at(*rest, n, "${") && !at(*rest, n, "$${"))
		n++;
	p->text = (struct span){ rest->p, n };
	*rest = (struct span){ rest->p + n, rest->n - n };
	return 1;
}

bool piece_literal(struct span text)
{
	struct piece p;
	int more = 0;
	while ((more = piece_next(&text, &p)) > 0)
		if (p.hole)
			return false;
	return more == 0;
}

static bool is_one_of(struct span key, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (span_is(key, list[i]))
			return true;
	return false;
}

/* ---- scalars -------------------------------------------------------------------------- */

/* Where a scalar stands. */
struct location {
	bool element;   /* of a list */
	bool text_only; /* Kubernetes takes nothing but text here */
};

/* Holes read what is not there otherwise, or write the template that they stand in. */
static int check_at_hand(const struct reader *r, const struct node *n, const struct hole *h)
{
	unsigned missing = h->needs & ~r->has;
	unsigned bit = 0;
	if (missing == 0)
		return 0;
	while (!(missing >> bit & 1))
		bit++;
	STR_AUTO text = STR_INIT(QUOTE_MAX);
	str_printf(&text, "a hole of %s has no meaning here", r->v->parts[bit]);
	return fail(r, n->line, str_c(&text), span_of(h->name));
}

static int check_hole(const struct reader *r, const struct node *n, struct piece p, bool whole)
{
	if (constant_find(r->v, p.text))
		return p.list ? fail(r, n->line, "a constant is no list", p.text) : 0;
	const struct hole *h = hole_find(r->v, p.text);
	if (h == NULL)
		return fail_unknown(r, n->line, p.text);
	if (p.list != (h->type == HOLE_LIST))
		return fail(r, n->line,
		            p.list ? "${*...} of a hole that is no list" : "a list needs ${*...}",
		            p.text);
	if (h->type == HOLE_MAP && !(whole && n->plain))
		return fail(r, n->line, "a mapping must be the whole value, unquoted", p.text);
	return check_at_hand(r, n, h);
}

static int check_typed(const struct reader *r, const struct node *n, struct piece p,
                       struct location at)
{
	const struct hole *h = p.hole ? hole_find(r->v, p.text) : NULL;
	if (p.list && !(at.element && n->plain))
		return fail(r, n->line, "${*...} stands only alone, as an element of a list",
		            p.text);
	if (h && n->plain && at.text_only && h->type != HOLE_TEXT)
		return fail(r, n->line, "must be text here: put it into quotes", p.text);
	return 0;
}

static int check_text(const struct reader *r, const struct node *n, struct location at)
{
	struct span rest = node_span(n);
	struct piece p;
	int more = 0;
	for (size_t i = 0; (more = piece_next(&rest, &p)) > 0; i++) {
		bool whole = i == 0 && rest.n == 0;
		if (p.hole && check_hole(r, n, p, whole) < 0)
			return -1;
		if (p.list && !whole)
			return fail(r, n->line, "${*...} stands only alone", p.text);
		if (whole && check_typed(r, n, p, at) < 0)
			return -1;
	}
	return more < 0 ? fail(r, n->line, NO_END, node_span(n)) : 0;
}

static int check_scalar(const struct reader *r, const struct node *n, struct location at)
{
	switch ((enum node_type)n->type) {
	case NODE_TEXT:
		return check_text(r, n, at);
	case NODE_NULL:
		if (r->role == MANIFEST_OVERLAY && !at.element)
			return 0; /* deletes its key */
		return fail(
		    r, n->line,
		    "null only deletes a key of what an overlay is put on; here, leave it out",
		    SPAN("null"));
	case NODE_BOOL:
	case NODE_INT:
		if (at.text_only)
			return fail(r, n->line, "must be text here: put it into quotes",
			            span_of(node_type_name(n)));
		return 0;
	case NODE_REAL:
	case NODE_DATE:
	case NODE_LIST:
	case NODE_MAP:
	case NODE_TYPE_MAX:
		break;
	}
	return fail(r, n->line, "not in a manifest: put it into quotes",
	            span_of(node_type_name(n)));
}

/* ---- keys --------------------------------------------------------------------------------- */

/* Fill the constants into a key.  1: it is another one now. */
static int fold_key(const struct reader *r, struct member *m)
{
	STR_AUTO key = STR_INIT(4096);
	struct span rest = member_key(m);
	struct piece p;
	int more = 0;
	while ((more = piece_next(&rest, &p)) > 0) {
		const struct constant *c = p.hole ? constant_find(r->v, p.text) : NULL;
		if (p.hole && c == NULL)
			return fail(r, m->key_line, "a key may hold constants only", p.text);
		str_span(&key, c ? c->value : p.text);
	}
	if (more < 0)
		return fail(r, m->key_line, NO_END, member_key(m));
	bool other = !span_eq(member_key(m), str_view(&key));
	m->key = arena_dup(r->a, str_view(&key));
	m->key_n = (uint32_t)key.n;
	return other;
}

static int check_twice(const struct reader *r, const struct member *m, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (span_eq(member_key(&m[k]), member_key(&m[i])))
			return fail(r, m[i].key_line, "the same key twice", member_key(&m[i]));
	return 0;
}

/* ---- containers ----------------------------------------------------------------------------- */

/* The way down: parents on the C stack, as struct path, but only the last two keys matter. */
struct above {
	struct span key;    /* of the nearest map */
	struct span before; /* of the map or list above that */
};

static int check_node(const struct reader *r, struct node *n, struct above up, bool element);

static int check_container_names(const struct reader *r, const struct node *list)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct node *name = node_get(&list->item[i], "name");
		if (!node_is(name, NODE_TEXT) || !piece_literal(node_span(name)))
			return fail(r, list->item[i].line, "a container needs a literal name",
			            SPAN("name"));
		for (size_t k = 0; k < i; k++)
			if (span_eq(node_span(name), node_span(node_get(&list->item[k], "name"))))
				return fail(r, name->line, "the same container twice",
				            node_span(name));
	}
	return 0;
}

static int check_list(const struct reader *r, struct node *n, struct above up)
{
	struct node *item = arena_alloc(r->a, n->n * sizeof(*item));
	for (size_t i = 0; i < n->n; i++) {
		item[i] = n->item[i];
		if (check_node(r, &item[i], up, true) < 0)
			return -1;
	}
	n->item = item;
	if (is_one_of(up.key, NAMED_LISTS, sizeof(NAMED_LISTS) / sizeof(*NAMED_LISTS)))
		return check_container_names(r, n);
	return 0;
}

static int check_map(const struct reader *r, struct node *n, struct above up)
{
	struct member *m = arena_alloc(r->a, n->n * sizeof(*m));
	bool filled = false; /* as they are written, no two are the same */
	for (size_t i = 0; i < n->n; i++) {
		m[i] = n->member[i];
		int rc = fold_key(r, &m[i]);
		filled = filled || rc > 0;
		if (rc < 0 || (filled && check_twice(r, m, i) < 0))
			return -1;
		struct above down = { member_key(&m[i]), up.key };
		if (check_node(r, &m[i].value, down, false) < 0)
			return -1;
	}
	n->member = m;
	return 0;
}

/* In a pod every `value` is a text, whatever it is of: a variable, a toleration, an option of DNS.
 */
static bool is_text_only(struct above up, bool element)
{
	if (element)
		return is_one_of(up.key, TEXT_LISTS, sizeof(TEXT_LISTS) / sizeof(*TEXT_LISTS));
	return is_one_of(up.before, TEXT_MAPS, sizeof(TEXT_MAPS) / sizeof(*TEXT_MAPS)) ||
	       (up.before.n && span_is(up.key, "value"));
}

/* Checks, and replaces *n's children by a copy with its keys filled in. */
static int check_node(const struct reader *r, struct node *n, struct above up, bool element)
{
	if (n->type == NODE_LIST)
		return check_list(r, n, up);
	if (n->type == NODE_MAP)
		return check_map(r, n, up);
	return check_scalar(r, n, (struct location){ element, is_text_only(up, element) });
}

/* Nothing but blanks and comments. */
static bool is_blank(struct span text)
{
	bool comment = false;
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];
		comment = c != '\n' && (comment || c == '#');
		if (!comment && (c == '\0' || !strchr(" \t\r\n", c)))
			return false;
	}
	return true;
}

/* Of what is no YAML, the first complaint, in the form of all others. */
static int complain_of_yaml(const struct manifest *m, struct err *e)
{
	const struct note *first = e->notes.n ? &e->notes.v[0] : NULL;
	FREE_AUTO char *why = xstrdup(err_msg(e));
	unsigned line = first ? first->line : 0;
	unsigned column = first ? first->column : 0;
	err_done(e);
	return err_set(e, UNKNOWN_ERROR, "template %s, line %u, column %u: %s", m->file, line,
	               column, why);
}

static int read_blank(struct manifest *m, struct arena *a, struct err *e)
{
	struct node *nothing = ARENA_NEW(a, struct node, 1);
	if (m->role == MANIFEST_BASE)
		return err_set(e, UNKNOWN_ERROR,
		               "template %s: is empty; only an overlay may be that", m->file);
	nothing->type = NODE_MAP;
	m->root = nothing;
	return 0;
}

int manifest_read(struct manifest *m, const struct vocabulary *v, struct arena *a, struct err *e)
{
	struct reader r = { m->file, m->role, m->has, v, a, e };
	NOTES_AUTO warnings = { 0 };
	struct budget budget = BUDGET_DEFAULT;
	struct doc *doc = ARENA_NEW(a, struct doc, 1);
	if (is_blank(m->text))
		return read_blank(m, a, e);
	if (yaml_read(m->text, &budget, a, doc, &warnings, e) < 0)
		return complain_of_yaml(m, e);
	/* A list at the top is a fragment of an environment, or the like: see PROG_ITEMS. */
	struct above top = { doc->root.type == NODE_LIST ? SPAN("env") : SPAN(""), SPAN("") };
	if (check_node(&r, &doc->root, top, false) < 0)
		return -1;
	m->root = &doc->root;
	return 0;
}
