/* HiveD: its configuration file, the status of its web service, and queries on both. */
#include "translate/hived/hived.h"

#include "schema/check.h"
#include "translate/names.h"

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

static bool has_type(const struct hived_vc *vc, struct span type)
{
	for (size_t i = 0; i < vc->n_counts; i++)
		if (span_eq(vc->counts[i].type, type) && vc->counts[i].cells > 0)
			return true;
	return false;
}

size_t hived_skus(const struct hived *h, const struct hived_status *status, struct span vc,
                  struct arena *a, struct sku **out)
{
	const struct hived_vc *own = vc.n ? hived_find(h, status, vc) : NULL;
	struct sku *v = ARENA_NEW(a, struct sku, h->n_skus);
	size_t n = 0;
	for (size_t i = 0; i < h->n_skus; i++)
		if (!own || has_type(own, h->skus[i].name))
			v[n++] = h->skus[i];
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
	const struct node *sku_types, *cell_types; /* cell_types may be NULL */
	struct pinned *pinned;
	size_t n_pinned;
};

/* Kind and name of an object, and its error. */
struct fault {
	const char *what;
	struct span name;
	const char *wrong;
};

static void hived_complain(struct config *c, const struct path *p, const struct node *n,
                           struct fault f)
{
	(void)err_at(c->e, UNKNOWN_ERROR, path_place(&c->scratch, p, n), "%s `%s` %s", f.what,
	             quoted(&c->scratch, f.name), f.wrong);
}

static size_t hived_items(const struct node *n)
{
	return n && n->type != NODE_NULL ? n->n : 0;
}

static struct span text(const struct node *map, const char *key)
{
	const struct node *n = node_get(map, key);
	return node_is(n, NODE_TEXT) ? node_span(n) : (struct span){ "", 0 };
}

/* ---- SKU types ---- */

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
	{ "", 1 },
};

/* Index of the suffix of a quantity; "" fits every text. */
static size_t find_unit(struct span t)
{
	size_t i = 0;
	for (size_t n = strlen(UNITS[0].suffix);
	     n > t.n || memcmp(t.p + t.n - n, UNITS[i].suffix, n) != 0;)
		n = strlen(UNITS[++i].suffix);
	return i;
}

/* MiB, rounded down so that jobs get no more than exists. -1: out of range. */
static int64_t memory_mb(const struct node *n)
{
	int64_t bytes = node_is(n, NODE_INT) ? n->integer : 0;
	if (node_is(n, NODE_REAL)) /* an integer out of range */
		return -1;
	if (node_is(n, NODE_TEXT)) {
		struct span t = node_span(n);
		size_t unit = find_unit(t);
		t.n -= strlen(UNITS[unit].suffix);
		if (parse_i64(t, 0, INT64_MAX, &bytes) < 0 ||
		    __builtin_mul_overflow(bytes, UNITS[unit].bytes, &bytes))
			return -1;
	}
	return bytes >> 20;
}

static int64_t hived_number(const struct node *map, const char *key)
{
	const struct node *n = node_get(map, key);
	return node_is(n, NODE_INT) ? n->integer : 0;
}

static void read_skus(struct config *c, const struct path *p, struct hived *h)
{
	h->skus = ARENA_NEW(c->a, struct sku, c->sku_types->n);
	for (size_t i = 0; i < c->sku_types->n; i++) {
		const struct member *m = &c->sku_types->member[i];
		struct path one = PATH_KEY(p, member_key(m));
		struct path at = PATH_KEY(&one, SPAN("memory"));
		const struct node *memory = node_get(&m->value, "memory");
		struct sku sku = { arena_span(c->a, member_key(m)), hived_number(&m->value, "cpu"),
			           hived_number(&m->value, "gpu"), memory_mb(memory) };
		if (sku.memory_mb < 0)
			hived_complain(
			    c, &at, memory,
			    (struct fault){ "SKU type", sku.name, "has too much memory" });
		h->skus[h->n_skus++] = sku;
	}
}

/* ---- types of cells ---- */

/* Follows a type down to its leaves. NULL, or the error. */
static const char *leaves(const struct config *c, struct span type, struct hived_count *out)
{
	const struct node *down = NULL;
	struct span name = type;
	*out = (struct hived_count){ type, 1 };
	for (int level = 0; (down = c->cell_types ? node_get(c->cell_types, name.p) : NULL);
	     level++) {
		name = text(down, "childCellType");
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

static void check_types(struct config *c, const struct path *p)
{
	for (size_t i = 0; i < hived_items(c->cell_types); i++) {
		const struct member *m = &c->cell_types->member[i];
		struct path at = PATH_KEY(p, member_key(m));
		struct hived_count unused;
		const char *wrong = leaves(c, member_key(m), &unused);
		if (wrong)
			hived_complain(c, &at, &m->value,
			               (struct fault){ "cell type", member_key(m), wrong });
	}
}

static bool is_type(const struct config *c, struct span type)
{
	if (node_member(c->sku_types, type))
		return true;
	for (size_t i = 0; i < hived_items(c->cell_types); i++) {
		const struct member *m = &c->cell_types->member[i];
		if (span_eq(member_key(m), type) || span_eq(text(&m->value, "childCellType"), type))
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

static void add_pinned(struct config *c, const struct path *p, const struct node *id,
                       struct span type)
{
	struct pinned *one = ARENA_NEW(&c->scratch, struct pinned, 1);
	struct path at = PATH_KEY(p, SPAN("pinnedCellId"));
	*one = (struct pinned){ .id = node_span(id), .next = c->pinned };
	if (c->n_pinned == HIVED_PINNED_MAX) {
		hived_complain(c, &at, id,
		               (struct fault){ "pinned cell", one->id,
		                               "is one too many: there may be 10000" });
		return;
	}
	c->n_pinned++;
	if (find_pinned(c, one->id))
		hived_complain(c, &at, id,
		               (struct fault){ "pinned cell", one->id, "is there twice" });
	else if (!is_type(c, type))
		hived_complain(c, &at, id,
		               (struct fault){ "pinned cell", one->id, "has no known cellType" });
	else
		(void)leaves(c, type, &one->cells); /* check_types has seen all types */
	c->pinned = one;
}

/* Reads a cell and its children; only top cells give their type. */
static void read_cell(struct config *c, const struct path *p, const struct node *n,
                      struct span type)
{
	const struct node *id = node_get(n, "pinnedCellId");
	const struct node *children = node_get(n, "cellChildren");
	struct path list = PATH_KEY(p, SPAN("cellChildren"));
	if (text(n, "cellType").n)
		type = text(n, "cellType");
	if (node_is(id, NODE_TEXT) && id->n)
		add_pinned(c, p, id, type);
	const struct member *m = c->cell_types ? node_member(c->cell_types, type) : NULL;
	for (size_t i = 0; i < hived_items(children); i++) {
		struct path one = PATH_INDEX(&list, i);
		read_cell(c, &one, &children->item[i], text(m ? &m->value : NULL, "childCellType"));
	}
}

static void read_cells(struct config *c, const struct path *p, const struct node *list)
{
	for (size_t i = 0; i < hived_items(list); i++) {
		struct path one = PATH_INDEX(p, i);
		read_cell(c, &one, &list->item[i], (struct span){ "", 0 });
	}
}

/* ---- virtual clusters ---- */

static void add_virtual(struct config *c, const struct path *p, const struct node *n,
                        struct hived_vc *vc)
{
	const struct node *type = node_get(n, "cellType");
	const char *dot = strrchr(type->text, '.');
	struct span last = dot ? span_of(dot + 1) : node_span(type);
	struct path at = PATH_KEY(p, SPAN("cellType"));
	struct hived_count cells;
	if (!is_type(c, last)) {
		hived_complain(c, &at, type, (struct fault){ "cell type", last, "is not there" });
		return;
	}
	(void)leaves(c, last, &cells); /* check_types has seen all types */
	hived_count_add(vc, arena_span(c->a, cells.type),
	                cells.cells * hived_number(n, "cellNumber"));
}

static void add_own_pinned(struct config *c, const struct path *p, const struct node *n,
                           struct hived_vc *vc)
{
	const struct node *id = node_get(n, "pinnedCellId");
	const struct pinned *pinned = find_pinned(c, node_span(id));
	struct path at = PATH_KEY(p, SPAN("pinnedCellId"));
	if (!pinned) {
		hived_complain(
		    c, &at, id,
		    (struct fault){ "pinned cell", node_span(id), "is not in physicalCells" });
		return;
	}
	vc->pinned[vc->n_pinned++] = arena_span(c->a, pinned->id);
	hived_count_add(vc, arena_span(c->a, pinned->cells.type), pinned->cells.cells);
}

static void read_vc(struct config *c, const struct path *p, const struct node *n,
                    struct hived_vc *vc)
{
	const struct node *cells = node_get(n, "virtualCells");
	const struct node *pinned = node_get(n, "pinnedCells");
	struct path cells_at = PATH_KEY(p, SPAN("virtualCells"));
	struct path pinned_at = PATH_KEY(p, SPAN("pinnedCells"));
	vc->counts = ARENA_NEW(c->a, struct hived_count, hived_items(cells) + hived_items(pinned));
	vc->pinned = ARENA_NEW(c->a, struct span, hived_items(pinned));
	for (size_t i = 0; i < hived_items(cells); i++) {
		struct path one = PATH_INDEX(&cells_at, i);
		add_virtual(c, &one, &cells->item[i], vc);
	}
	for (size_t i = 0; i < hived_items(pinned); i++) {
		struct path one = PATH_INDEX(&pinned_at, i);
		add_own_pinned(c, &one, &pinned->item[i], vc);
	}
}

static void read_vcs(struct config *c, const struct node *all, struct hived_vcs *out)
{
	struct path p = PATH_KEY(NULL, SPAN("virtualClusters"));
	out->v = ARENA_NEW(c->a, struct hived_vc, all->n);
	for (; out->n < all->n; out->n++) {
		const struct member *m = &all->member[out->n];
		struct path one = PATH_KEY(&p, member_key(m));
		out->v[out->n].name = arena_span(c->a, member_key(m));
		read_vc(c, &one, &m->value, &out->v[out->n]);
	}
}

/* ---- the file ---- */

static int hived_read_config(struct config *c, const struct node *root, struct hived *h)
{
	const struct node *cluster = node_get(root, "physicalCluster");
	const struct node *types = node_get(cluster, "cellTypes");
	struct path p = PATH_KEY(NULL, SPAN("physicalCluster"));
	struct path skus_at = PATH_KEY(&p, SPAN("skuTypes"));
	struct path types_at = PATH_KEY(&p, SPAN("cellTypes"));
	struct path cells_at = PATH_KEY(&p, SPAN("physicalCells"));
	c->sku_types = node_get(cluster, "skuTypes");
	c->cell_types = node_is(types, NODE_MAP) ? types : NULL;
	read_skus(c, &skus_at, h);
	check_types(c, &types_at);
	if (c->e->http)
		return -1;
	read_cells(c, &cells_at, node_get(cluster, "physicalCells"));
	read_vcs(c, node_get(root, "virtualClusters"), &h->vcs);
	return c->e->http ? -1 : 0;
}

static int hived_read_text(struct config *c, struct span text, struct hived *h)
{
	NOTES_AUTO warnings = { 0 };
	struct budget budget = HIVED_BUDGET;
	struct doc doc = { 0 };
	if (span_trim(text).n == 0)
		return err_at(c->e, UNKNOWN_ERROR, (struct place){ "", 1, 1 }, "the file is empty");
	if (doc_read(text, &budget, &c->scratch, &doc, &warnings, c->e) < 0 ||
	    schema_check(schema_get(SCHEMA_HIVED), &doc.root, "UnknownError", NULL, c->e) < 0)
		return -1;
	return hived_read_config(c, &doc.root, h);
}

struct hived *hived_read(struct span text, struct arena *a, struct err *e)
{
	struct hived *h = ARENA_NEW(a, struct hived, 1);
	struct config c = { .a = a, .e = e };
	int rc = hived_read_text(&c, text, h);
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

struct status {
	struct hived_vc *vc;
	bool full; /* too many types */
};

static void hived_add(struct status *s, struct span type)
{
	hived_count_add(s->vc, type, 1);
	s->full = s->vc->n_counts > HIVED_TYPES_MAX;
}

/* Absent, null, or of the type. */
static bool is_fit(const struct node *n, enum node_type type)
{
	return !n || n->type == NODE_NULL || n->type == type;
}

/* Counts leaf cells; a cell without a type has that of its parent. */
static void hived_status_read_cell(struct status *s, const struct node *cell, struct span type)
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
		hived_add(s, type);
	for (size_t i = 0; !leaf && !s->full && i < children->n; i++)
		hived_status_read_cell(s, &children->item[i], type);
}

/* Copies counts and names to the arena. */
static int hived_status_read_vc(struct arena *a, const struct node *cells, struct hived_vc *vc,
                                struct err *e)
{
	struct hived_count counts[HIVED_TYPES_MAX + 1] = { 0 };
	struct status s = { .vc = vc };
	vc->counts = counts;
	for (size_t i = 0; !s.full && i < cells->n; i++)
		hived_status_read_cell(&s, &cells->item[i], (struct span){ "", 0 });
	vc->counts = ARENA_NEW(a, struct hived_count, vc->n_counts);
	for (size_t i = 0; i < vc->n_counts; i++)
		vc->counts[i] =
		    (struct hived_count){ arena_span(a, counts[i].type), counts[i].cells };
	if (!s.full)
		return 0;
	return err_set(e, UNKNOWN_ERROR,
	               "virtual cluster `%s` has leaf cells of more than %d types",
	               quoted(a, vc->name), HIVED_TYPES_MAX);
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
	NOTES_AUTO warnings = { 0 };
	ARENA_AUTO scratch = { 0 }; /* the document is much larger than the result */
	struct budget budget = HIVED_BUDGET;
	struct doc doc = { 0 };
	struct hived_status *s = ARENA_NEW(a, struct hived_status, 1);
	if (doc_read(text, &budget, &scratch, &doc, &warnings, e) == 0) {
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
