/* Suggestions for misspelt placeholders, members, keys and roles. */

#include "base/err.h"
#include "translate/dialects/warnings.h"
#include "translate/names.h"

struct nearest {
	struct span name;
	unsigned distance;
};

static void try_name(struct nearest *best, struct span wanted, struct span name)
{
	unsigned limit = edit_limit(wanted.n);
	unsigned d = edit_distance(wanted, name, limit);
	if (d <= limit && (best->name.p == NULL || d < best->distance))
		*best = (struct nearest){ name, d };
}

static size_t part_end(struct span name, size_t from)
{
	while (from < name.n && name.p[from] != '.' && name.p[from] != '[')
		from++;
	return from;
}

/* The name with the part at `from` replaced, if it leads to a value. */
static struct span suggest_replaced(struct render *r, struct arena *a, struct span name,
                                    size_t from, struct span part)
{
	size_t to = part_end(name, from);
	struct span whole = span_of(arena_printf(a, "%.*s%.*s%.*s", (int)from, name.p, (int)part.n,
	                                         part.p, (int)(name.n - to), name.p + to));
	const struct node *n = render_find(r, whole);
	return n && n->type != NODE_NULL ? whole : (struct span){ NULL, 0 };
}

struct span suggest_placeholder(struct render *r, struct arena *a, struct span name)
{
	struct nearest best = { 0 };
	size_t end = part_end(name, 0);
	const struct node *n = render_find(r, (struct span){ name.p, end });
	size_t from = 0;
	if (n == NULL)
		for (size_t i = 0; i < r->n_roots; i++)
			try_name(&best, (struct span){ name.p, end }, span_of(r->roots[i].name));
	while (node_is(n, NODE_MAP) && end < name.n && name.p[end] == '.') {
		const struct node *map = n;
		from = end + 1;
		end = part_end(name, from);
		n = render_find(r, (struct span){ name.p, end });
		for (uint32_t i = 0; n == NULL && i < map->n; i++)
			try_name(&best, (struct span){ name.p + from, end - from },
			         member_key(&map->member[i]));
	}
	if (best.name.p == NULL)
		return best.name;
	return suggest_replaced(r, a, name, from, best.name);
}

const char *const EXTRAS_KNOWN[] = { "com.microsoft.pai.runtimeplugin",
	                             "distributed",
	                             "gangAllocation",
	                             "hivedScheduler",
	                             "maxDurationSec",
	                             "storages",
	                             NULL };

void suggest_members(struct parse_context *r, const struct path *p, const struct node *map,
                     const char *const *known)
{
	for (uint32_t i = 0; node_is(map, NODE_MAP) && i < map->n; i++) {
		struct nearest best = { 0 };
		struct span key = member_key(&map->member[i]);
		if (names_listed(known, key))
			continue;
		for (const char *const *k = known; *k; k++)
			try_name(&best, key, span_of(*k));
		if (best.name.p)
			parse_warn_key(r, p, &map->member[i], WARN_MISSPELT, best.name.p);
	}
}

struct span suggest_name(const struct parse_context *r, const struct node *all, const char *type,
                         struct span wanted)
{
	struct nearest best = { 0 };
	/* No suggestions for messages beyond the limit. */
	if (r->e->notes.n >= NOTES_MAX || r->warnings->n >= NOTES_MAX)
		return best.name;
	for (uint32_t i = 0; node_is(all, NODE_MAP) && i < all->n; i++)
		try_name(&best, wanted, member_key(&all->member[i]));
	for (uint32_t i = 0; node_is(all, NODE_LIST) && i < all->n; i++) {
		const struct node *n = all->item + i;
		if (type == NULL || span_is(parse_text(n, "type"), type))
			try_name(&best, wanted, parse_text(n, "name"));
	}
	return best.name;
}

const char *did_you_mean(struct arena *a, struct span name)
{
	return name.n ? arena_printf(a, "; did you mean `%s`?", quoted(a, name)) : "";
}

bool suggest_misspelt(const struct parse_context *r, const char *key)
{
	const struct node *root = r->root;
	unsigned limit = edit_limit(strlen(key));
	if (node_get(root, key))
		return false;
	for (uint32_t i = 0; node_is(root, NODE_MAP) && i < root->n; i++)
		if (edit_distance(member_key(&root->member[i]), span_of(key), limit) <= limit)
			return true;
	return false;
}

struct old_key {
	const char *key, *now;
};

static const struct old_key OLD_KEYS[] = {
	{ "jobName", "`name`" },
	{ "image", "a prerequisite of type dockerimage, which task roles name as `dockerImage`" },
	{ "virtualCluster", "`defaults.virtualCluster`" },
	{ "retryCount", "`jobRetryCount`" },
	{ "jobEnvs", "`export NAME=value` in `commands`" },
	{ "authFile", "`auth` of a prerequisite of type dockerimage" },
	{ "dataDir", "a prerequisite of type data" },
	{ "outputDir", "a prerequisite of type output" },
	{ "codeDir", "a prerequisite of type script" },
	{ "killAllOnCompletedTaskNumber", "`completion.minSucceededInstances` of task roles" },
	{ NULL, NULL },
};
static const struct old_key OLD_ROLE_KEYS[] = {
	{ "taskNumber", "`instances`" },
	{ "cpuNumber", "`resourcePerInstance.cpu`" },
	{ "memoryMB", "`resourcePerInstance.memoryMB`" },
	{ "gpuNumber", "`resourcePerInstance.gpu`" },
	{ "portList", "`resourcePerInstance.ports`" },
	{ "shmMB", "`extraContainerOptions.shmMB`" },
	{ "command", "`commands`, a list" },
	{ "minFailedTaskCount", "`completion.minFailedInstances`" },
	{ "minSucceededTaskCount", "`completion.minSucceededInstances`" },
	{ NULL, NULL },
};

void suggest_old_keys(struct parse_context *r, const struct path *role, const struct node *map)
{
	for (const struct old_key *k = role ? OLD_ROLE_KEYS : OLD_KEYS; k->key; k++) {
		const struct member *m =
		    node_is(map, NODE_MAP) ? node_member(map, span_of(k->key)) : NULL;
		if (m)
			parse_refuse_key(r, role, m,
			                 "unknown key `%s`: in jobs of protocol 2 it is %s", k->key,
			                 k->now);
	}
}

static bool has_role(const struct node *roles, struct span name)
{
	for (uint32_t i = 0; node_is(roles, NODE_LIST) && i < roles->n; i++)
		if (span_eq(parse_text(roles->item + i, "name"), name))
			return true;
	return node_is(roles, NODE_MAP) && node_member(roles, name);
}

void suggest_roles(struct parse_context *r, const struct path *p, const struct node *names)
{
	const struct node *roles = node_get(r->root, "taskRoles");
	bool known = node_is(roles, NODE_MAP) || node_is(roles, NODE_LIST);
	if (!known || roles->n > r->set->max_roles)
		return;
	for (uint32_t i = 0; names && i < names->n; i++) {
		bool map = names->type == NODE_MAP;
		if (!map && (names->type != NODE_LIST || !node_is(names->item + i, NODE_TEXT)))
			continue;
		struct span name = map ? member_key(&names->member[i]) : node_span(names->item + i);
		if (has_role(roles, name))
			continue;
		struct span hint = suggest_name(r, roles, NULL, name);
		struct path one = map ? PATH_KEY(p, name) : PATH_INDEX(p, i);
		struct node at = map ? (struct node){ .line = names->member[i].key_line,
			                              .column = names->member[i].key_column }
		                     : names->item[i];
		if (hint.n)
			parse_warn(r, &one, &at, WARN_NO_ROLE_HINT, quoted(r->a, hint));
		else
			parse_warn(r, &one, &at, WARN_NO_ROLE);
	}
}
