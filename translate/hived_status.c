/*
 * What HiveD's web service says that virtual clusters have.  It comes over the network: what has a
 * wrong type is left out, with all that is below it.
 */
#include "translate/hived_cells.h"

/* The priority of cells that a virtual cluster does not own, but its opportunistic jobs have
 * borrowed.  (Free cells have -2.) */
enum { OPPORTUNISTIC = -1 };

struct status {
	struct arena *a;
	struct hived_vc *vc;
	size_t room; /* types that fit */
};

static void add(struct status *s, struct span type)
{
	if (s->vc->n_counts == s->room) {
		size_t room = 2 * s->room + 4;
		struct hived_count *v = ARENA_NEW(s->a, struct hived_count, room);
		if (s->vc->n_counts)
			memcpy(v, s->vc->counts, s->vc->n_counts * sizeof(*v));
		s->vc->counts = v;
		s->room = room;
	}
	hived_count_add(s->vc, type, 1);
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
	for (size_t i = 0; !leaf && i < children->n; i++)
		read_cell(s, &children->item[i], type);
}

static void read_vc(struct arena *a, const struct node *cells, struct hived_vc *vc)
{
	struct status s = { .a = a, .vc = vc };
	for (size_t i = 0; i < cells->n; i++)
		read_cell(&s, &cells->item[i], (struct span){ "", 0 });
}

static struct hived_status *read_vcs(struct arena *a, const struct node *root)
{
	struct hived_status *s = ARENA_NEW(a, struct hived_status, 1);
	s->vcs.v = ARENA_NEW(a, struct hived_vc, root->n);
	for (size_t i = 0; i < root->n; i++) {
		const struct member *m = &root->member[i];
		if (m->value.type != NODE_LIST)
			continue;
		struct hived_vc *vc = &s->vcs.v[s->vcs.n++];
		vc->name = member_key(m);
		read_vc(a, &m->value, vc);
	}
	return s;
}

struct hived_status *hived_status_read(struct span text, struct arena *a, struct err *e)
{
	NOTES_AUTO warnings = { 0 };
	struct budget budget = HIVED_BUDGET;
	struct doc *doc = ARENA_NEW(a, struct doc, 1);
	int rc = doc_read(text, &budget, a, doc, &warnings, e);
	if (rc == 0 && doc->json && doc->root.type == NODE_MAP)
		return read_vcs(a, &doc->root);
	if (rc == 0)
		(void)err_at(e, UNKNOWN_ERROR, path_place(a, NULL, &doc->root),
		             "must be a mapping in JSON");
	e->http = 500;
	e->code = "UnknownError";
	return NULL;
}
