/* Jobs of protocol 2 (YAML or JSON): the roles and the job.  The schema has checked the types;
 * these files check the rest. */
#include "translate/dialects/dialects.h"
#include "translate/dialects/pai_v2_internal.h"
#include "translate/job/names.h"

enum { FROM_SCRIPT, FROM_OUTPUT, FROM_DATA, FROM_IMAGE, FROM_MAX };

/* Fields of a role that name a prerequisite, with its type, in the order of the checks. */
static const struct {
	const char *field, *type;
} REFERENCES[FROM_MAX] = {
	[FROM_SCRIPT] = { "script", "script" },
	[FROM_OUTPUT] = { "output", "output" },
	[FROM_DATA] = { "data", "data" },
	[FROM_IMAGE] = { "dockerImage", "dockerimage" },
};

struct v2 {
	struct parse_context *r;
	struct prerequisites *prerequisites;
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

/* ---- one role ---- */

/* A minimum of `completion`; 0 counts as absent. */
static int64_t read_completion(struct parse_context *r, const struct field *its,
                               const struct int_field *want, const struct role *role, bool *given)
{
	struct field completion = field_get(its, "completion");
	struct field f = field_get(&completion, want->name);
	*given = node_is_present(f.n);
	if (node_is(f.n, NODE_INT) && f.n->integer > role->instances)
		parse_warn(r, &f, "is above the number of instances: this never happens");
	return parse_number(r, &f, want);
}

static void pai_v2_read_ports(struct parse_context *r, const struct field *resource,
                              struct role *out)
{
	struct field ports = field_get(resource, "ports");
	uint32_t count = field_members(&ports);
	struct port_request *v = ARENA_NEW(r->a, struct port_request, count + 2);
	for (uint32_t i = 0; i < count; i++) {
		struct field one = field_member(&ports, i);
		struct span label = member_key(&ports.n->member[i]);
		v[i] = (struct port_request){ label, parse_port_count(r, &one, label) };
	}
	out->n_ports = count;
	parse_ports_done(r, out, &ports, v);
}

static void pai_v2_read_resources(struct parse_context *r, const struct field *its,
                                  struct role *role)
{
	struct field resource = field_get(its, "resourcePerInstance");
	struct field options = field_get(its, "extraContainerOptions");
	struct field shm = field_get(&options, SHM.name);
	role->needs_where = field_place(r->a, &resource);
	role->cpu = parse_int(r, &resource, &CPU);
	role->memory_mb = parse_mebibytes(r, &resource, &MEMORY);
	role->gpu = parse_int(r, &resource, &GPU);
	pai_v2_read_ports(r, &resource, role);
	role->shm_mb = parse_mebibytes(r, &options, &SHM);
	if (role->shm_mb > role->memory_mb)
		parse_warn(
		    r, &shm,
		    "is above memoryMB (%lld): shared memory counts as memory of the container",
		    (long long)role->memory_mb);
	suggest_members(r, &options, OPTIONS_KNOWN);
	for (size_t bit = 0; bit < GRANT_BITS; bit++) {
		struct field f = field_get(&options, GRANT_NAMES[bit]);
		if (!parse_is_true(options.n, GRANT_NAMES[bit]))
			continue;
		role->wants |= 1u << bit;
		role->wants_where[bit] = field_place(r->a, &f);
	}
}

static void pai_v2_read_role(struct v2 *v, const struct field *its, const struct member *m,
                             struct role *role)
{
	struct parse_context *r = v->r;
	const struct int_field instances = { "instances", 1, r->set->max_instances, 1 };
	struct field retries = field_get(its, TASK_RETRIES.name);
	struct field others = field_get(its, "prerequisites");
	const struct node *found[FROM_MAX];
	parse_role_name(r, role, its, member_key(m));
	role->where.line = m->key_line;
	role->where.column = m->key_column;
	suggest_old_keys(r, its);
	role->instances = parse_int(r, its, &instances);
	role->min_failed = read_completion(r, its, &MIN_FAILED, role, &role->min_failed_given) ?: 1;
	role->min_succeeded =
	    read_completion(r, its, &MIN_SUCCEEDED, role, &role->min_succeeded_given)
		?: role->instances;
	int64_t tries = parse_number(r, &retries, &TASK_RETRIES);
	role->task_fancy_retry = !r->job->gang;
	role->task_retry_max = r->job->gang ? 0 : tries;
	if (r->job->gang && tries)
		parse_warn(r, &retries, "has no effect unless extras.gangAllocation is false");
	pai_v2_read_resources(r, its, role);
	for (size_t i = 0; i < FROM_MAX; i++) {
		struct field name = field_get(its, REFERENCES[i].field);
		found[i] = prerequisites_named(r, v->prerequisites, &name, REFERENCES[i].type);
	}
	for (uint32_t i = 0; i < field_items(&others); i++) {
		struct field name = field_item(&others, i);
		(void)prerequisites_named(r, v->prerequisites, &name, NULL);
	}
	role->image = parse_text(found[FROM_IMAGE], "uri");
	role->image_auth = node_is(node_get(found[FROM_IMAGE], "auth"), NODE_MAP);
	const struct command_source source = {
		.role = its,
		.name = member_key(m),
		.values = { found[FROM_SCRIPT], found[FROM_OUTPUT], found[FROM_DATA] },
	};
	commands_read(v->commands, &source, role);
}

/* ---- the job ---- */

static void pai_v2_read_roles(struct v2 *v)
{
	struct parse_context *r = v->r;
	struct job *job = r->job;
	struct field roles = field_get(TOP(r), "taskRoles");
	if (!node_is(roles.n, NODE_MAP) || !parse_roles_fit(r, &roles))
		return;
	struct field extras = field_get(TOP(r), "extras");
	/* A role says when it has succeeded, or the framework does. */
	bool completes = field_get(&extras, "distributed").n != NULL;
	job->roles = ARENA_NEW(r->a, struct role, roles.n->n);
	job->n_roles = roles.n->n;
	for (uint32_t i = 0; i < roles.n->n; i++) {
		struct field one = field_member(&roles, i);
		job->roles[i].index = i;
		pai_v2_read_role(v, &one, &roles.n->member[i], &job->roles[i]);
		completes |= field_get(&one, "completion").n != NULL;
	}
	if (!completes && roles.n->n > 1)
		parse_warn(r, &roles,
		           "the job ends when all tasks of one role have succeeded, and the others "
		           "are stopped; to wait for all, write `completion: "
		           "{minSucceededInstances: -1}` into each role");
	parse_roles_done(r, &roles);
}

/* `extras.env`, of every role.  Values are literal: only commands have placeholders. */
static void pai_v2_read_env(struct parse_context *r)
{
	struct field extras = field_get(TOP(r), "extras");
	struct field env = field_get(&extras, "env");
	struct env_var *v = ARENA_NEW(r->a, struct env_var, ENV_MAX);
	size_t n = parse_env(r, &env, v, 0);
	for (size_t i = 0; i < r->job->n_roles; i++) {
		r->job->roles[i].env = v;
		r->job->roles[i].n_env = n;
	}
	for (uint32_t i = 0; i < field_members(&env); i++) {
		struct field one = field_member(&env, i);
		struct span text = field_text(&one);
		bool replaced = span_find(text, 0, "<%") != SIZE_MAX; /* in a command, or shell */
		for (size_t k = 0; !replaced && k + 1 < text.n; k++)
			replaced = text.p[k] == '$' && !is_digit(text.p[k + 1]) &&
			           (is_alnum(text.p[k + 1]) || strchr("_{(", text.p[k + 1]));
		if (replaced)
			parse_warn(r, &one,
			           "is passed on as it is written: placeholders and `$` are "
			           "replaced in commands only, so write `export NAME=...` there");
	}
}

/* `extras.secretEnv`: pai-runtime sets these variables. */
static void pai_v2_check_secret_env(struct parse_context *r)
{
	struct field extras = field_get(TOP(r), "extras");
	struct field names = field_get(&extras, "secretEnv");
	for (uint32_t i = 0; i < field_items(&names); i++) {
		struct field one = field_item(&names, i);
		struct span name = field_text(&one);
		const struct member *secret = node_member(r->job->secrets, name);
		if (parse_env_reserved(r->set, name))
			parse_refuse(r, &one, "%s is reserved and cannot be set",
			             arena_quoted(r->a, name));
		else if (!secret || !node_scalar(r->a, &secret->value).p)
			parse_refuse(r, &one, "%s must be text, a number or a boolean in `secrets`",
			             arena_quoted(r->a, name));
	}
}

/* `extras.code`. */
static void pai_v2_read_code(struct parse_context *r)
{
	/* Beside those of names_mount_path_problem: without these no program starts. */
	static const char *const PROGRAMS[] = { "/bin",     "/sbin",    "/lib",           "/lib64",
		                                "/usr/bin", "/usr/lib", "/usr/local/bin", NULL };
	struct job_code *code = &r->job->code;
	struct field extras = field_get(TOP(r), "extras");
	struct field its = field_get(&extras, "code");
	struct field path = field_get(&its, "path");
	const char *problem = path.n ? names_mount_path_problem(field_text(&path)) : NULL;
	code->sha256 = parse_text(its.n, "sha256");
	code->path = path.n ? names_mount_path(field_text(&path)) : SPAN("/workspace");
	code->commit = parse_text(its.n, "commit");
	code->changed = parse_is_true(its.n, "changed");
	code->where = field_place(r->a, path.n ? &path : &its);
	if (names_listed(PROGRAMS, code->path))
		problem = "has the programs of the image, which the code would hide";
	if (problem)
		parse_refuse(r, &path, "%s %s", arena_quoted(r->a, code->path), problem);
}

/* `extras.results`: below the code, or in another directory.  A name is one component, so that code
 * and results have no directory in common but that of the code. */
static void pai_v2_read_results(struct parse_context *r)
{
	const struct job_code *code = &r->job->code;
	struct job_results *results = &r->job->results;
	struct field extras = field_get(TOP(r), "extras");
	struct field its = field_get(&extras, "results");
	struct field path = field_get(&its, "path");
	struct span given = path.n ? field_text(&path) : SPAN("results");
	results->wanted = node_is(its.n, NODE_MAP) || parse_is_true(extras.n, "results");
	results->where = field_place(r->a, path.n ? &path : &its);
	results->path = names_mount_path(given);
	results->link = SPAN("");
	const char *problem = NULL;
	if (!span_starts(given, "/")) {
		bool good = given.n > 0 && given.p[0] != '.' && span_only_alnum_or(given, "-_.");
		problem = good ? NULL
		               : "must be one name of letters, digits, `-`, `_` and `.` (in the "
		                 "working directory), or an absolute path";
		results->link = code->sha256.n ? SPAN("") : given;
		results->path = span_of(arena_printf(r->a, "%.*s/%.*s", (int)code->path.n,
		                                     code->path.p, (int)given.n, given.p));
	} else if (code->sha256.n && (names_path_within(results->path, code->path) ||
	                              names_path_within(code->path, results->path))) {
		problem = "is in the directory of the code, or contains it: write one name, "
			  "without `/`";
	}
	problem = problem ?: names_mount_path_problem(results->path);
	if (results->wanted && problem)
		parse_refuse(r, path.n ? &path : &its, "%s %s", arena_quoted(r->a, given), problem);
}

void pai_v2_read(struct parse_context *r)
{
	struct job *job = r->job;
	struct field secrets = field_get(TOP(r), "secrets");
	struct field retries = field_get(TOP(r), RETRIES.name);
	struct field defaults = field_get(TOP(r), "defaults");
	struct field vc = field_get(&defaults, "virtualCluster");
	struct field deployments = field_get(TOP(r), "deployments");
	job->secrets = node_is(secrets.n, NODE_MAP) ? secrets.n : NULL;
	if (span_is(field_text(&secrets), REDACTED))
		parse_refuse(r, &secrets,
		             "must be a mapping; this job was stored without its secrets, put "
		             "them in again");
	suggest_old_keys(r, TOP(r));
	struct node *document = ARENA_NEW(r->a, struct node, 1);
	*document = *r->root;
	job->v2 = document;
	job->fancy_retry = true;
	job->retry_max = parse_number(r, &retries, &RETRIES);
	job->retry_where = field_place(r->a, &retries);
	extras_read(r);
	parse_virtual_cluster(r, &vc);
	suggest_members(r, &defaults, DEFAULTS_KNOWN);
	ambiguous_scalars_parameters(r);
	struct v2 v = { .r = r };
	v.prerequisites = prerequisites_read(r);
	v.commands = commands_new(r);
	deployments_read(v.commands, &deployments);
	pai_v2_read_roles(&v);
	pai_v2_read_env(r);
	pai_v2_check_secret_env(r);
	pai_v2_read_code(r);
	pai_v2_read_results(r);
	distributed_read(r);
	prerequisites_done(r, v.prerequisites);
}
