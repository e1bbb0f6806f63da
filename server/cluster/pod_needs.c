#include "server/cluster/pod_needs.h"

#include <string.h>

#include "base/json/scan.h"

static const char JOB[] =
    "{\"protocolVersion\":2,\"name\":\"probe\",\"type\":\"job\",\"prerequisites\":[{"
    "\"protocolVersion\":2,\"name\":\"i\",\"type\":\"dockerimage\",\"uri\":\"example.org/i\"}],"
    "\"taskRoles\":{\"r\":{\"instances\":1,\"dockerImage\":\"i\",\"resourcePerInstance\":{\"cpu\":"
    "1,"
    "\"memoryMB\":1024,\"gpu\":1},\"commands\":[\"true\"]}}}";

/* The first item of a list. */
static struct span needs_first(struct span list)
{
	struct scan s = scan_begin(list);
	struct span item;
	return scan_item(&s, &item) ? item : (struct span){ NULL, 0 };
}

/* By nodeSelector, or the first required term of the affinity. */
static void needs_node(struct span pod, struct arena *a, struct pod_needs *out)
{
	struct scan s = scan_begin(scan_get(pod, "nodeSelector"));
	struct span key;
	struct span value;
	struct span terms =
	    scan_path(pod, "affinity", "nodeAffinity",
	              "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms");
	struct span rule = needs_first(scan_get(needs_first(terms), "matchExpressions"));
	if (scan_member(&s, &key, &value)) {
		out->node_key = arena_dup(a, key);
		out->node_value = arena_dup(a, scan_text(value, a));
	} else if (span_is(scan_text(scan_get(rule, "operator"), a), "In")) {
		out->node_key = arena_dup(a, scan_text(scan_get(rule, "key"), a));
		out->node_value = arena_dup(a, scan_text(needs_first(scan_get(rule, "values")), a));
	}
}

/* Devices are the resources of a name with a domain. */
static void needs_devices(struct span pod, struct arena *a, struct pod_needs *out)
{
	struct span container = needs_first(scan_get(pod, "containers"));
	struct scan s = scan_begin(scan_path(container, "resources", "limits"));
	struct span key;
	struct span value;
	for (size_t n = 0; n < POD_NEEDS_DEVICES && scan_member(&s, &key, &value);)
		if (memchr(key.p, '/', key.n))
			out->device[n++] = arena_dup(a, key);
}

void pod_needs_read(const struct translator *t, struct arena *a, struct pod_needs *out)
{
	static const struct facts FACTS = { .any_virtual_cluster = true };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	struct objects objects;
	*out = (struct pod_needs){ .priority_class = NULL };
	struct job *job = job_read(t, DIALECT_V2, SPAN(JOB), "probe", a, &warnings, &e);
	if (!job || job_build(t, job, &FACTS, NULL, a, &objects, &e) < 0)
		return;
	struct span framework = objects_framework(&objects)->body;
	struct span role = needs_first(scan_path(framework, "spec", "taskRoles"));
	struct span pod = scan_path(role, "task", "pod", "spec");
	struct span class = scan_text(scan_get(pod, "priorityClassName"), a);
	if (class.n && !span_starts(class, job_hash(job)))
		out->priority_class = arena_dup(a, class);
	needs_node(pod, a, out);
	needs_devices(pod, a, out);
}

size_t pod_needs_nodes(const struct pod_needs *needs, struct span list, bool has[POD_NEEDS_DEVICES])
{
	struct scan s = scan_begin(scan_get(list, "items"));
	struct span node;
	size_t n = 0;
	memset(has, 0, POD_NEEDS_DEVICES * sizeof *has);
	for (; scan_item(&s, &node); n++) {
		struct span all = scan_path(node, "status", "allocatable");
		for (size_t i = 0; i < POD_NEEDS_DEVICES && needs->device[i]; i++)
			has[i] |= scan_get(all, needs->device[i]).p != NULL;
	}
	return n;
}
