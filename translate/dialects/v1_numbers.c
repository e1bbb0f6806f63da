/*
 * v1: numbers written as text.  Forms and the first clients sent them so, and the first
 * servers took them; here they become numbers before the schema sees the document.
 */
#include "translate/dialects/warnings.h"

enum { DIGITS_MAX = 11 }; /* with a sign */

static const char *const JOB_NUMBERS[] = { "killAllOnCompletedTaskNumber", "retryCount", NULL };
static const char *const ROLE_NUMBERS[] = {
	"taskNumber",
	"cpuNumber",
	"memoryMB",
	"shmMB",
	"gpuNumber",
	"minFailedTaskCount",
	"minSucceededTaskCount",
	NULL,
};
static const char *const PORT_NUMBERS[] = { "beginAt", "portNumber", NULL };

static bool listed(const char *const *names, struct span key)
{
	for (; *names; names++) {
		if (span_is(key, *names))
			return true;
	}
	return false;
}

static struct member *copy_members(struct arena *a, const struct node *map)
{
	struct member *m = arena_alloc(a, (map->n + 1) * sizeof(*m));
	if (map->n)
		memcpy(m, map->member, map->n * sizeof(*m));
	return m;
}

static struct node *copy_items(struct arena *a, const struct node *list)
{
	struct node *v = arena_alloc(a, (list->n + 1) * sizeof(*v));
	if (list->n)
		memcpy(v, list->item, list->n * sizeof(*v));
	return v;
}

static void convert(struct reading *r, const struct path *p, struct node *n)
{
	int64_t v;
	if (!node_is(n, NODE_TEXT) || n->n > DIGITS_MAX ||
	    parse_i64(node_span(n), INT64_MIN, INT64_MAX, &v))
		return;
	reading_warn(r, p, n, WARN_TEXT_NUMBER, (long long)v);
	n->type = NODE_INT;
	n->integer = v;
	n->n = 0;
}

/* The map with those of its members that are listed as numbers. */
static struct member *convert_members(struct reading *r, const struct path *up, struct node *map,
                                      const char *const *names)
{
	struct member *m = copy_members(r->a, map);
	map->member = m;
	for (uint32_t i = 0; i < map->n; i++) {
		struct path p = PATH_KEY(up, member_key(&m[i]));
		if (listed(names, member_key(&m[i])))
			convert(r, &p, &m[i].value);
	}
	return m;
}

static void convert_ports(struct reading *r, const struct path *p, struct node *list)
{
	if (!node_is(list, NODE_LIST))
		return;
	struct node *v = copy_items(r->a, list);
	list->item = v;
	for (uint32_t i = 0; i < list->n; i++) {
		struct path one = PATH_INDEX(p, i);
		if (node_is(&v[i], NODE_MAP))
			(void)convert_members(r, &one, &v[i], PORT_NUMBERS); /* needed by others */
	}
}

static void convert_role(struct reading *r, const struct path *p, struct node *role)
{
	if (!node_is(role, NODE_MAP))
		return;
	struct member *m = convert_members(r, p, role, ROLE_NUMBERS);
	struct path ports = PATH_KEY(p, SPAN("portList"));
	for (uint32_t i = 0; i < role->n; i++) {
		if (span_is(member_key(&m[i]), "portList"))
			convert_ports(r, &ports, &m[i].value);
	}
}

static void convert_roles(struct reading *r, struct node *list)
{
	struct path p = PATH_KEY(NULL, SPAN("taskRoles"));
	if (!node_is(list, NODE_LIST))
		return;
	struct node *v = copy_items(r->a, list);
	list->item = v;
	for (uint32_t i = 0; i < list->n; i++) {
		struct path one = PATH_INDEX(&p, i);
		convert_role(r, &one, &v[i]);
	}
}

const struct node *pai_v1_numbers(struct reading *r)
{
	struct node *root = arena_alloc(r->a, sizeof(*root));
	*root = *r->root;
	struct member *m = convert_members(r, NULL, root, JOB_NUMBERS);
	for (uint32_t i = 0; i < root->n; i++) {
		if (span_is(member_key(&m[i]), "taskRoles"))
			convert_roles(r, &m[i].value);
	}
	return root;
}
