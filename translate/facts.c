/* The facts about one user, out of a facts file (schema/facts.schema.json). */
#include "schema/check.h"
#include "translate/job.h"

struct facts_file {
	const struct node *root, *user;
	struct arena *a;
};

static bool is_true(const struct node *n, bool absent)
{
	return node_is(n, NODE_BOOL) ? n->boolean : absent;
}

/* ---- virtual clusters ------------------------------------------------------------------------ */

static void read_virtual_clusters(const struct facts_file *in, struct facts *f)
{
	const struct node *list = node_get(in->user, "virtualClusters");
	if (list == NULL)
		list = node_get(in->root, "virtualClusters");
	f->any_virtual_cluster = list == NULL;
	if (list == NULL)
		return;
	struct span *v = ARENA_NEW(in->a, struct span, list->n);
	for (size_t i = 0; i < list->n; i++)
		v[i] = node_span(&list->item[i]);
	f->virtual_clusters = v;
	f->n_virtual_clusters = list->n;
}

/* ---- storages -------------------------------------------------------------------------------- */

static bool contains(const struct node *list, struct span name)
{
	for (size_t i = 0; i < list->n; i++)
		if (span_eq(node_span(&list->item[i]), name))
			return true;
	return false;
}

static bool storage_exists(const struct node *all, struct span name)
{
	for (size_t i = 0; all && i < all->n; i++)
		if (span_eq(node_span(node_get(&all->item[i], "name")), name))
			return true;
	return false;
}

/* A name that is granted but not there is a mistake in the file, not the user's. */
static int check_granted(const struct node *granted, const struct node *all, struct err *e)
{
	for (size_t i = 0; granted && i < granted->n; i++) {
		char shown[4 * QUOTE_MAX];
		const struct node *n = &granted->item[i];
		struct place where = { NULL, n->line, n->column };
		if (!storage_exists(all, node_span(n)))
			return err_at(e, UNKNOWN_ERROR, where,
			              "storage `%s` is granted but not listed",
			              quote(shown, node_span(n)));
	}
	return 0;
}

static int read_storages(const struct facts_file *in, struct facts *f, struct err *e)
{
	const struct node *all = node_get(in->root, "storages");
	const struct node *granted = node_get(in->user, "storages");
	if (check_granted(granted, all, e) < 0)
		return -1;
	if (all == NULL)
		return 0;
	struct storage_fact *v = ARENA_NEW(in->a, struct storage_fact, all->n);
	for (size_t i = 0; i < all->n; i++) {
		const struct node *s = &all->item[i];
		struct span name = node_span(node_get(s, "name"));
		if (granted && !contains(granted, name))
			continue;
		v[f->n_storages++] = (struct storage_fact){
			.name = name,
			.is_default = is_true(node_get(s, "default"), false),
			.share = is_true(node_get(s, "share"), true),
			.read_only = is_true(node_get(s, "readOnly"), false),
		};
	}
	f->storages = v;
	return 0;
}

/* ---- time of submission ---------------------------------------------------------------------- */

static int64_t number_at(struct span t, size_t at, size_t n)
{
	int64_t v = 0;
	(void)parse_i64((struct span){ t.p + at, n }, 0, INT64_MAX, &v); /* the schema saw digits */
	return v;
}

/* Days from 1970-01-01, Gregorian; years from 0. */
static int64_t days_of(int64_t year, int64_t month, int64_t day)
{
	/* Years begin in March, so that the leap day comes last. */
	int64_t y = month <= 2 ? year - 1 : year;
	int64_t m = month <= 2 ? month + 9 : month - 3;
	int64_t leap_days = y / 4 - y / 100 + y / 400;
	return 365 * y + leap_days + (153 * m + 2) / 5 + day - 1 - 719468;
}

/* 2026-11-20T10:25:38.123Z; whole seconds are enough for what it is used for. */
static int64_t time_ms(struct span t)
{
	int64_t days = days_of(number_at(t, 0, 4), number_at(t, 5, 2), number_at(t, 8, 2));
	int64_t s = 3600 * number_at(t, 11, 2) + 60 * number_at(t, 14, 2) + number_at(t, 17, 2);
	return (86400 * days + s) * 1000;
}

/* In YAML a time without quotes is a date, which the schema takes nowhere: here it is meant. */
static void unquoted_time(struct node *root, struct arena *a)
{
	if (!node_is(node_get(root, "submittedAt"), NODE_DATE))
		return;
	struct member *v = ARENA_NEW(a, struct member, root->n);
	for (size_t i = 0; i < root->n; i++) {
		v[i] = root->member[i];
		if (span_is(member_key(&v[i]), "submittedAt"))
			v[i].value.type = NODE_TEXT;
	}
	root->member = v;
}

static void read_time(const struct facts_file *in, struct facts *f)
{
	const struct node *at = node_get(in->root, "submittedAt");
	if (node_is(at, NODE_INT))
		f->submitted_ms = at->integer;
	else if (at)
		f->submitted_ms = time_ms(node_span(at));
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int refuse(struct err *e)
{
	e->http = 500; /* the file is the server's, not the client's */
	e->code = "UnknownError";
	return -1;
}

int facts_read(struct span text, const char *user, struct arena *a, struct facts *f, struct err *e)
{
	*f = (struct facts){ .any_virtual_cluster = true };
	if (span_trim(text).n == 0)
		return 0;
	NOTES_AUTO warnings = { 0 };
	struct budget budget = BUDGET_DEFAULT;
	struct doc *doc = ARENA_NEW(a, struct doc, 1);
	if (doc_read(text, &budget, a, doc, &warnings, e) < 0)
		return refuse(e);
	unquoted_time(&doc->root, a);
	if (schema_check(schema_get(SCHEMA_FACTS), &doc->root, "UnknownError", NULL, e) < 0)
		return refuse(e);
	struct facts_file in = { &doc->root, NULL, a };
	const struct node *users = node_get(in.root, "users");
	const struct member *own = users ? node_member(users, span_of(user)) : NULL;
	in.user = own ? &own->value : NULL;
	read_virtual_clusters(&in, f);
	f->extension = node_get(in.user, "extension");
	read_time(&in, f);
	return read_storages(&in, f, e);
}
