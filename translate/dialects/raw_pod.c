/* Copies the members of a pod that a table keeps; it warns of the others, or refuses them. */
#include "translate/dialects/raw_pod.h"

#include <assert.h>

#include "base/image/image.h"
#include "base/quantity.h"
#include "schema/schema.h"
#include "translate/job/names.h"

#define RAW_OLD_DEVICE "alpha.kubernetes.io/nvidia-gpu"

/* ---- the table ---- */

/* Values that are null or empty, `same`, or false if they would be refused, are left out without a
 * warning: they change nothing. */
enum raw_verdict { RAW_KEEP, RAW_DROP, RAW_REFUSE };

struct raw_row {
	const char *in;      /* the kind of mapping */
	const char *members; /* A|B|C */
	enum raw_verdict verdict;
	const char *why; /* behind "is left out: " or "is refused: " */
	/* The kind of the value or of its items; NULL for text, numbers, and mappings and lists of
	 * them.  Refusals inside of a value that is left out are reported nevertheless. */
	const char *of;
	const char *same;
};

/* Kinds without rows. */
static const char WORDS[] = "words";   /* FrameworkController may replace {{FC_...}} in them */
static const char LABELS[] = "labels"; /* without those of raw_key_taken */

static const char VALUE_FROM[] = "env.valueFrom";

#define NODE      "this installation chooses the node"
#define NETWORK   "names and addresses are those of the cluster; PAI_* has them"
#define OWNER     "pods belong to their Framework alone"
#define ISOLATION "tasks are isolated from the node and from other pods"
#define SECURITY  "security contexts are those of this installation"
#define SECRETS   "Secrets and ConfigMaps cannot be named, since others may own them"
#define DEVICES   "devices are requested as a number, in limits"

/* clang-format off */
#define KEEP(in, members, of)         { in, members, RAW_KEEP, NULL, of, NULL }
#define DROP(in, members, why, same)  { in, members, RAW_DROP, why, NULL, same }
#define DROP_OF(in, members, of, why) { in, members, RAW_DROP, why, of, NULL }
#define REFUSE(in, members, why)      { in, members, RAW_REFUSE, why, NULL, NULL }
static const struct raw_row ROWS[] = {
	KEEP("pod", "metadata", "metadata"),
	KEEP("pod", "spec", "spec"),
	KEEP("metadata", "labels|annotations", LABELS),
	REFUSE("metadata", "finalizers|ownerReferences", OWNER),
	DROP("metadata", "name|generateName|namespace", "FrameworkController names pods", NULL),

	KEEP("spec", "containers|initContainers", "container"),
	KEEP("spec", "volumes", "volumes"),
	KEEP("spec", "restartPolicy|hostNetwork", NULL),
	DROP("spec", "serviceAccountName|serviceAccount|automountServiceAccountToken", "pods have the account of this installation", NULL),
	DROP("spec", "priorityClassName|priority|preemptionPolicy", "the priority is that of the job", NULL),
	DROP("spec", "schedulerName", NODE, "default-scheduler"),
	DROP("spec", "nodeName|nodeSelector|affinity|tolerations|topologySpreadConstraints|runtimeClassName", NODE, NULL),
	DROP_OF("spec", "securityContext", "securityContext", SECURITY),
	DROP("spec", "hostUsers", SECURITY, NULL),
	DROP("spec", "dnsPolicy", NETWORK, "ClusterFirst"),
	DROP("spec", "dnsConfig|hostname|subdomain|setHostnameAsFQDN|enableServiceLinks", NETWORK, NULL),
	DROP("spec", "terminationGracePeriodSeconds", "the time to end is that of this installation", NULL),
	DROP("spec", "activeDeadlineSeconds", "tasks have no deadline; `timeout` in the command has the same effect", NULL),
	REFUSE("spec", "hostPID|hostIPC|shareProcessNamespace|ephemeralContainers", ISOLATION),
	REFUSE("spec", "hostAliases", NETWORK),
	REFUSE("spec", "imagePullSecrets", "Secrets cannot be named, since others may own them; a v2 job has prerequisites[].auth"),
	REFUSE("spec", "resources|resourceClaims", DEVICES " of a container"),

	KEEP("container", "name|image|workingDir", NULL),
	KEEP("container", "command|args", WORDS),
	KEEP("container", "env", "env"),
	KEEP("container", "ports", "ports"),
	KEEP("container", "resources", "resources"),
	KEEP("container", "volumeMounts", "volumeMounts"),
	DROP("container", "imagePullPolicy", "images are always pulled", "Always"),
	DROP_OF("container", "securityContext", "securityContext", SECURITY),
	DROP("container", "livenessProbe|readinessProbe|startupProbe", "a task lives as long as its command", NULL),
	DROP("container", "stdin|stdinOnce|tty", "nobody is connected to a task", NULL),
	DROP("container", "terminationMessagePath", "pai-runtime writes the message", "/dev/termination-log"),
	DROP("container", "terminationMessagePolicy", "pai-runtime writes the message", "File"),
	REFUSE("container", "envFrom", SECRETS),
	REFUSE("container", "volumeDevices", ISOLATION),
	REFUSE("container", "lifecycle", "its commands would not run; make them part of `command`"),
	REFUSE("container", "restartPolicy", "a container is never started again in its pod"),

	KEEP("ports", "name|containerPort|protocol", NULL),
	DROP("ports", "hostPort|hostIP", "ports of the node are given by this installation; PAI_PORT_LIST_* has them", NULL),
	KEEP("env", "name", NULL),
	KEEP("env", "value", WORDS),
	KEEP("env", "valueFrom", VALUE_FROM),
	KEEP("env.valueFrom", "fieldRef", "fieldRef"),
	KEEP("env.valueFrom", "resourceFieldRef", "resourceFieldRef"),
	REFUSE("env.valueFrom", "secretKeyRef|configMapKeyRef|fileKeyRef", SECRETS),
	KEEP("fieldRef", "fieldPath|apiVersion", NULL),
	KEEP("resourceFieldRef", "resource|divisor", NULL),
	REFUSE("resourceFieldRef", "containerName", "a container reads its own resources only"),
	KEEP("resources", "limits|requests", "amounts"),
	KEEP("amounts", "cpu|memory|ephemeral-storage", NULL), /* devices go to the role */
	REFUSE("resources", "claims", DEVICES),
	KEEP("volumeMounts", "name|mountPath|readOnly|subPath|mountPropagation", NULL),
	DROP("volumeMounts", "recursiveReadOnly", "readOnly holds for the volume itself", "Disabled"),
	REFUSE("volumeMounts", "subPathExpr", "write `subPath`, without variables"),

	KEEP("volumes", "name", NULL),
	KEEP("volumes", "emptyDir", "emptyDir"),
	KEEP("volumes", "persistentVolumeClaim", "persistentVolumeClaim"),
	KEEP("volumes", "nfs", "nfs"),
	KEEP("volumes", "hostPath", "hostPath"),
	REFUSE("volumes", "secret|configMap|projected", SECRETS),
	REFUSE("volumes", "csi|flexVolume", "drivers of volumes run as root on the node"),
	KEEP("emptyDir", "medium|sizeLimit", NULL),
	KEEP("persistentVolumeClaim", "claimName|readOnly", NULL),
	KEEP("nfs", "server|path|readOnly", NULL),
	KEEP("hostPath", "path|type", NULL),
	REFUSE("securityContext", "privileged", ISOLATION),
	DROP_OF("securityContext", "capabilities", "capabilities", SECURITY),
	REFUSE("capabilities", "add", ISOLATION),
};
/* clang-format on */

enum { N_ROWS = ARRAY_SIZE(ROWS) };

/* ---- the copy ---- */

struct raw_copy {
	struct parse_context *r;
	bool quiet; /* below a member that is left out: no warnings */
};

static void raw_value(struct raw_copy *c, const char *of, const struct field *f, struct node *out);

/* Returns true if leaving the value out changes nothing. */
static bool raw_is_same(const struct raw_row *row, const struct node *n)
{
	if (n->type == NODE_BOOL)
		return row && row->verdict == RAW_REFUSE && !n->boolean;
	if (n->type == NODE_TEXT)
		return n->n == 0 || (row && row->same && span_is(node_span(n), row->same));
	return n->type == NODE_NULL || ((n->type == NODE_LIST || n->type == NODE_MAP) && n->n == 0);
}

/* A member without a row. */
static void raw_unknown(struct raw_copy *c, const char *in, const struct field *map,
                        const struct member *m)
{
	struct span key = member_key(m);
	bool amounts = strcmp(in, "amounts") == 0;
	if (strcmp(in, "volumes") == 0)
		parse_refuse_key(c->r, map, m,
		                 "is refused: volumes are of the kinds emptyDir, "
		                 "persistentVolumeClaim, nfs and hostPath");
	else if (strcmp(in, VALUE_FROM) == 0)
		parse_refuse_key(c->r, map, m,
		                 "is refused: values come from fieldRef or resourceFieldRef");
	else if (amounts && span_is(key, RAW_OLD_DEVICE))
		parse_warn_key(c->r, map, m, "is taken as %s", c->r->set->device);
	else if (amounts && !span_is(key, c->r->set->device))
		parse_refuse_key(c->r, map, m,
		                 "is refused: tasks have cpu, memory, ephemeral-storage and %s",
		                 c->r->set->device);
	else if (c->r->set->profile == PROFILE_RESTRICTED && span_is(key, "runAsUser") &&
	         node_is(&m->value, NODE_INT) && m->value.integer == 0)
		parse_refuse_key(c->r, map, m,
		                 "is refused: in the profile restricted no container is root; use "
		                 "an image whose programs need another user, or ask the "
		                 "administrator for the profile plain");
	else if (!amounts && !c->quiet && !raw_is_same(NULL, &m->value))
		parse_warn_key(c->r, map, m, "is left out: pods of tasks do not have it");
}

/* Copies a member; false: it is not kept. */
static bool raw_member_copy(struct raw_copy *c, const struct raw_row *row, const struct field *map,
                            uint32_t i, struct node *out)
{
	const struct member *m = &map->n->member[i];
	struct field f = field_member(map, i);
	struct raw_copy below = { c->r, c->quiet || row->verdict != RAW_KEEP };
	if (m->value.type == NODE_NULL)
		return false;
	if (row->verdict == RAW_KEEP || row->of)
		raw_value(&below, row->of, &f, out);
	if (row->verdict == RAW_KEEP)
		return (row->of != LABELS && row->of != VALUE_FROM) || out->n;
	if (raw_is_same(row, &m->value))
		return false;
	if (row->verdict == RAW_REFUSE)
		parse_refuse_key(c->r, map, m, "is refused: %s", row->why);
	else if (!c->quiet)
		parse_warn_key(c->r, map, m, "is left out: %s", row->why);
	return false;
}

/* Names of labels and annotations by which others know pods. */
static bool raw_key_taken(struct span key)
{
	static const char *const TAKEN[] = { "FC_*",
		                             "rest-lit/*",
		                             "rest-server/*",
		                             "hivedscheduler.microsoft.com/*",
		                             "frameworkcontroller.microsoft.com/*",
		                             "userName",
		                             "virtualCluster",
		                             "type",
		                             "jobName",
		                             "logPathInfix",
		                             "totalGpuNumber",
		                             "config",
		                             NULL };
	return parse_listed(TAKEN, key) || span_find(key, 0, "kubernetes.io/") != SIZE_MAX ||
	       span_find(key, 0, "k8s.io/") != SIZE_MAX;
}

static const struct raw_row *raw_row_find(const char *in, struct span name)
{
	for (size_t i = 0; i < N_ROWS; i++) {
		struct span rest = span_of(ROWS[i].members);
		while (rest.n && strcmp(ROWS[i].in, in) == 0)
			if (span_eq(span_next(&rest, '|'), name))
				return &ROWS[i];
	}
	return NULL;
}

/*
 * Copies the members that the table keeps, with the places of the original; null is left out, and
 * the items of a list keep their index.  Their values can have any type: schema/pod.schema.json
 * checks them afterwards.  Devices are left out without a warning.
 */
static void raw_value(struct raw_copy *c, const char *of, const struct field *f, struct node *out)
{
	static const struct raw_row LEAF = { .verdict = RAW_KEEP };
	bool leaf = of == NULL || of == WORDS || of == LABELS;
	*out = *f->n;
	if (f->n->type == NODE_MAP) {
		struct member *v = ARENA_NEW(c->r->a, struct member, f->n->n + 1);
		out->n = 0;
		out->member = v;
		for (uint32_t i = 0; i < f->n->n; i++) {
			const struct member *m = &f->n->member[i];
			const struct raw_row *row = leaf ? &LEAF : raw_row_find(of, member_key(m));
			v[out->n] = *m;
			if (of == LABELS && raw_key_taken(member_key(m)))
				parse_warn_key(
				    c->r, f, m,
				    "is left out: names of this form belong to the cluster");
			else if (row)
				out->n += raw_member_copy(c, row, f, i, &v[out->n].value);
			else
				raw_unknown(c, of, f, m);
		}
	} else if (f->n->type == NODE_LIST) {
		struct node *v = ARENA_NEW(c->r->a, struct node, f->n->n + 1);
		out->item = v;
		for (uint32_t i = 0; i < f->n->n; i++) {
			struct field one = field_item(f, i);
			raw_value(c, of, &one, &v[i]);
		}
	} else if (f->n->type == NODE_TEXT || f->n->type == NODE_DATE) {
		out->type = NODE_TEXT;
		if (span_find(node_span(f->n), 0, "{{FC_") == SIZE_MAX || c->quiet)
			return;
		if (of == WORDS)
			parse_warn(c->r, f, WARN_FC);
		else
			parse_refuse(c->r, f,
			             "must not contain {{FC_...}}, which the FrameworkController "
			             "replaces");
	}
}

/* ---- what is ours ---- */

enum { MIB = 1 << 20, RAW_ENV_MAX = 64 << 20 /* of text in JSON; the document is smaller */ };

/* The members that init containers of the user get: the security context of plain/taskrole.yaml,
 * with that of restricted.yaml, and no devices, which some images would have otherwise. */
#define INIT_OURS                                                                                  \
	"{\"securityContext\":{\"allowPrivilegeEscalation\":false,\"capabilities\":"               \
	"{\"drop\":[\"NET_RAW\",\"MKNOD\",\"AUDIT_WRITE\",\"SYS_CHROOT\"%s]}},\"env\":["
#define INIT_ENV "{\"name\":\"NVIDIA_VISIBLE_DEVICES\",\"value\":\"none\"}]}"

/* A map without some members (a list that ends with NULL), and with those of a constant. */
static struct node raw_changed(struct parse_context *r, const struct node *map,
                               const char *const *without, const char *constant)
{
	const struct node *ours = doc_quiet(span_of(constant), &BUDGET_OWN, r->a);
	struct member *v = ARENA_NEW(r->a, struct member, map->n + ours->n);
	struct node out = *map;
	out.n = 0;
	out.member = v;
	for (uint32_t i = 0; i < ours->n; i++)
		v[out.n++] = ours->member[i];
	for (uint32_t i = 0; i < map->n; i++)
		if (!names_listed(without, member_key(&map->member[i])))
			v[out.n++] = map->member[i];
	return out;
}

/* Refuses a text that has a problem. */
static void raw_check(struct parse_context *r, const struct field *map, const char *key,
                      const char *(*problem_of)(struct span text))
{
	struct field f = field_get(map, key);
	const char *problem = f.n ? problem_of(node_span(f.n)) : NULL;
	if (problem)
		parse_refuse(r, &f, "%s", problem);
}

/* ---- containers ---- */

/* The amount of a resource in units, rounded up: of limits, else of requests, else 0. */
static int64_t raw_resource(struct parse_context *r, const struct field *container,
                            const char *name, int64_t unit)
{
	struct field resources = field_get(container, "resources");
	struct field limits = field_get(&resources, "limits");
	struct field requests = field_get(&resources, "requests");
	struct field amount = field_get(node_get(limits.n, name) ? &limits : &requests, name);
	STR_AUTO text = STR_INIT(64);
	if (node_is(amount.n, NODE_TEXT))
		str_span(&text, node_span(amount.n));
	else if (amount.n)
		node_json(&text, amount.n);
	int64_t milli = amount.n ? quantity_milli(str_view(&text)) : 0;
	int64_t units = milli / 1000 / unit + (milli % (1000 * unit) > 0);
	bool device = strchr(name, '/') != NULL;
	if (milli >= 0 && units <= INT32_MAX && !(device && milli % 1000))
		return units;
	parse_refuse(r, &amount,
	             device ? "must be an integer, at most 2147483647"
	                    : "is too large, or not an amount such as 2, 100m or 8Gi");
	return 0;
}

/* The number of devices, which only the document has. */
static int64_t raw_devices(struct parse_context *r, const struct field *container)
{
	int64_t devices = raw_resource(r, container, r->set->device, 1);
	return devices ? devices : raw_resource(r, container, RAW_OLD_DEVICE, 1);
}

static void raw_container_check(struct parse_context *r, const struct field *container,
                                const struct field *volumes)
{
	struct field env = field_get(container, "env");
	struct field mounts = field_get(container, "volumeMounts");
	raw_check(r, container, "image", image_problem);
	raw_check(r, container, "workingDir", names_path_problem);
	for (uint32_t i = 0; i < field_items(&env); i++) {
		struct field variable = field_item(&env, i);
		struct field name = field_get(&variable, "name");
		if (parse_env_reserved(r->set, field_text(&name)))
			parse_refuse(r, &name, "is reserved and cannot be set");
	}
	for (uint32_t i = 0; i < field_items(&mounts); i++) {
		struct field mount = field_item(&mounts, i);
		struct field name = field_get(&mount, "name");
		bool found = false;
		raw_check(r, &mount, "mountPath", names_mount_path_problem);
		for (uint32_t k = 0; k < field_items(volumes) && !found; k++)
			found = node_equal(node_get(&volumes->n->item[k], "name"), name.n);
		if (!found)
			parse_refuse(r, &name, "the pod has no volume of this name");
	}
}

/* Returns the list of init containers: `init`, then those of the user. */
static struct node raw_inits(struct parse_context *r, const struct node *source,
                             const struct field *spec)
{
	static const char *const REPLACED[] = { "env", NULL };
	struct field list = field_get(spec, "initContainers");
	struct field volumes = field_get(spec, "volumes");
	struct node *v = ARENA_NEW(r->a, struct node, field_items(&list) + 1);
	struct node out = { .type = NODE_LIST, .n = field_items(&list) + 1, .item = v };
	v[0] = *doc_quiet(SPAN("{\"name\":\"init\"}"), &BUDGET_OWN, r->a);
	for (uint32_t i = 0; i < field_items(&list); i++) {
		struct field init = field_item(&list, i);
		struct field before = init; /* with its devices */
		struct field env = field_get(&init, "env");
		STR_AUTO ours = STR_INIT(RAW_ENV_MAX);
		raw_container_check(r, &init, &volumes);
		before.n = &node_get(source, "initContainers")->item[i];
		if (raw_devices(r, &before))
			parse_refuse(r, &init, "only the container of the task has devices");
		str_printf(&ours, INIT_OURS,
		           r->set->profile == PROFILE_RESTRICTED ? ",\"ALL\"" : "");
		for (uint32_t k = 0; k < field_items(&env); k++) {
			node_json(&ours, &env.n->item[k]);
			str_char(&ours, ',');
		}
		str_puts(&ours, INIT_ENV);
		v[i + 1] = raw_changed(r, init.n, REPLACED, str_c(&ours));
	}
	return out;
}

/* ---- volumes ---- */

static bool raw_is_written(const struct field *spec, const char *list, const struct node *volume)
{
	struct field containers = field_get(spec, list);
	for (uint32_t i = 0; i < field_items(&containers); i++) {
		struct field one = field_item(&containers, i);
		struct field mounts = field_get(&one, "volumeMounts");
		for (uint32_t k = 0; k < field_items(&mounts); k++) {
			const struct node *mount = &mounts.n->item[k];
			if (node_equal(node_get(mount, "name"), volume) &&
			    !parse_is_true(mount, "readOnly"))
				return true;
		}
	}
	return false;
}

/* Reads the part of a volume that needs a grant; false: it needs none. */
static bool raw_volume_read(struct parse_context *r, const struct field *spec,
                            const struct field *volume, struct raw_volume *out)
{
	bool named = span_is(member_key(&volume->n->member[0]), "name");
	struct field kind = field_member(volume, named);
	const struct node *name = node_get(volume->n, "name");
	const struct node *claim = node_get(kind.n, "claimName");
	const struct node *path = node_get(kind.n, "path");
	raw_check(r, &kind, "path", names_path_problem);
	*out = (struct raw_volume){
		.claim = claim,
		.read_only = parse_is_true(kind.n, "readOnly") ||
		             (!raw_is_written(spec, "containers", name) &&
		              !raw_is_written(spec, "initContainers", name)),
		.source = claim ? node_span(claim)
		                : names_directory(r->a, node_get(kind.n, "server"), path),
		.where = field_place(r->a, &kind),
	};
	return claim || path;
}

enum raw_grant raw_volume_grant(const struct raw_volume *v, const struct facts *f)
{
	enum raw_grant best = RAW_NOT_GRANTED;
	for (size_t i = 0; v->claim && i < f->n_storages; i++)
		if (span_eq(f->storages[i].name, v->source))
			return !f->storages[i].share      ? RAW_PRIVATE
			       : f->storages[i].read_only ? RAW_READ_ONLY
			                                  : RAW_GRANTED;
	for (size_t i = 0; !v->claim && i < f->n_directories && best != RAW_GRANTED; i++) {
		struct span dir = f->directories[i].source;
		if (names_path_within(v->source, dir))
			best = f->directories[i].read_only ? RAW_READ_ONLY : RAW_GRANTED;
	}
	return best;
}

/* ---- the pod ---- */

static void raw_put(struct node *map, struct member *v, const char *key, const struct node *value)
{
	if (!value || value->n == 0)
		return;
	v[map->n] = (struct member){ .key = key, .key_n = (uint32_t)strlen(key), .value = *value };
	map->type = NODE_MAP;
	map->member = v;
	map->n++;
}

bool raw_key_allowed(struct span name, const struct facts *f)
{
	bool allowed = memchr(name.p, '/', name.n) == NULL;
	for (uint32_t i = 0; !allowed && f->pod_names && i < f->pod_names->n; i++) {
		const char *const one[] = { f->pod_names->item[i].text, NULL };
		allowed = parse_listed(one, name);
	}
	return allowed;
}

static void raw_keys_read(struct parse_context *r, const struct field *metadata,
                          struct raw_pod *pod)
{
	const struct field maps[] = { field_get(metadata, "labels"),
		                      field_get(metadata, "annotations") };
	struct raw_key *v =
	    ARENA_NEW(r->a, struct raw_key, field_members(&maps[0]) + field_members(&maps[1]) + 1);
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++) {
		for (uint32_t k = 0; k < field_members(&maps[i]); k++) {
			const struct member *m = &maps[i].n->member[k];
			if (!raw_key_allowed(member_key(m), &(struct facts){ 0 }))
				v[pod->n_keys++] =
				    (struct raw_key){ member_key(m),
					              path_place_key(r->a, &maps[i].path, m) };
		}
	}
	pod->keys = v;
}

void raw_keys_warn(const struct job *job, const struct facts *f, struct notes *warnings)
{
	for (size_t i = 0; i < job->n_roles; i++)
		for (size_t k = 0; job->roles[i].pod && k < job->roles[i].pod->n_keys; k++) {
			const struct raw_key *key = &job->roles[i].pod->keys[k];
			if (!raw_key_allowed(key->name, f))
				notes_add(warnings, key->where,
				          "is left out: of names with a domain, only those are "
				          "kept that `podMetadata` in the file of --facts lists");
		}
}

/* copy: of the PodTemplateSpec; source: its spec as it was. */
static const struct raw_pod *raw_pod_new(struct parse_context *r, const struct node *source,
                                         const struct field *copy)
{
	static const char *const IN_ROLE[] = { "name", "image", "command", "args", NULL };
	struct field spec = field_get(copy, "spec");
	struct field metadata = field_get(copy, "metadata");
	struct field volumes = field_get(&spec, "volumes");
	struct raw_pod *pod = ARENA_NEW(r->a, struct raw_pod, 1);
	struct node *tree = ARENA_NEW(r->a, struct node, 2);
	struct member *v = ARENA_NEW(r->a, struct member, 2 + 3);
	struct raw_volume *granted = ARENA_NEW(r->a, struct raw_volume, field_items(&volumes) + 1);
	struct node out = { 0 };
	struct node containers = { .type = NODE_LIST, .n = 1, .item = &tree[1] };
	struct node made = raw_inits(r, source, &spec);
	for (uint32_t i = 0; i < field_items(&volumes); i++) {
		struct field one = field_item(&volumes, i);
		if (one.n->n == 2)
			pod->n_volumes += raw_volume_read(r, &spec, &one, &granted[pod->n_volumes]);
		else if (r->e->http == 0)
			parse_refuse(r, &one,
			             "must have one of emptyDir, persistentVolumeClaim, nfs and "
			             "hostPath");
	}
	pod->volumes = granted;
	raw_keys_read(r, &metadata, pod);
	tree[1] =
	    raw_changed(r, node_get(spec.n, "containers")->item, IN_ROLE, "{\"name\":\"app\"}");
	raw_put(&out, v + 2, "containers", &containers);
	if (made.n > 1)
		raw_put(&out, v + 2, "initContainers", &made);
	raw_put(&out, v + 2, "volumes", volumes.n);
	raw_put(tree, v, "metadata", metadata.n);
	raw_put(tree, v, "spec", &out);
	pod->tree = tree;
	return pod;
}

/* A task has one container, which has a command. */
static void raw_task_check(struct parse_context *r, const struct field *list, struct span wanted)
{
	struct field one = field_item(list, 0);
	struct field name = field_get(&one, "name");
	const struct node *command = node_get(one.n, "command");
	if (list->n->n > 1) {
		struct field more = field_item(list, 1);
		parse_refuse(r, &more,
		             "is refused: a task is one container, and ends with its command");
	}
	if (wanted.n && !span_eq(field_text(&name), wanted))
		parse_refuse(r, &name, "must be %.*s", (int)wanted.n, wanted.p);
	if (!command || command->n == 0)
		parse_refuse(r, &one,
		             "`command` is missing: what the image itself would run is not known "
		             "here, so write it");
}

void raw_pod_copy(struct parse_context *r, const struct raw_source *source, struct role *role,
                  struct raw_found *out)
{
	/* The pod, its spec, the containers, the first of them. */
	struct field *f = ARENA_NEW(r->a, struct field, 4);
	struct node *copy = ARENA_NEW(r->a, struct node, 1);
	struct field before; /* the container with its devices */
	*out = (struct raw_found){ 0 };
	if (!source->template.n)
		return;
	raw_value(&(struct raw_copy){ .r = r }, "pod", &source->template, copy);
	f[0] = source->template;
	f[0].n = copy;
	if (schema_check_at(schema_get(SCHEMA_POD), copy, field_path(&f[0]), r->code, r->e))
		return;
	f[1] = field_get(&f[0], "spec");
	f[2] = field_get(&f[1], "containers");
	assert(f[2].n); /* by the schema */
	f[3] = field_item(&f[2], 0);
	before = f[3];
	const struct node *spec = node_get(source->template.n, "spec");
	before.n = node_get(spec, "containers")->item;
	const struct node *app = f[3].n;
	const struct node *command = node_get(app, "command");
	struct field volumes = field_get(&f[1], "volumes");
	raw_task_check(r, &f[2], source->main);
	raw_container_check(r, &f[3], &volumes);
	role->image = node_span(node_get(app, "image"));
	role->cpu = raw_resource(r, &f[3], "cpu", 1);
	role->memory_mb = raw_resource(r, &f[3], "memory", MIB);
	role->gpu = raw_devices(r, &before);
	role->pod = raw_pod_new(r, spec, &f[0]);
	out->main = &f[3];
	out->command = command && command->n ? command : NULL;
	out->args = node_get(app, "args");
	out->env = node_get(app, "env");
	out->restart_policy = parse_text(f[1].n, "restartPolicy");
	out->host_network = parse_is_true(f[1].n, "hostNetwork");
}
