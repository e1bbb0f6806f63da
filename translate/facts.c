#include "translate/facts.h"

#include <stdlib.h>

#include "base/time.h"
#include "schema/check.h"

/* Limits of the file, which grows with the number of users. */
#define FACTS_BUDGET ((struct budget){ 64, 2000000, 32u << 20, 1024 })

/* The members of a map, sorted by key. */
struct index {
	const struct member **v;
	size_t n;
};

struct facts_file {
	const struct node *root, *virtual_clusters, *storages; /* NULL if absent */
	struct index groups, users;
	bool refuses_others;
	int64_t submitted_ms;
};

const char *const GRANT_NAMES[GRANT_BITS] = { "fuse", "hostNetwork", "infiniband" };

unsigned grant_named(struct span name)
{
	for (size_t bit = 0; bit < GRANT_BITS; bit++)
		if (span_is(name, GRANT_NAMES[bit]))
			return 1u << bit;
	return 0;
}

/* Other names in the list are ignored. */
static unsigned grants_listed(const struct node *list)
{
	unsigned found = 0;
	for (uint32_t i = 0; list && i < list->n; i++)
		found |= grant_named(node_span(&list->item[i]));
	return found;
}

static bool facts_is_true(const struct node *n, bool absent)
{
	return node_is(n, NODE_BOOL) ? n->boolean : absent;
}

static size_t facts_items(const struct node *list)
{
	return list ? list->n : 0;
}

/* ---- finding members by name ---- */

static int by_key(const void *a, const void *b)
{
	return span_compare(member_key(*(const struct member *const *)a),
	                    member_key(*(const struct member *const *)b));
}

static int key_against(const void *key, const void *member)
{
	return span_compare(*(const struct span *)key,
	                    member_key(*(const struct member *const *)member));
}

static struct index facts_index_of(const struct node *map, struct arena *a)
{
	struct index all = { ARENA_NEW(a, const struct member *, facts_items(map) + 1),
		             facts_items(map) };
	for (size_t i = 0; i < all.n; i++)
		all.v[i] = &map->member[i];
	qsort(all.v, all.n, sizeof(const struct member *), by_key);
	return all;
}

static const struct node *facts_find(const struct index *all, struct span key)
{
	const struct member *const *m =
	    bsearch(&key, all->v, all->n, sizeof(const struct member *), key_against);
	return m ? &(*m)->value : NULL;
}

static bool facts_contains(const struct node *list, struct span name)
{
	for (size_t i = 0; i < facts_items(list); i++)
		if (span_eq(node_span(&list->item[i]), name))
			return true;
	return false;
}

static bool facts_has(const struct span *v, size_t n, struct span name)
{
	for (size_t i = 0; i < n; i++)
		if (span_eq(v[i], name))
			return true;
	return false;
}

static const struct node *facts_group_of(const struct facts_file *f, const struct node *user,
                                         size_t i)
{
	return facts_find(&f->groups, node_span(&node_get(user, "groups")->item[i]));
}

/* ---- checks of the whole file ------------------------------------------------------------------
 * A grant of something that does not exist is an error of the file, not of the user. */

static void facts_complain(struct err *e, const struct node *n, const char *what, const char *but)
{
	char shown[4 * QUOTE_MAX];
	struct place where = { NULL, n->line, n->column };
	(void)err_at(e, UNKNOWN_ERROR, where, "%s `%s` is %s", what, quote(shown, node_span(n)),
	             but);
}

static bool storage_exists(const struct facts_file *f, struct span name)
{
	for (size_t i = 0; i < facts_items(f->storages); i++)
		if (span_eq(node_span(node_get(&f->storages->item[i], "name")), name))
			return true;
	return false;
}

/* For a user or a group. */
static void check_grants(const struct facts_file *f, const struct node *who, struct err *e)
{
	const struct node *storages = node_get(who, "storages");
	const struct node *clusters = node_get(who, "virtualClusters");
	for (size_t i = 0; i < facts_items(storages); i++)
		if (!storage_exists(f, node_span(&storages->item[i])))
			facts_complain(e, &storages->item[i], "storage", "granted but not listed");
	for (size_t i = 0; f->virtual_clusters && i < facts_items(clusters); i++)
		if (!facts_contains(f->virtual_clusters, node_span(&clusters->item[i])))
			facts_complain(e, &clusters->item[i], "virtual cluster",
			               "granted but not listed");
}

static int facts_check(const struct facts_file *f, struct err *e)
{
	for (size_t i = 0; i < f->groups.n; i++)
		check_grants(f, &f->groups.v[i]->value, e);
	for (size_t i = 0; i < f->users.n; i++) {
		const struct node *user = &f->users.v[i]->value;
		const struct node *groups = node_get(user, "groups");
		check_grants(f, user, e);
		for (size_t k = 0; k < facts_items(groups); k++)
			if (!facts_group_of(f, user, k))
				facts_complain(e, &groups->item[k], "group",
				               "named but not defined");
	}
	return e->http ? -1 : 0;
}

/* ---- one user ---- */

/* The file does not restrict the user. */
static bool facts_is_free(const struct node *user, const char *member)
{
	return !node_get(user, member) && !node_get(user, "groups");
}

static void facts_add(struct span *v, size_t *n, const struct node *list)
{
	for (size_t i = 0; i < facts_items(list); i++)
		if (!facts_has(v, *n, node_span(&list->item[i])))
			v[(*n)++] = node_span(&list->item[i]);
}

static void facts_read_groups(const struct facts_file *f, const struct node *user, struct arena *a,
                              struct facts_user *out)
{
	const struct node *groups = node_get(user, "groups");
	struct span *v = ARENA_NEW(a, struct span, facts_items(groups) + 1);
	facts_add(v, &out->n_groups, groups);
	out->groups = v;
	out->facts.grants = grants_listed(node_get(f->root, "overlays")) |
	                    grants_listed(node_get(user, "overlays"));
	for (size_t i = 0; i < facts_items(groups); i++) {
		const struct node *group = facts_group_of(f, user, i);
		out->admin |= facts_is_true(node_get(group, "admin"), false);
		out->facts.grants |= grants_listed(node_get(group, "overlays"));
	}
}

static void read_virtual_clusters(const struct facts_file *f, const struct node *user,
                                  struct arena *a, struct facts_user *out)
{
	const struct node *own = node_get(user, "virtualClusters");
	size_t groups = facts_items(node_get(user, "groups"));
	bool all = out->admin || facts_is_free(user, "virtualClusters");
	size_t most = facts_items(own) + facts_items(f->virtual_clusters);
	for (size_t i = 0; i < groups; i++)
		most += facts_items(node_get(facts_group_of(f, user, i), "virtualClusters"));
	struct span *v = ARENA_NEW(a, struct span, most + 1);
	size_t n = 0;
	facts_add(v, &n, all ? f->virtual_clusters : own);
	for (size_t i = 0; !all && i < groups; i++)
		facts_add(v, &n, node_get(facts_group_of(f, user, i), "virtualClusters"));
	out->facts.any_virtual_cluster = all && !f->virtual_clusters;
	out->facts.virtual_clusters = v;
	out->facts.n_virtual_clusters = n;
}

static bool is_granted(const struct facts_file *f, const struct node *user, struct span storage)
{
	if (facts_is_free(user, "storages") || facts_contains(node_get(user, "storages"), storage))
		return true;
	for (size_t i = 0; i < facts_items(node_get(user, "groups")); i++)
		if (facts_contains(node_get(facts_group_of(f, user, i), "storages"), storage))
			return true;
	return false;
}

/* The directory of nfs or hostPath; n == 0: the storage is a claim. */
static struct span facts_source(const struct node *storage, struct arena *a)
{
	const struct node *nfs = node_get(storage, "nfs");
	const struct node *path = nfs ? node_get(nfs, "path") : node_get(storage, "hostPath");
	struct span dir = path ? node_span(path) : SPAN("");
	while (dir.n && dir.p[dir.n - 1] == '/')
		dir.n--;
	if (!nfs)
		return dir;
	return span_of(
	    arena_printf(a, "nfs://%s%.*s", node_get(nfs, "server")->text, (int)dir.n, dir.p));
}

static void facts_read_storages(const struct facts_file *f, const struct node *user,
                                struct arena *a, struct facts *out)
{
	struct storage_fact *v = ARENA_NEW(a, struct storage_fact, facts_items(f->storages) + 1);
	struct directory_fact *dirs =
	    ARENA_NEW(a, struct directory_fact, facts_items(f->storages) + 1);
	for (size_t i = 0; i < facts_items(f->storages); i++) {
		const struct node *s = &f->storages->item[i];
		struct span name = node_span(node_get(s, "name"));
		struct span source = facts_source(s, a);
		bool read_only = facts_is_true(node_get(s, "readOnly"), false);
		if (!is_granted(f, user, name))
			continue;
		if (source.n)
			dirs[out->n_directories++] = (struct directory_fact){ source, read_only };
		else
			v[out->n_storages++] = (struct storage_fact){
				.name = name,
				.is_default = facts_is_true(node_get(s, "default"), false),
				.share = facts_is_true(node_get(s, "share"), true),
				.read_only = read_only,
			};
	}
	out->storages = v;
	out->directories = dirs;
}

const struct node *facts_file_pod_names(const struct facts_file *f)
{
	return node_get(f->root, "podMetadata");
}

void facts_file_user(const struct facts_file *f, struct span user, struct arena *a,
                     struct facts_user *out)
{
	const struct node *own = facts_find(&f->users, user);
	const struct node *email = node_get(own, "email");
	*out = (struct facts_user){ .listed = own, .email = email ? email->text : "" };
	out->facts.extension = node_get(own, "extension");
	out->facts.submitted_ms = f->submitted_ms;
	out->facts.pod_names = facts_file_pod_names(f);
	facts_read_groups(f, own, a, out);
	read_virtual_clusters(f, own, a, out);
	facts_read_storages(f, own, a, &out->facts);
}

/* ---- the cluster ---- */

bool facts_file_lets_others_in(const struct facts_file *f)
{
	return !f->refuses_others;
}

static size_t keys_of(const struct index *all, struct arena *a, struct span **out)
{
	*out = ARENA_NEW(a, struct span, all->n + 1);
	for (size_t i = 0; i < all->n; i++)
		(*out)[i] = member_key(all->v[i]);
	return all->n;
}

size_t facts_file_users(const struct facts_file *f, struct arena *a, struct span **out)
{
	return keys_of(&f->users, a, out);
}

size_t facts_file_groups(const struct facts_file *f, struct arena *a, struct span **out)
{
	return keys_of(&f->groups, a, out);
}

static int64_t facts_number_of(const struct node *map, const char *key, int64_t absent)
{
	const struct node *n = node_get(map, key);
	return node_is(n, NODE_INT) ? n->integer : absent;
}

static struct facts_capacity facts_capacity_of(const struct node *has, int64_t absent)
{
	return (struct facts_capacity){ facts_number_of(has, "cpu", absent),
		                        facts_number_of(has, "gpu", absent),
		                        facts_number_of(has, "memoryMB", absent) };
}

struct facts_capacity facts_file_capacity(const struct facts_file *f, struct span virtual_cluster)
{
	const struct member *m = node_member(node_get(f->root, "capacity"), virtual_cluster);
	return facts_capacity_of(m ? &m->value : NULL, 0);
}

bool facts_file_quota(const struct facts_file *f, size_t i, struct span *virtual_cluster,
                      struct facts_capacity *out)
{
	const struct node *all = node_get(f->root, "capacity");
	if (i >= facts_items(all))
		return false;
	*virtual_cluster = member_key(&all->member[i]);
	*out = facts_capacity_of(&all->member[i].value, -1);
	return true;
}

bool facts_file_directory(const struct facts_file *f, size_t i, struct facts_directory *out)
{
	for (size_t k = 0; k < facts_items(f->storages); k++) {
		const struct node *s = &f->storages->item[k];
		const struct node *path = node_get(s, "path");
		if (!path || i-- > 0)
			continue;
		*out = (struct facts_directory){ node_get(s, "name")->text, path->text,
			                         facts_is_true(node_get(s, "readOnly"), false) };
		return true;
	}
	return false;
}

const struct node *facts_file_group(const struct facts_file *f, struct span name)
{
	return facts_find(&f->groups, name);
}

static int by_name(const void *a, const void *b)
{
	return span_compare(*(const struct span *)a, *(const struct span *)b);
}

static size_t sort_once(struct span *v, size_t n)
{
	size_t kept = 0;
	qsort(v, n, sizeof(*v), by_name);
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || !span_eq(v[kept - 1], v[i]))
			v[kept++] = v[i];
	return kept;
}

static size_t count_named(const struct index *all)
{
	size_t n = 0;
	for (size_t i = 0; i < all->n; i++)
		n += facts_items(node_get(&all->v[i]->value, "virtualClusters"));
	return n;
}

static void add_named(struct span *v, size_t *n, const struct index *all)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct node *list = node_get(&all->v[i]->value, "virtualClusters");
		for (size_t k = 0; k < facts_items(list); k++)
			v[(*n)++] = node_span(&list->item[k]);
	}
}

size_t facts_file_virtual_clusters(const struct facts_file *f, struct arena *a, struct span **out,
                                   bool *listed)
{
	size_t most =
	    facts_items(f->virtual_clusters) + count_named(&f->groups) + count_named(&f->users);
	struct span *v = ARENA_NEW(a, struct span, most + 1);
	size_t n = 0;
	*out = v;
	*listed = f->virtual_clusters;
	if (*listed) {
		facts_add(v, &n, f->virtual_clusters);
		return n;
	}
	v[n++] = SPAN("default");
	add_named(v, &n, &f->groups);
	add_named(v, &n, &f->users);
	return sort_once(v, n);
}

bool facts_file_is_secret(const struct facts_file *f)
{
	for (size_t i = 0; i < f->users.n; i++) {
		const struct node *e = node_get(&f->users.v[i]->value, "extension");
		if (node_get(node_get(e, "jobSSH"), "key") || node_get(e, "githubPAT"))
			return true;
	}
	return false;
}

const struct member *facts_file_members(const struct facts_file *f)
{
	static const char *const NAMES[] = { "users", "groups", "others", "storages", "overlays" };
	for (size_t i = 0; i < ARRAY_SIZE(NAMES); i++) {
		const struct member *m = node_member(f->root, span_of(NAMES[i]));
		if (m)
			return m;
	}
	return NULL;
}

/* ---- time of submission ---- */

/* YAML reads an unquoted time as a date; here it is a text. */
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

static int64_t facts_read_time(const struct node *root)
{
	const struct node *at = node_get(root, "submittedAt");
	if (!at)
		return 0;
	int64_t ms = 0;
	(void)rfc3339_read(node_span(at), &ms); /* the schema has checked it, but for the day */
	return node_is(at, NODE_INT) ? at->integer : ms / 1000 * 1000;
}

/* ---- the file ---- */

static struct facts_file *facts_refuse(struct err *e)
{
	e->http = 500; /* the file is the server's, not the client's */
	e->code = "UnknownError";
	return NULL;
}

static struct node *read_document(struct span text, struct arena *a, struct err *e)
{
	NOTES_AUTO warnings = { 0 };
	struct budget budget = FACTS_BUDGET;
	struct doc *doc = ARENA_NEW(a, struct doc, 1);
	if (span_trim(text).n == 0) {
		doc->root.type = NODE_MAP;
		return &doc->root;
	}
	if (doc_read(text, &budget, a, doc, &warnings, e) < 0)
		return NULL;
	unquoted_time(&doc->root, a);
	if (schema_check(schema_get(SCHEMA_FACTS), &doc->root, "UnknownError", NULL, e) < 0)
		return NULL;
	return &doc->root;
}

struct facts_file *facts_file_read(struct span text, struct arena *a, struct err *e)
{
	const struct node *root = read_document(text, a, e);
	if (!root)
		return facts_refuse(e);
	struct facts_file *f = ARENA_NEW(a, struct facts_file, 1);
	const struct node *others = node_get(root, "others");
	f->root = root;
	f->virtual_clusters = node_get(root, "virtualClusters");
	f->storages = node_get(root, "storages");
	f->groups = facts_index_of(node_get(root, "groups"), a);
	f->users = facts_index_of(node_get(root, "users"), a);
	f->refuses_others = others && span_is(node_span(others), "refuse");
	f->submitted_ms = facts_read_time(root);
	return facts_check(f, e) < 0 ? facts_refuse(e) : f;
}

int facts_read(struct span text, const char *user, struct arena *a, struct facts *f, struct err *e)
{
	struct facts_user own;
	const struct facts_file *file = facts_file_read(text, a, e);
	if (!file)
		return -1;
	facts_file_user(file, span_of(user), a, &own);
	*f = own.facts;
	return 0;
}
