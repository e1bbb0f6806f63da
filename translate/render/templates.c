/* The shipped templates, embedded; their shapes; the conditions of overlays. */
#include <assert.h>

#include "base/embed.h"
#include "translate/render/bindings.h"

enum { COMMON = -1 };

/* Profile, folder, identifier, file. */
/* clang-format off */
#define SHIPPED_FILES(ROW) \
	ROW(COMMON, common, framework, "framework.yaml") \
	ROW(COMMON, common, submission, "submission.yaml") \
	ROW(COMMON, common, submission_framework, "submission-framework.yaml") \
	ROW(COMMON, common, submission_priorityclass, "submission-priorityclass.yaml") \
	ROW(COMMON, common, owner, "owner.yaml") \
	ROW(COMMON, common, secret_registry, "secret-registry.yaml") \
	ROW(COMMON, common, secret_job, "secret-job.yaml") \
	ROW(COMMON, common, secret_user, "secret-user.yaml") \
	ROW(COMMON, common, configmap_env, "configmap-env.yaml") \
	ROW(COMMON, common, configmap_runtime, "configmap-runtime.yaml") \
	ROW(COMMON, common, runtime_source, "runtime-source.yaml") \
	ROW(COMMON, common, priorityclass, "priorityclass.yaml") \
	ROW(COMMON, common, env_job, "env-job.yaml") \
	ROW(COMMON, common, env_job_v1, "env-job-v1.yaml") \
	ROW(COMMON, common, env_job_role, "env-job-role.yaml") \
	ROW(COMMON, common, env_job_role_v1, "env-job-role-v1.yaml") \
	ROW(COMMON, common, env_role, "env-role.yaml") \
	ROW(COMMON, common, env_role_v1, "env-role-v1.yaml") \
	ROW(COMMON, common, env_user, "env-user.yaml") \
	ROW(COMMON, common, env_device, "env-device.yaml") \
	ROW(COMMON, common, env_device_none, "env-device-none.yaml") \
	ROW(COMMON, common, cpu_only, "cpu-only.yaml") \
	ROW(COMMON, common, no_device, "no-device.yaml") \
	ROW(COMMON, common, hived, "hived.yaml") \
	ROW(COMMON, common, storage_mount, "storage-mount.yaml") \
	ROW(COMMON, common, storage_volume, "storage-volume.yaml") \
	ROW(COMMON, common, code_mount, "code-mount.yaml") \
	ROW(COMMON, common, code_volume, "code-volume.yaml") \
	ROW(COMMON, common, code, "code.yaml") \
	ROW(COMMON, common, results, "results.yaml") \
	ROW(COMMON, common, restricted, "restricted.yaml") \
	ROW(COMMON, common, output, "output.yaml") \
	ROW(COMMON, common, pull_secret, "pull-secret.yaml") \
	ROW(COMMON, common, image_auth, "image-auth.yaml") \
	ROW(COMMON, common, job_secrets, "job-secrets.yaml") \
	ROW(COMMON, common, user_extension, "user-extension.yaml") \
	ROW(COMMON, common, env_configmap, "env-configmap.yaml") \
	ROW(COMMON, common, site_taskrole, "site-taskrole.yaml") \
	ROW(COMMON, common, site_framework, "site-framework.yaml") \
	ROW(PROFILE_PLAIN, plain, taskrole, "taskrole.yaml") \
	ROW(PROFILE_PLAIN, plain, fuse, "fuse.yaml") \
	ROW(PROFILE_PLAIN, plain, host_network, "host-network.yaml") \
	ROW(PROFILE_PLAIN, plain, infiniband, "infiniband.yaml") \
	ROW(PROFILE_PLAIN, plain, runtime_configmap, "runtime-configmap.yaml") \
	ROW(PROFILE_OPENPAI, openpai, taskrole, "taskrole.yaml") \
	ROW(PROFILE_OPENPAI, openpai, fuse, "fuse.yaml") \
	ROW(PROFILE_OPENPAI, openpai, host_network, "host-network.yaml") \
	ROW(PROFILE_OPENPAI, openpai, infiniband, "infiniband.yaml") \
	ROW(PROFILE_OPENPAI, openpai, runtime_configmap, "runtime-configmap.yaml")

#define EMBED_ROW(profile, folder, name, file) EMBED(folder##_##name, "translate/templates/" #folder "/" file);
SHIPPED_FILES(EMBED_ROW)
/* clang-format on */

struct shipped_file {
	int profile;
	const char *file;
	const char *text, *end;
};

#define SHIPPED_ROW(profile, folder, name, file)                                                   \
	{ profile, file, embed_##folder##_##name, embed_##folder##_##name##_end },
static const struct shipped_file SHIPPED[] = { SHIPPED_FILES(SHIPPED_ROW) };
enum { N_SHIPPED = ARRAY_SIZE(SHIPPED) };

const char *template_nth(size_t i, int *profile, struct span *text)
{
	if (i >= N_SHIPPED)
		return NULL;
	const struct shipped_file *s = &SHIPPED[i];
	*profile = s->profile;
	*text = (struct span){ s->text, (size_t)(s->end - s->text) };
	return s->file;
}

/* clang-format off */
const struct template_row TEMPLATES[TEMPLATE_MAX] = {
	[TEMPLATE_FRAMEWORK]        = { "framework.yaml",       PROG_VALUE,   SCOPE_JOB | SCOPE_WHOLE_ROLES,                   "the Framework" },
	[TEMPLATE_TASKROLE]         = { "taskrole.yaml",        PROG_VALUE,   SCOPE_JOB | SCOPE_ROLE | SCOPE_WHOLE_POD,           "a task role and its pod" },
	[TEMPLATE_ENV_JOB]          = { "env-job.yaml",         PROG_ITEMS,   SCOPE_JOB | SCOPE_WHOLE_ENV_ROLES,               "environment common to all containers" },
	[TEMPLATE_ENV_JOB_MAP]      = { "env-job.yaml",         PROG_MEMBERS, SCOPE_JOB | SCOPE_WHOLE_ENV_ROLES,               "the same, in a ConfigMap" },
	[TEMPLATE_ENV_JOB_ROLE]     = { "env-job-role.yaml",    PROG_ITEMS,   SCOPE_JOB | SCOPE_ROLE | SCOPE_SUFFIX,           "one role in the common environment" },
	[TEMPLATE_ENV_JOB_ROLE_MAP] = { "env-job-role.yaml",    PROG_MEMBERS, SCOPE_JOB | SCOPE_ROLE | SCOPE_SUFFIX,           "the same, in a ConfigMap" },
	[TEMPLATE_ENV_ROLE]         = { "env-role.yaml",        PROG_ITEMS,   SCOPE_JOB | SCOPE_ROLE,                       "environment of the own role" },
	[TEMPLATE_ENV_USER]         = { "env-user.yaml",        PROG_ITEMS,   SCOPE_JOB | SCOPE_ROLE | SCOPE_VAR,              "one variable from the job" },
	[TEMPLATE_ENV_DEVICE]       = { "env-device.yaml",      PROG_ITEMS,   SCOPE_JOB | SCOPE_ROLE | SCOPE_HIVED | SCOPE_DEVICE, "a variable with the devices that HiveD has assigned" },
	[TEMPLATE_ENV_DEVICE_NONE]  = { "env-device-none.yaml", PROG_ITEMS,   SCOPE_JOB | SCOPE_ROLE | SCOPE_HIVED | SCOPE_DEVICE, "the same, for a role without accelerators" },
	[TEMPLATE_STORAGE_MOUNT]    = { "storage-mount.yaml",   PROG_ITEMS,   SCOPE_JOB | SCOPE_ROLE | SCOPE_MOUNT,            "one mount of a storage" },
	[TEMPLATE_STORAGE_VOLUME]   = { "storage-volume.yaml",  PROG_ITEMS,   SCOPE_JOB | SCOPE_ROLE | SCOPE_MOUNT,            "the volume of a storage" },
	[TEMPLATE_CODE_MOUNT]       = { "code-mount.yaml",      PROG_ITEMS,   SCOPE_JOB | SCOPE_ROLE | SCOPE_CODE | SCOPE_CODE_PART, "one part of the code, in the init container" },
	[TEMPLATE_CODE_VOLUME]      = { "code-volume.yaml",     PROG_ITEMS,   SCOPE_JOB | SCOPE_ROLE | SCOPE_CODE | SCOPE_CODE_PART, "the volume of one part" },
	[TEMPLATE_SECRET_REGISTRY]  = { "secret-registry.yaml", PROG_VALUE,   SCOPE_JOB | SCOPE_OWNED,                      "logins for registries" },
	[TEMPLATE_SECRET_JOB]       = { "secret-job.yaml",      PROG_VALUE,   SCOPE_JOB | SCOPE_OWNED | SCOPE_SECRETS,         "the job's secrets" },
	[TEMPLATE_SECRET_USER]      = { "secret-user.yaml",     PROG_VALUE,   SCOPE_JOB | SCOPE_OWNED | SCOPE_EXTENSION,       "the user's keys" },
	[TEMPLATE_CONFIGMAP_ENV]    = { "configmap-env.yaml",   PROG_VALUE,   SCOPE_JOB | SCOPE_OWNED | SCOPE_WHOLE_ENV_MAP,      "the common environment, moved because of its size" },
	[TEMPLATE_CONFIGMAP_RUNTIME] = { "configmap-runtime.yaml", PROG_VALUE, SCOPE_PROGRAM,                            "pai-runtime itself, with `--runtime=configmap`; one for all jobs" },
	[TEMPLATE_RUNTIME_SOURCE]   = { "runtime-source.yaml",  PROG_ITEMS,   SCOPE_PROGRAM,                             "pai-runtime in the volume of the init container" },
	[TEMPLATE_PRIORITYCLASS]    = { "priorityclass.yaml",   PROG_VALUE,   SCOPE_JOB,                                 "the job's priority class" },
};
/* clang-format on */

const char *const SCOPE_NAMES[SCOPE_FLAGS] = {
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
	"pai-runtime for one architecture",
	"a job with code",
	"a part of the code",
	"a job with results",
};

bool condition_holds(enum overlay_condition w, const struct scope *s)
{
	switch (w) {
	case WHEN_ALWAYS:
		return true;
	case WHEN_RUNTIME_CONFIGMAP:
		return s->set->n_programs > 0;
	case WHEN_PULL_SECRET:
		return s->set->runtime_pull_secret[0] != '\0';
	case WHEN_OUTPUT_URL:
		return s->set->output_url[0] != '\0';
	case WHEN_CODE:
		return s->job->code.sha256.n > 0;
	case WHEN_RESULTS:
		return s->job->results.wanted;
	case WHEN_MARKED:
		return s->mark != NULL;
	case WHEN_HIVED:
		return s->hived != NULL;
	case WHEN_OLD_ENV:
		return s->job->dialect->old_env;
	case WHEN_JOB_SECRETS:
		return s->job->secrets != NULL;
	case WHEN_USER_EXTENSION:
		/* Pods get keys: of the user's extension, or made for the job. */
		return s->facts->extension || job_needs_key(s->job, s->facts);
	case WHEN_ENV_CONFIGMAP:
		return s->env_moved;
	case WHEN_CPU_ONLY:
		return s->role->gpu == 0 && !s->hived;
	case WHEN_NO_DEVICE: /* profile openpai: see cpu-only.yaml */
		return s->hived || (s->role->gpu == 0 && s->set->profile != PROFILE_OPENPAI);
	case WHEN_RESTRICTED:
		return s->set->profile == PROFILE_RESTRICTED;
	case WHEN_FUSE:
		return s->role->wants & GRANT_FUSE;
	case WHEN_HOST_NETWORK:
		return s->role->wants & GRANT_HOST_NETWORK;
	case WHEN_INFINIBAND:
		return s->role->wants & GRANT_INFINIBAND;
	case WHEN_REGISTRY:
		return s->job->has_auth;
	case WHEN_PRIORITY_CLASS:
		return s->set->priority_class;
	case WHEN_IMAGE_AUTH:
		return s->role->image_auth;
	}
	assert(false);
	return false;
}

/* Overlays apply, and append to lists, in this order. */
/* clang-format off */
const struct overlay OVERLAYS[] = {
	{ "cpu-only.yaml",        WHEN_CPU_ONLY,       0,            "the role asks for no accelerator, and the scheduler is not HiveD", { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "no-device.yaml",       WHEN_NO_DEVICE,   0,            "the role asks for no accelerator (not in the profile openpai), or the scheduler is HiveD", { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "hived.yaml",           WHEN_HIVED,          SCOPE_HIVED,     "the scheduler is HiveD (`--hived-config`)", { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "fuse.yaml",            WHEN_FUSE,        0,            "`extraContainerOptions.fuse`",            { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "host-network.yaml",    WHEN_HOST_NETWORK, 0,           "`extraContainerOptions.hostNetwork`",     { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "infiniband.yaml",      WHEN_INFINIBAND,  0,            "`extraContainerOptions.infiniband`",      { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "restricted.yaml",      WHEN_RESTRICTED,    0,            "`--profile restricted`",                  { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "runtime-configmap.yaml", WHEN_RUNTIME_CONFIGMAP, 0,            "`--runtime=configmap`",                   { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "pull-secret.yaml",     WHEN_PULL_SECRET,   0,            "the init image needs a login",            { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "output.yaml",          WHEN_OUTPUT_URL,    0,            "`--output-url`",                          { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "code.yaml",            WHEN_CODE,          SCOPE_CODE,   "the job has `extras.code`",               { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "results.yaml",         WHEN_RESULTS,       SCOPE_RESULTS, "the job has `extras.results`",            { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "image-auth.yaml",      WHEN_IMAGE_AUTH,    0,            "the role's image has `auth`",             { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "job-secrets.yaml",     WHEN_JOB_SECRETS,       SCOPE_SECRETS,   "the job has `secrets`",                   { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "user-extension.yaml",  WHEN_USER_EXTENSION,     SCOPE_EXTENSION, "the user has an extension, or the job needs a key",               { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "env-configmap.yaml",   WHEN_ENV_CONFIGMAP, 0,            "the common environment, in all containers together, is larger than the limit (256 KiB)", { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "env-job-v1.yaml",      WHEN_OLD_ENV,             0,            "a v1 job",                                { TEMPLATE_ENV_JOB, TEMPLATE_ENV_JOB_MAP, TEMPLATE_MAX } },
	{ "env-job-role-v1.yaml", WHEN_OLD_ENV,             0,            "a v1 job",                                { TEMPLATE_ENV_JOB_ROLE, TEMPLATE_ENV_JOB_ROLE_MAP, TEMPLATE_MAX } },
	{ "env-role-v1.yaml",     WHEN_OLD_ENV,             0,            "a v1 job",                                { TEMPLATE_ENV_ROLE, TEMPLATE_MAX } },
	{ "submission.yaml",      WHEN_MARKED,         SCOPE_MARK,      "made by a server, not by `rest-lit translate`", { TEMPLATE_FRAMEWORK, TEMPLATE_SECRET_REGISTRY, TEMPLATE_SECRET_JOB, TEMPLATE_SECRET_USER, TEMPLATE_CONFIGMAP_ENV, TEMPLATE_PRIORITYCLASS, TEMPLATE_MAX } },
	{ "submission-framework.yaml", WHEN_MARKED,    SCOPE_MARK,      "made by a server, not by `rest-lit translate`", { TEMPLATE_FRAMEWORK, TEMPLATE_MAX } },
	{ "submission-priorityclass.yaml", WHEN_MARKED, SCOPE_MARK,     "made by a server, not by `rest-lit translate`", { TEMPLATE_PRIORITYCLASS, TEMPLATE_MAX } },
	{ "owner.yaml",           WHEN_MARKED,         SCOPE_MARK,      "made by a server, not by `rest-lit translate`", { TEMPLATE_SECRET_REGISTRY, TEMPLATE_SECRET_JOB, TEMPLATE_SECRET_USER, TEMPLATE_CONFIGMAP_ENV, TEMPLATE_MAX } },
	{ "site-taskrole.yaml",   WHEN_ALWAYS,            0,            "always; empty as shipped, for the administrator", { TEMPLATE_TASKROLE, TEMPLATE_MAX } },
	{ "site-framework.yaml",  WHEN_ALWAYS,            0,            "always; empty as shipped, for the administrator", { TEMPLATE_FRAMEWORK, TEMPLATE_MAX } },
};
/* clang-format on */
const size_t N_OVERLAYS = ARRAY_SIZE(OVERLAYS);
