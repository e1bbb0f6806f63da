/*
 * The HiveD part of a job: reads extras.hivedScheduler, and computes how many leaf cells each role
 * needs, so that every resource fits by the size of a cell. Rules of OpenPAI, except for
 * docs/DEVIATIONS.md.
 */
#include "translate/hived/hived_plan.h"

#include "translate/render/bindings.h"

#include <inttypes.h>

#include "base/doc/yaml.h"
#include "translate/hived/hived.h"
#include "translate/job/names.h"
#include "translate/reader/parse_context.h"

enum { LIST_MAX = 600, RESOURCES = 3 };

struct planner {
	const struct scope *s;
	struct span vc;
	const char *code; /* error code */
	struct err *e;
	struct hived_plan *plan;
	struct hived_share *share;
	struct sku *all, *usable;
	size_t n_all, n_usable;
};

static const struct hived_request NOTHING = { .priority = HIVED_TEST };

static bool plan_is_opportunistic(const struct planner *p)
{
	return p->plan->priority == HIVED_OPPO;
}

static const struct sku *find_sku(const struct sku *v, size_t n, struct span name)
{
	for (size_t i = 0; i < n; i++)
		if (span_eq(v[i].name, name))
			return &v[i];
	return NULL;
}

/* "K80, V100" */
static const char *list_skus(const struct planner *p, const struct sku *v, size_t n)
{
	STR_AUTO list = STR_INIT(LIST_MAX);
	for (size_t i = 0; i < n; i++)
		str_printf(&list, "%s%s", i ? ", " : "", arena_quoted(p->s->a, v[i].name));
	return arena_printf(p->s->a, "%s%s", n ? str_c(&list) : "none", list.full ? ", ..." : "");
}

/* ---- requests of a role ---- */

static void check_role(const struct planner *p, const struct role *role)
{
	const struct hived_role *says = &p->plan->roles[role->index];
	const struct hived_name *sku = &says->sku_type;
	const struct hived_name *pinned = &says->pinned_cell;
	struct arena *a = p->s->a;
	int vc_n = (int)p->vc.n;
	if (sku->name.n && pinned->name.n)
		(void)err_at(p->e, 400, p->code, pinned->where,
		             "Taskrole %s has both skuType and pinnedCellId, only one is allowed.",
		             arena_quoted(a, role->name));
	else if (sku->name.n && !find_sku(p->all, p->n_all, sku->name))
		(void)err_at(p->e, 400, p->code, sku->where,
		             "there is no SKU type `%s`; there are %s", arena_quoted(a, sku->name),
		             list_skus(p, p->all, p->n_all));
	else if (sku->name.n && !find_sku(p->usable, p->n_usable, sku->name))
		(void)err_at(p->e, 400, p->code, sku->where,
		             "virtual cluster %.*s has no SKU type `%s`; it has %s", vc_n, p->vc.p,
		             arena_quoted(a, sku->name), list_skus(p, p->usable, p->n_usable));
	else if (pinned->name.n && plan_is_opportunistic(p))
		(void)err_at(p->e, 400, p->code, pinned->where,
		             "jobs of priority class oppo cannot use pinned cells");
	else if (pinned->name.n && !hived_pins(p->s->facts->hived, p->vc, pinned->name))
		(void)err_at(p->e, 400, p->code, pinned->where,
		             "virtual cluster %.*s has no pinned cell `%s`", vc_n, p->vc.p,
		             arena_quoted(a, pinned->name));
}

/* ---- cells ---- */

/* The cell of the requested type, else the minimum over all types of the virtual cluster. */
static struct sku plan_unit_of(const struct planner *p, const struct hived_role *says)
{
	const struct sku *own = find_sku(p->all, p->n_all, says->sku_type.name);
	if (own)
		return *own;
	struct sku unit = p->usable[0];
	for (const struct sku *other = p->usable; other < p->usable + p->n_usable; other++) {
		unit.cpu = other->cpu < unit.cpu ? other->cpu : unit.cpu;
		unit.gpu = other->gpu < unit.gpu ? other->gpu : unit.gpu;
		unit.memory_mb =
		    other->memory_mb < unit.memory_mb ? other->memory_mb : unit.memory_mb;
	}
	return unit;
}

static void refuse_unit(const struct planner *p, const struct role *role, int64_t wanted,
                        const char *what)
{
	const struct hived_role *says = &p->plan->roles[role->index];
	const struct hived_name *sku = &says->sku_type;
	if (sku->name.n)
		(void)err_at(p->e, 400, p->code, role->where,
		             "asks for %" PRId64 " %s; SKU type `%s` has none", wanted, what,
		             arena_quoted(p->s->a, sku->name));
	else
		(void)err_at(
		    p->e, 400, p->code, role->where,
		    "asks for %" PRId64 " %s; there are SKU types without any%s (%s)", wanted, what,
		    says->pinned_cell.name.n ? ", and pinnedCellId says none"
					     : ": say `skuType` in extras.hivedScheduler.taskRoles",
		    list_skus(p, p->usable, p->n_usable));
}

static int64_t count_cells(const struct planner *p, const struct role *role)
{
	struct sku unit = plan_unit_of(p, &p->plan->roles[role->index]);
	const struct {
		int64_t wanted, has;
		const char *what;
	} v[RESOURCES] = {
		{ role->gpu, unit.gpu, "gpu" },
		{ role->cpu, unit.cpu, "cpu" },
		{ role->memory_mb, unit.memory_mb, "memoryMB" },
	};
	int64_t cells = 1; /* also without limits, which only pods of Kubernetes can lack */
	for (size_t i = 0; i < RESOURCES; i++) {
		if (v[i].wanted == 0)
			continue;
		if (v[i].has == 0) {
			refuse_unit(p, role, v[i].wanted, v[i].what);
			continue;
		}
		int64_t need = v[i].wanted / v[i].has + (v[i].wanted % v[i].has != 0);
		cells = need > cells ? need : cells;
	}
	return cells;
}

/* ---- groups ---- */

/* Roles of a group must have one type or one pinned cell. */
static void check_group(const struct planner *p, size_t at)
{
	const struct hived_role *own = &p->plan->roles[at];
	for (size_t i = 0; own->group.name.n && i < at; i++) {
		const struct hived_role *first = &p->plan->roles[i];
		if (!span_eq(first->group.name, own->group.name))
			continue;
		if (!span_eq(first->sku_type.name, own->sku_type.name) ||
		    !span_eq(first->pinned_cell.name, own->pinned_cell.name))
			(void)err_at(
			    p->e, 400, p->code, own->group.where,
			    "Taskroles %s and %s are in one affinity group: they must have "
			    "the same skuType and pinnedCellId",
			    arena_quoted(p->s->a, p->s->job->roles[i].name),
			    arena_quoted(p->s->a, p->s->job->roles[at].name));
		return;
	}
}

/* ---- quota ---- */

/* Gang allocation: the whole job must fit.  Reported at the role that asks for most. */
static void check_quota(const struct planner *p)
{
	const struct job *job = p->s->job;
	int64_t max = hived_cells(p->s->facts->hived, p->s->facts->hived_status, p->vc);
	int64_t sum = 0;
	int64_t most_cells = -1;
	const struct role *most = NULL;
	for (size_t i = 0; i < job->n_roles; i++) {
		int64_t cells;
		if (__builtin_mul_overflow(p->share[i].cells, job->roles[i].instances, &cells))
			cells = INT64_MAX;
		if (__builtin_add_overflow(sum, cells, &sum))
			sum = INT64_MAX;
		if (cells > most_cells) {
			most = &job->roles[i];
			most_cells = cells;
		}
	}
	if (most && job->gang && !plan_is_opportunistic(p) && max >= 0 && sum > max)
		(void)err_at(p->e, 400, p->code, most->where,
		             "Job requests %" PRId64 " SKUs, exceeds maximum %" PRId64
		             " SKUs in VC %.*s.",
		             sum, max, (int)p->vc.n, p->vc.p);
}

/* ---- the plan ---- */

static void plan_roles(struct planner *p)
{
	const struct job *job = p->s->job;
	bool grouped = false; /* a role names a group */
	for (size_t i = 0; i < job->n_roles; i++) {
		grouped |= p->plan->roles[i].group.name.n > 0;
		check_role(p, &job->roles[i]);
		check_group(p, i);
	}
	if (p->e->http)
		return;
	for (size_t i = 0; i < job->n_roles; i++) {
		struct span group = p->plan->roles[i].group.name;
		if (!grouped && job->gang)
			group = SPAN("default"); /* one for all roles */
		if (group.n)
			group = span_of(arena_printf(p->s->a, "%.*s/%.*s", (int)job->id.n,
			                             job->id.p, (int)group.n, group.p));
		p->share[i] = (struct hived_share){ count_cells(p, &job->roles[i]), group };
	}
	if (p->e->http == 0)
		check_quota(p);
}

int hived_plan_make(struct scope *s, struct err *e)
{
	const struct facts *f = s->facts;
	const struct job *job = s->job;
	if (!f->hived)
		return 0;
	ERR_AUTO own = { 0 }; /* *e may have notes */
	struct planner p = {
		.s = s, .e = &own, .vc = job->virtual_cluster, .code = job->dialect->code
	};
	p.share = ARENA_NEW(s->a, struct hived_share, job->n_roles);
	p.plan = ARENA_NEW(s->a, struct hived_plan, 1);
	p.plan->share = p.share;
	p.plan->request = job->hived ? job->hived : &NOTHING;
	p.plan->priority = p.plan->request->priority;
	p.plan->roles = p.plan->request->roles;
	if (!p.plan->roles)
		p.plan->roles = ARENA_NEW(s->a, struct hived_role, job->n_roles);
	p.n_all = hived_skus(f->hived, f->hived_status, SPAN(""), s->a, &p.all);
	p.usable = p.all;
	p.n_usable = p.n_all;
	if (!plan_is_opportunistic(&p))
		p.n_usable = hived_skus(f->hived, f->hived_status, p.vc, s->a, &p.usable);
	if (p.n_usable)
		plan_roles(&p);
	else
		(void)err_at(p.e, 400, p.code, job->virtual_cluster_where,
		             "virtual cluster %.*s has no cells of a type in skuTypes", (int)p.vc.n,
		             p.vc.p);
	s->hived = p.plan;
	if (own.http == 0)
		return 0;
	err_move(e, &own);
	return -1;
}

/* ---- variables ---- */

enum { SPEC_MAX = 1 << 20, MEMBERS_MAX = 16 };

/* ---- the annotation for HiveD: YAML in a text ---- */

struct hived_members {
	struct member v[MEMBERS_MAX];
	uint32_t n;
};

static struct node text_node(struct span t)
{
	return (
	    struct node){ .type = t.n ? NODE_TEXT : NODE_NULL, .n = (uint32_t)t.n, .text = t.p };
}

static struct node int_node(int64_t v)
{
	return (struct node){ .type = NODE_INT, .integer = v };
}

static struct node map_node(struct arena *a, const struct hived_members *m)
{
	struct member *v = ARENA_NEW(a, struct member, m->n);
	memcpy(v, m->v, m->n * sizeof(*v));
	return (struct node){ .type = NODE_MAP, .n = m->n, .member = v };
}

static void hived_plan_put(struct hived_members *m, const char *key, struct node value)
{
	struct span name = span_of(key);
	m->v[m->n++] = (struct member){ name.p, (uint32_t)name.n, 0, 0, value };
}

/* The roles of a group: pods and cells per pod. */
static struct node group_members(const struct scope *s, struct arena *a, struct span group)
{
	const struct job *job = s->job;
	struct node *v = ARENA_NEW(a, struct node, job->n_roles);
	uint32_t n = 0;
	for (size_t i = 0; i < job->n_roles; i++) {
		if (!span_eq(s->hived->share[i].group, group))
			continue;
		struct hived_members m = { 0 };
		hived_plan_put(&m, "podNumber", int_node(job->roles[i].instances));
		hived_plan_put(&m, "leafCellNumber", int_node(s->hived->share[i].cells));
		v[n++] = map_node(a, &m);
	}
	return (struct node){ .type = NODE_LIST, .n = n, .item = v };
}

/* The YAML emitter quotes the names, so that none can break out; patterns check them too. */
static bool put_hived_pod_spec(const struct scope *s, struct variable_output *o)
{
	const struct hived_plan *plan = s->hived;
	const struct hived_role *says = &plan->roles[s->role->index];
	const struct hived_share *share = &plan->share[s->role->index];
	ARENA_AUTO a = { 0 }; /* for one role */
	struct hived_members m = { 0 };
	struct hived_members group = { 0 };
	hived_plan_put(&m, "virtualCluster", text_node(s->job->virtual_cluster));
	hived_plan_put(&m, "priority", int_node(plan->priority));
	hived_plan_put(&m, "pinnedCellId", text_node(says->pinned_cell.name));
	hived_plan_put(&m, "leafCellType", text_node(says->sku_type.name));
	hived_plan_put(&m, "leafCellNumber", int_node(share->cells));
	for (size_t i = 0; i < HIVED_OPTIONS; i++)
		if (plan->request->option[i])
			hived_plan_put(&m, HIVED_OPTION_NAMES[i], *plan->request->option[i]);
	if (share->group.n) {
		hived_plan_put(&group, "name", text_node(share->group));
		hived_plan_put(&group, "members", group_members(s, &a, share->group));
	}
	hived_plan_put(&m, "affinityGroup",
	               share->group.n ? map_node(&a, &group) : text_node(share->group));
	STR_AUTO text = STR_INIT(SPEC_MAX);
	struct node root = map_node(&a, &m);
	yaml_write(&text, &root);
	out_text(o, str_view(&text));
	o->s->full |= text.full;
	return true;
}

/* ---- devices ---- */

static bool put_hived_devices(const struct scope *s, struct variable_output *o)
{
	struct scope in = *s;
	struct span names = span_of(s->set->hived_device_env);
	while (names.n) {
		in.device = span_next(&names, ',');
		template_write(&in, s->role->gpu ? TEMPLATE_ENV_DEVICE : TEMPLATE_ENV_DEVICE_NONE,
		               o->s);
	}
	return true;
}

/* clang-format off */
PUT_TEXT(device_name, s->device)

static const struct variable HIVED_ROWS[] = {
	{ "hived.spec",    VARIABLE_TEXT, false, SCOPE_ROLE | SCOPE_HIVED,      put_hived_pod_spec,        "OpenPAI; `hived-crit`, `vc-null-hived`", "YAML: virtual cluster, priority (`crit` 120, `prod` 100, `test` 10, `oppo` -1), the role's `pinnedCellId` and `skuType`, how many leaf cells an instance gets, the switches of `extras.hivedScheduler`, and the roles of its affinity group. Without any group, and with gang allocation, all roles are one, `default`." },
	{ "hived.devices", VARIABLE_LIST, false, SCOPE_WHOLE_POD | SCOPE_HIVED, put_hived_devices,     "OpenPAI",                                "env-device.yaml, once for every name in `hived-device-env`; env-device-none.yaml if the role asks for no accelerator." },
	{ "device.name",   VARIABLE_TEXT, false, SCOPE_DEVICE,                  device_name, "OpenPAI",                                "The name of such a variable." },
};
/* clang-format on */

const struct variable_group HIVED_VARIABLES = VARIABLE_GROUP("HiveD", HIVED_ROWS);

/* ---- extras.hivedScheduler, of both generations ---- */

const char *const HIVED_OPTION_NAMES[HIVED_OPTIONS] = {
	"gangReleaseEnable",
	"lazyPreemptionEnable",
	"ignoreK8sSuggestedNodes",
};

static const struct {
	const char *name;
	int priority;
} CLASSES[] = { { "crit", 120 }, { "prod", 100 }, { "test", HIVED_TEST }, { "oppo", HIVED_OPPO } };
enum { N_CLASSES = ARRAY_SIZE(CLASSES) };

/* The field; absent, if it is null or, which is reported, of another type. */
static struct field hived_plan_member(struct parse_context *r, const struct field *map,
                                      const char *key, enum node_type type, const char *want)
{
	struct field f = field_get(map, key);
	if (node_is_present(f.n) && f.n->type != type)
		parse_wrong_type(r, &f, want);
	if (!node_is(f.n, type))
		f.n = NULL;
	return f;
}

static void hived_plan_read_class(struct parse_context *r, const struct field *map,
                                  struct hived_request *out)
{
	struct field f = hived_plan_member(r, map, "jobPriorityClass", NODE_TEXT, "text");
	out->priority = HIVED_TEST;
	out->priority_class = field_text(&f);
	for (size_t i = 0; i < N_CLASSES; i++) {
		if (span_is(out->priority_class, CLASSES[i].name)) {
			out->priority = CLASSES[i].priority;
			return;
		}
	}
	if (f.n)
		parse_refuse(r, &f, "must be one of crit, prod, test, oppo, is \"%s\"",
		             arena_quoted(r->a, out->priority_class));
}

/* ---- one role ---- */

/* A name for the annotation; empty counts as absent. */
static struct hived_name hived_plan_read_name(struct parse_context *r, const struct field *map,
                                              const char *key)
{
	struct field f = hived_plan_member(r, map, key, NODE_TEXT, "text");
	struct span name = field_text(&f);
	if (name.n == 0)
		return (struct hived_name){ 0 };
	if (name.n > CELL_NAME_MAX || !is_alnum(name.p[0]) || !span_only_alnum_or(name, "._~/-"))
		parse_refuse(r, &f,
		             "\"%s\" must be at most %d letters, digits and ._~/-, and begin "
		             "with a letter or digit",
		             arena_quoted(r->a, name), CELL_NAME_MAX);
	return (struct hived_name){ name, field_place(r->a, &f) };
}

static void hived_plan_read_roles(struct parse_context *r, const struct field *map,
                                  struct hived_request *out)
{
	const struct job *job = r->job;
	struct field all = hived_plan_member(r, map, "taskRoles", NODE_MAP, "a mapping");
	if (!all.n || job->n_roles == 0) /* errors of the roles are reported elsewhere */
		return;
	out->roles = ARENA_NEW(r->a, struct hived_role, job->n_roles);
	for (uint32_t i = 0; i < all.n->n; i++) {
		const struct member *m = &all.n->member[i];
		struct field one = field_member(&all, i);
		const struct role *role = parse_role_find(job, member_key(m));
		if (!role) {
			const char *hint =
			    suggest_name(r, node_get(r->root, "taskRoles"), NULL, member_key(m));
			parse_refuse_key(
			    r, &all, m, "Taskrole %s does not exist.%s%s%s",
			    arena_quoted(r->a, member_key(m)), hint ? " Did you mean `" : "",
			    hint ? arena_quoted(r->a, span_of(hint)) : "", hint ? "`?" : "");
		} else if (node_is(one.n, NODE_MAP)) {
			struct hived_role *its = &out->roles[role->index];
			its->sku_type = hived_plan_read_name(r, &one, "skuType");
			its->pinned_cell = hived_plan_read_name(r, &one, "pinnedCellId");
			its->group = hived_plan_read_name(r, &one, "affinityGroupName");
		} else if (node_is_present(one.n)) {
			parse_wrong_type(r, &one, "a mapping");
		}
	}
}

/* ---- the job ---- */

void hived_request_read(struct parse_context *r)
{
	struct field extras = field_get(TOP(r), "extras");
	struct field map = hived_plan_member(r, &extras, "hivedScheduler", NODE_MAP, "a mapping");
	if (!map.n)
		return;
	struct hived_request *out = ARENA_NEW(r->a, struct hived_request, 1);
	hived_plan_read_class(r, &map, out);
	for (size_t i = 0; i < HIVED_OPTIONS; i++)
		out->option[i] =
		    hived_plan_member(r, &map, HIVED_OPTION_NAMES[i], NODE_BOOL, "true or false").n;
	hived_plan_read_roles(r, &map, out);
	r->job->hived = out;
	if (!r->set->hived)
		parse_warn(r, &map, "is ignored: the scheduler here is not HiveD");
}
