/* Which groups a user is in after a change; pure. */
#include "server/users/user_edit.h"

static struct edit_group *edit_group_find(const struct edit_groups *g, struct span name)
{
	for (size_t i = 0; i < g->n; i++)
		if (span_eq(g->v[i].name, name))
			return &g->v[i];
	return NULL;
}

static void edit_group_add(struct edit_groups *g, struct span name, bool current)
{
	struct edit_group *group = edit_group_find(g, name);
	if (!group) {
		group = &g->v[g->n++];
		group->name = name;
	}
	group->current |= current;
}

static bool edit_changes(const struct edit_groups *g)
{
	return g->kind != EDIT_CHANGE ||
	       g->change->has & (CHANGE_CLUSTERS | CHANGE_GROUPS | CHANGE_ADMIN);
}

static bool edit_wants_default(const struct edit_groups *g)
{
	return g->kind == EDIT_CREATE || g->change->has & CHANGE_CLUSTERS;
}

static bool edit_promotes(const struct edit_groups *g)
{
	return g->change->has & CHANGE_ADMIN && g->change->admin;
}

void edit_groups_plan(struct edit_groups *g, const struct pai_user *now, struct arena *a)
{
	const struct user_change *c = g->change;
	g->v = ARENA_NEW(a, struct edit_group, now->n_groups + c->n_names + 2);
	g->n = 0;
	if (!edit_changes(g))
		return;
	for (size_t i = 0; i < c->n_names; i++)
		edit_group_add(g, c->names[i], false);
	for (size_t i = 0; i < now->n_groups; i++)
		edit_group_add(g, now->groups[i], true);
	if (edit_wants_default(g))
		edit_group_add(g, SPAN(GROUP_DEFAULT), false);
	if (edit_promotes(g))
		edit_group_add(g, SPAN(GROUP_ADMIN), false);
}

static void edit_list_add(struct edit_groups *g, struct span name)
{
	for (size_t i = 0; i < g->n_list; i++)
		if (span_eq(g->list[i], name))
			return;
	g->list[g->n_list++] = name;
}

static int edit_no_group(struct err *e, struct span name, const char *why)
{
	char quoted[4 * QUOTE_MAX];
	return err_set(e, 404, "NoGroupError", "group \"%s\" %s", quote(quoted, name), why);
}

/* Those that were asked for, by name or by virtual cluster. */
static int edit_add_wanted(struct edit_groups *g, struct err *e)
{
	char quoted[4 * QUOTE_MAX];
	const struct user_change *c = g->change;
	for (size_t i = 0; i < c->n_names; i++) {
		const struct edit_group *group = edit_group_find(g, c->names[i]);
		if (c->has & CHANGE_CLUSTERS && !(group->found && group->grants))
			return err_set(
			    e, 400, "NoVirtualClusterError",
			    "there is no group \"%s\" that grants the virtual cluster of "
			    "this name",
			    quote(quoted, c->names[i]));
		if (!group->found)
			return edit_no_group(e, c->names[i], "does not exist");
		edit_list_add(g, c->names[i]);
	}
	return 0;
}

static bool edit_is_admin_now(const struct edit_groups *g)
{
	for (size_t i = 0; i < g->n; i++)
		if (g->v[i].current && g->v[i].admin)
			return true;
	return false;
}

/* Of the groups that the user is in now, what stays: groups of administrators too where only
 * virtual clusters change; nothing where the list itself is given. */
static void edit_add_current(struct edit_groups *g)
{
	unsigned has = g->change->has;
	for (size_t i = 0; i < g->n && !(has & CHANGE_GROUPS); i++)
		if (g->v[i].current && (g->v[i].admin || !(has & CHANGE_CLUSTERS)))
			edit_list_add(g, g->v[i].name);
}

/* The user is to be no administrator, not by a group that was asked for either. */
static void edit_demote(struct edit_groups *g)
{
	size_t kept = 0;
	for (size_t i = 0; i < g->n_list; i++)
		if (!edit_group_find(g, g->list[i])->admin)
			g->list[kept++] = g->list[i];
	g->n_list = kept;
}

static int edit_promote(struct edit_groups *g, struct err *e)
{
	for (size_t i = 0; i < g->n_list; i++)
		if (edit_group_find(g, g->list[i])->admin)
			return 0;
	const struct edit_group *group = edit_group_find(g, SPAN(GROUP_ADMIN));
	if (!group->found || !group->admin)
		return edit_no_group(e, group->name,
		                     "does not exist, or is no group of administrators");
	edit_list_add(g, group->name);
	return 0;
}

int edit_groups_make(struct edit_groups *g, struct arena *a, struct err *e)
{
	const struct edit_group *ordinary = edit_group_find(g, SPAN(GROUP_DEFAULT));
	if (!edit_changes(g))
		return 0;
	if (g->kind == EDIT_REMOVE && edit_is_admin_now(g))
		return err_set(e, 403, "RemoveAdminError",
		               "an administrator is not removed: take that right away first");
	g->list = ARENA_NEW(a, struct span, g->n + 1);
	g->n_list = 0;
	if (edit_add_wanted(g, e) < 0)
		return -1;
	if (edit_wants_default(g) && ordinary->found)
		edit_list_add(g, ordinary->name);
	edit_add_current(g);
	if (edit_promotes(g))
		return edit_promote(g, e);
	if (g->change->has & CHANGE_ADMIN)
		edit_demote(g);
	return 0;
}
