/*
 * The second generation: YAML (or JSON) with prerequisites, deployments, placeholders.
 * The schema has seen the document; here is what it cannot say.
 */
#include "translate/dialects/hint.h"
#include "translate/dialects/warnings.h"

enum { FROM_SCRIPT, FROM_OUTPUT, FROM_DATA, FROM_IMAGE, FROM_MAX };

/* A role's fields that name a prerequisite, with its type; in the order in which they are
 * checked. */
static const struct {
	const char *field, *type;
} REFERENCES[FROM_MAX] = {
	[FROM_SCRIPT] = { "script", "script" },
	[FROM_OUTPUT] = { "output", "output" },
	[FROM_DATA] = { "data", "data" },
	[FROM_IMAGE] = { "dockerImage", "dockerimage" },
};

/* What is the same for all roles. */
struct v2 {
	struct reading *r;
	struct prerequisites *prerequisites;
	struct deployment deployment;
	struct commands *commands;
};

static const char *const OPTIONS_KNOWN[] = { "fuse", "hostNetwork", "infiniband", "shmMB", NULL };
static const char *const DEFAULTS_KNOWN[] = { "deployment", "virtualCluster", NULL };
static const struct int_field RETRIES = { "jobRetryCount", 0, INT32_MAX, 0 };
static const struct int_field TASK_RETRIES = { "taskRetryCount", -2, INT32_MAX, 0 };
static const struct int_field MIN_FAILED = { "minFailedInstances", -1, INT32_MAX, 0 };
static const struct int_field MIN_SUCCEEDED = { "minSucceededInstances", -1, INT32_MAX, 0 };
static const struct int_field CPU = { "cpu", 0, INT32_MAX, 0 };
static const struct int_field MEMORY = { "memoryMB", 1, INT32_MAX, 1 };
static const struct int_field GPU = { "gpu", 0, INT32_MAX, 0 };
static const struct int_field SHM = { "shmMB", 0, INT32_MAX, 0 };

/* ---- one role ------------------------------------------------------------------------------- */

static bool present(const struct node *n)
{
	return n && n->type != NODE_NULL;
}

static void warn_above(struct reading *r, const struct path *up, const struct node *map,
                       const char *key, int64_t instances)
{
	const struct node *n = node_get(map, key);
	struct path p = PATH_KEY(up, span_of(key));
	if (node_is(n, NODE_INT) && n->integer > instances)
		reading_warn(r, &p, n, WARN_NEVER);
}

/* Zero counts as absent. */
static void read_completion(struct reading *r, const struct path *role, const struct node *n,
                            struct role *out)
{
	const struct node *c = node_get(n, "completion");
	struct path p = PATH_KEY(role, SPAN("completion"));
	int64_t failed = reading_int(r, &p, c, &MIN_FAILED);
	int64_t succeeded = reading_int(r, &p, c, &MIN_SUCCEEDED);
	out->min_failed_given = present(node_get(c, MIN_FAILED.name));
	out->min_succeeded_given = present(node_get(c, MIN_SUCCEEDED.name));
	out->min_failed = failed ? failed : 1;
	out->min_succeeded = succeeded ? succeeded : out->instances;
	warn_above(r, &p, c, MIN_FAILED.name, out->instances);
	warn_above(r, &p, c, MIN_SUCCEEDED.name, out->instances);
}

static void read_retries(struct reading *r, const struct path *role, const struct node *n,
                         struct role *out)
{
	int64_t max = reading_int(r, role, n, &TASK_RETRIES);
	out->task_fancy_retry = !r->job->gang;
	out->task_retry_max = r->job->gang ? 0 : max;
	struct path p = PATH_KEY(role, span_of(TASK_RETRIES.name));
	if (r->job->gang && max)
		reading_warn(r, &p, node_get(n, TASK_RETRIES.name), WARN_RETRIES);
}

static void read_ports(struct reading *r, const struct path *resource, const struct node *n,
                       struct role *out)
{
	struct path p = PATH_KEY(resource, SPAN("ports"));
	const struct node *ports = node_get(n, "ports");
	uint32_t count = node_is(ports, NODE_MAP) ? ports->n : 0;
	struct port_request *v = ARENA_NEW(r->a, struct port_request, count + 2);
	for (uint32_t i = 0; i < count; i++) {
		const struct member *m = &ports->member[i];
		struct span label = member_key(m);
		struct path one = PATH_KEY(&p, label);
		bool needed = span_is(label, "ssh") || span_is(label, "http");
		struct int_field field = { "", needed ? 1 : 0,
			                   r->set->port_end - r->set->port_start, 1 };
		v[i] = (struct port_request){ label, reading_number(r, &one, &m->value, &field) };
		reading_port_count(r, &one, &m->value, v[i].count);
	}
	out->n_ports = count;
	reading_ports_done(r, out, &p, ports, v);
}

static void read_resources(struct reading *r, const struct path *role, const struct node *n,
                           struct role *out)
{
	const struct node *resource = node_get(n, "resourcePerInstance");
	struct path p = PATH_KEY(role, SPAN("resourcePerInstance"));
	out->cpu = reading_int(r, &p, resource, &CPU);
	out->memory_mb = reading_mebibytes(r, &p, resource, &MEMORY);
	out->gpu = reading_int(r, &p, resource, &GPU);
	read_ports(r, &p, resource, out);
	const struct node *options = node_get(n, "extraContainerOptions");
	struct path o = PATH_KEY(role, SPAN("extraContainerOptions"));
	out->shm_mb = reading_mebibytes(r, &o, options, &SHM);
	struct path shm = PATH_KEY(&o, span_of(SHM.name));
	if (out->shm_mb > out->memory_mb)
		reading_warn(r, &shm, node_get(options, SHM.name), WARN_SHM,
		             (long long)out->memory_mb);
	hint_members(r, &o, options, OPTIONS_KNOWN);
	grants_read(r, &o, options, out);
}

/* The prerequisites that a role names, by REFERENCES. */
static void read_references(struct v2 *v, const struct path *role, const struct node *n,
                            const struct node *found[FROM_MAX])
{
	for (size_t i = 0; i < FROM_MAX; i++) {
		const struct node *name = node_get(n, REFERENCES[i].field);
		found[i] = NULL;
		if (!node_is(name, NODE_TEXT))
			continue;
		found[i] =
		    prerequisites_find(v->prerequisites, node_span(name), REFERENCES[i].type);
		struct path p = PATH_KEY(role, span_of(REFERENCES[i].field));
		if (found[i] == NULL)
			prerequisites_refuse(v->r, v->prerequisites, &p, name, REFERENCES[i].type);
	}
	const struct node *list = node_get(n, "prerequisites");
	struct path p = PATH_KEY(role, SPAN("prerequisites"));
	for (uint32_t i = 0; node_is(list, NODE_LIST) && i < list->n; i++) {
		const struct node *name = list->item + i;
		struct path one = PATH_INDEX(&p, i);
		if (node_is(name, NODE_TEXT) &&
		    !prerequisites_has(v->prerequisites, node_span(name)))
			prerequisites_refuse(v->r, v->prerequisites, &one, name, NULL);
	}
}

static void read_role(struct v2 *v, const struct path *p, const struct member *m, struct role *role)
{
	struct reading *r = v->r;
	const struct node *n = &m->value;
	const struct int_field instances = { "instances", 1, r->set->max_instances, 1 };
	reading_role_name(r, role, p, n, member_key(m));
	role->where.line = m->key_line;
	role->where.column = m->key_column;
	hint_old_keys(r, p, n);
	role->instances = reading_int(r, p, n, &instances);
	read_completion(r, p, n, role);
	read_retries(r, p, n, role);
	read_resources(r, p, n, role);
	const struct node *found[FROM_MAX];
	read_references(v, p, n, found);
	role->image = reading_text(found[FROM_IMAGE], "uri");
	role->image_auth = node_is(node_get(found[FROM_IMAGE], "auth"), NODE_MAP);
	const struct command_source source = {
		.role = n,
		.path = p,
		.name = member_key(m),
		.deployment = v->deployment,
		.values = { found[FROM_SCRIPT], found[FROM_OUTPUT], found[FROM_DATA] },
	};
	commands_read(v->commands, &source, role);
}

static void read_roles(struct v2 *v)
{
	struct reading *r = v->r;
	struct job *job = r->job;
	const struct node *roles = node_get(r->root, "taskRoles");
	struct path p = PATH_KEY(NULL, SPAN("taskRoles"));
	if (!node_is(roles, NODE_MAP) || !reading_roles_fit(r, &p, roles))
		return;
	job->roles = ARENA_NEW(r->a, struct role, roles->n);
	job->n_roles = roles->n;
	for (uint32_t i = 0; i < roles->n; i++) {
		struct path one = PATH_KEY(&p, member_key(&roles->member[i]));
		job->roles[i].index = i;
		read_role(v, &one, &roles->member[i], &job->roles[i]);
	}
	reading_roles_done(r);
}

/* ---- the job ----------------------------------------------------------------------------------
 */

void pai_v2_read(struct reading *r)
{
	struct job *job = r->job;
	const struct node *secrets = node_get(r->root, "secrets");
	struct path at = PATH_KEY(NULL, SPAN("secrets"));
	job->secrets = node_is(secrets, NODE_MAP) ? secrets : NULL;
	if (node_is(secrets, NODE_TEXT) && span_is(node_span(secrets), MASK))
		reading_refuse(r, &at, secrets,
		               "must be a mapping; this job was stored without its secrets, put "
		               "them in again");
	hint_old_keys(r, NULL, r->root);
	job->fancy_retry = true;
	job->retry_max = reading_int(r, NULL, r->root, &RETRIES);
	struct path extras = PATH_KEY(NULL, SPAN("extras"));
	extras_read(r, &extras, node_get(r->root, "extras"));
	struct path defaults = PATH_KEY(NULL, SPAN("defaults"));
	struct path vc = PATH_KEY(&defaults, SPAN("virtualCluster"));
	reading_virtual_cluster(r, &vc, node_get(node_get(r->root, "defaults"), "virtualCluster"));
	hint_members(r, &defaults, node_get(r->root, "defaults"), DEFAULTS_KNOWN);
	parameters_check(r);
	struct v2 v = { .r = r };
	v.prerequisites = prerequisites_read(r);
	v.deployment = deployments_read(r);
	v.commands = commands_new(r);
	read_roles(&v);
	prerequisites_done(r, v.prerequisites);
}
