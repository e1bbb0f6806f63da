/* Reads templates, checking all variables before any merge so that messages have file and line,
 * and merges overlays. */
#include "translate/render/template.h"

#include "base/err.h"
#include "base/str.h"
#include "base/yaml/yaml.h"
#include "translate/names.h"

struct reader {
	const char *file;
	enum manifest_role role;
	unsigned has;
	const struct vocabulary *v;
	struct arena *a;
	struct err *e;
};

/* Members whose values must be text; a number there stops FrameworkController. */
static const char *const TEXT_MAPS[] = { "labels",       "annotations", "data", "stringData",
	                                 "nodeSelector", "matchLabels", NULL };

/* Lists whose elements must be text. */
static const char *const TEXT_LISTS[] = { "command", "args", "values", NULL };

static const char NO_END[] = "a variable without end or name (for ${ itself write $${)";

static const char *const NAMED_LISTS[] = { "containers", "initContainers", NULL };

static int template_fail(const struct reader *r, unsigned line, const char *text, struct span about)
{
	return err_set(r->e, UNKNOWN_ERROR, "template %s, line %u: %s: `%s`", r->file, line, text,
	               quoted(r->a, about));
}

const struct variable *variable_find(const struct vocabulary *v, struct span name)
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

static int template_fail_unknown(const struct reader *r, unsigned line, struct span name)
{
	struct guess g = { .name = name };
	for (size_t k = 0; k < r->v->n_groups; k++)
		for (size_t i = 0; i < r->v->groups[k].n; i++)
			guess_try(&g, r->v->groups[k].v[i].name);
	for (size_t i = 0; i < r->v->n_constants; i++)
		guess_try(&g, r->v->constants[i].name);
	if (g.best)
		return err_set(r->e, UNKNOWN_ERROR,
		               "template %s, line %u: unknown variable: `%s`; did you mean `%s`?",
		               r->file, line, quoted(r->a, name), g.best);
	return err_set(r->e, UNKNOWN_ERROR,
	               "template %s, line %u: unknown variable: `%s`; `rest-lit page translation` "
	               "lists all",
	               r->file, line, quoted(r->a, name));
}

static bool is_name_char(char c)
{
	return is_alnum(c) || c == '.' || c == '_';
}

static bool at(struct span s, size_t i, const char *what)
{
	return span_starts((struct span){ s.p + i, s.n - i }, what);
}

/* `rest` begins with ${ */
static int piece_variable(struct span *rest, struct piece *p)
{
	size_t from = 2;
	p->variable = true;
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
		return piece_variable(rest, p);
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
		if (p.variable)
			return false;
	return more == 0;
}

/* ---- scalars ---- */

struct location {
	bool element;   /* of a list */
	bool text_only; /* Kubernetes accepts only text here */
};

/* Refuses variables outside of their scope. */
static int check_at_hand(const struct reader *r, const struct node *n, const struct variable *h)
{
	unsigned missing = h->needs & ~r->has;
	unsigned bit = 0;
	if (missing == 0)
		return 0;
	while (!(missing >> bit & 1))
		bit++;
	STR_AUTO text = STR_INIT(QUOTE_MAX);
	str_printf(&text, "a variable of %s has no meaning here", r->v->parts[bit]);
	return template_fail(r, n->line, str_c(&text), span_of(h->name));
}

static int check_variable(const struct reader *r, const struct node *n, struct piece p, bool whole)
{
	if (constant_find(r->v, p.text))
		return p.list ? template_fail(r, n->line, "a constant is no list", p.text) : 0;
	const struct variable *h = variable_find(r->v, p.text);
	if (h == NULL)
		return template_fail_unknown(r, n->line, p.text);
	if (p.list != variable_is_list(h))
		return template_fail(r, n->line,
		                     p.list ? "${*...} of a variable that is no list"
		                            : "a list needs ${*...}",
		                     p.text);
	if (h->type == VARIABLE_MAP && !(whole && n->plain))
		return template_fail(r, n->line, "a mapping must be the whole value, unquoted",
		                     p.text);
	return check_at_hand(r, n, h);
}

static int check_typed(const struct reader *r, const struct node *n, struct piece p,
                       struct location at)
{
	const struct variable *h = p.variable ? variable_find(r->v, p.text) : NULL;
	if (p.list && !(at.element && n->plain))
		return template_fail(r, n->line,
		                     "${*...} stands only alone, as an element of a list", p.text);
	if (h && n->plain && at.text_only && h->type != VARIABLE_TEXT && h->type != VARIABLE_TEXTS)
		return template_fail(r, n->line, "must be text here: put it into quotes", p.text);
	return 0;
}

static int check_text(const struct reader *r, const struct node *n, struct location at)
{
	struct span rest = node_span(n);
	struct piece p;
	int more = 0;
	for (size_t i = 0; (more = piece_next(&rest, &p)) > 0; i++) {
		bool whole = i == 0 && rest.n == 0;
		if (p.variable && check_variable(r, n, p, whole) < 0)
			return -1;
		if (p.list && !whole)
			return template_fail(r, n->line, "${*...} stands only alone", p.text);
		if (whole && check_typed(r, n, p, at) < 0)
			return -1;
	}
	return more < 0 ? template_fail(r, n->line, NO_END, node_span(n)) : 0;
}

static int template_check_scalar(const struct reader *r, const struct node *n, struct location at)
{
	switch ((enum node_type)n->type) {
	case NODE_TEXT:
		return check_text(r, n, at);
	case NODE_NULL:
		if (r->role == MANIFEST_OVERLAY && !at.element)
			return 0;
		return template_fail(
		    r, n->line,
		    "null only deletes a key of the template below an overlay; leave it out here",
		    SPAN("null"));
	case NODE_BOOL:
	case NODE_INT:
		if (at.text_only)
			return template_fail(r, n->line, "must be text here: put it into quotes",
			                     span_of(node_type_name(n)));
		return 0;
	case NODE_REAL:
	case NODE_DATE:
	case NODE_LIST:
	case NODE_MAP:
	case NODE_TYPE_MAX:
		break;
	}
	return template_fail(r, n->line, "not in a manifest: put it into quotes",
	                     span_of(node_type_name(n)));
}

/* ---- keys ---- */

/* Fills the constants into a key. 1: the key has changed. */
static int fold_key(const struct reader *r, struct member *m)
{
	STR_AUTO key = STR_INIT(4096);
	struct span rest = member_key(m);
	struct piece p;
	int more = 0;
	while ((more = piece_next(&rest, &p)) > 0) {
		const struct constant *c = p.variable ? constant_find(r->v, p.text) : NULL;
		if (p.variable && c == NULL)
			return template_fail(r, m->key_line, "a key may hold constants only",
			                     p.text);
		str_span(&key, c ? c->value : p.text);
	}
	if (more < 0)
		return template_fail(r, m->key_line, NO_END, member_key(m));
	bool other = !span_eq(member_key(m), str_view(&key));
	m->key = arena_dup(r->a, str_view(&key));
	m->key_n = (uint32_t)key.n;
	return other;
}

static int check_twice(const struct reader *r, const struct member *m, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (span_eq(member_key(&m[k]), member_key(&m[i])))
			return template_fail(r, m[i].key_line, "the same key twice",
			                     member_key(&m[i]));
	return 0;
}

/* ---- containers ---- */

/* The last two keys of the path. */
struct above {
	struct span key;
	struct span before; /* above it */
};

static int check_node(const struct reader *r, struct node *n, struct above up, bool element);

static int check_container_names(const struct reader *r, const struct node *list)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct node *name = node_get(&list->item[i], "name");
		if (!node_is(name, NODE_TEXT) || !piece_literal(node_span(name)))
			return template_fail(r, list->item[i].line,
			                     "a container needs a literal name", SPAN("name"));
		for (size_t k = 0; k < i; k++)
			if (span_eq(node_span(name), node_span(node_get(&list->item[k], "name"))))
				return template_fail(r, name->line, "the same container twice",
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
	if (names_listed(NAMED_LISTS, up.key))
		return check_container_names(r, n);
	return 0;
}

static int check_map(const struct reader *r, struct node *n, struct above up)
{
	struct member *m = arena_alloc(r->a, n->n * sizeof(*m));
	bool filled = false; /* the reader has refused equal keys as written */
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

/* In a pod every `value` is text: of a variable, toleration, or DNS option. */
static bool is_text_only(struct above up, bool element)
{
	if (element)
		return names_listed(TEXT_LISTS, up.key);
	return names_listed(TEXT_MAPS, up.before) || (up.before.n && span_is(up.key, "value"));
}

/* Checks a node and replaces its children by a copy with the constants filled in. */
static int check_node(const struct reader *r, struct node *n, struct above up, bool element)
{
	if (n->type == NODE_LIST)
		return check_list(r, n, up);
	if (n->type == NODE_MAP)
		return check_map(r, n, up);
	return template_check_scalar(r, n, (struct location){ element, is_text_only(up, element) });
}

static bool template_is_blank(struct span text)
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

/* Reports the first error of the YAML reader. */
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
	if (template_is_blank(m->text))
		return read_blank(m, a, e);
	if (yaml_read(m->text, &budget, a, doc, &warnings, e) < 0)
		return complain_of_yaml(m, e);
	/* A list at the top is a fragment, such as of an environment: see PROG_ITEMS. */
	struct above top = { doc->root.type == NODE_LIST ? SPAN("env") : SPAN(""), SPAN("") };
	if (check_node(&r, &doc->root, top, false) < 0)
		return -1;
	m->root = &doc->root;
	return 0;
}

/* ---- merging ---- */

/* In node.flags of a merged tree: an overlay set this scalar. */
enum { SET_BY_OVERLAY = 0x80 };

struct merge {
	const char *file;
	struct arena *a;
	struct err *e;
};

static int merge_fail(const struct merge *m, unsigned line, const char *text, struct span about)
{
	return err_set(m->e, UNKNOWN_ERROR, "template %s, line %u: %s: `%s`", m->file, line, text,
	               quoted(m->a, about));
}

static bool is_container(const struct node *n)
{
	return n->type == NODE_LIST || n->type == NODE_MAP;
}

static int fail_kind(const struct merge *m, const struct node *base, const struct node *over,
                     struct span key)
{
	STR_AUTO text = STR_INIT(QUOTE_MAX);
	str_printf(&text, "%s, where there is %s", node_type_name(over), node_type_name(base));
	return merge_fail(m, over->line, str_c(&text), key.n ? key : SPAN("(all of it)"));
}

static int fail_part(const struct merge *m, const struct node *container)
{
	return merge_fail(m, container->line,
	                  "there is no such container to add to, and it has no image of its own",
	                  node_span(node_get(container, "name")));
}

static int adopt(const struct merge *m, struct span key, const struct node *n, struct node *out);

static int adopt_list(const struct merge *m, struct span key, const struct node *n,
                      struct node *item)
{
	for (size_t i = 0; i < n->n; i++) {
		if (names_listed(NAMED_LISTS, key) && !node_get(&n->item[i], "image"))
			return fail_part(m, &n->item[i]);
		if (adopt(m, SPAN(""), &n->item[i], &item[i]) < 0)
			return -1;
	}
	return 0;
}

static int adopt_map(const struct merge *m, const struct node *n, struct member *member)
{
	for (size_t i = 0; i < n->n; i++) {
		member[i] = n->member[i];
		if (member[i].value.type == NODE_NULL)
			return merge_fail(
			    m, member[i].key_line,
			    "null only deletes, and all of this is new; an empty mapping is {}",
			    member_key(&member[i]));
		if (adopt(m, member_key(&member[i]), &n->member[i].value, &member[i].value) < 0)
			return -1;
	}
	return 0;
}

/* Copies a new node and marks its scalars, so that no second overlay can set them. */
static int adopt(const struct merge *m, struct span key, const struct node *n, struct node *out)
{
	*out = *n;
	if (n->type == NODE_LIST) {
		struct node *item = arena_alloc(m->a, n->n * sizeof(*item));
		out->item = item;
		return adopt_list(m, key, n, item);
	}
	if (n->type == NODE_MAP) {
		struct member *member = arena_alloc(m->a, n->n * sizeof(*member));
		out->member = member;
		return adopt_map(m, n, member);
	}
	out->flags |= SET_BY_OVERLAY;
	return 0;
}

static int template_merge_map(const struct merge *m, const struct node *base,
                              const struct node *over, struct node *out);

static size_t template_find(const struct member *v, size_t n, struct span key)
{
	size_t i = 0;
	while (i < n && !span_eq(member_key(&v[i]), key))
		i++;
	return i;
}

static int template_append(const struct merge *m, const struct node *base, const struct node *over,
                           struct node *out)
{
	struct node *item = arena_alloc(m->a, (base->n + over->n) * sizeof(*item));
	for (size_t i = 0; i < base->n; i++)
		item[i] = base->item[i];
	if (adopt_list(m, SPAN(""), over, &item[base->n]) < 0)
		return -1;
	*out = *base;
	out->item = item;
	out->n = base->n + over->n;
	return 0;
}

/* Index of the element with that name, or n. */
static size_t template_find_named(const struct node *item, size_t n, const struct node *name)
{
	size_t i = 0;
	while (i < n && !span_eq(node_span(node_get(&item[i], "name")), node_span(name)))
		i++;
	return i;
}

/* A copy without `name`, which is equal in both. */
static struct node without_name(const struct merge *m, const struct node *over)
{
	struct node out = *over;
	struct member *v = arena_alloc(m->a, over->n * sizeof(*v));
	size_t n = 0;
	for (size_t i = 0; i < over->n; i++)
		if (!span_is(member_key(&over->member[i]), "name"))
			v[n++] = over->member[i];
	out.member = v;
	out.n = (uint32_t)n;
	return out;
}

/* Merges containers by name; a new container needs an image. */
static int merge_named(const struct merge *m, const struct node *base, const struct node *over,
                       struct node *out)
{
	struct node *item = arena_alloc(m->a, (base->n + over->n) * sizeof(*item));
	size_t n = base->n;
	for (size_t i = 0; i < base->n; i++)
		item[i] = base->item[i];
	for (size_t i = 0; i < over->n; i++) {
		const struct node *add = &over->item[i];
		const struct node *name = node_get(add, "name");
		size_t k = template_find_named(item, n, name);
		struct node rest = without_name(m, add);
		if (k < n) {
			if (template_merge_map(m, &item[k], &rest, &item[k]) < 0)
				return -1;
		} else if (!node_get(add, "image")) {
			return fail_part(m, add);
		} else if (adopt(m, SPAN(""), add, &item[n++]) < 0) {
			return -1;
		}
	}
	*out = *base;
	out->item = item;
	out->n = (uint32_t)n;
	return 0;
}

static int merge_node(const struct merge *m, const struct node *base, const struct member *over,
                      struct node *out)
{
	const struct node *value = &over->value;
	struct span key = member_key(over);
	if (base->type == NODE_MAP && value->type == NODE_MAP)
		return template_merge_map(m, base, value, out);
	if (base->type == NODE_LIST && value->type == NODE_LIST) {
		return names_listed(NAMED_LISTS, key) ? merge_named(m, base, value, out)
		                                      : template_append(m, base, value, out);
	}
	if (is_container(base) || is_container(value))
		return fail_kind(m, base, value, key);
	if (base->flags & SET_BY_OVERLAY)
		return merge_fail(m, value->line, "two overlays set this", key);
	return adopt(m, key, value, out);
}

static int merge_member(const struct merge *m, struct member *v, size_t *n,
                        const struct member *over)
{
	size_t i = template_find(v, *n, member_key(over));
	if (over->value.type == NODE_NULL) {
		if (i == *n)
			return merge_fail(m, over->key_line,
			                  "null deletes nothing: there is no such key",
			                  member_key(over));
		(*n)--;
		for (; i < *n; i++)
			v[i] = v[i + 1];
		return 0;
	}
	if (i < *n)
		return merge_node(m, &v[i].value, over, &v[i].value);
	v[*n] = *over;
	return adopt(m, member_key(over), &over->value, &v[(*n)++].value);
}

static int template_merge_map(const struct merge *m, const struct node *base,
                              const struct node *over, struct node *out)
{
	struct member *v = arena_alloc(m->a, (base->n + over->n) * sizeof(*v));
	size_t n = base->n;
	for (size_t i = 0; i < base->n; i++)
		v[i] = base->member[i];
	for (size_t i = 0; i < over->n; i++)
		if (merge_member(m, v, &n, &over->member[i]) < 0)
			return -1;
	*out = *base;
	out->member = v;
	out->n = (uint32_t)n;
	return 0;
}

/* Refuses unknown top-level keys, which would have no effect. */
static int template_check_place(const struct merge *m, const struct node *base,
                                const struct node *over)
{
	for (size_t i = 0; i < over->n; i++)
		if (node_member(base, member_key(&over->member[i])) == NULL)
			return merge_fail(m, over->member[i].key_line,
			                  "there is no such place to add to",
			                  member_key(&over->member[i]));
	return 0;
}

int manifest_merge(const struct node **root, const struct manifest *overlay, struct arena *a,
                   struct err *e)
{
	struct merge m = { overlay->file, a, e };
	const struct node *base = *root;
	struct member top = { .value = *overlay->root };
	struct node *out = ARENA_NEW(a, struct node, 1);
	if (base->type == NODE_MAP && overlay->root->type == NODE_MAP &&
	    overlay->role == MANIFEST_OVERLAY && template_check_place(&m, base, overlay->root) < 0)
		return -1;
	if (merge_node(&m, base, &top, out) < 0)
		return -1;
	*root = out;
	return 0;
}
