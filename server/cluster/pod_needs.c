/* Translates a small job, and reads from its pod which objects, nodes and devices pods need. */
#include "server/cluster/pod_needs.h"

#include "base/json/scan.h"
#include "server/config/options.h"

enum { TEXT_MAX = 1024 };

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

/* Finds the label by nodeSelector, or the first required term of the affinity. */
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

/* Nothing is added if the templates cannot make such a job. */
static void needs_of_pods(const struct translator *t, struct arena *a, struct pod_needs *out)
{
	static const struct facts FACTS = { .any_virtual_cluster = true };
	NOTES_AUTO warnings = { 0 };
	ERR_AUTO e = { 0 };
	struct objects objects;
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
	/* Resources with a domain in their name are devices. */
	struct scan s =
	    scan_begin(scan_path(needs_first(scan_get(pod, "containers")), "resources", "limits"));
	struct span key;
	struct span value;
	for (size_t n = 0; n < POD_NEEDS_DEVICES && scan_member(&s, &key, &value);)
		if (memchr(key.p, '/', key.n))
			out->device[n++] = arena_dup(a, key);
}

const char *pod_needs_apply(const struct server *s, struct arena *a, const char *manifest)
{
	const struct options *o = s->options;
	/* The words of the manifests, and the values of these options instead. */
	const struct {
		const char *files; /* the ends of their names */
		const char *before, *word, *value;
	} words[] = {
		{ "rbac/rbac.yaml jobs/runtime-account.yaml", "", "runtime-account",
		  o->service_account },
		{ "rbac/rbac.yaml jobs/runtime-account.yaml jobs/exit-spec-configmap.yaml "
		  "options/dialects.yaml options/webhook.yaml",
		  "namespace: ", "pai-jobs", s->namespace_name },
		{ "beside-openpai/rbac.yaml", "namespace: ", "default", s->namespace_name },
		{ "beside-openpai/rbac.yaml", "namespace: ", "pai-user-token", o->token_namespace },
		{ "beside-openpai/rbac.yaml options/manage-users.yaml",
		  "namespace: ", "pai-user-v2", o->user_namespace },
		{ "beside-openpai/rbac.yaml options/manage-users.yaml", "namespace: ", "pai-group",
		  o->group_namespace },
		{ "options/webhook.yaml", "rest-lit-webhook-", "default", o->instance },
	};
	STR_AUTO edits = STR_INIT(TEXT_MAX);
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strstr(words[i].files, manifest + strlen("k8s/deploy/")) &&
		    strcmp(words[i].word, words[i].value) != 0)
			str_printf(&edits, " -e 's/%s%s/%s%s/'", words[i].before, words[i].word,
			           words[i].before, words[i].value);
	if (edits.n)
		return arena_printf(a, "sed%s %s | kubectl apply -f -", str_c(&edits), manifest);
	return arena_printf(a, "kubectl apply -f %s", manifest);
}

void pod_needs_read(const struct server *s, struct arena *a, struct pod_needs *out)
{
	bool optional = strcmp(s->options->profile, "openpai") != 0;
	*out = (struct pod_needs){ .gpu = s->options->device };
	out->object[out->n++] = (struct pod_object){
		.kind = KIND_SERVICEACCOUNT,
		.name = s->options->service_account,
		.means = "no pod can be created",
		.mend = pod_needs_apply(s, a, "k8s/deploy/jobs/runtime-account.yaml"),
	};
	out->object[out->n++] = (struct pod_object){
		.kind = KIND_CONFIGMAP,
		.name = "runtime-exit-spec-configuration",
		.means = optional ? "failures are not explained" : "no pod can start",
		.mend = pod_needs_apply(s, a, "k8s/deploy/jobs/exit-spec-configmap.yaml"),
		.optional = optional,
	};
	needs_of_pods(s->translator, a, out);
	if (out->priority_class)
		out->object[out->n++] = (struct pod_object){
			.kind = KIND_PRIORITYCLASS,
			.name = out->priority_class,
			.means = "no pod can be created, and each job fails with -310",
			.mend = arena_printf(a,
			                     "kubectl create priorityclass %s --value=-2147483648, "
			                     "or rest-lit serve --priority-class",
			                     out->priority_class),
		};
	if (out->node_key)
		out->node_query = arena_printf(a, "labelSelector=%s%%3D%s&limit=500", out->node_key,
		                               out->node_value);
}

void pod_needs_nodes(const struct pod_needs *needs, struct span list, pod_needs_callback *say,
                     void *arg)
{
	struct scan s = scan_begin(scan_get(list, "items"));
	bool has[POD_NEEDS_DEVICES] = { false };
	struct span node;
	size_t n = 0;
	for (; scan_item(&s, &node); n++) {
		struct span all = scan_path(node, "status", "allocatable");
		for (size_t i = 0; i < POD_NEEDS_DEVICES && needs->device[i]; i++)
			has[i] |= scan_get(all, needs->device[i]).p != NULL;
	}
	if (n == 0) {
		say(arg, "no node has the label that pods ask for", NULL,
		    "no pod is ever scheduled; kubectl label node NAME with it");
		return;
	}
	for (size_t i = 0; i < POD_NEEDS_DEVICES && needs->device[i]; i++)
		if (!has[i])
			say(arg, "no node with the label that pods ask for has the device",
			    needs->device[i],
			    strcmp(needs->device[i], needs->gpu) == 0
			        ? "jobs that ask for it wait; is its device plugin there?"
			        : "no pod is ever scheduled; install its device plugin, or leave "
			          "it "
			          "out in a template of --templates");
}
