#include "base/pod/reference.h"

/* Returns the offset of `]` if s starts with `[digits]`, else 0. */
static size_t reference_index(struct span s)
{
	size_t i = 1;
	if (s.n < 3 || s.p[0] != '[')
		return 0;
	while (i < s.n && is_digit(s.p[i]))
		i++;
	return i > 1 && i < s.n && s.p[i] == ']' ? i : 0;
}

struct span reference_part(struct span *name)
{
	size_t from = 0;
	size_t end = reference_index(*name);
	size_t next = end + 1;
	if (end) {
		from = 1;
		if (next < name->n && name->p[next] != '.' && name->p[next] != '[')
			end = from;
	} else {
		while (end < name->n && name->p[end] != '.' &&
		       reference_index(span_from(*name, end)) == 0)
			end++;
		next = end;
	}
	struct span part = { name->p + from, end - from };
	*name = span_from(*name, next + (next < name->n && name->p[next] == '.'));
	return part;
}

const struct node *reference_child(const struct node *n, struct span part)
{
	int64_t i;
	if (node_is(n, NODE_MAP)) {
		const struct member *m = node_member(n, part);
		return m ? &m->value : NULL;
	}
	if (!node_is(n, NODE_LIST) || (part.n > 1 && part.p[0] == '0') ||
	    parse_i64(part, 0, UINT32_MAX, &i) < 0 || i >= n->n)
		return NULL;
	return &n->item[i];
}
