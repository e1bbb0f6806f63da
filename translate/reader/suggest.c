/* Suggestions for misspelt placeholders, members, keys and roles. */

#include "base/err.h"
#include "translate/job/names.h"
#include "translate/reader/parse_context.h"

static size_t suggest_part_end(struct span name, size_t from)
{
	while (from < name.n && name.p[from] != '.' && name.p[from] != '[')
		from++;
	return from;
}

const char *suggest_placeholder(struct render *r, struct arena *a, struct span name)
{
	size_t end = suggest_part_end(name, 0);
	const struct node *n = render_find(r, span_to(name, end));
	size_t from = 0;
	struct guess g = { .name = span_to(name, end), .whole = true };
	for (size_t i = 0; n == NULL && i < r->n_roots; i++)
		guess_try(&g, r->roots[i].name);
	while (node_is(n, NODE_MAP) && end < name.n && name.p[end] == '.') {
		const struct node *map = n;
		from = end + 1;
		end = suggest_part_end(name, from);
		n = render_find(r, span_to(name, end));
		g.name = span_from(span_to(name, end), from);
		for (uint32_t i = 0; n == NULL && i < map->n; i++)
			guess_try(&g, map->member[i].key);
	}
	if (!g.best)
		return NULL;
	/* The name with that part replaced, if it leads to a value. */
	const char *whole = arena_printf(a, "%.*s%s%.*s", (int)from, name.p, g.best,
	                                 (int)(name.n - end), name.p + end);
	n = render_find(r, span_of(whole));
	return n && n->type != NODE_NULL ? whole : NULL;
}

const char *const EXTRAS_KNOWN[] = { "code",           "com.microsoft.pai.runtimeplugin",
	                             "distributed",    "env",
	                             "gangAllocation", "hivedScheduler",
	                             "maxDurationSec", "queue",
	                             "results",        "secretEnv",
	                             "storages",       NULL };

void suggest_members(struct parse_context *r, const struct field *map, const char *const *known)
{
	for (uint32_t i = 0; i < field_members(map); i++) {
		const struct member *m = &map->n->member[i];
		struct guess g = { .name = member_key(m), .whole = true };
		if (names_listed(known, member_key(m)))
			continue;
		for (const char *const *k = known; *k; k++)
			guess_try(&g, *k);
		if (g.best)
			parse_warn_key(r, map, m, "has no effect; did you mean `%s`?", g.best);
	}
}

const char *suggest_name(const struct parse_context *r, const struct node *all, const char *type,
                         struct span wanted)
{
	struct guess g = { .name = wanted, .whole = true };
	/* No suggestions for messages beyond the limit. */
	if (r->e->notes.n >= NOTES_MAX || r->warnings->n >= NOTES_MAX)
		return NULL;
	for (uint32_t i = 0; node_is(all, NODE_MAP) && i < all->n; i++)
		guess_try(&g, all->member[i].key);
	for (uint32_t i = 0; node_is(all, NODE_LIST) && i < all->n; i++) {
		const struct node *n = all->item + i;
		if (type == NULL || span_is(parse_text(n, "type"), type))
			guess_try(&g, parse_text(n, "name").p);
	}
	return g.best && *g.best ? g.best : NULL;
}

const char *suggest_sentence(struct arena *a, const char *name)
{
	return name ? arena_printf(a, "; did you mean `%s`?", arena_quoted(a, span_of(name))) : "";
}

bool suggest_misspelt(const struct parse_context *r, const char *key)
{
	struct guess g = { .name = span_of(key), .whole = true };
	const struct node *root = r->root;
	if (node_get(root, key))
		return false;
	for (uint32_t i = 0; node_is(root, NODE_MAP) && i < root->n; i++)
		guess_try(&g, root->member[i].key);
	return g.best;
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
	for (const char *const *k = EXTRAS_KNOWN; map->top && *k; k++) {
		const struct member *m = node_member(map->n, span_of(*k));
		if (m)
			parse_refuse_key(r, map, m, "unknown key `%s`: it is a member of `extras`",
			                 *k);
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
		const char *hint = suggest_name(r, roles.n, NULL, name);
		struct place where =
		    m ? path_place_key(r->a, field_path(names), m) : field_place(r->a, &one);
		parse_report(r, PARSE_WARN, where, "there is no such task role%s",
		             suggest_sentence(r->a, hint));
	}
}
