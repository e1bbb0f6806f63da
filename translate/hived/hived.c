/* HiveD: its configuration file, the status of its web service, and queries on both. */
#include "translate/hived/hived.h"

#include "schema/schema.h"
#include "translate/job/names.h"
#include "translate/reader/parse_context.h"

/* Leaf cells of one type. */
struct hived_count {
	struct span type;
	int64_t cells;
};

struct hived_vc {
	struct span name;
	struct hived_count *counts;
	size_t n_counts;
	struct span *pinned; /* ids of pinned cells */
	size_t n_pinned;
};

struct hived_vcs {
	struct hived_vc *v;
	size_t n;
};

struct hived {
	struct sku *skus;
	size_t n_skus;
	struct hived_vcs vcs;
};

struct hived_status {
	struct hived_vcs vcs;
};

/* Limits of the files. */
#define HIVED_BUDGET ((struct budget){ 64, 2000000, 32u << 20, 1024 })

static const struct hived_vc *hived_vc_find(const struct hived_vcs *all, struct span name)
{
	for (size_t i = 0; i < all->n; i++)
		if (span_eq(all->v[i].name, name))
			return &all->v[i];
	return NULL;
}

/* Adds cells of a type; there must be room for one more type. */
static void hived_count_add(struct hived_vc *vc, struct span type, int64_t cells)
{
	size_t i = 0;
	while (i < vc->n_counts && !span_eq(vc->counts[i].type, type))
		i++;
	if (i == vc->n_counts)
		vc->counts[vc->n_counts++] = (struct hived_count){ type, 0 };
	if (__builtin_add_overflow(vc->counts[i].cells, cells, &vc->counts[i].cells))
		vc->counts[i].cells = INT64_MAX;
}

/* The virtual cluster by the status, else by the configuration, else NULL. */
static const struct hived_vc *hived_find(const struct hived *h, const struct hived_status *status,
                                         struct span vc)
{
	const struct hived_vc *now = status ? hived_vc_find(&status->vcs, vc) : NULL;
	return now ? now : hived_vc_find(&h->vcs, vc);
}

size_t hived_skus(const struct hived *h, const struct hived_status *status, struct span vc,
                  struct arena *a, struct sku **out)
{
	const struct hived_vc *own = vc.n ? hived_find(h, status, vc) : NULL;
	struct sku *v = ARENA_NEW(a, struct sku, h->n_skus);
	size_t n = 0;
	for (size_t i = 0; i < h->n_skus; i++) {
		bool has = !own;
		for (size_t k = 0; !has && k < own->n_counts; k++)
			has = own->counts[k].cells > 0 &&
			      span_eq(own->counts[k].type, h->skus[i].name);
		if (has)
			v[n++] = h->skus[i];
	}
	*out = v;
	return n;
}

int64_t hived_cells(const struct hived *h, const struct hived_status *status, struct span vc)
{
	const struct hived_vc *own = hived_find(h, status, vc);
	int64_t cells = 0;
	if (!own)
		return -1;
	for (size_t i = 0; i < own->n_counts; i++)
		if (__builtin_add_overflow(cells, own->counts[i].cells, &cells))
			return INT64_MAX;
	return cells;
}

/* Only the configuration tells this, never the status. */
bool hived_pins(const struct hived *h, struct span vc, struct span id)
{
	const struct hived_vc *own = hived_vc_find(&h->vcs, vc);
	for (size_t i = 0; own && i < own->n_pinned; i++)
		if (span_eq(own->pinned[i], id))
			return true;
	return !own;
}

size_t hived_virtual_clusters(const struct hived *h, const struct hived_status *status,
                              struct arena *a, struct span **out)
{
	size_t more = status ? status->vcs.n : 0;
	struct span *v = ARENA_NEW(a, struct span, h->vcs.n + more + 1);
	size_t n = 0;
	for (size_t i = 0; i < h->vcs.n; i++)
		v[n++] = h->vcs.v[i].name;
	for (size_t i = 0; i < more; i++)
		if (!hived_vc_find(&h->vcs, status->vcs.v[i].name))
			v[n++] = status->vcs.v[i].name;
	*out = v;
	return n;
}

/* ---- the configuration file: the schema has checked the types ---- */

/* depth of cell types; real ones have about six levels */
enum { LEVELS_MAX = 64 };

struct pinned {
	struct span id;
	struct hived_count cells;
	struct pinned *next;
};

struct config {
	struct arena *a;
	struct arena scratch; /* for the document, which is much larger than the result */
	struct err *e;
	struct field sku_types, cell_types; /* cell_types may be absent */
	struct pinned *pinned;
	size_t n_pinned;
};

/* Reports an error. what, name: kind and name of the object; wrong: a predicate, as "does not
 * exist". */
static void hived_report(struct config *c, const struct field *f, const char *what,
                         struct span name, const char *wrong)
{
	(void)err_at(c->e, UNKNOWN_ERROR, field_place(&c->scratch, f), "%s `%s` %s", what,
	             arena_quoted(&c->scratch, name), wrong);
}

/* ---- SKU types ---- */

/* MiB, rounded down so that jobs get no more than exists. -1: out of range. */
static int64_t memory_mb(const struct node *n)
{
	static const struct {
		const char *suffix;
		int64_t bytes;
	} UNITS[] = {
		{ "Ti", (int64_t)1 << 40 },
		{ "Gi", (int64_t)1 << 30 },
		{ "Mi", (int64_t)1 << 20 },
		{ "Ki", (int64_t)1 << 10 },
		{ "T", 1000000000000 },
		{ "G", 1000000000 },
		{ "M", 1000000 },
		{ "K", 1000 },
		{ "k", 1000 },
		{ "", 1 }, /* the end of every text */
	};
	int64_t bytes = node_is(n, NODE_INT) ? n->integer : 0;
	if (node_is(n, NODE_REAL)) /* an integer out of range */
		return -1;
	if (node_is(n, NODE_TEXT)) {
		struct span t = node_span(n);
		size_t i = 0;
		size_t end = strlen(UNITS[0].suffix);
		while (end > t.n || !span_is(span_from(t, t.n - end), UNITS[i].suffix))
			end = strlen(UNITS[++i].suffix);
		if (parse_i64(span_to(t, t.n - end), 0, INT64_MAX, &bytes) < 0 ||
		    __builtin_mul_overflow(bytes, UNITS[i].bytes, &bytes))
			return -1;
	}
	return bytes >> 20;
}

static int64_t hived_number(const struct node *map, const char *key)
{
	const struct node *n = node_get(map, key);
	return node_is(n, NODE_INT) ? n->integer : 0;
}

static void read_skus(struct config *c, struct hived *h)
{
	uint32_t n = field_members(&c->sku_types);
	h->skus = ARENA_NEW(c->a, struct sku, n);
	for (; h->n_skus < n; h->n_skus++) {
		struct field type = field_member(&c->sku_types, h->n_skus);
		struct field memory = field_get(&type, "memory");
		struct sku *sku = &h->skus[h->n_skus];
		*sku = (struct sku){
			.name = arena_span(c->a, type.path.key),
			.cpu = hived_number(type.n, "cpu"),
			.gpu = hived_number(type.n, "gpu"),
			.memory_mb = memory_mb(memory.n),
		};
		if (sku->memory_mb < 0)
			hived_report(c, &memory, "SKU type", sku->name, "has too much memory");
	}
}

/* ---- types of cells ---- */

/* Follows a type down to its leaves. NULL, or the error. */
static const char *hived_count_leaves(const struct config *c, struct span type,
                                      struct hived_count *out)
{
	const struct node *down = NULL;
	struct span name = type;
	*out = (struct hived_count){ type, 1 };
	for (int level = 0; (down = node_get(c->cell_types.n, name.p)); level++) {
		name = parse_text(down, "childCellType");
		if (span_eq(name, type))
			return "is made of itself";
		out->type = name;
		out->cells *= hived_number(down, "childCellNumber");
		if (level == LEVELS_MAX)
			return "has more than 64 levels";
		if (out->cells > INT32_MAX)
			return "has more than 2147483647 leaf cells";
	}
	return NULL;
}

static bool is_type(const struct config *c, struct span type)
{
	if (node_member(c->sku_types.n, type) || node_member(c->cell_types.n, type))
		return true;
	for (size_t i = 0; i < field_members(&c->cell_types); i++) {
		const struct node *n = &c->cell_types.n->member[i].value;
		if (span_eq(parse_text(n, "childCellType"), type))
			return true;
	}
	return false;
}

/* ---- pinned cells ---- */

static const struct pinned *find_pinned(const struct config *c, struct span id)
{
	const struct pinned *p = c->pinned;
	while (p && !span_eq(p->id, id))
		p = p->next;
	return p;
}

static void add_pinned(struct config *c, const struct field *id, struct span type)
{
	struct pinned *one = ARENA_NEW(&c->scratch, struct pinned, 1);
	*one = (struct pinned){ .id = node_span(id->n), .next = c->pinned };
	if (c->n_pinned == HIVED_PINNED_MAX) {
		hived_report(c, id, "pinned cell", one->id, "is one too many: there may be 10000");
		return;
	}
	c->n_pinned++;
	if (find_pinned(c, one->id))
		hived_report(c, id, "pinned cell", one->id, "is there twice");
	else if (!is_type(c, type))
		hived_report(c, id, "pinned cell", one->id, "has no known cellType");
	else
		(void)hived_count_leaves(c, type, &one->cells); /* all types have been followed */
	c->pinned = one;
}

/* Reads cells and their children; only top cells give their type. */
static void read_cells(struct config *c, const struct field *list, struct span type)
{
	for (size_t i = 0; i < field_items(list); i++) {
		struct field cell = field_item(list, i);
		struct field id = field_get(&cell, "pinnedCellId");
		struct field children = field_get(&cell, "cellChildren");
		struct span own = parse_text(cell.n, "cellType");
		if (own.n == 0)
			own = type;
		if (field_text(&id).n)
			add_pinned(c, &id, own);
		const struct member *m = node_member(c->cell_types.n, own);
		read_cells(c, &children, parse_text(m ? &m->value : NULL, "childCellType"));
	}
}

/* ---- virtual clusters ---- */

static void read_vc(struct config *c, const struct field *f, struct hived_vc *vc)
{
	struct field cells = field_get(f, "virtualCells");
	struct field pinned = field_get(f, "pinnedCells");
	vc->name = arena_span(c->a, f->path.key);
	vc->counts =
	    ARENA_NEW(c->a, struct hived_count, field_items(&cells) + field_items(&pinned));
	vc->pinned = ARENA_NEW(c->a, struct span, field_items(&pinned));
	for (size_t i = 0; i < field_items(&cells); i++) {
		struct field one = field_item(&cells, i);
		struct field type = field_get(&one, "cellType");
		struct span last = field_text(&type);
		const char *dot = memrchr(last.p, '.', last.n);
		if (dot)
			last = span_from(last, (size_t)(dot + 1 - last.p));
		struct hived_count leaf;
		if (!is_type(c, last)) {
			hived_report(c, &type, "cell type", last, "is not there");
			continue;
		}
		(void)hived_count_leaves(c, last, &leaf); /* all types have been followed */
		hived_count_add(vc, arena_span(c->a, leaf.type),
		                leaf.cells * hived_number(one.n, "cellNumber"));
	}
	for (size_t i = 0; i < field_items(&pinned); i++) {
		struct field one = field_item(&pinned, i);
		struct field id = field_get(&one, "pinnedCellId");
		const struct pinned *p = find_pinned(c, field_text(&id));
		if (!p) {
			hived_report(c, &id, "pinned cell", field_text(&id),
			             "is not in physicalCells");
			continue;
		}
		vc->pinned[vc->n_pinned++] = arena_span(c->a, p->id);
		hived_count_add(vc, arena_span(c->a, p->cells.type), p->cells.cells);
	}
}

/* ---- the file ---- */

static int hived_read_config(struct config *c, const struct node *root, struct hived *h)
{
	const struct field top = { .n = root, .top = true };
	struct field cluster = field_get(&top, "physicalCluster");
	struct field cells = field_get(&cluster, "physicalCells");
	struct field vcs = field_get(&top, "virtualClusters");
	c->sku_types = field_get(&cluster, "skuTypes");
	c->cell_types = field_get(&cluster, "cellTypes");
	read_skus(c, h);
	for (size_t i = 0; i < field_members(&c->cell_types); i++) {
		struct field type = field_member(&c->cell_types, i);
		struct hived_count unused;
		const char *wrong = hived_count_leaves(c, type.path.key, &unused);
		if (wrong)
			hived_report(c, &type, "cell type", type.path.key, wrong);
	}
	if (c->e->http)
		return -1;
	read_cells(c, &cells, SPAN(""));
	h->vcs.v = ARENA_NEW(c->a, struct hived_vc, field_members(&vcs));
	for (; h->vcs.n < field_members(&vcs); h->vcs.n++) {
		struct field vc = field_member(&vcs, h->vcs.n);
		read_vc(c, &vc, &h->vcs.v[h->vcs.n]);
	}
	return c->e->http ? -1 : 0;
}

struct hived *hived_read(struct span text, struct arena *a, struct err *e)
{
	struct hived *h = ARENA_NEW(a, struct hived, 1);
	struct config c = { .a = a, .e = e };
	struct budget budget = HIVED_BUDGET;
	struct doc doc = { 0 };
	int rc = -1;
	if (span_trim(text).n == 0)
		(void)err_at(e, UNKNOWN_ERROR, (struct place){ "", 1, 1 }, "the file is empty");
	else if (doc_read(text, &budget, &c.scratch, &doc, NULL, e) == 0 &&
	         schema_check(schema_get(SCHEMA_HIVED), &doc.root, "UnknownError", NULL, e) == 0)
		rc = hived_read_config(&c, &doc.root, h);
	arena_done(&c.scratch);
	if (rc == 0)
		return h;
	e->http = 500; /* the file is the server's, not the client's */
	e->code = "UnknownError";
	return NULL;
}

/* ---- the status: comes over the network, so values of a wrong type are skipped ---- */

/* Priority of cells that opportunistic jobs have borrowed. (Free cells have -2.) */
enum { OPPORTUNISTIC = -1 };

/* Absent, null, or of the type. */
static bool is_fit(const struct node *n, enum node_type type)
{
	return !n || n->type == NODE_NULL || n->type == type;
}

/* Counts leaf cells, until there are too many types; a cell without a type has that of its
 * parent. */
static void hived_status_read_cell(struct hived_vc *vc, const struct node *cell, struct span type)
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
	if (node_items(children) == 0 && type.n)
		hived_count_add(vc, type, 1);
	for (size_t i = 0; i < node_items(children) && vc->n_counts <= HIVED_TYPES_MAX; i++)
		hived_status_read_cell(vc, &children->item[i], type);
}

/* Copies counts and names to the arena. */
static int hived_status_read_vc(struct arena *a, const struct node *cells, struct hived_vc *vc,
                                struct err *e)
{
	struct hived_count counts[HIVED_TYPES_MAX + 1] = { 0 };
	vc->counts = counts;
	for (size_t i = 0; i < cells->n && vc->n_counts <= HIVED_TYPES_MAX; i++)
		hived_status_read_cell(vc, &cells->item[i], SPAN(""));
	vc->counts = ARENA_NEW(a, struct hived_count, vc->n_counts);
	for (size_t i = 0; i < vc->n_counts; i++)
		vc->counts[i] =
		    (struct hived_count){ arena_span(a, counts[i].type), counts[i].cells };
	if (vc->n_counts <= HIVED_TYPES_MAX)
		return 0;
	return err_set(e, UNKNOWN_ERROR,
	               "virtual cluster `%s` has leaf cells of more than %d types",
	               arena_quoted(a, vc->name), HIVED_TYPES_MAX);
}

static int hived_status_read_vcs(struct arena *a, const struct node *root, struct hived_vcs *out,
                                 struct err *e)
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
		if (hived_status_read_vc(a, &m->value, vc, e) < 0)
			return -1;
	}
	return 0;
}

struct hived_status *hived_status_read(struct span text, struct arena *a, struct err *e)
{
	ARENA_AUTO scratch = { 0 }; /* the document is much larger than the result */
	struct budget budget = HIVED_BUDGET;
	struct doc doc = { 0 };
	struct hived_status *s = ARENA_NEW(a, struct hived_status, 1);
	if (doc_read(text, &budget, &scratch, &doc, NULL, e) == 0) {
		if (!doc.json || doc.root.type != NODE_MAP)
			(void)err_at(e, UNKNOWN_ERROR, path_place(&scratch, NULL, &doc.root),
			             "must be a mapping in JSON");
		else if (hived_status_read_vcs(a, &doc.root, &s->vcs, e) == 0)
			return s;
	}
	e->http = 500;
	e->code = "UnknownError";
	return NULL;
}
