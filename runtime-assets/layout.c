#include "runtime-assets/layout.h"

#include <stdlib.h>

const char *path_join(struct arena *a, const char *dir, const char *name)
{
	return arena_printf(a, "%s/%s", dir, name);
}

/* A name from the environment, if it is fit for a directory. */
static const char *safe_name(const char *variable)
{
	const char *name = getenv(variable);
	if (!name || !*name || *name == '.' || strlen(name) > 128)
		return NULL;
	for (const char *c = name; *c; c++) {
		bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
		if (!letter && !(*c >= '0' && *c <= '9') && !strchr("._-", *c))
			return NULL;
	}
	return name;
}

void layout_init(struct layout *l, const char *root, struct arena *a)
{
	static const struct {
		size_t at;
		const char *path;
	} PATHS[] = {
		{ offsetof(struct layout, work), "/usr/local/pai" },
		{ offsetof(struct layout, program), "/usr/local/pai/runtime" },
		{ offsetof(struct layout, runtime_d), "/usr/local/pai/runtime.d" },
		{ offsetof(struct layout, framework), "/usr/local/pai/framework.json" },
		{ offsetof(struct layout, ssh_secret), "/usr/local/pai/ssh-secret" },
		{ offsetof(struct layout, code), "/usr/local/pai/code" },
		{ offsetof(struct layout, config), "/usr/local/pai-config" },
		{ offsetof(struct layout, secrets), "/usr/local/pai/secrets/secrets.yaml" },
		{ offsetof(struct layout, extension),
		  "/usr/local/pai/user-extension-secrets/userExtensionSecrets.yaml" },
		{ offsetof(struct layout, token), "/usr/local/pai/token-secrets/token" },
		{ offsetof(struct layout, account),
		  "/var/run/secrets/kubernetes.io/serviceaccount" },
		{ offsetof(struct layout, output), "/var/run/secrets/rest-lit" },
		{ offsetof(struct layout, termination), "/tmp/pai-termination-log" },
		{ offsetof(struct layout, init_termination), "/dev/termination-log" },
		{ offsetof(struct layout, passwd_home), "/root" },
	};
	l->root = arena_dup(a, span_of(root));
	for (size_t i = 0; i < sizeof(PATHS) / sizeof(*PATHS); i++) {
		const char *path = arena_printf(a, "%s%s", root, PATHS[i].path);
		memcpy((char *)l + PATHS[i].at, &path, sizeof(path));
	}
	const char *pod = safe_name("FC_POD_UID");
	if (!pod)
		pod = safe_name("HOSTNAME");
	l->logs = arena_printf(a, "%s/logs/%s", l->work, pod ? pod : "task");
}
