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

void suggest_members(struct parse_context *r, const struct field *map, const char *const *known)
{
	for (uint32_t i = 0; i < field_members(map); i++) {
		const struct member *m = &map->n->member[i];
		struct nearest best = { 0 };
		if (names_listed(known, member_key(m)))
			continue;
		for (const char *const *k = known; *k; k++)
			try_name(&best, member_key(m), span_of(*k));
		if (best.name.p)
			parse_warn_key(r, map, m, WARN_MISSPELT, best.name.p);
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

void suggest_old_keys(struct parse_context *r, const struct field *map)
{
	for (const struct old_key *k = map->top ? OLD_KEYS : OLD_ROLE_KEYS; k->key; k++) {
		const struct member *m = node_member(map->n, span_of(k->key));
		if (m)
			parse_refuse_key(r, map, m,
			                 "unknown key `%s`: in jobs of protocol 2 it is %s", k->key,
			                 k->now);
	}
}

void suggest_roles(struct parse_context *r, const struct field *names)
{
	struct field roles = field_get(TOP(r), "taskRoles");
	bool list = node_is(names->n, NODE_LIST);
	if ((!node_is(roles.n, NODE_MAP) && !node_is(roles.n, NODE_LIST)) ||
	    roles.n->n > r->set->max_roles)
		return;
	for (uint32_t i = 0; i < field_items(names) + field_members(names); i++) {
		struct field one = list ? field_item(names, i) : field_member(names, i);
		const struct member *m = list ? NULL : &names->n->member[i];
		struct span name = m ? member_key(m) : field_text(&one);
		bool known = node_member(roles.n, name) || (list && !node_is(one.n, NODE_TEXT));
		for (uint32_t k = 0; k < field_items(&roles) && !known; k++)
			known = span_eq(parse_text(&roles.n->item[k], "name"), name);
		if (known)
			continue;
		struct span hint = suggest_name(r, roles.n, NULL, name);
		struct place where =
		    m ? path_place_key(r->a, field_path(names), m) : field_place(r->a, &one);
		if (hint.n)
			parse_report(r, PARSE_WARN, where, WARN_NO_ROLE_HINT, quoted(r->a, hint));
		else
			parse_report(r, PARSE_WARN, where, WARN_NO_ROLE);
	}
}
