/* Checks what pods need in the cluster: objects, nodes and devices, which are read from the pod of
 * a small job, and a namespace that admits them. */
#include "base/json/scan.h"
#include "jobs/store/paths.h"
#include "server/check/check_internal.h"
#include "server/config/options.h"
#include "translate/translate.h"

/* ---- what pods need ---- */

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

void pod_needs_read(const struct translator *t, struct arena *a, struct pod_needs *out)
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
	if (class.n && !span_starts(class, job->hash))
		out->priority_class = arena_dup(a, class);
	needs_node(pod, a, out);
	if (out->node_key)
		out->node_query = arena_printf(a, "labelSelector=%s%%3D%s&limit=500", out->node_key,
		                               out->node_value);
	/* Resources with a domain in their name are devices. */
	struct scan s =
	    scan_begin(scan_path(needs_first(scan_get(pod, "containers")), "resources", "limits"));
	struct span key;
	struct span value;
	for (size_t n = 0; n < POD_NEEDS_DEVICES && scan_member(&s, &key, &value);)
		if (memchr(key.p, '/', key.n))
			out->device[n++] = arena_dup(a, key);
}

/* ---- objects ---- */

/* An object that pods need, and what it means if it is missing. */
struct pods_object {
	enum object_kind kind;
	const char *name;
	enum check_state missing;
	const char *means, *mend;
};

static void pods_look(struct check_session *c, const struct pods_object *o)
{
	const struct resource *resource = resource_of(o->kind);
	const struct store_reply *r = check_get(c, o->kind, o->name, NULL);
	if (r->outcome == STORE_OK)
		SAY(c, CHECK_OK, NULL, "%s %s exists", resource->kind, o->name);
	else if (r->outcome == STORE_NOT_FOUND)
		SAY(c, o->missing, o->mend, "there is no %s %s%s%s: %s", resource->kind, o->name,
		    resource->namespaced ? " in namespace " : "",
		    resource->namespaced ? c->server->namespace_name : "", o->means);
	else
		check_cannot_look(c, "rbac/rbac.yaml");
}

void check_account(struct check_session *c)
{
	pods_look(c, &(struct pods_object){
			 KIND_SERVICEACCOUNT, c->o->service_account, CHECK_FAILED,
			 "no pod can be created",
			 check_apply(c->server, &c->arena, "jobs/runtime-account.yaml") });
}

void check_exit_spec(struct check_session *c)
{
	bool needed = strcmp(c->o->profile, "openpai") == 0;
	pods_look(c, &(struct pods_object){
			 KIND_CONFIGMAP, "runtime-exit-spec-configuration",
			 needed ? CHECK_FAILED : CHECK_WARNING,
			 needed ? "no pod can start" : "failures are not explained",
			 check_apply(c->server, &c->arena, "jobs/exit-spec-configmap.yaml") });
}

void check_priority_class(struct check_session *c)
{
	const char *name = c->needs->priority_class;
	if (!name)
		return;
	const char *mend = arena_printf(&c->arena,
	                                "kubectl create priorityclass %s --value=-2147483648, or "
	                                "rest-lit serve --priority-class",
	                                name);
	pods_look(c, &(struct pods_object){ KIND_PRIORITYCLASS, name, CHECK_FAILED,
	                                    "no pod can be created, and each job fails with -310",
	                                    mend });
}

/* ---- nodes ---- */

/* `list`: the nodes with the label. */
static void nodes_judge(struct check_session *c, struct span list)
{
	const struct pod_needs *needs = c->needs;
	struct scan s = scan_begin(scan_get(list, "items"));
	bool has[POD_NEEDS_DEVICES] = { false };
	bool good = true;
	struct span node;
	size_t n = 0;
	for (; scan_item(&s, &node); n++) {
		struct span all = scan_path(node, "status", "allocatable");
		for (size_t i = 0; i < POD_NEEDS_DEVICES && needs->device[i]; i++)
			has[i] |= scan_get(all, needs->device[i]).p != NULL;
	}
	if (n == 0) {
		SAY(c, CHECK_FAILED, "no pod is ever scheduled; kubectl label node NAME with it",
		    "no node has the label that pods ask for: %s=%s", needs->node_key,
		    needs->node_value);
		return;
	}
	for (size_t i = 0; i < POD_NEEDS_DEVICES && needs->device[i]; i++) {
		good &= has[i];
		if (!has[i])
			SAY(c, CHECK_WARNING,
			    strcmp(needs->device[i], c->o->device) == 0
			        ? "jobs that ask for it wait; is its device plugin there?"
			        : "no pod is ever scheduled; install its device plugin, or leave "
			          "it out in a template of --templates",
			    "no node with the label that pods ask for has the device: %s=%s, %s",
			    needs->node_key, needs->node_value, needs->device[i]);
	}
	if (good)
		SAY(c, CHECK_OK, NULL, "nodes with %s=%s have the devices that pods ask for",
		    needs->node_key, needs->node_value);
}

void check_nodes(struct check_session *c)
{
	if (!c->needs->node_query)
		return;
	/* The right to list nodes is not given everywhere. */
	const struct store_reply *r =
	    check_ask(c, (struct store_request){ .verb = STORE_LIST,
	                                         .kind = KIND_NODE,
	                                         .query = c->needs->node_query,
	                                         .look = true });
	if (r->outcome == STORE_OK && scan_valid(r->body, SCAN_DEPTH_MAX))
		nodes_judge(c, r->body);
	else
		check_cannot_look(c, "beside-openpai/rbac.yaml");
}

/* ---- the namespace, and pai-runtime ---- */

/* The label of the namespace, and the profiles whose pods it admits, without grants. */
void check_pod_security(struct check_session *c)
{
	static const char LABEL[] = "pod-security.kubernetes.io/enforce";
	static const char *const LEVELS[][2] = { { "privileged", "plain, openpai, restricted" },
		                                 { "baseline", "plain, restricted" },
		                                 { "restricted", "restricted" } };
	const char *space = c->server->namespace_name;
	const struct store_reply *r = check_get(c, KIND_NAMESPACE, space, NULL);
	struct span level = scan_text(scan_path(r->body, "metadata", "labels", LABEL), &c->arena);
	if (r->outcome != STORE_OK) {
		SAY(c, CHECK_SKIPPED, check_apply(c->server, &c->arena, "rbac/rbac.yaml"),
		    "the level that namespace %s enforces is unknown: %.*s", space,
		    (int)r->message.n, r->message.p);
		return;
	}
	size_t i = 0; /* Kubernetes takes an unknown level for the last one */
	while (level.n && i + 1 < ARRAY_SIZE(LEVELS) && !span_is(level, LEVELS[i][0]))
		i++;
	bool good = strstr(LEVELS[i][1], c->o->profile) != NULL;
	const char *mend = arena_printf(&c->arena, "--profile %.*s",
	                                (int)strcspn(LEVELS[i][1], ","), LEVELS[i][1]);
	SAY(c, good ? CHECK_OK : CHECK_FAILED, good ? NULL : mend,
	    "namespace %s enforces %s%s, which admits the profiles %s", space,
	    level.n ? "" : "no level by its label, taken for ", LEVELS[i][0], LEVELS[i][1]);
}

const char CHECK_FOREIGN[] =
    "the ConfigMap with pai-runtime, which all pods need, cannot be created: its name is used by a "
    "ConfigMap with other content, or by one that is not immutable";

bool check_has_program(struct span wanted, struct span there)
{
	return scan_count(scan_get(there, "binaryData")) == 1 &&
	       span_eq(scan_path(wanted, "binaryData", "pai-runtime"),
	               scan_path(there, "binaryData", "pai-runtime")) &&
	       span_is(scan_get(there, "immutable"), "true");
}

const char *check_mend_foreign(const struct server *s, struct arena *a, const char *name)
{
	return arena_printf(a, "kubectl -n %s delete configmap %s; serve creates it",
	                    s->namespace_name, name);
}

static void check_configmap(struct check_session *c, const struct object *program)
{
	const struct store_reply *r = check_get(c, KIND_CONFIGMAP, program->name, NULL);
	if (r->outcome == STORE_NOT_FOUND)
		SAY(c, CHECK_OK, NULL, "serve creates the ConfigMap %s at start", program->name);
	else if (r->outcome != STORE_OK)
		check_cannot_look(c, "rbac/rbac.yaml");
	else if (check_has_program(program->body, r->body))
		SAY(c, CHECK_OK, NULL, "ConfigMap %s has this version", program->name);
	else
		SAY(c, CHECK_FAILED, check_mend_foreign(c->server, &c->arena, program->name),
		    "%s: %s", CHECK_FOREIGN, program->name);
}

void check_runtime(struct check_session *c)
{
	const struct translator *t = c->server->translator;
	struct object program;
	size_t n = 0;
	if (!t) {
		check_report(c, CHECK_SKIPPED, "needs valid templates", NULL);
		return;
	}
	while (runtime_object(t, n, &c->arena, &program)) {
		check_configmap(c, &program);
		n++;
	}
	if (n == 0)
		SAY(c, CHECK_OK, NULL, "image %s; nodes must be able to pull it",
		    c->o->runtime_image[0] ? c->o->runtime_image : RUNTIME_IMAGE);
}
