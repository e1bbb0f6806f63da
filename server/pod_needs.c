#include "server/pod_needs.h"

#include "base/scan.h"

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

void pod_needs_read(const struct translator *t, struct arena *a, struct pod_needs *out)
{
	static const struct facts FACTS = { .any_virtual_cluster = true };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	struct objects objects;
	*out = (struct pod_needs){ NULL, NULL, NULL };
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
}

size_t pod_needs_nodes(struct span list, const char *device, bool *has_device)
{
	struct scan s = scan_begin(scan_get(list, "items"));
	struct span node;
	size_t n = 0;
	*has_device = false;
	for (; scan_item(&s, &node); n++) {
		struct span all = scan_path(node, "status", "allocatable");
		*has_device |= scan_get(all, device).p != NULL;
	}
	return n;
}
