/* Holes of a task role that HiveD schedules. */
#include "base/yaml/yaml.h"
#include "translate/hived/hived_plan.h"

enum { SPEC_MAX = 1 << 20, MEMBERS_MAX = 16 };

/* ---- what HiveD is told: YAML in a text -------------------------------------------------------
 */

/* A mapping under construction. */
struct members {
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

static struct node map_node(struct arena *a, const struct members *m)
{
	struct member *v = ARENA_NEW(a, struct member, m->n);
	memcpy(v, m->v, m->n * sizeof(*v));
	return (struct node){ .type = NODE_MAP, .n = m->n, .member = v };
}

static void put(struct members *m, const char *key, struct node value)
{
	struct span name = span_of(key);
	m->v[m->n++] = (struct member){ name.p, (uint32_t)name.n, 0, 0, 0, value };
}

/* The roles of a group, as how many pods of how many cells each. */
static struct node group_members(const struct scope *s, struct arena *a, struct span group)
{
	const struct job *job = s->job;
	struct node *v = ARENA_NEW(a, struct node, job->n_roles);
	uint32_t n = 0;
	for (size_t i = 0; i < job->n_roles; i++) {
		if (!span_eq(s->hived->share[i].group, group))
			continue;
		struct members m = { 0 };
		put(&m, "podNumber", int_node(job->roles[i].instances));
		put(&m, "leafCellNumber", int_node(s->hived->share[i].cells));
		v[n++] = map_node(a, &m);
	}
	return (struct node){ .type = NODE_LIST, .n = n, .item = v };
}

/*
 * By the emitter of YAML, so that no name can add to it.  The job has been read with patterns for
 * all names besides.
 */
static bool spec(const struct scope *s, struct out *o)
{
	const struct hived_plan *plan = s->hived;
	const struct hived_role *says = &plan->roles[s->role->index];
	const struct hived_share *share = &plan->share[s->role->index];
	ARENA_AUTO a = { 0 }; /* of one role: each has the list of all of its group */
	struct members m = { 0 };
	struct members group = { 0 };
	put(&m, "virtualCluster", text_node(s->job->virtual_cluster));
	put(&m, "priority", int_node(plan->priority));
	put(&m, "pinnedCellId", text_node(says->pinned_cell.name));
	put(&m, "leafCellType", text_node(says->sku_type.name));
	put(&m, "leafCellNumber", int_node(share->cells));
	for (size_t i = 0; i < HIVED_OPTIONS; i++)
		if (plan->request->option[i])
			put(&m, HIVED_OPTION_NAMES[i], *plan->request->option[i]);
	if (share->group.n) {
		put(&group, "name", text_node(share->group));
		put(&group, "members", group_members(s, &a, share->group));
	}
	put(&m, "affinityGroup", share->group.n ? map_node(&a, &group) : text_node(share->group));
	STR_AUTO text = STR_INIT(SPEC_MAX);
	struct node root = map_node(&a, &m);
	yaml_write(&text, &root);
	out_text(o, str_view(&text));
	o->s->full |= text.full;
	return true;
}

/* ---- devices --------------------------------------------------------------------------------- */

static bool devices(const struct scope *s, struct out *o)
{
	struct scope in = *s;
	for (const char *name = s->set->hived_device_env; *name;) {
		size_t n = strcspn(name, ",");
		in.device = (struct span){ name, n };
		unit_write(&in, s->role->gpu ? UNIT_ENV_DEVICE : UNIT_ENV_DEVICE_NONE, o->s);
		name += n + (name[n] == ',');
	}
	return true;
}

static bool device_name(const struct scope *s, struct out *o)
{
	out_text(o, s->device);
	return true;
}

/* clang-format off */
static const struct hole HOLES[] = {
	{ "hived.spec",    HOLE_TEXT, false, OF_ROLE | OF_HIVED,  spec,        "OpenPAI; `hived-crit`, `vc-null-hived`", "YAML: virtual cluster, priority (`crit` 120, `prod` 100, `test` 10, `oppo` -1), the role's `pinnedCellId` and `skuType`, how many leaf cells an instance gets, the switches of `extras.hivedScheduler`, and the roles of its affinity group. Without any group, and with gang allocation, all roles are one, `default`." },
	{ "hived.devices", HOLE_LIST, false, HOLDS_POD | OF_HIVED, devices,    "OpenPAI", "env-device.yaml, once for every name in `--hived-device-env`; env-device-none.yaml if the role asks for no accelerator." },
	{ "device.name",   HOLE_TEXT, false, OF_DEVICE,           device_name, "OpenPAI", "The name of such a variable." },
};
/* clang-format on */

const struct hole_group HIVED_HOLES = { "HiveD", HOLES, sizeof(HOLES) / sizeof(*HOLES) };
