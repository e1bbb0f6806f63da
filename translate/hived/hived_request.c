/* What a job says to HiveD: `extras.hivedScheduler`, of both generations.  Whether HiveD can do it
 * is asked by the plan, which knows the cluster. */
#include "translate/dialects/hint.h"
#include "translate/dialects/warnings.h"
#include "translate/names.h"

const char *const HIVED_OPTION_NAMES[HIVED_OPTIONS] = {
	"gangReleaseEnable",
	"lazyPreemptionEnable",
	"ignoreK8sSuggestedNodes",
};

static const struct {
	const char *name;
	int priority;
} CLASSES[] = { { "crit", 120 }, { "prod", 100 }, { "test", HIVED_TEST }, { "oppo", HIVED_OPPO } };
enum { N_CLASSES = sizeof(CLASSES) / sizeof(*CLASSES) };

static bool present(const struct node *n)
{
	return n && n->type != NODE_NULL;
}

/* The member, if it is there and of that type; if of another, that is said. */
static const struct node *member(struct reading *r, const struct path *p, const struct node *map,
                                 enum node_type type, const char *want)
{
	const struct node *n = node_get(map, p->key.p);
	if (!present(n))
		return NULL;
	if (n->type == type)
		return n;
	reading_refuse(r, p, n, "must be %s, is %s", want, node_type_name(n));
	return NULL;
}

static int64_t read_class(struct reading *r, const struct path *up, const struct node *map)
{
	struct path p = PATH_KEY(up, SPAN("jobPriorityClass"));
	const struct node *n = member(r, &p, map, NODE_TEXT, "text");
	for (size_t i = 0; n && i < N_CLASSES; i++)
		if (span_is(node_span(n), CLASSES[i].name))
			return CLASSES[i].priority;
	char shown[4 * QUOTE_MAX];
	if (n)
		reading_refuse(r, &p, n, "must be one of crit, prod, test, oppo, is \"%s\"",
		               quote(shown, node_span(n)));
	return HIVED_TEST;
}

/* ---- one role -------------------------------------------------------------------------------- */

/* A name that goes into the annotation; empty counts as absent. */
static struct hived_name read_name(struct reading *r, const struct path *up, const struct node *map,
                                   const char *key)
{
	struct path p = PATH_KEY(up, span_of(key));
	const struct node *n = member(r, &p, map, NODE_TEXT, "text");
	char shown[4 * QUOTE_MAX];
	if (!n || n->n == 0)
		return (struct hived_name){ 0 };
	if (!names_cell_ok(node_span(n)))
		reading_refuse(r, &p, n,
		               "\"%s\" must be at most %d letters, digits and ._~/-, and begin "
		               "with a letter or digit",
		               quote(shown, node_span(n)), CELL_NAME_MAX);
	return (struct hived_name){ node_span(n), path_place(r->a, &p, n) };
}

static void read_role(struct reading *r, const struct path *p, const struct node *n,
                      struct hived_role *out)
{
	if (!node_is(n, NODE_MAP)) {
		if (present(n))
			reading_refuse(r, p, n, "must be a mapping, is %s", node_type_name(n));
		return;
	}
	out->sku_type = read_name(r, p, n, "skuType");
	out->pinned_cell = read_name(r, p, n, "pinnedCellId");
	out->group = read_name(r, p, n, "affinityGroupName");
}

static const struct role *find_role(const struct job *job, struct span name)
{
	for (size_t i = 0; i < job->n_roles; i++)
		if (span_eq(job->roles[i].name, name))
			return &job->roles[i];
	return NULL;
}

static void refuse_role(struct reading *r, const struct path *p, const struct member *m)
{
	char shown[4 * QUOTE_MAX];
	char meant[4 * QUOTE_MAX];
	struct span hint = hint_name(r, node_get(r->root, "taskRoles"), NULL, member_key(m));
	reading_refuse_key(r, p, m, "Taskrole %s does not exist.%s%s%s",
	                   quote(shown, member_key(m)), hint.n ? " Did you mean `" : "",
	                   hint.n ? quote(meant, hint) : "", hint.n ? "`?" : "");
}

static void read_roles(struct reading *r, const struct path *up, const struct node *map,
                       struct hived_request *out)
{
	const struct job *job = r->job;
	struct path p = PATH_KEY(up, SPAN("taskRoles"));
	const struct node *all = member(r, &p, map, NODE_MAP, "a mapping");
	if (!all || job->n_roles == 0) /* what is wrong with them has been said */
		return;
	out->roles = ARENA_NEW(r->a, struct hived_role, job->n_roles);
	for (uint32_t i = 0; i < all->n; i++) {
		const struct member *m = &all->member[i];
		struct path one = PATH_KEY(&p, member_key(m));
		const struct role *role = find_role(job, member_key(m));
		if (role)
			read_role(r, &one, &m->value, &out->roles[role->index]);
		else
			refuse_role(r, &p, m);
	}
}

/* ---- the job --------------------------------------------------------------------------------- */

static void read_options(struct reading *r, const struct path *up, const struct node *map,
                         struct hived_request *out)
{
	for (size_t i = 0; i < HIVED_OPTIONS; i++) {
		struct path p = PATH_KEY(up, span_of(HIVED_OPTION_NAMES[i]));
		out->option[i] = member(r, &p, map, NODE_BOOL, "true or false");
	}
}

void hived_request_read(struct reading *r)
{
	struct path extras = PATH_KEY(NULL, SPAN("extras"));
	struct path p = PATH_KEY(&extras, SPAN("hivedScheduler"));
	const struct node *map = member(r, &p, node_get(r->root, "extras"), NODE_MAP, "a mapping");
	if (!map)
		return;
	struct hived_request *out = ARENA_NEW(r->a, struct hived_request, 1);
	out->priority = read_class(r, &p, map);
	read_options(r, &p, map, out);
	read_roles(r, &p, map, out);
	r->job->hived = out;
	if (!r->set->hived)
		reading_warn(r, &p, map, WARN_HIVED);
}
