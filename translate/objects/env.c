/*
 * Environment of the containers.  The common list is the same in both containers of
 * every role: it is written once per job and copied, or moves to a ConfigMap.
 */
#include "translate/dialects/dollar.h"
#include "translate/render/bindings.h"

/* Text from the job.  In an `env` list the kubelet expands $(NAME); in a ConfigMap it does not. */
static void out_env(const struct scope *s, struct out *o, struct span v)
{
	out_text(o, s->env_map ? v : dollar_escape(s->a, v));
}

static bool role_count(const struct scope *s, struct out *o)
{
	out_int(o, (int64_t)s->job->n_roles);
	return true;
}

static bool role_list(const struct scope *s, struct out *o)
{
	struct out in = { o->s, true };
	out_quote(o);
	for (size_t i = 0; i < s->job->n_roles; i++) {
		if (i)
			str_char(o->s, ',');
		out_text(&in, s->job->roles[i].name);
	}
	out_quote(o);
	return true;
}

static bool fs_uri(const struct scope *s, struct out *o)
{
	const char *uri = s->job->dialect == DIALECT_V1 && s->set->fs_uri ? s->set->fs_uri : "";
	out_env(s, o, span_of(uri));
	return true;
}

static bool data_dir(const struct scope *s, struct out *o)
{
	out_env(s, o, s->job->data_dir);
	return true;
}

static bool output_dir(const struct scope *s, struct out *o)
{
	out_env(s, o, s->job->output_dir);
	return true;
}

static bool code_dir(const struct scope *s, struct out *o)
{
	out_env(s, o, s->job->code_dir);
	return true;
}

static bool kill_all(const struct scope *s, struct out *o)
{
	out_int(o, s->job->kill_all);
	return true;
}

static bool suffix(const struct scope *s, struct out *o)
{
	out_text(o, s->suffix);
	return true;
}

/* The number, or "" if it was not written down. */
static void out_given(struct out *o, bool given, int64_t v)
{
	out_quote(o);
	if (given)
		str_int(o->s, v);
	out_quote(o);
}

static bool min_failed_given(const struct scope *s, struct out *o)
{
	out_given(o, s->role->min_failed_given, s->role->min_failed);
	return true;
}

static bool min_succeeded_given(const struct scope *s, struct out *o)
{
	out_given(o, s->role->min_succeeded_given, s->role->min_succeeded);
	return true;
}

static void resource_v1(const struct scope *s, struct str *t)
{
	const struct role *r = s->role;
	str_puts(t, "cpu_count:");
	str_int(t, r->cpu);
	str_puts(t, ",memMB:");
	str_int(t, r->memory_mb);
	str_puts(t, ",shmMB:");
	str_int(t, role_shm_mb(s));
	str_puts(t, ",gpu_count:");
	str_int(t, r->gpu);
}

static void resource_v2(const struct role *r, struct str *t)
{
	const int64_t v[] = { r->gpu, r->cpu, r->memory_mb, r->shm_mb };
	for (size_t i = 0; i < 4; i++) {
		if (i)
			str_char(t, ',');
		str_int(t, v[i]);
	}
}

static bool resource(const struct scope *s, struct out *o)
{
	out_quote(o);
	if (s->job->dialect == DIALECT_V1)
		resource_v1(s, o->s);
	else
		resource_v2(s->role, o->s);
	out_quote(o);
	return true;
}

static void write_role(const struct scope *s, const struct role *r, struct span name,
                       struct str *out)
{
	struct scope in = *s;
	in.role = r;
	in.suffix = name;
	unit_write(&in, s->env_map ? UNIT_ENV_JOB_ROLE_MAP : UNIT_ENV_JOB_ROLE, out);
}

static bool env_roles(const struct scope *s, struct out *o)
{
	for (size_t i = 0; i < s->job->n_roles && !o->s->full; i++) {
		const struct role *r = &s->job->roles[i];
		write_role(s, r, span_of(r->variable), o->s);
		if (s->job->dialect == DIALECT_V1 && strcmp(r->variable, r->object_name) != 0)
			write_role(s, r, span_of(r->object_name), o->s);
	}
	return true;
}

static bool env_job(const struct scope *s, struct out *o)
{
	str_span(o->s, s->env_job);
	return true;
}

static bool env_map(const struct scope *s, struct out *o)
{
	struct scope in = *s;
	in.env_map = true;
	str_char(o->s, '{');
	unit_write(&in, UNIT_ENV_JOB_MAP, o->s);
	if (!o->s->full && o->s->p[o->s->n - 1] == ',')
		o->s->p[o->s->n - 1] = '}';
	else
		str_char(o->s, '}'); /* a list without elements, which only another template has */
	return true;
}

static bool env_role(const struct scope *s, struct out *o)
{
	unit_write(s, UNIT_ENV_ROLE, o->s);
	return true;
}

static bool env_user(const struct scope *s, struct out *o)
{
	struct scope in = *s;
	for (size_t i = 0; i < s->role->n_env; i++) {
		in.var = &s->role->env[i];
		unit_write(&in, UNIT_ENV_USER, o->s);
	}
	return true;
}

static bool var_name(const struct scope *s, struct out *o)
{
	out_text(o, s->var->name);
	return true;
}

static bool var_value(const struct scope *s, struct out *o)
{
	out_env(s, o, s->var->value);
	return true;
}

/* clang-format off */
static const struct hole HOLES[] = {
	{ "env.job",                HOLE_LIST,   false, HOLDS_POD,       env_job,             "OpenPAI; `env-configmap`", "env-job.yaml; nothing if it moved to a ConfigMap." },
	{ "env.roles",              HOLE_LIST,   false, HOLDS_ENV_ROLES, env_roles,           "OpenPAI", "env-job-role.yaml, once for every role; v1 jobs: once for every spelling of its name." },
	{ "env.map",                HOLE_MAP,    false, HOLDS_ENV_MAP,   env_map,             "ours; `env-configmap`",    "env-job.yaml as the data of a ConfigMap." },
	{ "env.role",               HOLE_LIST,   false, HOLDS_POD,       env_role,            "OpenPAI", "env-role.yaml." },
	{ "env.user",               HOLE_LIST,   false, HOLDS_POD,       env_user,            "v1",      "env-user.yaml, once for every variable of `env` and `jobEnvs`; the role's own win over the job's." },
	{ "job.roleCount",          HOLE_NUMBER, false, OF_JOB,          role_count,          "OpenPAI", "Number of roles." },
	{ "job.roleList",           HOLE_TEXT,   false, OF_JOB,          role_list,           "OpenPAI", "Names of the roles as written, with commas." },
	{ "job.fsUri",              HOLE_TEXT,   false, OF_JOB,          fs_uri,              "v1",      "The configured file system for v1 jobs; empty for others, as OpenPAI has it." },
	{ "job.dataDir",            HOLE_TEXT,   false, OF_JOB,          data_dir,            "v1; `v1-directories`",      "`dataDir` with $PAI_DEFAULT_FS_URI, $PAI_JOB_NAME and $PAI_USER_NAME filled in." },
	{ "job.outputDir",          HOLE_TEXT,   false, OF_JOB,          output_dir,          "v1; `v1-directories`",      "`outputDir`, likewise." },
	{ "job.codeDir",            HOLE_TEXT,   false, OF_JOB,          code_dir,            "v1; `v1-directories`",      "`codeDir`, likewise." },
	{ "job.killAll",            HOLE_NUMBER, false, OF_JOB,          kill_all,            "v1",      "`killAllOnCompletedTaskNumber`, or 0." },
	{ "role.suffix",            HOLE_TEXT,   false, OF_SUFFIX,       suffix,              "OpenPAI; `v1-names`", "The role's name as part of a variable's name; in v1 jobs `-`, `.` and `~` become `_`." },
	{ "role.resource",          HOLE_TEXT,   false, OF_ROLE,         resource,            "OpenPAI; `v1-defaults`", "gpu,cpu,memoryMB,shmMB as declared, 0 for no shmMB (v1: `cpu_count:..,memMB:..,shmMB:..,gpu_count:..` with the defaults filled in)." },
	{ "role.minFailedGiven",    HOLE_TEXT,   false, OF_ROLE,         min_failed_given,    "v1",      "`minFailedTaskCount` as written, or empty." },
	{ "role.minSucceededGiven", HOLE_TEXT,   false, OF_ROLE,         min_succeeded_given, "v1",      "`minSucceededTaskCount` as written, or empty." },
	{ "var.name",               HOLE_TEXT,   false, OF_VAR,          var_name,            "v1",      "Name of a variable from the job: an identifier that does not begin with PAI_, FC_ or KUBERNETES_ (PAI_SSH_PUB_KEY may)." },
	{ "var.value",              HOLE_TEXT,   false, OF_VAR,          var_value,           "v1; `dollar`, `v1-booleans`",      "Its value; `$` doubled where Kubernetes would take it for its own." },
};
/* clang-format on */

const struct hole_group ENV_HOLES = { "Environment", HOLES, sizeof(HOLES) / sizeof(*HOLES) };
