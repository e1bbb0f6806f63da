/* What a job may ask for beyond what every pod has: how it asks, and who may. */
#include "translate/dialects/reading.h"
#include "translate/render/bindings.h"

const char *const GRANT_NAMES[GRANT_BITS] = { "fuse", "hostNetwork", "infiniband" };

unsigned grant_named(struct span name)
{
	for (size_t bit = 0; bit < GRANT_BITS; bit++)
		if (span_is(name, GRANT_NAMES[bit]))
			return 1u << bit;
	return 0;
}

unsigned grants_listed(const struct node *list)
{
	unsigned found = 0;
	for (uint32_t i = 0; list && i < list->n; i++)
		found |= grant_named(node_span(&list->item[i]));
	return found;
}

void grants_read(struct reading *r, const struct path *p, const struct node *options,
                 struct role *role)
{
	for (size_t bit = 0; bit < GRANT_BITS; bit++) {
		const struct node *n = node_get(options, GRANT_NAMES[bit]);
		struct path at = PATH_KEY(p, span_of(GRANT_NAMES[bit]));
		if (!node_is(n, NODE_BOOL) || !n->boolean)
			continue;
		role->wants |= 1u << bit;
		role->wants_where[bit] = path_place(r->a, &at, n);
	}
}

int grants_check(const struct scope *s, struct err *e)
{
	unsigned refused = 0;
	if (s->set->profile == PROFILE_OPENPAI)
		return 0;
	for (size_t i = 0; i < s->job->n_roles; i++) {
		const struct role *role = &s->job->roles[i];
		unsigned missing = role->wants & ~s->facts->grants;
		refused |= missing;
		for (size_t bit = 0; bit < GRANT_BITS; bit++)
			if (missing >> bit & 1)
				(void)err_at(e, FORBIDDEN, role->wants_where[bit],
				             "`%s` is not granted to %s; who runs this cluster "
				             "can grant it to a user or a group, by "
				             "`overlays: [%s]`",
				             GRANT_NAMES[bit], s->job->user, GRANT_NAMES[bit]);
	}
	return refused ? -1 : 0;
}

/* The value of a job's PriorityClass. */

int64_t priority_value(int64_t submitted_ms, int64_t priority)
{
	/* As OpenPAI: the priority from the top in the high byte, the time in units of 16 s below
	 * it.  It wraps after 8.5 years, far behind any queue. */
	int64_t units = submitted_ms / 16000 & 0xffffff;
	return -((HIVED_HIGHEST - priority) * (1 << 24) + units);
}
