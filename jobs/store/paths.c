/* Lists the kinds of objects, and writes their paths, which no name can lead elsewhere. */
#include "jobs/store/paths.h"

#include <assert.h>

#include "base/str.h"

enum { SEGMENT_MAX = 253 };

/* clang-format off */
static const struct resource RESOURCES[KIND_MAX] = {
	[KIND_FRAMEWORK] = { "Framework", "frameworkcontroller.microsoft.com",
			     "/apis/frameworkcontroller.microsoft.com/v1", "frameworks",
			     true },
	[KIND_SECRET] = { "Secret", "", "/api/v1", "secrets", true },
	[KIND_CONFIGMAP] = { "ConfigMap", "", "/api/v1", "configmaps", true },
	[KIND_PRIORITYCLASS] = { "PriorityClass", "scheduling.k8s.io",
				 "/apis/scheduling.k8s.io/v1", "priorityclasses",
				 false },
	[KIND_SERVICEACCOUNT] = { "ServiceAccount", "", "/api/v1", "serviceaccounts", true },
	[KIND_TOKENREVIEW] = { "TokenReview", "authentication.k8s.io",
			       "/apis/authentication.k8s.io/v1", "tokenreviews", false },
	[KIND_PODTEMPLATE] = { "PodTemplate", "", "/api/v1", "podtemplates", true },
	[KIND_CLAIM] = { "PersistentVolumeClaim", "", "/api/v1", "persistentvolumeclaims", true },
	[KIND_VOLUME] = { "PersistentVolume", "", "/api/v1", "persistentvolumes", false },
	[KIND_NODE] = { "Node", "", "/api/v1", "nodes", false },
	[KIND_NAMESPACE] = { "Namespace", "", "/api/v1", "namespaces", false },
	[KIND_POD] = { "Pod", "", "/api/v1", "pods", true },
	[KIND_EVENT] = { "Event", "", "/api/v1", "events", true },
	[KIND_LEASE] = { "Lease", "coordination.k8s.io", "/apis/coordination.k8s.io/v1", "leases",
			 true },
	[KIND_STATEFULSET] = { "StatefulSet", "apps", "/apis/apps/v1", "statefulsets", true },
	[KIND_ACCESS_REVIEW] = { "SelfSubjectAccessReview", "authorization.k8s.io",
				 "/apis/authorization.k8s.io/v1", "selfsubjectaccessreviews",
				 false },
	[KIND_VERSION] = { "version", "", "", "version", false },
	[KIND_API_GROUP] = { "APIGroup", "", "/apis", "frameworkcontroller.microsoft.com", false },
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
	str_puts(out, r->api);
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
