/* Writes the variables of the environment. The common list is the same in all containers: it is
 * written once per job and copied, or moved to a ConfigMap. */
#include <inttypes.h>

#include "translate/job/names.h"
#include "translate/objects/objects.h"
#include "translate/render/bindings.h"

/* The kubelet expands $(NAME) in an `env` list, but not in a ConfigMap. */
static void out_env(const struct scope *s, struct variable_output *o, struct span v)
{
	out_text(o, s->env_map ? v : kubernetes_escape(s->a, v));
}

static bool put_job_role_list(const struct scope *s, struct variable_output *o)
{
	struct variable_output in = { o->s, true };
	out_quote(o);
	for (size_t i = 0; i < s->job->n_roles; i++) {
		if (i)
			str_char(o->s, ',');
		out_text(&in, s->job->roles[i].name);
	}
	out_quote(o);
	return true;
}

/* The number, or "" if the job does not give it. */
static void out_given(struct variable_output *o, bool given, int64_t v)
{
	out_quote(o);
	if (given)
		str_int(o->s, v);
	out_quote(o);
}

static bool put_role_resource(const struct scope *s, struct variable_output *o)
{
	const struct role *r = s->role;
	const int64_t v2[] = { r->gpu, r->cpu, r->memory_mb, r->shm_mb };
	bool old = s->job->dialect->old_env;
	out_quote(o);
	if (old)
		str_printf(o->s,
		           "cpu_count:%" PRId64 ",memMB:%" PRId64 ",shmMB:%" PRId64
		           ",gpu_count:%" PRId64,
		           r->cpu, r->memory_mb, role_shm_mb(s), r->gpu);
	for (size_t i = 0; !old && i < ARRAY_SIZE(v2); i++) {
		if (i)
			str_char(o->s, ',');
		str_int(o->s, v2[i]);
	}
	out_quote(o);
	return true;
}

static void write_role(const struct scope *s, const struct role *r, struct span name,
                       struct str *out)
{
	struct scope in = *s;
	in.role = r;
	in.suffix = name;
	template_write(&in, s->env_map ? TEMPLATE_ENV_JOB_ROLE_MAP : TEMPLATE_ENV_JOB_ROLE, out);
}

static bool put_env_roles(const struct scope *s, struct variable_output *o)
{
	for (size_t i = 0; i < s->job->n_roles && !o->s->full; i++) {
		const struct role *r = &s->job->roles[i];
		write_role(s, r, span_of(r->variable), o->s);
		if (s->job->dialect->old_env && strcmp(r->variable, r->object_name) != 0)
			write_role(s, r, span_of(r->object_name), o->s);
	}
	return true;
}

static bool put_env_map(const struct scope *s, struct variable_output *o)
{
	struct scope in = *s;
	in.env_map = true;
	str_char(o->s, '{');
	template_write(&in, TEMPLATE_ENV_JOB_MAP, o->s);
	if (!o->s->full && o->s->p[o->s->n - 1] == ',')
		o->s->p[o->s->n - 1] = '}';
	else
		str_char(o->s, '}'); /* an empty list, which only a replaced template has */
	return true;
}

static bool put_env_user(const struct scope *s, struct variable_output *o)
{
	struct scope in = *s;
	for (size_t i = 0; i < s->role->n_env; i++) {
		in.var = &s->role->env[i];
		template_write(&in, TEMPLATE_ENV_USER, o->s);
	}
	return true;
}

#define PUT_ENV(name, value) PUT_FUNCTION(name, out_env(s, o, value))

/* clang-format off */
PUT_FUNCTION(put_env_job, str_span(o->s, s->env_job))
PUT_FUNCTION(put_env_role, template_write(s, TEMPLATE_ENV_ROLE, o->s))
PUT_ENV(put_job_fs_uri, span_of(s->job->dialect->old_env ? s->set->fs_uri : ""))
PUT_FUNCTION(put_role_min_failed_given, out_given(o, s->role->min_failed_given, s->role->min_failed))
PUT_FUNCTION(put_role_min_succeeded_given, out_given(o, s->role->min_succeeded_given, s->role->min_succeeded))
PUT_INT(put_job_role_count, (int64_t)s->job->n_roles)
PUT_ENV(put_job_data_dir, s->job->data_dir)
PUT_ENV(put_job_output_dir, s->job->output_dir)
PUT_ENV(put_job_code_dir, s->job->code_dir)
PUT_INT(put_job_kill_all, s->job->kill_all)
PUT_TEXT(put_role_suffix, s->suffix)
PUT_TEXT(put_var_name, s->var->name)
PUT_ENV(put_var_value, s->var->value)

static const struct variable ENV_ROWS[] = {
	{ "env.job",                VARIABLE_LIST,   false, SCOPE_WHOLE_POD,       put_env_job,                  "OpenPAI; `env-configmap`",    "env-job.yaml; nothing if it moved to a ConfigMap." },
	{ "env.roles",              VARIABLE_LIST,   false, SCOPE_WHOLE_ENV_ROLES, put_env_roles,                "OpenPAI",                     "env-job-role.yaml, once for every role; v1 jobs: once for every spelling of its name." },
	{ "env.map",                VARIABLE_MAP,    false, SCOPE_WHOLE_ENV_MAP,   put_env_map,                  "ours; `env-configmap`",       "env-job.yaml as the data of a ConfigMap." },
	{ "env.role",               VARIABLE_LIST,   false, SCOPE_WHOLE_POD,       put_env_role,                 "OpenPAI",                     "env-role.yaml." },
	{ "env.user",               VARIABLE_LIST,   false, SCOPE_WHOLE_POD,       put_env_user,                 "ours, v1",                    "env-user.yaml, once for every variable of `extras.env`, in v1 jobs of `env` and `jobEnvs`; the role's own win over the job's." },
	{ "job.roleCount",          VARIABLE_NUMBER, false, SCOPE_JOB,             put_job_role_count,           "OpenPAI",                     "Number of roles." },
	{ "job.roleList",           VARIABLE_TEXT,   false, SCOPE_JOB,             put_job_role_list,            "OpenPAI",                     "Names of the roles as written, with commas." },
	{ "job.fsUri",              VARIABLE_TEXT,   false, SCOPE_JOB,             put_job_fs_uri,               "v1",                          "The configured file system for v1 jobs; empty for others, as OpenPAI has it." },
	{ "job.dataDir",            VARIABLE_TEXT,   false, SCOPE_JOB,             put_job_data_dir,             "v1; `v1-directories`",        "`dataDir` with $PAI_DEFAULT_FS_URI, $PAI_JOB_NAME and $PAI_USER_NAME filled in." },
	{ "job.outputDir",          VARIABLE_TEXT,   false, SCOPE_JOB,             put_job_output_dir,           "v1; `v1-directories`",        "`outputDir`, likewise." },
	{ "job.codeDir",            VARIABLE_TEXT,   false, SCOPE_JOB,             put_job_code_dir,             "v1; `v1-directories`",        "`codeDir`, likewise." },
	{ "job.killAll",            VARIABLE_NUMBER, false, SCOPE_JOB,             put_job_kill_all,             "v1",                          "`killAllOnCompletedTaskNumber`, or 0." },
	{ "role.suffix",            VARIABLE_TEXT,   false, SCOPE_SUFFIX,          put_role_suffix,              "OpenPAI; `v1-names`",         "The role's name as part of a variable's name; in v1 jobs `-`, `.` and `~` become `_`." },
	{ "role.resource",          VARIABLE_TEXT,   false, SCOPE_ROLE,            put_role_resource,            "OpenPAI; `v1-defaults`",      "gpu,cpu,memoryMB,shmMB as declared, 0 for no shmMB (v1: `cpu_count:..,memMB:..,shmMB:..,gpu_count:..` with the defaults filled in)." },
	{ "role.minFailedGiven",    VARIABLE_TEXT,   false, SCOPE_ROLE,            put_role_min_failed_given,    "v1",                          "`minFailedTaskCount` as written, or empty." },
	{ "role.minSucceededGiven", VARIABLE_TEXT,   false, SCOPE_ROLE,            put_role_min_succeeded_given, "v1",                          "`minSucceededTaskCount` as written, or empty." },
	{ "var.name",               VARIABLE_TEXT,   false, SCOPE_VAR,             put_var_name,                 "ours, v1",                    "Name of a variable from the job: an identifier that does not begin with PAI_, FC_ or KUBERNETES_ (PAI_SSH_PUB_KEY may)." },
	{ "var.value",              VARIABLE_TEXT,   false, SCOPE_VAR,             put_var_value,                "ours, v1; `dollar`, `v1-booleans`", "Its value; `$` doubled where Kubernetes would take it for its own." },
};
/* clang-format on */

const struct variable_group ENV_VARIABLES = VARIABLE_GROUP("Environment", ENV_ROWS);
