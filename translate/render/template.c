/* Reads templates, checking all variables before any merge so that messages have file and line,
 * and merges overlays. */
#include "translate/render/template.h"

#include "base/doc/yaml.h"
#include "base/err.h"
#include "base/str.h"
#include "translate/job/names.h"

struct manifest_reader {
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

static int template_fail(const struct manifest_reader *r, unsigned line, const char *text,
                         struct span about)
{
	return err_set(r->e, UNKNOWN_ERROR, "template %s, line %u: %s: `%s`", r->file, line, text,
	               arena_quoted(r->a, about));
}

const struct variable *variable_find(const struct vocabulary *v, struct span name)
{
	for (size_t g = 0; g < v->n_groups; g++)
		for (size_t i = 0; i < v->groups[g]->n; i++)
			if (span_is(name, v->groups[g]->v[i].name))
				return &v->groups[g]->v[i];
	return NULL;
}

const struct constant *constant_find(const struct vocabulary *v, struct span name)
{
	for (size_t i = 0; i < v->n_constants; i++)
		if (span_is(name, v->constants[i].name))
			return &v->constants[i];
	return NULL;
}

static int template_fail_unknown(const struct manifest_reader *r, unsigned line, struct span name)
{
	struct guess g = { .name = name };
	for (size_t k = 0; k < r->v->n_groups; k++)
		for (size_t i = 0; i < r->v->groups[k]->n; i++)
			guess_try(&g, r->v->groups[k]->v[i].name);
	for (size_t i = 0; i < r->v->n_constants; i++)
		guess_try(&g, r->v->constants[i].name);
	if (g.best)
		return err_set(r->e, UNKNOWN_ERROR,
		               "template %s, line %u: unknown variable: `%s`; did you mean `%s`?",
		               r->file, line, arena_quoted(r->a, name), g.best);
	return err_set(r->e, UNKNOWN_ERROR,
	               "template %s, line %u: unknown variable: `%s`; `rest-lit page translation` "
	               "lists all",
	               r->file, line, arena_quoted(r->a, name));
}

int piece_next(struct span *rest, struct scalar_piece *p)
{
	*p = (struct scalar_piece){ 0 };
	if (rest->n == 0)
		return 0;
	size_t n = 1;
	if (span_starts(*rest, "${")) {
		p->variable = true;
		p->list = rest->n > 2 && rest->p[2] == '*';
		size_t from = p->list ? 3 : 2;
		for (n = from; n < rest->n; n++)
			if (!is_alnum(rest->p[n]) && rest->p[n] != '.' && rest->p[n] != '_')
				break;
		if (n == from || n == rest->n || rest->p[n] != '}')
			return -1;
		p->text = span_from(span_to(*rest, n++), from);
	} else if (span_starts(*rest, "$${")) {
		n = 3;
		p->text = span_from(span_to(*rest, n), 1);
	} else {
		while (n < rest->n && !span_starts(span_from(*rest, n), "${") &&
		       !span_starts(span_from(*rest, n), "$${"))
			n++;
		p->text = span_to(*rest, n);
	}
	*rest = span_from(*rest, n);
	return 1;
}

/* ---- scalars ---- */

struct template_location {
	bool element;   /* of a list */
	bool text_only; /* Kubernetes accepts only text here */
};

static int check_variable(const struct manifest_reader *r, const struct node *n,
                          struct scalar_piece p, bool whole)
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
	unsigned missing = h->needs & ~r->has;
	if (missing == 0)
		return 0;
	const char *part = r->v->parts[__builtin_ctz(missing)];
	return template_fail(r, n->line,
	                     arena_printf(r->a, "a variable of %s has no meaning here", part),
	                     span_of(h->name));
}

static int check_text(const struct manifest_reader *r, const struct node *n,
                      struct template_location at)
{
	struct span rest = node_span(n);
	struct scalar_piece p;
	int more = 0;
	for (size_t i = 0; (more = piece_next(&rest, &p)) > 0; i++) {
		bool whole = i == 0 && rest.n == 0;
		const struct variable *h = p.variable ? variable_find(r->v, p.text) : NULL;
		bool text = !h || h->type == VARIABLE_TEXT || h->type == VARIABLE_TEXTS;
		if (p.variable && check_variable(r, n, p, whole) < 0)
			return -1;
		if (p.list && !whole)
			return template_fail(r, n->line, "${*...} stands only alone", p.text);
		if (p.list && !(at.element && n->plain))
			return template_fail(r, n->line,
			                     "${*...} stands only alone, as an element of a list",
			                     p.text);
		if (whole && n->plain && at.text_only && !text)
			return template_fail(r, n->line, "must be text here: put it into quotes",
			                     p.text);
	}
	return more < 0 ? template_fail(r, n->line, NO_END, node_span(n)) : 0;
}

static int template_check_scalar(const struct manifest_reader *r, const struct node *n,
                                 struct template_location at)
{
	if (n->type == NODE_TEXT)
		return check_text(r, n, at);
	if (n->type == NODE_NULL && r->role == MANIFEST_OVERLAY && !at.element)
		return 0;
	if (n->type == NODE_NULL)
		return template_fail(
		    r, n->line,
		    "null only deletes a key of the template below an overlay; leave it out here",
		    SPAN("null"));
	bool good = n->type == NODE_BOOL || n->type == NODE_INT;
	if (good && at.text_only)
		return template_fail(r, n->line, "must be text here: put it into quotes",
		                     span_of(node_type_name(n)));
	if (good)
		return 0;
	return template_fail(r, n->line, "not in a manifest: put it into quotes",
	                     span_of(node_type_name(n)));
}

/* ---- keys ---- */

/* Fills the constants into a key. 1: the key has changed. */
static int fold_key(const struct manifest_reader *r, struct member *m)
{
	STR_AUTO key = STR_INIT(4096);
	struct span rest = member_key(m);
	struct scalar_piece p;
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

/* ---- containers ---- */

/* The last two keys of the path. */
struct path_tail {
	struct span key;
	struct span before; /* above it */
};

static int check_node(const struct manifest_reader *r, struct node *n, struct path_tail up,
                      bool element);

static int check_container_names(const struct manifest_reader *r, const struct node *list)
{
	for (size_t i = 0; i < list->n; i++) {
		const struct node *name = node_get(&list->item[i], "name");
		struct span rest = node_is(name, NODE_TEXT) ? node_span(name) : SPAN("${");
		struct scalar_piece p;
		int more;
		while ((more = piece_next(&rest, &p)) > 0 && !p.variable) {
		}
		if (more != 0)
			return template_fail(r, list->item[i].line,
			                     "a container needs a literal name", SPAN("name"));
		for (size_t k = 0; k < i; k++)
			if (span_eq(node_span(name), node_span(node_get(&list->item[k], "name"))))
				return template_fail(r, name->line, "the same container twice",
				                     node_span(name));
	}
	return 0;
}

static int check_list(const struct manifest_reader *r, struct node *n, struct path_tail up)
{
	struct node *item = arena_alloc(r->a, n->n * sizeof(*item));
	for (size_t i = 0; i < n->n; i++) {
		item[i] = n->item[i];
		if (check_node(r, &item[i], up, true) < 0)
			return -1;
	}
	n->item = item;
	return names_listed(NAMED_LISTS, up.key) ? check_container_names(r, n) : 0;
}

static int check_map(const struct manifest_reader *r, struct node *n, struct path_tail up)
{
	struct member *m = arena_alloc(r->a, n->n * sizeof(*m));
	bool filled = false; /* the reader has refused equal keys as written */
	for (size_t i = 0; i < n->n; i++) {
		m[i] = n->member[i];
		int rc = fold_key(r, &m[i]);
		if (rc < 0)
			return -1;
		filled = filled || rc > 0;
		for (size_t k = 0; filled && k < i; k++)
			if (span_eq(member_key(&m[k]), member_key(&m[i])))
				return template_fail(r, m[i].key_line, "the same key twice",
				                     member_key(&m[i]));
		struct path_tail down = { member_key(&m[i]), up.key };
		if (check_node(r, &m[i].value, down, false) < 0)
			return -1;
	}
	n->member = m;
	return 0;
}

/* Checks a node and replaces its children by a copy with the constants filled in. */
static int check_node(const struct manifest_reader *r, struct node *n, struct path_tail up,
                      bool element)
{
	if (n->type == NODE_LIST)
		return check_list(r, n, up);
	if (n->type == NODE_MAP)
		return check_map(r, n, up);
	/* In a pod every `value` is text: in variables, tolerations, and DNS options. */
	bool text_only = element ? names_listed(TEXT_LISTS, up.key)
	                         : names_listed(TEXT_MAPS, up.before) ||
	                               (up.before.n && span_is(up.key, "value"));
	return template_check_scalar(r, n, (struct template_location){ element, text_only });
}

int manifest_read(struct manifest *m, const struct vocabulary *v, struct arena *a, struct err *e)
{
	struct manifest_reader r = { m->file, m->role, m->has, v, a, e };
	struct budget budget = BUDGET_DEFAULT;
	struct doc *doc = ARENA_NEW(a, struct doc, 1);
	bool blank = true; /* nothing but comments */
	for (struct span rest = m->text; rest.n && blank;) {
		struct span line = span_next(&rest, '\n');
		for (size_t i = 0; i < line.n && blank && line.p[i] != '#'; i++)
			blank = line.p[i] == ' ' || line.p[i] == '\t' || line.p[i] == '\r';
	}
	if (blank && m->role == MANIFEST_BASE)
		return err_set(e, UNKNOWN_ERROR,
		               "template %s: is empty; only an overlay may be that", m->file);
	if (blank) {
		doc->root.type = NODE_MAP;
		m->root = &doc->root;
		return 0;
	}
	if (yaml_read(m->text, &budget, a, doc, NULL, e) < 0) {
		struct note first = e->notes.n ? e->notes.v[0] : (struct note){ 0 };
		FREE_AUTO char *why = xstrdup(err_msg(e));
		err_done(e);
		return err_set(e, UNKNOWN_ERROR, "template %s, line %u, column %u: %s", m->file,
		               first.line, first.column, why);
	}
	/* A list at the top is a fragment, such as of an environment: see PROG_ITEMS. */
	struct path_tail top = { doc->root.type == NODE_LIST ? SPAN("env") : SPAN(""), SPAN("") };
	if (check_node(&r, &doc->root, top, false) < 0)
		return -1;
	m->root = &doc->root;
	return 0;
}

/* ---- merging ---- */

/* A bit in node.flags of a merged tree: an overlay set this scalar. */
enum { SET_BY_OVERLAY = 0x80 };

static int fail_part(const struct manifest_reader *m, const struct node *container)
{
	return template_fail(m, container->line,
	                     "there is no such container to add to, and it has no image of its own",
	                     node_span(node_get(container, "name")));
}

/* Copies a new node and marks its scalars, so that no second overlay can set them. */
static int adopt_node(const struct manifest_reader *m, struct span key, const struct node *n,
                      struct node *out)
{
	*out = *n;
	if (n->type == NODE_LIST) {
		struct node *item = arena_alloc(m->a, n->n * sizeof(*item));
		out->item = item;
		for (size_t i = 0; i < n->n; i++) {
			if (names_listed(NAMED_LISTS, key) && !node_get(&n->item[i], "image"))
				return fail_part(m, &n->item[i]);
			if (adopt_node(m, SPAN(""), &n->item[i], &item[i]) < 0)
				return -1;
		}
	} else if (n->type == NODE_MAP) {
		struct member *v = arena_alloc(m->a, n->n * sizeof(*v));
		out->member = v;
		for (size_t i = 0; i < n->n; i++) {
			v[i] = n->member[i];
			if (v[i].value.type == NODE_NULL)
				return template_fail(m, v[i].key_line,
				                     "null only deletes, and all of this is new; "
				                     "an empty mapping is {}",
				                     member_key(&v[i]));
			if (adopt_node(m, member_key(&v[i]), &n->member[i].value, &v[i].value) < 0)
				return -1;
		}
	} else {
		out->flags |= SET_BY_OVERLAY;
	}
	return 0;
}

static int template_merge_map(const struct manifest_reader *m, const struct node *base,
                              const struct node *over, struct node *out);

/* Appends; `named`: containers, which are merged by name, and of which a new one needs an image. */
static int merge_list(const struct manifest_reader *m, const struct node *base,
                      const struct node *over, bool named, struct node *out)
{
	struct node *item = arena_alloc(m->a, (base->n + over->n) * sizeof(*item));
	size_t n = base->n;
	for (size_t i = 0; i < base->n; i++)
		item[i] = base->item[i];
	for (size_t i = 0; i < over->n; i++) {
		const struct node *add = &over->item[i];
		size_t k = named ? 0 : n;
		while (k < n && !span_eq(node_span(node_get(&item[k], "name")),
		                         node_span(node_get(add, "name"))))
			k++;
		if (k < n) {
			/* Skips `name`, which is equal in both. */
			struct node rest = *add;
			struct member *v = arena_alloc(m->a, add->n * sizeof(*v));
			rest.member = v;
			rest.n = 0;
			for (size_t j = 0; j < add->n; j++)
				if (!span_is(member_key(&add->member[j]), "name"))
					v[rest.n++] = add->member[j];
			if (template_merge_map(m, &item[k], &rest, &item[k]) < 0)
				return -1;
		} else if (named && !node_get(add, "image")) {
			return fail_part(m, add);
		} else if (adopt_node(m, SPAN(""), add, &item[n++]) < 0) {
			return -1;
		}
	}
	*out = *base;
	out->item = item;
	out->n = (uint32_t)n;
	return 0;
}

static int merge_node(const struct manifest_reader *m, const struct node *base,
                      const struct member *over, struct node *out)
{
	const struct node *value = &over->value;
	struct span key = member_key(over);
	if (base->type == NODE_MAP && value->type == NODE_MAP)
		return template_merge_map(m, base, value, out);
	if (base->type == NODE_LIST && value->type == NODE_LIST)
		return merge_list(m, base, value, names_listed(NAMED_LISTS, key), out);
	if (base->type == NODE_LIST || base->type == NODE_MAP || value->type == NODE_LIST ||
	    value->type == NODE_MAP)
		return template_fail(m, value->line,
		                     arena_printf(m->a, "%s, where there is %s",
		                                  node_type_name(value), node_type_name(base)),
		                     key.n ? key : SPAN("(all of it)"));
	if (base->flags & SET_BY_OVERLAY)
		return template_fail(m, value->line, "two overlays set this", key);
	return adopt_node(m, key, value, out);
}

static int merge_member(const struct manifest_reader *m, struct member *v, size_t *n,
                        const struct member *over)
{
	size_t i = 0;
	while (i < *n && !span_eq(member_key(&v[i]), member_key(over)))
		i++;
	if (over->value.type == NODE_NULL) {
		if (i == *n)
			return template_fail(m, over->key_line,
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
	return adopt_node(m, member_key(over), &over->value, &v[(*n)++].value);
}

static int template_merge_map(const struct manifest_reader *m, const struct node *base,
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

int manifest_merge(const struct node **root, const struct manifest *overlay, struct arena *a,
                   struct err *e)
{
	struct manifest_reader m = { .file = overlay->file, .a = a, .e = e };
	const struct node *base = *root;
	const struct node *over = overlay->root;
	struct member top = { .value = *over };
	struct node *out = ARENA_NEW(a, struct node, 1);
	bool maps = base->type == NODE_MAP && over->type == NODE_MAP;
	/* Unknown top-level keys would have no effect. */
	for (size_t i = 0; maps && overlay->role == MANIFEST_OVERLAY && i < over->n; i++)
		if (!node_member(base, member_key(&over->member[i])))
			return template_fail(&m, over->member[i].key_line,
			                     "there is no such place to add to",
			                     member_key(&over->member[i]));
	if (merge_node(&m, base, &top, out) < 0)
		return -1;
	*root = out;
	return 0;
}
