/* Overlays: putting one tree over another, without changing either. */
#include "translate/render/template.h"

/* In node.flags of a merged tree: this scalar was set by an overlay. */
enum { SET_BY_OVERLAY = 0x80 };

struct merge {
	const char *file;
	struct arena *a;
	struct err *e;
};

static int fail(const struct merge *m, unsigned line, const char *text, struct span about)
{
	char shown[4 * QUOTE_MAX];
	return err_set(m->e, UNKNOWN_ERROR, "template %s, line %u: %s: `%s`", m->file, line, text,
	               quote(shown, about));
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
	return fail(m, over->line, str_c(&text), key.n ? key : SPAN("(all of it)"));
}

static bool is_named_list(struct span key)
{
	return span_is(key, "containers") || span_is(key, "initContainers");
}

static int fail_part(const struct merge *m, const struct node *container)
{
	return fail(m, container->line,
	            "there is no such container to add to, and it has no image of its own",
	            node_span(node_get(container, "name")));
}

static int adopt(const struct merge *m, struct span key, const struct node *n, struct node *out);

static int adopt_list(const struct merge *m, struct span key, const struct node *n,
                      struct node *item)
{
	for (size_t i = 0; i < n->n; i++) {
		if (is_named_list(key) && !node_get(&n->item[i], "image"))
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
			return fail(
			    m, member[i].key_line,
			    "null only deletes, and all of this is new; an empty mapping is {}",
			    member_key(&member[i]));
		if (adopt(m, member_key(&member[i]), &n->member[i].value, &member[i].value) < 0)
			return -1;
	}
	return 0;
}

/* What was not there before.  Everything that comes from an overlay is marked, so that a second one
 * cannot set it too. */
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

static int merge_map(const struct merge *m, const struct node *base, const struct node *over,
                     struct node *out);

static size_t find(const struct member *v, size_t n, struct span key)
{
	size_t i = 0;
	while (i < n && !span_eq(member_key(&v[i]), key))
		i++;
	return i;
}

static int append(const struct merge *m, const struct node *base, const struct node *over,
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

/* The element of that name, or n. */
static size_t find_named(const struct node *item, size_t n, const struct node *name)
{
	size_t i = 0;
	while (i < n && !span_eq(node_span(node_get(&item[i], "name")), node_span(name)))
		i++;
	return i;
}

/* Without `name`, which is the same in both. */
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

/* Containers by name; one that the base does not have must be whole, that is, have an image. */
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
		size_t k = find_named(item, n, name);
		struct node rest = without_name(m, add);
		if (k < n) {
			if (merge_map(m, &item[k], &rest, &item[k]) < 0)
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
		return merge_map(m, base, value, out);
	if (base->type == NODE_LIST && value->type == NODE_LIST) {
		return is_named_list(key) ? merge_named(m, base, value, out)
		                          : append(m, base, value, out);
	}
	if (is_container(base) || is_container(value))
		return fail_kind(m, base, value, key);
	if (base->flags & SET_BY_OVERLAY)
		return fail(m, value->line, "two overlays set this", key);
	return adopt(m, key, value, out);
}

static int merge_member(const struct merge *m, struct member *v, size_t *n,
                        const struct member *over)
{
	size_t i = find(v, *n, member_key(over));
	if (over->value.type == NODE_NULL) {
		if (i == *n)
			return fail(m, over->key_line, "null deletes nothing: there is no such key",
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

static int merge_map(const struct merge *m, const struct node *base, const struct node *over,
                     struct node *out)
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

/* A misspelt first key would otherwise put all of the overlay where nobody looks. */
static int check_place(const struct merge *m, const struct node *base, const struct node *over)
{
	for (size_t i = 0; i < over->n; i++)
		if (node_member(base, member_key(&over->member[i])) == NULL)
			return fail(m, over->member[i].key_line, "there is no such place to add to",
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
	    check_place(&m, base, overlay->root) < 0)
		return -1;
	if (merge_node(&m, base, &top, out) < 0)
		return -1;
	*root = out;
	return 0;
}
