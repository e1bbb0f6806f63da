/*
 * Any text as a pod of Kubernetes.  A pod that is taken has only members of a list that is not the
 * one of the program, mounts nothing over directories of the system, and names no volume that
 * needs a grant without saying so.
 */
#include <stdlib.h>

#include "base/image/image.h"
#include "schema/schema.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/lines.h"
#include "translate/dialects/raw_pod.h"
#include "translate/job/names.h"

static const char *const MEMBERS[] = {
	"metadata",
	"labels",
	"annotations",
	"spec",
	"containers",
	"volumes",
	"name",
	"initContainers",
	"image",
	"command",
	"args",
	"workingDir",
	"ports",
	"protocol",
	"containerPort",
	"env",
	"value",
	"valueFrom",
	"fieldRef",
	"fieldPath",
	"apiVersion",
	"resource",
	"resourceFieldRef",
	"divisor",
	"resources",
	"limits",
	"requests",
	"volumeMounts",
	"mountPath",
	"readOnly",
	"subPath",
	"emptyDir",
	"mountPropagation",
	"medium",
	"sizeLimit",
	"claimName",
	"nfs",
	"server",
	"path",
	"hostPath",
	"type",
	"drop",
	"securityContext",
	"capabilities",
	"cpu",
	"memory",
	"ephemeral-storage",
	"persistentVolumeClaim",
	"allowPrivilegeEscalation",
	NULL,
};
static const char *const CHECKED[] = { "labels", "annotations", NULL };
static const char *const REPLACED[] = { "value", "command", "args", NULL };

static void check_labels(const struct node *map)
{
	assert(map->type == NODE_MAP && map->n > 0);
	for (uint32_t i = 0; i < map->n; i++) {
		struct span key = member_key(&map->member[i]);
		struct span domain = span_to(key, span_chr(key, '/'));
		assert(map->member[i].value.type == NODE_TEXT ||
		       map->member[i].value.type == NODE_DATE);
		assert(span_find(key, 0, "kubernetes.io/") == SIZE_MAX);
		assert(!span_starts(key, "FC_") && !span_is(domain, "rest-lit"));
		assert(span_find(node_span(&map->member[i].value), 0, "{{FC_") == SIZE_MAX);
	}
}

static void check_members(const struct node *n, bool replaced)
{
	if (n->type == NODE_TEXT)
		assert(replaced || span_find(node_span(n), 0, "{{FC_") == SIZE_MAX);
	for (uint32_t i = 0; n->type == NODE_LIST && i < n->n; i++)
		check_members(&n->item[i], replaced);
	for (uint32_t i = 0; n->type == NODE_MAP && i < n->n; i++) {
		const struct member *m = &n->member[i];
		assert(names_listed(MEMBERS, member_key(m)));
		assert(m->value.type != NODE_NULL && m->value.type != NODE_DATE);
		if (names_listed(CHECKED, member_key(m)))
			check_labels(&m->value);
		else
			check_members(&m->value, names_listed(REPLACED, member_key(m)));
	}
}

static void check_containers(const struct node *list, bool main)
{
	for (uint32_t i = 0; list && i < list->n; i++) {
		const struct node *c = &list->item[i];
		const struct node *mounts = node_get(c, "volumeMounts");
		const struct node *security = node_get(c, "securityContext");
		bool ours = i == 0; /* app, or init */
		assert(!node_get(c, "image") == ours && !security == ours);
		assert(ours || !node_get(security, "allowPrivilegeEscalation")->boolean);
		assert(!ours || span_is(node_span(node_get(c, "name")), main ? "app" : "init"));
		for (uint32_t k = 0; mounts && k < mounts->n; k++)
			assert(!names_mount_path_problem(
			    node_span(node_get(&mounts->item[k], "mountPath"))));
	}
}

static void check_volumes(const struct raw_pod *pod, const struct node *list)
{
	size_t granted = 0;
	for (uint32_t i = 0; list && i < list->n; i++)
		granted += node_get(&list->item[i], "emptyDir") == NULL;
	assert(granted == pod->n_volumes);
	for (size_t i = 0; i < pod->n_volumes; i++)
		assert(span_find(pod->volumes[i].source, 0, "..") == SIZE_MAX ||
		       span_find(pod->volumes[i].source, 0, "/../") == SIZE_MAX);
}

static void check_taken(const struct role *role, const struct raw_found *found)
{
	const struct node *spec = node_get(role->pod->tree, "spec");
	check_members(role->pod->tree, false);
	check_containers(node_get(spec, "containers"), true);
	check_containers(node_get(spec, "initContainers"), false);
	check_volumes(role->pod, node_get(spec, "volumes"));
	assert(found->main && found->command->n > 0);
	assert(!image_problem(role->image));
	assert(role->cpu >= 0 && role->cpu <= INT32_MAX && role->gpu >= 0 &&
	       role->gpu <= 2 * (int64_t)INT32_MAX && role->memory_mb >= 0 && role->shm_mb >= 0);
}

FUZZ(text)
{
	ARENA_AUTO a = { 0 };
	ERR_AUTO e = { 0 };
	NOTES_AUTO warnings = { 0 };
	struct settings set;
	struct doc doc = { 0 };
	struct role role = { 0 };
	struct raw_found found;
	translate_settings_default(&set);
	struct parse_context r = { .set = &set,
		                   .a = &a,
		                   .job = ARENA_NEW(&a, struct job, 1),
		                   .code = "InvalidProtocolError",
		                   .e = &e,
		                   .warnings = &warnings };
	r.job->dialect = dialect_get(DIALECT_V2);
	if (doc_read(text, &set.budget, &a, &doc, &warnings, &e))
		return;
	struct raw_source source = { { .n = &doc.root, .path = PATH_KEY(NULL, SPAN("pod")) },
		                     text.n % 2 ? SPAN("main") : SPAN("") };
	raw_pod_copy(&r, &source, &role, &found);
	if (e.http == 0)
		check_taken(&role, &found);
	else
		assert(e.http == 400 && e.notes.n > 0);
}
