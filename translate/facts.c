/* Reads the facts file, checks that its grants exist, and collects those of a user. */
#include "translate/facts.h"

#include <stdlib.h>

#include "base/pod/results.h"
#include "base/time.h"
#include "schema/schema.h"
#include "translate/job/names.h"
#include "translate/reader/parse_context.h"

/* Limits of the file, which grows with the number of users. */
#define FACTS_BUDGET ((struct budget){ 64, 2000000, 32u << 20, 1024 })

/* Other names in the list are ignored. */
static unsigned allocations_listed(const struct node *list)
{
	unsigned found = 0;
	for (uint32_t i = 0; list && i < list->n; i++)
		found |= allocation_named(node_span(&list->item[i]));
	return found;
}

/* ---- finding members by name ---- */

static int member_compare_keys(const void *a, const void *b)
{
	return span_compare(member_key(*(const struct member *const *)a),
	                    member_key(*(const struct member *const *)b));
}

static int member_compare_key(const void *key, const void *member)
{
	return span_compare(*(const struct span *)key,
	                    member_key(*(const struct member *const *)member));
}

static struct facts_index facts_index_of(const struct node *map, struct arena *a)
{
	struct facts_index all = { ARENA_NEW(a, const struct member *, node_items(map) + 1),
		                   node_items(map) };
	for (size_t i = 0; i < all.n; i++)
		all.v[i] = &map->member[i];
	qsort(all.v, all.n, sizeof(const struct member *), member_compare_keys);
	return all;
}

const struct node *facts_find_in(const struct facts_index *all, struct span key)
{
	const struct member *const *m =
	    bsearch(&key, all->v, all->n, sizeof(const struct member *), member_compare_key);
	return m ? &(*m)->value : NULL;
}

static bool facts_contains(const struct node *list, struct span name)
{
	for (size_t i = 0; i < node_items(list); i++)
		if (span_eq(node_span(&list->item[i]), name))
			return true;
	return false;
}

static const struct node *facts_group_of(const struct facts_file *f, const struct node *user,
                                         size_t i)
{
	return facts_find_in(&f->groups, node_span(&node_get(user, "groups")->item[i]));
}

/* ---- checks of the whole file ------------------------------------------------------------------
 * A grant of something that does not exist is an error of the file, not of the user. */

static void facts_report(struct err *e, const struct node *n, const char *what, const char *but)
{
	char shown[4 * QUOTE_MAX];
	struct place where = { NULL, n->line, n->column };
	(void)err_at(e, UNKNOWN_ERROR, where, "%s `%s` is %s", what, quote(shown, node_span(n)),
	             but);
}

/* Checks the grants of a user or a group. */
static void check_grants(const struct facts_file *f, const struct node *who, struct err *e)
{
	const struct node *storages = node_get(who, "storages");
	const struct node *clusters = node_get(who, "virtualClusters");
	for (size_t i = 0; i < node_items(storages); i++) {
		struct span name = node_span(&storages->item[i]);
		size_t k = 0;
		while (k < node_items(f->storages) &&
		       !span_eq(node_span(node_get(&f->storages->item[k], "name")), name))
			k++;
		if (k == node_items(f->storages))
			facts_report(e, &storages->item[i], "storage", "granted but not listed");
	}
	for (size_t i = 0; f->virtual_clusters && i < node_items(clusters); i++)
		if (!facts_contains(f->virtual_clusters, node_span(&clusters->item[i])))
			facts_report(e, &clusters->item[i], "virtual cluster",
			             "granted but not listed");
}

static int facts_check(const struct facts_file *f, struct err *e)
{
	for (size_t i = 0; i < node_items(f->storages); i++) {
		const struct node *name = node_get(&f->storages->item[i], "name");
		if (span_is(node_span(name), RESULTS_CLAIM))
			facts_report(e, name, "storage",
			             "reserved for the results of jobs: choose another name");
	}
	for (size_t i = 0; i < f->groups.n; i++)
		check_grants(f, &f->groups.v[i]->value, e);
	for (size_t i = 0; i < f->users.n; i++) {
		const struct node *user = &f->users.v[i]->value;
		const struct node *groups = node_get(user, "groups");
		check_grants(f, user, e);
		for (size_t k = 0; k < node_items(groups); k++)
			if (!facts_group_of(f, user, k))
				facts_report(e, &groups->item[k], "group", "named but not defined");
	}
	return e->http ? -1 : 0;
}

/* ---- one user ---- */

/* The file does not restrict the user. */
static bool facts_is_free(const struct node *user, const char *member)
{
	return !node_get(user, member) && !node_get(user, "groups");
}

/* Adds the names that are not there yet. */
static void facts_add(struct span *v, size_t *n, const struct node *list)
{
	for (size_t i = 0; i < node_items(list); i++) {
		struct span name = node_span(&list->item[i]);
		size_t k = 0;
		while (k < *n && !span_eq(v[k], name))
			k++;
		v[k] = name;
		*n += k == *n;
	}
}

static void facts_read_groups(const struct facts_file *f, const struct node *user, struct arena *a,
                              struct facts_user *out)
{
	const struct node *groups = node_get(user, "groups");
	struct span *v = ARENA_NEW(a, struct span, node_items(groups) + 1);
	facts_add(v, &out->n_groups, groups);
	out->groups = v;
	out->facts.grants = allocations_listed(node_get(f->root, "overlays")) |
	                    allocations_listed(node_get(user, "overlays"));
	for (size_t i = 0; i < node_items(groups); i++) {
		const struct node *group = facts_group_of(f, user, i);
		out->admin |= parse_is_true(group, "admin");
		out->facts.grants |= allocations_listed(node_get(group, "overlays"));
	}
}

static void read_virtual_clusters(const struct facts_file *f, const struct node *user,
                                  struct arena *a, struct facts_user *out)
{
	const struct node *own = node_get(user, "virtualClusters");
	size_t groups = node_items(node_get(user, "groups"));
	bool all = out->admin || facts_is_free(user, "virtualClusters");
	size_t most = node_items(own) + node_items(f->virtual_clusters);
	for (size_t i = 0; i < groups; i++)
		most += node_items(node_get(facts_group_of(f, user, i), "virtualClusters"));
	struct span *v = ARENA_NEW(a, struct span, most + 1);
	size_t n = 0;
	facts_add(v, &n, all ? f->virtual_clusters : own);
	for (size_t i = 0; !all && i < groups; i++)
		facts_add(v, &n, node_get(facts_group_of(f, user, i), "virtualClusters"));
	out->facts.any_virtual_cluster = all && !f->virtual_clusters;
	out->facts.virtual_clusters = v;
	out->facts.n_virtual_clusters = n;
}

static void facts_read_storages(const struct facts_file *f, const struct node *user,
                                struct arena *a, struct facts *out)
{
	struct storage_fact *v = ARENA_NEW(a, struct storage_fact, node_items(f->storages) + 1);
	struct directory_fact *dirs =
	    ARENA_NEW(a, struct directory_fact, node_items(f->storages) + 1);
	for (size_t i = 0; i < node_items(f->storages); i++) {
		const struct node *s = &f->storages->item[i];
		struct span name = node_span(node_get(s, "name"));
		const struct node *nfs = node_get(s, "nfs");
		const struct node *share = node_get(s, "share");
		struct span source =
		    names_directory(a, node_get(nfs, "server"),
		                    nfs ? node_get(nfs, "path") : node_get(s, "hostPath"));
		bool read_only = parse_is_true(s, "readOnly");
		bool granted = facts_is_free(user, "storages") ||
		               facts_contains(node_get(user, "storages"), name);
		for (size_t k = 0; !granted && k < node_items(node_get(user, "groups")); k++)
			granted =
			    facts_contains(node_get(facts_group_of(f, user, k), "storages"), name);
		if (!granted)
			continue;
		if (source.n)
			dirs[out->n_directories++] = (struct directory_fact){ source, read_only };
		else
			v[out->n_storages++] = (struct storage_fact){
				.name = name,
				.is_default = parse_is_true(s, "default"),
				.share = !(node_is(share, NODE_BOOL) && !share->boolean),
				.read_only = read_only,
			};
	}
	out->storages = v;
	out->directories = dirs;
}

static int64_t facts_number_of(const struct node *map, const char *key, int64_t absent)
{
	const struct node *n = node_get(map, key);
	return node_is(n, NODE_INT) ? n->integer : absent;
}

/* One limit: the user's own, else the largest of the groups, else that of all. */
static int64_t facts_limit_of(const struct facts_file *f, const struct node *user, const char *key)
{
	int64_t most = -1;
	for (size_t i = 0; i < node_items(node_get(user, "groups")); i++) {
		const struct node *group = facts_group_of(f, user, i);
		int64_t n = facts_number_of(node_get(group, "limits"), key, -1);
		most = n > most ? n : most;
	}
	if (most < 0)
		most = facts_number_of(node_get(f->root, "limits"), key, -1);
	return facts_number_of(node_get(user, "limits"), key, most);
}

static struct facts_limits facts_limits_of(const struct facts_file *f, const struct node *user)
{
	return (struct facts_limits){ facts_limit_of(f, user, "cpu"),
		                      facts_limit_of(f, user, "gpu"),
		                      facts_limit_of(f, user, "memoryMB"),
		                      facts_limit_of(f, user, "jobs") };
}

struct facts_limits facts_file_limits(const struct facts_file *f)
{
	return facts_limits_of(f, NULL);
}

bool facts_file_limited(const struct facts_file *f, size_t i, struct span *user,
                        struct facts_limits *out)
{
	if (i >= f->users.n)
		return false;
	*user = member_key(f->users.v[i]);
	*out = facts_limits_of(f, &f->users.v[i]->value);
	return true;
}

void facts_file_user(const struct facts_file *f, struct span user, bool admin, struct arena *a,
                     struct facts_user *out)
{
	const struct node *own = facts_find_in(&f->users, user);
	const struct node *email = node_get(own, "email");
	*out =
	    (struct facts_user){ .listed = own, .admin = admin, .email = email ? email->text : "" };
	out->facts.extension = node_get(own, "extension");
	out->facts.submitted_ms = f->submitted_ms;
	out->facts.pod_names = f->pod_names;
	out->facts.queues = f->queues;
	facts_read_groups(f, own, a, out);
	read_virtual_clusters(f, own, a, out);
	facts_read_storages(f, own, a, &out->facts);
	out->limits = facts_limits_of(f, own);
}

/* ---- the cluster ---- */

static struct facts_capacity facts_capacity_of(const struct node *has, int64_t absent)
{
	return (struct facts_capacity){ facts_number_of(has, "cpu", absent),
		                        facts_number_of(has, "gpu", absent),
		                        facts_number_of(has, "memoryMB", absent) };
}

/* Returns the capacity of a virtual cluster.  A capacity without a number is 0, a quota without one
 * has no limit. */
struct facts_capacity facts_file_capacity(const struct facts_file *f, struct span virtual_cluster)
{
	const struct member *m = node_member(node_get(f->root, "capacity"), virtual_cluster);
	return facts_capacity_of(m ? &m->value : NULL, 0);
}

bool facts_file_quota(const struct facts_file *f, size_t i, struct span *virtual_cluster,
                      struct facts_capacity *out)
{
	const struct node *all = node_get(f->root, "capacity");
	if (i >= node_items(all))
		return false;
	*virtual_cluster = member_key(&all->member[i]);
	*out = facts_capacity_of(&all->member[i].value, -1);
	return true;
}

bool facts_file_directory(const struct facts_file *f, size_t i, struct facts_directory *out)
{
	for (size_t k = 0; k < node_items(f->storages); k++) {
		const struct node *s = &f->storages->item[k];
		const struct node *path = node_get(s, "path");
		if (!path || i-- > 0)
			continue;
		*out = (struct facts_directory){ node_get(s, "name")->text, path->text,
			                         parse_is_true(s, "readOnly") };
		return true;
	}
	return false;
}

static int span_compare_for_qsort(const void *a, const void *b)
{
	return span_compare(*(const struct span *)a, *(const struct span *)b);
}

size_t facts_file_virtual_clusters(const struct facts_file *f, struct arena *a, struct span **out,
                                   bool *listed)
{
	const struct facts_index *const by[] = { &f->groups, &f->users };
	size_t most = node_items(f->virtual_clusters) + 1;
	size_t n = 0;
	size_t kept = 0;
	for (size_t k = 0; k < ARRAY_SIZE(by); k++)
		for (size_t i = 0; i < by[k]->n; i++)
			most += node_items(node_get(&by[k]->v[i]->value, "virtualClusters"));
	struct span *v = ARENA_NEW(a, struct span, most);
	*out = v;
	*listed = f->virtual_clusters;
	if (*listed) {
		facts_add(v, &n, f->virtual_clusters);
		return n;
	}
	v[n++] = SPAN("default");
	for (size_t k = 0; k < ARRAY_SIZE(by); k++)
		for (size_t i = 0; i < by[k]->n; i++) {
			const struct node *list = node_get(&by[k]->v[i]->value, "virtualClusters");
			for (size_t m = 0; m < node_items(list); m++)
				v[n++] = node_span(&list->item[m]);
		}
	qsort(v, n, sizeof(*v), span_compare_for_qsort); /* there may be thousands */
	for (size_t i = 0; i < n; i++)
		if (kept == 0 || !span_eq(v[kept - 1], v[i]))
			v[kept++] = v[i];
	return kept;
}

/* ---- the file ---- */

/* NULL and *e.  Lives in the arena. */
static struct node *read_document(struct span text, struct arena *a, struct err *e)
{
	struct budget budget = FACTS_BUDGET;
	struct doc *doc = ARENA_NEW(a, struct doc, 1);
	struct node *root = &doc->root;
	if (span_trim(text).n == 0) {
		root->type = NODE_MAP;
		return root;
	}
	if (doc_read(text, &budget, a, doc, NULL, e) < 0)
		return NULL;
	/* YAML reads an unquoted time as a date; here it is a text. */
	if (node_is(node_get(root, "submittedAt"), NODE_DATE)) {
		struct member *v = ARENA_NEW(a, struct member, root->n);
		for (size_t i = 0; i < root->n; i++) {
			v[i] = root->member[i];
			if (span_is(member_key(&v[i]), "submittedAt"))
				v[i].value.type = NODE_TEXT;
		}
		root->member = v;
	}
	return schema_check(schema_get(SCHEMA_FACTS), root, "UnknownError", NULL, e) < 0 ? NULL
	                                                                                 : root;
}

/* The virtual clusters, which may be a list of names or a map. */
static void facts_read_clusters(struct facts_file *f, struct arena *a)
{
	const struct node *all = node_get(f->root, "virtualClusters");
	f->virtual_clusters = all;
	if (!node_is(all, NODE_MAP))
		return;
	struct node *names = ARENA_NEW(a, struct node, 1);
	struct node *item = ARENA_NEW(a, struct node, all->n + 1);
	*names = *all;
	names->type = NODE_LIST;
	names->item = item;
	for (uint32_t i = 0; i < all->n; i++) {
		struct span name = member_key(&all->member[i]);
		item[i] = (struct node){ .type = NODE_TEXT,
			                 .n = (uint32_t)name.n,
			                 .line = all->member[i].value.line,
			                 .column = all->member[i].value.column,
			                 .text = name.p };
	}
	f->virtual_clusters = names;
	f->queues = all;
}

/* Reads the members that callers need of the whole file. */
static void facts_read_members(struct facts_file *f)
{
	static const char *const ABOUT_USERS[] = { "users", "groups", "others", "storages",
		                                   "overlays" };
	const struct node *others = node_get(f->root, "others");
	const struct node *at = node_get(f->root, "submittedAt");
	int64_t ms = 0;
	f->lets_others_in = !others || !span_is(node_span(others), "refuse");
	f->pod_names = node_get(f->root, "podMetadata");
	for (size_t i = 0; i < ARRAY_SIZE(ABOUT_USERS) && !f->about_users; i++)
		f->about_users = node_member(f->root, span_of(ABOUT_USERS[i]));
	for (size_t i = 0; i < f->users.n && !f->is_secret; i++) {
		const struct node *e = node_get(&f->users.v[i]->value, "extension");
		f->is_secret = node_get(node_get(e, "jobSSH"), "key") || node_get(e, "githubPAT");
	}
	if (!at)
		return;
	(void)rfc3339_read(node_span(at), &ms); /* the schema has checked it, but for the day */
	f->submitted_ms = node_is(at, NODE_INT) ? at->integer : ms / 1000 * 1000;
}

struct facts_file *facts_file_read(struct span text, struct arena *a, struct err *e)
{
	const struct node *root = read_document(text, a, e);
	struct facts_file *f = ARENA_NEW(a, struct facts_file, 1);
	if (root) {
		f->root = root;
		facts_read_clusters(f, a);
		f->storages = node_get(root, "storages");
		f->groups = facts_index_of(node_get(root, "groups"), a);
		f->users = facts_index_of(node_get(root, "users"), a);
		facts_read_members(f);
		if (facts_check(f, e) == 0)
			return f;
	}
	e->http = 500; /* the file is the server's, not the client's */
	e->code = "UnknownError";
	return NULL;
}
