/*
 * Environment of the containers.  The common list is the same in both containers of
 * every role: it is written once per job and copied, or moves to a ConfigMap.
 */
#include "translate/bindings.h"
#include "translate/dollar.h"

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
	if (!o->text)
		str_char(o->s, '"');
	for (size_t i = 0; i < s->job->n_roles; i++) {
		if (i)
			str_char(o->s, ',');
		out_text(&in, s->job->roles[i].name);
	}
	if (!o->text)
		str_char(o->s, '"');
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
	char digits[24];
	struct str t = { .p = digits, .cap = sizeof(digits), .max = sizeof(digits) - 1 };
	if (given)
		str_int(&t, v);
	out_text(o, str_view(&t));
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
	char text[160];
	struct str t = { .p = text, .cap = sizeof(text), .max = sizeof(text) - 1 };
	if (s->job->dialect == DIALECT_V1)
		resource_v1(s, &t);
	else
		resource_v2(s->role, &t);
	out_text(o, str_view(&t));
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
	for (size_t i = 0; i < s->job->n_roles; i++) {
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
	{ "env.job",                HOLE_LIST,   false, HOLDS_POD,       env_job,             "OpenPAI", "env-job.yaml; nothing if it moved to a ConfigMap." },
	{ "env.roles",              HOLE_LIST,   false, HOLDS_ENV_ROLES, env_roles,           "OpenPAI", "env-job-role.yaml, once for every role; v1 jobs: once for every spelling of its name." },
	{ "env.map",                HOLE_MAP,    false, HOLDS_ENV_MAP,   env_map,             "ours",    "env-job.yaml as the data of a ConfigMap." },
	{ "env.role",               HOLE_LIST,   false, HOLDS_POD,       env_role,            "OpenPAI", "env-role.yaml." },
	{ "env.user",               HOLE_LIST,   false, HOLDS_POD,       env_user,            "v1",      "env-user.yaml, once for every variable of `env` and `jobEnvs`; the role's own win over the job's." },
	{ "job.roleCount",          HOLE_NUMBER, false, OF_JOB,          role_count,          "OpenPAI", "Number of roles." },
	{ "job.roleList",           HOLE_TEXT,   false, OF_JOB,          role_list,           "OpenPAI", "Names of the roles as written, with commas." },
	{ "job.fsUri",              HOLE_TEXT,   false, OF_JOB,          fs_uri,              "v1",      "The configured file system for v1 jobs; empty for others, as OpenPAI has it." },
	{ "job.dataDir",            HOLE_TEXT,   false, OF_JOB,          data_dir,            "v1",      "`dataDir` with $PAI_DEFAULT_FS_URI, $PAI_JOB_NAME and $PAI_USER_NAME filled in." },
	{ "job.outputDir",          HOLE_TEXT,   false, OF_JOB,          output_dir,          "v1",      "`outputDir`, likewise." },
	{ "job.codeDir",            HOLE_TEXT,   false, OF_JOB,          code_dir,            "v1",      "`codeDir`, likewise." },
	{ "job.killAll",            HOLE_NUMBER, false, OF_JOB,          kill_all,            "v1",      "`killAllOnCompletedTaskNumber`, or 0." },
	{ "role.suffix",            HOLE_TEXT,   false, OF_SUFFIX,       suffix,              "OpenPAI", "The role's name as part of a variable's name; in v1 jobs `-`, `.` and `~` become `_`." },
	{ "role.resource",          HOLE_TEXT,   false, OF_ROLE,         resource,            "OpenPAI", "gpu,cpu,memoryMB,shmMB as declared, 0 for no shmMB (v1: `cpu_count:..,memMB:..,shmMB:..,gpu_count:..` with the defaults filled in)." },
	{ "role.minFailedGiven",    HOLE_TEXT,   false, OF_ROLE,         min_failed_given,    "v1",      "`minFailedTaskCount` as written, or empty." },
	{ "role.minSucceededGiven", HOLE_TEXT,   false, OF_ROLE,         min_succeeded_given, "v1",      "`minSucceededTaskCount` as written, or empty." },
	{ "var.name",               HOLE_TEXT,   false, OF_VAR,          var_name,            "v1",      "Name of a variable from the job: an identifier that does not begin with PAI_, FC_ or KUBERNETES_ (PAI_SSH_PUB_KEY may)." },
	{ "var.value",              HOLE_TEXT,   false, OF_VAR,          var_value,           "v1",      "Its value; `$` doubled where Kubernetes would take it for its own." },
};
/* clang-format on */

const struct hole_group ENV_HOLES = { "Environment", HOLES, sizeof(HOLES) / sizeof(*HOLES) };

/* clang-format off */
const struct env_row ENV_ROWS[] = {
	{ "PAI_FRAMEWORK_NAME", "3", "user~job" },
	{ "PAI_JOB_NAME", "1 2 3", "user~job (generation 1: the job's name alone)" },
	{ "PAI_USER_NAME", "2 3", "user" },
	{ "PAI_USERNAME", "3", "the same" },
	{ "PAI_DEFAULT_FS_URI", "2 3", "v1: the configured URI; else empty" },
	{ "PAI_DATA_DIR", "1 2", "v1: `dataDir`, may be empty" },
	{ "PAI_OUTPUT_DIR", "1 2", "v1: `outputDir`, may be empty" },
	{ "PAI_CODE_DIR", "1 2", "v1: `codeDir`, may be empty" },
	{ "PAI_TASK_ROLE_COUNT", "2 3", "number of roles" },
	{ "PAI_TASK_ROLE_LIST", "2 3", "names of the roles as written, with commas" },
	{ "PAI_VIRTUAL_CLUSTER", "3", "virtual cluster" },
	{ "PAI_TASK_ROLE_TASK_COUNT_$role", "2 3", "tasks of the role" },
	{ "PAI_RESOURCE_$role", "2 3", "gpu,cpu,memoryMB,shmMB; v1: cpu_count:C,memMB:M,shmMB:S,gpu_count:G" },
	{ "PAI_MIN_FAILED_TASK_COUNT_$role", "3", "effective number" },
	{ "PAI_MIN_SUCCEEDED_TASK_COUNT_$role", "3", "effective number" },
	{ "PAI_MIN_FAILED_INSTANCE_$role", "2", "v1: as written, or empty" },
	{ "PAI_MIN_SUCCEEDED_INSTANCE_$role", "2", "v1: as written, or empty" },
	{ "PAI_TASKS_NUM", "1 3", "number of tasks" },
	{ "PAI_JOB_TASK_COUNT", "3", "the same" },
	{ "PAI_TASK_ROLES_NUM", "1 3", "number of roles" },
	{ "PAI_JOB_TASK_ROLE_COUNT", "3", "the same" },
	{ "PAI_JOB_TASK_ROLE_LIST", "3", "as PAI_TASK_ROLE_LIST" },
	{ "PAI_KILL_ALL_ON_COMPLETED_TASK_NUM", "1", "v1: `killAllOnCompletedTaskNumber`, or 0" },
	{ "PAI_CURRENT_TASK_ROLE_NAME", "2 3", "name of the own role, as written" },
	{ "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX", "2 3", "index of the own task in its role, from 0" },
	{ "PAI_TASK_INDEX", "3", "the same; app container only" },
	{ "PAI_CURRENT_TASK_ROLE_TASK_COUNT", "2", "v1: tasks of the own role" },
	{ "PAI_CURRENT_TASK_ROLE_CPU_COUNT", "2", "v1: its CPUs" },
	{ "PAI_CURRENT_TASK_ROLE_MEM_MB", "2", "v1: its memory" },
	{ "PAI_CURRENT_TASK_ROLE_SHM_MB", "2", "v1: its shared memory" },
	{ "PAI_CURRENT_TASK_ROLE_GPU_COUNT", "2", "v1: its accelerators" },
	{ "PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT", "2", "v1: effective number" },
	{ "PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT", "2", "v1: effective number" },
	{ "PAI_TASK_ROLE_NAME", "1", "v1: name of the own role" },
	{ "PAI_TASK_ROLE_NUM", "1", "v1: its tasks" },
	{ "PAI_TASK_CPU_NUM", "1", "v1: its CPUs" },
	{ "PAI_TASK_MEM_MB", "1", "v1: its memory" },
	{ "PAI_TASK_GPU_NUM", "1", "v1: its accelerators" },
	{ "PAI_TASK_ROLE_NO", "1", "v1: position of the own role in the job, from 0" },
	{ "PAI_TASK_ROLE_INDEX", "1", "v1: index of the own task in its role, from 0 (generation 2: index of the role)" },
	{ "NVIDIA_VISIBLE_DEVICES", "3", "`none` in roles without accelerators; app container only" },
	{ "USER_CMD", "2 3", "the command; init container only" },
	{ "KUBE_APISERVER_ADDRESS", "2 3", "the API server; init container only" },
	{ "REST_SERVER_URI", "3", "this server; init container only" },
	{ "GANG_ALLOCATION", "3", "`true` or `false`; init container only" },
	{ "BARRIER_CHECK_INTERVAL_SEC", "ours", "how often init looks for the other tasks; init container, profile plain" },
	{ "BARRIER_CHECK_TIMEOUT_SEC", "ours", "how long it does so; init container, profile plain" },
	{ "IMAGE_CHECK", "ours", "`fail`, `warn` or `off`; init container, profile plain" },
	{ "INIT_CONFIG", "ours", "empty, with `--runtime=configmap`: nothing that an image sets shall count; init container" },
	{ "RUNTIME_CONFIG", "ours", "likewise" },
	{ "PAI_TERM_GRACE_SEC", "ours", "seconds between SIGTERM and SIGKILL, as the pod has them; app container, profile plain" },
};
/* clang-format on */
const size_t N_ENV_ROWS = sizeof(ENV_ROWS) / sizeof(*ENV_ROWS);
