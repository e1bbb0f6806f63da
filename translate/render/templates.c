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
