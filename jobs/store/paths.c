/* Lists the kinds of objects, and writes their paths, which no name can lead elsewhere. */
#include "jobs/store/paths.h"

#include <assert.h>

#include "base/str.h"

enum { SEGMENT_MAX = 253 };

/* clang-format off */
static const struct resource RESOURCES[KIND_MAX] = {
	[KIND_FRAMEWORK] = { "Framework", "frameworkcontroller.microsoft.com", "frameworks", true },
	[KIND_SECRET] = { "Secret", "", "secrets", true },
	[KIND_CONFIGMAP] = { "ConfigMap", "", "configmaps", true },
	[KIND_PRIORITYCLASS] = { "PriorityClass", "scheduling.k8s.io", "priorityclasses", false },
	[KIND_SERVICEACCOUNT] = { "ServiceAccount", "", "serviceaccounts", true },
	[KIND_TOKENREVIEW] = { "TokenReview", "authentication.k8s.io", "tokenreviews", false },
	[KIND_PODTEMPLATE] = { "PodTemplate", "", "podtemplates", true },
	[KIND_CLAIM] = { "PersistentVolumeClaim", "", "persistentvolumeclaims", true },
	[KIND_VOLUME] = { "PersistentVolume", "", "persistentvolumes", false },
	[KIND_NODE] = { "Node", "", "nodes", false },
	[KIND_NAMESPACE] = { "Namespace", "", "namespaces", false },
	[KIND_POD] = { "Pod", "", "pods", true },
	[KIND_EVENT] = { "Event", "", "events", true },
	[KIND_LEASE] = { "Lease", "coordination.k8s.io", "leases", true },
	[KIND_STATEFULSET] = { "StatefulSet", "apps", "statefulsets", true },
	[KIND_ACCESS_REVIEW] = { "SelfSubjectAccessReview", "authorization.k8s.io",
				 "selfsubjectaccessreviews", false },
	[KIND_VERSION] = { "version", "", "version", false },
	[KIND_API_GROUP] = { "APIGroup", "", "frameworkcontroller.microsoft.com", false },
};
/* clang-format on */

const struct resource *resource_of(enum object_kind kind)
{
	assert(kind < KIND_MAX);
	return &RESOURCES[kind];
}

void resource_name(struct str *out, enum object_kind kind)
{
	const struct resource *r = resource_of(kind);
	str_puts(out, r->plural);
	if (r->group[0] != '\0')
		str_printf(out, ".%s", r->group);
}

bool segment_ok(const char *name)
{
	size_t n = strlen(name);
	if (n == 0 || n > SEGMENT_MAX || !is_lower_alnum(name[0]) || !is_lower_alnum(name[n - 1]))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!is_lower_alnum(name[i]) && name[i] != '-' && name[i] != '.')
			return false;
		if (name[i] == '.' && name[i + 1] == '.')
			return false;
	}
	return true;
}

int path_write(struct str *out, enum object_kind kind, const char *namespace_name, const char *name)
{
	const struct resource *r = resource_of(kind);
	if (r->namespaced && (namespace_name ? !segment_ok(namespace_name) : name != NULL))
		return -1;
	if (name != NULL && !segment_ok(name))
		return -1;
	if (kind == KIND_API_GROUP)
		str_puts(out, "/apis");
	else if (r->group[0])
		str_printf(out, "/apis/%s/v1", r->group);
	else if (kind != KIND_VERSION)
		str_puts(out, "/api/v1");
	if (r->namespaced && namespace_name)
		str_printf(out, "/namespaces/%s", namespace_name);
	str_printf(out, "/%s", r->plural);
	if (name != NULL)
		str_printf(out, "/%s", name);
	return 0;
}

void query_encode(struct str *out, struct span text)
{
	for (size_t i = 0; i < text.n; i++) {
		char c = text.p[i];
		if (is_alnum(c) || (c && strchr("-._~", c)))
			str_char(out, c);
		else
			str_printf(out, "%%%02X", (unsigned)(unsigned char)c);
	}
}
