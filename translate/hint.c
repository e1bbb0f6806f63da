/* "Did you mean ...?" for placeholders that lead to nothing, and for members of open mappings. */
#include "translate/hint.h"

#include "schema/suggest.h"
#include "translate/warnings.h"

/* The nearest one so far. */
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

/* The name with the part at [from, to) replaced, if that leads somewhere. */
static struct span replaced(struct render *r, struct arena *a, struct span name, size_t from,
                            struct span part)
{
	size_t to = part_end(name, from);
	struct span whole = span_of(arena_printf(a, "%.*s%.*s%.*s", (int)from, name.p, (int)part.n,
	                                         part.p, (int)(name.n - to), name.p + to));
	const struct node *n = render_find(r, whole);
	return n && n->type != NODE_NULL ? whole : (struct span){ NULL, 0 };
}

struct span hint_placeholder(struct render *r, struct arena *a, struct span name)
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
	return replaced(r, a, name, from, best.name);
}

const char *const EXTRAS_KNOWN[] = { "com.microsoft.pai.runtimeplugin", "gangAllocation",
	                             "hivedScheduler", "storages", NULL };

static bool is_known(const char *const *known, struct span key)
{
	for (; *known; known++)
		if (span_is(key, *known))
			return true;
	return false;
}

void hint_members(struct reading *r, const struct path *p, const struct node *map,
                  const char *const *known)
{
	for (uint32_t i = 0; node_is(map, NODE_MAP) && i < map->n; i++) {
		struct nearest best = { 0 };
		struct span key = member_key(&map->member[i]);
		if (is_known(known, key))
			continue;
		for (const char *const *k = known; *k; k++)
			try_name(&best, key, span_of(*k));
		if (best.name.p)
			reading_warn_key(r, p, &map->member[i], WARN_MISSPELT, best.name.p);
	}
}
