/* What of an account is shown. */
#include "server/accounts/account_inner.h"

enum { SHOWN_MEMBERS = 4 };

/* ---- virtual clusters ----------------------------------------------------------- */

static size_t copy(struct arena *arena, const struct span *from, size_t n, struct span **out)
{
	struct span *v = ARENA_NEW(arena, struct span, n + 1);
	for (size_t i = 0; i < n; i++)
		v[i] = arena_span(arena, from[i]);
	*out = v;
	return n;
}

static bool has(const struct span *v, size_t n, struct span name)
{
	for (size_t i = 0; i < n; i++)
		if (span_eq(v[i], name))
			return true;
	return false;
}

/* Those of the file, and those that groups of a cluster have named. */
static size_t with_seen(struct account_source *s, struct arena *arena, struct span **v, size_t n)
{
	struct span *all = ARENA_NEW(arena, struct span, n + SEEN_MAX);
	for (size_t i = 0; i < n; i++)
		all[i] = (*v)[i];
	(void)pthread_mutex_lock(&s->lock); /* cannot fail: nobody locks twice */
	for (size_t i = 0; i < s->n_seen; i++)
		if (!has(all, n, span_of(s->seen[i])))
			all[n++] = arena_span(arena, span_of(s->seen[i]));
	(void)pthread_mutex_unlock(&s->lock);
	*v = all;
	return n;
}

size_t account_virtual_clusters(struct accounts *all, const struct account *a, struct arena *arena,
                                struct span **out)
{
	bool listed;
	struct span *exist;
	if (a && !a->facts.any_virtual_cluster)
		return copy(arena, a->facts.virtual_clusters, a->facts.n_virtual_clusters, out);
	size_t n = facts_file_virtual_clusters(policy_file(all->policy), arena, &exist, &listed);
	n = copy(arena, exist, n, out);
	return listed ? n : with_seen(all->source, arena, out, n);
}

bool account_clusters_listed(struct accounts *all)
{
	bool listed;
	struct span *exist;
	ARENA_AUTO arena = { 0 };
	(void)facts_file_virtual_clusters(policy_file(all->policy), &arena, &exist, &listed);
	return listed;
}

/* ---- the extension -------------------------------------------------------------- */

enum shape { SHAPE_MAP, SHAPE_LIST_OF_MAPS, SHAPE_MAP_OF_MAPS };

/* The members of an extension that are known, and of these the members that are no secrets: all
 * else, such as jobSSH.key, githubPAT and the tokens of bounded clusters, is shown to nobody. */
static const struct {
	const char *key;
	enum shape shape;
	const char *members[SHOWN_MEMBERS];
} SHOWN[] = {
	{ "jobSSH", SHAPE_MAP, { "pubKey" } },
	{ "sshKeys", SHAPE_LIST_OF_MAPS, { "title", "value", "time" } },
	{ "boundedClusters", SHAPE_MAP_OF_MAPS, { "alias", "uri", "username" } },
};

/* A scalar; a private key in the place of a public one is a mistake of somebody's. */
static bool may_show(const struct node *n)
{
	if (!n || n->type == NODE_LIST || n->type == NODE_MAP)
		return false;
	return n->type != NODE_TEXT ||
	       !(n->n && memmem(n->text, n->n, "PRIVATE KEY", strlen("PRIVATE KEY")));
}

static void put_map(struct str *out, const struct node *map, const char *const *members)
{
	const char *comma = "";
	str_char(out, '{');
	for (size_t i = 0; i < SHOWN_MEMBERS && members[i]; i++) {
		const struct node *v = node_get(map, members[i]);
		if (!may_show(v))
			continue;
		str_puts(out, comma);
		str_json(out, span_of(members[i]));
		str_char(out, ':');
		node_json(out, v);
		comma = ",";
	}
	str_char(out, '}');
}

static void put_list(struct str *out, const struct node *list, const char *const *members)
{
	str_char(out, '[');
	for (size_t i = 0; i < list->n; i++) {
		str_puts(out, i ? "," : "");
		put_map(out, &list->item[i], members);
	}
	str_char(out, ']');
}

static void put_map_of_maps(struct str *out, const struct node *map, const char *const *members)
{
	str_char(out, '{');
	for (size_t i = 0; i < map->n; i++) {
		str_puts(out, i ? "," : "");
		str_json(out, member_key(&map->member[i]));
		str_char(out, ':');
		put_map(out, &map->member[i].value, members);
	}
	str_char(out, '}');
}

static void put(struct str *out, const struct node *v, enum shape shape, const char *const *members)
{
	switch (shape) {
	case SHAPE_MAP:
		put_map(out, v, members);
		break;
	case SHAPE_LIST_OF_MAPS:
		put_list(out, v, members);
		break;
	case SHAPE_MAP_OF_MAPS:
		put_map_of_maps(out, v, members);
		break;
	}
}

void account_extension(const struct account *a, struct str *out)
{
	const char *comma = "";
	str_char(out, '{');
	for (size_t i = 0; i < sizeof(SHOWN) / sizeof(*SHOWN); i++) {
		const struct node *v = node_get(a->extension, SHOWN[i].key);
		if (!node_is(v, SHOWN[i].shape == SHAPE_LIST_OF_MAPS ? NODE_LIST : NODE_MAP))
			continue;
		str_puts(out, comma);
		str_json(out, span_of(SHOWN[i].key));
		str_char(out, ':');
		put(out, v, SHOWN[i].shape, SHOWN[i].members);
		comma = ",";
	}
	str_char(out, '}');
}
