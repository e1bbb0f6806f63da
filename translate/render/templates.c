/* The shipped templates, embedded: one table. */
#include "base/embed.h"
#include "translate/render/bindings.h"

EMBED(common_framework, "translate/templates/common/framework.yaml");
EMBED(common_submission, "translate/templates/common/submission.yaml");
EMBED(common_submission_framework, "translate/templates/common/submission-framework.yaml");
EMBED(common_submission_priorityclass, "translate/templates/common/submission-priorityclass.yaml");
EMBED(common_owner, "translate/templates/common/owner.yaml");
EMBED(common_secret_registry, "translate/templates/common/secret-registry.yaml");
EMBED(common_secret_job, "translate/templates/common/secret-job.yaml");
EMBED(common_secret_user, "translate/templates/common/secret-user.yaml");
EMBED(common_configmap_env, "translate/templates/common/configmap-env.yaml");
EMBED(common_configmap_runtime, "translate/templates/common/configmap-runtime.yaml");
EMBED(common_priorityclass, "translate/templates/common/priorityclass.yaml");
EMBED(common_env_job, "translate/templates/common/env-job.yaml");
EMBED(common_env_job_v1, "translate/templates/common/env-job-v1.yaml");
EMBED(common_env_job_role, "translate/templates/common/env-job-role.yaml");
EMBED(common_env_job_role_v1, "translate/templates/common/env-job-role-v1.yaml");
EMBED(common_env_role, "translate/templates/common/env-role.yaml");
EMBED(common_env_role_v1, "translate/templates/common/env-role-v1.yaml");
EMBED(common_env_user, "translate/templates/common/env-user.yaml");
EMBED(common_env_device, "translate/templates/common/env-device.yaml");
EMBED(common_env_device_none, "translate/templates/common/env-device-none.yaml");
EMBED(common_cpu_only, "translate/templates/common/cpu-only.yaml");
EMBED(common_no_device, "translate/templates/common/no-device.yaml");
EMBED(common_hived, "translate/templates/common/hived.yaml");
EMBED(common_storage_mount, "translate/templates/common/storage-mount.yaml");
EMBED(common_storage_volume, "translate/templates/common/storage-volume.yaml");
EMBED(common_output, "translate/templates/common/output.yaml");
EMBED(common_pull_secret, "translate/templates/common/pull-secret.yaml");
EMBED(common_image_auth, "translate/templates/common/image-auth.yaml");
EMBED(common_job_secrets, "translate/templates/common/job-secrets.yaml");
EMBED(common_user_extension, "translate/templates/common/user-extension.yaml");
EMBED(common_env_configmap, "translate/templates/common/env-configmap.yaml");
EMBED(common_site_taskrole, "translate/templates/common/site-taskrole.yaml");
EMBED(common_site_framework, "translate/templates/common/site-framework.yaml");
EMBED(plain_taskrole, "translate/templates/plain/taskrole.yaml");
EMBED(plain_fuse, "translate/templates/plain/fuse.yaml");
EMBED(plain_host_network, "translate/templates/plain/host-network.yaml");
EMBED(plain_infiniband, "translate/templates/plain/infiniband.yaml");
EMBED(plain_runtime_configmap, "translate/templates/plain/runtime-configmap.yaml");
EMBED(openpai_taskrole, "translate/templates/openpai/taskrole.yaml");
EMBED(openpai_fuse, "translate/templates/openpai/fuse.yaml");
EMBED(openpai_host_network, "translate/templates/openpai/host-network.yaml");
EMBED(openpai_infiniband, "translate/templates/openpai/infiniband.yaml");
EMBED(openpai_runtime_configmap, "translate/templates/openpai/runtime-configmap.yaml");

enum { COMMON = -1 };

struct shipped {
	int profile;
	const char *file;
	const char *text, *end;
};

#define ROW(profile, file, name)                                                                   \
	{                                                                                          \
		profile, file, embed_##name, embed_##name##_end                                    \
	}
/* clang-format off */
static const struct shipped SHIPPED[] = {
	ROW(COMMON, "framework.yaml", common_framework),
	ROW(COMMON, "submission.yaml", common_submission),
	ROW(COMMON, "submission-framework.yaml", common_submission_framework),
	ROW(COMMON, "submission-priorityclass.yaml", common_submission_priorityclass),
	ROW(COMMON, "owner.yaml", common_owner),
	ROW(COMMON, "secret-registry.yaml", common_secret_registry),
	ROW(COMMON, "secret-job.yaml", common_secret_job),
	ROW(COMMON, "secret-user.yaml", common_secret_user),
	ROW(COMMON, "configmap-env.yaml", common_configmap_env),
	ROW(COMMON, "configmap-runtime.yaml", common_configmap_runtime),
	ROW(COMMON, "priorityclass.yaml", common_priorityclass),
	ROW(COMMON, "env-job.yaml", common_env_job),
	ROW(COMMON, "env-job-v1.yaml", common_env_job_v1),
	ROW(COMMON, "env-job-role.yaml", common_env_job_role),
	ROW(COMMON, "env-job-role-v1.yaml", common_env_job_role_v1),
	ROW(COMMON, "env-role.yaml", common_env_role),
	ROW(COMMON, "env-role-v1.yaml", common_env_role_v1),
	ROW(COMMON, "env-user.yaml", common_env_user),
	ROW(COMMON, "env-device.yaml", common_env_device),
	ROW(COMMON, "env-device-none.yaml", common_env_device_none),
	ROW(COMMON, "cpu-only.yaml", common_cpu_only),
	ROW(COMMON, "no-device.yaml", common_no_device),
	ROW(COMMON, "hived.yaml", common_hived),
	ROW(COMMON, "storage-mount.yaml", common_storage_mount),
	ROW(COMMON, "storage-volume.yaml", common_storage_volume),
	ROW(COMMON, "output.yaml", common_output),
	ROW(COMMON, "pull-secret.yaml", common_pull_secret),
	ROW(COMMON, "image-auth.yaml", common_image_auth),
	ROW(COMMON, "job-secrets.yaml", common_job_secrets),
	ROW(COMMON, "user-extension.yaml", common_user_extension),
	ROW(COMMON, "env-configmap.yaml", common_env_configmap),
	ROW(COMMON, "site-taskrole.yaml", common_site_taskrole),
	ROW(COMMON, "site-framework.yaml", common_site_framework),
	ROW(PROFILE_PLAIN, "taskrole.yaml", plain_taskrole),
	ROW(PROFILE_PLAIN, "fuse.yaml", plain_fuse),
	ROW(PROFILE_PLAIN, "host-network.yaml", plain_host_network),
	ROW(PROFILE_PLAIN, "infiniband.yaml", plain_infiniband),
	ROW(PROFILE_PLAIN, "runtime-configmap.yaml", plain_runtime_configmap),
	ROW(PROFILE_OPENPAI, "taskrole.yaml", openpai_taskrole),
	ROW(PROFILE_OPENPAI, "fuse.yaml", openpai_fuse),
	ROW(PROFILE_OPENPAI, "host-network.yaml", openpai_host_network),
	ROW(PROFILE_OPENPAI, "infiniband.yaml", openpai_infiniband),
	ROW(PROFILE_OPENPAI, "runtime-configmap.yaml", openpai_runtime_configmap),
};
/* clang-format on */

enum { N_SHIPPED = sizeof(SHIPPED) / sizeof(*SHIPPED) };

static struct span text_of(const struct shipped *s)
{
	return (struct span){ s->text, (size_t)(s->end - s->text) };
}

struct span template_text(enum profile p, const char *file)
{
	for (size_t i = 0; i < N_SHIPPED; i++)
		if ((SHIPPED[i].profile == COMMON || SHIPPED[i].profile == (int)p) &&
		    strcmp(SHIPPED[i].file, file) == 0)
			return text_of(&SHIPPED[i]);
	return (struct span){ NULL, 0 };
}

const char *template_nth(size_t i, int *profile, struct span *text)
{
	if (i >= N_SHIPPED)
		return NULL;
	*profile = SHIPPED[i].profile;
	*text = text_of(&SHIPPED[i]);
	return SHIPPED[i].file;
}

/* What is compiled from which template, and which overlays apply when: two tables. */

/* clang-format off */
const struct unit_row UNITS[UNIT_MAX] = {
	[UNIT_FRAMEWORK]        = { "framework.yaml",       PROG_VALUE,   OF_JOB | HOLDS_ROLES,                   "the Framework" },
	[UNIT_TASKROLE]         = { "taskrole.yaml",        PROG_VALUE,   OF_JOB | OF_ROLE | HOLDS_POD,           "a task role and its pod" },
	[UNIT_ENV_JOB]          = { "env-job.yaml",         PROG_ITEMS,   OF_JOB | HOLDS_ENV_ROLES,               "environment common to all containers" },
	[UNIT_ENV_JOB_MAP]      = { "env-job.yaml",         PROG_MEMBERS, OF_JOB | HOLDS_ENV_ROLES,               "the same, in a ConfigMap" },
	[UNIT_ENV_JOB_ROLE]     = { "env-job-role.yaml",    PROG_ITEMS,   OF_JOB | OF_ROLE | OF_SUFFIX,           "one role in the common environment" },
	[UNIT_ENV_JOB_ROLE_MAP] = { "env-job-role.yaml",    PROG_MEMBERS, OF_JOB | OF_ROLE | OF_SUFFIX,           "the same, in a ConfigMap" },
	[UNIT_ENV_ROLE]         = { "env-role.yaml",        PROG_ITEMS,   OF_JOB | OF_ROLE,                       "environment of the own role" },
	[UNIT_ENV_USER]         = { "env-user.yaml",        PROG_ITEMS,   OF_JOB | OF_ROLE | OF_VAR,              "one variable from the job" },
	[UNIT_ENV_DEVICE]       = { "env-device.yaml",      PROG_ITEMS,   OF_JOB | OF_ROLE | OF_HIVED | OF_DEVICE, "a variable that tells which devices HiveD has given" },
	[UNIT_ENV_DEVICE_NONE]  = { "env-device-none.yaml", PROG_ITEMS,   OF_JOB | OF_ROLE | OF_HIVED | OF_DEVICE, "the same, for a role without accelerators" },
	[UNIT_STORAGE_MOUNT]    = { "storage-mount.yaml",   PROG_ITEMS,   OF_JOB | OF_ROLE | OF_MOUNT,            "one mount of a storage" },
	[UNIT_STORAGE_VOLUME]   = { "storage-volume.yaml",  PROG_ITEMS,   OF_JOB | OF_ROLE | OF_MOUNT,            "the volume of a storage" },
	[UNIT_SECRET_REGISTRY]  = { "secret-registry.yaml", PROG_VALUE,   OF_JOB | OF_OWNED,                      "logins for registries" },
	[UNIT_SECRET_JOB]       = { "secret-job.yaml",      PROG_VALUE,   OF_JOB | OF_OWNED | OF_SECRETS,         "the job's secrets" },
	[UNIT_SECRET_USER]      = { "secret-user.yaml",     PROG_VALUE,   OF_JOB | OF_OWNED | OF_EXTENSION,       "the user's keys" },
	[UNIT_CONFIGMAP_ENV]    = { "configmap-env.yaml",   PROG_VALUE,   OF_JOB | OF_OWNED | HOLDS_ENV_MAP,      "the common environment, moved because of its size" },
	[UNIT_CONFIGMAP_RUNTIME] = { "configmap-runtime.yaml", PROG_VALUE, OF_CLUSTER,                            "pai-runtime itself, with `--runtime=configmap`; one for all jobs" },
	[UNIT_PRIORITYCLASS]    = { "priorityclass.yaml",   PROG_VALUE,   OF_JOB,                                 "the job's priority class" },
};
/* clang-format on */

const char *const PARTS[PART_BITS] = {
	"a job",
	"a task role",
	"a task role in the common environment",
	"a variable from the job",
	"a storage",
	"a submission",
	"an object that belongs to the Framework",
	"the job's secrets",
	"the user's extension",
	"framework.yaml",
	"taskrole.yaml",
	"env-job.yaml",
	"configmap-env.yaml",
	"a cluster that HiveD schedules",
	"a variable that tells devices",
};

static bool always(const struct scope *s)
{
	(void)s;
	return true;
}

static bool is_v1(const struct scope *s)
{
	return s->job->dialect == DIALECT_V1;
}

static bool is_marked(const struct scope *s)
{
	return s->mark != NULL;
}

static bool is_cpu_only(const struct scope *s)
{
	return s->role->gpu == 0 && !s->hived;
}

static bool is_hived(const struct scope *s)
{
	return s->hived != NULL;
}

/* OpenPAI writes that none are wanted. */
static bool names_no_device(const struct scope *s)
{
	return s->hived || (s->role->gpu == 0 && s->set->profile == PROFILE_PLAIN);
}

static bool wants_fuse(const struct scope *s)
{
	return s->role->wants & GRANT_FUSE;
}

static bool wants_host_network(const struct scope *s)
{
	return s->role->wants & GRANT_HOST_NETWORK;
}

static bool wants_infiniband(const struct scope *s)
{
	return s->role->wants & GRANT_INFINIBAND;
}

static bool is_by_configmap(const struct scope *s)
{
	return runtime_by_configmap(s->set);
}

static bool has_pull_secret(const struct scope *s)
{
	return s->set->runtime_pull_secret[0] != '\0';
}

static bool has_output_url(const struct scope *s)
{
	return s->set->output_url[0] != '\0';
}

static bool has_image_auth(const struct scope *s)
{
	return s->role->image_auth;
}

static bool has_secrets(const struct scope *s)
{
	return s->job->secrets != NULL;
}

static bool has_extension(const struct scope *s)
{
	return s->facts->extension != NULL;
}

static bool has_env_configmap(const struct scope *s)
{
	return s->env_moved;
}

/* In this order: what appends to a list appends in the order of the table. */
/* clang-format off */
const struct overlay OVERLAYS[] = {
	{ "cpu-only.yaml",        is_cpu_only,       0,            "the role asks for no accelerator, and the scheduler is not HiveD", { UNIT_TASKROLE, UNIT_MAX } },
	{ "no-device.yaml",       names_no_device,   0,            "the role asks for no accelerator (profile plain), or the scheduler is HiveD", { UNIT_TASKROLE, UNIT_MAX } },
	{ "hived.yaml",           is_hived,          OF_HIVED,     "the scheduler is HiveD (`--hived-config`)", { UNIT_TASKROLE, UNIT_MAX } },
	{ "fuse.yaml",            wants_fuse,        0,            "`extraContainerOptions.fuse`",            { UNIT_TASKROLE, UNIT_MAX } },
	{ "host-network.yaml",    wants_host_network, 0,           "`extraContainerOptions.hostNetwork`",     { UNIT_TASKROLE, UNIT_MAX } },
	{ "infiniband.yaml",      wants_infiniband,  0,            "`extraContainerOptions.infiniband`",      { UNIT_TASKROLE, UNIT_MAX } },
	{ "runtime-configmap.yaml", is_by_configmap, 0,            "`--runtime=configmap`",                   { UNIT_TASKROLE, UNIT_MAX } },
	{ "pull-secret.yaml",     has_pull_secret,   0,            "the init image needs a login",            { UNIT_TASKROLE, UNIT_MAX } },
	{ "output.yaml",          has_output_url,    0,            "`--output-url`",                          { UNIT_TASKROLE, UNIT_MAX } },
	{ "image-auth.yaml",      has_image_auth,    0,            "the role's image has `auth`",             { UNIT_TASKROLE, UNIT_MAX } },
	{ "job-secrets.yaml",     has_secrets,       OF_SECRETS,   "the job has `secrets`",                   { UNIT_TASKROLE, UNIT_MAX } },
	{ "user-extension.yaml",  has_extension,     OF_EXTENSION, "the user has an extension",               { UNIT_TASKROLE, UNIT_MAX } },
	{ "env-configmap.yaml",   has_env_configmap, 0,            "the common environment, in all containers together, is larger than the limit (256 KiB)", { UNIT_TASKROLE, UNIT_MAX } },
	{ "env-job-v1.yaml",      is_v1,             0,            "a v1 job",                                { UNIT_ENV_JOB, UNIT_ENV_JOB_MAP, UNIT_MAX } },
	{ "env-job-role-v1.yaml", is_v1,             0,            "a v1 job",                                { UNIT_ENV_JOB_ROLE, UNIT_ENV_JOB_ROLE_MAP, UNIT_MAX } },
	{ "env-role-v1.yaml",     is_v1,             0,            "a v1 job",                                { UNIT_ENV_ROLE, UNIT_MAX } },
	{ "submission.yaml",      is_marked,         OF_MARK,      "made by a server, not by `rest-lit translate`", { UNIT_FRAMEWORK, UNIT_SECRET_REGISTRY, UNIT_SECRET_JOB, UNIT_SECRET_USER, UNIT_CONFIGMAP_ENV, UNIT_PRIORITYCLASS, UNIT_MAX } },
	{ "submission-framework.yaml", is_marked,    OF_MARK,      "made by a server, not by `rest-lit translate`", { UNIT_FRAMEWORK, UNIT_MAX } },
	{ "submission-priorityclass.yaml", is_marked, OF_MARK,     "made by a server, not by `rest-lit translate`", { UNIT_PRIORITYCLASS, UNIT_MAX } },
	{ "owner.yaml",           is_marked,         OF_MARK,      "made by a server, not by `rest-lit translate`", { UNIT_SECRET_REGISTRY, UNIT_SECRET_JOB, UNIT_SECRET_USER, UNIT_CONFIGMAP_ENV, UNIT_MAX } },
	{ "site-taskrole.yaml",   always,            0,            "always; empty as shipped, for the administrator", { UNIT_TASKROLE, UNIT_MAX } },
	{ "site-framework.yaml",  always,            0,            "always; empty as shipped, for the administrator", { UNIT_FRAMEWORK, UNIT_MAX } },
};
/* clang-format on */
const size_t N_OVERLAYS = sizeof(OVERLAYS) / sizeof(*OVERLAYS);
