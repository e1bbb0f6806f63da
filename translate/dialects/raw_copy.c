#include "base/err.h"
#include "translate/dialects/raw_internal.h"
#include "translate/dialects/warnings.h"
#include "translate/names.h"

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
	 * them.  What is refused in a value that is left out is refused nevertheless. */
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

/* Whether leaving the value out changes nothing. */
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
		parse_warn_key(c->r, map, m, WARN_POD_DEVICE, c->r->set->device);
	else if (amounts && !span_is(key, c->r->set->device))
		parse_refuse_key(c->r, map, m,
		                 "is refused: tasks have cpu, memory, ephemeral-storage and %s",
		                 c->r->set->device);
	else if (!amounts && !c->quiet && !raw_is_same(NULL, &m->value))
		parse_warn_key(c->r, map, m, WARN_POD_UNKNOWN);
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
		parse_warn_key(c->r, map, m, WARN_POD_DROPPED, row->why);
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
				parse_warn_key(c->r, f, m, WARN_POD_KEY);
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

struct node raw_template_copy(struct parse_context *r, const struct field *template)
{
	struct raw_copy c = { .r = r };
	struct node out;
	raw_value(&c, "pod", template, &out);
	return out;
}
