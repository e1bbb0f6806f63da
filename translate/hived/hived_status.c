/*
 * What HiveD's web service says that virtual clusters have.  It comes over the network: what has a
 * wrong type is left out, with all that is below it.
 */
#include "translate/hived/hived_cells.h"

/* The priority of cells that a virtual cluster does not own, but its opportunistic jobs have
 * borrowed.  (Free cells have -2.) */
enum { OPPORTUNISTIC = -1 };

struct status {
	struct hived_vc *vc;
	bool full; /* there are too many types */
};

static void add(struct status *s, struct span type)
{
	hived_count_add(s->vc, type, 1);
	s->full = s->vc->n_counts > HIVED_TYPES_MAX;
}

/* Nothing is said, or what is to be said. */
static bool is_fit(const struct node *n, enum node_type type)
{
	return !n || n->type == NODE_NULL || n->type == type;
}

/* The type of a cell's leaves; of the cell above, if it does not say. */
static void read_cell(struct status *s, const struct node *cell, struct span type)
{
	const struct node *priority = node_get(cell, "cellPriority");
	const struct node *own = node_get(cell, "leafCellType");
	const struct node *children = node_get(cell, "cellChildren");
	if (!node_is(cell, NODE_MAP) || !is_fit(priority, NODE_INT) || !is_fit(own, NODE_TEXT) ||
	    !is_fit(children, NODE_LIST))
		return;
	if (node_is(priority, NODE_INT) && priority->integer == OPPORTUNISTIC)
		return;
	if (node_is(own, NODE_TEXT) && own->n)
		type = node_span(own);
	bool leaf = !node_is(children, NODE_LIST) || children->n == 0;
	if (leaf && type.n)
		add(s, type);
	for (size_t i = 0; !leaf && !s->full && i < children->n; i++)
		read_cell(s, &children->item[i], type);
}

/* Counts and names are the arena's own: the rest of what was read may go. */
static int read_vc(struct arena *a, const struct node *cells, struct hived_vc *vc, struct err *e)
{
	struct hived_count counts[HIVED_TYPES_MAX + 1] = { 0 };
	struct status s = { .vc = vc };
	char shown[4 * QUOTE_MAX];
	vc->counts = counts;
	for (size_t i = 0; !s.full && i < cells->n; i++)
		read_cell(&s, &cells->item[i], (struct span){ "", 0 });
	vc->counts = ARENA_NEW(a, struct hived_count, vc->n_counts);
	for (size_t i = 0; i < vc->n_counts; i++)
		vc->counts[i] =
		    (struct hived_count){ arena_span(a, counts[i].type), counts[i].cells };
	if (!s.full)
		return 0;
	return err_set(e, UNKNOWN_ERROR,
	               "virtual cluster `%s` has leaf cells of more than %d types",
	               quote(shown, vc->name), HIVED_TYPES_MAX);
}

static int read_vcs(struct arena *a, const struct node *root, struct hived_vcs *out, struct err *e)
{
	if (root->n > HIVED_VCS_MAX)
		return err_set(e, UNKNOWN_ERROR, "there are more than %d virtual clusters",
		               HIVED_VCS_MAX);
	out->v = ARENA_NEW(a, struct hived_vc, root->n);
	for (size_t i = 0; i < root->n; i++) {
		const struct member *m = &root->member[i];
		if (m->value.type != NODE_LIST)
			continue;
		struct hived_vc *vc = &out->v[out->n++];
		vc->name = arena_span(a, member_key(m));
		if (read_vc(a, &m->value, vc, e) < 0)
			return -1;
	}
	return 0;
}

struct hived_status *hived_status_read(struct span text, struct arena *a, struct err *e)
{
	NOTES_AUTO warnings = { 0 };
	ARENA_AUTO scratch = { 0 }; /* what is read is many times as large as what is kept */
	struct budget budget = HIVED_BUDGET;
	struct doc doc = { 0 };
	struct hived_status *s = ARENA_NEW(a, struct hived_status, 1);
	if (doc_read(text, &budget, &scratch, &doc, &warnings, e) == 0) {
		if (!doc.json || doc.root.type != NODE_MAP)
			(void)err_at(e, UNKNOWN_ERROR, path_place(&scratch, NULL, &doc.root),
			             "must be a mapping in JSON");
		else if (read_vcs(a, &doc.root, &s->vcs, e) == 0)
			return s;
	}
	e->http = 500;
	e->code = "UnknownError";
	return NULL;
}
