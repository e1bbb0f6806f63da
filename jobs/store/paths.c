/* Lists the kinds of objects, and writes their paths, which no name can lead elsewhere. */
#include "jobs/store/paths.h"

#include <assert.h>

#include "base/str.h"

enum { SEGMENT_MAX = 253 };

/* clang-format off */
static const struct resource RESOURCES[KIND_MAX] = {
	[KIND_FRAMEWORK] = { "Framework", "frameworkcontroller.microsoft.com", "frameworks", true, NULL },
	[KIND_SECRET] = { "Secret", "", "secrets", true, NULL },
	[KIND_CONFIGMAP] = { "ConfigMap", "", "configmaps", true, NULL },
	[KIND_PRIORITYCLASS] = { "PriorityClass", "scheduling.k8s.io", "priorityclasses", false, NULL },
	[KIND_SERVICEACCOUNT] = { "ServiceAccount", "", "serviceaccounts", true, NULL },
	[KIND_TOKENREVIEW] = { "TokenReview", "authentication.k8s.io", "tokenreviews", false, NULL },
	[KIND_PODTEMPLATE] = { "PodTemplate", "", "podtemplates", true, NULL },
	[KIND_CLAIM] = { "PersistentVolumeClaim", "", "persistentvolumeclaims", true, NULL },
	[KIND_VOLUME] = { "PersistentVolume", "", "persistentvolumes", false, NULL },
	[KIND_NODE] = { "Node", "", "nodes", false, NULL },
	[KIND_NAMESPACE] = { "Namespace", "", "namespaces", false, NULL },
	[KIND_POD] = { "Pod", "", "pods", true, NULL },
	[KIND_EVENT] = { "Event", "", "events", true, NULL },
	[KIND_LEASE] = { "Lease", "coordination.k8s.io", "leases", true, NULL },
	[KIND_STATEFULSET] = { "StatefulSet", "apps", "statefulsets", true, NULL },
	[KIND_ACCESS_REVIEW] = { "SelfSubjectAccessReview", "authorization.k8s.io",
				 "selfsubjectaccessreviews", false, NULL },
	[KIND_VERSION] = { "version", "", "version", false, NULL },
	[KIND_API_GROUP] = { "APIGroup", "", "apis", false, NULL },
	[KIND_WORKLOAD] = { "Workload", KUEUE_GROUP, "workloads", true, KUEUE_VERSION },
	[KIND_FLAVOR] = { "ResourceFlavor", KUEUE_GROUP, "resourceflavors", false, KUEUE_VERSION },
	[KIND_WORKLOAD_PRIORITY] = { "WorkloadPriorityClass", KUEUE_GROUP, "workloadpriorityclasses",
				     false, KUEUE_VERSION },
	[KIND_LOCAL_QUEUE] = { "LocalQueue", KUEUE_GROUP, "localqueues", true, KUEUE_VERSION },
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
	if (r->group[0])
		str_printf(out, "/apis/%s/%s", r->group, r->version ? r->version : "v1");
	else if (kind != KIND_VERSION && kind != KIND_API_GROUP)
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
