#include "base/err.h"
#include "translate/dialects/raw_internal.h"
#include "translate/dialects/warnings.h"
#include "translate/names.h"

enum { LABELS_MAX = 128 << 10 };

#define FC_REFUSED "must not contain {{FC_...}}, which the FrameworkController replaces"

/* ---- the table ---- */

enum raw_object {
	RAW_LEAF,  /* text, a number, or a list or map of them: kept as it is */
	RAW_WORDS, /* the same; FrameworkController may replace {{FC_...}} */
	RAW_LABELS,
	RAW_TEMPLATE,
	RAW_METADATA,
	RAW_SPEC,
	RAW_CONTAINER,
	RAW_PORT,
	RAW_ENV,
	RAW_VALUE_FROM,
	RAW_FIELD,
	RAW_RESOURCE_FIELD,
	RAW_RESOURCES,
	RAW_MOUNT,
	RAW_VOLUME,
	RAW_EMPTY_DIR,
	RAW_CLAIM,
	RAW_NFS,
	RAW_HOST_PATH,
	RAW_SECURITY,
	RAW_CAPABILITIES,
	RAW_OBJECT_MAX
};

/* Values that are null or empty, `same`, or false if they would be refused, are left out without a
 * warning: they change nothing. */
enum raw_verdict { RAW_KEEP, RAW_DROP, RAW_REFUSE };

struct raw_row {
	enum raw_object in;
	const char *members; /* A|B|C */
	enum raw_verdict verdict;
	const char *why;    /* behind "is left out: " or "is refused: " */
	enum raw_object of; /* RAW_DROP: what is refused there is refused nevertheless */
	const char *same;
};

static const char *const OBJECTS[RAW_OBJECT_MAX] = {
	[RAW_TEMPLATE] = "pod",
	[RAW_METADATA] = "metadata",
	[RAW_SPEC] = "spec",
	[RAW_CONTAINER] = "container",
	[RAW_PORT] = "ports",
	[RAW_ENV] = "env",
	[RAW_VALUE_FROM] = "env.valueFrom",
	[RAW_FIELD] = "fieldRef",
	[RAW_RESOURCE_FIELD] = "resourceFieldRef",
	[RAW_RESOURCES] = "resources",
	[RAW_MOUNT] = "volumeMounts",
	[RAW_VOLUME] = "volumes",
	[RAW_EMPTY_DIR] = "emptyDir",
	[RAW_CLAIM] = "persistentVolumeClaim",
	[RAW_NFS] = "nfs",
	[RAW_HOST_PATH] = "hostPath",
	[RAW_SECURITY] = "securityContext (left out)",
	[RAW_CAPABILITIES] = "capabilities (left out)",
};

#define NODE      "this installation chooses the node"
#define NETWORK   "names and addresses are those of the cluster; PAI_* has them"
#define OWNER     "pods belong to their Framework alone"
#define ISOLATION "tasks are isolated from the node and from other pods"
#define SECURITY  "security contexts are those of this installation"
#define SECRETS   "Secrets and ConfigMaps cannot be named, since others may own them"
#define DEVICES   "devices are requested as a number, in limits"

/* clang-format off */
#define KEEP(in, members, of)         { RAW_##in, members, RAW_KEEP, NULL, RAW_##of, NULL }
#define DROP(in, members, why, same)  { RAW_##in, members, RAW_DROP, why, RAW_LEAF, same }
#define DROP_OF(in, members, of, why) { RAW_##in, members, RAW_DROP, why, RAW_##of, NULL }
#define REFUSE(in, members, why)      { RAW_##in, members, RAW_REFUSE, why, RAW_LEAF, NULL }
static const struct raw_row ROWS[] = {
	KEEP(TEMPLATE, "metadata", METADATA),
	KEEP(TEMPLATE, "spec", SPEC),
	KEEP(METADATA, "labels|annotations", LABELS),
	REFUSE(METADATA, "finalizers|ownerReferences", OWNER),
	DROP(METADATA, "name|generateName|namespace", "FrameworkController names pods", NULL),

	KEEP(SPEC, "containers|initContainers", CONTAINER),
	KEEP(SPEC, "volumes", VOLUME),
	KEEP(SPEC, "restartPolicy|hostNetwork", LEAF),
	DROP(SPEC, "serviceAccountName|serviceAccount|automountServiceAccountToken", "pods have the account of this installation", NULL),
	DROP(SPEC, "priorityClassName|priority|preemptionPolicy", "the priority is that of the job", NULL),
	DROP(SPEC, "schedulerName", NODE, "default-scheduler"),
	DROP(SPEC, "nodeName|nodeSelector|affinity|tolerations|topologySpreadConstraints|runtimeClassName", NODE, NULL),
	DROP_OF(SPEC, "securityContext", SECURITY, SECURITY),
	DROP(SPEC, "hostUsers", SECURITY, NULL),
	DROP(SPEC, "dnsPolicy", NETWORK, "ClusterFirst"),
	DROP(SPEC, "dnsConfig|hostname|subdomain|setHostnameAsFQDN|enableServiceLinks", NETWORK, NULL),
	DROP(SPEC, "terminationGracePeriodSeconds", "the time to end is that of this installation", NULL),
	DROP(SPEC, "activeDeadlineSeconds", "tasks have no deadline; `timeout` in the command has the same effect", NULL),
	REFUSE(SPEC, "hostPID|hostIPC|shareProcessNamespace|ephemeralContainers", ISOLATION),
	REFUSE(SPEC, "hostAliases", NETWORK),
	REFUSE(SPEC, "imagePullSecrets", "Secrets cannot be named, since others may own them; a v2 job has prerequisites[].auth"),
	REFUSE(SPEC, "resources|resourceClaims", DEVICES " of a container"),

	KEEP(CONTAINER, "name|image|workingDir", LEAF),
	KEEP(CONTAINER, "command|args", WORDS),
	KEEP(CONTAINER, "env", ENV),
	KEEP(CONTAINER, "ports", PORT),
	KEEP(CONTAINER, "resources", RESOURCES),
	KEEP(CONTAINER, "volumeMounts", MOUNT),
	DROP(CONTAINER, "imagePullPolicy", "images are always pulled", "Always"),
	DROP_OF(CONTAINER, "securityContext", SECURITY, SECURITY),
	DROP(CONTAINER, "livenessProbe|readinessProbe|startupProbe", "a task lives as long as its command", NULL),
	DROP(CONTAINER, "stdin|stdinOnce|tty", "nobody is connected to a task", NULL),
	DROP(CONTAINER, "terminationMessagePath", "pai-runtime writes the message", "/dev/termination-log"),
	DROP(CONTAINER, "terminationMessagePolicy", "pai-runtime writes the message", "File"),
	REFUSE(CONTAINER, "envFrom", SECRETS),
	REFUSE(CONTAINER, "volumeDevices", ISOLATION),
	REFUSE(CONTAINER, "lifecycle", "its commands would not run; make them part of `command`"),
	REFUSE(CONTAINER, "restartPolicy", "a container is never started again in its pod"),

	KEEP(PORT, "name|containerPort|protocol", LEAF),
	DROP(PORT, "hostPort|hostIP", "ports of the node are given by this installation; PAI_PORT_LIST_* has them", NULL),
	KEEP(ENV, "name", LEAF),
	KEEP(ENV, "value", WORDS),
	KEEP(ENV, "valueFrom", VALUE_FROM),
	KEEP(VALUE_FROM, "fieldRef", FIELD),
	KEEP(VALUE_FROM, "resourceFieldRef", RESOURCE_FIELD),
	REFUSE(VALUE_FROM, "secretKeyRef|configMapKeyRef|fileKeyRef", SECRETS),
	KEEP(FIELD, "fieldPath|apiVersion", LEAF),
	KEEP(RESOURCE_FIELD, "resource|divisor", LEAF),
	REFUSE(RESOURCE_FIELD, "containerName", "a container reads its own resources only"),
	KEEP(RESOURCES, "limits|requests", LEAF),
	REFUSE(RESOURCES, "claims", DEVICES),
	KEEP(MOUNT, "name|mountPath|readOnly|subPath|mountPropagation", LEAF),
	DROP(MOUNT, "recursiveReadOnly", "readOnly holds for the volume itself", "Disabled"),
	REFUSE(MOUNT, "subPathExpr", "write `subPath`, without variables"),

	KEEP(VOLUME, "name", LEAF),
	KEEP(VOLUME, "emptyDir", EMPTY_DIR),
	KEEP(VOLUME, "persistentVolumeClaim", CLAIM),
	KEEP(VOLUME, "nfs", NFS),
	KEEP(VOLUME, "hostPath", HOST_PATH),
	REFUSE(VOLUME, "secret|configMap|projected", SECRETS),
	REFUSE(VOLUME, "csi|flexVolume", "drivers of volumes run as root on the node"),
	KEEP(EMPTY_DIR, "medium|sizeLimit", LEAF),
	KEEP(CLAIM, "claimName|readOnly", LEAF),
	KEEP(NFS, "server|path|readOnly", LEAF),
	KEEP(HOST_PATH, "path|type", LEAF),
	REFUSE(SECURITY, "privileged", ISOLATION),
	DROP_OF(SECURITY, "capabilities", CAPABILITIES, SECURITY),
	REFUSE(CAPABILITIES, "add", ISOLATION),
};
/* clang-format on */

void pods_page(struct str *out)
{
	str_puts(out, "| in | kept | left out | refused |\n|---|---|---|---|\n");
	for (enum raw_object in = RAW_TEMPLATE; in < RAW_OBJECT_MAX; in++) {
		str_printf(out, "| %s", OBJECTS[in]);
		for (enum raw_verdict verdict = RAW_KEEP; verdict <= RAW_REFUSE; verdict++) {
			str_puts(out, " |");
			for (size_t i = 0; i < sizeof(ROWS) / sizeof(*ROWS); i++) {
				struct span rest = span_of(ROWS[i].members);
				while (ROWS[i].in == in && ROWS[i].verdict == verdict && rest.n) {
					struct span one = span_next(&rest, '|');
					str_printf(out, " `%.*s`", (int)one.n, one.p);
				}
			}
		}
		str_puts(out, " |\n");
	}
}

static const struct raw_row *raw_row_find(enum raw_object in, struct span name)
{
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(*ROWS); i++)
		for (struct span rest = span_of(ROWS[i].members); ROWS[i].in == in && rest.n;)
			if (span_eq(span_next(&rest, '|'), name))
				return &ROWS[i];
	return NULL;
}

/* ---- labels and annotations ---- */

static bool raw_key_taken(struct span key)
{
	static const char *const BARE[] = { "userName",     "virtualCluster", "type",   "jobName",
		                            "logPathInfix", "totalGpuNumber", "config", NULL };
	static const char *const DOMAINS[] = { "hivedscheduler.microsoft.com", "rest-server",
		                               "rest-lit", "frameworkcontroller.microsoft.com",
		                               NULL };
	static const char *const ENDS[] = { "kubernetes.io", "k8s.io", NULL };
	struct span domain = span_to(key, span_chr(key, '/'));
	if (domain.n == key.n)
		return span_starts(key, "FC_") || names_listed(BARE, key);
	for (const char *const *end = ENDS; *end; end++) {
		size_t n = strlen(*end);
		if (domain.n >= n && span_is(span_from(domain, domain.n - n), *end))
			return true;
	}
	return names_listed(DOMAINS, domain);
}

/* [DOMAIN/]NAME */
static bool raw_key_ok(struct span key)
{
	size_t slash = span_chr(key, '/');
	if (slash == key.n)
		return names_label_value_ok(key);
	return names_storage_ok(span_to(key, slash)) &&
	       names_label_value_ok(span_from(key, slash + 1));
}

static bool raw_label(struct parse_context *r, const struct path *p, const struct member *m)
{
	struct path at = PATH_KEY(p, member_key(m));
	const struct node *n = &m->value;
	bool text = n->type == NODE_TEXT || n->type == NODE_DATE;
	if (raw_key_taken(member_key(m)))
		parse_warn_key(r, p, m, WARN_POD_KEY);
	else if (!raw_key_ok(member_key(m)))
		parse_refuse_key(r, p, m, "is not a name of a label or annotation");
	else if (!text)
		parse_wrong_type(r, &at, n, "text");
	else if (span_is(p->key, "labels") && n->n && !names_label_value_ok(node_span(n)))
		parse_refuse(r, &at, n,
		             "must have letters, digits, _, . and -, a letter or digit at both "
		             "ends, at most 63");
	else if (span_find(node_span(n), 0, "{{FC_") != SIZE_MAX)
		parse_refuse(r, &at, n, FC_REFUSED);
	else
		return true;
	return false;
}

const struct node *raw_labels_copy(struct parse_context *r, const struct path *p,
                                   const struct node *map)
{
	size_t size = 0;
	if (!present(map))
		return NULL;
	if (map->type != NODE_MAP) {
		parse_wrong_type(r, p, map, "a mapping");
		return NULL;
	}
	struct member *v = ARENA_NEW(r->a, struct member, map->n + 1);
	struct node *out = ARENA_NEW(r->a, struct node, 1);
	*out = *map;
	out->n = 0;
	out->member = v;
	for (uint32_t i = 0; i < map->n; i++) {
		if (map->member[i].value.type == NODE_NULL || !raw_label(r, p, &map->member[i]))
			continue;
		v[out->n++] = map->member[i];
		size += (size_t)map->member[i].key_n + map->member[i].value.n;
	}
	if (size > LABELS_MAX)
		parse_refuse(r, p, map, "is larger than %d bytes", LABELS_MAX);
	return out->n ? out : NULL;
}

/* ---- the copy ---- */

struct raw_copy {
	struct parse_context *r;
	bool quiet; /* below a member that is left out: no warnings */
};

static bool raw_value(struct raw_copy *c, enum raw_object of, const struct path *p,
                      const struct node *n, struct node *out);

/* Whether leaving the value out changes nothing. */
static bool raw_is_same(const struct raw_row *row, const struct node *n)
{
	if (n->type == NODE_BOOL)
		return row && row->verdict == RAW_REFUSE && !n->boolean;
	if (n->type == NODE_TEXT)
		return n->n == 0 || (row && row->same && span_is(node_span(n), row->same));
	return n->type == NODE_NULL || ((n->type == NODE_LIST || n->type == NODE_MAP) && n->n == 0);
}

/* "; did you mean ...?"; not for messages beyond the limit. */
static const char *raw_hint(struct parse_context *r, enum raw_object in, struct span key)
{
	struct guess near = { .name = key };
	if (r->warnings->n >= NOTES_MAX)
		return "";
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(*ROWS); i++)
		for (struct span rest = span_of(ROWS[i].members); ROWS[i].in == in && rest.n;)
			guess_try(&near, arena_dup(r->a, span_next(&rest, '|')));
	return did_you_mean(r->a, span_of(near.best ? near.best : ""));
}

static void raw_unknown(struct raw_copy *c, enum raw_object in, const struct path *p,
                        const struct member *m)
{
	if (in == RAW_VOLUME)
		parse_refuse_key(c->r, p, m,
		                 "is refused: volumes are of the kinds emptyDir, "
		                 "persistentVolumeClaim, nfs and hostPath%s",
		                 raw_hint(c->r, in, member_key(m)));
	else if (!c->quiet && !raw_is_same(NULL, &m->value))
		parse_warn_key(c->r, p, m, WARN_POD_UNKNOWN, raw_hint(c->r, in, member_key(m)));
}

/* Copies a member; false: it is not kept. */
static bool raw_member_copy(struct raw_copy *c, const struct raw_row *row, const struct path *p,
                            const struct member *m, struct node *out)
{
	struct path at = PATH_KEY(p, member_key(m));
	struct raw_copy below = { c->r, c->quiet || row->verdict != RAW_KEEP };
	if (m->value.type == NODE_NULL)
		return false;
	if (row->verdict == RAW_KEEP || row->of)
		if (!raw_value(&below, row->of, &at, &m->value, out))
			return false;
	if (row->verdict == RAW_KEEP || raw_is_same(row, &m->value))
		return row->verdict == RAW_KEEP;
	if (row->verdict == RAW_REFUSE)
		parse_refuse_key(c->r, p, m, "is refused: %s", row->why);
	else if (!c->quiet)
		parse_warn_key(c->r, p, m, WARN_POD_DROPPED, row->why);
	return false;
}

static void raw_text(struct raw_copy *c, enum raw_object of, const struct path *p,
                     const struct node *n)
{
	if (n->n > RAW_TEXT_MAX)
		parse_refuse(c->r, p, n, "is longer than %d bytes", RAW_TEXT_MAX);
	else if (span_find(node_span(n), 0, "{{FC_") == SIZE_MAX || c->quiet)
		return;
	else if (of == RAW_WORDS)
		parse_warn(c->r, p, n, WARN_FC);
	else
		parse_refuse(c->r, p, n, FC_REFUSED);
}

static void raw_map(struct raw_copy *c, enum raw_object of, const struct path *p,
                    const struct node *map, struct node *out)
{
	static const struct raw_row LEAF = { .verdict = RAW_KEEP };
	struct member *v = ARENA_NEW(c->r->a, struct member, map->n + 1);
	out->n = 0;
	out->member = v;
	for (uint32_t i = 0; i < map->n; i++) {
		const struct member *m = &map->member[i];
		const struct raw_row *row =
		    of < RAW_LABELS ? &LEAF : raw_row_find(of, member_key(m));
		v[out->n] = *m;
		if (row)
			out->n += raw_member_copy(c, row, p, m, &v[out->n].value);
		else
			raw_unknown(c, of, p, m);
	}
}

static bool raw_value(struct raw_copy *c, enum raw_object of, const struct path *p,
                      const struct node *n, struct node *out)
{
	*out = *n;
	if (of == RAW_LABELS) {
		const struct node *labels = raw_labels_copy(c->r, p, n);
		*out = labels ? *labels : *n;
		return labels;
	}
	if (n->type == NODE_MAP) {
		raw_map(c, of, p, n, out);
	} else if (n->type == NODE_LIST) {
		struct node *v = ARENA_NEW(c->r->a, struct node, n->n + 1);
		out->item = v;
		for (uint32_t i = 0; i < n->n; i++) {
			struct path at = PATH_INDEX(p, i);
			(void)raw_value(c, of, &at, &n->item[i], &v[i]); /* false for labels only */
		}
	} else if (n->type == NODE_TEXT || n->type == NODE_DATE) {
		out->type = NODE_TEXT;
		raw_text(c, of, p, n);
	}
	return true;
}

struct node raw_template_copy(struct parse_context *r, const struct path *p,
                              const struct node *template)
{
	struct raw_copy c = { .r = r };
	struct node out;
	(void)raw_value(&c, RAW_TEMPLATE, p, template, &out); /* false for labels only */
	return out;
}
