/*
 * HiveD's own configuration file.  The schema has seen the types; here it is followed how many
 * leaf cells a cell has, and of which type.
 */
#include "schema/check.h"
#include "translate/hived/hived_cells.h"

/* Cells of cells of cells; real ones have about six levels. */
enum { LEVELS_MAX = 64 };

struct pinned {
	struct span id;
	struct hived_count cells;
	struct pinned *next;
};

struct config {
	struct arena *a;      /* of what is kept */
	struct arena scratch; /* of what is read, which is many times as large */
	struct err *e;
	const struct node *sku_types, *cell_types; /* cell_types may be NULL */
	struct pinned *pinned;
	size_t n_pinned;
};

/* What is at the place, its name, and what is wrong with it. */
struct fault {
	const char *what;
	struct span name;
	const char *wrong;
};

static void complain(struct config *c, const struct path *p, const struct node *n, struct fault f)
{
	char shown[4 * QUOTE_MAX];
	(void)err_at(c->e, UNKNOWN_ERROR, path_place(&c->scratch, p, n), "%s `%s` %s", f.what,
	             quote(shown, f.name), f.wrong);
}

static size_t items(const struct node *n)
{
	return n && n->type != NODE_NULL ? n->n : 0;
}

static struct span text(const struct node *map, const char *key)
{
	const struct node *n = node_get(map, key);
	return node_is(n, NODE_TEXT) ? node_span(n) : (struct span){ "", 0 };
}

/* ---- SKU types ------------------------------------------------------------------------------- */

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

/* The suffix that a quantity ends in; "" fits everything. */
static size_t find_unit(struct span t)
{
	size_t i = 0;
	for (size_t n = strlen(UNITS[0].suffix);
	     n > t.n || memcmp(t.p + t.n - n, UNITS[i].suffix, n) != 0;)
		n = strlen(UNITS[++i].suffix);
	return i;
}

/* In MiB, rounded down; a job is to get no more than there is.  -1: beyond all measure. */
static int64_t memory_mb(const struct node *n)
{
	int64_t bytes = node_is(n, NODE_INT) ? n->integer : 0;
	if (node_is(n, NODE_REAL)) /* an integer that is too large for one */
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

static int64_t number(const struct node *map, const char *key)
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
		struct sku sku = { arena_span(c->a, member_key(m)), number(&m->value, "cpu"),
			           number(&m->value, "gpu"), memory_mb(memory) };
		if (sku.memory_mb < 0)
			complain(c, &at, memory,
			         (struct fault){ "SKU type", sku.name, "has too much memory" });
		h->skus[h->n_skus++] = sku;
	}
}

/* ---- types of cells -------------------------------------------------------------------------- */

/* Follow a type down to its leaves.  NULL, or what is wrong with it. */
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
		out->cells *= number(down, "childCellNumber");
		if (level == LEVELS_MAX)
			return "has more than 64 levels";
		if (out->cells > INT32_MAX)
			return "has more than 2147483647 leaf cells";
	}
	return NULL;
}

static void check_types(struct config *c, const struct path *p)
{
	for (size_t i = 0; i < items(c->cell_types); i++) {
		const struct member *m = &c->cell_types->member[i];
		struct path at = PATH_KEY(p, member_key(m));
		struct hived_count unused;
		const char *wrong = leaves(c, member_key(m), &unused);
		if (wrong)
			complain(c, &at, &m->value,
			         (struct fault){ "cell type", member_key(m), wrong });
	}
}

static bool is_type(const struct config *c, struct span type)
{
	if (node_member(c->sku_types, type))
		return true;
	for (size_t i = 0; i < items(c->cell_types); i++) {
		const struct member *m = &c->cell_types->member[i];
		if (span_eq(member_key(m), type) || span_eq(text(&m->value, "childCellType"), type))
			return true;
	}
	return false;
}

/* ---- pinned cells ---------------------------------------------------------------------------- */

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
		complain(c, &at, id,
		         (struct fault){ "pinned cell", one->id,
		                         "is one too many: there may be 10000" });
		return;
	}
	c->n_pinned++;
	if (find_pinned(c, one->id))
		complain(c, &at, id, (struct fault){ "pinned cell", one->id, "is there twice" });
	else if (!is_type(c, type))
		complain(c, &at, id,
		         (struct fault){ "pinned cell", one->id, "has no known cellType" });
	else
		(void)leaves(c, type, &one->cells); /* check_types has seen all types */
	c->pinned = one;
}

/* A cell and what is in it; only the topmost ones say their type. */
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
	for (size_t i = 0; i < items(children); i++) {
		struct path one = PATH_INDEX(&list, i);
		read_cell(c, &one, &children->item[i], text(m ? &m->value : NULL, "childCellType"));
	}
}

static void read_cells(struct config *c, const struct path *p, const struct node *list)
{
	for (size_t i = 0; i < items(list); i++) {
		struct path one = PATH_INDEX(p, i);
		read_cell(c, &one, &list->item[i], (struct span){ "", 0 });
	}
}

/* ---- virtual clusters ------------------------------------------------------------------------ */

static void add_virtual(struct config *c, const struct path *p, const struct node *n,
                        struct hived_vc *vc)
{
	const struct node *type = node_get(n, "cellType");
	const char *dot = strrchr(type->text, '.');
	struct span last = dot ? span_of(dot + 1) : node_span(type);
	struct path at = PATH_KEY(p, SPAN("cellType"));
	struct hived_count cells;
	if (!is_type(c, last)) {
		complain(c, &at, type, (struct fault){ "cell type", last, "is not there" });
		return;
	}
	(void)leaves(c, last, &cells); /* check_types has seen all types */
	hived_count_add(vc, arena_span(c->a, cells.type), cells.cells * number(n, "cellNumber"));
}

static void add_own_pinned(struct config *c, const struct path *p, const struct node *n,
                           struct hived_vc *vc)
{
	const struct node *id = node_get(n, "pinnedCellId");
	const struct pinned *pinned = find_pinned(c, node_span(id));
	struct path at = PATH_KEY(p, SPAN("pinnedCellId"));
	if (!pinned) {
		complain(c, &at, id,
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
	vc->counts = ARENA_NEW(c->a, struct hived_count, items(cells) + items(pinned));
	vc->pinned = ARENA_NEW(c->a, struct span, items(pinned));
	for (size_t i = 0; i < items(cells); i++) {
		struct path one = PATH_INDEX(&cells_at, i);
		add_virtual(c, &one, &cells->item[i], vc);
	}
	for (size_t i = 0; i < items(pinned); i++) {
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

/* ---- all of it ------------------------------------------------------------------------------- */

static int read_config(struct config *c, const struct node *root, struct hived *h)
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

static int read_text(struct config *c, struct span text, struct hived *h)
{
	NOTES_AUTO warnings = { 0 };
	struct budget budget = HIVED_BUDGET;
	struct doc doc = { 0 };
	if (span_trim(text).n == 0)
		return err_at(c->e, UNKNOWN_ERROR, (struct place){ "", 1, 1 }, "the file is empty");
	if (doc_read(text, &budget, &c->scratch, &doc, &warnings, c->e) < 0 ||
	    schema_check(schema_get(SCHEMA_HIVED), &doc.root, "UnknownError", NULL, c->e) < 0)
		return -1;
	return read_config(c, &doc.root, h);
}

struct hived *hived_read(struct span text, struct arena *a, struct err *e)
{
	struct hived *h = ARENA_NEW(a, struct hived, 1);
	struct config c = { .a = a, .e = e };
	int rc = read_text(&c, text, h);
	arena_done(&c.scratch);
	if (rc == 0)
		return h;
	e->http = 500; /* the file is the server's, not the client's */
	e->code = "UnknownError";
	return NULL;
}
