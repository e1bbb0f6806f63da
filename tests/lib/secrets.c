#include "tests/lib/secrets.h"

#include "base/doc/tree.h"
#include "base/doc/yaml.h"

enum { RECOGNISABLE = 6, OUTSIDE_MAX = 16 << 20 };

static bool contains(struct span text, const struct node *n)
{
	return memmem(text.p, text.n, n->text, n->n) != NULL;
}

static unsigned search(const struct node *n, struct span outside, struct span out)
{
	unsigned line = 0;
	if (node_is(n, NODE_MAP)) {
		for (uint32_t i = 0; i < n->n && !line; i++)
			line = search(&n->member[i].value, outside, out);
	} else if (node_is(n, NODE_LIST)) {
		for (uint32_t i = 0; i < n->n && !line; i++)
			line = search(&n->item[i], outside, out);
	} else if (node_is(n, NODE_TEXT) && n->n >= RECOGNISABLE && contains(out, n) &&
	           !contains(outside, n)) {
		line = n->line;
	}
	return line;
}

unsigned secret_found(struct span job, struct span out)
{
	ARENA_AUTO a = { 0 };
	const struct node *root = doc_quiet(job, &BUDGET_DEFAULT, &a);
	const struct node *secrets = node_get(root, "secrets");
	if (!secrets)
		return 0;
	STR_AUTO outside = STR_INIT(OUTSIDE_MAX);
	/* The rest of the job shows a secret that it shares. */
	for (uint32_t i = 0; i < root->n && !(secrets->flags & NODE_SHARES); i++) {
		const struct node one = { .type = NODE_MAP, .n = 1, .member = &root->member[i] };
		if (&root->member[i].value == secrets)
			continue;
		yaml_write(&outside, &one);
		node_json(&outside, &one);
	}
	return search(secrets, str_view(&outside), out);
}

static bool is_same(const struct node *was, const struct node *is)
{
	STR_AUTO before = STR_INIT(OUTSIDE_MAX);
	STR_AUTO after = STR_INIT(OUTSIDE_MAX);
	node_json(&before, was); /* where a date is text */
	node_json(&after, is);
	return span_eq(str_view(&before), str_view(&after));
}

static bool is_hidden(const struct node *n)
{
	return node_is(n, NODE_TEXT) && span_is(node_span(n), "******");
}

static const char *auth_fault(const struct node *was, const struct node *is)
{
	if (node_items(was) != node_items(is))
		return "the stored login has other members";
	for (uint32_t i = 0; i < node_items(was); i++) {
		const struct node *v = &was->member[i].value;
		const struct node *stored = node_get(is, was->member[i].key);
		bool shown =
		    v->type == NODE_NULL || v->n == 0 ||
		    span_is(member_key(&was->member[i]), "registryuri") ||
		    (node_is(v, NODE_TEXT) &&
		     contains(node_span(v), &(struct node){ .text = "$secrets.", .n = 9 }));
		if (!stored || (!is_hidden(stored) && !(shown && is_same(v, stored))))
			return "a login is stored with another value";
	}
	return NULL;
}

static const char *prerequisite_fault(const struct node *was, const struct node *is)
{
	if (node_items(was) != node_items(is))
		return "a stored prerequisite has other members";
	for (uint32_t i = 0; i < node_items(was); i++) {
		const struct node *v = &was->member[i].value;
		const struct node *stored = node_get(is, was->member[i].key);
		bool auth = span_is(member_key(&was->member[i]), "auth") && node_is(v, NODE_MAP);
		const char *fault = auth ? auth_fault(v, stored) : NULL;
		if (fault || !stored || (!auth && !is_same(v, stored)))
			return fault ? fault : "a prerequisite is stored with another value";
	}
	return NULL;
}

const char *stored_fault(struct span job, struct span stored)
{
	ARENA_AUTO a = { 0 };
	const struct node *root = doc_quiet(job, &BUDGET_DEFAULT, &a);
	const struct node *is = doc_quiet(stored, &BUDGET_DEFAULT, &a);
	if (!is || node_items(is) != node_items(root))
		return "the stored job cannot be read, or has other members";
	for (uint32_t i = 0; i < root->n; i++) {
		const struct member *m = &root->member[i];
		const struct node *other = node_get(is, m->key);
		const char *fault = NULL;
		bool list =
		    span_is(member_key(m), "prerequisites") && node_is(&m->value, NODE_LIST);
		if (list && node_items(other) != m->value.n)
			return "the stored job has other prerequisites";
		for (uint32_t k = 0; list && k < m->value.n && !fault; k++)
			fault = prerequisite_fault(&m->value.item[k], &other->item[k]);
		if (fault)
			return fault;
		bool secrets = span_is(member_key(m), "secrets");
		if (!other || (secrets ? !is_hidden(other) : !list && !is_same(&m->value, other)))
			return "a member of the job is stored with another value";
	}
	return NULL;
}
