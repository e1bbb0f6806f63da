#include "translate/job/settings.h"

const char *const PROFILE_NAMES[PROFILES + 1] = { "plain", "openpai", "restricted", NULL };
const char *const GRANT_NAMES[GRANT_BITS] = { "fuse", "hostNetwork", "infiniband" };

unsigned allocation_named(struct span name)
{
	for (size_t bit = 0; bit < GRANT_BITS; bit++)
		if (span_is(name, GRANT_NAMES[bit]))
			return 1u << bit;
	return 0;
}

void translate_settings_default(struct settings *s)
{
	*s = (struct settings){
		.profile = PROFILE_PLAIN,
		.namespace_name = "default",
		.runtime_image = RUNTIME_IMAGE,
		.runtime_init_image = "",
		.runtime_pull_secret = "",
		.service_account = "runtime-account",
		.apiserver_uri = "",
		.rest_server_uri = "",
		.output_url = "",
		.device = "nvidia.com/gpu",
		.fs_uri = "",
		.hived_scheduler = HIVED_SCHEDULER,
		.hived_device_env = HIVED_DEVICE_ENV,
		.port_start = 15000,
		.port_end = 40000,
		.max_command = 131071 - (sizeof("USER_CMD=") - 1),
		.max_rendered = 1u << 20,
		.max_object = 1408u << 10,
		.max_annotations = 248u << 10, /* Kubernetes accepts 8 KiB more: room for tags */
		.max_env_inline = 256u << 10,
		.max_roles = 256,
		.max_instances = 10000,
		.max_tasks = 20000,
		.budget = BUDGET_DEFAULT,
	};
}
